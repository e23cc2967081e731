//! Persistent halo exchanges (paper 002's FAST and MRC) on CP-PACS's network (paper 004).

use std::cell::RefCell;
use std::rc::Rc;

use hikyaku_report::{Axis, Cell, LineChart, Unit};
use hikyaku_sim::engine::{Simulation, TaskName};
use hikyaku_sim::machine::{Interface, Machine};
use hikyaku_sim::model::cppacs::Tcw;
use hikyaku_sim::model::tofu2::{Costs, DescriptorCommand, TofuQueueAddress, TofuSystem};
use hikyaku_sim::topology::{Grid, Node};

use super::{WhatIfAnswer, crossing, draw, lengths, tabulate};
use crate::Machines;
use crate::p002::program::{self, MappingNumbers};
use crate::p004::partition::ProgramRun;

const EXTENT: [u32; 3] = [4, 8, 8];
const NODES: u32 = 256;
const NEIGHBOURS: usize = 6;

/// The numbers of iterations: the first ones warm up, the others are averaged.
const WARM: u64 = 2;
const TIMED: u64 = 3;

/// The mapping of the neighbours to queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HaloScheme {
    /// A queue for each neighbour, dealt over the engines.
    Fast,
    /// One queue for all.
    Mrc,
}

/// A queue of a node, the commands written into it at each start, and the number of its events.
type Part = (TofuQueueAddress, Vec<DescriptorCommand>, u64);

/// The neighbours of a node in the torus: down and up along each dimension.
fn neighbours(node: Node) -> [Node; NEIGHBOURS] {
    let grid = Grid::torus(&EXTENT);
    std::array::from_fn(|face| {
        let next = grid.neighbour(node, face / 2, face % 2 == 1);
        next.expect("a torus has no edge")
    })
}

/// Tofu2's queues and engines with CP-PACS's links and switches.
fn costs() -> (Machine, Costs) {
    let machines = Machines::stored();
    let cp_pacs = machines.get("cp-pacs").clone();
    let Interface::Tofu2(tofu) = machines.get("fx100-tofu2").interface.clone() else {
        unreachable!("the file says which interface it describes")
    };
    let rate = cp_pacs.links.rate;
    (cp_pacs, Costs { rate, link: rate, ..*tofu })
}

/// The time of a persistent exchange, which is set up once, in seconds.
fn persistent(scheme: HaloScheme, bytes: u64) -> f64 {
    let (machine, costs) = costs();
    let simulation = Simulation::new(0x4a10);
    let system = TofuSystem::new(&simulation, &costs, machine.network(&simulation));
    let ends = Rc::new(RefCell::new(Vec::new()));
    for (node, parts) in (0..).zip(parts(&system, &costs, scheme, bytes)) {
        let (sim, system) = (simulation.clone(), system.clone());
        let ends = (node == 0).then(|| Rc::clone(&ends));
        simulation.spawn(TaskName { kind: "node", index: node }, async move {
            for iteration in 1..=WARM + TIMED {
                system.software().await;
                for (queue, program, _) in &parts {
                    system.start(*queue, program).await;
                }
                for (queue, program, events) in &parts {
                    let completions = iteration * program.len() as u64;
                    system.wait(*queue, completions, iteration * events).await;
                }
                if let Some(ends) = &ends {
                    ends.borrow_mut().push(sim.now().seconds());
                }
            }
        });
    }
    simulation.run().expect("the mappings of the paper do not deadlock");
    mean(&ends.borrow())
}

/// Opens the queues of all nodes and writes their programs.
fn parts(system: &TofuSystem, costs: &Costs, scheme: HaloScheme, bytes: u64) -> Vec<Vec<Part>> {
    let open = |node, engine, slots, offset| {
        system.open(node, engine, slots, Some(offset)).expect("each engine has twelve queues")
    };
    // A face from the neighbour below was sent upwards: faces are opposite in pairs.
    let opposite = |face: usize| face ^ 1;
    match scheme {
        HaloScheme::Fast => {
            let fast = MappingNumbers::FAST;
            let engine = |face: usize| face as u32 % costs.engines as u32;
            let queues: Vec<[TofuQueueAddress; NEIGHBOURS]> = (0..NODES)
                .map(|node| std::array::from_fn(|face| open(node, engine(face), 8, fast.offset)))
                .collect();
            let part = |node: Node, face: usize| {
                let to = queues[neighbours(node)[face] as usize][opposite(face)];
                (queues[node as usize][face], program::fast(fast, to, bytes), 1)
            };
            (0..NODES).map(|node| (0..NEIGHBOURS).map(|face| part(node, face)).collect()).collect()
        }
        HaloScheme::Mrc => {
            let mrc = MappingNumbers::mrc(NEIGHBOURS as u32);
            let queues: Vec<TofuQueueAddress> =
                (0..NODES).map(|node| open(node, 0, 64, mrc.offset)).collect();
            let part = |node: Node| {
                let to = neighbours(node).map(|other| queues[other as usize]);
                let own = queues[node as usize];
                (own, program::mrc(mrc, own, &to, bytes), NEIGHBOURS as u64)
            };
            (0..NODES).map(|node| vec![part(node)]).collect()
        }
    }
}

