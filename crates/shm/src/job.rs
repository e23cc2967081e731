//! The launcher's handle of a job: it creates the memory, passes its name to children, and reports
//! deaths and waits.

use std::fmt;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use hikyaku_nic::fabric::{
    Activity, DeathCause, DroppedPackets, Name, PeerState, Rank, Unmatched, Wait,
};
use hikyaku_nic::time::Time;
use rustix::io::{Errno, FdFlags};

use crate::ShmPort;
use crate::attach::{JOB_VARIABLE, JobName, RANK_VARIABLE, join, map};
use crate::conducted::Stage;
use crate::error::{AttachError, JobError};
use crate::header::{JobEnd, JobFacts};
use crate::mapping::Mapping;
use crate::memory;
use crate::plan::{Hosts, JobConfig, MemoryPlan};
use crate::wait::{WaitTimes, monotonic};

/// A rank's polling loop counts as a wait until this long after its last poll.
const POLL_LASTS: Time = Time::from_nanoseconds(2_000_000_000);

/// A job's memory, as held by its launcher. The memory has no file name: it is freed when the
/// launcher has dropped this and every rank has ended, in any way.
#[derive(Debug)]
pub struct Job {
    memory: OwnedFd,
    mapping: Mapping,
    facts: JobFacts,
    inode: u64,
}

impl Job {
    /// Creates the memory of a job and fills its tables: from then on messages land even at ranks
    /// that have not started yet.
    ///
    /// # Errors
    /// The sizes are invalid, there is not enough memory, or the system refuses.
    pub fn create(config: &JobConfig) -> Result<Job, JobError> {
        let job = Job::create_private(config)?;
        // Ranks inherit it.
        rustix::io::fcntl_setfd(&job.memory, FdFlags::empty()).map_err(system("share"))?;
        Ok(job)
    }

    /// A job whose ranks have another launcher: the first rank of a host creates the memory, and
    /// the others open it by its [`name`](Job::name). Child programs do not inherit it.
    ///
    /// # Errors
    /// As [`Job::create`].
    pub fn create_unheard(config: &JobConfig) -> Result<Job, JobError> {
        Job::create_private(config)
    }

    /// A job whose memory is not inherited by child programs.
    fn create_private(config: &JobConfig) -> Result<Job, JobError> {
        let plan = MemoryPlan::new(config)?;
        memory::check(config)?;
        let memory = memory::create(&plan)?;
        let inode = rustix::fs::fstat(&memory).map_err(system("examine"))?.st_ino;
        let mapping = map(&memory, plan)?;
        for rank in (0..config.ranks).filter(|rank| config.is_here(*rank)) {
            let here = (0..config.ranks).filter(|rank| config.is_here(*rank));
            mapping.segment(rank).set_up_for(here);
            if let Some(plan) = &config.landing {
                mapping.segment(rank).plan_rings(plan.private(rank));
            }
        }
        mapping.write_hosts();
        let config = config.clone();
        let facts = JobFacts { launcher: std::process::id(), origin: monotonic(), config };
        mapping.header().write(&facts);
        Ok(Job { memory, mapping, facts, inode })
    }

    /// The environment variables that a rank's process needs to join.
    pub fn environment(&self, rank: Rank) -> Vec<(String, String)> {
        vec![(JOB_VARIABLE.into(), self.name()), (RANK_VARIABLE.into(), rank.to_string())]
    }

    /// The name by which processes of this host find the memory, as long as this handle exists.
    pub fn name(&self) -> String {
        let JobFacts { launcher, .. } = self.facts;
        JobName { launcher, fd: self.memory.as_raw_fd(), inode: self.inode }.to_string()
    }

