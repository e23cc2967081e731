//! Shared variables between processes, on one node and between nodes.

use std::time::Duration;

use hikyaku::shared::{Parts, SharedError, SharedOptions, State};
use hikyaku::{ANY_SOURCE, Error, World};
use rustix::process::{Pid, Signal, getpid, kill_process};

use super::is_first;

/// Elements of most variables here: some pages, so that a torn copy would show.
const LENGTH: usize = 1500;

/// Everybody writes, everybody reads; what is found is always whole and never older than what this
/// rank has seen (FG-10, FG-11, FG-20).
pub(super) fn counts(world: &World, _: u64) -> Result<(), Error> {
    const ROUNDS: u64 = 60;
    let shared = world.shared::<u64>("counts", &[LENGTH as u64])?;
    let mut seen = 0;
    for round in 0..ROUNDS {
        let mut guard = shared.write()?;
        let found = guard[0];
        assert!(guard.iter().all(|value| *value == found), "torn");
        assert!(found >= seen, "{found} after {seen}");
        guard.fill(found + 1);
        seen = found + 1;
        drop(guard);
        if round % 3 == 0 {
            let guard = shared.read()?;
            assert!(guard[0] >= seen && guard.iter().all(|value| *value == guard[0]));
            seen = guard[0];
        }
    }
    world.barrier()?;
    assert_eq!(shared.read()?[LENGTH / 2], ROUNDS * u64::from(world.size()));
    world.barrier()
}

/// The paper's program (Fig. 8): each rank takes the rows of its turn, another the next time.
pub(super) fn fg_16_rows_change_hands(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    let rows = 4 * size;
    let options = SharedOptions { parts: Parts::Rows(1), recoverable: false };
    let matrix = world.shared_with::<f64>("matrix", &[rows, 512], options)?;
    for turn in 0..6 {
        for row in (0..rows).filter(|row| (row + turn) % size == rank) {
            let mut guard = matrix.part(row)?.write()?;
            assert!(guard.iter().all(|value| *value == turn as f64), "row {row} in turn {turn}");
            guard.fill((turn + 1) as f64);
        }
        world.barrier()?;
    }
    for row in 0..rows {
        assert!(matrix.part(row)?.read()?.iter().all(|value| *value == 6.0));
    }
    world.barrier()
}

/// Contents move only to who has old ones, each time once (FG-03, FG-07, FG-08).
pub(super) fn fg_03_a_clean_copy_moves_nothing(world: &World, _: u64) -> Result<(), Error> {
    let shared = world.shared::<u8>("clean", &[4096])?;
    let last = world.size() - 1;
    let apart = world.node_of(0) != world.node_of(last);
    if world.rank() == last {
        for round in 0..10 {
            shared.write()?[0] = round;
        }
        assert_eq!(shared.moved(), (0, 0), "the first copy is as good as any");
        assert_eq!(shared.state()?, State::Clean);
    }
    world.barrier()?;
    if apart {
        // Nobody has asked anybody: the last writer has told all nodes.
        assert_eq!(shared.owner()?, world.node_of(last));
    }
    let expected = match world.node() == world.node_of(last) {
        true => State::Clean,
        false => State::Dirty,
    };
    assert_eq!(shared.state()?, expected);
    world.barrier()?;
    if world.rank() == 0 {
        for _ in 0..10 {
            assert_eq!(shared.read()?[0], 9);
            shared.write()?[0] = 9;
        }
        let once = if apart { (4096, 1) } else { (0, 0) };
        assert_eq!(shared.moved(), once);
    }
    world.barrier()
}

/// The owner is stopped by the system: it executes nothing, and delays nobody (FG-06).
pub(super) fn fg_06_a_stopped_owner_delays_nobody(world: &World, _: u64) -> Result<(), Error> {
    let shared = world.shared::<u64>("stopped", &[LENGTH as u64])?;
    let pid = [getpid().as_raw_nonzero().get()];
    if world.size() > 1 && world.rank() == 0 {
        shared.write()?.fill(1);
        (1..world.size()).try_for_each(|rank| world.send(&pid, rank, 5))?;
        kill_process(getpid(), Signal::STOP).unwrap();
        // Rank 1 lets it go on.
        assert_eq!(shared.read()?[7], u64::from(world.size()));
    } else if world.rank() > 0 {
        let mut owner = [0];
        world.recv(&mut owner, 0, 5)?;
        while !is_stopped(owner[0]) {
            std::thread::yield_now();
        }
        let found = {
            let mut guard = shared.write()?;
            let found = guard[0];
            guard.fill(found + 1);
            found
        };
        assert!(found >= 1);
        if world.rank() == 1 {
            for _ in 2..world.size() {
                world.recv(&mut [0u8], ANY_SOURCE, 6)?;
            }
            kill_process(Pid::from_raw(owner[0]).unwrap(), Signal::CONT).unwrap();
        } else {
            world.send(&[1u8], 1, 6)?;
        }
    }
    world.barrier()
}

