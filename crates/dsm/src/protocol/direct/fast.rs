//! The fast path: an unlocked variable whose words are near.
//!
//! One call performs the steps of [`Direct`] in line, so that the compiler can optimize across
//! them. It performs the same operations on the same words in the same order (a test below compares
//! them). Until it has changed something, it can fall back to a request on the slow path. After
//! that, the slow path continues from the same state with the same answer. Each step of the slow
//! path is one operation, so properties that hold for all interleavings of the slow path hold here
//! too.

use super::onward::Then;
use super::recover::TurnRecovery;
use super::{Direct, Pending};
use crate::geometry::Word;
use crate::protocol::{EntryResult, WordOp};
use crate::word::{AccessKind, Head, READING, RequestCell, RequestPhase, Version};

/// The result of acquiring on the fast path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Free {
    /// The variable has been acquired.
    Entered(EntryResult),
    /// The request has begun, and the slow path continues: pass this answer to
    /// [`Direct::next`].
    Begun(u64),
    /// Nothing has been changed. Request the variable.
    Not,
}

/// The result of releasing on the fast path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// No rank waits.
    Free,
    /// Wake this rank if it sleeps. If it is gone, pass the turn on: [`Direct::go_on`].
    Wake(u32),
    /// Pass the turn on: [`Direct::go_on`].
    Onward,
}

impl Direct {
    /// Enters if no rank holds the variable, and no rank waits for it ahead of this one. `access`
    /// performs an operation on a word, at home or of this node, and returns its old value. `gone`
    /// says whether a node is gone.
    #[inline(always)]
    pub fn enter_free(
        &mut self,
        kind: AccessKind,
        mut access: impl FnMut(Word, WordOp) -> u64,
        gone: impl FnOnce(u32) -> bool,
    ) -> Free {
        debug_assert_eq!(self.state, Pending::Idle, "one request at a time");
        let head = Head::of(access(Word::Head, WordOp::Load));
        if head.mark.is_some() && !self.recoverable {
            return Free::Not;
        }
        let words = 0..self.geometry.reader_words();
        let bits = words.fold(0, |bits, at| bits | access(Word::Readers(at), WordOp::Load));
        // Ranks that want to ask bar every rank from the fast path. Ranks that read bar writers.
        let barred = if kind == AccessKind::Write { bits } else { bits & !READING };
        let place = self.geometry.cell(head.position);
        let expected = access(place, WordOp::Load);
        if barred != 0 || RequestCell::of(expected).position >= head.position {
            return Free::Not;
        }
        let (position, rank) = (head.position, self.geometry.rank);
        let phase =
            if kind == AccessKind::Write { RequestPhase::Entered } else { RequestPhase::Waiting };
        let new = RequestCell { position, rank, kind, phase }.bits();
        if access(place, WordOp::CompareSwap { expected, new }) != expected {
            return Free::Not;
        }
        self.kind = kind;
        self.head = head;
        self.turn = position;
        self.claimed = true;
        self.moved = false;
        if !self.alone()
            && let Some(answer) = self.contents_at_hand(&mut access, gone)
        {
            return Free::Begun(answer);
        }
        if kind == AccessKind::Read
            && let Some(answer) = self.read_at_hand(&mut access)
        {
            return Free::Begun(answer);
        }
        self.state = Pending::Inside;
        Free::Entered(EntryResult { moved: false, mark: head.mark, position })
    }

    /// Enters if this node's copy is the newest and no node has to be notified of a write.
    /// Otherwise returns the answer with which the slow path continues.
    #[inline(always)]
    fn contents_at_hand(
        &mut self,
        mut access: impl FnMut(Word, WordOp) -> u64,
        gone: impl FnOnce(u32) -> bool,
    ) -> Option<u64> {
        let own = self.geometry.node();
        let found = access(Word::Latest, WordOp::Load);
        self.latest = Version::of(found);
        let elsewhere = self.latest.node != own;
        if elsewhere && gone(self.latest.node) {
            return self.goes_on(Pending::Latest, found);
        }
        let held = access(Word::Held(own), WordOp::Load);
        if Version::of(held).position != self.latest.position {
            return self.goes_on(Pending::Held, held);
        }
        if self.kind == AccessKind::Write {
            let before = access(Word::Held(own), WordOp::Swap(0));
            if elsewhere || self.latest.shared {
                return self.goes_on(Pending::Writing, before);
            }
        }
        None
    }

