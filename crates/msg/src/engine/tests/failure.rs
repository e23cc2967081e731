//! Ranks that die or leave while others need them.

use std::sync::Arc;

use hikyaku_nic::fabric::{DeathCause, Name, PeerFailure, PeerState, Port};

use super::*;
use crate::members::Members;
use crate::testing::{engines, pattern, run, settle, tight};

const CAUSE: DeathCause = DeathCause::Signal(9);

/// Declares rank `rank` dead.
fn kill(witness: &Engine<Unruly>, rank: Rank) -> MsgError {
    assert!(witness.port().inner.host().fail(rank, CAUSE));
    MsgError::PeerFailed(PeerFailure { rank, pid: 0, host: Name::NONE, cause: CAUSE })
}

fn left(rank: Rank) -> MsgError {
    MsgError::PeerLeft { rank, host: Name::NONE }
}

#[test]
fn a_death_ends_only_requests_of_that_rank() {
    let mut all = engines(3);
    let [a, b, c] = &mut all[..] else { unreachable!() };
    let named = irecv(a, 8, from(1, 0));
    let wild = irecv(a, 8, any());
    let other = irecv(a, 8, from(2, 3));
    let announced = isend(a, &pattern(1000, 1), to(1, 0));
    let queued: Vec<_> = (0..9u8).map(|n| isend(a, &[n], to(1, 0))).collect();
    let error = kill(a, 1);
    settle(&mut [&mut *a, &mut *c]);
    assert_eq!(a.test(named.0), Some(Err(error)));
    assert_eq!(a.test(wild.0), Some(Err(error)));
    assert_eq!(a.test(announced), Some(Err(error)));
    assert_eq!(a.test(*queued.last().unwrap()), Some(Err(error)));
    assert!(a.test(other.0).is_none());
    isend(c, &[1], to(0, 3));
    settle(&mut [&mut *a, &mut *c]);
    assert_eq!(taken(a, other).unwrap().1, [1]);
    assert_eq!(b.rank(), 1);
}

/// A receive from any source of a communicator waits only for its members, posted before the death
/// or after it.
#[test]
fn a_death_fails_no_wildcard_of_communicators_without_it() {
    const CONTEXT: u32 = 7;
    let mut all = engines(3);
    let [a, _, c] = &mut all[..] else { unreachable!() };
    let members = Members::new(vec![0, 2], 0, |_| 0).unwrap();
    a.set_members(CONTEXT, Arc::new(members));
    let without = Selector { context: CONTEXT, ..any() };
    let (earlier, of_all) = (irecv(a, 8, without), irecv(a, 8, any()));
    let error = kill(a, 1);
    settle(&mut [&mut *a, &mut *c]);
    assert_eq!(a.test(of_all.0), Some(Err(error)));
    assert_eq!(a.test(earlier.0), None);
    let later = irecv(a, 8, without);
    for byte in [1, 2] {
        isend(c, &[byte], Envelope { context: CONTEXT, ..to(0, 0) });
    }
    settle(&mut [&mut *a, &mut *c]);
    assert_eq!(taken(a, earlier).unwrap().1, [1]);
    assert_eq!(taken(a, later).unwrap().1, [2]);
    assert_clean(a);
}

#[test]
fn operations_started_after_a_death_fail_at_once() {
    let mut all = engines(2);
    let [a, _] = &mut all[..] else { unreachable!() };
    let error = kill(a, 1);
    a.progress();
    for length in [0, 500, 1000] {
        let bytes = pattern(length, 0);
        assert_eq!(a.send(&bytes, to(1, 0), SendMode::Standard), Err(error));
        assert_eq!(a.start_send_detached(&bytes, to(1, 0), SendMode::Standard, false), Err(error));
    }
    assert_eq!(a.recv(&mut [], from(1, 0)), Err(error));
    assert_eq!(a.recv(&mut [], any()), Err(error));
    assert_eq!(a.start_recv_detached(0, any()), Err(error));
    assert_eq!(a.probe(from(1, 0)), Err(error));
    assert_eq!(a.wait_probe(any()), Err(error));
    assert_clean(a);
}

#[test]
fn only_whole_messages_outlive_their_sender() {
    let mut all = engines(2);
    let [a, b] = &mut all[..] else { unreachable!() };
    isend(b, &[5], to(0, 1));
    isend(b, &pattern(1000, 1), to(0, 2));
    b.port_mut().rules().part = Some(100);
    isend(b, &pattern(300, 1), to(0, 3));
    while a.progress() {}
    assert_eq!(a.statistics().unexpected_messages, 3);
    let error = kill(a, 1);
    while a.progress() {}
    assert_eq!(a.statistics().unexpected_messages, 1);
    let mut buffer = [0];
    a.recv(&mut buffer, from(1, 1)).unwrap();
    assert_eq!(buffer, [5]);
    assert_eq!(a.recv(&mut [0; 300], from(1, 3)), Err(error));
    assert_clean(a);
}

