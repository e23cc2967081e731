//! Conducted ranks that follow a script: the order of turns, the times of arrivals, and deadlocks.

#![allow(clippy::unwrap_used)]

use std::cell::RefCell;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::rc::Rc;

use hikyaku_nic::fabric::{FullCause, Granularity, MemoryPort, Rank, RemoteAddress, Route, Space};
use hikyaku_nic::hosted::{
    ActionOutbox, ChainedPut, ConductorAnswer, ConductorRequest, Deed, HostedPort, Posted,
};
use hikyaku_nic::loopback::{self, LoopbackHost, LoopbackPort};
use hikyaku_nic::time::Time;
use hikyaku_sim::SimError;
use hikyaku_sim::engine::{RecordKind, Simulation};
use hikyaku_sim::job::{Carrier, MemoryPath, PacketFormat, PlainInterface};
use hikyaku_sim::machine::Machine;
use hikyaku_sim::network::{LogGp, LogGpParameters, Network, Rate};
use hikyaku_sim::port::{Config, Ended, MachineConductor, Ranks};

/// A turn of a rank: its deeds with their times after the turn's begin, and its request at the end.
struct ScriptTurn {
    deeds: Vec<(u64, Deed)>,
    after: u64,
    request: ConductorRequest,
}

fn turn(after: u64, request: ConductorRequest) -> ScriptTurn {
    ScriptTurn { deeds: Vec::new(), after, request }
}

/// Every turn with its time and answer.
type TurnLog = Rc<RefCell<Vec<(Rank, u64, ConductorAnswer)>>>;

struct Script {
    ports: RefCell<Vec<Option<LoopbackPort>>>,
    turns: RefCell<Vec<VecDeque<ScriptTurn>>>,
    deeds: RefCell<Vec<(Time, Deed)>>,
    seen: TurnLog,
}

fn ns(nanoseconds: u64) -> Time {
    Time::from_nanoseconds(nanoseconds)
}

impl Ranks for Script {
    type Host = LoopbackHost;

    fn count(&self) -> u32 {
        self.turns.borrow().len() as u32
    }

    fn node_of(&self, rank: Rank) -> u32 {
        rank
    }

    fn most_bytes(&self) -> u64 {
        1 << 20
    }

    fn interface(&self, rank: Rank, _outbox: &ActionOutbox) -> HostedPort<LoopbackHost> {
        self.ports.borrow_mut()[rank as usize].take().unwrap()
    }

    fn run(
        &self,
        rank: Rank,
        now: Time,
        answer: ConductorAnswer,
    ) -> Option<(Time, ConductorRequest)> {
        self.seen.borrow_mut().push((rank, now.nanoseconds(), answer));
        let next = self.turns.borrow_mut()[rank as usize].pop_front();
        // At the end of its script a rank polls, and continues to wait.
        let ScriptTurn { deeds, after, request } =
            next.unwrap_or(turn(0, ConductorRequest::Park(None)));
        let at = |(after, deed): (u64, Deed)| (now + ns(after), deed);
        self.deeds.borrow_mut().extend(deeds.into_iter().map(at));
        Some((now + ns(after), request))
    }

    fn begin(&self, _rank: Rank) -> (Time, ConductorRequest) {
        (Time::ZERO, ConductorRequest::Start)
    }

    fn take_deeds(&self, _rank: Rank, into: &mut Vec<(Time, Deed)>) {
        into.append(&mut self.deeds.borrow_mut());
    }

    fn leave_datagram(&self, _from: Rank, _to: Rank, _datagram: &[u8]) -> bool {
        true
    }

    fn landed(&self, _from: Rank, _to: Rank) {}

    fn set_blocked(&self, _from: Rank, _to: Rank, _cause: Option<FullCause>) {}

    fn was_refused(&self, _rank: Rank) -> bool {
        false
    }

    fn is_there(&self, _rank: Rank) -> bool {
        true
    }

    fn computed(&self, _rank: Rank) -> Time {
        Time::ZERO
    }
}

