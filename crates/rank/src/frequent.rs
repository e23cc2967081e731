//! Gives frequent sources landing and status rings of their own, without the program's help (paper
//! 000 §4: memory follows partners, not ranks).
//!
//! Where sources start in shared rings, a rank has private rings of either kind to give away. It
//! detects frequent sources without counting messages itself: it renews the credit of a source
//! after some of its messages have been received, and each grant is a count of them.
//!
//! ```text
//!   64 messages of a source, or more, ...
//!     among 32 times as many of all, with 32 packets or more from shared rings:
//!       a ring is free ───────────────────────────────────────────────► gets it
//!       an owner has not sent 64 while 4,096 of all arrived: of these
//!       the one checked longest ago ──► shares again, and its ring ───► gets it
//! ```
//!
//! So a source that sends one in 32 messages is frequent. It keeps its ring until it sends less
//! than one in 64 and another source is frequent. If there are more frequent sources than rings,
//! the first ones keep theirs, so that no ring moves back and forth. Messages are counted and no
//! clock is read: in virtual time the same run moves the same sources. `nic`'s `hosted/route.rs`
//! describes how a ring changes its owner with messages in flight.
//!
//! Status rings follow the same rules, except the one about packets: each message has a record. An
//! owner releases its ring at its next poll; the ring then goes to the next frequent source
//! (`hosted/follow.rs`).

use std::collections::BTreeMap;
use std::fmt;

use hikyaku_nic::fabric::{Rank, RingId, RingPort};
use hikyaku_nic::hosted::{Host, HostedPort};
use hikyaku_nic::segment::SegmentLayout;

/// The number of messages of a source after which it is checked.
const MESSAGES: u64 = 64;

/// A source is frequent if it sends at least one in this many messages.
const FREQUENT: u64 = 32;

/// The owner of a ring is quiet if this many messages have arrived since it was last checked.
const QUIET: u64 = 64 * MESSAGES;

/// The number of packets in shared rings between two checks from which on a ring is useful: a
/// message of up to 40 bytes takes no room in a ring.
const PACKETS: u32 = 32;

/// The numbers of rings that ranks have given to frequent sources automatically.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingMoves {
    /// Landing rings given.
    pub given: u64,
    /// How many of them were taken from another source, which shares again.
    pub taken_back: u64,
    /// Status rings given.
    pub status_given: u64,
    /// Sources that were asked to share again for them.
    pub status_taken_back: u64,
}

impl RingMoves {
    /// The number of words of its encoding.
    pub const WORDS: usize = 4;

    /// Encodes the counts, which may be added to those of another rank.
    pub fn words(self) -> [u64; RingMoves::WORDS] {
        [self.given, self.taken_back, self.status_given, self.status_taken_back]
    }

    /// Decodes [`RingMoves::words`]. Missing words are zeros.
    pub fn of_words(words: &[u64]) -> RingMoves {
        let word = |at: usize| words.get(at).copied().unwrap_or(0);
        RingMoves {
            given: word(0),
            taken_back: word(1),
            status_given: word(2),
            status_taken_back: word(3),
        }
    }
}

impl fmt::Display for RingMoves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RingMoves { given, taken_back, status_given, status_taken_back } = self;
        write!(
            f,
            "landing rings: {given} given to frequent senders, {taken_back} of them another's; \
             status rings: {status_given}, {status_taken_back}"
        )
    }
}

/// The frequent sources, and the rings that the library has given.
#[derive(Debug)]
pub(crate) struct FrequentSources {
    /// Rings in which sources start: source `s` in ring `s % shared`. The others can be given away.
    shared: RingId,
    /// The source of each other ring, if the library has given it.
    owners: Vec<Option<Rank>>,
    /// The initial credit of each source.
    credit: u64,
    /// Messages of all sources, as counted by renewals of their credit.
    messages: u64,
    /// The state of each source whose credit was renewed.
    known: BTreeMap<Rank, Known>,
    moves: RingMoves,
    /// The program directs rings itself: the library changes none any more.
    ended: bool,
}

/// The counts of a source since it was last checked.
#[derive(Debug, Clone, Copy, Default)]
struct Known {
    /// The number of messages that it may send in total.
    granted: u64,
    /// Messages of all sources at that time.
    since: u64,
    /// Its own since then.
    messages: u64,
    /// Its packets in shared rings since then.
    packets: u32,
}

/// A ring for a source, possibly taken from a quiet one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Gift {
    ring: RingId,
    source: Rank,
    from: Option<Rank>,
}

impl FrequentSources {
    /// For a rank with this many shared landing rings, and this many others.
    fn new(shared: RingId, spare: RingId, credit: u32) -> FrequentSources {
        FrequentSources {
            shared,
            owners: vec![None; spare as usize],
            credit: credit.into(),
            messages: 0,
            known: BTreeMap::new(),
            moves: RingMoves::default(),
            ended: false,
        }
    }

    /// For a job with this layout, if it has shared rings and others to give away.
    pub(crate) fn of(layout: &SegmentLayout) -> Option<FrequentSources> {
        let shared = layout.shared_rings();
        let spare = if shared > 0 { layout.rings - shared } else { 0 };
        let has_spare = spare + layout.spare_status() > 0;
        has_spare.then(|| FrequentSources::new(shared, spare, layout.credit))
    }

