//! What an algorithm would take on a machine whose costs of a message are known.
//!
//! The model is LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995) with two additions. Overheads
//! and gaps depend on the length, which machines do not follow a straight line in (PLogP: Kielmann,
//! Bal, Verstoep 2000). And ranks that all send at once share links, as many as the busiest link
//! has routes (LoGPC: Moritz, Frank 1998): without that, doubling distances on a dragonfly look
//! ten times as fast as they are.
//!
//! ```text
//!   one_way   o + L + (m - 1) G + o      one message, from its send to the end of its receive
//!   send      max(o, g) at length m      a further message of a rank that sends several
//!   chained   the same                   of sends that are one chain
//!   receive   the same                   a further message of several that come to one rank
//!   exchange  the same                   a further message each way, of a rank that does both
//! ```
//!
//! The estimates are beside each other, and not with their algorithms, as the names are: the table
//! that asks for them imports no algorithm. They are of ranks that each have a node of their own;
//! combining and copying within a rank takes no time. `None`: there is no estimate, since the
//! algorithm is no matter of messages alone or does not suit the ranks.

use crate::algorithms::broadcast::SEGMENT;
use crate::algorithms::{
    allgather, allreduce, alltoall, barrier, broadcast, gather, reduce, reduce_scatter, scatter,
};

/// What messages of one length cost, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MessageCosts {
    /// The length, bytes.
    pub bytes: usize,
    /// One message, from the start of its send to the end of its receive.
    pub one_way: f64,
    /// A further message of a rank that sends to several, one after the other.
    pub send: f64,
    /// A further message of a chain of sends.
    pub chained: f64,
    /// A further message at a rank that receives from several.
    pub receive: f64,
    /// A further message each way at a rank that sends to several, as a chain, and receives.
    pub exchange: f64,
}

/// The busiest link of a network between ranks that send at the same time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sharing {
    /// Messages on it if every rank sends to the rank 2^k further on, by k.
    pub shifts: Vec<u32>,
    /// Messages on it if every rank sends to all others.
    pub all_to_all: f64,
    /// Seconds that a byte takes on it.
    pub byte: f64,
}

/// What messages cost on a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// At lengths in rising order; at least one.
    lengths: Vec<MessageCosts>,
    sharing: Sharing,
}

impl Costs {
    /// Costs at some lengths, in rising order, and how messages share links. `None`: no lengths.
    pub fn new(lengths: Vec<MessageCosts>, sharing: Sharing) -> Option<Costs> {
        (!lengths.is_empty()).then_some(Costs { lengths, sharing })
    }

    /// A cost at any length: on the straight line between the two lengths around it, or of the last
    /// two beyond them.
    fn at(&self, bytes: usize, of: fn(&MessageCosts) -> f64) -> f64 {
        let above = self.lengths.partition_point(|costs| costs.bytes < bytes);
        let last = self.lengths.len() - 1;
        let (low, high) = match above.min(last) {
            0 => return of(&self.lengths[0]),
            high => (&self.lengths[high - 1], &self.lengths[high]),
        };
        let slope = (of(high) - of(low)) / (high.bytes - low.bytes).max(1) as f64;
        (of(low) + slope * (bytes as f64 - low.bytes as f64)).max(0.0)
    }

    fn one_way(&self, bytes: usize) -> f64 {
        self.at(bytes, |costs| costs.one_way)
    }

    /// A message, and one for each further rank whose message follows it.
    fn series(&self, ranks: u32, bytes: usize, of: fn(&MessageCosts) -> f64) -> f64 {
        self.one_way(bytes) + f64::from(ranks.saturating_sub(2)) * self.at(bytes, of)
    }

    /// All ranks send to the rank so far on, a power of two, and receive.
    fn shift(&self, distance: u32, bytes: usize) -> f64 {
        let messages = self.sharing.shifts.get(distance.ilog2() as usize).copied().unwrap_or(1);
        let waits = f64::from(messages.saturating_sub(1)) * bytes as f64 * self.sharing.byte;
        self.one_way(bytes) + waits
    }

    /// The same to the next rank, over and over until everything was everywhere.
    fn round(&self, ranks: u32, bytes: usize) -> f64 {
        f64::from(ranks.saturating_sub(1)) * self.shift(1, bytes)
    }

    /// The same at all distances in turn, each as at the power of two before it.
    fn pairwise(&self, ranks: u32, bytes: usize) -> f64 {
        let distances = |from: u32| f64::from(from.min(ranks - from));
        doubling(ranks).map(|from| distances(from) * self.shift(from, bytes)).sum()
    }

    /// Everybody to everybody at once: what the ranks take, or the busiest link.
    fn all_at_once(&self, ranks: u32, bytes: usize) -> f64 {
        let on_link = self.sharing.all_to_all * bytes as f64 * self.sharing.byte;
        self.series(ranks, bytes, |costs| costs.exchange).max(on_link)
    }

    /// A tree whose messages halve in parts from the root on, one at a time on the longest path.
    fn halving(&self, ranks: u32, part: usize) -> f64 {
        doubling(ranks).map(|parts| self.one_way(times(parts.min(ranks - parts), part))).sum()
    }

