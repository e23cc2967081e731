//! The invariants of shared variables on any ranks, processors and fabrics, checked inside every
//! guard.
//!
//! Ranks acquire variables in random ways: waiting, trying, with a limit, as futures that they
//! drop, one while they hold another. A rank inside checks three times, with rests in between:
//!
//! - **one owner, no reader beside a writer**: a count of the ranks inside, kept by atomic
//!   operations on a window, which is independent of the variables: it detects two ranks inside at
//!   the same time wherever their copies are;
//! - **whole**: every element has the stamp of one write, also after the rests;
//! - **the newest**: that stamp is the one that the window has of the last write;
//! - **every request answered**: a waiting rank acquires it within [`Plan::patience`].
//!
//! At the end the variables have counted all writes. A rank that detects a violation reports it at
//! once, on its standard error, and in the window, and all stop: with a faulty protocol no rank
//! might reach the end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use hikyaku::shared::{Part, Parts, ReadGuard, SharedOptions, WriteGuard};
use hikyaku::{Error, Op, Window, World};

use super::random::Random;

/// The number of variables, in a window of two words each and one more.
const VARIABLES: usize = 3;
const STOP: usize = 2 * VARIABLES;

/// The weight of a writer in the count of ranks inside; a reader is 1.
const WRITER: u64 = 1 << 32;

/// A stamp is the number of the write, and below it the rank.
const RANK_BITS: u32 = 16;

/// The amount of work.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Attempts of each rank to acquire something.
    pub turns: u32,
    /// Elements of a variable.
    pub elements: usize,
    /// After this time a request counts as not answered.
    pub patience: Duration,
}

/// A rank's actions and findings.
#[derive(Debug, Clone, Default)]
pub struct Verdict {
    /// The violation, if this rank has detected one.
    pub broken: Option<String>,
    /// How often it wrote.
    pub writes: u64,
    /// How often it read.
    pub reads: u64,
    /// How often it was refused, or reached its limit of waiting.
    pub refused: u64,
    /// How often it dropped a future that was not ready.
    pub dropped: u64,
}

/// Why a rank stops.
enum End {
    Broken(String),
    Failed(Error),
}

impl From<Error> for End {
    fn from(error: Error) -> End {
        End::Failed(error)
    }
}

/// Acquires variables at random and checks them. Every rank calls it.
///
/// # Errors
/// As the calls of [`World`]. A violation is not an error; it is in the verdict.
pub fn run(world: &World, seed: u64, plan: Plan) -> Result<Verdict, Error> {
    let whole = world.shared::<u64>("torture", &[plan.elements as u64])?;
    let options = SharedOptions { parts: Parts::Rows(1), ..SharedOptions::default() };
    let rows = world.shared_with::<u64>("torture by rows", &[2, plan.elements as u64], options)?;
    let parts = [whole.part(0)?, rows.part(0)?, rows.part(1)?];
    let ledger = world.window::<u64>(STOP + 1)?;
    let random = Random::new(seed ^ (u64::from(world.rank()) << 40));
    let (written, verdict) = ([0; VARIABLES], Verdict::default());
    let mut torture = Torture { world, plan, parts, ledger, random, written, verdict };
    world.barrier()?;
    let mut at = 0;
    for _ in 0..plan.turns {
        if torture.ledger.load(0, STOP)? != 0 {
            break;
        }
        // Often the same as before: such variables are kept.
        if torture.random.below(2) == 0 {
            at = torture.random.below(VARIABLES);
        }
        // Failures of the library's own assertions are detected too.
        let end = catch_unwind(AssertUnwindSafe(|| torture.turn(at, false)));
        match end.unwrap_or_else(|_| Err(End::Broken("panicked".to_owned()))) {
            Ok(()) => torture.pause(),
            Err(End::Broken(what)) => {
                torture.finds(what);
                torture.ledger.swap(0, STOP, 1)?;
                break;
            }
            Err(End::Failed(error)) => return Err(error),
        }
    }
    world.barrier()?;
    if torture.ledger.load(0, STOP)? == 0 {
        torture.count()?;
    }
    world.barrier()?;
    Ok(torture.verdict)
}

struct Torture<'w> {
    world: &'w World,
    plan: Plan,
    parts: [Part<u64>; VARIABLES],
    /// At rank 0: for each variable the ranks inside, and the stamp of its last write.
    ledger: Window<'w, u64>,
    random: Random,
    written: [u64; VARIABLES],
    verdict: Verdict,
}

