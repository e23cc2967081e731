//! Exchanges between buffers in shared memory: one copy, from the sender's buffer to the
//! receiver's.

use std::mem::{ManuallyDrop, size_of};

use hikyaku_coll::persistent::Scheme;
use hikyaku_rank::persistent::{EdgeEnd, Places, Rounds, Terms, Use, set_up};

use super::edges::{Neighbour, Neighbours};
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
    /// `Some` until the exchange is dropped.
    buffers: Option<Buffers<T>>,
    /// Serves the shared variables of other ranks while it exists.
    world: World,
}

#[derive(Debug)]
struct Buffers<T: Scalar> {
    outgoing: SharedBuffer<T>,
    /// `None`: incoming data goes into the same buffer.
    incoming: Option<SharedBuffer<T>>,
    /// Whether the buffers change places after each round.
    turning: bool,
}

impl<T: Scalar> Buffers<T> {
    /// The buffer with the last round's data.
    fn incoming(&self) -> &SharedBuffer<T> {
        self.incoming.as_ref().filter(|_| !self.turning).unwrap_or(&self.outgoing)
    }

    /// The buffer for the next round's data.
    fn target(&mut self) -> &mut SharedBuffer<T> {
        self.incoming.as_mut().unwrap_or(&mut self.outgoing)
    }

    fn turn(&mut self) {
        if let (true, Some(incoming)) = (self.turning, &mut self.incoming) {
            std::mem::swap(&mut self.outgoing, incoming);
        }
    }
}

impl World {
    /// Makes an exchange with neighbours. Each round moves elements of `outgoing` into the
    /// destinations' `incoming` (MPI_Neighbor_alltoallv_init). Every rank of the world calls it,
    /// even without edges.
    ///
    /// # Errors
    /// [`PersistentError`](super::PersistentError), on every rank: an edge is invalid, or its ends
    /// disagree. Or a rank is gone.
    pub fn exchange_init<T: Scalar>(
        &self,
        neighbours: &Neighbours,
        outgoing: SharedBuffer<T>,
        incoming: SharedBuffer<T>,
    ) -> Result<Exchange<T>, Error> {
        let incoming = Some(incoming);
        Exchange::new(self, neighbours, Buffers { outgoing, incoming, turning: false })
    }

    /// The same within one buffer: for arrays with a border of their neighbours' elements.
    ///
    /// # Errors
    /// As [`World::exchange_init`]; or an element is both sent and received.
    pub fn exchange_in_place_init<T: Scalar>(
        &self,
        neighbours: &Neighbours,
        buffer: SharedBuffer<T>,
    ) -> Result<Exchange<T>, Error> {
        let (outgoing, incoming) = (buffer, None);
        Exchange::new(self, neighbours, Buffers { outgoing, incoming, turning: false })
    }

    /// The same with two buffers that alternate: a round moves elements of one into the neighbours'
    /// other, and the next round moves elements of that one into the first. So received data is
    /// sent on without a copy, as by a program that passes its data around. [`Exchange::outgoing`]
    /// and [`Exchange::incoming`] are then the same buffer.
    ///
    /// # Errors
    /// As [`World::exchange_init`]; the elements must be in both buffers.
    pub fn exchange_turning_init<T: Scalar>(
        &self,
        neighbours: &Neighbours,
        first: SharedBuffer<T>,
        second: SharedBuffer<T>,
    ) -> Result<Exchange<T>, Error> {
        let (outgoing, incoming) = (first, Some(second));
        Exchange::new(self, neighbours, Buffers { outgoing, incoming, turning: true })
    }
}

impl<T: Scalar> Exchange<T> {
    fn new(
        world: &World,
        neighbours: &Neighbours,
        buffers: Buffers<T>,
    ) -> Result<Exchange<T>, Error> {
        let world = world.try_duplicate()?;
        let prepare = || {
            let one = buffers.outgoing.len();
            let other = buffers.incoming.as_ref().map_or(one, |incoming| incoming.len());
            let lengths =
                if buffers.turning { (one.min(other), one.min(other)) } else { (one, other) };
            neighbours.check(world.size(), lengths)?;
            if buffers.incoming.is_none() {
                neighbours.check_in_place()?;
            }
            Ok((ends::<T>(&neighbours.destinations), ends::<T>(&neighbours.sources)))
        };
        let out = buffers.outgoing.offset();
        let into = buffers.incoming.as_ref().map_or(out, SharedBuffer::offset);
        let (buffers_use, from, to) = match buffers.turning {
            true => (Use::Turning, [out, into], [into, out]),
            false => (Use::Fixed, [out; 2], [into; 2]),
        };
        let place = |outs: &[EdgeEnd], ins: &[EdgeEnd]| Ok((places(outs, from), places(ins, to)));
        let wiring = set_up(
            world.communicator(),
            (own_terms(neighbours.scheme), buffers_use),
            prepare(),
            |words| world.communicator().share(words).map_err(Error::from),
            place,
        )?;
        let wiring = wiring.expect("its terms have a tag for messages");
        let rounds = Rounds::new(world.communicator().clone(), wiring);
        Ok(Exchange { rounds, buffers: Some(buffers), world })
    }

