//! What neighbours exchange at once, by letter (MPI 5.0 §8.6).
//!
//! A program that exchanges again and again on one communicator gets mailboxes for it, as a kept
//! exchange has them, but for blocks of any size:
//!
//! ```text
//!   letter to a neighbour   | lengths of all blocks to it | the short ones, one after the other |
//!   long blocks             by messages, beside
//! ```
//!
//! Both ends of an edge know how long its block is to be, so both know how it goes. The length is
//! in the letter in any case: ends that disagree are an error and not a wait.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use hikyaku_coll::topology::Link;
use hikyaku_rank::Error;
use hikyaku_rank::persistent::{End, Incoming, Outgoing, StagedRounds, Terms};

use super::exchange::{Block, Exchange, InFlight, NEIGHBOURS};
use super::{Tags, Topology};
use crate::communicators::Comm;
use crate::failure::Failure;

/// Exchanges on a communicator before its ranks make mailboxes: to make them costs as much as some
/// exchanges by messages.
const MESSAGES_FIRST: u32 = 4;

/// Bytes of a block that goes by letter, at most.
const SHORT: usize = 4096;

/// Bytes of a length.
const HEAD: usize = 8;

/// Where the run of bytes starts that is the letter to or from the first neighbour, the second...
const FROM_ONE_TO_THE_NEXT: usize = 1 << 32;

/// How what is exchanged at once goes on a communicator.
#[derive(Debug)]
pub(super) enum Way {
    Messages,
    Letters(Box<RefCell<Letters>>),
}

/// The letters of a communicator.
#[derive(Debug)]
pub(super) struct Letters {
    rounds: StagedRounds,
    outs: Side,
    ins: Side,
    /// What has ended them.
    failed: Option<Failure>,
}

/// The neighbours of one direction.
#[derive(Debug)]
struct Side(Vec<Neighbour>);

/// A rank, and the edges to it, or from it.
#[derive(Debug)]
struct Neighbour {
    rank: u32,
    /// Places of their blocks, in the order in which both ends have the edges.
    places: Vec<usize>,
    letter: Vec<u8>,
}

impl Side {
    fn new(links: &[Link]) -> Side {
        let there = links.iter().filter_map(|link| Some((link.channel, link.rank?)));
        let mut there: Vec<_> = there.enumerate().collect();
        there.sort_by_key(|(_, (channel, _))| *channel);
        let mut side = Side(Vec::new());
        for (place, (_, rank)) in there {
            match side.0.iter_mut().find(|known| known.rank == rank) {
                Some(known) => known.places.push(place),
                None => side.0.push(Neighbour { rank, places: vec![place], letter: Vec::new() }),
            }
        }
        side
    }

    fn ends(&self) -> Vec<End> {
        let end = |(at, neighbour): (usize, &Neighbour)| {
            let start = at * FROM_ONE_TO_THE_NEXT;
            let letter = start..start + neighbour.places.len() * (HEAD + SHORT);
            End { rank: neighbour.rank, runs: Vec::from([letter]) }
        };
        self.0.iter().enumerate().map(end).collect()
    }

    /// Writes the letters.
    fn write(&mut self, blocks: &[Block]) {
        for Neighbour { places, letter, .. } in &mut self.0 {
            letter.clear();
            let blocks = places.iter().map(|place| &blocks[*place]);
            for block in blocks.clone() {
                letter.extend((block.area.len() as u64).to_ne_bytes());
            }
            for block in blocks.filter(|block| !is_long(block)) {
                letter.extend_from_slice(&block.area.data());
            }
        }
    }

    /// Makes room for letters as they are to come.
    fn expect(&mut self, blocks: &[Block]) {
        for Neighbour { places, letter, .. } in &mut self.0 {
            let short = places.iter().map(|place| &blocks[*place]).filter(|block| !is_long(block));
            letter.resize(
                places.len() * HEAD + short.map(|block| block.area.len()).sum::<usize>(),
                0,
            );
        }
    }

    /// Makes room for letters of any length.
    fn expect_any(&mut self) {
        for Neighbour { places, letter, .. } in &mut self.0 {
            letter.resize(places.len() * (HEAD + SHORT), 0);
        }
    }

    /// The lengths of blocks as letters have told them, by place.
    fn lengths(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().flat_map(|Neighbour { places, letter, .. }| {
            let told = letter.as_chunks::<HEAD>().0.iter().map(|head| u64::from_ne_bytes(*head));
            places.iter().copied().zip(told)
        })
    }

    /// Puts the blocks of letters where they belong: as much of each as there is room for.
    fn deliver(&self, blocks: &[Block]) {
        for Neighbour { places, letter, .. } in &self.0 {
            let (heads, mut rest) = letter.split_at(places.len() * HEAD);
            for (place, head) in places.iter().zip(heads.as_chunks::<HEAD>().0) {
                let sent = u64::from_ne_bytes(*head) as usize;
                if sent > SHORT {
                    continue;
                }
                let (block, after) = rest.split_at(sent.min(rest.len()));
                let area = &blocks[*place].area;
                area.put(&block[..sent.min(area.len())]);
                rest = after;
            }
        }
    }
}

