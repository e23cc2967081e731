//! Where programs written for MPI find hikyaku: its libraries of MPI's binary interfaces.
//!
//! They lie in a folder `mpi` beside the launcher, or in `lib/hikyaku` beside its folder. A
//! launcher without them starts programs as they are.

use std::path::{Path, PathBuf};

/// The library that Python's mpi4py is built for.
const LIBRARY: &str = "libmpi.so.12";

/// Variables that name the library to programs that load it themselves: mpi4py, and NEURON, which
/// else looks for `libmpi.so`. The folder has no such name: `-lmpi` would link a program with it
/// whose `mpi.h` is that of the standard's interface.
const NAMED_BY: [&str; 2] = ["MPI4PY_LIBMPI", "MPI_LIB_NRN_PATH"];

/// The variables of the ranks' environment by which they are found; none if there are none.
///
/// `value_of` is the launcher's environment: what it has in LD_LIBRARY_PATH comes after, and
/// those of NAMED_BY that it has stay as they are.
pub(crate) fn variables(
    launcher: &Path,
    value_of: impl Fn(&str) -> Option<String>,
) -> Vec<(String, String)> {
    let Some(folder) = folder(launcher, LIBRARY) else { return Vec::new() };
    let Some(name) = folder.to_str() else { return Vec::new() };
    let before = value_of("LD_LIBRARY_PATH").filter(|path| !path.is_empty());
    let path = before.map_or_else(|| name.to_owned(), |before| format!("{name}:{before}"));
    let mut variables = vec![("LD_LIBRARY_PATH".to_owned(), path)];
    for variable in NAMED_BY.into_iter().filter(|variable| value_of(variable).is_none()) {
        variables.push((variable.to_owned(), format!("{name}/{LIBRARY}")));
    }
    variables
}

/// The folder in which the launcher at this path has a library.
pub(crate) fn folder(launcher: &Path, library: &str) -> Option<PathBuf> {
    let beside = launcher.parent()?;
    let folders = [Some(beside.join("mpi")), beside.parent().map(|it| it.join("lib/hikyaku"))];
    folders.into_iter().flatten().find(|folder| folder.join(library).exists())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn libraries_beside_the_launcher_are_found_before_others() {
        let top = std::env::temp_dir().join(format!("hikyaku-mpi-{}", std::process::id()));
        let (none, set) = (|_: &str| None, |_: &str| Some("/elsewhere".to_owned()));
        for (at, place) in [("bin", "bin/mpi"), ("sbin", "lib/hikyaku")] {
            let (launcher, folder) = (top.join(at).join("hikyaku"), top.join(place));
            assert!(variables(&launcher, none).is_empty(), "there are none yet");
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join(LIBRARY), "").unwrap();
            let name = folder.to_str().unwrap();
            let path = ("LD_LIBRARY_PATH".to_owned(), name.to_owned());
            let library = |variable: &str| (variable.to_owned(), format!("{name}/{LIBRARY}"));
            let (mpi4py, neuron) = (library("MPI4PY_LIBMPI"), library("MPI_LIB_NRN_PATH"));
            assert_eq!(variables(&launcher, none), [path, mpi4py, neuron]);
            let both = ("LD_LIBRARY_PATH".to_owned(), format!("{name}:/elsewhere"));
            assert_eq!(variables(&launcher, set), [both]);
        }
        std::fs::remove_dir_all(top).unwrap();
    }
}
