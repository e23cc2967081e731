//! One rank's part of a program.

use std::thread;
use std::time::{Duration, Instant};

use hikyaku::{Collective, Error, Request, Scope, World};
use rustix::process::{Signal, getpid, kill_process};

use super::calls::{Call, Work};
use super::edges;
use super::forms;
use super::memory::{Variables, Windows};
use super::messages;
use super::plan::{Act, DUPLICATES, Message, Program, Step, WILD};
use crate::Random;
use crate::pattern::{key, message};

/// How a rank's part has ended.
#[derive(Debug)]
pub enum End {
    /// Everything was done.
    Done,
    /// The plan lets it leave earlier.
    Left,
    /// A call failed in the step with this number.
    Failed(u32, Error),
}

/// Runs this rank's part. `at` is called with the number of each step before it begins.
///
/// # Panics
/// A value differs from the plan.
pub fn run(world: &World, program: &Program, at: &dyn Fn(u32)) -> End {
    assert_eq!(world.size(), program.ranks, "the ranks of the program");
    let comms: Vec<World> = (0..=DUPLICATES).map(|_| world.duplicate()).collect();
    at(0);
    let started = Rank::new(world, &comms, program, at);
    let mut rank = match started {
        Ok(rank) => rank,
        Err(error) => return End::Failed(0, error),
    };
    match rank.steps(&program.steps).and_then(|()| rank.end(program)) {
        Ok(()) => End::Done,
        Err(Stop::Left) => End::Left,
        Err(Stop::Error(number, error)) => End::Failed(number, error),
    }
}

enum Stop {
    Left,
    Error(u32, Error),
}

struct Rank<'w> {
    /// The world and its duplicates.
    comms: Vec<&'w World>,
    variables: Variables,
    windows: Option<Windows<'w>>,
    at: &'w dyn Fn(u32),
    seed: u64,
    /// The thread that will kill this rank.
    killer: Option<thread::JoinHandle<()>>,
}

