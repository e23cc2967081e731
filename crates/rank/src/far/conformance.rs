//! The conformance rules of a fabric between hosts: ranks of one process, each on its own host or
//! alternating between two, that reach those on other hosts through libfabric.
//!
//! The bodies drive all ranks of a job in one thread. An operation on memory of another host waits
//! for its target, so a second thread makes progress at ranks that are not in use.

use std::cell::RefCell;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_conformance::{Harness, Setup, TablePort, layered};
use hikyaku_msg::{
    Engine, EngineConfig, Envelope, LongMessages, RecvFuture, Selector, SendFuture, SendMode, Way,
};
use hikyaku_nic::fabric::{
    Atomic, Capabilities, ChainError, ChannelOffer, Command, ContextError, ContextId, Contribution,
    CopyPort, DeathCause, Event, FullCause, FullPolicy, GroupError, GroupId, GroupPort, JointCopy,
    Key, Landing, LentAddress, MailEnd, MailboxAddress, MailboxPort, Member, MemoryPort, Name,
    PeerState, Port, PostError, QueueAddress, QueueCommand, QueueError, QueueMode, QueuePort,
    QueueState, Rank, RegisteredGroup, RemoteAddress, Rights, RingId, RingPort, RingSlice,
    RingState, Short, Space, TableError, Wait, Wake,
};
use hikyaku_nic::hosted::HostedPort;
use hikyaku_nic::layer::Faults;
use hikyaku_nic::layer::Layer as _;
use hikyaku_nic::region::{RegionBuffer, RegionError};
use hikyaku_nic::sync::{AtomicU64, Ordering};
use hikyaku_nic::time::Time;
use hikyaku_ofi::Error;
use hikyaku_ofi::link::LaneCounts;
use hikyaku_shm::{Hosts, Job, JobConfig, ShmHost, exchange_cards, open_all, open_hosts};

use super::{Far, LAYOUT, SENDS, providers};
use crate::port::RankPort;

/// The time after which a packet in flight counts as lost.
const PATIENCE: Duration = Duration::from_secs(20);

/// A rank's counts of a lane, and whether packets wait there.
type LaneState = (LaneCounts, bool);

/// A job: its ranks while they exist, and its hosts.
struct Floor {
    ranks: Vec<Mutex<Option<RankPort>>>,
    hosts: Vec<Job>,
}

impl Floor {
    fn rank(&self, rank: usize) -> MutexGuard<'_, Option<RankPort>> {
        self.ranks[rank].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes progress at a rank. Returns whether anything arrived.
    fn progress(rank: &mut Option<RankPort>) -> bool {
        let parts = rank.as_mut().and_then(RankPort::parts);
        parts.is_some_and(|(far, near)| far.progress(near))
    }

    /// Makes progress at ranks that are not in use, until all are gone.
    fn serve(&self) {
        loop {
            let (mut any, mut came) = (false, false);
            for rank in &self.ranks {
                any |= match rank.try_lock() {
                    Ok(mut rank) => {
                        came |= Floor::progress(&mut rank);
                        rank.is_some()
                    }
                    Err(_) => true,
                };
            }
            match (any, came) {
                (false, _) => return,
                (_, true) => {}
                // No rank wakes it, so it polls from time to time.
                (_, false) => thread::park_timeout(Duration::from_micros(20)),
            }
        }
    }

    /// Whether a packet from one rank to another, or its acknowledgement, has not arrived; or more
    /// packets will follow because the other rank holds none and so makes room.
    fn under_way(&self, from: usize, to: usize) -> bool {
        let of = |rank: usize, look: &dyn Fn(&Far) -> LaneState| {
            self.rank(rank).as_mut().and_then(RankPort::parts).map(|(far, _)| look(far))
        };
        (0..LAYOUT.lanes).any(|lane| {
            let sender = of(from, &|far| {
                let waits = far.out.iter().any(|(rank, on, _)| (*rank as usize, *on) == (to, lane));
                (far.links.counts(to as Rank, lane), waits)
            });
            let receiver = of(to, &|far| {
                let from = from as Rank;
                (far.links.counts(from, lane), far.links.holds(from, lane))
            });
            sender.zip(receiver).is_some_and(|((sent, waits), (came, holds))| {
                sent.sent != came.received || sent.known != came.told || waits && !holds
            })
        })
    }

