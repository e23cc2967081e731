//! What an algorithm sees of the world it runs in.
//!
//! A group is one rank's handle on a set of ranks that compute together: over a message engine, in
//! virtual time, or in a test. The required part is small, point-to-point messages; everything else
//! is a *facility* that an interface may have (paper 003: remote atomic add, multicast, network
//! synchronisation). What a group does not have is never chosen for it, and to ask for it by name
//! is an error.

use std::cell::Cell;
use std::fmt::Debug;
use std::future::{Future, ready};

use hikyaku_msg::{Scattered, join_all};
use hikyaku_nic::fabric::ChannelOffer;

use crate::costs::Costs;
use crate::error::Cause;
use crate::long::{LongCall, LongOperation, LongWay};
use crate::mates::Mates;
use crate::questions::{Asked, Made};
use crate::signature::Element;
use crate::turns::LineTurn;

/// One rank's handle on the ranks it computes together with.
///
/// Futures borrow the group and their buffers, start when they are first polled and are abandoned
/// when they are dropped. Messages from one rank to another with the same tag arrive in the order
/// in which their sends were first polled, and receives take them in that of their own first polls.
pub trait Group {
    /// What a buffer consists of: `u8` where messages carry bytes. A simulation that carries
    /// lengths only takes `()`, whose slices have a length and no memory.
    type Byte: Copy + Default + 'static;

    /// What can go wrong with a message.
    type Error: std::error::Error + Clone + Debug;

    /// This rank, `0..size`.
    fn rank(&self) -> u32;

    /// How many ranks there are; at least one.
    fn size(&self) -> u32;

    /// The node a rank lives on. Only whether two are equal matters.
    fn node_of(&self, rank: u32) -> u32;

    /// How many nodes there are: what the choice of an algorithm needs to know, cheaply.
    fn nodes(&self) -> u32;

    /// What messages cost, where that is known exactly and the same for all ranks: in virtual time.
    /// Then an algorithm that is estimated to be faster goes before that of the table. Real
    /// processes know none, so the bits of their results depend on no machine.
    fn costs(&self) -> Option<&Costs> {
        None
    }

    /// Extents of the network that ranks are numbered along, first fastest: rank `x + a (y + b z)`
    /// of `[a, b, c]` stands at `(x, y, z)`. The product is [`Group::size`]. For algorithms that go
    /// dimension by dimension (paper 004); the default is as near to a cube as the size allows.
    fn shape(&self) -> [u32; 3] {
        near_cube(self.size())
    }

    /// What elements the bytes of a call are.
    fn element(&self) -> Element {
        Element::BYTE
    }

    /// The number of an operation that starts: one more with each call. The same on all ranks,
    /// since all start the same operations in the same order.
    fn open(&self, made: Made) -> u32;

