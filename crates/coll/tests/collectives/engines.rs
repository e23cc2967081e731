//! Ranks of message engines over the loopback fabric, stepped in one thread.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use hikyaku_coll::{CollectiveBook, CommunicatorGroup};
use hikyaku_msg::{Blocked, ContextEndpoint, Engine, EngineConfig, LongMessages};
use hikyaku_nic::fabric::{Activity, DeathCause, GroupPort, Wait};
use hikyaku_nic::loopback::{self, LoopbackPort};
use hikyaku_nic::segment::SegmentLayout;

use crate::random::Random;

/// Rounds in which every rank was polled, after which a test is taken to stand still.
const MOST_ROUNDS: u32 = 1_000_000;

/// Rounds after which ranks wait as blocked calls do, and ask each other.
const LONG_ROUNDS: u32 = 2_000;

/// The ports of a job whose every size is small, so that everything is full soon.
pub(crate) fn tight_ports(ranks: u32, ranks_per_node: u32) -> Vec<LoopbackPort> {
    let layout = SegmentLayout {
        status_slots: 64,
        rings: ranks.min(4),
        first_rings: ranks.min(4),
        ring_bytes: 1024,
        packet_bytes: 128,
        credit: 4,
        ..SegmentLayout::for_ranks(ranks)
    };
    let config = loopback::LoopbackConfig { layout, ranks_per_node, region_bytes: 1 << 16 };
    loopback::open(&config).unwrap()
}

const TIGHT: EngineConfig = EngineConfig {
    eager_limit: 600,
    long_messages: LongMessages::Fastest,
    credit_window: 4,
    unmatched_bytes: EngineConfig::UNMATCHED_BYTES,
    poll_budget: 8,
    direct_rounds: 4,
};

/// Runs `body` on every rank, the order drawn from `seed`. The engine of a rank that is done goes
/// on, as that of a program does that computes and calls now and then.
pub(crate) fn run<P: GroupPort, R>(
    ports: Vec<P>,
    seed: u64,
    body: impl AsyncFn(&CommunicatorGroup<'_, P>) -> R,
) -> Vec<R> {
    run_counting(ports, seed, body).0
}

/// The same, with the number of messages that nobody has received, and of ranks that have those or
/// notes.
pub(crate) fn run_counting<P: GroupPort, R>(
    ports: Vec<P>,
    seed: u64,
    body: impl AsyncFn(&CommunicatorGroup<'_, P>) -> R,
) -> (Vec<R>, u64) {
    run_engines(ports, seed, async |engine| {
        let endpoint = ContextEndpoint::new(engine, 9);
        // Near the end, so that it wraps.
        let book = CollectiveBook::with_lines(&endpoint, 0).after(u32::MAX - 1);
        body(&CommunicatorGroup::new(endpoint, &book)).await
    })
}

/// The same for ranks that make their communicators themselves.
pub(crate) fn run_engines<P: GroupPort, R>(
    ports: Vec<P>,
    seed: u64,
    body: impl AsyncFn(&RefCell<Engine<P>>) -> R,
) -> (Vec<R>, u64) {
    let engines: Vec<_> =
        ports.into_iter().map(|port| RefCell::new(Engine::new(port, TIGHT))).collect();
    let mut futures: Vec<Pin<Box<_>>> =
        engines.iter().map(|engine| Box::pin(body(engine))).collect();
    let mut results: Vec<Option<R>> = futures.iter().map(|_| None).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut random = Random(seed);
    let mut blocked: Vec<Blocked> =
        results.iter().map(|_| Blocked::new(Wait::new(Activity::Collective))).collect();
    let mut rounds = 0;
    while results.iter().any(Option::is_none) {
        let start = random.below(results.len());
        for rank in (start..results.len()).chain(0..start) {
            if results[rank].is_none()
                && let Poll::Ready(result) = futures[rank].as_mut().poll(&mut context)
            {
                results[rank] = Some(result);
            }
            engines[rank].borrow_mut().idle();
            if rounds > LONG_ROUNDS && results[rank].is_none() {
                engines[rank].borrow_mut().rest(&mut blocked[rank]);
            }
        }
        rounds += 1;
        assert!(rounds < MOST_ROUNDS, "a standstill");
    }
    let left = |engine: &RefCell<Engine<P>>| {
        let engine = engine.borrow();
        engine.statistics().unexpected_messages + u64::from(engine.has_left_overs())
    };
    let left = engines.iter().map(left).sum();
    (results.into_iter().flatten().collect(), left)
}

/// Says that a rank has died.
pub(crate) fn kill(port: &LoopbackPort, rank: u32) {
    assert!(port.host().fail(rank, DeathCause::Unknown));
}