impl Torture<'_> {
    /// One attempt. `nested`: this rank holds another variable, a lower one, so that no circle of
    /// waits arises.
    fn turn(&mut self, at: usize, nested: bool) -> Result<(), End> {
        let part = self.parts[at].clone();
        if self.random.below(2) == 0 {
            let within = |limit| part.write_within(limit);
            let Some(mut guard) =
                self.acquire(at, within, || part.try_write(), part.write_async())?
            else {
                return Ok(());
            };
            self.write(at, &mut guard, nested)
        } else {
            let within = |limit| part.read_within(limit);
            let Some(guard) = self.acquire(at, within, || part.try_read(), part.read_async())?
            else {
                return Ok(());
            };
            self.read(at, &guard, nested)
        }
    }

    /// Acquires a variable in one of the possible ways; `None`: it was refused, or the attempt was
    /// abandoned.
    fn acquire<G>(
        &mut self,
        at: usize,
        within: impl Fn(Duration) -> Result<Option<G>, Error>,
        tried: impl FnOnce() -> Result<Option<G>, Error>,
        future: impl Future<Output = Result<G, Error>>,
    ) -> Result<Option<G>, End> {
        let guard = match self.random.below(8) {
            0 => tried()?,
            1 => within(Duration::from_micros(self.random.below(500) as u64))?,
            2 => return Ok(self.poll_and_drop(future)?),
            _ => {
                let guard = within(self.plan.patience)?;
                self.demand(guard.is_some(), at, || "a request was not answered".to_owned())?;
                guard
            }
        };
        self.verdict.refused += u64::from(guard.is_none());
        Ok(guard)
    }

    fn poll_and_drop<G>(
        &mut self,
        future: impl Future<Output = Result<G, Error>>,
    ) -> Result<Option<G>, Error> {
        let mut future = pin!(future);
        for _ in 0..1 + self.random.below(4) {
            let poll = std::future::poll_fn(|cx| Poll::Ready(future.as_mut().poll(cx)));
            if let Poll::Ready(guard) = self.world.block_on(poll) {
                return guard.map(Some);
            }
            self.pause();
        }
        self.verdict.dropped += 1;
        Ok(None)
    }

    /// Checks inside as a writer: alone.
    fn write(&mut self, at: usize, guard: &mut WriteGuard<u64>, nested: bool) -> Result<(), End> {
        let beside = self.ledger.fetch_add(0, inside(at), WRITER)?;
        self.demand(beside == 0, at, || format!("{} beside a new writer", people(beside)))?;
        let last = self.ledger.load(0, newest(at))?;
        self.holds(at, guard, last)?;
        let stamp = ((last >> RANK_BITS) + 1) << RANK_BITS | u64::from(self.world.rank());
        let half = guard.len() / 2;
        guard[..half].fill(stamp);
        self.stay(at, nested)?;
        guard[half..].fill(stamp);
        self.pause();
        self.holds(at, guard, stamp)?;
        let beside = self.ledger.load(0, inside(at))?;
        self.demand(beside == WRITER, at, || format!("{} beside a writer", people(beside)))?;
        self.ledger.swap(0, newest(at), stamp)?;
        self.ledger.fetch_add(0, inside(at), WRITER.wrapping_neg())?;
        self.written[at] += 1;
        self.verdict.writes += 1;
        Ok(())
    }

    /// Checks inside as a reader: with readers only.
    fn read(&mut self, at: usize, guard: &ReadGuard<u64>, nested: bool) -> Result<(), End> {
        let beside = self.ledger.fetch_add(0, inside(at), 1)?;
        self.demand(beside < WRITER, at, || format!("{} beside a new reader", people(beside)))?;
        let last = self.ledger.load(0, newest(at))?;
        self.holds(at, guard, last)?;
        self.stay(at, nested)?;
        self.holds(at, guard, last)?;
        let beside = self.ledger.load(0, inside(at))?;
        self.demand(beside < WRITER, at, || format!("{} beside a reader", people(beside)))?;
        self.ledger.fetch_add(0, inside(at), 1u64.wrapping_neg())?;
        self.verdict.reads += 1;
        Ok(())
    }

    /// Stays inside for a while, or acquires a higher variable meanwhile.
    fn stay(&mut self, at: usize, nested: bool) -> Result<(), End> {
        if !nested && at + 1 < VARIABLES && self.random.below(4) == 0 {
            return self.turn(at + 1, true);
        }
        self.pause();
        Ok(())
    }

    /// Checks that every element has this stamp.
    fn holds(&self, at: usize, found: &[u64], stamp: u64) -> Result<(), End> {
        let other = found.iter().position(|value| *value != stamp);
        self.demand(other.is_none(), at, || {
            let (at, say) = (other.unwrap_or(0), |stamp: u64| {
                format!("write {} of rank {}", stamp >> RANK_BITS, stamp & ((1 << RANK_BITS) - 1))
            });
            let alike = found.iter().filter(|value| **value == found[at]).count();
            let count = found.len();
            let (wanted, found) = (say(stamp), say(found[at]));
            format!("{alike} elements of {count} are of {found}, where {wanted} was the last")
        })
    }

    fn demand(&self, holds: bool, at: usize, or: impl FnOnce() -> String) -> Result<(), End> {
        if holds {
            return Ok(());
        }
        Err(End::Broken(format!("rank {}, variable {at}: {}", self.world.rank(), or())))
    }

    #[expect(clippy::disallowed_methods, reason = "nothing is waited for: others are to come")]
    fn pause(&mut self) {
        match self.random.below(10) {
            0..5 => {}
            5..9 => thread::yield_now(),
            _ => thread::sleep(Duration::from_micros(self.random.below(100) as u64)),
        }
    }

    /// At the end, when no rank is inside: no write is lost.
    fn count(&mut self) -> Result<(), Error> {
        self.world.allreduce(&mut self.written, Op::Sum)?;
        for (at, written) in self.written.into_iter().enumerate() {
            let last = self.ledger.load(0, newest(at))?;
            let rank = self.world.rank();
            let Some(found) = self.parts[at].read_within(self.plan.patience)? else {
                self.finds(format!("rank {rank}, variable {at}: a request was not answered"));
                continue;
            };
            let counted = last >> RANK_BITS == written && found.iter().all(|value| *value == last);
            if !counted {
                let found = found[0] >> RANK_BITS;
                self.finds(format!("rank {rank}, variable {at}: {found} writes of {written}"));
            }
        }
        Ok(())
    }

    /// Reports a violation; the first one is the verdict.
    fn finds(&mut self, what: String) {
        eprintln!("BROKEN: {what}");
        self.verdict.broken.get_or_insert(what);
    }
}

fn inside(variable: usize) -> usize {
    2 * variable
}

fn newest(variable: usize) -> usize {
    2 * variable + 1
}

fn people(inside: u64) -> String {
    format!("{} writers and {} readers", inside / WRITER, inside % WRITER)
}
