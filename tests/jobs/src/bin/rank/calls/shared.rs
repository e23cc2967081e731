//! Shared variables between processes, on one node and between nodes.

use std::time::Duration;

use hikyaku::shared::{CopyState, Parts, Protocol, SharedError, SharedOptions};
use hikyaku::{ANY_SOURCE, Error, Scalar, Shared, World};
use rustix::process::{Pid, Signal, getpid, kill_process};

use super::is_first;

/// Elements of most variables here: some pages, so that a torn copy would show.
const LENGTH: usize = 1500;

/// The node of a rank for a variable's protocol: with the paper's protocols each rank has a copy.
fn node_of<T: Scalar>(shared: &Shared<T>, world: &World, rank: u32) -> u32 {
    match shared.protocol() {
        Protocol::Direct => world.node_of(rank),
        Protocol::Fagus | Protocol::Udp => rank,
    }
}

/// All ranks write, all ranks read; the contents are always whole and never older than what this
/// rank has seen (FG-10, FG-11, FG-20).
pub(super) fn fg_10_fg_11_fg_14_fg_20_contents_are_whole_and_never_older(
    world: &World,
    _: u64,
) -> Result<(), Error> {
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

/// The paper's program (Fig. 8): each rank takes the rows of its turn, another rank the next time.
pub(super) fn fg_16_fg_20_rows_change_hands(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    let rows = 4 * size;
    let options = SharedOptions { parts: Parts::Rows(1), ..SharedOptions::default() };
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

/// The program's load on other processors, by protocol: nothing, then messages to owners, then
/// datagrams and their acknowledgements. The same rows move (FG-17, by counting).
pub(super) fn fg_17_direct_stores_need_fewer_messages(world: &World, _: u64) -> Result<(), Error> {
    const ROUNDS: u64 = 4;
    if world.size() < 2 {
        return Ok(());
    }
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    for (rows, columns) in [(2 * size, 512), (4 * size, 512), (2 * size, 2048)] {
        let run = |protocol| -> Result<[u64; 2], Error> {
            let parts = Parts::Rows(1);
            let options = SharedOptions { parts, protocol: Some(protocol), recoverable: false };
            let matrix = world.shared_with::<f64>("figure 8", &[rows, columns], options)?;
            for round in 0..ROUNDS {
                for row in (0..rows).filter(|row| (row + round) % size == rank) {
                    matrix.part(row)?.write()?.fill(round as f64);
                }
                world.barrier()?;
            }
            let mut sums = [matrix.traffic().messages, matrix.moved().0];
            world.allreduce(&mut sums, hikyaku::Op::Sum)?;
            Ok(sums)
        };
        let [direct, fagus] = [run(Protocol::Direct)?, run(Protocol::Fagus)?];
        let about = format!("{rows} rows of {columns}: {direct:?}, {fagus:?}");
        assert!(direct[0] == 0 && fagus[0] >= 2 * rows * (ROUNDS - 1), "{about}");
        if !has_udp(world) {
            continue;
        }
        let udp = run(Protocol::Udp)?;
        let about = format!("{rows} rows of {columns}: {direct:?}, {fagus:?}, {udp:?}");
        assert_eq!(direct[0], 0, "{about}");
        // A request and a grant for each row that has moved; with datagrams also contents, the
        // owner change, the invalidation, and acknowledgements.
        let moved = rows * (ROUNDS - 1);
        assert!(fagus[0] >= 2 * moved && udp[0] > 2 * fagus[0], "{about}");
        assert_eq!((fagus[1], udp[1]), (moved * columns * 8, moved * columns * 8), "{about}");
    }
    world.barrier()
}

/// Contents move only to ranks with old ones, each time once, and an owner asks no rank (FG-02,
/// FG-03, FG-07, FG-08).
pub(super) fn fg_02_fg_03_fg_07_fg_08_a_clean_copy_moves_nothing(
    world: &World,
    _: u64,
) -> Result<(), Error> {
    let shared = world.shared::<u8>("clean", &[4096])?;
    let last = world.size() - 1;
    let node = |rank| node_of(&shared, world, rank);
    let apart = node(0) != node(last);
    if world.rank() == last {
        shared.write()?[0] = 0;
        let asked = shared.traffic().messages;
        for round in 1..10 {
            shared.write()?[0] = round;
        }
        // Datagrams may be repeated.
        let is_counted = shared.protocol() != Protocol::Udp;
        assert!(!is_counted || shared.traffic().messages == asked, "it owns the variable");
        assert_eq!(shared.moved(), (0, 0), "the first copy is as good as any");
        assert_eq!(shared.state()?, CopyState::Clean);
    }
    world.barrier()?;
    if apart {
        // No rank has asked another: the last writer has told all nodes.
        assert_eq!(shared.owner()?, node(last));
    }
    let expected = match node(world.rank()) == node(last) {
        true => CopyState::Clean,
        false => CopyState::Dirty,
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

/// The owner is stopped by the system: it executes nothing, and delays no rank (FG-06).
pub(super) fn fg_06_a_stopped_owner_delays_nobody(world: &World, _: u64) -> Result<(), Error> {
    let shared = world.shared::<u64>("stopped", &[LENGTH as u64])?;
    if shared.protocol() != Protocol::Direct {
        // With those protocols an owner serves requests itself.
        return world.barrier();
    }
    let pid = [getpid().as_raw_nonzero().get()];
    if world.size() > 1 && world.rank() == 0 {
        shared.write()?.fill(1);
        (1..world.size()).try_for_each(|rank| world.send(&pid, rank, 5))?;
        kill_process(getpid(), Signal::STOP).unwrap();
        // Rank 1 lets it continue.
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

/// A rank that only reads its own memory learns who owns a variable and that its copy is old,
/// without calling anything (FG-06, FG-07, FG-08).
pub(super) fn fg_06_fg_07_fg_08_a_bystander_is_told_with_no_processor(
    world: &World,
    _: u64,
) -> Result<(), Error> {
    let shared = world.shared::<u64>("bystander", &[LENGTH as u64])?;
    let (rank, size) = (world.rank(), world.size());
    let node = |rank| node_of(&shared, world, rank);
    let alone = size < 3 || node(0) == node(1) || shared.protocol() == Protocol::Udp;
    // Under injected faults, messages that this rank has sent are held until it calls again: with
    // `fagus` a rank that only reads calls nothing, and the same in virtual time.
    let are_injected = std::env::var_os("HIKYAKU_FAULTS").is_some();
    if rank + 1 == size {
        shared.write()?.fill(1);
    }
    world.barrier()?;
    assert_eq!(shared.read()?[LENGTH - 1], 1);
    world.barrier()?;
    if rank == 1 {
        shared.write()?.fill(2);
    } else if rank == 0 && !alone {
        // Neither call makes progress, and the barrier is not entered before.
        while shared.owner()? != node(1) || shared.state()? != CopyState::Dirty {
            std::thread::yield_now();
            if are_injected {
                assert!(world.iprobe(ANY_SOURCE, 8)?.is_none());
            }
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
        // Readers that return at once: the writer has its turn all the same.
        while shared.read()?[0] == 0 {}
    }
    world.barrier()
}

/// A reader keeps its contents until it releases them, even while a writer asks for the variable
/// and makes the reader's copy old (FG-21).
pub(super) fn fg_21_an_invalidation_leaves_a_reader_alone(
    world: &World,
    _: u64,
) -> Result<(), Error> {
    let shared = world.shared::<u64>("kept", &[LENGTH as u64])?;
    let (rank, last) = (world.rank(), world.size() - 1);
    if rank == last {
        shared.write()?.fill(1);
    }
    world.barrier()?;
    if rank == 0 && last > 0 {
        let guard = shared.read()?;
        world.send(&[0u8], last, 21)?;
        // The writer's request arrives during these calls, and waits.
        for _ in 0..50 {
            world.send(&[0u8], rank, 22)?;
            world.recv(&mut [0u8], rank, 22)?;
            assert!(guard.iter().all(|value| *value == 1), "it reads {}", guard[0]);
        }
        drop(guard);
    } else if rank == last && last > 0 {
        world.recv(&mut [0u8], 0, 21)?;
        shared.write()?.fill(2);
    }
    world.barrier()?;
    assert!(last == 0 || shared.read()?.iter().all(|value| *value == 2));
    world.barrier()
}

/// An unavailable variable is not waited for, or not longer than the limit.
pub(super) fn tried(world: &World, _: u64) -> Result<(), Error> {
    let shared = world.shared::<u32>("tried", &[1])?;
    let guard = (world.rank() == 0).then(|| shared.write()).transpose()?;
    world.barrier()?;
    if world.rank() > 0 {
        assert!(shared.try_write()?.is_none() && shared.try_read()?.is_none());
        assert!(shared.write_within(Duration::from_millis(1))?.is_none());
        assert!(shared.read_within(Duration::ZERO)?.is_none());
        let future = async { shared.read_async().await.map(drop) };
        // Abandoned in the middle, as by a race between futures.
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

/// A rank that drops its handle does not affect the others.
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
pub(super) fn fg_05_mistakes_as_more_than_8192_variables(
    world: &World,
    _: u64,
) -> Result<(), Error> {
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
    if world.size() > 1 {
        let protocol = Some(if last { Protocol::Fagus } else { Protocol::Direct });
        let options = SharedOptions { protocol, ..SharedOptions::default() };
        let error = world.shared_with::<u8>("mistake", &[2], options).unwrap_err();
        assert!(matches!(error, Error::Shared(SharedError::Mismatch { what: "protocol", .. })));
    }
    let options = SharedOptions { parts: Parts::Rows(1), ..SharedOptions::default() };
    let error = world.shared_with::<u8>("mistake", &[8193], options).unwrap_err();
    assert!(matches!(error, Error::Shared(SharedError::TooMany { .. })), "{error}");
    let most = world.shared_with::<u8>("most", &[8_000], options)?;
    drop(most);
    let shared = world.shared::<u8>("mistake", &[1])?;
    assert_eq!(shared.read()?[0], 0);
    world.barrier()
}

/// Whether datagrams work here: not in a container whose loopback interface is down. There they are
/// an error with the remedy, at every rank.
fn has_udp(world: &World) -> bool {
    let options = SharedOptions { protocol: Some(Protocol::Udp), ..SharedOptions::default() };
    match world.shared_with::<u8>("is there UDP", &[1], options) {
        Ok(_) => true,
        Err(error) => {
            let error = error.to_string();
            assert!(error.contains("bring it up (ip link set lo up)"), "{error}");
            false
        }
    }
}

/// Variables of all protocols side by side, each with its own.
pub(super) fn side_by_side(world: &World, _: u64) -> Result<(), Error> {
    let make = |protocol: Protocol| {
        let options = SharedOptions { protocol: Some(protocol), ..SharedOptions::default() };
        world.shared_with::<u64>(protocol.name(), &[20_000], options)
    };
    let mut all = vec![make(Protocol::Direct)?, make(Protocol::Fagus)?];
    if has_udp(world) {
        all.push(make(Protocol::Udp)?);
    }
    for _ in 0..10 {
        for shared in &all {
            let mut guard = shared.write()?;
            let next = guard[19_999] + 1;
            guard.fill(next);
        }
    }
    world.barrier()?;
    for (shared, protocol) in all.iter().zip(["direct", "fagus", "udp"]) {
        assert_eq!(shared.protocol().name(), protocol);
        assert_eq!(shared.read()?[0], 10 * u64::from(world.size()));
        let traffic = shared.traffic();
        let asks = world.size() > 1 && shared.protocol() != Protocol::Direct;
        assert_eq!(traffic.messages > 0, asks, "{protocol}: {traffic:?}");
    }
    world.barrier()
}

/// Ranks leave at different times: the others still get variables that an early one owns.
pub(super) fn owners_come_and_go(world: &World, _: u64) -> Result<(), Error> {
    let options = SharedOptions { parts: Parts::Rows(1), ..SharedOptions::default() };
    let shared = world.shared_with::<u32>("owners", &[16, 100], options)?;
    for row in 0..16 {
        shared.part(row)?.write()?[7] += 1;
    }
    if world.rank() > 0 {
        drop(shared);
        return world.barrier();
    }
    for row in 0..16 {
        let part = shared.part(row)?;
        while part.read()?[7] < world.size() {}
        part.write()?[7] = 0;
    }
    world.barrier()
}
