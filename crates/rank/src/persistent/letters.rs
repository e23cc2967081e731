//! Repeated exchanges between neighbours, with blocks of any length, by letter (MPI 5.0 §8.6).
//!
//! A program that repeats exchanges on one topology gets mailboxes for it, like a persistent
//! exchange, but for blocks whose lengths may change from call to call:
//!
//! ```text
//!   letter to a neighbour   | call | lengths of all blocks to it | the short ones, in a row |
//!   long blocks             as separate messages, by the front end
//! ```
//!
//! Both ends of an edge know the length of its block, so both know whether the block is in the
//! letter or in a message. The letter always has the length: ends that disagree get an error and do
//! not wait for ever. The same holds for a neighbour that has skipped a call because its arguments
//! were wrong.

use std::cell::{OnceCell, RefCell};
use std::ops::Range;

use hikyaku_coll::topology::Link;
use hikyaku_coll::{Cause, CollError};
use hikyaku_nic::fabric::{Activity, Name, Wait};

use super::mail::{ExchangeSink, ExchangeSource};
use super::setup::{EdgeEnd, Terms};
use super::staged::StagedRounds;
use crate::communicator::Communicator;
use crate::error::Error;

/// The wait for neighbours, as it is announced.
pub const NEIGHBOURS: Wait = Wait::new(Activity::Collective).named(Name::new("neighbour exchange"));

/// The number of calls on a topology before its ranks make mailboxes, which costs as much as some
/// exchanges by messages.
const MESSAGES_FIRST: u32 = 4;

/// The maximum bytes of a block in a letter.
const SHORT: usize = 4096;

/// Bytes of a length, and of the number of a call.
const WORD: usize = 8;

/// The distance between the starts of the byte runs that stand for the letters of the neighbours.
const FROM_ONE_TO_THE_NEXT: usize = 1 << 32;

/// The blocks of one exchange, one for each edge that has a rank at its other end.
pub trait EdgeBlocks {
    /// The bytes to send along the edge at index `place` of the destinations.
    fn out_length(&self, place: usize) -> usize;

    /// Appends the block to a letter.
    fn write(&self, place: usize, letter: &mut Vec<u8>);

    /// The expected bytes along the edge at index `place` of the sources.
    fn in_length(&self, place: usize) -> usize;

    /// Stores the beginning of a received block.
    fn put(&mut self, place: usize, bytes: &[u8]);
}

/// Whether a block is sent as a message beside the letters.
#[inline]
pub fn is_long(length: usize) -> bool {
    length > SHORT
}

/// The way of a topology's exchanges. All its ranks use it alike.
#[derive(Debug, Default)]
pub struct Correspondence {
    /// `None`: always by messages.
    letters: OnceCell<Option<Box<RefCell<Letters>>>>,
}

impl Correspondence {
    /// The letters of a call, which has the same number at all ranks. `None`: it uses messages.
    /// After some calls `make` makes the letters, once.
    ///
    /// # Errors
    /// The errors of `make`.
    #[inline]
    pub fn letters<E>(
        &self,
        call: u32,
        make: impl FnOnce() -> Result<Option<Letters>, E>,
    ) -> Result<Option<&RefCell<Letters>>, E> {
        let letters = match self.letters.get() {
            Some(letters) => letters,
            None if call < MESSAGES_FIRST => return Ok(None),
            None => {
                let made = make()?;
                self.letters.get_or_init(|| made.map(|letters| Box::new(RefCell::new(letters))))
            }
        };
        Ok(letters.as_deref())
    }
}

/// The letters of a topology.
#[derive(Debug)]
pub struct Letters {
    /// Or the error that has ended them.
    rounds: Result<StagedRounds, Error>,
    comm: Communicator,
    outs: LetterSide,
    ins: LetterSide,
}

/// The neighbours in one direction.
#[derive(Debug)]
struct LetterSide(Vec<LetterNeighbour>);

