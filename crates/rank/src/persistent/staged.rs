//! Exchanges between buffers in ordinary memory, through places in the receiver's region.
//!
//! ```text
//!   start   READY-TO-RECV has arrived: directly into the receiver's place
//!           otherwise:                 into our own place, with a command that waits for it
//!   take    from our place
//! ```
//!
//! In virtual time it is always the second case. The copy takes no time there; a direct put and the
//! command that announces it would be two messages of the network.

use std::mem::ManuallyDrop;
use std::ops::Range;

use hikyaku_nic::fabric::{Command, Port, QueuePort, RemoteAddress, Space};
use hikyaku_nic::region::RegionBuffer;
use hikyaku_nic::ring::copy;

use super::mail::{ExchangeSink, ExchangeSource};
use super::rounds::Rounds;
use super::setup::{Checked, EdgeEnd, OutgoingEdge, Places, Terms, Use, set_up};
use crate::communicator::Communicator;
use crate::error::Error;

/// The alignment of places, so that no two share a cache line.
const PLACE: usize = 128;

/// The rounds of an exchange whose buffers are passed to each call, and belong to the program
/// between calls.
#[derive(Debug)]
pub struct StagedRounds {
    rounds: Rounds,
    world: Communicator,
    /// Memory for the places of edges that queues serve, if there are any. Present until it is
    /// dropped.
    places: Option<RegionBuffer>,
    outs: Vec<StagedEdge>,
    ins: Vec<StagedEdge>,
}

/// One end of an edge that a queue serves.
#[derive(Debug)]
struct StagedEdge {
    /// The ranges of the program's buffer.
    runs: Vec<Range<usize>>,
    /// The starts of its places in the memory for places.
    places: [usize; 2],
}

impl StagedRounds {
    /// An exchange of checked ends: see [`set_up`], which all ranks of `world` call.
    ///
    /// # Errors
    /// As [`set_up`].
    pub fn new<E: From<Error>>(
        world: &Communicator,
        terms: Terms,
        checked: Checked<E>,
        share: impl Fn(&[u32]) -> Result<Vec<Vec<u32>>, E>,
    ) -> Result<Option<StagedRounds>, E> {
        let (mut places, mut outs, mut ins) = (None, Vec::new(), Vec::new());
        let wiring = set_up(world, (terms, Use::Staged), checked, share, |own_outs, own_ins| {
            let mut end = 0;
            outs = staged(own_outs, 1, &mut end);
            ins = staged(own_ins, 2, &mut end);
            let memory = world.allocate(end, 1)?;
            let at = memory.offset();
            places = Some(memory);
            Ok((addresses(&outs, at), addresses(&ins, at)))
        })?;
        let Some(wiring) = wiring else { return Ok(None) };
        if wiring.is_by_messages() {
            (places, outs, ins) = Default::default();
        }
        let rounds = Rounds::new(world.clone(), wiring);
        let mut made = StagedRounds { rounds, world: world.clone(), places, outs, ins };
        made.rounds.give_second_places()?;
        Ok(Some(made))
    }

    /// Starts a round with `data` (MPI_Start), which may be changed at once.
    ///
    /// # Errors
    /// It is already started, or an earlier round failed.
    #[inline]
    pub fn start(&mut self, data: &(impl ExchangeSource + ?Sized)) -> Result<(), Error> {
        let (outs, world) = (&self.outs, &self.world);
        let places = self.places.as_deref_mut().unwrap_or_default();
        let prepare = |edge: usize| {
            let StagedEdge { runs, places: [at, _] } = &outs[edge];
            let mut rest = &mut places[*at..];
            for run in runs {
                let (place, after) = rest.split_at_mut(run.len());
                copy(data.run(run), place);
                rest = after;
            }
        };
        let send = |edge: usize, out: &OutgoingEdge, turn: usize| {
            push(world, (out, turn), &outs[edge].runs, data)
        };
        self.rounds.start_with(data, prepare, send)
    }

    /// Waits for the round (MPI_Wait).
    ///
    /// # Errors
    /// It was not started; or a neighbour is gone, and with it the exchange.
    #[inline]
    pub fn wait(&mut self) -> Result<(), Error> {
        self.rounds.wait()
    }

    /// Whether the round is complete (MPI_Test).
    ///
    /// # Errors
    /// As [`StagedRounds::wait`].
    pub fn test(&mut self) -> Result<bool, Error> {
        self.rounds.test()
    }

    /// Copies the data of a complete round into `data`.
    ///
    /// # Errors
    /// A letter is longer than its mailbox: it was overwritten.
    #[inline]
    pub fn take(&self, data: &mut (impl ExchangeSink + ?Sized)) -> Result<(), Error> {
        let places = self.places.as_deref().unwrap_or_default();
        for (edge, StagedEdge { runs, places: at }) in self.ins.iter().enumerate() {
            let mut rest = &places[at[self.rounds.place_of(edge)]..];
            for run in runs {
                let (place, after) = rest.split_at(run.len());
                copy(place, data.run_mut(run));
                rest = after;
            }
        }
        self.rounds.take_mail(data)
    }

    /// As [`Rounds::is_by_messages`].
    pub fn is_by_messages(&self) -> bool {
        self.rounds.is_by_messages()
    }

    /// Whether a round was started and not waited for.
    pub fn is_started(&self) -> bool {
        self.rounds.is_started()
    }

    /// Returns an error while a round is in flight, or after one has failed.
    ///
    /// # Errors
    /// As above.
    pub fn check_idle(&self) -> Result<(), Error> {
        self.rounds.check_idle()
    }
}

/// The edges of a list that queues serve, with `count` places each, from offset `end` on.
fn staged(list: &[EdgeEnd], count: usize, end: &mut usize) -> Vec<StagedEdge> {
    let edge = |edge: &EdgeEnd| {
        let room = (edge.bytes() as usize).max(1).next_multiple_of(PLACE);
        let places = [*end, *end + room * (count - 1)];
        *end += room * count;
        StagedEdge { runs: edge.runs.clone(), places }
    };
    list.iter().map(edge).collect()
}

fn addresses(staged: &[StagedEdge], at: u64) -> Vec<Places> {
    staged.iter().map(|edge| edge.places.map(|place| at + place as u64)).collect()
}

/// Writes data directly into its receiver's place. Returns whether it did.
fn push(
    world: &Communicator,
    (out, turn): (&OutgoingEdge, usize),
    runs: &[Range<usize>],
    data: &(impl ExchangeSource + ?Sized),
) -> bool {
    if out.bytes == 0 {
        return true;
    }
    let mut engine = world.engine().borrow_mut();
    let port = engine.port_mut();
    if port.capabilities().virtual_time {
        return false;
    }
    // A receiver that has freed its end has its memory back.
    let open = port.queue_state(out.event).is_ok_and(|state| state.fault.is_none());
    let (rank, space, mut offset) = (out.event.rank, Space::Region, out.at[turn]);
    let mut put = |run: &Range<usize>| {
        let target = RemoteAddress { rank, space, offset };
        offset += run.len() as u64;
        // An empty put writes nothing.
        run.is_empty() || port.post(&Command::put(target, data.run(run))).is_ok()
    };
    // Where puts do not reach, for example another node, the command in the queue does.
    open && runs.iter().all(&mut put)
}

impl Drop for StagedRounds {
    fn drop(&mut self) {
        if !self.rounds.end() {
            // A rank may still write to the places, so they are not freed.
            let _kept = ManuallyDrop::new(self.places.take());
        }
    }
}
