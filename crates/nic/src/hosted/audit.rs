//! The audit of a rank that has waited for long. It ensures that no wait lasts for ever because a
//! process has overwritten a word of the job's shared memory.
//!
//! ```text
//!   a word with a single writer     heads, credit, its announced wait: the writer stores its
//!                                   remembered value again
//!   a record that was overwritten   its sender publishes its number of posted records when it has
//!                                   itself waited long; if its receiver has not found as many, one
//!                                   is lost, and the sender counts as failed there
//! ```
//!
//! The second rule applies to private status rings. There a sender publishes its count after its
//! records, so a receiver that sees the count sees the records: a missing one was overwritten.

use super::{Host, HostedPort};
use crate::fabric::{DeathCause, Event, PeerFailure, Rank, Wake};
use crate::sync::Ordering;

/// The number of consecutive sleeps that make a wait long: each may be a tenth of a second.
const LONG_SLEEPS: u32 = 3;

/// An audit reads a line of each rank. So for each multiple of this many ranks of the job, a rank
/// sleeps once more between two audits. In such a job each sleep is longer, too.
const RANKS_A_SLEEP: u32 = 512;

/// The number of consecutive waits that make a wait long if the rank never sleeps.
const LONG_WAITS: u32 = 1 << 14;

/// Whether a rank of a job of `size` audits after this many consecutive sleeps.
fn audits_after(sleeps: u32, size: u32) -> bool {
    sleeps >= LONG_SLEEPS && sleeps.is_multiple_of(1 + size / RANKS_A_SLEEP)
}

impl<H: Host> HostedPort<H> {
    /// Called after each wait, with the number of waits before it and how it ended.
    #[inline]
    pub(super) fn after_wait(&mut self, idle: u32, wake: Wake) {
        if idle == 0 {
            self.sleeps = 0;
        }
        self.sleeps += u32::from(wake == Wake::Slept);
        let is_long = wake == Wake::Slept && audits_after(self.sleeps, self.size);
        if is_long || idle % LONG_WAITS == LONG_WAITS - 1 {
            self.audit();
        }
    }

    #[cold]
    fn audit(&mut self) {
        if self.host.is_conducted() {
            // In virtual time the conductor's port posts in this rank's name.
            return;
        }
        if let Some(wait) = self.announced.get() {
            self.host.registry().set_wait(self.rank, Some(wait));
        }
        let own = self.own;
        for lane in &self.lanes {
            lane.ring.free(lane.head);
        }
        for (id, landing) in (0..).zip(&self.rings) {
            own.ring(id).free(landing.published);
        }
        for (rank, peer) in self.peers.iter() {
            let line = own.source(rank);
            if line.credit() < peer.granted {
                line.set_credit(peer.granted);
                self.wake_if_waiting(rank);
            }
            let is_here = self.host.is_here(rank);
            if is_here && peer.poster.posted > 0 && peer.status.is_private() {
                let told = &peer.target.sender(self.rank).posted;
                told.store(peer.poster.posted, Ordering::Release);
            }
        }
        if self.seen_ends > 0 {
            self.note_all_departures();
        }
        for place in 0..self.peers.known() {
            let source = self.peers.rank_at(place);
            if self.peers[source as usize].failed.is_none() && self.has_lost_record(source) {
                self.count_as_failed(source);
            }
        }
    }

    /// Whether a source has posted a record that is missing.
    fn has_lost_record(&self, source: Rank) -> bool {
        let lane = &self.lanes[self.lane_of(source)];
        if !lane.ring.is_private() {
            return false;
        }
        // Acquire: the records before the count are visible.
        let posted = self.own.sender(source).posted.load(Ordering::Acquire);
        let ahead = posted.wrapping_sub(lane.head);
        // Up to twice the capacity, in case the sender read an overwritten head.
        let most = 2 * lane.ring.capacity() as u64;
        (1..=most).contains(&ahead) && lane.ring.peek(lane.head).is_none()
    }

