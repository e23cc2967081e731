//! The speed of the simulation: messages, events and memory, per pattern.
//!
//! `cargo bench -p hikyaku-sim --bench speed [-- PATTERN...]`. Each pattern runs three times, and
//! the median run is printed. Seconds are processor time, since machines are shared. Bytes per rank
//! are the largest growth of the process in one of the runs. Memory that an earlier pattern has
//! freed is reused and not counted, so run a pattern alone to see its memory. The last column is
//! the ratio to the project's target for the pattern. If SimGrid is installed (Debian:
//! libsimgrid-dev), its SMPI runs the halo exchange on the same torus, and the ratio is printed.
//! The first line shows how busy the machine was, and the version of SimGrid.

mod peer;

use std::future::Future;
use std::rc::Rc;

use hikyaku_nic::time::Time;
use hikyaku_sim::engine::{Random, Simulation};
use hikyaku_sim::job::{Job, JobConfig, PacketFormat, Payload, PlainInterface, Rank};
use hikyaku_sim::network::{
    CutThrough, LogGp, LogGpParameters, Network, NetworkModel, Rate, Timing, Wormhole,
};
use hikyaku_sim::topology::{Grid, HyperCrossbar, Multistage};

/// The costs of a run.
struct Sample {
    seconds: f64,
    messages: u64,
    events: u64,
    ranks: u32,
    bytes: u64,
}

