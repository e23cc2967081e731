//! Ranks that are programs with ports, not tasks: in their own processes, one running at a time.
//!
//! ```text
//!   rank's process       Ranks (a fabric's)        MachineConductor           Carrier
//!   --------------       ------------------        ----------------           -------
//!   runs               ◄─ run(rank, now) ───────── its turn is an event
//!   parks ─────────────► deeds, request ─────────► event at each deed's time
//!                                                    a send ── parcel ──────► interface,
//!                                                                             network
//!   its segment        ◄─ HostedPort::post ─────── delivered ◄────────────────┘
//!                          as the source           wakes the ranks
//! ```
//!
//! The ports decide where a message lands, whether there is room, and which rank is woken. They are
//! the same ports that run in real time, over the ranks' own memory. The conductor only decides
//! *when*. A rank runs from its turn until its next request. It uses only its own time, which may
//! run ahead, and its deeds become events at their own times. So parcels land in the order of
//! virtual time, and turns at one time come in the order in which they were requested. Two runs of
//! the same programs are identical to the byte.
//!
//! **A parcel that finds no room** waits behind others on its path, and is retried when its
//! receiver has had a turn. Meanwhile the sender knows of it and is refused, as on any fabric. A
//! ring that refuses discards the parcel instead, and all that follow it on its path. The refusals
//! travel back, and the parcels are sent again, in order: each as soon as its refusal is back and
//! the receiver has had a turn. (Before that it would be refused again.) Operations that need no
//! room pass a waiting parcel: puts, gets and atomics, and sends with `Command::passes`, for which
//! the receiver may wait before it makes room. In real time they are never behind such a send
//! either, since that send is still at its sender.
//!
//! **No event is left** while ranks wait: they may only not have polled. Each gets a turn to poll.
//! (It may learn that a peer has gone, and reports what it waits for.) If several such rounds bring
//! no progress, the ranks wait for ever: [`Ended::Stuck`]. A rank gets such a turn also if it has
//! been parked while others had many turns: a program that polls itself never lets the events end.

mod conductor;
mod parcels;

use hikyaku_nic::fabric::{FullCause, Rank};
use hikyaku_nic::hosted::{
    ActionOutbox, ConductorAnswer, ConductorRequest, Deed, Host, HostedPort,
};
use hikyaku_nic::time::Time;

pub use conductor::{MachineConductor, RankTraffic};

use crate::error::SimError;
use crate::job::MemoryPath;

/// The ranks of a job, as their fabric presents them.
pub trait Ranks: 'static {
    /// The host of the ports that the interfaces use.
    type Host: Host + 'static;

    /// The number of ranks.
    fn count(&self) -> u32;

    /// The node of a rank.
    fn node_of(&self, rank: Rank) -> u32;

    /// The bytes of a rank's memory. No command carries more.
    fn most_bytes(&self) -> u64;

    /// The port through which a rank's interface lands the rank's messages.
    fn interface(&self, rank: Rank, outbox: &ActionOutbox) -> HostedPort<Self::Host>;

    /// Lets a rank run until its next request. Returns its time then, and the request:
    /// [`ConductorRequest::Leave`] also if it has died. `None` if its request will be passed to
    /// [`MachineConductor::serve`] instead.
    fn run(
        &self,
        rank: Rank,
        now: Time,
        answer: ConductorAnswer,
    ) -> Option<(Time, ConductorRequest)>;

    /// The first request of a rank that has not run yet.
    fn begin(&self, rank: Rank) -> (Time, ConductorRequest);

    /// Takes a rank's deeds since the last call, in order.
    fn take_deeds(&self, rank: Rank, into: &mut Vec<(Time, Deed)>);

    /// Leaves a datagram for its receiver, which waits for its turn. `false`: there is no room
    /// until that rank has had a turn.
    fn leave_datagram(&self, from: Rank, to: Rank, datagram: &[u8]) -> bool;

    /// Reports that a send from one rank to another has landed or is lost.
    fn landed(&self, from: Rank, to: Rank);

    /// Sets the reason why sends from one rank do not land at another; `None` if they do.
    fn set_blocked(&self, from: Rank, to: Rank, cause: Option<FullCause>);

    /// Whether a parking rank was refused room before.
    fn was_refused(&self, rank: Rank) -> bool;

    /// Whether a rank has neither left nor died.
    fn is_there(&self, rank: Rank) -> bool;

    /// The time that a rank has computed so far, by its own clock.
    fn computed(&self, rank: Rank) -> Time;
}

/// The options of a conducted job.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The path of messages within a node. The sender's own host costs include the copy.
    pub memory: MemoryPath,
    /// The bytes of a message on the wire in addition to its payload: match bits, length, protocol.
    pub envelope_bytes: u64,
}

/// The reasons why a conducted job ended before its ranks had left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// Ranks wait, and no event is left that could wake them.
    #[error("at {at} {} ranks wait for ever: nothing is under way to any of them", waiting.len())]
    Stuck {
        /// The virtual time.
        at: Time,
        /// The waiting ranks.
        waiting: Vec<Rank>,
    },
    /// The simulation ended.
    #[error(transparent)]
    Sim(#[from] SimError),
}
