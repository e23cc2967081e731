//! Making shared variables, together, and finding them by their names.
//!
//! Each rank first tells all others what it wants and gives; only then the offers are judged. So a
//! mistake, or a lack of memory, on one rank is an error on every rank, and no rank is left
//! waiting. The ranks that have heard of all then vote, so a death meanwhile is an error on every
//! rank, or on none.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::mem::ManuallyDrop;
use std::rc::{Rc, Weak};
use std::task::Poll;

use hikyaku_dsm::word::{RANKS_MOST, VARIABLES_MOST};
use hikyaku_dsm::{Copyset, Division, Geometry, Style};
use hikyaku_nic::fabric::{PeerState, Port};
use hikyaku_rank::View;

use super::Shared;
use super::direct::DirectDriver;
use super::driver::Driver;
use super::error::SharedError;
use super::faults::Injector;
use super::mailbox::MailboxDriver;
use super::memory::{Memory, Own, Sizes};
use super::options::{Element, SharedOptions};
use super::protocol::Protocol;
use super::service::{Service, Side};
use super::variable::Variable;
use super::vote::Ballots;
use crate::error::Error;
use crate::scalar::Scalar;
use crate::world::World;

/// A rank's shared variables.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    by_name: RefCell<BTreeMap<String, Weak<Variable>>>,
    /// Memory of variables that this rank has dropped and others may still use.
    parked: RefCell<Vec<Parked>>,
    /// Memory of variables that were not made.
    ballots: RefCell<Ballots>,
    /// Sync variables in use, and variables made so far.
    counts: RefCell<(u64, u32)>,
    /// The protocol of variables that do not choose one.
    protocol: Protocol,
    /// Serves the others' requests.
    service: Rc<Service>,
    /// Fault injection, for tests.
    injector: Option<Rc<Injector>>,
}

/// Memory that others may still use.
#[derive(Debug)]
struct Parked {
    /// Taken when it is freed; never dropped automatically.
    own: ManuallyDrop<Option<Own>>,
    home: View,
    ranks: u64,
}

impl Registry {
    /// For variables of this protocol, unless they choose another.
    pub(crate) fn new(protocol: Protocol, injector: Option<Rc<Injector>>) -> Registry {
        let service = Rc::new(Service::new(injector.clone()));
        Registry { protocol, service, injector, ..Registry::default() }
    }

    /// The service for the others' requests.
    pub(crate) fn service(&self) -> &Rc<Service> {
        &self.service
    }

    /// Memory of variables that were not made.
    pub(super) fn ballots(&self) -> RefMut<'_, Ballots> {
        self.ballots.borrow_mut()
    }

    /// This rank no longer uses a variable.
    pub(super) fn forget(&self, name: &str, parts: u64) {
        self.by_name.borrow_mut().retain(|known, weak| known != name || weak.strong_count() > 0);
        self.counts.borrow_mut().0 -= parts;
    }

    /// Keeps the memory of a variable until no rank uses it any more.
    pub(super) fn park(&self, own: Own, home: Option<View>, ranks: u32) {
        let own = ManuallyDrop::new(Some(own));
        // Without a view of it no rank can say so: then it stays until the job ends.
        let Some(home) = home else { return };
        self.parked.borrow_mut().push(Parked { own, home, ranks: u64::from(ranks) });
        self.sweep();
    }

    /// Frees memory that no rank uses any more. The rest stays with the job when the rank ends:
    /// freed memory would be taken from under the others.
    fn sweep(&self) {
        self.parked.borrow_mut().retain_mut(|parked| {
            let over = Memory::parted(&parked.home) >= parked.ranks;
            if over {
                drop(parked.own.take());
            }
            !over
        });
    }
}

impl World {
    /// Makes a shared variable: an array of zeros of this shape, bound to a lock. Every rank calls
    /// it, with the same arguments, in the same order as other collective operations.
    ///
    /// # Errors
    /// [`SharedError`]: ranks disagree, the name is taken, memory is full. Or a rank is gone.
    pub fn shared<T: Scalar>(&self, name: &str, shape: &[u64]) -> Result<Shared<T>, Error> {
        self.shared_with(name, shape, SharedOptions::default())
    }