/// The name of a pattern and its run.
type Pattern = (&'static str, fn() -> Sample);

const PATTERNS: &[Pattern] = &[
    ("ring-loggp-1024", || ring(log_gp(1024), 1024, 2_000)),
    ("ring-wormhole-hxb-256", || ring(hyper_crossbar(), 256, 2_000)),
    ("ring-wormhole-torus-1024", || ring(torus(), 1024, 500)),
    ("ring-cut-through-1024", || ring(multistage(), 1024, 500)),
    ("random-wormhole-hxb-256", || random(hyper_crossbar(), 256, 2_000, 3_000.0 * 3.0)),
    ("random-wormhole-torus-1024", || random(torus(), 1024, 300, 3_000.0 * 8.0)),
    ("random-cut-through-1024", || random(multistage(), 1024, 300, 2_000.0)),
    ("halo-wormhole-torus-1024", || halo(torus(), [8, 8, 16], 100)),
    ("halo-loggp-4096", || halo(log_gp(4096), [16, 16, 16], 100)),
    ("halo-loggp-100000", || halo(log_gp(100_000), [50, 50, 40], 10)),
    ("allreduce-loggp-100000", || allreduce(log_gp(100_000), 100_000)),
];

/// The project's targets for patterns: a minimum rate of messages, or a maximum of seconds and
/// bytes of memory.
const TARGETS: &[(&str, Target)] = &[
    ("ring-loggp", Target::Rate(3e6)),
    ("ring-wormhole", Target::Rate(5e5)),
    ("ring-cut-through", Target::Rate(5e5)),
    ("halo-wormhole", Target::Rate(5e5)),
    ("random-", Target::Rate(2e5)),
    ("halo-loggp-4096", Target::Rate(3e6)),
    ("halo-loggp-100000", Target::Whole(10.0, 1 << 30)),
];

/// A target.
#[derive(Clone, Copy)]
enum Target {
    /// Messages per second of processor time.
    Rate(f64),
    /// Seconds and bytes of the whole run.
    Whole(f64, u64),
}

impl Target {
    /// The ratio by which a run exceeds the target: 1 meets it exactly.
    fn met(self, sample: &Sample, bytes: u64) -> f64 {
        match self {
            Target::Rate(rate) => sample.messages as f64 / sample.seconds / rate,
            Target::Whole(seconds, most) => {
                (seconds / sample.seconds).min(most as f64 / bytes.max(1) as f64)
            }
        }
    }
}

fn main() {
    let wanted: Vec<String> =
        std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown");
    let peer = peer::version().unwrap_or_else(|| "no SimGrid: its SMPI is not compared".into());
    println!("load average {load}; {peer}");
    println!(
        "{:28} {:>12} {:>12} {:>9} {:>10} {:>9}",
        "pattern", "messages/s", "events/s", "seconds", "bytes/rank", "of target"
    );
    for (name, run) in PATTERNS {
        if !wanted.is_empty() && !wanted.iter().any(|word| name.contains(word.as_str())) {
            continue;
        }
        let mut samples = [run(), run(), run()];
        samples.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let Sample { seconds, messages, events, ranks, bytes } = samples[1];
        let most = samples.iter().map(|sample| sample.bytes).max().unwrap_or(bytes);
        let target = TARGETS.iter().find(|(start, _)| name.starts_with(start));
        let met = target.map(|(_, target)| format!("{:8.2}x", target.met(&samples[1], most)));
        println!(
            "{name:28} {:12.0} {:12.0} {seconds:9.2} {:10} {:>9}",
            messages as f64 / seconds,
            events as f64 / seconds,
            most / u64::from(ranks),
            met.unwrap_or_default()
        );
        if *name == BESIDE_PEER {
            beside_peer(messages as f64 / seconds);
        }
    }
}

/// The pattern that SMPI runs too.
const BESIDE_PEER: &str = "halo-wormhole-torus-1024";

fn beside_peer(ours: f64) {
    match peer::halo() {
        Ok(theirs) => println!("{:28} {theirs:12.0} {:>19.0} times", "  SMPI", ours / theirs),
        Err(error) => println!("{:28} not compared: {error}", "  SMPI"),
    }
}

fn log_gp(nodes: u32) -> Box<dyn NetworkModel> {
    let latency = Time::from_nanoseconds(1_000);
    let parameters = LogGpParameters {
        latency,
        gap: Time::from_nanoseconds(20),
        rate: Rate::gigabits_per_second(200.0),
    };
    Box::new(LogGp::new(nodes, parameters))
}

fn timing() -> Timing {
    Timing::uniform(Time::from_nanoseconds(50), Rate::bytes_per_second(1e9), 64)
}

fn hyper_crossbar() -> Box<dyn NetworkModel> {
    Box::new(Wormhole::new(Rc::new(HyperCrossbar::new(&[4, 8, 8])), &timing()))
}

fn torus() -> Box<dyn NetworkModel> {
    Box::new(Wormhole::new(Rc::new(Grid::torus(&[8, 8, 16])), &timing()))
}

fn multistage() -> Box<dyn NetworkModel> {
    let mut timing = timing();
    timing.default.buffer = 4096;
    Box::new(CutThrough::new(Rc::new(Multistage::new(1024)), &timing))
}

/// Runs a program on a network and measures it.
fn measure<F: Future<Output = ()> + 'static>(
    model: Box<dyn NetworkModel>,
    ranks: u32,
    program: impl Fn(Rank) -> F,
) -> Sample {
    let before = resident();
    let simulation = Simulation::new(SEED);
    let network = Network::new(&simulation, model);
    let interface = PlainInterface::new(&simulation, network, PacketFormat::WHOLE);
    let config = JobConfig { payload: Payload::LengthsOnly, ..JobConfig::new(ranks) };
    let job = Job::new(&simulation, config, interface).expect("as many nodes as ranks");
    let start = processor_seconds();
    let report = job.run(program).expect("the pattern ends");
    let seconds = processor_seconds() - start;
    let bytes = resident().saturating_sub(before);
    assert_eq!(report.totals.sent, report.totals.received);
    Sample { seconds, messages: report.totals.sent, events: simulation.events(), ranks, bytes }
}

/// Processor time of the process, user and system, in steps of 10 ms (Linux).
fn processor_seconds() -> f64 {
    stat_ticks(&[11, 12]) as f64 / 100.0
}

/// The sum of these fields of the process's `stat`, counted from 0 after its name.
fn stat_ticks(fields: &[usize]) -> u64 {
    let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain blanks.
    let words: Vec<&str> = text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let field = |&field: &usize| words.get(field).and_then(|word| word.parse::<u64>().ok());
    fields.iter().filter_map(field).sum()
}

/// The resident memory of the process in bytes (Linux).
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

