//! The first page of a job's memory, and each rank's note to its peers with data that only this
//! fabric needs.
//!
//! Header: written once by the creator, the magic last; afterwards only `unsure`, `end` and
//! `counts` change. An attaching process reads it with `pread` before it maps anything, so a
//! foreign file is refused without access to its contents.
//!
//! Note: written by its rank when it attaches, `announced` last; read by every rank. Later the rank
//! announces its sleeps there, so a rank that leaves need not read every segment.

use std::mem::size_of;
use std::os::fd::BorrowedFd;

use hikyaku_nic::fabric::{Name, Rank};
use hikyaku_nic::sync::{AtomicU64, Ordering, fence};

use crate::cpus::{MASK_WORDS, Mask};
use crate::plan::{CONFIG_WORDS, HOSTS_AT, HOSTS_WORD, JobConfig, names_at};

/// "hikyaku" and a zero, little-endian.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"hikyaku\0");

/// The version of the layout: a checksum of the source text of this crate and of nic, which all
/// processes of a job must have in common (`build/main.rs`). A number that had to be raised by hand
/// was forgotten once, and a launcher reported that ranks built an hour earlier waited for nothing.
pub(crate) const VERSION: u64 = match u64::from_str_radix(env!("HIKYAKU_SHARED_MEMORY"), 10) {
    Ok(version) => version,
    Err(_) => panic!("the build script writes a number"),
};

/// Describes the job.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct JobHeader {
    magic: AtomicU64,
    version: AtomicU64,
    launcher: AtomicU64,
    origin: AtomicU64,
    config: [AtomicU64; CONFIG_WORDS],
    /// The number of processes that could not register for the barrier of `barrier.rs`.
    pub(crate) unsure: AtomicU64,
    /// How the job ends, if a rank has reported the reason: a [`JobEnd`], or 0.
    end: AtomicU64,
    counts: Counts,
}

/// The counters of the ranks of a job on this host: each word is the sum over all of them.
#[derive(Debug, Default)]
#[repr(C)]
struct Counts([[AtomicU64; 32]; COUNTS / 32]);

/// The number of these words.
pub const COUNTS: usize = 544;

/// How a rank that has reported the reason ends the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobEnd {
    /// The rank has failed.
    Failed,
    /// The rank was notified that another has failed, which may still report the reason.
    Followed,
    /// This rank was asked to abort. Its exit code is the job's, even if it is 0.
    Aborted(Rank),
}

const FAILED: u64 = 1 << 32;
const ABORTED: u64 = 2 << 32;
const FOLLOWED: u64 = 3 << 32;

impl JobEnd {
    fn word(self) -> u64 {
        match self {
            JobEnd::Failed => FAILED,
            JobEnd::Followed => FOLLOWED,
            JobEnd::Aborted(rank) => ABORTED | u64::from(rank),
        }
    }

    fn of_word(word: u64) -> Option<JobEnd> {
        match (word, Rank::try_from(word ^ ABORTED)) {
            (FAILED, _) => Some(JobEnd::Failed),
            (FOLLOWED, _) => Some(JobEnd::Followed),
            (_, Ok(rank)) => Some(JobEnd::Aborted(rank)),
            _ => None,
        }
    }
}

/// The contents of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobFacts {
    /// Process id of the creator.
    pub(crate) launcher: u32,
    /// The time of the job's creation, nanoseconds of the monotonic clock: zero of the job's time.
    pub(crate) origin: u64,
    pub(crate) config: JobConfig,
}

/// Why a file is not a job's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NotAJob {
    /// The file is too short, has another magic, or is invalid.
    Foreign,
    /// The file was written by a build of other source text, with this [`VERSION`].
    Version(u64),
}

impl JobHeader {
    /// Writes the header of a new job.
    pub(crate) fn write(&self, facts: &JobFacts) {
        let store = |word: &AtomicU64, value| word.store(value, Ordering::Relaxed);
        store(&self.version, VERSION);
        store(&self.launcher, facts.launcher.into());
        store(&self.origin, facts.origin);
        for (word, value) in self.config.iter().zip(facts.config.to_words()) {
            store(word, value);
        }
        self.magic.store(MAGIC, Ordering::Release);
    }

    /// Records how the job ends, unless a rank has done so before that did not merely follow
    /// another. Returns whether this call recorded it.
    pub(crate) fn end_job(&self, end: JobEnd) -> bool {
        let instead = |word| {
            let is_open = word == 0 || word == FOLLOWED && end != JobEnd::Followed;
            is_open.then_some(end.word())
        };
        self.end.fetch_update(Ordering::Relaxed, Ordering::Relaxed, instead).is_ok()
    }

    /// How the job ends, as a rank has recorded it.
    pub(crate) fn end(&self) -> Option<JobEnd> {
        JobEnd::of_word(self.end.load(Ordering::Relaxed))
    }

    /// Adds a rank's counts. Words beyond [`COUNTS`] are discarded.
    pub(crate) fn add_counts(&self, counts: impl IntoIterator<Item = u64>) {
        for (word, count) in self.counts.0.iter().flatten().zip(counts) {
            word.fetch_add(count, Ordering::Relaxed);
        }
    }

