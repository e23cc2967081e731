//! `--shared-heap`: the library that is preloaded into ranks, and the programs that cannot use it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::error::places_of;
use crate::mpi;

/// The library's file name.
const LIBRARY: &str = "libhikyaku_heap.so";

/// The dynamic linker's environment variable.
const PRELOAD: &str = "LD_PRELOAD";

/// Why ranks cannot have a shared heap.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HeapError {
    /// The library was not found.
    #[error(
        "--shared-heap: no {LIBRARY} in `mpi` beside {} or in lib/hikyaku; build it with \
         `scripts/mpi.sh`",
        launcher.display()
    )]
    NoLibrary {
        /// The launcher.
        launcher: PathBuf,
    },
    /// The dynamic linker does not accept the library's path.
    #[error(
        "--shared-heap: {} has a space or a colon, which LD_PRELOAD cannot name; install hikyaku \
         elsewhere",
        library.display()
    )]
    Unnameable {
        /// The library.
        library: PathBuf,
    },
    /// The program is linked statically.
    #[error(
        "--shared-heap: {} is linked statically, so nothing can be preloaded into it; link it \
         dynamically, or leave --shared-heap out",
        program.display()
    )]
    Static {
        /// The program.
        program: PathBuf,
    },
}

/// The environment variable that preloads the library into ranks of this program.
///
/// `value_of` reads the launcher's environment. Libraries that it preloads already come after.
///
/// # Errors
/// [`HeapError`].
pub(crate) fn variable(
    launcher: &Path,
    program: &OsStr,
    value_of: impl Fn(&str) -> Option<String>,
) -> Result<(String, String), HeapError> {
    let folder = mpi::folder(launcher, LIBRARY);
    let no_library = || HeapError::NoLibrary { launcher: launcher.to_owned() };
    let library = folder.ok_or_else(no_library)?.join(LIBRARY);
    let name = library.to_str().filter(|name| !name.contains([' ', ':']));
    let Some(name) = name else { return Err(HeapError::Unnameable { library }) };
    // A program that is not found causes an error when it is started.
    let path = value_of("PATH").unwrap_or_default();
    let found = places_of(program, path.as_ref()).into_iter().find(|file| file.is_file());
    if let Some(program) = found.filter(|found| is_static(found)) {
        return Err(HeapError::Static { program });
    }
    let before = value_of(PRELOAD).filter(|value| !value.is_empty());
    let value = before.map_or_else(|| name.to_owned(), |before| format!("{name}:{before}"));
    Ok((PRELOAD.to_owned(), value))
}

/// Whether a file is a 64-bit program that names no dynamic linker. `false` for scripts and for
/// files that cannot be read.
fn is_static(file: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(file).and_then(|it| it.take(4096).read_to_end(&mut start));
    read.is_ok() && names_no_linker(&start) == Some(true)
}

/// [`is_static`] of a file's first bytes (ELF-64, gABI 4.1, "Program header"); `None` if it is not
/// an ELF-64 file.
fn names_no_linker(start: &[u8]) -> Option<bool> {
    const INTERPRETER: u32 = 3;
    let half = |at: usize| Some(u16::from_le_bytes(start.get(at..at + 2)?.try_into().ok()?));
    let is_elf64 = start.starts_with(b"\x7fELF\x02\x01");
    if !is_elf64 {
        return None;
    }
    let table = u64::from_le_bytes(start.get(32..40)?.try_into().ok()?);
    let (each, count) = (usize::from(half(54)?), usize::from(half(56)?));
    for entry in 0..count {
        let at = usize::try_from(table).ok()?.checked_add(entry * each)?;
        let kind = u32::from_le_bytes(start.get(at..at.checked_add(4)?)?.try_into().ok()?);
        if kind == INTERPRETER {
            return Some(false);
        }
    }
    Some(true)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_library_comes_before_what_is_preloaded_already() {
        let top = std::env::temp_dir().join(format!("hikyaku-heap-{}", std::process::id()));
        let launcher = top.join("bin/hikyaku");
        let set = |name: &str| (name == PRELOAD).then(|| "/other.so".to_owned());
        let missing = variable(&launcher, OsStr::new("/bin/sh"), set).unwrap_err();
        let line = missing.to_string();
        assert!(line.contains("scripts/mpi.sh") && !line.contains('\n'), "{line}");
        let folder = top.join("bin/mpi");
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(LIBRARY), "").unwrap();
        let name = folder.join(LIBRARY).to_str().unwrap().to_owned();
        let (preload, program) = (PRELOAD.to_owned(), OsStr::new("/bin/sh"));
        let both = (preload.clone(), format!("{name}:/other.so"));
        assert_eq!(variable(&launcher, program, set), Ok(both));
        assert_eq!(variable(&launcher, program, |_| None), Ok((preload, name)));
        std::fs::remove_dir_all(top).unwrap();
    }

    #[test]
    fn programs_without_a_linker_are_told_apart() {
        let own = std::env::current_exe().unwrap();
        assert!(!is_static(&own));
        let mut start = std::fs::read(own).unwrap();
        start.truncate(4096);
        assert_eq!(names_no_linker(&start), Some(false));
        // The type of each program header.
        for entry in 0..usize::from(start[56]) {
            start[64 + entry * 56] = 1;
        }
        assert_eq!(names_no_linker(&start), Some(true));
        for nonsense in [&start[..60], b"#!/bin/sh\n", b""] {
            assert_eq!(names_no_linker(nonsense), None, "{nonsense:?}");
        }
        start[32..40].fill(0xff);
        assert_eq!(names_no_linker(&start), None);
    }
}
