//! Fabrics that wrap a fabric: a layer is a [`Port`] over a port.
//!
//! ```text
//!   msg ──► FaultInjector ──► loopback, shm, ...
//! ```
//!
//! Layers compose in any order and keep the rules of [`crate::fabric`], so the conformance suite
//! runs on each of them as on any fabric.
//!
//! A layer has the capabilities of the port underneath, through the blanket implementations here.
//! It changes commands and events, and forwards all other calls: tables belong to the rank itself;
//! rounds of groups, letters and command queues go through shared memory, where a fault between a
//! store and a load is impossible.

mod fault;

pub use fault::{FaultCounts, FaultInjector, Faults};

use crate::fabric::{
    Atomic, ChainError, ChannelOffer, Command, ContextError, ContextId, Contribution, FullPolicy,
    GroupError, GroupId, GroupPort, Key, MailEnd, MailboxAddress, MailboxPort, Member, MemoryPort,
    Port, PostError, QueueAddress, QueueCommand, QueueError, QueueMode, QueuePort, QueueState,
    Rank, RegisteredGroup, RemoteAddress, Rights, RingId, RingPort, RingState, TableError,
};
use crate::region::{RegionBuffer, RegionError};

/// The calls of a [`Port`] that no layer changes.
macro_rules! pass_through {
    ($port:ident) => {
        fn rank(&self) -> Rank {
            self.$port.rank()
        }

        fn size(&self) -> u32 {
            self.$port.size()
        }

        fn node_of(&self, rank: Rank) -> u32 {
            self.$port.node_of(rank)
        }

        fn host_name(&self, rank: Rank) -> crate::fabric::Name {
            self.$port.host_name(rank)
        }

        fn capabilities(&self) -> Capabilities {
            self.$port.capabilities()
        }

        fn copy_out(&self, slice: &RingSlice, offset: usize, into: &mut [u8]) -> usize {
            self.$port.copy_out(slice, offset, into)
        }

        fn grant(&mut self, source: Rank, messages: u64) {
            self.$port.grant(source, messages);
        }

        fn held_up(&mut self) -> Option<Rank> {
            self.$port.held_up()
        }

        fn route_of(&self, source: Rank) -> Option<RingId> {
            self.$port.route_of(source)
        }

        fn awaited_ring(&self, source: Rank) -> Option<RingId> {
            self.$port.awaited_ring(source)
        }

        fn peer(&self, rank: Rank) -> PeerState {
            self.$port.peer(rank)
        }

        fn departures(&self) -> u64 {
            self.$port.departures()
        }

        fn is_forked(&self) -> bool {
            self.$port.is_forked()
        }

        fn is_crowded(&self) -> bool {
            self.$port.is_crowded()
        }

        fn now(&self) -> Time {
            self.$port.now()
        }

        fn announce_wait(&self, wait: Option<Wait>) {
            self.$port.announce_wait(wait);
        }
    };
}
use pass_through;

