//! Making shared variables collectively, and finding them by name.
//!
//! Each rank first sends its request and its memory to all others. Only then are the offers
//! checked. So a mistake, or a lack of memory, on one rank is an error on every rank, and no rank
//! is left waiting. The ranks that have received all offers then vote, so a death meanwhile is an
//! error on every rank or on none.

use std::cell::{RefCell, RefMut};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::{Rc, Weak};
use std::task::Poll;

use crate::word::{RANKS_MOST, VARIABLES_MOST};
use crate::{Copyset, Division, Geometry, Style};
use hikyaku_nic::fabric::Port;
use hikyaku_rank::Communicator;

use super::direct::DirectDriver;
use super::error::{Error, SharedError};
use super::faults::Injector;
use super::memory::{Given, Own, VariableMemory, VariableSizes};
use super::options::{Element, Protocol, Settings, SharedOptions};
use super::service::{Service, SocketPlace, VariableSide};
use super::variable::{Driver, Variable};
use super::vote::Ballots;

/// A rank's shared variables. When the last handle is dropped, the rank serves the other ranks
/// until they can do without it.
#[derive(Debug)]
pub struct Variables {
    rank: Communicator,
    by_name: RefCell<BTreeMap<String, Weak<Variable>>>,
    /// Memory of variables that this rank has dropped and others may still use. If the rank ends
    /// before, it stays with the job.
    parked: RefCell<Vec<Given>>,
    /// Memory of variables that were not made.
    ballots: RefCell<Ballots>,
    /// The number of sync variables in use, and of variables made so far.
    counts: RefCell<(u64, u32)>,
    /// The protocol of variables that do not choose one.
    protocol: Protocol,
    /// Serves the requests of other ranks.
    service: Rc<Service>,
    /// Fault injection, for tests.
    injector: Option<Rc<Injector>>,
}

impl Drop for Variables {
    fn drop(&mut self) {
        // A rank that panics serves no one any more, and must not wait for room.
        let is_rank = !self.rank.engine().borrow().port().is_forked();
        if is_rank && !std::thread::panicking() {
            self.service.linger(self.rank.engine());
            let mut engine = self.rank.engine().borrow_mut();
            let given = self.parked.get_mut().drain(..).chain(self.service.take_given());
            given.for_each(|given| given.leave_to_others(engine.port_mut()));
            drop(engine);
            self.rank.end_variables(self.number());
        }
    }
}

impl Variables {
    /// The variables of a rank, empty at first. `rank`: a communicator of all ranks of the job.
    pub fn new(rank: Communicator, settings: Settings) -> Rc<Variables> {
        let injector = Injector::of(settings, rank.engine().borrow().port());
        Rc::new(Variables {
            rank,
            by_name: RefCell::default(),
            parked: RefCell::default(),
            ballots: RefCell::default(),
            counts: RefCell::default(),
            protocol: settings.protocol,
            service: Rc::new(Service::new(injector.clone())),
            injector,
        })
    }

    /// A number that identifies this interface within the process.
    fn number(&self) -> usize {
        Rc::as_ptr(&self.service).addr()
    }

    /// The communicator of all ranks of the job.
    pub(super) fn rank(&self) -> &Communicator {
        &self.rank
    }

    /// The service for requests of other ranks.
    pub(super) fn service(&self) -> &Rc<Service> {
        &self.service
    }