    /// Makes progress everywhere until nothing moves any more.
    fn settle(&self) {
        let (all, start) = (self.ranks.len(), Instant::now());
        let mut still = 0;
        while still < 2 {
            let came =
                (0..all).fold(false, |any, rank| Floor::progress(&mut self.rank(rank)) | any);
            let pairs = (0..all).flat_map(|from| (0..all).map(move |to| (from, to)));
            let moves = came || pairs.into_iter().any(|(from, to)| self.under_way(from, to));
            still = if moves { 0 } else { still + 1 };
            assert!(start.elapsed() < PATIENCE, "packets do not arrive");
        }
    }
}

/// A rank's port. Another thread makes progress at it while no call uses it.
struct SharedPort {
    floor: Arc<Floor>,
    rank: usize,
}

impl SharedPort {
    fn with<R>(&self, call: impl FnOnce(&mut RankPort) -> R) -> R {
        call(self.floor.rank(self.rank).as_mut().expect("the rank is there"))
    }

    /// Repeats a call while it finds a rank full to which nothing was sent yet: the first packet
    /// needs a connection, for which both sides have to make progress.
    fn once_met<T, E: Copy>(
        &mut self,
        mut call: impl FnMut(&mut RankPort) -> Result<T, E>,
        refused: impl Fn(E) -> PostError,
    ) -> Result<T, E> {
        let start = Instant::now();
        loop {
            let answer = self.with(&mut call);
            let Some(PostError::Full { destination, cause: FullCause::RingStalled }) =
                answer.as_ref().err().map(|error| refused(*error))
            else {
                return answer;
            };
            let is_first = self.with(|port| {
                let sent = |(far, _): (&mut Far, _)| far.links.counts(destination, SENDS).sent;
                port.is_far(destination) && port.parts().map(sent) == Some(0)
            });
            if !is_first {
                return answer;
            }
            Floor::progress(&mut self.floor.rank(self.rank));
            assert!(start.elapsed() < PATIENCE, "a rank is not reached");
        }
    }
}

impl Drop for SharedPort {
    fn drop(&mut self) {
        let port = self.floor.rank(self.rank).take();
        drop(port);
    }
}

macro_rules! forward {
    ($trait:ident { $(
        $name:ident(& $($kind:ident)?, $($arg:ident: $type:ty),*) $(-> $result:ty)?;
    )* }) => {
        $(forward!(@ $trait $name [$($kind)?] ($($arg: $type),*) [$($result)?]);)*
    };
    (@ $trait:ident $name:ident [] ($($arg:ident: $type:ty),*) [$($result:ty)?]) => {
        fn $name(&self, $($arg: $type),*) $(-> $result)? {
            self.with(|port| <RankPort as $trait>::$name(port, $($arg),*))
        }
    };
    (@ $trait:ident $name:ident [mut] ($($arg:ident: $type:ty),*) [$($result:ty)?]) => {
        fn $name(&mut self, $($arg: $type),*) $(-> $result)? {
            self.with(|port| <RankPort as $trait>::$name(port, $($arg),*))
        }
    };
}