/// The calls of a [`CopyPort`](crate::fabric::CopyPort) that no layer changes.
macro_rules! pass_copies_through {
    ($port:ident) => {
        fn expose(&self, bytes: &[u8]) -> Option<RemoteAddress> {
            self.$port.expose(bytes)
        }

        fn copies_from(&self, space: Space) -> Option<usize> {
            self.$port.copies_from(space)
        }

        fn set_revoked(&mut self, is_revoked: bool) {
            self.$port.set_revoked(is_revoked);
        }

        fn has_revoked(&self, rank: Rank) -> bool {
            self.$port.has_revoked(rank)
        }

        fn lend(
            &mut self,
            to: Rank,
            name: u64,
            bytes: &[u8],
        ) -> Option<$crate::fabric::LentAddress> {
            self.$port.lend(to, name, bytes)
        }

        fn take_back(&mut self, name: u64) {
            self.$port.take_back(name);
        }

        fn replace_lent(&mut self, to: Rank, name: u64, copy: &[u8]) -> bool {
            self.$port.replace_lent(to, name, copy)
        }

        fn fetch_lent(
            &mut self,
            lent: (Rank, $crate::fabric::LentAddress),
            length: u64,
            message: (u8, u64),
        ) -> bool {
            self.$port.fetch_lent(lent, length, message)
        }

        fn open_joint(&mut self, into: &[u8]) -> Option<JointCopy> {
            self.$port.open_joint(into)
        }

        fn read_jointly(
            &mut self,
            from: RemoteAddress,
            into: &mut [u8],
            copy: &JointCopy,
        ) -> Result<bool, PostError> {
            self.$port.read_jointly(from, into, copy)
        }

        fn write_jointly(&mut self, copy: &JointCopy, payload: &[u8]) -> Result<u64, PostError> {
            self.$port.write_jointly(copy, payload)
        }

        fn close_joint(&mut self, from: Rank, copy: &JointCopy) -> bool {
            self.$port.close_joint(from, copy)
        }
    };
}
use pass_copies_through;

/// A port that wraps a port.
pub trait Layer: Port + Sized {
    /// The port underneath.
    type Inner: Port;

    /// The port underneath.
    fn inner(&self) -> &Self::Inner;

    /// The port underneath, to drive it without the layer.
    fn inner_mut(&mut self) -> &mut Self::Inner;