#[test]
fn a_death_within_a_message_ends_its_receive() {
    for length in [500, 3000] {
        let mut all = engines(2);
        let [a, b] = &mut all[..] else { unreachable!() };
        let (receive, _) = irecv(a, length, from(1, 0));
        b.port_mut().rules().part = Some(100);
        isend(b, &pattern(length, 1), to(0, 0));
        a.progress();
        b.progress();
        a.progress();
        assert!(a.test(receive).is_none());
        let error = kill(a, 1);
        while a.progress() {}
        assert_eq!(a.test(receive), Some(Err(error)));
        assert_clean(a);
    }
}

#[test]
fn a_death_ends_blocked_calls() {
    // Rank 2 is declared dead by rank 3 while 0 and 1 wait for it in different ways.
    let results = run(tight(4), |mut engine| match engine.rank() {
        0 => engine.recv(&mut [], from(2, 0)).map(drop),
        1 => engine.send(&pattern(5000, 1), to(2, 0), SendMode::Standard),
        2 => {
            // Stays silent until it is declared dead.
            while !is_dead(&engine, 2) {
                engine.port_mut().park(None);
            }
            Ok(())
        }
        _ => {
            (0..50).for_each(|_| engine.idle());
            Err(kill(&engine, 2))
        }
    });
    assert!(matches!(results[0], Err(MsgError::PeerFailed(f)) if f.rank == 2));
    assert!(matches!(results[1], Err(MsgError::PeerFailed(f)) if f.rank == 2));
}

fn is_dead(engine: &Engine<Unruly>, rank: Rank) -> bool {
    matches!(engine.port().peer(rank), PeerState::Failed(_))
}

#[test]
fn last_messages_of_a_departed_rank_arrive() {
    let results = run(tight(2), |mut engine| {
        if engine.rank() == 0 {
            engine.send(&[1], to(1, 0), SendMode::Standard).unwrap();
            engine.flush();
            return Ok(());
        }
        let mut buffer = [0];
        engine.recv(&mut buffer, from(0, 0)).unwrap();
        assert_eq!(buffer, [1]);
        engine.recv(&mut buffer, from(0, 0)).map(drop)
    });
    assert_eq!(results[1], Err(left(0)));
}

#[test]
fn requests_of_a_departed_rank_end() {
    let mut all = engines(3);
    let _c = all.pop().unwrap();
    drop(all.pop().unwrap());
    let a = &mut all[0];
    let gone = Err(left(1));
    assert_eq!(a.recv(&mut [], from(1, 0)).map(drop), gone);
    assert_eq!(a.send(&pattern(1000, 0), to(1, 0), SendMode::Standard), gone);
    assert_eq!(a.send(&[], to(1, 0), SendMode::Synchronous), gone);
    assert_eq!(a.wait_probe(from(1, 0)).map(drop), gone);
    // Messages may still be posted until there is no room; then no more.
    let until_full = (0..100).find_map(|_| a.send(&[1], to(1, 0), SendMode::Standard).err());
    assert_eq!(until_full, gone.err());
}

#[test]
fn a_wildcard_receive_waits_for_the_last_peer() {
    let mut all = engines(3);
    let mut c = all.pop().unwrap();
    drop(all.pop().unwrap());
    let a = &mut all[0];
    let (receive, _) = irecv(a, 1, any());
    assert!((0..500).all(|_| a.test(receive).is_none()));
    c.send(&[1], to(0, 0), SendMode::Standard).unwrap();
    assert!(a.wait(receive).is_ok());
    drop(c);
    assert!(matches!(a.recv(&mut [], any()), Err(MsgError::PeerLeft { .. })));
    assert!(matches!(a.wait_probe(any()), Err(MsgError::PeerLeft { .. })));
}

#[test]
fn a_sender_that_leaves_ends_its_rendezvous() {
    let mut all = engines(2);
    let mut b = all.pop().unwrap();
    let a = &mut all[0];
    isend(&mut b, &pattern(1000, 1), to(0, 0));
    a.progress();
    drop(b);
    assert_eq!(a.recv(&mut [0; 1000], from(1, 0)), Err(left(1)));
    assert_clean(a);
}
