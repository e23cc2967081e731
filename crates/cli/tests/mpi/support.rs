//! Builds the libraries, compiles C programs, and runs them on hikyaku and on MPICH.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

pub(crate) const HIKYAKU: &str = env!("CARGO_BIN_EXE_hikyaku");

/// The root of the source tree.
pub(crate) fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Whether the tests may take minutes.
pub(crate) fn is_long() -> bool {
    std::env::var_os("HIKYAKU_LONG").is_some()
}

/// The folder `mpi` beside the launcher, built once.
pub(crate) fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let beside = Path::new(HIKYAKU).parent().unwrap();
        let mut build = Command::new(root().join("scripts/mpi.sh"));
        if beside.ends_with("release") {
            build.arg("--release");
        }
        build.env("CARGO_TARGET_DIR", beside.parent().unwrap());
        assert_success(&build.output().unwrap(), "scripts/mpi.sh");
        beside.join("mpi")
    })
}

/// A program in that folder's `bin`.
pub(crate) fn tool(name: &str) -> PathBuf {
    folder().join("bin").join(name)
}

/// A new folder for the files of a test.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Options that end a test program that accesses memory beyond the end of one of its own arrays.
/// With more ranks than the arrays are for, such an access would look like a fault of the library.
const CHECKED: [&str; 2] =
    ["-fsanitize=bounds-strict,object-size", "-fsanitize-undefined-trap-on-error"];

/// Compiles a C program with our `mpicc`.
pub(crate) fn compile(source: &Path, into: &Path) -> PathBuf {
    let program = into.join(source.file_stem().unwrap());
    compile_by(Command::new(tool("mpicc")), source, program)
}

/// Compiles a C program for MPICH's own binary interface.
pub(crate) fn compile_for_mpich(source: &Path, into: &Path, mpich: &Path) -> PathBuf {
    let program = into.join(source.file_stem().unwrap()).with_extension("mpich");
    compile_by(compiler_for_mpich(mpich), source, program)
}

/// Compiles a C program for the standard's binary interface and, if its header is here, for
/// MPICH's.
pub(crate) fn compile_for_both(source: &Path, into: &Path) -> Vec<PathBuf> {
    let other = mpich().map(|mpich| compile_for_mpich(source, into, &mpich));
    [compile(source, into)].into_iter().chain(other).collect()
}

/// A compiler with the header of this MPICH and our other one, which links with our library for
/// MPICH's interface.
pub(crate) fn compiler_for_mpich(mpich: &Path) -> Command {
    let mut compiler = Command::new("cc");
    compiler.arg("-I").arg(mpich.join("include"));
    compiler.arg("-I").arg(folder().join("include"));
    let ours = folder().display();
    let library = [format!("-L{ours}"), format!("-Wl,-rpath,{ours}"), "-l:libmpi.so.12".into()];
    compiler.arg("-Wl,--no-as-needed").args(library);
    compiler
}

fn compile_by(mut compiler: Command, source: &Path, program: PathBuf) -> PathBuf {
    compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1"]).args(CHECKED);
    compiler.arg("-o").arg(&program).arg(source).arg("-lm");
    assert_success(&compiler.output().unwrap(), compiler.get_program());
    program
}

/// Runs `hikyaku` with these arguments and a program.
pub(crate) fn hikyaku(words: &[&str], program: &Path) -> Output {
    command(words, program).output().unwrap()
}

/// [`hikyaku`] with ranks and threads that sleep until they are woken: a lost wake-up ends the job
/// at its time limit.
pub(crate) fn hikyaku_asleep(words: &[&str], program: &Path) -> Output {
    command(words, program).env("HIKYAKU_TEST_SLEEP", "1000").output().unwrap()
}

fn command(words: &[&str], program: &Path) -> Command {
    let mut command = Command::new(HIKYAKU);
    command.args(words).arg("--").arg(program).stdin(Stdio::null());
    command
}

/// The arguments of `run` on hosts that are all this machine.
pub(crate) fn on_hosts(hosts: &str) -> [&str; 5] {
    ["run", "--hosts", hosts, "--launcher-exec", "sh -c 'exec sh -c \"$1\"'"]
}

/// The arguments of `run` on two hosts with a rank each, which are network namespaces of this
/// machine with a wire between them. `None` if they cannot be created; then it prints the reason.
pub(crate) fn on_wire() -> Option<Vec<String>> {
    if !has_libfabric() {
        return None;
    }
    // A program from the tests of whole jobs, which creates the hosts and reaches them.
    let reach = Path::new(HIKYAKU).with_file_name("reach");
    let why = match rustix::process::getuid().is_root() {
        false => "hosts are network namespaces, which only root can make",
        true if !reach.exists() => "no hosts; `cargo build -p hikyaku-jobs` builds what makes them",
        true => {
            let reach = reach.to_str().unwrap();
            let hosts = "10.77.0.1:1,10.77.0.2:1";
            let words = [reach, "hosts", "2", HIKYAKU, "run", "--hosts", hosts];
            let words = [&words[..], &["--launcher-exec", reach]].concat();
            return Some(words.into_iter().map(str::to_owned).collect());
        }
    };
    say(&format!("skipped: {why}"));
    None
}

/// Prints a line at once. Not by a macro, because the test harness captures their output.
pub(crate) fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// Whether ranks of several hosts can reach each other here.
pub(crate) fn has_libfabric() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let output = Command::new(HIKYAKU).args(["fabric", "list"]).output().unwrap();
        if !output.status.success() {
            let _ = write!(std::io::stderr(), "skipped: no hosts; {}", stderr(&output));
        }
        output.status.success()
    })
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn assert_success(output: &Output, what: impl AsRef<OsStr>) {
    let what = what.as_ref().display();
    assert!(
        output.status.success(),
        "{what}: {:?}: {}{}",
        output.status,
        stdout(output),
        stderr(output)
    );
}

/// The MPICH that `make test-all` installs from PyPI, with which the tests themselves are checked.
pub(crate) fn mpich() -> Option<PathBuf> {
    static MPICH: OnceLock<Option<PathBuf>> = OnceLock::new();
    let found = MPICH.get_or_init(|| {
        let given = std::env::var_os("HIKYAKU_MPICH").map(PathBuf::from);
        let target = Path::new(HIKYAKU).parent().unwrap().parent().unwrap();
        let place = given.unwrap_or_else(|| target.join("mpich"));
        let is_there = || place.join("lib/libmpi_abi.so.1").exists();
        if !is_there() && is_long() {
            let _ = Command::new(root().join("scripts/mpich.sh")).arg(&place).status();
        }
        is_there().then_some(place)
    });
    if found.is_none() {
        say("skipped: no comparison with MPICH; `scripts/mpich.sh target/mpich` installs it");
    }
    found.clone()
}

/// A job of `ranks` ranks of this program on MPICH's library of its binary interface. It ends after
/// `limit` seconds at the latest, then with the code 124.
///
/// MPICH's ranks poll without a pause. With more of them than processors, or with other tests
/// beside them, the rank that could go on would wait for those that only poll. So a rank that polls
/// ten times in vain sleeps for a moment.
pub(crate) fn job_on_mpich(prefix: &Path, limit: &str, ranks: u32, program: &Path) -> Command {
    let mut command = Command::new("timeout");
    command.arg(limit).arg(prefix.join("bin/mpiexec")).args(["-n", &ranks.to_string()]);
    command.arg(program).env("LD_LIBRARY_PATH", prefix.join("lib"));
    command.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
    command.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "10");
    command
}