    /// The memory. It stays open across exec, for ranks to inherit.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.memory.as_fd()
    }

    /// The number of ranks of the job.
    pub fn ranks(&self) -> u32 {
        self.facts.config.ranks
    }

    /// Stores the process id of a rank's process, so that its death can be reported even if it
    /// never joins.
    pub fn mark_started(&self, rank: Rank, pid: u32) {
        self.mapping.registry().set_pid(rank, pid);
    }

    /// Declares a rank dead and wakes all others of this host: each gets `PeerFailed` from its
    /// port. The rank may be on another host. Returns whether that is new; a rank that has left in
    /// order cannot fail.
    pub fn mark_dead(&self, rank: Rank, cause: DeathCause) -> bool {
        self.mapping.fail(rank, cause)
    }

    /// Whether a rank is on this host. A rank that does not exist is not.
    pub fn is_here(&self, rank: Rank) -> bool {
        rank < self.ranks() && self.facts.config.is_here(rank)
    }

    /// The address of a rank for other hosts, once it is known; a rank of this host publishes its
    /// own. At most 240 bytes.
    pub fn card(&self, rank: Rank) -> Option<Vec<u8>> {
        self.mapping.card(rank)?.read()
    }

    /// Publishes the address of a rank of another host to the ranks of this host, and wakes those
    /// that sleep. `false`: the address is empty or longer than 240 bytes, another one is known, or
    /// the job has one host.
    pub fn set_card(&self, rank: Rank, address: &[u8]) -> bool {
        let done = self.mapping.card(rank).is_some_and(|card| card.publish(address));
        if done {
            self.mapping.wake_sleepers();
        }
        done
    }

    /// Records that a rank of another host has left in order, and wakes all sleeping ranks. The
    /// rank also notifies the ranks here itself, by the far channel, which may not reach them all.
    pub fn mark_left(&self, rank: Rank) {
        if rank < self.ranks() && !self.is_here(rank) {
            self.mapping.leave_elsewhere(rank);
        }
    }

    /// Whether a rank has left in order.
    pub fn has_left(&self, rank: Rank) -> bool {
        self.state(rank) == PeerState::Left
    }

    /// How the job ends, if a rank has recorded it.
    pub fn end(&self) -> Option<JobEnd> {
        self.mapping.header().end()
    }

    /// The counts of the ranks of this host that have ended ([`ShmHost::add_counts`]).
    ///
    /// [`ShmHost::add_counts`]: crate::ShmHost::add_counts
    pub fn counts(&self) -> Vec<u64> {
        self.mapping.header().counts()
    }

    /// The state of a rank.
    pub fn state(&self, rank: Rank) -> PeerState {
        self.mapping.registry().state(rank)
    }

    /// The current wait of a rank, if it has lasted long enough to be announced. A polling loop
    /// counts as a wait as long as its last poll is recent.
    pub fn waiting(&self, rank: Rank) -> Option<WaitingRank> {
        let wait = self.mapping.registry().wait(rank)?;
        let origin = self.facts.origin;
        let now = Time::from_nanoseconds(monotonic().saturating_sub(origin));
        WaitingRank::at(wait, now)
    }

    /// A description of the packets of other hosts that a rank has dropped: a rank that waits for
    /// their content waits for ever. `None`: it has dropped none.
    pub fn dropped(&self, rank: Rank) -> Option<String> {
        let dropped = self.mapping.registry().dropped(rank);
        told_of(&dropped, |rank| {
            let hosts = self.facts.config.hosts.as_ref()?;
            hosts.names.get(*hosts.of.get(rank as usize)? as usize).copied()
        })
    }

    /// The conductor's view of the ranks of a job in virtual time. `None`: this job runs in real
    /// time.
    ///
    /// # Errors
    /// The memory cannot be mapped again.
    pub fn stage(&self) -> Result<Option<Stage>, JobError> {
        if !self.mapping.is_conducted() {
            return Ok(None);
        }
        let plan = self.mapping.plan().clone();
        let memory = rustix::io::fcntl_dupfd_cloexec(&self.memory, 0);
        let memory = memory.map_err(system("keep the job's memory"))?;
        Ok(Some(Stage::new(map(&memory, plan)?, memory)))
    }

    /// Joins as a rank, in this process.
    ///
    /// # Errors
    /// The rank cannot be joined.
    pub fn join_as(&self, rank: Rank) -> Result<ShmPort, JobError> {
        self.join(rank, WaitTimes::DEFAULT)
    }

    /// Joins as a rank, in the launcher's own process.
    fn join(&self, rank: Rank, patience: WaitTimes) -> Result<ShmPort, JobError> {
        let duplicate = rustix::io::fcntl_dupfd_cloexec(&self.memory, 0);
        let system = |errno| AttachError::System { what: "keep", errno };
        Ok(join(duplicate.map_err(system)?, &self.facts, rank, patience)?)
    }
}

