//! IPUSH rings (paper 000) on Cenju-4 (paper 003): the receiver's interface chooses the address.

use hikyaku_nic::time::Time;
use hikyaku_report::{Axis, Cell, LineChart, Unit};
use hikyaku_sim::engine::{Sim, Simulation, TaskName};
use hikyaku_sim::machine::Interface;
use hikyaku_sim::model::cenju4::{CenjuParcel, CenjuSystem, Costs, ParcelProtocol, Span, To};
use hikyaku_sim::topology::Node;

use super::{WhatIfAnswer, crossing, draw, lengths, tabulate};
use crate::Machines;

/// Rounds of a ping-pong.
const ROUNDS: u64 = 4;

/// How an MPI library transfers a message whose receive may not be posted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MessageWay {
    /// As measured: a message of 4 KiB or more is announced, and sent after the receiver's answer.
    Announced,
    /// Into a ring that the receiver's interface chooses, then copied to its place.
    RingAndCopy,
    /// Into such a ring, and used in place.
    Ring,
}

impl MessageWay {
    const ALL: [MessageWay; 3] = [MessageWay::Announced, MessageWay::RingAndCopy, MessageWay::Ring];

    fn name(self) -> &'static str {
        match self {
            MessageWay::Announced => "address by the sender, announced from 4 KiB on",
            MessageWay::RingAndCopy => "ring by the receiver, then a copy",
            MessageWay::Ring => "ring by the receiver, used in place",
        }
    }
}

/// Costs with the four steps that only IPUSH has (paper 000, table 3) in the receiver.
fn costs(way: MessageWay) -> Costs {
    let machines = Machines::stored();
    let Interface::Cenju4(mut costs) = machines.get("cenju4").interface.clone() else {
        unreachable!("the file says which interface it describes")
    };
    let Interface::Dimmnet2(board) = machines.get("dimmnet2").interface.clone() else {
        unreachable!("the file says which interface it describes")
    };
    if way != MessageWay::Announced {
        let steps = board.interface.steps.iter().filter(|step| step.ipush_only);
        costs.interface.accept += steps.map(|step| step.clocks).sum::<u64>();
    }
    *costs
}

/// One end of a ping-pong with MPI. Areas: 0 data, 1 announcements, 2 readiness.
#[derive(Clone)]
struct PingPongEnd {
    sim: Sim,
    system: CenjuSystem,
    way: MessageWay,
    node: Node,
    peer: Node,
    bytes: u64,
}

impl PingPongEnd {
    async fn post(&self, protocol: ParcelProtocol, area: u32) {
        self.sim.delay(half(self.system.costs().host.paralib)).await;
        let to = To::One(self.peer);
        let parcel = CenjuParcel { to, protocol, area, optimise: true, dirty: true };
        self.system.post(self.node, parcel).await;
    }

    async fn take(&self, area: u32, count: u64) {
        self.system.wait(self.node, area, count).await;
        self.sim.delay(half(self.system.costs().host.paralib)).await;
    }

    fn announces(&self) -> bool {
        self.way == MessageWay::Announced
            && self.bytes >= self.system.costs().host.mpi_announces_from
    }

    async fn send(&self, round: u64) {
        self.sim.delay(half(self.system.costs().host.mpi)).await;
        if self.announces() {
            self.post(ParcelProtocol::Inline, 1).await;
            self.take(2, round).await;
        }
        let span = Span { source: 0, destination: 0, bytes: self.bytes };
        self.post(ParcelProtocol::Write(span), 0).await;
    }

    async fn receive(&self, round: u64) {
        if self.announces() {
            self.take(1, round).await;
            self.post(ParcelProtocol::Inline, 2).await;
        }
        self.take(0, round).await;
        let host = &self.system.costs().host;
        if self.way == MessageWay::RingAndCopy {
            self.sim.delay(host.copy.time(self.bytes)).await;
        }
        self.sim.delay(half(host.mpi)).await;
    }
}

/// Half the time of a round trip, seconds.
fn half_round_trip(way: MessageWay, bytes: u64) -> f64 {
    let machines = Machines::stored();
    let machine = machines.get("cenju4");
    let simulation = Simulation::new(0xce15);
    let costs = costs(way);
    let system = CenjuSystem::new(&simulation, &costs, machine.topology(), machine.links.buffer);
    for (node, peer) in [(0, 1), (1, 0)] {
        let (sim, system) = (simulation.clone(), system.clone());
        let end = PingPongEnd { sim, system, way, node, peer, bytes };
        simulation.spawn(TaskName { kind: "node", index: node }, async move {
            for round in 1..=ROUNDS {
                if node == 0 {
                    end.send(round).await;
                }
                end.receive(round).await;
                if node == 1 {
                    end.send(round).await;
                }
            }
        });
    }
    simulation.run().expect("a ping-pong ends");
    simulation.now().seconds() / (2 * ROUNDS) as f64
}

fn half(time: Time) -> Time {
    Time::from_picoseconds(time.picoseconds() / 2)
}

pub(super) fn run() -> WhatIfAnswer {
    let sizes = lengths(3, 19, 1);
    let curves = MessageWay::ALL.map(|way| -> (&str, Vec<f64>) {
        (way.name(), sizes.iter().map(|&bytes| half_round_trip(way, bytes)).collect())
    });
    let points: Vec<f64> = sizes.iter().map(|&bytes| bytes as f64).collect();
    let rates = curves.each_ref().map(|(name, times)| -> (&str, Vec<f64>) {
        (*name, points.iter().zip(times).map(|(bytes, time)| bytes / time).collect())
    });
    let latency = LineChart::new(
        "MPI on Cenju-4, half a round trip",
        Axis::log2("message length", Unit::Bytes),
        Axis::log10("time", Unit::Seconds),
    );
    let rate = LineChart::new(
        "The same as throughput",
        Axis::log2("message length", Unit::Bytes),
        Axis::linear("throughput", Unit::BytesPerSecond).from_zero(),
    );
    let (latency, rate) = (draw(latency, &points, &curves), draw(rate, &points, &rates));
    let heads = points.iter().map(|&bytes| Cell::number(bytes, Unit::Bytes));
    let table = tabulate("Half a round trip", ("bytes", heads), &curves, Unit::Seconds);
    let curves = curves.map(|(_, times)| times);
    let announced = sizes.iter().position(|&bytes| bytes >= 4096).unwrap_or(0);
    let saved = curves[0][announced] - curves[2][announced];
    let gains = crossing(&sizes, &curves[0], &curves[1]);
    let copied = match gains {
        Some(bytes) => format!(
            "With a copy out of the ring, at 130 MB/s, a ring is first faster at {}.",
            Unit::Bytes.format(bytes as f64)
        ),
        None => "With a copy out of the ring, at 130 MB/s, a ring is slower at every length: what \
                 is saved by not announcing is less than a copy takes."
            .to_owned(),
    };
    let steps = curves[2][0] - curves[0][0];
    WhatIfAnswer {
        setup:
            "Cenju-4's interface, network and MPI (machine file cenju4). In a ring the receiver \
                needs the four steps that only IPUSH has (paper 000, table 3; here at Cenju-4's \
                clock), and nothing is announced. Small messages copy out of the ring, too."
                .into(),
        findings: vec![
            format!(
                "Where the announcement begins, at 4 KiB, a ring saves {} a message: a round trip \
                 of two short messages with their library time.",
                Unit::Seconds.format(saved)
            ),
            copied,
            format!(
                "The four steps themselves cost a message of 8 B {}.",
                Unit::Seconds.format(steps)
            ),
        ],
        charts: vec![latency.into(), rate.into()],
        tables: vec![table],
    }
}
