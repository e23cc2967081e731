//! Ranks that another launcher starts, MPICH's `mpiexec`, are one job: on one host, and on several.
//!
//! HIKYAKU_MPICH names the folder of an MPICH; at length the tests get one from PyPI.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use hikyaku_jobs::at_length;
use hikyaku_jobs::net::address;

use super::hosts;

const RANK: &str = env!("CARGO_BIN_EXE_rank");

/// What is computed, and for how many rounds.
const PROGRAMS: [(&str, &str); 4] = [("ring", "3"), ("halo", "10"), ("queue", "3"), ("sums", "5")];

fn mpich() -> Option<&'static Path> {
    static MPICH: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = MPICH.get_or_init(|| {
        let target = Path::new(RANK).parent().unwrap().parent().unwrap();
        let given = std::env::var_os("HIKYAKU_MPICH").map(PathBuf::from);
        let place = given.unwrap_or_else(|| target.join("mpich"));
        let is_there = || place.join("bin/mpiexec.hydra").exists();
        if !is_there() && at_length() {
            let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/mpich.sh");
            let _ = Command::new(script).arg(&place).status();
        }
        is_there().then_some(place)
    });
    if found.is_none() {
        // Not by a macro, whose words the harness keeps to itself.
        let why = "skipped: no MPICH; `scripts/mpich.sh target/mpich` installs it";
        let _ = writeln!(std::io::stderr(), "{why}");
    }
    found.as_deref()
}

/// Runs so many ranks of `rank` with these words, behind these of the launcher.
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
        // A program alone needs nobody.
        assert_right(&run(&before, 1, &["agree"]), "");
    }
}

#[test]
fn a_death_ends_the_job_of_another_launcher() {
    let Some(mpich) = mpich() else { return };
    // That of gforker is 0, whatever happens.
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