fn system(what: &'static str) -> impl Fn(Errno) -> JobError {
    move |errno| JobError::System { what, errno }
}

/// Opens all ranks of a new job in this process, each with its own mapping: for tests of the
/// fabric, and for programs whose ranks are threads.
///
/// # Errors
/// As [`Job::create`].
pub fn open_all(config: &JobConfig) -> Result<Vec<ShmPort>, JobError> {
    open_all_with(config, WaitTimes::DEFAULT)
}

/// Opens all ranks of a new job in virtual time in this process, each with its own mapping.
/// `conduct` receives the stage before any rank begins. It must have their requests served from
/// another thread, since a rank begins only when its first request is served.
///
/// # Errors
/// As [`Job::create`]; or the sizes are of a job in real time.
pub fn open_conducted(
    config: &JobConfig,
    conduct: impl FnOnce(Stage),
) -> Result<Vec<ShmPort>, JobError> {
    let job = Job::create_private(config)?;
    let rule = "more than 0 in virtual time";
    conduct(job.stage()?.ok_or(JobError::Sizes { what: "log_bytes", rule })?);
    (0..config.ranks).map(|rank| job.join(rank, WaitTimes::DEFAULT)).collect()
}

/// Opens all ranks of a job of several hosts in this process, each with its own mapping: for tests
/// of the traffic between hosts. `of` gives the host of each rank; of `config.hosts` at most
/// `tells_ends` is used. Returns the handles of the hosts, which know each other's cards once
/// [`exchange_cards`] was called, and the ports by rank.
///
/// # Errors
/// As [`Job::create`].
pub fn open_hosts(
    config: &JobConfig,
    of: &[u32],
    key: [u8; 16],
) -> Result<(Vec<Job>, Vec<ShmPort>), JobError> {
    let hosts = of.iter().max().map_or(0, |last| last + 1);
    let of_host = |own| {
        let names = (0..hosts).map(|host| format_args!("host{host}").into()).collect();
        let tells_ends = config.hosts.as_ref().is_some_and(|hosts| hosts.tells_ends);
        let hosts = Some(Hosts { own, of: of.to_vec(), names, key, tells_ends, beside: 0 });
        Job::create_private(&JobConfig { hosts, ..config.clone() })
    };
    let jobs: Vec<Job> = (0..hosts).map(of_host).collect::<Result<_, _>>()?;
    let join = |(rank, host): (Rank, &u32)| jobs[*host as usize].join(rank, WaitTimes::DEFAULT);
    let ports = (0..).zip(of).map(join).collect::<Result<_, _>>()?;
    Ok((jobs, ports))
}

/// Publishes to each host the known addresses of the other hosts' ranks.
pub fn exchange_cards(jobs: &[Job]) {
    let ranks = jobs.first().map_or(0, Job::ranks);
    for rank in 0..ranks {
        let Some(home) = jobs.iter().find(|job| job.is_here(rank)) else { continue };
        if let Some(card) = home.card(rank) {
            jobs.iter().for_each(|job| _ = job.set_card(rank, &card));
        }
    }
}

/// [`open_all`] with other wait times.
pub(crate) fn open_all_with(
    config: &JobConfig,
    patience: WaitTimes,
) -> Result<Vec<ShmPort>, JobError> {
    let job = Job::create_private(config)?;
    let here = (0..config.ranks).filter(|rank| config.is_here(*rank));
    here.map(|rank| job.join(rank, patience)).collect()
}

/// A world of one rank, in this process: for a program without a launcher.
///
/// # Errors
/// As [`Job::create`].
pub fn single() -> Result<ShmPort, JobError> {
    Job::create_private(&JobConfig::new(1, 1))?.join(0, WaitTimes::DEFAULT)
}

