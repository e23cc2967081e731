//! Non-blocking and persistent neighbour collectives (MPI 5.0 §8.7, §8.9).
//!
//! Persistent ones are exchanges of the rank (`hikyaku_rank::persistent`), set up once. A round is
//! then a letter each way between neighbours of a node, or commands in queues that run by
//! themselves. If neither is available, a round uses messages, like a non-blocking one.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use hikyaku_coll::persistent::{Scheme, UnknownScheme};
use hikyaku_nic::ring::copy;
use hikyaku_rank::Error;
use hikyaku_rank::persistent::{EdgeEnd, ExchangeSink, ExchangeSource, StagedRounds, Terms};

use super::Exchange;
use super::exchange::{Block, InFlight};
use crate::communicators::Comm;
use crate::dialect::{Dialect, Status};
use crate::failure::{Class, Failure};
use crate::info::Info;
use crate::raw::HandleAt;
use crate::requests::{Outcome, Request, RequestState, Round, Start, starts};
use crate::runtime::Mpi;

/// Maximum bytes of an edge that does not use messages. Messages copy larger data once, letters
/// twice. Two ranks, cores near, two edges, microseconds by letters and by messages: 16 KiB 4.7 and
/// 6.6, 32 KiB 7.8 and 10, 64 KiB 15 to 18 and 14, 256 KiB 54 and 43. Programs that ask for queues
/// get them at any length.
const MOST_BYTES: u64 = 32 << 10;

/// The info key by which a program chooses how queues serve an exchange.
const SCHEME_KEY: &str = "hikyaku_exchange";

/// An exchange that was set up.
#[derive(Debug)]
pub(crate) struct Kept(RefCell<Inner>);

#[derive(Debug)]
struct Inner {
    rounds: StagedRounds,
    outs: BlockSide,
    ins: BlockSide,
}

/// The blocks of one direction, in the order that both ends of an edge use. Their offsets are those
/// in a virtual contiguous buffer.
#[derive(Debug)]
struct BlockSide {
    blocks: Vec<Block>,
    /// The offset of each block.
    starts: Vec<usize>,
    /// The packed data of each block with gaps; empty for the others.
    packed: Vec<Box<[u8]>>,
}

impl BlockSide {
    fn new(blocks: &[Block]) -> BlockSide {
        let mut blocks = blocks.to_vec();
        // Of several edges between two ranks, the first at one end belongs to the first at the
        // other.
        blocks.sort_by_key(|block| block.channel);
        let mut end = 0;
        let starts = blocks.iter().map(|block| {
            let start = end;
            end += block.area.len();
            start
        });
        let starts = starts.collect();
        let packed = blocks.iter().map(|block| match block.area.memory() {
            Some(_) => Box::default(),
            None => vec![0; block.area.len()].into(),
        });
        let packed = packed.collect();
        BlockSide { blocks, starts, packed }
    }

    fn ends(&self) -> Vec<EdgeEnd> {
        let end = |(block, start): (&Block, &usize)| {
            let run = *start..*start + block.area.len();
            EdgeEnd { rank: block.rank, runs: vec![run] }
        };
        self.blocks.iter().zip(&self.starts).map(end).collect()
    }

    /// The index of the block of a run that is not empty.
    fn block_of(&self, run: &Range<usize>) -> usize {
        // An empty block has the offset of the next block, and comes before it.
        self.starts.partition_point(|start| *start <= run.start) - 1
    }

    /// The blocks with gaps, and their packed data.
    fn spread(&mut self) -> impl Iterator<Item = (&Block, &mut Box<[u8]>)> {
        self.blocks.iter().zip(&mut self.packed).filter(|(block, _)| block.area.memory().is_none())
    }
}

impl ExchangeSource for BlockSide {
    fn run(&self, run: &Range<usize>) -> &[u8] {
        if run.is_empty() {
            return &[];
        }
        let at = self.block_of(run);
        match self.blocks[at].area.memory() {
            Some(memory) => memory.bytes(run.len()),
            None => &self.packed[at],
        }
    }
}