impl Port for SharedPort {
    forward! { Port {
        rank(&,) -> Rank;
        size(&,) -> u32;
        node_of(&, rank: Rank) -> u32;
        host_name(&, rank: Rank) -> Name;
        capabilities(&,) -> Capabilities;
        poll(&mut,) -> Option<Event>;
        receive_whole(&mut, from: Rank, protocol: u8, header: u64, into: &mut [u8]) -> Short;
        copy_out(&, slice: &RingSlice, offset: usize, into: &mut [u8]) -> usize;
        release(&mut, slice: RingSlice);
        read_out(&mut, slice: RingSlice, into: &mut [u8]) -> usize;
        grant(&mut, source: Rank, messages: u64);
        held_up(&mut,) -> Option<Rank>;
        route_of(&, source: Rank) -> Option<RingId>;
        peer(&, rank: Rank) -> PeerState;
        departures(&,) -> u64;
        is_forked(&,) -> bool;
        now(&,) -> Time;
        announce_wait(&, wait: Option<Wait>);
        park(&mut, deadline: Option<Time>) -> Wake;
    } }

    fn post(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        self.once_met(|port| port.post(command), |error| error)
    }

    fn post_chain(&mut self, chain: &[Command<'_>]) -> Result<(), ChainError> {
        let (mut done, mut bytes) = (0, 0);
        let rest_of = |done: usize, bytes: usize| {
            let mut rest = chain[done..].to_vec();
            if let Some(first) = rest.first_mut() {
                *first = first.rest(bytes);
            }
            rest
        };
        let post = |port: &mut RankPort| {
            port.post_chain(&rest_of(done, bytes)).map_err(|cut| {
                bytes = if cut.done == 0 { bytes + cut.bytes } else { cut.bytes };
                done += cut.done;
                ChainError { done, bytes, ..cut }
            })
        };
        self.once_met(post, |cut| cut.error)
    }

    fn post_short(&mut self, to: Rank, protocol: u8, header: u64, payload: &[u8]) -> bool {
        self.with(|port| port.post_short(to, protocol, header, payload))
    }
}

impl CopyPort for SharedPort {
    forward! { CopyPort {
        expose(&, bytes: &[u8]) -> Option<RemoteAddress>;
        copies_from(&, space: Space) -> Option<usize>;
        read(&mut, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError>;
        lend(&mut, to: Rank, name: u64, bytes: &[u8]) -> Option<LentAddress>;
        take_back(&mut, name: u64);
        replace_lent(&mut, to: Rank, name: u64, copy: &[u8]) -> bool;
        fetch_lent(&mut, lent: (Rank, LentAddress), length: u64, message: (u8, u64)) -> bool;
        open_joint(&mut, into: &[u8]) -> Option<JointCopy>;
        read_jointly(&mut, from: RemoteAddress, into: &mut [u8], copy: &JointCopy)
            -> Result<bool, PostError>;
        write_jointly(&mut, copy: &JointCopy, payload: &[u8]) -> Result<u64, PostError>;
        close_joint(&mut, from: Rank, copy: &JointCopy) -> bool;
    } }
}

impl TablePort for SharedPort {
    type Host = ShmHost;

