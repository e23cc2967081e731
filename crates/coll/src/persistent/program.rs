//! The commands of one queue in one round of a persistent exchange.
//!
//! A round of a queue is the same chain of commands each time, started by one doorbell. A receiver
//! reports that its memory is free with READY-TO-RECV (RTR), a put without payload that releases
//! slots of the sender's queue. Data (SD/EOD, one put that is counted at the receiver) releases
//! nothing. So the only thing to get right is how many slots each arrival releases:
//!
//! ```text
//!   FAST, a queue per neighbour               MRC, one queue for all, here n = 2 each way
//!
//!   slot 0  RTR  to the neighbour             slots 0, 1  RTR to each source
//!   slot 1  SD   when its RTR (2) arrives     slot 2      NOP  when the first RTR (1) arrives
//!                                             slot 3      RTR to itself, at the second one: (4)
//!   offset 1: the first RTR goes at once;     slots 4, 5  SD to each destination
//!   an RTR releases SD and our next RTR       offset 2; the last of them release our next RTRs
//! ```
//!
//! In general, the arrivals of a round release as many slots as a round has, and the offset is the
//! number of leading slots that wait for nothing. The constants for any degree are derived in the
//! tests' model, which also shows that each of them fails if it is one off (TF-12).
//!
//! # Relays
//!
//! A relay passes data on. It has `s` sources and `d` destinations and is the queue of a rank that
//! represents its node ([`combine`](super::combine)). Arrivals release its slots too, so the
//! program of that rank is not involved:
//!
//! ```text
//!   slots             released by
//!   s          RTR    to each source         the offset; later the last round's put to itself
//!   s + d - 1  NOP    an arrival each (1): the data of a source, the RTR of a destination
//!   1          RTR    to itself (s + p), when the last of those s + d arrivals is there
//!   p          SD     to the destinations    the put to itself; then the RTRs of the next round
//! ```
//!
//! A round has 2 s + d + p slots and releases s + d + (s + p). It is enough to count arrivals,
//! without their origin, since no arrival of the next round precedes the last one of this round:
//!
//! - a source's next data waits for the relay's next RTR, which is behind the data in the queue;
//! - a destination's next RTR follows its wait, which needs its data. The relay may not have sent
//!   the data of the other destinations yet, but their slots are released by then, with those of
//!   the next RTRs: the arrival correctly counts for the next round's first NOP.

use std::ops::Range;

/// One command of a round. Edges and puts have the caller's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueStep {
    /// READY-TO-RECV to the source of this incoming edge.
    Ready(usize),
    /// Consumes an arrival.
    Nop,
    /// READY-TO-RECV to the queue itself.
    Own,
    /// This put of an outgoing edge's data. The edge's last put is counted at the receiver. An edge
    /// has one put, unless its data lies in several places.
    Data(usize),
    /// Combines the elements of this child with the own ones.
    Combine(usize),
}

/// The commands of a queue in a round, and the numbers that make them correct.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueProgram {
    /// The commands, in order of slots.
    pub steps: Vec<QueueStep>,
    /// Slots that are released from the start. `None`: the queue is in normal mode, because none of
    /// its commands waits.
    pub offset: Option<u32>,
    /// How many slots an RTR to this queue must release (paper 002's sps).
    pub ready: u32,
    /// How many slots [`QueueStep::Own`] releases.
    pub own: u32,
    /// How far the scheduling pointer must be ahead at the beginning of a round so that each of its
    /// [`QueueStep::Data`] runs without waiting.
    pub cleared: u32,
}

impl QueueProgram {
    /// A queue for one neighbour: PRDMA-SMCQ-FAST, or plain PRDMA if data goes one way only.
    /// `outgoing` are the puts of the outgoing edge.
    pub fn fast(incoming: Option<usize>, outgoing: Option<Range<usize>>) -> QueueProgram {
        let free = u32::from(incoming.is_some());
        let offset = outgoing.is_some().then_some(free);
        let data = outgoing.into_iter().flatten().map(QueueStep::Data);
        let steps: Vec<QueueStep> =
            incoming.map(QueueStep::Ready).into_iter().chain(data).collect();
        let length = steps.len() as u32;
        QueueProgram { offset, ready: length, own: 0, cleared: length, steps }
    }

    /// One queue for several neighbours: PRDMA-SMCQ-MRC. `outgoing` are the puts of each outgoing
    /// edge.
    pub fn mrc(incoming: &[usize], outgoing: &[Range<usize>]) -> QueueProgram {
        let sources = incoming.len() as u32;
        let ready = incoming.iter().map(|edge| QueueStep::Ready(*edge));
        let nops = (1..outgoing.len()).map(|_| QueueStep::Nop);
        let data: Vec<QueueStep> =
            outgoing.iter().cloned().flatten().map(QueueStep::Data).collect();
        let puts = data.len() as u32;
        let steps: Vec<QueueStep> = ready.chain(nops).chain([QueueStep::Own]).chain(data).collect();
        // Without destinations no RTR arrives, and the put to itself opens the next round.
        let alone = u32::from(outgoing.is_empty());
        QueueProgram {
            offset: Some(sources + alone),
            ready: 1,
            own: sources + puts + alone,
            cleared: sources + puts + alone,
            steps,
        }
    }

