//! The port of a rank: near ranks on its host, through shared memory, and far ones on other hosts.

use std::mem::ManuallyDrop;
use std::net::IpAddr;

use hikyaku_nic::fabric::{
    Atomic, Capabilities, ChainError, Command, CopyPort, Event, INLINE_BYTES, JointCopy,
    LentAddress, MailEnd, MailboxAddress, MailboxId, MailboxPort, MemoryPort, Name, Operation,
    PeerState, Port, PostError, Rank, RemoteAddress, RingId, RingSlice, Short, Space, Wait, Wake,
};
use hikyaku_nic::hosted::{Host, MissedStep, Rest, RestStart, StoreCounts};
use hikyaku_nic::layer::Layer;
use hikyaku_nic::time::Time;
use hikyaku_ofi::Error;
use hikyaku_shm::{Nap, ProtectedMemory, ShmHost, View};

use crate::contexts::CommunicatorNames;
use crate::far::{self, CallSteps, Far};
use crate::frequent::{FrequentSources, RingMoves};
use crate::init::InitError;
use crate::launchers::LaunchedRank;
use crate::near::NearPort;

/// The port of a rank of a job, for any transport.
///
/// Without ranks on other hosts there is no far side, and each call takes one well-predicted
/// branch more than the near one.
#[derive(Debug)]
pub struct RankPort {
    /// Dropped first: it still needs the near side when it leaves.
    far: Option<Box<Far>>,
    near: NearPort,
    /// Tracks frequent senders, if sources move to rings of their own.
    frequent: Option<Box<FrequentSources>>,
    /// The program's names of its communicators.
    names: CommunicatorNames,
    /// The other launcher, if one has started the job. It is the last to be notified that this rank
    /// leaves.
    started: Option<Box<LaunchedRank>>,
}

impl RankPort {
    /// The port on a near side. If the job has several hosts it opens a far side as well.
    ///
    /// # Errors
    /// Other hosts cannot be reached.
    pub fn open(near: NearPort) -> Result<RankPort, Error> {
        let far = Far::open(&near)?.map(Box::new);
        let names = CommunicatorNames::default();
        Ok(RankPort { far, near, frequent: None, names, started: None })
    }

    /// The port of a rank of a job that another launcher has started.
    ///
    /// # Errors
    /// Other hosts cannot be reached, or the launcher's data is invalid.
    pub(crate) fn of_started(
        near: NearPort,
        mut started: LaunchedRank,
    ) -> Result<RankPort, InitError> {
        let mut port = RankPort::open(near)?;
        let interface = port.far_address();
        if let Err(error) = started.exchange_addresses(&port.near, interface) {
            // No rank can be notified that this one leaves.
            port.far = None;
            return Err(error.into());
        }
        port.started = Some(Box::new(started));
        Ok(port)
    }

    /// This host's side of the job.
    #[inline]
    pub(crate) fn host(&self) -> &ShmHost {
        self.near.host()
    }

    /// Starts a wait for something other than an event, which spins first.
    #[inline]
    pub fn begin_wait(&mut self) {
        self.near.begin_wait();
    }

    /// Wakes the other ranks of this host: they may wait for something other than an event.
    pub fn wake_all(&self) {
        self.near.wake_all();
    }

    /// Announces that the program computes for `span`, which passes in virtual time.
    pub fn compute(&mut self, span: Time) {
        self.near.compute(span);
    }

    /// Sends a datagram to other ranks in virtual time.
    pub fn send_datagram(&mut self, to: &[Rank], datagram: &[u8]) {
        self.near.send_datagram(to, datagram);
    }

    /// The next datagram that has arrived here in virtual time, and its sender.
    pub fn next_datagram(&mut self) -> Option<(Rank, Vec<u8>)> {
        self.near.next_datagram()
    }

    /// Whether a datagram to several ranks leaves this rank once, in virtual time.
    pub fn network_copies(&mut self) -> bool {
        self.near.network_copies()
    }

    /// Makes other ranks' changes to this rank's memory take effect, in virtual time.
    #[inline]
    pub fn look_at_own_memory(&mut self) {
        self.near.look_at_own_memory();
    }

    /// The far side, if there is one.
    #[cfg(test)]
    pub(crate) fn far_mut(&mut self) -> Option<&mut Far> {
        self.far.as_deref_mut()
    }

