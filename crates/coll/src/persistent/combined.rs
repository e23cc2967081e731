//! Combines the data of a node's ranks for another node into one put a round (paper 002's future
//! work: to aggregate the communication of a node's processes into a representative's queues).
//!
//! The topology changes before queues are planned. One rank of each node represents its node
//! towards another one, and each edge between the two nodes becomes three:
//!
//! ```text
//!     node A                               node B
//!     r1 ──┐ gather                scatter ┌──► d1       gather and scatter stay in the node
//!     r2 ──┼──► a ═════════════════════► b ┼──► d2       cross: the data of all edges, side by
//!     r3 ──┘        cross, one put         └──► d3              side in an order that all know
//! ```
//!
//! For r and d an edge stays an edge: its other end is a queue of the representative, which sends
//! or receives its READY-TO-RECV. All of a rank's data for one other node is one such edge, with as
//! many puts as the data has places. New are the relays at a and b: queues that arrivals release
//! ([`QueueProgram::relay`]), so that no program is involved between a start and its wait. A
//! representative's wait lasts until its relays have done their part of the round.
//!
//! Data is in the order of its destinations, so that a destination gets one put where its edges'
//! places follow each other. Data is then gathered in pieces, but each source has its own queue for
//! that, while all scattering is in one queue.
//!
//! The cost is two hops within a node and two copies. Of e edges between two nodes, it saves e - 1
//! puts of data and as many READY-TO-RECVs. It also saves queues: a rank has one for all of its
//! edges (MRC) where some are combined, and two more for each other node towards which it
//! represents its own. A queue per edge (FAST) was tried: where a doorbell is expensive, as on
//! Tofu2, a rank's three or four doorbells took longer than all the rest (`docs/simulate.md`). So a
//! single edge between two nodes stays as it is. So do the edges of two nodes whose relays need
//! more slots or queues than there are.

use std::collections::BTreeMap;
use std::ops::Range;

use hikyaku_nic::fabric::Rank;

use super::plan::{Destination, PlanError, QueueLimits, Scheme, plan};
use super::program::QueueProgram;

/// An edge that ends at a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IncomingEnd {
    /// The sender.
    pub rank: Rank,
    /// Bytes per round.
    pub bytes: u64,
    /// The offset in the rank's buffer. `None`: the exchange may choose it.
    pub start: Option<u64>,
}

/// The properties of a rank that all ranks know.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeRank {
    /// The rank's node.
    pub node: u32,
    /// Queues for relays, and slots of each. A rank without slots takes no part: its edges stay as
    /// they are.
    pub room: QueueLimits,
    /// The destinations of its outgoing edges that queues serve, with the bytes per round of each.
    pub outs: Vec<(Rank, u64)>,
    /// Its incoming edges that queues serve.
    pub ins: Vec<IncomingEnd>,
}

/// Distinguishes the edges between two ranks; both ends use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Channel {
    /// An edge of the program.
    Direct,
    /// From a source to its representative, for this crossing.
    Gather(u32),
    /// Between representatives, for this crossing.
    Cross(u32),
    /// From a representative to a destination, for this crossing.
    Scatter(u32),
}

impl Channel {
    /// The crossing that the edge belongs to.
    pub fn crossing(self) -> Option<u32> {
        match self {
            Channel::Direct => None,
            Channel::Gather(crossing) | Channel::Cross(crossing) | Channel::Scatter(crossing) => {
                Some(crossing)
            }
        }
    }

    /// Slots of the receiving queue that its data releases: only relays are released by arrivals.
    pub fn releases(self) -> u32 {
        u32::from(matches!(self, Channel::Gather(_) | Channel::Cross(_)))
    }
}

/// An edge that leads away from a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutEdge {
    /// The peer's rank.
    pub peer: Rank,
    /// Distinguishes it from other edges to the same peer.
    pub channel: Channel,
    /// The indices of its puts among the rank's.
    pub puts: Range<usize>,
}

/// An edge that leads to a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InEdge {
    /// The peer's rank.
    pub peer: Rank,
    /// Distinguishes it from other edges from the same peer.
    pub channel: Channel,
    /// The program's edges whose data it carries, in the order of the data. Empty: it leads to a
    /// relay.
    pub edges: Vec<usize>,
}

/// A put of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EdgePut {
    /// The source of the data.
    pub from: PutSource,
    /// The target offset, relative to the place of the edge's data. It wraps if it lies before
    /// that.
    pub into: u64,
    /// The number of bytes.
    pub bytes: u64,
}

