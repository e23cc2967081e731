//! What passes between a rank in virtual time and whoever conducts its job.
//!
//! A rank's *deeds* leave its memory and are carried out by others, later; each has the rank's own
//! time. A *request* hands the processor over: the rank goes on when it is answered.

use std::cell::RefCell;
use std::rc::Rc;

use crate::fabric::{Command, Granularity, QueueAddress, QueuePut, Rank, Route, Wake};
use crate::time::Time;

/// Something a rank has done that others will see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// A send, to be landed when it arrives.
    Send(Posted),
    /// The record of a command that was carried out at `to` just now.
    Announce {
        /// In whose status ring.
        to: Rank,
        /// As the command said.
        protocol: u8,
        /// As the command said.
        header: u64,
        /// Bytes of the target's memory it was about.
        length: u64,
        /// Where in the target's region they are.
        offset: u64,
    },
    /// A queue may have something to run.
    Run(QueueAddress),
    /// A rank is to look again, if it sleeps.
    Wake(Rank),
}

/// A send with a copy of its payload; the fields are those of [`Command`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// To which rank.
    pub destination: Rank,
    /// Opaque to the interface.
    pub protocol: u8,
    /// Opaque to the interface.
    pub header: u64,
    /// Length of the whole message, bytes.
    pub total: u64,
    /// Where in the message the payload starts, bytes.
    pub offset: u64,
    /// One record for each packet or for the message.
    pub granularity: Granularity,
    /// By which table or ring it lands.
    pub route: Route,
    /// Whether it uses up one of the messages the receiver granted.
    pub credited: bool,
    /// Whether it lands although others before it have found no room.
    pub passes: bool,
    /// The bytes.
    pub payload: Vec<u8>,
}

impl Posted {
    /// What is left of the command when `taken` bytes have landed.
    pub fn rest(&self, taken: usize) -> Command<'_> {
        Command {
            total: self.total,
            offset: self.offset + taken as u64,
            granularity: self.granularity,
            route: self.route,
            credited: self.credited && taken == 0,
            passes: self.passes,
            ..Command::send(self.destination, self.protocol, self.header, &self.payload[taken..])
        }
    }
}

/// What a rank waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// To begin.
    Start,
    /// That all others have come to its time.
    CatchUp,
    /// To be woken, or for a point in time.
    Park(Option<Time>),
    /// That bytes have come from one rank to another, one of which it is.
    Travel {
        /// Where they come from.
        from: Rank,
        /// Where they go.
        to: Rank,
        /// How many.
        bytes: u64,
    },
    /// Nothing any more: it has left the job.
    Leave,
}

/// How a request was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Go on; of a wait: something may have happened.
    GoOn,
    /// Nothing is under way to anybody: look at everything, and say what you wait for.
    LookAround,
}

impl Answer {
    /// What [`Port::park`](crate::fabric::Port::park) says then.
    pub fn wake(self) -> Wake {
        match self {
            Answer::GoOn => Wake::Look,
            Answer::LookAround => Wake::Slept,
        }
    }
}

/// What interfaces that a conductor plays want to have done: shared by all of them.
#[derive(Debug, Clone, Default)]
pub struct Outbox(Rc<RefCell<Outgoing>>);

/// What is in an [`Outbox`].
#[derive(Debug, Default)]
pub struct Outgoing {
    /// Ranks to be woken.
    pub woken: Vec<Rank>,
    /// Puts of command queues that leave now.
    pub shipped: Vec<Shipped>,
}

/// A put of a command queue on its way, with its payload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shipped {
    /// The queue it was in.
    pub from: QueueAddress,
    /// Its place in that queue.
    pub index: u32,
    /// What is to be done where it arrives.
    pub put: QueuePut,
    /// The bytes.
    pub payload: Vec<u8>,
}

impl Outbox {
    /// Asks for a rank to be woken.
    pub fn wake(&self, rank: Rank) {
        self.0.borrow_mut().woken.push(rank);
    }

    /// Sends a put of a command queue off.
    pub fn ship(&self, shipped: Shipped) {
        self.0.borrow_mut().shipped.push(shipped);
    }

    /// Takes everything out.
    pub fn take(&self) -> Outgoing {
        self.0.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rest_of_a_send_is_not_paid_for_again() {
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
            payload: vec![5, 6, 7],
        };
        let (whole, rest) = (posted.rest(0), posted.rest(2));
        assert_eq!((whole.offset, whole.payload, whole.credited), (4, &[5, 6, 7][..], true));
        assert_eq!((rest.offset, rest.payload, rest.credited), (6, &[7][..], false));
        assert_eq!((rest.total, rest.protocol, rest.header), (10, 2, 3));
    }

    #[test]
    fn an_outbox_is_emptied_once() {
        let outbox = Outbox::default();
        outbox.clone().wake(3);
        assert_eq!(outbox.take().woken, [3]);
        assert!(outbox.take().woken.is_empty());
    }
}
