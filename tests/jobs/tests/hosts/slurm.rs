//! Slurm on two hosts: `srun --mpi=pmi2` and `srun --mpi=pmix` start ranks of one job, and leave
//! the others alone when one dies or a host is cut off: ranks watch each other.
//!
//! Skipped where it is not installed (Debian: slurmctld slurmd slurm-client munge). Its programs
//! run here with a configuration of this test, and end with the hosts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::MutexGuard;
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_jobs::net::{Net, address, now};
use hikyaku_jobs::process::Process;

use super::hosts;
use super::started::{HOST_TIMEOUT, Started};

const RANK: &str = env!("CARGO_BIN_EXE_rank");

/// Time limit until Slurm has two nodes. Only failing tests reach it.
const PATIENCE: Duration = Duration::from_secs(60);

/// The programs that it needs.
const PROGRAMS: [&str; 5] = ["munged", "slurmctld", "slurmd", "srun", "sinfo"];

/// A cluster of two nodes.
struct Slurm {
    net: Option<Net>,
    munge: Child,
    folder: PathBuf,
}

impl Drop for Slurm {
    fn drop(&mut self) {
        // First its daemons, which write into the folder.
        self.net = None;
        let _ = self.munge.kill();
        let _ = self.munge.wait();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn configuration(folder: &Path) -> String {
    let at = folder.display();
    let mut text = format!(
        "ClusterName=test\nSlurmctldHost=host0({})\nSlurmUser=root\nSlurmdUser=root\n\
         AuthType=auth/munge\nAuthInfo=socket={at}/munge.socket\nCryptoType=crypto/munge\n\
         SlurmctldPort=16817\nSlurmdPort=16818\nStateSaveLocation={at}/state\n\
         SlurmdSpoolDir={at}/spool-%n\nSlurmctldPidFile={at}/slurmctld.pid\n\
         SlurmdPidFile={at}/%n.pid\nSlurmctldLogFile={at}/slurmctld.log\n\
         SlurmdLogFile={at}/%n.log\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         JobAcctGatherType=jobacct_gather/none\nAccountingStorageType=accounting_storage/none\n\
         SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nSchedulerType=sched/builtin\n\
         SwitchType=switch/none\nMpiDefault=none\nReturnToService=2\n\
         SlurmdParameters=config_overrides\n",
        address(0)
    );
    for host in 0..2 {
        text += &format!(
            "NodeName=host{host} NodeAddr={} CPUs=4 Sockets=1 CoresPerSocket=4 ThreadsPerCore=1 \
             RealMemory=1000 State=UNKNOWN\n",
            address(host)
        );
    }
    text + "PartitionName=p Nodes=host0,host1 Default=YES State=UP OverSubscribe=YES\n"
}

impl Slurm {
    fn start(net: Net) -> Slurm {
        let folder = PathBuf::from(format!("/tmp/hikyaku-slurm-{}", std::process::id()));
        fs::create_dir_all(folder.join("state")).unwrap();
        fs::write(folder.join("slurm.conf"), configuration(&folder)).unwrap();
        let key = folder.join("munge.key");
        fs::write(&key, [7; 1024]).unwrap();
        for (path, mode) in [(&key, 0o600), (&folder, 0o755)] {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            fs::set_permissions(path, mode).unwrap();
        }
        let mut munge = Command::new("munged");
        munge.args(["--foreground", "--force"]);
        for (option, name) in [
            ("key-file", "munge.key"),
            ("socket", "munge.socket"),
            ("pid-file", "munge.pid"),
            ("log-file", "munge.log"),
            ("seed-file", "munge.seed"),
        ] {
            munge.arg(format!("--{option}={}", folder.join(name).display()));
        }
        let munge = munge.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let slurm = Slurm { net: Some(net), munge, folder };
        slurm.wait_for("munge", || slurm.folder.join("munge.socket").exists());
        // Each host has a folder of its own for the plug-in of PMIx.
        let own = slurm.folder.join("pmix").display().to_string();
        fs::create_dir(&own).unwrap();
        fs::write(slurm.folder.join("mpi.conf"), format!("PMIxCliTmpDirBase={own}\n")).unwrap();
        for host in 0..2 {
            let mounted = slurm.run(host, &["mount", "-t", "tmpfs", "none", &own]);
            assert!(mounted.status.success(), "{mounted:?}");
        }
        let config = slurm.folder.join("slurm.conf").display().to_string();
        slurm.run(0, &["slurmctld", "-c", "-f", &config]);
        for (host, name) in [(0, "host0"), (1, "host1")] {
            slurm.run(host, &["slurmd", "-f", &config, "-N", name]);
        }
        slurm.wait_for("two idle nodes", || {
            let output = slurm.run(0, &["sinfo", "--noheader", "--format=%D %t"]);
            String::from_utf8_lossy(&output.stdout).trim() == "2 idle"
        });
        slurm
    }

    fn wait_for(&self, what: &str, is_there: impl Fn() -> bool) {
        let start = Instant::now();
        while !is_there() {
            let log = fs::read_to_string(self.folder.join("slurmctld.log")).unwrap_or_default();
            assert!(start.elapsed() < PATIENCE, "no {what}: {log}");
            thread::yield_now();
        }
    }

    fn net(&self) -> &Net {
        self.net.as_ref().unwrap()
    }

    /// A command on a host.
    fn command(&self, host: u32, words: &[&str]) -> Command {
        let before = self.net().on(host);
        let mut command = Command::new(&before[0]);
        command.args(&before[1..]).args(words).stdin(Stdio::null()).env("RUST_BACKTRACE", "0");
        command.env("SLURM_CONF", self.folder.join("slurm.conf"));
        command
    }

    /// Runs it.
    fn run(&self, host: u32, words: &[&str]) -> Output {
        self.command(host, words).output().unwrap()
    }

    /// Four ranks, two on each host, that wait for the last one.
    fn waiting(&self, mpi: &str) -> Started {
        let words = ["srun", mpi, "-N2", "--ntasks-per-node=2", RANK, "wait-for", "3"];
        let mut command = self.command(0, &words);
        command.env("HIKYAKU_HOST_TIMEOUT", HOST_TIMEOUT.to_string());
        let mut job = Started::by(command, 2);
        job.all_wait(4);
        job
    }

    /// Waits until no rank is left on any host.
    fn wait_for_silence(&self, about: &str) {
        let is_rank = |process: &Process| process.command().starts_with(RANK);
        let are_gone = || !(0..2).any(|host| self.net().processes(host).iter().any(is_rank));
        self.wait_for(about, are_gone);
    }
}

/// A cluster, if it is installed and hosts can be made.
fn cluster() -> Option<(Slurm, MutexGuard<'static, ()>)> {
    let is_there = |name: &&str| {
        let path = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&path).any(|folder| folder.join(name).exists())
    };
    if let Some(missing) = PROGRAMS.iter().find(|name| !is_there(name)) {
        eprintln!("skipped: no {missing}: apt-get install slurmctld slurmd slurm-client munge");
        return None;
    }
    let (net, alone) = hosts(2)?;
    Some((Slurm::start(net), alone))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn srun_starts_ranks_of_one_job() {
    let Some((slurm, _alone)) = cluster() else { return };
    let srun = |words: &[&str]| slurm.run(0, &[&["srun"][..], words].concat());
    for mpi in ["--mpi=pmi2", "--mpi=pmix"] {
        // Debian's plug-in of PMIx needs the package libpmix-dev.
        let tried = srun(&[mpi, "-n1", "true"]);
        if !tried.status.success() {
            eprintln!("skipped: no {mpi}: {}", text(&tried.stderr));
            continue;
        }
        for (program, rounds) in [("ring", "3"), ("halo", "10"), ("queue", "3"), ("sums", "5")] {
            let output = srun(&[mpi, "-N2", "--ntasks-per-node=2", RANK, "apart", program, rounds]);
            let (said, errors) = (text(&output.stdout), text(&output.stderr));
            assert_eq!((output.status.code(), said.as_str()), (Some(0), "right\n"), "{errors}");
        }
        deaths_are_told(&slurm, mpi);
    }
    // Without a way to meet, each rank reports that.
    let output = srun(&["--mpi=none", "-N2", "-n2", RANK, "agree"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("srun --mpi=pmi2").count(), 2, "{said}");
}

fn deaths_are_told(slurm: &Slurm, mpi: &str) {
    let mut job = slurm.waiting(mpi);
    let at = now();
    job.rank(slurm.net(), 3).unwrap().kill();
    let ended = job.end();
    assert_eq!(ended.told(at, (&[3], "host1"), 1.0), [0, 1, 2], "{mpi}: {ended:?}");
    assert_eq!(ended.code, Some(137), "{mpi}: {ended:?}");
    slurm.wait_for_silence(&format!("end after a killed rank ({mpi})"));

    let mut job = slurm.waiting(mpi);
    let at = now();
    slurm.net().set_cable(1, false);
    let mut told = vec![job.line().unwrap(), job.line().unwrap()];
    slurm.net().set_cable(1, true);
    let mut ended = job.end();
    ended.lines.append(&mut told);
    assert_eq!(ended.told(at, (&[2, 3], "host1"), HOST_TIMEOUT), [0, 1], "{mpi}: {ended:?}");
    slurm.wait_for_silence(&format!("end after a cut ({mpi})"));
}
