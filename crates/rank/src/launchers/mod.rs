//! Jobs that another launcher has started: MPICH's `mpiexec`, Open MPI's `mpirun`, Slurm's `srun`.
//! Their ranks connect through the launcher's store of keys and values and its fence, and from then
//! on are a job like any other.
//!
//! ```text
//!   first rank of a host               the other ranks of that host
//!   makes the memory, puts its name
//!   ────────────────────── fence ──────────────────────
//!   joins                              get the name, join
//!   [put their own addresses, if there are several hosts]
//!   ────────────────────── fence ──────────────────────
//!   [gets the addresses of others, tells the host]
//! ```
//!
//! With several hosts there is one more fence before this, after which all ranks know the job's
//! secret and the names of hosts.
//!
//! **Deaths.** Launchers watch their processes, and most end the job if one dies. In addition, the
//! ranks watch each other: those of a host by its system, those of different hosts by connections
//! (`connections.rs`). The cause of a death is then unknown. If the launcher's process on a host
//! dies, the ranks there are killed.

mod connections;
mod launcher;
mod pmi;
mod pmix;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::net::IpAddr;

use hikyaku_nic::fabric::{Name, Port};
use hikyaku_shm::{AttachError, ForkedProcess, Hosts, Job, JobConfig, own_host_name};

use crate::near::NearPort;

pub(crate) use self::connections::HostTimeout;
use self::connections::Meeting;
use self::launcher::Launcher;
pub use self::launcher::LauncherError;
use self::pmi::Pmi;
use self::pmix::Pmix;

/// The keys: the memory of a host, the secret, the address of a rank, the one at which it listens
/// to those that watch it, and the name of a host.
const MEMORY: &str = "memory";
const SECRET: &str = "secret";
const ADDRESS: &str = "address";
const WATCHED: &str = "watched";
const HOST: &str = "host";

/// A rank's part in a job that another launcher has started. Notifies the launcher when the rank
/// leaves.
#[derive(Debug)]
pub(crate) struct LaunchedRank {
    launcher: Box<dyn Launcher>,
    /// The memory of this host, if this rank has made it; kept until all ranks are connected.
    job: Option<Job>,
    hosts: Option<Hosts>,
    timeout: HostTimeout,
    process: ForkedProcess,
}

impl LaunchedRank {
    /// Connects to the other ranks of this host, if a supported launcher other than hikyaku's has
    /// started this program.
    pub(crate) fn meet(
        value_of: impl Fn(&str) -> Option<String>,
        timeout: HostTimeout,
    ) -> Result<Option<(NearPort, LaunchedRank)>, LauncherError> {
        // Some launchers speak both protocols and set both groups of variables; PMI-1 needs no
        // library.
        let launcher: Box<dyn Launcher> = match Pmi::open(&value_of)? {
            Some(pmi) => Box::new(pmi),
            None => match Pmix::open(&value_of)? {
                Some(pmix) => Box::new(pmix),
                None => return Ok(None),
            },
        };
        LaunchedRank::over(launcher, timeout).map(Some)
    }

    fn over(
        mut launcher: Box<dyn Launcher>,
        timeout: HostTimeout,
    ) -> Result<(NearPort, LaunchedRank), LauncherError> {
        let (rank, size) = (launcher.rank(), launcher.size());
        let of = launcher.hosts()?.map_or_else(|| vec![0; size as usize], |of| renumbered(&of));
        let own = of[rank as usize];
        let hosts = match of.iter().any(|host| *host != 0) {
            true => Some(introduce(&mut *launcher, &of)?),
            false => None,
        };
        let first = of.iter().position(|host| *host == own).unwrap_or_default() as u32;
        let mut started = LaunchedRank {
            launcher,
            job: None,
            hosts: hosts.clone(),
            timeout,
            process: ForkedProcess::this(),
        };
        if rank == first {
            let config = JobConfig::new(size, size);
            let config = match hosts {
                Some(hosts) => config.across(hosts),
                None => config,
            };
            let job = Job::create_unheard(&config)?;
            started.launcher.put(MEMORY, &job.name())?;
            started.job = Some(job);
        }
        started.launcher.fence()?;
        let port = match &started.job {
            Some(job) => job.join_as(rank)?,
            None => {
                let name = started.launcher.get(first, MEMORY)?;
                hikyaku_shm::attach_to(&name, rank).map_err(|error| apart(first, error))?
            }
        };
        Ok((port, started))
    }