    fn tables<R>(&mut self, call: impl FnOnce(&mut HostedPort<ShmHost>) -> R) -> R {
        self.with(|port| call(port.inner_mut()))
    }
}

impl RingPort for SharedPort {
    forward! { RingPort {
        route(&mut, source: Rank, ring: Option<RingId>) -> Result<(), TableError>;
        set_full(&mut, ring: RingId, policy: FullPolicy) -> Result<(), TableError>;
        ring(&, ring: RingId) -> Option<RingState>;
    } }
}

impl MemoryPort for SharedPort {
    forward! { MemoryPort {
        allocate(&mut, bytes: usize) -> Result<RegionBuffer, RegionError>;
        open_context(&mut,) -> Result<ContextId, ContextError>;
        close_context(&mut, context: ContextId) -> Result<(), ContextError>;
        connect(&mut, context: ContextId, members: &[Member]) -> Result<(), ContextError>;
        member(&, context: ContextId, logical: u32) -> Result<Member, PostError>;
        register(&mut, context: ContextId, offset: u64, length: u64, rights: Rights)
            -> Result<Key, ContextError>;
        deregister(&mut, key: Key) -> Result<(), ContextError>;
        get(&mut, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError>;
        fetch(&mut, atomic: &Atomic) -> Result<u64, PostError>;
    } }
}

impl QueuePort for SharedPort {
    forward! { QueuePort {
        free_queues(&,) -> (u32, u32);
        create_queue(&mut, mode: QueueMode, slots: u32) -> Result<QueueAddress, QueueError>;
        destroy_queue(&mut, queue: u32) -> Result<(), QueueError>;
        post_queue(&mut, queue: u32, chain: &[QueueCommand]) -> Result<(), QueueError>;
        repeat_queue(&mut, queue: u32, count: u32) -> Result<(), QueueError>;
        release_queue(&mut, queue: QueueAddress, slots: u32) -> Result<(), QueueError>;
        help_queue(&mut, queue: QueueAddress);
        queue_state(&mut, queue: QueueAddress) -> Result<QueueState, QueueError>;
        retire_queue(&mut, queue: u32, rounds: u64, lead: u32);
        abandon_queue(&mut, queue: u32, missing: Rank, tell: &[Rank]);
    } }
}

impl MailboxPort for SharedPort {
    forward! { MailboxPort {
        open_mailbox(&mut, from: Rank, room: u32) -> Result<(u32, MailboxAddress), RegionError>;
        close_mailbox(&mut, mailbox: u32);
        write_mail(&mut, to: MailboxAddress, round: u64, at: u32, bytes: &[u8])
            -> Result<(), PostError>;
        post_mail(&mut, to: MailboxAddress, round: u64) -> Result<(), PostError>;
        has_mail(&mut, mailbox: u32, round: u64) -> bool;
        read_mail(&, mailbox: u32, round: u64, at: u32, into: &mut [u8]) -> Result<(), PostError>;
        end_mail(&mut, to: MailboxAddress, end: MailEnd);
        mail_end(&, mailbox: u32) -> Option<MailEnd>;
    } }
}

impl GroupPort for SharedPort {
    /// Groups are on one host, and no body that needs one is run.
    fn group(&self, _group: GroupId) -> Option<&RegisteredGroup> {
        None
    }

    forward! { GroupPort {
        set_chained(&mut, is_open: bool);
        join(&mut, channel: u32, ranks: &[u32], first: u64) -> Result<GroupId, GroupError>;
        offer(&mut, like: u32) -> ChannelOffer;
        withdraw(&mut, offer: ChannelOffer);
        pass_over(&mut, channels: u64);
        leave(&mut, group: GroupId) -> Result<u64, GroupError>;
        contribute(&mut, group: GroupId, word: u64, payload: &[&[u8]]) -> Result<(), GroupError>;
        contribution(&mut, group: GroupId, place: usize)
            -> Result<Option<Contribution>, GroupError>;
        all_contributed(&mut, group: GroupId, word: u64) -> Result<Option<bool>, GroupError>;
        load_contribution(&mut, group: GroupId, place: usize, what: &Contribution, from: usize,
            into: &mut [u8]) -> usize;
        finish_round(&mut, group: GroupId) -> Result<(), GroupError>;
        sync(&mut, group: GroupId, id: u32) -> Result<(), GroupError>;
        synced(&mut, group: GroupId, id: u32) -> Result<bool, GroupError>;
        add(&mut, group: GroupId, place: usize) -> Result<(), GroupError>;
        add_to_all(&mut, group: GroupId) -> Result<(), GroupError>;
        counted(&mut, group: GroupId, rounds: u64) -> Result<bool, GroupError>;
        reaches(&, rank: u32) -> bool;
        multicast(&mut, group: GroupId, command: &Command<'_>, done: usize, bytes: usize)
            -> Result<(), ChainError>;
    } }
}

/// Ranks that alternate between this many hosts.
struct Between {
    hosts: u32,
}

/// Every rank on a host of its own.
const FAR: Between = Between { hosts: u32::MAX };

/// Two hosts: a rank's neighbours are far, and the next ones near.
const MIXED: Between = Between { hosts: 2 };

impl Harness for Between {
    type P = SharedPort;

