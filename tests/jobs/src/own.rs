//! Jobs whose launcher is the test program itself.
//!
//! Only a package's own tests know where Cargo has put its program. The ranks' output is the
//! launcher's, so it can only be read if the launcher is a process of its own. That process is the
//! test program once more: a test named `launcher`, which only calls [`launch`], is run alone and
//! starts the job that an environment variable names.
//!
//! ```no_run
//! use hikyaku_jobs::own;
//!
//! #[test]
//! fn launcher() {
//!     own::launch("what env!(\"CARGO_BIN_EXE_...\") says");
//! }
//!
//! #[test]
//! fn three_ranks_agree() {
//!     let (code, said, complaints) = own::run(3, &["--check"]);
//! }
//! ```

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use hikyaku_launch::Launch;
use hikyaku_launch::processes::{Machine, Processes};

/// The ranks and the arguments of the launcher's job, one a line.
const JOB: &str = "HIKYAKU_JOBS_OWN";

/// If set, the job runs in virtual time: on the machine of this file, if it is one.
const VIRTUAL: &str = "HIKYAKU_JOBS_OWN_VIRTUAL";

/// Marks the launcher's exit code in the output of the test harness.
const CODE: &str = "the job's code is ";

/// Long enough for any job here; a hanging one is ended then, with code 124.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs `program` as the environment says; does nothing without the variable.
pub fn launch(program: &str) {
    launch_by(|_| program);
}

/// Runs one of several programs, each a name and a path: the job's first argument is the name.
pub fn launch_one_of(programs: &[(&str, &str)]) {
    launch_by(|words| {
        let wanted = words.remove(0);
        programs.iter().find(|(name, _)| *name == wanted).unwrap().1
    });
}

fn launch_by<'a>(choose: impl FnOnce(&mut Vec<&str>) -> &'a str) {
    let Ok(job) = std::env::var(JOB) else { return };
    let mut words: Vec<&str> = job.lines().collect();
    let ranks = words.remove(0).parse().unwrap();
    let program = choose(&mut words);
    let launch = Launch {
        args: words.into_iter().map(Into::into).collect(),
        timeout: Some(PATIENCE),
        ..Launch::new(ranks, program)
    };
    let outcome = match std::env::var_os(VIRTUAL) {
        None => launch.run().unwrap(),
        Some(machine) => {
            let mut job = Processes::on_a_test_machine(launch);
            if let Ok(file) = fs::read_to_string(machine) {
                job.machine = Machine::parse("machine", &file).unwrap();
            }
            job.run().unwrap().outcome
        }
    };
    println!("{CODE}{}", outcome.code);
}

/// Runs the program on `ranks` ranks. Returns the job's exit code, and its output on both streams.
pub fn run(ranks: u32, arguments: &[&str]) -> (i32, String, String) {
    run_in(None, ranks, arguments)
}

/// The same with an environment variable for the ranks.
pub fn run_with(variable: (&str, &Path), ranks: u32, arguments: &[&str]) -> (i32, String, String) {
    run_in(Some((variable.0, variable.1.as_os_str())), ranks, arguments)
}

/// The same in virtual time.
pub fn run_in_virtual_time(ranks: u32, arguments: &[&str]) -> (i32, String, String) {
    run_in(Some((VIRTUAL, OsStr::new("yes"))), ranks, arguments)
}

/// The same on the machine of a file.
pub fn run_on(machine: &Path, ranks: u32, arguments: &[&str]) -> (i32, String, String) {
    run_in(Some((VIRTUAL, machine.as_os_str())), ranks, arguments)
}

fn run_in(
    variable: Option<(&str, &OsStr)>,
    ranks: u32,
    arguments: &[&str],
) -> (i32, String, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "launcher", "--nocapture"]).stdin(Stdio::null());
    command.env(JOB, format!("{ranks}\n{}", arguments.join("\n")));
    command.envs(variable);
    let output = command.output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let code = stdout.split(CODE).nth(1).and_then(|rest| rest.lines().next());
    let code = code.unwrap_or_else(|| panic!("no code: {stdout}{stderr}")).parse().unwrap();
    (code, stdout, stderr)
}

/// An empty directory for one test, in the place that Cargo gives tests (`CARGO_TARGET_TMPDIR`).
pub fn directory(place: &str, name: &str) -> PathBuf {
    let path = Path::new(place).join(name);
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}
