//! The dragonfly: groups of routers, fully connected at both scales (Kim, Dally, Scott,
//! Abts, ISCA 2008).
//!
//! ```text
//!     group 0                     group 1
//!    (r)--(r)      global link   (r)--(r)      a routers in a group, all joined;
//!     | \/ |  -----------------   | \/ |       p nodes and h global links at each
//!     | /\ |                      | /\ |
//!    (r)--(r)                    (r)--(r)
//! ```
//!
//! Routing is minimal: to the router of the group that has the link to the receiver's group, over
//! that link, and to the receiver's router. With `g` groups, link `q` of a group leads to the group
//! `q % (g - 1) + 1` further on: one link to each group in the largest system, several in a smaller
//! one. Of several links the route prefers those of the sender's own router. Among those the
//! receiver's number decides. That spreads receivers evenly and keeps two nodes on one path. Link
//! classes: `Network(0)` within a group, `Network(1)` between groups.
//!
//! Deadlock: links within a group have two channels. The first is for messages that have not left
//! their group, the second for those from another group. In the order injection, first, global,
//! second, ejection every route goes upward.

use super::{Channel, Link, LinkClass, LinkEnds, Node, Topology, Vertex};

/// A dragonfly with minimal routing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dragonfly {
    nodes_per_router: u32,
    routers_per_group: u32,
    global_per_router: u32,
    groups: u32,
}

impl Dragonfly {
    /// `p` nodes per router, `a` routers per group, `h` global links per router, and as many groups
    /// as these join directly: `a h + 1`.
    pub fn new(p: u32, a: u32, h: u32) -> Dragonfly {
        Dragonfly::with_groups(p, a, h, a * h + 1)
    }

    /// A dragonfly of fewer groups. Every pair of groups has equally many links, and the remaining
    /// links are unused.
    ///
    /// # Panics
    /// If a group does not have enough global links for `groups`.
    pub fn with_groups(p: u32, a: u32, h: u32, groups: u32) -> Dragonfly {
        assert!(groups <= a * h + 1, "{groups} groups, but {} links of a group to others", a * h);
        Dragonfly { nodes_per_router: p, routers_per_group: a, global_per_router: h, groups }
    }

    fn routers(&self) -> u32 {
        self.routers_per_group * self.groups
    }

    /// The links between routers of the same group.
    fn local_links(&self) -> u32 {
        self.routers() * (self.routers_per_group - 1)
    }

    fn first_local(&self) -> Link {
        2 * self.nodes() + self.routers() * self.global_per_router
    }

    /// The link between two routers of a group.
    fn local(&self, from: u32, to: u32) -> Link {
        let (from_place, to_place) = (from % self.routers_per_group, to % self.routers_per_group);
        let slot = to_place - u32::from(to_place > from_place);
        self.first_local() + from * (self.routers_per_group - 1) + slot
    }

    /// The links from a group to each other group.
    fn bundle(&self) -> u32 {
        let others = (self.groups - 1).max(1);
        self.routers_per_group * self.global_per_router / others
    }

    /// The router of `group` that has link number `of_bundle` to the group `away` further on, and
    /// that link. The link with the same number leads back.
    fn gateway(&self, group: u32, away: u32, of_bundle: u32) -> (u32, Link) {
        let place = of_bundle * (self.groups - 1) + away - 1;
        let router = group * self.routers_per_group + place / self.global_per_router;
        let port = place % self.global_per_router;
        (router, 2 * self.nodes() + router * self.global_per_router + port)
    }

    /// The link that a message from a router takes to the group `away` further on.
    fn choose(&self, router: u32, away: u32, to: Node) -> u32 {
        let (others, bundle) = (self.groups - 1, self.bundle());
        let first = router % self.routers_per_group * self.global_per_router;
        // The router's own links: the places `first..first + h` that lead there.
        let from = (first + others - away) / others;
        let end = ((first + self.global_per_router + others - away) / others).min(bundle);
        match end.saturating_sub(from) {
            0 => to % bundle,
            own => from + to % own,
        }
    }
}

impl Topology for Dragonfly {
    fn name(&self) -> String {
        format!(
            "dragonfly of {} groups of {} routers, {} nodes each",
            self.groups, self.routers_per_group, self.nodes_per_router
        )
    }

    fn nodes(&self) -> u32 {
        self.routers() * self.nodes_per_router
    }

    /// Links are ordered as injection, ejection, global, local.
    fn links(&self) -> u32 {
        self.first_local() + self.local_links()
    }

    fn channels(&self) -> u32 {
        self.links() + self.local_links()
    }

    fn link_of(&self, channel: Channel) -> Link {
        if channel < self.links() { channel } else { channel - self.local_links() }
    }

