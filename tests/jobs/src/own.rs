//! Jobs whose launcher is the test program itself.
//!
//! Only a package's own tests know where Cargo has put its program, and the ranks' output is the
//! launcher's, so what is said can only be read if the launcher is a process of its own. It is the
//! test program once more: a test named `launcher`, which does nothing but call [`launch`], is run
//! alone and starts the job that an environment variable says.
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

/// Names the ranks and the arguments of the job that the launcher is to run, one a line.
const JOB: &str = "HIKYAKU_JOBS_OWN";

/// If set, the job runs in virtual time: on the machine of this file, if it is one.
const VIRTUAL: &str = "HIKYAKU_JOBS_OWN_VIRTUAL";

/// What the launcher's exit code is said in, among the lines of the test harness.
const CODE: &str = "the job's code is ";

/// Long enough for any job here; whatever hangs is ended then, with code 124.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs `program` as the environment says; without the variable there is no job and nothing to do.
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

/// Runs the program on so many ranks: the job's exit code, and what came out of both streams.
pub fn run(ranks: u32, arguments: &[&str]) -> (i32, String, String) {
    run_in(None, ranks, arguments)
}

/// The same with a variable that the ranks have.
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
