//! Groups, hosted: registration, and rounds over shared control lines.
//!
//! The lines and when they are used again are in [`crate::ring::ControlLines`]; here is who waits
//! for whom. Every wait is a question that found nothing ([`Want`]): it is remembered until the
//! rank has parked, which looks once more at all of them before it sleeps, and it ends in an error
//! when the member it waits for is gone.
//!
//! **Whom a publication wakes.** The publisher stores its line and loads each member's `sleeping`
//! with no barrier between; the sleeper makes the barrier for both, as for records (see
//! `Host::wait`: the proof needs only that the sleeper looks at the line after its barrier). A rank
//! that waits for a hundred others would be woken a hundred times, so it says in its segment whom
//! it looks for next (`Awaited`), before it says that it sleeps, and only that one wakes it. What
//! it says is what it asked last; whoever publishes without being asked for is found when the
//! sleeper comes to ask for it.

use super::{Host, HostedPort, Peer};
use crate::doorbell::Doorbell;
use crate::fabric::{Contribution, Group, GroupError, GroupId, LAST_FIRST, PeerState, Rank};
use crate::hosted::multicast::Stage;
use crate::hosted::sync::SyncState;
use crate::ring::{ControlLines, LINE_BYTES, LINES, Place};
use crate::segment::{Awaited, GroupLayout, SyncCounts};
use crate::sync::{AtomicU64, Ordering, compiler_fence, fence};

/// In [`Awaited`]: no member of a group can end the wait.
const NOBODY: u64 = u64::MAX;

/// The groups of a rank.
#[derive(Debug)]
pub(super) struct Groups {
    /// By channel.
    joined: Vec<Option<Joined>>,
    /// What was asked for in vain since the rank last parked.
    asked: Vec<Want>,
    /// This rank's word on whom it waits for.
    awaited: &'static Awaited,
    pub(super) stage: Stage,
}

/// A group that this rank is in, or has left and whose lines others may still read.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) group: Group,
    pub(super) members: Vec<Member>,
    /// The last round this rank has finished.
    round: u64,
    /// Whether it has contributed to the one after.
    contributed: bool,
    /// Members before this place were seen to have entered it.
    entered: usize,
    /// Whether to say that the round is finished although all entered it: something in it lies in
    /// an area and should make room before the next round.
    tell: bool,
    /// All members are known to have finished up to here.
    settled: u64,
    /// A member on another node.
    pub(super) foreign: Option<Rank>,
    left: bool,
    /// Whether it has rounds: neither of the two above.
    rounds: bool,
    pub(super) syncs: Vec<SyncState>,
}

/// What is known of a member.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) rank: Rank,
    pub(super) lines: &'static ControlLines,
    pub(super) counts: &'static SyncCounts,
    bell: &'static Doorbell,
    awaited: &'static Awaited,
}

/// Something that a member was to have done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Want {
    pub(super) channel: u32,
    pub(super) place: usize,
    pub(super) what: What,
}

/// What it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// To contribute to a round.
    Line(u64),
    /// To finish a round.
    Finished(u64),
    /// To come to a barrier: the sync id, and its count then.
    Sync(u32, u64),
}

impl Want {
    /// Whether it is about the same thing, if perhaps another round of it.
    fn replaces(&self, other: &Want) -> bool {
        let same = match (self.what, other.what) {
            (What::Sync(id, _), What::Sync(other, _)) => id == other,
            (one, other) => std::mem::discriminant(&one) == std::mem::discriminant(&other),
        };
        same && self.channel == other.channel
    }
}

impl Member {
    fn new(rank: Rank, peer: &Peer, channel: u32) -> Member {
        let target = peer.target;
        Member {
            rank,
            lines: target.lines(channel),
            counts: target.syncs(channel),
            bell: target.doorbell(),
            awaited: target.awaited(),
        }
    }

    fn has_done(&self, what: What) -> bool {
        match what {
            What::Line(round) => self.lines.is_entered(round),
            What::Finished(round) => self.lines.has_finished(round),
            What::Sync(id, count) => self.counts[id as usize].load(Ordering::Acquire) >= count,
        }
    }
}

impl Joined {
    /// The first member that has not finished a round, of those that `matters` is true for.
    fn unfinished(&mut self, round: u64, matters: impl Fn(Rank) -> bool) -> Option<usize> {
        if self.settled >= round {
            return None;
        }
        let mut least = u64::MAX;
        for (place, member) in self.members.iter().enumerate() {
            if place == self.group.place {
                continue;
            }
            match member.lines.finished_from(round) {
                Some(finished) => least = least.min(finished),
                None if matters(member.rank) => return Some(place),
                None => {}
            }
        }
        // Not beyond what this rank itself has done: of later rounds nothing is asked.
        self.settled = least.min(self.round).max(round);
        None
    }
}

