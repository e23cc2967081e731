//! Estimates of an algorithm's time on a machine with known costs of messages.
//!
//! The model is LogGP (Alexandrov, Ionescu, Schauser, Scheiman 1995) with two additions. Overheads
//! and gaps depend on the length, because machines are not linear in it (PLogP: Kielmann, Bal,
//! Verstoep 2000). And ranks that all send at once share links, as many as the busiest link has
//! routes (LoGPC: Moritz, Frank 1998): without that, doubling distances on a dragonfly seem ten
//! times as fast as they are.
//!
//! ```text
//!   one_way   o + L + (m - 1) G + o      one message, from its send to the end of its receive
//!   send      max(o, g) at length m      a further message of a rank that sends several
//!   chained   the same                   of sends that are one chain
//!   receive   the same                   a further message at a rank that receives several
//!   exchange  the same                   a further message each way, of a rank that does both
//! ```
//!
//! The estimates are collected here, not beside their algorithms, like the names: the table that
//! uses them imports no algorithm. They are for ranks that each have a node of their own; combining
//! and copying within a rank takes no time. `None`: there is no estimate, because the algorithm
//! uses more than messages or does not suit the number of ranks.

use crate::algorithms::broadcast::SEGMENT;
use crate::algorithms::{
    allgather, allreduce, alltoall, barrier, broadcast, gather, reduce, reduce_scatter, scatter,
};

/// The costs of messages of one length, in seconds.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct MessageCosts {
    /// The length, in bytes.
    pub bytes: usize,
    /// One message, from the start of its send to the end of its receive.
    pub one_way: f64,
    /// A further message of a rank that sends several, one after the other.
    pub send: f64,
    /// A further message of a chain of sends.
    pub chained: f64,
    /// A further message at a rank that receives several.
    pub receive: f64,
    /// A further message each way at a rank that sends several, as a chain, and receives.
    pub exchange: f64,
}

/// The contention on the busiest link between ranks that send at the same time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sharing {
    /// Messages on it if every rank sends to the rank 2^k further on, by k.
    pub shifts: Vec<u32>,
    /// Messages on it if every rank sends to all others.
    pub all_to_all: f64,
    /// The time of a byte on it, in seconds.
    pub byte: f64,
}

/// The costs of messages on a machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Costs {
    /// By length, ascending; at least one.
    lengths: Vec<MessageCosts>,
    sharing: Sharing,
}

impl Costs {
    /// Costs at some lengths, ascending, and the sharing of links. `None`: no lengths.
    pub fn new(lengths: Vec<MessageCosts>, sharing: Sharing) -> Option<Costs> {
        (!lengths.is_empty()).then_some(Costs { lengths, sharing })
    }

    /// A cost at any length, interpolated between the two lengths around it, or extrapolated from
    /// the last two.
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

    /// One message, and a further one for each further rank.
    fn series(&self, ranks: u32, bytes: usize, of: fn(&MessageCosts) -> f64) -> f64 {
        self.one_way(bytes) + f64::from(ranks.saturating_sub(2)) * self.at(bytes, of)
    }

    /// All ranks send to the rank `distance` further on, a power of two, and receive.
    fn shift(&self, distance: u32, bytes: usize) -> f64 {
        let messages = self.sharing.shifts.get(distance.ilog2() as usize).copied().unwrap_or(1);
        let waits = f64::from(messages.saturating_sub(1)) * bytes as f64 * self.sharing.byte;
        self.one_way(bytes) + waits
    }

    /// A shift to the next rank, repeated until all data has been everywhere.
    fn round(&self, ranks: u32, bytes: usize) -> f64 {
        f64::from(ranks.saturating_sub(1)) * self.shift(1, bytes)
    }

    /// Shifts at all distances in turn, each with the cost of the power of two before it.
    fn pairwise(&self, ranks: u32, bytes: usize) -> f64 {
        let distances = |from: u32| f64::from(from.min(ranks - from));
        doubling(ranks).map(|from| distances(from) * self.shift(from, bytes)).sum()
    }

    /// All ranks to all at once: the time of the ranks or of the busiest link.
    fn all_at_once(&self, ranks: u32, bytes: usize) -> f64 {
        let on_link = self.sharing.all_to_all * bytes as f64 * self.sharing.byte;
        self.series(ranks, bytes, |costs| costs.exchange).max(on_link)
    }

    /// A tree whose messages halve from the root on, one at a time on the longest path.
    fn halving(&self, ranks: u32, part: usize) -> f64 {
        doubling(ranks).map(|parts| self.one_way(times(parts.min(ranks - parts), part))).sum()
    }

    /// One message on each level of a binomial tree.
    fn binomial(&self, ranks: u32, bytes: usize) -> f64 {
        doubling(ranks).map(|_| self.one_way(bytes)).sum()
    }

    /// Up and down a tree of this arity.
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

/// The time of an algorithm for an operation of `ranks` ranks, with `bytes` bytes per part, in
/// seconds.
pub(crate) trait Estimate: Copy + 'static {
    /// Estimates the time. `bytes` is as in [`crate::chosen`].
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
            // A chain starts its first message no earlier, and that one is on the longest path.
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
            // Other numbers of ranks are folded, which is never faster than Bruck's algorithm.
            Self::Butterfly => ranks.is_power_of_two().then(|| doubling(ranks).map(shift).sum()),
            Self::Lines | Self::Read => None,
        }
    }
}

impl Estimate for alltoall::Algorithm {
    fn estimate(self, ranks: u32, bytes: usize, costs: &Costs) -> Option<f64> {
        // Parts whose distance has this bit.
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

    /// A byte per nanosecond between ranks, 1 us per message, of which the sender has 100 ns and
    /// the receiver 200.
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
        // Messages of 1, 2 and 4 parts for 8 ranks; of 1, 2 and 2 for 6 ranks.
        let by = |ranks| gather::Algorithm::Binomial.estimate(ranks, 1_000, &costs);
        assert!(by(8).is_some_and(|time| is_near(time, 3e-6 + 7e-6)));
        assert!(by(6).is_some_and(|time| is_near(time, 3e-6 + 5e-6)));
        // Of the parts 0 to 5, parts 1, 3 and 5 have the lowest bit, 2 and 3 the next, 4 and 5 the
        // last.
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
