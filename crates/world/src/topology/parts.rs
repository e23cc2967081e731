//! Maps edges to elements of a buffer, and plans how these are sent and received.
//!
//! Contiguous elements are sent from and received into their place. Scattered elements are packed
//! before they are sent, and received into staging memory and unpacked at the end. So are elements
//! that several edges write to, in the order of edges: the result does not depend on timing.

use std::ops::Range;

use hikyaku_msg::Layout;

use crate::error::Error;

/// The parts of a buffer by edge.
#[derive(Debug, Clone, Copy)]
pub(super) enum EdgeParts<'a> {
    /// Every edge has the whole buffer.
    Whole,
    /// Edge `k` has the `k`-th block of this many elements.
    Even(usize),
    /// Edge `k` has the `k`-th range.
    Ranges(&'a [Range<usize>]),
    /// Edge `k` has the elements of the `k`-th layout.
    Layouts(&'a [Layout]),
}

/// The part of one edge.
#[derive(Debug, Clone)]
enum EdgePart<'a> {
    Together(Range<usize>),
    Scattered(&'a Layout),
}

impl EdgePart<'_> {
    /// From the first element to one past the last.
    fn span(&self) -> Range<usize> {
        match self {
            EdgePart::Together(range) => range.clone(),
            EdgePart::Scattered(layout) => layout.span(),
        }
    }
}

impl<'a> EdgeParts<'a> {
    /// A buffer of `elements` divided among `edges`. Without edges it may hold anything.
    pub(super) fn even(
        elements: usize,
        edges: usize,
        what: &'static str,
    ) -> Result<EdgeParts<'a>, Error> {
        if edges > 0 && !elements.is_multiple_of(edges) {
            return Err(Error::UnevenBlocks { what, elements, edges });
        }
        Ok(EdgeParts::Even(elements.checked_div(edges).unwrap_or(0)))
    }

    /// Checks that there is a part for each edge, within a buffer of `length` elements.
    fn check(&self, what: &'static str, edges: usize, length: usize) -> Result<(), Error> {
        let given = match self {
            EdgeParts::Whole | EdgeParts::Even(_) => return Ok(()),
            EdgeParts::Ranges(ranges) => ranges.len(),
            EdgeParts::Layouts(layouts) => layouts.len(),
        };
        if given != edges {
            return Err(Error::WrongBlocks { what, given, edges });
        }
        match self {
            EdgeParts::Ranges(ranges) => {
                ranges.iter().try_for_each(|range| Layout::from(range.clone()).check(length))?;
            }
            EdgeParts::Layouts(layouts) => {
                layouts.iter().try_for_each(|layout| layout.check(length))?;
            }
            EdgeParts::Whole | EdgeParts::Even(_) => {}
        }
        Ok(())
    }

    /// The part of an edge.
    fn of(&self, edge: usize, length: usize) -> EdgePart<'a> {
        match self {
            EdgeParts::Whole => EdgePart::Together(0..length),
            EdgeParts::Even(block) => EdgePart::Together(edge * block..(edge + 1) * block),
            EdgeParts::Ranges(ranges) => {
                let Range { start, end } = ranges[edge];
                EdgePart::Together(start..end.max(start))
            }
            EdgeParts::Layouts(layouts) => match layouts[edge].as_range() {
                Some(range) => EdgePart::Together(range),
                None => EdgePart::Scattered(&layouts[edge]),
            },
        }
    }
}

/// The transfer of one edge's part.
#[derive(Debug, Clone)]
pub(crate) struct Leg {
    /// Place of the edge among those of its direction.
    pub(crate) edge: usize,
    /// The rank of the world at its other end.
    pub(crate) process: u32,
    /// Its tag.
    pub(crate) tag: i32,
    /// The range of the elements, in the buffer or in staging memory.
    pub(crate) range: Range<usize>,
    /// Whether they are in staging memory.
    pub(crate) aside: bool,
}

/// The plan of one call: its sends, its receives, and the layouts to pack and unpack.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExchangeRoute {
    pub(crate) sends: Vec<Leg>,
    /// Receives into the buffer first, in the order of memory and without overlap; then those into
    /// staging memory.
    pub(crate) receives: Vec<Leg>,
    /// Layouts of the elements to pack, in the order of `sends`.
    pub(crate) pack: Vec<Layout>,
    /// Layouts of the elements to unpack, in the order of `receives`.
    pub(crate) unpack: Vec<Layout>,
}

