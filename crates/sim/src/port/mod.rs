//! Ranks that are programs with ports, not tasks: in processes of their own, one running at a time.
//!
//! ```text
//!   rank's process       Ranks (a fabric's)        Conductor                  Carrier
//!   --------------       ------------------        ---------                  -------
//!   runs               ◄─ run(rank, now) ───────── its turn is an event
//!   parks ─────────────► deeds, request ─────────► event at each deed's time
//!                                                    a send ── parcel ──────► interface,
//!                                                                             network
//!   its segment        ◄─ HostedPort::post ─────── delivered ◄────────────────┘
//!                          as the source           wakes whom that woke
//! ```
//!
//! What lands where, whether there is room, and who is woken is decided by the very ports that run
//! in real time, over the very memory that the ranks have; here is only *when*. A rank runs from
//! its turn until it asks for something, in no time but its own, which may run ahead; its deeds
//! become events at their own times. So whatever lands does so in the order of virtual time, and
//! turns at one time come in the order in which they were asked for: the same run twice is the same
//! to the byte, as long as the programs are.
//!
//! **What finds no room** waits behind whatever waits already on that way, and is tried again when
//! its receiver has had a turn. The sender learns of it and is refused meanwhile, as it would be on
//! any fabric. What needs no room there passes: puts, gets and atomics, and sends that are said to
//! (`Command::passes`), on which the receiver may wait before it makes room. In real time they are
//! never behind such a send either, since that is still with its sender.
//!
//! **Nothing left to happen** while ranks wait may mean that they only have not looked: each gets
//! a turn to look around (it may learn that a peer has gone, and says what it waits for). When that
//! moves nothing, again and again, they wait for ever: [`Ended::Stuck`].

mod conductor;
mod parcels;

use hikyaku_nic::fabric::{FullCause, Rank};
use hikyaku_nic::hosted::{Answer, Deed, Host, HostedPort, Outbox, Request};
use hikyaku_nic::time::Time;

pub use conductor::{Conductor, Traffic};

use crate::error::SimError;
use crate::job::MemoryPath;

/// The ranks of a job, as the fabric that they live on shows them.
pub trait Ranks: 'static {
    /// The host of a port that plays an interface.
    type Host: Host + 'static;

    /// How many ranks there are.
    fn count(&self) -> u32;

    /// The node of a rank.
    fn node_of(&self, rank: Rank) -> u32;

    /// The port with which a rank's interface lands what the rank sends.
    fn interface(&self, rank: Rank, outbox: &Outbox) -> HostedPort<Self::Host>;

    /// Lets a rank run, and returns when it asks for something: its time then, and what.
    /// [`Request::Leave`] also if it has died. `None` if its request will come by itself, to
    /// [`Conductor::serve`].
    fn run(&self, rank: Rank, now: Time, answer: Answer) -> Option<(Time, Request)>;

    /// The first request of a rank, which nobody has let run.
    fn begin(&self, rank: Rank) -> (Time, Request);

    /// Takes what a rank has done since it was last asked, in the order of its doing.
    fn take_deeds(&self, rank: Rank, into: &mut Vec<(Time, Deed)>);

    /// A send from one rank to another has landed, or come to nothing.
    fn landed(&self, from: Rank, to: Rank);

    /// Why nothing from one rank lands at another; `None`: it does.
    fn set_blocked(&self, from: Rank, to: Rank, cause: Option<FullCause>);

    /// Whether a rank that parks was refused room before.
    fn was_refused(&self, rank: Rank) -> bool;

    /// Whether a rank has neither left nor died.
    fn is_there(&self, rank: Rank) -> bool;

    /// What a rank has computed so far, in its own time.
    fn computed(&self, rank: Rank) -> Time;
}

/// How a job is conducted.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// How messages travel within a node. The sender is charged for the copy by its own host costs.
    pub memory: MemoryPath,
    /// Bytes that a message has on the wire beside its payload: match bits, length, protocol.
    pub envelope_bytes: u64,
}

/// Why a conducted job ended before its ranks had left.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    /// Ranks wait, and nothing is left to happen that could end that.
    #[error("at {at} {} ranks wait for ever: nothing is under way to any of them", waiting.len())]
    Stuck {
        /// When.
        at: Time,
        /// Who waits.
        waiting: Vec<Rank>,
    },
    /// The simulation came to an end.
    #[error(transparent)]
    Sim(#[from] SimError),
}
