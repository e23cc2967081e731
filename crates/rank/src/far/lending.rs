//! Long messages whose receiver fetches them out of the sender's memory: the sender copies nothing.
//!
//! ```text
//!   sender            receiver
//!   lends ── RTS ──►  Fetch ──► pieces asked for, a few at a time ──► there ──► parts of a message
//!     ▲                           ▲                                            │
//!     │                           '──── the engine has copied a piece out ◄────'
//!     '───── FIN ───── all parts
//! ```
//!
//! Pieces are read into registered memory of this side and copied out of it. So no buffer of a
//! program is in a provider's hands when a peer dies: a piece under way then keeps its room for
//! good. A fetch takes the room of a few pieces, whatever the message's length. There are as many
//! fetches at once as there are rooms; further messages stream.

use std::collections::BTreeMap;

use hikyaku_nic::fabric::{Event, Landed, Landing, LentAddress, Rank, RingSlice};
use hikyaku_nic::time::Time;
use hikyaku_ofi::link::Links;
use hikyaku_ofi::{LentMemory, PostResult, Region, Remote};

use super::Far;

/// Bytes that a fetch has room for, and how many pieces there are at most.
const ROOM: usize = 1 << 20;
const PIECES: usize = ROOM / ONE_WAY.length;

/// How a message is cut: bytes of a piece, and how many are under way at once.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cut {
    length: usize,
    most: usize,
}

/// One way. Two pieces of 256 KiB under way took 0.83 of that for 1 to 4 MiB, but twice as long in
/// a quarter of all starts.
const ONE_WAY: Cut = Cut { length: 128 << 10, most: 8 };

/// A message of one piece, and one that is fetched while this rank lends memory itself, as both do
/// in an exchange.
///
/// A provider of sockets answers what it is asked before this rank's program learns of anything
/// that came with it, and what the program asks for then is sent behind the answer. So one rank
/// sends all that is under way while the other has nothing to send, and then the other way round:
/// an alltoall of 512 KiB took as long as one after the other. The less is asked for at once, the
/// more they overlap: alltoall of 512 KiB and 1 MiB took 0.82 and 0.67 of what it took with eight
/// of 128 KiB, and with two of 256 KiB 1.8 and 1.7. Shorter pieces cost more than they gain. (Two
/// hosts of a rank each, libfabric 1.17, net, over veth, medians of seven runs by turns.)
const EXCHANGED: Cut = Cut { length: 256 << 10, most: 1 };

/// The shortest piece. A provider copies shorter messages into memory of its own.
const LEAST: u64 = 16 << 10;

/// From how many bytes on a message is lent.
const LEND_FROM: usize = 64 << 10;

/// Fetches at once.
const FETCHES: usize = 16;

/// Bytes of all rooms.
pub(super) const MOST_BYTES: usize = FETCHES * ROOM;

/// How long a rank that waits polls often for a peer that reads what it lends, or for a piece:
/// a provider that makes progress in calls alone gives no other sign. Later it sleeps longer, and
/// the provider's descriptor wakes it.
const BUSY: Time = Time::from_nanoseconds(10_000_000);

/// What this rank lends, and what it fetches from others.
#[derive(Default)]
pub(super) struct Lending {
    lent: BTreeMap<u64, LentMemory>,
    fetches: Vec<Fetch>,
    /// Until when this rank polls often while it waits, for a peer that reads what it lends or for
    /// a piece.
    busy_until: Time,
    /// Sources of which a piece cannot be had.
    broken: Vec<(Rank, i32)>,
}

/// The room for a fetch, and the fetch that has it.
struct Fetch {
    /// `None`: a source died while a piece was under way.
    region: Option<Region>,
    /// Which fetch it is of those that have had this room.
    number: u16,
    /// `None`: nobody has it.
    of: Option<FetchedMessage>,
    /// How the room is cut into pieces.
    cut: Cut,
    pieces: [Piece; PIECES],
}

/// A message that is fetched.
struct FetchedMessage {
    from: Rank,
    /// Where its provider has it.
    lent: LentAddress,
    length: u64,
    /// The protocol and header of its parts.
    told: (u8, u64),
    /// Bytes asked for, and bytes that have become parts; pieces of both.
    asked: (u64, usize),
    landed: (u64, usize),
}

impl FetchedMessage {
    /// The length of the next piece to ask for. `None`: none until one has come.
    fn next_length(&self, cut: Cut) -> Option<u64> {
        let left = self.length - self.asked.0;
        let may_ask = left > 0 && self.asked.1 - self.landed.1 < cut.most;
        // None is too short.
        let (piece, last) = (cut.length as u64, cut.length as u64 + LEAST);
        may_ask.then_some(if left > piece && left < last { piece - LEAST } else { left.min(piece) })
    }
}

