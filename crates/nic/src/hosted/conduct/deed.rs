//! The messages between a rank in virtual time and the conductor of its job.
//!
//! A rank's *deeds* leave its memory and are executed by others, later; each carries the rank's own
//! time. A *request* hands the processor to the conductor: the rank continues with the answer.

use std::cell::RefCell;
use std::rc::Rc;

use crate::fabric::{
    Command, Granularity, Notification, QueueAddress, QueuePut, Rank, RemoteAddress, Route, Wake,
};
use crate::time::Time;

/// An action of a rank that takes effect at other ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// A send, to land on arrival.
    Send(Posted),
    /// A put of a chain, to land on arrival.
    Put(ChainedPut),
    /// A datagram, to be found on arrival.
    Datagram {
        /// The ranks that receive it.
        to: Vec<Rank>,
        /// The bytes.
        payload: Vec<u8>,
    },
    /// The record of a command that was just executed at `to`.
    Announce {
        /// The rank whose status ring receives the record.
        to: Rank,
        /// The protocol of the command.
        protocol: u8,
        /// The header of the command.
        header: u64,
        /// The number of target bytes it accessed.
        length: u64,
        /// Their offset in the target's region.
        offset: u64,
    },
    /// A queue may have become runnable.
    Run(QueueAddress),
    /// A rank should poll again, if it sleeps.
    Wake(Rank),
}

/// A send with a copy of its payload; the fields are those of [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// The target rank.
    pub destination: Rank,
    /// Opaque to the interface.
    pub protocol: u8,
    /// Opaque to the interface.
    pub header: u64,
    /// Length of the whole message, bytes.
    pub total: u64,
    /// The offset of the payload in the message, bytes.
    pub offset: u64,
    /// Whether each packet or the whole message leaves a record.
    pub granularity: Granularity,
    /// How its landing ring is chosen.
    pub route: Route,
    /// Whether it consumes one of the receiver's credits.
    pub credited: bool,
    /// Whether it may overtake sends that wait for room.
    pub passes: bool,
    /// Whether it belongs to a multicast and copies the send before it: one command of the rank
    /// sends both.
    pub copy: bool,
    /// The bytes.
    pub payload: Vec<u8>,
}

impl Posted {
    /// The rest of the command after `taken` bytes have landed.
    pub fn rest(&self, taken: usize) -> Command<'_> {
        let whole = Command {
            total: self.total,
            offset: self.offset,
            granularity: self.granularity,
            route: self.route,
            credited: self.credited,
            passes: self.passes,
            ..Command::send(self.destination, self.protocol, self.header, &self.payload)
        };
        whole.rest(taken)
    }
}

/// A put of a chain with a copy of its payload. Its target's tables were checked when it was
/// posted, and are checked again when it lands. If its segment was closed meanwhile, nothing is
/// written, and the answer reports that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChainedPut {
    /// Its destination.
    pub to: RemoteAddress,
    /// A word of the target to store after the data, and its value.
    pub word: Option<(RemoteAddress, u64)>,
    /// Whether its rank waits for the answer.
    pub is_last: bool,
    /// The bytes.
    pub payload: Vec<u8>,
}

impl ChainedPut {
    /// The command that lands it.
    pub(crate) fn command(&self) -> Command<'_> {
        let word = |(address, value)| Notification::Word { address, value };
        let notification = self.word.map_or(Notification::None, word);
        Command { notification, ..Command::put(self.to, &self.payload) }
    }
}

/// The event for which a rank waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConductorRequest {
    /// To begin.
    Start,
    /// Until all others have reached its time.
    CatchUp,
    /// Until it is woken, or a point in time.
    Park(Option<Time>),
    /// Until bytes have travelled from one rank to another. The caller is one of the two.
    Travel {
        /// The source.
        from: Rank,
        /// The destination.
        to: Rank,
        /// The number of bytes.
        bytes: u64,
    },
    /// Until this many puts of its chain have been answered.
    Answers(u32),
    /// The rank has left the job and waits for nothing.
    Leave,
}

/// The answer to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConductorAnswer {
    /// Continue. After a wait: something may have happened.
    GoOn,
    /// Nothing is in flight to any rank: check everything, and report what you wait for.
    LookAround,
    /// To [`ConductorRequest::Answers`]: the first put that its target has refused, by its number
    /// in the chain, counted from 0. Later puts to the same rank were not written.
    Refused(u32),
}

impl ConductorAnswer {
    /// The result of [`Port::park`](crate::fabric::Port::park).
    pub fn wake(self) -> Wake {
        match self {
            ConductorAnswer::GoOn | ConductorAnswer::Refused(_) => Wake::Look,
            ConductorAnswer::LookAround => Wake::Slept,
        }
    }
}

/// The actions requested by the interfaces that a conductor plays, which all share it.
#[derive(Debug, Clone, Default)]
pub struct ActionOutbox(Rc<RefCell<OutboxContents>>);

/// The contents of an [`ActionOutbox`].
#[derive(Debug, Default)]
pub struct OutboxContents {
    /// Ranks to be woken.
    pub woken: Vec<Rank>,
    /// Puts of command queues that leave now.
    pub shipped: Vec<Shipped>,
}

/// A put of a command queue in flight, with its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shipped {
    /// The queue it belongs to.
    pub from: QueueAddress,
    /// Its place in that queue.
    pub index: u32,
    /// The put to land on arrival.
    pub put: QueuePut,
    /// The bytes.
    pub payload: Vec<u8>,
}

impl ActionOutbox {
    /// Requests that a rank be woken.
    pub fn wake(&self, rank: Rank) {
        self.0.borrow_mut().woken.push(rank);
    }

    /// Sends a put of a command queue.
    pub fn ship(&self, shipped: Shipped) {
        self.0.borrow_mut().shipped.push(shipped);
    }

    /// Takes all requested actions.
    pub fn take(&self) -> OutboxContents {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_send_consumes_no_credit() {
        let posted = Posted {
            destination: 1,
            protocol: 2,
            header: 3,
            total: 10,
            offset: 4,
            granularity: Granularity::PerPacket,
            route: Route::Table,
            credited: true,
            passes: false,
            copy: false,
            payload: vec![5, 6, 7],
        };
        let (whole, rest) = (posted.rest(0), posted.rest(2));
        assert_eq!((whole.offset, whole.payload, whole.credited), (4, &[5, 6, 7][..], true));
        assert_eq!((rest.offset, rest.payload, rest.credited), (6, &[7][..], false));
        assert_eq!((rest.total, rest.protocol, rest.header), (10, 2, 3));
    }

    #[test]
    fn taking_empties_the_outbox() {
        let outbox = ActionOutbox::default();
        outbox.clone().wake(3);
        assert_eq!(outbox.take().woken, [3]);
        assert!(outbox.take().woken.is_empty());
    }
}