    /// The index of this rank's program in the job, if another launcher provides it.
    pub fn program(&self) -> Option<i32> {
        self.started.as_ref()?.program()
    }

    /// The program's names of its communicators, for the announcements of waits.
    pub(crate) fn names_mut(&mut self) -> &mut CommunicatorNames {
        &mut self.names
    }

    /// From now on frequent sources get landing rings of their own, if the job has any left.
    pub(crate) fn move_rings(&mut self) {
        let host = self.near.host();
        let sources = if host.moves_rings() { FrequentSources::of(host.layout()) } else { None };
        self.frequent = sources.map(Box::new);
    }

    /// The number of rings given to sources in that way.
    pub fn ring_moves(&self) -> RingMoves {
        self.frequent.as_deref().map(FrequentSources::moves).unwrap_or_default()
    }

    /// This rank's memory outside the job's.
    pub(crate) fn beyond_mut(&mut self) -> &mut ProtectedMemory {
        self.near.inner_mut().beyond_mut()
    }

    /// Counts of long payloads for ranks of this host: stored through the caches or past them.
    pub fn store_counts(&self) -> StoreCounts {
        self.near.inner().store_counts()
    }

    /// The program directs this source, or a ring: from now on none gets a ring automatically.
    pub(crate) fn leave_rings_to_program(&mut self, source: Option<Rank>) {
        if let Some(frequent) = &mut self.frequent {
            frequent.leave_to_program(source);
        }
    }

    /// Takes back one ring that a frequent source got automatically. Returns whether there was one.
    pub(crate) fn take_ring_back(&mut self) -> bool {
        let frequent = self.frequent.as_mut();
        frequent.is_some_and(|frequent| frequent.take_one_back(self.near.inner_mut()))
    }

    /// The far side, if the rank is on it.
    #[inline(always)]
    fn far_of(&mut self, rank: Rank) -> Option<(&mut Far, &mut NearPort)> {
        let far = self.far.as_deref_mut()?;
        far.is_far(rank).then_some((far, &mut self.near))
    }

    #[cold]
    #[inline(never)]
    fn poll_both(&mut self) -> Option<Event> {
        let far = self.far.as_deref_mut()?;
        if let Some(event) = far.take_event(&self.near) {
            // As after an event of the near side.
            self.near.inner_mut().begin_wait();
            return Some(event);
        }
        far.before_poll(&mut self.near);
        loop {
            if let Some(event) = self.near.poll() {
                if let Some(event) = far.filter(event) {
                    return Some(event);
                }
                continue;
            }
            if !far.progress_if_due(&mut self.near) {
                return far.take_event(&self.near);
            }
        }
    }

    /// Posts a command for a rank on another host.
    #[cold]
    #[inline(never)]
    fn post_far(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        let Some(far) = self.far.as_deref_mut() else { return self.near.post(command) };
        match command.operation {
            Operation::Send => far.send(&self.near, command),
            Operation::Nop => Ok(0),
            _ => far.carry_out(&mut self.near, command),
        }
    }

    /// Copies bytes that were fetched from a rank on another host.
    #[cold]
    #[inline(never)]
    fn copy_piece(&self, slice: &RingSlice, place: u64, offset: usize, into: &mut [u8]) -> usize {
        let far = self.far.as_deref();
        far.map_or(0, |far| far.copy_piece(place, (offset, slice.len()), into))
    }

    /// Releases their buffer.
    #[cold]
    #[inline(never)]
    fn release_piece(&mut self, place: u64) {
        if let Some(far) = &mut self.far {
            far.release_piece(place);
        }
    }

    #[cold]
    #[inline(never)]
    fn receive_by_far(
        &mut self,
        source: Rank,
        protocol: u8,
        header: u64,
        into: &mut [u8],
    ) -> Short {
        let Some(far) = self.far.as_deref_mut() else { return Short::Nothing };
        let came = match far.is_far(source) {
            true => far.progress(&mut self.near),
            false => far.progress_if_due(&mut self.near),
        };
        match came {
            true => self.near.receive_whole(source, protocol, header, into),
            false => Short::Nothing,
        }
    }

    #[cold]
    #[inline(never)]
    fn park_both(&mut self, deadline: Option<Time>) -> Wake {
        let rest = self.begin_rest((deadline, RestStart::Awake), std::iter::empty());
        far::rest(&mut self.near, rest)
    }

