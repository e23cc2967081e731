//! The contexts of communicators: their owners, and when one may be reused.
//!
//! ```text
//!   | 0 | 0 | number (27)                | kind (3) |    counted by all ranks of the job alike
//!   | 0 | 1 | 0                          | kind (3) |    beside the world, from the start
//!   | 1 | 0 | leader (15) | number (12) | kind (3)  |    a number from its leader
//!     31  30                                2     0
//! ```
//!
//! Communicators of all ranks are duplicated without a message: all ranks count the same. Others
//! get a number from their *leader*, the first of their ranks, in the exchange that makes them. So
//! two communicators that share a rank never have the same context, and no rank needs to know which
//! communicators others have made.
//!
//! A leader takes unused numbers first, then the one that has been free for the longest time. A
//! number is free when every rank that had it has released it, by a note, or is gone. A rank
//! releases it after all its sends there are posted. Before a number is reused, each of its ranks
//! drops the messages of its last use, and no rank sends before all have done so (`create.rs`). So
//! no late message matches a later communicator.

use std::collections::{BTreeMap, VecDeque};

use hikyaku_nic::fabric::{Name, Rank};
use hikyaku_nic::plan::TrafficKind;

/// Set in contexts that have a leader.
const LED: u32 = 1 << 31;

/// Bits of a number, and of a kind.
const NUMBER_BITS: u32 = 12;
const KIND_BITS: u32 = 3;

/// The maximum number of communicators that a rank leads at a time.
pub(crate) const NUMBERS: u32 = 1 << NUMBER_BITS;

/// Contexts of one communicator: messages between two ranks, collectives, creation of communicators
/// of some of its ranks, and exchanges of neighbours if it has a topology.
pub(crate) const CONTEXTS: u32 = 1 << KIND_BITS;
pub(crate) const COLLECTIVES: u32 = 1;
pub(crate) const CREATION: u32 = 2;
pub(crate) const NEIGHBOURS: u32 = 3;

/// Messages between the leaders of two groups, and exchanges between the groups.
pub(crate) const BETWEEN: u32 = 4;

/// Notes that a number is released, in the context of the first communicator.
pub(crate) const RETURNS: u32 = 5;

/// The end of the contexts that all ranks count alike. They wrap around after 134 million.
const COUNTED: u32 = 1 << 30;

/// The context of a second communicator of all ranks that exists from the start, without any count
/// or agreement: a rank may have made others before it joins through another front end.
pub(crate) const BESIDE: u32 = COUNTED;

/// The next of the contexts that all ranks count alike.
pub(crate) fn next_counted(context: u32) -> u32 {
    let next = (context + CONTEXTS) % COUNTED;
    if next == 0 { CONTEXTS } else { next }
}

/// The context of a leader's number.
pub(crate) fn led(leader: Rank, number: u32) -> u32 {
    debug_assert!(leader < 1 << 15 && number < NUMBERS);
    LED | leader << (NUMBER_BITS + KIND_BITS) | number << KIND_BITS
}

/// The kind of a context's messages, for a trace: between ranks that the program names, or of its
/// collectives and of the library.
pub(crate) fn kind_of(context: u32) -> TrafficKind {
    match context % CONTEXTS {
        0 | NEIGHBOURS => TrafficKind::Point,
        _ => TrafficKind::Collective,
    }
}

/// The leader of a context and its number there. `None`: a context that all ranks count.
pub(crate) fn leader_of(context: u32) -> Option<(Rank, u32)> {
    let number = context >> KIND_BITS & (NUMBERS - 1);
    (context & LED != 0).then_some(((context & !LED) >> (NUMBER_BITS + KIND_BITS), number))
}

/// The names of this rank's communicators in reports of what it waits for: the name that the
/// program has set, or their number, which is the same at all ranks.
#[derive(Debug, Default)]
pub(crate) struct CommunicatorNames(BTreeMap<u32, Name>);

impl CommunicatorNames {
    /// Sets the name of a context's communicator; an invalid name removes it.
    pub(crate) fn set(&mut self, context: u32, name: &str) {
        let fits = &name[..name.floor_char_boundary(Name::BYTES - "''".len())];
        if fits.is_empty() || fits.contains(char::is_control) {
            self.forget(context);
        } else {
            self.0.insert(context, format_args!("'{fits}'").into());
        }
    }

    /// Removes the name of a context whose communicator has ended.
    pub(crate) fn forget(&mut self, context: u32) {
        self.0.remove(&context);
    }

    /// The name of a context's communicator; empty for all ranks of the job.
    pub(crate) fn of(&self, context: u32) -> Name {
        let first = context / CONTEXTS * CONTEXTS;
        match (self.0.get(&first), leader_of(first)) {
            (Some(name), _) => *name,
            (None, Some((leader, number))) => format_args!("{leader}.{number}").into(),
            (None, None) if first == 0 || first == BESIDE => Name::NONE,
            (None, None) => format_args!("{}", first / CONTEXTS).into(),
        }
    }
}

/// A number that a leader proposes, and whether it was used before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Proposal {
    pub(crate) number: u32,
    pub(crate) again: bool,
}

/// The numbers of one rank as a leader.
#[derive(Debug, Default)]
pub(crate) struct LeaderNumbers {
    /// The number of numbers ever taken.
    taken: u32,
    /// Free numbers, in the order in which they became free.
    free: VecDeque<u32>,
    /// The ranks that have not released a number.
    lent: BTreeMap<u32, Vec<Rank>>,
}

