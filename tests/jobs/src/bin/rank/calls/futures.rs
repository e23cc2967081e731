//! The same calls as futures.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use hikyaku::{ANY_TAG, Error, World, join, join_all};
use hikyaku_jobs::pattern::{check, key, message};

use super::around;

/// A send and a receive at once, with every protocol.
pub(super) fn join_both(world: &World, seed: u64) -> Result<(), Error> {
    let (next, previous) = around(world, 1);
    for length in [0, 8, 5_000, 100_000, 2_000_000] {
        let data = message(key(seed, &[u64::from(world.rank())]), length);
        let mut heard = vec![0; length];
        let (sent, received) = world.block_on(join(
            world.send_async(&data, next, 1),
            world.recv_async(&mut heard, previous, 1),
        ));
        sent?;
        assert_eq!(received?.bytes, length as u64);
        check(key(seed, &[u64::from(previous)]), &heard);
    }
    Ok(())
}

/// From all to all, each pair with a conversation of its own.
pub(super) fn join_many(world: &World, _: u64) -> Result<(), Error> {
    let talk = async |peer: u32| -> Result<u64, Error> {
        let mut sum = 0;
        for turn in 0..10u64 {
            let mut heard = [0u64];
            let (sent, received) = join(
                world.send_async(&[turn * u64::from(world.rank())], peer, 1),
                world.recv_async(&mut heard, peer, ANY_TAG),
            )
            .await;
            sent?;
            received?;
            sum += heard[0];
        }
        Ok(sum)
    };
    let sums =
        world.block_on(join_all((0..world.size()).map(|peer| Box::pin(talk(peer))).collect()));
    for (peer, sum) in (0u64..).zip(sums) {
        assert_eq!(sum?, 45 * peer);
    }
    Ok(())
}

/// A receive that was begun and dropped takes no message.
pub(super) fn dropped(world: &World, seed: u64) -> Result<(), Error> {
    let (next, previous) = around(world, 1);
    let (mut abandoned, mut heard) = ([0u8; 8], [0u8; 8]);
    world.block_on(async {
        let mut receive = pin!(world.recv_async(&mut abandoned, previous, 1));
        poll_fn(|context| {
            assert!(receive.as_mut().poll(context).is_pending(), "nobody has sent yet");
            Poll::Ready(())
        })
        .await;
    });
    world.barrier()?;
    world.sendrecv(&message(seed, 8), next, 1, &mut heard, previous, 1)?;
    check(seed, &heard);
    assert_eq!(abandoned, [0; 8]);
    Ok(())
}
