//! Joining a job: read the environment, find the memory, become the rank.
//!
//! `HIKYAKU_JOB` is `<launcher's pid>:<its descriptor>:<inode>` and `HIKYAKU_RANK` the rank. The
//! descriptor is inherited and must stay open until here, because a shell script may run between
//! the launcher and the program. If some program has closed it, the launcher's own descriptor is
//! opened through `/proc`. Either is accepted only if inode, seals and header identify this job.
//! From then on it is closed on exec, so that child programs do not inherit it.

use std::fmt;
use std::hint::black_box;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use hikyaku_nic::fabric::{PeerState, Rank};
use hikyaku_nic::hosted::HostedPort;
use hikyaku_nic::layer::FaultInjector;
use hikyaku_nic::sync::Ordering;
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::process::Resource;

use crate::ShmPort;
use crate::barrier;
use crate::error::AttachError;
use crate::header::{JobFacts, JobHeader, NotAJob, VERSION};
use crate::heap;
use crate::host::ShmHost;
use crate::limits::limits_on;
use crate::mapping::{self, Mapping};
use crate::memory::SEALS;
use crate::plan::MemoryPlan;
use crate::region::JobRegion;
use crate::wait::{self, WaitTimes};

/// The environment variable that names the job.
pub(crate) const JOB_VARIABLE: &str = "HIKYAKU_JOB";

/// The environment variable that names the rank.
pub(crate) const RANK_VARIABLE: &str = "HIKYAKU_RANK";

/// Joins the job that the environment names, as the rank that it names. `None`: there is no job,
/// because the program was started on its own; see [`crate::single`].
///
/// # Errors
/// [`AttachError`], which names the variable and the remedy.
pub fn attach() -> Result<Option<ShmPort>, AttachError> {
    let Some(job) = variable(JOB_VARIABLE) else { return Ok(None) };
    let rank = variable(RANK_VARIABLE);
    attach_as(&job, rank.as_deref()).map(Some)
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

fn attach_as(job: &str, rank: Option<&str>) -> Result<ShmPort, AttachError> {
    let expected = "the number of a rank";
    let Some(rank) = rank else {
        let (name, problem) = (RANK_VARIABLE, "is not set".to_owned());
        return Err(AttachError::Variable { name, problem, expected });
    };
    attach_to(job, parse(RANK_VARIABLE, rank, expected)?)
}

/// Joins the job of this [`name`](crate::Job::name) as this rank.
///
/// # Errors
/// [`AttachError`].
pub fn attach_to(name: &str, rank: Rank) -> Result<ShmPort, AttachError> {
    let expected = "<launcher's process id>:<file descriptor>:<inode>";
    let (memory, facts) = find(parse(JOB_VARIABLE, name, expected)?)?;
    join(memory, &facts, rank, WaitTimes::of_process())
}

/// Takes over a socket that another program has left open for this one. `None`: it is not a socket,
/// or it has an owner in this process, which closes it on exec.
pub fn take_inherited_socket(fd: i32) -> Option<OwnedFd> {
    let _alone = KEEPING.lock().unwrap_or_else(PoisonError::into_inner);
    let found = mapping::peek_inherited(fd)?;
    let status = rustix::fs::fstat(found).ok()?;
    let is_socket = FileType::from_raw_mode(status.st_mode) == FileType::Socket;
    if !is_socket || rustix::io::fcntl_getfd(found).ok()?.contains(FdFlags::CLOEXEC) {
        return None;
    }
    let socket = mapping::take_inherited(fd);
    rustix::io::fcntl_setfd(&socket, FdFlags::CLOEXEC).ok()?;
    Some(socket)
}

fn parse<T: FromStr>(
    name: &'static str,
    value: &str,
    expected: &'static str,
) -> Result<T, AttachError> {
    let problem = || format!("is {value:?}");
    value.parse().map_err(|_| AttachError::Variable { name, problem: problem(), expected })
}

/// The content of `HIKYAKU_JOB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JobName {
    pub(crate) launcher: u32,
    pub(crate) fd: i32,
    pub(crate) inode: u64,
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.launcher, self.fd, self.inode)
    }
}

impl FromStr for JobName {
    type Err = ();

    fn from_str(text: &str) -> Result<JobName, ()> {
        let mut parts = text.split(':');
        let mut part = || parts.next().ok_or(());
        let launcher = part()?.parse().map_err(drop)?;
        let fd = part()?.parse().ok().filter(|fd| *fd >= 0).ok_or(())?;
        let inode = part()?.parse().map_err(drop)?;
        if parts.next().is_some() {
            return Err(());
        }
        Ok(JobName { launcher, fd, inode })
    }
}