/// The time of an exchange with CP-PACS's own means, in seconds: six TCWs in a chain, or a start
/// for each.
fn remote_dma(chained: bool, bytes: u64) -> f64 {
    let run = ProgramRun::new(&Machines::stored());
    let ends = Rc::new(RefCell::new(Vec::new()));
    for node in 0..NODES {
        let (system, sim) = (run.system(), run.sim());
        let ends = (node == 0).then(|| Rc::clone(&ends));
        run.node(node, async move {
            for iteration in 1..=WARM + TIMED {
                let tcw = |to| Tcw { to, bytes, area: 0 };
                let chain: Vec<Tcw> = neighbours(node).into_iter().map(tcw).collect();
                match chained {
                    true => system.start(node, chain).await,
                    false => {
                        for tcw in chain {
                            system.start(node, vec![tcw]).await;
                        }
                    }
                }
                system.receive(node, 0, iteration * NEIGHBOURS as u64).await;
                if let Some(ends) = &ends {
                    ends.borrow_mut().push(sim.now().seconds());
                }
            }
        });
    }
    run.time();
    mean(&ends.borrow())
}

fn mean(ends: &[f64]) -> f64 {
    let (first, last) = (ends[WARM as usize - 1], ends[(WARM + TIMED) as usize - 1]);
    (last - first) / TIMED as f64
}

pub(super) fn run() -> WhatIfAnswer {
    let sizes = lengths(3, 15, 3);
    let time = |run: &dyn Fn(u64) -> f64| -> Vec<f64> { sizes.iter().map(|&b| run(b)).collect() };
    let curves = [
        ("CP-PACS, a start for each message", time(&|bytes| remote_dma(false, bytes))),
        ("CP-PACS, one TCW chain", time(&|bytes| remote_dma(true, bytes))),
        ("MRC, one queue", time(&|bytes| persistent(HaloScheme::Mrc, bytes))),
        ("FAST, six queues on four engines", time(&|bytes| persistent(HaloScheme::Fast, bytes))),
    ];
    let points: Vec<f64> = sizes.iter().map(|&bytes| bytes as f64).collect();
    let chart = LineChart::new(
        "Halo exchange with six neighbours, 256 nodes",
        Axis::log2("bytes of a face", Unit::Bytes),
        Axis::log10("time of an exchange", Unit::Seconds),
    );
    let chart = draw(chart, &points, &curves);
    let heads = points.iter().map(|&bytes| Cell::number(bytes, Unit::Bytes));
    let table = tabulate("Time of an exchange", ("bytes", heads), &curves, Unit::Seconds);
    let ratio = |place: usize| curves[1].1[place] / curves[3].1[place];
    let overtakes = match crossing(&sizes, &curves[3].1, &curves[2].1) {
        Some(bytes) => format!("MRC overtakes FAST from {} on.", Unit::Bytes.format(bytes as f64)),
        None => "FAST is ahead of MRC at every length.".to_owned(),
    };
    WhatIfAnswer {
        setup: "Tofu2's engines, queues and host steps (fx100-tofu2) on CP-PACS's hyper-crossbar \
                4 x 8 x 8 with its links of 300 MB/s, its switches of 100 ns and its wormhole \
                routing, beside CP-PACS's own adaptor. On a hyper-crossbar a neighbour exchange \
                has no conflict (paper 004 §2.2). Both directions of a dimension are neighbours, \
                also where they are the same node."
            .into(),
        findings: vec![
            format!(
                "Against one TCW chain, which pays a light system call and no synchronisation with \
                 its receivers, FAST is {:.2} times as fast with 8 B and {:.2} times with 32 KiB.",
                ratio(0),
                ratio(sizes.len() - 1)
            ),
            overtakes,
            "A CP-PACS node has one link into its exchanger: FAST's four engines and six queues \
             share it, so long faces take as long in every way of sending them, less the gap \
             that CP-PACS's adaptor leaves between packets."
                .into(),
        ],
        charts: vec![chart.into()],
        tables: vec![table],
    }
}
