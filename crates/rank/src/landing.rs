//! A rank's landing rings, under the control of its program (paper 000's AMT and its Address
//! Table).
//!
//! Only the receiver decides where the messages of each source land: in a private ring, whose room
//! that source alone uses, or in one that several share. A change takes effect with the source's
//! next message; messages that have landed stay, and none is overtaken. `nic`'s `hosted/route.rs`
//! describes how a private ring passes from one source to another.
//!
//! Until a program directs a source, the library gives rings to frequent sources automatically
//! (`frequent.rs`). From then on it moves none.

use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::{
    FullPolicy, Granularity, PeerState, Port, Rank, RingId, RingPort, RingState, Route, TableError,
};
use thiserror::Error;

use crate::communicator::Communicator;
use crate::error::Error;
use crate::port::RankPort;

/// How often a change is tried that has to wait for the end of a post. Others run between tries.
const TRIES: u32 = 1000;

/// Why a source's ring cannot be set as requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LandingError {
    /// All private rings belong to other sources.
    #[error(
        "each of the {rings} private landing rings of this rank is another source's: put one back \
         on a shared ring first"
    )]
    NoneLeft {
        /// The number of private rings.
        rings: u32,
    },
    /// No ring is shared.
    #[error(
        "this rank has no shared landing ring: start with `hikyaku run --rings N`, where N is \
         below the number of ranks"
    )]
    NoneShared,
    /// The ring is private: only the receiver decides which source uses it.
    #[error(
        "landing ring {ring} is private to a source of its rank's choice: a sender can name rings \
         0 to {}",
        .shared.saturating_sub(1)
    )]
    NotShared {
        /// The requested ring.
        ring: RingId,
        /// The number of shared rings: the first ones of each rank.
        shared: u32,
    },
    /// The table refuses the change.
    #[error(transparent)]
    Table(#[from] TableError),
}

/// The rings of this rank, and their sources.
impl Communicator {
    /// The number of landing rings of this rank.
    pub fn landing_rings(&self) -> u32 {
        self.engine().borrow().port().host().layout().rings
    }

    /// A ring's sizes and counters.
    pub fn landing_ring(&self, ring: RingId) -> Option<RingState> {
        self.engine().borrow().port().ring(ring)
    }

    /// The ring in which later messages of a source land.
    ///
    /// # Errors
    /// There is no such source.
    pub fn ring_of(&self, source: u32) -> Result<Option<RingId>, Error> {
        let job = self.existing(source)?;
        Ok(self.engine().borrow().port().route_of(job))
    }

    /// Gives a source a private ring, unless it has one. Returns its number.
    ///
    /// # Errors
    /// There is no such source, it is gone, or no ring is left.
    pub fn give_ring(&self, source: u32) -> Result<RingId, Error> {
        let job = self.directed(source)?;
        let rings = self.landing_rings();
        let is_private = |ring| self.landing_ring(ring).is_some_and(|state| !state.shared);
        if let Some(ring) = self.ring_of(source)?.filter(|ring| is_private(*ring)) {
            return Ok(ring);
        }
        let private: Vec<RingId> = (0..rings).filter(|ring| is_private(*ring)).collect();
        let mut error = LandingError::NoneLeft { rings: private.len() as u32 };
        for _ in 0..TRIES {
            let mut unsettled = false;
            for ring in &private {
                match self.route_once(job, *ring) {
                    Ok(()) => return Ok(*ring),
                    Err(TableError::Private { .. }) => {}
                    Err(other) => {
                        unsettled |= matches!(other, TableError::Unsettled { .. });
                        error = other.into();
                    }
                }
            }
            if unsettled {
                std::thread::yield_now();
            } else if !self.engine().borrow_mut().port_mut().take_ring_back() {
                // Nor is there one left that the library has given by itself.
                break;
            }
        }
        Err(self.landing_error(error))
    }

    /// Puts a source on a shared ring, unless it is on one. Returns its number: the first of those
    /// with the fewest sources.
    ///
    /// # Errors
    /// There is no such source, it is gone, or no ring is shared.
    pub fn share_ring(&self, source: u32) -> Result<RingId, Error> {
        let job = self.directed(source)?;
        let is_shared = |ring| self.landing_ring(ring).is_some_and(|state| state.shared);
        if let Some(ring) = self.ring_of(source)?.filter(|ring| is_shared(*ring)) {
            return Ok(ring);
        }
        let shared = (0..self.landing_rings()).filter(|ring| is_shared(*ring));
        let Some(ring) = shared.min_by_key(|ring| self.sources_of(*ring).count()) else {
            return Err(LandingError::NoneShared.into());
        };
        self.route_once(job, ring).map_err(|error| self.landing_error(error.into()))?;
        Ok(ring)
    }