    /// [`World::shared`] with options.
    ///
    /// # Errors
    /// As [`World::shared`].
    pub fn shared_with<T: Scalar>(
        &self,
        name: &str,
        shape: &[u64],
        options: SharedOptions,
    ) -> Result<Shared<T>, Error> {
        Ok(Shared::new(self.make(name, shape, Element::of::<T>(), options)?))
    }

    /// [`World::shared`] with elements of which only name and size are known: its guards are slices
    /// of their bytes. For bindings of other languages.
    ///
    /// # Errors
    /// As [`World::shared`].
    pub fn shared_bytes(
        &self,
        name: &str,
        shape: &[u64],
        element: Element,
        options: SharedOptions,
    ) -> Result<Shared<u8>, Error> {
        Ok(Shared::new(self.make(name, shape, element, options)?))
    }

    /// Finds a shared variable of this rank by its name.
    ///
    /// # Errors
    /// [`SharedError::Unknown`], [`SharedError::WrongElement`].
    pub fn shared_named<T: Scalar>(&self, name: &str) -> Result<Shared<T>, Error> {
        let variable = self.find(name)?;
        let wanted = Element::of::<T>();
        if variable.element != wanted {
            let (name, element) = (name.to_owned(), variable.element.name.clone());
            return Err(SharedError::WrongElement { name, element, wanted: wanted.name }.into());
        }
        Ok(Shared::new(variable))
    }

    /// [`World::shared_named`] as bytes, for elements of any type.
    ///
    /// # Errors
    /// [`SharedError::Unknown`].
    pub fn shared_named_bytes(&self, name: &str) -> Result<Shared<u8>, Error> {
        Ok(Shared::new(self.find(name)?))
    }

