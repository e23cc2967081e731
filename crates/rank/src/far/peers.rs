//! What is known of ranks of other hosts. Ranks that this one was never in touch with take four
//! bytes of an index each, and nothing else.

use hikyaku_nic::fabric::{PeerFailure, Rank};
use hikyaku_nic::time::Time;

/// An entry of the index: a rank of this host. Others are places of what is known, plus one.
const HERE: u32 = u32::MAX;

/// What is known of a rank of another host.
#[derive(Debug)]
pub(super) struct FarPeer {
    pub(super) rank: Rank,
    /// Credited messages sent to it, how many it allows, and whether it knows that we wait.
    pub(super) sent: u64,
    pub(super) credit: u64,
    pub(super) waiting: bool,
    /// Messages that it may have sent here, of which it has been told, and whether it has sent
    /// anything.
    pub(super) granted: u64,
    pub(super) told: u64,
    pub(super) known: bool,
    /// Bytes of its first held packet that have landed.
    pub(super) landed: usize,
    /// The bytes that have come so far of a message with one record.
    pub(super) gathered: Vec<u8>,
    /// Whether a packet of its second lane waits for room here.
    pub(super) is_stuck: bool,
    /// Since when it has left, and whether it serves memory that it gave.
    pub(super) left: Option<Time>,
    pub(super) keeps: bool,
    /// Whether it was told that this rank leaves.
    pub(super) told_bye: bool,
    pub(super) failed: Option<PeerFailure>,
    /// It has dropped a send of this rank: it gets no more. Its memory is used as before.
    pub(super) dropped: Option<PeerFailure>,
    /// Whether it was told that a send of its own was dropped.
    pub(super) told_drop: bool,
}

impl FarPeer {
    fn new(rank: Rank, credit: u64) -> FarPeer {
        FarPeer {
            rank,
            sent: 0,
            credit,
            waiting: false,
            granted: credit,
            told: credit,
            known: false,
            landed: 0,
            gathered: Vec::new(),
            is_stuck: false,
            left: None,
            keeps: false,
            told_bye: false,
            failed: None,
            dropped: None,
            told_drop: false,
        }
    }

    /// It has died: a message that has come in part is dropped. Returns whether that was known.
    pub(super) fn fail(&mut self, failure: PeerFailure) -> bool {
        self.gathered = Vec::new();
        self.failed.replace(failure).is_some()
    }

    /// Whether nobody reads what it is sent any more.
    pub(super) fn is_deaf(&self) -> bool {
        self.failed.is_some() || self.left.is_some() && !self.keeps
    }

    /// Whether it has left or died.
    pub(super) fn is_gone(&self) -> bool {
        self.left.is_some() || self.failed.is_some()
    }
}

/// All of them.
#[derive(Debug)]
pub(super) struct FarPeers {
    /// By rank.
    index: Vec<u32>,
    known: Vec<FarPeer>,
    /// Credited messages that each may send at first.
    credit: u64,
}

impl FarPeers {
    /// Of a job whose ranks are on these hosts.
    pub(super) fn new(of: &[u32], own: u32, credit: u64) -> FarPeers {
        let index = of.iter().map(|host| if *host == own { HERE } else { 0 }).collect();
        FarPeers { index, known: Vec::new(), credit }
    }

    /// Whether a rank is of another host.
    #[inline]
    pub(super) fn is_far(&self, rank: Rank) -> bool {
        self.index.get(rank as usize).is_some_and(|place| *place != HERE)
    }

    /// What is known of a rank of another host, if anything is.
    #[inline]
    pub(super) fn get(&self, rank: Rank) -> Option<&FarPeer> {
        let place = self.index.get(rank as usize).filter(|place| **place != HERE)?;
        self.known.get(place.checked_sub(1)? as usize)
    }

    /// The same, to be changed.
    pub(super) fn known_mut(&mut self, rank: Rank) -> Option<&mut FarPeer> {
        let place = self.index.get(rank as usize).filter(|place| **place != HERE)?;
        self.known.get_mut(place.checked_sub(1)? as usize)
    }

    /// The same, from now on; `None`: the rank is none of another host.
    #[inline]
    pub(super) fn enter(&mut self, rank: Rank) -> Option<&mut FarPeer> {
        let place = self.index.get_mut(rank as usize).filter(|place| **place != HERE)?;
        if *place == 0 {
            self.known.push(FarPeer::new(rank, self.credit));
            // There are fewer than 2^24 ranks.
            *place = self.known.len() as u32;
        }
        self.known.get_mut(*place as usize - 1)
    }

    /// Whether a rank of another host may have sent so many credited messages already.
    #[inline]
    pub(super) fn may_send(&self, rank: Rank, messages: u64) -> bool {
        messages <= self.get(rank).map_or(self.credit, |peer| peer.granted)
    }

    /// Those of which something is known.
    pub(super) fn known(&self) -> &[FarPeer] {
        &self.known
    }

    /// All ranks of other hosts.
    pub(super) fn all(&self) -> impl Iterator<Item = Rank> {
        (0..self.index.len() as Rank).filter(|rank| self.is_far(*rank))
    }

    /// Whether nobody reads what a rank is sent any more, as far as is known.
    #[inline]
    pub(super) fn is_deaf(&self, rank: Rank) -> bool {
        self.get(rank).is_some_and(FarPeer::is_deaf)
    }

    /// Whether a rank has left or died, as far as is known.
    pub(super) fn is_gone(&self, rank: Rank) -> bool {
        self.get(rank).is_some_and(FarPeer::is_gone)
    }

    /// Bytes for so many ranks, of which so many are known.
    pub(super) fn bytes(ranks: usize, known: usize) -> usize {
        // A growing list may have twice the room that it needs.
        ranks * size_of::<u32>() + 2 * known * size_of::<FarPeer>()
    }
}
