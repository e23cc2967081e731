//! The interface between an algorithm and the ranks it runs on.
//!
//! A group is one rank's handle on a set of ranks that compute together: over a message engine, in
//! virtual time, or in a test. The required part is small: point-to-point messages. Everything else
//! is a *facility* that an interface may have (paper 003: remote atomic add, multicast, network
//! synchronisation). A facility that a group lacks is never chosen by default, and to ask for it by
//! name is an error.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::future::{Future, ready};

use hikyaku_msg::{Scattered, join_all};
use hikyaku_nic::fabric::ChannelOffer;

use crate::costs::Costs;
use crate::error::Cause;
use crate::long::{LongCall, LongCalls, LongOperation, LongWay};
use crate::mates::Mates;
use crate::questions::{Asked, Made};
use crate::signature::Element;
use crate::turns::LineTurn;

/// One rank's handle on the ranks that it computes with.
///
/// Futures borrow the group and their buffers, start when first polled and are abandoned when
/// dropped. Messages from one rank to another with the same tag arrive in the order of the first
/// polls of their sends, and match receives in the order of the receives' first polls.
pub trait Group {
    /// The element of a buffer: `u8` where messages carry bytes. A simulation that carries only
    /// lengths uses `()`, whose slices have a length and no memory.
    type Byte: Copy + Default + 'static;

    /// The error of a failed message.
    type Error: std::error::Error + Clone + Debug;

    /// This rank, `0..size`.
    fn rank(&self) -> u32;

    /// The number of ranks, at least one.
    fn size(&self) -> u32;

    /// The node of a rank. Only equality matters.
    fn node_of(&self, rank: u32) -> u32;

    /// The number of nodes. Selection of an algorithm calls it, so it must be cheap.
    fn nodes(&self) -> u32;

    /// The costs of messages, where they are known exactly and the same for all ranks: in virtual
    /// time. Then an algorithm with a lower estimate replaces the table's. Real processes return
    /// `None`, so that the bits of their results do not depend on the machine.
    fn costs(&self) -> Option<&Costs> {
        None
    }

    /// The extents of the network along which ranks are numbered, first fastest: rank `x + a (y + b
    /// z)` of `[a, b, c]` is at `(x, y, z)`. The product is [`Group::size`]. For algorithms that
    /// proceed dimension by dimension (paper 004); the default is as near to a cube as the size
    /// allows.
    fn shape(&self) -> [u32; 3] {
        near_cube(self.size())
    }

    /// The elements that the bytes of a call consist of.
    fn element(&self) -> Element {
        Element::BYTE
    }

    /// Starts an operation and returns its number: one more with each call. It is the same on all
    /// ranks, since all start the same operations in the same order.
    fn open(&self, made: Made) -> u32;

