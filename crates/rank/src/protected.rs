//! Protected windows, in bytes: windows of which each part is a file of its own at the ranks of a
//! host, which only those have that may use it; [`hikyaku_shm::ProtectedMemory`] says how.
//!
//! Making one is a fixed number of meetings, and every rank goes through all of them, whatever
//! comes of each, so that nobody waits for one that has gone on:
//!
//! ```text
//!   all tell     keys, length, who may do what
//!   each round   hand over for writing ── meet ── take
//!   meet; seal against further writers
//!   each round   hand over for reading ── meet ── take
//!   meet         a window at all ranks, or at none
//! ```
//!
//! Nobody waits but in meetings, and a meeting ends with an error where a rank has died.
//!
//! In virtual time one thread lands what all ranks write, so there the parts are in the job's
//! memory. Ranks of other hosts ask the owner, which looks into its tables.

use hikyaku_nic::fabric::{Key, Rights};
use hikyaku_shm::{ExpectedPart, HandError, Inbox, ProtectedFile, ProtectedMemory};

use crate::communicator::Communicator;
use crate::error::{Error, WindowError};
use crate::window::{ByteWindow, OFFER, WindowPart, read_offers};

/// What a rank may do with another's part of a protected window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// Nothing.
    #[default]
    None,
    /// Read it.
    Read,
    /// Read it, write it and change it by atomic operations.
    Write,
}

impl Access {
    fn rights(self) -> Rights {
        match self {
            Access::None => Rights::from_bits(0),
            Access::Read => Rights::READ,
            Access::Write => Rights::ALL,
        }
    }
}

/// Descriptors that all ranks together have under way at a time: the kernel counts them for the
/// user, and refuses more than a process may have open.
const UNDER_WAY: u32 = 256;

/// Words that a rank tells besides those of every window: key for reading, offset, inbox.
const MORE: usize = 6;

/// Accesses in a word.
const PER_WORD: usize = 16;

/// What a rank has told of its part.
#[derive(Debug)]
struct Offer {
    for_reading: Key,
    offset: u64,
    inbox: u64,
    /// What each rank may do.
    access: Vec<Access>,
}

/// A window while its parts are handed over.
struct Making<'c> {
    communicator: &'c Communicator,
    /// The first thing that went wrong.
    failure: Option<Error>,
    window: Option<ByteWindow>,
    /// None in virtual time.
    file: Option<ProtectedFile>,
    inbox: Option<Inbox>,
    offers: Vec<Offer>,
}

impl Communicator {
    /// [`Communicator::window`] whose parts only those ranks can use that their owners let:
    /// `access` says what each other rank may do with this one's part.
    ///
    /// # Errors
    /// As [`Communicator::window`], or [`WindowError::NotHanded`].
    pub fn protected_window(
        &self,
        length: usize,
        element: usize,
        access: impl Fn(u32) -> Access,
    ) -> Result<ByteWindow, Error> {
        let of = |rank| if rank == self.rank() { Access::Write } else { access(rank) };
        let access: Vec<Access> = (0..self.size()).map(of).collect();
        let mut making = Making::begin(self, length, element);
        let offer = making.offer(length, &access);
        let offers = self.share(&offer);
        making.take_in(offers);
        making.hand_over();
        making.finish()
    }
}