/// A rank, and the edges to it or from it.
#[derive(Debug)]
struct LetterNeighbour {
    rank: u32,
    /// The indices of their blocks, in the order in which both ends have the edges.
    places: Vec<usize>,
    letter: Vec<u8>,
}

impl Letters {
    /// Makes mailboxes between the ranks of a topology, all of which call it. `rank_of`: the rank
    /// of `comm` at the other end of an edge, `None` beyond a border. Returns `None` if some rank
    /// lacks resources, and all ranks use messages.
    ///
    /// # Errors
    /// As [`StagedRounds::new`].
    pub fn new<E: From<Error>>(
        comm: &Communicator,
        (destinations, sources): (&[Link], &[Link]),
        rank_of: impl Fn(&Link) -> Option<u32>,
        share: impl Fn(&[u32]) -> Result<Vec<Vec<u32>>, E>,
    ) -> Result<Option<Letters>, E> {
        let (outs, ins) =
            (LetterSide::new(destinations, &rank_of), LetterSide::new(sources, &rank_of));
        let checked = Ok((outs.ends(), ins.ends()));
        let rounds = StagedRounds::new(comm, Terms::LETTERS, checked, share)?;
        Ok(rounds.map(|rounds| Letters { rounds: Ok(rounds), comm: comm.clone(), outs, ins }))
    }

    /// Exchanges the letters of a call, which has the same number at all ranks. Returns whether all
    /// blocks have the expected lengths: then [`Letters::deliver`] stores the short ones, else
    /// [`Letters::unequal`] reports the wrong ones.
    ///
    /// # Errors
    /// A neighbour is gone, or has made another call, now or in an earlier exchange.
    pub fn exchange(&mut self, call: u32, blocks: &impl EdgeBlocks) -> Result<bool, Error> {
        if let Err(error) = self.go_round(call, blocks) {
            // Neighbours that wait for this rank's next letter learn of it.
            self.rounds = Err(error.clone());
            return Err(error);
        }
        let is_right = |(place, sent): (usize, u64)| sent == blocks.in_length(place) as u64;
        Ok(self.ins.lengths().all(is_right))
    }

    fn go_round(&mut self, call: u32, blocks: &impl EdgeBlocks) -> Result<(), Error> {
        let Letters { rounds, comm, outs, ins } = self;
        let rounds = rounds.as_mut().map_err(|error| error.clone())?;
        outs.write(call, blocks);
        rounds.start(outs)?;
        let engine = comm.engine();
        engine.borrow_mut().set_whole(Some(NEIGHBOURS));
        let come = rounds.wait();
        engine.borrow_mut().set_whole(None);
        come?;
        ins.expect(blocks);
        rounds.take(ins)?;
        match ins.in_another_call(call) {
            None => Ok(()),
            Some(peer) => {
                let operation = "neighbour exchange";
                let cause = Cause::OtherCall;
                Err(CollError::Abandoned { operation, peer, cause }.into())
            }
        }
    }

    /// Stores the short blocks of the letters.
    pub fn deliver(&self, blocks: &mut impl EdgeBlocks) {
        self.ins.deliver(blocks);
    }

    /// The blocks with an unexpected length: the index of the edge, and the bytes that were sent.
    /// All short blocks can be delivered afterwards.
    ///
    /// # Errors
    /// A letter is longer than its mailbox: it was overwritten.
    #[cold]
    pub fn unequal(&mut self, blocks: &impl EdgeBlocks) -> Result<Vec<(usize, u64)>, Error> {
        self.ins.expect_any();
        self.rounds.as_ref().map_err(Error::clone)?.take(&mut self.ins)?;
        let is_wrong = |(place, sent): &(usize, u64)| *sent != blocks.in_length(*place) as u64;
        Ok(self.ins.lengths().filter(is_wrong).collect())
    }
}