    fn open(&self, setup: &Setup) -> Vec<SharedPort> {
        let Setup { layout, ranks_per_node, region_bytes } = *setup;
        let ranks = layout.ranks;
        let of: Vec<u32> = (0..ranks).map(|rank| rank % self.hosts).collect();
        let (key, tells_ends) = ([7; 16], true);
        let hosts = Hosts { own: 0, of: of.clone(), names: Vec::new(), key, tells_ends, beside: 0 };
        let config = JobConfig {
            ranks,
            ranks_per_node,
            layout,
            region_bytes: region_bytes as u64,
            log_bytes: 0,
            long_stores: None,
            hosts: Some(hosts),
            landing: None,
            moves_rings: false,
        };
        let (hosts, ports) = open_hosts(&config, &of, key).unwrap();
        let opened: Result<Vec<_>, _> = ports.into_iter().map(RankPort::open).collect();
        let ports = opened.unwrap_or_else(|error| {
            assert!(matches!(error, Error::NotInstalled { .. }), "{error}");
            eprintln!("on one host: {error}");
            let ports = open_all(&JobConfig { hosts: None, ..config }).unwrap();
            ports.into_iter().map(RankPort::from).collect()
        });
        let ranks = ports.into_iter().map(|port| Mutex::new(Some(port))).collect();
        exchange_cards(&hosts);
        let floor = Arc::new(Floor { ranks, hosts });
        let served = Arc::clone(&floor);
        thread::spawn(move || served.serve());
        (0..of.len()).map(|rank| SharedPort { floor: Arc::clone(&floor), rank }).collect()
    }

    fn kill(&self, port: &mut SharedPort) {
        port.floor.settle();
        let (rank, cause) = (port.rank(), DeathCause::Signal(9));
        port.with(|port| {
            port.drop_far();
            port.host().fail(rank, cause);
        });
        port.floor.hosts.iter().for_each(|host| _ = host.mark_dead(rank, cause));
    }

