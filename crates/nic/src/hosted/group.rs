//! Groups, hosted: registration, and rounds over shared control lines.
//!
//! [`crate::ring::ControlLines`] documents the lines and their reuse; this module decides which
//! member a rank waits for. A poll that finds nothing leaves an [`AwaitedStep`]. The port keeps it
//! until the rank parks, which checks all of them once more before it sleeps. The wait ends in an
//! error when the awaited member is gone.
//!
//! **Which rank a publication wakes.** The publisher stores its line and loads each member's
//! `sleeping` without a barrier in between. The sleeper executes the barrier for both, as for
//! records (see `Host::wait`: the proof needs only that the sleeper checks the line after its
//! barrier). A rank that waits for a hundred others would be woken a hundred times. So before it
//! announces its sleep it names in its segment ([`Awaited`]) the only member that it has polled in
//! vain, and only that one wakes it. It finds the other contributions by polls.

use super::{Host, HostedPort, PeerEntry};
use crate::doorbell::Doorbell;
use crate::fabric::{
    ChainError, ChannelOffer, Command, Contribution, GroupError, GroupId, GroupPort, LAST_FIRST,
    OFFERS, PeerState, Rank, RegisteredGroup, multicast_by,
};
use crate::hosted::multicast::AreaBook;
use crate::hosted::stores::sampled_way;
use crate::hosted::sync::SyncState;
use crate::ring::{ControlLines, LINE_BYTES, LINES, LongStores, PayloadPlace};
use crate::segment::{Awaited, GroupLayout, MemberCounter, SyncCounts};
use crate::sync::{AtomicU64, Ordering, compiler_fence, fence};

/// In [`Awaited`]: no member of a group can end the wait.
const NOBODY: u64 = u64::MAX;

/// The number of rounds that a rank passes over on a channel where other ranks may have begun
/// rounds that it does not know of. It is more than they can have begun, so none of those rounds is
/// ever taken for a round of the channel's next group, unless this happens two million times.
const PASSED_OVER: u64 = 1 << 32;

/// If a member is ahead of this rank, its lines for this many further rounds are prefetched.
/// Between far cores a reader is limited by the transfer of lines one by one: broadcasts of 8 B
/// take 160 ns, without the prefetch 270.
const LOOK_AHEAD: u64 = 2;

/// Bytes of a list entry that locates a rank's part of a contribution: while the rank reads the
/// entry, it prefetches the contribution. Alltoallv of 128 B between far cores: 430 ns, without
/// 550.
const LIST_ENTRY: usize = 8;

/// The groups of a rank.
#[derive(Debug)]
pub(super) struct Groups {
    /// By channel.
    joined: Vec<Option<Joined>>,
    /// The channels of offers that have not ended, one bit each.
    offered: u64,
    /// By channel: this rank's counter when it last left a group on that channel.
    counts: Vec<u64>,
    /// The polls that found nothing since the rank last parked.
    asked: Vec<AwaitedStep>,
    /// The word that names the rank for which this one waits.
    awaited: &'static Awaited,
}

/// A group that this rank is in, or has left while others may still read its lines.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) group: RegisteredGroup,
    pub(super) members: Vec<GroupMember>,
    /// The last round that this rank has finished.
    round: u64,
    /// Whether this rank has contributed to the next round.
    contributed: bool,
    /// Members before this index were seen to have entered the next round.
    entered: usize,
    /// Bytes of this rank's last contribution: the next one most likely has the same length.
    length: usize,
    /// Whether the last poll for a contribution found nothing.
    waited: bool,
    /// Whether a member contributed another word than this rank expects.
    differ: bool,
    /// Whether to publish the end of the round although all members have entered it: a payload of
    /// the round lies in an area, and its room should be free before the next round.
    tell: bool,
    /// All members are known to have finished the rounds up to this one.
    pub(super) settled: u64,
    /// A member on another node.
    pub(super) foreign: Option<Rank>,
    left: bool,
    pub(super) stage: AreaBook,
    /// Whether the group has rounds: it was not left, and all members are on one node.
    rounds: bool,
    pub(super) syncs: Vec<SyncState>,
    /// This rank's counter when it joined: no member had added for this group yet.
    pub(super) counted: u64,
    /// The additions that this rank has made, counted from the first round on.
    pub(super) added: u64,
    /// The first round.
    pub(super) first: u64,
}