/// Every turn: the rank, its time and its answer.
type Turns = Vec<(Rank, u64, ConductorAnswer)>;

/// Conducts the scripts on a network of 1 µs and 1 GB/s. Returns the result, the turns and the
/// records.
fn conduct(scripts: Vec<Vec<ScriptTurn>>) -> (Result<(), Ended>, Turns, Records) {
    let ranks = scripts.len() as u32;
    let (ended, seen, records, _) = conduct_on(scripts, plain(ranks));
    (ended, seen, records)
}

/// A network of 1 µs and 1 GB/s.
fn plain(ranks: u32) -> impl FnOnce(&Simulation) -> Rc<dyn Carrier> {
    move |simulation| {
        let rate = Rate::bytes_per_second(1e9);
        let model = LogGp::new(ranks, LogGpParameters { latency: ns(1000), gap: Time::ZERO, rate });
        let network = Network::new(simulation, Box::new(model));
        PlainInterface::new(simulation, network, PacketFormat::WHOLE)
    }
}

/// The kind of each record, and its time.
type Records = Vec<(RecordKind, u64)>;

/// Conducts the scripts over a carrier. Also returns the number of messages that rank 0 has sent.
fn conduct_on(
    scripts: Vec<Vec<ScriptTurn>>,
    carrier: impl FnOnce(&Simulation) -> Rc<dyn Carrier>,
) -> (Result<(), Ended>, Turns, Records, u64) {
    let ports = loopback::open(&loopback::LoopbackConfig::for_ranks(scripts.len() as u32)).unwrap();
    conduct_over(ports, scripts, carrier)
}

/// The same with the caller's ports.
fn conduct_over(
    ports: Vec<LoopbackPort>,
    scripts: Vec<Vec<ScriptTurn>>,
    carrier: impl FnOnce(&Simulation) -> Rc<dyn Carrier>,
) -> (Result<(), Ended>, Turns, Records, u64) {
    let simulation = Simulation::new(0);
    simulation.trace().records_on(1000);
    let carrier = carrier(&simulation);
    let seen = TurnLog::default();
    let script = Script {
        ports: RefCell::new(ports.into_iter().map(Some).collect()),
        turns: RefCell::new(scripts.into_iter().map(Into::into).collect()),
        deeds: RefCell::default(),
        seen: Rc::clone(&seen),
    };
    let memory = MemoryPath { latency: Time::ZERO, rate: Rate::bytes_per_second(1e9) };
    let config = Config { memory, envelope_bytes: 0 };
    let conductor = MachineConductor::new(&simulation, script, carrier, config).unwrap();
    let ended = conductor.run(100, |_| ControlFlow::Continue(()));
    let records = simulation.trace().records().to_vec();
    let records = records.into_iter().map(|record| (record.kind, record.time.nanoseconds()));
    let seen = seen.borrow().clone();
    (ended, seen, records.collect(), conductor.traffic()[0].messages)
}

fn send(to: Rank, bytes: usize) -> Deed {
    Deed::Send(Posted {
        destination: to,
        protocol: 0,
        header: 0,
        total: bytes as u64,
        offset: 0,
        granularity: Granularity::PerPacket,
        route: Route::Table,
        credited: false,
        passes: false,
        copy: false,
        payload: vec![7; bytes],
    })
}

