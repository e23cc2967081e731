//! The ranks that share lines, and the leaders that represent them to other nodes.
//!
//! ```text
//!   node 0   0 1 2     lines ─► 0 ─┐                    ┌─► lines   0 1 2
//!   node 1   3 4 5     lines ─► 3 ─┼─► messages between ─┼─► lines   3 4 5
//!   node 2   6 7       lines ─► 6 ─┘      the leaders    └─► lines   6 7
//! ```
//!
//! A node of very many ranks counts as several.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::group::Group;

/// The maximum number of nodes, whose leaders all send messages to one leader. With more, messages
/// through trees of all ranks are faster.
const MOST_NODES: usize = 16;

/// The maximum number of ranks that poll each other one by one. Access to another rank's memory
/// costs a page of page tables, so 1,024 ranks that all poll all take 4 GiB and 30 s the first
/// time. A larger node counts as several, of [`LEAST_MATES`] ranks each, or of more if there would
/// be more than [`MOST_NODES`] of them.
pub(crate) const MOST_MATES: u32 = 256;

/// The minimum number of ranks in a part of a node.
const LEAST_MATES: u32 = 64;

/// The ranks that share lines with one rank, and the leaders of all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mates {
    ranks: Range<u32>,
    leaders: Vec<u32>,
    /// The place of this rank's node among them.
    own: usize,
}

impl Mates {
    /// The mates of `rank`, one of `size` ranks on the nodes that `node_of` returns. `None`: a
    /// node's ranks are not consecutive, there are too many nodes, or each has one rank only.
    pub fn of(rank: u32, size: u32, node_of: impl Fn(u32) -> u32) -> Option<Mates> {
        let leaders = parts(runs(size, node_of)?, size);
        let nobody_has_any = leaders.len() >= size as usize && size > 1;
        if leaders.len() > MOST_NODES || nobody_has_any {
            return None;
        }
        let own = leaders.partition_point(|leader| *leader <= rank) - 1;
        let end = leaders.get(own + 1).copied().unwrap_or(size);
        Some(Mates { ranks: leaders[own]..end, leaders, own })
    }

    /// The ranks that share lines, this one included. The first is the leader.
    pub fn ranks(&self) -> Range<u32> {
        self.ranks.clone()
    }

    /// The leaders of all nodes, in rank order.
    pub fn leaders(&self) -> &[u32] {
        &self.leaders
    }

    /// The place of this rank's leader among the leaders.
    pub fn own(&self) -> usize {
        self.own
    }

    /// Whether all ranks share the same lines.
    pub fn are_all(&self) -> bool {
        self.leaders.len() == 1
    }

    /// The index among the leaders of the one that leads `rank`.
    pub fn leader_of(&self, rank: u32) -> usize {
        self.leaders.partition_point(|leader| *leader <= rank) - 1
    }

    /// Whether lines with messages between the leaders are faster than messages among all ranks.
    ///
    /// Times by lines and leaders over times by messages, virtual nodes on 2 cores (where messages
    /// between nodes are as fast as within):
    ///
    /// ```text
    ///                barrier   allreduce 8 B   64 KiB   broadcast 64 KiB
    ///   2 nodes of 2     0.9             1.7      1.2                1.0
    ///   4 nodes of 2     1.6             1.1      1.0                1.1
    ///   2 nodes of 4     1.0             1.1      0.7                0.8
    /// ```
    pub fn pay(&self, size: u32) -> bool {
        self.are_all() || size as usize >= 4 * self.leaders.len()
    }
}

/// The first rank of each node. `None`: a node's ranks are not consecutive, or there are too many
/// nodes.
fn runs(size: u32, node_of: impl Fn(u32) -> u32) -> Option<Vec<u32>> {
    let mut firsts: Vec<u32> = Vec::new();
    for rank in 0..size {
        let node = node_of(rank);
        if rank > 0 && node == node_of(rank - 1) {
            continue;
        }
        let again = firsts.iter().any(|first| node_of(*first) == node);
        if again || firsts.len() == MOST_NODES {
            return None;
        }
        firsts.push(rank);
    }
    Some(firsts)
}

/// The first rank of each part of the nodes; large nodes are divided.
fn parts(firsts: Vec<u32>, size: u32) -> Vec<u32> {
    let part = size.div_ceil(MOST_NODES as u32).max(LEAST_MATES);
    let ends = firsts.iter().skip(1).copied().chain([size]);
    let of_node = |(first, end): (&u32, u32)| {
        let step = if end - first > MOST_MATES { part } else { end - first };
        (*first..end).step_by(step as usize)
    };
    firsts.iter().zip(ends).flat_map(of_node).collect()
}