/// The other end of an edge and the edge's tag; no process beyond a border.
pub(super) type End = (Option<u32>, i32);

impl ExchangeRoute {
    /// Clears the plan and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.sends.clear();
        self.receives.clear();
        self.pack.clear();
        self.unpack.clear();
    }

    /// Adds the sends out of a buffer of `length` elements.
    pub(super) fn send(
        &mut self,
        ends: impl ExactSizeIterator<Item = End>,
        parts: EdgeParts<'_>,
        length: usize,
    ) -> Result<(), Error> {
        parts.check("destinations", ends.len(), length)?;
        let mut beside = 0;
        for (edge, (process, tag)) in ends.enumerate() {
            let Some(process) = process else { continue };
            let leg = match parts.of(edge, length) {
                EdgePart::Together(range) => Leg { edge, process, tag, range, aside: false },
                EdgePart::Scattered(layout) => {
                    let range = beside..beside + layout.len();
                    beside = range.end;
                    self.pack.push(layout.clone());
                    Leg { edge, process, tag, range, aside: true }
                }
            };
            self.sends.push(leg);
        }
        Ok(())
    }

    /// Adds the receives into a buffer of `length` elements.
    pub(super) fn receive(
        &mut self,
        ends: impl ExactSizeIterator<Item = End> + Clone,
        parts: EdgeParts<'_>,
        length: usize,
    ) -> Result<(), Error> {
        parts.check("sources", ends.len(), length)?;
        let mut last = 0;
        let mut in_order = true;
        for (edge, (process, tag)) in ends.enumerate() {
            let Some(process) = process else { continue };
            let part = parts.of(edge, length);
            let aside = matches!(part, EdgePart::Scattered(_));
            let range = part.span();
            in_order &= !aside && (range.is_empty() || range.start >= last);
            last = last.max(range.end);
            self.receives.push(Leg { edge, process, tag, range, aside });
        }
        if !in_order {
            self.put_aside(parts, length);
        }
        Ok(())
    }

    /// Finds the receives that cannot use the buffer and gives them places in staging memory. Until
    /// this call a leg's range is the span of its part.
    fn put_aside(&mut self, parts: EdgeParts<'_>, length: usize) {
        self.receives.sort_by_key(|leg| (leg.range.start, leg.edge));
        let mut furthest: Option<usize> = None;
        for at in 0..self.receives.len() {
            let range = self.receives[at].range.clone();
            if range.is_empty() {
                continue;
            }
            match furthest {
                Some(before) if range.start < self.receives[before].range.end => {
                    self.receives[before].aside = true;
                    self.receives[at].aside = true;
                    if range.end > self.receives[before].range.end {
                        furthest = Some(at);
                    }
                }
                _ => furthest = Some(at),
            }
        }
        // Receives into staging memory are in the order of edges: the last one wins.
        self.receives
            .sort_by_key(|leg| if leg.aside { (true, leg.edge) } else { (false, leg.range.start) });
        let mut beside = 0;
        for leg in self.receives.iter_mut().filter(|leg| leg.aside) {
            let layout = match parts.of(leg.edge, length) {
                EdgePart::Together(range) => Layout::from(range),
                EdgePart::Scattered(layout) => layout.clone(),
            };
            leg.range = beside..beside + layout.len();
            beside = leg.range.end;
            self.unpack.push(layout);
        }
    }

    /// Packs the scattered elements into one vector.
    pub(crate) fn packed<T: Copy>(&self, out: &[T]) -> Result<Vec<T>, Error> {
        let mut packed = Vec::new();
        if let Some(&filler) = out.first() {
            packed.resize(self.pack.iter().map(Layout::len).sum(), filler);
        }
        let legs = self.sends.iter().filter(|leg| leg.aside);
        for (leg, layout) in legs.zip(&self.pack) {
            layout.pack(out, &mut packed[leg.range.clone()])?;
        }
        Ok(packed)
    }

    /// Staging memory for the receives that need it.
    pub(crate) fn staging<T: Copy>(&self, into: &[T]) -> Vec<T> {
        if self.unpack.is_empty() {
            return Vec::new();
        }
        let elements = self.unpack.iter().map(Layout::len).sum();
        into.first().map_or_else(Vec::new, |filler| vec![*filler; elements])
    }

    /// Unpacks the elements in staging memory to their places.
    pub(crate) fn unpack<T: Copy>(&self, staged: &[T], into: &mut [T]) -> Result<(), Error> {
        let legs = self.receives.iter().filter(|leg| leg.aside);
        for (leg, layout) in legs.zip(&self.unpack) {
            layout.unpack(&staged[leg.range.clone()], into)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::slice;

    use proptest::prelude::*;

    use super::*;

    fn ends(count: usize) -> impl ExactSizeIterator<Item = End> + Clone {
        (0..count).map(|edge| (Some(edge as u32), edge as i32))
    }

    fn received(parts: EdgeParts<'_>, edges: usize, length: usize) -> ExchangeRoute {
        let mut route = ExchangeRoute::default();
        route.receive(ends(edges), parts, length).unwrap();
        route
    }

    #[test]
    fn what_lies_in_order_goes_to_its_place() {
        let ranges = [0..2, 2..2, 2..5, 7..9];
        let route = received(EdgeParts::Ranges(&ranges), 4, 9);
        assert!(route.receives.iter().all(|leg| !leg.aside && leg.range == ranges[leg.edge]));
    }

    #[test]
    fn overlapping_parts_go_aside_and_others_do_not() {
        let ranges = [6..8, 0..3, 2..4, 4..6];
        let route = received(EdgeParts::Ranges(&ranges), 4, 9);
        let aside = |edge| route.receives.iter().find(|leg| leg.edge == edge).unwrap().aside;
        assert_eq!([0, 1, 2, 3].map(aside), [false, true, true, false]);
    }

    #[test]
    fn buffers_and_counts_are_checked() {
        let mut route = ExchangeRoute::default();
        let error =
            route.receive(ends(2), EdgeParts::Ranges(slice::from_ref(&(0..1))), 1).unwrap_err();
        assert_eq!(error.to_string(), "1 blocks were given for 2 sources");
        let error =
            route.send(ends(1), EdgeParts::Ranges(slice::from_ref(&(0..3))), 2).unwrap_err();
        assert_eq!(error.to_string(), "a layout reaches to element 3 of a buffer of 2 elements");
        let error = EdgeParts::even(7, 2, "sources").unwrap_err();
        assert!(error.to_string().starts_with("a buffer of 7 elements cannot be divided evenly"));
        assert!(matches!(EdgeParts::even(7, 0, "sources"), Ok(EdgeParts::Even(0))));
        let backwards = Range { start: 5, end: 3 };
        assert!(route.send(ends(1), EdgeParts::Ranges(&[backwards]), 0).is_ok());
    }

    fn layouts() -> impl Strategy<Value = Vec<Layout>> {
        let layout = (0usize..12, 0usize..4, 0usize..4, 0usize..5);
        let layout = layout
            .prop_map(|(start, count, block, stride)| Layout::vector(start, count, block, stride));
        prop::collection::vec(layout, 0..7)
    }

    proptest! {
        /// The result is as if every edge were received and unpacked in turn.
        #[test]
        fn everything_ends_where_its_layout_says(layouts in layouts()) {
            let length = 40;
            let route = received(EdgeParts::Layouts(&layouts), layouts.len(), length);
            let mut expected = vec![0; length];
            for (edge, layout) in layouts.iter().enumerate() {
                let message = (1..=layout.len()).map(|i| 100 * (edge + 1) + i);
                layout.unpack(&message.collect::<Vec<_>>(), &mut expected).unwrap();
            }
            let mut into = vec![0; length];
            let mut staged = route.staging(&into);
            let mut before = 0;
            for leg in &route.receives {
                let place = if leg.aside {
                    &mut staged[leg.range.clone()]
                } else {
                    prop_assert!(leg.range.is_empty() || leg.range.start >= before, "overlap");
                    before = before.max(leg.range.end);
                    &mut into[leg.range.clone()]
                };
                prop_assert_eq!(place.len(), layouts[leg.edge].len());
                place.iter_mut().zip(1..).for_each(|(x, i)| *x = 100 * (leg.edge + 1) + i);
            }
            route.unpack(&staged, &mut into).unwrap();
            prop_assert_eq!(into, expected);
        }
    }
}
