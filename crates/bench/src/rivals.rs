//! Other ways of two processes to take turns in changing an array: the rivals of a shared variable
//! in [`super::kinds::shared`].
//!
//! Hikyaku's own package for Python is here too, to compare Python's own ways with. So is the
//! limit: a program that only moves messages between two processes.
//!
//! Each is a program that is included as source, starts two processes, and follows the same
//! protocol as our ranks. They take part only in the hand-off of shared variables, the limit in
//! messages.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use thiserror::Error;

use super::control::{BareWay, TurnPrimitive, Verb};
use super::hardware;
use super::kinds::{FigureKind, MeasuredForm, MeasuredPoint};

const PAIR_H: &str = include_str!("rival/pair.h");
const TURNS_C: &str = include_str!("rival/turns.c");
const LIMIT_C: &str = include_str!("rival/limit.c");
const TURNS_PY: &str = include_str!("rival/turns.py");
const TURNS_HIKYAKU_PY: &str = include_str!("rival/turns_hikyaku.py");

/// Bytes of a line: a message this short moves with the flag that announces it, and no other way is
/// as fast.
const LINE_BYTES: u64 = 64;

/// A way to take turns, or to move messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RivalKind {
    /// Python's multiprocessing with shared_memory: lock, condition and semaphore.
    Python,
    /// Hikyaku's own package for Python: not a rival, but the reference for Python's own ways.
    Package,
    /// A robust pthread mutex in shared memory, in C.
    Mutex,
    /// Lists of a Redis server, by blocking pops.
    Redis,
    /// Not a rival, but the hardware's limit: a C program that only moves a message.
    Limit,
}

/// Why a rival cannot take part. Each is one line with the remedy.
#[derive(Debug, Error)]
pub(crate) enum RivalError {
    /// A program that it needs is not on this machine.
    #[error("{}: no {program} in {looked}; install it: apt-get install {package}", .kind.name())]
    Missing {
        /// The rival.
        kind: RivalKind,
        /// The program.
        program: &'static str,
        /// The places that were searched.
        looked: String,
        /// The package of Debian that has it.
        package: &'static str,
    },
    /// Its program could not be compiled.
    #[error("{}: {compiler} cannot build its program: {reason}", .kind.name())]
    Build {
        /// The rival.
        kind: RivalKind,
        /// The compiler.
        compiler: String,
        /// The first line of its output.
        reason: String,
    },
    /// Python has no such module.
    #[error(
        "{}: {python} cannot import hikyaku ({reason}); install it: pip install . at the top of a \
         checkout", .kind.name()
    )]
    NoModule {
        /// The rival.
        kind: RivalKind,
        /// The interpreter.
        python: String,
        /// The last line of its output.
        reason: String,
    },
    /// The source could not be written.
    #[error("cannot write the program of a rival: {0}")]
    Write(#[from] io::Error),
}

impl RivalKind {
    /// The common name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            RivalKind::Python => "Python",
            RivalKind::Package => "hikyaku in Python",
            RivalKind::Mutex => "pthread mutex",
            RivalKind::Redis => "Redis",
            RivalKind::Limit => "bare C",
        }
    }
}

/// A rival that is ready to be started.
#[derive(Debug, Clone)]
pub(crate) struct Rival {
    kind: RivalKind,
    program: PathBuf,
    arguments: Vec<OsString>,
}

