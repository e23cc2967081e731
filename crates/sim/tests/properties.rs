//! The guarantees of every network, for any machine, program and seed: every message arrives once
//! and whole, none arrives too early, none overtakes, no deadlock occurs, and two equal runs give
//! the same result.

use std::rc::Rc;

use hikyaku_nic::time::Time;
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{
    HostCosts, Job, JobConfig, MemoryPath, PacketFormat, Payload, PlainInterface, Rank,
};
use hikyaku_sim::network::{
    CutThrough, LogGp, LogGpParameters, Network, NetworkModel, Rate, Timing, Wormhole,
};
use hikyaku_sim::topology::{
    Dragonfly, FatTree, Grid, Hub, HyperCrossbar, Multistage, Switch, Topology,
};
use proptest::prelude::*;

/// A random machine.
#[derive(Debug, Clone)]
struct RandomMachine {
    shape: u8,
    model: u8,
    buffer: u64,
    packet: u64,
    latency_ns: u64,
    ranks_per_node: u32,
    send_ns: u64,
}

impl RandomMachine {
    fn topology(&self) -> Rc<dyn Topology> {
        match self.shape {
            0 => Rc::new(Switch::new(7)),
            1 => Rc::new(Hub::new(5)),
            2 => Rc::new(HyperCrossbar::new(&[3, 2, 2])),
            3 => Rc::new(Multistage::new(13)),
            4 => Rc::new(Grid::torus(&[4, 3])),
            5 => Rc::new(Grid::mesh(&[3, 3])),
            6 => Rc::new(Grid::tofu(1, 1, 1)),
            7 => Rc::new(FatTree::new(&[(3, 1), (3, 2)])),
            _ => Rc::new(Dragonfly::new(1, 3, 1)),
        }
    }

    fn network(&self) -> Box<dyn NetworkModel> {
        let latency = Time::from_nanoseconds(self.latency_ns);
        let rate = Rate::bytes_per_second(1e9);
        let timing = Timing::uniform(latency, rate, self.buffer);
        match self.model {
            0 => Box::new(Wormhole::new(self.topology(), &timing)),
            1 => Box::new(CutThrough::new(self.topology(), &timing)),
            _ => {
                let gap = Time::from_nanoseconds(5);
                let parameters = LogGpParameters { latency, gap, rate };
                Box::new(LogGp::new(self.topology().nodes(), parameters))
            }
        }
    }
}

fn machines() -> impl Strategy<Value = RandomMachine> {
    let buffer = prop_oneof![Just(1), Just(64), Just(300), Just(u64::MAX)];
    let packet = prop_oneof![Just(u64::MAX), Just(16), Just(256)];
    (0u8..9, 0u8..3, buffer, packet, 0u64..40, 1u32..3, 0u64..30).prop_map(
        |(shape, model, buffer, packet, latency_ns, ranks_per_node, send_ns)| RandomMachine {
            shape,
            model,
            buffer,
            packet,
            latency_ns,
            ranks_per_node,
            send_ns,
        },
    )
}

/// A message of the program: sender, receiver (both modulo the number of ranks), tag, bytes, and
/// the time of computing before it.
type ProgramMessage = (u32, u32, i32, usize, u64);

fn programs() -> impl Strategy<Value = Vec<ProgramMessage>> {
    prop::collection::vec((0u32..64, 0u32..64, 0i32..3, 0usize..400, 0u64..200), 1..60)
}

/// A received message: source, tag, number, and the times when it was sent and received.
type Receipt = (u32, i32, u32, Time, Time);

/// The bytes of a message: its number, its sending time, and filler.
fn contents(number: u32, sent: Time, bytes: usize) -> Vec<u8> {
    let mut data = number.to_le_bytes().to_vec();
    data.extend(sent.picoseconds().to_le_bytes());
    data.extend((0..bytes).map(|index| (index as u32 ^ number) as u8));
    data
}

