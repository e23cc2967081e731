//! Ranks of message engines over the loopback fabric, stepped in one thread.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use hikyaku_coll::{CollectiveBook, CommunicatorGroup};
use hikyaku_msg::{Blocked, ContextEndpoint, Engine, EngineConfig, LongMessages};
use hikyaku_nic::fabric::{Activity, DeathCause, Wait};
use hikyaku_nic::layer::{FaultInjector, Faults, Layer};
use hikyaku_nic::loopback::{self, LoopbackConfig, LoopbackPort};
use hikyaku_nic::random::Random;
use hikyaku_nic::segment::SegmentLayout;
use hikyaku_nic::time::Time;

/// Rounds of polls of every rank after which a test counts as deadlocked.
const MOST_ROUNDS: u32 = 1_000_000;

/// Rounds without a message after which ranks wait like blocked calls, and ask each other.
const STILL_ROUNDS: u32 = 300;

/// The duration of each later round: ranks wait for 20 ms before they ask.
const WAITING_ROUND: Time = Time::from_nanoseconds(1_000_000);

/// The ports of all tests, most without faults. Every algorithm is compiled again for each type of
/// port: two types made this program a third slower to build.
pub(crate) type TestPort = FaultInjector<LoopbackPort>;

/// The ports of a job with small sizes throughout, so that all buffers fill up soon.
pub(crate) fn tight_ports(ranks: u32, ranks_per_node: u32) -> Vec<TestPort> {
    tight_unreliable_ports(ranks, ranks_per_node, |_| Faults::NONE)
}

/// The same with these faults at each rank.
pub(crate) fn tight_unreliable_ports(
    ranks: u32,
    ranks_per_node: u32,
    faults: impl Fn(u64) -> Faults,
) -> Vec<TestPort> {
    let layout = SegmentLayout {
        status_slots: 64,
        rings: ranks.min(4),
        first_rings: ranks.min(4),
        ring_bytes: 1024,
        packet_bytes: 128,
        credit: 4,
        ..SegmentLayout::for_ranks(ranks)
    };
    open_unreliable(&LoopbackConfig { layout, ranks_per_node, region_bytes: 1 << 16 }, faults)
}

/// The ports of a job, without faults.
pub(crate) fn open(config: &LoopbackConfig) -> Vec<TestPort> {
    open_unreliable(config, |_| Faults::NONE)
}

fn open_unreliable(config: &LoopbackConfig, faults: impl Fn(u64) -> Faults) -> Vec<TestPort> {
    let ports = (0..).zip(loopback::open(config).unwrap());
    ports.map(|(rank, port)| FaultInjector::new(port, faults(rank))).collect()
}

const TIGHT: EngineConfig = EngineConfig {
    eager_limit: 600,
    long_messages: LongMessages::Fastest,
    credit_window: 4,
    unmatched_bytes: EngineConfig::UNMATCHED_BYTES,
    poll_budget: 8,
    direct_rounds: 4,
};

/// Runs `body` on every rank, in an order drawn from `seed`. The engine of a finished rank keeps
/// making progress, like that of a program that computes and makes a call now and then.
pub(crate) fn run<R>(
    ports: Vec<TestPort>,
    seed: u64,
    body: impl AsyncFn(&CommunicatorGroup<'_, TestPort>) -> R,
) -> Vec<R> {
    run_counting(ports, seed, body).0
}

/// The same, with the number of messages that no rank has received, plus the number of ranks with
/// left-over messages or notes.
pub(crate) fn run_counting<R>(
    ports: Vec<TestPort>,
    seed: u64,
    body: impl AsyncFn(&CommunicatorGroup<'_, TestPort>) -> R,
) -> (Vec<R>, u64) {
    run_engines(ports, seed, async |engine| {
        let endpoint = ContextEndpoint::new(engine, 9);
        // Close to the end, so that it wraps.
        let book = CollectiveBook::with_lines(&endpoint, 0).after(u32::MAX - 1);
        body(&CommunicatorGroup::new(endpoint, &book)).await
    })
}

/// The same for ranks that make their own communicators.
pub(crate) fn run_engines<R>(
    ports: Vec<TestPort>,
    seed: u64,
    body: impl AsyncFn(&RefCell<Engine<TestPort>>) -> R,
) -> (Vec<R>, u64) {
    let engines: Vec<_> =
        ports.into_iter().map(|port| RefCell::new(Engine::new(port, TIGHT))).collect();
    let mut futures: Vec<Pin<Box<_>>> =
        engines.iter().map(|engine| Box::pin(body(engine))).collect();
    let mut results: Vec<Option<R>> = futures.iter().map(|_| None).collect();
    let mut context = Context::from_waker(Waker::noop());
    let mut random = Random::new(seed);
    let mut blocked: Vec<Blocked> =
        results.iter().map(|_| Blocked::new(Wait::new(Activity::Collective))).collect();
    let (mut rounds, mut still, mut before) = (0, 0, (0, 0));
    while results.iter().any(Option::is_none) {
        let start = random.place(results.len());
        for rank in (start..results.len()).chain(0..start) {
            if results[rank].is_none()
                && let Poll::Ready(result) = futures[rank].as_mut().poll(&mut context)
            {
                results[rank] = Some(result);
            }
            engines[rank].borrow_mut().idle();
            if still > STILL_ROUNDS && results[rank].is_none() {
                engines[rank].borrow_mut().rest(&mut blocked[rank]);
            }
        }
        let turns: u64 = engines.iter().map(|engine| engine.borrow().turns()).sum();
        let now = (turns, results.iter().flatten().count());
        still = if now == before { still + 1 } else { 0 };
        before = now;
        if still > STILL_ROUNDS {
            engines[0].borrow().port().inner().host().pass_time(WAITING_ROUND);
        }
        rounds += 1;
        assert!(rounds < MOST_ROUNDS, "a standstill");
    }
    let left = |engine: &RefCell<Engine<TestPort>>| {
        let engine = engine.borrow();
        engine.statistics().unexpected_messages + u64::from(engine.has_left_overs())
    };
    let left = engines.iter().map(left).sum();
    (results.into_iter().flatten().collect(), left)
}

/// Reports that a rank has died.
pub(crate) fn kill(port: &TestPort, rank: u32) {
    assert!(port.inner().host().fail(rank, DeathCause::Unknown));
}
