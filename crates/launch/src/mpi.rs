//! Environment variables with which MPI programs find hikyaku's libraries of MPI's binary
//! interfaces.
//!
//! The libraries are in a folder `mpi` beside the launcher, or in `lib/hikyaku` beside its folder.
//! A launcher without them starts programs unchanged.

use std::path::{Path, PathBuf};

/// The library for which Python's mpi4py is built.
const LIBRARY: &str = "libmpi.so.12";

/// Variables that name the library to programs that load it themselves: mpi4py, and NEURON, which
/// otherwise searches for `libmpi.so`. The folder has no file of that name: `-lmpi` would link it
/// into a program whose `mpi.h` is the one of the standard's interface.
const NAMED_BY: [&str; 2] = ["MPI4PY_LIBMPI", "MPI_LIB_NRN_PATH"];

/// The environment variables of the ranks; none if the launcher has no libraries.
///
/// `value_of` reads the launcher's environment. Its LD_LIBRARY_PATH is appended, and variables of
/// NAMED_BY that it sets keep their values.
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

/// The folder of the launcher at this path that contains a library.
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