impl Rival {
    /// Finds the tools for `kind` in the first of `directories` that has them, and builds its
    /// program into `scratch`.
    pub(crate) fn prepare(
        kind: RivalKind,
        directories: &[PathBuf],
        scratch: &Path,
    ) -> Result<Rival, RivalError> {
        let find = |program, package| find(kind, program, package, directories);
        let build =
            |name, text| compile(kind, &find("cc", "gcc libc6-dev")?, scratch, (name, text));
        let (program, arguments) = match kind {
            RivalKind::Python => {
                let script = scratch.join("turns.py");
                fs::write(&script, TURNS_PY)?;
                (find("python3", "python3")?, vec![script.into_os_string()])
            }
            RivalKind::Package => {
                let python = find("python3", "python3")?;
                import(kind, &python)?;
                let script = scratch.join("turns_hikyaku.py");
                fs::write(&script, TURNS_HIKYAKU_PY)?;
                let bind = if hardware::affinity().len() < 2 { "none" } else { "core" };
                let mut words: Vec<OsString> =
                    ["run", "-n", "2", "--bind", bind, "--"].map(OsString::from).into();
                words.extend([python.into_os_string(), script.into_os_string()]);
                (env::current_exe()?, words)
            }
            RivalKind::Mutex => (build("turns", TURNS_C)?, vec!["mutex".into()]),
            RivalKind::Limit => (build("limit", LIMIT_C)?, Vec::new()),
            RivalKind::Redis => {
                let server = find("redis-server", "redis-server")?;
                let words = vec!["redis".into(), server.into_os_string(), scratch.into()];
                (build("turns", TURNS_C)?, words)
            }
        };
        Ok(Rival { kind, program, arguments })
    }

    /// The kind of rival.
    pub(crate) fn kind(&self) -> RivalKind {
        self.kind
    }

    /// The command that starts its two processes, which connect to the socket at `path`.
    pub(crate) fn launcher(&self, path: &Path) -> Process {
        let mut command = Process::new(&self.program);
        command.args(&self.arguments).arg(path);
        command
    }

    /// The forms in which it measures a point: none, if its program does not support that point.
    pub(crate) fn forms(&self, point: &MeasuredPoint) -> Vec<MeasuredForm> {
        let by_ways = |verb: fn(BareWay) -> Verb| {
            let ways = BareWay::ALL.into_iter();
            let ways = ways.filter(|way| *way == BareWay::Ring || point.bytes > LINE_BYTES);
            ways.map(|way| MeasuredForm::heap(way.name(), verb(way))).collect()
        };
        match (self.kind, point.kind) {
            (RivalKind::Limit, FigureKind::Latency) => by_ways(Verb::OneWay),
            (RivalKind::Limit, FigureKind::Bidirectional) => by_ways(Verb::TwoWays),
            (RivalKind::Python, FigureKind::HandOver) => TurnPrimitive::ALL
                .map(|primitive| MeasuredForm::heap(primitive.name(), Verb::TurnsBy(primitive)))
                .into(),
            (RivalKind::Package | RivalKind::Mutex | RivalKind::Redis, FigureKind::HandOver) => {
                vec![MeasuredForm::heap("", Verb::SharedTurns)]
            }
            _ => Vec::new(),
        }
    }
}

fn find(
    kind: RivalKind,
    program: &'static str,
    package: &'static str,
    directories: &[PathBuf],
) -> Result<PathBuf, RivalError> {
    let mut places = directories.iter().map(|directory| directory.join(program));
    let found = places.find(|place| place.is_file());
    let looked = || directories.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>();
    found.ok_or_else(|| RivalError::Missing { kind, program, looked: looked().join(":"), package })
}

