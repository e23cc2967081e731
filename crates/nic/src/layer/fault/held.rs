//! A command that a link holds. It owns its payload, since the caller's is borrowed only for the
//! post.

use crate::fabric::{Command, Completed, Event, PostError};

/// A command that owns its payload. It needs no credit.
#[derive(Debug, Clone)]
pub(super) struct HeldCommand {
    /// The command without its payload.
    pub(super) frame: Command<'static>,
    payload: Vec<u8>,
    /// Payload bytes that the port underneath has taken.
    pub(super) taken: usize,
}

impl HeldCommand {
    /// A copy of the first `bytes` of a command.
    pub(super) fn new(command: &Command<'_>, bytes: usize) -> HeldCommand {
        let payload = command.payload[..bytes].to_vec();
        let Command { operation, destination, protocol, header, total, offset, .. } = *command;
        let Command { granularity, route, credited, passes, notification, reply, .. } = *command;
        let frame = Command {
            operation,
            destination,
            protocol,
            header,
            payload: &[],
            total,
            offset,
            granularity,
            route,
            credited,
            passes,
            notification,
            reply,
        };
        HeldCommand { frame, payload, taken: 0 }
    }

    /// The part still to post.
    pub(super) fn rest(&self) -> Command<'_> {
        after(&self.frame, &self.payload, self.taken)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.taken == self.payload.len()
    }
}

/// The command `frame` with the payload that remains after `taken` bytes.
pub(super) fn after<'a>(frame: &Command<'a>, payload: &'a [u8], taken: usize) -> Command<'a> {
    Command { payload, ..*frame }.rest(taken)
}

/// The completion event of a held command that failed, if its sender asked for one.
pub(super) fn completion(command: &Command<'_>, error: PostError) -> Option<Event> {
    let Command { destination, protocol, header, .. } = *command;
    let completed = Completed { destination, protocol, header, outcome: Err(error) };
    command.reply.tells_failure().then_some(Event::Completed(completed))
}
