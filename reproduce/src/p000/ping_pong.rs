//! The paper's measurement (§5.1, figure 7): a message goes back and forth many times.
//!
//! Five conditions (table 5): data stays in SO-DIMM (1, 2) or is read out to main memory (3 to 5),
//! received by PUSH (1, 3) or IPUSH (2, 4, 5), with a cached or an uncached window (5).

use std::cell::RefCell;
use std::rc::Rc;

use hikyaku_nic::fabric::RemoteAddress;
use hikyaku_nic::region::RegionBuffer;
use hikyaku_sim::engine::{Simulation, TaskName};
use hikyaku_sim::machine::Interface;
use hikyaku_sim::model::dimmnet2::{Costs, Host, PrefetchWindow, Primitive, Steps, pair};
use hikyaku_sim::model::landing::Arrival;

use crate::Machines;

/// The number of averaged round trips, so that the phase of the polling averages out.
pub(super) const ROUNDS: u64 = 400;

/// The receive primitive, without the address that PUSH needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReceivePrimitive {
    Push,
    IndirectPush,
}

/// A row of table 5.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Condition {
    pub(super) receive: ReceivePrimitive,
    /// The mapping of the window through which data is read out; `None`: data stays in SO-DIMM.
    pub(super) read_out: Option<PrefetchWindow>,
}

/// Conditions (1) to (5).
pub(super) const CONDITIONS: [Condition; 5] = [
    Condition { receive: ReceivePrimitive::Push, read_out: None },
    Condition { receive: ReceivePrimitive::IndirectPush, read_out: None },
    Condition { receive: ReceivePrimitive::Push, read_out: Some(PrefetchWindow::WriteBack) },
    Condition {
        receive: ReceivePrimitive::IndirectPush,
        read_out: Some(PrefetchWindow::WriteBack),
    },
    Condition { receive: ReceivePrimitive::IndirectPush, read_out: Some(PrefetchWindow::Uncached) },
];

/// The results of a run.
#[derive(Debug)]
pub(super) struct PingPongRun {
    /// Half the mean round trip, seconds.
    pub(super) half_round_trip: f64,
    /// Steps of the message from node 0 to node 1, for each round, on both boards.
    pub(super) steps: Vec<Steps>,
}

/// The costs of the machine.
pub(super) fn costs(machines: &Machines) -> Costs {
    let machine = machines.get("dimmnet2");
    let Interface::Dimmnet2(costs) = machine.interface.clone() else {
        unreachable!("the file says which interface it describes")
    };
    *costs
}

/// Bounces `bytes` between two nodes `rounds` times.
pub(super) fn run(costs: &Costs, condition: Condition, bytes: usize, rounds: u64) -> PingPongRun {
    let simulation = Simulation::new(0x1b05);
    let hosts = pair(&simulation, costs, RING_BYTES).expect("the size is that of a ring");
    let ends = hosts.each_ref().map(|host| PushTarget::new(host, condition.receive, bytes));
    let [sent, received] = [(); 2].map(|()| Rc::new(RefCell::new(Vec::<Steps>::new())));
    let packets = costs.interface.packet_bytes as usize;
    let records = (bytes.div_ceil(packets)).max(1) as u64;
    let task = |index| TaskName { kind: "host", index };

    let [a, b] = hosts;
    let [to_a, to_b] = ends.each_ref().map(PushTarget::primitive);
    let (log, message) = (Rc::clone(&sent), vec![0x5a; bytes]);
    let (first, second) = ((a.clone(), b.clone()), (b, a));
    let echo = message.clone();
    simulation.spawn(task(0), async move {
        let (here, there) = first;
        for round in 1..=rounds {
            here.send(&there, to_b, &message).await;
            take(&here, condition, bytes, round * records).await;
            // Only the steps of the message to node 1: the echo's arrival belongs to the way back.
            let mut passed = here.board().take_log();
            passed.retain(|(step, _)| SENDING.contains(step));
            log.borrow_mut().push(passed);
        }
    });
    let log = Rc::clone(&received);
    simulation.spawn(task(1), async move {
        let (here, there) = second;
        for round in 1..=rounds {
            take(&here, condition, bytes, round * records).await;
            log.borrow_mut().push(here.board().take_log());
            here.send(&there, to_a, &echo).await;
        }
    });
    simulation.run().expect("a ping-pong ends");
    let half_round_trip = simulation.now().seconds() / (2 * rounds) as f64;
    let mut steps = sent.take();
    for (round, seen) in steps.iter_mut().zip(received.take()) {
        round.extend(seen);
    }
    PingPongRun { half_round_trip, steps }
}

/// The steps of a message that its sender's board records.
const SENDING: [&str; 3] = ["Start", "A issue send request", "B packet send processing"];

/// Bytes of each landing ring: twice the largest message.
const RING_BYTES: u32 = 2 << 20;

/// Waits for a message and, if the condition says so, reads it out.
async fn take(host: &Host, condition: Condition, bytes: usize, records: u64) {
    host.detect(records).await;
    match condition.read_out {
        None => drop_arrivals(host, bytes),
        Some(window) => {
            check(&host.read_status().await, bytes);
            let indirect = condition.receive == ReceivePrimitive::IndirectPush;
            host.read_out(bytes as u64, indirect, window).await;
        }
    }
}

/// Leaves the data in place. The ring's head advances without host time.
fn drop_arrivals(host: &Host, bytes: usize) {
    check(&host.take_arrivals(), bytes);
}

/// Asserts that all bytes of the message have arrived.
fn check(arrivals: &[Arrival], bytes: usize) {
    let length = |arrival: &Arrival| match arrival {
        Arrival::Landed(_, payload) => payload.len(),
        Arrival::Written(_, _, length) => *length as usize,
        Arrival::Full => 0,
    };
    assert_eq!(arrivals.iter().map(length).sum::<usize>(), bytes, "every byte arrives once");
}

/// The address of messages to a node, and the memory that keeps it valid.
struct PushTarget {
    primitive: Primitive,
    _memory: Option<RegionBuffer>,
}

impl PushTarget {
    fn new(host: &Host, receive: ReceivePrimitive, bytes: usize) -> PushTarget {
        match receive {
            ReceivePrimitive::IndirectPush => {
                PushTarget { primitive: Primitive::IndirectPush, _memory: None }
            }
            ReceivePrimitive::Push => {
                let (memory, address): (RegionBuffer, RemoteAddress) =
                    host.memory().register(host.node(), bytes.max(8));
                PushTarget { primitive: Primitive::Push(address), _memory: Some(memory) }
            }
        }
    }

    fn primitive(&self) -> Primitive {
        self.primitive
    }
}
