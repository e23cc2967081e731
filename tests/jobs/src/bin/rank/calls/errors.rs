//! Mistakes of the caller are reported, and the world continues.

use hikyaku::{ANY_TAG, CollError, Error, InitError, MsgError, World};
use hikyaku_jobs::pattern::{check, message};

use super::{is_first, partner};

/// A message longer than the buffer is consumed, its front is received, and both sides continue.
pub(super) fn truncation(world: &World, seed: u64) -> Result<(), Error> {
    let Some(partner) = partner(world) else { return Ok(()) };
    for length in [20, 100, 30_000, 100_000, 1_000_000] {
        for room in [0, 16, 8_192] {
            if room >= length {
                continue;
            }
            if is_first(world) {
                world.send(&message(seed, length), partner, 1)?;
                continue;
            }
            let mut heard = vec![0xee; room];
            let error = world.recv(&mut heard, partner, ANY_TAG).unwrap_err();
            let (sent, room) = (length as u64, room as u64);
            let expected = MsgError::Truncated { sent, room, source_rank: partner, tag: 1 };
            assert_eq!(error, Error::Message(expected));
            check(seed, &heard);
        }
    }
    Ok(())
}

/// Sender and receiver that disagree on the type get an error if the byte count shows it.
pub(super) fn part_of_an_element(world: &World, _: u64) -> Result<(), Error> {
    let Some(partner) = partner(world) else { return Ok(()) };
    if is_first(world) {
        world.send(&[1u8; 12], partner, 1)?;
        return world.send(&[2u32; 4], partner, 1);
    }
    let mut heard = [0u64; 4];
    let error = world.recv(&mut heard, partner, 1).unwrap_err();
    assert_eq!(error, Error::PartialElement { bytes: 12, element: 8, source_rank: partner });
    let received = world.recv(&mut heard, partner, 1)?;
    assert_eq!((received.count::<u64>(), heard[1]), (2, 0x2_0000_0002));
    Ok(())
}

/// Ranks that do not exist and invalid tags, in every call.
pub(super) fn no_such_rank_or_tag(world: &World, _: u64) -> Result<(), Error> {
    let size = world.size();
    let (mut one, mut two) = ([0u8], [0u8]);
    for rank in [size, u32::MAX] {
        let expected = Error::Message(MsgError::NoSuchRank { rank, size });
        assert_eq!(world.send(&one, rank, 0), Err(expected.clone()));
        assert_eq!(world.ssend(&one, rank, 0), Err(expected.clone()));
        assert_eq!(world.rsend(&[0; 100_000], rank, 0), Err(expected.clone()));
        assert_eq!(world.recv(&mut one, rank, 0), Err(expected.clone()));
        assert_eq!(world.probe(rank, ANY_TAG), Err(expected.clone()));
        assert_eq!(world.iprobe(rank, 0), Err(expected.clone()));
        assert_eq!(world.sendrecv(&two, rank, 0, &mut one, 0, 0), Err(expected.clone()));
        let no_root =
            |operation| Error::Collective(CollError::NoSuchRoot { operation, root: rank, size });
        assert_eq!(world.broadcast(&mut one, rank), Err(no_root("broadcast")));
        assert_eq!(world.gather(&one, rank), Err(no_root("gather")));
        assert_eq!(world.block_on(world.send_async(&one, rank, 0)), Err(expected.clone()));
        let received = world.block_on(world.recv_async(&mut one, rank, 0));
        assert_eq!(received, Err(expected.clone()));
        let failed = world.scope(|scope| scope.irecv(&mut two, rank, 0).map(|_| ()));
        assert_eq!(failed, Err(expected));
    }
    for tag in [-1, i32::MIN] {
        let expected = Error::Message(MsgError::InvalidTag { tag });
        assert_eq!(world.send(&one, 0, tag), Err(expected.clone()));
        assert_eq!(world.recv(&mut one, 0, tag), Err(expected.clone()));
        assert_eq!(world.iprobe(0, tag), Err(expected.clone()));
        let failed = world.scope(|scope| scope.isend(&two, 0, tag).map(|_| ()));
        assert_eq!(failed, Err(expected));
    }
    world.send(&one, world.rank(), i32::MAX)?;
    world.recv(&mut one, world.rank(), i32::MAX)?;
    Ok(())
}

/// A rank joins its job once. Started alone, a program may be any number of worlds of one.
pub(super) fn joining_twice(world: &World, _: u64) -> Result<(), Error> {
    if std::env::var_os("HIKYAKU_JOB").is_none() {
        assert_eq!((World::init().unwrap().rank(), world.rank(), world.size()), (0, 0, 1));
        return Ok(());
    }
    let error = World::init().unwrap_err();
    assert!(matches!(error, InitError::Attach(_)), "{error}");
    let (rank, pid) = (world.rank(), std::process::id());
    let expected = format!("rank {rank} has already joined this job (pid {pid}): ");
    assert!(error.to_string().starts_with(&expected), "{error}");
    Ok(())
}

/// A request for more memory than possible is an error and does not end the program.
pub(super) fn too_much_memory(world: &World, _: u64) -> Result<(), Error> {
    let expected = Error::TooLarge { elements: usize::MAX, element: 8 };
    assert_eq!(world.alloc::<u64>(usize::MAX).err(), Some(expected));
    assert!(matches!(world.alloc::<u8>(1 << 50), Err(Error::Memory(_))));
    Ok(())
}