/// Another member's shared words.
#[derive(Debug)]
pub(super) struct GroupMember {
    pub(super) rank: Rank,
    pub(super) lines: &'static ControlLines,
    pub(super) counts: &'static SyncCounts,
    pub(super) counter: &'static MemberCounter,
    pub(super) bell: &'static Doorbell,
    pub(super) awaited: &'static Awaited,
}

/// A step of a member for which this rank waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AwaitedStep {
    pub(super) channel: u32,
    pub(super) place: usize,
    pub(super) step: MemberStep,
}

/// A step of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberStep {
    /// It contributes to a round.
    Line(u64),
    /// It finishes a round.
    Finished(u64),
    /// It enters a barrier: the sync id, and the count of that barrier.
    Sync(u32, u64),
    /// All members have added to its counter, up to this count.
    Counted(u64),
}

impl AwaitedStep {
    /// Whether it is the same kind of step on the same channel, possibly of another round.
    fn replaces(&self, other: &AwaitedStep) -> bool {
        let same = match (self.step, other.step) {
            (MemberStep::Sync(id, _), MemberStep::Sync(other, _)) => id == other,
            (one, other) => std::mem::discriminant(&one) == std::mem::discriminant(&other),
        };
        same && self.channel == other.channel
    }
}

impl GroupMember {
    fn new(rank: Rank, peer: &PeerEntry, channel: u32) -> GroupMember {
        let target = peer.target;
        GroupMember {
            rank,
            lines: target.lines(channel),
            counts: target.syncs(channel),
            counter: target.counter(channel),
            bell: target.doorbell(),
            awaited: target.awaited(),
        }
    }

    pub(super) fn has_done(&self, step: MemberStep) -> bool {
        match step {
            MemberStep::Line(round) => self.lines.is_entered(round),
            MemberStep::Finished(round) => self.lines.has_finished(round),
            MemberStep::Sync(id, count) => {
                self.counts[id as usize].load(Ordering::Acquire) >= count
            }
            MemberStep::Counted(count) => self.counter.count.load(Ordering::Acquire) >= count,
        }
    }
}

impl Joined {
    /// The member after this rank.
    pub(super) fn next_member(&self) -> Rank {
        self.members[(self.group.place + 1) % self.members.len()].rank
    }

    /// Whether this rank is the one after the member at `place`.
    fn is_next_to(&self, place: usize) -> bool {
        (place + 1) % self.members.len() == self.group.place
    }

    /// The first member that `matters` accepts and that has not finished a round.
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
        // Not beyond this rank's own round: nothing asks about later ones.
        self.settled = least.min(self.round).max(round);
        None
    }
}

impl Groups {
    pub(super) fn new(layout: &GroupLayout, awaited: &'static Awaited) -> Groups {
        let joined = (0..layout.channels).map(|_| None).collect();
        let counts = vec![0; layout.channels as usize];
        Groups { joined, offered: 0, counts, asked: Vec::new(), awaited }
    }

