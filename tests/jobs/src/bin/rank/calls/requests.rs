//! Non-blocking operations: tested, waited for, cancelled, forgotten, abandoned.

use hikyaku::{Error, World};
use hikyaku_jobs::pattern::{check, key, message};

use super::{around, is_first, partner};

/// `test` returns the request until the message has arrived.
pub(super) fn test(world: &World, seed: u64) -> Result<(), Error> {
    let (next, previous) = around(world, 1);
    for length in [8, 70_000] {
        let data = message(key(seed, &[u64::from(world.rank())]), length);
        let mut heard = vec![0; length];
        world.scope(|scope| {
            let mut receive = scope.irecv(&mut heard, previous, 1)?;
            receive = match receive.test()? {
                Err(receive) => receive,
                // No rank sends before the barrier.
                Ok(received) => panic!("{received:?} before it was sent"),
            };
            world.barrier()?;
            let mut send = Some(scope.isend(&data, next, 1)?);
            let received = loop {
                if let Some(request) = send.take() {
                    send = request.test()?.err();
                }
                match receive.test()? {
                    Ok(received) => break received,
                    Err(again) => receive = again,
                }
            };
            assert_eq!(received.bytes, length as u64);
            scope.wait_all()
        })?;
        check(key(seed, &[u64::from(previous)]), &heard);
    }
    Ok(())
}

/// Requests complete in the order of the messages; each is reported once.
pub(super) fn wait_any(world: &World, _: u64) -> Result<(), Error> {
    let (rank, size) = (world.rank(), world.size());
    if rank > 0 {
        // The last rank first: each waits for its turn.
        world.recv::<u8>(&mut [], 0, 1)?;
        return world.send(&[rank], 0, 2);
    }
    let mut heard = vec![[u32::MAX]; size as usize];
    world.scope(|scope| {
        assert_eq!(scope.wait_any(&mut Vec::new())?, None);
        let mut requests = Vec::new();
        for (source, into) in heard.iter_mut().enumerate().skip(1) {
            requests.push(scope.irecv(into, source as u32, 2)?);
        }
        for source in (1..size).rev() {
            world.send::<u8>(&[], source, 1)?;
            let (at, received) = scope.wait_any(&mut requests)?.unwrap();
            assert_eq!((at as u32 + 1, received.source), (source, source));
        }
        assert!(requests.is_empty());
        Ok(())
    })?;
    assert!((1..size).all(|source| heard[source as usize] == [source]));
    Ok(())
}

/// An unmatched operation can be undone, on both sides (MPI 5.0 §3.8.4); a matched one cannot.
pub(super) fn cancel(world: &World, seed: u64) -> Result<(), Error> {
    let Some(partner) = partner(world) else { return Ok(()) };
    let (data, mut heard) = (message(seed, 300_000), vec![0; 300_000]);
    if is_first(world) {
        world.scope(|scope| {
            // No receive takes these: a rendezvous, and a short message that waits to be matched.
            assert_eq!(scope.isend(&data, partner, 1)?.cancel()?, None);
            assert_eq!(scope.issend(&data[..8], partner, 1)?.cancel()?, None);
            world.send::<u8>(&[], partner, 2)
        })?;
        world.recv::<u8>(&mut [], partner, 2)?;
        return world.send(&data, partner, 3);
    }
    world.scope(|scope| {
        assert_eq!(scope.irecv(&mut heard, partner, 3)?.cancel()?, None);
        Ok(())
    })?;
    world.recv::<u8>(&mut [], partner, 2)?;
    assert_eq!(world.iprobe(partner, 1)?, None, "a cancelled message is there");
    // Only now: earlier, the receive might have matched before its cancellation.
    world.send::<u8>(&[], partner, 2)?;
    // The cancelled receive does not take the next message.
    let mut again = vec![0; 300_000];
    world.recv(&mut again, partner, 3)?;
    check(seed, &again);
    assert!(heard.iter().all(|byte| *byte == 0));
    Ok(())
}

/// A forgotten request ends with its scope, and its message is received.
#[expect(clippy::disallowed_methods, reason = "what is forgotten is what is tested")]
#[expect(clippy::forget_non_drop, reason = "the scope must not rely on its requests either way")]
pub(super) fn forgotten(world: &World, seed: u64) -> Result<(), Error> {
    let (next, previous) = around(world, 1);
    for length in [8, 5_000, 2_000_000] {
        let data = message(key(seed, &[u64::from(world.rank())]), length);
        let mut heard = vec![0; length];
        world.scope(|scope| {
            std::mem::forget(scope.irecv(&mut heard, previous, 1)?);
            std::mem::forget(scope.isend(&data, next, 1)?);
            Ok(())
        })?;
        check(key(seed, &[u64::from(previous)]), &heard);
    }
    Ok(())
}

/// A scope that fails abandons its open operations: their memory is not used from then on.
pub(super) fn abandoned(world: &World, seed: u64) -> Result<(), Error> {
    let (next, previous) = around(world, 1);
    let (data, mut heard) = (message(seed, 100_000), vec![0; 100_000]);
    let failure = || Error::TooLarge { elements: 1, element: 1 };
    let failed: Result<(), Error> = world.scope(|scope| {
        scope.irecv(&mut heard, previous, 1)?;
        Err(failure())
    });
    assert_eq!(failed, Err(failure()));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        world.scope(|scope| {
            scope.irecv(&mut heard, previous, 1)?;
            std::panic::resume_unwind(Box::new("on purpose"));
            #[expect(unreachable_code, reason = "gives the closure its type")]
            Ok(())
        })
    }));
    assert!(panicked.is_err());
    world.barrier()?;
    let mut again = vec![0; 100_000];
    world.sendrecv(&data, next, 1, &mut again, previous, 1)?;
    check(seed, &again);
    assert!(heard.iter().all(|byte| *byte == 0), "a receive that was abandoned took a message");
    Ok(())
}

/// CP-09: rank 0 scatters parts and gathers answers of the same lengths. All answers but one have
/// arrived before the last part leaves.
pub(super) fn cp_09_answers_come_back_while_parts_go_out(
    world: &World,
    seed: u64,
) -> Result<(), Error> {
    let (rank, last) = (world.rank(), world.size() - 1);
    let part = |rank: u32, length| message(key(seed, &[rank.into()]), length);
    let answer = |part: &[u8]| part.iter().map(|byte| byte ^ 0x5a).collect::<Vec<u8>>();
    if last < 2 {
        return Ok(());
    }
    for length in [16, 32, 48, 64, 100].map(|length| length << 10) {
        let mut heard = vec![0; length];
        if rank > 0 {
            if rank == last {
                world.recv::<u8>(&mut [], 0, 2)?;
            }
            world.recv(&mut heard, 0, 1)?;
            world.send(&answer(&heard), 0, 3)?;
            continue;
        }
        let parts: Vec<_> = (0..=last).map(|rank| part(rank, length)).collect();
        world.scope(|scope| {
            for to in 1..last {
                scope.isend(&parts[to as usize], to, 1)?;
            }
            // Complete when the last rank receives it.
            let to_last = scope.issend(&parts[last as usize], last, 1)?;
            for from in 1..last {
                world.recv(&mut heard, from, 3)?;
                assert!(heard == answer(&parts[from as usize]), "of rank {from}");
            }
            assert!(to_last.test()?.is_err(), "the last rank has not received its part");
            world.send::<u8>(&[], last, 2)?;
            world.recv(&mut heard, last, 3)?;
            assert!(heard == answer(&parts[last as usize]), "of the last rank");
            scope.wait_all()
        })?;
    }
    Ok(())
}