/// The ranks of each node, in order, with the nodes in the order of their first ranks; and the
/// index of this rank's node.
pub(crate) fn nodes(group: &impl Group) -> (Vec<Vec<u32>>, usize) {
    let (mut nodes, mut seen, mut own) = (Vec::new(), BTreeMap::new(), 0);
    for rank in 0..group.size() {
        let place = *seen.entry(group.node_of(rank)).or_insert(nodes.len());
        if place == nodes.len() {
            nodes.push(Vec::new());
        }
        nodes[place].push(rank);
        if rank == group.rank() {
            own = place;
        }
    }
    (nodes, own)
}

/// The ranks of this rank's node, and one rank of each node: the same as for lines, if the group
/// can have lines. Otherwise it queries every rank's node: for algorithms that need it, on jobs of
/// moderate size.
#[derive(Debug)]
pub(crate) struct NodeLayout {
    /// The ranks of this rank's node, in order. The first is its leader.
    pub(crate) mates: Vec<u32>,
    /// This rank's place among them.
    pub(crate) place: u32,
    /// The leaders of all nodes, in order.
    pub(crate) leaders: Vec<u32>,
    /// Whether each node's ranks are consecutive, so that the order of nodes is the order of ranks.
    pub(crate) in_order: bool,
}

impl NodeLayout {
    pub(crate) fn of(group: &impl Group) -> NodeLayout {
        if let Some(mates) = group.mates() {
            let (ranks, leaders) = (mates.ranks(), mates.leaders().to_vec());
            let place = group.rank() - ranks.start;
            return NodeLayout { mates: ranks.collect(), place, leaders, in_order: true };
        }
        let mine = group.node_of(group.rank());
        let (mut mates, mut place) = (Vec::new(), 0);
        let mut seen = std::collections::BTreeSet::new();
        let (mut leaders, mut in_order, mut last) = (Vec::new(), true, None);
        for rank in 0..group.size() {
            let node = group.node_of(rank);
            if node == mine {
                if rank == group.rank() {
                    place = mates.len() as u32;
                }
                mates.push(rank);
            }
            if seen.insert(node) {
                leaders.push(rank);
            } else {
                in_order &= last == Some(node);
            }
            last = Some(node);
        }
        NodeLayout { mates, place, leaders, in_order }
    }

    /// This rank's place among the leaders, if it is one.
    pub(crate) fn as_leader(&self, rank: u32) -> Option<u32> {
        self.leaders.binary_search(&rank).ok().map(|place| place as u32)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn firsts(size: u32, per_node: u32) -> Vec<u32> {
        parts(runs(size, |rank| rank / per_node).unwrap(), size)
    }

    #[test]
    fn nodes_are_runs_of_ranks_and_few() {
        assert_eq!(firsts(5, 2), [0, 2, 4]);
        assert_eq!(firsts(256, 256), [0]);
        assert_eq!(runs(4, |rank| rank % 2), None);
        assert_eq!(runs(17, |rank| rank), None);
    }

    #[test]
    fn ranks_of_a_node_have_the_same_mates() {
        for rank in 0..8 {
            let mates = Mates::of(rank, 8, |rank| rank / 3).unwrap();
            assert_eq!(mates.ranks(), rank / 3 * 3..8.min(rank / 3 * 3 + 3));
            assert_eq!((mates.own(), mates.leader_of(7)), (rank as usize / 3, 2));
            assert!(!mates.are_all() && !mates.pay(8) && mates.pay(12));
        }
        assert!(Mates::of(1, 4, |_| 0).unwrap().are_all());
        assert_eq!(Mates::of(1, 4, |rank| rank), None, "nobody has a mate");
        assert!(Mates::of(0, 1, |_| 0).unwrap().are_all(), "a rank alone waits for nobody");
    }

    #[test]
    fn a_node_of_very_many_ranks_counts_as_several() {
        assert_eq!(firsts(300, 300), [0, 64, 128, 192, 256]);
        assert_eq!(firsts(600, 300).len(), 10);
        for size in [257, 1000, 1024, 4095, 4096] {
            let leaders = firsts(size, size);
            assert!(leaders.len() <= MOST_NODES, "{size} ranks: {leaders:?}");
            let ends = leaders.iter().skip(1).copied().chain([size]);
            let most = leaders.iter().zip(ends).map(|(first, end)| end - first).max();
            assert!(most.is_some_and(|most| most <= MOST_MATES), "{size} ranks: {leaders:?}");
        }
    }
}