    /// Memory of variables that were not made.
    pub(super) fn ballots(&self) -> RefMut<'_, Ballots> {
        self.ballots.borrow_mut()
    }

    /// Forgets a variable that this rank no longer uses.
    pub(super) fn forget(&self, name: &str, parts: u64) {
        self.by_name.borrow_mut().remove(name);
        self.counts.borrow_mut().0 -= parts;
    }

    /// Keeps the memory of a variable until no rank uses it.
    pub(super) fn park(&self, given: Option<Given>) {
        self.parked.borrow_mut().extend(given);
        self.sweep();
    }

    /// Frees memory that no rank uses.
    fn sweep(&self) {
        self.parked.borrow_mut().extract_if(.., |given| given.is_over()).for_each(Given::free);
    }

    /// Finds a variable of this rank by its name.
    ///
    /// # Errors
    /// [`SharedError::Unknown`].
    pub fn find(&self, name: &str) -> Result<Rc<Variable>, Error> {
        let by_name = self.by_name.borrow();
        if let Some(variable) = by_name.get(name).and_then(Weak::upgrade) {
            return Ok(variable);
        }
        let known: Vec<String> = by_name.keys().map(|name| format!("`{name}`")).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        Err(SharedError::Unknown { name: name.to_owned(), known }.into())
    }

    /// Makes a variable of zeros. All ranks call it with the same arguments, in the same order as
    /// other collective operations. `world` must contain all ranks of the job.
    ///
    /// # Errors
    /// [`SharedError`]: ranks disagree, the name is taken, or memory is full. Or a rank is gone.
    pub fn make(
        self: &Rc<Self>,
        world: &Communicator,
        name: &str,
        shape: &[u64],
        element: Element,
        options: SharedOptions,
    ) -> Result<Rc<Variable>, Error> {
        if world.members().is_some() {
            return Err(SharedError::SomeRanks { name: name.to_owned() }.into());
        }
        self.sweep();
        let protocol = options.protocol.unwrap_or(self.protocol);
        let options = SharedOptions { protocol: Some(protocol), ..options };
        let wanted = WantedVariable { name, shape, element, options, protocol };
        let prepared = self.prepare(&wanted);
        let placed = self.place(world, &wanted, &prepared);
        let elected = placed.and_then(|placed| self.elect(name, &placed.memory).map(|()| placed));
        match (prepared, elected) {
            (Ok(prepared), Ok(placed)) => Ok(self.begin(wanted, prepared, placed)),
            (Ok(prepared), Err(error)) => {
                self.abandon(prepared.own);
                Err(error)
            }
            (Err(_), Err(error)) | (Err(error), Ok(_)) => Err(error),
        }
    }

    /// Sends this rank's offer to the others, and receives their offers.
    fn place(
        &self,
        world: &Communicator,
        wanted: &WantedVariable<'_>,
        prepared: &Result<PreparedVariable, Error>,
    ) -> Result<Placed, Error> {
        let offer = VariableOffer::new(wanted, prepared.as_ref().ok());
        let told = world.share(&offer.words())?;
        // All ranks are here: no rank reads an earlier vote.
        self.ballots().give_back();
        let prepared = prepared.as_ref().map_err(Error::clone)?;
        let offers = VariableOffer::read_all(&told, wanted.name).map_err(|error| match error {
            SharedError::Refused { .. } => self.somebody_died().unwrap_or(error.into()),
            error => error.into(),
        })?;
        let places: Vec<(u64, u64)> = offers.iter().map(|offer| offer.places).collect();
        let injector = self.injector.clone();
        let engine = world.engine().borrow();
        let memory = VariableMemory::new(
            engine.port(),
            (wanted.name, prepared.sizes.clone()),
            &places,
            injector,
        );
        // A rank offered memory outside its region: it runs another program.
        let memory = memory.ok_or(SharedError::Refused { name: wanted.name.into(), rank: 0 })?;
        Ok(Placed { memory, sockets: offers.iter().map(|offer| offer.socket).collect() })
    }

    /// Makes the variable, which all ranks have now. It is counted only now.
    fn begin(
        self: &Rc<Self>,
        wanted: WantedVariable<'_>,
        prepared: PreparedVariable,
        placed: Placed,
    ) -> Rc<Variable> {
        let division = prepared.division.clone();
        let driver = self.driver(&wanted, prepared, placed);
        let WantedVariable { name, element, options, .. } = wanted;
        let variable = Rc::new(Variable::new(self, name, element, division, options, driver));
        self.by_name.borrow_mut().insert(name.to_owned(), Rc::downgrade(&variable));
        variable
    }

    /// Makes the driver. All ranks take the same number of contexts.
    fn driver(
        &self,
        wanted: &WantedVariable<'_>,
        prepared: PreparedVariable,
        placed: Placed,
    ) -> Driver {
        let PreparedVariable { own, division, .. } = prepared;
        let Placed { memory, sockets } = placed;
        let (used, number) = *self.counts.borrow();
        *self.counts.borrow_mut() = (used + division.count(), number + 1);
        let given = Given::new(own, &memory, self.rank.engine().borrow().port());
        let (service, recoverable) = (&self.service, wanted.options.recoverable);
        let style = match wanted.protocol {
            Protocol::Direct => {
                service.note_made(number + 1, None);
                return Driver::Direct(DirectDriver::new(memory, given, recoverable));
            }
            Protocol::Fagus => Style::Stores,
            Protocol::Udp => Style::Datagrams,
        };
        match style {
            Style::Stores => service.open_notes(|| self.rank.duplicate().context()),
            Style::Datagrams => service.connect(&sockets),
        }
        let division = (division, u64::from(wanted.element.bytes));
        let side =
            Rc::new(VariableSide::new(number, style, (memory, given), division, recoverable));
        service.note_made(number + 1, Some(Rc::clone(&side)));
        service.tell_who_was_gone(self.rank.engine());
        self.serve();
        Driver::Mailbox(side)
    }

    /// Makes every waiting call serve the requests of other ranks, while there are variables whose
    /// protocol sends requests.
    fn serve(&self) {
        let (service, tasks) = (&self.service, self.rank.tasks());
        tasks.set_restless(service.is_restless());
        if let Some(task) = service.task.take() {
            match tasks.take_result(task) {
                Some(_) => {}
                None => return service.task.set(Some(task)),
            }
        }
        let (rank, serving) = (self.rank.observe(), Rc::clone(service));
        let task = poll_fn(move |_| {
            let served = rank.with_engine(|engine, tasks| {
                if serving.poll(engine) {
                    tasks.stir();
                }
                tasks.set_restless(serving.is_restless());
            });
            if served.is_none() || serving.is_over() { Poll::Ready(Ok(())) } else { Poll::Pending }
        });
        service.task.set(Some(tasks.start(Box::pin(task))));
    }

    /// Prepares this rank's offer and memory, before the exchange.
    fn prepare(&self, wanted: &WantedVariable<'_>) -> Result<PreparedVariable, Error> {
        let WantedVariable { shape, options, protocol, .. } = *wanted;
        let name = wanted.name.to_owned();
        let ranks = self.rank.size();
        let most = if protocol == Protocol::Direct { RANKS_MOST } else { Copyset::MOST };
        if ranks > most {
            return Err(SharedError::TooManyRanks { protocol, ranks, most }.into());
        }
        if self.by_name.borrow().contains_key(&name) {
            return Err(SharedError::Exists { name }.into());
        }
        if !self.rank.begin_variables(self.number()) {
            return Err(SharedError::OtherInterface { name }.into());
        }
        let division = match Division::new(shape, options.parts) {
            Ok(division) => division,
            Err(error) => return Err(SharedError::Parts { name, error }.into()),
        };
        let (used, made) = *self.counts.borrow();
        let (wanted_parts, free) = (division.count(), VARIABLES_MOST - used);
        if wanted_parts > free {
            let most = VARIABLES_MOST;
            return Err(SharedError::TooMany { name, wanted: wanted_parts, free, most }.into());
        }
        self.all_are_there()?;
        let mut engine = self.rank.engine().borrow_mut();
        let port = engine.port_mut();
        let on_node_0 = || (0..ranks).filter(|rank| port.node_of(*rank) == 0).count() as u32;
        let geometry = match protocol {
            Protocol::Direct if port.spans_hosts() => {
                let nodes: Vec<u32> = (0..ranks).map(|rank| port.node_of(rank)).collect();
                Geometry::listed(&nodes, port.rank())
            }
            Protocol::Direct => Geometry::new(ranks, on_node_0(), port.rank()),
            // The paper's processes have one copy each.
            Protocol::Fagus | Protocol::Udp => Geometry::new(ranks, 1, port.rank()),
        };
        let bytes = division.elements().saturating_mul(u64::from(wanted.element.bytes));
        let sizes =
            VariableSizes { geometry, parts: wanted_parts, first_home: made % ranks, bytes };
        let own = Own::allocate(port, &sizes)?;
        let at = match port.spans_hosts() {
            false => Some(Ipv4Addr::LOCALHOST.into()),
            true => port.far_address(),
        };
        let network = port.capabilities().virtual_time.then(|| port.network_copies());
        drop(engine);
        let socket = match protocol {
            Protocol::Udp => Some(self.open_socket(at, network).map_err(|error| {
                let error = error.to_string();
                SharedError::Socket { name, error }
            })?),
            Protocol::Direct | Protocol::Fagus => None,
        };
        Ok(PreparedVariable { own, sizes, division, socket })
    }

    /// A socket at an address of this host that all ranks reach, if it has one. `network`: in
    /// virtual time, whether the job's network copies datagrams.
    fn open_socket(
        &self,
        at: Option<IpAddr>,
        network: Option<bool>,
    ) -> std::io::Result<SocketPlace> {
        if let Some(copies) = network {
            return self.service.open_network(self.rank.rank(), copies);
        }
        let none = || {
            std::io::Error::other(
                "other hosts are not reached by addresses of the internet: choose another protocol",
            )
        };
        self.service.open_sockets(self.rank.rank(), at.ok_or_else(none)?)
    }
}