#[test]
fn cj_14_copies_leave_with_the_first_and_the_switches_make_them() {
    let last_of = |copy: bool| {
        let to = |to, copy| match send(to, 4096) {
            Deed::Send(posted) => (100, Deed::Send(Posted { copy, ..posted })),
            other => (100, other),
        };
        let deeds = vec![to(3, false), to(1, copy), to(2, copy), to(2, copy)];
        let sends = ScriptTurn { deeds, after: 100, request: ConductorRequest::Leave };
        let waits = || vec![turn(0, ConductorRequest::Leave)];
        let (ended, _, records, messages) =
            conduct_on(vec![vec![sends], waits(), waits(), waits()], |sim| {
                let text = include_str!("../../../machines/cenju4.toml");
                Machine::parse("cenju4", text).unwrap().install(sim).carrier
            });
        ended.unwrap();
        let arrived = records.iter().filter(|(kind, _)| *kind == RecordKind::Arrive);
        let arrived: Vec<u64> = arrived.map(|(_, at)| *at).collect();
        assert_eq!(arrived.len(), 4);
        (messages, arrived)
    };
    let ((one, copies), (four, sends)) = (last_of(true), last_of(false));
    assert_eq!((one, four), (1, 4));
    // Three copies at once, and one more to a node that already has a copy.
    assert_eq!(copies[0], copies[2]);
    assert!(copies[3] > copies[2] && 3 * copies[3] < 2 * sends[3], "{copies:?}, {sends:?} ns");
}

#[test]
fn fg_15_a_datagram_to_several_leaves_once_where_the_network_copies() {
    let run = |deeds: Vec<Deed>, machine| {
        let deeds = deeds.into_iter().map(|deed| (100, deed)).collect();
        let sends = ScriptTurn { deeds, after: 100, request: ConductorRequest::Leave };
        let waits =
            || vec![turn(0, ConductorRequest::Park(None)), turn(0, ConductorRequest::Leave)];
        let (ended, seen, records, messages) =
            conduct_on(vec![vec![sends], waits(), waits(), waits()], |sim| {
                let machine = Machine::parse("machine", machine).unwrap().with_nodes(4).unwrap();
                machine.install(sim).carrier
            });
        ended.unwrap();
        let arrived = records.iter().filter(|(kind, _)| *kind == RecordKind::Arrive);
        let arrived: Vec<u64> = arrived.map(|(_, at)| *at).collect();
        // Each datagram wakes its rank.
        let woken: Vec<u64> = seen.iter().filter(|seen| seen.1 > 0).map(|seen| seen.1).collect();
        assert_eq!(woken, arrived);
        (messages, arrived)
    };
    let ethernet = include_str!("../../../machines/ethernet-100.toml");
    let dimmnet = include_str!("../../../machines/dimmnet1.toml");
    let datagram = |to: &[Rank]| Deed::Datagram { to: to.to_vec(), payload: vec![7; 1000] };
    // 1058 B take 84,640 ns to the switch, 5,000 in it and 84,640 to each rank.
    let (wire, first) = (84_640, 100 + 2 * 84_640 + 5_000);
    // No rank gets it twice. A rank that does not exist, and the sender, do not get it.
    assert_eq!(run(vec![datagram(&[3, 1, 2, 0, 9])], ethernet), (1, vec![first; 3]));
    let each = || [3, 1, 2].map(|to| datagram(&[to])).to_vec();
    assert_eq!(run(each(), ethernet), (3, vec![first, first + wire, first + 2 * wire]));
    let (messages, copies) = run(vec![datagram(&[3, 1, 2])], dimmnet);
    assert_eq!((messages, copies), run(each(), dimmnet), "this network copies nothing");
    assert_eq!(messages, 3);
}

const GO_ON: ConductorAnswer = ConductorAnswer::GoOn;

#[test]
fn deeds_and_turns_keep_their_own_times() {
    let first = ScriptTurn {
        deeds: vec![(100, send(1, 501)), (300, Deed::Wake(1))],
        after: 400,
        request: ConductorRequest::Leave,
    };
    let second = vec![turn(50, ConductorRequest::Park(None)), turn(0, ConductorRequest::Leave)];
    let (ended, seen, records) = conduct(vec![vec![first], second]);
    assert_eq!(ended, Ok(()));
    assert_eq!(seen, [(0, 0, GO_ON), (1, 0, GO_ON), (1, 300, GO_ON)]);
    // The latency, and 500 bytes after the first byte.
    assert!(records.contains(&(RecordKind::Send, 100)), "{records:?}");
    assert!(records.contains(&(RecordKind::Arrive, 1600)), "{records:?}");
}