/// The source of a put's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PutSource {
    /// The data of this outgoing edge of the program.
    Edge(usize),
    /// An offset in the memory of this relay of the rank.
    Relay(usize, u64),
}

/// A relay at a rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// The program of its queue.
    pub program: QueueProgram,
    /// The size of its memory, in bytes.
    pub bytes: u64,
}

/// A rank's edges after those between nodes are combined. The program's own come first, those of
/// relays last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CombinedRank {
    /// The outgoing edges.
    pub outs: Vec<OutEdge>,
    /// The incoming edges.
    pub ins: Vec<InEdge>,
    /// The data of the outgoing edges.
    pub puts: Vec<EdgePut>,
    /// How many of `outs` and of `ins` belong to the program.
    pub own: (usize, usize),
    /// The relays.
    pub relays: Vec<Relay>,
    /// The relay of each of the remaining edges of `ins`.
    pub into: Vec<usize>,
}

/// The data from one node to another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Crossing {
    /// The representative of the sending node.
    from: Rank,
    /// The representative of the receiving node.
    to: Rank,
    /// In the order of the data: by destination.
    parts: Vec<CrossingPart>,
}

/// The data of one of the program's edges in a crossing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CrossingPart {
    /// The sender, and the index of its edge.
    source: (Rank, usize),
    /// The receiver, and the index of its edge.
    destination: (Rank, usize),
    /// The offset in the crossing's data.
    at: u64,
    bytes: u64,
    /// The offset in the destination's buffer.
    start: Option<u64>,
}

impl Crossing {
    /// A crossing with `parts` in the order of their destinations. Computes their offsets.
    fn new(mut parts: Vec<CrossingPart>) -> Crossing {
        let mut end = 0;
        for part in &mut parts {
            part.at = end;
            end += part.bytes;
        }
        Crossing { from: 0, to: 0, parts }
    }

    /// The bytes of all its data.
    fn bytes(&self) -> u64 {
        self.parts.last().map_or(0, |part| part.at + part.bytes)
    }

