//! What a sender chooses about the landing of its messages at one rank.
//!
//! The receiver decides where messages land. Two things paper 000 leaves to the sender: whether a
//! message of several packets leaves one status record or one each (§3.3), and in the variant
//! without a table (Fig. 2) the landing ring.

use hikyaku_nic::fabric::{Command, Granularity, Port, PostError, Route};

/// What this rank chooses for its messages to another. The default is what the receiver's table
/// says, and a record for each packet.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderChoice {
    /// How many records an eager message leaves. A message that cannot have one record leaves
    /// several: it is longer than its ring, or others share that.
    pub granularity: Granularity,
    /// Which ring it lands in.
    pub route: Route,
}

impl SenderChoice {
    /// Posts a send as chosen. Of a message of several parts each has records of its own.
    #[inline]
    pub(crate) fn post<P: Port>(
        self,
        port: &mut P,
        command: &Command<'_>,
    ) -> Result<usize, PostError> {
        if self == SenderChoice::default() {
            // Without a copy of the command: messages of 1 KiB pay for each store.
            return port.post(command);
        }
        let command = &Command { route: self.route, ..*command };
        let is_whole = command.offset == 0 && command.total == command.payload.len() as u64;
        if self.granularity == Granularity::PerMessage && is_whole {
            let one = Command { granularity: Granularity::PerMessage, ..*command };
            match port.post(&one) {
                Err(PostError::SharedRing { .. } | PostError::TooLarge { .. }) => {}
                posted => return posted,
            }
        }
        port.post(command)
    }
}
