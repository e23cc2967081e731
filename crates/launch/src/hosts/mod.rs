//! Jobs of several hosts: a daemon on each, reached by `ssh` or another agent.
//!
//! ```text
//!   hikyaku run ── engine ── head: crew of all hosts
//!                              │ links: an agent a host, frames on its standard input and output
//!        ┌─────────────────────┼──────────────────────┐
//!     sh (own host)         ssh b                  ssh c
//!        │                     │                      │
//!     daemon                daemon                 daemon ── links (above 16 hosts)
//!     local crew, memory    local crew, memory     local crew, memory
//! ```
//!
//! The launcher decides for the job. A daemon starts and ends the ranks of its host, and passes on
//! frames and the ranks' output. The channel is the agent's and not a port of hikyaku's own: no
//! name has to be resolved, no stranger can connect, it is as secret as the agent makes it, and it
//! works wherever the agent does. When it closes, the daemon behind it ends.
//!
//! Some agents carry bytes slowly, or through a server that many share. On request daemons connect
//! to their parent by TCP (`network`, `wire`), and frames go there. The agent carries the plan and
//! the secret that the daemon needs to connect. The agent stays: when it ends, so does the daemon.
//! If no connection can be made, frames go through the agent, as without the request.
//!
//! Pure: `bytes`, `frame`, `greeting`, `plan` (what is sent), `seal` (authentication), `tree` (who
//! starts whom), `cards` (gathered addresses), `list` (hosts as a user names them), `start` (the
//! cost of a start).

mod bytes;
mod cards;
mod daemon;
mod frame;
mod greeting;
mod head;
mod input;
mod links;
mod list;
mod network;
mod plan;
mod seal;
mod slurm;
mod start;
mod tree;
mod wire;

use std::{
    env,
    ffi::OsString,
    fs::File,
    io::{self, Read},
};

pub use daemon::daemon;
pub use list::{HOST_TIMEOUT, HostEntry, HostsError, OnHosts, assign};
pub use network::DaemonNetwork;
pub use start::{StartCosts, StartEstimate, StartedJob};

pub use hikyaku_shm::own_host_name;

use self::{
    head::HostRanks,
    plan::{HostPlan, PlanHost, PlannedJob, PlannedNetwork},
    seal::Secret,
};
use crate::{
    JobOutcome, Launch, LaunchError,
    engine::{JobEngine, Prepared},
};

/// Variables that belong to one host or one login, and are not sent to other hosts.
const STAY: [&str; 12] = [
    "DBUS_SESSION_BUS_ADDRESS",
    "DISPLAY",
    "HIKYAKU_JOB",
    "HIKYAKU_RANK",
    "HIKYAKU_SIZE",
    "HOSTNAME",
    "OLDPWD",
    "PWD",
    "SHLVL",
    "WINDOWID",
    "XAUTHORITY",
    "_",
];

/// Prefixes of further such variables.
const STAY_ALL: [&str; 2] = ["SSH_", "XDG_"];

impl OnHosts {
    fn plan(&self, launch: &Launch, interactive: [bool; 2]) -> Result<HostPlan, LaunchError> {
        let system = |what| move |source| LaunchError::System { what, source };
        let secret = "make a secret of the job";
        let folder = env::current_dir().map_err(system("find the current folder"))?;
        let own = own_host_name();
        let place = |(name, ranks): &(String, u32)| {
            let is_own = is_this_host(name, &own);
            PlanHost { name: name.clone(), ranks: *ranks, is_own }
        };
        let places: Vec<PlanHost> = self.places.iter().map(place).collect();
        // A job on this host alone has no daemon that would connect.
        let network = self.network.as_ref().filter(|_| places.iter().any(|place| !place.is_own));
        let network = match network {
            Some(network) => Some(PlannedNetwork {
                name: network.to_string(),
                secret: Secret(random().map_err(system(secret))?),
                parent: String::new(),
            }),
            None => None,
        };
        let plan = HostPlan {
            own: 0,
            until: u32::try_from(self.places.len()).unwrap_or(u32::MAX),
            places,
            beside: (0, 0),
            key: random().map_err(system(secret))?,
            network,
            agent: self.agent.clone(),
            daemon: command_line(&self.daemon),
            patience_ms: u64::try_from(self.timeout.as_millis()).unwrap_or(u64::MAX).max(100),
            interactive: (interactive[0], interactive[1]),
            variables: travelling(env::vars_os()),
            job: PlannedJob::new(launch, &folder.into_os_string()),
        };
        let mut bytes = Vec::new();
        frame::Frame::Plan(Box::new(plan.clone())).put(0, &mut bytes);
        if bytes.len() > frame::MOST_BYTES {
            let source = rustix::io::Errno::TOOBIG.into();
            return Err(system("send arguments and environment to other hosts")(source));
        }
        Ok(plan)
    }
}

/// Runs a job on several hosts.
pub(crate) fn run(launch: &Launch, hosts: &OnHosts) -> Result<JobOutcome, LaunchError> {
    let prepare = |source| LaunchError::System { what: "prepare the launch", source };
    links::allow_files(hosts.places.len(), hosts.network.is_some())?;
    let prepared = Prepared::new(launch).map_err(prepare)?;
    let interactive = [0, 1].map(|stream| prepared.outputs.is_interactive(stream));
    let crew = HostRanks::start(hosts.plan(launch, interactive)?, prepared.elapsed())?;
    JobEngine::new(launch, prepared, crew, launch.ranks).map_err(prepare)?.run()
}

/// Random bytes from the system.
fn random<const COUNT: usize>() -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Whether a name means the host that calls itself `own`.
fn is_this_host(name: &str, own: &str) -> bool {
    ["localhost", "127.0.0.1", "::1", own].contains(&name)
}

/// The variables that are sent to other hosts.
fn travelling(all: impl Iterator<Item = (OsString, OsString)>) -> Vec<(OsString, OsString)> {
    let stays =
        |name: &str| STAY.contains(&name) || STAY_ALL.iter().any(|begin| name.starts_with(begin));
    all.filter(|(name, _)| name.to_str().is_none_or(|name| !stays(name))).collect()
}

/// Quotes words for a shell.
fn command_line(words: &[OsString]) -> String {
    let quote = |word: &OsString| {
        let text = word.to_string_lossy();
        let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=:+,@%".contains(letter);
        match !text.is_empty() && text.chars().all(plain) {
            true => text.into_owned(),
            false => format!("'{}'", text.replace('\'', r"'\''")),
        }
    };
    words.iter().map(quote).collect::<Vec<_>>().join(" ")
}