    /// The counts of the ranks that have ended.
    pub(crate) fn counts(&self) -> Vec<u64> {
        self.counts.0.iter().flatten().map(|word| word.load(Ordering::Relaxed)).collect()
    }

    /// Reads the header of a file.
    pub(crate) fn read(file: BorrowedFd<'_>) -> Result<JobFacts, NotAJob> {
        let mut bytes = [0; HEADER_WORDS * size_of::<u64>()];
        let got = rustix::io::pread(file, &mut bytes, 0).map_err(|_| NotAJob::Foreign)?;
        if got != bytes.len() {
            return Err(NotAJob::Foreign);
        }
        let mut words = [0; HEADER_WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.chunks_exact(size_of::<u64>())) {
            *word = u64::from_ne_bytes(chunk.try_into().expect("chunks of eight bytes"));
        }
        let hosts = match words[CONFIG_AT + HOSTS_WORD] {
            0 => (Vec::new(), Vec::new()),
            _ => read_hosts(file, words[CONFIG_AT])?,
        };
        parse(&words, hosts)
    }
}

/// The host of each of `ranks` ranks, and the names of the hosts.
fn read_hosts(file: BorrowedFd<'_>, ranks: u64) -> Result<(Vec<u32>, Vec<Name>), NotAJob> {
    let status = rustix::fs::fstat(file).map_err(|_| NotAJob::Foreign)?;
    let room = u64::try_from(status.st_size).unwrap_or(0) / size_of::<u32>() as u64;
    if ranks > room {
        return Err(NotAJob::Foreign);
    }
    let read = |at: usize, length: usize| {
        let mut bytes = vec![0; length];
        let got = rustix::io::pread(file, &mut bytes[..], at as u64);
        (got == Ok(length)).then_some(bytes).ok_or(NotAJob::Foreign)
    };
    let bytes = read(HOSTS_AT, ranks as usize * size_of::<u32>())?;
    let of: Vec<u32> = bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect();
    let hosts = of.iter().max().map_or(0, |last| *last as usize + 1);
    if hosts > of.len() {
        return Err(NotAJob::Foreign);
    }
    let at = names_at(of.len()).ok_or(NotAJob::Foreign)?;
    let bytes = read(at, hosts * Name::BYTES)?;
    let word = |name: &[[u8; 8]; Name::BYTES / 8]| Name::from_words(name.map(u64::from_ne_bytes));
    let names = bytes.as_chunks().0.as_chunks().0.iter().map(word).collect();
    Ok((of, names))
}

/// The index of the first word of the sizes.
const CONFIG_AT: usize = 4;

const HEADER_WORDS: usize = CONFIG_AT + CONFIG_WORDS;

fn parse(words: &[u64; HEADER_WORDS], hosts: (Vec<u32>, Vec<Name>)) -> Result<JobFacts, NotAJob> {
    let [magic, version, launcher, origin, config @ ..] = *words;
    if magic != MAGIC {
        return Err(NotAJob::Foreign);
    }
    if version != VERSION {
        return Err(NotAJob::Version(version));
    }
    let config = JobConfig::from_words(&config, hosts).ok_or(NotAJob::Foreign)?;
    let launcher = u32::try_from(launcher).map_err(|_| NotAJob::Foreign)?;
    Ok(JobFacts { launcher, origin, config })
}

/// One rank's note to the others.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct RankNote {
    announced: AtomicU64,
    /// Address and contents of a word in the rank's own memory. A peer that wants the kernel to
    /// copy reads it, to check that it reaches the right process.
    beacon_at: AtomicU64,
    beacon: AtomicU64,
    /// Nonzero while the rank sleeps or is about to.
    asleep: AtomicU64,
    /// The processors the rank may run on.
    mask: [AtomicU64; MASK_WORDS],
}

/// A word in a rank's memory and its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Beacon {
    pub(crate) address: u64,
    pub(crate) value: u64,
}

impl RankNote {
    /// Publishes the note.
    pub(crate) fn announce(&self, beacon: Beacon, mask: &Mask) {
        self.beacon_at.store(beacon.address, Ordering::Relaxed);
        self.beacon.store(beacon.value, Ordering::Relaxed);
        for (word, value) in self.mask.iter().zip(mask.words()) {
            word.store(*value, Ordering::Relaxed);
        }
        self.announced.store(1, Ordering::Release);
    }

    /// Announces that the rank is about to sleep, before its last check.
    pub(crate) fn fall_asleep(&self) {
        self.asleep.store(1, Ordering::Relaxed);
        // The fence comes before the last check, and the other side's comes between its store and
        // its load of this word: at least one of the two sees the other's store.
        fence(Ordering::SeqCst);
    }

    /// Announces that the rank is awake.
    pub(crate) fn wake_up(&self) {
        self.asleep.store(0, Ordering::Relaxed);
    }

    /// Whether the rank sleeps. Call it after a store and a sequentially consistent fence.
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

