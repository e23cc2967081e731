//! A map from each rank of a job to a value, which is created when it is first changed.
//!
//! A rank of a job of hundreds of thousands communicates with few of them. For all others it needs
//! only their common initial value, at four bytes each.

use std::fmt;
use std::ops::{Index, IndexMut};

/// A value for each rank, by its number.
pub struct ByRank<T> {
    entries: Vec<T>,
    /// `None`: each rank has an entry, in order.
    few: Option<Few<T>>,
}

/// The places of the entries, where only some ranks have one.
struct Few<T> {
    /// The place of each rank's entry, plus one; 0: the rank has none.
    index: Vec<u32>,
    /// The ranks of the entries.
    ranks: Vec<u32>,
    /// The initial value, which a rank without an entry has.
    blank: T,
    make: Box<dyn Fn(u32) -> T + Send>,
}

// Not inlined: every access would be longer, also where each rank has an entry.
impl<T> Few<T> {
    #[inline(never)]
    fn get<'e>(&'e self, entries: &'e [T], rank: usize) -> Option<&'e T> {
        match self.index.get(rank)?.checked_sub(1) {
            Some(place) => entries.get(place as usize),
            None => Some(&self.blank),
        }
    }

    #[inline(never)]
    fn get_mut<'e>(&mut self, entries: &'e mut Vec<T>, rank: usize) -> Option<&'e mut T> {
        let place = self.index.get_mut(rank)?;
        if *place == 0 {
            entries.push((self.make)(rank as u32));
            self.ranks.push(rank as u32);
            // The cast is exact: there are fewer than 2^24 ranks.
            *place = entries.len() as u32;
        }
        entries.get_mut(*place as usize - 1)
    }
}

impl<T> From<Vec<T>> for ByRank<T> {
    /// An entry for each rank from the start.
    fn from(entries: Vec<T>) -> ByRank<T> {
        ByRank { entries, few: None }
    }
}

impl<T> ByRank<T> {
    /// A map for `ranks` ranks without entries, which all read as rank 0's initial value.
    pub fn few(ranks: u32, make: impl Fn(u32) -> T + Send + 'static) -> ByRank<T> {
        let (index, blank) = (vec![0; ranks as usize], make(0));
        let few = Few { index, ranks: Vec::new(), blank, make: Box::new(make) };
        ByRank { entries: Vec::new(), few: Some(few) }
    }

    /// The number of ranks.
    pub fn len(&self) -> usize {
        self.few.as_ref().map_or(self.entries.len(), |few| few.index.len())
    }

    /// Whether there is no rank.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a rank; `None`: there is no such rank.
    #[inline(always)]
    pub fn get(&self, rank: usize) -> Option<&T> {
        match &self.few {
            None => self.entries.get(rank),
            Some(few) => few.get(&self.entries, rank),
        }
    }

    /// The value of a rank, to be changed: the rank has an entry from now on.
    #[inline(always)]
    pub fn get_mut(&mut self, rank: usize) -> Option<&mut T> {
        match &mut self.few {
            None => self.entries.get_mut(rank),
            Some(few) => few.get_mut(&mut self.entries, rank),
        }
    }

    /// Whether a rank has an entry.
    #[inline]
    pub fn has(&self, rank: usize) -> bool {
        match &self.few {
            Some(few) => few.index.get(rank).is_some_and(|place| *place > 0),
            None => rank < self.entries.len(),
        }
    }

    /// The number of ranks that have entries.
    #[inline]
    pub fn known(&self) -> usize {
        self.entries.len()
    }

    /// The rank of the entry at `place`.
    #[inline]
    pub fn rank_at(&self, place: usize) -> u32 {
        let rank = self.few.as_ref().and_then(|few| few.ranks.get(place));
        rank.copied().unwrap_or(place as u32)
    }

    /// The ranks that have entries, and their values, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.entries.iter().enumerate().map(|(place, entry)| (self.rank_at(place), entry))
    }
}

impl<T> Index<usize> for ByRank<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, rank: usize) -> &T {
        self.get(rank).expect("a rank of the job")
    }
}

impl<T> IndexMut<usize> for ByRank<T> {
    #[inline(always)]
    fn index_mut(&mut self, rank: usize) -> &mut T {
        self.get_mut(rank).expect("a rank of the job")
    }
}

impl<T: fmt::Debug> fmt::Debug for ByRank<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_read_alike() {
        let make = |rank| if rank == 7 { 70 } else { 1 };
        let mut all = ByRank::from(Vec::from_iter((0..9).map(make)));
        let mut few = ByRank::few(9, make);
        for (rank, value) in [(3, 5), (8, 6), (3, 7)] {
            (all[rank], few[rank]) = (value, value);
        }
        // A new entry may depend on its rank.
        assert_eq!((few[7], all[7]), (1, 70));
        assert_eq!((few.get_mut(7).copied(), few[7]), (Some(70), 70));
        assert!((0..9).all(|rank| all[rank] == few[rank]));
        assert_eq!((all.get(9), few.get(9), few.len()), (None, None, 9));
        assert_eq!(few.get_mut(9), None);
        assert_eq!((all.has(8), few.has(8), few.has(2)), (true, true, false));
        assert_eq!((all.known(), few.known()), (9, 3));
        assert_eq!(few.iter().collect::<Vec<_>>(), [(3, &7), (8, &6), (7, &70)]);
        assert_eq!(all.iter().map(|(rank, _)| rank).collect::<Vec<_>>(), Vec::from_iter(0..9));
    }
}