/// A variable as this rank requests it.
#[derive(Debug)]
struct WantedVariable<'a> {
    name: &'a str,
    shape: &'a [u64],
    element: Element,
    /// The options. They name the protocol too.
    options: SharedOptions,
    protocol: Protocol,
}

/// A rank's memory for a variable, and its offer.
#[derive(Debug)]
struct PreparedVariable {
    own: Own,
    sizes: VariableSizes,
    division: Division,
    /// This rank's socket, if the protocol has one.
    socket: Option<SocketPlace>,
}

/// The places of all memory of a variable.
#[derive(Debug)]
struct Placed {
    memory: VariableMemory,
    /// Each rank's socket, if the protocol uses sockets.
    sockets: Vec<SocketPlace>,
}

/// A rank's offer for a variable.
#[derive(Debug)]
struct VariableOffer {
    /// Whether the rank could allocate its memory.
    made: bool,
    /// The names and values that must be the same on all ranks.
    same: Vec<(&'static str, String)>,
    /// The places of the rank's block and of its node's block.
    places: (u64, u64),
    /// The rank's socket, if the protocol has one.
    socket: SocketPlace,
}

/// The names of the values that must be the same, in order.
const SAME: [&str; 6] = ["name", "shape", "type", "division", "recovery", "protocol"];

impl VariableOffer {
    fn new(wanted: &WantedVariable<'_>, prepared: Option<&PreparedVariable>) -> VariableOffer {
        let WantedVariable { name, shape, ref element, options, protocol } = *wanted;
        let places = prepared.map_or((0, 0), |PreparedVariable { own, .. }| {
            (own.home.offset(), own.node.as_ref().map_or(0, |node| node.offset()))
        });
        let recovery = if options.recoverable { "recoverable" } else { "not recoverable" };
        let said = [
            format!("`{name}`"),
            format!("{shape:?}"),
            format!("{} of {} bytes", element.name, element.bytes),
            options.parts.to_string(),
            recovery.to_owned(),
            protocol.to_string(),
        ];
        let same = SAME.into_iter().zip(said).collect();
        let socket = prepared.and_then(|prepared| prepared.socket);
        let socket = socket.unwrap_or(SocketPlace::from_words([0; 4]));
        VariableOffer { made: prepared.is_some(), same, places, socket }
    }