    /// [`HostedPort::begin_rest`](hikyaku_nic::hosted::HostedPort::begin_rest).
    pub fn begin_rest(
        &mut self,
        limits: (Option<Time>, RestStart),
        steps: impl Iterator<Item = MissedStep>,
    ) -> Rest<Nap> {
        match &mut self.far {
            None => self.near.begin_rest(limits, steps),
            Some(far) => far.begin_rest(&mut self.near, limits, steps),
        }
    }

    /// [`HostedPort::end_rest`](hikyaku_nic::hosted::HostedPort::end_rest).
    pub(crate) fn end_rest(&mut self, nap: Nap) -> Wake {
        self.near.end_rest(nap)
    }

    /// [`HostedPort::take_steps`](hikyaku_nic::hosted::HostedPort::take_steps).
    pub(crate) fn take_steps(&mut self, into: &mut Vec<MissedStep>) {
        self.near.take_steps(into);
    }

    /// [`HostedPort::have_any`](hikyaku_nic::hosted::HostedPort::have_any).
    pub(crate) fn have_any(&self, steps: &[MissedStep]) -> bool {
        self.near.have_any(steps)
    }

    /// Counts wake-ups of this rank and arrivals from other hosts. Some make room for what this
    /// rank could not post, and bring no event.
    pub(crate) fn stirs(&self) -> u64 {
        let arrivals = self.far.as_deref().map_or(0, Far::arrivals);
        self.near.host().wake_ups().wrapping_add(arrivals)
    }

    /// Whether a thread that sleeps on the doorbell must be woken, so that it sleeps again: it
    /// would not be called, or sleeps longer than operations that others have begun meanwhile
    /// allow.
    pub(crate) fn is_badly_slept_on(&mut self) -> bool {
        !self.near.host().is_bell_set() || self.far.as_deref_mut().is_some_and(Far::is_overslept)
    }

    /// Delivers all data from ranks of other hosts. A rank that has received nothing for long polls
    /// rarely, and learns of a death without a poll: data that arrived before it counts.
    pub(crate) fn land_all(&mut self) {
        if let Some(far) = &mut self.far {
            far.land_all(&mut self.near);
        }
    }

    /// The ranks that have left or died since there were `before` [departures](Port::departures).
    /// `None`: unknown, so the caller must check all ranks.
    pub fn ended_since(&self, before: u64) -> Option<Vec<Rank>> {
        // The register does not have the ranks that the far side has counted.
        let all_near = self.far.as_deref().is_none_or(|far| far.departures() == 0);
        let ended = |now| self.near.inner().host().registry().ended_in(before..now);
        all_near.then(|| ended(self.near.departures())).flatten()
    }
}

/// Operations on memory that do not wait for another host. With steps, which begin as the default,
/// the result is [`PostError::Full`] until the operation is complete, and the caller repeats the
/// same call; without steps, the operation waits.
impl RankPort {
    /// [`Port::post`] of a put.
    pub(crate) fn put_by(
        &mut self,
        steps: &mut Option<CallSteps>,
        put: &Command<'_>,
    ) -> Result<(), PostError> {
        match (steps, &mut self.far) {
            (Some(steps), Some(far)) if far.concerns(put) => {
                far.step_of_put(&mut self.near, put, steps).map(drop)
            }
            _ => self.post(put).map(drop),
        }
    }

    /// [`MemoryPort::get`].
    pub(crate) fn get_by(
        &mut self,
        steps: &mut Option<CallSteps>,
        from: RemoteAddress,
        into: &mut [u8],
    ) -> Result<(), PostError> {
        match (steps, self.far_of(from.rank)) {
            (Some(steps), Some((far, near))) => far.step_of_get(near, from, into, steps),
            _ => self.get(from, into),
        }
    }

    /// [`MemoryPort::fetch`], with the result only as the return value.
    pub(crate) fn fetch_by(
        &mut self,
        steps: &mut Option<CallSteps>,
        atomic: &Atomic,
    ) -> Result<u64, PostError> {
        match (steps, self.far_of(atomic.target.rank)) {
            (Some(steps), Some((far, near))) => far.step_of_fetch(near, atomic, steps),
            _ => self.fetch(atomic),
        }
    }
}