    /// The ranks that take part in it: sources, or destinations.
    fn ranks(&self, sources: bool) -> Vec<Rank> {
        let rank = |part: &CrossingPart| if sources { part.source.0 } else { part.destination.0 };
        let mut ranks: Vec<Rank> = self.parts.iter().map(rank).collect();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// The puts of a source's data to the representative: one for each of its edges.
    fn gather(&self, source: Rank) -> impl Iterator<Item = EdgePut> {
        let parts = self.parts.iter().filter(move |part| part.source.0 == source);
        parts.map(|part| EdgePut {
            from: PutSource::Edge(part.source.1),
            into: part.at,
            bytes: part.bytes,
        })
    }

    /// The parts for a destination.
    fn parts_to(&self, destination: Rank) -> impl Iterator<Item = &CrossingPart> {
        self.parts.iter().filter(move |part| part.destination.0 == destination)
    }

    /// The puts of this relay to a destination: one for each run of adjacent places there.
    fn scatter(&self, destination: Rank, relay: usize) -> Vec<EdgePut> {
        let first = self.parts_to(destination).next().expect("a destination has parts");
        let put = |part: &CrossingPart, into| EdgePut {
            from: PutSource::Relay(relay, part.at),
            into,
            bytes: part.bytes,
        };
        let mut puts: Vec<EdgePut> = Vec::new();
        for part in self.parts_to(destination).filter(|part| part.bytes > 0) {
            let into = match (part.start, first.start) {
                (Some(start), Some(first)) => start.wrapping_sub(first),
                _ => part.at - first.at,
            };
            match puts.last_mut() {
                Some(last) if last.into.wrapping_add(last.bytes) == into => {
                    last.bytes += part.bytes;
                }
                _ => puts.push(put(part, into)),
            }
        }
        if puts.is_empty() {
            // An empty put still reports the round.
            puts.push(put(first, 0));
        }
        puts
    }

    /// The slots of the longer of its two relays' programs.
    fn slots(&self) -> usize {
        let (sources, destinations) = (self.ranks(true), self.ranks(false));
        let puts = destinations.iter().map(|rank| self.scatter(*rank, 0).len()).sum::<usize>();
        // See `QueueProgram::relay`.
        (2 * sources.len() + 2).max(2 + destinations.len() + puts)
    }
}

/// Combines the edges of ranks, which form a consistent topology. All ranks compute the same
/// result.
pub fn combine(ranks: &[NodeRank]) -> Vec<CombinedRank> {
    let crossings = crossings(ranks);
    let mut all: Vec<CombinedRank> = ranks.iter().map(|_| CombinedRank::default()).collect();
    add_direct(ranks, &crossings, &mut all);
    for (number, crossing) in (0..).zip(&crossings) {
        for source in crossing.ranks(true) {
            let puts = crossing.gather(source);
            all[source as usize].add_out(crossing.from, Channel::Gather(number), puts);
        }
        for destination in crossing.ranks(false) {
            let edges = crossing.parts_to(destination).map(|part| part.destination.1).collect();
            let (peer, channel) = (crossing.to, Channel::Scatter(number));
            all[destination as usize].ins.push(InEdge { peer, channel, edges });
        }
    }
    for rank in &mut all {
        rank.own = (rank.outs.len(), rank.ins.len());
    }
    for (number, crossing) in (0..).zip(&crossings) {
        let bytes = crossing.bytes();
        all[crossing.from as usize].add_relay(bytes, |rank, relay| {
            for source in crossing.ranks(true) {
                rank.add_in(source, Channel::Gather(number), relay);
            }
            let put = EdgePut { from: PutSource::Relay(relay, 0), into: 0, bytes };
            rank.add_out(crossing.to, Channel::Cross(number), [put].into_iter());
        });
        all[crossing.to as usize].add_relay(bytes, |rank, relay| {
            rank.add_in(crossing.from, Channel::Cross(number), relay);
            for destination in crossing.ranks(false) {
                let puts = crossing.scatter(destination, relay).into_iter();
                rank.add_out(destination, Channel::Scatter(number), puts);
            }
        });
    }
    all
}

/// Adds the edges that are not combined to each rank.
fn add_direct(ranks: &[NodeRank], crossings: &[Crossing], all: &mut [CombinedRank]) {
    let combined = |ends: fn(&CrossingPart) -> (Rank, usize)| {
        let parts = crossings.iter().flat_map(|crossing| &crossing.parts);
        let mut ends: Vec<(Rank, usize)> = parts.map(ends).collect();
        ends.sort_unstable();
        ends
    };
    let (outs, ins) = (combined(|part| part.source), combined(|part| part.destination));
    for ((number, rank), own) in (0..).zip(ranks).zip(all) {
        for (edge, (peer, bytes)) in rank.outs.iter().enumerate() {
            if outs.binary_search(&(number, edge)).is_err() {
                let put = EdgePut { from: PutSource::Edge(edge), into: 0, bytes: *bytes };
                own.add_out(*peer, Channel::Direct, [put].into_iter());
            }
        }
        for (edge, end) in rank.ins.iter().enumerate() {
            if ins.binary_search(&(number, edge)).is_err() {
                let (peer, channel) = (end.rank, Channel::Direct);
                own.ins.push(InEdge { peer, channel, edges: vec![edge] });
            }
        }
    }
}

impl CombinedRank {
    fn add_out(&mut self, peer: Rank, channel: Channel, puts: impl Iterator<Item = EdgePut>) {
        let first = self.puts.len();
        self.puts.extend(puts);
        self.outs.push(OutEdge { peer, channel, puts: first..self.puts.len() });
    }

    fn add_in(&mut self, peer: Rank, channel: Channel, relay: usize) {
        self.ins.push(InEdge { peer, channel, edges: Vec::new() });
        self.into.push(relay);
    }

    /// Adds a relay between the edges that `add` adds.
    fn add_relay(&mut self, bytes: u64, add: impl FnOnce(&mut CombinedRank, usize)) {
        let (outs, ins) = (self.outs.len(), self.ins.len());
        let puts = self.puts.len();
        add(self, self.relays.len());
        let incoming: Vec<usize> = (ins..self.ins.len()).collect();
        let destinations = self.outs.len() - outs;
        let program = QueueProgram::relay(&incoming, destinations, puts..self.puts.len());
        self.relays.push(Relay { program, bytes });
    }

    /// Programs of queues for the program's edges. One queue serves all if some are combined.
    ///
    /// # Errors
    /// The edges do not fit the queues.
    pub fn plan(
        &self,
        limits: QueueLimits,
        wish: Option<Scheme>,
    ) -> Result<Vec<QueueProgram>, PlanError> {
        let (outs, ins) = (&self.outs[..self.own.0], &self.ins[..self.own.1]);
        let channels = outs.iter().map(|out| out.channel).chain(ins.iter().map(|end| end.channel));
        let is_combined = channels.into_iter().any(|channel| channel != Channel::Direct);
        let wish = if is_combined { Some(Scheme::Mrc) } else { wish };
        let sources: Vec<Rank> = ins.iter().map(|end| end.peer).collect();
        let to = outs.iter().map(|out| Destination { rank: out.peer, puts: out.puts.len() });
        plan(&sources, &to.collect::<Vec<_>>(), limits, wish)
    }