    /// The layer's [`MemoryPort::get`].
    ///
    /// # Errors
    /// As [`MemoryPort::get`].
    fn layered_get(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError>
    where
        Self::Inner: MemoryPort,
    {
        self.inner_mut().get(from, into)
    }

    /// The layer's [`MemoryPort::fetch`].
    ///
    /// # Errors
    /// As [`MemoryPort::fetch`].
    fn layered_fetch(&mut self, atomic: &Atomic) -> Result<u64, PostError>
    where
        Self::Inner: MemoryPort,
    {
        self.inner_mut().fetch(atomic)
    }

    /// The layer's [`MailboxPort::write_mail`].
    ///
    /// # Errors
    /// As [`MailboxPort::write_mail`].
    #[inline]
    fn layered_write_mail(
        &mut self,
        to: MailboxAddress,
        round: u64,
        at: u32,
        bytes: &[u8],
    ) -> Result<(), PostError>
    where
        Self::Inner: MailboxPort,
    {
        self.inner_mut().write_mail(to, round, at, bytes)
    }

    /// The layer's [`MailboxPort::post_mail`].
    ///
    /// # Errors
    /// As [`MailboxPort::post_mail`].
    #[inline]
    fn layered_post_mail(&mut self, to: MailboxAddress, round: u64) -> Result<(), PostError>
    where
        Self::Inner: MailboxPort,
    {
        self.inner_mut().post_mail(to, round)
    }

    /// The layer's [`MailboxPort::has_mail`].
    #[inline]
    fn layered_has_mail(&mut self, mailbox: u32, round: u64) -> bool
    where
        Self::Inner: MailboxPort,
    {
        self.inner_mut().has_mail(mailbox, round)
    }

    /// The layer's [`MailboxPort::end_mail`].
    fn layered_end_mail(&mut self, to: MailboxAddress, end: MailEnd)
    where
        Self::Inner: MailboxPort,
    {
        self.inner_mut().end_mail(to, end);
    }

    /// The layer's [`GroupPort::multicast`].
    ///
    /// # Errors
    /// As [`GroupPort::multicast`].
    fn layered_multicast(
        &mut self,
        group: GroupId,
        command: &Command<'_>,
        done: usize,
        bytes: usize,
    ) -> Result<(), ChainError>
    where
        Self::Inner: GroupPort,
    {
        self.inner_mut().multicast(group, command, done, bytes)
    }
}

impl<L: Layer> RingPort for L
where
    L::Inner: RingPort,
{
    fn route(&mut self, source: Rank, ring: Option<RingId>) -> Result<(), TableError> {
        self.inner_mut().route(source, ring)
    }

    fn set_full(&mut self, ring: RingId, policy: FullPolicy) -> Result<(), TableError> {
        self.inner_mut().set_full(ring, policy)
    }

    fn ring(&self, ring: RingId) -> Option<RingState> {
        self.inner().ring(ring)
    }
}

impl<L: Layer> MemoryPort for L
where
    L::Inner: MemoryPort,
{
    fn allocate(&mut self, bytes: usize) -> Result<RegionBuffer, RegionError> {
        self.inner_mut().allocate(bytes)
    }

    fn open_context(&mut self) -> Result<ContextId, ContextError> {
        self.inner_mut().open_context()
    }

    fn close_context(&mut self, context: ContextId) -> Result<(), ContextError> {
        self.inner_mut().close_context(context)
    }

    fn connect(&mut self, context: ContextId, members: &[Member]) -> Result<(), ContextError> {
        self.inner_mut().connect(context, members)
    }

    fn member(&self, context: ContextId, logical: u32) -> Result<Member, PostError> {
        self.inner().member(context, logical)
    }

    fn register(
        &mut self,
        context: ContextId,
        offset: u64,
        length: u64,
        rights: Rights,
    ) -> Result<Key, ContextError> {
        self.inner_mut().register(context, offset, length, rights)
    }

    fn deregister(&mut self, key: Key) -> Result<(), ContextError> {
        self.inner_mut().deregister(key)
    }

    #[inline]
    fn get(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        self.layered_get(from, into)
    }

    #[inline]
    fn fetch(&mut self, atomic: &Atomic) -> Result<u64, PostError> {
        self.layered_fetch(atomic)
    }
}

impl<L: Layer> QueuePort for L
where
    L::Inner: QueuePort,
{
    fn free_queues(&self) -> (u32, u32) {
        self.inner().free_queues()
    }

    fn create_queue(&mut self, mode: QueueMode, slots: u32) -> Result<QueueAddress, QueueError> {
        self.inner_mut().create_queue(mode, slots)
    }

    fn destroy_queue(&mut self, queue: u32) -> Result<(), QueueError> {
        self.inner_mut().destroy_queue(queue)
    }

    fn post_queue(&mut self, queue: u32, chain: &[QueueCommand]) -> Result<(), QueueError> {
        self.inner_mut().post_queue(queue, chain)
    }

    fn repeat_queue(&mut self, queue: u32, count: u32) -> Result<(), QueueError> {
        self.inner_mut().repeat_queue(queue, count)
    }

    fn release_queue(&mut self, queue: QueueAddress, slots: u32) -> Result<(), QueueError> {
        self.inner_mut().release_queue(queue, slots)
    }

    fn help_queue(&mut self, queue: QueueAddress) {
        self.inner_mut().help_queue(queue);
    }

    fn queue_state(&mut self, queue: QueueAddress) -> Result<QueueState, QueueError> {
        self.inner_mut().queue_state(queue)
    }

    fn retire_queue(&mut self, queue: u32, rounds: u64, lead: u32) {
        self.inner_mut().retire_queue(queue, rounds, lead);
    }

    fn abandon_queue(&mut self, queue: u32, missing: Rank, tell: &[Rank]) {
        self.inner_mut().abandon_queue(queue, missing, tell);
    }
}

impl<L: Layer> MailboxPort for L
where
    L::Inner: MailboxPort,
{
    fn open_mailbox(
        &mut self,
        from: Rank,
        room: u32,
    ) -> Result<(u32, MailboxAddress), RegionError> {
        self.inner_mut().open_mailbox(from, room)
    }

    fn close_mailbox(&mut self, mailbox: u32) {
        self.inner_mut().close_mailbox(mailbox);
    }

    fn write_mail(
        &mut self,
        to: MailboxAddress,
        round: u64,
        at: u32,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        self.layered_write_mail(to, round, at, bytes)
    }

    fn post_mail(&mut self, to: MailboxAddress, round: u64) -> Result<(), PostError> {
        self.layered_post_mail(to, round)
    }

    fn has_mail(&mut self, mailbox: u32, round: u64) -> bool {
        self.layered_has_mail(mailbox, round)
    }

    fn read_mail(
        &self,
        mailbox: u32,
        round: u64,
        at: u32,
        into: &mut [u8],
    ) -> Result<(), PostError> {
        self.inner().read_mail(mailbox, round, at, into)
    }

    fn end_mail(&mut self, to: MailboxAddress, end: MailEnd) {
        self.layered_end_mail(to, end);
    }

    fn mail_end(&self, mailbox: u32) -> Option<MailEnd> {
        self.inner().mail_end(mailbox)
    }
}

impl<L: Layer> GroupPort for L
where
    L::Inner: GroupPort,
{
    fn join(&mut self, channel: u32, ranks: &[u32], first: u64) -> Result<GroupId, GroupError> {
        self.inner_mut().join(channel, ranks, first)
    }

    fn offer(&mut self, like: u32) -> ChannelOffer {
        self.inner_mut().offer(like)
    }

    fn withdraw(&mut self, offer: ChannelOffer) {
        self.inner_mut().withdraw(offer);
    }

    fn pass_over(&mut self, channels: u64) {
        self.inner_mut().pass_over(channels);
    }

    fn leave(&mut self, group: GroupId) -> Result<u64, GroupError> {
        self.inner_mut().leave(group)
    }

    fn group(&self, group: GroupId) -> Option<&RegisteredGroup> {
        self.inner().group(group)
    }

    #[inline(always)]
    fn contribute(
        &mut self,
        group: GroupId,
        word: u64,
        payload: &[&[u8]],
    ) -> Result<(), GroupError> {
        self.inner_mut().contribute(group, word, payload)
    }

    #[inline(always)]
    fn contribution(
        &mut self,
        group: GroupId,
        place: usize,
    ) -> Result<Option<Contribution>, GroupError> {
        self.inner_mut().contribution(group, place)
    }

    #[inline(always)]
    fn all_contributed(&mut self, group: GroupId, word: u64) -> Result<Option<bool>, GroupError> {
        self.inner_mut().all_contributed(group, word)
    }

    #[inline(always)]
    fn load_contribution(
        &mut self,
        group: GroupId,
        place: usize,
        contribution: &Contribution,
        from: usize,
        into: &mut [u8],
    ) -> usize {
        self.inner_mut().load_contribution(group, place, contribution, from, into)
    }

    #[inline(always)]
    fn finish_round(&mut self, group: GroupId) -> Result<(), GroupError> {
        self.inner_mut().finish_round(group)
    }

    fn sync(&mut self, group: GroupId, id: u32) -> Result<(), GroupError> {
        self.inner_mut().sync(group, id)
    }

    fn synced(&mut self, group: GroupId, id: u32) -> Result<bool, GroupError> {
        self.inner_mut().synced(group, id)
    }

    fn add(&mut self, group: GroupId, place: usize) -> Result<(), GroupError> {
        self.inner_mut().add(group, place)
    }

    fn add_to_all(&mut self, group: GroupId) -> Result<(), GroupError> {
        self.inner_mut().add_to_all(group)
    }

    fn set_chained(&mut self, is_open: bool) {
        self.inner_mut().set_chained(is_open);
    }

    fn counted(&mut self, group: GroupId, rounds: u64) -> Result<bool, GroupError> {
        self.inner_mut().counted(group, rounds)
    }

    fn reaches(&self, rank: u32) -> bool {
        self.inner().reaches(rank)
    }

    fn multicast(
        &mut self,
        group: GroupId,
        command: &Command<'_>,
        done: usize,
        bytes: usize,
    ) -> Result<(), ChainError> {
        self.layered_multicast(group, command, done, bytes)
    }
}