/// Memory that ranks give to the job, as shared variables do. It remains when its rank leaves or
/// dies: a rank of another host then sends requests to a remaining rank of that host. On this
/// rank's own host it is used in place.
impl RankPort {
    /// Whether the job has several hosts.
    pub fn spans_hosts(&self) -> bool {
        self.far.is_some()
    }

    /// Whether a rank is on another host.
    #[inline]
    pub fn is_far(&self, rank: Rank) -> bool {
        self.far.as_deref().is_some_and(|far| far.is_far(rank))
    }

    /// The host of a rank.
    pub fn host_of(&self, rank: Rank) -> u32 {
        self.near.host().host_of(rank)
    }

    /// A view of `length` bytes at `offset` of a rank's region; `None` unless all are inside, and
    /// the rank is on this host.
    pub fn view(&self, rank: Rank, offset: u64, length: usize) -> Option<View> {
        self.near.host().view(rank, offset, length)
    }

    /// [`MemoryPort::fetch`] on memory that a rank on another host has given.
    ///
    /// # Errors
    /// No rank of that host remains.
    pub fn fetch_given(&mut self, atomic: &Atomic) -> Result<u64, PostError> {
        let (far, near) = self.far_of_giver(atomic.target)?;
        far.fetch_given(near, atomic)
    }

    /// [`RankPort::fetch_given`] without a wait for the answer. This rank's later operations on
    /// memory of that rank, and its later notes to it, are ordered after it.
    ///
    /// # Errors
    /// No rank of that host remains.
    pub fn tell_given(&mut self, atomic: &Atomic) -> Result<(), PostError> {
        let (far, near) = self.far_of_giver(atomic.target)?;
        far.tell_given(near, atomic)
    }

    /// [`MemoryPort::get`] from memory that a rank on another host has given.
    ///
    /// # Errors
    /// No rank of that host remains.
    pub fn get_given(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        let (far, near) = self.far_of_giver(from)?;
        far.get_given(near, from, into)
    }

    /// Writes memory that a rank on another host has given, without a wait for the answer, like
    /// [`RankPort::tell_given`].
    ///
    /// # Errors
    /// No rank of that host remains.
    pub fn put_given(&mut self, to: RemoteAddress, payload: &[u8]) -> Result<(), PostError> {
        let (far, near) = self.far_of_giver(to)?;
        far.put_given(near, to, payload)
    }

    fn far_of_giver(&mut self, at: RemoteAddress) -> Result<(&mut Far, &mut NearPort), PostError> {
        let here = PostError::Unsupported("ask for memory of a rank of this host: use it in place");
        self.far_of(at.rank).ok_or(here)
    }

    /// Whether all letters posted to a rank have been sent, so that no further call is needed.
    #[inline]
    pub(crate) fn has_sent_mail(&self, to: Rank) -> bool {
        self.far.as_deref().is_none_or(|far| far.has_sent_mail(to))
    }

    /// The address of this host at which ranks on other hosts reach it, if it is an internet
    /// address.
    pub fn far_address(&self) -> Option<IpAddr> {
        self.far.as_deref()?.interface()
    }

    /// When this rank leaves, it serves memory that it gave until each rank on another host has set
    /// its bit, has left or has died. `parted`: the start of those bits in this rank's region; a
    /// rank's bit is bit `rank % 64` of word `rank / 64`.
    pub fn keep(&mut self, parted: u64) {
        if let Some(far) = &mut self.far {
            far.keep(parted);
        }
    }
}

impl From<NearPort> for RankPort {
    /// For a job on one host.
    fn from(near: NearPort) -> RankPort {
        let names = CommunicatorNames::default();
        RankPort { far: None, near, frequent: None, names, started: None }
    }
}

impl Drop for RankPort {
    fn drop(&mut self) {
        let Some(mut far) = self.far.take() else { return };
        if self.near.is_forked() {
            // The endpoint belongs to the rank, whose process continues to use it.
            let _endpoint = ManuallyDrop::new(far);
        } else if !std::thread::panicking() {
            far.leave(&mut self.near);
        }
    }
}

/// Tables, queues and groups belong to the own host, which refuses those of others.
impl Layer for RankPort {
    type Inner = NearPort;

    #[inline(always)]
    fn inner(&self) -> &NearPort {
        &self.near
    }