#[test]
fn a_command_travels_behind_earlier_sends() {
    let travel = |from, to| ConductorRequest::Travel { from, to, bytes: 1 };
    let first = vec![
        ScriptTurn { deeds: vec![(0, send(1, 1001))], after: 10, request: travel(0, 1) },
        turn(0, travel(1, 0)),
        turn(0, ConductorRequest::Leave),
    ];
    let (ended, seen, _) = conduct(vec![first, vec![turn(0, ConductorRequest::Leave)]]);
    assert_eq!(ended, Ok(()));
    let own: Vec<u64> = seen.iter().filter(|(rank, ..)| *rank == 0).map(|seen| seen.1).collect();
    assert!(own[1] >= 2000, "after the message before it: {own:?}");
    assert_eq!(own[2], own[1] + 1000, "and back");
}

#[test]
fn cp_06_puts_of_a_chain_land_when_they_arrive_and_are_answered_once() {
    let put = |bytes, is_last| {
        let to = RemoteAddress { rank: 1, space: Space::Region, offset: 0 };
        Deed::Put(ChainedPut { to, word: None, is_last, payload: vec![7; bytes] })
    };
    let answers = ConductorRequest::Answers;
    let deeds = vec![(0, put(1001, false)), (10, put(1, true))];
    let first = vec![
        ScriptTurn { deeds, after: 10, request: answers(1) },
        // The answer has arrived before the rank waits.
        ScriptTurn { deeds: vec![(0, put(1, true))], after: 0, request: ConductorRequest::CatchUp },
        turn(5000, answers(1)),
        turn(0, ConductorRequest::Leave),
    ];
    let (ended, seen, records) = conduct(vec![first, vec![turn(0, ConductorRequest::Leave)]]);
    assert_eq!(ended, Ok(()));
    let own: Vec<u64> = seen.iter().filter(|(rank, ..)| *rank == 0).map(|seen| seen.1).collect();
    let arrivals = records.iter().filter(|(kind, _)| *kind == RecordKind::Arrive);
    let arrivals: Vec<u64> = arrivals.map(|(_, at)| *at).collect();
    // The messages of the chain arrive one behind the other, then the answer of 16 bytes.
    let [first, second, answer, ..] = arrivals[..] else { panic!("{arrivals:?}") };
    assert_eq!((first, answer), (2000, second + 1015));
    assert!((2000..2100).contains(&second), "{second}");
    assert_eq!(own, [0, answer, answer, answer + 5000]);
    assert_eq!(arrivals.len(), 5, "each chain is answered once");
}