    /// Sends `bytes`; ready when they may be changed again.
    fn send<'a>(
        &'a self,
        bytes: &'a [Self::Byte],
        to: u32,
        tag: i32,
    ) -> impl Future<Output = Result<(), Self::Error>> + Unpin + 'a;

    /// Receives the next message of `from` with `tag` into the front of `into`; gives the length
    /// of the message, which may be more than there was room for.
    fn recv<'a>(
        &'a self,
        into: &'a mut [Self::Byte],
        from: u32,
        tag: i32,
    ) -> impl Future<Output = Result<u64, Self::Error>> + Unpin + 'a;

    /// Sends data that have gaps: as [`Group::send`]. For groups whose messages carry bytes.
    fn send_scattered(
        &self,
        data: Scattered,
        to: u32,
        tag: i32,
    ) -> impl Future<Output = Result<(), Self::Error>> + '_ {
        let _ = (data, to, tag);
        ready(Err(Self::unsupported("send data with gaps")))
    }

    /// Receives into memory that has gaps: as [`Group::recv`]. For groups whose messages carry
    /// bytes.
    fn recv_scattered(
        &self,
        data: Scattered,
        from: u32,
        tag: i32,
    ) -> impl Future<Output = Result<u64, Self::Error>> + '_ {
        let _ = (data, from, tag);
        ready(Err(Self::unsupported("receive into memory with gaps")))
    }

    /// Sends several messages of one tag. An interface that takes a chain of commands with one
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

    /// What this group has besides messages.
    fn facilities(&self) -> Facilities {
        Facilities::default()
    }

    /// Adds one to the counter of a rank, this one included, with no help from its processor
    /// (paper 003, atomic add). Needs [`Facilities::counter`].
    fn add(&self, to: u32) -> impl Future<Output = Result<(), Self::Error>> + '_ {
        let _ = to;
        ready(Err(Self::unsupported("add to another rank's counter")))
    }

    /// Adds one to the counters of all ranks by one command. Needs
    /// [`Facilities::multicast_counter`].
    fn add_to_all(&self) -> impl Future<Output = Result<(), Self::Error>> + '_ {
        ready(Err(Self::unsupported("add to all ranks' counters")))
    }

    /// Ready when this rank's counter has grown by `additions` more than earlier calls waited for.
    /// Takes its place among those when it is *called*.
    fn take(&self, additions: u64) -> impl Future<Output = Result<(), Self::Error>> + '_ {
        let _ = additions;
        ready(Err(Self::unsupported("wait for a counter")))
    }

    /// Sends `bytes` to all other ranks by one command; they receive it as a message of this rank.
    /// Needs [`Facilities::multicast`].
    fn multicast<'a>(
        &'a self,
        bytes: &'a [Self::Byte],
        tag: i32,
    ) -> impl Future<Output = Result<(), Self::Error>> + 'a {
        let _ = (bytes, tag);
        ready(Err(Self::unsupported("multicast")))
    }

    /// Ready when all ranks have called it so many times: the barrier that the network itself does
    /// (paper 003, sync packets). Takes its place among several when it is *called*. Needs
    /// [`Facilities::sync`].
    fn sync(&self) -> impl Future<Output = Result<(), Self::Error>> + '_ {
        ready(Err(Self::unsupported("synchronise through the network")))
    }

    /// Whether calls that name a facility get it of a group of the port that all ranks agree on,
    /// where [`Group::facilities`] lacks it: by memory that they share. Nobody else uses that,
    /// since it is not faster than what the table says.
    fn network(&self) -> Network {
        Network::Absent
    }

    /// Whom this rank shares lines with, also if they cannot be used any more. Needs
    /// [`Facilities::lines`].
    fn mates(&self) -> Option<&Mates> {
        None
    }

    /// What this rank offers for a channel that all agree on, as the call of this number does that
    /// uses it first; `None`: it is there.
    fn offer(&self, number: u32, usage: ChannelUse) -> Option<[Self::Byte; ChannelOffer::BYTES]> {
        let _ = (number, usage);
        None
    }

    /// Leaves in `mine` what two offers have in common.
    fn join_offers(theirs: &[Self::Byte], mine: &mut [Self::Byte]) {
        let _ = (theirs, mine);
    }

    /// Takes the channel that all ranks offer, for the call of this number and those after it;
    /// `false`: there is none for this call, and for lines none for a while.
    fn settle(
        &self,
        number: u32,
        usage: ChannelUse,
        offered: &[Self::Byte],
    ) -> Result<bool, Self::Error> {
        let _ = (number, usage, offered);
        Err(Self::unsupported("share lines"))
    }

    /// A sum over the calls that have had the lines before the one that has them now, of those in
    /// which a rank may have gone on without a look at the others: what it says counts this in.
    fn past(&self) -> u32 {
        0
    }

    /// The call that has the lines now counts in [`Group::past`] for those after it. Called where
    /// all ranks know alike that it has them: while they are agreed on, a call that one rank makes
    /// for lines another may make, after they are refused, by messages.
    fn count_in(&self, made: Made) {
        let _ = made;
    }

    /// `rank` has another [`Group::past`] than this one in the call of this number. Asks it which
    /// of the calls before differs; `false`: that cannot be asked. If it can, the call fails in
    /// time, by [`Group::notice`] or [`Group::ask`].
    fn doubt_past(&self, number: u32, rank: u32) -> bool {
        let _ = (number, rank);
        false
    }

    /// The number of the next call, if no call has the lines: what can be done at once by lines is
    /// done without [`Group::open`], and ends with [`Group::pass`].
    fn next_on_lines(&self) -> Option<u32> {
        None
    }

    /// The next call is done.
    fn pass(&self, made: Made) {
        let _ = made;
    }

    /// Whether a call has the lines.
    fn turn(&self, number: u32) -> LineTurn {
        let _ = number;
        LineTurn::Lost
    }

    /// A call by lines goes on without them.
    fn give_way(&self, number: u32) {
        let _ = number;
    }

    /// How often a call looks at lines before it lets others go on.
    fn looks(&self) -> u32 {
        1
    }

    /// Gives the processor to another rank, if this one has to wait and there are more ranks than
    /// processors. Returns whether it did.
    fn make_way(&self) -> bool {
        false
    }

    /// Whether it is measured which way long data go. All ranks say the same.
    fn learns(&self) -> bool {
        false
    }

    /// The way that this rank chooses for a call of so many bytes, and tells the others.
    fn choose_long(&self, operation: LongOperation, bytes: usize) -> Option<LongCall> {
        let _ = (operation, bytes);
        None
    }

    /// A call is over, whose way this rank has chosen.
    fn note_long(&self, call: LongCall) {
        let _ = call;
    }

    /// A way as a byte that is told, and back.
    fn told_way(way: LongWay) -> Self::Byte {
        let _ = way;
        Self::Byte::default()
    }

    /// The way that a byte tells.
    fn way_told(byte: Self::Byte) -> LongWay {
        let _ = byte;
        LongWay::Lines
    }

    /// The longest contribution, bytes.
    fn most_on_lines(&self) -> usize {
        0
    }

    /// Enters the next round with a word and bytes that all mates can read: these pieces, one after
    /// the other. `false`: they have not read earlier ones yet.
    fn contribute(&self, word: u64, pieces: &[&[Self::Byte]]) -> Result<bool, Self::Error> {
        let _ = (word, pieces);
        Err(Self::unsupported("share lines"))
    }

    /// When all mates have contributed to this round: whether the others gave `word`.
    fn all_contributed(&self, word: u64) -> Result<Option<bool>, Self::Error> {
        let _ = word;
        Err(Self::unsupported("share lines"))
    }

    /// The word that the mate at `place` has contributed to this round, and of its bytes those from
    /// `from` on, as many as there are and `into` has room for. `None`: nothing yet.
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

    /// Where mates may copy these bytes from, as they stay until all have said that they have.
    /// All zeros: nowhere. In a call that has the lines.
    fn expose(&self, bytes: &[Self::Byte]) -> [Self::Byte; ADDRESS] {
        let _ = bytes;
        [Self::Byte::default(); ADDRESS]
    }

    /// Who can copy from an address that [`Group::expose`] gave at another rank; `None`: nobody.
    fn reach(address: &[Self::Byte; ADDRESS]) -> Option<CopyReach> {
        let _ = address;
        None
    }

    /// Copies what the mate at `place` has exposed, from byte `from` on. `false`: that is refused,
    /// and a part may have been copied.
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

    /// The system has refused a rank a copy: [`Group::expose`] gives no such address any more.
    fn note_refusal(&self) {}

    /// The error of a facility that is not there.
    fn unsupported(what: &'static str) -> Self::Error;

    /// The rank whose end this error tells of, if it is that.
    fn gone(error: &Self::Error) -> Option<u32> {
        let _ = error;
        None
    }

    /// Says how this rank's part in an operation has ended: called once for each [`Group::open`].
    /// If the other ranks are to be told, they are from here on, without waiting. The default tells
    /// nobody: for groups in which nothing can go wrong.
    fn close(&self, number: u32, ending: OperationEnding) {
        let _ = (number, ending);
    }

    /// What has come that says that an operation cannot succeed. Asked whenever the operation
    /// waits, so it must be cheap.
    fn notice(&self, number: u32) -> Option<Notice> {
        let _ = number;
        None
    }

    /// Asks other ranks, now and then, whether they have made the same call, whose messages have
    /// this tag. Called whenever the operation waits, so it must be cheap. Returns why it cannot
    /// succeed, if that is known without an answer. The default asks nobody: for groups in which
    /// all ranks call the same.
    fn ask(&self, number: u32, tag: i32, made: Made, asked: &Cell<Asked>) -> Option<Notice> {
        let _ = (number, tag, made, asked);
        None
    }

    /// Whether an operation that is done here must not end yet: one before it may have been another
    /// rank's other call, and what [`Group::notice`] and [`Group::ask`] say of it is this one's.
    fn is_in_doubt(&self, number: u32) -> bool {
        let _ = number;
        false
    }

    /// How many operations have said what they wait for; `None`: nobody asks now.
    fn reported_waits(&self) -> Option<u32> {
        None
    }

    /// Says that a collective waits, of which those are parts that have said what they wait for
    /// since there were `before`.
    fn report_operation(&self, before: u32, operation: &'static str, root: Option<u32>) {
        let _ = (before, operation, root);
    }
}

