//! Message rate: eight bytes, sixty-four of them, then one acknowledgement; the form of the usual
//! multi-pair rate benchmark with one pair.
//!
//! Both forms a program may use are measured, ours and the peers' alike: blocking sends and
//! receives one after the other, and non-blocking ones completed together.
//!
//! Fresh: the ranks take turns as sender, window by window, so each window sends what the one
//! before has received. Warm: rank 0 sends the same untouched window again and again, and nobody
//! reads what rank 1 receives.

use hikyaku::{Error, World};

use super::{Bare, Form, Kind, Point};
use crate::buffers::Sets;
use crate::control::{Answer, Command, Data, Verb};
use crate::rank::{self, RankError, TAG};

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
    serve(world, command, blocking_window)
}

/// The ranks' side of non-blocking operations.
pub(crate) fn serve_nonblocking(world: &World, command: &Command) -> Result<Answer, RankError> {
    serve(world, command, nonblocking_window)
}

/// What a rank does in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    SendTo(u32),
    ReceiveFrom(u32),
    /// Ranks beyond the first two.
    LookOn,
}

impl Role {
    fn of(rank: u32, sender: u32) -> Role {
        match rank {
            0 | 1 if rank == sender => Role::SendTo(1 - rank),
            0 | 1 => Role::ReceiveFrom(sender),
            _ => Role::LookOn,
        }
    }
}

/// Who sends the window after one of `sender`.
fn next_sender(data: Data, sender: u32) -> u32 {
    match data {
        Data::Fresh => 1 - sender,
        Data::Warm => sender,
    }
}

/// Windows of messages, each acknowledged.
fn serve(
    world: &World,
    command: &Command,
    window: impl Fn(&World, &mut [u8], usize, Role) -> Result<(), Error>,
) -> Result<Answer, RankError> {
    let mut sets = Sets::in_place(world, command, command.window, 1_u8)?;
    let mut sender = 0;
    // A message of no bytes cannot be cut from a buffer; the points of windows have none.
    let each = usize::try_from(command.bytes.max(1)).unwrap_or(usize::MAX);
    rank::whole(world, command, || {
        let role = Role::of(world.rank(), sender);
        let slots = if world.rank() == sender { sets.send() } else { sets.receive() };
        window(world, slots, each, role)?;
        sender = next_sender(command.data, sender);
        acknowledge(world, role)
    })
}

/// A window of blocking operations.
fn blocking_window(world: &World, slots: &mut [u8], each: usize, role: Role) -> Result<(), Error> {
    for message in slots.chunks_exact_mut(each) {
        match role {
            Role::SendTo(other) => world.send::<u8>(message, other, TAG)?,
            Role::ReceiveFrom(other) => world.recv::<u8>(message, other, TAG).map(drop)?,
            Role::LookOn => {}
        }
    }
    Ok(())
}

/// A window of non-blocking operations, completed together.
fn nonblocking_window(
    world: &World,
    slots: &mut [u8],
    each: usize,
    role: Role,
) -> Result<(), Error> {
    world.scope(|scope| -> Result<(), Error> {
        for message in slots.chunks_exact_mut(each) {
            match role {
                Role::SendTo(other) => scope.isend::<u8>(message, other, TAG).map(drop)?,
                Role::ReceiveFrom(other) => scope.irecv::<u8>(message, other, TAG).map(drop)?,
                Role::LookOn => {}
            }
        }
        scope.wait_all()?;
        Ok(())
    })
}

/// Four bytes back from who received: the window has arrived.
fn acknowledge(world: &World, role: Role) -> Result<(), Error> {
    let mut word = [0_u8; 4];
    match role {
        Role::SendTo(other) => world.recv::<u8>(&mut word, other, TAG).map(drop),
        Role::ReceiveFrom(other) => world.send::<u8>(&word, other, TAG),
        Role::LookOn => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_windows_go_there_and_back() {
        let roles = |sender| [0, 1, 2].map(|rank| Role::of(rank, sender));
        assert_eq!(roles(0), [Role::SendTo(1), Role::ReceiveFrom(0), Role::LookOn]);
        assert_eq!(roles(1), [Role::ReceiveFrom(1), Role::SendTo(0), Role::LookOn]);
        assert_eq!([0, 1].map(|sender| next_sender(Data::Fresh, sender)), [1, 0]);
        assert_eq!(next_sender(Data::Warm, 0), 0);
    }
}
