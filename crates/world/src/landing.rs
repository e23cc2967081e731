//! Where messages land at this rank, and how the program directs that.

use hikyaku_nic::fabric::{FullPolicy, Granularity, RingState};

use crate::error::Error;
use crate::world::World;

/// The landing rings of this rank, and the table that says who lands in which (paper 000 §3: AMT
/// and AMT Address Table). Of [`World::landing`].
///
/// A message of more than 264 bytes, or a packet of a longer one, lands in a ring of its receiver,
/// and so does one of more than 40 bytes of a source that shares its status ring.
/// Sources in one ring wait for each other's room: while this rank does not receive the messages of
/// one, they hold up the other. A source in a ring of its own waits for nobody else.
///
/// Up to 16 ranks each source has a ring of its own, and there is no other. Beyond, or by
/// `hikyaku run --rings N`, sources start in shared rings, and the rank has private ones to give:
/// 16, or with fewer ranks as many, which take memory when they are given.
///
/// Until the program directs something, the library gives those to sources that send often, by
/// itself, and takes them back from sources that are quiet when another one needs them. From the
/// first `give`, `share`, `route` or `set_full` at this rank on it moves none: what it has given
/// stays until the program says otherwise, and is what `give` takes when no other ring is left.
/// `hikyaku run --keep-rings` has nothing move by itself from the start.
///
/// The receiver decides, at any time, with messages in flight: a change holds from a source's
/// next message on. What has landed stays where it is, nothing is lost, and no message overtakes
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
    /// Bytes that have landed and were not given back yet.
    pub held: u64,
    /// Bytes that have landed in all. Messages take multiples of 64.
    pub landed: u64,
    /// Whether several sources may land in it.
    pub shared: bool,
    /// What it does when it is full.
    pub full: FullPolicy,
    /// Messages that have found it full and waited.
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
    /// A ring that was another source's can be given as soon as that one is in no post to it, which
    /// this waits for: microseconds, unless that process is stopped.
    ///
    /// # Errors
    /// The rank does not exist or is gone; or [`LandingError`](crate::LandingError): all private
    /// rings are other sources', or there is no memory for one.
    pub fn give(&self, source: u32) -> Result<u32, Error> {
        Ok(self.world.communicator().give_ring(source)?)
    }

    /// Puts rank `source` on a shared ring, unless it is on one: of several on that with fewest
    /// sources. Returns its number. Its private ring can be given to another.
    ///
    /// # Errors
    /// The rank does not exist or is gone; or [`LandingError`](crate::LandingError): no ring is
    /// shared.
    pub fn share(&self, source: u32) -> Result<u32, Error> {
        Ok(self.world.communicator().share_ring(source)?)
    }

    /// Directs rank `source` to a ring: for groups of ranks that are to share one of several.
    ///
    /// # Errors
    /// The rank does not exist or is gone; or [`LandingError`](crate::LandingError): there is no
    /// such ring, it is private to another source, or there is no memory for it.
    pub fn route(&self, source: u32, ring: u32) -> Result<(), Error> {
        Ok(self.world.communicator().route(source, ring)?)
    }

    /// Says what a ring does from now on when it is full: a message that finds no room waits
    /// ([`FullPolicy::Stall`], paper 000 on DIMMnet-2), or is refused and sent again by its sender
    /// until there is room ([`FullPolicy::Refuse`], Martini's NACK). At first all rings of a job do
    /// what `hikyaku run --full` says.
    ///
    /// # Errors
    /// There is no such ring.
    pub fn set_full(&self, ring: u32, policy: FullPolicy) -> Result<(), Error> {
        Ok(self.world.communicator().set_full(ring, policy)?)
    }
    /// Says how many status records this rank's messages to rank `destination` leave there from
    /// now on (paper 000 §3.3: the bit that the sender sets): one for each packet, or one for the
    /// message.
    ///
    /// A message of one record lands when there is room for all of it, and begins to land no
    /// sooner; its receiver finds one record and not one in 4 KiB. It is for messages below 64 KiB
    /// that fit a ring of their own: the packets of sources that share a ring lie between each
    /// other, so there, and of longer ones, each packet has a record all the same.
    ///
    /// # Errors
    /// There is no such rank.
    pub fn set_granularity(&self, destination: u32, granularity: Granularity) -> Result<(), Error> {
        Ok(self.world.communicator().choose_granularity(destination, granularity)?)
    }

    /// Names the ring of rank `destination` in which this rank's messages land from now on,
    /// whatever the table there says (paper 000 Fig. 2: the variant without a table). `None`: the
    /// table says so again.
    ///
    /// Shared rings can be named, which have the same numbers at all ranks, from 0 on. A private
    /// one has a single source, and the receiver says which.
    ///
    /// # Errors
    /// The rank does not exist; or [`LandingError`](crate::LandingError): the ring does not exist,
    /// or is not shared.
    pub fn name_ring(&self, destination: u32, ring: Option<u32>) -> Result<(), Error> {
        Ok(self.world.communicator().choose_ring(destination, ring)?)
    }
}