#[test]
fn cp_06_the_answers_to_a_chain_name_the_first_put_that_was_refused() {
    let put = |rank, offset, is_last| {
        let to = RemoteAddress { rank, space: Space::Region, offset };
        Deed::Put(ChainedPut { to, word: None, is_last, payload: vec![7; 8] })
    };
    // There is no memory at this offset.
    let nowhere = u64::MAX / 2;
    let chain = |deeds: Vec<Deed>| {
        let deeds = deeds.into_iter().map(|deed| (0, deed)).collect();
        ScriptTurn { deeds, after: 0, request: ConductorRequest::Answers(2) }
    };
    let first = vec![
        chain(vec![
            put(1, 0, false),
            put(2, 0, false),
            put(1, nowhere, false),
            put(2, nowhere, true),
            put(1, 8, true),
        ]),
        // The next chain has its own answers.
        chain(vec![put(1, 0, true), put(2, nowhere, true)]),
        chain(vec![put(1, 0, true), put(2, 0, true)]),
        turn(0, ConductorRequest::Leave),
    ];
    let leaves = || vec![turn(0, ConductorRequest::Leave)];
    let mut ports = loopback::open(&loopback::LoopbackConfig::for_ranks(4)).unwrap();
    let mut beside = ports.pop().unwrap();
    let (ended, seen, ..) = conduct_over(ports, vec![first, leaves(), leaves()], plain(3));
    assert_eq!(ended, Ok(()));
    let answers: Vec<_> = seen.iter().filter(|(rank, ..)| *rank == 0).map(|seen| seen.2).collect();
    let refused = ConductorAnswer::Refused;
    assert_eq!(answers, [GO_ON, refused(2), refused(1), GO_ON]);
    // Nothing was written behind the refused put.
    let mut written = [0; 16];
    let from = RemoteAddress { rank: 1, space: Space::Region, offset: 0 };
    beside.get(from, &mut written).unwrap();
    assert_eq!(written, [7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn cp_06_the_answer_to_a_put_ends_no_other_command_of_its_chain() {
    let to = RemoteAddress { rank: 1, space: Space::Region, offset: 0 };
    let put = Deed::Put(ChainedPut { to, word: None, is_last: true, payload: vec![7] });
    let chain = vec![
        // A put to rank 1 is answered at 1000 + 1015 ns, while the next command travels to rank 2.
        ScriptTurn {
            deeds: vec![(0, put)],
            after: 0,
            request: ConductorRequest::Travel { from: 0, to: 2, bytes: 5001 },
        },
        turn(0, ConductorRequest::Travel { from: 2, to: 0, bytes: 1 }),
        turn(0, ConductorRequest::Answers(1)),
        turn(0, ConductorRequest::Leave),
    ];
    let leaves = || vec![turn(0, ConductorRequest::Leave)];
    let (ended, seen, _) = conduct(vec![chain, leaves(), leaves()]);
    assert_eq!(ended, Ok(()));
    let own: Vec<u64> = seen.iter().filter(|(rank, ..)| *rank == 0).map(|seen| seen.1).collect();
    assert_eq!(own, [0, 6000, 7000, 7000]);
}

#[test]
fn a_command_of_no_rank_takes_no_time() {
    let travel = |from, to| ConductorRequest::Travel { from, to, bytes: 1 };
    let first = vec![
        turn(5, travel(0, 2)),
        turn(0, travel(Rank::MAX, 1)),
        turn(0, ConductorRequest::Leave),
    ];
    let (ended, seen, _) = conduct(vec![first, vec![turn(0, ConductorRequest::Leave)]]);
    assert_eq!(ended, Ok(()));
    let own: Vec<u64> = seen.iter().filter(|(rank, ..)| *rank == 0).map(|seen| seen.1).collect();
    assert_eq!(own, [0, 5, 5]);
}

#[test]
fn a_command_of_more_than_a_ranks_memory_takes_no_time() {
    let travel = |bytes| ConductorRequest::Travel { from: 0, to: 1, bytes };
    let (most, absurd) = (1 << 20, [(1 << 20) + 1, u64::MAX]);
    let mut first: Vec<ScriptTurn> = absurd.map(|bytes| turn(5, travel(bytes))).into();
    first.extend([turn(0, travel(most)), turn(0, ConductorRequest::Leave)]);
    let (ended, seen, _) = conduct(vec![first, vec![turn(0, ConductorRequest::Leave)]]);
    assert_eq!(ended, Ok(()));
    let own: Vec<u64> = seen.iter().filter(|(rank, ..)| *rank == 0).map(|seen| seen.1).collect();
    // The latency, and the bytes after the first byte.
    assert_eq!(own, [0, 5, 10, 10 + 1000 + most - 1]);
}

#[test]
fn deadlines_come_and_early_wakes_are_kept() {
    let first =
        ScriptTurn { deeds: vec![(5, Deed::Wake(1))], after: 5, request: ConductorRequest::Leave };
    let second = vec![
        turn(50, ConductorRequest::CatchUp),
        turn(0, ConductorRequest::Park(None)),
        turn(0, ConductorRequest::Park(Some(ns(900)))),
        turn(0, ConductorRequest::Leave),
    ];
    let (ended, seen, _) = conduct(vec![vec![first], second]);
    assert_eq!(ended, Ok(()));
    let own: Vec<_> = seen.iter().filter(|(rank, ..)| *rank == 1).collect();
    // The rank was woken while it caught up, so it does not wait. Had it waited, it would have been
    // asked to poll when no event was left.
    assert_eq!(own, [&(1, 0, GO_ON), &(1, 50, GO_ON), &(1, 50, GO_ON), &(1, 900, GO_ON)]);
}

#[test]
fn unwakeable_ranks_poll_and_then_wait_for_ever() {
    let (ended, seen, _) = conduct(vec![vec![turn(70, ConductorRequest::Park(None))], Vec::new()]);
    assert_eq!(ended, Err(Ended::Stuck { at: ns(70), waiting: vec![0, 1] }));
    assert!(seen.iter().filter(|seen| seen.2 == ConductorAnswer::LookAround).count() > 40);
    let text = ended.unwrap_err().to_string();
    assert!(text.contains("2 ranks wait for ever"), "{text}");
}

#[test]
fn ranks_that_only_poll_wait_for_ever() {
    let looking = || (0..200_000).map(|_| turn(20, ConductorRequest::CatchUp)).collect();
    let (ended, _, _) = conduct(vec![looking(), vec![turn(0, ConductorRequest::Park(None))]]);
    assert!(matches!(ended, Err(Ended::Stuck { .. })), "{ended:?}");
}

#[test]
fn a_parked_rank_polls_now_and_then_although_others_never_stop() {
    // Rank 0 sends to rank 1 repeatedly, which is progress. So only a turn of its own tells rank 2
    // that it need not wait.
    let sends = |_| ScriptTurn {
        deeds: vec![(0, send(1, 8))],
        after: 20,
        request: ConductorRequest::CatchUp,
    };
    let last = [turn(0, ConductorRequest::Leave)];
    let talks = (0..10_000).map(sends).chain(last).collect();
    let leaves = vec![turn(0, ConductorRequest::Park(None)), turn(0, ConductorRequest::Leave)];
    let (ended, seen, _) = conduct(vec![talks, vec![turn(0, ConductorRequest::Leave)], leaves]);
    assert_eq!(ended, Ok(()));
    let turns: Vec<_> = seen.iter().filter(|(rank, ..)| *rank == 2).collect();
    let [(_, 0, GO_ON), (_, when, ConductorAnswer::LookAround)] = turns[..] else {
        panic!("{turns:?}")
    };
    assert!(*when < 10_000 * 20, "before the others' end: {when}");
}

#[test]
fn a_rank_that_did_something_and_parked_is_not_busy() {
    let looking = (0..200_000).map(|_| turn(20, ConductorRequest::CatchUp)).collect();
    let parks = ScriptTurn {
        deeds: vec![(0, send(0, 8))],
        after: 0,
        request: ConductorRequest::Park(None),
    };
    let (ended, seen, _) = conduct(vec![looking, vec![parks]]);
    assert!(matches!(ended, Err(Ended::Stuck { .. })), "{ended:?}");
    assert!(seen.len() < 100_000, "its deeds ended long ago");
}

#[test]
fn a_job_that_does_not_fit_the_machine_is_refused() {
    let simulation = Simulation::new(0);
    let rate = Rate::bytes_per_second(1e9);
    let model = LogGp::new(1, LogGpParameters { latency: ns(1), gap: Time::ZERO, rate });
    let network = Network::new(&simulation, Box::new(model));
    let carrier = PlainInterface::new(&simulation, network, PacketFormat::WHOLE);
    let script = Script {
        ports: RefCell::default(),
        turns: RefCell::new(vec![VecDeque::new(), VecDeque::new()]),
        deeds: RefCell::default(),
        seen: TurnLog::default(),
    };
    let memory = MemoryPath { latency: Time::ZERO, rate };
    let config = Config { memory, envelope_bytes: 0 };
    let refused = MachineConductor::new(&simulation, script, carrier, config).map(drop);
    assert!(matches!(refused, Err(SimError::TooManyRanks { needed: 2, nodes: 1, .. })));
}
