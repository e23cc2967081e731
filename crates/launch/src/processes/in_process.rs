//! All ranks of a job in virtual time in one process: for tests of the fabric, and for programs
//! whose ranks are threads.
//!
//! Which rank runs cannot be controlled here: one thread may hold several ports, or each has one.
//! So requests are served in order of arrival, and everything in flight is completed before the
//! answer: time passes, and messages take the same path as between processes, but ranks are not
//! held back until their turn.

use std::cell::RefCell;
use std::rc::Rc;
use std::thread;

use hikyaku_nic::time::Time;
use hikyaku_shm::{CostBySize, JobConfig, JobError, LineCosts, ShmPort, Stage, open_conducted};
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{MemoryPath, PacketFormat, PlainInterface};
use hikyaku_sim::network::{LogGp, LogGpParameters, Network, Rate};
use hikyaku_sim::port::{Config, MachineConductor};

use super::ENVELOPE_BYTES;
use super::ranks::AsTheyCome;

/// Opens the ports of all ranks on a network of one microsecond and 10 GB/s between nodes, a tenth
/// of that latency within.
///
/// # Errors
/// There cannot be such a job, or no memory for it.
pub fn open_ports(config: &JobConfig) -> Result<Vec<ShmPort>, JobError> {
    open_conducted(config, |stage| {
        let ns = Time::from_nanoseconds;
        let costs = LineCosts {
            send: CostBySize::of(|_| ns(50)),
            chained: CostBySize::of(|_| ns(10)),
            receive: CostBySize::of(|_| ns(20)),
            look: ns(20),
            copy: ns(100),
            near: ns(100),
            at_once: true,
            ..LineCosts::default()
        };
        stage.set_costs(&costs);
        // Ends with its ranks.
        let _ = thread::spawn(move || conduct(stage));
    })
}

fn conduct(stage: Stage) {
    let (ranks, rate) = (stage.ranks(), Rate::bytes_per_second(10e9));
    let nodes = stage.node_of(ranks - 1) + 1;
    let simulation = Simulation::new(0);
    let latency = Time::from_nanoseconds(1_000);
    let model = LogGp::new(nodes, LogGpParameters { latency, gap: Time::ZERO, rate });
    let network = Network::new(&simulation, Box::new(model));
    let carrier = PlainInterface::new(&simulation, network, PacketFormat::WHOLE);
    let memory = MemoryPath { latency: Time::from_nanoseconds(100), rate };
    let config = Config { memory, envelope_bytes: ENVELOPE_BYTES };
    let running = Rc::new(RefCell::new(vec![true; ranks as usize]));
    let ranks = AsTheyCome { stage: Rc::new(stage), running, answered: Rc::default() };
    let as_they_come = ranks.clone();
    let AsTheyCome { stage, running, .. } = &as_they_come;
    let Ok(conductor) = MachineConductor::new(&simulation, ranks, carrier, config) else { return };
    while conductor.traffic().iter().any(|rank| !rank.gone) {
        let whose = |rank: u32| running.borrow()[rank as usize];
        let Some((rank, handed)) = stage.await_any(whose) else { return };
        running.borrow_mut()[rank as usize] = false;
        let served = conductor.serve(rank, handed.now, handed.request);
        as_they_come.go_on();
        if served.is_err() {
            return;
        }
    }
}
