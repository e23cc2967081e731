//! Words and letters that no rank has written. Whatever another process stores, a request ends or
//! waits, and never names a rank or node that does not exist.

#![allow(clippy::unwrap_used)]

use hikyaku_dsm::geometry::initial_node;
use hikyaku_dsm::word::{FIRST, Head, RequestCell, RequestPhase, Version};
use hikyaku_dsm::{
    AccessKind, Action, Copyset, Departed, Direct, Effect, Free, Geometry, Left, Letter, Mailbox,
    MailboxMessage, Patience, Refusal, Style, Word, WordOp, WordPlace,
};
use proptest::prelude::*;

const RANKS: u32 = 3;

/// Numbers like those in the words of a variable, and arbitrary ones.
fn word() -> impl Strategy<Value = u64> {
    prop_oneof![
        Just(0),
        Just(u64::MAX),
        (0..6u64, prop_oneof![0..4u64, 0..4096u64], 0..64u64)
            .prop_map(|(position, rank, flags)| position << 18 | rank << 6 | flags),
        (0..64u32).prop_map(|bit| 1 << bit),
        any::<u64>(),
    ]
}

/// The words of a variable whose ranks have a node each, at rank 0 and at each node.
#[derive(Debug)]
struct Words(Geometry, Vec<u64>, Vec<[u64; 2]>);

impl Words {
    /// The word, if its node exists.
    fn at(&mut self, word: Word) -> Option<&mut u64> {
        match self.0.place(word) {
            WordPlace::Home(at) => Some(&mut self.1[at as usize]),
            WordPlace::Node(node, at) => Some(&mut self.2.get_mut(node as usize)?[at as usize]),
        }
    }

    fn access(&mut self, word: Word, op: WordOp) -> Option<u64> {
        let word = self.at(word)?;
        Some(std::mem::replace(word, op.apply(*word)))
    }

    /// Overwrites one of all the words.
    fn scribble(&mut self, at: usize, value: u64) {
        let home = self.1.len();
        match at.checked_sub(home) {
            None => self.1[at] = value,
            Some(at) => self.2[at / 2][at % 2] = value,
        }
    }
}

/// The end of driving a request or a release.
#[derive(Debug, PartialEq, Eq)]
enum End {
    By(Action),
    /// Stopped as the driver would: because of a word of no node, or after too many steps.
    Stopped,
}

/// Drives like the driver, while words are overwritten.
fn drive(protocol: &mut Direct, words: &mut Words, scribbles: &mut Vec<(usize, u64)>) -> End {
    let mut answer = 0;
    for _ in 0..Direct::most_steps(&words.0) {
        answer = match protocol.next(answer, &Departed::default()) {
            Action::Access(word, op) => {
                if let Some((at, value)) = scribbles.pop() {
                    words.scribble(at, value);
                }
                let Some(old) = words.access(word, op) else { break };
                old
            }
            Action::Copy { from } if from >= words.0.nodes() => break,
            Action::Copy { .. } | Action::Wake(_) => 0,
            Action::Refused(Refusal::Overwritten) => return End::Stopped,
            end => return End::By(end),
        };
    }
    protocol.abandon();
    End::Stopped
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 3000, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn overwritten_words_end_or_delay_a_request(
        scribbles in prop::collection::vec((0..14usize, word()), 0..30),
        kinds in prop::collection::vec(any::<bool>(), 1..4),
        rank in 0..RANKS,
        recoverable: bool,
        eager: bool,
    ) {
        let geometry = Geometry::new(RANKS, 1, rank);
        let nodes = vec![initial_node(); RANKS as usize];
        let mut words = Words(geometry.clone(), geometry.initial_home(), nodes);
        prop_assert_eq!(words.1.len() + 2 * words.2.len(), 14);
        let mut protocol = Direct::new(geometry, 0, recoverable);
        let mut scribbles = scribbles;
        if eager {
            scribbles.drain(..).for_each(|(at, value)| words.scribble(at, value));
        }
        for write in kinds {
            let kind = if write { AccessKind::Write } else { AccessKind::Read };
            protocol.request(kind, Patience::Wait);
            let mut entered = drive(&mut protocol, &mut words, &mut scribbles);
            while entered == End::By(Action::StandBack) {
                protocol.insist();
                entered = drive(&mut protocol, &mut words, &mut scribbles);
            }
            match entered {
                End::By(Action::Wait) => {
                    if !protocol.cancel() {
                        continue;
                    }
                }
                End::By(Action::Entered(_)) => protocol.release(),
                End::By(Action::Refused(_)) => continue,
                _ => return Ok(()),
            }
            match drive(&mut protocol, &mut words, &mut scribbles) {
                End::By(end) => prop_assert_eq!(end, Action::Released),
                End::Stopped => return Ok(()),
            }
        }
    }

    #[test]
    fn letters_name_nodes_that_exist(
        bytes in prop::collection::vec(any::<u8>(), 0..80),
        kind in 0..10u8,
        stores in prop::collection::vec((0..RANKS, 0..1u64 << 46), 0..4),
        held in 0..1u64 << 46,
        ask: bool,
    ) {
        let mut node = Mailbox::new(Style::Stores, 1, RANKS, 0, true);
        let mut effects = Vec::new();
        if ask {
            node.acquire(AccessKind::Write, Patience::Wait, &mut effects);
        }
        for (owner, position) in stores {
            node.told(Version { position, node: owner, shared: false });
        }
        node.hold(held);
        let mut bytes = bytes;
        bytes.splice(0..1.min(bytes.len()), [kind]);
        for length in 0..=bytes.len() {
            let Some(letter) = Letter::decode(&bytes[..length], RANKS) else { continue };
            prop_assert!(letter.departed.is_within(&Copyset::all(RANKS)));
            node.receive(2, letter.message, &mut effects);
        }
        for effect in &effects {
            if let Effect::Send(to, _) | Effect::Store(to, _) = effect {
                prop_assert!(*to < RANKS, "{effect:?}");
            }
        }
        prop_assert!(node.owner() < RANKS);
    }
}

