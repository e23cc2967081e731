//! Everything in flight at once: messages, collectives of several kinds on duplicates, a window and
//! a shared variable, in a different order at each rank.
//!
//! A round is planned by numbers that all ranks draw alike, so that each knows what it has to send
//! and receive. The order of a rank's waits, and its use of the window and the variable meanwhile,
//! are drawn by the rank alone: a round is started completely before any part of it is waited for,
//! so every order is valid.

use hikyaku::{Collective, Error, Op, Request, Scope, Shared, Window, World};
use hikyaku_jobs::Random;

/// Most elements of a message or of a rank's part of a collective.
const MOST: usize = 64;

/// Most messages, collectives and other acts of a round, times its width.
const MESSAGES: usize = 12;
const COLLECTIVES: usize = 5;
const ACTS: usize = 8;

/// One message of a round.
#[derive(Debug, Clone, Copy)]
struct Planned {
    name: u64,
    source: u32,
    destination: u32,
    tag: i32,
    length: usize,
    how: How,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Standard,
    Synchronous,
    Blocking,
}

/// One collective of a round, on one of two duplicates.
#[derive(Debug, Clone, Copy)]
struct Together {
    name: u64,
    kind: Kind,
    on_second: bool,
    root: u32,
    length: usize,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Barrier,
    Broadcast,
    Reduce,
    Allreduce,
    Allgather,
    Alltoall,
    Scan,
}

/// An action of a rank while all of a round is in flight.
#[derive(Debug, Clone, Copy)]
enum Act {
    Add,
    Put,
    Write,
    Read,
    /// A blocking collective on the third duplicate.
    Block,
    WaitForMessage,
    WaitForCollective,
}

/// The communicators: of messages, of collectives in flight, and of blocking ones.
struct Worlds<'w> {
    messages: &'w World,
    first: World,
    second: World,
    third: World,
}

/// This rank's random numbers, and its state.
struct Mix<'w> {
    worlds: &'w Worlds<'w>,
    window: Window<'w, u64>,
    shared: Shared<u64>,
    /// Drawn alike by all ranks, and drawn by this one alone.
    common: Random,
    own: Random,
    /// Added to the first element of each rank's part of the window, and to the variable.
    added: Vec<u64>,
    written: u64,
    width: usize,
}

/// Runs `rounds` rounds of a seed, each up to `width` times as wide as the smallest.
pub(crate) fn run(world: &World, seed: u64, rounds: u64, width: usize) -> Result<(), Error> {
    let [first, second, third] = [(); 3].map(|()| world.duplicate());
    let worlds = Worlds { messages: world, first, second, third };
    let ranks = world.size() as usize;
    let mut mix = Mix {
        worlds: &worlds,
        window: world.window(1 + MOST * ranks)?,
        shared: world.shared("mixed", &[MOST as u64])?,
        common: Random::new(seed),
        own: Random::new(seed << 16 | u64::from(world.rank() + 1)),
        added: vec![0; ranks],
        written: 0,
        width: 1,
    };
    for round in 0..rounds {
        mix.width = 1 + mix.common.below(width);
        mix.round(round)?;
    }
    mix.settle()?;
    let left = world.statistics();
    assert_eq!((left.unexpected_messages, left.malformed, left.stray), (0, 0, 0));
    if world.rank() == 0 {
        println!("every value was right of seed {seed}");
    }
    Ok(())
}

/// The data that the rank sends, or contributes, under a name.
fn contents(name: u64, rank: u32, length: usize) -> Vec<u64> {
    (0..length as u64).map(|at| name << 20 | u64::from(rank) << 10 | at).collect()
}

fn start<'scope>(
    scope: &'scope Scope<'scope, '_>,
    planned: &Together,
    [data, into]: &'scope mut [Vec<u64>; 2],
) -> Collective<'scope> {
    match planned.kind {
        Kind::Barrier => scope.ibarrier(),
        Kind::Broadcast => scope.ibroadcast(data, planned.root),
        Kind::Reduce => scope.ireduce(data, Op::Sum, planned.root),
        Kind::Allreduce => scope.iallreduce(data, Op::Sum),
        Kind::Allgather => scope.iallgather(data, into),
        Kind::Alltoall => scope.ialltoall(data, into),
        Kind::Scan => scope.iscan(data, Op::Sum),
    }
}