    fn count_as_failed(&mut self, rank: Rank) {
        let (pid, cause) = (self.host.registry().pid(rank), DeathCause::Overwritten);
        let failure = PeerFailure { rank, pid, host: self.host.host_name(rank), cause };
        let peer = &mut self.peers[rank as usize];
        peer.failed = Some(failure);
        peer.allowed = 0;
        self.events.push_back(Event::PeerFailed(failure));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::fabric::{Activity, Command, Port, Wait};
    use crate::loopback::{self, LoopbackConfig, LoopbackPort};
    use crate::wire::StatusKind;

    fn port(ranks: u32) -> LoopbackPort {
        let mut config = LoopbackConfig { region_bytes: 4096, ..LoopbackConfig::for_ranks(ranks) };
        config.layout.ring_bytes = 2 * config.layout.packet_bytes;
        loopback::open(&config).unwrap().swap_remove(0)
    }

    /// The waits (by their number and their result) after which the rank has audited: its
    /// overwritten announcement is restored then.
    fn audits(port: &mut LoopbackPort, waits: impl Iterator<Item = (u32, Wake)>) -> Vec<u32> {
        let wait = Some(Wait::new(Activity::Receive));
        port.announce_wait(wait);
        let audited = waits.filter_map(|(idle, wake)| {
            port.host.registry().set_wait(0, None);
            port.after_wait(idle, wake);
            (port.host.registry().wait(0) == wait).then_some(idle)
        });
        audited.collect()
    }

    fn slept(port: &mut LoopbackPort, waits: std::ops::Range<u32>) -> Vec<u32> {
        audits(port, waits.map(|idle| (idle, Wake::Slept)))
    }

    #[test]
    fn a_rank_of_a_larger_job_sleeps_more_often_between_two_audits() {
        for (ranks, expected) in [
            (2, vec![3, 4, 5, 6, 7, 8, 9, 10]),
            (511, vec![3, 4, 5, 6, 7, 8, 9, 10]),
            (512, vec![4, 6, 8, 10]),
            (1023, vec![4, 6, 8, 10]),
            (1024, vec![3, 6, 9]),
        ] {
            let audits = (1..11).filter(|sleeps| audits_after(*sleeps, ranks));
            assert_eq!(audits.collect::<Vec<_>>(), expected, "{ranks} ranks");
        }
    }

    #[test]
    fn a_rank_audits_from_its_third_sleep_on() {
        assert_eq!(slept(&mut port(2), 0..6), [2, 3, 4, 5]);
    }

    #[test]
    fn what_comes_between_makes_a_wait_short_again() {
        let mut port = port(2);
        assert_eq!(slept(&mut port, 0..4), [2, 3]);
        assert_eq!(slept(&mut port, 0..4), [2, 3], "wait 0 follows an event");
    }

    #[test]
    fn a_rank_that_never_sleeps_audits_now_and_then() {
        let looks = (0..2 * LONG_WAITS + 2).map(|idle| (idle, Wake::Look));
        assert_eq!(audits(&mut port(2), looks), [(1 << 14) - 1, (1 << 15) - 1]);
    }

    fn overwritten(port: &mut LoopbackPort) -> Option<Rank> {
        slept(port, 0..3);
        while let Some(event) = port.poll() {
            if let Event::PeerFailed(PeerFailure { rank, cause, .. }) = event {
                assert_eq!(cause, DeathCause::Overwritten);
                return Some(rank);
            }
        }
        None
    }

    #[test]
    fn a_sender_whose_record_is_lost_counts_as_failed() {
        let mut ports = loopback::open(&LoopbackConfig::for_ranks(2)).unwrap();
        let capacity = ports[1].lanes[0].ring.capacity() as u64;
        ports[0].post(&Command::send(1, 0, 0, b"lost")).unwrap();
        // The record is overwritten by one of another lap.
        ports[1].own.status(0).publish(5 * capacity, StatusKind::Void, 0, 0, 0, &[]);
        assert_eq!(overwritten(&mut ports[1]), None, "the sender has not said that it posted");
        slept(&mut ports[0], 0..3);
        assert_eq!(overwritten(&mut ports[1]), Some(0));
    }

    #[test]
    fn a_count_beyond_two_rings_says_nothing() {
        let capacity = port(2).lanes[0].ring.capacity() as u64;
        for (posted, expected) in
            [(0, None), (1, Some(1)), (2 * capacity, Some(1)), (2 * capacity + 1, None)]
        {
            let mut port = port(2);
            port.own.sender(1).posted.store(posted, Ordering::Release);
            assert_eq!(overwritten(&mut port), expected, "{posted} posted");
        }
    }
}
