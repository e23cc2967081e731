//! Exchanges of elements between buffers in ordinary memory.

use std::marker::PhantomData;

use hikyaku_rank::persistent::{
    Checked, ExchangeSink, ExchangeSource, PersistentError, StagedRounds, Terms,
};

use super::edges::Neighbours;
use super::shared::{ends, own_terms};
use crate::error::Error;
use crate::scalar::Scalar;
use crate::world::World;

/// A persistent exchange of the program's own buffers; see [`World::staged_exchange_init`].
#[derive(Debug)]
pub struct StagedExchange<T: Scalar> {
    rounds: StagedRounds,
    /// Elements that the buffers must have: outgoing, incoming.
    needed: (usize, usize),
    /// Serves the shared variables of other ranks while it exists.
    world: World,
    element: PhantomData<T>,
}

impl World {
    /// Makes an exchange with neighbours for buffers in ordinary memory, which are passed to each
    /// start and wait. Every rank of the world calls it, even without edges.
    ///
    /// The buffers are borrowed for the calls only: between start and wait the program may compute
    /// on them.
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
        let terms = own_terms(neighbours.scheme);
        StagedExchange::new(world, terms, (checked, needed), |world, words| {
            Ok(world.communicator().share(words)?)
        })
    }
}

impl<T: Scalar> StagedExchange<T> {
    /// An exchange of checked ends, between buffers of `needed` elements, on terms that have a tag
    /// for messages.
    pub(crate) fn new(
        world: World,
        terms: Terms,
        (checked, needed): (Checked<Error>, (usize, usize)),
        share: impl Fn(&World, &[u32]) -> Result<Vec<Vec<u32>>, Error>,
    ) -> Result<StagedExchange<T>, Error> {
        let share = |words: &[u32]| share(&world, words);
        let rounds = StagedRounds::new(world.communicator(), terms, checked, share)?;
        let rounds = rounds.expect("its terms have a tag for messages");
        Ok(StagedExchange { rounds, needed, world, element: PhantomData })
    }

    /// Starts a round with the elements of `data` (MPI_Start), which may be changed at once.
    ///
    /// # Errors
    /// It is started already, `data` is shorter than the edges need, or an earlier round failed.
    pub fn start_from(&mut self, data: &[T]) -> Result<(), Error> {
        check_length(data.len(), self.needed.0)?;
        Ok(self.rounds.start(bytemuck::cast_slice(data))?)
    }

    /// Waits for the round (MPI_Wait) and copies the incoming elements into `data`.
    ///
    /// # Errors
    /// It was not started; or `data` is shorter than the edges need: then it can be waited for
    /// again;
    /// or a neighbour is gone, and with it the exchange.
    pub fn wait_into(&mut self, data: &mut [T]) -> Result<(), Error> {
        check_length(data.len(), self.needed.1)?;
        self.rounds.wait()?;
        Ok(self.rounds.take(bytemuck::cast_slice_mut(data))?)
    }

    /// Whether the round is complete (MPI_Test). If so, as [`StagedExchange::wait_into`].
    ///
    /// # Errors
    /// As [`StagedExchange::wait_into`].
    pub fn test_into(&mut self, data: &mut [T]) -> Result<bool, Error> {
        check_length(data.len(), self.needed.1)?;
        let complete = self.rounds.test()?;
        match complete {
            true => self.rounds.take(bytemuck::cast_slice_mut(data))?,
            false => self.world.found_nothing(),
        }
        Ok(complete)
    }

    /// As [`Exchange::is_by_messages`](super::Exchange::is_by_messages).
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

impl StagedExchange<u8> {
    /// [`StagedExchange::start_from`] of bytes at any places: for front ends of other languages.
    #[doc(hidden)]
    pub fn start_runs(&mut self, data: &impl ExchangeSource) -> Result<(), Error> {
        Ok(self.rounds.start(data)?)
    }

    /// [`StagedExchange::test_into`] of bytes at any places, without yielding the processor: for
    /// waits of front ends of other languages.
    #[doc(hidden)]
    pub fn poll_runs(&mut self, data: &mut impl ExchangeSink) -> Result<bool, Error> {
        let complete = self.rounds.test()?;
        if complete {
            self.rounds.take(data)?;
        }
        Ok(complete)
    }
}

fn check_length(given: usize, needed: usize) -> Result<(), Error> {
    if given < needed {
        return Err(PersistentError::Length { given, needed }.into());
    }
    Ok(())
}