    /// The processors of the rank, once it has announced them.
    pub(crate) fn mask(&self) -> Option<Mask> {
        let announced = self.announced.load(Ordering::Acquire) != 0;
        announced.then(|| {
            Mask::from_words(std::array::from_fn(|i| self.mask[i].load(Ordering::Relaxed)))
        })
    }
}

/// The address of a rank's far channel, for ranks of other hosts; empty until it is known.
///
/// Written once, by the rank or by the host's daemon, the length last.
#[derive(Debug, Default)]
#[repr(C, align(128))]
pub(crate) struct Card {
    length: AtomicU64,
    words: [AtomicU64; CARD_BYTES / 8],
}

/// Limit of an address's bytes.
pub(crate) const CARD_BYTES: usize = 240;

impl Card {
    /// Publishes an address. `false`: it is empty or too long, or another one is published already.
    pub(crate) fn publish(&self, address: &[u8]) -> bool {
        if address.is_empty() || address.len() > CARD_BYTES {
            return false;
        }
        if let Some(known) = self.read() {
            return known == address;
        }
        for (word, bytes) in self.words.iter().zip(address.chunks(8)) {
            let mut value = [0; 8];
            value[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(value), Ordering::Relaxed);
        }
        self.length.store(address.len() as u64, Ordering::Release);
        true
    }

    /// The address, once one is published.
    pub(crate) fn read(&self) -> Option<Vec<u8>> {
        let length = self.length.load(Ordering::Acquire) as usize;
        if length == 0 || length > CARD_BYTES {
            return None;
        }
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed).to_le_bytes();
        let mut bytes: Vec<u8> = self.words.iter().flat_map(word).collect();
        bytes.truncate(length);
        Some(bytes)
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
    fn a_valid_header_is_read() {
        let facts = JobFacts { launcher: 77, origin: 123, config: JobConfig::new(4, 2) };
        assert_eq!(parse(&words(), (Vec::new(), Vec::new())), Ok(facts));
    }

    #[test]
    fn an_invalid_header_is_refused_with_its_reason() {
        let with = |which: usize, value| {
            let mut words = words();
            words[which] = value;
            parse(&words, (Vec::new(), Vec::new()))
        };
        assert_eq!(with(0, 1), Err(NotAJob::Foreign));
        assert_eq!(with(1, !VERSION), Err(NotAJob::Version(!VERSION)));
        assert_eq!(with(2, u64::MAX), Err(NotAJob::Foreign));
        assert_eq!(with(4, 0), Err(NotAJob::Foreign));
    }

    #[test]
    fn the_first_rank_says_how_the_job_ends() {
        let header = JobHeader::default();
        assert_eq!(header.end(), None);
        assert!(header.end_job(JobEnd::Aborted(3)) && !header.end_job(JobEnd::Failed));
        assert_eq!(header.end(), Some(JobEnd::Aborted(3)));
        header.end.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(header.end(), None, "nonsense");
        let header = JobHeader::default();
        assert!(header.end_job(JobEnd::Followed) && !header.end_job(JobEnd::Followed));
        assert_eq!(header.end(), Some(JobEnd::Followed));
        assert!(header.end_job(JobEnd::Failed) && !header.end_job(JobEnd::Aborted(0)));
        assert!(!header.end_job(JobEnd::Followed));
        assert_eq!(header.end(), Some(JobEnd::Failed));
    }

    #[test]
    fn ranks_add_what_they_have_counted() {
        let header = JobHeader::default();
        header.add_counts([1, 2]);
        header.add_counts([3; COUNTS + 1]);
        let counts = header.counts();
        assert_eq!((counts.len(), &counts[..3]), (COUNTS, &[4, 5, 3][..]));
    }

    #[test]
    fn a_note_is_empty_until_announced() {
        let note = RankNote::default();
        assert_eq!((note.beacon(), note.mask()), (None, None));
        let beacon = Beacon { address: 5, value: 6 };
        note.announce(beacon, &Mask::of(&[0, 70]));
        assert_eq!((note.beacon(), note.mask()), (Some(beacon), Some(Mask::of(&[0, 70]))));
    }

    #[test]
    fn a_card_is_written_once_and_reads_as_written() {
        for length in [1, 7, 8, 28, CARD_BYTES] {
            let card = Card::default();
            assert_eq!(card.read(), None);
            let address: Vec<u8> = (1..=length as u8).collect();
            assert!(card.publish(&address) && card.publish(&address));
            assert!(!card.publish(&[9; 3]));
            assert_eq!(card.read(), Some(address));
        }
        let card = Card::default();
        assert!(!card.publish(&[]) && !card.publish(&[1; CARD_BYTES + 1]));
        card.length.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(card.read(), None);
    }

    #[test]
    fn more_ranks_than_the_file_has_bytes_are_refused() {
        use std::os::fd::AsFd;
        let file = rustix::fs::memfd_create("sparse", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&file, 1 << 60).unwrap();
        for ranks in [1 << 61, u64::MAX] {
            assert_eq!(read_hosts(file.as_fd(), ranks), Err(NotAJob::Foreign), "{ranks} ranks");
        }
    }
}