impl Groups {
    pub(super) fn new(layout: &GroupLayout, awaited: &'static Awaited) -> Groups {
        Groups {
            joined: (0..layout.channels).map(|_| None).collect(),
            asked: Vec::new(),
            awaited,
            stage: Stage::new(u64::from(layout.area_bytes)),
        }
    }

    /// What was registered.
    pub(super) fn group(&self, id: GroupId) -> Option<&Group> {
        let joined = self.joined.get(id.0 as usize)?.as_ref()?;
        (!joined.left).then_some(&joined.group)
    }

    /// The group, if this rank is in it.
    #[inline]
    pub(super) fn joined(&mut self, id: GroupId) -> Result<&mut Joined, GroupError> {
        match self.joined.get_mut(id.0 as usize) {
            Some(Some(joined)) if !joined.left => Ok(joined),
            _ => Err(GroupError::NoSuchGroup { channel: id.0 }),
        }
    }

    /// The group, if its members share memory.
    #[inline]
    fn in_rounds(&mut self, id: GroupId) -> Result<&mut Joined, GroupError> {
        let joined = self.joined(id)?;
        if joined.rounds {
            return Ok(joined);
        }
        let rank = joined.foreign.unwrap_or_default();
        Err(GroupError::OtherNode { rank })
    }

    #[inline]
    fn ask(&mut self, want: Want) {
        if self.asked.last() == Some(&want) {
            return;
        }
        match self.asked.iter_mut().find(|asked| want.replaces(asked)) {
            Some(asked) => *asked = want,
            None => self.asked.push(want),
        }
    }

    fn member(&self, want: &Want) -> Option<&Member> {
        self.joined.get(want.channel as usize)?.as_ref()?.members.get(want.place)
    }

    /// Whether something has happened that was asked for in vain.
    #[inline]
    pub(super) fn pending(&self) -> bool {
        let done = |want: &Want| self.member(want).is_some_and(|m| m.has_done(want.what));
        self.asked.iter().any(done)
    }

    /// Says whom this rank waits for, before it may sleep.
    #[inline]
    pub(super) fn before_park(&self) {
        let rank = |want| self.member(want).map_or(0, |member| u64::from(member.rank) + 1);
        let awaited = match &self.asked[..] {
            [] => NOBODY,
            [want] => rank(want),
            _ => 0,
        };
        if self.awaited.load(Ordering::Relaxed) != awaited {
            self.awaited.store(awaited, Ordering::Relaxed);
            // Release: whoever sees this rank asleep sees this word.
            fence(Ordering::Release);
        }
    }

    /// What was asked for in vain will be asked for again, or does not matter any more.
    #[inline]
    pub(super) fn after_park(&mut self) {
        self.asked.clear();
    }
}

impl<H: Host> HostedPort<H> {
    /// See [`crate::fabric::Port::join`].
    pub(super) fn join_group(
        &mut self,
        channel: u32,
        ranks: &[Rank],
        first: u64,
    ) -> Result<GroupId, GroupError> {
        let channels = self.groups.joined.len() as u32;
        if channel >= channels {
            return Err(GroupError::NoSuchChannel { channel, channels });
        }
        if !self.is_free(channel) {
            return Err(GroupError::ChannelInUse { channel });
        }
        let place = self.check_members(ranks)?;
        let own = Member::new(self.rank, &self.peers[self.rank as usize], channel);
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let least = own.counts.iter().map(count).fold(own.lines.last(), u64::max);
        if !(least..=LAST_FIRST).contains(&first) {
            return Err(GroupError::FirstRound { channel, first, least });
        }
        let node = self.host.node_of(self.rank);
        let foreign = ranks.iter().copied().find(|rank| self.host.node_of(*rank) != node);
        let member = |rank: &Rank| Member::new(*rank, &self.peers[*rank as usize], channel);
        self.groups.joined[channel as usize] = Some(Joined {
            members: ranks.iter().map(member).collect(),
            group: Group {
                members: ranks.to_vec(),
                place,
                registers: Vec::new(),
                area_bytes: self.own.layout().groups.area_bytes as usize,
            },
            round: first,
            contributed: false,
            entered: 0,
            tell: false,
            settled: first,
            foreign,
            left: false,
            rounds: foreign.is_none(),
            syncs: SyncState::all(first),
        });
        Ok(GroupId(channel))
    }