/// Each rank sends 1 KiB to the next rank and receives from the previous one.
fn ring(model: Box<dyn NetworkModel>, ranks: u32, steps: u32) -> Sample {
    measure(model, ranks, move |rank| async move {
        let (me, size) = (rank.rank(), rank.size());
        for _ in 0..steps {
            let incoming = rank.irecv(Some((me + size - 1) % size), Some(0));
            let outgoing = rank.isend((me + 1) % size, 0, 1024).expect("a rank of the job");
            incoming.await;
            outgoing.await;
        }
    })
}

/// The seed of the simulations.
const SEED: u64 = 1;

/// Each rank sends 1 KiB to random ranks at random times, `mean` ns apart, and receives any
/// message.
fn random(model: Box<dyn NetworkModel>, ranks: u32, messages: u32, mean: f64) -> Sample {
    let expected = Rc::new(expected_messages(ranks, messages));
    measure(model, ranks, move |rank| {
        let expected = expected[rank.rank() as usize];
        async move {
            let mut random = rank.sim().random(u64::from(rank.rank()));
            for _ in 0..messages {
                rank.sleep(Time::from_picoseconds((random.exponential(mean) * 1e3) as u64)).await;
                let to = random.below(u64::from(rank.size())) as u32;
                drop(rank.isend(to, 0, 1024).expect("a rank of the job"));
            }
            for _ in 0..expected {
                rank.recv(None, None).await;
            }
        }
    })
}

/// The number of messages that each rank receives in the random pattern, drawn as the ranks draw
/// them.
fn expected_messages(ranks: u32, messages: u32) -> Vec<u32> {
    let mut counts = vec![0; ranks as usize];
    for from in 0..ranks {
        let mut random = Random::stream(SEED, u64::from(from));
        for _ in 0..messages {
            random.exponential(1.0);
            counts[random.below(u64::from(ranks)) as usize] += 1;
        }
    }
    counts
}

/// A 3-D halo exchange with all six neighbours of a torus of ranks.
fn halo(model: Box<dyn NetworkModel>, sizes: [u32; 3], steps: u32) -> Sample {
    let ranks = sizes.iter().product();
    let neighbours = Grid::torus(&sizes);
    let neighbours = Rc::new(neighbours);
    measure(model, ranks, move |rank| {
        let neighbours = Rc::clone(&neighbours);
        async move {
            for _ in 0..steps {
                let others =
                    |d, up| neighbours.neighbour(rank.rank(), d, up).unwrap_or(rank.rank());
                let mut incoming = Vec::with_capacity(6);
                for d in 0..3 {
                    for up in [false, true] {
                        incoming.push(
                            rank.irecv(Some(others(d, !up)), Some(d as i32 * 2 + i32::from(up))),
                        );
                    }
                }
                for d in 0..3 {
                    for up in [false, true] {
                        let tag = d as i32 * 2 + i32::from(up);
                        drop(rank.isend(others(d, up), tag, 8_192).expect("a rank of the job"));
                    }
                }
                drop(rank.wait_all(&mut incoming).await);
                rank.compute(Time::from_nanoseconds(10_000));
            }
        }
    })
}

/// An allreduce of 8 bytes by recursive doubling. Ranks beyond the largest power of two give their
/// data to a partner first and get the result last. (`coll` does the same, but this layer does not
/// know it.)
fn allreduce(model: Box<dyn NetworkModel>, ranks: u32) -> Sample {
    let power = 1 << ranks.ilog2();
    measure(model, ranks, move |rank| async move {
        let me = rank.rank();
        let send = |to: u32| rank.isend(to, 0, 8).expect("a rank of the job");
        if me >= power {
            drop(send(me - power));
            rank.recv(Some(me - power), Some(0)).await;
            return;
        }
        if me + power < ranks {
            rank.recv(Some(me + power), Some(0)).await;
        }
        for round in 0..power.ilog2() {
            let peer = me ^ 1 << round;
            drop(send(peer));
            rank.recv(Some(peer), Some(0)).await;
        }
        if me + power < ranks {
            drop(send(me + power));
        }
    })
}
