//! The departed ranks: what one rank knows about the deaths and departures of others.

use crate::geometry::Geometry;
use crate::word::{READERS_A_WORD, READING};

/// The ranks that died or left. A rank that left in order holds nothing and requests nothing, but
/// its memory is still there. The memory of a rank that died is gone, unless another rank of its
/// node is alive.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Departed {
    /// One bit for each rank that is gone, 64 to a word. Empty if no rank is gone.
    gone: Vec<u64>,
    /// One bit for each rank that died.
    died: Vec<u64>,
}

impl Departed {
    /// Records that a rank died.
    pub fn insert(&mut self, rank: u32) {
        set(&mut self.gone, rank);
        set(&mut self.died, rank);
    }

    /// Records that a rank left.
    pub fn insert_left(&mut self, rank: u32) {
        set(&mut self.gone, rank);
    }

    /// Whether no rank is gone, to this rank's knowledge.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.gone.is_empty()
    }

    /// Whether a rank is gone.
    #[inline]
    pub fn contains(&self, rank: u32) -> bool {
        word(&self.gone, rank / 64) & 1 << (rank % 64) != 0
    }

    /// The gone ranks among those of one word of readers, as bits of [`READING`].
    #[inline]
    pub fn readers(&self, at: u32) -> u64 {
        let shift = at * READERS_A_WORD % 64;
        word(&self.gone, at * READERS_A_WORD / 64) >> shift & READING
    }

    /// Whether a rank died.
    pub fn has_died(&self, rank: u32) -> bool {
        word(&self.died, rank / 64) & 1 << (rank % 64) != 0
    }

    /// Whether all ranks of a node died. Its copies died with them.
    #[inline]
    pub fn node_is_gone(&self, geometry: &Geometry, node: u32) -> bool {
        !self.died.is_empty() && geometry.ranks_of(node).all(|rank| self.has_died(rank))
    }
}

fn word(words: &[u64], at: u32) -> u64 {
    words.get(at as usize).copied().unwrap_or(0)
}

fn set(words: &mut Vec<u64>, rank: u32) {
    let at = rank as usize / 64;
    if words.len() <= at {
        words.resize(at + 1, 0);
    }
    words[at] |= 1 << (rank % 64);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_gone_with_its_last_rank() {
        let (geometry, mut departed) = (Geometry::new(5, 2, 0), Departed::default());
        assert!(!departed.node_is_gone(&geometry, 2));
        departed.insert(4);
        assert!(departed.node_is_gone(&geometry, 2), "the last node has one rank");
        departed.insert(1);
        assert!(!departed.node_is_gone(&geometry, 0));
        departed.insert(0);
        assert!(departed.node_is_gone(&geometry, 0));
        assert!(!departed.contains(100) && departed.readers(18) == 0);
        departed.insert(33);
        departed.insert(95);
        let words: Vec<u64> = (0..4).map(|at| departed.readers(at)).collect();
        assert_eq!(words, [0b10011, 0b10, 1 << 31, 0]);
    }

    #[test]
    fn a_rank_that_left_leaves_its_copy() {
        let (geometry, mut departed) = (Geometry::new(2, 1, 0), Departed::default());
        departed.insert_left(1);
        assert!(departed.contains(1) && !departed.has_died(1));
        assert!(!departed.node_is_gone(&geometry, 1));
    }
}