    /// This rank's place in a list of members that can be a group.
    fn check_members(&self, ranks: &[Rank]) -> Result<usize, GroupError> {
        let size = self.size;
        if let Some(rank) = ranks.iter().copied().find(|rank| *rank >= size) {
            return Err(GroupError::NoSuchRank { rank, size });
        }
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        let twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
        let place = ranks.iter().position(|rank| *rank == self.rank);
        place.filter(|_| !twice).ok_or(GroupError::Members { rank: self.rank })
    }

    /// Whether a group can be joined on a channel: there is none, or this rank has left it and
    /// nobody reads its lines and its area on behalf of it any more.
    fn is_free(&mut self, channel: u32) -> bool {
        let registry = self.host.registry();
        match &mut self.groups.joined[channel as usize] {
            None => true,
            Some(joined) => {
                let there = |rank| is_there(registry.state(rank));
                joined.left && joined.unfinished(joined.round, there).is_none() && {
                    self.reclaim();
                    !self.groups.stage.is_used_by(channel)
                }
            }
        }
    }

    /// See [`crate::fabric::Port::leave`].
    pub(super) fn leave_group(&mut self, id: GroupId) -> Result<u64, GroupError> {
        let joined = self.groups.joined(id)?;
        (joined.left, joined.rounds) = (true, false);
        // A round that was begun and not finished counts: its line has been written.
        joined.round += u64::from(joined.contributed);
        let own = &joined.members[joined.group.place];
        own.lines.finish(joined.round);
        let next = joined.syncs.iter().map(|sync| sync.count).fold(joined.round, u64::max);
        self.ring_members(id.0);
        Ok(next)
    }

    /// See [`crate::fabric::Port::contribute`].
    #[inline]
    pub(super) fn enter_round(
        &mut self,
        id: GroupId,
        word: u64,
        payload: &[u8],
    ) -> Result<(), GroupError> {
        self.catch_up();
        let joined = self.groups.in_rounds(id)?;
        if joined.contributed {
            return Err(GroupError::Contributed);
        }
        let round = joined.round + 1;
        // The round whose line this one is to have.
        let before = round.saturating_sub(LINES as u64);
        if joined.settled < before && !self.all_finished(id.0, before) {
            return Err(GroupError::Full);
        }
        let staged =
            if payload.len() > LINE_BYTES { Some(self.stage(id.0, round, payload)?) } else { None };
        let joined = self.groups.joined(id)?;
        let own = joined.members[joined.group.place].lines;
        match staged {
            None => own.enter(round, word, payload),
            Some(at) => own.enter_area(round, word, at, payload.len() as u64),
        }
        joined.tell |= staged.is_some();
        joined.contributed = true;
        self.ring_members(id.0);
        Ok(())
    }

    /// Whether all members have finished a round; the gone have.
    pub(super) fn all_finished(&mut self, channel: u32, round: u64) -> bool {
        let registry = self.host.registry();
        let Some(Some(joined)) = self.groups.joined.get_mut(channel as usize) else { return true };
        match joined.unfinished(round, |rank| is_there(registry.state(rank))) {
            None => true,
            Some(place) => {
                self.groups.ask(Want { channel, place, what: What::Finished(round) });
                false
            }
        }
    }

    /// See [`crate::fabric::Port::contribution`].
    #[inline(always)]
    pub(super) fn see_round(
        &mut self,
        id: GroupId,
        place: usize,
    ) -> Result<Option<Contribution>, GroupError> {
        let joined = self.groups.in_rounds(id)?;
        let round = joined.round + 1;
        let Some(member) = joined.members.get(place) else {
            let members = joined.members.len();
            return Err(GroupError::NoSuchMember { place, members });
        };
        let Some(said) = member.lines.look(round) else {
            return self.missing(Want { channel: id.0, place, what: What::Line(round) });
        };
        if let Place::Area(at) = said.place {
            let rank = member.rank;
            joined.tell = true;
            self.check_area(rank, at, said.length)?;
        }
        self.idle = 0;
        self.found_near(said.length);
        Ok(Some(Contribution { said }))
    }

    /// See [`crate::fabric::Port::all_contributed`].
    #[inline]
    pub(super) fn see_all(&mut self, id: GroupId) -> Result<bool, GroupError> {
        let joined = self.groups.in_rounds(id)?;
        let (round, own) = (joined.round + 1, joined.group.place);
        while let Some(member) = joined.members.get(joined.entered) {
            // One's own line is read by the others; to look at it is to wait for it.
            let done = if joined.entered == own {
                joined.contributed
            } else {
                member.lines.is_entered(round)
            };
            if !done {
                let want = Want { channel: id.0, place: joined.entered, what: What::Line(round) };
                return self.missing::<()>(want).map(|_| false);
            }
            joined.entered += 1;
        }
        self.idle = 0;
        self.found_near(0);
        Ok(true)
    }