    /// Sends `bytes`. Completes when they may be changed again.
    fn send<'a>(
        &'a self,
        bytes: &'a [Self::Byte],
        to: u32,
        tag: i32,
    ) -> impl Future<Output = Result<(), Self::Error>> + Unpin + 'a;

    /// Receives the next message from `from` with `tag` into the front of `into`. Returns the
    /// length of the message, which may be larger than `into`.
    fn recv<'a>(
        &'a self,
        into: &'a mut [Self::Byte],
        from: u32,
        tag: i32,
    ) -> impl Future<Output = Result<u64, Self::Error>> + Unpin + 'a;

    /// Sends data with gaps: as [`Group::send`]. For groups whose messages carry bytes.
    fn send_scattered(
        &self,
        data: Scattered,
        to: u32,
        tag: i32,
    ) -> impl Future<Output = Result<(), Self::Error>> + '_ {
        let _ = (data, to, tag);
        ready(Err(Self::unsupported("send data with gaps")))
    }

    /// Receives into memory with gaps: as [`Group::recv`]. For groups whose messages carry bytes.
    fn recv_scattered(
        &self,
        data: Scattered,
        from: u32,
        tag: i32,
    ) -> impl Future<Output = Result<u64, Self::Error>> + '_ {
        let _ = (data, from, tag);
        ready(Err(Self::unsupported("receive into memory with gaps")))
    }

    /// Sends several messages with one tag. An interface that takes a chain of commands with one
    /// doorbell (paper 004's TCW chain) pays its start-up once; the default starts them one after
    /// the other.
    fn send_chain<'a>(
        &'a self,
        chain: Vec<(u32, &'a [Self::Byte])>,
        tag: i32,
    ) -> impl Future<Output = Result<(), Self::Error>> + 'a {
        let sends = chain.into_iter().map(|(to, bytes)| self.send(bytes, to, tag)).collect();
        async move { join_all::<_>(sends).await.into_iter().collect() }
    }

    /// The facilities of this group besides messages.
    fn facilities(&self) -> Facilities {
        Facilities::default()
    }

    /// Adds one to the counter of a rank, which may be this one, without its processor (paper 003,
    /// atomic add). Needs [`Network::There`].
    fn add(&self, to: u32) -> impl Future<Output = Result<(), Self::Error>> + '_ {
        let _ = to;
        ready(Err(Self::unsupported("add to another rank's counter")))
    }

    /// Adds one to the counters of all ranks by one command. Needs [`Network::There`].
    fn add_to_all(&self) -> impl Future<Output = Result<(), Self::Error>> + '_ {
        ready(Err(Self::unsupported("add to all ranks' counters")))
    }

    /// Completes when this rank's counter has grown by `additions` more than earlier calls waited
    /// for. The order among those is that of the *calls*, not of polls.
    fn take(&self, additions: u64) -> impl Future<Output = Result<(), Self::Error>> + '_ {
        let _ = additions;
        ready(Err(Self::unsupported("wait for a counter")))
    }

    /// Sends `bytes` to all other ranks by one command; they receive it as a message from this
    /// rank. Needs [`Facilities::multicast`].
    fn multicast<'a>(
        &'a self,
        bytes: &'a [Self::Byte],
        tag: i32,
    ) -> impl Future<Output = Result<(), Self::Error>> + 'a {
        let _ = (bytes, tag);
        ready(Err(Self::unsupported("multicast")))
    }

    /// Completes when all ranks have called it as often as this one: the network's own barrier
    /// (paper 003, sync packets). The order among several is that of the *calls*. Needs
    /// [`Facilities::sync`].
    fn sync(&self) -> impl Future<Output = Result<(), Self::Error>> + '_ {
        ready(Err(Self::unsupported("synchronise through the network")))
    }

    /// Whether calls that name a facility that [`Group::facilities`] lacks use a group of the port
    /// that all ranks agree on, through memory that they share. Only calls that name it use it,
    /// since it is not faster than the table's choice.
    fn network(&self) -> Network {
        Network::Absent
    }

    /// The ranks that share lines with this one, even if the lines are no longer usable. Needs
    /// [`Facilities::lines`].
    fn mates(&self) -> Option<&Mates> {
        None
    }

    /// This rank's offer for a channel that all ranks agree on, made by the call `number`, the
    /// first to use it. `None`: the channel exists.
    fn offer(&self, number: u32, usage: ChannelUse) -> Option<[Self::Byte; ChannelOffer::BYTES]> {
        let _ = (number, usage);
        None
    }

    /// Reduces `mine` to what the two offers have in common.
    fn join_offers(theirs: &[Self::Byte], mine: &mut [Self::Byte]) {
        let _ = (theirs, mine);
    }

    /// Takes the channel that all ranks offer, for call `number` and later ones. `false`: this call
    /// has none, and for lines later calls have none for a while.
    fn settle(
        &self,
        number: u32,
        usage: ChannelUse,
        offered: &[Self::Byte],
    ) -> Result<bool, Self::Error> {
        let _ = (number, usage, offered);
        Err(Self::unsupported("share lines"))
    }

    /// A checksum over the calls that used the lines before the current one and let a rank return
    /// without checking the others. The rank's word includes it.
    fn past(&self) -> u32 {
        0
    }

    /// Includes the current call on the lines in [`Group::past`] for later ones. Called only where
    /// all ranks know that the call uses the lines: while they still agree on lines, one rank may
    /// make a call for lines that another makes by messages, after the lines are refused.
    fn count_in(&self, made: Made) {
        let _ = made;
    }

    /// `rank` has another [`Group::past`] than this one in call `number`. Asks it which of the
    /// earlier calls differs. `false`: it cannot be asked. Otherwise the call fails in due time, by
    /// [`Group::notice`] or [`Group::ask`].
    fn doubt_past(&self, number: u32, rank: u32) -> bool {
        let _ = (number, rank);
        false
    }

    /// The number of the next call, if no call uses the lines. A call that can complete at once by
    /// lines does so without [`Group::open`], and ends with [`Group::pass`].
    fn next_on_lines(&self) -> Option<u32> {
        None
    }

    /// Ends the next call, which is complete.
    fn pass(&self, made: Made) {
        let _ = made;
    }

    /// Whether it is the turn of a call on the lines.
    fn turn(&self, number: u32) -> LineTurn {
        let _ = number;
        LineTurn::Lost
    }

    /// A call by lines continues without them.
    fn give_way(&self, number: u32) {
        let _ = number;
    }

    /// How often a call polls the lines before it lets others run.
    fn looks(&self) -> u32 {
        1
    }

    /// Yields the processor to another rank, if this one has to wait and there are more ranks than
    /// processors. Returns whether it did.
    fn make_way(&self) -> bool {
        false
    }

    /// The ways of long data, where the group measures them: on all ranks or on none.
    fn long_calls(&self) -> Option<&RefCell<LongCalls>> {
        None
    }

    /// Chooses the way of a call of so many bytes, or that of the calls after it where its own is
    /// known. `None`: lines, which this rank does not measure.
    fn choose_long(
        &self,
        operation: LongOperation,
        bytes: (usize, Option<LongWay>),
    ) -> Option<LongCall> {
        let _ = (operation, bytes);
        None
    }

    /// Records the end of a call whose way this rank has chosen.
    fn note_long(&self, call: LongCall) {
        let _ = call;
    }

    /// The length of the longest contribution, in bytes.
    fn most_on_lines(&self) -> usize {
        0
    }

    /// Enters the next round with a word and bytes that all mates can read: these pieces, one after
    /// the other. `false`: mates have not read earlier rounds yet.
    fn contribute(&self, word: u64, pieces: &[&[Self::Byte]]) -> Result<bool, Self::Error> {
        let _ = (word, pieces);
        Err(Self::unsupported("share lines"))
    }

    /// After all mates have contributed to this round: whether the others wrote `word`. `None`: not
    /// all have.
    fn all_contributed(&self, word: u64) -> Result<Option<bool>, Self::Error> {
        let _ = word;
        Err(Self::unsupported("share lines"))
    }

    /// The word that the mate at `place` has contributed to this round. Copies its bytes from
    /// `from` on, as far as they fit into `into`. `None`: no contribution yet.
    fn contribution(
        &self,
        place: usize,
        from: usize,
        into: &mut [Self::Byte],
    ) -> Result<Option<u64>, Self::Error> {
        let _ = (place, from, into);
        Err(Self::unsupported("share lines"))
    }

    /// Ends the round for this rank.
    fn finish_round(&self) -> Result<(), Self::Error> {
        Err(Self::unsupported("share lines"))
    }

    /// The address from which mates may copy these bytes, which stay unchanged until all have
    /// reported their copies. All zeros: none. Only in a call whose turn on the lines it is.
    fn expose(&self, bytes: &[Self::Byte]) -> [Self::Byte; ADDRESS] {
        let _ = bytes;
        [Self::Byte::default(); ADDRESS]
    }

    /// The side that can copy from an address that [`Group::expose`] returned at another rank.
    /// `None`: neither.
    fn reach(address: &[Self::Byte; ADDRESS]) -> Option<CopyReach> {
        let _ = address;
        None
    }

    /// Copies what the mate at `place` has exposed, from byte `from` on. `false`: the copy is
    /// refused, and a part may have been copied.
    fn read(
        &self,
        place: usize,
        address: &[Self::Byte; ADDRESS],
        from: usize,
        into: &mut [Self::Byte],
    ) -> Result<bool, Self::Error> {
        let _ = (place, address, from, into);
        Ok(false)
    }

    /// The system has refused a copy to a rank: [`Group::expose`] no longer returns such addresses.
    fn note_refusal(&self) {}

    /// The error of a missing facility.
    fn unsupported(what: &'static str) -> Self::Error;

    /// The rank whose end this error reports, if it does.
    fn gone(error: &Self::Error) -> Option<u32> {
        let _ = error;
        None
    }

    /// Reports how this rank's part in an operation has ended: called once for each
    /// [`Group::open`]. Notifies the other ranks if necessary, without waiting. The default
    /// notifies no rank: for groups in which no call can fail.
    fn close(&self, number: u32, ending: OperationEnding) {
        let _ = (number, ending);
    }

    /// The received notice that an operation cannot succeed, if any. Called whenever the operation
    /// waits, so it must be cheap.
    fn notice(&self, number: u32) -> Option<Notice> {
        let _ = number;
        None
    }

    /// Asks other ranks from time to time whether they have made the same call, whose messages have
    /// this tag. Called whenever the operation waits, so it must be cheap. Returns the reason why
    /// it cannot succeed, if that is known without an answer. The default asks no rank: for groups
    /// in which all ranks make the same calls.
    fn ask(&self, number: u32, tag: i32, made: Made, asked: &Cell<Asked>) -> Option<Notice> {
        let _ = (number, tag, made, asked);
        None
    }

    /// Whether an operation that is complete here must not end yet: at an earlier one another rank
    /// may have made a different call, and the result of [`Group::notice`] and [`Group::ask`] about
    /// that applies to this operation.
    fn is_in_doubt(&self, number: u32) -> bool {
        let _ = number;
        false
    }

    /// How many operations have reported what they wait for. `None`: no report is being made.
    fn reported_waits(&self) -> Option<u32> {
        None
    }

    /// Reports that a collective waits. The operations reported since the count was `before` are
    /// its parts.
    fn report_operation(&self, before: u32, operation: &'static str, root: Option<u32>) {
        let _ = (before, operation, root);
    }
}

