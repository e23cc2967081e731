//! The first page of a job's memory, and the line in which each rank tells its peers what only
//! this fabric needs to know.
//!
//! Header: written once by the creator, the magic last; afterwards only `unsure` changes. A
//! process that attaches reads it with `pread`, before it maps anything, so that a foreign file
//! is refused untouched.
//!
//! Note: written by its rank when it attaches, `announced` last; read by every rank. Later the rank
//! says there whether it sleeps, so that whoever ends need not look into every segment.

use std::mem::size_of;
use std::os::fd::BorrowedFd;

use hikyaku_nic::sync::{AtomicU64, Ordering, fence};

use crate::cpus::{MASK_WORDS, Mask};
use crate::plan::{CONFIG_WORDS, JobConfig};

/// "hikyaku" and a zero, little end first.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"hikyaku\0");

/// Changes with anything in this crate or in nic that two processes must agree on.
pub(crate) const VERSION: u64 = 5;

/// What the job is.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct Header {
    magic: AtomicU64,
    version: AtomicU64,
    launcher: AtomicU64,
    origin: AtomicU64,
    config: [AtomicU64; CONFIG_WORDS],
    /// Processes that could not register for the barrier of `barrier.rs`.
    pub(crate) unsure: AtomicU64,
}

/// What a header says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Process id of the creator.
    pub(crate) launcher: u32,
    /// When the job was created, nanoseconds of the monotonic clock: zero of the job's time.
    pub(crate) origin: u64,
    pub(crate) config: JobConfig,
}

/// Why a file is not a job's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAJob {
    /// It begins with something else, or is too short, or makes no sense.
    Foreign,
    /// It was written by another version.
    Version(u64),
}

impl Header {
    /// Writes the header of a new job.
    pub(crate) fn write(&self, facts: &Facts) {
        let store = |word: &AtomicU64, value| word.store(value, Ordering::Relaxed);
        store(&self.version, VERSION);
        store(&self.launcher, facts.launcher.into());
        store(&self.origin, facts.origin);
        for (word, value) in self.config.iter().zip(facts.config.to_words()) {
            store(word, value);
        }
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Reads the header of a file.
    pub(crate) fn read(file: BorrowedFd<'_>) -> Result<Facts, NotAJob> {
        let mut bytes = [0; HEADER_WORDS * size_of::<u64>()];
        let got = rustix::io::pread(file, &mut bytes, 0).map_err(|_| NotAJob::Foreign)?;
        if got != bytes.len() {
            return Err(NotAJob::Foreign);
        }
        let mut words = [0; HEADER_WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(size_of::<u64>())) {
            *word = u64::from_ne_bytes(chunk.try_into().expect("chunks of eight bytes"));
        }
        parse(&words)
    }
}

const HEADER_WORDS: usize = 4 + CONFIG_WORDS;

fn parse(words: &[u64; HEADER_WORDS]) -> Result<Facts, NotAJob> {
    let [magic, version, launcher, origin, config @ ..] = *words;
    if magic != MAGIC {
        return Err(NotAJob::Foreign);
    }
    if version != VERSION {
        return Err(NotAJob::Version(version));
    }
    let config = JobConfig::from_words(&config).ok_or(NotAJob::Foreign)?;
    let launcher = u32::try_from(launcher).map_err(|_| NotAJob::Foreign)?;
    Ok(Facts { launcher, origin, config })
}

/// What one rank tells the others.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct Note {
    announced: AtomicU64,
    /// Address and contents of a word in the rank's own memory, by which a peer that wants to
    /// copy with the kernel's help makes sure that it reaches the right process at all.
    beacon_at: AtomicU64,
    beacon: AtomicU64,
    /// Nonzero while the rank sleeps or is about to.
    asleep: AtomicU64,
    /// The processors the rank may run on.
    mask: [AtomicU64; MASK_WORDS],
}

/// A word in a rank's memory and what it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beacon {
    pub(crate) address: u64,
    pub(crate) value: u64,
}

impl Note {
    /// Tells the others.
    pub(crate) fn announce(&self, beacon: Beacon, mask: &Mask) {
        self.beacon_at.store(beacon.address, Ordering::Relaxed);
        self.beacon.store(beacon.value, Ordering::Relaxed);
        for (word, value) in self.mask.iter().zip(mask.words()) {
            word.store(*value, Ordering::Relaxed);
        }
        self.announced.store(1, Ordering::Release);
    }

    /// The rank says that it goes to sleep, before it looks for the last time.
    pub(crate) fn fall_asleep(&self) {
        self.asleep.store(1, Ordering::Relaxed);
        // Before its last look, as the other side has one between its news and its look here: at
        // least one of the two sees what the other has stored.
        fence(Ordering::SeqCst);
    }

    /// The rank does not sleep any more.
    pub(crate) fn wake_up(&self) {
        self.asleep.store(0, Ordering::Relaxed);
    }

    /// Whether the rank sleeps, for who has stored news and made a sequentially consistent fence.
    pub(crate) fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) != 0
    }

    /// The rank's beacon, once it has announced one.
    pub(crate) fn beacon(&self) -> Option<Beacon> {
        let announced = self.announced.load(Ordering::Acquire) != 0;
        announced.then(|| Beacon {
            address: self.beacon_at.load(Ordering::Relaxed),
            value: self.beacon.load(Ordering::Relaxed),
        })
    }

    /// Where the rank may run, once it has said so.
    pub(crate) fn mask(&self) -> Option<Mask> {
        let announced = self.announced.load(Ordering::Acquire) != 0;
        announced.then(|| {
            Mask::from_words(std::array::from_fn(|i| self.mask[i].load(Ordering::Relaxed)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words() -> [u64; HEADER_WORDS] {
        let config = JobConfig::new(4, 2).to_words();
        std::array::from_fn(|i| match i {
            0 => MAGIC,
            1 => VERSION,
            2 => 77,
            3 => 123,
            _ => config[i - 4],
        })
    }

    #[test]
    fn a_good_header_is_understood() {
        let facts = Facts { launcher: 77, origin: 123, config: JobConfig::new(4, 2) };
        assert_eq!(parse(&words()), Ok(facts));
    }

    #[test]
    fn a_wrong_one_is_refused_with_its_reason() {
        let with = |which: usize, value| {
            let mut words = words();
            words[which] = value;
            parse(&words)
        };
        assert_eq!(with(0, 1), Err(NotAJob::Foreign));
        assert_eq!(with(1, 9), Err(NotAJob::Version(9)));
        assert_eq!(with(2, u64::MAX), Err(NotAJob::Foreign));
        assert_eq!(with(4, 0), Err(NotAJob::Foreign));
    }

    #[test]
    fn a_note_tells_nothing_before_it_is_announced() {
        let note = Note::default();
        assert_eq!((note.beacon(), note.mask()), (None, None));
        let beacon = Beacon { address: 5, value: 6 };
        note.announce(beacon, &Mask::of(&[0, 70]));
        assert_eq!((note.beacon(), note.mask()), (Some(beacon), Some(Mask::of(&[0, 70]))));
    }
}