    /// The group as registered.
    pub(super) fn group(&self, id: GroupId) -> Option<&RegisteredGroup> {
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
    pub(super) fn ask(&mut self, want: AwaitedStep) {
        if self.asked.last() == Some(&want) {
            return;
        }
        match self.asked.iter_mut().find(|asked| want.replaces(asked)) {
            Some(asked) => *asked = want,
            None => self.asked.push(want),
        }
    }

    fn member(&self, want: &AwaitedStep) -> Option<&GroupMember> {
        self.joined.get(want.channel as usize)?.as_ref()?.members.get(want.place)
    }

    /// Whether a step that a poll missed has been taken.
    #[inline]
    pub(super) fn pending(&self) -> bool {
        self.asked.iter().any(|want| self.has(want))
    }

    /// Whether this step has been taken.
    pub(super) fn has(&self, want: &AwaitedStep) -> bool {
        self.member(want).is_some_and(|member| member.has_done(want.step))
    }

    /// Moves the polls that found nothing to the caller that made them.
    pub(super) fn take_asked(&mut self) -> impl Iterator<Item = AwaitedStep> {
        self.asked.drain(..)
    }

    /// Names the rank for which this one waits, before it may sleep.
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
            // Release: a rank that sees this rank asleep sees this word.
            fence(Ordering::Release);
        }
    }

    /// Forgets the polls: they will be repeated, or are obsolete.
    #[inline]
    pub(super) fn after_park(&mut self) {
        self.asked.clear();
    }
}

impl<H: Host> GroupPort for HostedPort<H> {
    fn set_chained(&mut self, is_open: bool) {
        match self.host.conductor() {
            Some(conductor) if is_open => conductor.begin_chain(),
            Some(conductor) => _ = conductor.end_chain(),
            None => {}
        }
    }

    fn join(&mut self, channel: u32, ranks: &[Rank], first: u64) -> Result<GroupId, GroupError> {
        let channels = self.groups.joined.len() as u32;
        if channel >= channels {
            return Err(GroupError::NoSuchChannel { channel, channels });
        }
        if !self.is_free(channel) {
            return Err(GroupError::ChannelInUse { channel });
        }
        let place = self.check_members(ranks)?;
        let least = self.least_first(channel);
        if !(least..=LAST_FIRST).contains(&first) {
            return Err(GroupError::FirstRound { channel, first, least });
        }
        let node = self.host.node_of(self.rank);
        let foreign = ranks.iter().copied().find(|rank| self.host.node_of(*rank) != node);
        let member = |rank: &Rank| GroupMember::new(*rank, &self.peers[*rank as usize], channel);
        let area_bytes = self.own.layout().groups.area_bytes;
        self.groups.joined[channel as usize] = Some(Joined {
            members: ranks.iter().map(member).collect(),
            group: RegisteredGroup {
                members: ranks.to_vec(),
                place,
                registers: Vec::new(),
                area_bytes: area_bytes as usize,
            },
            round: first,
            contributed: false,
            entered: 0,
            length: 0,
            waited: true,
            differ: false,
            tell: false,
            settled: first,
            foreign,
            left: false,
            stage: AreaBook::new(u64::from(area_bytes)),
            rounds: foreign.is_none(),
            syncs: SyncState::all(first),
            counted: self.groups.counts[channel as usize],
            added: first,
            first,
        });
        Ok(GroupId(channel))
    }

    fn offer(&mut self, like: u32) -> ChannelOffer {
        let channels = self.groups.joined.len().min(u64::BITS as usize) as u32;
        let is_open = |port: &mut Self, channel| {
            port.groups.offered & (1_u64 << channel) == 0 && port.is_free(channel)
        };
        let open: Vec<u32> = (0..channels).filter(|channel| is_open(self, *channel)).collect();
        let alike = |channel: &&u32| **channel % OFFERS == like % OFFERS;
        let any_alike = open.iter().any(|channel| alike(&channel));
        let mut offer = ChannelOffer { channels: 0, first: 0 };
        for channel in open.iter().filter(|channel| !any_alike || alike(channel)) {
            offer.channels |= 1_u64 << channel;
            offer.first = offer.first.max(self.least_first(*channel));
        }
        self.groups.offered |= offer.channels;
        offer
    }

    fn withdraw(&mut self, offer: ChannelOffer) {
        self.groups.offered &= !offer.channels;
    }

    fn pass_over(&mut self, channels: u64) {
        let count = self.groups.joined.len().min(u64::BITS as usize) as u32;
        for channel in (0..count).filter(|channel| channels & (1_u64 << channel) != 0) {
            let own = self.own.lines(channel);
            // Another process may have overwritten it.
            own.finish(own.last().saturating_add(PASSED_OVER));
            // No rank is woken: those that wait for a contribution would wait in vain.
        }
    }

