//! Protected windows, in bytes. Each part of such a window is a separate file in memory; only the
//! ranks of the host that may use the part have its descriptor ([`hikyaku_shm::ProtectedMemory`]).
//!
//! Creation consists of a fixed number of meetings. Every rank takes part in all of them, even
//! after an error, so that no rank waits for one that has gone on:
//!
//! ```text
//!   all share    keys, length, access rights
//!   each round   hand over for writing ── meet ── take
//!   meet; seal against further writers
//!   each round   hand over for reading ── meet ── take
//!   meet         a window at all ranks, or at none
//! ```
//!
//! A fast rank may hand over for the next round before a slow one has taken all parts of this one;
//! the slow one takes those too. Ranks wait only in meetings, and a meeting ends with an error if a
//! rank has died.
//!
//! In virtual time one thread delivers the writes of all ranks, so the parts are in the job's
//! memory. Ranks of other hosts send requests to the owner, which checks its tables.

use std::ops::Range;

use hikyaku_nic::fabric::{Key, Rights};
use hikyaku_shm::{ExpectedPart, HandError, Inbox, ProtectedFile, ProtectedMemory};

use crate::communicator::Communicator;
use crate::error::{Error, WindowError};
use crate::window::{ByteWindow, OFFER, WindowPart, read_offers};

/// A rank's rights on another's part of a protected window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Access {
    /// No access.
    #[default]
    None,
    /// Read access.
    Read,
    /// Read, write and atomic access.
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

/// The maximum number of descriptors that all ranks together hand over in a round. The kernel
/// counts those in flight per user, and refuses more than a process may have open; at most two
/// rounds are in flight.
const A_ROUND: u32 = if cfg!(test) { 4 } else { 256 };

/// The number of words that describe a part besides those of every window: key for reading, offset,
/// inbox.
const MORE: usize = 6;

/// The number of access rights in a word.
const PER_WORD: usize = 16;

/// The announcement of a rank about its part.
#[derive(Debug)]
struct Offer {
    for_reading: Key,
    offset: u64,
    inbox: u64,
    /// The access of each rank.
    access: Vec<Access>,
}

/// A window under construction.
struct Making<'c> {
    communicator: &'c Communicator,
    /// The first failure.
    failure: Option<Error>,
    window: Option<ByteWindow>,
    /// `None` in virtual time.
    file: Option<ProtectedFile>,
    inbox: Option<Inbox>,
    offers: Vec<Offer>,
}

impl Communicator {
    /// [`Communicator::window`] with access control: `access` returns the rights of each other rank
    /// on this one's part.
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

    /// Opens this rank's part, with a key for all rights and one for reading.
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
        let inbox = self.book(|book| book.open_inbox(2 * peers as usize));
        self.inbox = Some(inbox.map_err(|reason| not_handed(communicator.rank(), reason))?);
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

    fn note(&mut self, step: Result<(), Error>) {
        let Err(error) = step else { return };
        // A window's error about a rank is replaced by the next meeting's error that this rank has
        // died.
        let gives_way = |error: &Error| matches!(error, Error::Window(_));
        if self.failure.as_ref().is_none_or(|first| gives_way(first) && !gives_way(&error)) {
            self.failure = Some(error);
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

    /// Handles the announcements of all ranks.
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

    /// The number of rounds, and the number of ranks to which each rank hands over per round.
    fn rounds(&self) -> (u32, u32) {
        let ranks = self.communicator.size();
        let peers = (A_ROUND / ranks).max(1);
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
            self.meet();
            if access == Access::Write {
                let sealed = self.seal();
                self.note(sealed);
            }
        }
    }

    /// Waits for all ranks, and learns whether any has failed.
    fn meet(&mut self) {
        let told = self.communicator.share(&[u32::from(self.failure.is_none())]);
        let heard = told.and_then(|words| {
            let failed = |words: &Vec<u32>| words.first() != Some(&1);
            let failed = (0..).zip(&words).find(|(_, words)| failed(words));
            failed.map_or(Ok(()), |(rank, _)| Err(WindowError::Refused { rank }.into()))
        });
        self.note(heard);
    }

    /// The job rank of a rank of the communicator, if it is on this host.
    fn near(&self, rank: u32) -> Result<Option<u32>, Error> {
        let job = self.job_rank(rank)?;
        Ok((!self.communicator.engine().borrow().port().is_far(job)).then_some(job))
    }

    /// Hands this rank's part to the ranks at these distances after it that have this access.
    fn hand(&self, access: Access, distances: Range<u32>) -> Result<(), Error> {
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
                .map_err(|reason| not_handed(to, reason))?;
        }
        Ok(())
    }