    fn words(&self) -> Vec<u32> {
        let halves = |word: u64| [word as u32, (word >> 32) as u32];
        let mut words = vec![u32::from(self.made)];
        let socket = self.socket.to_words();
        let longs = [self.places.0, self.places.1].into_iter().chain(socket);
        words.extend(longs.flat_map(halves));
        for (_, said) in &self.same {
            words.push(said.len() as u32);
            words.extend(said.bytes().map(u32::from));
        }
        words
    }

    fn read(mut words: &[u32]) -> Option<VariableOffer> {
        let mut take = |count: usize| {
            let (taken, rest) = words.split_at_checked(count)?;
            words = rest;
            Some(taken)
        };
        let made = take(1)? == [1];
        let long = |halves: &[u32]| u64::from(halves[1]) << 32 | u64::from(halves[0]);
        let places = (long(take(2)?), long(take(2)?));
        let mut socket = [0; 4];
        for word in &mut socket {
            *word = long(take(2)?);
        }
        let socket = SocketPlace::from_words(socket);
        let mut same = Vec::new();
        for what in SAME {
            let length = take(1)?[0] as usize;
            let bytes: Vec<u8> = take(length)?.iter().map(|byte| *byte as u8).collect();
            same.push((what, String::from_utf8_lossy(&bytes).into_owned()));
        }
        Some(VariableOffer { made, same, places, socket })
    }