    /// A message on each level of a binomial tree.
    fn binomial(&self, ranks: u32, bytes: usize) -> f64 {
        doubling(ranks).map(|_| self.one_way(bytes)).sum()
    }

    /// Up a tree of so many children a rank, and down.
    fn up_and_down(&self, ranks: u32, arity: u32) -> f64 {
        let (mut levels, mut width, mut reach) = (0.0, 1u64, 1u64);
        while reach < u64::from(ranks) {
            width *= u64::from(arity);
            reach += width;
            levels += 1.0;
        }
        let children = ranks.min(arity + 1);
        let [up, down] = [|costs: &MessageCosts| costs.receive, |costs: &MessageCosts| costs.send];
        levels * (self.series(children, 0, up) + self.series(children, 0, down))
    }
}

/// 1, 2, 4, … below `ranks`.
fn doubling(ranks: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(1u32), |from| from.checked_mul(2)).take_while(move |it| *it < ranks)
}

fn times(parts: u32, part: usize) -> usize {
    part.saturating_mul(parts as usize)
}

/// An algorithm's time for an operation of `ranks` ranks, with `bytes` bytes a part, in seconds.
pub(crate) trait Estimate: Copy + 'static {
    /// Estimates it. `bytes` are those of [`crate::chosen`].
    fn estimate(self, ranks: u32, bytes: usize, costs: &Costs) -> Option<f64>;
}

impl Estimate for barrier::Algorithm {
    fn estimate(self, ranks: u32, _: usize, costs: &Costs) -> Option<f64> {
        match self {
            Self::WideTree => Some(costs.up_and_down(ranks, 16)),
            Self::BinaryTree => Some(costs.up_and_down(ranks, 2)),
            Self::Dissemination => Some(doubling(ranks).map(|far| costs.shift(far, 0)).sum()),
            Self::AllToAll => Some(costs.all_at_once(ranks, 0)),
            Self::AtomicAdd | Self::MulticastAdd | Self::Sync | Self::Lines => None,
        }
    }
}

impl Estimate for broadcast::Algorithm {
    fn estimate(self, ranks: u32, bytes: usize, costs: &Costs) -> Option<f64> {
        match self {
            Self::Binomial => Some(costs.binomial(ranks, bytes)),
            // A chain starts its first message no earlier, and that is on the longest path.
            Self::BinaryTree => ranks.is_power_of_two().then(|| costs.binomial(ranks, bytes)),
            Self::PointToPoint => Some(costs.series(ranks, bytes, |costs| costs.send)),
            Self::Pipelined => {
                let (segment, segments) = (bytes.min(SEGMENT), bytes / SEGMENT + 1);
                let steps = segments as f64 + f64::from(ranks.saturating_sub(2));
                Some(steps * costs.one_way(segment))
            }
            Self::System | Self::Multicast | Self::Lines | Self::Read => None,
        }
    }
}

impl Estimate for reduce::Algorithm {
    fn estimate(self, ranks: u32, bytes: usize, costs: &Costs) -> Option<f64> {
        match self {
            Self::Binomial => Some(costs.binomial(ranks, bytes)),
            Self::Linear => Some(costs.series(ranks, bytes, |costs| costs.receive)),
            Self::Lines => None,
        }
    }
}

impl Estimate for allreduce::Algorithm {
    fn estimate(self, ranks: u32, bytes: usize, costs: &Costs) -> Option<f64> {
        match self {
            Self::RecursiveDoubling => {
                // Other numbers of ranks are folded to a power of two and unfolded.
                let places = 1 << ranks.ilog2();
                let folds = if places < ranks { 2.0 } else { 0.0 };
                let exchanges: f64 = doubling(places).map(|far| costs.shift(far, bytes)).sum();
                Some(exchanges + folds * costs.one_way(bytes))
            }
            Self::Ring => Some(2.0 * costs.round(ranks, bytes.div_ceil(ranks as usize))),
            Self::TwoLevel | Self::Lines | Self::Read => None,
        }
    }
}

impl Estimate for gather::Algorithm {
    fn estimate(self, ranks: u32, bytes: usize, costs: &Costs) -> Option<f64> {
        match self {
            Self::Chained | Self::Linear => Some(costs.series(ranks, bytes, |costs| costs.receive)),
            Self::Binomial => Some(costs.halving(ranks, bytes)),
            Self::Lines => None,
        }
    }
}

impl Estimate for scatter::Algorithm {
    fn estimate(self, ranks: u32, bytes: usize, costs: &Costs) -> Option<f64> {
        match self {
            Self::Chained => Some(costs.series(ranks, bytes, |costs| costs.chained)),
            Self::Linear => Some(costs.series(ranks, bytes, |costs| costs.send)),
            Self::Binomial => Some(costs.halving(ranks, bytes)),
            Self::Lines => None,
        }
    }
}

