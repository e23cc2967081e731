//! Tests of the engine over loopback and its unruly wrapper.

#![allow(clippy::unwrap_used)]

mod blocking;
mod cancel;
mod failure;
mod flow;
mod hostile;
mod joint;
mod matching;
mod property;
mod rendezvous;
mod unexpected;

use hikyaku_nic::fabric::{Rank, RingPort};

use super::Engine;
use crate::buffer::memory::Leaked;
use crate::envelope::{Envelope, Received, Selector, SendMode};
use crate::error::MsgError;
use crate::request::RequestId;
use crate::testing::Unruly;

fn to(destination: Rank, tag: i32) -> Envelope {
    Envelope { destination, context: 1, tag }
}

fn from(source: Rank, tag: i32) -> Selector {
    Selector { source: Some(source), tag: Some(tag), context: 1 }
}

fn any() -> Selector {
    Selector { source: None, tag: None, context: 1 }
}

fn isend(engine: &mut Engine<Unruly>, bytes: &[u8], envelope: Envelope) -> RequestId {
    isend_as(engine, bytes, envelope, SendMode::Standard)
}

fn isend_as(
    engine: &mut Engine<Unruly>,
    bytes: &[u8],
    envelope: Envelope,
    mode: SendMode,
) -> RequestId {
    let buffer = Leaked::new(bytes.to_vec()).to_send();
    engine.start_send(buffer, envelope, mode).unwrap()
}

fn irecv(engine: &mut Engine<Unruly>, room: usize, selector: Selector) -> (RequestId, Leaked) {
    let memory = Leaked::new(vec![0xEE; room]);
    (engine.start_recv(memory.to_receive(), selector).unwrap(), memory)
}

/// The result of a receive that must be complete, and its bytes.
fn taken(
    engine: &mut Engine<Unruly>,
    (id, memory): (RequestId, Leaked),
) -> Result<(Received, Vec<u8>), MsgError> {
    let received = engine.test(id).expect("the receive is complete")?;
    let mut bytes = memory.to_vec();
    bytes.truncate(received.bytes as usize);
    Ok((received, bytes))
}

/// Checks that every landing ring is empty and no credit is owed.
fn assert_clean(engine: &Engine<Unruly>) {
    assert!((0..engine.size()).all(|rank| engine.outbox.is_empty_to(rank)), "posts are left");
    assert_eq!(engine.requests.iter().count(), 0, "requests are left");
    assert_eq!(engine.statistics().unexpected_messages, 0);
    assert_eq!(engine.statistics().unexpected_bytes, 0);
    for ring in 0..engine.size() {
        let state = engine.port().ring(ring).unwrap();
        assert_eq!(state.head, state.tail, "ring {ring} holds bytes");
    }
}