    /// The buffers, if no round is in flight.
    fn idle(&self) -> Result<&Buffers<T>, Error> {
        self.rounds.check_idle()?;
        Ok(self.buffers.as_ref().expect("there until it is dropped"))
    }

    fn idle_mut(&mut self) -> Result<&mut Buffers<T>, Error> {
        self.rounds.check_idle()?;
        Ok(self.buffers.as_mut().expect("there until it is dropped"))
    }

    /// The outgoing data.
    ///
    /// # Errors
    /// The exchange is in flight, or has failed.
    pub fn outgoing(&self) -> Result<&[T], Error> {
        Ok(&self.idle()?.outgoing)
    }

    /// The outgoing data, to be filled. In place, it is the one buffer.
    ///
    /// # Errors
    /// As [`Exchange::outgoing`].
    pub fn outgoing_mut(&mut self) -> Result<&mut [T], Error> {
        Ok(&mut self.idle_mut()?.outgoing)
    }

    /// The incoming data.
    ///
    /// # Errors
    /// As [`Exchange::outgoing`].
    pub fn incoming(&self) -> Result<&[T], Error> {
        Ok(self.idle()?.incoming())
    }

    /// Both buffers: the outgoing and the incoming data. In place, the second is empty; with
    /// alternating buffers it is the one that the next round receives into.
    ///
    /// # Errors
    /// As [`Exchange::outgoing`].
    pub fn buffers(&mut self) -> Result<(&mut [T], &mut [T]), Error> {
        let Buffers { outgoing, incoming, .. } = self.idle_mut()?;
        Ok((outgoing, incoming.as_mut().map_or(&mut [][..], |buffer| &mut buffer[..])))
    }

    /// Starts a round (MPI_Start). From here on it needs no action of this rank.
    ///
    /// # Errors
    /// It is started already, or an earlier round failed.
    #[inline]
    pub fn start(&mut self) -> Result<(), Error> {
        let buffers = self.buffers.as_ref().expect("there until it is dropped");
        Ok(self.rounds.start(bytemuck::cast_slice(&buffers.outgoing))?)
    }

    /// Waits for the round (MPI_Wait): then outgoing data may be changed, and incoming data is
    /// there.
    ///
    /// # Errors
    /// It was not started; or a neighbour is gone, and with it the exchange.
    #[inline]
    pub fn wait(&mut self) -> Result<(), Error> {
        self.rounds.wait()?;
        self.take()
    }

    /// Whether the round is complete (MPI_Test). If so, it has the effect of [`Exchange::wait`].
    ///
    /// # Errors
    /// As [`Exchange::wait`].
    #[inline]
    pub fn test(&mut self) -> Result<bool, Error> {
        let complete = self.rounds.test()?;
        match complete {
            true => self.take()?,
            false => self.world.found_nothing(),
        }
        Ok(complete)
    }

    /// Copies data that arrived by letter to its place.
    #[inline]
    fn take(&mut self) -> Result<(), Error> {
        let buffers = self.buffers.as_mut().expect("there until it is dropped");
        self.rounds.take_mail(bytemuck::cast_slice_mut(buffers.target()))?;
        buffers.turn();
        Ok(())
    }

    /// Whether its rounds use messages, at every rank: one of them lacks queues or memory, or
    /// [`Scheme::Messages`] was chosen. Messages make progress only while their ranks are in calls
    /// of this library.
    pub fn is_by_messages(&self) -> bool {
        self.rounds.is_by_messages()
    }

    /// Releases the exchange (MPI_Request_free), as dropping it does.
    ///
    /// # Errors
    /// It is in flight: the neighbours learn that this end is gone.
    pub fn free(self) -> Result<(), Error> {
        if self.rounds.is_started() { Ok(self.rounds.check_idle()?) } else { Ok(()) }
    }
}

impl<T: Scalar> Drop for Exchange<T> {
    fn drop(&mut self) {
        if !self.rounds.end() {
            // A neighbour may still write to the buffers: they are leaked.
            let _kept = ManuallyDrop::new(self.buffers.take());
        }
    }
}

/// The terms of an exchange with a communicator of its own.
pub(super) fn own_terms(scheme: Option<Scheme>) -> Terms {
    Terms { scheme, messages: Some(0), ..Terms::ANY }
}

/// The byte ranges of the edges' elements in the buffer.
pub(super) fn ends<T: Scalar>(list: &[Neighbour]) -> Vec<EdgeEnd> {
    let bytes = |elements: usize| elements.saturating_mul(size_of::<T>());
    let end = |Neighbour { rank, elements }: &Neighbour| EdgeEnd {
        rank: *rank,
        runs: std::iter::once(bytes(elements.start)..bytes(elements.end)).collect(),
    };
    list.iter().map(end).collect()
}

/// Their places in the region, for buffers at these offsets.
fn places(ends: &[EdgeEnd], buffers: Places) -> Vec<Places> {
    let start = |end: &EdgeEnd| end.runs.first().map_or(0, |run| run.start as u64);
    ends.iter().map(|end| buffers.map(|buffer| buffer + start(end))).collect()
}
