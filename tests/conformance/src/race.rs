//! Remote operations under contention: a thread per rank, and blocked targets.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use hikyaku_nic::fabric::{
    Advance, AtomicOp, Command, ContextError, CopyPort, Fault, Integer, Key, MemoryPort,
    Notification, Port, PostError, RegisterValue, RemoteAddress, Rights, Space,
};
use hikyaku_nic::time::Time;

use crate::access::atomic;
use crate::job::pattern;
use crate::threads::{Worker, run};
use crate::{Harness, Setup, TablePort};

/// A value that rank 0 passes to every other rank, outside the fabric.
struct Gift<T> {
    senders: Mutex<Vec<SyncSender<T>>>,
    receivers: Vec<Mutex<Receiver<T>>>,
}

impl<T: Clone> Gift<T> {
    fn new(ranks: u32) -> Gift<T> {
        let (senders, receivers) = (1..ranks).map(|_| sync_channel(1)).unzip();
        let receivers: Vec<Receiver<T>> = receivers;
        Gift {
            senders: Mutex::new(senders),
            receivers: receivers.into_iter().map(Mutex::new).collect(),
        }
    }

    fn give(&self, value: &T) {
        for sender in self.senders.lock().expect("nobody panics with it").iter() {
            sender.send(value.clone()).expect("the others wait for it");
        }
    }

    /// Blocks the thread, although its port might have work.
    fn take(&self, rank: u32) -> T {
        let receiver = self.receivers[rank as usize - 1].lock().expect("it is this rank's own");
        receiver.recv().expect("rank 0 gives it")
    }
}

