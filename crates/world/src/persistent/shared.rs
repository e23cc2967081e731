//! Exchanges between buffers in shared memory: one copy, from the sender's buffer to the
//! receiver's.

use std::mem::{ManuallyDrop, size_of};

use super::edges::{Neighbour, Neighbours};
use super::rounds::Rounds;
use super::setup::{End, set_up};
use crate::buffer::SharedBuffer;
use crate::error::Error;
use crate::scalar::Scalar;
use crate::world::World;

/// A persistent exchange that owns its buffers; see [`World::exchange_init`].
///
/// Between `start` and `wait` the buffers belong to the exchange.
#[derive(Debug)]
pub struct Exchange<T: Scalar> {
    rounds: Rounds,
    /// There until it is dropped.
    buffers: Option<Buffers<T>>,
}

#[derive(Debug)]
struct Buffers<T: Scalar> {
    outgoing: SharedBuffer<T>,
    /// `None`: what comes in goes into the same buffer.
    incoming: Option<SharedBuffer<T>>,
}

impl<T: Scalar> Buffers<T> {
    fn incoming(&self) -> &SharedBuffer<T> {
        self.incoming.as_ref().unwrap_or(&self.outgoing)
    }
}

impl World {
    /// Makes an exchange with neighbours of which each round moves elements of `outgoing` into
    /// the destinations' `incoming` (MPI_Neighbor_alltoallv_init). Every rank of the world calls
    /// it; a rank without edges too.
    ///
    /// # Errors
    /// [`PersistentError`](super::PersistentError), on every rank: an edge that cannot be, ends of
    /// edges that disagree, no command queue left. Or a rank is gone.
    pub fn exchange_init<T: Scalar>(
        &self,
        neighbours: &Neighbours,
        outgoing: SharedBuffer<T>,
        incoming: SharedBuffer<T>,
    ) -> Result<Exchange<T>, Error> {
        Exchange::new(self, neighbours, Buffers { outgoing, incoming: Some(incoming) })
    }

    /// The same within one buffer: for arrays that have a border of their neighbours' elements.
    ///
    /// # Errors
    /// As [`World::exchange_init`]; or elements would be both sent and received into.
    pub fn exchange_in_place_init<T: Scalar>(
        &self,
        neighbours: &Neighbours,
        buffer: SharedBuffer<T>,
    ) -> Result<Exchange<T>, Error> {
        Exchange::new(self, neighbours, Buffers { outgoing: buffer, incoming: None })
    }
}

impl<T: Scalar> Exchange<T> {
    fn new(
        world: &World,
        neighbours: &Neighbours,
        buffers: Buffers<T>,
    ) -> Result<Exchange<T>, Error> {
        let world = world.duplicate();
        let prepare = || {
            let (outgoing, incoming) = (&buffers.outgoing, buffers.incoming());
            neighbours.check(world.size(), (outgoing.len(), incoming.len()))?;
            if buffers.incoming.is_none() {
                neighbours.check_in_place()?;
            }
            let outs = ends::<T>(&neighbours.destinations, outgoing.offset());
            Ok((outs, ends::<T>(&neighbours.sources, incoming.offset())))
        };
        let wiring = set_up(&world, neighbours, prepare())?;
        Ok(Exchange { rounds: Rounds::new(world, wiring), buffers: Some(buffers) })
    }

    /// The buffers, if they are the program's now.
    fn idle(&self) -> Result<&Buffers<T>, Error> {
        self.rounds.check_idle()?;
        Ok(self.buffers.as_ref().expect("there until it is dropped"))
    }

    fn idle_mut(&mut self) -> Result<&mut Buffers<T>, Error> {
        self.rounds.check_idle()?;
        Ok(self.buffers.as_mut().expect("there until it is dropped"))
    }

    /// What is sent.
    ///
    /// # Errors
    /// The exchange is in flight, or has failed.
    pub fn outgoing(&self) -> Result<&[T], Error> {
        Ok(&self.idle()?.outgoing)
    }

    /// What is sent, to be filled. In place, it is the one buffer.
    ///
    /// # Errors
    /// As [`Exchange::outgoing`].
    pub fn outgoing_mut(&mut self) -> Result<&mut [T], Error> {
        Ok(&mut self.idle_mut()?.outgoing)
    }

    /// What has come.
    ///
    /// # Errors
    /// As [`Exchange::outgoing`].
    pub fn incoming(&self) -> Result<&[T], Error> {
        Ok(self.idle()?.incoming())
    }

    /// Both at once: what is sent, and what has come. In place, the second is empty.
    ///
    /// # Errors
    /// As [`Exchange::outgoing`].
    pub fn buffers(&mut self) -> Result<(&mut [T], &mut [T]), Error> {
        let Buffers { outgoing, incoming } = self.idle_mut()?;
        Ok((outgoing, incoming.as_mut().map_or(&mut [][..], |buffer| &mut buffer[..])))
    }

    /// Starts a round (MPI_Start). From here on it needs nothing of this rank.
    ///
    /// # Errors
    /// It is started already, or an earlier round failed.
    #[inline]
    pub fn start(&mut self) -> Result<(), Error> {
        self.rounds.start()
    }

    /// Waits for the round (MPI_Wait): what was sent may be changed, what was to come has.
    ///
    /// # Errors
    /// It was not started; or a neighbour is gone, and with it the exchange.
    #[inline]
    pub fn wait(&mut self) -> Result<(), Error> {
        self.rounds.wait()
    }

    /// Whether the round is complete (MPI_Test): if so, as [`Exchange::wait`].
    ///
    /// # Errors
    /// As [`Exchange::wait`].
    #[inline]
    pub fn test(&mut self) -> Result<bool, Error> {
        self.rounds.test()
    }

    /// Gives everything back (MPI_Request_free), as dropping it does.
    ///
    /// # Errors
    /// It is in flight: the neighbours learn that this end is gone.
    pub fn free(self) -> Result<(), Error> {
        if self.rounds.is_started() { self.rounds.check_idle() } else { Ok(()) }
    }
}

impl<T: Scalar> Drop for Exchange<T> {
    fn drop(&mut self) {
        if !self.rounds.end() {
            // Somebody may still write to the buffers: they are not given back.
            let _kept = ManuallyDrop::new(self.buffers.take());
        }
    }
}

/// Where the edges' elements lie in the region.
fn ends<T: Scalar>(list: &[Neighbour], buffer: u64) -> Vec<End> {
    let bytes = |elements: usize| (elements * size_of::<T>()) as u64;
    let end = |edge: &Neighbour| End {
        rank: edge.rank,
        bytes: bytes(edge.elements.len()),
        at: [buffer + bytes(edge.elements.start); 2],
    };
    list.iter().map(end).collect()
}