/// The memory of a job: inherited, or opened through the launcher.
fn find(name: JobName) -> Result<(OwnedFd, JobFacts), AttachError> {
    if let Some(inherited) = mapping::peek_inherited(name.fd) {
        match recognise(inherited, &name) {
            Ok(facts) => {
                return Ok((keep(inherited, &name).map_err(system("keep"))?, facts));
            }
            Err(NotAJob::Version(theirs)) => return Err(version(theirs)),
            Err(NotAJob::Foreign) => {}
        }
    }
    let JobName { launcher, fd, .. } = name;
    let path = format!("/proc/{launcher}/fd/{fd}");
    let unreachable = |errno| AttachError::Unreachable { launcher, fd, errno };
    // Checked before opening: opening another program's device or pipe may have side effects.
    let target = rustix::fs::readlink(path.as_str(), Vec::new()).map_err(unreachable)?;
    if !target.as_bytes().starts_with(b"/memfd:hikyaku") {
        return Err(AttachError::Foreign { launcher, fd });
    }
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let memory = rustix::fs::open(path, flags, Mode::empty()).map_err(unreachable)?;
    match recognise(memory.as_fd(), &name) {
        Ok(facts) => Ok((memory, facts)),
        Err(NotAJob::Version(theirs)) => Err(version(theirs)),
        Err(NotAJob::Foreign) => Err(AttachError::Foreign { launcher, fd }),
    }
}

/// Serialises [`keep`], so that two threads do not take the same descriptor.
static KEEPING: Mutex<()> = Mutex::new(());

/// Takes over the inherited descriptor, and marks it as closed on exec. Duplicates it if it already
/// has an owner in this process: the launcher's handle or an earlier port.
fn keep(found: BorrowedFd<'_>, name: &JobName) -> Result<OwnedFd, Errno> {
    let _alone = KEEPING.lock().unwrap_or_else(PoisonError::into_inner);
    let owned = rustix::io::fcntl_getfd(found)?.contains(FdFlags::CLOEXEC);
    if owned || name.launcher == std::process::id() {
        return rustix::io::fcntl_dupfd_cloexec(found, 0);
    }
    let memory = mapping::take_inherited(name.fd);
    rustix::io::fcntl_setfd(&memory, FdFlags::CLOEXEC)?;
    Ok(memory)
}

/// Checks whether a file is the memory of the named job. Returns the facts in its header.
fn recognise(file: BorrowedFd<'_>, name: &JobName) -> Result<JobFacts, NotAJob> {
    let status = rustix::fs::fstat(file).map_err(|_| NotAJob::Foreign)?;
    let seals = rustix::fs::fcntl_get_seals(file).map_err(|_| NotAJob::Foreign)?;
    if status.st_ino != name.inode || !seals.contains(SEALS) {
        return Err(NotAJob::Foreign);
    }
    let facts = JobHeader::read(file)?;
    let plan = MemoryPlan::new(&facts.config).map_err(|_| NotAJob::Foreign)?;
    let whole = u64::try_from(status.st_size) == Ok(plan.total as u64);
    if whole && facts.launcher == name.launcher { Ok(facts) } else { Err(NotAJob::Foreign) }
}

fn version(theirs: u64) -> AttachError {
    AttachError::Version { ours: VERSION, theirs }
}

fn system(what: &'static str) -> impl Fn(Errno) -> AttachError {
    move |errno| AttachError::System { what, errno }
}

/// Address space that a process needs in addition to the job's memory: without it the next
/// allocation ends the process.
const ROOM_FOR_THE_REST: usize = 16 << 20;

/// Maps a job's memory. The error names the limit that prevents it.
pub(crate) fn map(memory: &OwnedFd, plan: MemoryPlan) -> Result<Mapping, AttachError> {
    let wanted = plan.total as u64;
    let limit = limits_on(Resource::As).current;
    let mapping = Mapping::new(memory, plan).map_err(|errno| match limit {
        Some(limit) if errno == Errno::NOMEM => AttachError::AddressSpace { wanted, limit },
        _ => system("map")(errno),
    })?;
    match limit {
        Some(limit) if !has_room_for_the_rest() => Err(AttachError::AddressSpace { wanted, limit }),
        _ => Ok(mapping),
    }
}

fn has_room_for_the_rest() -> bool {
    let mut rest = Vec::<u8>::new();
    let found = rest.try_reserve_exact(ROOM_FOR_THE_REST).is_ok();
    // The compiler could remove an unused allocation.
    black_box(&rest);
    found
}

