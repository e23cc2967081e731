//! Buffers that peers access with one copy.

use hikyaku::{Error, World};
use hikyaku_jobs::pattern::{check, fill, key};

use super::{is_first, partner};

/// From and into shared buffers and parts of them, with every protocol.
pub(super) fn shared(world: &World, seed: u64) -> Result<(), Error> {
    let buffer = world.alloc::<f64>(1000)?;
    assert!(buffer.iter().all(|number| *number == 0.0));
    assert!(world.alloc::<u64>(0)?.is_empty());
    let Some(partner) = partner(world) else { return Ok(()) };
    let mut buffer = world.alloc::<u8>(1_500_000)?;
    let mut from_ordinary = vec![0; 1_500_000];
    for (round, (start, length)) in
        [(0, 40), (3, 4_000), (1, 9_000), (7, 100_000), (0, 1_500_000)].into_iter().enumerate()
    {
        let name = key(seed, &[round as u64]);
        let range = start..start + length;
        if is_first(world) {
            fill(name, &mut buffer[range.clone()]);
            world.send(&buffer[range.clone()], partner, 1)?;
            fill(name, &mut from_ordinary[range.clone()]);
            world.send(&from_ordinary[range], partner, 2)?;
        } else {
            let before = if start > 0 { buffer[start - 1] } else { 0 };
            world.recv(&mut buffer[range.clone()], partner, 1)?;
            check(name, &buffer[range.clone()]);
            world.recv(&mut buffer[range.clone()], partner, 2)?;
            check(name, &buffer[range.clone()]);
            assert!(start == 0 || buffer[start - 1] == before, "written before the slice");
        }
    }
    // Freed memory is reused: a job may allocate as often as it likes.
    drop(buffer);
    for _ in 0..40 {
        world.alloc::<u8>(1_500_000)?[1_499_999] = 1;
    }
    Ok(())
}
