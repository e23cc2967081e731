//! The solver's own rows and products on thousands of simulated ranks: as many iterations and the
//! same solution as the serial program, up to the rounding of sums taken in another order.

#![allow(clippy::unwrap_used)]

use std::rc::Rc;

use cg::csr::Csr;
use cg::local::Local;
use cg::partition::Partition;
use cg::serial::{self, dot};
use hikyaku_cli::simulated::SimulatedRank;
use hikyaku_coll::{Reduction, allreduce};
use hikyaku_nic::time::Time;
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{Content, Job, JobConfig, Rank};
use hikyaku_sim::machine::Machine;

const TOLERANCE: f64 = 1e-9;

/// A matrix, its partition, and the right side.
struct Problem {
    matrix: Csr,
    partition: Partition,
    b: Vec<f64>,
}

impl Problem {
    /// The five-point matrix of a plane, made definite, with some links across.
    fn new(side: u32, ranks: u32) -> Problem {
        let mut entries = Vec::new();
        let cells = side * side;
        for cell in 0..cells {
            let (x, y) = (cell % side, cell / side);
            let right = (x + 1 < side).then_some(cell + 1);
            let below = (y + 1 < side).then_some(cell + side);
            let across = (cell % 37 == 0 && cell + 501 < cells).then_some(cell + 501);
            entries.push((cell, cell, 6.5));
            for other in [right, below, across].into_iter().flatten() {
                entries.extend([(cell, other, -1.0), (other, cell, -1.0)]);
            }
        }
        let matrix = Csr::from_entries(cells as usize, entries).unwrap();
        let partition = Partition::new(&matrix, ranks);
        let b = (0..cells).map(|cell| f64::from(cell % 13) - 5.0).collect();
        Problem { matrix, partition, b }
    }
}

/// One rank's part: the same as `solver::solve`, in virtual time. Returns its rows of the solution,
/// and the residuals.
async fn solve(rank: Rank, problem: Rc<Problem>) -> (Vec<f64>, Vec<f64>) {
    let Problem { matrix, partition, b } = &*problem;
    let mine = partition.rows(rank.rank());
    let (lengths, columns, values) = matrix.parts(mine.clone());
    let rows = Csr::from_parts(&lengths, columns.to_vec(), values.to_vec()).unwrap();
    let local = Local::new(&rows, partition, rank.rank());
    let group = SimulatedRank::<u8>::new(rank);
    let mut x = vec![0.0; mine.len()];
    let mut r = b[mine].to_vec();
    let (mut p, mut q) = (r.clone(), x.clone());
    let mut rr = sum(&group, dot(&r, &r)).await;
    let norm = rr.sqrt();
    let mut residuals = vec![1.0];
    while rr.sqrt() > TOLERANCE * norm && residuals.len() < 200 {
        multiply(group.rank(), &local, &p, &mut q).await;
        let alpha = rr / sum(&group, dot(&p, &q)).await;
        x.iter_mut().zip(&p).for_each(|(x, p)| *x += alpha * p);
        r.iter_mut().zip(&q).for_each(|(r, q)| *r -= alpha * q);
        let before = std::mem::replace(&mut rr, sum(&group, dot(&r, &r)).await);
        p.iter_mut().zip(&r).for_each(|(p, r)| *p = r + rr / before * *p);
        residuals.push(rr.sqrt() / norm);
    }
    (x, residuals)
}

/// `out = matrix · x` with the entries of the neighbours.
async fn multiply(rank: &Rank, local: &Local, x: &[f64], out: &mut [f64]) {
    let incoming: Vec<_> =
        local.neighbours.iter().map(|n| rank.irecv(Some(n.rank), Some(-1))).collect();
    for neighbour in &local.neighbours {
        let entries = neighbour.entries.iter().map(|entry| x[*entry as usize]);
        let bytes: Vec<u8> = entries.flat_map(f64::to_le_bytes).collect();
        drop(rank.isend(neighbour.rank, -1, Content::Bytes(&bytes)).unwrap());
    }
    local.own.multiply(x, out, false);
    rank.compute(Time::from_nanoseconds(local.own.entries() as u64));
    let mut ghosts = vec![0.0; local.received()];
    for (request, neighbour) in incoming.into_iter().zip(&local.neighbours) {
        let data = request.await.data.unwrap();
        let numbers = data.chunks_exact(8).map(|n| f64::from_le_bytes(n.try_into().unwrap()));
        ghosts[neighbour.receives.clone()].iter_mut().zip(numbers).for_each(|(g, n)| *g = n);
    }
    local.others.multiply(&ghosts, out, true);
}

async fn sum(group: &SimulatedRank<u8>, here: f64) -> f64 {
    let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
    let add = Reduction::commutative(8, |left: &[u8], right: &mut [u8]| {
        right.copy_from_slice(&(number(left) + number(right)).to_le_bytes());
    });
    let mut bytes = here.to_le_bytes();
    allreduce(group, None, &mut bytes, add).await.unwrap();
    number(&bytes)
}

#[test]
fn a_thousand_simulated_ranks_solve_as_the_serial_program_does() {
    let machine = include_str!("../../../machines/fat-tree-200g.toml");
    for (ranks, side) in [(1, 20), (7, 25), (1_000, 60)] {
        let machine = Machine::parse("machine", machine).unwrap().with_nodes(ranks).unwrap();
        let (simulation, problem) = (Simulation::new(1), Rc::new(Problem::new(side, ranks)));
        let carrier = machine.install(&simulation).carrier;
        let job = Job::new(&simulation, JobConfig::new(ranks), carrier).unwrap();
        let report = job.run(|rank| solve(rank, Rc::clone(&problem))).unwrap();
        let expected = serial::solve(&problem.matrix, &problem.b, TOLERANCE, 200).unwrap();
        let residuals = &report.results[0].1;
        assert_eq!(residuals.len(), expected.residuals.len(), "{ranks} ranks");
        assert!(report.results.iter().all(|(_, other)| other == residuals), "the same bits");
        let x = report.results.iter().flat_map(|(x, _)| x);
        for (found, expected) in x.zip(&expected.x) {
            assert!((found - expected).abs() < 1e-8, "{ranks} ranks: {found} {expected}");
        }
    }
}