impl<P: MemoryPort> Worker<'_, P> {
    /// [`MemoryPort::fetch`], with retries.
    fn fetch(&mut self, target: RemoteAddress, operation: AtomicOp, operand: u64) -> u64 {
        let atomic = atomic(target, Integer::U64, operation, operand);
        loop {
            match self.port.fetch(&atomic) {
                Ok(old) => return old,
                Err(PostError::Full { .. }) => self.step(),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Registers zeros of this rank for the others.
    fn register(&mut self, length: usize) -> (hikyaku_nic::region::RegionBuffer, Key) {
        let mut buffer = self.port.allocate(length).expect("the region has room");
        buffer.fill(0);
        let context = self.port.open_context().expect("a context is free");
        let key = self.port.register(context, buffer.offset(), length as u64, Rights::ALL);
        (buffer, key.expect("the context is empty"))
    }
}

fn segment(key: Key, offset: u64) -> RemoteAddress {
    RemoteAddress { rank: 0, space: Space::Segment(key), offset }
}

/// Every operation takes effect while the target's thread is blocked outside the library.
pub fn cj_03_operations_need_no_processor_of_the_target<H: Harness>(harness: &H) {
    const RANKS: u32 = 3;
    const ROUNDS: u64 = 200;
    let (gift, done) = (Gift::new(RANKS), Mutex::new(sync_channel(RANKS as usize)));
    run(harness, &Setup::private(RANKS), |worker| {
        let rank = worker.port.rank();
        if rank == 0 {
            let (buffer, key) = worker.register(4096);
            let context = key.context;
            let value = RegisterValue { segment: key, offset: 1024, advance: Advance::ByLength };
            worker.port.set_address_register(context, 0, Some(value)).expect("it is inside");
            let register = worker.port.register_key(context, 0).expect("it exists");
            let finished = done.lock().expect("only this rank locks it");
            gift.give(&(key, register, finished.0.clone()));
            for _ in 1..RANKS {
                finished.1.recv().expect("every rank says when it is done");
            }
            let word = |at: usize| u64::from_le_bytes(buffer[at..at + 8].try_into().expect("8"));
            assert_eq!(word(0), u64::from(RANKS - 1) * ROUNDS);
            let marks: u64 = (0..ROUNDS as usize).map(|n| word(1024 + 8 * n)).sum();
            assert_eq!(marks, (RANKS as u64 - 1) * (0..ROUNDS / 2).sum::<u64>());
            return;
        }
        let (key, register, finished): (Key, Key, SyncSender<()>) = gift.take(rank);
        let through = RemoteAddress { rank: 0, space: Space::Register(register), offset: 0 };
        let line = 64 * u64::from(rank);
        for round in 0..ROUNDS {
            worker.fetch(segment(key, 0), AtomicOp::Add, 1);
            let payload = pattern(round, 32);
            let address = segment(key, line + 48);
            let notification = Notification::Word { address, value: round };
            let put = Command::put(segment(key, line), &payload);
            worker.send(&Command { notification, ..put });
            let mut back = [0; 32];
            while let Err(error) = worker.port.get(segment(key, line), &mut back) {
                assert!(matches!(error, PostError::Full { .. }), "{error}");
                worker.step();
            }
            assert_eq!(
                (&back[..], worker.fetch(address, AtomicOp::Load, 0)),
                (&payload[..], round)
            );
            if round % 2 == 0 {
                worker.send(&Command::put(through, &(round / 2).to_le_bytes()));
            }
        }
        // Posted commands take effect before a later fetch.
        worker.fetch(segment(key, 0), AtomicOp::Load, 0);
        finished.send(()).expect("rank 0 waits for it");
    });
}

/// Sums are exact and every old value is seen once, however the ranks interleave.
pub fn fg_12_cj_11_atomic_operations_of_many_ranks_are_undivided<H: Harness>(harness: &H) {
    const RANKS: u32 = 4;
    const ROUNDS: u64 = 300;
    let gift = Gift::new(RANKS);
    let (seen, held) = (Mutex::new(Vec::new()), Mutex::new(None));
    run(harness, &Setup::private(RANKS), |worker| {
        let rank = worker.port.rank();
        let key = if rank == 0 {
            let (buffer, key) = worker.register(64);
            *held.lock().expect("nobody panics with it") = Some(buffer);
            gift.give(&key);
            key
        } else {
            gift.take(rank)
        };
        let mut olds = Vec::new();
        for _ in 0..ROUNDS {
            olds.push(worker.fetch(segment(key, 0), AtomicOp::Add, 1));
            // A lock by comp&swap, and under it a sum that is not an atomic operation itself.
            let free_to_mine = AtomicOp::CompareSwap { expected: 0 };
            while worker.fetch(segment(key, 8), free_to_mine, u64::from(rank) + 1) != 0 {
                worker.rest();
            }
            let sum = worker.fetch(segment(key, 16), AtomicOp::Load, 0);
            worker.send(&Command::put(segment(key, 16), &(sum + 1).to_le_bytes()));
            let unlocked = worker.fetch(segment(key, 8), AtomicOp::Swap, 0);
            assert_eq!(unlocked, u64::from(rank) + 1, "nobody else had it");
        }
        seen.lock().expect("nobody panics with it").extend(olds);
    });
    let mut seen = seen.into_inner().expect("nobody panicked");
    seen.sort_unstable();
    assert!(seen.iter().copied().eq(0..u64::from(RANKS) * ROUNDS));
    let buffer = held.into_inner().expect("nobody panicked").expect("rank 0 put it there");
    assert_eq!(buffer[16..24], (u64::from(RANKS) * ROUNDS).to_le_bytes());
}

/// Puts of several ranks through a register that advances never overlap, even while the target
/// redirects it.
pub fn cj_03_places_taken_through_a_register_are_apart<H: Harness>(harness: &H) {
    const RANKS: u32 = 4;
    const ROUNDS: u64 = 100;
    let gift = Gift::new(RANKS);
    run(harness, &Setup::private(RANKS), |worker| {
        let rank = worker.port.rank();
        if rank != 0 {
            let through: RemoteAddress = gift.take(rank);
            for round in 0..ROUNDS {
                let mark = (u64::from(rank) << 32 | round).to_le_bytes();
                let notification = Notification::Status;
                worker.send(&Command { notification, ..Command::put(through, &mark) });
            }
            return;
        }
        let puts = u64::from(RANKS - 1) * ROUNDS;
        let (buffer, key) = worker.register(2 * 8 * puts as usize);
        let (start, half) = (buffer.offset(), 8 * puts);
        let value = |offset| RegisterValue { segment: key, offset, advance: Advance::ByLength };
        let point = |worker: &mut Worker<'_, H::P>, offset| {
            let done = worker.port.set_address_register(key.context, 1, Some(value(offset)));
            done.expect("it is inside");
        };
        point(worker, 0);
        let register = worker.port.register_key(key.context, 1).expect("it exists");
        gift.give(&RemoteAddress { rank: 0, space: Space::Register(register), offset: 0 });
        let (mut places, mut moved) = (Vec::new(), false);
        while (places.len() as u64) < puts {
            worker.step();
            places.extend(worker.notified.drain(..).map(|told| (told.offset - start) / 8));
            if !moved && places.len() as u64 >= ROUNDS {
                point(worker, half);
                moved = true;
            }
        }
        let mut marks: Vec<u64> = places
            .iter()
            .map(|place| 8 * *place as usize)
            .map(|at| u64::from_le_bytes(buffer[at..at + 8].try_into().expect("eight bytes")))
            .collect();
        marks.sort_unstable();
        let expected = (1..u64::from(RANKS)).flat_map(|r| (0..ROUNDS).map(move |n| r << 32 | n));
        assert!(marks.into_iter().eq(expected), "each once, none over another");
    });
}

/// Once a segment is taken back only the owner writes its memory, however hard peers try.
pub fn cj_06_memory_that_was_taken_back_is_not_written<H: Harness>(harness: &H) {
    const RANKS: u32 = 3;
    const ROUNDS: u8 = 40;
    let gift = Gift::new(RANKS);
    run(harness, &Setup::private(RANKS), |worker| {
        let rank = worker.port.rank();
        if rank != 0 {
            let payload = [0x77; 2000];
            loop {
                let key: Option<Key> = gift.take(rank);
                let Some(key) = key else { return };
                // A layer reports an earlier key's end late: that is not this key's end.
                let is_gone = |refused| match refused {
                    PostError::Protection { fault, rank: 0 } => match fault {
                        Fault::NoSuchSegment(gone) | Fault::Stale(gone) => gone == key,
                        other => panic!("{other}"),
                    },
                    other => panic!("{other}"),
                };
                let put = Command::put(segment(key, 0), &payload);
                while worker.try_send(&put).map_or_else(|error| !is_gone(error), |()| true) {}
            }
        }
        let (mut buffer, mut key) = worker.register(2000);
        for round in 0..ROUNDS {
            gift.give(&Some(key));
            while worker.load_byte(&buffer) != 0x77 {
                worker.rest();
            }
            while let Err(error) = worker.port.deregister(key) {
                assert!(matches!(error, ContextError::Busy { rank: 1 | 2 }), "{error}");
                worker.rest();
            }
            buffer.fill(round);
            (0..50).for_each(|_| worker.rest());
            assert!(buffer.iter().all(|byte| *byte == round), "a put came after the end");
            let again = worker.port.register(key.context, buffer.offset(), 2000, Rights::ALL);
            key = again.expect("its place is free");
        }
        gift.give(&None);
    });
}

impl<P: CopyPort + MemoryPort> Worker<'_, P> {
    /// Lets other threads run.
    fn rest(&mut self) {
        let now = self.port.now();
        self.port.park(Some(now + Time::from_nanoseconds(1000)));
        std::thread::yield_now();
    }

    /// The first byte of a buffer that others write.
    fn load_byte(&mut self, buffer: &[u8]) -> u8 {
        let address = self.port.expose(buffer).expect("it is in the region");
        let mut byte = [0];
        match self.port.get(address, &mut byte) {
            Ok(()) => byte[0],
            Err(_) => 0,
        }
    }
}