impl<'c> Making<'c> {
    fn begin(communicator: &'c Communicator, length: usize, element: usize) -> Making<'c> {
        let (file, inbox, offers) = (None, None, Vec::new());
        let mut making = Making { communicator, failure: None, window: None, file, inbox, offers };
        let opened = making.open(length, element);
        making.note(opened);
        making
    }

    /// This rank's part, with a key for all and one for reading.
    fn open(&mut self, length: usize, element: usize) -> Result<(), Error> {
        let communicator = self.communicator;
        let keys = [Rights::ALL, Rights::READ];
        let bytes =
            length.checked_mul(element).ok_or(Error::TooLarge { elements: length, element });
        let bytes = bytes? as u64;
        if !self.has_files() {
            let memory = communicator.zeros(length, element)?;
            let window = communicator.open_part((memory.offset(), bytes), element, &keys)?;
            self.window = Some(window.of_memory(memory));
            return Ok(());
        }
        let rank = self.job_rank(communicator.rank())?;
        let file = self.book(|book| book.make(bytes))?;
        let offset = file.offset();
        match communicator.open_part((offset, bytes), element, &keys) {
            Ok(window) => self.window.insert(window).protected.push((rank, offset)),
            Err(error) => {
                self.book(|book| book.let_go(rank, offset));
                return Err(error);
            }
        }
        self.file = Some(file);
        let (_, peers) = self.rounds();
        let inbox = self.book(|book| book.open_inbox(peers as usize));
        self.inbox = Some(inbox.map_err(|reason| self.not_handed(communicator.rank(), reason))?);
        Ok(())
    }

    fn has_files(&self) -> bool {
        !self.communicator.engine().borrow().port().host().is_conducted()
    }

    fn book<R>(&self, call: impl FnOnce(&mut ProtectedMemory) -> R) -> R {
        call(self.communicator.engine().borrow_mut().port_mut().beyond_mut())
    }

    fn job_rank(&self, rank: u32) -> Result<u32, Error> {
        Ok(self.communicator.in_job(rank)?)
    }

    fn not_handed(&self, rank: u32, reason: HandError) -> Error {
        WindowError::NotHanded { rank, reason }.into()
    }

    fn note(&mut self, step: Result<(), Error>) {
        if let Err(error) = step {
            self.failure.get_or_insert(error);
        }
    }

    fn offer(&self, length: usize, access: &[Access]) -> Vec<u32> {
        let mut words = vec![0; OFFER + MORE + access.len().div_ceil(PER_WORD)];
        let Some(window) = self.window.as_ref().filter(|_| self.failure.is_none()) else {
            return words;
        };
        words[..OFFER].copy_from_slice(&window.offer(length));
        let key = window.key(1).map_or(0, Key::to_bits);
        let offset = self.file.as_ref().map_or(0, ProtectedFile::offset);
        let inbox = self.inbox.as_ref().map_or(0, Inbox::number);
        for (at, word) in [key, offset, inbox].into_iter().enumerate() {
            words[OFFER + 2 * at] = word as u32;
            words[OFFER + 2 * at + 1] = (word >> 32) as u32;
        }
        for (rank, access) in access.iter().enumerate() {
            let at = OFFER + MORE + rank / PER_WORD;
            words[at] |= (*access as u32) << (2 * (rank % PER_WORD));
        }
        words
    }

    /// Takes in what all ranks have told.
    fn take_in(&mut self, offers: Result<Vec<Vec<u32>>, Error>) {
        let taken = offers.and_then(|offers| {
            let communicator = self.communicator;
            let short: Vec<_> = offers
                .iter()
                .map(|offer| offer.get(..OFFER).unwrap_or_default().to_vec())
                .collect();
            let (mut parts, members) = read_offers(&short, |rank| communicator.in_job(rank))?;
            let ranks = offers.len();
            let read = |(rank, words): (u32, &Vec<u32>)| {
                Offer::read(words, ranks).ok_or(WindowError::Refused { rank })
            };
            self.offers = (0..).zip(&offers).map(read).collect::<Result<_, _>>()?;
            for (part, offer) in parts.iter_mut().zip(&self.offers) {
                let access = offer.access[communicator.rank() as usize];
                if access != Access::Write {
                    let (key, granted) = (offer.for_reading, access.rights());
                    *part = WindowPart { key, granted, ..*part };
                }
            }
            match &mut self.window {
                Some(window) => window.connect(parts, &members),
                None => Ok(()),
            }
        });
        self.note(taken);
    }

    /// How many rounds there are, and to how many ranks each hands over in one.
    fn rounds(&self) -> (u32, u32) {
        let ranks = self.communicator.size();
        let peers = (UNDER_WAY / ranks).max(1);
        ((ranks - 1).div_ceil(peers), peers)
    }

    fn hand_over(&mut self) {
        if !self.has_files() {
            return;
        }
        let (rounds, peers) = self.rounds();
        for access in [Access::Write, Access::Read] {
            for round in 0..rounds {
                let last = self.communicator.size().min(1 + (round + 1) * peers);
                let distances = 1 + round * peers..last;
                let handed = self.hand(access, distances.clone());
                self.note(handed);
                self.meet();
                let taken = self.take(access, distances);
                self.note(taken);
            }
            if rounds > 0 {
                self.meet();
            }
            if access == Access::Write {
                let sealed = self.seal();
                self.note(sealed);
            }
        }
        if rounds > 0 {
            self.meet();
        }
    }

    /// Waits for all, and hears whether all goes well.
    fn meet(&mut self) {
        let told = self.communicator.share(&[u32::from(self.failure.is_none())]);
        let heard = told.and_then(|words| {
            let failed = |words: &Vec<u32>| words.first() != Some(&1);
            let failed = (0..).zip(&words).find(|(_, words)| failed(words));
            failed.map_or(Ok(()), |(rank, _)| Err(WindowError::Refused { rank }.into()))
        });
        self.note(heard);
    }

    /// Whether a rank of the communicator is another one of this host; which it is in the job.
    fn near(&self, rank: u32) -> Result<Option<u32>, Error> {
        let job = self.job_rank(rank)?;
        Ok((!self.communicator.engine().borrow().port().is_far(job)).then_some(job))
    }

    /// Hands this rank's part to those so far after it that have this access.
    fn hand(&self, access: Access, distances: std::ops::Range<u32>) -> Result<(), Error> {
        let own = self.communicator.rank();
        let Some(file) = self.file.as_ref().filter(|_| self.failure.is_none()) else {
            return Ok(());
        };
        for distance in distances {
            let to = (own + distance) % self.communicator.size();
            if self.offers[own as usize].access[to as usize] != access {
                continue;
            }
            let Some(job) = self.near(to)? else { continue };
            let inbox = (job, self.offers[to as usize].inbox);
            self.book(|book| book.hand(file, inbox, access == Access::Write))
                .map_err(|reason| self.not_handed(to, reason))?;
        }
        Ok(())
    }

    /// Takes the parts of those so far before this rank that have given it this access.
    fn take(&mut self, access: Access, distances: std::ops::Range<u32>) -> Result<(), Error> {
        let (own, ranks) = (self.communicator.rank(), self.communicator.size());
        if self.failure.is_some() {
            return Ok(());
        }
        let (Some(window), Some(inbox)) = (&self.window, &self.inbox) else { return Ok(()) };
        let (mut expected, mut numbers) = (Vec::new(), Vec::new());
        for distance in distances {
            let from = (own + ranks - distance) % ranks;
            let offer = &self.offers[from as usize];
            if offer.access[own as usize] != access {
                continue;
            }
            let Some(owner) = self.near(from)? else { continue };
            let length = window.bytes_of(from).ok_or(WindowError::Refused { rank: from })?;
            let (offset, writable) = (offer.offset, access == Access::Write);
            expected.push(ExpectedPart { owner, offset, length, writable });
            numbers.push(from);
        }
        let taken = self.book(|book| book.take(inbox, &expected));
        let kept = expected.iter().map(|part| (part.owner, part.offset));
        if let Some(window) = &mut self.window {
            window.protected.extend(kept);
        }
        taken.map_err(|(owner, reason)| {
            let at = expected.iter().position(|part| part.owner == owner);
            self.not_handed(at.map_or(own, |at| numbers[at]), reason)
        })
    }

    fn seal(&self) -> Result<(), Error> {
        let Some(file) = self.file.as_ref().filter(|_| self.failure.is_none()) else {
            return Ok(());
        };
        let own = self.communicator.rank();
        self.book(|book| book.seal(file)).map_err(|reason| self.not_handed(own, reason))
    }

    fn finish(self) -> Result<ByteWindow, Error> {
        match (self.failure, self.window) {
            (None, Some(window)) => Ok(window),
            (failure, _) => {
                let rank = self.communicator.rank();
                Err(failure.unwrap_or(WindowError::Refused { rank }.into()))
            }
        }
    }
}

impl Offer {
    /// `None`: it makes no sense.
    fn read(words: &[u32], ranks: usize) -> Option<Offer> {
        let more = words.get(OFFER..OFFER + MORE)?;
        let long = |at: usize| u64::from(more[at + 1]) << 32 | u64::from(more[at]);
        let rest =
            words.get(OFFER + MORE..).filter(|rest| rest.len() == ranks.div_ceil(PER_WORD))?;
        let access = |rank: usize| match rest[rank / PER_WORD] >> (2 * (rank % PER_WORD)) & 3 {
            0 => Some(Access::None),
            1 => Some(Access::Read),
            2 => Some(Access::Write),
            _ => None,
        };
        Some(Offer {
            for_reading: Key::from_bits(long(0))?,
            offset: long(2),
            inbox: long(4),
            access: (0..ranks).map(access).collect::<Option<_>>()?,
        })
    }
}
