//! Mixed traffic for any length of time, the same at every rank from one seed.
//!
//! A round is planned by numbers that all ranks draw alike, so that each knows what it has to send
//! and receive, byte for byte. Nothing is left over between rounds, and memory use at the end is
//! that of a quarter of the time.

use std::time::{Duration, Instant};

use hikyaku::{ANY_SOURCE, ANY_TAG, Error, Op, World, join, join_all};
use hikyaku_jobs::Random;
use hikyaku_jobs::pattern::{check, fill, key, message};
use hikyaku_jobs::process::own_memory;

/// Rounds between two readings of the clock.
const ROUNDS: u32 = 16;

/// Most bytes of one rank in one round: limits the size of the test's own buffers.
const MOST_BYTES: usize = 8 << 20;

/// How much more a rank may have resident at the end than after a quarter of the time, bytes: the
/// freed buffers that the allocator keeps vary by about twice a round's bytes.
const SLACK: u64 = 32 << 20;

/// Runs rounds for `seconds`; rank 0 prints how many.
pub(crate) fn run(world: &World, seconds: u64, seed: u64) -> Result<(), Error> {
    let (start, limit) = (Instant::now(), Duration::from_secs(seconds));
    let mut soak = Soak { world, other: world.duplicate(), random: Random::new(seed), round: 0 };
    let mut early = None;
    let mut go = [1u8];
    while go == [1] {
        for _ in 0..ROUNDS {
            soak.round()?;
        }
        if start.elapsed() >= limit / 4 {
            early.get_or_insert_with(|| own_memory("VmRSS"));
        }
        go = [u8::from(start.elapsed() < limit)];
        world.broadcast(&mut go, 0)?;
    }
    let (early, late) = (early.unwrap_or(0).max(SLACK), own_memory("VmRSS"));
    assert!(late <= early + SLACK, "rank {}: {early} bytes grew to {late}", world.rank());
    let left = world.statistics();
    assert_eq!((left.unexpected_messages, left.unexpected_bytes), (0, 0));
    assert_eq!((left.malformed, left.stray), (0, 0));
    if world.rank() == 0 {
        println!("{} rounds, {} messages from rank 0", soak.round, left.messages_sent);
    }
    Ok(())
}

struct Soak<'a> {
    world: &'a World,
    other: World,
    random: Random,
    round: u64,
}

/// One message of a round.
#[derive(Debug, Clone, Copy)]
struct Planned {
    source: u32,
    destination: u32,
    tag: i32,
    length: usize,
    how: How,
    key: u64,
}

#[derive(Debug, Clone, Copy)]
enum How {
    Blocking,
    BlockingSynchronous,
    BlockingReady,
    Request,
    RequestSynchronous,
}

