//! The places of a variable's words.
//!
//! ```text
//!   at the variable's home rank          at every node
//!   head | latest | readers ... | cell ...      owner | state         16 bytes, the control region
//!   '----- one line for up to 4 ranks ----'     data                  the copy
//! ```
//!
//! Of the paper's variable, only owner and state lie in the control region (§5.1). The request
//! queue and the set of readers are the "other members"; each has a single place.

use std::sync::Arc;

use crate::word::{FIRST, Head, INITIAL, READERS_A_WORD, Version};

/// Words of a cache line. Two variables never share a line.
const LINE_WORDS: u64 = 8;

/// The number of ranks and nodes of the job, and this rank's number.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Geometry {
    /// Ranks of the job.
    pub ranks: u32,
    /// This rank.
    pub rank: u32,
    layout: NodePlacement,
    nodes: u32,
    /// The node of this rank.
    node: u32,
    /// The number of cells minus one. The number of cells is a power of two.
    mask: u64,
}

/// The placement of ranks on nodes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum NodePlacement {
    /// This many consecutive ranks per node; the last node may have fewer.
    Even(u32),
    /// The node of each rank.
    Listed(Arc<[u32]>),
}

/// A word of a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Word {
    /// [`Head`].
    Head,
    /// The [`Version`] of the newest contents.
    Latest,
    /// For 32 ranks: one bit each for those that read and, above them, those that want to ask.
    Readers(u32),
    /// The cell with this index.
    Cell(u32),
    /// The [`Version`] last announced to a node: owner change and invalidation in one word.
    Owner(u32),
    /// The [`Version`] that a node's copy holds.
    Held(u32),
}

impl Geometry {
    /// The view of one rank, with this many ranks per node; the last node may have fewer.
    pub fn new(ranks: u32, ranks_per_node: u32, rank: u32) -> Geometry {
        let nodes = ranks.div_ceil(ranks_per_node);
        Geometry::laid_out(NodePlacement::Even(ranks_per_node), (ranks, nodes), rank)
    }

    /// The view of one rank, given the node of each rank. Nodes are numbered from 0 without gaps.
    pub fn listed(nodes: &[u32], rank: u32) -> Geometry {
        let count = nodes.iter().max().map_or(0, |last| last + 1);
        let ranks = nodes.len() as u32;
        Geometry::laid_out(NodePlacement::Listed(nodes.into()), (ranks, count), rank)
    }

    fn laid_out(layout: NodePlacement, (ranks, nodes): (u32, u32), rank: u32) -> Geometry {
        let mask = u64::from(ranks.next_power_of_two() - 1);
        let mut geometry = Geometry { ranks, rank, layout, nodes, node: 0, mask };
        geometry.node = geometry.node_of(rank);
        geometry
    }

    /// The number of nodes.
    #[inline]
    pub fn nodes(&self) -> u32 {
        self.nodes
    }

    /// The node of a rank.
    #[inline]
    pub fn node_of(&self, rank: u32) -> u32 {
        match &self.layout {
            NodePlacement::Even(ranks_per_node) => rank / ranks_per_node,
            NodePlacement::Listed(nodes) => nodes.get(rank as usize).copied().unwrap_or(self.nodes),
        }
    }

    /// The node of this rank.
    #[inline]
    pub fn node(&self) -> u32 {
        self.node
    }

    /// The ranks of a node.
    pub fn ranks_of(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        let all = match self.layout {
            NodePlacement::Even(ranks_per_node) => {
                let first = node * ranks_per_node;
                first..(first + ranks_per_node).min(self.ranks)
            }
            NodePlacement::Listed(_) => 0..self.ranks,
        };
        all.filter(move |rank| self.node_of(*rank) == node)
    }

    /// The first rank of each node. Its region holds the node's words and copy.
    pub fn keepers(&self) -> Vec<u32> {
        let mut keepers = vec![self.ranks; self.nodes as usize];
        (0..self.ranks).rev().for_each(|rank| keepers[self.node_of(rank) as usize] = rank);
        keepers
    }

    /// The number of words that hold the readers' bits.
    pub fn reader_words(&self) -> u32 {
        self.ranks.div_ceil(READERS_A_WORD)
    }

    /// The number of requests that may wait. A rank has at most one.
    pub fn cells(&self) -> u64 {
        self.mask + 1
    }

