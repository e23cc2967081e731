//! The port of a rank.

use hikyaku_shm::ShmPort;

/// The port of a rank of a job, whatever carries its commands.
///
/// All ranks of a job are on one host, so it is that host's memory. With a second fabric it becomes
/// a *near* and a *far* half, and nothing above this crate changes.
pub type RankPort = ShmPort;

#[cfg(test)]
mod tests {
    use hikyaku_msg::{Engine, RecvBuffer, SendBuffer};

    use super::*;

    fn can_be_moved<T: Send>() {}

    #[test]
    fn an_engine_can_be_moved_to_another_thread() {
        can_be_moved::<SendBuffer>();
        can_be_moved::<RecvBuffer>();
        can_be_moved::<Engine<RankPort>>();
    }
}
