//! The short way: a variable that nobody has, written by a rank of its only node.
//!
//! It is what [`Direct`] would say one word at a time, in one go, so that a compiler sees through
//! it: the same operations on the same words in the same order (a test beside this compares them),
//! and nothing is done if it is not that simple. What holds of every interleaving of the long way,
//! each of whose steps is one operation, holds of this.

use super::{Direct, State};
use crate::geometry::Word;
use crate::protocol::{Entry, Op};
use crate::word::{Cell, Head, Kind, Phase};

/// What letting go has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// Nobody has to be told.
    Free,
    /// This rank is to be woken, if it sleeps; and if it is gone, the turn is to be passed on:
    /// [`Direct::go_on`].
    Wake(u32),
    /// The turn is to be passed on: [`Direct::go_on`].
    Onward,
}

impl Direct {
    /// Enters for writing, if copies do not travel and nobody has the variable or waits for it.
    /// `access` does an operation on a word and answers what was there before. `None`: it is to be
    /// requested; nothing has been changed.
    #[inline(always)]
    pub fn enter_free(&mut self, mut access: impl FnMut(Word, Op) -> u64) -> Option<Entry> {
        debug_assert_eq!(self.state, State::Idle, "one request at a time");
        if !self.alone() {
            return None;
        }
        let head = Head::of(access(Word::Head, Op::Load));
        if head.mark.is_some() && !self.recoverable {
            return None;
        }
        let words = 0..self.geometry.reader_words();
        // Or wants to ask: bits of either are a reason to look closer.
        let readers = words.fold(0, |bits, at| bits | access(Word::Readers(at), Op::Load));
        let place = self.geometry.cell(head.position);
        let expected = access(place, Op::Load);
        if readers != 0 || Cell::of(expected).position >= head.position {
            return None;
        }
        let (position, rank) = (head.position, self.geometry.rank);
        let new = Cell { position, rank, kind: Kind::Write, phase: Phase::Entered }.bits();
        if access(place, Op::CompareSwap { expected, new }) != expected {
            return None;
        }
        self.kind = Kind::Write;
        self.head = head;
        self.turn = position;
        self.claimed = true;
        self.moved = false;
        self.state = State::Inside;
        Some(Entry { moved: false, mark: head.mark, position })
    }

    /// The word and its value that a request waits to see changed; looking at anything else before
    /// is idle.
    #[inline]
    pub fn watches(&self) -> Option<(Word, u64)> {
        (self.state == State::Rest).then(|| (Word::Head, self.head.bits()))
    }