/// Whether the system has stopped a process.
fn is_stopped(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('T'))
}

/// All read at once; a writer waits for them, and they do not keep it out for ever.
pub(super) fn fg_09_readers_and_a_writer(world: &World, _: u64) -> Result<(), Error> {
    let shared = world.shared::<u32>("readers", &[3])?;
    let guard = shared.read()?;
    world.barrier()?;
    if world.size() > 1 {
        assert!(shared.try_write().is_err(), "this rank reads it");
    }
    drop(guard);
    world.barrier()?;
    if world.rank() == 0 {
        shared.write()?[0] = 1;
    } else {
        // Readers that come back at once: the writer has its turn all the same.
        while shared.read()?[0] == 0 {}
    }
    world.barrier()
}

/// What is not there at once is not waited for, or not longer than said.
pub(super) fn tried(world: &World, _: u64) -> Result<(), Error> {
    let shared = world.shared::<u32>("tried", &[1])?;
    let guard = (world.rank() == 0).then(|| shared.write()).transpose()?;
    world.barrier()?;
    if world.rank() > 0 {
        assert!(shared.try_write()?.is_none() && shared.try_read()?.is_none());
        assert!(shared.write_within(Duration::from_millis(1))?.is_none());
        assert!(shared.read_within(Duration::ZERO)?.is_none());
        let future = async { shared.read_async().await.map(drop) };
        // Given up in the middle, as by a race between futures.
        let short = async { world.send_async(&[0u8], world.rank(), 9).await };
        let mut future = Box::pin(future);
        world.block_on(async {
            let poll =
                |cx: &mut std::task::Context<'_>| std::task::Poll::Ready(future.as_mut().poll(cx));
            assert!(std::future::poll_fn(poll).await.is_pending());
            short.await
        })?;
        drop(future);
        world.recv(&mut [0u8], world.rank(), 9)?;
    }
    world.barrier()?;
    drop(guard);
    shared.write_within(Duration::from_secs(60))?.unwrap()[0] += 1;
    world.barrier()?;
    assert_eq!(shared.read()?[0], world.size());
    world.barrier()
}

/// Whoever drops its handle takes nothing away from the others.
pub(super) fn dropped(world: &World, _: u64) -> Result<(), Error> {
    for round in 0..3u64 {
        let shared = world.shared::<u64>("dropped", &[100_000])?;
        shared.write()?[0] += round;
        world.barrier()?;
        if is_first(world) {
            drop(shared);
            world.barrier()?;
        } else {
            world.barrier()?;
            assert_eq!(shared.read()?[0], round * u64::from(world.size()));
        }
    }
    world.barrier()
}

/// A mistake on one rank is an error on every rank, and leaves nothing behind.
pub(super) fn mistakes(world: &World, _: u64) -> Result<(), Error> {
    let last = world.rank() + 1 == world.size();
    if world.size() > 1 {
        let shape = if last { [3, 2] } else { [2, 3] };
        let error = world.shared::<u8>("mistake", &shape).unwrap_err();
        let Error::Shared(SharedError::Mismatch { rank, what: "shape", .. }) = error else {
            panic!("{error}")
        };
        assert_eq!(rank, world.size() - 1);
        let error = if last {
            world.shared::<f32>("mistake", &[6]).unwrap_err()
        } else {
            world.shared::<u32>("mistake", &[6]).unwrap_err()
        };
        assert!(matches!(error, Error::Shared(SharedError::Mismatch { what: "type", .. })));
        let name = if last { "a" } else { "b" };
        let error = world.shared::<f32>(name, &[6]).unwrap_err();
        assert!(matches!(error, Error::Shared(SharedError::Mismatch { what: "name", .. })));
    }
    let options = SharedOptions { parts: Parts::Rows(1), ..SharedOptions::default() };
    let error = world.shared_with::<u8>("mistake", &[8193], options).unwrap_err();
    assert!(matches!(error, Error::Shared(SharedError::TooMany { .. })), "{error}");
    let shared = world.shared::<u8>("mistake", &[1])?;
    assert_eq!(shared.read()?[0], 0);
    world.barrier()
}
