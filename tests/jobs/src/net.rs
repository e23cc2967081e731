//! Hosts on this machine: network, process and name spaces of their own, joined by a bridge.
//!
//! ```text
//!   host 0: 10.77.0.1 ──veth──┐
//!   host 1: 10.77.0.2 ──veth──┤ bridge, in a network of its own
//!   host 2: 10.77.0.3 ──veth──┘
//! ```
//!
//! In place of a wire (veth) a host may have a faulty cable, which is a program of this package.
//!
//! The first process of a host is `reach serve`: programs that reach hosts by `reach` do so over
//! the wire, so that a cut cable cuts off the launcher's daemons as well. Nothing has a name
//! outside these spaces, and all of it ends with the test's process.
//!
//! Hosts have different clocks, too: those that programs measure by (`CLOCK_MONOTONIC`) are days
//! apart. Linux before 5.6 has one for all.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, getuid, kill_process};
use rustix::time::{ClockId, clock_gettime};

use crate::process::{self, Process};

/// The port at which hosts listen for commands.
pub const PORT: u16 = 7070;

/// The network that all hosts are on.
pub const NETWORK: &str = "10.77.0.0/24";

/// How far the clock of each host is ahead of that of the host before, seconds.
const APART: u64 = 1_000_000;

/// Time limit for immediate events on a busy machine. Only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(60);

/// Hosts and the wire between them.
#[derive(Debug)]
pub struct Net {
    bridge: Space,
    hosts: Vec<Host>,
    /// The faulty cable of host 1, if it has one.
    cable: Option<Space>,
}

#[derive(Debug)]
struct Host {
    space: Space,
    /// Its first process, by its number outside.
    first: i32,
}

/// Spaces that live as long as a process.
#[derive(Debug)]
struct Space {
    process: Child,
    said: BufReader<ChildStdout>,
}