/// The port's group for calls that name one of its facilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// There is none: some ranks share no memory with others.
    Absent,
    /// A call has failed on it: the table decides.
    Lost,
    /// It is available for the next call, after all ranks have agreed on it.
    There,
}

/// The purpose of a channel that ranks agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelUse {
    /// The lines of the ranks of each node.
    Lines,
    /// The group of all ranks.
    Network,
}

/// The facilities of a group besides messages, as in paper 003's interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facilities {
    /// One command that sends a message to all ([`Group::multicast`]).
    pub multicast: bool,
    /// A barrier done by the network ([`Group::sync`]).
    pub sync: bool,
    /// Lines that ranks of a node share, for the next call ([`Group::contribute`]). The ranks may
    /// still have to agree on them ([`Group::offer`]), and agreement may fail.
    pub lines: bool,
}

/// The bytes of an address that one rank sends to others.
pub const ADDRESS: usize = 16;

/// The side that copies out of another rank's memory. Later variants include earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyReach {
    /// The program, out of memory that ranks share.
    Region,
    /// The kernel, out of any memory.
    Process,
}

impl CopyReach {
    /// The address of memory at this offset, in bytes: the copying side, 1 or 2, and the offset.
    pub(crate) fn to_address(self, offset: u64) -> [u8; ADDRESS] {
        let reach = match self {
            CopyReach::Region => 1u64,
            CopyReach::Process => 2,
        };
        let mut bytes = [0; ADDRESS];
        bytes[..8].copy_from_slice(&reach.to_le_bytes());
        bytes[8..].copy_from_slice(&offset.to_le_bytes());
        bytes
    }