    /// The offers of all ranks. If they disagree, or a rank could not allocate, every rank gets the
    /// same error.
    fn read_all(told: &[Vec<u32>], name: &str) -> Result<Vec<VariableOffer>, SharedError> {
        let mut offers: Vec<VariableOffer> = Vec::new();
        for (rank, words) in (0..).zip(told) {
            let refused = SharedError::Refused { name: name.to_owned(), rank };
            let offer = VariableOffer::read(words).ok_or_else(|| refused.clone())?;
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
pub(super) mod votes;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn told(shape: &[u64], element: &Element, made: bool) -> Vec<u32> {
        let (options, protocol) = (SharedOptions::default(), Protocol::Direct);
        let element = element.clone();
        let wanted = WantedVariable { name: "x", shape, element, options, protocol };
        let mut offer = VariableOffer::new(&wanted, None);
        offer.made = made;
        offer.words()
    }

    #[test]
    fn what_differs_is_named_with_the_rank_and_both_words() {
        let element = Element::of::<f64>();
        let good = told(&[2, 3], &element, true);
        assert_eq!(VariableOffer::read_all(&[good.clone(), good.clone()], "x").unwrap().len(), 2);
        let other = told(&[3, 2], &element, true);
        let error = VariableOffer::read_all(&[good.clone(), good.clone(), other], "x").unwrap_err();
        assert_eq!(
            error.to_string(),
            "rank 2 made the shared variable with the shape [3, 2] where rank 0 made it with \
             [2, 3]: every rank makes the same variables in the same order"
        );
        let other = told(&[2, 3], &Element::of::<f32>(), true);
        let error = VariableOffer::read_all(&[good.clone(), other], "x").unwrap_err();
        assert!(matches!(error, SharedError::Mismatch { rank: 1, what: "type", .. }), "{error}");
        let refused = told(&[2, 3], &element, false);
        let error = VariableOffer::read_all(&[good.clone(), refused], "x").unwrap_err();
        assert!(matches!(error, SharedError::Refused { rank: 1, .. }), "{error}");
        let error = VariableOffer::read_all(&[good.clone(), good[..13].to_vec()], "x").unwrap_err();
        assert!(matches!(error, SharedError::Refused { rank: 1, .. }), "{error}");
    }
}