    /// A relay from the sources of `incoming` to `destinations` destinations, with these puts.
    pub fn relay(incoming: &[usize], destinations: usize, puts: Range<usize>) -> QueueProgram {
        let (sources, own) = (incoming.len() as u32, incoming.len() + puts.len());
        let ready = incoming.iter().map(|edge| QueueStep::Ready(*edge));
        let nops = (1..incoming.len() + destinations).map(|_| QueueStep::Nop);
        let data = puts.map(QueueStep::Data);
        QueueProgram {
            steps: ready.chain(nops).chain([QueueStep::Own]).chain(data).collect(),
            offset: Some(sources),
            ready: 1,
            own: own as u32,
            // Its data arrives within the round.
            cleared: u32::MAX,
        }
    }

    /// Whether there is at most one edge each way. Only then can both ends of an edge have two
    /// places for its data, used in turn, so that the sender need not wait for the receiver: a
    /// queue counts RTRs and arrivals without their origin, and would take the second of one
    /// neighbour for the first of another.
    pub fn serves_one_neighbour(&self) -> bool {
        let count =
            |kind: fn(&QueueStep) -> bool| self.steps.iter().filter(|step| kind(step)).count();
        count(|step| matches!(step, QueueStep::Ready(_))) <= 1
            && count(|step| matches!(step, QueueStep::Data(_))) <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use QueueStep::{Data, Nop, Own, Ready};

    #[test]
    fn tf_08_fast_has_two_slots_an_offset_of_one_and_releases_two() {
        let both = QueueProgram::fast(Some(3), Some(5..6));
        assert_eq!(both.steps, [Ready(3), Data(5)]);
        assert_eq!((both.offset, both.ready), (Some(1), 2));
        let send = QueueProgram::fast(None, Some(5..6));
        assert_eq!((send.steps, send.offset, send.ready), (vec![Data(5)], Some(0), 1));
        let receive = QueueProgram::fast(Some(3), None);
        assert_eq!((receive.steps, receive.offset), (vec![Ready(3)], None));
    }

    #[test]
    fn tf_09_mrc_has_the_slots_and_counts_of_one_and_two_dimensions() {
        let line = QueueProgram::mrc(&[0, 1], &[0..1, 1..2]);
        assert_eq!(line.steps, [Ready(0), Ready(1), Nop, Own, Data(0), Data(1)]);
        assert_eq!((line.offset, line.ready, line.own), (Some(2), 1, 4));
        let all = [0..1, 1..2, 2..3, 3..4];
        let plane = QueueProgram::mrc(&[0, 1, 2, 3], &all);
        assert_eq!((plane.steps.len(), plane.offset, plane.ready, plane.own), (12, Some(4), 1, 8));
        let uneven = QueueProgram::mrc(&[0], &all[..3]);
        assert_eq!(uneven.steps.len(), 7);
        assert_eq!((uneven.offset, uneven.own), (Some(1), 4));
        let sink = QueueProgram::mrc(&[0, 1], &[]);
        assert_eq!(sink.steps, [Ready(0), Ready(1), Own]);
        assert_eq!((sink.offset, sink.own), (Some(3), 3));
    }

    #[test]
    fn each_put_of_an_edge_is_released_by_its_one_rtr() {
        let fast = QueueProgram::fast(Some(0), Some(4..7));
        assert_eq!(fast.steps, [Ready(0), Data(4), Data(5), Data(6)]);
        assert_eq!((fast.offset, fast.ready), (Some(1), 4));
        let mrc = QueueProgram::mrc(&[0], &[0..2, 2..3]);
        assert_eq!(mrc.steps, [Ready(0), Nop, Own, Data(0), Data(1), Data(2)]);
        assert_eq!((mrc.offset, mrc.ready, mrc.own), (Some(1), 1, 4));
    }

    #[test]
    fn a_relay_releases_as_many_slots_as_it_has() {
        let gather = QueueProgram::relay(&[3, 4, 5], 1, 7..8);
        let ready = [Ready(3), Ready(4), Ready(5)];
        assert_eq!(gather.steps, [&ready[..], &[Nop; 3], &[Own, Data(7)]].concat());
        assert_eq!((gather.offset, gather.ready, gather.own), (Some(3), 1, 4));
        let scatter = QueueProgram::relay(&[0], 2, 0..3);
        assert_eq!(scatter.steps, [Ready(0), Nop, Nop, Own, Data(0), Data(1), Data(2)]);
        assert_eq!((scatter.offset, scatter.ready, scatter.own), (Some(1), 1, 4));
        for (sources, destinations, puts) in [(1, 1, 1), (5, 1, 1), (1, 4, 9), (3, 3, 4)] {
            let incoming: Vec<usize> = (0..sources).collect();
            let relay = QueueProgram::relay(&incoming, destinations, 0..puts);
            let released = sources + destinations + relay.own as usize;
            assert_eq!(relay.steps.len(), released);
        }
    }
}
