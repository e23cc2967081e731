//! Messages of 8 bytes by a rank that may make no system call.

use std::process::ExitCode;

use hikyaku::{Error, World};
use rustix::thread::{SecureComputingMode, set_secure_computing_mode};

/// Messages each way: all of them have room.
const COUNT: u64 = 16;

/// Rank 1 receives 8 bytes from rank 0 and sends 8 back, repeatedly, while the kernel kills it at
/// any system call except a read or a write of an open file. Rank 0 checks the answers, prints the
/// result, and ends the job: rank 1 could not even end itself.
///
/// No rank waits meanwhile, because a waiting rank asks the kernel for a wake-up: rank 0 has sent
/// everything before, and then polls its own memory.
pub(crate) fn run(world: &World) -> Result<ExitCode, Error> {
    let window = world.window::<u64>(1)?;
    let mut heard = [0];
    // The first messages have done all set-up.
    for number in 0..COUNT {
        if world.rank() == 0 {
            world.send(&[number], 1, 1)?;
            world.recv(&mut heard, 1, 1)?;
        } else {
            world.recv(&mut heard, 0, 1)?;
            world.send(&heard, 0, 1)?;
        }
    }
    if world.rank() == 0 {
        for number in 0..COUNT {
            world.send(&[1000 + number], 1, 2)?;
        }
    }
    world.barrier()?;
    if world.rank() == 1 {
        // In a container that filters system calls another filter is refused.
        if let Err(error) = set_secure_computing_mode(SecureComputingMode::Strict) {
            println!("not forbidden: {error}");
        }
        for number in 0..COUNT {
            world.recv(&mut heard, 0, 2)?;
            world.send(&[heard[0] + number], 0, 3)?;
        }
        window.put(0, 0, &[COUNT])?;
        loop {
            std::hint::spin_loop();
        }
    }
    while window.local()? != [COUNT] {
        std::thread::yield_now();
    }
    for number in 0..COUNT {
        world.recv(&mut heard, 1, 3)?;
        assert_eq!(heard, [1000 + 2 * number]);
    }
    println!("all right");
    Ok(ExitCode::from(3))
}