    #[inline(always)]
    fn inner_mut(&mut self) -> &mut NearPort {
        &mut self.near
    }

    #[inline]
    fn layered_get(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        match self.far_of(from.rank) {
            None => self.near.get(from, into),
            Some((far, near)) => far.get(near, from, into),
        }
    }

    #[inline]
    fn layered_fetch(&mut self, atomic: &Atomic) -> Result<u64, PostError> {
        match self.far_of(atomic.target.rank) {
            None => self.near.fetch(atomic),
            Some((far, near)) => far.fetch(near, atomic),
        }
    }

    #[inline]
    fn layered_write_mail(
        &mut self,
        to: MailboxAddress,
        round: u64,
        at: u32,
        bytes: &[u8],
    ) -> Result<(), PostError> {
        match self.far_of(to.rank) {
            None => self.near.write_mail(to, round, at, bytes),
            Some((far, near)) => far.write_mail(near, to, (round, at), bytes),
        }
    }

    #[inline]
    fn layered_post_mail(&mut self, to: MailboxAddress, round: u64) -> Result<(), PostError> {
        match self.far_of(to.rank) {
            None => self.near.post_mail(to, round),
            Some((far, near)) => far.post_mail(near, to, round),
        }
    }

    #[inline]
    fn layered_has_mail(&mut self, mailbox: MailboxId, round: u64) -> bool {
        if self.near.has_mail(mailbox, round) {
            return true;
        }
        let came = |far: &mut Box<Far>| far.progress_if_due(&mut self.near);
        self.far.as_mut().is_some_and(came) && self.near.has_mail(mailbox, round)
    }

    fn layered_end_mail(&mut self, to: MailboxAddress, end: MailEnd) {
        match self.far_of(to.rank) {
            None => self.near.end_mail(to, end),
            Some((far, near)) => far.end_mail(near, to, end),
        }
    }
}

/// Copies between ranks of a node, and fetches from other hosts.
impl CopyPort for RankPort {
    fn lend(&mut self, to: Rank, name: u64, bytes: &[u8]) -> Option<LentAddress> {
        self.far_of(to).and_then(|(far, near)| far.lend(near.now(), name, bytes))
    }

    fn take_back(&mut self, name: u64) {
        if let Some(far) = &mut self.far {
            far.take_back(name);
        }
    }

    fn replace_lent(&mut self, to: Rank, name: u64, copy: &[u8]) -> bool {
        self.far_of(to).is_some_and(|(far, near)| far.replace_lent(near.now(), name, copy))
    }

    fn fetch_lent(&mut self, lent: (Rank, LentAddress), length: u64, message: (u8, u64)) -> bool {
        let far = self.far_of(lent.0);
        far.is_some_and(|(far, near)| far.fetch_lent(near.now(), lent, length, message))
    }

    fn expose(&self, bytes: &[u8]) -> Option<RemoteAddress> {
        self.near.expose(bytes)
    }

    fn copies_from(&self, space: Space) -> Option<usize> {
        self.near.copies_from(space)
    }

    fn read(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        if self.is_far(from.rank)
            && let PeerState::Failed(failure) = self.peer(from.rank)
        {
            return Err(PostError::PeerFailed(failure));
        }
        self.near.read(from, into)
    }

    fn set_revoked(&mut self, is_revoked: bool) {
        self.near.set_revoked(is_revoked);
    }

    fn has_revoked(&self, rank: Rank) -> bool {
        self.near.has_revoked(rank)
    }

    fn open_joint(&mut self, into: &[u8]) -> Option<JointCopy> {
        self.near.open_joint(into)
    }

    fn read_jointly(
        &mut self,
        from: RemoteAddress,
        into: &mut [u8],
        copy: &JointCopy,
    ) -> Result<bool, PostError> {
        self.near.read_jointly(from, into, copy)
    }

    fn write_jointly(&mut self, copy: &JointCopy, payload: &[u8]) -> Result<u64, PostError> {
        self.near.write_jointly(copy, payload)
    }

    fn close_joint(&mut self, from: Rank, copy: &JointCopy) -> bool {
        self.near.close_joint(from, copy)
    }
}

impl Port for RankPort {
    #[inline]
    fn rank(&self) -> Rank {
        self.near.rank()
    }

    #[inline]
    fn size(&self) -> u32 {
        self.near.size()
    }

