//! All uses of shared memory by a program, for a test that overwrites that memory.
//!
//! Received contents are not checked, because they may be anything. Their lengths are.

use std::time::{Duration, Instant};

use hikyaku::persistent::{Exchange, Neighbours, Scheme, StagedExchange};
use hikyaku::shared::{Protocol, SharedOptions};
use hikyaku::{ANY_SOURCE, Error, Op, Persistent, Shared, Window, World};
use hikyaku_jobs::Random;

/// Lengths of messages: in a record, in a packet of the ring, in several, too long for any ring.
const LENGTHS: [usize; 5] = [8, 40, 1_000, 40_000, 300_000];

/// Elements of a variable and of a window.
const ELEMENTS: usize = 600;

/// A rank's part of all operations.
struct Part<'w> {
    world: &'w World,
    beside: World,
    window: Window<'w, u64>,
    variables: Vec<Shared<u64>>,
    shared: Vec<Exchange<u64>>,
    staged: Vec<StagedExchange<u64>>,
    persistent: PersistentCalls,
    /// Drawn alike by all ranks.
    random: Random,
}

/// Collectives that are started many times. They use session queues, if the job chooses them.
struct PersistentCalls {
    barrier: Persistent<()>,
    broadcast: Persistent<Vec<u64>>,
    allgather: Persistent<(Vec<u64>, Vec<u64>)>,
    allreduce: Persistent<Vec<u64>>,
}

/// Time limit of a rank: overwritten words may make every wait take a hundred times as long.
const LONG: Duration = Duration::from_secs(2);

/// Runs `rounds` rounds, whose contents follow from the seed; with a variable of each of these
/// protocols.
pub(crate) fn run(world: &World, seed: u64, rounds: u64, protocols: &str) -> Result<(), Error> {
    let start = Instant::now();
    let mut part = Part::new(world, seed, protocols)?;
    for round in 0..rounds {
        if start.elapsed() > LONG {
            return Ok(());
        }
        match part.random.below(10) {
            0 => part.messages(round)?,
            1 => part.requests(round)?,
            2 => part.any_source(round)?,
            3 => part.together()?,
            4 => part.together_later()?,
            5 => part.windows(round)?,
            6 => part.acquire(round)?,
            7 => part.again_and_again()?,
            8 => part.landing()?,
            _ => part.exchange()?,
        }
    }
    world.barrier()
}