    /// The puts of the program's own edges.
    pub fn own_puts(&self) -> &[EdgePut] {
        let end = self.outs[..self.own.0].last().map_or(0, |edge| edge.puts.end);
        &self.puts[..end]
    }
}

/// The data from node to node, with representatives: for each pair of nodes, the two ranks that
/// have represented the fewest pairs so far.
fn crossings(ranks: &[NodeRank]) -> Vec<Crossing> {
    let asks = |rank: Rank| ranks[rank as usize].room.slots > 0;
    let node = |rank: Rank| ranks[rank as usize].node;
    let is_between = |from, to| node(from) != node(to) && asks(from) && asks(to);
    let mut edges: BTreeMap<(Rank, Rank), Vec<usize>> = BTreeMap::new();
    for (from, rank) in (0..).zip(ranks) {
        let outs = rank.outs.iter().map(|(to, _)| *to).enumerate();
        for (edge, to) in outs.filter(|(_, to)| is_between(from, *to)) {
            edges.entry((from, to)).or_default().push(edge);
        }
    }
    let mut parts: BTreeMap<(u32, u32), Vec<CrossingPart>> = BTreeMap::new();
    let mut met: BTreeMap<(Rank, Rank), usize> = BTreeMap::new();
    for (to, rank) in (0..).zip(ranks) {
        for (edge, end) in rank.ins.iter().enumerate().filter(|(_, end)| is_between(end.rank, to)) {
            // Several edges between two ranks are matched in the order of both lists.
            let before = met.entry((end.rank, to)).or_default();
            let source = (end.rank, edges[&(end.rank, to)][*before]);
            *before += 1;
            let (destination, bytes, start) = ((to, edge), end.bytes, end.start);
            let part = CrossingPart { source, destination, at: 0, bytes, start };
            parts.entry((node(end.rank), node(to))).or_default().push(part);
        }
    }
    let slots = ranks.iter().map(|rank| rank.room.slots).filter(|slots| *slots > 0).min();
    let crossing = |(nodes, parts): (_, Vec<CrossingPart>)| (nodes, Crossing::new(parts));
    let pays =
        |(_, it): &(_, Crossing)| it.parts.len() > 1 && it.slots() <= slots.unwrap_or(0) as usize;
    let crossings: BTreeMap<_, _> = parts.into_iter().map(crossing).filter(pays).collect();
    represent(ranks, crossings)
}

/// Assigns representatives to crossings. A crossing for which no queue is left is not made.
fn represent(ranks: &[NodeRank], mut all: BTreeMap<(u32, u32), Crossing>) -> Vec<Crossing> {
    let mut relays = vec![0; ranks.len()];
    let mut done = Vec::new();
    while let Some(((one, other), there)) = all.pop_first() {
        let back = all.remove(&(other, one));
        let count = 1 + u32::from(back.is_some());
        // A participating rank: its wait depends on the other node anyway.
        let least = |leave: bool| {
            let mut with = there.ranks(leave);
            with.extend(back.iter().flat_map(|back| back.ranks(!leave)));
            let room = |rank: &Rank| {
                let at = *rank as usize;
                relays[at] + count <= ranks[at].room.queues
            };
            with.into_iter().filter(room).min_by_key(|rank| (relays[*rank as usize], *rank))
        };
        if let (Some(near), Some(far)) = (least(true), least(false)) {
            relays[near as usize] += count;
            relays[far as usize] += count;
            done.push(Crossing { from: near, to: far, ..there });
            done.extend(back.map(|back| Crossing { from: far, to: near, ..back }));
        }
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: QueueLimits = QueueLimits { queues: 8, slots: 64 };

    /// Ranks on nodes of `per_node`, with edges of 4 bytes and no fixed offsets.
    fn job(ranks: u32, per_node: u32, edges: &[(Rank, Rank)]) -> Vec<NodeRank> {
        let rank = |rank| NodeRank {
            node: rank / per_node,
            room: ROOM,
            outs: edges.iter().filter(|edge| edge.0 == rank).map(|edge| (edge.1, 4)).collect(),
            ins: edges
                .iter()
                .filter(|edge| edge.1 == rank)
                .map(|edge| IncomingEnd { rank: edge.0, bytes: 4, start: None })
                .collect(),
        };
        (0..ranks).map(rank).collect()
    }

    fn all_to_all(ranks: u32) -> Vec<(Rank, Rank)> {
        (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to))).collect()
    }

    fn relays(combined: &[CombinedRank]) -> Vec<usize> {
        combined.iter().map(|rank| rank.relays.len()).collect()
    }

