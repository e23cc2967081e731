//! Long messages that the receiver fetches from the sender's memory: the sender copies nothing.
//!
//! ```text
//!   sender            receiver
//!   lends ── RTS ──►  Fetch ──► requests some pieces ─────► arrived ────► parts of a message
//!     ▲                           ▲                                            │
//!     │                           '──── the engine has copied a piece out ◄────'
//!     '───── FIN ───── all parts
//! ```
//!
//! Pieces are read into registered memory of the receiver and copied out of it. So no provider has
//! a program's buffer when a peer dies: a piece in flight then keeps its room for good. A fetch
//! uses the room of a few pieces, for any length of message. There are as many fetches at a time as
//! there are rooms; further messages stream.

use std::collections::BTreeMap;

use hikyaku_nic::fabric::{Event, Landed, Landing, LentAddress, Rank, RingSlice};
use hikyaku_nic::time::Time;
use hikyaku_ofi::link::Links;
use hikyaku_ofi::{LentMemory, PostResult, Region, Remote};

use super::Far;

/// Bytes of the room of a fetch, and the maximum number of pieces.
const ROOM: usize = 1 << 20;
const PIECES: usize = ROOM / ONE_WAY.length;

/// The division of a message: bytes of a piece, and the number of pieces in flight at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cut {
    length: usize,
    most: usize,
}

/// For one direction. Two pieces of 256 KiB in flight took 0.83 of its time for 1 to 4 MiB, but
/// twice as long in a quarter of all starts.
const ONE_WAY: Cut = Cut { length: 128 << 10, most: 8 };

/// For a message of one piece, and for one that is fetched while this rank lends memory itself, as
/// both ranks of an exchange do.
///
/// A provider on sockets answers a request before this rank's program learns of anything that
/// arrived with it, and the program's next request is sent behind that answer. So one rank sends
/// all its data in flight while the other has nothing to send, and then the reverse: an alltoall of
/// 512 KiB took as long as the two directions one after the other. Smaller requests overlap more:
/// alltoall of 512 KiB and 1 MiB took 0.82 and 0.67 of the time with eight of 128 KiB, and with two
/// of 256 KiB 1.8 and 1.7. Shorter pieces cost more than they gain. (Two hosts of a rank each,
/// libfabric 1.17, net, over veth, medians of seven alternating runs.)
const EXCHANGED: Cut = Cut { length: 256 << 10, most: 1 };

/// The shortest piece. A provider copies shorter messages into its own memory.
const LEAST: u64 = 16 << 10;

/// The minimum length of a lent message.
const LEND_FROM: usize = 64 << 10;

/// The maximum number of fetches at a time.
const FETCHES: usize = 16;

/// The bytes of all rooms.
pub(super) const MOST_BYTES: usize = FETCHES * ROOM;

/// How long a waiting rank polls often for a piece, or for a peer that reads lent memory: a
/// provider that makes progress only in calls gives no other sign. Later it sleeps longer, and the
/// provider's descriptor wakes it.
const BUSY: Time = Time::from_nanoseconds(10_000_000);

/// The memory that this rank lends, and its fetches from others.
#[derive(Default)]
pub(super) struct Lending {
    lent: BTreeMap<u64, LentMemory>,
    fetches: Vec<Fetch>,
    /// The time until which this rank polls often while it waits for a piece, or for a peer that
    /// reads lent memory.
    busy_until: Time,
    /// Sources of which a piece cannot be fetched.
    broken: Vec<(Rank, i32)>,
}

/// The room of a fetch, and its current fetch.
struct Fetch {
    /// `None`: a source died while a piece was in flight.
    region: Option<Region>,
    /// Numbers the fetches that have used this room.
    number: u16,
    /// `None`: the room is free.
    of: Option<FetchedMessage>,
    /// The division of the room into pieces.
    cut: Cut,
    pieces: [Piece; PIECES],
}

/// A message being fetched.
struct FetchedMessage {
    from: Rank,
    /// Its address at the sender's provider.
    lent: LentAddress,
    length: u64,
    /// The protocol and header of its parts.
    told: (u8, u64),
    /// Requested bytes, and bytes that have become parts; each with the number of pieces.
    asked: (u64, usize),
    landed: (u64, usize),
}

impl FetchedMessage {
    /// The length of the next piece to request. `None`: no request before a piece has arrived.
    fn next_length(&self, cut: Cut) -> Option<u64> {
        let left = self.length - self.asked.0;
        let may_ask = left > 0 && self.asked.1 - self.landed.1 < cut.most;
        // No piece is too short.
        let (piece, last) = (cut.length as u64, cut.length as u64 + LEAST);
        may_ask.then_some(if left > piece && left < last { piece - LEAST } else { left.min(piece) })
    }
}

/// The division of a message of `length` bytes. `lends`: this rank lends memory.
fn cut_of(length: u64, lends: bool) -> Cut {
    if lends || length <= EXCHANGED.length as u64 { EXCHANGED } else { ONE_WAY }
}

#[derive(Clone, Copy, Default, PartialEq)]
enum Piece {
    #[default]
    Free,
    Asked(u32),
    There(u32),
    /// The engine uses it.
    Landed,
}

impl Fetch {
    /// Whether another message can use the room.
    fn is_free(&self) -> bool {
        self.of.is_none() && self.pieces.iter().all(|piece| *piece == Piece::Free)
    }

    /// Ends a fetch. A piece in flight keeps its memory.
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

/// The number of a piece, made of the room of its fetch and its index there.
fn place_of(room: usize, piece: usize) -> u64 {
    (room * PIECES + piece) as u64
}

/// The room and the index of a piece.
fn piece_at(place: u64) -> (usize, usize) {
    (place as usize / PIECES, place as usize % PIECES)
}

fn token(room: usize, number: u16, piece: usize) -> u32 {
    u32::from(number) << 16 | place_of(room, piece) as u32
}

impl Lending {
    /// Begins a fetch. `false`: the message is too short, or there is no room.
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

    /// Requests pieces for which there is room.
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

    /// Handles a piece that has arrived or failed; pieces that can be delivered become events.
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

    /// Ends all fetches from a rank that is gone.
    pub(super) fn end(&mut self, rank: Rank) {
        let is_of = |fetch: &&mut Fetch| fetch.of.as_ref().is_some_and(|it| it.from == rank);
        self.fetches.iter_mut().filter(is_of).for_each(Fetch::end);
    }

    /// A source of which a piece cannot be fetched, and libfabric's error number.
    pub(super) fn take_broken(&mut self) -> Option<(Rank, i32)> {
        self.broken.pop()
    }

    /// Whether pieces may be in flight, or lent memory being read.
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
            // If memory for the copy is lacking, a piece in flight fails at the peer.
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

    /// Copies bytes of a piece that has arrived.
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

    /// Releases the room of a piece.
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

    /// A message of which nothing has arrived.
    fn message(length: u64) -> FetchedMessage {
        let lent = LentAddress { address: 0, key: 0 };
        FetchedMessage { from: 1, lent, length, told: (0, 0), asked: (0, 0), landed: (0, 0) }
    }

    /// Requests all pieces that may be in flight, and returns their lengths.
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