/// Joins a job as a rank, in memory that has been recognised.
pub(crate) fn join(
    memory: OwnedFd,
    facts: &JobFacts,
    rank: Rank,
    patience: WaitTimes,
) -> Result<ShmPort, AttachError> {
    let ranks = facts.config.ranks;
    if rank >= ranks {
        return Err(AttachError::NoSuchRank { rank, ranks });
    }
    if !facts.config.is_here(rank) {
        return Err(AttachError::Elsewhere { rank });
    }
    let inode = rustix::fs::fstat(&memory).map_err(system("examine"))?.st_ino;
    let plan = MemoryPlan::new(&facts.config).expect("the sizes were checked with the header");
    let mapping = map(&memory, plan)?;
    mapping.registry().join(rank, std::process::id()).map_err(|state| {
        let pid = mapping.registry().pid(rank);
        match state {
            PeerState::Left | PeerState::Failed(_) => AttachError::Gone { rank, pid },
            PeerState::Starting | PeerState::Running => AttachError::AlreadyJoined { rank, pid },
        }
    })?;
    if !barrier::register() {
        // A rank that sleeps already relies on a barrier that does not reach this process: wake it.
        mapping.header().unsure.fetch_add(1, Ordering::SeqCst);
        let here = (0..ranks).filter(|other| facts.config.is_here(*other));
        here.for_each(|other| mapping.segment(other).doorbell().wake(wait::end_sleep));
    }
    let region = Arc::new(JobRegion::new(mapping, memory, inode, rank));
    if !region.mapping.is_conducted() {
        heap::begin(&region);
    }
    let host = ShmHost::new(region, rank, facts.origin, patience);
    Ok(FaultInjector::absent(HostedPort::new(host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_name_round_trips() {
        let name = JobName { launcher: 77, fd: 3, inode: 1 << 40 };
        assert_eq!(name.to_string().parse(), Ok(name));
    }

    #[test]
    fn an_invalid_variable_is_named() {
        for job in ["", "1:2", "1:2:3:4", "a:b:c", "-1:2:3", "1:-2:3"] {
            let error = attach_as(job, Some("0")).unwrap_err();
            let text = error.to_string();
            assert!(text.contains("HIKYAKU_JOB") && text.contains(&format!("{job:?}")), "{text}");
        }
        for rank in [None, Some(""), Some("-1"), Some("two")] {
            let text = attach_as("1:2:3", rank).unwrap_err().to_string();
            assert!(text.contains("HIKYAKU_RANK"), "{text}");
        }
    }

    #[test]
    fn a_socket_is_taken_over_once() {
        use std::os::fd::{AsRawFd, IntoRawFd};
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        // It has an owner in this process.
        assert!(take_inherited_socket(ours.as_raw_fd()).is_none());
        rustix::io::fcntl_setfd(&theirs, FdFlags::empty()).unwrap();
        let number = theirs.into_raw_fd();
        let taken = take_inherited_socket(number).unwrap();
        assert_eq!(taken.as_raw_fd(), number);
        assert!(take_inherited_socket(number).is_none());
        let file = std::fs::File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&file, FdFlags::empty()).unwrap();
        for bad in [file.as_raw_fd(), -1, i32::MAX] {
            assert!(take_inherited_socket(bad).is_none());
        }
    }

    #[test]
    fn foreign_files_are_refused() {
        // An open descriptor of this process that is not a memfd.
        let file = std::fs::File::open("/dev/null").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        let inode = rustix::fs::fstat(&file).unwrap().st_ino;
        let own = std::process::id();
        let error = attach_as(&format!("{own}:{fd}:{inode}"), Some("0")).unwrap_err();
        assert_eq!(error, AttachError::Foreign { launcher: own, fd });
        // A process that does not exist.
        let error = attach_as(&format!("{}:{fd}:{inode}", u32::MAX >> 1), Some("0")).unwrap_err();
        assert!(matches!(error, AttachError::Unreachable { errno: Errno::NOENT, .. }), "{error}");
    }

    #[test]
    fn a_memfd_without_magic_or_seals_is_refused() {
        use rustix::fs::{MemfdFlags, SealFlags};
        let own = std::process::id();
        for seals in [SealFlags::empty(), SEALS] {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let file = rustix::fs::memfd_create("hikyaku", flags).unwrap();
            rustix::fs::ftruncate(&file, 1 << 20).unwrap();
            rustix::fs::fcntl_add_seals(&file, seals).unwrap();
            let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
            let inode = rustix::fs::fstat(&file).unwrap().st_ino;
            let error = attach_as(&format!("{own}:{fd}:{inode}"), Some("0")).unwrap_err();
            assert_eq!(error, AttachError::Foreign { launcher: own, fd });
        }
    }

    #[test]
    fn a_job_is_recognised_by_its_size_and_launcher() {
        use rustix::fs::MemfdFlags;
        let job = crate::Job::create(&crate::JobConfig::new(1, 1)).unwrap();
        let name: JobName = job.name().parse().unwrap();
        assert!(attach_to(&job.name(), 0).is_ok());
        let mut header = vec![0; 4096];
        rustix::io::pread(job.fd(), &mut header, 0).unwrap();
        let size = rustix::fs::fstat(job.fd()).unwrap().st_size.unsigned_abs();
        for more in [0, 4096] {
            let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
            let copy = rustix::fs::memfd_create("hikyaku", flags).unwrap();
            rustix::fs::ftruncate(&copy, size + more).unwrap();
            rustix::io::pwrite(&copy, &header, 0).unwrap();
            rustix::fs::fcntl_add_seals(&copy, SEALS).unwrap();
            let inode = rustix::fs::fstat(&copy).unwrap().st_ino;
            let own = JobName { inode, ..name };
            assert_eq!(recognise(copy.as_fd(), &own).is_ok(), more == 0, "{more} bytes more");
            let of_another = JobName { launcher: own.launcher + 1, ..own };
            assert!(recognise(copy.as_fd(), &of_another).is_err());
        }
    }
}
