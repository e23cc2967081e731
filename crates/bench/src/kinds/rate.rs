//! Message rate: eight bytes, sixty-four of them, then one acknowledgement; the form of the usual
//! multi-pair rate benchmark with one pair.
//!
//! Two forms are measured, ours and the peers' alike: blocking sends and receives one after the
//! other, and non-blocking ones completed together.
//!
//! Fresh: the ranks alternate as sender, window by window, so each window sends what the one before
//! has received. Warm: rank 0 sends the same untouched window repeatedly, and nothing reads what
//! rank 1 receives.

use hikyaku::{Error, World};

use super::{Bare, FigureKind, MeasuredForm, MeasuredPoint};
use crate::buffers::Sets;
use crate::control::{BlockAnswer, BlockCommand, DataReuse, Verb};
use crate::rank::{self, RankError, TAG};

/// Bytes of a message whose rate is measured.
const BYTES: u64 = 8;

/// Messages in a window.
pub(crate) const WINDOW: u32 = 64;

/// One point for each form.
pub(crate) fn points() -> Vec<MeasuredPoint> {
    let point = |verb: Verb| {
        let form = MeasuredForm::heap(verb.word(), verb);
        let point = MeasuredPoint::new(FigureKind::Rate, 2, BYTES, Bare::Stream);
        MeasuredPoint { window: WINDOW, ours: vec![form], theirs: vec![form], ..point }
    };
    [Verb::Send, Verb::Isend].map(point).into()
}

/// The ranks' side of blocking operations.
pub(crate) fn serve_blocking(
    world: &World,
    command: &BlockCommand,
) -> Result<BlockAnswer, RankError> {
    serve(world, command, blocking_window)
}

/// The ranks' side of non-blocking operations.
pub(crate) fn serve_nonblocking(
    world: &World,
    command: &BlockCommand,
) -> Result<BlockAnswer, RankError> {
    serve(world, command, nonblocking_window)
}

/// The role of a rank in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WindowRole {
    SendTo(u32),
    ReceiveFrom(u32),
    /// Ranks beyond the first two.
    LookOn,
}

impl WindowRole {
    fn of(rank: u32, sender: u32) -> WindowRole {
        match rank {
            0 | 1 if rank == sender => WindowRole::SendTo(1 - rank),
            0 | 1 => WindowRole::ReceiveFrom(sender),
            _ => WindowRole::LookOn,
        }
    }
}

/// The sender of the window after one of `sender`.
fn next_sender(data: DataReuse, sender: u32) -> u32 {
    match data {
        DataReuse::Fresh => 1 - sender,
        DataReuse::Warm => sender,
    }
}

/// Windows of messages, each acknowledged.
fn serve(
    world: &World,
    command: &BlockCommand,
    window: impl Fn(&World, &mut [u8], usize, WindowRole) -> Result<(), Error>,
) -> Result<BlockAnswer, RankError> {
    let mut sets = Sets::in_place(world, command, command.window, 1_u8)?;
    let mut sender = 0;
    // An empty message cannot be cut from a buffer; the points of windows have none.
    let each = usize::try_from(command.bytes.max(1)).unwrap_or(usize::MAX);
    rank::whole(world, command, || {
        let role = WindowRole::of(world.rank(), sender);
        let slots = if world.rank() == sender { sets.send() } else { sets.receive() };
        window(world, slots, each, role)?;
        sender = next_sender(command.data, sender);
        acknowledge(world, role)
    })
}

/// A window of blocking operations.
fn blocking_window(
    world: &World,
    slots: &mut [u8],
    each: usize,
    role: WindowRole,
) -> Result<(), Error> {
    for message in slots.chunks_exact_mut(each) {
        match role {
            WindowRole::SendTo(other) => world.send::<u8>(message, other, TAG)?,
            WindowRole::ReceiveFrom(other) => world.recv::<u8>(message, other, TAG).map(drop)?,
            WindowRole::LookOn => {}
        }
    }
    Ok(())
}

/// A window of non-blocking operations, completed together.
fn nonblocking_window(
    world: &World,
    slots: &mut [u8],
    each: usize,
    role: WindowRole,
) -> Result<(), Error> {
    world.scope(|scope| -> Result<(), Error> {
        for message in slots.chunks_exact_mut(each) {
            match role {
                WindowRole::SendTo(other) => scope.isend::<u8>(message, other, TAG).map(drop)?,
                WindowRole::ReceiveFrom(other) => {
                    scope.irecv::<u8>(message, other, TAG).map(drop)?;
                }
                WindowRole::LookOn => {}
            }
        }
        scope.wait_all()?;
        Ok(())
    })
}

/// Returns four bytes from the receiver: the window has arrived.
fn acknowledge(world: &World, role: WindowRole) -> Result<(), Error> {
    let mut word = [0_u8; 4];
    match role {
        WindowRole::SendTo(other) => world.recv::<u8>(&mut word, other, TAG).map(drop),
        WindowRole::ReceiveFrom(other) => world.send::<u8>(&word, other, TAG),
        WindowRole::LookOn => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_windows_go_there_and_back() {
        let roles = |sender| [0, 1, 2].map(|rank| WindowRole::of(rank, sender));
        assert_eq!(
            roles(0),
            [WindowRole::SendTo(1), WindowRole::ReceiveFrom(0), WindowRole::LookOn]
        );
        assert_eq!(
            roles(1),
            [WindowRole::ReceiveFrom(1), WindowRole::SendTo(0), WindowRole::LookOn]
        );
        assert_eq!([0, 1].map(|sender| next_sender(DataReuse::Fresh, sender)), [1, 0]);
        assert_eq!(next_sender(DataReuse::Warm, 0), 0);
    }
}
