//! Exchanges between buffers in ordinary memory, by way of places in the receiver's region.
//!
//! ```text
//!   start_from   READY-TO-RECV is there: straight into the receiver's place
//!                it is not:              into our own place, and a command that waits for it
//!   wait_into    out of our place
//! ```

use std::mem::ManuallyDrop;
use std::ops::Range;

use hikyaku_coll::persistent::Scheme;
use hikyaku_nic::fabric::{Command, Port, QueuePort, RemoteAddress, Space};
use hikyaku_rank::persistent::{Checked, End, Out, PersistentError, Places, Rounds, Use, set_up};

use super::edges::Neighbours;
use super::shared::ends;
use crate::buffer::SharedBuffer;
use crate::error::Error;
use crate::scalar::Scalar;
use crate::world::World;

/// Places start at multiples of this: no two share a cache line.
const PLACE: usize = 128;

/// A persistent exchange of the program's own buffers; see [`World::staged_exchange_init`].
#[derive(Debug)]
pub struct StagedExchange<T: Scalar> {
    rounds: Rounds,
    /// Memory for the places of edges that queues serve; there until it is dropped.
    places: Option<SharedBuffer<u8>>,
    outs: Vec<StagedEdge>,
    ins: Vec<StagedEdge>,
    /// Elements that the buffers must have.
    needed: (usize, usize),
    /// A handle of its own, for sends while a round is being started.
    world: World,
    element: std::marker::PhantomData<T>,
}

/// One end of an edge that a queue serves.
#[derive(Debug)]
struct StagedEdge {
    /// Bytes of the program's buffer, run after run.
    runs: Vec<Range<usize>>,
    /// Where its places start in the memory for places.
    places: [usize; 2],
}

impl World {
    /// Makes an exchange with neighbours for buffers in ordinary memory, which each start and wait
    /// is given. Every rank of the world calls it; a rank without edges too.
    ///
    /// The buffers are borrowed for the calls only: between start and wait the program computes on
    /// them as it likes.
    ///
    /// # Errors
    /// As [`World::exchange_init`].
    pub fn staged_exchange_init<T: Scalar>(
        &self,
        neighbours: &Neighbours,
    ) -> Result<StagedExchange<T>, Error> {
        let world = self.try_duplicate()?;
        let needed = neighbours.needed();
        let checked = neighbours.check(world.size(), needed).map_err(Error::from);
        let checked =
            checked.map(|()| (ends::<T>(&neighbours.destinations), ends::<T>(&neighbours.sources)));
        StagedExchange::new(world, neighbours.scheme, (checked, needed), |world, words| {
            Ok(world.communicator().share(words)?)
        })
    }
}

impl<T: Scalar> StagedExchange<T> {
    /// An exchange of ends that have been checked, of buffers of so many elements. See [`set_up`].
    pub(crate) fn new(
        world: World,
        scheme: Option<Scheme>,
        (checked, needed): (Checked<Error>, (usize, usize)),
        share: impl Fn(&World, &[u32]) -> Result<Vec<Vec<u32>>, Error>,
    ) -> Result<StagedExchange<T>, Error> {
        let (mut places, mut outs, mut ins) = (None, Vec::new(), Vec::new());
        let share = |words: &[u32]| share(&world, words);
        let buffers = (scheme, Use::Staged);
        let wiring = set_up(world.communicator(), buffers, checked, share, |own_outs, own_ins| {
            let mut end = 0;
            outs = staged(own_outs, 1, &mut end);
            ins = staged(own_ins, 2, &mut end);
            let memory = world.alloc::<u8>(end)?;
            let at = memory.offset();
            places = Some(memory);
            Ok((addresses(&outs, at), addresses(&ins, at)))
        })?;
        let rounds = Rounds::new(world.communicator().clone(), wiring);
        let element = std::marker::PhantomData;
        let mut made = StagedExchange { rounds, places, outs, ins, needed, world, element };
        made.rounds.give_second_places()?;
        Ok(made)
    }
}