/// The words of a variable that rank 1 of two has written a few times, on the fast path.
fn used() -> (Direct, Words) {
    let geometry = Geometry::new(2, 2, 1);
    let mut words = Words(geometry.clone(), geometry.initial_home(), vec![initial_node()]);
    let mut protocol = Direct::new(geometry, 0, false);
    for _ in 0..4 {
        let access = |word, op| words.access(word, op).unwrap();
        let free = protocol.enter_free(AccessKind::Write, access, |_| false);
        assert!(matches!(free, Free::Entered(_)));
        assert_eq!(protocol.leave_free(|word, op| words.access(word, op).unwrap()), Left::Free);
    }
    (protocol, words)
}

#[test]
fn a_head_set_back_is_not_followed_for_ever() {
    let (mut protocol, mut words) = used();
    *words.at(Word::Head).unwrap() = Head { position: FIRST, mark: None }.bits();
    protocol.request(AccessKind::Write, Patience::Wait);
    assert_eq!(drive(&mut protocol, &mut words, &mut Vec::new()), End::Stopped);
}

#[test]
fn a_head_past_a_waiting_rank_ends_its_wait() {
    let (mut protocol, mut words) = used();
    let head = Head::of(*words.at(Word::Head).unwrap());
    let (rank, kind, phase) = (0, AccessKind::Write, RequestPhase::Entered);
    let held = RequestCell { position: head.position, rank, kind, phase };
    *words.at(words.0.cell(head.position)).unwrap() = held.bits();
    protocol.request(AccessKind::Write, Patience::Wait);
    let end = drive(&mut protocol, &mut words, &mut Vec::new());
    assert_eq!(end, End::By(Action::Wait));
    let past = Head { position: head.position + 2, mark: None };
    *words.at(Word::Head).unwrap() = past.bits();
    assert_eq!(drive(&mut protocol, &mut words, &mut Vec::new()), End::Stopped);
}

#[test]
fn a_rank_that_there_is_not_is_not_woken() {
    let (mut protocol, mut words) = used();
    let access = |word, op| words.access(word, op).unwrap();
    let Free::Entered(entry) = protocol.enter_free(AccessKind::Write, access, |_| false) else {
        panic!("nobody has it")
    };
    let (position, kind, phase) = (entry.position + 1, AccessKind::Write, RequestPhase::Waiting);
    let next = RequestCell { position, rank: 4000, kind, phase };
    *words.at(words.0.cell(position)).unwrap() = next.bits();
    assert_eq!(protocol.leave_free(|word, op| words.access(word, op).unwrap()), Left::Free);
}

#[test]
fn a_letter_of_another_node_is_none() {
    let message = MailboxMessage::Adopt { version: 3, mark: None, readers: Copyset::all(3) };
    let departed = Copyset::default();
    let letter = Letter { variable: 0, part: 0, departed, filled: false, message };
    assert_eq!(Letter::decode(&letter.encode(), 3), Some(letter));
    assert_eq!(Letter::decode(&letter.encode(), 2), None);
}