/// A group of the port for calls that name one of its facilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// There is none: some ranks share no memory with others.
    Absent,
    /// A call has failed on it: the table decides.
    Lost,
    /// It is there for the next call, once all ranks have agreed on it.
    There,
}

/// What ranks agree on a channel for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChannelUse {
    /// The lines of the ranks of each node.
    Lines,
    /// The group of all ranks.
    Network,
}

/// What a group has besides messages, as paper 003's interface has it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facilities {
    /// A counter in each rank that all can add to ([`Group::add`]).
    pub counter: bool,
    /// One command that adds to all of them ([`Group::add_to_all`]).
    pub multicast_counter: bool,
    /// One command that sends a message to all ([`Group::multicast`]).
    pub multicast: bool,
    /// A barrier done by the network ([`Group::sync`]).
    pub sync: bool,
    /// Lines that ranks of a node share, for the next call ([`Group::contribute`]). Perhaps they
    /// are still to be agreed on ([`Group::offer`]), and there are none.
    pub lines: bool,
}

/// Bytes of an address that one rank gives to others.
pub const ADDRESS: usize = 16;

/// Who copies out of another rank's memory. The later ones include those before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CopyReach {
    /// The program, out of memory that ranks share.
    Region,
    /// The kernel, out of any memory.
    Process,
}

impl CopyReach {
    /// The address of memory at this offset, in bytes: who can copy it, 1 or 2, and the offset.
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

    /// The reverse; `None`: nobody can.
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
    /// It failed here: all other ranks must be told.
    Failed(Cause),
    /// It failed because another rank told of its failure.
    Told,
    /// It failed at every rank in the same way, and every rank knows.
    Known,
}

/// Why an operation cannot succeed, as another rank says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Notice {
    /// The rank.
    pub rank: u32,
    /// What it says.
    pub cause: Cause,
}

/// Three factors of `size`, the largest as small as can be, in falling order: what
/// [`Group::shape`] is where nothing is known of the network.
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