    #[test]
    fn every_pair_of_nodes_has_one_edge_each_way_and_representatives_take_turns() {
        let ranks = job(6, 2, &all_to_all(6));
        let ends: Vec<_> = crossings(&ranks).iter().map(|it| (it.from, it.to)).collect();
        let combined = combine(&ranks);
        assert_eq!(ends, [(0, 2), (2, 0), (1, 4), (4, 1), (3, 5), (5, 3)]);
        assert_eq!(relays(&combined), [2; 6]);
        let CombinedRank { outs, ins, own, .. } = &combined[1];
        let own: Vec<_> = outs[..own.0].iter().map(|edge| (edge.peer, edge.channel)).collect();
        let direct = [(0, Channel::Direct), (1, Channel::Direct)];
        assert_eq!(own[..2], direct);
        assert_eq!(own[2..], [(0, Channel::Gather(0)), (1, Channel::Gather(2))]);
        // From its sources, and for the crossing back from the other representative.
        let relayed: Vec<_> = ins[4..].iter().map(|edge| (edge.peer, edge.channel)).collect();
        let gather = Channel::Gather(2);
        assert_eq!(relayed, [(0, gather), (1, gather), (4, Channel::Cross(3))]);
    }

    #[test]
    fn data_lies_by_destination_and_goes_there_as_one_put() {
        let combined = combine(&job(4, 2, &[(0, 2), (0, 3), (1, 2), (1, 3), (1, 2)]));
        let source = &combined[1];
        let put = |edge, into| EdgePut { from: PutSource::Edge(edge), into, bytes: 4 };
        assert_eq!(source.own_puts(), [put(0, 4), put(2, 8), put(1, 16)]);
        let scatter = &combined[2];
        let put = |at, bytes| EdgePut { from: PutSource::Relay(0, at), into: 0, bytes };
        assert_eq!(scatter.puts, [put(0, 12), put(12, 8)]);
        assert_eq!(scatter.ins[0].edges, [0, 1, 2]);
        assert_eq!(scatter.relays[0].bytes, 20);
    }

    #[test]
    fn places_that_do_not_follow_each_other_get_a_put_each() {
        let mut ranks = job(3, 2, &[(0, 2), (1, 2), (0, 2), (1, 2)]);
        for (end, (start, bytes)) in
            ranks[2].ins.iter_mut().zip([(100, 4), (104, 8), (7, 0), (96, 4)])
        {
            (end.start, end.bytes) = (Some(start), bytes);
        }
        let scatter = &combine(&ranks)[2];
        let put = |at, into, bytes| EdgePut { from: PutSource::Relay(0, at), into, bytes };
        assert_eq!(scatter.puts, [put(0, 0, 12), put(12, 4u64.wrapping_neg(), 4)]);
        ranks[2].ins.iter_mut().for_each(|end| end.bytes = 0);
        assert_eq!(combine(&ranks)[2].puts, [put(0, 0, 0)], "it is notified");
    }

    #[test]
    fn edges_that_gain_nothing_or_did_not_ask_stay_as_they_are() {
        let none = |ranks: &[NodeRank]| {
            let combined = combine(ranks);
            assert_eq!(relays(&combined), vec![0; ranks.len()]);
            let edges = combined.iter().flat_map(|rank| &rank.outs);
            assert!(edges.into_iter().all(|edge| edge.channel == Channel::Direct));
        };
        none(&job(4, 4, &all_to_all(4)));
        none(&job(4, 2, &[(0, 2), (2, 0), (3, 3)]));
        let mut asks_not = job(4, 2, &[(0, 2), (1, 2)]);
        asks_not[1].room = QueueLimits::default();
        none(&asks_not);
    }

    #[test]
    fn tf_19_a_relay_without_slots_or_queues_is_not_made() {
        let edges = [(0, 2), (1, 2), (0, 4), (1, 4)];
        let with = |queues, slots| {
            let mut ranks = job(6, 2, &edges);
            ranks.iter_mut().for_each(|rank| rank.room = QueueLimits { queues, slots });
            combine(&ranks)
        };
        assert_eq!(relays(&with(1, 6)), [1, 1, 1, 0, 1, 0]);
        assert_eq!(relays(&with(1, 5)), [0; 6], "two of each source, and two");
        assert_eq!(relays(&with(0, 6)), [0; 6]);
        let mut ranks = job(6, 2, &edges);
        ranks[1].room.queues = 0;
        assert_eq!(relays(&combine(&ranks)), [2, 0, 1, 0, 1, 0]);
    }
}
