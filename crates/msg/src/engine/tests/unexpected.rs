//! Finding and taking unexpected messages.

use super::*;
use crate::testing::{engines, pattern, settle};

/// Three engines. Rank 1 has sent tag 1 in context 2 and tags 2 and 3 in context 1 to rank 0, rank
/// 2 tag 3 in context 1. Lengths are ten times the tag, plus the rank.
fn with_unexpected() -> Vec<Engine<Unruly>> {
    let mut all = engines(3);
    for (source, context, tag) in [(1, 2, 1), (1, 1, 2), (1, 1, 3), (2, 1, 3)] {
        let bytes = pattern(10 * tag as usize + source, source);
        isend(&mut all[source], &bytes, Envelope { destination: 0, context, tag });
        settle(&mut all.iter_mut().collect::<Vec<_>>());
    }
    all
}

fn message(source: Rank, tag: i32) -> Option<Received> {
    Some(Received { source, tag, bytes: 10 * tag as u64 + u64::from(source) })
}

#[test]
fn unexpected_messages_are_found_by_context_and_tag() {
    let all = with_unexpected();
    let me = &all[0];
    assert_eq!(me.find_unexpected(1, |tag| tag == 2), message(1, 2));
    assert_eq!(me.find_unexpected(1, |tag| tag >= 2), message(1, 2));
    assert_eq!(me.find_unexpected(1, |tag| tag == 3), message(1, 3));
    assert_eq!(me.find_unexpected(2, |_| true), message(1, 1));
    // Another context, no tag, no context.
    assert_eq!(me.find_unexpected(1, |tag| tag == 1), None);
    assert_eq!(me.find_unexpected(1, |_| false), None);
    assert_eq!(me.find_unexpected(3, |_| true), None);
}

#[test]
fn the_oldest_unexpected_is_its_sources_first() {
    let all = with_unexpected();
    let me = &all[0];
    // Rank 1's message of context 2 precedes its tags 2 and 3.
    assert_eq!(me.find_oldest_unexpected(1, |_| true), message(2, 3));
    assert_eq!(me.find_oldest_unexpected(1, |tag| tag == 2), None);
    assert_eq!(me.find_oldest_unexpected(2, |tag| tag == 1), message(1, 1));
    assert_eq!(me.find_oldest_unexpected(2, |tag| tag == 3), None);
}

#[test]
fn only_whole_messages_are_taken() {
    let mut all = with_unexpected();
    let whole = pattern(600, 4);
    let announced = pattern(601, 5);
    isend(&mut all[2], &whole, to(0, 4));
    isend(&mut all[2], &announced, to(0, 5));
    settle(&mut all.iter_mut().collect::<Vec<_>>());
    let mut into = vec![0; 700];
    let taken = all[0].take_unexpected(&mut into, from(2, 4));
    assert_eq!(taken, Some(Ok(Received { source: 2, tag: 4, bytes: 600 })));
    assert_eq!(into[..600], whole);
    assert_eq!(all[0].take_unexpected(&mut into, from(2, 4)), None);
    assert_eq!(all[0].take_unexpected(&mut into, from(2, 5)), None);
    // It can still be received.
    assert!(all[0].find_unexpected(1, |tag| tag == 5).is_some());
}