    fn node_of(&self, rank: Rank) -> u32 {
        self.near.node_of(rank)
    }

    fn host_name(&self, rank: Rank) -> Name {
        self.near.host_name(rank)
    }

    fn capabilities(&self) -> Capabilities {
        self.near.capabilities()
    }

    #[inline]
    fn post(&mut self, command: &Command<'_>) -> Result<usize, PostError> {
        match &self.far {
            Some(far) if far.concerns(command) => self.post_far(command),
            _ => self.near.post(command),
        }
    }

    #[inline(always)]
    fn post_short(&mut self, destination: Rank, protocol: u8, header: u64, payload: &[u8]) -> bool {
        if let Some(far) = &self.far
            && far.is_far(destination)
        {
            let command = Command::send(destination, protocol, header, payload);
            return payload.len() <= INLINE_BYTES
                && self.post_far(&Command { credited: true, ..command }).is_ok();
        }
        self.near.post_short(destination, protocol, header, payload)
    }

    fn post_chain(&mut self, chain: &[Command<'_>]) -> Result<(), ChainError> {
        let goes_far = |far: &Far| chain.iter().any(|command| far.concerns(command));
        if !self.far.as_deref().is_some_and(goes_far) {
            return self.near.post_chain(chain);
        }
        for (done, command) in chain.iter().enumerate() {
            if let Err((bytes, error)) = command.post_whole(|rest| self.post(rest)) {
                if let Some(far) = &mut self.far {
                    far.fail_in_chain(command, error);
                }
                return Err(ChainError { done, bytes, error });
            }
        }
        Ok(())
    }

    #[inline]
    fn poll(&mut self) -> Option<Event> {
        match self.far {
            None => self.near.poll(),
            Some(_) => self.poll_both(),
        }
    }

    #[inline(always)]
    fn receive_whole(&mut self, source: Rank, protocol: u8, header: u64, into: &mut [u8]) -> Short {
        let short = self.near.receive_whole(source, protocol, header, into);
        match self.far {
            Some(_) if matches!(short, Short::Nothing) => {
                self.receive_by_far(source, protocol, header, into)
            }
            _ => short,
        }
    }

    #[inline]
    fn copy_out(&self, slice: &RingSlice, offset: usize, into: &mut [u8]) -> usize {
        match slice.place_beside() {
            None => self.near.copy_out(slice, offset, into),
            Some(place) => self.copy_piece(slice, place, offset, into),
        }
    }

    #[inline]
    fn release(&mut self, slice: RingSlice) {
        match slice.place_beside() {
            None => self.near.release(slice),
            Some(place) => self.release_piece(place),
        }
    }

    #[inline]
    fn read_out(&mut self, slice: RingSlice, into: &mut [u8]) -> usize {
        match slice.place_beside() {
            None => self.near.read_out(slice, into),
            Some(place) => {
                let copied = self.copy_piece(&slice, place, 0, into);
                self.release_piece(place);
                copied
            }
        }
    }

    fn grant(&mut self, source: Rank, messages: u64) {
        self.near.grant(source, messages);
        if let Some(frequent) = &mut self.frequent {
            frequent.granted(self.near.inner_mut(), source, messages);
        }
        if let Some(far) = &mut self.far {
            far.grant(source, messages);
        }
    }

    fn held_up(&mut self) -> Option<Rank> {
        self.near.held_up()
    }

    fn route_of(&self, source: Rank) -> Option<RingId> {
        self.near.route_of(source)
    }

    fn awaited_ring(&self, source: Rank) -> Option<RingId> {
        self.near.awaited_ring(source)
    }

    fn peer(&self, rank: Rank) -> PeerState {
        let near = self.near.peer(rank);
        self.far.as_deref().map_or(near, |far| far.peer(&self.near, rank, near))
    }

    #[inline]
    fn departures(&self) -> u64 {
        self.near.departures() + self.far.as_deref().map_or(0, Far::departures)
    }

    #[inline]
    fn is_forked(&self) -> bool {
        self.near.is_forked()
    }

    #[inline]
    fn is_crowded(&self) -> bool {
        self.near.is_crowded() || self.far.as_deref().is_some_and(Far::has_looked)
    }

    #[inline]
    fn now(&self) -> Time {
        self.near.now()
    }

    fn announce_wait(&self, wait: Option<Wait>) {
        self.near.announce_wait(wait.map(|wait| {
            wait.within(wait.context.map_or(Name::NONE, |context| self.names.of(context)))
        }));
    }

    #[inline]
    fn park(&mut self, deadline: Option<Time>) -> Wake {
        match self.far {
            None => self.near.park(deadline),
            Some(_) => self.park_both(deadline),
        }
    }
}

#[cfg(test)]
impl RankPort {
    /// Its two sides, if there is a far one.
    pub(crate) fn parts(&mut self) -> Option<(&mut Far, &mut NearPort)> {
        Some((self.far.as_deref_mut()?, &mut self.near))
    }

