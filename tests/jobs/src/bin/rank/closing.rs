//! A chain of puts into a window that its owner closes meanwhile, in virtual time.

use std::time::Duration;

use hikyaku::{Error, WindowError, World};

/// Numbers in a put.
const LENGTH: usize = 500;

/// Rank 1 computes for `computing` nanoseconds and closes its part; rank 0 prints whether its chain
/// was refused. The other ranks get all of the chain, and no word announces missing data.
pub(crate) fn run(world: &World, computing: u64) -> Result<(), Error> {
    let numbers = world.window::<u64>(2 * LENGTH)?;
    let words = world.window::<u64>(1)?;
    let data = [7; LENGTH];
    world.barrier()?;
    match world.rank() {
        0 => {
            let puts = [(2, 0, &data[..]), (1, 0, &data), (1, LENGTH, &data), (2, LENGTH, &data)];
            let posted = numbers.put_chain(&puts, Some((&words, 0, 1)));
            match posted {
                Ok(()) => println!("written"),
                Err(ref error) => {
                    assert_eq!(*error, WindowError::Closed { rank: 1 }.into());
                    println!("refused");
                }
            }
            world.send(&[u8::from(posted.is_ok())], 1, 0)?;
            world.send(&[u8::from(posted.is_ok())], 2, 0)?;
        }
        1 => {
            world.compute(Duration::from_nanos(computing));
            drop(numbers);
            let mut is_written = [0u8];
            world.recv(&mut is_written, 0, 0)?;
            assert_eq!(words.local()?, [u64::from(is_written[0])]);
        }
        _ => {
            world.recv(&mut [0u8], 0, 0)?;
            if words.local()? == [1] {
                assert_eq!(numbers.local()?, [7; 2 * LENGTH]);
            }
        }
    }
    Ok(())
}
