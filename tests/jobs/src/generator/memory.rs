//! Shared variables and windows.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use hikyaku::shared::{Part, Parts, SharedOptions};
use hikyaku::{Error, Shared, Window, World};

use super::plan::{Act, Program, Turn, Way};
use super::run::spend;
use crate::pattern::{check, key, message};

/// Longer than any rank ever waits.
const PATIENCE: Duration = Duration::from_secs(3600);

/// A program's shared variables, and this rank's knowledge of their rows.
pub(super) struct Variables {
    shared: Vec<Shared<u64>>,
    rows: Vec<Vec<Known>>,
}

/// Every element of a row is the sum of all that was added to it.
#[derive(Debug, Clone, Copy)]
struct Known {
    /// Its value when this rank last saw it.
    least: u64,
    /// The sum of all writes before the next step.
    planned: u64,
    /// The sum of all writes of the program.
    total: u64,
}

impl Variables {
    pub(super) fn new(world: &World, program: &Program) -> Result<Variables, Error> {
        let mut variables = Variables { shared: Vec::new(), rows: Vec::new() };
        for (number, variable) in program.variables.iter().enumerate() {
            let parts = if variable.rows == 1 { Parts::Whole } else { Parts::Rows(1) };
            let protocol = Some(variable.protocol);
            let options = SharedOptions { parts, protocol, ..SharedOptions::default() };
            let shape = [variable.rows as u64, variable.elements as u64];
            let name = format!("variable {number}");
            variables.shared.push(world.shared_with(&name, &shape, options)?);
            let known = |row| Known { least: 0, planned: 0, total: program.total(number, row) };
            variables.rows.push((0..variable.rows).map(known).collect());
        }
        Ok(variables)
    }

    /// This rank's part of a step of acquisitions; then all check it, if the step settles.
    pub(super) fn acquire(&mut self, world: &World, act: &Act) -> Result<(), Error> {
        let Act::Acquire { variable, turns, settle } = act else { return Ok(()) };
        for turn in &turns[world.rank() as usize] {
            let part = self.shared[*variable].part(turn.row as u64)?;
            let known = &mut self.rows[*variable][turn.row];
            take(world, &part, turn, known)?;
        }
        for (row, known) in self.rows[*variable].iter_mut().enumerate() {
            known.planned += act.adds(*variable, row);
        }
        if *settle {
            world.barrier()?;
            self.settle(*variable)?;
            world.barrier()?;
        }
        Ok(())
    }

    /// While no rank writes: every row is the sum of all that was added so far.
    fn settle(&mut self, variable: usize) -> Result<(), Error> {
        for (row, known) in self.rows[variable].iter_mut().enumerate() {
            let guard = self.shared[variable].part(row as u64)?.read()?;
            let expected = known.planned;
            let found = guard.iter().find(|element| **element != expected);
            assert_eq!(found, None, "variable {variable}, row {row}: {expected} was added");
            known.least = expected;
        }
        Ok(())
    }

    /// At the end, after all steps.
    pub(super) fn settle_all(&mut self, world: &World) -> Result<(), Error> {
        world.barrier()?;
        (0..self.shared.len()).try_for_each(|variable| self.settle(variable))?;
        world.barrier()
    }
}

/// One acquisition.
fn take(world: &World, part: &Part<u64>, turn: &Turn, known: &mut Known) -> Result<(), Error> {
    if turn.adds == 0 {
        let within = || part.read_within(PATIENCE);
        let guard = acquire(
            world,
            turn.way,
            || part.read(),
            within,
            || part.try_read(),
            || part.read_async(),
        )?;
        known.see(&guard);
        spend(world, turn.micros, true);
        known.see(&guard);
    } else {
        let within = || part.write_within(PATIENCE);
        let mut guard = acquire(
            world,
            turn.way,
            || part.write(),
            within,
            || part.try_write(),
            || part.write_async(),
        )?;
        known.see(&guard);
        let half = guard.len() / 2;
        guard[..half].iter_mut().for_each(|element| *element += turn.adds);
        spend(world, turn.micros, true);
        guard[half..].iter_mut().for_each(|element| *element += turn.adds);
        known.least += turn.adds;
        known.see(&guard);
    }
    Ok(())
}

impl Known {
    /// Checks a guard's elements: all equal, and never less than before.
    fn see(&mut self, elements: &[u64]) {
        let Some(value) = elements.first() else { return };
        let other = elements.iter().find(|element| *element != value);
        assert_eq!(other, None, "beside {value}");
        assert!((self.least..=self.total).contains(value), "{value} is not within {self:?}");
        self.least = *value;
    }
}