impl<'w> Rank<'w> {
    fn new(
        world: &'w World,
        duplicates: &'w [World],
        program: &Program,
        at: &'w dyn Fn(u32),
    ) -> Result<Rank<'w>, Error> {
        let comms = std::iter::once(world).chain(duplicates).collect();
        let variables = Variables::new(world, program)?;
        let uses_windows = program.has(&["atomics", "lock", "puts", "signal"]);
        let windows = uses_windows.then(|| Windows::new(world, program)).transpose()?;
        Ok(Rank { comms, variables, windows, at, seed: program.seed, killer: None })
    }

    fn steps(&mut self, steps: &[Step]) -> Result<(), Stop> {
        for step in steps {
            (self.at)(step.number);
            if matches!(step.act, Act::Leave { rank } if rank == self.world().rank()) {
                return Err(Stop::Left);
            }
            self.step(step)?;
        }
        Ok(())
    }

    /// After all steps: nothing is left over, and variables have the expected sums.
    fn end(&mut self, program: &Program) -> Result<(), Stop> {
        (self.at)(u32::MAX);
        let failed = |error| Stop::Error(u32::MAX, error);
        if let Some(killer) = self.killer.take() {
            // It does not return.
            let _ = killer.join();
        }
        self.variables.settle_all(self.world()).map_err(failed)?;
        // A protocol's last messages may still wait for this rank's next call.
        if !program.loses_a_rank() && program.variables.is_empty() {
            let left = self.world().statistics();
            assert_eq!((left.unexpected_messages, left.unexpected_bytes), (0, 0), "left over");
            assert_eq!((left.malformed, left.stray), (0, 0), "malformed and stray");
        }
        Ok(())
    }

    fn world(&self) -> &'w World {
        self.comms[0]
    }

    fn step(&mut self, step: &Step) -> Result<(), Stop> {
        match &step.act {
            Act::Flight { calls, messages, within, order } => {
                return self.flight(step.number, (calls, messages), within, *order);
            }
            Act::Unmatched { from, to, count, length, before } => {
                return self.unmatched(step.number, (*from, *to), (*count, *length), before);
            }
            _ => {}
        }
        self.simple(step).map_err(|error| Stop::Error(step.number, error))
    }

    /// Runs a step that has no others within it.
    fn simple(&mut self, step: &Step) -> Result<(), Error> {
        let world = self.world();
        let (tag, seed) = (first_tag(step.number), key(self.seed, &[u64::from(step.number)]));
        let windows = || self.windows.as_ref().expect("made if there is such a step");
        match &step.act {
            Act::Messages(list) => messages::in_order(world, list),
            Act::Requests { messages, receive_first, order } => {
                messages::requests(world, messages, *receive_first, *order)
            }
            Act::Ready(list) => messages::ready(world, list),
            Act::ToOne { root, count, most } => {
                messages::to_one(self.comms[WILD], *root, *count, *most, seed)
            }
            Act::Futures { turns, length } => messages::futures(world, tag, *turns, *length, seed),
            Act::Around { distance, length, shared } => {
                messages::around(world, tag, *distance, (*length, *shared), seed)
            }
            Act::Cancelled { distance, length } => {
                messages::cancelled(world, tag, *distance, *length, seed)
            }
            Act::Collective(comm, call) => {
                let mut work = Work::new(*call, world.rank(), world.size(), 0);
                forms::blocking(self.comms[*comm], &mut work)?;
                work.check();
                Ok(())
            }
            Act::Persistent { call, rounds } => forms::persistent(world, *call, *rounds),
            Act::Acquire { .. } => self.variables.acquire(world, &step.act),
            Act::Atomics { slot, turns } => windows().atomics(world, *slot, turns),
            Act::Lock { slot, rounds } => windows().lock(world, *slot, *rounds),
            Act::Puts { place, length } => windows().puts(world, *place, *length, seed),
            Act::Signal { slot, place, length } => {
                windows().signal(world, *slot, *place, (*length, seed))
            }
            Act::Exchange { edges, rounds, kind } => {
                edges::exchange(world, edges, *rounds, *kind, seed)
            }
            Act::Grid { dims, periods, length } => edges::grid(world, dims, periods, *length, seed),
            Act::Graph { edges, length } => edges::graph(world, edges, *length, seed),
            Act::Pause { micros, computing } => {
                spend(world, micros[world.rank() as usize], *computing);
                Ok(())
            }
            Act::Kill { rank, micros } => {
                if *rank == world.rank() {
                    self.killer = Some(die_in(*micros));
                }
                Ok(())
            }
            Act::Leave { .. } | Act::Flight { .. } | Act::Unmatched { .. } => Ok(()),
        }
    }

    /// Messages without a posted receive while other steps are done.
    fn unmatched(
        &mut self,
        number: u32,
        (from, to): (u32, u32),
        (count, length): (usize, usize),
        before: &[Step],
    ) -> Result<(), Stop> {
        let (world, seed) = (self.world(), key(self.seed, &[u64::from(number)]));
        let tag = |at: usize| first_tag(number) + at as i32;
        let mut stopped = None;
        let sent: Vec<Vec<u8>> = match world.rank() == from {
            true => (0..count).map(|at| message(key(seed, &[at as u64]), length)).collect(),
            false => Vec::new(),
        };
        let done = world.scope(|scope| {
            for (at, data) in sent.iter().enumerate() {
                scope.isend(data, to, tag(at))?;
            }
            if let Err(stop) = self.steps(before) {
                return Err(kept(&mut stopped, stop));
            }
            if world.rank() == to {
                let mut heard = vec![0; length];
                for at in (0..count).rev() {
                    world.recv(&mut heard, from, tag(at))?;
                    crate::pattern::check(key(seed, &[at as u64]), &heard);
                }
            }
            Ok(())
        });
        done.map_err(|error| stopped.unwrap_or(Stop::Error(number, error)))
    }

    /// Collectives on duplicates and messages in flight, and other steps meanwhile.
    fn flight(
        &mut self,
        number: u32,
        (calls, messages): (&[(usize, Call)], &[Message]),
        within: &[Step],
        order: u64,
    ) -> Result<(), Stop> {
        let world = self.world();
        let (rank, size) = (world.rank(), world.size());
        let work = |(_, call): &(usize, Call)| Work::new(*call, rank, size, 0);
        let mut works: Vec<Work> = calls.iter().map(work).collect();
        let (out, mut into) =
            (messages::outgoing(world, messages), messages::incoming(world, messages));
        let (one, two, three) = (self.comms[1], self.comms[2], self.comms[3]);
        let (started, received) = (&mut works[..], &mut into);
        let mut random = Random::new(order ^ u64::from(rank));
        let mut stopped = None;
        let done = world.scope(|scope| {
            let receives = messages::start_receives(scope, received)?;
            one.scope(|a| {
                two.scope(|b| {
                    three.scope(|c| {
                        let mut open: Vec<Waiting<'_>> =
                            receives.into_iter().map(request).collect();
                        for ((comm, _), work) in calls.iter().zip(started) {
                            open.push(match comm {
                                1 => collective(one, a, work),
                                2 => collective(two, b, work),
                                _ => collective(three, c, work),
                            });
                        }
                        open.extend(messages::start_sends(scope, &out)?.into_iter().map(request));
                        if let Err(stop) = self.steps(within) {
                            return Err(kept(&mut stopped, stop));
                        }
                        while !open.is_empty() {
                            open.swap_remove(random.below(open.len()))()?;
                        }
                        Ok(())
                    })
                })
            })
        });
        done.map_err(|error| stopped.unwrap_or(Stop::Error(number, error)))?;
        works.iter().for_each(Work::check);
        messages::check_all(&into);
        Ok(())
    }
}

/// A wait for something in flight.
type Waiting<'a> = Box<dyn FnOnce() -> Result<(), Error> + 'a>;

fn request(request: Request<'_>) -> Waiting<'_> {
    Box::new(move || request.wait().map(drop))
}

fn collective<'scope>(
    world: &World,
    scope: &'scope Scope<'scope, '_>,
    work: &'scope mut Work,
) -> Waiting<'scope> {
    let started = forms::start(world, scope, work);
    Box::new(move || Collective::wait(started))
}

/// Keeps the place of the stop, and returns an error that ends the scope.
fn kept(stopped: &mut Option<Stop>, stop: Stop) -> Error {
    let error = match &stop {
        Stop::Error(_, error) => error.clone(),
        Stop::Left => unreachable!("nobody leaves within a step"),
    };
    *stopped = Some(stop);
    error
}

/// The first of the 1,024 tags of a step.
pub(super) fn first_tag(number: u32) -> i32 {
    number as i32 * 1024
}

/// Lets this many microseconds pass, in virtual time too.
#[expect(clippy::disallowed_methods, reason = "nothing is waited for: others are to come")]
pub(super) fn spend(world: &World, micros: u64, computing: bool) {
    let span = Duration::from_micros(micros);
    world.compute(span);
    if !computing {
        return thread::sleep(span);
    }
    let start = Instant::now();
    while start.elapsed() < span {
        std::hint::spin_loop();
    }
}

/// Kills this process this many microseconds from now.
#[expect(clippy::disallowed_methods, reason = "a death at any moment is what is wanted")]
fn die_in(micros: u64) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        thread::sleep(Duration::from_micros(micros));
        let _ = kill_process(getpid(), Signal::KILL);
    })
}