    /// The reverse. `None`: neither side can copy.
    pub(crate) fn of_address(bytes: &[u8; ADDRESS]) -> Option<(CopyReach, u64)> {
        let (reach, offset) = bytes.split_at(8);
        let [reach, offset] = [reach, offset].map(|half| half.try_into().map(u64::from_le_bytes));
        match reach.ok()? {
            1 => Some((CopyReach::Region, offset.ok()?)),
            2 => Some((CopyReach::Process, offset.ok()?)),
            _ => None,
        }
    }
}

/// How a rank's part in an operation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationEnding {
    /// It is done.
    Done,
    /// It failed here: all other ranks must be notified.
    Failed(Cause),
    /// It failed because another rank reported its failure.
    Told,
    /// It failed at every rank in the same way, and every rank knows.
    Known,
}

/// Another rank's report of why an operation cannot succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The reporting rank.
    pub rank: u32,
    /// The reported cause.
    pub cause: Cause,
}

/// Three factors of `size` in falling order, the largest as small as possible: the default of
/// [`Group::shape`] for an unknown network.
pub fn near_cube(size: u32) -> [u32; 3] {
    let divisors = |of: u32| (1..=of.isqrt()).rev().filter(move |d| of.is_multiple_of(*d));
    let size = size.max(1);
    let cube = divisors(size).filter_map(|c| {
        let rest = size / c;
        let b = divisors(rest).next()?;
        let mut shape = [rest / b, b, c];
        shape.sort_unstable_by(|a, b| b.cmp(a));
        Some(shape)
    });
    cube.min().unwrap_or([size, 1, 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_as_near_to_a_cube_as_the_size_allows() {
        assert_eq!(near_cube(1), [1, 1, 1]);
        assert_eq!(near_cube(13), [13, 1, 1]);
        assert_eq!(near_cube(12), [3, 2, 2]);
        assert_eq!(near_cube(256), [8, 8, 4]);
        assert_eq!(near_cube(2048), [16, 16, 8]);
        assert!((1..500).all(|size| near_cube(size).iter().product::<u32>() == size));
    }
}