    /// Takes the parts of the ranks at these distances before this one that give it this access.
    fn take(&mut self, access: Access, distances: Range<u32>) -> Result<(), Error> {
        if self.failure.is_some() {
            return Ok(());
        }
        let due = self.expected(access, distances)?;
        let expected = self.expected(access, 1..self.communicator.size())?;
        let (Some(window), Some(inbox)) = (&mut self.window, &self.inbox) else { return Ok(()) };
        window.protected.extend(due.iter().map(|part| (part.owner, part.offset)));
        let mut engine = self.communicator.engine().borrow_mut();
        let taken = engine.port_mut().beyond_mut().take(inbox, &expected, &due);
        drop(engine);
        taken.map_err(|(owner, reason)| not_handed(self.communicator.number(owner), reason))
    }

    /// The parts that this rank shall receive, with this access, from the ranks at these distances
    /// before it.
    fn expected(&self, access: Access, distances: Range<u32>) -> Result<Vec<ExpectedPart>, Error> {
        let (own, ranks) = (self.communicator.rank(), self.communicator.size());
        let mut expected = Vec::new();
        for distance in distances {
            let from = (own + ranks - distance) % ranks;
            let offer = &self.offers[from as usize];
            if offer.access[own as usize] != access {
                continue;
            }
            let Some(owner) = self.near(from)? else { continue };
            let length = self.window.as_ref().and_then(|window| window.bytes_of(from));
            let length = length.ok_or(WindowError::Refused { rank: from })?;
            let (offset, writable) = (offer.offset, access == Access::Write);
            expected.push(ExpectedPart { owner, offset, length, writable });
        }
        Ok(expected)
    }

    fn seal(&self) -> Result<(), Error> {
        let Some(file) = self.file.as_ref().filter(|_| self.failure.is_none()) else {
            return Ok(());
        };
        let own = self.communicator.rank();
        self.book(|book| book.seal(file)).map_err(|reason| not_handed(own, reason))
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

fn not_handed(rank: u32, reason: HandError) -> Error {
    WindowError::NotHanded { rank, reason }.into()
}

impl Offer {
    /// Decodes a rank's announcement in a communicator of `ranks` ranks. `None`: malformed.
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::thread;

    use hikyaku_coll::Choices;
    use hikyaku_shm::{JobConfig, open_all};

    use super::*;

    /// Runs a program on every rank of a job.
    fn on_ranks(ranks: u32, program: impl Fn(Communicator) + Sync) {
        let ports = open_all(&JobConfig::new(ranks, ranks)).unwrap();
        thread::scope(|scope| {
            for port in ports {
                let program = &program;
                scope.spawn(move || program(Communicator::over(port, Choices::default())));
            }
        });
    }

    /// Each rank hands over to one other in a round here, so fast ranks are a round ahead.
    #[test]
    fn parts_go_round_by_round_where_ranks_are_many() {
        on_ranks(5, |all| {
            for _ in 0..4 {
                let access = |rank| [Access::Read, Access::Write][(rank % 2) as usize];
                let window = all.protected_window(3, 8, access).unwrap();
                for rank in 0..5 {
                    let may = all.rank() % 2 == 1 || rank == all.rank();
                    let done = window.put(rank, 1, &[all.rank() as u8; 8]);
                    assert_eq!(done.is_ok(), may, "{done:?}");
                    window.get(rank, 0, &mut [0; 24]).unwrap();
                }
                assert_eq!(window.protected.len(), 5);
                all.share(&[0]).unwrap();
            }
        });
    }

    #[test]
    fn an_offer_that_makes_no_sense_is_none() {
        let key = Key { context: hikyaku_nic::fabric::ContextId(1), index: 1, generation: 1 };
        let key = key.to_bits();
        let mut words = vec![0; OFFER];
        words.extend([key as u32, (key >> 32) as u32, 8, 0, 9, 0, 0b10_01_00]);
        let offer = Offer::read(&words, 3).unwrap();
        assert_eq!(offer.access, [Access::None, Access::Read, Access::Write]);
        assert_eq!((offer.offset, offer.inbox, offer.for_reading.to_bits()), (8, 9, key));
        assert!(Offer::read(&words, 17).is_none(), "too few accesses");
        assert!(Offer::read(&words[..OFFER + 2], 0).is_none());
        words[OFFER + MORE] = 3;
        assert!(Offer::read(&words, 3).is_none(), "there is no such access");
        words[OFFER + MORE] = 0;
        words[OFFER] = u32::MAX;
        assert!(Offer::read(&words, 3).is_none(), "nor such a key");
    }
}
