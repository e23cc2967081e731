//! Collectives among the ranks of one node, without messages.
//!
//! Ranks of a node share control lines and multicast areas (`hikyaku_nic::fabric::Group`): what a
//! rank says is written once and read by all.
//!
//! ```text
//!   barrier      everybody enters, everybody looks at everybody
//!   allreduce    to 112 bytes: each line carries its rank's numbers, every rank combines all
//!                larger: every rank combines one part of everybody's, then all collect the parts
//!   broadcast    the root writes, all read, in parts; the root is a few parts ahead
//!   allgather    everybody writes, everybody reads
//! ```
//!
//! What all contribute is combined in the order of the ranks, and each result by one rank or by all
//! alike, so every rank has the same bits and operations need not be commutative.
//!
//! Over several nodes, the same is done within each, and between them by the first rank of each;
//! see [`crate::nodes`].
//!
//! A contribution says which operation it belongs to and how many bytes that has in all. So ranks
//! that call different operations, or with different lengths, learn that from each other.

use hikyaku_msg::MsgError;
use hikyaku_nic::fabric::{
    Activity, Contribution, Group, GroupError, GroupId, Name, Port, Rank, Wait,
};
use hikyaku_nic::ring::LINE_BYTES;

use crate::error::Error;
use crate::held::Held;
use crate::nodes::{Head, Nodes, Star, of_head, to_head};

/// A part of a broadcast is this part of the multicast area: small enough that readers start
/// early, large enough that a round costs little beside the copy (32 KiB of 256).
const BROADCAST_PARTS: usize = 8;

/// Likewise where all contribute, and wait for each other anyway.
const EXCHANGE_PARTS: usize = 4;

/// From here on an allreduce shares out the work.
const SHARE_FROM: usize = 2 << 10;

/// Bytes that are combined at a time: in the first-level cache.
const SCRATCH_BYTES: usize = 4 << 10;

/// Largest element of an allreduce, bytes.
pub(crate) const WIDEST: usize = SCRATCH_BYTES;

/// Which operation a round belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Barrier = 1,
    Broadcast = 2,
    Allreduce = 3,
    Allgather = 4,
    /// In place of what was to come: why it does not.
    Trouble = 5,
}

/// The kinds that are calls, as people know them.
const NAMES: [&str; 5] = ["something else", "barrier", "broadcast", "allreduce", "allgather"];

impl Kind {
    pub(crate) fn name(number: u64) -> &'static str {
        usize::try_from(number).ok().and_then(|at| NAMES.get(at)).unwrap_or(&NAMES[0])
    }

    /// The reverse of [`Kind::name`].
    pub(crate) fn number(name: &str) -> u64 {
        NAMES.iter().position(|known| *known == name).unwrap_or(0) as u64
    }

    /// What a contribution says of itself.
    #[inline]
    pub(crate) fn word(self, bytes: usize) -> u64 {
        (self as u64) << 56 | bytes as u64
    }

    /// What a rank waits for in the operation of a contribution.
    fn wait(word: u64, peer: Option<Rank>) -> Wait {
        let name = Name::new(Kind::name(word >> 56));
        Wait::new(Activity::Collective).named(name).with(peer, None)
    }

    /// Bytes that a contribution says its operation has.
    pub(crate) fn bytes_of(word: u64) -> u64 {
        word & ((1 << 56) - 1)
    }
}

/// The ranks of a node, at the engine of one of them.
#[derive(Debug)]
pub(crate) struct Node<'e, P: Port> {
    engine: Held<'e, P>,
    group: GroupId,
    /// How many ranks, and this one's place.
    size: usize,
    place: usize,
    /// What this rank contributed last.
    word: u64,
    /// The other nodes, if there are any.
    nodes: Option<&'e Nodes>,
}