impl Space {
    /// New spaces (`unshare`) or those of another process (`nsenter`), in which a shell runs a
    /// script that prints a line when it is ready.
    fn new(program: &str, flags: &[&str], script: &str) -> Result<Space, String> {
        let mut command = Command::new(program);
        command.args(flags).args(["sh", "-ec", script]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn().map_err(|error| format!("no {program}: {error}"))?;
        let mut said = BufReader::new(process.stdout.take().unwrap());
        match said.read_line(&mut String::new()) {
            Ok(1..) => Ok(Space { process, said }),
            _ => Err(format!("{program} {flags:?}: {script}: {:?}", process.wait())),
        }
    }

    /// Runs a command in its network.
    fn run(&self, words: &str) -> Result<(), String> {
        let own = self.process.id().to_string();
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &own, "--"]).args(words.split(' '));
        let output = command.output().map_err(|error| format!("no nsenter: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        output.status.success().then_some(()).ok_or(format!("{words}: {said}"))
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Net {
    /// Makes this many hosts, or returns a line on why it cannot. `reach` is the program of this
    /// package.
    ///
    /// # Errors
    /// This is not root, or the system has no such spaces.
    pub fn new(hosts: u32, reach: &str) -> Result<Net, String> {
        let mut net = Net::without_hosts()?;
        for host in 0..hosts {
            net.add(host, reach, None)?;
        }
        Ok(net)
    }

    /// Two hosts, the second behind a faulty cable. `cable` is that program of this package; `seed`
    /// decides the faults of each frame.
    ///
    /// # Errors
    /// As of `new`, or the system lets no program make network devices.
    pub fn on_bad_cable(reach: &str, cable: &str, seed: u64) -> Result<Net, String> {
        let mut net = Net::without_hosts()?;
        let device = "/dev/net/tun";
        fs::File::open(device).map_err(|error| format!("no bad cable: {device}: {error}"))?;
        net.add(0, reach, None)?;
        net.add(1, reach, Some(&format!("exec {cable} wire1 end {seed}")))?;
        Ok(net)
    }

    fn without_hosts() -> Result<Net, String> {
        if !getuid().is_root() {
            return Err("hosts are network namespaces, which only root can make".to_owned());
        }
        let script = "ip link add bridge type bridge; ip link set bridge up; echo ready; exec cat";
        let bridge = Space::new("unshare", &["--net"], script)?;
        Ok(Net { bridge, hosts: Vec::new(), cable: None })
    }

    fn add(&mut self, host: u32, reach: &str, cable: Option<&str>) -> Result<(), String> {
        let script = format!("hostname host{host}; ip link set lo up; exec {reach} serve");
        let ahead = (u64::from(host) * APART).to_string();
        let clock = ["--time", "--monotonic", &ahead, "--boottime", &ahead];
        let spaces =
            ["--net", "--uts", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
        let flags = [&spaces[..], if has_clocks() { &clock } else { &[] }].concat();
        let space = Space::new("unshare", &flags, &script)?;
        let outer = space.process.id();
        let children = format!("/proc/{outer}/task/{outer}/children");
        let first = fs::read_to_string(children).map_err(|error| error.to_string())?;
        let first = first.trim().parse().map_err(|_| "unshare has no child".to_owned())?;
        let wire = format!("wire{host}");
        if let Some(script) = cable {
            let bridge = self.bridge.process.id().to_string();
            self.cable = Some(Space::new("nsenter", &["--net", "--target", &bridge], script)?);
            self.bridge.run(&format!("ip link set end netns {outer} name eth0"))?;
        } else {
            self.bridge
                .run(&format!("ip link add {wire} type veth peer name eth0 netns {outer}"))?;
        }
        self.bridge.run(&format!("ip link set {wire} master bridge up"))?;
        space.run(&format!("ip addr add {}/24 dev eth0", address(host)))?;
        space.run("ip link set eth0 up")?;
        self.hosts.push(Host { space, first });
        Ok(())
    }

    /// The words that name `ranks` ranks on each of the first hosts: `10.77.0.1:2,10.77.0.2:2`.
    pub fn places(&self, hosts: u32, ranks: u32) -> String {
        let place = |host| format!("{}:{ranks}", address(host));
        (0..hosts).map(place).collect::<Vec<_>>().join(",")
    }

    /// The words before a command that run it on a host.
    pub fn on(&self, host: u32) -> Vec<String> {
        let first = self.hosts[host as usize].first.to_string();
        let enter = ["nsenter", "--target", &first, "--net", "--uts", "--mount", "--pid"];
        let clock: &[&str] = if has_clocks() { &["--time"] } else { &[] };
        let words = [&enter[..], clock, &["--"]].concat();
        words.into_iter().map(str::to_owned).collect()
    }

    /// The processes on a host, except its first one and those that have ended.
    pub fn processes(&self, host: u32) -> Vec<Process> {
        let first = self.hosts[host as usize].first;
        let space = |pid: i32| fs::read_link(PathBuf::from(format!("/proc/{pid}/ns/pid"))).ok();
        let Some(own) = space(first) else { return Vec::new() };
        let is_there =
            |process: &Process| process.pid != first && space(process.pid).as_ref() == Some(&own);
        let all = process::all().into_iter().filter(is_there);
        all.filter(|process| !process.command().is_empty()).collect()
    }

    /// Waits until no process runs on any host.
    ///
    /// # Panics
    /// Some process still does.
    #[track_caller]
    pub fn wait_for_silence(&self, about: &str) {
        let start = Instant::now();
        loop {
            let hosts = 0..u32::try_from(self.hosts.len()).unwrap();
            let left: Vec<String> = hosts
                .flat_map(|host| {
                    let name = move |it: Process| format!("host {host}: {}", it.command());
                    self.processes(host).into_iter().map(name)
                })
                .collect();
            if left.is_empty() {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "{about}: left behind: {left:#?}");
            std::thread::yield_now();
        }
    }

    /// Cuts a host's cable, or repairs it.
    pub fn set_cable(&self, host: u32, whole: bool) {
        let state = if whole { "up" } else { "down" };
        self.bridge.run(&format!("ip link set wire{host} {state}")).unwrap();
    }

    /// Freezes all processes on a host, or resumes them.
    pub fn set_frozen(&self, host: u32, frozen: bool) {
        let signal = if frozen { Signal::STOP } else { Signal::CONT };
        let first = Pid::from_raw(self.hosts[host as usize].first);
        let pids = self.processes(host).into_iter().filter_map(|it| Pid::from_raw(it.pid));
        // Processes that have ended meanwhile need no signal.
        pids.chain(first).for_each(|pid| _ = kill_process(pid, signal));
    }

    /// Kills a host: everything on it, and its network.
    pub fn kill(&mut self, host: u32) {
        let space = &mut self.hosts[host as usize].space;
        space.process.kill().unwrap();
        space.process.wait().unwrap();
    }

    /// Removes the faulty cable, and returns its report.
    pub fn take_cable(&mut self) -> String {
        let mut cable = self.cable.take().expect("this has one");
        drop(cable.process.stdin.take());
        let mut line = String::new();
        cable.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

/// The address of a host.
pub fn address(host: u32) -> String {
    format!("10.77.0.{}", host + 1)
}

/// Whether the system can give processes a clock of their own.
fn has_clocks() -> bool {
    Path::new("/proc/self/ns/time").exists()
}

/// The time by a clock that all processes of this machine share, those of all hosts too.
pub fn now() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Realtime)).unwrap()
}