    fn leave(&mut self, id: GroupId) -> Result<u64, GroupError> {
        let joined = self.groups.joined(id)?;
        (joined.left, joined.rounds) = (true, false);
        // A round that was begun and not finished counts: its line has been written.
        joined.round += u64::from(joined.contributed);
        let own = &joined.members[joined.group.place];
        own.lines.finish(joined.round);
        let next = joined.syncs.iter().map(|sync| sync.count).fold(joined.round, u64::max);
        let next = next.max(joined.added);
        // A member leaves when all have added for its last round, and later adds nothing.
        let count = own.counter.count.load(Ordering::Acquire);
        self.groups.counts[id.0 as usize] = count;
        self.ring_members(id.0);
        Ok(next)
    }

    fn group(&self, group: GroupId) -> Option<&RegisteredGroup> {
        self.groups.group(group)
    }

    fn multicast(
        &mut self,
        group: GroupId,
        command: &Command<'_>,
        done: usize,
        bytes: usize,
    ) -> Result<(), ChainError> {
        self.doorbells += 1;
        // Whether the member before has taken the whole payload.
        let mut whole = false;
        let post = |port: &mut Self, one: &Command<'_>| {
            let begins = one.offset == command.offset;
            let taken = port.execute_one_of_many(one, whole && begins)?;
            whole = begins && taken == one.payload.len();
            Ok(taken)
        };
        multicast_by(self, group, command, (done, bytes), post, Self::tell_completed)
    }

    #[inline]
    fn contribute(&mut self, id: GroupId, word: u64, payload: &[&[u8]]) -> Result<(), GroupError> {
        self.catch_up();
        let joined = self.groups.in_rounds(id)?;
        if joined.contributed {
            return Err(GroupError::Contributed);
        }
        let round = joined.round + 1;
        // The previous round on the line of this round.
        let before = round.saturating_sub(LINES as u64);
        if joined.settled < before && !self.all_finished(id.0, before) {
            return Err(GroupError::Full);
        }
        let length = payload.iter().map(|piece| piece.len()).sum();
        let staged =
            if length > LINE_BYTES { Some(self.stage(id, round, payload, length)?) } else { None };
        let joined = self.groups.joined(id)?;
        let own = joined.members[joined.group.place].lines;
        let whole = payload.iter().find(|piece| piece.len() == length);
        match (staged, whole) {
            (None, _) if length == 0 => own.enter(round, word, &[]),
            (None, Some(whole)) => own.enter(round, word, whole),
            (None, None) => {
                let (mut whole, mut end) = ([0; LINE_BYTES], 0);
                for piece in payload {
                    whole[end..end + piece.len()].copy_from_slice(piece);
                    end += piece.len();
                }
                own.enter(round, word, &whole[..end]);
            }
            (Some((at, sample)), _) => own.enter_area(round, word, at, length as u64, sample),
        }
        joined.tell |= staged.is_some();
        (joined.contributed, joined.length) = (true, length);
        self.ring_members(id.0);
        Ok(())
    }

    #[inline(always)]
    fn contribution(
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
            joined.waited = true;
            return self.missing(AwaitedStep {
                channel: id.0,
                place,
                step: MemberStep::Line(round),
            });
        };
        if !std::mem::replace(&mut joined.waited, false) {
            // The member is ahead of this rank.
            let length = if said.place == PayloadPlace::Line { said.length as usize } else { 0 };
            (1..=LOOK_AHEAD).for_each(|next| member.lines.look_ahead(round + next, length));
        }
        if let PayloadPlace::Area { at, .. } = said.place {
            let rank = member.rank;
            joined.tell = true;
            joined.stage.check(rank, at, said.length)?;
        }
        self.idle = 0;
        self.found_near(said.length);
        Ok(Some(Contribution { said }))
    }

    #[inline]
    fn all_contributed(&mut self, id: GroupId, word: u64) -> Result<Option<bool>, GroupError> {
        let joined = self.groups.in_rounds(id)?;
        let (round, own) = (joined.round + 1, joined.group.place);
        while let Some(member) = joined.members.get(joined.entered) {
            // The other members read this rank's own line; reading it here would cost a cache miss.
            let said = if joined.entered == own {
                joined.contributed.then_some(word)
            } else {
                member.lines.word(round)
            };
            let Some(said) = said else {
                let want = AwaitedStep {
                    channel: id.0,
                    place: joined.entered,
                    step: MemberStep::Line(round),
                };
                return self.missing(want);
            };
            joined.differ |= said != word;
            joined.entered += 1;
        }
        let same = !joined.differ;
        self.idle = 0;
        self.found_near(0);
        Ok(Some(same))
    }

    #[inline(always)]
    fn load_contribution(
        &mut self,
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
            // `from` may be anything here.
            return 0;
        }
        let into = &mut into[..length];
        match contribution.said.place {
            PayloadPlace::Line => {
                if length == LIST_ENTRY {
                    member.lines.look_ahead(joined.round + 1, contribution.len());
                }
                member.lines.load(joined.round + 1, from, into);
            }
            // The bounds were checked when the contribution was found; the copy checks them again.
            PayloadPlace::Area { at, sample } => {
                let (rank, is_next) = (member.rank, joined.is_next_to(place));
                let area = self.peers[rank as usize].target.area(id.0);
                let load = |into: &mut [u8]| area.load(at as usize + from, into);
                match sampled_way(sample).filter(|_| is_next && length >= LongStores::FROM) {
                    None => load(into),
                    Some(way) => {
                        let began = self.host.now();
                        load(into);
                        let took = self.host.now() - began;
                        let class = LongStores::class_of(contribution.len());
                        self.note_load(rank, way, class, took, length);
                    }
                }
            }
        }
        length
    }

    #[inline]
    fn finish_round(&mut self, id: GroupId) -> Result<(), GroupError> {
        self.catch_up();
        let joined = self.groups.in_rounds(id)?;
        joined.round += 1;
        let all = joined.contributed && joined.entered == joined.members.len();
        if all {
            // All members have entered this round, so all have finished the one before.
            joined.settled = joined.settled.max(joined.round - 1);
            joined.members[joined.group.place].lines.prepare(joined.round + 1, joined.length);
        }
        let tell = joined.tell || !all;
        let unseen = joined.contributed && !all;
        joined.contributed = false;
        (joined.entered, joined.differ) = (0, false);
        joined.tell = false;
        if tell {
            joined.members[joined.group.place].lines.finish(joined.round);
            self.ring_members(id.0);
        }
        if unseen && self.host.registry().ends() != 0 { self.lost_readers(id) } else { Ok(()) }
    }

    fn sync(&mut self, group: GroupId, id: u32) -> Result<(), GroupError> {
        self.send_sync(group, id)
    }

    fn synced(&mut self, group: GroupId, id: u32) -> Result<bool, GroupError> {
        self.see_sync(group, id)
    }

    fn add(&mut self, group: GroupId, place: usize) -> Result<(), GroupError> {
        self.add_one(group, place)
    }

    fn add_to_all(&mut self, group: GroupId) -> Result<(), GroupError> {
        self.add_all(group)
    }

    fn counted(&mut self, group: GroupId, rounds: u64) -> Result<bool, GroupError> {
        self.see_count(group, rounds)
    }

    fn reaches(&self, rank: Rank) -> bool {
        rank < self.size && self.host.is_here(rank)
    }
}

