//! The options of `hikyaku run` that name the hosts of a job, and the command that runs a host's
//! part.

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hikyaku_launch::OnHosts;
use hikyaku_launch::hosts::{DaemonNetwork, HostEntry, HostsError, assign, daemon};
use hikyaku_ofi::search_limit;
use thiserror::Error;

use crate::exit;
use crate::input::{self, BY_HAND};
use crate::mpiexec::split;
use crate::run::seconds;

/// Names the command that reaches a host, like `--launcher-exec`.
const LAUNCHER_EXEC: &str = "HIKYAKU_LAUNCHER_EXEC";

/// Slurm's variables about an allocation: its nodes, and the number of tasks or CPUs on each.
const NODES: &str = "SLURM_JOB_NODELIST";
const EACH: [&str; 2] = ["SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE"];

/// Where ranks run.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Other hosts")]
#[group(id = "where-ranks-run")]
pub(crate) struct HostsArguments {
    /// Run ranks on these hosts, with a number for each, such as a:4,b:4
    ///
    /// Without numbers the ranks are divided equally. The first host gets the first ranks, and so
    /// on. This host may be in the list (by its own name, or as localhost).
    #[arg(long, value_name = "HOSTS", group = "hosts-named")]
    pub(crate) hosts: Option<String>,

    /// Read the hosts from a file, one per line: `host`, `host:4` or `host slots=4`
    #[arg(long, value_name = "FILE", group = "hosts-named")]
    pub(crate) hostfile: Option<PathBuf>,

    /// Reach hosts by this command, followed by a host and a command line [default: ssh]
    ///
    /// The command is split at blanks. Equivalent to HIKYAKU_LAUNCHER_EXEC in the environment.
    #[arg(long, value_name = "COMMAND", requires = "hosts-named")]
    pub(crate) launcher_exec: Option<String>,

    /// Treat a host as dead after so many seconds of silence [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = seconds, allow_negative_numbers = true)]
    #[arg(requires = "hosts-named")]
    pub(crate) host_timeout: Option<Duration>,

    /// Have daemons connect by TCP over this network, such as 10.1.0.0/16 or ib0
    ///
    /// By default the launcher and its daemons communicate through ssh, which needs no port and
    /// encrypts. This option is for commands of --launcher-exec that transfer data slowly.
    /// Connections are authenticated with a secret of the job, which is sent through the command.
    /// Their data, including input and output, is not encrypted. If no connection can be made, the
    /// job reports that and continues through the command.
    #[arg(long, value_name = "NETWORK", requires = "hosts-named")]
    pub(crate) daemon_network: Option<DaemonNetwork>,
}

/// The reason why hosts cannot be used.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum WrongHosts {
    #[error(transparent)]
    Hosts(#[from] HostsError),
    #[error("cannot read {0}: {1}")]
    File(String, String),
    #[error("say how many ranks by -n N, or where by --hosts or --hostfile (see --help)")]
    Nowhere,
}

impl HostsArguments {
    /// The hosts and their ranks; `None` if no host was named. If no number of ranks was given
    /// either, the hosts of a Slurm allocation are used.
    pub(crate) fn places(&self, ranks: Option<u32>) -> Result<Option<OnHosts>, WrongHosts> {
        let entries = match (&self.hosts, &self.hostfile) {
            (Some(list), _) => HostEntry::list(list)?,
            (None, Some(file)) => {
                let text = input::read(file, BY_HAND).map_err(|error| {
                    WrongHosts::File(file.display().to_string(), error.to_string())
                })?;
                HostEntry::file(&text)?
            }
            (None, None) if ranks.is_some() => return Ok(None),
            (None, None) => {
                let each = EACH.iter().find_map(|name| env::var(name).ok());
                let (nodes, each) = env::var(NODES).ok().zip(each).ok_or(WrongHosts::Nowhere)?;
                HostEntry::of_slurm(&nodes, &each)?
            }
        };
        Ok(Some(self.on(assign(&entries, ranks, None)?)))
    }

    /// These hosts, with the options on how to reach them.
    pub(crate) fn on(&self, places: Vec<(String, u32)>) -> OnHosts {
        let mut hosts = OnHosts::new(places);
        let agent = self.launcher_exec.clone().or_else(|| env::var(LAUNCHER_EXEC).ok());
        let words = agent.map(|agent| split(&agent)).filter(|words| !words.is_empty());
        hosts.agent = words.unwrap_or(hosts.agent);
        hosts.timeout = self.host_timeout.unwrap_or(hosts.timeout);
        hosts.network = self.daemon_network.clone();
        hosts
    }
}

/// Runs a host's part of a job: `hikyaku daemon`, which launchers start.
pub(crate) fn run_daemon() -> ExitCode {
    match daemon(search_limit().as_slice()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            exit::say(error);
            ExitCode::FAILURE
        }
    }
}