impl Soak<'_> {
    fn round(&mut self) -> Result<(), Error> {
        self.round += 1;
        match self.random.below(8) {
            0..3 => self.exchange(),
            3 => self.many_to_one(),
            4 => self.together(),
            5 => self.conversations(),
            6 => self.shared_buffers(),
            _ => self.cancelled(),
        }
    }

    /// A length: as likely between 1 and 2 bytes as between 1 and 2 MiB, and sometimes zero.
    fn length(&mut self) -> usize {
        let bits = self.random.below(22);
        self.random.below(1 << bits)
    }

    fn rank(&mut self) -> u32 {
        self.random.below(self.world.size() as usize) as u32
    }

    fn plan(&mut self) -> Vec<Planned> {
        let mut bytes = 0;
        let mut messages = Vec::new();
        for number in 0..self.random.below(60) as u64 {
            let hows = [
                How::Blocking,
                How::BlockingSynchronous,
                How::BlockingReady,
                How::Request,
                How::RequestSynchronous,
            ];
            let planned = Planned {
                source: self.rank(),
                destination: self.rank(),
                tag: self.random.below(3) as i32,
                length: self.length(),
                how: self.random.pick(&hows),
                key: key(self.round, &[number]),
            };
            bytes += planned.length;
            if bytes > MOST_BYTES {
                break;
            }
            messages.push(planned);
        }
        messages
    }

    /// Messages between any ranks in every mode; all receives are posted first.
    fn exchange(&mut self) -> Result<(), Error> {
        let plan = self.plan();
        let own = self.world.rank();
        let outgoing: Vec<(Planned, Vec<u8>)> = plan
            .iter()
            .filter(|planned| planned.source == own)
            .map(|planned| (*planned, message(planned.key, planned.length)))
            .collect();
        let mut incoming: Vec<(Planned, Vec<u8>)> = plan
            .iter()
            .filter(|planned| planned.destination == own)
            .map(|planned| (*planned, vec![0; planned.length]))
            .collect();
        let world = self.world;
        world.scope(|scope| {
            let mut open = Vec::new();
            for (planned, into) in &mut incoming {
                open.push(scope.irecv(into, planned.source, planned.tag)?);
            }
            for (planned, data) in &outgoing {
                let Planned { destination, tag, how, .. } = *planned;
                match how {
                    How::Blocking => world.send(data, destination, tag)?,
                    How::BlockingSynchronous => world.ssend(data, destination, tag)?,
                    How::BlockingReady => world.rsend(data, destination, tag)?,
                    How::Request => open.push(scope.isend(data, destination, tag)?),
                    How::RequestSynchronous => open.push(scope.issend(data, destination, tag)?),
                }
            }
            while scope.wait_any(&mut open)?.is_some() {}
            Ok(())
        })?;
        for (planned, heard) in &incoming {
            check(planned.key, heard);
        }
        // A wildcard of the next round must not match messages that others still send in this one.
        world.barrier()
    }

    /// All send to one rank, which receives from any source.
    fn many_to_one(&mut self) -> Result<(), Error> {
        let (root, count) = (self.rank(), self.random.below(300) as u64);
        let most = self.length().min(200_000) + 1;
        let (world, own, size) = (&self.other, self.world.rank(), u64::from(self.world.size()));
        let length = |rank: u32, number: u64| {
            Random::new(key(number, &[u64::from(rank), most as u64])).below(most)
        };
        let named = |rank: u32, number: u64| key(number, &[u64::from(rank), 4]);
        if own != root {
            for number in 0..count {
                let data = message(named(own, number), length(own, number));
                world.send(&data, root, number as i32 % 7)?;
            }
            return world.barrier();
        }
        let (mut seen, mut heard) = (vec![0u64; size as usize], vec![0; most]);
        for _ in 0..count * (size - 1) {
            let received = world.recv(&mut heard, ANY_SOURCE, ANY_TAG)?;
            let number = &mut seen[received.source as usize];
            assert_eq!(received.tag, *number as i32 % 7, "a message overtook another");
            assert_eq!(received.count::<u8>(), length(received.source, *number));
            check(named(received.source, *number), &heard[..received.count::<u8>()]);
            *number += 1;
        }
        world.barrier()
    }

    fn together(&mut self) -> Result<(), Error> {
        let (root, length, own) = (self.rank(), self.length(), u64::from(self.world.rank()));
        let name = key(self.round, &[1]);
        let is_root = own == u64::from(root);
        let mut data = if is_root { message(name, length) } else { vec![0; length] };
        self.world.broadcast(&mut data, root)?;
        check(name, &data);
        let mut sums = vec![own; length / 64 + 1];
        self.world.allreduce(&mut sums, Op::Sum)?;
        let size = u64::from(self.world.size());
        assert!(sums.iter().all(|sum| *sum == size * (size - 1) / 2));
        let mine = message(own, length / 8 * own as usize);
        for (rank, block) in (0..).zip(self.other.gatherv(&mine, root)?.unwrap_or_default()) {
            assert_eq!(block.len(), length / 8 * rank);
            check(rank as u64, &block);
        }
        Ok(())
    }

    /// Futures with all ranks at once.
    fn conversations(&mut self) -> Result<(), Error> {
        let (turns, length) = (self.random.below(20), self.length().min(100_000));
        let (world, own) = (self.world, u64::from(self.world.rank()));
        let talk = async |peer: u32| -> Result<(), Error> {
            let (mut data, mut heard) = (vec![0; length], vec![0; length]);
            for turn in 0..turns as u64 {
                fill(key(turn, &[own]), &mut data);
                let sent = world.send_async(&data, peer, 5);
                let (sent, received) = join(sent, world.recv_async(&mut heard, peer, 5)).await;
                sent?;
                received?;
                check(key(turn, &[u64::from(peer)]), &heard);
            }
            Ok(())
        };
        let talks = (0..world.size()).map(talk).collect();
        world.block_on(join_all(talks)).into_iter().collect()
    }

    /// Out of and into shared buffers, which are allocated and freed every time.
    fn shared_buffers(&mut self) -> Result<(), Error> {
        let (length, distance) = (self.length(), self.rank());
        let (own, size) = (self.world.rank(), self.world.size());
        let (to, from) = ((own + distance) % size, (own + size - distance) % size);
        let (mut data, mut heard) = (self.world.alloc(length)?, self.world.alloc(length)?);
        fill(key(self.round, &[u64::from(own)]), &mut data);
        self.world.sendrecv(&data, to, 6, &mut heard, from, 6)?;
        check(key(self.round, &[u64::from(from)]), &heard);
        Ok(())
    }

    /// Sends and receives that match or are cancelled: no message is received in part.
    fn cancelled(&mut self) -> Result<(), Error> {
        let (length, distance) = (self.length(), self.rank());
        let (own, size, world) = (self.world.rank(), self.world.size(), &self.other);
        let (to, from) = ((own + distance) % size, (own + size - distance) % size);
        let data = message(self.round, length);
        let mut heard = vec![0; length];
        let (sent, received) = world.scope(|scope| {
            let receive = scope.irecv(&mut heard, from, 8)?;
            let send = scope.issend(&data, to, 8)?;
            Ok((send.cancel()?.is_some(), receive.cancel()?.is_some()))
        })?;
        if received {
            check(self.round, &heard);
        }
        let (mut told, mut late) = ([0u8], vec![0; length]);
        world.sendrecv(&[u8::from(sent)], to, 9, &mut told, from, 9)?;
        // A message that was sent and not received arrives whole; a cancelled one does not.
        match (told == [1], received) {
            (true, false) => {
                world.recv(&mut late, from, 8)?;
                check(self.round, &late);
            }
            (sent, received) => assert_eq!(sent, received, "a message that was taken back came"),
        }
        world.barrier()
    }
}
