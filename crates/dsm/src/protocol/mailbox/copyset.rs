//! Sets of nodes, small enough for a message.

/// A set of nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Copyset([u64; 2]);

impl Copyset {
    /// Most nodes of a set.
    pub const MOST: u32 = 128;

    /// The set of nodes `0..nodes`.
    pub fn all(nodes: u32) -> Copyset {
        let mut set = Copyset::default();
        (0..nodes).for_each(|node| set.insert(node));
        set
    }

    /// The set of these bits.
    pub fn of(words: [u64; 2]) -> Copyset {
        Copyset(words)
    }

    /// A bit for each node.
    pub fn words(&self) -> [u64; 2] {
        self.0
    }

    /// Adds a node.
    pub fn insert(&mut self, node: u32) {
        self.0[node as usize / 64] |= 1 << (node % 64);
    }

    /// Removes a node.
    pub fn remove(&mut self, node: u32) {
        self.0[node as usize / 64] &= !(1 << (node % 64));
    }

    /// Whether a node is in the set.
    pub fn contains(&self, node: u32) -> bool {
        self.0[node as usize / 64] & 1 << (node % 64) != 0
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 2]
    }

    /// Whether every node of the set is in `other`.
    pub fn is_within(&self, other: &Copyset) -> bool {
        self.0.iter().zip(other.0).all(|(own, other)| own & !other == 0)
    }

    /// The union of both sets.
    pub fn with(&self, other: &Copyset) -> Copyset {
        Copyset([self.0[0] | other.0[0], self.0[1] | other.0[1]])
    }

    /// The lowest node.
    pub fn first(&self) -> Option<u32> {
        (0..Copyset::MOST).find(|node| self.contains(*node))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_in_as_long_as_they_were_put_in() {
        let mut set = Copyset::default();
        for node in [0, 63, 64, 127] {
            assert!(!set.contains(node));
            set.insert(node);
            assert!(set.contains(node) && set.is_within(&Copyset::all(128)));
        }
        assert_eq!((set.first(), Copyset::of(set.words())), (Some(0), set));
        assert!(!set.is_within(&Copyset::all(127)));
        set.remove(0);
        assert_eq!(set.first(), Some(63));
        assert_eq!(set.with(&Copyset::all(2)).first(), Some(0));
        assert!(Copyset::default().is_empty() && Copyset::default().first().is_none());
    }
}
