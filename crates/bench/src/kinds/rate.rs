//! Message rate: eight bytes, sixty-four of them, then one acknowledgement; the form of the usual
//! multi-pair rate benchmark with one pair.
//!
//! Both forms a program may use are measured, ours and the peers' alike: blocking sends and
//! receives one after the other, and non-blocking ones completed together.

use hikyaku::{Error, World};

use super::{Bare, Form, Kind, Point};
use crate::control::{Answer, Command, Verb};
use crate::rank::{self, Buffer, RankError, TAG};

/// Bytes of a message whose rate is measured.
const BYTES: u64 = 8;

/// Messages in a window.
pub(crate) const WINDOW: u32 = 64;

/// One point for each form.
pub(crate) fn points() -> Vec<Point> {
    let point = |verb: Verb| {
        let form = Form::heap(verb.word(), verb);
        let point = Point::new(Kind::Rate, 2, BYTES, Bare::Stream);
        Point { window: WINDOW, ours: vec![form], theirs: vec![form], ..point }
    };
    [Verb::Send, Verb::Isend].map(point).into()
}

/// The ranks' side of blocking operations.
pub(crate) fn serve_blocking(world: &World, command: &Command) -> Result<Answer, RankError> {
    let mut buffer = Buffer::new(world, command, command.window, 1_u8)?;
    rank::whole(world, command, || blocking_window(world, &mut buffer, bytes_of(command)))
}

/// The ranks' side of non-blocking operations.
pub(crate) fn serve_nonblocking(world: &World, command: &Command) -> Result<Answer, RankError> {
    let mut buffer = Buffer::new(world, command, command.window, 1_u8)?;
    rank::whole(world, command, || nonblocking_window(world, &mut buffer, bytes_of(command)))
}

/// A window of blocking operations.
fn blocking_window(world: &World, buffer: &mut [u8], each: usize) -> Result<(), Error> {
    for message in buffer.chunks_exact_mut(each) {
        match world.rank() {
            0 => world.send::<u8>(message, 1, TAG)?,
            1 => world.recv::<u8>(message, 0, TAG).map(drop)?,
            _ => {}
        }
    }
    acknowledge(world)
}

/// A window of non-blocking operations, completed together.
fn nonblocking_window(world: &World, buffer: &mut [u8], each: usize) -> Result<(), Error> {
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
    acknowledge(world)
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
