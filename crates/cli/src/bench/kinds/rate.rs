//! Message rate: eight bytes, sixty-four of them, then one acknowledgement; the form of the usual
//! multi-pair rate benchmark with one pair.
//!
//! Both forms a program may use are measured, ours and the peers' alike: blocking sends and
//! receives one after the other, and non-blocking ones completed together.

use hikyaku::{Error, World};

use super::{Bare, Kind, Point};
use crate::bench::control::{Command, Verb};
use crate::bench::rank::{Buffer, TAG};

/// Bytes of a message whose rate is measured.
const BYTES: u64 = 8;

/// Messages in a window.
pub(crate) const WINDOW: u32 = 64;

/// One point for each form.
pub(crate) fn points() -> Vec<Point> {
    let point = |verb| Point {
        kind: Kind::Rate,
        verb,
        ranks: 2,
        bytes: BYTES,
        window: WINDOW,
        allocated: false,
        bare: Bare::Stream,
    };
    [Verb::Send, Verb::Isend].map(point).into()
}

/// Windows of blocking operations.
pub(crate) fn blocking_windows(
    world: &World,
    buffer: &mut Buffer,
    command: &Command,
) -> Result<(), Error> {
    let each = bytes_of(command);
    for _ in 0..command.repetitions {
        for message in buffer.chunks_exact_mut(each) {
            match world.rank() {
                0 => world.send::<u8>(message, 1, TAG)?,
                1 => world.recv::<u8>(message, 0, TAG).map(drop)?,
                _ => {}
            }
        }
        acknowledge(world)?;
    }
    Ok(())
}

/// Windows of non-blocking operations, completed together.
pub(crate) fn nonblocking_windows(
    world: &World,
    buffer: &mut Buffer,
    command: &Command,
) -> Result<(), Error> {
    let each = bytes_of(command);
    for _ in 0..command.repetitions {
        world.scope(|scope| -> Result<(), Error> {
            for message in buffer.chunks_exact_mut(each) {
                match world.rank() {
                    0 => scope.isend::<u8>(message, 1, TAG).map(drop)?,
                    1 => scope.irecv::<u8>(message, 0, TAG).map(drop)?,
                    _ => {}
                }
            }
            scope.wait_all()?;
            Ok(())
        })?;
        acknowledge(world)?;
    }
    Ok(())
}

/// A message of no bytes cannot be cut from a buffer; the points of windows have none.
fn bytes_of(command: &Command) -> usize {
    usize::try_from(command.bytes.max(1)).unwrap_or(usize::MAX)
}

/// Four bytes back from rank 1: the window has arrived.
fn acknowledge(world: &World) -> Result<(), Error> {
    let mut word = [0_u8; 4];
    match world.rank() {
        0 => world.recv::<u8>(&mut word, 1, TAG).map(drop),
        1 => world.send::<u8>(&word, 0, TAG),
        _ => Ok(()),
    }
}