    /// Exchanges addresses with ranks of other hosts, once this one has a far side, whose address
    /// may be `interface`; and watches the others.
    pub(crate) fn exchange_addresses(
        &mut self,
        near: &NearPort,
        interface: Option<IpAddr>,
    ) -> Result<(), LauncherError> {
        let own = self.launcher.rank();
        let meeting = self
            .hosts
            .as_ref()
            .map(|hosts| Meeting::open(own, &hosts.of, hosts.key, (interface, self.timeout)));
        if let Some(meeting) = &meeting {
            let address = near.host().card(own).unwrap_or_default();
            self.launcher.put(ADDRESS, &hex(&address))?;
            self.launcher.put(WATCHED, &meeting.address())?;
        }
        self.launcher.fence()?;
        if let (Some(job), Some(hosts)) = (self.job.take(), &self.hosts) {
            for rank in (0..self.launcher.size()).filter(|rank| !hosts.is_here(*rank)) {
                let address = self.launcher.get(rank, ADDRESS)?;
                let address = unhex(&address).ok_or(LauncherError::Missing { rank })?;
                job.set_card(rank, &address);
            }
        }
        let host = |rank| near.host_name(rank);
        let address = |rank| self.launcher.get(rank, WATCHED);
        let connections = meeting.map(|meeting| meeting.connect(address, host)).transpose()?;
        let launcher = self.launcher.process();
        Ok(near.host().watch_others(connections.unwrap_or_default(), launcher)?)
    }

    /// The index of this program in the job, if the launcher provides it.
    pub(crate) fn program(&self) -> Option<i32> {
        self.launcher.program()
    }
}

impl Drop for LaunchedRank {
    fn drop(&mut self) {
        // A forked child is not the rank, and a rank that panics has not left in order.
        if self.process.is_this() && !std::thread::panicking() {
            self.launcher.finish();
        }
    }
}

/// The hosts of a job with several: their names, from the first rank of each, and the job's secret,
/// from rank 0.
fn introduce(launcher: &mut dyn Launcher, of: &[u32]) -> Result<Hosts, LauncherError> {
    let rank = launcher.rank();
    let own = of[rank as usize];
    // Each host has a first rank; hosts are numbered in the order of these.
    let mut firsts: Vec<u32> = Vec::new();
    for (rank, host) in (0..).zip(of) {
        if *host as usize == firsts.len() {
            firsts.push(rank);
        }
    }
    if firsts.contains(&rank) {
        let name = own_host_name();
        let name = if name.is_empty() { "without name" } else { &name };
        launcher.put(HOST, &hex(Name::new(name).as_str().as_bytes()))?;
    }
    if rank == 0 {
        let mut key = [0; 16];
        let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut key));
        read.map_err(LauncherError::Secret)?;
        launcher.put(SECRET, &hex(&key))?;
    }
    launcher.fence()?;
    let key = unhex(&launcher.get(0, SECRET)?).and_then(|key| key.try_into().ok());
    let key = key.ok_or(LauncherError::Missing { rank: 0 })?;
    let mut names = Vec::new();
    for rank in firsts {
        let name = unhex(&launcher.get(rank, HOST)?).ok_or(LauncherError::Missing { rank })?;
        names.push(Name::new(&String::from_utf8_lossy(&name)));
    }
    Ok(Hosts { own, of: of.to_vec(), names, key, tells_ends: false, beside: 0 })
}

/// The error of a rank that cannot join the memory made by another one on its host.
fn apart(rank: u32, error: AttachError) -> LauncherError {
    match error {
        AttachError::Unreachable { errno, .. } => {
            LauncherError::Apart { rank, reason: errno.to_string() }
        }
        AttachError::Foreign { .. } | AttachError::Variable { .. } => {
            LauncherError::Apart { rank, reason: "another file is there".to_owned() }
        }
        error => LauncherError::Attach(error),
    }
}

/// Renumbers hosts from 0, in the order of their first ranks.
fn renumbered(of: &[u32]) -> Vec<u32> {
    let mut known = BTreeMap::new();
    of.iter()
        .map(|host| {
            let next = known.len() as u32;
            *known.entry(*host).or_insert(next)
        })
        .collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok())
        .collect::<Option<Vec<u8>>>()
        .filter(|bytes| 2 * bytes.len() == text.len() && !bytes.is_empty())
}

#[cfg(test)]
mod tests;
