//! The departure of a rank from ranks on other hosts.
//!
//! ```text
//!   bye ──► all know, or have left, or have died ──► left, also for its own host
//!                                                     │ serves memory that it gave
//!                                                     ▼
//!                                 no rank on another host uses that any more ──► end
//! ```
//!
//! "All" are the ranks with which it has communicated. The others learn of it from the launcher
//! after the process has ended, so leaving opens no new connection. Without a launcher that reports
//! ends, "all" are all ranks on other hosts.

use hikyaku_nic::fabric::{Event, Landing, PeerState, Port, Rank};
use hikyaku_nic::hosted::Host;
use hikyaku_nic::sync::Ordering;
use hikyaku_nic::time::Time;
use hikyaku_ofi::link::Links;

use crate::near::NearPort;

use super::memory::{FarWait, doze};
use super::{Far, SENDS, wire};

/// How long a leaving rank waits for the answer of one that has left too and serves memory, and for
/// the provider to send its own answer.
const LAST_WORD: Time = Time::from_nanoseconds(1_000_000_000);

/// How long a leaving rank receives nothing before it leaves without the last answers, if no
/// launcher reports ends. The last packet of a peer may be lost when its endpoint closes, and no
/// provider reports the end of a peer's process.
const SILENCE: Time =
    Time::from_nanoseconds(if cfg!(test) { 1_000_000_000 } else { 10_000_000_000 });

/// The minimum time for the provider if others leave too: its kernel may still be sending data that
/// the provider has reported as sent.
const FLUSH: Time = Time::from_nanoseconds(5_000_000);

/// The place in the own region of one bit for each rank. A rank sets its bit when it no longer uses
/// the memory in question.
#[derive(Debug)]
pub(super) struct UseBits(u64);

impl UseBits {
    fn is_over_for(&self, near: &NearPort, rank: Rank) -> bool {
        let word = near.host().word64(near.rank(), self.0 + u64::from(rank) / 64 * 8);
        word.is_none_or(|word| word.load(Ordering::Acquire) & 1 << (rank % 64) != 0)
    }
}

impl Far {
    /// Serves memory that this rank gave until each rank on another host has set its bit in the
    /// words from `parted` on, has left or has died.
    pub(crate) fn keep(&mut self, parted: u64) {
        self.kept.push(UseBits(parted));
    }

    /// Leaves: notifies all others, and waits until they know, have left or have died.
    pub(crate) fn leave(&mut self, near: &mut NearPort) {
        self.state.is_leaving = true;
        self.links.follow_all();
        self.progress(near);
        let others = self.to_be_told(near);
        let (mut unsaid, mut open) = (others.clone(), others.clone());
        let mut wait = FarWait::to_leave(near.now());
        let mut heard = near.now();
        loop {
            self.discard(near);
            let came = self.progress(near);
            if came {
                heard = near.now();
            }
            unsaid.retain(|rank| !self.say_bye(near, *rank));
            open.retain(|rank| !self.knows(near, *rank, unsaid.binary_search(rank).is_ok()));
            let Some(rank) = open.first().filter(|_| self.fault.is_none()) else { break };
            let is_said = unsaid.is_empty() && self.links.is_still();
            if is_said && !Far::is_told_of_ends(near) && near.now() > heard + SILENCE {
                break;
            }
            if !came {
                wait.rest(near, *rank);
            }
        }
        wait.end(near);
        self.linger(near, &others);
        self.say_last_words(near);
    }

    fn is_told_of_ends(near: &NearPort) -> bool {
        near.host().hosts().is_some_and(|hosts| hosts.tells_ends)
    }

    /// The ranks on other hosts that this one notifies when it leaves, in order: those with which
    /// it has communicated, if the launcher notifies the others when its process has ended.
    /// Otherwise, or if it continues to serve memory, all.
    pub(super) fn to_be_told(&self, near: &NearPort) -> Vec<Rank> {
        if !Far::is_told_of_ends(near) || !self.kept.is_empty() {
            return self.state.peers.all().collect();
        }
        let mut known: Vec<Rank> = self.state.peers.known().iter().map(|peer| peer.rank).collect();
        known.sort_unstable();
        known
    }

    /// Notifies a rank that this one leaves, after all packets for it have been sent. A rank that
    /// has left itself need not know. Returns whether this is done.
    fn say_bye(&mut self, near: &NearPort, rank: Rank) -> bool {
        if self.state.peers.is_deaf(rank) {
            return true;
        }
        let bye = wire::bye(!self.kept.is_empty());
        let is_next = !self.out.iter().any(|(to, ..)| *to == rank);
        let said = is_next && self.meet(near, rank) && self.offer(rank, SENDS, &[&bye]);
        if let Some(peer) = self.state.peers.enter(rank) {
            peer.told_bye |= said;
        }
        said
    }

    /// Serves memory that others use.
    fn linger(&mut self, near: &mut NearPort, others: &[Rank]) {
        if self.kept.is_empty() {
            return;
        }
        // A process that waits for the end of this rank must not wait for the end of its service.
        near.host().leave();
        let mut wait = FarWait::to_leave(near.now());
        while let Some(rank) = others.iter().copied().find(|rank| self.needs(near, *rank)) {
            self.discard(near);
            if !self.progress(near) {
                wait.rest(near, rank);
            }
        }
        wait.end(near);
    }

    /// Whether a rank uses memory that this one gave.
    fn needs(&self, near: &NearPort, rank: Rank) -> bool {
        let has_left = self.state.peers.get(rank).is_some_and(|peer| peer.left.is_some());
        !has_left
            && self.is_there(near, rank)
            && self.kept.iter().any(|kept| !kept.is_over_for(near, rank))
    }

    /// Discards messages, which no call reads any more: senders need the room for their progress.
    fn discard(&mut self, near: &mut NearPort) {
        while let Some(event) = near.poll() {
            if let Some(Event::Landed(landed)) = self.filter(event)
                && let Landing::Ring(slice) = landed.data
            {
                near.release(slice);
            }
        }
    }

    /// Lets the provider send the packets that it has accepted. A peer that leaves too waits for
    /// the answer to its own last message, for ever if no launcher reports ends. All other ranks
    /// have acknowledged their packets.
    fn say_last_words(&mut self, near: &mut NearPort) {
        if !self.state.peers.known().iter().any(|peer| peer.left.is_some()) {
            return;
        }
        if self.fault.is_some() {
            return;
        }
        let start = near.now();
        let is_due = |links: &Links, now| {
            now < start + FLUSH || !links.is_still() && now < start + LAST_WORD
        };
        while is_due(&self.links, near.now()) {
            if !self.progress(near) {
                doze(near);
            }
        }
    }

    /// Whether a rank knows that this one leaves, or need not know. A rank that has left itself
    /// waits only for the answer to its last message, which is in flight; its own answer may never
    /// arrive.
    fn knows(&self, near: &NearPort, rank: Rank, is_unsaid: bool) -> bool {
        if matches!(near.peer(rank), PeerState::Left | PeerState::Failed(_)) {
            return true;
        }
        let Some(peer) = self.state.peers.get(rank) else { return !is_unsaid };
        let is_deaf = |left| !peer.keeps || near.now() > left + LAST_WORD;
        peer.failed.is_some()
            || !is_unsaid && (!peer.told_bye || self.links.unacknowledged(rank, SENDS) == 0)
            || peer.left.is_some_and(is_deaf)
    }
}