impl ExchangeSink for BlockSide {
    fn run_mut(&mut self, run: &Range<usize>) -> &mut [u8] {
        if run.is_empty() {
            return &mut [];
        }
        let at = self.block_of(run);
        match self.blocks[at].area.memory() {
            Some(memory) => memory.bytes_mut(run.len()),
            None => &mut self.packed[at],
        }
    }
}

impl Kept {
    /// Sets up an exchange. `None` at every rank: it uses messages. A collective call.
    fn new(exchange: &Exchange, scheme: Option<Scheme>) -> Result<Option<Kept>, Error> {
        let comm = &exchange.comm.inner;
        let (outs, ins) = (BlockSide::new(&exchange.outs), BlockSide::new(&exchange.ins));
        let checked = Ok((outs.ends(), ins.ends()));
        let terms = Terms { scheme, ..Terms::ANY };
        let most = Some(MOST_BYTES).filter(|_| terms.scheme_in(comm).is_none());
        let terms = Terms { most, ..terms };
        let made = StagedRounds::new(comm, terms, checked, |words| comm.share(words))?;
        Ok(made.map(|rounds| Kept(RefCell::new(Inner { rounds, outs, ins }))))
    }

    fn start(&self) -> Result<(), Failure> {
        let Inner { rounds, outs, .. } = &mut *self.0.borrow_mut();
        for (block, packed) in outs.spread() {
            copy(&block.area.data(), packed);
        }
        Ok(rounds.start(&*outs)?)
    }
}

impl Round for Kept {
    fn wait(&self) -> Outcome {
        let mut inner = self.0.borrow_mut();
        inner.rounds.wait()?;
        inner.take()
    }

    fn test(&self, comm: &Comm) -> Option<Outcome> {
        comm.inner.attend();
        comm.inner.engine().borrow_mut().progress();
        // Otherwise another thread waits for it.
        let mut inner = self.0.try_borrow_mut().ok()?;
        match inner.rounds.test() {
            Ok(false) => None,
            Ok(true) => Some(inner.take()),
            Err(error) => Some(Err(error.into())),
        }
    }
}

impl Inner {
    fn take(&mut self) -> Outcome {
        let Inner { rounds, ins, .. } = self;
        rounds.take(ins)?;
        for (block, packed) in ins.spread() {
            block.area.put(packed);
        }
        Ok(Status::EMPTY)
    }
}

impl<D: Dialect> Mpi<D> {
    /// Leaves an exchange in flight.
    pub fn leave_exchange(&self, exchange: Exchange, request: HandleAt<D>) -> Result<(), Failure> {
        let comm = Rc::clone(&exchange.comm);
        let tags = comm.topology()?.next_run();
        let round = Rc::new(InFlight::start(Rc::new(exchange), tags, |_| true));
        self.add_request(Request::new(comm, RequestState::Round(round)), &request)
    }

    /// Keeps an exchange as a persistent request.
    pub fn keep_exchange(
        &self,
        exchange: Exchange,
        info: Option<Arc<Info>>,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        let scheme = info.and_then(|info| info.get(SCHEME_KEY));
        let scheme = scheme.map(|name| name.to_string_lossy().parse());
        let scheme = scheme.transpose().map_err(|error: UnknownScheme| {
            Failure::new(Class::InfoValue, format!("the key {SCHEME_KEY}: {error}")).named("info")
        })?;
        let comm = Rc::clone(&exchange.comm);
        let tags = comm.topology()?.next_kept();
        let start: Start = match Kept::new(&exchange, scheme)? {
            Some(kept) => starts(kept, Kept::start),
            None => {
                let exchange = Rc::new(exchange);
                Box::new(move || {
                    let started = InFlight::start(Rc::clone(&exchange), tags, |_| true);
                    Ok(RequestState::Round(Rc::new(started)))
                })
            }
        };
        self.add_request(Request::persistent(comm, start), &request)
    }
}