fn acquire<G, F: Future<Output = Result<G, Error>>>(
    world: &World,
    way: Way,
    wait: impl Fn() -> Result<G, Error>,
    within: impl Fn() -> Result<Option<G>, Error>,
    tried: impl Fn() -> Result<Option<G>, Error>,
    future: impl Fn() -> F,
) -> Result<G, Error> {
    match way {
        Way::Wait => {}
        Way::Within => return Ok(within()?.expect("an hour has not passed")),
        Way::Future => return world.block_on(future()),
        Way::Try => {
            if let Some(guard) = tried()? {
                return Ok(guard);
            }
        }
        Way::Dropped(polls) => {
            let mut future = pin!(future());
            for _ in 0..polls {
                let poll = poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
                if let Poll::Ready(guard) = world.block_on(poll) {
                    return guard;
                }
            }
        }
    }
    wait()
}

/// A program's windows. No two steps use the same words or bytes.
pub(super) struct Windows<'w> {
    words: Window<'w, u64>,
    bytes: Window<'w, u8>,
}

/// Words that a step of atomic operations uses.
pub(super) const SLOTS: usize = 4;

impl<'w> Windows<'w> {
    pub(super) fn new(world: &'w World, program: &Program) -> Result<Windows<'w>, Error> {
        let (words, bytes) = program.window;
        Ok(Windows { words: world.window(words)?, bytes: world.window(bytes)? })
    }

    /// Every rank changes every rank's words with every operation.
    pub(super) fn atomics(
        &self,
        world: &World,
        slot: usize,
        turns: &[Vec<(u32, u64)>],
    ) -> Result<(), Error> {
        for (target, value) in &turns[world.rank() as usize] {
            let before = self.words.fetch_add(*target, slot, *value)?;
            assert!(self.words.load(*target, slot)? >= before + value, "the sum of rank {target}");
            self.words.fetch_max(*target, slot + 1, *value)?;
            self.words.fetch_or(*target, slot + 2, *value)?;
            self.words.fetch_xor(*target, slot + 3, *value)?;
        }
        world.barrier()?;
        for rank in 0..world.size() {
            let of_rank = turns.iter().flatten().filter(|(target, _)| *target == rank);
            let mut expected = [0; SLOTS];
            for (_, value) in of_rank {
                let [sum, most, or, xor] = expected;
                expected = [sum + value, most.max(*value), or | value, xor ^ value];
            }
            let mut found = [0; SLOTS];
            self.words.get(rank, slot, &mut found)?;
            assert_eq!(found, expected, "words of rank {rank}: sum, most, or, xor");
        }
        Ok(())
    }

    /// A lock at rank 0, a word that it protects and one that needs none.
    pub(super) fn lock(&self, world: &World, slot: usize, rounds: u64) -> Result<(), Error> {
        let own = u64::from(world.rank()) + 1;
        for _ in 0..rounds {
            while self.words.compare_swap(0, slot, 0, own)? != 0 {
                std::thread::yield_now();
            }
            let value = self.words.load(0, slot + 1)?;
            self.words.put(0, slot + 1, &[value + own])?;
            assert_eq!(self.words.swap(0, slot, 0)?, own, "who has the lock");
        }
        world.barrier()?;
        let size = u64::from(world.size());
        let found = self.words.load(0, slot + 1)?;
        assert_eq!(found, rounds * size * (size + 1) / 2, "what the lock protects");
        Ok(())
    }

    /// Every rank puts a block of its own into every rank's memory.
    pub(super) fn puts(
        &self,
        world: &World,
        place: usize,
        length: usize,
        seed: u64,
    ) -> Result<(), Error> {
        let (own, size) = (world.rank(), world.size());
        let name = |from: u32, to: u32| key(seed, &[u64::from(from), u64::from(to)]);
        let at = |from: u32| place + from as usize * length;
        for step in 0..size {
            let to = (own + step) % size;
            self.bytes.put(to, at(own), &message(name(own, to), length))?;
        }
        world.barrier()?;
        let mut found = vec![0; length];
        for step in 0..size {
            let (from, of) = ((own + step) % size, (own + step / 2) % size);
            self.bytes.get(of, at(from), &mut found)?;
            check(name(from, of), &found);
        }
        Ok(())
    }

    /// Puts data, then a word that announces it, to the next rank.
    pub(super) fn signal(
        &self,
        world: &World,
        slot: usize,
        place: usize,
        (length, seed): (usize, u64),
    ) -> Result<(), Error> {
        let (own, size) = (world.rank(), world.size());
        let (next, previous) = ((own + 1) % size, (own + size - 1) % size);
        let name = |rank: u32| key(seed, &[u64::from(rank)]);
        let data = message(name(own), length);
        self.bytes.put_signal(next, place, &data, &self.words, slot, seed | 1)?;
        self.words.wait(slot, previous, |word| word == seed | 1)?;
        let mut found = vec![0; length];
        self.bytes.get(own, place, &mut found)?;
        check(name(previous), &found);
        Ok(())
    }
}