/// How a message of so many bytes is cut, by whether this rank lends memory.
fn cut_of(length: u64, lends: bool) -> Cut {
    if lends || length <= EXCHANGED.length as u64 { EXCHANGED } else { ONE_WAY }
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Piece {
    #[default]
    Free,
    Asked(u32),
    There(u32),
    /// The engine has it.
    Landed,
}

impl Fetch {
    /// Whether another message can have the room.
    fn is_free(&self) -> bool {
        self.of.is_none() && self.pieces.iter().all(|piece| *piece == Piece::Free)
    }

    /// Ends a fetch. What is under way keeps its memory.
    fn end(&mut self) {
        self.of = None;
        for piece in &mut self.pieces {
            match piece {
                Piece::Asked(_) => {
                    self.region = None;
                    *piece = Piece::Free;
                }
                Piece::There(_) => *piece = Piece::Free,
                Piece::Free | Piece::Landed => {}
            }
        }
        self.number = self.number.wrapping_add(1);
    }
}

/// The place of a piece: the room of its fetch, and which of that.
fn place_of(room: usize, piece: usize) -> u64 {
    (room * PIECES + piece) as u64
}

/// The room and the piece at a place.
fn piece_at(place: u64) -> (usize, usize) {
    (place as usize / PIECES, place as usize % PIECES)
}

fn token(room: usize, number: u16, piece: usize) -> u32 {
    u32::from(number) << 16 | place_of(room, piece) as u32
}

impl Lending {
    /// Begins a fetch. `false`: it is too short, or there is no room.
    fn begin(
        &mut self,
        links: &Links,
        (from, lent): (Rank, LentAddress),
        length: u64,
        told: (u8, u64),
    ) -> bool {
        if length < LEAST {
            return false;
        }
        let room = match self.fetches.iter().position(Fetch::is_free) {
            Some(room) => room,
            None if self.fetches.len() == FETCHES => return false,
            None => {
                let (cut, pieces) = (ONE_WAY, [Piece::Free; PIECES]);
                self.fetches.push(Fetch { region: None, number: 0, of: None, cut, pieces });
                self.fetches.len() - 1
            }
        };
        let fetch = &mut self.fetches[room];
        if fetch.region.is_none() {
            fetch.region = links.region(ROOM).ok();
        }
        if fetch.region.is_none() {
            return false;
        }
        fetch.cut = cut_of(length, !self.lent.is_empty());
        fetch.of = Some(FetchedMessage { from, lent, length, told, asked: (0, 0), landed: (0, 0) });
        true
    }

    /// Asks for pieces that there is room for.
    pub(super) fn ask(&mut self, links: &mut Links) {
        for (room, fetch) in self.fetches.iter_mut().enumerate() {
            let (Some(message), Some(region)) = (&mut fetch.of, &fetch.region) else { continue };
            while let Some(length) = message.next_length(fetch.cut) {
                let (done, count) = message.asked;
                let piece = count % (ROOM / fetch.cut.length);
                if fetch.pieces[piece] != Piece::Free {
                    break;
                }
                let into = (region, piece * fetch.cut.length, length as usize);
                let token = token(room, fetch.number, piece);
                let LentAddress { address, key } = message.lent;
                let remote = Remote { address: address.wrapping_add(done), key };
                match links.fetch(message.from, remote, into, token) {
                    Ok(PostResult::Accepted) => {}
                    Ok(PostResult::Full) => break,
                    Err(error) => {
                        self.broken.push((message.from, error.code().unwrap_or_default()));
                        break;
                    }
                }
                fetch.pieces[piece] = Piece::Asked(length as u32);
                message.asked = (done + length, count + 1);
            }
        }
    }

    /// A piece is there, or cannot be had; what can land becomes events.
    pub(super) fn take_in(
        &mut self,
        now: Time,
        (token, error): (u32, Option<i32>),
        mut event: impl FnMut(Event),
    ) {
        self.busy_until = now + BUSY;
        let (room, piece) = piece_at(u64::from(token & 0xffff));
        let Some(fetch) = self.fetches.get_mut(room) else { return };
        let Some(message) = &mut fetch.of else { return };
        let Piece::Asked(length) = fetch.pieces[piece] else { return };
        // A piece of an earlier message, whose source has died, is dropped.
        if u32::from(fetch.number) != token >> 16 {
            return;
        }
        if let Some(code) = error {
            self.broken.push((message.from, code));
            return;
        }
        fetch.pieces[piece] = Piece::There(length);
        while let (offset, count) = message.landed
            && let place = count % (ROOM / fetch.cut.length)
            && let Piece::There(length) = fetch.pieces[place]
        {
            fetch.pieces[place] = Piece::Landed;
            message.landed = (offset + u64::from(length), count + 1);
            let ((protocol, header), total) = (message.told, message.length);
            let slice = RingSlice::beside(place_of(room, place), length);
            let (source, data) = (message.from, Landing::Ring(slice));
            event(Event::Landed(Landed { source, protocol, header, total, offset, data }));
        }
        if message.landed.0 == message.length {
            fetch.end();
        }
    }

    /// A rank is gone: nothing more is fetched of it.
    pub(super) fn end(&mut self, rank: Rank) {
        let is_of = |fetch: &&mut Fetch| fetch.of.as_ref().is_some_and(|it| it.from == rank);
        self.fetches.iter_mut().filter(is_of).for_each(Fetch::end);
    }

    /// A source of which a piece cannot be had, and libfabric's error number.
    pub(super) fn take_broken(&mut self) -> Option<(Rank, i32)> {
        self.broken.pop()
    }

    /// Whether pieces are under way, or may be read here.
    pub(super) fn is_busy(&self, now: Time) -> bool {
        now < self.busy_until
            && (!self.lent.is_empty() || self.fetches.iter().any(|fetch| fetch.of.is_some()))
    }
}

impl Far {
    /// [`CopyPort::lend`](hikyaku_nic::fabric::CopyPort::lend).
    pub(crate) fn lend(&mut self, now: Time, name: u64, bytes: &[u8]) -> Option<LentAddress> {
        if bytes.len() < LEND_FROM || !self.links.lends() {
            return None;
        }
        self.state.lending.busy_until = now + BUSY;
        let lent = self.links.lend(name, bytes).ok()?;
        let Remote { address, key } = lent.remote();
        let is_new = self.state.lending.lent.insert(name, lent).is_none();
        is_new.then_some(LentAddress { address, key })
    }

    /// [`CopyPort::take_back`](hikyaku_nic::fabric::CopyPort::take_back).
    pub(crate) fn take_back(&mut self, name: u64) {
        self.state.lending.lent.remove(&name);
    }

    /// [`CopyPort::replace_lent`](hikyaku_nic::fabric::CopyPort::replace_lent).
    pub(crate) fn replace_lent(&mut self, now: Time, name: u64, copy: &[u8]) -> bool {
        let can = self.links.replaces_lent();
        if can {
            self.take_back(name);
            // Without memory for it, a piece under way fails at the peer.
            self.lend(now, name, copy);
        }
        can
    }

    /// [`CopyPort::fetch_lent`](hikyaku_nic::fabric::CopyPort::fetch_lent).
    pub(crate) fn fetch_lent(
        &mut self,
        now: Time,
        (from, lent): (Rank, LentAddress),
        length: u64,
        told: (u8, u64),
    ) -> bool {
        let is_there = self.links.is_connected(from) && !self.state.peers.is_gone(from);
        let begun = is_there && self.state.lending.begin(&self.links, (from, lent), length, told);
        if begun {
            self.state.lending.busy_until = now + BUSY;
            self.state.lending.ask(&mut self.links);
        }
        begun
    }

    /// Copies bytes of a piece that has landed.
    pub(crate) fn copy_piece(
        &self,
        place: u64,
        (offset, length): (usize, usize),
        into: &mut [u8],
    ) -> usize {
        let (room, piece) = piece_at(place);
        let Some(fetch) = self.state.lending.fetches.get(room) else { return 0 };
        let Some(region) = &fetch.region else { return 0 };
        let count = into.len().min(length.saturating_sub(offset));
        region.copy_out(piece * fetch.cut.length + offset, &mut into[..count]);
        count
    }

    /// The room of a piece is free again.
    pub(crate) fn release_piece(&mut self, place: u64) {
        let (room, piece) = piece_at(place);
        if let Some(fetch) = self.state.lending.fetches.get_mut(room) {
            fetch.pieces[piece] = Piece::Free;
            self.state.lending.ask(&mut self.links);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message of which nothing has come.
    fn message(length: u64) -> FetchedMessage {
        let lent = LentAddress { address: 0, key: 0 };
        FetchedMessage { from: 1, lent, length, told: (0, 0), asked: (0, 0), landed: (0, 0) }
    }

    /// Asks for all pieces that may be under way: how long they are.
    fn ask(message: &mut FetchedMessage, cut: Cut) -> Vec<u64> {
        let next = || {
            let length = message.next_length(cut)?;
            message.asked = (message.asked.0 + length, message.asked.1 + 1);
            Some(length)
        };
        std::iter::from_fn(next).collect()
    }

    #[test]
    fn pieces_cover_a_message_and_none_is_short() {
        let piece = ONE_WAY.length as u64;
        for (length, pieces) in [
            (LEAST, vec![LEAST]),
            (2 * piece, vec![2 * piece]),
            (2 * piece + 1, vec![piece, piece - LEAST, LEAST + 1]),
            (2 * piece + LEAST, vec![piece, piece, LEAST]),
        ] {
            assert_eq!(ask(&mut message(length), cut_of(length, false)), pieces, "{length}");
        }
    }

    #[test]
    fn ranks_that_exchange_ask_for_a_piece_at_a_time() {
        let (piece, length) = (EXCHANGED.length as u64, 6 * EXCHANGED.length as u64);
        let mut message = message(length);
        let cut = cut_of(length, true);
        assert_eq!(ask(&mut message, cut), [piece]);
        assert!(ask(&mut message, cut).is_empty());
        message.landed = (piece, 1);
        assert_eq!(ask(&mut message, cut), [piece]);
        let mut alone = self::message(length);
        assert_eq!(ask(&mut alone, cut_of(length, false)), [piece / 2; 8]);
    }
}
