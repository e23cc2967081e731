//! The port: one rank's side of a fabric.

use super::{
    Atomic, Capabilities, ChainError, Command, Completion, ContextError, ContextId, Contribution,
    Event, Group, GroupError, GroupId, Key, Member, PeerState, PostError, QueueAddress,
    QueueCommand, QueueError, QueueId, QueueMode, QueueState, Rank, RegisterValue, RemoteAddress,
    Rights, RingId, RingSlice, RingState, Short, TableError, Wait, Wake,
};
use crate::region::{RegionBuffer, RegionError};
use crate::time::Time;

/// One rank's side of a fabric: its doorbell, its status ring, its tables, its clock.
///
/// A port belongs to one thread at a time. Not async: the layers above turn it into futures.
pub trait Port {
    /// This rank.
    fn rank(&self) -> Rank;

    /// How many ranks the job has.
    fn size(&self) -> u32;

    /// The (possibly virtual) node a rank lives on. Ranks of different nodes reach each other
    /// only through commands, never by [`Port::read`].
    fn node_of(&self, rank: Rank) -> u32;

    /// What this fabric can do.
    fn capabilities(&self) -> Capabilities;

    /// Rings the doorbell for one command.
    ///
    /// Answers how many payload bytes were taken: all of them, or, for a send with a record per
    /// packet, as many as found room (at least one); the caller posts the rest later with
    /// `offset` moved on. With [`Granularity::PerMessage`](super::Granularity::PerMessage) it is
    /// all or nothing.
    ///
    /// # Errors
    /// [`PostError`]; nothing was taken then.
    fn post(&mut self, command: &Command<'_>) -> Result<usize, PostError>;

    /// [`Port::post`] for a whole message of up to [`INLINE_BYTES`](super::INLINE_BYTES) bytes:
    /// the short way, in which nothing but the record is written.
    ///
    /// # Errors
    /// [`PostError`]; nothing was taken then.
    #[inline]
    fn post_inline(
        &mut self,
        destination: Rank,
        protocol: u8,
        header: u64,
        payload: &[u8],
        credited: bool,
    ) -> Result<(), PostError> {
        let command = Command { credited, ..Command::send(destination, protocol, header, payload) };
        self.post(&command).map(drop)
    }

    /// Rings the doorbell once for several commands, executed in order (paper 004's TCW chain).
    ///
    /// # Errors
    /// Says how many commands (and bytes of the next) were taken.
    fn post_chain(&mut self, chain: &[Command<'_>]) -> Result<(), ChainError>;

    /// The next event, in order of arrival. `None`: nothing has arrived.
    fn poll(&mut self) -> Option<Event>;

    /// Takes the next record of `source` if it is a whole message with exactly this protocol and
    /// header and no longer than `into`, and copies it there.
    ///
    /// The short way for a receive that knows whom it waits for: it looks at that source's line
    /// only and makes no event. It may overtake other sources' records, never the same source's.
    fn receive_whole(&mut self, source: Rank, protocol: u8, header: u64, into: &mut [u8]) -> Short {
        let _ = (source, protocol, header, into);
        Short::Other
    }

    /// Copies payload bytes out of a landing ring, from byte `offset` of the slice on, until
    /// `into` is full or the slice ends; says how many.
    fn copy_out(&self, slice: &RingSlice, offset: usize, into: &mut [u8]) -> usize;

    /// Gives the bytes back to the ring (host advances the head, IP-12).
    fn release(&mut self, slice: RingSlice);

    /// Copies out and gives back in one request, the interface advancing the head on completion
    /// (IP-12's second form); says how many bytes were copied.
    fn read_out(&mut self, slice: RingSlice, into: &mut [u8]) -> usize {
        let copied = self.copy_out(&slice, 0, into);
        self.release(slice);
        copied
    }

    /// Allows `source` to have sent `messages` credited sends in all since the start. Never
    /// lowers what was granted before. Every source starts with what the fabric's set-up says.
    fn grant(&mut self, source: Rank, messages: u64);

    /// Whether `source` has been held up (for credit or room) since this was last asked.
    fn held_up(&mut self, source: Rank) -> bool;

    /// Directs later messages of `source` to `ring`; `None` unmaps it (IP-13, IP-25). A private
    /// ring may be given to another source when its last one has no message under way.
    ///
    /// # Errors
    /// The source or ring does not exist, or the ring is private to another source.
    fn route(&mut self, source: Rank, ring: Option<RingId>) -> Result<(), TableError>;

    /// Where messages of `source` land.
    fn route_of(&self, source: Rank) -> Option<RingId>;

    /// A landing ring of this rank.
    fn ring(&self, ring: RingId) -> Option<RingState>;

    /// Allocates `bytes` of this rank's region: memory that peers reach by one copy.
    ///
    /// # Errors
    /// There is no region, or no room left in it.
    fn allocate(&mut self, bytes: usize) -> Result<RegionBuffer, RegionError>;

    /// How other ranks may name these bytes of this process, if at all.
    fn expose(&self, bytes: &[u8]) -> Option<RemoteAddress>;

    /// Whether a message in a sender's region is faster read there by its receiver ([`Port::read`])
    /// than stored into a landing ring. May change while the job runs.
    fn reading_pays(&self) -> bool {
        true
    }

    /// Reads another rank's memory with no help from its program; complete on return.
    ///
    /// # Errors
    /// The address is out of bounds, the peer is gone, or the fabric or kernel will not.
    fn read(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError>;

    /// How a peer is doing. Cheap, but not free: for waiting loops, not for every message.
    fn peer(&self, rank: Rank) -> PeerState;

    /// How many ranks have left or died so far: cheap enough for every turn of a waiting loop.
    /// A fabric that does not count says that somebody has.
    fn departures(&self) -> u64 {
        1
    }

    /// Whether this is a copy of the port in a child of the rank's process, which is no rank: it
    /// must not be used. Cheap enough for every message.
    fn is_forked(&self) -> bool {
        false
    }

    /// The fabric's clock.
    fn now(&self) -> Time;

    /// Says that the program computes for so long before its next call: on a fabric in virtual
    /// time that much time passes, on any other this does nothing.
    fn compute(&mut self, span: Time) {
        let _ = span;
    }

    /// Says what this rank is blocked in, or that it no longer is. For waits that have become
    /// long: it costs a cache line.
    fn announce_wait(&self, wait: Option<Wait>);

    /// Waits a little for something to happen: spins, yields or sleeps, as long waiting as the
    /// caller has been idle. Call it when `poll` gave nothing, then look again.
    fn park(&mut self, deadline: Option<Time>) -> Wake;

    /// How many command queues this rank can still create, and how many slots each may have.
    fn free_queues(&self) -> (u32, u32) {
        (0, 0)
    }

    /// Takes one of this rank's command queues into use, empty.
    ///
    /// # Errors
    /// [`QueueError::NoneFree`], [`QueueError::Slots`], or the fabric has none.
    fn create_queue(&mut self, mode: QueueMode, slots: u32) -> Result<QueueAddress, QueueError> {
        let _ = (mode, slots);
        Err(QueueError::Unsupported)
    }

    /// Gives a queue back. Puts that still name it fail.
    ///
    /// # Errors
    /// It is still in use, or failed: then nobody knows what may still come, and it stays taken.
    fn destroy_queue(&mut self, queue: QueueId) -> Result<(), QueueError> {
        let _ = queue;
        Err(QueueError::Unsupported)
    }

    /// Writes a chain of commands into a queue, rings its doorbell once, and runs what may run.
    ///
    /// # Errors
    /// Not all of them fit, or the queue stands still. Nothing was written then.
    fn post_queue(&mut self, queue: QueueId, chain: &[QueueCommand]) -> Result<(), QueueError> {
        let _ = (queue, chain);
        Err(QueueError::Unsupported)
    }

    /// Has the next `count` slots run as they are: the commands that were written a whole queue
    /// ago. What is to be done again and again is written once.
    ///
    /// # Errors
    /// As [`Port::post_queue`].
    fn repeat_queue(&mut self, queue: QueueId, count: u32) -> Result<(), QueueError> {
        let _ = (queue, count);
        Err(QueueError::Unsupported)
    }

    /// Releases slots of a queue, also another rank's, and runs what may run: a put without payload
    /// that is in no queue itself.
    ///
    /// # Errors
    /// There is no such queue, or its scheduling pointer would lead by more than it can.
    fn release_queue(&mut self, queue: QueueAddress, slots: u32) -> Result<(), QueueError> {
        let _ = (queue, slots);
        Err(QueueError::Unsupported)
    }

    /// Runs what may run in a queue, also another rank's, if nobody does: for ranks that wait.
    fn help_queue(&mut self, queue: QueueAddress) {
        let _ = queue;
    }

    /// What a queue has come to, also another rank's.
    ///
    /// # Errors
    /// There is no such queue.
    fn queue_state(&mut self, queue: QueueAddress) -> Result<QueueState, QueueError> {
        let _ = queue;
        Err(QueueError::Unsupported)
    }

    /// The next completion of a queue of this rank; `None`: there is no further one now.
    fn completion(&mut self, queue: QueueId) -> Option<Completion> {
        let _ = queue;
        None
    }

    /// Gives a queue back of which others may not have noticed yet that it is over: it takes
    /// releases until its scheduling pointer is ahead by `lead`, which every session comes to, and
    /// says meanwhile after how many `rounds` its owner was done. Then it is destroyed.
    fn retire_queue(&mut self, queue: QueueId, rounds: u64, lead: u32) {
        let _ = (queue, rounds, lead);
    }

    /// Stops a queue of this rank for good because `missing` is gone, and lets the ranks in `tell`
    /// look at it.
    fn give_up_queue(&mut self, queue: QueueId, missing: Rank, tell: &[Rank]) {
        let _ = (queue, missing, tell);
    }

    super::mail::calls!();

    /// Opens a context of this rank: an empty segment table and three address registers of its
    /// own, and a node table without members (paper 003 §4.7).
    ///
    /// # Errors
    /// All contexts are open.
    fn open_context(&mut self) -> Result<ContextId, ContextError> {
        Err(ContextError::Unsupported)
    }

    /// Closes a context. Keys of its registers open nothing any more.
    ///
    /// # Errors
    /// It is not open, or has segments.
    fn close_context(&mut self, context: ContextId) -> Result<(), ContextError> {
        let _ = context;
        Err(ContextError::Unsupported)
    }

    /// Fills the node table of a context: logical number `n` is `members[n]` from now on.
    ///
    /// # Errors
    /// The context is not open, or a member cannot be; nothing has changed then.
    fn connect(&mut self, context: ContextId, members: &[Member]) -> Result<(), ContextError> {
        let _ = (context, members);
        Err(ContextError::Unsupported)
    }

    /// Where a logical number of a context leads (CJ-04).
    ///
    /// # Errors
    /// [`PostError::NoSuchMember`] if the number is beyond the node table, which that of a closed
    /// context always is.
    fn member(&self, context: ContextId, logical: u32) -> Result<Member, PostError> {
        let _ = (context, logical);
        Err(PostError::Unsupported("translate logical numbers"))
    }

    /// Makes `length` bytes from `offset` of this rank's region a segment that whoever has the
    /// key may use as `rights` say.
    ///
    /// The bytes must stay allocated until [`Port::deregister`] has said that they are free: the
    /// fabric does not know whose they are.
    ///
    /// # Errors
    /// The context is not open, its table is full, or the bytes are not within the region.
    fn register(
        &mut self,
        context: ContextId,
        offset: u64,
        length: u64,
        rights: Rights,
    ) -> Result<Key, ContextError> {
        let _ = (context, offset, length, rights);
        Err(ContextError::Unsupported)
    }

    /// Takes a segment back. From the first call on nobody gets in any more; the memory is free
    /// when the answer is `Ok`.
    ///
    /// # Errors
    /// [`ContextError::Busy`] while a peer that got in before is still there: call again, with
    /// [`Port::park`] in between. A peer that died is not waited for once that is known.
    fn deregister(&mut self, key: Key) -> Result<(), ContextError> {
        let _ = key;
        Err(ContextError::Unsupported)
    }

    /// The key by which peers name an address register of this rank.
    ///
    /// # Errors
    /// The context is not open, or there is no such register.
    fn register_key(&self, context: ContextId, register: u8) -> Result<Key, ContextError> {
        let _ = (context, register);
        Err(ContextError::Unsupported)
    }

    /// Points an address register of this rank somewhere, or nowhere. Puts under way land by what
    /// it said before.
    ///
    /// # Errors
    /// The context is not open, there is no such register, or it would point outside of a segment
    /// of the same context.
    fn set_address_register(
        &mut self,
        context: ContextId,
        register: u8,
        value: Option<RegisterValue>,
    ) -> Result<(), ContextError> {
        let _ = (context, register, value);
        Err(ContextError::Unsupported)
    }

    /// What an address register of this rank says now. One that advances counts places taken, not
    /// bytes that have landed.
    ///
    /// # Errors
    /// The context is not open, or there is no such register.
    fn address_register(
        &self,
        context: ContextId,
        register: u8,
    ) -> Result<Option<RegisterValue>, ContextError> {
        let _ = (context, register);
        Err(ContextError::Unsupported)
    }

    /// [`Operation::Get`](super::Operation::Get) into memory of the caller; complete on return.
    /// For fabrics on which the requester carries commands out itself.
    ///
    /// # Errors
    /// As [`Port::post`].
    fn get(&mut self, from: RemoteAddress, into: &mut [u8]) -> Result<(), PostError> {
        let _ = (from, into);
        Err(PostError::Unsupported("get and wait in one call"))
    }

    /// [`Operation::Atomic`](super::Operation::Atomic), answering the old value; complete on
    /// return. For fabrics on which the requester carries commands out itself.
    ///
    /// # Errors
    /// As [`Port::post`].
    fn fetch(&mut self, atomic: &Atomic) -> Result<u64, PostError> {
        let _ = atomic;
        Err(PostError::Unsupported("fetch and wait in one call"))
    }

    /// Registers a set of ranks that contains this one (paper 003 §4.9), on one of the job's
    /// channels: every member takes the same channel, the same list and the same `first`.
    ///
    /// Rounds and barriers are counted from `first` on: 0 on a channel that nobody has used yet,
    /// else at least what [`Port::leave`] answered to any of the members.
    ///
    /// # Errors
    /// [`GroupError`]; nothing was registered then.
    fn join(&mut self, channel: u32, ranks: &[Rank], first: u64) -> Result<GroupId, GroupError> {
        let _ = (channel, ranks, first);
        Err(GroupError::Unsupported("join ranks to groups"))
    }

    /// Leaves a group. Answers from where on this rank can count in the channel's next group.
    ///
    /// # Errors
    /// It was not joined.
    fn leave(&mut self, group: GroupId) -> Result<u64, GroupError> {
        Err(GroupError::NoSuchGroup { channel: group.channel() })
    }

    /// What was registered of a group.
    fn group(&self, group: GroupId) -> Option<&Group> {
        let _ = group;
        None
    }

    /// Says for each member in which of its contexts multicast puts find its address registers, by
    /// the key of any of them ([`Port::register_key`]): what paper 003's multicast header knows of
    /// its receivers. Where the registers point is the members' affair, at any time.
    ///
    /// # Errors
    /// The group was not joined, or there are not as many keys as members.
    fn set_registers(&mut self, group: GroupId, registers: &[Key]) -> Result<(), GroupError> {
        let _ = registers;
        Err(GroupError::NoSuchGroup { channel: group.channel() })
    }

    /// One command to every other member of a group (CJ-14). The command's destination is not
    /// looked at. A send lands at each member as if it had been posted to it. A put
    /// ([`Command::put_through`]) lands where the member's own address register of that number
    /// points, which moves on if it advances (paper 003 §4.9: "DMA with address register"). An
    /// atomic operation is done at the same address of each.
    ///
    /// Where a put or an atomic operation cannot be done (outside of the segment, a register that
    /// is unset or stale, a member that is gone) nothing is written; the sender gets an
    /// [`Event::Completed`] with the member and the error, whatever reply
    /// it asked for, and the other members are served.
    ///
    /// Begins at the member at place `done`, of whose payload `bytes` were taken already; zero both
    /// at first, and what the error said to go on after it.
    ///
    /// # Errors
    /// Says how many members were reached, and how far the next one was.
    fn multicast(
        &mut self,
        group: GroupId,
        command: &Command<'_>,
        done: usize,
        bytes: usize,
    ) -> Result<(), ChainError> {
        let post = |port: &mut Self, one: &Command<'_>| port.post(one);
        super::multicast_by(self, group, command, (done, bytes), post, |_, _| false)
    }

    /// Enters the group's next round with a word and a payload that all members can read: up to
    /// [`LINE_BYTES`](crate::ring::LINE_BYTES) in a control line, more in the multicast area.
    ///
    /// # Errors
    /// [`GroupError::Full`] while members still read what would be written over; park and try
    /// again. Else the group cannot do this.
    fn contribute(&mut self, group: GroupId, word: u64, payload: &[u8]) -> Result<(), GroupError> {
        let _ = (word, payload);
        Err(GroupError::NoSuchGroup { channel: group.channel() })
    }

    /// What the member at `place` has contributed to the round that this rank is in. `None`: it has
    /// not yet; park and look again.
    ///
    /// # Errors
    /// The member is gone and will not, or what it wrote makes no sense.
    fn contribution(
        &mut self,
        group: GroupId,
        place: usize,
    ) -> Result<Option<Contribution>, GroupError> {
        let _ = place;
        Err(GroupError::NoSuchGroup { channel: group.channel() })
    }

    /// Whether every member has contributed to the round that this rank is in, this one included;
    /// park and look again if not. A round that all contribute to should end with this.
    ///
    /// # Errors
    /// A member is gone and will not.
    fn all_contributed(&mut self, group: GroupId) -> Result<bool, GroupError> {
        Err(GroupError::NoSuchGroup { channel: group.channel() })
    }

    /// Copies a contribution of this round, from its byte `from` on, until `into` is full or it
    /// ends; says how many bytes.
    fn load_contribution(
        &self,
        group: GroupId,
        place: usize,
        contribution: &Contribution,
        from: usize,
        into: &mut [u8],
    ) -> usize {
        let _ = (group, place, contribution, from, into);
        0
    }

    /// Ends the round for this rank: it looks at nobody's contribution to it any more. To be called
    /// once a round, also by who has given the round up with an error.
    ///
    /// # Errors
    /// The group was not joined; or, the round being ended all the same, a member is gone that has
    /// not read what this rank contributed.
    fn finish_round(&mut self, group: GroupId) -> Result<(), GroupError> {
        Err(GroupError::NoSuchGroup { channel: group.channel() })
    }

    /// Comes to the group's barrier of a sync id (paper 003: sends the sync packet). Does not wait.
    /// Barriers of different ids, [`SYNC_IDS`](super::SYNC_IDS) a group, may be in progress at
    /// once.
    ///
    /// # Errors
    /// The id is in progress, or the group is too large.
    fn sync(&mut self, group: GroupId, id: u32) -> Result<(), GroupError> {
        let _ = id;
        Err(GroupError::NoSuchGroup { channel: group.channel() })
    }

    /// Whether all members have come to the barrier of a sync id; park and ask again if not.
    ///
    /// # Errors
    /// A member is gone and will not come.
    fn synced(&mut self, group: GroupId, id: u32) -> Result<bool, GroupError> {
        let _ = id;
        Err(GroupError::NoSuchGroup { channel: group.channel() })
    }
}
