//! Dense collectives as programs of command queues (paper 002, section 4.4.1): up a tree and down
//! again, with one queue per rank.
//!
//! Each rank joins a round when it starts it. Its put to its parent, sent after the puts of all its
//! children have arrived, reports that its whole subtree has started. The root's puts report that
//! all ranks have started, and carry the result. So no memory is written that its owner may still
//! use, and no rank gets more than a round ahead of another, whatever the algorithm's distances.
//! One queue per rank is enough, where recursive doubling needs one for each of its log2 n
//! partners.
//!
//! ```text
//!   queue of a rank with a parent and c children     released by
//!
//!   c - 1   NOP                                      a child's put each (1)
//!   1       put to itself, after the last child      the last child's (1)
//!   c       combine a child's elements               the put to itself (c + 1)
//!   1       put to the parent: releases 1
//!   c       put to a child: releases its children    the parent's put (c)
//! ```
//!
//! A round releases as many slots as it has, and no slot of the next round before all of its own
//! have run or may run: the offset is zero. The root has no put to its parent; its put to itself
//! releases all that follows. A rank without children waits for nothing: its queue is in normal
//! mode.
//!
//! | operation | up | down |
//! |---|---|---|
//! | barrier | nothing | nothing |
//! | broadcast | nothing | the data |
//! | allgather | the blocks of the ranks below | all blocks |
//! | allreduce | the elements of the ranks below, combined | the result |
//!
//! Gathered blocks are kept apart from the result: a child that has the result may start the next
//! round, and its block would arrive in a result that the root is still sending to others. So the
//! root has one more put, which moves all blocks to the place of the result and releases the puts
//! to its children.
//!
//! The tree is binomial, and children are combined from the nearest to the farthest: the same
//! expression that [lines](mod@crate::allreduce) compute, `((0 ∘ 1) ∘ (2 ∘ 3)) ∘ 4`.

use std::ops::Range;

use super::program::{QueueProgram, QueueStep};

/// The payload of puts up the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TreeUpward {
    /// None: the put only reports that the ranks have started.
    Nothing,
    /// Blocks, side by side.
    Blocks,
    /// Elements, to be combined.
    Elements,
}

/// A rank's place in the tree. Ranks are counted cyclically from the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreePlace {
    size: u32,
    root: u32,
    /// Counted from the root.
    place: u32,
}

impl TreePlace {
    /// The place of `rank` of `size` ranks in the tree of `root`. Both ranks exist.
    pub fn new(size: u32, root: u32, rank: u32) -> TreePlace {
        TreePlace { size, root, place: (rank + size - root) % size }
    }

    /// The rank that releases this rank's commands and sends the result. `None`: this is the root.
    pub fn parent(self) -> Option<u32> {
        (self.place != 0).then(|| self.rank_of(self.place & (self.place - 1)))
    }

    /// The children, the nearest first.
    pub fn children(self) -> impl Iterator<Item = u32> {
        let places = (0..self.levels()).map(move |level| self.place + (1 << level));
        places.map(move |place| self.rank_of(place))
    }

    /// The number of children.
    pub fn child_count(self) -> usize {
        self.levels() as usize
    }

    /// The index of this rank among its parent's children.
    pub fn as_child(self) -> usize {
        self.place.trailing_zeros() as usize
    }

    /// The places of this rank's subtree, itself included. Subtrees of children follow each other.
    pub fn below(self) -> Range<u32> {
        let room = if self.place == 0 { self.size } else { 1 << self.place.trailing_zeros() };
        self.place..self.size.min(self.place.saturating_add(room))
    }

    fn levels(self) -> u32 {
        let below = self.below();
        (below.end - below.start).next_power_of_two().trailing_zeros()
    }

    fn rank_of(self, place: u32) -> u32 {
        ((u64::from(place) + u64::from(self.root)) % u64::from(self.size)) as u32
    }

    /// The target of the put upward: the parent, or the root itself where blocks are moved.
    pub fn upward(self, upward: TreeUpward) -> Option<u32> {
        let itself = (upward == TreeUpward::Blocks).then_some(self.root);
        self.parent().or(itself)
    }

    /// The program of the rank's queue. Edges are numbered from the [upward](Self::upward) one, if
    /// there is one, then those to children, the nearest first.
    pub fn program(self, upward: TreeUpward) -> QueueProgram {
        let (children, up) = (self.child_count(), usize::from(self.upward(upward).is_some()));
        let combined = if upward == TreeUpward::Elements { children } else { 0 };
        let mut steps = vec![QueueStep::Nop; children.saturating_sub(1)];
        steps.extend((children > 0).then_some(QueueStep::Own));
        steps.extend((0..combined).map(QueueStep::Combine));
        steps.extend((0..up).map(QueueStep::Data));
        // Children with the largest subtrees first.
        steps.extend((0..children).rev().map(|child| QueueStep::Data(up + child)));
        let down = if up == 0 { children } else { 0 };
        QueueProgram {
            offset: (children > 0).then_some(0),
            ready: 0,
            own: (combined + up + down) as u32,
            cleared: steps.len() as u32,
            steps,
        }
    }