impl LeaderNumbers {
    /// A free number. `None`: there is none. The caller must lend it or put it back.
    pub(crate) fn propose(&mut self, is_gone: impl Fn(Rank) -> bool) -> Option<Proposal> {
        if self.taken < NUMBERS {
            self.taken += 1;
            return Some(Proposal { number: self.taken - 1, again: false });
        }
        if self.free.is_empty() {
            self.take_from_the_gone(is_gone);
        }
        self.free.pop_front().map(|number| Proposal { number, again: true })
    }

    /// Puts back the number last proposed, which is not needed.
    pub(crate) fn put_back(&mut self, Proposal { number, again }: Proposal) {
        if !again && number + 1 == self.taken {
            self.taken -= 1;
        } else {
            self.free.push_front(number);
        }
    }

    /// Records that a communicator of these ranks has the number.
    pub(crate) fn lend(&mut self, number: u32, ranks: &[Rank]) {
        self.lent.insert(number, ranks.to_vec());
    }

    /// Records that a rank has released a number.
    pub(crate) fn give_back(&mut self, number: u32, rank: Rank) {
        let Some(ranks) = self.lent.get_mut(&number) else { return };
        ranks.retain(|other| *other != rank);
        if ranks.is_empty() {
            self.lent.remove(&number);
            self.free.push_back(number);
        }
    }

    /// Frees numbers that only ranks hold that are gone.
    fn take_from_the_gone(&mut self, is_gone: impl Fn(Rank) -> bool) {
        let freed = self.lent.extract_if(.., |_, ranks| ranks.iter().all(|rank| is_gone(*rank)));
        self.free.extend(freed.map(|(number, _)| number));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;

    const NOBODY: fn(Rank) -> bool = |_| false;

    #[test]
    fn a_context_says_its_leader_and_number() {
        let mut seen = BTreeSet::new();
        for leader in [0, 1, 4095, (1 << 15) - 1] {
            for number in [0, 1, NUMBERS - 1] {
                let context = led(leader, number);
                assert_eq!(leader_of(context + CONTEXTS - 1), Some((leader, number)));
                assert!((0..CONTEXTS).all(|kind| seen.insert(context + kind)));
                assert_eq!(context & COUNTED, 0, "the bit of leaders of nodes");
            }
        }
        assert_eq!(leader_of(COUNTED - 1), None);
    }

    #[test]
    fn a_communicator_has_the_name_that_was_given_or_a_number() {
        let mut names = CommunicatorNames::default();
        let (rows, copy) = (led(4, 7), next_counted(CONTEXTS));
        let all = |names: &CommunicatorNames| {
            [0, BESIDE, copy, rows].map(|context| names.of(context + COLLECTIVES).to_string())
        };
        assert_eq!(all(&names), ["", "", "2", "4.7"]);
        [0, rows].iter().for_each(|context| names.set(*context, "rows"));
        names.set(copy, &"列".repeat(20));
        assert_eq!(all(&names), ["'rows'", "", &format!("'{}'", "列".repeat(10)), "'rows'"]);
        names.set(0, "");
        names.set(rows, "a\nb");
        names.forget(copy);
        assert_eq!(all(&names), ["", "", "2", "4.7"]);
    }

    #[test]
    fn counted_contexts_come_round_and_leave_out_the_first() {
        assert_eq!(next_counted(0), CONTEXTS);
        assert_eq!(next_counted(COUNTED - CONTEXTS), CONTEXTS);
    }

    #[test]
    fn a_million_numbers_are_lent_and_none_twice_at_a_time() {
        let mut numbers = LeaderNumbers::default();
        let mut live: VecDeque<u32> = VecDeque::new();
        let mut last_free = vec![0; NUMBERS as usize];
        for turn in 0..1_000_000 {
            let Proposal { number, again } = numbers.propose(NOBODY).unwrap();
            assert!(!live.contains(&number), "turn {turn}: {number} is in use");
            assert_eq!(again, turn >= NUMBERS);
            assert!(!again || turn - last_free[number as usize] > NUMBERS - 32, "too early");
            numbers.lend(number, &[3, 7]);
            live.push_back(number);
            if live.len() > 16 {
                let freed = live.pop_front().unwrap();
                numbers.give_back(freed, 7);
                numbers.give_back(freed, 3);
                last_free[freed as usize] = turn;
            }
        }
    }

    #[test]
    fn a_number_is_free_when_all_have_said_so_or_are_gone() {
        let mut numbers = LeaderNumbers::default();
        for number in 0..NUMBERS {
            assert_eq!(numbers.propose(NOBODY), Some(Proposal { number, again: false }));
            numbers.lend(number, &[1, 2]);
        }
        assert_eq!(numbers.propose(NOBODY), None);
        numbers.give_back(5, 1);
        numbers.give_back(5, 1);
        assert_eq!(numbers.propose(NOBODY), None, "rank 2 has it");
        numbers.give_back(NUMBERS, 1);
        assert_eq!(numbers.propose(|rank| rank == 2).map(|it| it.number), Some(5));
        numbers.give_back(9, 2);
        numbers.give_back(9, 1);
        let proposal = Proposal { number: 9, again: true };
        assert_eq!(numbers.propose(NOBODY), Some(proposal));
        numbers.put_back(proposal);
        assert_eq!(numbers.propose(NOBODY), Some(proposal));
    }

    #[test]
    fn a_number_that_was_not_needed_is_proposed_again() {
        let mut numbers = LeaderNumbers::default();
        let first = numbers.propose(NOBODY).unwrap();
        numbers.put_back(first);
        assert_eq!(numbers.propose(NOBODY), Some(first));
        let second = numbers.propose(NOBODY).unwrap();
        numbers.put_back(first);
        numbers.put_back(second);
        assert_eq!(numbers.propose(NOBODY).map(|it| it.number), Some(1));
    }
}
