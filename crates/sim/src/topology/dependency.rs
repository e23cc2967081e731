//! The channel dependency graph: whether the routes of a shape can wait for each other in a cycle.
//!
//! Channel `a` depends on channel `b` if some route takes `b` right after `a`: the holder of `a`
//! may wait for `b`. Without a cycle there is an order of the channels in which every holder waits
//! only for later ones, so the holder of the last one always makes progress (Dally, Seitz 1987).

use std::collections::BTreeSet;

use super::{Channel, Topology};

/// Channels that wait for each other in a cycle, or `None` without such a cycle.
///
/// Walks every route: meant for tests and for shapes of up to a few hundred nodes.
pub fn find_cycle(topology: &dyn Topology) -> Option<Vec<Channel>> {
    cycle_of(&dependencies(topology))
}

/// For each channel, the channels that some route takes next.
fn dependencies(topology: &dyn Topology) -> Vec<BTreeSet<Channel>> {
    let mut next = vec![BTreeSet::new(); topology.channels() as usize];
    let mut route = Vec::new();
    for from in 0..topology.nodes() {
        for to in 0..topology.nodes() {
            route.clear();
            topology.route(from, to, &mut route);
            for pair in route.windows(2) {
                next[pair[0] as usize].insert(pair[1]);
            }
        }
    }
    next
}

/// Depth-first search with the path on an explicit stack: shapes may have thousands of channels.
fn cycle_of(next: &[BTreeSet<Channel>]) -> Option<Vec<Channel>> {
    #[derive(Clone, Copy, PartialEq)]
    enum Visit {
        New,
        OnPath,
        Done,
    }
    let mut marks = vec![Visit::New; next.len()];
    for start in 0..next.len() as Channel {
        if marks[start as usize] != Visit::New {
            continue;
        }
        marks[start as usize] = Visit::OnPath;
        let mut path = vec![(start, next[start as usize].iter())];
        while let Some((channel, rest)) = path.last_mut() {
            match rest.next() {
                None => {
                    marks[*channel as usize] = Visit::Done;
                    path.pop();
                }
                Some(&follower) => match marks[follower as usize] {
                    Visit::Done => {}
                    Visit::New => {
                        marks[follower as usize] = Visit::OnPath;
                        path.push((follower, next[follower as usize].iter()));
                    }
                    Visit::OnPath => {
                        let circle = path.iter().map(|step| step.0);
                        return Some(circle.skip_while(|&channel| channel != follower).collect());
                    }
                },
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::{LinkClass, LinkEnds, Node, Vertex};
    use super::*;

    /// A ring of four in one direction, without virtual channels: the textbook deadlock.
    #[derive(Debug)]
    struct Ring;

    impl Topology for Ring {
        fn name(&self) -> String {
            "ring".into()
        }

        fn nodes(&self) -> u32 {
            4
        }

        fn links(&self) -> u32 {
            4
        }

        fn link(&self, link: u32) -> LinkEnds {
            let (from, to) = (Vertex::Node(link), Vertex::Node((link + 1) % 4));
            LinkEnds { from, to, class: LinkClass::Network(0) }
        }

        fn route(&self, from: Node, to: Node, route: &mut Vec<Channel>) {
            let steps = (to + 4 - from) % 4;
            route.extend((0..steps).map(|step| (from + step) % 4));
        }
    }

    #[test]
    fn the_textbook_deadlock_is_found() {
        let mut cycle = find_cycle(&Ring).unwrap();
        cycle.sort_unstable();
        assert_eq!(cycle, [0, 1, 2, 3]);
    }

    #[test]
    fn chains_and_diamonds_are_no_circles() {
        let edges = |lists: &[&[u32]]| -> Vec<BTreeSet<u32>> {
            lists.iter().map(|list| list.iter().copied().collect()).collect()
        };
        assert_eq!(cycle_of(&edges(&[&[1, 2], &[3], &[3], &[]])), None);
        assert_eq!(cycle_of(&edges(&[&[1], &[2], &[1]])), Some(vec![1, 2]));
        assert_eq!(cycle_of(&edges(&[&[0]])), Some(vec![0]));
    }
}