/// A description of the packets that a rank has dropped. `host` returns the host name of a rank.
fn told_of(
    &DroppedPackets { strange, wrong, last }: &DroppedPackets,
    host: impl Fn(Rank) -> Option<Name>,
) -> Option<String> {
    let last = last.map_or(String::new(), |(rank, cause)| {
        let place = host(rank).unwrap_or(Name::NONE).as_place();
        format!(" (the last of rank {rank}{place}: {cause})")
    });
    let all = [(strange, "without the job's key", ""), (wrong, "of ranks of other hosts", &*last)];
    let all = all.into_iter().filter(|(count, ..)| *count > 0);
    let each: Vec<String> = all
        .map(|(count, which, last)| {
            format!("{count} packet{} {which}{last}", if count == 1 { "" } else { "s" })
        })
        .collect();
    (!each.is_empty()).then(|| each.join(" and "))
}

/// A rank's wait, and how long it has lasted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingRank {
    /// The event for which it waits.
    pub wait: Wait,
    /// How long it has waited.
    pub lasted: Duration,
}

impl WaitingRank {
    fn at(wait: Wait, now: Time) -> Option<WaitingRank> {
        let goes_on = wait.polled.is_none_or(|polled| now - polled < POLL_LASTS);
        goes_on.then(|| WaitingRank { wait, lasted: (now - wait.since).into() })
    }
}

impl fmt::Display for WaitingRank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let polls = if self.wait.polled.is_some() { "a loop of polls: " } else { "" };
        write!(f, "{polls}{}, for {:.1} s", Doing(&self.wait), self.lasted.as_secs_f64())
    }
}

/// A rank's wait in words: "receive from rank 2, tag 7".
#[derive(Debug, Clone, Copy)]
pub struct Doing<'w>(pub &'w Wait);

impl fmt::Display for Doing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Wait { activity, name, peer, tag, open, unmatched, .. } = *self.0;
        let (operation, communicator) = self.0.names();
        if open > 1 {
            write!(f, "wait for {open} operations, the first of them: ")?;
        }
        let names_any = matches!(activity, Activity::Receive | Activity::Probe);
        let (what, preposition) = match activity {
            Activity::Send => ("send".into(), "to"),
            Activity::Receive => ("receive".into(), "from"),
            Activity::Probe => ("probe for a message".into(), "from"),
            Activity::Future => ("a future of the program's own".into(), "with"),
            Activity::Collective if operation.is_empty() => ("collective operation".into(), "with"),
            Activity::Collective => (operation.to_owned(), "with"),
            Activity::AcquireToWrite => (acquisition((name, tag), "write"), "held by"),
            Activity::AcquireToRead => (acquisition((name, tag), "read"), "held by"),
            Activity::Shared => (format!("access to shared variable '{name}'"), "at"),
            Activity::Window => (format!("window {name}"), "at"),
            Activity::Leave if name == Name::NONE => {
                ("leaving the job with messages to be sent".into(), "to")
            }
            Activity::Leave => (format!("leaving the job with {name} that others use"), "at"),
        };
        f.write_str(&what)?;
        match peer {
            Some(peer) => {
                let comma = if preposition == "held by" { "," } else { "" };
                write!(f, "{comma} {preposition} rank {peer}")?;
            }
            None if names_any => write!(f, " {preposition} any rank")?,
            None => {}
        }
        match tag {
            Some(_) if preposition == "held by" => {}
            Some(tag) => write!(f, ", tag {tag}")?,
            None if names_any => f.write_str(", any tag")?,
            None => {}
        }
        match communicator.strip_prefix('\'') {
            // The name may have been cut off.
            Some(name) => write!(f, ", on communicator '{}'", name.trim_end_matches('\''))?,
            None if communicator.is_empty() => {}
            None => write!(f, ", on communicator {communicator}")?,
        }
        let Some(Unmatched { messages, bytes }) = unmatched else { return Ok(()) };
        let mebibytes = bytes as f64 / f64::from(1 << 20);
        write!(f, ", and holds {messages} unmatched messages ({mebibytes:.1} MiB, the limit)")
    }
}