    fn settle(&self, port: &mut SharedPort) {
        port.floor.settle();
    }
}

mod far {
    use super::*;
    hikyaku_conformance::conformance_between_hosts!(conformance_tests FAR);
}

mod mixed {
    use super::*;
    hikyaku_conformance::conformance_between_hosts!(conformance_tests MIXED);
}

hikyaku_conformance::conformance_between_hosts!(conformance_calls "between hosts");

/// If a provider lends memory, its peers read all of it, at any address in the announcement.
#[test]
fn lent_memory_is_fetched_whole() {
    let mut ports = FAR.open(&Setup::private(2));
    let [sender, receiver] = &mut ports[..] else { unreachable!() };
    let start = Instant::now();
    let next = |receiver: &mut SharedPort| {
        loop {
            match receiver.poll() {
                Some(Event::Landed(landed)) => return landed,
                Some(event) => panic!("{event:?}"),
                None => assert!(start.elapsed() < PATIENCE, "nothing comes"),
            }
        }
    };
    sender.post(&Command::send(1, 1, 0, &[1; 100])).unwrap();
    let announcement = next(receiver);
    assert_eq!((announcement.source, announcement.total), (0, 100));

    let bytes: Vec<u8> = (0..1_500_001).map(|at| (at % 251) as u8).collect();
    let Some(lent) = sender.lend(1, 7, &bytes) else {
        return eprintln!("this provider lends no memory");
    };
    if providers::goes_as_device() {
        assert_eq!(lent.address, bytes.as_ptr().addr() as u64);
    }
    // It requests less at a time while it lends something as well.
    let answer = bytes.clone();
    assert!(receiver.lend(0, 8, &answer).is_some());
    assert!(receiver.fetch_lent((0, lent), bytes.len() as u64, (5, 9)));
    let mut fetched = Vec::new();
    while fetched.len() < bytes.len() {
        let landed = next(receiver);
        let told = (landed.source, landed.protocol, landed.header, landed.offset);
        assert_eq!(told, (0, 5, 9, fetched.len() as u64));
        let Landing::Ring(slice) = landed.data else { panic!("{landed:?}") };
        let mut part = vec![0; slice.len()];
        receiver.read_out(slice, &mut part);
        fetched.append(&mut part);
        if landed.offset > 0 {
            receiver.take_back(8);
        }
    }
    assert!(fetched == bytes, "other bytes");
    sender.take_back(7);
}

/// A send that is dropped while its receiver fetches it arrives unchanged, whichever side chooses
/// the keys of lent memory, and whatever is written there next.
#[test]
fn a_send_dropped_while_it_is_fetched_arrives_whole() {
    const LENGTH: usize = 8 << 20;
    let config = EngineConfig { long_messages: LongMessages::By(Way::Read), ..Default::default() };
    let mut engines =
        FAR.open(&Setup::private(2)).into_iter().map(|port| Engine::new(port, config));
    let [sender, receiver] = [(); 2].map(|()| RefCell::new(engines.next().unwrap()));
    let mut bytes: Vec<u8> = (0..LENGTH).map(|at| (at % 251) as u8).collect();
    let expected = bytes.clone();
    let (is_fetched, is_dropped) = (AtomicU64::new(0), AtomicU64::new(0));
    let mut context = Context::from_waker(Waker::noop());
    thread::scope(|scope| {
        let flags = (&is_fetched, &is_dropped);
        let received = scope.spawn(move || {
            let mut context = Context::from_waker(Waker::noop());
            let mut into = vec![0; LENGTH];
            let from = Selector { source: Some(0), tag: Some(0), context: 1 };
            let mut receive = RecvFuture::new(&receiver, &mut into, from);
            let result = loop {
                if let Poll::Ready(result) = Pin::new(&mut receive).poll(&mut context) {
                    break result;
                }
                flags.0.store(receiver.borrow().statistics().direct_reads, Ordering::Release);
                while flags.0.load(Ordering::Relaxed) > 0 && flags.1.load(Ordering::Acquire) == 0 {
                    thread::yield_now();
                }
            };
            flags.0.store(1, Ordering::Release);
            drop(receive);
            result.map(|_| into)
        });
        let to = Envelope { destination: 1, context: 1, tag: 0 };
        let mut send = SendFuture::new(&sender, &bytes, to, SendMode::Standard).exposing();
        let mut is_sent = false;
        while !is_sent && is_fetched.load(Ordering::Acquire) == 0 {
            is_sent = Pin::new(&mut send).poll(&mut context).is_ready();
        }
        is_dropped.store(1, Ordering::Release);
        drop(send);
        bytes.fill(0xEE);
        let received = received.join().unwrap().unwrap();
        assert!(received == expected, "other bytes");
    });
}

/// In long runs also behind the layers, with each kind of fault.
fn behind_layers(faults: Faults) {
    if std::env::var_os("HIKYAKU_LONG").is_some() {
        [FAR, MIXED].into_iter().for_each(|hosts| every_body(&layered::layered(hosts, faults)));
    }
}

#[test]
fn layers_faults_off() {
    behind_layers(layered::OFF);
}

#[test]
fn layers_delay() {
    behind_layers(layered::DELAY);
}

#[test]
fn layers_refuse() {
    behind_layers(layered::REFUSE);
}

#[test]
fn layers_drop_and_duplicate() {
    behind_layers(layered::LOSSY);
}

#[test]
fn layers_all_faults() {
    behind_layers(layered::ALL);
}