    fn find(&self, name: &str) -> Result<Rc<Variable>, Error> {
        let by_name = self.registry().by_name.borrow();
        if let Some(variable) = by_name.get(name).and_then(Weak::upgrade) {
            return Ok(variable);
        }
        let known: Vec<String> = by_name.keys().map(|name| format!("`{name}`")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(SharedError::Unknown { name: name.to_owned(), known }.into())
    }

    fn make(
        &self,
        name: &str,
        shape: &[u64],
        element: Element,
        options: SharedOptions,
    ) -> Result<Rc<Variable>, Error> {
        if self.communicator().members().is_some() {
            return Err(SharedError::SomeRanks { name: name.to_owned() }.into());
        }
        let registry = self.registry();
        registry.sweep();
        let protocol = options.protocol.unwrap_or(registry.protocol);
        let options = SharedOptions { protocol: Some(protocol), ..options };
        let prepared = self.prepare(name, shape, &element, options);
        let offer = Offer::new(name, shape, &element, options, prepared.as_ref().ok());
        let placed = self.place(name, &prepared, &offer);
        let elected = placed.and_then(|placed| self.elect(name, &placed.memory).map(|()| placed));
        match (prepared, elected) {
            (Ok(prepared), Ok(placed)) => {
                Ok(self.begin(name, (element, options), prepared, placed))
            }
            (Ok(prepared), Err(error)) => {
                self.give_up(prepared.own);
                Err(error)
            }
            (Err(_), Err(error)) | (Err(error), Ok(_)) => Err(error),
        }
    }

    /// Sends what this rank offers to the others, and receives their offers.
    fn place(
        &self,
        name: &str,
        prepared: &Result<Prepared, Error>,
        offer: &Offer,
    ) -> Result<Placed, Error> {
        let told = self.share(&offer.words())?;
        // All ranks are here: no rank reads an earlier vote any more.
        self.registry().ballots().give_back();
        let prepared = prepared.as_ref().map_err(Error::clone)?;
        let offers = Offer::read_all(&told, name).map_err(|error| match error {
            SharedError::Refused { .. } => self.somebody_died().unwrap_or(error.into()),
            error => error.into(),
        })?;
        let places: Vec<(u64, u64)> = offers.iter().map(|offer| offer.places).collect();
        let injector = self.registry().injector.clone();
        let engine = self.engine().borrow();
        let memory = Memory::new(engine.port(), prepared.sizes, &places, injector);
        // A rank offered memory outside its region: it does not run this program.
        let memory = memory.ok_or(SharedError::Refused { name: name.to_owned(), rank: 0 })?;
        Ok(Placed { memory, sockets: offers.iter().map(|offer| offer.socket).collect() })
    }

    /// Makes the variable, which all ranks have now. It is not counted earlier.
    fn begin(
        &self,
        name: &str,
        (element, options): (Element, SharedOptions),
        prepared: Prepared,
        Placed { memory, sockets }: Placed,
    ) -> Rc<Variable> {
        let protocol = options.protocol.unwrap_or_default();
        let division = prepared.division.clone();
        let driver = self.drive_by(protocol, prepared, memory, (&element, options), &sockets);
        let (name, world) = (name.to_owned(), self.apart());
        let known = name.clone();
        let variable = Rc::new(Variable::new(world, name, element, division, options, driver));
        self.registry().by_name.borrow_mut().insert(known, Rc::downgrade(&variable));
        variable
    }

    /// Makes the driver; all ranks take the same number of contexts.
    fn drive_by(
        &self,
        protocol: Protocol,
        prepared: Prepared,
        memory: Memory,
        (element, options): (&Element, SharedOptions),
        sockets: &[(u16, u64)],
    ) -> Driver {
        let Prepared { own, division, .. } = prepared;
        let registry = self.registry();
        let (used, number) = *registry.counts.borrow();
        *registry.counts.borrow_mut() = (used + division.count(), number + 1);
        let service = registry.service();
        let style = match protocol {
            Protocol::Direct => {
                service.note_made(number + 1, None);
                let recoverable = options.recoverable;
                return Driver::Direct(DirectDriver::new(memory, own, recoverable));
            }
            Protocol::Fagus => Style::Stores,
            Protocol::Udp => Style::Datagrams,
        };
        match style {
            Style::Stores => service.open_notes(|| self.apart().context()),
            Style::Datagrams => service.connect(sockets),
        }
        let side = Side::new(
            number,
            style,
            (memory, own),
            (division, u64::from(element.bytes)),
            options.recoverable,
            self.engine().borrow().port(),
        );
        let side = Rc::new(side);
        service.note_made(number + 1, Some(Rc::clone(&side)));
        service.tell_who_was_gone(self.engine());
        self.serve(service);
        Driver::Mailbox(MailboxDriver::new(side, Rc::clone(service), style == Style::Datagrams))
    }

    /// Makes every call that waits serve the others' requests, while variables exist for which
    /// ranks send requests.
    fn serve(&self, service: &Rc<Service>) {
        self.tasks().set_restless(service.is_restless());
        if let Some(task) = service.task.take() {
            match self.tasks().take_result(task) {
                Some(_) => {}
                None => return service.task.set(Some(task)),
            }
        }
        let (rank, serving) = (self.observe(), Rc::clone(service));
        let task = poll_fn(move |_| {
            let served = rank.with_engine(|engine, tasks| {
                if serving.poll(engine) {
                    tasks.stir();
                }
                tasks.set_restless(serving.is_restless());
            });
            if served.is_none() || serving.is_over() { Poll::Ready(Ok(())) } else { Poll::Pending }
        });
        service.task.set(Some(self.tasks().start(Box::pin(task))));
    }

    /// Prepares this rank's offer and memory, before it has heard of the others.
    fn prepare(
        &self,
        name: &str,
        shape: &[u64],
        element: &Element,
        options: SharedOptions,
    ) -> Result<Prepared, Error> {
        let registry = self.registry();
        let ranks = self.size();
        let protocol = options.protocol.unwrap_or_default();
        let most = if protocol == Protocol::Direct { RANKS_MOST } else { Copyset::MOST };
        if ranks > most {
            return Err(SharedError::TooManyRanks { protocol, ranks, most }.into());
        }
        if registry.by_name.borrow().get(name).is_some_and(|weak| weak.strong_count() > 0) {
            return Err(SharedError::Exists { name: name.to_owned() }.into());
        }
        let no_parts = |error| SharedError::Parts { name: name.to_owned(), error };
        let division = Division::new(shape, options.parts).map_err(no_parts)?;
        let (used, made) = *registry.counts.borrow();
        let (wanted, free) = (division.count(), VARIABLES_MOST - used);
        if wanted > free {
            let (name, most) = (name.to_owned(), VARIABLES_MOST);
            return Err(SharedError::TooMany { name, wanted, free, most }.into());
        }
        self.all_are_there()?;
        let mut engine = self.engine().borrow_mut();
        let port = engine.port_mut();
        if protocol == Protocol::Udp && port.host().is_conducted() {
            return Err(SharedError::VirtualTime { name: name.to_owned() }.into());
        }
        // The paper's processes have a copy each.
        let ranks_per_node = match protocol {
            Protocol::Direct => (0..ranks).filter(|rank| port.node_of(*rank) == 0).count() as u32,
            Protocol::Fagus | Protocol::Udp => 1,
        };
        let geometry = Geometry::new(ranks, ranks_per_node, port.rank());
        let bytes = division.elements().saturating_mul(u64::from(element.bytes));
        let sizes = Sizes { geometry, parts: wanted, first_home: made % ranks, bytes };
        let own = Own::allocate(port, &sizes)?;
        let rank = port.rank();
        drop(engine);
        let mut socket = (0, 0);
        if protocol == Protocol::Udp {
            let no_socket = |error: std::io::Error| SharedError::Socket {
                name: name.to_owned(),
                error: error.to_string(),
            };
            socket = registry.service().open_sockets(rank).map_err(no_socket)?;
        }
        Ok(Prepared { own, sizes, division, socket })
    }

    /// Updates `departed` if more ranks are gone.
    pub(super) fn note_departures(&self, seen: &mut u64, departed: &mut hikyaku_dsm::Departed) {
        let engine = self.engine().borrow();
        let port = engine.port();
        let now = port.departures();
        if now == *seen {
            return;
        }
        *seen = now;
        for rank in 0..port.size() {
            match port.peer(rank) {
                PeerState::Starting | PeerState::Running => {}
                PeerState::Left => departed.insert_left(rank),
                PeerState::Failed(_) => departed.insert(rank),
            }
        }
    }
}

/// A rank's memory for a variable, and its offer.
#[derive(Debug)]
struct Prepared {
    own: Own,
    sizes: Sizes,
    division: Division,
    /// Port and key of its socket, if the protocol has one.
    socket: (u16, u64),
}

/// The places of all memory of a variable.
#[derive(Debug)]
struct Placed {
    memory: Memory,
    /// Port and key of each rank's socket, if the protocol has them.
    sockets: Vec<(u16, u64)>,
}

/// A rank's offer for a variable that it makes.
#[derive(Debug)]
struct Offer {
    /// Whether it could allocate its memory.
    made: bool,
    /// The values that must be the same on all ranks, and their names.
    same: Vec<(&'static str, String)>,
    /// The places of its block and of its node's block.
    places: (u64, u64),
    /// Port and key of its socket, if the protocol has one.
    socket: (u16, u64),
}

/// The names of the values that must be the same, in order.
const SAME: [&str; 6] = ["name", "shape", "type", "division", "recovery", "protocol"];

impl Offer {
    fn new(
        name: &str,
        shape: &[u64],
        element: &Element,
        options: SharedOptions,
        prepared: Option<&Prepared>,
    ) -> Offer {
        let places = prepared.map_or((0, 0), |Prepared { own, .. }| {
            (own.home.offset(), own.node.as_ref().map_or(0, |node| node.offset()))
        });
        let recovery = if options.recoverable { "recoverable" } else { "not recoverable" };
        let said = [
            format!("`{name}`"),
            format!("{shape:?}"),
            format!("{} of {} bytes", element.name, element.bytes),
            options.parts.to_string(),
            recovery.to_owned(),
            options.protocol.unwrap_or_default().to_string(),
        ];
        let same = SAME.into_iter().zip(said).collect();
        let socket = prepared.map_or((0, 0), |prepared| prepared.socket);
        Offer { made: prepared.is_some(), same, places, socket }
    }

