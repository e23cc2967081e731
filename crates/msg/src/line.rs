//! A queue whose entries are found by their match bits. A short queue is searched from the front; a
//! long one has an index of places.
//!
//! Programs post receives in the order in which messages arrive. So the first entry nearly always
//! matches, and an index would cost more than the search. The queue gets an index when it is so
//! long that a full search would cost each message time in proportion to the number of the others.
//!
//! ```text
//!   entries   [ A | B | - | C | - | D ]      an entry removed from within leaves a hole
//!   index     bits of B, D ──► places 1, 5   in order; places of holes are dropped at the front
//! ```

use std::collections::{HashMap, VecDeque};

/// Number of entries from which there is an index. It exceeds a program's usual window of requests:
/// with 64, each window of 64 made one, and non-blocking messages took 1.6 times as long.
const INDEXED_FROM: usize = 512;

/// An entry: the keys under which it is found. Equal keys count as one.
pub(crate) trait Keyed {
    fn keys(&self) -> [u64; 2];
}

/// A queue with an index.
#[derive(Debug)]
pub(crate) struct MatchQueue<T> {
    /// The entries; without an index there are no holes.
    entries: VecDeque<Option<T>>,
    /// The number of the first entry, counted in pushes since the index was made.
    base: u64,
    /// How many entries are not holes.
    count: usize,
    /// The numbers of each key's entries, in order.
    index: Option<HashMap<u64, VecDeque<u64>>>,
}

impl<T> Default for MatchQueue<T> {
    fn default() -> MatchQueue<T> {
        MatchQueue { entries: VecDeque::new(), base: 0, count: 0, index: None }
    }
}

impl<T: Keyed> MatchQueue<T> {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    #[inline]
    pub(crate) fn front(&self) -> Option<&T> {
        self.entries.front()?.as_ref()
    }

    #[inline]
    pub(crate) fn back_mut(&mut self) -> Option<&mut T> {
        self.entries.back_mut()?.as_mut()
    }

    #[inline]
    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.entries.get(place)?.as_ref()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().flatten()
    }

    /// All entries from the last to the first.
    pub(crate) fn iter_mut_back(&mut self) -> impl Iterator<Item = &mut T> {
        self.entries.iter_mut().rev().flatten()
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, entry: T) {
        // There is an index, or it is time to make one.
        if self.count >= INDEXED_FROM / 2 {
            self.note_next(&entry);
        }
        self.entries.push_back(Some(entry));
        self.count += 1;
    }

    /// Adds an entry to the index before it is pushed.
    #[cold]
    fn note_next(&mut self, entry: &T) {
        if self.index.is_none() && self.count + 1 >= INDEXED_FROM {
            self.make_index();
        }
        if let Some(index) = &mut self.index {
            note(index, entry, self.base + self.entries.len() as u64);
        }
    }

    /// The place of the first entry that fits. The entry has one of `keys`.
    #[inline(always)]
    pub(crate) fn find(&self, keys: &[u64], fits: impl Fn(&T) -> bool) -> Option<usize> {
        if self.front().is_some_and(&fits) {
            return Some(0);
        }
        self.find_behind(keys, fits)
    }

    #[inline(never)]
    fn find_behind(&self, keys: &[u64], fits: impl Fn(&T) -> bool) -> Option<usize> {
        match &self.index {
            None => self.entries.iter().position(|entry| entry.as_ref().is_some_and(&fits)),
            Some(_) => keys
                .iter()
                .filter_map(|key| self.places(*key).find(|at| self.get(*at).is_some_and(&fits)))
                .min(),
        }
    }

    /// The entries with a key, in order.
    pub(crate) fn of_key(&self, key: u64) -> impl Iterator<Item = &T> {
        let all = self.index.is_none().then(|| self.iter());
        let indexed = self.places(key).filter_map(|at| self.get(at));
        all.into_iter().flatten().chain(indexed)
    }

    fn places(&self, key: u64) -> impl Iterator<Item = usize> {
        let numbers = self.index.as_ref().and_then(|index| index.get(&key));
        let place = |number: &u64| number.checked_sub(self.base).map(|at| at as usize);
        numbers.into_iter().flatten().filter_map(place)
    }

    /// Removes the entry at a place.
    #[inline(always)]
    pub(crate) fn remove(&mut self, place: usize) -> Option<T> {
        if place > 0 || self.index.is_some() {
            return self.remove_behind(place);
        }
        let entry = self.entries.pop_front()??;
        self.count -= 1;
        Some(entry)
    }

    #[inline(never)]
    fn remove_behind(&mut self, place: usize) -> Option<T> {
        if self.index.is_some() {
            return self.remove_indexed(place);
        }
        let entry = self.entries.remove(place)??;
        self.count -= 1;
        Some(entry)
    }

    /// The same without returning the entry. Returns whether there was one.
    #[inline(always)]
    pub(crate) fn discard(&mut self, place: usize) -> bool {
        if place > 1 || self.index.is_some() {
            return self.remove_behind(place).is_some();
        }
        let Some(first) = self.entries.pop_front() else { return false };
        if place == 1 {
            // If both neighbours are the same rank, it sends in a different order than this rank
            // receives.
            let Some(second) = self.entries.front_mut() else {
                self.entries.push_front(first);
                return false;
            };
            *second = first;
        }
        self.count -= 1;
        true
    }

    fn remove_indexed(&mut self, place: usize) -> Option<T> {
        let entry = self.entries.get_mut(place)?.take()?;
        self.count -= 1;
        for key in entry.keys() {
            let Some(index) = &mut self.index else { break };
            let Some(numbers) = index.get_mut(&key) else { continue };
            let is_hole = |number: &u64| {
                let at = number.checked_sub(self.base).map(|at| at as usize);
                at.and_then(|at| self.entries.get(at)).is_none_or(Option::is_none)
            };
            while numbers.front().is_some_and(is_hole) {
                numbers.pop_front();
            }
            if numbers.is_empty() {
                index.remove(&key);
            }
        }
        while self.entries.front().is_some_and(Option::is_none) {
            self.entries.pop_front();
            self.base += 1;
        }
        if self.entries.len() > 2 * self.count + INDEXED_FROM || self.count < INDEXED_FROM / 2 {
            self.close_holes();
        }
        Some(entry)
    }

    /// Removes all entries.
    pub(crate) fn drain(&mut self) -> impl Iterator<Item = T> + use<T> {
        std::mem::take(self).entries.into_iter().flatten()
    }

    fn close_holes(&mut self) {
        self.entries.retain(Option::is_some);
        self.index = None;
        if self.count >= INDEXED_FROM {
            self.make_index();
        }
    }

    #[cold]
    fn make_index(&mut self) {
        self.base = 0;
        let mut index = HashMap::new();
        for (number, entry) in (0..).zip(self.entries.iter().flatten()) {
            note(&mut index, entry, number);
        }
        self.index = Some(index);
    }
}

