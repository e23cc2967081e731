//! The state of ranks on other hosts. Ranks without any contact take four bytes each in an index,
//! and nothing else.

use hikyaku_nic::fabric::{PeerFailure, Rank};
use hikyaku_nic::time::Time;

/// An entry of the index for a rank on this host. Other entries are indices of known ranks, plus
/// one.
const HERE: u32 = u32::MAX;

/// The state of a rank on another host.
#[derive(Debug)]
pub(super) struct FarPeer {
    pub(super) rank: Rank,
    /// Credited messages sent to it, the number it allows, and whether it knows that this rank
    /// waits.
    pub(super) sent: u64,
    pub(super) credit: u64,
    pub(super) waiting: bool,
    /// Messages that it may send here, the number that it knows of, and whether it has sent
    /// anything.
    pub(super) granted: u64,
    pub(super) told: u64,
    pub(super) known: bool,
    /// Delivered bytes of its first held packet.
    pub(super) landed: usize,
    /// The received bytes of an incomplete message with one record.
    pub(super) gathered: Vec<u8>,
    /// Whether a packet of its second lane waits for room here.
    pub(super) is_stuck: bool,
    /// The time when it left, and whether it serves memory that it gave.
    pub(super) left: Option<Time>,
    pub(super) keeps: bool,
    /// Whether it was notified that this rank leaves.
    pub(super) told_bye: bool,
    pub(super) failed: Option<PeerFailure>,
    /// It has dropped a send of this rank, which sends it no more. Its memory can still be used.
    pub(super) dropped: Option<PeerFailure>,
    /// Whether it was notified that a send of its own was dropped.
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

    /// Records that it has died: an incomplete message is dropped. Returns whether that was known.
    pub(super) fn fail(&mut self, failure: PeerFailure) -> bool {
        self.gathered = Vec::new();
        self.failed.replace(failure).is_some()
    }

    /// Whether it no longer reads what it is sent.
    pub(super) fn is_deaf(&self) -> bool {
        self.failed.is_some() || self.left.is_some() && !self.keeps
    }

    /// Whether it has left or died.
    pub(super) fn is_gone(&self) -> bool {
        self.left.is_some() || self.failed.is_some()
    }
}

/// The state of all ranks on other hosts.
#[derive(Debug)]
pub(super) struct FarPeers {
    /// By rank.
    index: Vec<u32>,
    known: Vec<FarPeer>,
    /// The initial number of credited messages of each.
    credit: u64,
}

impl FarPeers {
    /// For a job whose ranks are on the hosts in `of`.
    pub(super) fn new(of: &[u32], own: u32, credit: u64) -> FarPeers {
        let index = of.iter().map(|host| if *host == own { HERE } else { 0 }).collect();
        FarPeers { index, known: Vec::new(), credit }
    }

    /// Whether a rank is on another host.
    #[inline]
    pub(super) fn is_far(&self, rank: Rank) -> bool {
        self.index.get(rank as usize).is_some_and(|place| *place != HERE)
    }

    /// The state of a rank on another host, if it is known.
    #[inline]
    pub(super) fn get(&self, rank: Rank) -> Option<&FarPeer> {
        let place = self.index.get(rank as usize).filter(|place| **place != HERE)?;
        self.known.get(place.checked_sub(1)? as usize)
    }

    /// The same, mutably.
    pub(super) fn known_mut(&mut self, rank: Rank) -> Option<&mut FarPeer> {
        let place = self.index.get(rank as usize).filter(|place| **place != HERE)?;
        self.known.get_mut(place.checked_sub(1)? as usize)
    }

    /// The same, created if necessary. `None`: the rank is not on another host.
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

    /// Whether a rank on another host may already have sent this many credited messages.
    #[inline]
    pub(super) fn may_send(&self, rank: Rank, messages: u64) -> bool {
        messages <= self.get(rank).map_or(self.credit, |peer| peer.granted)
    }

    /// The known ranks.
    pub(super) fn known(&self) -> &[FarPeer] {
        &self.known
    }

    /// All ranks on other hosts.
    pub(super) fn all(&self) -> impl Iterator<Item = Rank> {
        (0..self.index.len() as Rank).filter(|rank| self.is_far(*rank))
    }

    /// Whether a rank is known to read no more messages.
    #[inline]
    pub(super) fn is_deaf(&self, rank: Rank) -> bool {
        self.get(rank).is_some_and(FarPeer::is_deaf)
    }

    /// Whether a rank is known to have left or died.
    pub(super) fn is_gone(&self, rank: Rank) -> bool {
        self.get(rank).is_some_and(FarPeer::is_gone)
    }

    /// The bytes for `ranks` ranks, `known` of which are known.
    pub(super) fn bytes(ranks: usize, known: usize) -> usize {
        // A growing list may have twice the capacity that it needs.
        ranks * size_of::<u32>() + 2 * known * size_of::<FarPeer>()
    }
}