    fn words(&self) -> Vec<u32> {
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let mut words = vec![u32::from(self.made)];
        let (port, key) = self.socket;
        let longs = [self.places.0, self.places.1, u64::from(port), key];
        words.extend(longs.map(halves).as_flattened());
        for (_, said) in &self.same {
            words.push(said.len() as u32);
            words.extend(said.bytes().map(u32::from));
        }
        words
    }

    fn read(mut words: &[u32]) -> Option<Offer> {
        let mut take = |count: usize| {
            let (taken, rest) = words.split_at_checked(count)?;
            words = rest;
            Some(taken)
        };
        let made = take(1)? == [1];
        let long = |halves: &[u32]| u64::from(halves[1]) << 32 | u64::from(halves[0]);
        let places = (long(take(2)?), long(take(2)?));
        let socket = (long(take(2)?) as u16, long(take(2)?));
        let mut same = Vec::new();
        for what in SAME {
            let length = take(1)?[0] as usize;
            let bytes: Vec<u8> = take(length)?.iter().map(|byte| *byte as u8).collect();
            same.push((what, String::from_utf8_lossy(&bytes).into_owned()));
        }
        Some(Offer { made, same, places, socket })
    }

    /// The offers of all ranks. If they disagree, or one of them could not allocate, the error is
    /// the same on each of them.
    fn read_all(told: &[Vec<u32>], name: &str) -> Result<Vec<Offer>, SharedError> {
        let mut offers: Vec<Offer> = Vec::new();
        for (rank, words) in (0..).zip(told) {
            let refused = SharedError::Refused { name: name.to_owned(), rank };
            let offer = Offer::read(words).ok_or_else(|| refused.clone())?;
            let first = offers.first().unwrap_or(&offer);
            for ((what, theirs), (_, ours)) in offer.same.iter().zip(&first.same) {
                if theirs != ours {
                    let (theirs, ours) = (theirs.clone(), ours.clone());
                    return Err(SharedError::Mismatch { rank, what, theirs, ours });
                }
            }
            if !offer.made {
                return Err(refused);
            }
            offers.push(offer);
        }
        Ok(offers)
    }
}

#[cfg(test)]
mod votes;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn told(shape: &[u64], element: &Element, made: bool) -> Vec<u32> {
        let mut offer = Offer::new("x", shape, element, SharedOptions::default(), None);
        offer.made = made;
        offer.words()
    }

    #[test]
    fn what_differs_is_named_with_the_rank_and_both_words() {
        let element = Element::of::<f64>();
        let good = told(&[2, 3], &element, true);
        assert_eq!(Offer::read_all(&[good.clone(), good.clone()], "x").unwrap().len(), 2);
        let other = told(&[3, 2], &element, true);
        let error = Offer::read_all(&[good.clone(), good.clone(), other], "x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "rank 2 made the shared variable with the shape [3, 2] where rank 0 made it with \
             [2, 3]: every rank makes the same variables in the same order"
        );
        let other = told(&[2, 3], &Element::of::<f32>(), true);
        let error = Offer::read_all(&[good.clone(), other], "x").unwrap_err();
        assert!(matches!(error, SharedError::Mismatch { rank: 1, what: "type", .. }), "{error}");
        let refused = told(&[2, 3], &element, false);
        let error = Offer::read_all(&[good.clone(), refused], "x").unwrap_err();
        assert!(matches!(error, SharedError::Refused { rank: 1, .. }), "{error}");
        let error = Offer::read_all(&[good.clone(), good[..13].to_vec()], "x").unwrap_err();
        assert!(matches!(error, SharedError::Refused { rank: 1, .. }), "{error}");
    }
}