    /// Notes that something was asked for in vain: nothing, or why it will never be.
    #[cold]
    #[inline(never)]
    pub(super) fn missing<T>(&mut self, want: Want) -> Result<Option<T>, GroupError> {
        self.groups.ask(want);
        let registry = self.host.registry();
        if registry.ends() == 0 {
            return Ok(None);
        }
        let Some(member) = self.groups.member(&want) else { return Ok(None) };
        match gone(registry.state(member.rank), member.rank) {
            // What it did before it went is there by now.
            Some(gone) if !member.has_done(want.what) => Err(gone),
            _ => Ok(None),
        }
    }

    /// See [`crate::fabric::Port::load_contribution`].
    #[inline(always)]
    pub(super) fn load_round(
        &self,
        id: GroupId,
        place: usize,
        contribution: &Contribution,
        from: usize,
        into: &mut [u8],
    ) -> usize {
        let Some(Some(joined)) = self.groups.joined.get(id.0 as usize) else { return 0 };
        let Some(member) = joined.members.get(place) else { return 0 };
        let length = into.len().min(contribution.len().saturating_sub(from));
        if length == 0 {
            // `from` may be anything then.
            return 0;
        }
        let into = &mut into[..length];
        match contribution.said.place {
            Place::Line => member.lines.load(joined.round + 1, from, into),
            // Checked when it was seen, and again by the copy.
            Place::Area(at) => {
                let area = self.peers[member.rank as usize].target.area();
                area.load(at as usize + from, into);
            }
        }
        length
    }

    /// See [`crate::fabric::Port::finish_round`].
    #[inline]
    pub(super) fn end_round(&mut self, id: GroupId) -> Result<(), GroupError> {
        self.catch_up();
        let joined = self.groups.in_rounds(id)?;
        joined.round += 1;
        let all = joined.contributed && joined.entered == joined.members.len();
        if all {
            // Everybody has entered this round, so has finished the one before.
            joined.settled = joined.settled.max(joined.round - 1);
            joined.members[joined.group.place].lines.prepare(joined.round + 1);
        }
        let tell = joined.tell || !all;
        let unseen = joined.contributed && !all;
        joined.contributed = false;
        joined.entered = 0;
        joined.tell = false;
        if tell {
            joined.members[joined.group.place].lines.finish(joined.round);
            self.ring_members(id.0);
        }
        if unseen && self.host.registry().ends() != 0 { self.lost_readers(id) } else { Ok(()) }
    }

    /// An error if a member is gone and cannot have read what this rank contributed last.
    #[cold]
    fn lost_readers(&mut self, id: GroupId) -> Result<(), GroupError> {
        let registry = self.host.registry();
        let joined = self.groups.joined(id)?;
        let round = joined.round;
        let lost = joined.members.iter().find_map(|member| {
            let gone = gone(registry.state(member.rank), member.rank)?;
            (!member.lines.has_finished(round)).then_some(gone)
        });
        lost.map_or(Ok(()), Err)
    }

    /// Wakes the members that sleep and wait for this rank.
    #[inline]
    pub(super) fn ring_members(&self, channel: u32) {
        // The processor needs no fence (see the module); the compiler must not read ahead.
        compiler_fence(Ordering::SeqCst);
        let Some(Some(joined)) = self.groups.joined.get(channel as usize) else { return };
        for member in &joined.members {
            if member.bell.sleeping.load(Ordering::Relaxed) != 0 && member.rank != self.rank {
                // Pairs with the fence of `before_park`.
                fence(Ordering::Acquire);
                let awaited = member.awaited.load(Ordering::Relaxed);
                if awaited == 0 || awaited == u64::from(self.rank) + 1 {
                    self.host.wake(member.rank);
                }
            }
        }
    }
}

/// Why a rank will do nothing any more.
fn gone(state: PeerState, rank: Rank) -> Option<GroupError> {
    match state {
        PeerState::Failed(failure) => Some(GroupError::PeerFailed(failure)),
        PeerState::Left => Some(GroupError::PeerLeft { rank }),
        PeerState::Starting | PeerState::Running => None,
    }
}

/// Whether a rank can still do something.
pub(super) fn is_there(state: PeerState) -> bool {
    matches!(state, PeerState::Starting | PeerState::Running)
}