/// Checks that `python` has hikyaku's package.
fn import(kind: RivalKind, python: &Path) -> Result<(), RivalError> {
    let mut process = Process::new(python);
    process.args(["-c", "import hikyaku"]).stdin(Stdio::null());
    let reason = match process.output() {
        Ok(output) if output.status.success() => return Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let last = said.lines().rfind(|line| !line.trim().is_empty());
            last.unwrap_or("it failed without a word").to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(RivalError::NoModule { kind, python: python.display().to_string(), reason })
}

fn compile(
    kind: RivalKind,
    compiler: &Path,
    scratch: &Path,
    (name, text): (&str, &str),
) -> Result<PathBuf, RivalError> {
    let (source, program) = (scratch.join(format!("{name}.c")), scratch.join(name));
    fs::write(scratch.join("pair.h"), PAIR_H)?;
    fs::write(&source, text)?;
    let mut process = Process::new(compiler);
    process.args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source);
    let reason = match process.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => return Ok(program),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let first = said.lines().find(|line| !line.trim().is_empty());
            first.unwrap_or("it failed without a word").to_owned()
        }
        Err(error) => error.to_string(),
    };
    Err(RivalError::Build { kind, compiler: compiler.display().to_string(), reason })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::kinds::Bare;
    use crate::scratch::ScratchFolder;

    #[test]
    fn what_is_missing_is_told_with_where_it_was_looked_for_and_how_to_get_it() {
        let scratch = ScratchFolder::new().unwrap();
        let directories = [PathBuf::from("/a/bin"), PathBuf::from("/b/bin")];
        let error = Rival::prepare(RivalKind::Redis, &directories, scratch.path()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Redis: no redis-server in /a/bin:/b/bin; install it: apt-get install redis-server"
        );
    }

    #[test]
    fn a_python_without_the_package_is_one_line() {
        let missing = import(RivalKind::Package, Path::new("/nonexistent/python3")).unwrap_err();
        let told = missing.to_string();
        assert!(
            told.starts_with("hikyaku in Python: /nonexistent/python3 cannot import"),
            "{told}"
        );
        assert!(told.ends_with("pip install . at the top of a checkout") && !told.contains('\n'));
        let silent = import(RivalKind::Package, Path::new("/bin/false")).unwrap_err().to_string();
        assert!(silent.contains("(it failed without a word)"), "{silent}");
    }

    #[test]
    fn the_limit_moves_a_line_by_its_flag_and_more_in_each_way() {
        let limit = Rival { kind: RivalKind::Limit, program: "x".into(), arguments: Vec::new() };
        let words = |kind, bytes| -> Vec<_> {
            let forms = limit.forms(&MeasuredPoint::new(kind, 2, bytes, Bare::LINE));
            forms.into_iter().map(|form| form.verb.word()).collect()
        };
        assert_eq!(words(FigureKind::Latency, 64), ["one-ring"]);
        assert_eq!(
            words(FigureKind::Bidirectional, 65),
            ["two-ring", "two-kernel", "two-both", "two-shared", "two-shared-both"]
        );
        assert!(words(FigureKind::HandOver, 4096).is_empty());
    }

    #[test]
    fn rivals_take_part_in_the_hand_over_alone() {
        let rival = |kind| Rival { kind, program: "turns".into(), arguments: Vec::new() };
        let point = |kind| MeasuredPoint::new(kind, 2, 4096, Bare::LINE);
        let python = rival(RivalKind::Python);
        let names: Vec<_> =
            python.forms(&point(FigureKind::HandOver)).iter().map(|f| f.name).collect();
        assert_eq!(names, ["lock", "condition", "semaphore"]);
        assert!(python.forms(&point(FigureKind::Acquire)).is_empty());
        assert!(python.forms(&point(FigureKind::Latency)).is_empty());
        assert_eq!(rival(RivalKind::Redis).forms(&point(FigureKind::HandOver)).len(), 1);
        let launcher = python.launcher(Path::new("/s"));
        assert_eq!(launcher.get_args().collect::<Vec<_>>(), ["/s"]);
    }

    #[test]
    fn their_programs_know_what_they_are_asked() {
        assert!(TURNS_C.contains(&format!("\"{}\"", Verb::SharedTurns.word())));
        assert!(TURNS_HIKYAKU_PY.contains(&format!("\"{}\"", Verb::SharedTurns.word())));
        for way in BareWay::ALL {
            let (one, two) = (Verb::OneWay(way).word(), Verb::TwoWays(way).word());
            let (Some(one), Some(two)) = (one.strip_prefix("one-"), two.strip_prefix("two-"))
            else {
                panic!("{one} and {two} do not say in how many ways");
            };
            assert!(one == two && LIMIT_C.contains(&format!("\"{one}\"")), "{one} {two}");
        }
        for primitive in TurnPrimitive::ALL {
            assert!(TURNS_PY.contains(&format!("\"{}\"", Verb::TurnsBy(primitive).word())));
        }
    }
}