fn note(index: &mut HashMap<u64, VecDeque<u64>>, entry: &impl Keyed, number: u64) {
    let [first, second] = entry.keys();
    index.entry(first).or_default().push_back(number);
    if second != first {
        index.entry(second).or_default().push_back(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct TestEntry(u64, u64);

    impl Keyed for TestEntry {
        fn keys(&self) -> [u64; 2] {
            [self.0, 100 + self.0 % 3]
        }
    }

    proptest! {
        /// Any pushes, finds and removals give the same results as a searched list.
        #[test]
        fn an_indexed_line_is_a_searched_list(
            steps in prop::collection::vec((0..4_u32, 0..12_u64), 0..2000)
        ) {
            let (mut line, mut list) = (MatchQueue::default(), Vec::new());
            for (number, (step, value)) in (0..).zip(steps) {
                if step < 2 || number < 600 {
                    line.push(TestEntry(value, number));
                    list.push(TestEntry(value, number));
                } else {
                    let key = if step == 2 { value } else { 100 + value % 3 };
                    let expected = list.iter().position(|entry| entry.keys().contains(&key));
                    let found = line.find(&[key], |entry| entry.keys().contains(&key));
                    prop_assert_eq!(
                        found.and_then(|at| line.get(at)), expected.map(|at| &list[at])
                    );
                    let of_key: Vec<_> =
                        line.of_key(key).filter(|e| e.keys().contains(&key)).collect();
                    let all: Vec<_> = list.iter().filter(|e| e.keys().contains(&key)).collect();
                    prop_assert_eq!(of_key, all);
                    let taken = found.and_then(|at| line.remove(at));
                    prop_assert_eq!(taken, expected.map(|at| list.remove(at)));
                }
                prop_assert_eq!(line.front(), list.first());
                prop_assert_eq!(line.is_empty(), list.is_empty());
                prop_assert!(line.entries.len() <= 2 * list.len() + INDEXED_FROM + 1);
            }
            prop_assert_eq!(line.drain().collect::<Vec<_>>(), list);
        }
    }

    #[test]
    fn each_place_of_a_short_queue_can_be_removed() {
        for place in 0..4 {
            let (mut line, mut list) = (MatchQueue::default(), Vec::new());
            // The storage of the queue wraps around.
            (0..7).for_each(|value| line.push(TestEntry(value, 0)));
            (0..7).for_each(|_| _ = line.remove(0));
            for value in 0..4 {
                line.push(TestEntry(value, 0));
                list.push(TestEntry(value, 0));
            }
            assert_eq!(line.remove(place), Some(list.remove(place)));
            assert_eq!(line.remove(3), None);
            assert!(line.discard(place.min(2)) && !line.discard(2));
            list.remove(place.min(2));
            assert_eq!((line.front(), line.count), (list.first(), 2));
            assert_eq!(line.drain().collect::<Vec<_>>(), list);
        }
        let mut one = MatchQueue::default();
        one.push(TestEntry(1, 0));
        assert_eq!(one.remove(1), None);
        assert!(!one.discard(1));
        assert_eq!(one.remove(0), Some(TestEntry(1, 0)));
        assert!(!one.discard(0) && one.is_empty());
    }

    #[test]
    fn the_index_finds_a_middle_entry_without_search() {
        let mut line = MatchQueue::default();
        (0..100_000).for_each(|value| line.push(TestEntry(value, 0)));
        let looks = std::cell::Cell::new(0);
        for key in [99_999, 50_000, 3] {
            let fits = |entry: &TestEntry| {
                looks.set(looks.get() + 1);
                entry.0 == key
            };
            let at = line.find(&[key], fits).expect("it is there");
            assert_eq!(line.remove(at), Some(TestEntry(key, 0)));
        }
        // The first entry, and the one that was found.
        assert_eq!(looks.get(), 3 * 2);
        // A queue that has become shorter keeps its index for a while.
        let mut line = MatchQueue::default();
        (0..INDEXED_FROM as u64).for_each(|value| line.push(TestEntry(value, 0)));
        (0..100).for_each(|_| _ = line.remove(0));
        let fits = |entry: &TestEntry| {
            looks.set(looks.get() + 1);
            entry.0 == 300
        };
        assert_eq!(line.find(&[300], fits).and_then(|at| line.get(at)), Some(&TestEntry(300, 0)));
        assert_eq!(looks.get(), 4 * 2);
    }
}