/// The edges of a list that queues serve, with `count` places each, from `end` on.
fn staged(list: &[End], count: usize, end: &mut usize) -> Vec<StagedEdge> {
    let edge = |edge: &End| {
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

impl<T: Scalar> StagedExchange<T> {
    /// Starts a round with the elements of `data` (MPI_Start). It may be changed at once.
    ///
    /// # Errors
    /// It is started already, `data` is shorter than the edges need, or an earlier round failed.
    pub fn start_from(&mut self, data: &[T]) -> Result<(), Error> {
        check_length(data.len(), self.needed.0)?;
        let bytes: &[u8] = bytemuck::cast_slice(data);
        let (outs, world) = (&self.outs, &self.world);
        let places = self.places.as_mut().expect("there until it is dropped");
        let prepare = |edge: usize| {
            let StagedEdge { runs, places: [at, _] } = &outs[edge];
            let mut rest = &mut places[*at..];
            for run in runs {
                let (place, after) = rest.split_at_mut(run.len());
                place.copy_from_slice(&bytes[run.clone()]);
                rest = after;
            }
        };
        let send =
            |edge: usize, out: &Out, turn: usize| push(world, (out, turn), &outs[edge].runs, bytes);
        Ok(self.rounds.start_with(bytes, prepare, send)?)
    }

    /// Waits for the round (MPI_Wait) and puts what has come into `data`.
    ///
    /// # Errors
    /// It was not started; `data` is shorter than the edges need: then it can be waited for again;
    /// or a neighbour is gone, and with it the exchange.
    pub fn wait_into(&mut self, data: &mut [T]) -> Result<(), Error> {
        check_length(data.len(), self.needed.1)?;
        self.rounds.wait()?;
        self.take(data)
    }

    /// Whether the round is complete (MPI_Test): if so, as [`StagedExchange::wait_into`].
    ///
    /// # Errors
    /// As [`StagedExchange::wait_into`].
    pub fn test_into(&mut self, data: &mut [T]) -> Result<bool, Error> {
        check_length(data.len(), self.needed.1)?;
        let complete = self.rounds.test()?;
        if complete {
            self.take(data)?;
        }
        Ok(complete)
    }

    /// Copies what has come out of its places.
    fn take(&self, data: &mut [T]) -> Result<(), Error> {
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(data);
        let places = self.places.as_ref().expect("there until it is dropped");
        for (edge, StagedEdge { runs, places: at }) in self.ins.iter().enumerate() {
            let mut rest = &places[at[self.rounds.place_of(edge)]..];
            for run in runs {
                let (place, after) = rest.split_at(run.len());
                bytes[run.clone()].copy_from_slice(place);
                rest = after;
            }
        }
        Ok(self.rounds.take_mail(bytes)?)
    }

    /// Gives everything back (MPI_Request_free), as dropping it does.
    ///
    /// # Errors
    /// It is in flight: the neighbours learn that this end is gone.
    pub fn free(self) -> Result<(), Error> {
        if self.rounds.is_started() { Ok(self.rounds.check_idle()?) } else { Ok(()) }
    }
}

/// Writes data straight into its receiver's place; says whether it did.
fn push(world: &World, (out, turn): (&Out, usize), runs: &[Range<usize>], data: &[u8]) -> bool {
    if out.bytes == 0 {
        return true;
    }
    let mut engine = world.engine().borrow_mut();
    let port = engine.port_mut();
    // A receiver that has freed its end has its memory back.
    let open = port.queue_state(out.event).is_ok_and(|state| state.fault.is_none());
    let (rank, space, mut offset) = (out.event.rank, Space::Region, out.at[turn]);
    let mut put = |run: &Range<usize>| {
        let target = RemoteAddress { rank, space, offset };
        offset += run.len() as u64;
        // Nothing is written by a put of nothing.
        run.is_empty() || port.post(&Command::put(target, &data[run.clone()])).is_ok()
    };
    // Where puts do not reach, another node for example, the command in the queue does.
    open && runs.iter().all(&mut put)
}

fn check_length(given: usize, needed: usize) -> Result<(), Error> {
    if given < needed {
        return Err(PersistentError::Length { given, needed }.into());
    }
    Ok(())
}

impl<T: Scalar> Drop for StagedExchange<T> {
    fn drop(&mut self) {
        if !self.rounds.end() {
            // Somebody may still write to the places: they are not given back.
            let _kept = ManuallyDrop::new(self.places.take());
        }
    }
}