impl Part<'_> {
    fn new<'w>(world: &'w World, seed: u64, protocols: &str) -> Result<Part<'w>, Error> {
        let mut variables = Vec::new();
        for name in protocols.split(',') {
            let protocol: Protocol = name.parse().expect("a test names protocols");
            let options = SharedOptions { protocol: Some(protocol), ..SharedOptions::default() };
            variables.push(world.shared_with(name, &[ELEMENTS as u64], options)?);
        }
        let (left, right) = around(world);
        let (mut shared, mut staged) = (Vec::new(), Vec::new());
        for (scheme, length) in [
            (Some(Scheme::Fast), 1),
            (Some(Scheme::Mrc), 9_000),
            (Some(Scheme::Combined), 300),
            (Some(Scheme::Messages), 2_000),
            (None, 70),
        ] {
            let mut neighbours = Neighbours::even(&[left, right], &[right, left], length);
            neighbours.scheme = scheme;
            let (out, into) = (world.alloc(2 * length)?, world.alloc(2 * length)?);
            shared.push(world.exchange_init(&neighbours, out, into)?);
            staged.push(world.staged_exchange_init(&neighbours)?);
        }
        let persistent = PersistentCalls {
            barrier: world.barrier_init(),
            broadcast: world.broadcast_init(vec![1; ELEMENTS], 0),
            allgather: world.allgather_init(vec![1], vec![0; world.size() as usize]),
            allreduce: world.allreduce_init(vec![1; ELEMENTS], Op::Sum),
        };
        let (beside, window) = (world.duplicate(), world.window(ELEMENTS)?);
        let random = Random::new(seed);
        Ok(Part { world, beside, window, variables, shared, staged, persistent, random })
    }

    /// Blocking, around the ring.
    fn messages(&mut self, round: u64) -> Result<(), Error> {
        let (world, (left, right)) = (self.world, around(self.world));
        let length = self.random.pick(&LENGTHS);
        let (data, mut into) = (vec![round as u8; length], vec![0u8; length]);
        let heard = world.sendrecv(&data, right, 1, &mut into, left, 1)?;
        assert!(heard.bytes <= length as u64, "{heard:?}");
        Ok(())
    }

    /// Several messages in flight between each two ranks.
    fn requests(&mut self, round: u64) -> Result<(), Error> {
        let lengths: Vec<usize> = (0..4).map(|_| self.random.pick(&LENGTHS)).collect();
        let data = vec![round as u8; LENGTHS[4]];
        let others = || (0..self.world.size()).filter(|rank| *rank != self.world.rank());
        let mut all: Vec<(u32, i32, Vec<u8>)> = others()
            .flat_map(|rank| (10..).zip(&lengths).map(move |(tag, length)| (rank, tag, *length)))
            .map(|(rank, tag, length)| (rank, tag, vec![0; length]))
            .collect();
        self.world.scope(|scope| {
            let mut requests = Vec::new();
            for (rank, tag, into) in &mut all {
                requests.push((into.len(), scope.irecv(into, *rank, *tag)?));
            }
            for rank in others() {
                for (tag, length) in (10..).zip(&lengths) {
                    scope.isend(&data[..*length], rank, tag)?;
                }
            }
            for (room, request) in requests {
                let heard = request.wait()?;
                assert!(heard.bytes <= room as u64, "{heard:?}");
            }
            scope.wait_all()
        })
    }

    /// Messages to a rank that receives from any source.
    fn any_source(&mut self, round: u64) -> Result<(), Error> {
        let (world, length) = (self.world, self.random.pick(&LENGTHS[..3]));
        let root = self.random.below(world.size() as usize) as u32;
        if world.rank() != root {
            return world.send(&vec![round as u8; length], root, 3);
        }
        let mut into = [0u8; LENGTHS[2]];
        for _ in 1..world.size() {
            let heard = world.recv(&mut into, ANY_SOURCE, 3)?;
            assert!(heard.source < world.size() && heard.bytes <= LENGTHS[2] as u64, "{heard:?}");
        }
        Ok(())
    }

    /// Blocking collectives, on shared lines, in areas and by messages.
    fn together(&mut self) -> Result<(), Error> {
        let (world, size) = (self.world, self.world.size() as usize);
        let length = self.random.pick(&[1, 10, 1_000, 30_000]);
        let root = self.random.below(size) as u32;
        let mut data = vec![1u64; length];
        world.barrier()?;
        world.allreduce(&mut data, Op::Sum)?;
        world.broadcast(&mut data, root)?;
        world.reduce(&mut data, Op::Max, root)?;
        world.scan(&mut data, Op::Sum)?;
        world.alltoall(&vec![2u64; size * length], &mut vec![0; size * length])?;
        world.allgather(&data, &mut vec![0; size * length])
    }

    /// Collectives in flight on two communicators.
    fn together_later(&mut self) -> Result<(), Error> {
        let length = self.random.pick(&[1, 10, 1_000, 30_000]);
        let [mut sum, mut told] = [(); 2].map(|()| vec![1u64; length]);
        let (world, beside) = (self.world, &self.beside);
        world.scope(|first| {
            beside.scope(|second| {
                let both = [second.iallreduce(&mut sum, Op::Sum), first.ibroadcast(&mut told, 0)];
                let barriers = [first.ibarrier(), second.ibarrier()];
                both.into_iter().chain(barriers).try_for_each(|one| one.wait())
            })
        })
    }

    /// Writes to the next rank's memory, and waits for a word that the previous rank changes.
    fn windows(&mut self, round: u64) -> Result<(), Error> {
        let (window, (left, right)) = (&self.window, around(self.world));
        let mut into = [0; ELEMENTS - 1];
        window.put(right, 1, &[round; ELEMENTS - 1])?;
        window.get(right, 1, &mut into)?;
        window.fetch_add(right, 1, 1)?;
        window.compare_swap(right, 2, round, 1)?;
        window.fetch_max(right, 0, round + 1)?;
        window.wait(0, left, |heard| heard > round).map(drop)
    }

    /// Acquires a variable of each protocol.
    fn acquire(&mut self, round: u64) -> Result<(), Error> {
        for shared in &self.variables {
            for _ in 0..3 {
                shared.write()?.fill(round);
            }
            let guard = shared.read()?;
            assert_eq!(guard.len(), ELEMENTS);
        }
        Ok(())
    }

    /// Runs persistent collectives.
    fn again_and_again(&mut self) -> Result<(), Error> {
        let PersistentCalls { barrier, broadcast, allgather, allreduce } = &mut self.persistent;
        barrier.start()?;
        broadcast.start()?;
        allgather.start()?;
        allreduce.start()?;
        allreduce.wait()?;
        allgather.wait()?;
        broadcast.wait()?;
        barrier.wait()
    }

    /// Redirects a source to another ring.
    fn landing(&mut self) -> Result<(), Error> {
        let (landing, source) = (self.world.landing(), around(self.world).0);
        if landing.rings().iter().any(|ring| ring.shared) {
            match self.random.below(2) {
                0 => landing.share(source)?,
                _ => landing.give(source)?,
            };
        }
        Ok(())
    }

    /// Exchanges by command queues, by letters and by messages.
    fn exchange(&mut self) -> Result<(), Error> {
        for exchange in &mut self.shared {
            exchange.start()?;
            exchange.wait()?;
        }
        let mut data = vec![7; 18_000];
        for exchange in &mut self.staged {
            exchange.start_from(&data)?;
            exchange.wait_into(&mut data)?;
        }
        Ok(())
    }
}

/// The neighbour ranks.
fn around(world: &World) -> (u32, u32) {
    let (rank, size) = (world.rank(), world.size());
    ((rank + size - 1) % size, (rank + 1) % size)
}
