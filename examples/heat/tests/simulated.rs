//! The solver's own blocks and edges on thousands of simulated ranks: the field is bitwise the
//! serial program's, with which `ranks.rs` compares real ranks.

#![allow(clippy::unwrap_used)]

use std::rc::Rc;

use heat::block::FieldBlock;
use heat::config::HeatPlan;
use heat::field::{Decomposition, Field};
use heat::serial;
use hikyaku_cli::simulated::SimulatedRank;
use hikyaku_coll::{Reduction, allreduce};
use hikyaku_nic::time::Time;
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{Content, Job, JobConfig, Rank};
use hikyaku_sim::machine::Machine;

/// The data that every rank knows: the plan, the decomposition, and the field at the start.
struct Problem {
    plan: HeatPlan,
    grid: Decomposition,
    start: Field,
}

impl Problem {
    fn new(ranks: u32, size: [usize; 2], frame: Option<f64>) -> Problem {
        let start = Field::from_fn(size, |[x, y]| ((x * 31 + y * 17) % 101) as f64);
        let (dt, steps, check_every) = (0.15, 30, 8);
        let plan = HeatPlan { size, dt, frame, steps, check_every, ..HeatPlan::default() };
        Problem { plan, grid: Decomposition::new(size, ranks), start }
    }
}

/// One rank's part: the same as `exchange::solve`, in virtual time. Returns the last change and the
/// block.
async fn solve(rank: Rank, problem: Rc<Problem>) -> (f64, Field) {
    let Problem { plan, grid, start } = &*problem;
    let me = rank.rank();
    let field = start.cut(&grid.tile(me));
    let mut block = FieldBlock::new(&field, grid, me, plan);
    let edges = block.edges.clone();
    let mut out = vec![0.0; edges.last().map_or(0, |edge| edge.range.end)];
    let (mut into, group) = (out.clone(), SimulatedRank::<u8>::new(rank.clone()));
    let mut change = 0.0;
    for step in 1..=plan.steps {
        block.pack(&mut out);
        let incoming = edges.iter().map(|edge| rank.irecv(Some(edge.rank), Some(TAG)));
        let incoming: Vec<_> = incoming.collect();
        for edge in &edges {
            let numbers = out[edge.range.clone()].iter();
            let bytes: Vec<u8> = numbers.flat_map(|n| n.to_le_bytes()).collect();
            drop(rank.isend(edge.rank, TAG, Content::Bytes(&bytes)).unwrap());
        }
        block.interior();
        rank.compute(Time::from_nanoseconds(field.cells.len() as u64));
        for (request, edge) in incoming.into_iter().zip(&edges) {
            let data = request.await.data.unwrap();
            let numbers = data.chunks_exact(8).map(|n| f64::from_le_bytes(n.try_into().unwrap()));
            into[edge.range.clone()].iter_mut().zip(numbers).for_each(|(place, n)| *place = n);
        }
        block.unpack(&into);
        block.rim();
        if plan.checks_in(step) {
            change = largest(&group, block.largest_change()).await;
        }
        block.advance();
    }
    (change, block.field())
}

/// Tag of an edge: between two ranks there is one per step.
const TAG: i32 = 1;

async fn largest(group: &SimulatedRank<u8>, here: f64) -> f64 {
    let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
    let greater = Reduction::commutative(8, |left: &[u8], right: &mut [u8]| {
        right.copy_from_slice(&number(left).max(number(right)).to_le_bytes());
    });
    let mut bytes = here.to_le_bytes();
    allreduce(group, None, &mut bytes, greater).await.unwrap();
    number(&bytes)
}

/// Solves on this many simulated ranks of a machine and serially, and compares.
fn compare(machine: &str, ranks: u32, problem: Problem) {
    let machine = Machine::parse("machine", machine).unwrap().with_nodes(ranks).unwrap();
    let (simulation, problem) = (Simulation::new(1), Rc::new(problem));
    let carrier = machine.install(&simulation).carrier;
    let job = Job::new(&simulation, JobConfig::new(ranks), carrier).unwrap();
    let report = job.run(|rank| solve(rank, Rc::clone(&problem))).unwrap();
    let Problem { plan, grid, start } = &*problem;
    let mut field = Field::filled(plan.size, f64::NAN);
    for (tile, (change, block)) in grid.tiles().zip(&report.results) {
        assert_eq!(*change, report.results[0].0, "all ranks agree on the change");
        field.paste(&tile, &block.cells);
    }
    let (expected, steps) = serial::solve(start, plan);
    assert_eq!(steps, plan.steps);
    assert_eq!(expected.first_difference(&field), None, "{} ranks", ranks);
    assert!(report.end > Time::ZERO);
}

const CP_PACS: &str = include_str!("../../../machines/cp-pacs.toml");
const FAT_TREE: &str = include_str!("../../../machines/fat-tree-200g.toml");

#[test]
fn a_thousand_simulated_ranks_compute_the_serial_field() {
    compare(FAT_TREE, 1_000, Problem::new(1_000, [90, 70], None));
}

#[test]
fn planes_are_the_same_on_other_machines() {
    compare(CP_PACS, 12, Problem::new(12, [23, 17], Some(3.0)));
    // More ranks than cells: some have none.
    compare(CP_PACS, 30, Problem::new(30, [5, 4], Some(0.0)));
}
