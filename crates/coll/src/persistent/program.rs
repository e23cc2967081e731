//! What one command queue does in one round of a persistent exchange.
//!
//! A round of a queue is the same chain of commands each time, started by one doorbell. Receivers
//! say that their memory is free with READY-TO-RECV (RTR), a put without payload that releases
//! slots of the sender's queue; data (SD/EOD, one put that is counted where it arrives) releases
//! nothing. So all that has to be right is how many slots each arrival releases:
//!
//! ```text
//!   FAST, a queue per neighbour               MRC, one queue for all, here n = 2 each way
//!
//!   slot 0  RTR  to the neighbour             slots 0, 1  RTR to each source
//!   slot 1  SD   when his RTR (2) has come    slot 2      NOP  when the first RTR (1) has come
//!                                             slot 3      RTR to itself, when the second has: (4)
//!   offset 1: the first RTR goes at once;     slots 4, 5  SD to each destination
//!   an RTR releases SD and our next RTR       offset 2; the last of them release our next RTRs
//! ```
//!
//! In general: what arrives in a round releases as many slots as a round has, and the offset is
//! the number of leading slots that wait for nothing. The constants for any degree are derived in
//! the tests' model, where each of them one off is shown to fail (TF-12).

/// One command of a round. Edges are numbered as the caller has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueStep {
    /// READY-TO-RECV to the source of this incoming edge.
    Ready(usize),
    /// Uses up an arrival.
    Nop,
    /// READY-TO-RECV to the queue itself.
    Own,
    /// The data of this outgoing edge, and its notification.
    Data(usize),
    /// The elements that this child has brought, and the own ones, combined.
    Combine(usize),
}

/// What one queue does in a round, and the numbers that make it right.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueProgram {
    /// The commands, in order of slots.
    pub steps: Vec<QueueStep>,
    /// Slots that are released from the start. `None`: the queue is in normal mode, because
    /// nothing in it waits.
    pub offset: Option<u32>,
    /// How many slots an RTR must release that is sent to this queue (paper 002's sps).
    pub ready: u32,
    /// How many slots [`QueueStep::Own`] releases.
    pub own: u32,
    /// How far the scheduling pointer must be ahead at the beginning of a round for every
    /// [`QueueStep::Data`] of it to run without waiting.
    pub cleared: u32,
}

impl QueueProgram {
    /// A queue for one neighbour: PRDMA-SMCQ-FAST, or plain PRDMA if data goes one way only.
    pub fn fast(incoming: Option<usize>, outgoing: Option<usize>) -> QueueProgram {
        let steps: Vec<QueueStep> = incoming
            .map(QueueStep::Ready)
            .into_iter()
            .chain(outgoing.map(QueueStep::Data))
            .collect();
        let length = steps.len() as u32;
        QueueProgram {
            offset: outgoing.map(|_| length - 1),
            ready: length,
            own: 0,
            cleared: length,
            steps,
        }
    }

    /// One queue for several neighbours: PRDMA-SMCQ-MRC.
    pub fn mrc(incoming: &[usize], outgoing: &[usize]) -> QueueProgram {
        let (sources, destinations) = (incoming.len() as u32, outgoing.len() as u32);
        let ready = incoming.iter().map(|edge| QueueStep::Ready(*edge));
        let nops = (1..destinations).map(|_| QueueStep::Nop);
        let data = outgoing.iter().map(|edge| QueueStep::Data(*edge));
        let steps: Vec<QueueStep> = ready.chain(nops).chain([QueueStep::Own]).chain(data).collect();
        // Without destinations no RTR comes, and the put to itself is what opens the next round.
        let alone = u32::from(destinations == 0);
        QueueProgram {
            offset: Some(sources + alone),
            ready: 1,
            own: sources + destinations + alone,
            cleared: sources + destinations + alone,
            steps,
        }
    }

    /// Whether there is at most one edge each way. Only then can the two ends of an edge have two
    /// places for its data, used in turn, so that the sender need not wait for the receiver: a
    /// queue counts RTRs and arrivals, and of several neighbours would take the second of one for
    /// the first of another.
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
        let both = QueueProgram::fast(Some(3), Some(5));
        assert_eq!(both.steps, [Ready(3), Data(5)]);
        assert_eq!((both.offset, both.ready), (Some(1), 2));
        let send = QueueProgram::fast(None, Some(5));
        assert_eq!((send.steps, send.offset, send.ready), (vec![Data(5)], Some(0), 1));
        let receive = QueueProgram::fast(Some(3), None);
        assert_eq!((receive.steps, receive.offset), (vec![Ready(3)], None));
    }

    #[test]
    fn tf_09_mrc_has_the_slots_and_counts_of_one_and_two_dimensions() {
        let line = QueueProgram::mrc(&[0, 1], &[0, 1]);
        assert_eq!(line.steps, [Ready(0), Ready(1), Nop, Own, Data(0), Data(1)]);
        assert_eq!((line.offset, line.ready, line.own), (Some(2), 1, 4));
        let all = [0, 1, 2, 3];
        let plane = QueueProgram::mrc(&all, &all);
        assert_eq!((plane.steps.len(), plane.offset, plane.ready, plane.own), (12, Some(4), 1, 8));
        let uneven = QueueProgram::mrc(&[0], &[0, 1, 2]);
        assert_eq!(uneven.steps.len(), 7);
        assert_eq!((uneven.offset, uneven.own), (Some(1), 4));
        let sink = QueueProgram::mrc(&[0, 1], &[]);
        assert_eq!(sink.steps, [Ready(0), Ready(1), Own]);
        assert_eq!((sink.offset, sink.own), (Some(3), 3));
    }
}