    /// The number of rings given.
    pub(crate) fn moves(&self) -> RingMoves {
        self.moves
    }

    /// Records that a source may send `messages` messages in total. Gives it a ring if it is
    /// frequent.
    pub(crate) fn granted(
        &mut self,
        port: &mut HostedPort<impl Host>,
        source: Rank,
        messages: u64,
    ) {
        if self.ended {
            return;
        }
        let packets = port.take_from_shared(source);
        let Some(packets) = self.note(source, messages, packets) else { return };
        self.give_status(port, source);
        let Some(gift) = self.gift(source, packets) else { return };
        if let Some(owner) = gift.from
            && port.route(owner, Some(self.first_ring(owner))).is_err()
        {
            return;
        }
        match port.route(source, Some(gift.ring)) {
            Ok(()) => self.settle(gift),
            // Its owner is in a post right now, or the system makes no barrier: the ring goes back
            // to the owner, which is always possible.
            Err(_) => _ = gift.from.map(|owner| port.route(owner, Some(gift.ring))),
        }
    }

    /// The program directs this source, or a ring. From now on the library moves no source.
    pub(crate) fn leave_to_program(&mut self, source: Option<Rank>) {
        self.ended = true;
        if let Some(owner) = self.owners.iter_mut().find(|owner| **owner == source) {
            *owner = None;
        }
    }

    /// Puts a source with a private ring from the library on a shared one: the one checked longest
    /// ago. Returns whether there was one.
    pub(crate) fn take_one_back(&mut self, port: &mut HostedPort<impl Host>) -> bool {
        let Some(owner) = self.quietest(self.owners()) else { return false };
        self.leave_to_program(Some(owner));
        port.route(owner, Some(self.first_ring(owner))).is_ok()
    }

    fn first_ring(&self, source: Rank) -> RingId {
        source % self.shared
    }

    /// Gives a frequent source a status ring, unless it has one: a free one, or, when it is
    /// frequent again, that of a quiet source.
    fn give_status(&mut self, port: &mut HostedPort<impl Host>, source: Rank) {
        if !port.shares_status(source) {
            return;
        }
        if port.give_status(source) {
            self.moves.status_given += 1;
        } else if let Some(owner) =
            self.quietest(port.status_owners()).filter(|it| self.is_quiet(*it))
            && port.take_status(owner)
        {
            self.moves.status_taken_back += 1;
        }
    }

    /// Records the total number of messages that a source may send, and its packets in shared rings
    /// since the last call. Returns for a frequent source the number of packets since it was last
    /// checked.
    fn note(&mut self, source: Rank, granted: u64, packets: u32) -> Option<u32> {
        let is_new = !self.known.contains_key(&source);
        let known = self.known.entry(source).or_default();
        let before = if is_new { self.credit } else { known.granted };
        let messages = granted.saturating_sub(before);
        self.messages += messages;
        known.granted = granted.max(before);
        if is_new {
            // It is unknown for how long it has been sending.
            known.since = self.messages;
            return None;
        }
        known.messages += messages;
        known.packets = known.packets.saturating_add(packets);
        if known.messages < MESSAGES {
            return None;
        }
        let all = self.messages - known.since;
        let (is_frequent, packets) = (all <= FREQUENT * known.messages, known.packets);
        (known.since, known.messages, known.packets) = (self.messages, 0, 0);
        is_frequent.then_some(packets)
    }

    /// A landing ring for a frequent source with this many packets.
    fn gift(&self, source: Rank, packets: u32) -> Option<Gift> {
        if packets < PACKETS || self.owners.contains(&Some(source)) {
            return None;
        }
        let free = self.owners.iter().position(Option::is_none);
        if let Some(free) = free {
            return Some(Gift { ring: self.shared + free as RingId, source, from: None });
        }
        let owner = self.quietest(self.owners()).filter(|owner| self.is_quiet(*owner))?;
        let place = self.owners.iter().position(|other| *other == Some(owner))?;
        Some(Gift { ring: self.shared + place as RingId, source, from: Some(owner) })
    }

    /// Records that the source has the ring.
    fn settle(&mut self, gift: Gift) {
        self.owners[(gift.ring - self.shared) as usize] = Some(gift.source);
        self.moves.given += 1;
        self.moves.taken_back += u64::from(gift.from.is_some());
    }

    /// The sources with landing rings of their own.
    fn owners(&self) -> impl Iterator<Item = Rank> {
        self.owners.iter().flatten().copied()
    }

    fn quietest(&self, owners: impl Iterator<Item = Rank>) -> Option<Rank> {
        owners.min_by_key(|owner| (self.seen(*owner), *owner))
    }

    fn is_quiet(&self, owner: Rank) -> bool {
        self.messages - self.seen(owner) > QUIET
    }