/// Sends this rank's messages, then receives its own, each receive in one of three ways.
async fn run_rank(rank: Rank, program: Rc<Vec<ProgramMessage>>, ways: u64) -> Vec<Receipt> {
    let (me, size) = (rank.rank(), rank.size());
    for (number, &(from, to, tag, bytes, compute_ns)) in (0u32..).zip(program.iter()) {
        if from % size == me {
            rank.compute(Time::from_nanoseconds(compute_ns));
            let data = contents(number, rank.now(), bytes);
            let request = rank.isend(to % size, tag, &data[..]).expect("a rank of the job");
            if number % 3 == 0 { drop(request) } else { request.await }
        }
    }
    let mut seen = Vec::new();
    for &(from, _, tag, _, _) in program.iter().filter(|step| step.1 % size == me) {
        // All receives of a rank use the same way. If they were mixed, a wildcard could take a
        // message that another receive waits for.
        let (source, tag) = match (ways >> (me % 32)) & 3 {
            0 => (None, None),
            1 => (Some(from % size), Some(tag)),
            _ => (Some(from % size), None),
        };
        let message = rank.recv(source, tag).await;
        let data = message.data.expect("carried");
        let number = u32::from_le_bytes(data[..4].try_into().expect("four bytes"));
        let sent = Time::from_picoseconds(u64::from_le_bytes(
            data[4..12].try_into().expect("eight bytes"),
        ));
        assert_eq!(*data, contents(number, sent, data.len() - 12), "the bytes of message {number}");
        seen.push((message.source, message.tag, number, sent, rank.now()));
    }
    seen
}

/// Runs a program. Returns the messages that each rank received, and the digest of the trace.
fn run(machine: &RandomMachine, program: &[ProgramMessage], ways: u64) -> (Vec<Vec<Receipt>>, u64) {
    let simulation = Simulation::new(ways);
    simulation.trace().digest_on();
    let network = Network::new(&simulation, machine.network());
    let format = PacketFormat { payload: machine.packet, header: 8 };
    let interface = PlainInterface::new(&simulation, Rc::clone(&network), format);
    let per_node = machine.ranks_per_node;
    let config = JobConfig {
        ranks_per_node: per_node,
        payload: Payload::Carried,
        host: HostCosts { send: Time::from_nanoseconds(machine.send_ns), ..HostCosts::default() },
        memory: MemoryPath { latency: Time::from_nanoseconds(3), rate: Rate::INFINITE },
        ..JobConfig::new(network.nodes() * per_node)
    };
    let job = Job::new(&simulation, config, interface).expect("as many nodes");
    let program = Rc::new(program.to_vec());
    let report = job.run(|rank| run_rank(rank, Rc::clone(&program), ways)).expect("no deadlock");
    assert_eq!(report.totals.sent, report.totals.received);
    assert_eq!(report.totals.bytes_sent, report.totals.bytes_received);
    assert_eq!(job.in_flight(), 0);
    let counts = network.counts();
    assert_eq!(counts.sent, counts.delivered, "every packet is delivered once");
    let digest = simulation.trace().digest();
    (report.results, digest)
}

/// Checks that every message arrived once, whole, in order, and not too early.
fn check(machine: &RandomMachine, program: &[ProgramMessage], ranks: &[Vec<Receipt>]) {
    let (size, per_node) = (ranks.len() as u32, machine.ranks_per_node);
    let mut numbers: Vec<u32> = Vec::new();
    for (me, seen) in (0u32..).zip(ranks) {
        let mut latest = std::collections::BTreeMap::new();
        for &(source, tag, number, sent, received) in seen {
            let step = program[number as usize];
            assert_eq!((source, me, tag), (step.0 % size, step.1 % size, step.2));
            let least = match source / per_node == me / per_node {
                true => 3,
                // The latency of at least one link, and its bytes at 1 GB/s.
                false => machine.latency_ns + step.3 as u64 + 11,
            };
            let least = Time::from_nanoseconds(machine.send_ns + least);
            assert!(received >= sent + least, "message {number}: {sent} to {received}");
            // MPI 5.0 §3.5: in order by source and tag, which exact receives may tell apart.
            let before = latest.insert((source, tag), number);
            assert!(before.is_none_or(|before| before < number), "{number} after {before:?}");
            numbers.push(number);
        }
    }
    numbers.sort_unstable();
    assert!(numbers.iter().copied().eq(0..program.len() as u32), "{numbers:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn every_network_delivers_once_in_order_and_in_time(
        machine in machines(), program in programs(), ways in any::<u64>(),
    ) {
        let (ranks, digest) = run(&machine, &program, ways);
        check(&machine, &program, &ranks);
        prop_assert_eq!(run(&machine, &program, ways).1, digest, "the same run twice");
    }
}