    /// Lets go of what was entered for writing on the only node. `None`: it is to be released.
    #[inline]
    pub fn leave_free(&mut self, mut access: impl FnMut(Word, Op) -> u64) -> Option<Left> {
        debug_assert_eq!(self.state, State::Inside, "what is let go was had");
        if !self.alone() || self.kind != Kind::Write {
            return None;
        }
        self.claimed = false;
        self.state = State::Idle;
        let head = Head { position: self.turn + 1, mark: None };
        access(Word::Head, Op::Swap(head.bits()));
        self.head = head;
        let next = Cell::of(access(self.geometry.cell(head.position), Op::Load));
        Some(match next.phase {
            _ if next.position != head.position => Left::Free,
            Phase::Waiting => Left::Wake(next.rank),
            Phase::Gone | Phase::Buried => Left::Onward,
            Phase::Entered => Left::Free,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::departed::Departed;
    use crate::geometry::{Geometry, Place};
    use crate::protocol::{Action, Patience, Protocol};
    use crate::word::Mark;

    /// Words at home, and what was done to them.
    #[derive(Debug, Clone, PartialEq)]
    struct Words {
        geometry: Geometry,
        words: Vec<u64>,
        done: Vec<(Word, Op)>,
    }

    impl Words {
        fn access(&mut self, word: Word, op: Op) -> u64 {
            self.done.push((word, op));
            let Place::Home(at) = self.geometry.place(word) else { panic!("{word:?}") };
            let word = &mut self.words[at as usize];
            std::mem::replace(word, op.apply(*word))
        }
    }

    /// Drives the long way to an end.
    fn long(protocol: &mut Direct, words: &mut Words) -> (Action, Option<u32>) {
        let (mut answer, mut woken) = (0, None);
        loop {
            answer = match protocol.next(answer, &Departed::default()) {
                Action::Access(word, op) => words.access(word, op),
                Action::Wake(rank) => {
                    woken = Some(rank);
                    0
                }
                end => return (end, woken),
            }
        }
    }

    fn any_cell() -> impl Strategy<Value = (u64, u32, bool, u8)> {
        (1..6u64, 0..3u32, any::<bool>(), 0..4u8)
    }

    fn cell((position, rank, write, phase): (u64, u32, bool, u8)) -> u64 {
        let kind = if write { Kind::Write } else { Kind::Read };
        let phases = [Phase::Waiting, Phase::Entered, Phase::Gone, Phase::Buried];
        Cell { position, rank, kind, phase: phases[usize::from(phase)] }.bits()
    }

    proptest! {
        #[test]
        fn the_short_way_does_what_the_long_way_does(
            position in 2..5u64,
            mark in prop::option::weighted(0.2, any::<bool>()),
            readers in prop_oneof![4 => Just(0u64), 1 => 1..8u64, 1 => Just(1 << 32)],
            cells in prop::collection::vec(any_cell(), 4),
            recoverable: bool,
            ranks_per_node in 2..4u32,
        ) {
            let geometry = Geometry::new(3, ranks_per_node, 1);
            let mark = mark.map(|stale| Mark { victim: 2, stale });
            let mut words = geometry.initial_home();
            words[0] = Head { position, mark }.bits();
            words[2] = readers;
            for (at, given) in cells.into_iter().enumerate() {
                words[3 + at] = cell(given);
            }
            let before = Words { geometry, words, done: Vec::new() };
            let (mut short, mut words) = (Direct::new(geometry, 0, recoverable), before.clone());
            let entry = short.enter_free(|word, op| words.access(word, op));
            let Some(entry) = entry else {
                // Nothing has changed, and it can be asked for.
                prop_assert_eq!(&words.words, &before.words);
                prop_assert_eq!(short, Direct::new(geometry, 0, recoverable));
                return Ok(());
            };
            prop_assert_eq!(ranks_per_node, 3);
            let (mut same, mut others) = (Direct::new(geometry, 0, recoverable), before);
            same.request(Kind::Write, Patience::Wait);
            prop_assert_eq!(long(&mut same, &mut others).0, Action::Entered(entry));
            prop_assert_eq!(&words, &others);
            let woken = short.leave_free(|word, op| words.access(word, op));
            same.release();
            let (end, expected) = long(&mut same, &mut others);
            prop_assert_eq!(end, Action::Released);
            match woken {
                Some(Left::Onward) => {
                    short.go_on();
                    // It looks at the same cell once more.
                    words.done.pop();
                    prop_assert_eq!(long(&mut short, &mut words), (Action::Released, expected));
                }
                // Of the own rank there is no such cell, since it asks for one turn at a time.
                Some(Left::Wake(rank)) => {
                    prop_assert_eq!(expected, (rank != geometry.rank).then_some(rank));
                }
                left => prop_assert_eq!((left, expected), (Some(Left::Free), None)),
            }
            prop_assert_eq!(words, others);
        }

        #[test]
        fn what_is_free_goes_the_short_way(rounds in 1..20u64, recoverable: bool) {
            let geometry = Geometry::new(3, 3, 1);
            let (words, done) = (geometry.initial_home(), Vec::new());
            let mut words = Words { geometry, words, done };
            let mut protocol = Direct::new(geometry, 0, recoverable);
            for _ in 0..rounds {
                prop_assert!(protocol.enter_free(|word, op| words.access(word, op)).is_some());
                let woken = protocol.leave_free(|word, op| words.access(word, op));
                prop_assert_eq!(woken, Some(Left::Free));
            }
        }
    }
}