impl<'e, P: Port> Node<'e, P> {
    /// The ranks of a group that was joined and whose places are the ranks' order.
    #[inline]
    pub(crate) fn new(
        engine: impl Into<Held<'e, P>>,
        group: GroupId,
        nodes: &'e Nodes,
    ) -> Option<Node<'e, P>> {
        let engine = engine.into();
        let registered = engine.port().group(group)?;
        let (size, place) = (registered.members().len(), registered.place());
        let nodes = (!nodes.is_one()).then_some(nodes);
        Some(Node { engine, group, size, place, word: 0, nodes })
    }

    /// Bytes of a part: whole elements of `width` bytes, at least one.
    fn part_bytes(&self, of_the_area: usize, width: usize) -> usize {
        let area = self.engine.port().group(self.group).map_or(0, Group::area_bytes);
        ((area / of_the_area).max(LINE_BYTES) / width * width).max(width)
    }

    /// Enters the next round.
    #[inline]
    fn contribute(&mut self, word: u64, payload: &[u8]) -> Result<(), Error> {
        let group = self.group;
        self.word = word;
        match self.engine.port_mut().contribute(group, word, payload) {
            Ok(()) => Ok(()),
            Err(GroupError::Full) => self.contribute_later(word, payload),
            Err(error) => Err(error.into()),
        }
    }

    #[inline(never)]
    fn contribute_later(&mut self, word: u64, payload: &[u8]) -> Result<(), Error> {
        let group = self.group;
        let wait = || Kind::wait(word, None);
        let answer = self.engine.watch(wait, |port| match port.contribute(group, word, payload) {
            Err(GroupError::Full) => None,
            answer => Some(answer),
        });
        answer.map_err(Error::from)
    }

    /// What a member contributes to this round, which must be of the operation `word` says.
    ///
    /// Inlined, as what it calls is: written to memory in words and read back in vectors, a
    /// contribution costs 40 ns of an allreduce of 65.
    #[inline(always)]
    fn contribution(&mut self, place: usize, word: u64) -> Result<Contribution, Error> {
        let contribution = self.look(place)?;
        if contribution.word() == word {
            return Ok(contribution);
        }
        Err(self.disagreement(place, contribution.word(), word))
    }

    /// What a member contributes to this round.
    #[inline(always)]
    fn look(&mut self, place: usize) -> Result<Contribution, Error> {
        match self.engine.port_mut().contribution(self.group, place) {
            Ok(Some(contribution)) => Ok(contribution),
            Ok(None) => self.look_again(place),
            Err(error) => Err(error.into()),
        }
    }

    #[inline(never)]
    fn look_again(&mut self, place: usize) -> Result<Contribution, Error> {
        let group = self.group;
        let peer = self.engine.port().group(group).map(|group| group.members()[place]);
        let word = self.word;
        let wait = || Kind::wait(word, peer);
        let looked = self.engine.watch(wait, |port| port.contribution(group, place).transpose());
        Ok(looked?)
    }

    #[cold]
    fn disagreement(&self, place: usize, theirs: u64, ours: u64) -> Error {
        let rank = self.engine.port().group(self.group).map_or(0, |group| group.members()[place]);
        Error::Disagreement {
            rank,
            theirs: Kind::name(theirs >> 56),
            given: Kind::bytes_of(theirs),
            own: self.engine.rank(),
            ours: Kind::name(ours >> 56),
            expected: Kind::bytes_of(ours),
        }
    }

    #[inline]
    fn load(&self, place: usize, from: &Contribution, offset: usize, into: &mut [u8]) -> usize {
        self.engine.port().load_contribution(self.group, place, from, offset, into)
    }

    /// Ends the round, whatever came of it.
    #[inline]
    fn finish<T>(&mut self, outcome: Result<T, Error>) -> Result<T, Error> {
        let finished = self.engine.port_mut().finish_round(self.group);
        let value = outcome?;
        finished?;
        Ok(value)
    }

    /// Every rank contributes `mine`; `see` gets what is there of each of `places`, in their order:
    /// of this rank's own nothing. To read back a line that others have read costs as much as
    /// theirs: processors hand over a modified line to its reader.
    #[inline]
    fn exchange(
        &mut self,
        word: u64,
        mine: &[u8],
        places: impl Iterator<Item = usize>,
        mut see: impl FnMut(&Self, usize, Option<&Contribution>),
    ) -> Result<(), Error> {
        self.contribute(word, mine)?;
        let seen = || {
            self.all_contributed()?;
            for place in places {
                if place == self.place {
                    see(self, place, None);
                } else {
                    let contribution = self.contribution(place, word)?;
                    see(self, place, Some(&contribution));
                }
            }
            Ok(())
        };
        let outcome = seen();
        self.finish(outcome)
    }

    #[inline]
    fn all_contributed(&mut self) -> Result<(), Error> {
        let group = self.group;
        let word = self.word;
        let wait = || Kind::wait(word, None);
        let all = self.engine.watch(wait, |port| match port.all_contributed(group) {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(error) => Some(Err(error)),
        });
        Ok(all?)
    }

    /// See [`crate::World::barrier`].
    #[inline]
    pub(crate) fn barrier(&mut self) -> Result<(), Error> {
        match self.nodes {
            None => self.near_barrier(),
            Some(nodes) => self.far_barrier(nodes),
        }
    }

    #[inline]
    fn near_barrier(&mut self) -> Result<(), Error> {
        self.exchange(Kind::Barrier.word(0), &[], 0..self.size, |_, _, _| {})
    }

    /// Not in line, as the other operations over several nodes are not: the short way within one
    /// node would be a third longer.
    #[inline(never)]
    fn far_barrier(&mut self, nodes: &'e Nodes) -> Result<(), Error> {
        let near = self.near_barrier();
        self.across(nodes, Kind::Barrier.word(0), near, &mut [], |star, near, data| {
            star.collect(near, data, |_, _| {})
        })
    }

    /// See [`crate::World::broadcast`]. The root exists.
    #[inline]
    pub(crate) fn broadcast(&mut self, data: &mut [u8], root: Rank) -> Result<(), Error> {
        let word = Kind::Broadcast.word(data.len());
        match self.nodes {
            None => self.near_broadcast(data, root as usize, word),
            Some(nodes) => self.far_broadcast(nodes, data, root, word),
        }
    }

    #[inline(never)]
    fn far_broadcast(
        &mut self,
        nodes: &'e Nodes,
        data: &mut [u8],
        root: Rank,
        word: u64,
    ) -> Result<(), Error> {
        if nodes.is_near(root) {
            let near = self.near_broadcast(data, (root - nodes.mates.start) as usize, word);
            // The others here have what they wait for.
            return match self.place {
                0 => Star::new(nodes, &mut self.engine, word).tell_all(near, data),
                _ => near,
            };
        }
        self.across(nodes, word, Ok(()), data, |star, _, data| star.hear(nodes.node_of(root), data))
    }

    /// What the leaders do, and then their nodes: `data` is what comes of it. Who could not do its
    /// part in the node knows why, as do all others there.
    fn across<F>(
        &mut self,
        nodes: &'e Nodes,
        word: u64,
        near: Result<(), Error>,
        data: &mut [u8],
        leaders: F,
    ) -> Result<(), Error>
    where
        F: FnOnce(&mut Star<'_, '_, P>, Result<(), Error>, &mut [u8]) -> Result<(), Error>,
    {
        if self.place > 0 {
            near?;
            return self.near_broadcast(data, 0, word);
        }
        let awaited = near.is_ok();
        self.engine.set_whole(Some(Kind::wait(word, None)));
        let outcome = leaders(&mut Star::new(nodes, &mut self.engine, word), near, data);
        self.engine.set_whole(None);
        match &outcome {
            _ if !awaited => {}
            Ok(()) => self.near_broadcast(data, 0, word)?,
            Err(error) => {
                let head = to_head(Err(error), self.engine.rank());
                self.contribute(Kind::Trouble.word(0), bytemuck::bytes_of(&head))?;
                self.finish(Ok(()))?;
            }
        }
        outcome
    }

    /// What the member at place `root` has, to all of the node.
    fn near_broadcast(&mut self, data: &mut [u8], root: usize, word: u64) -> Result<(), Error> {
        let part = self.part_bytes(BROADCAST_PARTS, 1);
        if self.place != root {
            return self.broadcast_from(data, root, word, part);
        }
        let mut outcome = Ok(());
        for from in starts(data.len(), part) {
            let to = data.len().min(from + part);
            self.contribute(word, &data[from..to])?;
            // Some may be gone; the others want the rest.
            outcome = outcome.and(self.finish(Ok(())));
        }
        outcome
    }

    /// A receiver's side. One that wants another length than the root has goes through the rounds
    /// all the same, so that it is with the others afterwards.
    fn broadcast_from(
        &mut self,
        data: &mut [u8],
        root: usize,
        word: u64,
        part: usize,
    ) -> Result<(), Error> {
        let mut outcome = Ok(());
        let mut length = data.len();
        let mut from = 0;
        loop {
            let looked = self.look(root);
            let Ok(contribution) = looked else { return self.finish(looked.map(drop)) };
            let theirs = contribution.word();
            if theirs == word {
                let to = data.len().min(from + part);
                self.load(root, &contribution, 0, &mut data[from..to]);
            } else if theirs == Kind::Trouble.word(0) {
                let mut head = Head::default();
                self.load(root, &contribution, 0, bytemuck::bytes_of_mut(&mut head));
                outcome = outcome.and(of_head(&head, root as Rank).map(drop));
                length = 0;
            } else if outcome.is_ok() {
                outcome = Err(self.disagreement(root, theirs, word));
                let same_call = theirs >> 56 == word >> 56;
                length = if same_call { Kind::bytes_of(theirs) as usize } else { 0 };
            }
            self.finish(Ok(()))?;
            from = from.saturating_add(part);
            if from >= length {
                return outcome;
            }
        }
    }

    /// See [`crate::World::allreduce`]: `combine(left, right)` puts `left ∘ right` into `right`;
    /// elements are `width` bytes, at most [`WIDEST`]. What is combined is `0 ∘ (1 ∘ ...)`
    /// within a node, and `(node 0 ∘ node 1) ∘ ...` of that.
    pub(crate) fn allreduce(
        &mut self,
        data: &mut [u8],
        width: usize,
        combine: impl Fn(&[u8], &mut [u8]),
    ) -> Result<(), Error> {
        match self.nodes {
            None => self.near_allreduce(data, width, &combine),
            Some(nodes) => self.far_allreduce(nodes, data, width, &combine),
        }
    }

    #[inline(never)]
    fn far_allreduce(
        &mut self,
        nodes: &'e Nodes,
        data: &mut [u8],
        width: usize,
        combine: &impl Fn(&[u8], &mut [u8]),
    ) -> Result<(), Error> {
        let near = self.near_allreduce(data, width, combine);
        self.across(nodes, Kind::Allreduce.word(data.len()), near, data, |star, near, data| {
            star.collect(near, data, |data, theirs| {
                combine(data, theirs);
                data.copy_from_slice(theirs);
            })
        })
    }

    #[inline]
    fn near_allreduce(
        &mut self,
        data: &mut [u8],
        width: usize,
        combine: &impl Fn(&[u8], &mut [u8]),
    ) -> Result<(), Error> {
        let word = Kind::Allreduce.word(data.len());
        match data.len() {
            // The usual one or two numbers, without the cost of room for more.
            0..=16 => return self.allreduce_lines::<16>(data, word, combine),
            17..=LINE_BYTES => return self.allreduce_lines::<LINE_BYTES>(data, word, combine),
            _ => {}
        }
        let part = self.part_bytes(EXCHANGE_PARTS, width);
        for part in data.chunks_mut(part) {
            self.allreduce_part(part, word, width, combine)?;
        }
        Ok(())
    }

    /// At most `ROOM` bytes, which are at most [`LINE_BYTES`].
    fn allreduce_lines<const ROOM: usize>(
        &mut self,
        data: &mut [u8],
        word: u64,
        combine: impl Fn(&[u8], &mut [u8]),
    ) -> Result<(), Error> {
        let length = data.len();
        let (mut mine, mut theirs) = ([0; ROOM], [0; ROOM]);
        let (mine, theirs) = (&mut mine[..length], &mut theirs[..length]);
        mine.copy_from_slice(data);
        let last = self.size - 1;
        let places = (0..self.size).rev();
        self.exchange(word, mine, places, |node, place, contribution| match contribution {
            None if place == last => {}
            None => combine(mine, data),
            Some(contribution) if place == last => {
                node.load(place, contribution, 0, data);
            }
            Some(contribution) => {
                node.load(place, contribution, 0, theirs);
                combine(theirs, data);
            }
        })
    }

    /// Combines one part: this rank's share of everybody's first, then everybody's shares are
    /// collected. A small part is everybody's share.
    fn allreduce_part(
        &mut self,
        data: &mut [u8],
        word: u64,
        width: usize,
        combine: &impl Fn(&[u8], &mut [u8]),
    ) -> Result<(), Error> {
        let (size, own) = (self.size, self.place);
        let elements = data.len() / width;
        let shared_out = data.len() >= SHARE_FROM;
        let share = move |place: usize| match shared_out {
            true => elements * place / size * width..elements * (place + 1) / size * width,
            false => 0..elements * width,
        };
        let mut result = data[share(own)].to_vec();
        let mut scratch = [0; SCRATCH_BYTES];
        let start = share(own).start;
        let places = (0..size).rev();
        self.exchange(word, data, places, |node, place, contribution| match contribution {
            None if place == size - 1 => {}
            None => combine(&data[share(own)], &mut result),
            Some(contribution) if place == size - 1 => {
                node.load(place, contribution, start, &mut result);
            }
            Some(contribution) => {
                let mut from = start;
                for piece in result.chunks_mut(SCRATCH_BYTES / width * width) {
                    let theirs = &mut scratch[..piece.len()];
                    node.load(place, contribution, from, theirs);
                    combine(theirs, piece);
                    from += piece.len();
                }
            }
        })?;
        if !shared_out {
            data.copy_from_slice(&result);
            return Ok(());
        }
        data[share(own)].copy_from_slice(&result);
        let others = (1..size).map(|distance| (own + distance) % size);
        self.exchange(word, &result, others, |node, place, contribution| {
            if let Some(contribution) = contribution {
                node.load(place, contribution, 0, &mut data[share(place)]);
            }
        })
    }

    /// Brings equal blocks of all ranks to all, in the order of the ranks; `all` is as long as all
    /// of them. `None`: not over several nodes, see [`Nodes::pays`].
    pub(crate) fn allgather(&mut self, mine: &[u8], all: &mut [u8]) -> Option<Result<(), Error>> {
        self.nodes.is_none().then(|| self.near_allgather(mine, all))
    }

    fn near_allgather(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), Error> {
        let word = Kind::Allgather.word(mine.len());
        let (size, own, length) = (self.size, self.place, mine.len());
        all[own * length..][..length].copy_from_slice(mine);
        let part = self.part_bytes(EXCHANGE_PARTS, 1);
        for from in starts(length, part) {
            let to = length.min(from + part);
            let others = (1..size).map(|distance| (own + distance) % size);
            self.exchange(word, &mine[from..to], others, |node, place, contribution| {
                let block = &mut all[place * length..][from..to];
                if let Some(contribution) = contribution {
                    node.load(place, contribution, 0, block);
                }
            })?;
        }
        Ok(())
    }
}

/// Where the parts of `length` bytes start. No bytes are one part.
fn starts(length: usize, part: usize) -> impl Iterator<Item = usize> {
    (0..length.max(1)).step_by(part)
}

impl From<GroupError> for Error {
    fn from(error: GroupError) -> Error {
        match error {
            GroupError::PeerFailed(failure) => MsgError::PeerFailed(failure).into(),
            GroupError::PeerLeft { rank } => MsgError::PeerLeft { rank }.into(),
            other => Error::Group(other),
        }
    }
}

#[cfg(test)]
mod tests;