impl Estimate for allgather::Algorithm {
    fn estimate(self, ranks: u32, bytes: usize, costs: &Costs) -> Option<f64> {
        let shift = |far: u32| costs.shift(far, times(far.min(ranks - far), bytes));
        match self {
            Self::Ring => Some(costs.round(ranks, bytes)),
            Self::Bruck => Some(doubling(ranks).map(shift).sum()),
            // Other numbers of ranks are folded, which is never faster than Bruck's.
            Self::Butterfly => ranks.is_power_of_two().then(|| doubling(ranks).map(shift).sum()),
            Self::Lines | Self::Read => None,
        }
    }
}

impl Estimate for alltoall::Algorithm {
    fn estimate(self, ranks: u32, bytes: usize, costs: &Costs) -> Option<f64> {
        // Parts whose number of ranks to go has this bit.
        let parts = |bit: u32| ranks / (2 * bit) * bit + (ranks % (2 * bit)).saturating_sub(bit);
        match self {
            Self::Pairwise => Some(costs.pairwise(ranks, bytes)),
            Self::Chained => Some(costs.all_at_once(ranks, bytes)),
            Self::Bruck => {
                Some(doubling(ranks).map(|bit| costs.shift(bit, times(parts(bit), bytes))).sum())
            }
            Self::TwoLevel | Self::Lines | Self::Read => None,
        }
    }
}

impl Estimate for reduce_scatter::Algorithm {
    fn estimate(self, ranks: u32, bytes: usize, costs: &Costs) -> Option<f64> {
        match self {
            Self::ReduceThenScatter => {
                let scatter = costs.series(ranks, bytes, |costs| costs.chained);
                Some(costs.binomial(ranks, times(ranks, bytes)) + scatter)
            }
            Self::Pairwise => Some(costs.pairwise(ranks, bytes)),
            Self::Ring => Some(costs.round(ranks, bytes)),
            Self::Lines | Self::Read => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A byte a nanosecond between ranks, 1 us a message, of which the sender has 100 ns and the
    /// receiver 200.
    fn costs(shifts: Vec<u32>) -> Costs {
        let of = |bytes: usize| {
            let wire = bytes as f64 * 1e-9;
            let [send, receive] = [1e-7, 2e-7].map(|overhead: f64| overhead.max(wire));
            let both = receive.max(3e-7);
            let one_way = 1e-6 + wire;
            MessageCosts { bytes, one_way, send, chained: send, receive, exchange: both }
        };
        let all_to_all = shifts.iter().copied().map(f64::from).sum();
        let sharing = Sharing { shifts, all_to_all, byte: 1e-9 };
        Costs::new(vec![of(8), of(1 << 10)], sharing).expect("there are lengths")
    }

    fn is_near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-12
    }

    #[test]
    fn lengths_between_and_beyond_are_on_straight_lines() {
        let costs = costs(vec![1]);
        assert!(is_near(costs.one_way(0), costs.one_way(8)));
        assert!(is_near(costs.one_way(500), 1.5e-6));
        assert!(is_near(costs.one_way(5_000), 6e-6));
        assert_eq!(Costs::new(Vec::new(), Sharing::default()), None);
    }

    #[test]
    fn estimates_are_the_messages_on_the_longest_path() {
        let costs = costs(vec![1, 1, 1]);
        let by = gather::Algorithm::Chained.estimate(8, 1_000, &costs);
        assert!(by.is_some_and(|time| is_near(time, 2e-6 + 6.0 * costs.at(1_000, |c| c.receive))));
        // 1, 2 and 4 parts of the 8; of 6 ranks 1, 2 and 2.
        let by = |ranks| gather::Algorithm::Binomial.estimate(ranks, 1_000, &costs);
        assert!(by(8).is_some_and(|time| is_near(time, 3e-6 + 7e-6)));
        assert!(by(6).is_some_and(|time| is_near(time, 3e-6 + 5e-6)));
        // Of 6 parts 1, 3 and 5 have the lowest bit, 2 and 3 the next, 4 and 5 the last.
        let bruck = alltoall::Algorithm::Bruck.estimate(6, 1_000, &costs);
        assert!(bruck.is_some_and(|time| is_near(time, 3e-6 + 7e-6)));
        let chain = broadcast::Algorithm::Pipelined.estimate(5, 4 * SEGMENT, &costs);
        assert!(chain.is_some_and(|time| is_near(time, 8.0 * costs.one_way(SEGMENT))));
    }

    #[test]
    fn messages_that_share_a_link_wait_for_each_other() {
        let (alone, shared) = (costs(vec![1, 1, 1]), costs(vec![1, 2, 4]));
        let by = |by: allgather::Algorithm, costs| by.estimate(8, 1_000, costs).unwrap_or(0.0);
        let ring = |costs| by(allgather::Algorithm::Ring, costs);
        assert!(is_near(ring(&alone), ring(&shared)));
        let doubling = |costs| by(allgather::Algorithm::Butterfly, costs);
        // One more message of 2 parts, three more of 4.
        assert!(is_near(doubling(&shared), doubling(&alone) + 14e-6));
        assert!(doubling(&alone) < ring(&alone) && doubling(&shared) > ring(&shared));
    }
}