    /// Sets this rank's bit as a reader and passes the turn on. If another rank has asked for the
    /// turn, returns the answer with which the slow path continues.
    #[inline(always)]
    fn read_at_hand(&mut self, mut access: impl FnMut(Word, WordOp) -> u64) -> Option<u64> {
        let (at, bit) = self.geometry.reader_bit();
        access(Word::Readers(at), WordOp::Or(bit));
        self.mark = self.head.mark;
        self.head = self.head.next();
        access(Word::Head, WordOp::Swap(self.head.bits()));
        let next = access(self.geometry.cell(self.head.position), WordOp::Load);
        if RequestCell::of(next).position != self.head.position {
            return None;
        }
        self.then = Then::Enter;
        self.goes_on(Pending::Follower, next)
    }

    /// Sets the state in which the slow path continues.
    fn goes_on(&mut self, state: Pending, answer: u64) -> Option<u64> {
        self.patience = crate::protocol::Patience::Wait;
        self.recovery = TurnRecovery::NONE;
        self.courtesy.begin(self.kind);
        self.courtesy.end();
        self.state = state;
        Some(answer)
    }

    /// The word whose change a waiting request watches for, with its current value. Polling is
    /// useless until the word changes.
    #[inline]
    pub fn watches(&self) -> Option<(Word, u64)> {
        (self.state == Pending::Rest).then(|| (Word::Head, self.head.bits()))
    }