impl Outgoing for Side {
    fn run(&self, run: &Range<usize>) -> &[u8] {
        &self.0[run.start / FROM_ONE_TO_THE_NEXT].letter
    }
}

impl Incoming for Side {
    fn run_mut(&mut self, run: &Range<usize>) -> &mut [u8] {
        &mut self.0[run.start / FROM_ONE_TO_THE_NEXT].letter
    }
}

fn is_long(block: &Block) -> bool {
    block.area.len() > SHORT
}

impl Topology {
    /// How an exchange goes that is run at once. All ranks call it, as often.
    pub(super) fn way(&self, comm: &Comm) -> Result<Option<&RefCell<Letters>>, Failure> {
        let runs = self.runs.get();
        if runs < MESSAGES_FIRST {
            self.runs.set(runs + 1);
            return Ok(None);
        }
        let way = match self.way.get() {
            Some(way) => way,
            None => {
                let made = Letters::make(comm, self)?;
                self.way.get_or_init(|| made)
            }
        };
        Ok(match way {
            Way::Messages => None,
            Way::Letters(letters) => Some(letters),
        })
    }
}

impl Letters {
    /// Makes mailboxes, if all ranks can have them. All ranks call it.
    fn make(comm: &Comm, topology: &Topology) -> Result<Way, Failure> {
        let outs = Side::new(&topology.links.destinations);
        let ins = Side::new(&topology.links.sources);
        let (comm, checked) = (&comm.inner, Ok((outs.ends(), ins.ends())));
        match StagedRounds::new(comm, Terms::LETTERS, checked, |words| comm.share(words)) {
            Ok(rounds) => {
                let letters = Letters { rounds, outs, ins, failed: None };
                Ok(Way::Letters(Box::new(RefCell::new(letters))))
            }
            // What one rank lacks for it all ranks know.
            Err(Error::Persistent(_)) => Ok(Way::Messages),
            Err(error) => Err(error.into()),
        }
    }

    /// Runs an exchange.
    pub(super) fn run(&mut self, exchange: Exchange, tags: Tags) -> Result<(), Failure> {
        if let Some(failure) = &self.failed {
            return Err(failure.clone());
        }
        if !exchange.outs.iter().chain(&exchange.ins).any(is_long) {
            if self.by_letter(&exchange)? {
                return Ok(());
            }
            let exchange = Rc::new(exchange);
            let nothing = InFlight::start(Rc::clone(&exchange), tags, |_| false);
            return self.end_unequal(&exchange, tags, nothing);
        }
        let exchange = Rc::new(exchange);
        let long = InFlight::start(Rc::clone(&exchange), tags, is_long);
        match self.by_letter(&exchange) {
            Ok(true) => long.wait().map(drop),
            Ok(false) => self.end_unequal(&exchange, tags, long),
            Err(failure) => {
                // Neighbours are told, and the others by them: no message will come either.
                long.abandon(|_| true);
                Err(failure)
            }
        }
    }

    /// Exchanges the letters. Delivers them and says so, if all blocks are as long as they are to
    /// be.
    fn by_letter(&mut self, exchange: &Exchange) -> Result<bool, Failure> {
        let done = self.go_round(exchange).map_err(Failure::from);
        done.inspect_err(|failure| self.failed = Some(failure.clone()))?;
        let blocks = &exchange.ins;
        let is_right = |(place, sent): (usize, u64)| sent == blocks[place].area.len() as u64;
        let are_right = self.ins.lengths().all(is_right);
        if are_right {
            self.ins.deliver(blocks);
        }
        Ok(are_right)
    }

    fn go_round(&mut self, exchange: &Exchange) -> Result<(), Error> {
        let Letters { rounds, outs, ins, .. } = self;
        outs.write(&exchange.outs);
        rounds.start(outs)?;
        let engine = exchange.comm.inner.engine();
        engine.borrow_mut().set_whole(Some(NEIGHBOURS));
        let come = rounds.wait();
        engine.borrow_mut().set_whole(None);
        come?;
        ins.expect(&exchange.ins);
        rounds.take(ins)
    }

    /// Ends an exchange in which blocks have come with another length than they are to have.
    #[cold]
    fn end_unequal(
        &mut self,
        exchange: &Exchange,
        tags: Tags,
        long: InFlight,
    ) -> Result<(), Failure> {
        self.ins.expect_any();
        self.rounds.take(&mut self.ins)?;
        let mut first = Ok(());
        for (place, sent) in self.ins.lengths() {
            let Block { edge, rank: source_rank, ref area, .. } = exchange.ins[place];
            let expected = area.len() as u64;
            if sent == expected {
                continue;
            }
            match (sent > SHORT as u64, area.len() > SHORT) {
                (false, true) => long.abandon(|incoming| incoming == Some(place)),
                (true, false) => long.drop_message(place, tags),
                _ => {}
            }
            let rank = exchange.comm.inner.rank();
            let error = Error::UnequalEdge { edge, source_rank, sent, rank, expected };
            first = first.and(Err(Failure::from(error)));
        }
        self.ins.deliver(&exchange.ins);
        let rest = long.wait().map(drop);
        first.and(rest)
    }
}
