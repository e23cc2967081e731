//! Fat trees: extended generalised fat trees XGFT(h; m1..mh; w1..wh) (Öhring et al., IPPS 1995).
//!
//! ```text
//!   level 2      (s)   (s)        w2 = 2 parents for each switch of level 1
//!               / | \ / | \
//!   level 1    (s)  (s)   (s)     m2 = 3 children for each switch of level 2
//!              / \  / \   / \
//!   nodes     0  1 2   3 4   5    m1 = 2 children, w1 = 1 parent
//! ```
//!
//! A vertex of level `l - 1` has `w_l` parents, and a switch of level `l` has `m_l` children.
//! Routing: up to the lowest level that the two nodes share, then down. The receiver's number
//! chooses the parents on the path up (D-mod-k). That spreads the receivers of one sender evenly
//! and gives each receiver its own tree downward. Link classes: `Network(l)` between level `l - 1`
//! and `l`, for `l` from 2 on, both ways.
//!
//! Deadlock: routes go up and then down, never up again.
//!
//! No multicast: D-mod-k leads to each receiver through its own tree, so the copies would share
//! almost no links. Switches that copy route broadcasts through one tree instead.

use super::{Channel, Link, LinkClass, LinkEnds, Node, Topology, Vertex};

/// One level of a fat tree.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TreeLevel {
    /// The number of children of a switch of this level.
    children: u32,
    /// The number of parents, in this level, of a vertex of the level below.
    parents: u32,
    /// The number of nodes below a switch of the level below: the product of the `children` so far.
    span_below: u32,
    /// The number of switches of the level below that share a subtree: the product of the `parents`
    /// so far.
    copies_below: u32,
    /// The number of this level's first upward link. The downward ones follow.
    first_link: u32,
    /// The number of upward links.
    width: u32,
    /// The number of this level's first switch.
    first_switch: u32,
}

/// A fat tree of any height and arity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FatTree {
    levels: Vec<TreeLevel>,
    nodes: u32,
}

impl FatTree {
    /// A tree whose level `l` (from 1, the lowest first) has the pair (children, parents) of entry
    /// `l - 1` of the list. A 2-level tree of 36-port switches without oversubscription is `[(18,
    /// 1), (36, 18)]`.
    pub fn new(arities: &[(u32, u32)]) -> FatTree {
        let nodes: u32 = arities.iter().map(|arity| arity.0).product();
        let (mut span, mut copies, mut link, mut switch) = (1, 1, 0, 0);
        let mut levels = Vec::new();
        for &(children, parents) in arities {
            let width = nodes / span * copies * parents;
            levels.push(TreeLevel {
                children,
                parents,
                span_below: span,
                copies_below: copies,
                first_link: link,
                width,
                first_switch: switch,
            });
            span *= children;
            copies *= parents;
            link += 2 * width;
            switch += nodes / span * copies;
        }
        FatTree { levels, nodes }
    }

    /// The number of levels of switches.
    pub fn height(&self) -> u32 {
        self.levels.len() as u32
    }

    /// The highest level on the path between two nodes, from 0. The lowest level is always used.
    fn turn(&self, from: Node, to: Node) -> usize {
        let shared = |level: &TreeLevel| {
            let span = level.span_below * level.children;
            from / span == to / span
        };
        self.levels.iter().position(shared).unwrap_or(self.levels.len() - 1)
    }
}

impl TreeLevel {
    /// The link between the vertex (subtree of `node`, `copy`) below this level and its `parent`.
    fn up(&self, node: Node, copy: u32, parent: u32) -> Link {
        let below = node / self.span_below * self.copies_below + copy;
        self.first_link + below * self.parents + parent
    }
}

impl Topology for FatTree {
    fn name(&self) -> String {
        let arity = |level: &TreeLevel| format!("{}:{}", level.children, level.parents);
        let arities: Vec<String> = self.levels.iter().map(arity).collect();
        format!(
            "fat tree {} (children:parents from below), {} nodes",
            arities.join(" "),
            self.nodes
        )
    }

    fn nodes(&self) -> u32 {
        self.nodes
    }

    fn links(&self) -> u32 {
        self.levels.iter().map(|level| 2 * level.width).sum()
    }

    fn link(&self, link: Link) -> LinkEnds {
        let number = self.levels.partition_point(|level| level.first_link <= link) - 1;
        let level = &self.levels[number];
        let (offset, down) =
            ((link - level.first_link) % level.width, link - level.first_link >= level.width);
        let (below, parent) = (offset / level.parents, offset % level.parents);
        let (subtree, copy) = (below / level.copies_below, below % level.copies_below);
        let above = subtree / level.children * (level.copies_below * level.parents)
            + parent * level.copies_below
            + copy;
        let high = Vertex::Switch(level.first_switch + above);
        let low = match number.checked_sub(1) {
            None => Vertex::Node(subtree),
            Some(lower) => Vertex::Switch(self.levels[lower].first_switch + below),
        };
        let class = match (number, down) {
            (0, false) => LinkClass::Injection,
            (0, true) => LinkClass::Ejection,
            _ => LinkClass::Network(number as u8 + 1),
        };
        let (from, to) = if down { (high, low) } else { (low, high) };
        LinkEnds { from, to, class }
    }

    fn route(&self, from: Node, to: Node, route: &mut Vec<Channel>) {
        let levels = &self.levels[..=self.turn(from, to)];
        let mut copy = 0;
        for level in levels {
            let parent = to / level.copies_below % level.parents;
            route.push(level.up(from, copy, parent));
            copy += parent * level.copies_below;
        }
        for level in levels.iter().rev() {
            let parent = copy / level.copies_below;
            copy %= level.copies_below;
            route.push(level.up(to, copy, parent) + level.width);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::check_shape;
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn trees_of_all_heights_are_sound() {
        for arities in
            [&[(4, 1)][..], &[(2, 1), (3, 2)], &[(2, 2), (2, 2), (3, 1)], &[(4, 1), (4, 4), (2, 4)]]
        {
            check_shape(&FatTree::new(arities));
        }
    }

    #[test]
    fn distances_by_hand() {
        let tree = FatTree::new(&[(4, 1), (4, 4), (4, 4)]);
        assert_eq!(tree.nodes(), 64);
        // Within a leaf switch, within a pod, and through the whole tree.
        assert_eq!([0, 3, 4, 15, 16, 63].map(|to| tree.distance(0, to)), [2, 2, 4, 4, 6, 6]);
    }

    #[test]
    fn a_receiver_is_reached_through_one_link_from_the_top() {
        // D-mod-k: the routes of a shift permutation share no link, so the tree is non-blocking for
        // it.
        let tree = FatTree::new(&[(4, 1), (4, 4)]);
        for shift in 1..16 {
            let mut uses = BTreeMap::<Channel, u32>::new();
            for from in 0..16 {
                let mut route = Vec::new();
                tree.route(from, (from + shift) % 16, &mut route);
                route.into_iter().for_each(|channel| *uses.entry(channel).or_default() += 1);
            }
            assert!(uses.values().all(|&count| count == 1), "shift {shift}: {uses:?}");
        }
    }
}