    /// The cell of a turn.
    pub fn cell(&self, position: u64) -> Word {
        Word::Cell((position & self.mask) as u32)
    }

    /// The word and the bit that mark this rank as a reader.
    pub fn reader_bit(&self) -> (u32, u64) {
        (self.rank / READERS_A_WORD, 1 << (self.rank % READERS_A_WORD))
    }

    /// The word and the bit by which this rank says that it wants to ask.
    pub fn wanting_bit(&self) -> (u32, u64) {
        let (at, bit) = self.reader_bit();
        (at, bit << READERS_A_WORD)
    }

    /// The words of a variable at its home, rounded up to whole cache lines.
    pub fn home_words(&self) -> u64 {
        (2 + u64::from(self.reader_words()) + self.cells()).next_multiple_of(LINE_WORDS)
    }

    /// The place of a word: an index into the words at home, or into the two at a node.
    pub fn place(&self, word: Word) -> WordPlace {
        match word {
            Word::Head => WordPlace::Home(0),
            Word::Latest => WordPlace::Home(1),
            Word::Readers(at) => WordPlace::Home(2 + u64::from(at)),
            Word::Cell(at) => WordPlace::Home(2 + u64::from(self.reader_words() + at)),
            Word::Owner(node) => WordPlace::Node(node, 0),
            Word::Held(node) => WordPlace::Node(node, 1),
        }
    }

    /// The initial words at home: the contents are zeros, at every node.
    pub fn initial_home(&self) -> Vec<u64> {
        let mut words = vec![0; self.home_words() as usize];
        words[0] = Head { position: FIRST, mark: None }.bits();
        words[1] = initial_version();
        words
    }
}

/// The initial words at a node.
pub fn initial_node() -> [u64; 2] {
    [initial_version(); 2]
}

fn initial_version() -> u64 {
    Version { position: INITIAL, node: 0, shared: true }.bits()
}

/// The place of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WordPlace {
    /// At this index of the words at the variable's home.
    Home(u64),
    /// At this index of the words at this node.
    Node(u32, u64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::word::READING;

    #[test]
    fn words_have_separate_places_and_small_jobs_one_line() {
        for ranks in [1, 2, 3, 4, 5, 32, 33, 64, 65, 200] {
            let geometry = Geometry::new(ranks, 4, 0);
            let words = [Word::Head, Word::Latest]
                .into_iter()
                .chain((0..geometry.reader_words()).map(Word::Readers))
                .chain((0..geometry.cells() as u32).map(Word::Cell));
            let mut places: Vec<u64> = words
                .map(|word| match geometry.place(word) {
                    WordPlace::Home(at) => at,
                    WordPlace::Node(..) => panic!("{word:?} is at home"),
                })
                .collect();
            let count = places.len();
            places.sort_unstable();
            places.dedup();
            assert_eq!(places.len(), count);
            assert!(*places.last().unwrap() < geometry.home_words());
            assert!(geometry.cells() >= u64::from(ranks));
        }
        assert_eq!(Geometry::new(4, 4, 0).home_words(), 8);
    }

    #[test]
    fn ranks_of_a_node_need_not_follow_each_other() {
        let listed = Geometry::listed(&[0, 1, 0, 2, 1], 4);
        assert_eq!((listed.nodes(), listed.node()), (3, 1));
        let ranks = |geometry: &Geometry, node| geometry.ranks_of(node).collect::<Vec<_>>();
        assert_eq!([0, 1, 2].map(|node| ranks(&listed, node)), [vec![0, 2], vec![1, 4], vec![3]]);
        assert_eq!(listed.keepers(), [0, 1, 3]);
        let even = Geometry::new(5, 2, 3);
        assert_eq!((even.keepers(), ranks(&even, 2)), (vec![0, 2, 4], vec![4]));
    }

    #[test]
    fn readers_and_wanting_ranks_have_separate_bits() {
        let mut seen = [0; 3];
        for rank in 0..65 {
            let geometry = Geometry::new(65, 4, rank);
            let ((at, reads), (word, wants)) = (geometry.reader_bit(), geometry.wanting_bit());
            assert_eq!((at, at < geometry.reader_words()), (word, true));
            assert_eq!((reads & !READING, wants & READING), (0, 0));
            assert_eq!(seen[at as usize] & (reads | wants), 0, "rank {rank}");
            seen[at as usize] |= reads | wants;
        }
    }
}