/// The acquisition of a shared variable, or of a part of one, in words.
fn acquisition((name, part): (Name, Option<i32>), to: &str) -> String {
    let part = part.map_or_else(String::new, |part| format!("part {part} of "));
    match name {
        Name::NONE => format!("acquisition of {part}a shared variable to {to}"),
        name => format!("acquisition of {part}shared variable '{name}' to {to}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hikyaku_nic::fabric::{
        Atomic, AtomicOp, Command, Event, Integer, Landed, Landing, MemoryPort, Port, PostError,
        RemoteAddress, RingSlice, Space,
    };
    use hikyaku_nic::layer::Layer;
    use std::thread;

    /// Sleeps at once, and long enough for a lost wake-up to show.
    const SLEEPY: WaitTimes = WaitTimes {
        untimed: 0,
        spin: Duration::ZERO,
        give_way: Duration::ZERO,
        sleep: Duration::from_secs(20),
        unsure: Duration::from_millis(1),
    };

    fn sleepy_pair(config: &JobConfig) -> (ShmPort, ShmPort) {
        let job = Job::create_private(config).unwrap();
        (job.join(0, SLEEPY).unwrap(), job.join(1, SLEEPY).unwrap())
    }

    /// Posts the whole message, sleeping while there is no room.
    fn send(port: &mut ShmPort, to: Rank, header: u64, payload: &[u8]) {
        loop {
            match port.post(&Command::send(to, 0, header, payload)) {
                Ok(taken) => return assert_eq!(taken, payload.len()),
                Err(PostError::Full { .. }) => _ = port.park(None),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Receives the next message, sleeping until there is one.
    fn receive(port: &mut ShmPort) -> (u64, Option<RingSlice>) {
        loop {
            match port.poll() {
                Some(Event::Landed(Landed { header, data: Landing::Ring(slice), .. })) => {
                    return (header, Some(slice));
                }
                Some(Event::Landed(Landed { header, .. })) => return (header, None),
                Some(Event::RingFull(_) | Event::StatusFull) => {}
                Some(event) => panic!("{event:?}"),
                None => _ = port.park(None),
            }
        }
    }

    /// Checks that no wake-up was lost, if the barrier works: without it sleeps time out.
    fn assert_no_wake_was_lost(port: &ShmPort) {
        let (sleeps, timeouts) = port.host().sleeps();
        assert!(sleeps > 0);
        assert!(timeouts == 0 || !crate::barrier::everywhere(), "{timeouts} of {sleeps}");
    }

    #[test]
    fn no_wake_up_is_lost_between_two_sleepers() {
        let (mut ping, mut pong) = sleepy_pair(&JobConfig::new(2, 2));
        thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..20_000 {
                    assert_eq!(receive(&mut pong).0, turn);
                    send(&mut pong, 0, turn, &[]);
                }
                assert_no_wake_was_lost(&pong);
            });
            for turn in 0..20_000 {
                send(&mut ping, 1, turn, &[]);
                assert_eq!(receive(&mut ping).0, turn);
            }
            assert_no_wake_was_lost(&ping);
        });
    }

    #[test]
    fn no_sender_waiting_for_room_sleeps_on() {
        let mut config = JobConfig::new(2, 2);
        (config.layout.ring_bytes, config.layout.packet_bytes) = (1024, 512);
        let (mut sender, mut receiver) = sleepy_pair(&config);
        thread::scope(|scope| {
            scope.spawn(|| {
                for turn in 0..20_000 {
                    let (header, slice) = receive(&mut receiver);
                    assert_eq!(header, turn);
                    receiver.release(slice.unwrap());
                }
                assert_no_wake_was_lost(&receiver);
            });
            for turn in 0..20_000 {
                send(&mut sender, 1, turn, &[7; 300]);
            }
            assert_no_wake_was_lost(&sender);
        });
    }

    #[test]
    fn a_world_of_one_sends_to_itself() {
        let mut port = single().unwrap();
        assert_eq!((port.rank(), port.size()), (0, 1));
        send(&mut port, 0, 5, b"to myself");
        assert_eq!(receive(&mut port).0, 5);
    }

    #[test]
    fn a_death_wakes_a_sleeping_rank() {
        let (mut alive, dying) = sleepy_pair(&JobConfig::new(2, 2));
        thread::scope(|scope| {
            scope.spawn(|| {
                let failure = loop {
                    match alive.poll() {
                        Some(Event::PeerFailed(failure)) => break failure,
                        Some(event) => panic!("{event:?}"),
                        None => _ = alive.park(None),
                    }
                };
                assert_eq!((failure.rank, failure.cause), (1, DeathCause::Signal(9)));
                assert_eq!(alive.host().sleeps().1, 0);
            });
            assert!(dying.host().fail(1, DeathCause::Signal(9)));
            assert!(!dying.host().fail(1, DeathCause::Unknown));
        });
    }

    /// No launcher reports the end of a rank that is a thread.
    #[test]
    fn a_thread_that_panics_is_a_rank_that_died() {
        let (mut alive, dying) = sleepy_pair(&JobConfig::new(2, 2));
        let ended = thread::spawn(move || {
            let _owned = dying;
            std::panic::resume_unwind(Box::new("no message of it"));
        });
        assert!(ended.join().is_err());
        let Some(Event::PeerFailed(failure)) = alive.poll() else { panic!("nobody died") };
        assert_eq!((failure.rank, failure.cause), (1, DeathCause::Unknown));
    }

    #[test]
    fn rings_beyond_memory_are_refused_at_no_cost() {
        let mut config = JobConfig::new(1000, 1000);
        config.layout.ring_bytes = 1 << 30;
        let error = Job::create(&config).unwrap_err();
        assert!(matches!(error, JobError::NoMemory { ranks: 1000, .. }), "{error}");
        let config = JobConfig { ranks_per_node: 0, ..JobConfig::new(2, 2) };
        assert!(Job::create(&config).is_err());
        assert!(Job::create(&JobConfig::new(0, 1)).is_err());
    }

    /// Host 1 of a job of two, with ranks 1 and 2.
    fn of_two_hosts() -> JobConfig {
        let names = ["a", "b"].map(Name::new).into();
        let of = vec![0, 1, 1, 0];
        let hosts = Hosts { own: 1, of, names, key: [7; 16], tells_ends: true, beside: 0 };
        JobConfig { hosts: Some(hosts), ..JobConfig::new(4, 4) }
    }

    #[test]
    fn a_rank_of_very_many_has_memory_for_those_that_it_hears_of() {
        const ALL: u32 = 200_000;
        let names = (0..ALL / 2).map(|host| format_args!("host{host}").into()).collect();
        let of = (0..ALL).map(|rank| rank / 2).collect();
        let hosts = Hosts { own: 1, of, names, key: [7; 16], tells_ends: true, beside: 0 };
        let job = Job::create_private(&JobConfig::new(ALL, ALL).across(hosts)).unwrap();
        let bytes = || rustix::fs::fstat(job.fd()).unwrap().st_blocks as u64 * 512;
        let mut port = job.join(2, WaitTimes::DEFAULT).unwrap();
        let before = bytes();
        assert!(before < (16 << 20) + 1024 * u64::from(ALL), "{before} bytes");
        assert_eq!(port.route_of(77_777), Some(77_777 % 16));
        for source in [0, 77_777, ALL - 1, 77_777] {
            let command =
                Command::send(2, 5, 9, b"a message that is not sent inline, but in a packet");
            let length = command.payload.len();
            assert_eq!(port.inner_mut().land_from(source, &command), Ok(length));
            let landed = loop {
                if let Some(Event::Landed(landed)) = port.poll() {
                    break landed;
                }
            };
            assert_eq!((landed.source, landed.protocol), (source, 5));
            let Landing::Ring(slice) = landed.data else { panic!() };
            port.release(slice);
        }
        let more = bytes() - before;
        assert!((8192..=3 * 8192).contains(&more), "{more} bytes for three sources");
    }

    #[test]
    fn ranks_elsewhere_take_no_memory_and_cannot_join() {
        let bytes = |config: &JobConfig| {
            let job = Job::create(config).unwrap();
            rustix::fs::fstat(job.fd()).unwrap().st_blocks as u64 * 512
        };
        let (all, half) = (bytes(&JobConfig::new(4, 4)), bytes(&of_two_hosts()));
        assert!(half < all / 2 + (256 << 10), "{half} of {all}");
        let job = Job::create(&of_two_hosts()).unwrap();
        assert_eq!(
            (0..5).map(|rank| job.is_here(rank)).collect::<Vec<_>>(),
            [false, true, true, false, false]
        );
        let before = rustix::fs::fstat(job.fd()).unwrap().st_blocks;
        let port = job.join(1, WaitTimes::DEFAULT).unwrap();
        assert_eq!((port.rank(), port.size()), (1, 4));
        assert_eq!([0, 1, 2, 3].map(|rank| port.node_of(rank)), [0, 1, 1, 0]);
        assert_eq!(
            (port.host().host_of(3), port.host().hosts()),
            (0, of_two_hosts().hosts.as_ref())
        );
        let error = job.join(0, WaitTimes::DEFAULT).unwrap_err();
        assert_eq!(error, JobError::Attach(AttachError::Elsewhere { rank: 0 }));
        assert!(job.mark_dead(0, DeathCause::Signal(9)));
        [3, 0, 2, 9].into_iter().for_each(|rank| job.mark_left(rank));
        assert!(job.has_left(3) && !job.has_left(0) && !job.has_left(2));
        assert_eq!(port.departures(), 2);
        drop(port);
        assert_eq!(rustix::fs::fstat(job.fd()).unwrap().st_blocks, before, "nothing was touched");
    }

    #[test]
    fn dropped_packets_are_told_in_words() {
        let last = Some((2, hikyaku_nic::fabric::DropCause::Number));
        for (dropped, text) in [
            (DroppedPackets::default(), None),
            (
                DroppedPackets { strange: 1, ..DroppedPackets::default() },
                Some("1 packet without the job's key"),
            ),
            (
                DroppedPackets { strange: 3, wrong: 2, last },
                Some(
                    "3 packets without the job's key and 2 packets of ranks of other hosts (the \
                     last of rank 2 on host b: a number in it is impossible)",
                ),
            ),
        ] {
            let told = told_of(&dropped, |rank| (rank == 2).then(|| Name::new("b")));
            assert_eq!(told.as_deref(), text);
        }
    }

    #[test]
    fn memory_of_a_dead_rank_is_served_by_others_of_its_host() {
        let job = Job::create_private(&of_two_hosts()).unwrap();
        let [mut dies, mut stays] = [1, 2].map(|rank| job.join(rank, WaitTimes::DEFAULT).unwrap());
        let mut memory = dies.allocate(64).unwrap();
        memory.fill(7);
        let at = |rank, offset| RemoteAddress { rank, space: Space::Region, offset };
        let place = at(1, memory.offset());
        assert!(job.mark_dead(1, DeathCause::Signal(9)));
        while stays.poll().is_some() {}
        assert!(matches!(stays.get(place, &mut [0; 8]), Err(PostError::PeerFailed(_))));
        let hosted = stays.inner_mut();
        let swap = |target| Atomic {
            target,
            integer: Integer::U64,
            operation: AtomicOp::Swap,
            operand: 9,
            result: None,
        };
        assert_eq!(hosted.fetch_given(&swap(place)), Ok(u64::from_ne_bytes([7; 8])));
        hosted.put_given(at(1, place.offset + 8), &[5; 4]).unwrap();
        let mut there = [0; 13];
        hosted.get_given(place, &mut there).unwrap();
        assert_eq!(there[1..], [0, 0, 0, 0, 0, 0, 0, 5, 5, 5, 5, 7]);
        // A rank of another host, no rank, beyond the region, not aligned.
        assert!(hosted.fetch_given(&swap(at(0, place.offset))).is_err());
        assert!(hosted.get_given(at(9, 0), &mut there).is_err());
        assert!(hosted.put_given(at(1, u64::MAX - 3), &[1; 8]).is_err());
        assert!(hosted.fetch_given(&swap(at(1, place.offset + 1))).is_err());
    }

    #[test]
    fn a_card_from_elsewhere_wakes_who_sleeps() {
        let job = Job::create_private(&of_two_hosts()).unwrap();
        let mut port = job.join(1, SLEEPY).unwrap();
        assert_eq!((job.card(1), job.card(0), job.card(9)), (None, None, None));
        assert_eq!(port.host().card(0), None);
        assert!(port.host().publish_card(b"here") && job.card(1).as_deref() == Some(b"here"));
        thread::scope(|scope| {
            scope.spawn(|| {
                while port.host().card(0).is_none() {
                    port.park(None);
                }
                assert_eq!(port.host().sleeps().1, 0);
            });
            assert!(job.set_card(0, b"there") && !job.set_card(0, b"elsewhere"));
        });
        assert!(!job.set_card(3, &[1; 241]) && !job.set_card(4, b"nowhere"));
        assert!(!Job::create_private(&JobConfig::new(2, 2)).unwrap().set_card(0, b"one host"));
    }

    #[test]
    fn a_wait_prints_in_words() {
        let told = |wait| WaitingRank { wait, lasted: Duration::from_millis(3210) }.to_string();
        let unmatched = Some(Unmatched { messages: 70_000, bytes: 64 << 20 });
        let receive = Wait::new(Activity::Receive);
        let collective = Wait::new(Activity::Collective);
        let window = Wait::new(Activity::Window).with(Some(1), None);
        let acquire = Wait::new(Activity::AcquireToWrite);
        let read = Wait::new(Activity::AcquireToRead).named(Name::new("field"));
        for (wait, text) in [
            (receive.with(Some(2), Some(7)), "receive from rank 2, tag 7"),
            (receive, "receive from any rank, any tag"),
            (
                Wait { open: 3, ..receive.with(Some(2), None) },
                "wait for 3 operations, the first of them: receive from rank 2, any tag",
            ),
            (
                Wait { unmatched, ..receive.with(Some(0), Some(7)) },
                "receive from rank 0, tag 7, and holds 70000 unmatched messages (64.0 MiB, the \
                 limit)",
            ),
            (Wait::new(Activity::Send).with(Some(1), Some(0)), "send to rank 1, tag 0"),
            (collective, "collective operation"),
            (
                collective.named(Name::new("broadcast (root 1)")).with(Some(2), None),
                "broadcast (root 1) with rank 2",
            ),
            (
                receive.with(Some(2), Some(7)).within(Name::new("'rows'")),
                "receive from rank 2, tag 7, on communicator 'rows'",
            ),
            (
                collective
                    .named(Name::new("broadcast (root 1)"))
                    .within(Name::new("'all columns'")),
                "broadcast (root 1), on communicator 'all columns'",
            ),
            (collective.within(Name::new("0.3")), "collective operation, on communicator 0.3"),
            (acquire, "acquisition of a shared variable to write"),
            (
                acquire.named(Name::new("field")).with(Some(3), None),
                "acquisition of shared variable 'field' to write, held by rank 3",
            ),
            (read, "acquisition of shared variable 'field' to read"),
            (
                read.with(Some(0), Some(7)),
                "acquisition of part 7 of shared variable 'field' to read, held by rank 0",
            ),
            (window.named(Name::new("get")), "window get at rank 1"),
            (
                Wait::new(Activity::Shared).named(Name::new("field")).with(Some(2), None),
                "access to shared variable 'field' at rank 2",
            ),
            (
                Wait::new(Activity::Leave).with(Some(1), None),
                "leaving the job with messages to be sent to rank 1",
            ),
            (
                Wait::new(Activity::Leave).named(Name::new("shared variables")),
                "leaving the job with shared variables that others use",
            ),
            (Wait::new(Activity::Future), "a future of the program's own"),
            (
                Wait { polled: Some(Time::ZERO), ..receive.with(Some(2), Some(7)) },
                "a loop of polls: receive from rank 2, tag 7",
            ),
        ] {
            assert_eq!(told(wait), format!("{text}, for 3.2 s"));
        }
    }

    #[test]
    fn a_loop_of_polls_is_over_when_none_came_for_long() {
        let at = |seconds: u64| Time::from_nanoseconds(seconds * 1_000_000_000);
        let wait = Wait { since: at(3), ..Wait::new(Activity::Receive) };
        let polls = Wait { polled: Some(at(8)), ..wait };
        let lasted = |wait, now| WaitingRank::at(wait, at(now)).map(|it| it.lasted.as_secs());
        assert_eq!([8, 9, 10].map(|now| lasted(polls, now)), [Some(5), Some(6), None]);
        assert_eq!(lasted(wait, 100), Some(97));
    }
}
