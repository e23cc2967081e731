//! The landing rings of this rank, and their control by the program.

use hikyaku_nic::fabric::{FullPolicy, Granularity, RingState};

use crate::error::Error;
use crate::world::World;

/// The landing rings of this rank, and the table that maps sources to rings (paper 000 §3: AMT
/// and AMT Address Table). Of [`World::landing`].
///
/// A message of more than 264 bytes, or a packet of a longer one, lands in a ring of its receiver.
/// So does a message of more than 40 bytes if its source shares its status ring.
/// Sources in one ring wait for each other's room: while this rank does not receive the messages of
/// one, they hold up the other. A source in a ring of its own waits for no other source.
///
/// Up to 16 ranks, each source has a ring of its own, and there is no other. With more ranks, or by
/// `hikyaku run --rings N`, sources start in shared rings, and the rank has private ones to give:
/// 16, or as many as there are ranks if these are fewer. Private rings use memory once given.
///
/// Until the program directs a source, the library itself gives private rings to sources that send
/// often, and takes them back from quiet sources when others need them. From the first `give`,
/// `share`, `route` or `set_full` at this rank on it moves none: rings that it has given stay until
/// the program changes them, and `give` takes one of these when no other ring is left. With
/// `hikyaku run --keep-rings` the library moves none from the start.
///
/// The receiver decides, at any time, with messages in flight: a change applies from a source's
/// next message on. Landed messages stay in place, nothing is lost, and no message overtakes
/// another. The messages of a rank to itself land in the same way, and so do those from other
/// hosts.
///
/// ```no_run
/// # use hikyaku::World;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let world = World::init()?;
/// let landing = world.landing();
/// landing.give(1)?; // rank 1 no longer waits for others' room here
/// println!("{:?}", landing.ring_of(1)?);
/// landing.share(1)?; // and now it does again
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Landing<'w> {
    world: &'w World,
}

/// A landing ring of this rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LandingRing {
    /// Its number, from 0 on.
    pub number: u32,
    /// Capacity, bytes.
    pub bytes: u64,
    /// Bytes that have landed and were not released yet.
    pub held: u64,
    /// Bytes that have landed in all. Messages take multiples of 64.
    pub landed: u64,
    /// Whether several sources may land in it.
    pub shared: bool,
    /// The policy when the ring is full.
    pub full: FullPolicy,
    /// Messages that found it full and waited.
    pub stalls: u64,
    /// Messages that it has refused, each attempt.
    pub refusals: u64,
    /// The ranks of this communicator whose next messages land in it, in order.
    pub sources: Vec<u32>,
}

impl World {
    /// The landing rings of this rank: which source's messages land in which.
    pub fn landing(&self) -> Landing<'_> {
        Landing { world: self }
    }
}

impl Landing<'_> {
    /// All rings, by number. Private ones without sources can be given.
    pub fn rings(&self) -> Vec<LandingRing> {
        let rings = 0..self.world.communicator().landing_rings();
        rings.filter_map(|number| self.ring(number)).collect()
    }

    /// The ring of a number, if there is one.
    pub fn ring(&self, number: u32) -> Option<LandingRing> {
        let communicator = self.world.communicator();
        let state = communicator.landing_ring(number)?;
        let RingState { size, head, tail, stalls, refusals, policy, shared } = state;
        Some(LandingRing {
            number,
            bytes: size,
            held: tail.saturating_sub(head),
            landed: tail,
            shared,
            full: policy,
            stalls,
            refusals,
            sources: communicator.sources_of(number).collect(),
        })
    }

    /// The number of the ring in which the next messages of rank `source` land.
    ///
    /// # Errors
    /// The rank does not exist.
    pub fn ring_of(&self, source: u32) -> Result<Option<u32>, Error> {
        Ok(self.world.communicator().ring_of(source)?)
    }

    /// Gives rank `source` a private ring, unless it has one. Returns its number.
    ///
    /// A ring of another source can be given once no post of that source to it is in progress. The
    /// call waits for that: microseconds, unless that process is stopped.
    ///
    /// # Errors
    /// The rank does not exist or is gone; or [`LandingError`](crate::LandingError): all private
    /// rings are other sources', or there is no memory for one.
    pub fn give(&self, source: u32) -> Result<u32, Error> {
        Ok(self.world.communicator().give_ring(source)?)
    }

    /// Puts rank `source` on a shared ring, unless it is on one: on the ring with the fewest
    /// sources. Returns its number. Its private ring can be given to another.
    ///
    /// # Errors
    /// The rank does not exist or is gone; or [`LandingError`](crate::LandingError): no ring is
    /// shared.
    pub fn share(&self, source: u32) -> Result<u32, Error> {
        Ok(self.world.communicator().share_ring(source)?)
    }

    /// Directs rank `source` to a ring: for groups of ranks that share one of several rings.
    ///
    /// # Errors
    /// The rank does not exist or is gone; or [`LandingError`](crate::LandingError): there is no
    /// such ring, it is private to another source, or there is no memory for it.
    pub fn route(&self, source: u32, ring: u32) -> Result<(), Error> {
        Ok(self.world.communicator().route(source, ring)?)
    }

    /// Sets what a ring does from now on when it is full: a message without room waits
    /// ([`FullPolicy::Stall`], paper 000 on DIMMnet-2), or is refused and sent again by its sender
    /// until there is room ([`FullPolicy::Refuse`], Martini's NACK). At first all rings of a job
    /// follow `hikyaku run --full`.
    ///
    /// # Errors
    /// There is no such ring.
    pub fn set_full(&self, ring: u32, policy: FullPolicy) -> Result<(), Error> {
        Ok(self.world.communicator().set_full(ring, policy)?)
    }
    /// Sets how many status records this rank's messages to rank `destination` leave there from now
    /// on (paper 000 §3.3: the bit that the sender sets): one for each packet, or one for the
    /// message.
    ///
    /// A message of one record lands only when there is room for all of it; its receiver finds one
    /// record instead of one per 4 KiB. It is for messages below 64 KiB that fit a ring of their
    /// own. In other cases each packet has a record all the same: in a shared ring the packets of
    /// several sources are interleaved.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn set_granularity(&self, destination: u32, granularity: Granularity) -> Result<(), Error> {
        Ok(self.world.communicator().choose_granularity(destination, granularity)?)
    }

    /// Names the ring of rank `destination` in which this rank's messages land from now on,
    /// regardless of the table there (paper 000 Fig. 2: the variant without a table). `None`: the
    /// table decides again.
    ///
    /// Only shared rings can be named. They have the same numbers at all ranks, from 0 on. A
    /// private ring has a single source, which the receiver sets.
    ///
    /// # Errors
    /// The rank does not exist; or [`LandingError`](crate::LandingError): the ring does not exist,
    /// or is not shared.
    pub fn name_ring(&self, destination: u32, ring: Option<u32>) -> Result<(), Error> {
        Ok(self.world.communicator().choose_ring(destination, ring)?)
    }
}