    /// The number of all messages when a source was last checked.
    fn seen(&self, source: Rank) -> u64 {
        self.known.get(&source).map_or(0, |known| known.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDIT: u32 = 256;

    /// Two shared rings and two to give away.
    fn few() -> FrequentSources {
        FrequentSources::new(2, 2, CREDIT)
    }

    /// The landing ring given to a source that may send this many messages and has landed these
    /// packets.
    fn look(
        sources: &mut FrequentSources,
        source: Rank,
        granted: u64,
        packets: u32,
    ) -> Option<Gift> {
        let packets = sources.note(source, granted, packets)?;
        sources.gift(source, packets)
    }

    /// This many messages of a source, with as many packets in shared rings unless it has a ring.
    fn take(sources: &mut FrequentSources, source: Rank, messages: u64) -> Option<Gift> {
        let known = sources.known.get(&source);
        let granted = known.map_or(CREDIT.into(), |known| known.granted) + messages;
        let shares = !sources.owners.contains(&Some(source));
        let gift = look(sources, source, granted, if shares { messages as u32 } else { 0 });
        gift.inspect(|gift| sources.settle(*gift))
    }

    /// Enough messages of each of these sources for a check. Returns all gifts.
    fn grants(sources: &mut FrequentSources, of: impl IntoIterator<Item = Rank>) -> Vec<Gift> {
        of.into_iter().filter_map(|source| take(sources, source, MESSAGES)).collect()
    }

    const fn gift(ring: RingId, source: Rank, from: Option<Rank>) -> Gift {
        Gift { ring, source, from }
    }

    #[test]
    fn ip_13_one_in_so_many_messages_is_frequent() {
        // Source 9 has one in `every` grants; the others are rare.
        for (every, given) in [(2, true), (FREQUENT, true), (FREQUENT + 1, false)] {
            let mut sources = few();
            let order = (0..3 * every).map(|at| if at % every == 0 { 9 } else { 100 + at as Rank });
            let gifts = grants(&mut sources, order);
            assert_eq!(gifts, [gift(2, 9, None)][..usize::from(given)], "{every}");
        }
    }

    #[test]
    fn ip_13_short_messages_need_no_ring() {
        let mut sources = few();
        let mut come = |grant: u64, packets| look(&mut sources, 9, 256 + MESSAGES * grant, packets);
        assert!((1..100).all(|grant| come(grant, PACKETS - 1).is_none()));
        assert_eq!(come(100, PACKETS), Some(gift(2, 9, None)));
    }

    /// While a source is held up its credit is renewed message by message.
    #[test]
    fn ip_13_messages_are_counted_and_not_how_often_credit_is_renewed() {
        let mut sources = few();
        let gifts: Vec<u64> = (0..200).filter(|_| take(&mut sources, 9, 1).is_some()).collect();
        assert_eq!(gifts, [MESSAGES], "after the first one");
        let mut sources = few();
        // One in 40 messages is not frequent, however the grants are divided.
        for _ in 0..200 {
            assert_eq!(take(&mut sources, 9, 1), None);
            assert_eq!(take(&mut sources, 9, 1), None);
            (0..78).for_each(|other| _ = take(&mut sources, 100 + other, 1));
        }
    }

    #[test]
    fn ip_13_of_more_frequent_sources_than_rings_the_first_keep_theirs() {
        let mut sources = few();
        let gifts = grants(&mut sources, (0..1000).map(|at| at % 30));
        assert_eq!(gifts, [gift(2, 0, None), gift(3, 1, None)]);
        let moves = RingMoves { given: 2, ..RingMoves::default() };
        assert_eq!(sources.moves(), moves);
    }

    #[test]
    fn ip_13_a_quiet_source_shares_again_when_another_is_frequent() {
        let mut sources = few();
        assert_eq!(grants(&mut sources, [5, 5, 7, 7]), [gift(2, 5, None), gift(3, 7, None)]);
        // Neither is quiet yet, and then both are: the one quiet for longest loses its ring.
        assert_eq!(grants(&mut sources, [8; (QUIET / MESSAGES) as usize - 2]), []);
        assert_eq!(grants(&mut sources, [8]), [gift(2, 8, Some(5))]);
        assert_eq!(grants(&mut sources, [5, 5]), [gift(3, 5, Some(7))], "and back");
        let moves = RingMoves { given: 4, taken_back: 2, ..RingMoves::default() };
        assert_eq!(sources.moves(), moves);
    }

    #[test]
    fn ip_13_what_the_program_directs_is_not_the_librarys() {
        let mut sources = few();
        grants(&mut sources, [5, 5, 7, 7]);
        let quietest = |sources: &FrequentSources| sources.quietest(sources.owners());
        assert_eq!(quietest(&sources), Some(5));
        sources.leave_to_program(Some(5));
        assert_eq!((quietest(&sources), sources.ended), (Some(7), true));
    }

    #[test]
    fn counts_go_to_words_and_back() {
        let moves = RingMoves { given: 5, taken_back: 2, status_given: 7, status_taken_back: 1 };
        let said = "landing rings: 5 given to frequent senders, 2 of them another's; \
                    status rings: 7, 1";
        assert_eq!(moves.to_string(), said);
        assert_eq!(RingMoves::of_words(&moves.words()), moves);
        assert_eq!(RingMoves::of_words(&[]), RingMoves::default());
    }
}
