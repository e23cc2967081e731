//! Which ranks share a node.

use std::collections::BTreeMap;

use crate::group::Group;

/// The ranks of each node, in order; the nodes are in the order of their first ranks. And which of
/// them is this rank's.
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

/// The ranks of this rank's node, and one rank of each node: as lines have them, if the group can
/// have lines. Else made by asking for every rank's node: for algorithms that want it, on jobs
/// whose ranks can be counted.
#[derive(Debug)]
pub(crate) struct NodeLayout {
    /// The ranks of this rank's node, in order. The first is its leader.
    pub(crate) mates: Vec<u32>,
    /// This rank's place among them.
    pub(crate) place: u32,
    /// The leaders of all nodes, in order.
    pub(crate) leaders: Vec<u32>,
    /// Whether each node's ranks follow each other, so that nodes in order are ranks in order.
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