impl<H: Host> HostedPort<H> {
    /// Checks the list of members. Returns this rank's index in it.
    fn check_members(&self, ranks: &[Rank]) -> Result<usize, GroupError> {
        let size = self.size;
        if let Some(rank) = ranks.iter().copied().find(|rank| *rank >= size) {
            return Err(GroupError::NoSuchRank { rank, size });
        }
        let mut sorted = ranks.to_vec();
        sorted.sort_unstable();
        let twice = sorted.windows(2).any(|pair| pair[0] == pair[1]);
        let here = ranks.iter().all(|rank| self.host.is_here(*rank));
        let place = ranks.iter().position(|rank| *rank == self.rank);
        place.filter(|_| here && !twice).ok_or(GroupError::Members { rank: self.rank })
    }

    /// The smallest first round of a group on a channel that this rank can accept.
    fn least_first(&self, channel: u32) -> u64 {
        let own = GroupMember::new(self.rank, &self.peers[self.rank as usize], channel);
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let added = count(&own.counter.own.added);
        own.counts.iter().map(count).fold(own.lines.last().max(added), u64::max)
    }

    /// Whether a group can be joined on a channel: it is unused, or this rank has left its group
    /// and no member still reads that group's lines and area.
    fn is_free(&mut self, channel: u32) -> bool {
        let registry = self.host.registry();
        match &mut self.groups.joined[channel as usize] {
            None => true,
            Some(joined) => {
                let there = |rank| is_there(registry.state(rank));
                joined.left && joined.unfinished(joined.round, there).is_none()
            }
        }
    }