impl Mix<'_> {
    fn size(&self) -> usize {
        self.added.len()
    }

    fn any_rank(&mut self) -> u32 {
        self.common.below(self.size()) as u32
    }

    fn plan_messages(&mut self, round: u64) -> Vec<Planned> {
        let count = self.common.below(MESSAGES * self.width + 1) as u64;
        let planned = |at| Planned {
            name: round << 12 | at,
            source: self.any_rank(),
            destination: self.any_rank(),
            tag: at as i32,
            length: self.common.below(MOST + 1),
            how: self.common.pick(&[How::Standard, How::Synchronous, How::Blocking]),
        };
        (0..count).map(planned).collect()
    }

    fn plan_collectives(&mut self, round: u64) -> Vec<Together> {
        use Kind::{Allgather, Allreduce, Alltoall, Barrier, Broadcast, Reduce, Scan};
        let kinds = [Barrier, Broadcast, Reduce, Allreduce, Allgather, Alltoall, Scan];
        let count = self.common.below(COLLECTIVES * self.width + 1) as u64;
        let planned = |at| Together {
            name: round << 12 | at,
            kind: self.common.pick(&kinds),
            on_second: self.common.below(2) == 1,
            root: self.any_rank(),
            length: 1 + self.common.below(MOST),
        };
        (0..count).map(planned).collect()
    }

    /// A rank's contribution to a collective, and room for its result.
    fn buffers(&self, planned: &Together) -> [Vec<u64>; 2] {
        let Together { name, kind, root, length, .. } = *planned;
        let own = self.worlds.messages.rank();
        match kind {
            Kind::Barrier => [Vec::new(), Vec::new()],
            Kind::Broadcast if own != root => [vec![0; length], Vec::new()],
            Kind::Alltoall => {
                let all = self.size() * length;
                [contents(name, own, all), vec![0; all]]
            }
            _ => [contents(name, own, length), vec![0; self.size() * length]],
        }
    }

    /// Checks the result of a collective.
    fn check(&self, planned: &Together, [data, into]: &[Vec<u64>; 2]) {
        let Together { name, kind, root, length, .. } = *planned;
        let (own, size) = (self.worlds.messages.rank(), self.size() as u32);
        let sum = |ranks: u32| {
            let all: Vec<_> = (0..ranks).map(|rank| contents(name, rank, length)).collect();
            (0..length).map(|at| all.iter().map(|part| part[at]).sum()).collect::<Vec<u64>>()
        };
        match kind {
            Kind::Barrier => {}
            Kind::Broadcast => assert_eq!(*data, contents(name, root, length), "{planned:?}"),
            Kind::Reduce if own != root => {}
            Kind::Reduce | Kind::Allreduce => assert_eq!(*data, sum(size), "{planned:?}"),
            Kind::Scan => assert_eq!(*data, sum(own + 1), "{planned:?}"),
            Kind::Allgather => {
                let all = (0..size).flat_map(|rank| contents(name, rank, length));
                assert!(into.iter().copied().eq(all), "{planned:?}");
            }
            Kind::Alltoall => {
                let part = own as usize * length..(own as usize + 1) * length;
                let whole = size as usize * length;
                let all =
                    (0..size).flat_map(|rank| contents(name, rank, whole)[part.clone()].to_vec());
                assert!(into.iter().copied().eq(all), "{planned:?}");
            }
        }
    }

    /// The acts of a round, in this rank's own order.
    fn acts(&mut self, messages: usize, collectives: usize) -> Vec<Act> {
        let mut acts = vec![Act::WaitForMessage; messages];
        acts.extend(vec![Act::WaitForCollective; collectives]);
        acts.extend(vec![Act::Block; self.common.below(2 * self.width)]);
        for _ in 0..self.own.below(ACTS * self.width + 1) {
            acts.push(self.own.pick(&[Act::Add, Act::Put, Act::Write, Act::Read]));
        }
        for at in (1..acts.len()).rev() {
            let other = self.own.below(at + 1);
            acts.swap(at, other);
        }
        acts
    }

    /// Starts and ends all of a round.
    fn round(&mut self, round: u64) -> Result<(), Error> {
        let (messages, collectives) = (self.plan_messages(round), self.plan_collectives(round));
        let worlds = self.worlds;
        let own = worlds.messages.rank();
        let (outgoing, incoming): (Vec<_>, Vec<_>) = (
            messages.iter().filter(|planned| planned.source == own).collect(),
            messages.iter().filter(|planned| planned.destination == own).collect(),
        );
        let sent: Vec<Vec<u64>> =
            outgoing.iter().map(|planned| contents(planned.name, own, planned.length)).collect();
        let mut heard: Vec<Vec<u64>> =
            incoming.iter().map(|planned| vec![0; planned.length]).collect();
        let mut buffers: Vec<_> = collectives.iter().map(|planned| self.buffers(planned)).collect();
        let acts = self.acts(incoming.len() + outgoing.len(), collectives.len());
        worlds.first.scope(|first| {
            worlds.second.scope(|second| {
                worlds.messages.scope(|scope| {
                    let mut requests = Vec::new();
                    for (planned, into) in incoming.iter().zip(&mut heard) {
                        requests.push(scope.irecv(into, planned.source, planned.tag)?);
                    }
                    let mut together = Vec::new();
                    for (planned, buffers) in collectives.iter().zip(&mut buffers) {
                        together.push(match planned.on_second {
                            true => start(second, planned, buffers),
                            false => start(first, planned, buffers),
                        });
                    }
                    for (planned, data) in outgoing.iter().zip(&sent) {
                        let Planned { destination, tag, how, .. } = **planned;
                        match how {
                            How::Standard => requests.push(scope.isend(data, destination, tag)?),
                            How::Synchronous => {
                                requests.push(scope.issend(data, destination, tag)?);
                            }
                            How::Blocking => worlds.messages.send(data, destination, tag)?,
                        }
                    }
                    acts.into_iter().try_for_each(|act| self.act(act, &mut requests, &mut together))
                })
            })
        })?;
        for (planned, heard) in incoming.iter().zip(&heard) {
            assert_eq!(*heard, contents(planned.name, planned.source, planned.length));
        }
        collectives.iter().zip(&buffers).for_each(|(planned, both)| self.check(planned, both));
        Ok(())
    }

    /// One action while everything is in flight.
    fn act(
        &mut self,
        act: Act,
        requests: &mut Vec<Request<'_>>,
        together: &mut Vec<Collective<'_>>,
    ) -> Result<(), Error> {
        let own = self.worlds.messages.rank();
        match act {
            Act::WaitForMessage => {
                if !requests.is_empty() {
                    requests.swap_remove(self.own.below(requests.len())).wait()?;
                }
            }
            Act::WaitForCollective => {
                together.swap_remove(self.own.below(together.len())).wait()?;
            }
            Act::Block => {
                let mut sum = [1u64];
                self.worlds.third.allreduce(&mut sum, Op::Sum)?;
                assert_eq!(sum, [self.size() as u64]);
            }
            Act::Add => {
                let to = self.own.below(self.size());
                self.window.fetch_add(to as u32, 0, 1)?;
                self.added[to] += 1;
            }
            Act::Put => {
                // A place in every other rank's part that belongs to this rank.
                let (to, at) = (self.own.below(self.size()) as u32, 1 + MOST * own as usize);
                let data = contents(self.own.draw() >> 44, own, 1 + self.own.below(MOST));
                let mut found = vec![0; data.len()];
                self.window.put(to, at, &data)?;
                self.window.get(to, at, &mut found)?;
                assert_eq!(found, data);
            }
            Act::Write => {
                self.shared.write()?.iter_mut().for_each(|value| *value += 1);
                self.written += 1;
            }
            Act::Read => {
                let guard = self.shared.read()?;
                assert!(guard.iter().all(|value| *value == guard[0]), "torn: {:?}", &*guard);
                assert!(guard[0] >= self.written, "old");
            }
        }
        Ok(())
    }

    /// Checks the sums that all ranks have added.
    fn settle(&mut self) -> Result<(), Error> {
        let world = self.worlds.messages;
        let mut all = self.added.clone();
        all.push(self.written);
        world.allreduce(&mut all, Op::Sum)?;
        let own = world.rank();
        assert_eq!(self.window.load(own, 0)?, all[own as usize]);
        assert_eq!(self.shared.read()?[0], all[self.size()]);
        world.barrier()
    }
}