impl LetterSide {
    fn new(links: &[Link], rank_of: &impl Fn(&Link) -> Option<u32>) -> LetterSide {
        let there = links.iter().filter_map(|link| Some((link.channel, rank_of(link)?)));
        let mut there: Vec<_> = there.enumerate().collect();
        there.sort_by_key(|(_, (channel, _))| *channel);
        let mut side = LetterSide(Vec::new());
        for (place, (_, rank)) in there {
            match side.0.iter_mut().find(|known| known.rank == rank) {
                Some(known) => known.places.push(place),
                None => {
                    side.0.push(LetterNeighbour { rank, places: vec![place], letter: Vec::new() });
                }
            }
        }
        side
    }

    fn ends(&self) -> Vec<EdgeEnd> {
        let end = |(at, neighbour): (usize, &LetterNeighbour)| {
            let start = at * FROM_ONE_TO_THE_NEXT;
            let letter = start..start + neighbour.most();
            EdgeEnd { rank: neighbour.rank, runs: Vec::from([letter]) }
        };
        self.0.iter().enumerate().map(end).collect()
    }

    /// Writes the letters.
    fn write(&mut self, call: u32, blocks: &impl EdgeBlocks) {
        for LetterNeighbour { places, letter, .. } in &mut self.0 {
            letter.clear();
            letter.extend(u64::from(call).to_ne_bytes());
            for place in &*places {
                letter.extend((blocks.out_length(*place) as u64).to_ne_bytes());
            }
            for place in places.iter().filter(|place| !is_long(blocks.out_length(**place))) {
                blocks.write(*place, letter);
            }
        }
    }

    /// Makes room for letters with the expected lengths.
    fn expect(&mut self, blocks: &impl EdgeBlocks) {
        for LetterNeighbour { places, letter, .. } in &mut self.0 {
            let lengths = places.iter().map(|place| blocks.in_length(*place));
            let short: usize = lengths.filter(|length| !is_long(*length)).sum();
            letter.resize(head(places) + short, 0);
        }
    }

    /// Makes room for letters of any length.
    fn expect_any(&mut self) {
        for neighbour in &mut self.0 {
            neighbour.letter.resize(neighbour.most(), 0);
        }
    }

    /// A rank whose letter belongs to another call.
    fn in_another_call(&self, call: u32) -> Option<u32> {
        let word = u64::from(call).to_ne_bytes();
        let other = self.0.iter().find(|neighbour| !neighbour.letter.starts_with(&word));
        other.map(|neighbour| neighbour.rank)
    }

    /// The lengths of blocks according to the letters, by index.
    fn lengths(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().flat_map(|LetterNeighbour { places, letter, .. }| {
            let words = letter.as_chunks::<WORD>().0.iter().skip(1);
            places.iter().copied().zip(words.map(|word| u64::from_ne_bytes(*word)))
        })
    }

    fn deliver(&self, blocks: &mut impl EdgeBlocks) {
        for LetterNeighbour { places, letter, .. } in &self.0 {
            let (head, mut rest) = letter.split_at(head(places));
            for (place, word) in places.iter().zip(head.as_chunks::<WORD>().0.iter().skip(1)) {
                let sent = u64::from_ne_bytes(*word) as usize;
                if is_long(sent) {
                    continue;
                }
                let (block, after) = rest.split_at(sent.min(rest.len()));
                let room = blocks.in_length(*place);
                blocks.put(*place, &block[..sent.min(room).min(block.len())]);
                rest = after;
            }
        }
    }
}

impl LetterNeighbour {
    /// The maximum bytes of a letter.
    fn most(&self) -> usize {
        head(&self.places) + self.places.len() * SHORT
    }
}

/// The bytes of a letter before its blocks.
fn head(places: &[usize]) -> usize {
    (1 + places.len()) * WORD
}

impl ExchangeSource for LetterSide {
    fn run(&self, run: &Range<usize>) -> &[u8] {
        &self.0[run.start / FROM_ONE_TO_THE_NEXT].letter
    }
}

impl ExchangeSink for LetterSide {
    fn run_mut(&mut self, run: &Range<usize>) -> &mut [u8] {
        &mut self.0[run.start / FROM_ONE_TO_THE_NEXT].letter
    }
}