    /// Whether all members have finished a round. A departed member counts as finished.
    pub(super) fn all_finished(&mut self, channel: u32, round: u64) -> bool {
        let registry = self.host.registry();
        let Some(Some(joined)) = self.groups.joined.get_mut(channel as usize) else { return true };
        match joined.unfinished(round, |rank| is_there(registry.state(rank))) {
            None => true,
            Some(place) => {
                self.groups.ask(AwaitedStep { channel, place, step: MemberStep::Finished(round) });
                false
            }
        }
    }

    /// Records a poll that found nothing. Returns `None`, or why the step will never be taken.
    #[cold]
    #[inline(never)]
    pub(super) fn missing<T>(&mut self, want: AwaitedStep) -> Result<Option<T>, GroupError> {
        self.groups.ask(want);
        if self.host.registry().ends() == 0 {
            return Ok(None);
        }
        let Some(member) = self.groups.member(&want) else { return Ok(None) };
        match gone(self.host.state_of(member.rank), member.rank) {
            // A departed member's last steps are visible by now.
            Some(gone) if !member.has_done(want.step) => Err(gone),
            _ => Ok(None),
        }
    }

    /// Returns an error if a departed member cannot have read this rank's last contribution.
    #[cold]
    fn lost_readers(&mut self, id: GroupId) -> Result<(), GroupError> {
        let joined = self.groups.joined(id)?;
        let round = joined.round;
        let lost = joined.members.iter().find_map(|member| {
            let gone = gone(self.host.state_of(member.rank), member.rank)?;
            (!member.lines.has_finished(round)).then_some(gone)
        });
        lost.map_or(Ok(()), Err)
    }