    /// Directs later messages of a source to a ring.
    ///
    /// # Errors
    /// There is no such source or ring, the source is gone, or the ring is private to another.
    pub fn route(&self, source: u32, ring: RingId) -> Result<(), Error> {
        let job = self.directed(source)?;
        let mut routed = self.route_once(job, ring);
        for _ in 1..TRIES {
            let Err(TableError::Unsettled { .. }) = routed else { break };
            std::thread::yield_now();
            routed = self.route_once(job, ring);
        }
        routed.map_err(|error| self.landing_error(error.into()))
    }

    /// Sets the policy of a full ring.
    ///
    /// # Errors
    /// There is no such ring.
    pub fn set_full(&self, ring: RingId, policy: FullPolicy) -> Result<(), Error> {
        let mut engine = self.engine().borrow_mut();
        engine.port_mut().leave_rings_to_program(None);
        engine.port_mut().set_full(ring, policy).map_err(|error| LandingError::Table(error).into())
    }

    /// Sets the number of status records that this rank's later eager messages to another leave.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn choose_granularity(
        &self,
        destination: u32,
        granularity: Granularity,
    ) -> Result<(), Error> {
        let job = self.existing(destination)?;
        let mut engine = self.engine().borrow_mut();
        engine.choose_landing(job, |choice| choice.granularity = granularity);
        Ok(())
    }

    /// Selects the shared ring of another rank in which this rank's later messages land. `None`
    /// leaves the choice to the receiver's table.
    ///
    /// # Errors
    /// There is no such rank or ring, or the ring is not shared.
    pub fn choose_ring(&self, destination: u32, ring: Option<RingId>) -> Result<(), Error> {
        let job = self.existing(destination)?;
        let mut engine = self.engine().borrow_mut();
        // All ranks of a job have the same layout.
        let layout = *engine.port().host().layout();
        let shared = layout.shared_rings();
        let error = match ring {
            Some(ring) if ring >= layout.rings => {
                TableError::NoSuchRing { ring, rings: layout.rings }.into()
            }
            Some(_) if shared == 0 => LandingError::NoneShared,
            Some(ring) if ring >= shared => LandingError::NotShared { ring, shared },
            _ => {
                let route = ring.map_or(Route::Table, Route::Ring);
                engine.choose_landing(job, |choice| choice.route = route);
                return Ok(());
            }
        };
        Err(Error::Landing(error))
    }

    /// The ranks here whose messages land in a ring.
    pub fn sources_of(&self, ring: RingId) -> impl Iterator<Item = u32> + '_ {
        (0..self.size()).filter(move |source| self.ring_of(*source).ok().flatten() == Some(ring))
    }

    fn route_once(&self, source: Rank, ring: RingId) -> Result<(), TableError> {
        let mut engine = self.engine().borrow_mut();
        engine.begin_moving_rings();
        engine.port_mut().route(source, Some(ring))
    }

    /// The job rank of a source.
    fn existing(&self, source: u32) -> Result<Rank, Error> {
        let size = self.size();
        if source >= size {
            return Err(MsgError::NoSuchRank { rank: source, size }.into());
        }
        Ok(self.in_job(source)?)
    }

    /// The same, if the source has neither left nor died.
    fn present(&self, source: u32) -> Result<Rank, Error> {
        let job = self.existing(source)?;
        let engine = self.engine().borrow();
        engine.check_process()?;
        let port: &RankPort = engine.port();
        match port.peer(job) {
            PeerState::Failed(failure) => Err(MsgError::PeerFailed(failure).into()),
            PeerState::Left => Err(MsgError::left(job, port).into()),
            PeerState::Starting | PeerState::Running => Ok(job),
        }
    }

    /// The same for a source that the program directs: from now on the library gives no ring
    /// automatically.
    fn directed(&self, source: u32) -> Result<Rank, Error> {
        let job = self.present(source)?;
        self.engine().borrow_mut().port_mut().leave_rings_to_program(Some(job));
        Ok(job)
    }

    /// Converts an error to this communicator's ranks.
    fn landing_error(&self, error: LandingError) -> Error {
        use TableError::{Private, Unsettled};
        let number = |rank| self.number(rank);
        let error = match error {
            LandingError::Table(Private { ring, owner }) => {
                Private { ring, owner: number(owner) }.into()
            }
            LandingError::Table(Unsettled { ring, source_rank }) => {
                Unsettled { ring, source_rank: number(source_rank) }.into()
            }
            other => other,
        };
        Error::Landing(error)
    }
}