    /// How many slots the put upward releases: one of the parent's queue, or all that the root has
    /// for its children.
    pub fn releases(self) -> u32 {
        if self.place == 0 { self.levels() } else { 1 }
    }

    /// How many slots a parent's put releases in this rank's queue.
    pub fn released(self) -> u32 {
        self.levels()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    /// A queue and its memory in a small asynchronous model; values are expressions.
    struct Queue {
        program: QueueProgram,
        place: TreePlace,
        started: u64,
        run: u64,
        released: u64,
        arrivals: u64,
        value: String,
        stages: Vec<String>,
    }

    enum Put {
        Up { to: u32, child: usize, value: String, release: u32 },
        Down { to: u32, value: String, release: u32 },
    }

    impl Queue {
        fn new(size: u32, root: u32, rank: u32) -> Queue {
            let place = TreePlace::new(size, root, rank);
            let program = place.program(TreeUpward::Elements);
            let released = program.offset.unwrap_or(0).into();
            let stages = vec![String::new(); place.child_count()];
            let (started, run, arrivals, value) = (0, 0, 0, String::new());
            Queue { program, place, started, run, released, arrivals, value, stages }
        }

        fn length(&self) -> u64 {
            self.program.steps.len() as u64
        }

        fn is_done(&self) -> bool {
            let puts = self.place.child_count() + usize::from(self.place.parent().is_some());
            self.run == self.started * self.length() && self.arrivals >= self.started * puts as u64
        }

        fn may_run(&self) -> bool {
            let free = self.program.offset.is_none() || self.run < self.released;
            self.run < self.started * self.length() && free
        }

        /// Runs a command and returns the put that it makes, if any.
        fn run(&mut self) -> Option<Put> {
            let step = self.program.steps[(self.run % self.length()) as usize];
            self.run += 1;
            match step {
                QueueStep::Nop => None,
                QueueStep::Own => {
                    self.released += u64::from(self.program.own);
                    None
                }
                QueueStep::Combine(child) => {
                    let staged = std::mem::take(&mut self.stages[child]);
                    assert!(!staged.is_empty(), "nothing has come from child {child}");
                    self.value = format!("({}{staged})", self.value);
                    None
                }
                QueueStep::Data(0) if self.place.parent().is_some() => {
                    let (to, child) = (self.place.parent().unwrap(), self.place.as_child());
                    let (value, release) = (self.value.clone(), self.place.releases());
                    Some(Put::Up { to, child, value, release })
                }
                QueueStep::Data(edge) => {
                    let child = edge - usize::from(self.place.parent().is_some());
                    let to = self.place.children().nth(child).unwrap();
                    let TreePlace { size, root, .. } = self.place;
                    let release = TreePlace::new(size, root, to).released();
                    Some(Put::Down { to, value: self.value.clone(), release })
                }
                QueueStep::Ready(_) => panic!("there is no such step"),
            }
        }
    }

    /// The expression that a blocking call computes on one node.
    fn expression(values: &[String]) -> String {
        let mut trees: Vec<(usize, String)> = Vec::new();
        let merge = |trees: &mut Vec<(usize, String)>| {
            let (size, right) = trees.pop().unwrap();
            let (more, left) = trees.pop().unwrap();
            trees.push((size + more, format!("({left}{right})")));
        };
        for value in values {
            trees.push((1, value.clone()));
            while trees.len() > 1 && trees[trees.len() - 2].0 == trees[trees.len() - 1].0 {
                merge(&mut trees);
            }
        }
        while trees.len() > 1 {
            merge(&mut trees);
        }
        trees.pop().unwrap().1
    }

    /// Three rounds of ranks that start at any time. Commands and deliveries run in any order,
    /// except that a rank runs its own commands in order. `spoil` changes a program.
    fn rounds(
        (size, root): (u32, u32),
        mut choose: impl FnMut(usize) -> usize,
        spoil: impl Fn(&mut Queue),
    ) -> Result<(), String> {
        let mut queues: Vec<Queue> = (0..size).map(|rank| Queue::new(size, root, rank)).collect();
        queues.iter_mut().for_each(spoil);
        let mut under_way: Vec<Put> = Vec::new();
        let value = |round: u64, rank: u32| format!("[{round}.{rank}]");
        loop {
            let starts = (0..queues.len()).filter(|rank| {
                let queue = &queues[*rank];
                queue.started < 3 && queue.is_done()
            });
            let runs = (0..queues.len()).filter(|rank| queues[*rank].may_run());
            let mut actions: Vec<(u8, usize)> = starts.map(|rank| (0, rank)).collect();
            actions.extend(runs.map(|rank| (1, rank)));
            actions.extend((0..under_way.len()).map(|put| (2, put)));
            if actions.is_empty() {
                break;
            }
            match actions[choose(actions.len())] {
                (0, rank) => {
                    let queue = &mut queues[rank];
                    queue.started += 1;
                    queue.value = value(queue.started, rank as u32);
                }
                (1, rank) => under_way.extend(queues[rank].run()),
                (_, put) => match under_way.swap_remove(put) {
                    Put::Up { to, child, value, release } => {
                        let queue = &mut queues[to as usize];
                        if !queue.stages[child].is_empty() {
                            return Err("an operand was written over".to_owned());
                        }
                        queue.stages[child] = value;
                        queue.arrivals += 1;
                        queue.released += u64::from(release);
                    }
                    Put::Down { to, value: result, release } => {
                        let queue = &mut queues[to as usize];
                        let all: Vec<_> = (0..size)
                            .map(|rank| value(queue.started, (root + rank) % size))
                            .collect();
                        if result != expression(&all) {
                            return Err(format!("{result} at {to}"));
                        }
                        queue.value = result;
                        queue.arrivals += 1;
                        queue.released += u64::from(release);
                    }
                },
            }
        }
        match queues.iter().all(|queue| queue.started == 3 && queue.is_done()) {
            true => Ok(()),
            false => Err("nothing can happen and not everything has".to_owned()),
        }
    }

    proptest! {
        #[test]
        fn tf_11_every_order_of_starts_and_deliveries_ends_with_the_result(
            size in 2u32..20,
            root in 0u32..20,
            choices in prop::collection::vec(any::<prop::sample::Index>(), 64),
        ) {
            let mut at = 0;
            let choose = |count: usize| {
                at += 1;
                (choices[at % choices.len()].index(count) + at / choices.len()) % count
            };
            prop_assert_eq!(rounds((size, root % size), choose, |_| {}), Ok(()));
        }
    }

    #[test]
    fn tf_12_a_release_too_few_or_too_many_is_seen() {
        let spoilt = |spoil: &dyn Fn(&mut Queue)| {
            let wrong = |pick: usize| {
                let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    rounds((6, 0), |count| pick % count, spoil)
                }));
                !matches!(result, Ok(Ok(())))
            };
            (0..7).any(wrong)
        };
        assert!(!spoilt(&|_| {}));
        assert!(spoilt(&|queue| queue.program.own = queue.program.own.saturating_sub(1)));
        assert!(spoilt(&|queue| queue.program.own += 1));
        assert!(spoilt(&|queue| queue.released += 1));
    }

    #[test]
    fn a_tree_has_every_rank_once_and_children_in_order() {
        for size in 1..40 {
            for root in [0, size / 3, size - 1] {
                let places = (0..size).map(|rank| TreePlace::new(size, root, rank));
                let mut children = 0;
                for (rank, place) in (0..).zip(places) {
                    let mut end = place.below().start + 1;
                    for (number, child) in place.children().enumerate() {
                        let child = TreePlace::new(size, root, child);
                        assert_eq!((child.parent(), child.as_child()), (Some(rank), number));
                        assert_eq!(child.below().start, end);
                        end = child.below().end;
                        children += 1;
                    }
                    assert_eq!(place.below().end, end);
                    assert_eq!(place.children().count(), place.child_count());
                }
                assert_eq!(children, size - 1);
                assert_eq!(TreePlace::new(size, root, root).below(), 0..size);
            }
        }
    }

    #[test]
    fn a_round_releases_as_many_slots_as_it_has() {
        for upward in [TreeUpward::Nothing, TreeUpward::Blocks, TreeUpward::Elements] {
            for (size, rank) in (2..30).flat_map(|size| (0..size).map(move |rank| (size, rank))) {
                let place = TreePlace::new(size, 0, rank);
                let QueueProgram { steps, own, offset, .. } = place.program(upward);
                let Some(0) = offset else {
                    assert_eq!((offset, steps.len()), (None, 1), "a leaf");
                    continue;
                };
                let last = match (place.parent(), place.upward(upward)) {
                    (Some(_), _) => place.released(),
                    (None, Some(_)) => place.releases(),
                    (None, None) => 0,
                };
                let released = place.child_count() as u32 + own + last;
                assert_eq!(released, steps.len() as u32, "{upward:?} {rank} of {size}");
            }
        }
    }

    #[test]
    fn a_rank_of_the_largest_job_needs_fewer_slots_than_a_queue_has() {
        let most = TreePlace::new(4096, 0, 0).program(TreeUpward::Elements).steps.len();
        assert_eq!(most, 11 + 1 + 12 + 12);
        assert!(most <= 64);
    }
}