    /// Wakes the members that sleep and wait for this rank.
    #[inline]
    pub(super) fn ring_members(&self, channel: u32) {
        // The processor needs no fence (see the module); the compiler must not move the load up.
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

/// The error for a rank that is gone.
pub(super) fn gone(state: PeerState, rank: Rank) -> Option<GroupError> {
    match state {
        PeerState::Failed(failure) => Some(GroupError::PeerFailed(failure)),
        PeerState::Left => Some(GroupError::PeerLeft { rank }),
        PeerState::Starting | PeerState::Running => None,
    }
}

/// Whether a rank may still act.
pub(super) fn is_there(state: PeerState) -> bool {
    matches!(state, PeerState::Starting | PeerState::Running)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hosted::{HostedPort, MissedStep};
    use crate::loopback::{LoopbackConfig, LoopbackHost, open};

    type Ports = [HostedPort<LoopbackHost>; 2];

    /// Two ranks in a group.
    fn pair() -> (Ports, GroupId) {
        let mut ports = Ports::try_from(open(&LoopbackConfig::for_ranks(2)).unwrap()).unwrap();
        let ids = ports.each_mut().map(|port| port.join(0, &[0, 1], 0).unwrap());
        (ports, ids[0])
    }

    #[test]
    fn a_group_is_as_it_was_joined() {
        let (ports, id) = pair();
        let area = GroupLayout::DEFAULT.area_bytes as usize;
        for (place, port) in ports.iter().enumerate() {
            let group = port.group(id).unwrap();
            let found = (group.members(), group.place(), group.area_bytes());
            assert_eq!(found, (&[0, 1][..], place, area));
        }
    }

    #[test]
    fn an_empty_contribution_has_no_bytes() {
        let ([mut a, mut b], id) = pair();
        for (payload, is_empty) in [(&[][..], true), (&[7; 8], false)] {
            a.contribute(id, 5, &[payload]).unwrap();
            let found = b.contribution(id, 0).unwrap().unwrap();
            assert_eq!((found.word(), found.len(), found.is_empty()), (5, payload.len(), is_empty));
            a.finish_round(id).unwrap();
            b.finish_round(id).unwrap();
        }
    }

    #[test]
    fn pieces_of_a_contribution_follow_one_another() {
        let ([mut a, mut b], id) = pair();
        let whole: Vec<u8> = (0..9000).map(|at| (at % 251) as u8).collect();
        for lengths in [&[0][..], &[3, 5], &[0, 48, 0, 64], &[600, 24], &[600, 25], &[12, 8988]] {
            let mut rest = &whole[..];
            let pieces = lengths.iter().map(|length| rest.split_off(..*length).unwrap());
            a.contribute(id, 5, &pieces.collect::<Vec<_>>()).unwrap();
            let found = b.contribution(id, 0).unwrap().unwrap();
            let length = lengths.iter().sum();
            let mut into = vec![0; length];
            assert_eq!(b.load_contribution(id, 0, &found, 0, &mut into), length);
            assert!(into == whole[..length] && found.len() == length, "{lengths:?}");
            a.finish_round(id).unwrap();
            b.finish_round(id).unwrap();
        }
    }

    #[test]
    fn a_line_lasts_until_all_finished_its_round() {
        let ([mut a, mut b], id) = pair();
        a.contribute(id, 5, &[b"kept"]).unwrap();
        b.contribute(id, 5, &[]).unwrap();
        assert_eq!(a.all_contributed(id, 5), Ok(Some(true)));
        a.finish_round(id).unwrap();
        for _ in 1..LINES {
            a.contribute(id, 6, &[]).unwrap();
            a.finish_round(id).unwrap();
        }
        assert_eq!(a.contribute(id, 7, &[b"over"]), Err(GroupError::Full));
        let found = b.contribution(id, 0).unwrap().unwrap();
        let mut into = [0; 4];
        assert_eq!(b.load_contribution(id, 0, &found, 0, &mut into), 4);
        assert_eq!(&into, b"kept");
        b.finish_round(id).unwrap();
        a.contribute(id, 7, &[b"over"]).unwrap();
    }

    #[test]
    fn a_later_step_replaces_one_of_its_kind() {
        let ([mut a, _], _) = pair();
        let on = |channel, step| AwaitedStep { channel, place: 1, step };
        let steps = [
            on(0, MemberStep::Sync(1, 1)),
            on(0, MemberStep::Sync(2, 1)),
            on(0, MemberStep::Line(1)),
            on(0, MemberStep::Finished(1)),
            on(1, MemberStep::Line(1)),
        ];
        let later = [
            on(0, MemberStep::Sync(1, 2)),
            on(0, MemberStep::Sync(2, 2)),
            on(0, MemberStep::Line(2)),
            on(0, MemberStep::Finished(2)),
            on(1, MemberStep::Line(2)),
        ];
        steps.iter().chain(&later).for_each(|step| a.groups.ask(*step));
        let mut asked = Vec::new();
        a.take_steps(&mut asked);
        assert_eq!(asked, later.map(MissedStep::Member));
    }
}