    /// Ends the far side as a kill would.
    pub(crate) fn drop_far(&mut self) {
        self.far = None;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::iter::empty;

    use hikyaku_msg::{Engine, RecvBuffer, SendBuffer};
    use hikyaku_shm::{Hosts, JobConfig, open_hosts};

    use super::*;

    const AWAKE: (Option<Time>, RestStart) = (None, RestStart::Awake);

    fn can_be_moved<T: Send>() {}

    #[test]
    fn an_engine_can_be_moved_to_another_thread() {
        can_be_moved::<SendBuffer>();
        can_be_moved::<RecvBuffer>();
        can_be_moved::<Engine<RankPort>>();
    }

    /// The first `times` rests of a wait, for a rank on one of two hosts with one rank each. Alone,
    /// its near side would spin for that many. `None`: there is no libfabric.
    fn rests(port: &mut RankPort, times: usize) -> Vec<Rest<Nap>> {
        port.near.begin_wait();
        (0..times).map(|_| port.begin_rest(AWAKE, empty())).collect()
    }

    fn one_of_two_hosts() -> Option<RankPort> {
        // It leaves without a message to a rank that it has not communicated with.
        let (of, names, key, tells_ends) = (Vec::new(), Vec::new(), [7; 16], true);
        let hosts = Some(Hosts { own: 0, of, names, key, tells_ends, beside: 0 });
        let config = JobConfig { hosts, ..JobConfig::new(2, 2) };
        let (_, ports) = open_hosts(&config, &[0, 1], key).unwrap();
        match RankPort::open(ports.into_iter().next()?) {
            Ok(port) => Some(port),
            Err(Error::NotInstalled { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Threads of a rank, and the rank alone, rest in the same way.
    #[test]
    fn who_has_looked_at_the_network_gives_way_before_it_looks_again() {
        let Some(mut port) = one_of_two_hosts() else { return };
        let spin = port.near.begin_rest(AWAKE, empty());
        assert!(matches!(spin, Rest::Over(Wake::Look)), "the near side spins: {spin:?}");
        let rests = rests(&mut port, 32);
        assert!(rests.iter().all(|rest| matches!(rest, Rest::Yield)), "{rests:?}");
    }

    /// A receive polls several times before it rests; one poll is enough.
    #[test]
    fn who_has_looked_at_the_network_rests_before_it_looks_again() {
        let Some(mut port) = one_of_two_hosts() else { return };
        for _ in 0..2 {
            assert!(!port.is_crowded(), "it has not looked");
            assert!(matches!(port.receive_whole(1, 0, 0, &mut []), Short::Nothing));
            assert!(port.is_crowded());
            port.begin_rest(AWAKE, empty());
        }
    }

    #[test]
    fn who_has_not_looked_spins_as_without_other_hosts() {
        let Some(mut port) = one_of_two_hosts() else { return };
        let quiet = (0..2 * far::QUIET).map(|_| port.poll());
        assert!(quiet.flatten().next().is_none(), "nothing comes");
        let rests = rests(&mut port, 32);
        let yields = rests.iter().filter(|rest| matches!(rest, Rest::Yield)).count();
        let spins = rests.iter().filter(|rest| matches!(rest, Rest::Over(Wake::Look))).count();
        assert_eq!((yields, spins), (4, 28), "one look in eight: {rests:?}");
        // A poll counts too: after a poll of either kind the next rest yields.
        port.near.begin_wait();
        let mut yields = 0;
        for _ in 0..16 {
            assert!(port.poll().is_none());
            yields += u32::from(matches!(port.begin_rest(AWAKE, empty()), Rest::Yield));
        }
        assert_eq!(yields, 4);
    }
}