    /// Unused global links lead back to their own router.
    fn link(&self, link: Link) -> LinkEnds {
        let nodes = self.nodes();
        let router_of = |node| Vertex::Switch(node / self.nodes_per_router);
        if link < nodes {
            return LinkEnds {
                from: Vertex::Node(link),
                to: router_of(link),
                class: LinkClass::Injection,
            };
        }
        if link < 2 * nodes {
            let node = link - nodes;
            return LinkEnds {
                from: router_of(node),
                to: Vertex::Node(node),
                class: LinkClass::Ejection,
            };
        }
        if link >= self.first_local() {
            let (from, slot) = {
                let offset = link - self.first_local();
                (offset / (self.routers_per_group - 1), offset % (self.routers_per_group - 1))
            };
            let place = from % self.routers_per_group;
            let to = from - place + slot + u32::from(slot >= place);
            let (from, to) = (Vertex::Switch(from), Vertex::Switch(to));
            return LinkEnds { from, to, class: LinkClass::Network(0) };
        }
        let offset = link - 2 * nodes;
        let router = offset / self.global_per_router;
        let group = router / self.routers_per_group;
        let place = offset - group * self.routers_per_group * self.global_per_router;
        let others = self.groups - 1;
        let to = match place < self.bundle() * others {
            true => {
                let (away, of_bundle) = (place % others + 1, place / others);
                self.gateway((group + away) % self.groups, self.groups - away, of_bundle).0
            }
            false => router,
        };
        let (from, to) = (Vertex::Switch(router), Vertex::Switch(to));
        LinkEnds { from, to, class: LinkClass::Network(1) }
    }

    fn route(&self, from: Node, to: Node, route: &mut Vec<Channel>) {
        let (first, last) = (from / self.nodes_per_router, to / self.nodes_per_router);
        let (home, target) = (first / self.routers_per_group, last / self.routers_per_group);
        route.push(from);
        if home == target {
            if first != last {
                route.push(self.local(first, last));
            }
        } else {
            let away = (target + self.groups - home) % self.groups;
            let of_bundle = self.choose(first, away, to);
            let (exit, global) = self.gateway(home, away, of_bundle);
            let (entry, _) = self.gateway(target, self.groups - away, of_bundle);
            if first != exit {
                route.push(self.local(first, exit));
            }
            route.push(global);
            if entry != last {
                route.push(self.local(entry, last) + self.local_links());
            }
        }
        route.push(self.nodes() + to);
    }
}

#[cfg(test)]
mod tests {
    use super::super::check_shape;
    use super::*;

    #[test]
    fn dragonflies_of_several_sizes_are_sound() {
        for (p, a, h) in [(1, 1, 1), (1, 2, 1), (2, 4, 2), (2, 3, 1)] {
            check_shape(&Dragonfly::new(p, a, h));
        }
        for (p, a, h, g) in [(2, 4, 2, 5), (2, 4, 2, 3), (1, 3, 4, 4), (2, 3, 5, 2), (3, 2, 2, 1)] {
            check_shape(&Dragonfly::with_groups(p, a, h, g));
        }
    }

    #[test]
    fn fewer_groups_use_more_links_to_each() {
        // 8 links of a group to 2 others: 4 to each, one at every router.
        let dragonfly = Dragonfly::with_groups(2, 4, 2, 3);
        assert_eq!(dragonfly.bundle(), 4);
        let global = |link: &Link| dragonfly.link(*link).class == LinkClass::Network(1);
        let mut used = std::collections::BTreeSet::new();
        for from in 0..dragonfly.nodes() {
            for to in 0..dragonfly.nodes() {
                let mut route = Vec::new();
                dragonfly.route(from, to, &mut route);
                used.extend(route.iter().map(|&c| dragonfly.link_of(c)).filter(global));
                // Every router has its own global link, so no local link precedes it.
                assert!(dragonfly.distance(from, to) <= 4, "{from} -> {to}");
            }
        }
        assert_eq!(used.len(), 3 * 8);
    }

    #[test]
    fn distances_by_hand() {
        // 9 groups of 4 routers with 2 nodes and 2 global links each: 72 nodes.
        let dragonfly = Dragonfly::new(2, 4, 2);
        assert_eq!(dragonfly.nodes(), 72);
        // Same router; same group; group 1 over router 0's own link, to the router that has it
        // (group 1's link back is its eighth, at its last router, nodes 14 and 15), or to another
        // router.
        let distances = [1, 7, 14, 8].map(|to| dragonfly.distance(0, to));
        assert_eq!(distances, [2, 3, 3, 4]);
        // The longest path: local, global, local.
        assert!((0..72).all(|to| dragonfly.distance(6, to) <= 5));
        assert_eq!(dragonfly.distance(6, 8), 5);
    }
}
