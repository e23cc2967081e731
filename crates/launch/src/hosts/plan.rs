//! The plan: everything that a daemon needs to know to start its part of a job. Pure.

use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use hikyaku_nic::ring::LongStores;

use super::bytes::{Malformed, Value};
use super::seal::Secret;
use crate::{Bind, Launch, Program};

/// A host of the job.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct PlanHost {
    /// Its name, as given.
    pub(super) name: String,
    /// The number of its ranks.
    pub(super) ranks: u32,
    /// Whether it is the launcher's own host, which needs no agent.
    pub(super) is_own: bool,
}

/// A job and a host's part in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct HostPlan {
    /// The host for which this plan is.
    pub(super) own: u32,
    /// This host's daemon starts the daemons of the hosts after it, up to this one (exclusive).
    pub(super) until: u32,
    /// All hosts. Ranks are numbered in this order.
    pub(super) places: Vec<PlanHost>,
    /// Ranks of other hosts that share this one's processors: of hosts before it, and after it.
    pub(super) beside: (u32, u32),
    /// The secret key of the job's ranks.
    pub(super) key: [u8; 16],
    /// Where to connect; `None`: frames go through the agent.
    pub(super) network: Option<PlannedNetwork>,
    /// The command that reaches a host. The host's name and a command line are appended.
    pub(super) agent: Vec<OsString>,
    /// The command line of a daemon.
    pub(super) daemon: String,
    /// How long a host may be silent, milliseconds.
    pub(super) patience_ms: u64,
    /// Which streams end at a terminal.
    pub(super) interactive: (bool, bool),
    /// The environment of the launcher.
    pub(super) variables: Vec<(OsString, OsString)>,
    /// The programs and their settings.
    pub(super) job: PlannedJob,
}

/// How a daemon connects to its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedNetwork {
    /// The network as named by the user; each host has its own address in it.
    pub(super) name: String,
    pub(super) secret: Secret,
    /// The parent's address and port.
    pub(super) parent: String,
}

/// The part of a [`Launch`] that other hosts need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedJob {
    pub(super) ranks_per_node: Option<u32>,
    /// 0: shares, 1: one CPU each, 2: not bound.
    pub(super) bind: u8,
    /// 0: as measured, 1: through caches, 2: past them.
    pub(super) long_stores: u8,
    pub(super) variables: Vec<(String, String)>,
    pub(super) programs: Vec<PlannedProgram>,
}

/// The counterpart of a [`Program`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlannedProgram {
    pub(super) ranks: u32,
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
    pub(super) variables: Vec<(String, String)>,
    pub(super) inherited: Option<Vec<String>>,
    pub(super) folder: OsString,
}

impl HostPlan {
    /// The ranks of a host.
    pub(super) fn ranks_of(&self, host: u32) -> Range<u32> {
        let before = |host: usize| self.places[..host].iter().map(|place| place.ranks).sum::<u32>();
        let host = (host as usize).min(self.places.len());
        before(host)..before((host + 1).min(self.places.len()))
    }

    /// The ranks of several consecutive hosts.
    pub(super) fn ranks_of_all(&self, hosts: &Range<u32>) -> Range<u32> {
        self.ranks_of(hosts.start).start..self.ranks_of(hosts.end).start
    }

    /// The host of each rank.
    pub(super) fn hosts_of_ranks(&self) -> Vec<u32> {
        let hosts = (0u32..).zip(&self.places);
        hosts.flat_map(|(host, place)| (0..place.ranks).map(move |_| host)).collect()
    }

    /// The name of a host.
    pub(super) fn name(&self, host: u32) -> &str {
        self.places.get(host as usize).map_or("of no name", |place| &place.name)
    }

    /// How long a host may be silent.
    pub(super) fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms)
    }

    /// Checks that the parts are consistent, so that no index is out of range.
    pub(super) fn check(&self) -> Result<(), Malformed> {
        let hosts = u32::try_from(self.places.len()).unwrap_or(u32::MAX);
        let total: u64 = self.places.iter().map(|place| u64::from(place.ranks)).sum();
        let programs: u64 = self.job.programs.iter().map(|program| u64::from(program.ranks)).sum();
        let (before, after) = self.beside;
        let beside = u64::from(before) + u64::from(after);
        let fits = self.own < self.until
            && self.until <= hosts
            && total <= u64::from(crate::MAX_RANKS)
            && beside <= total
            && total == programs
            && self.places.iter().all(|place| place.ranks > 0);
        if fits { Ok(()) } else { Err(Malformed("a plan whose parts do not fit")) }
    }

    /// The programs of all ranks of the job.
    pub(super) fn programs(&self) -> Vec<Program> {
        let programs = self.job.programs.iter().map(|it| Program {
            ranks: it.ranks,
            program: it.program.clone(),
            args: it.args.clone(),
            variables: it.variables.clone(),
            inherited: it.inherited.clone(),
            folder: Some(PathBuf::from(&it.folder)),
        });
        programs.collect()
    }

    /// A launch with the job's other settings.
    pub(super) fn launch(&self) -> Launch {
        let total = self.places.iter().map(|place| place.ranks).sum();
        Launch {
            bind: match self.job.bind {
                1 => Bind::Core,
                2 => Bind::None,
                _ => Bind::Auto,
            },
            ranks_per_node: self.job.ranks_per_node,
            long_stores: match self.job.long_stores {
                1 => Some(LongStores::Cached),
                2 => Some(LongStores::PastCaches),
                _ => None,
            },
            variables: self.job.variables.clone(),
            ..Launch::new(total, OsString::new())
        }
    }
}

impl PlannedJob {
    /// Copies the settings of a launch. Programs that name no folder start in `folder`.
    pub(super) fn new(launch: &Launch, folder: &OsString) -> PlannedJob {
        let programs = launch.all_programs().into_iter().map(|it| PlannedProgram {
            ranks: it.ranks,
            program: it.program,
            args: it.args,
            variables: it.variables,
            inherited: it.inherited,
            folder: it.folder.map_or_else(
                || folder.clone(),
                |own| PathBuf::from(folder).join(own).into_os_string(),
            ),
        });
        PlannedJob {
            ranks_per_node: launch.ranks_per_node,
            bind: match launch.bind {
                Bind::Auto => 0,
                Bind::Core => 1,
                Bind::None => 2,
            },
            long_stores: match launch.long_stores {
                None => 0,
                Some(LongStores::Cached) => 1,
                Some(LongStores::PastCaches) => 2,
            },
            variables: launch.variables.clone(),
            programs: programs.collect(),
        }
    }
}

/// Encodes a structure as its fields, in this order.
macro_rules! fields {
    ($structure:ident: $($field:ident),*) => {
        impl Value for $structure {
            fn put(&self, out: &mut Vec<u8>) {
                $(self.$field.put(out);)*
            }

            fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
                Ok($structure { $($field: Value::take(from)?),* })
            }
        }
    };
}

fields!(PlanHost: name, ranks, is_own);
fields!(PlannedProgram: ranks, program, args, variables, inherited, folder);
fields!(PlannedJob: ranks_per_node, bind, long_stores, variables, programs);
fields!(PlannedNetwork: name, secret, parent);
fields!(
    HostPlan: own, until, places, beside, key, network, agent, daemon, patience_ms, interactive,
    variables, job
);