    /// Releases the variable, if its words are near.
    #[inline(always)]
    pub fn leave_free(&mut self, mut access: impl FnMut(Word, WordOp) -> u64) -> Left {
        debug_assert_eq!(self.state, Pending::Inside, "only a held variable is released");
        self.claimed = false;
        self.state = Pending::Idle;
        if self.kind == AccessKind::Read {
            let (at, bit) = self.geometry.reader_bit();
            let before = access(Word::Readers(at), WordOp::And(!bit));
            if before & READING & !bit != 0 {
                return Left::Free;
            }
            self.head = Head::of(access(Word::Head, WordOp::Load));
        } else {
            if !self.alone() {
                let node = self.geometry.node();
                let version = Version { position: self.turn, node, shared: false }.bits();
                access(Word::Held(node), WordOp::Swap(version));
                access(Word::Latest, WordOp::Swap(version));
            }
            self.head = Head { position: self.turn + 1, mark: None };
            access(Word::Head, WordOp::Swap(self.head.bits()));
        }
        let next = RequestCell::of(access(self.geometry.cell(self.head.position), WordOp::Load));
        match next.phase {
            _ if next.position != self.head.position => Left::Free,
            // There is no such rank: the cell was overwritten.
            RequestPhase::Waiting if next.rank >= self.geometry.ranks => Left::Free,
            RequestPhase::Waiting => Left::Wake(next.rank),
            RequestPhase::Gone | RequestPhase::Buried => Left::Onward,
            RequestPhase::Entered | RequestPhase::Kept => Left::Free,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::departed::Departed;
    use crate::geometry::{Geometry, WordPlace, initial_node};
    use crate::protocol::{Action, Patience};
    use crate::word::{INITIAL, Mark};

    /// Words at home and at two nodes, and the operations on them.
    #[derive(Debug, Clone, PartialEq)]
    struct WordsAtHand {
        geometry: Geometry,
        home: Vec<u64>,
        nodes: [[u64; 2]; 2],
        done: Vec<(Word, WordOp)>,
    }

    impl WordsAtHand {
        fn new(geometry: Geometry) -> WordsAtHand {
            let (home, nodes) = (geometry.initial_home(), [initial_node(); 2]);
            WordsAtHand { geometry, home, nodes, done: Vec::new() }
        }

        fn access(&mut self, word: Word, op: WordOp) -> u64 {
            self.done.push((word, op));
            let word = match self.geometry.place(word) {
                WordPlace::Home(at) => &mut self.home[at as usize],
                WordPlace::Node(node, at) => &mut self.nodes[node as usize][at as usize],
            };
            std::mem::replace(word, op.apply(*word))
        }
    }

    /// Drives the slow path to an end, beginning with this answer.
    fn long(
        protocol: &mut Direct,
        words: &mut WordsAtHand,
        mut answer: u64,
        departed: &Departed,
    ) -> (Action, Option<u32>) {
        let mut woken = None;
        loop {
            answer = match protocol.next(answer, departed) {
                Action::Access(word, op) => words.access(word, op),
                Action::Wake(rank) => {
                    woken = Some(rank);
                    0
                }
                Action::Copy { .. } => 0,
                end => return (end, woken),
            }
        }
    }

    /// A cell of another rank. This rank's cell is for the turn that it asks for.
    fn any_cell() -> impl Strategy<Value = u64> {
        (1..6u64, prop_oneof![Just(0), Just(2)], any::<bool>(), 0..4usize).prop_map(
            |(position, rank, write, phase)| {
                let kind = if write { AccessKind::Write } else { AccessKind::Read };
                let phases = [
                    RequestPhase::Waiting,
                    RequestPhase::Entered,
                    RequestPhase::Gone,
                    RequestPhase::Buried,
                ];
                RequestCell { position, rank, kind, phase: phases[phase] }.bits()
            },
        )
    }

    /// Versions of few turns, so that equal ones are frequent.
    fn any_version() -> impl Strategy<Value = u64> {
        (INITIAL..INITIAL + 2, 0..2u32, any::<bool>())
            .prop_map(|(position, node, shared)| Version { position, node, shared }.bits())
    }

    prop_compose! {
        fn any_words()(
            ranks_per_node in 2..4u32,
            position in 2..5u64,
            mark in prop::option::weighted(0.2, any::<bool>()),
            readers in prop_oneof![4 => Just(0u64), 1 => 1..8u64, 1 => Just(1 << 32)],
            cells in prop::collection::vec(any_cell(), 4),
            latest in any_version(),
            held in prop::array::uniform2(any_version()),
        ) -> WordsAtHand {
            let mut words = WordsAtHand::new(Geometry::new(3, ranks_per_node, 1));
            let mark = mark.map(|stale| Mark { victim: 2, stale });
            words.home[..3].copy_from_slice(&[Head { position, mark }.bits(), latest, readers]);
            words.home[3..7].copy_from_slice(&cells);
            words.nodes = held.map(|held| [latest, held]);
            words
        }
    }

    proptest! {
        #[test]
        fn the_fast_path_does_what_the_slow_path_does(
            before in any_words(),
            kind in prop_oneof![Just(AccessKind::Read), Just(AccessKind::Write)],
            recoverable: bool,
            rank_2_is_dead: bool,
        ) {
            let mut departed = Departed::default();
            if rank_2_is_dead {
                departed.insert(2);
            }
            let geometry = before.geometry.clone();
            let protocol = Direct::new(geometry.clone(), 0, recoverable);
            let (mut short, mut words) = (protocol.clone(), before.clone());
            let gone = |node| departed.node_is_gone(&geometry, node);
            let free = short.enter_free(kind, |word, op| words.access(word, op), gone);
            if free == Free::Not {
                // Nothing has changed, so the variable can be requested.
                prop_assert_eq!((&words.home, words.nodes), (&before.home, before.nodes));
                prop_assert_eq!(short, protocol);
                return Ok(());
            }
            let (mut same, mut others) = (protocol, before);
            same.request(kind, Patience::Wait);
            let (expected, woken) = long(&mut same, &mut others, 0, &departed);
            match free {
                Free::Entered(entry) => {
                    prop_assert_eq!((Action::Entered(entry), None), (expected, woken));
                }
                Free::Begun(answer) => {
                    let came = long(&mut short, &mut words, answer, &departed);
                    prop_assert_eq!(came, (expected, woken));
                }
                Free::Not => unreachable!(),
            }
            prop_assert_eq!(&words, &others);
            if !matches!(expected, Action::Entered(_)) {
                return Ok(());
            }
            let left = short.leave_free(|word, op| words.access(word, op));
            let head = Head::of(words.home[0]).position;
            let follower = RequestCell::of(words.home[3 + head as usize % 4]);
            if rank_2_is_dead && (follower.position, follower.rank) == (head, 2) {
                // The slow path recovers at once. The fast path leaves that to the woken rank, or
                // to the next rank that asks.
                return Ok(());
            }
            same.release();
            let (end, expected) = long(&mut same, &mut others, 0, &departed);
            prop_assert_eq!(end, Action::Released);
            match left {
                Left::Onward => {
                    short.go_on();
                    // Passing on reads the same cell once more.
                    words.done.pop();
                    let came = long(&mut short, &mut words, 0, &departed);
                    prop_assert_eq!(came, (Action::Released, expected));
                }
                Left::Wake(rank) => prop_assert_eq!(expected, Some(rank)),
                Left::Free => prop_assert_eq!(expected, None),
            }
            prop_assert_eq!(words, others);
        }

        #[test]
        fn an_unlocked_variable_takes_the_fast_path(
            kinds in prop::collection::vec(any::<bool>(), 1..20),
            ranks_per_node in 2..4u32,
            recoverable: bool,
        ) {
            let geometry = Geometry::new(3, ranks_per_node, 1);
            let (mut words, departed) = (WordsAtHand::new(geometry.clone()), Departed::default());
            let mut protocol = Direct::new(geometry, 0, recoverable);
            let mut told = ranks_per_node == 3;
            for write in kinds {
                let kind = if write { AccessKind::Write } else { AccessKind::Read };
                match protocol.enter_free(kind, |word, op| words.access(word, op), |_| false) {
                    Free::Entered(entry) => prop_assert!(!entry.moved && (told || !write)),
                    // The first write announces to the other node that its copy is old.
                    Free::Begun(answer) if write && !told => {
                        told = true;
                        let (end, _) = long(&mut protocol, &mut words, answer, &departed);
                        prop_assert!(matches!(end, Action::Entered(_)));
                    }
                    other => prop_assert!(false, "{:?}", other),
                }
                prop_assert_eq!(protocol.leave_free(|word, op| words.access(word, op)), Left::Free);
            }
        }
    }

    #[test]
    fn who_waits_watches_the_head_that_it_saw() {
        let geometry = |rank| Geometry::new(2, 2, rank);
        let (mut words, departed) = (WordsAtHand::new(geometry(0)), Departed::default());
        let [mut holder, mut waits] = [1, 0].map(|rank| Direct::new(geometry(rank), 0, true));
        let free =
            holder.enter_free(AccessKind::Write, |word, op| words.access(word, op), |_| false);
        assert!(matches!(free, Free::Entered(_)), "{free:?}");
        waits.request(AccessKind::Write, Patience::Wait);
        assert_eq!(waits.watches(), None, "it has not asked");
        assert_eq!(long(&mut waits, &mut words, 0, &departed).0, Action::Wait);
        assert_eq!(waits.watches(), Some((Word::Head, words.home[0])));
        assert_eq!(holder.leave_free(|word, op| words.access(word, op)), Left::Wake(0));
        assert!(waits.watches().is_some_and(|(_, seen)| seen != words.home[0]), "it changed");
    }
}
