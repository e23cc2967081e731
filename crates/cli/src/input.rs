//! Reads files that a command line names, up to a limit: a wrong name may be that of an endless
//! device, whose contents would fill the machine's memory. A named pipe without a writer counts as
//! empty, and is not waited for.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// The limit for files that people write: machines, hosts, options.
pub(crate) const BY_HAND: u64 = 1 << 20;

/// The limit for files that programs write: traces and plans, some 30 bytes for each pair of ranks.
pub(crate) const BY_PROGRAM: u64 = 1 << 30;

/// Reads a text file of at most `most` bytes.
///
/// # Errors
/// It cannot be read, is not text, or is longer.
pub(crate) fn read(file: &Path, most: u64) -> io::Result<String> {
    let at_once = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(at_once).open(file)?;
    fcntl_setfl(&file, fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    let mut text = String::new();
    file.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 <= most {
        return Ok(text);
    }
    let long = format!("it is longer than {} MiB", most >> 20);
    Err(io::Error::new(ErrorKind::FileTooLarge, long))
}
