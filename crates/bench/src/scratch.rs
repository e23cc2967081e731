//! A temporary directory of the benchmark: the conductor's sockets, the jobs' standard error, and
//! the peers' comparison program.
//!
//! Mode 0700, so that no other user can connect to a socket in it and answer in a rank's place.
//! Every such directory is on a list, so that an interrupt removes them too: a signal ends the
//! process without running destructors.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// The most consecutive names that may be taken.
const MOST_LEFT_OVER: usize = 1_000;

/// The directories that exist at this moment.
static LIVING: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Locks the list. It is consistent after every statement, so a panic elsewhere does no harm.
fn living() -> MutexGuard<'static, Vec<PathBuf>> {
    LIVING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// From now on an interrupt removes the directories before it ends the process.
pub(crate) fn remove_when_interrupted() -> io::Result<()> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    thread::Builder::new().name("interrupts".into()).spawn(move || {
        for signal in &mut signals {
            living().drain(..).for_each(|path| remove(&path));
            let _ = emulate_default_handler(signal);
        }
    })?;
    Ok(())
}

/// Another program that cleans the temporary directory may have been faster.
fn remove(path: &Path) {
    let _ = fs::remove_dir_all(path);
}

/// Removed with everything in it when dropped.
#[derive(Debug)]
pub(crate) struct ScratchFolder(PathBuf);

impl ScratchFolder {
    /// Makes a new directory in the system's temporary directory. A killed process has left its
    /// own, which may have the same number as this process.
    pub(crate) fn new() -> io::Result<ScratchFolder> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let mut attempts = (0..MOST_LEFT_OVER).map(|_| {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("hikyaku-bench-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            DirBuilder::new().mode(0o700).create(&path).map(|()| path)
        });
        let is_taken = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        let made = attempts.find(|made| !made.as_ref().is_err_and(is_taken));
        let path = made.unwrap_or_else(|| Err(io::ErrorKind::AlreadyExists.into()))?;
        living().push(path.clone());
        Ok(ScratchFolder(path))
    }

    /// Its path.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        living().retain(|path| *path != self.0);
        remove(&self.0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn it_is_private_and_leaves_nothing() {
        let scratch = ScratchFolder::new().unwrap();
        let path = scratch.path().to_owned();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
        fs::write(path.join("file"), "x").unwrap();
        assert!(living().contains(&path));
        drop(scratch);
        assert!(!path.exists() && !living().contains(&path));
    }

    #[test]
    fn what_a_killed_process_left_is_in_nobodys_way() {
        let first = ScratchFolder::new().unwrap();
        let (stem, number) = first.path().to_str().unwrap().rsplit_once('-').unwrap();
        let number: u32 = number.parse().unwrap();
        let left: Vec<String> = (1..20).map(|next| format!("{stem}-{}", number + next)).collect();
        // If another test was faster, the name is taken as well.
        let left: Vec<_> = left.iter().filter(|path| fs::create_dir(path).is_ok()).collect();
        let second = ScratchFolder::new().unwrap();
        assert_ne!(first.path(), second.path());
        left.iter().for_each(|path| fs::remove_dir(path).unwrap());
    }

    #[test]
    fn two_do_not_meet() {
        let (one, other) = (ScratchFolder::new().unwrap(), ScratchFolder::new().unwrap());
        assert_ne!(one.path(), other.path());
    }
}
