//! Two solvers as simulated programs: the heat equation step by step, and conjugate gradients.
//!
//! They send the same messages as the examples `heat` and `cg`: edges of blocks to four neighbours
//! in every step, and one number from all to all. If messages carry bytes, they really compute, on
//! a plane that is closed in both directions, and check their answers: a wave decays by a known
//! factor, and a system of equations with a known solution is solved. With lengths only, a block is
//! a length, and the memory for their tasks limits the number of ranks.
//!
//! ```text
//!        +-----+-----+        a block of `side` x `side` cells a rank; edges of 8 `side` bytes
//!        |  2  |  3  |        to the ranks at the left, right, above, below
//!        +-----+-----+
//!        |  0  |  1  |        `per_cell`: what a cell of a step costs the processor
//!        +-----+-----+
//! ```

use std::f64::consts::TAU;
use std::rc::Rc;

use hikyaku_coll::{Choices, CollError, Group, Reduction, allreduce};
use hikyaku_nic::time::Time;
use hikyaku_sim::SimError;
use hikyaku_sim::job::{Content, Payload, Rank};
use hikyaku_sim::program::balanced;
use hikyaku_sim::topology::Grid;
use thiserror::Error;

use super::rank::SimulatedRank;

/// A plane cut into square blocks, one per rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plane {
    /// Cells along each side of a block; at least one.
    pub side: u32,
    /// Steps of the heat equation, or the maximum number of iterations of conjugate gradients.
    pub steps: u32,
    /// Steps between two checks of the largest change, for the heat equation; at least one.
    pub check_every: u32,
    /// The computing time of a rank for a cell in a step.
    pub per_cell: Time,
}

/// The reason why a solver did not give its answer.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum PlaneError {
    /// A message failed.
    #[error(transparent)]
    Message(#[from] SimError),
    /// A reduction failed.
    #[error(transparent)]
    Reduction(#[from] CollError<SimError>),
    /// A number is wrong: a fault of the simulator.
    #[error("rank {rank}: a cell is {found} where {expected} belongs")]
    Wrong {
        /// The rank with the cell.
        rank: u32,
        /// The value found.
        found: f64,
        /// The value expected.
        expected: f64,
    },
}

/// Fraction of a cell's temperature that goes to each neighbour in a step.
const RATIO: f64 = 0.2;

/// Added to the diagonal, so that the system has one solution.
const SHIFT: f64 = 0.5;

/// Relative residual at which conjugate gradients stop, and the required exactness of answers.
const TOLERANCE: f64 = 1e-10;
const EXACT: f64 = 1e-7;

/// Steps a wave through the heat equation. All ranks check the largest change now and then.
///
/// # Errors
/// A message failed, or the wave has not decayed as expected.
pub async fn heat(rank: Rank, plane: Plane) -> Result<(), PlaneError> {
    let part = FramedBlock::new(rank, plane);
    let wave = |part: &FramedBlock, x: u32, y: u32| {
        let angle = |at: u32, extent: u32| TAU * f64::from(at) / f64::from(extent);
        1.0 + angle(x, part.extent[0]).cos() * angle(y, part.extent[1]).cos()
    };
    let mut current = part.cells(|x, y| wave(&part, x, y));
    for step in 1..=plane.steps {
        let phase = part.rank().enter("step");
        part.edges(&mut current).await?;
        let next = part.stencil(&current, |middle, around| {
            middle + RATIO * (around.iter().sum::<f64>() - 4.0 * middle)
        });
        part.compute();
        if step % plane.check_every == 0 || step == plane.steps {
            let change = current.iter().zip(&next).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
            part.largest(change).await?;
        }
        current = next;
        drop(phase);
    }
    // The step keeps this fraction of each wave number (the stencil's eigenvalue).
    let loss = |extent: u32| 2.0 * (1.0 - (TAU / f64::from(extent)).cos());
    let kept = 1.0 - RATIO * (loss(part.extent[0]) + loss(part.extent[1]));
    let decayed = kept.powi(plane.steps as i32);
    part.check(&current, |x, y| 1.0 + decayed * (wave(&part, x, y) - 1.0))
}

/// Solves a system of equations with a known solution by conjugate gradients.
///
/// # Errors
/// A message failed, or the solution is not the known one.
pub async fn conjugate_gradients(rank: Rank, plane: Plane) -> Result<(), PlaneError> {
    let part = FramedBlock::new(rank, plane);
    let known = |x: u32, y: u32| f64::from((x.wrapping_mul(31) ^ y.wrapping_mul(17)) % 64) / 64.0;
    let mut solution = part.cells(known);
    let b = part.multiply(&mut solution).await?;
    let mut x = part.cells(|_, _| 0.0);
    let (mut r, mut p) = (b.clone(), b.clone());
    let mut rr = part.dot(&r, &r).await?;
    let enough = rr * TOLERANCE * TOLERANCE;
    for _ in 0..plane.steps {
        if part.carries && rr <= enough {
            break;
        }
        let iteration = part.rank().enter("iteration");
        let q = part.multiply(&mut p).await?;
        let alpha = rr / part.dot(&p, &q).await?;
        add(&mut x, alpha, &p);
        add(&mut r, -alpha, &q);
        let before = std::mem::replace(&mut rr, part.dot(&r, &r).await?);
        let beta = rr / before;
        p.iter_mut().zip(&r).for_each(|(p, r)| *p = r + beta * *p);
        drop(iteration);
    }
    match rr <= enough {
        true => part.check(&x, known),
        // With too few iterations there is no answer to check.
        false => Ok(()),
    }
}

fn add(to: &mut [f64], factor: f64, other: &[f64]) {
    to.iter_mut().zip(other).for_each(|(to, other)| *to += factor * other);
}

/// The faces of a block: dimension, upward, and the tag of messages in that direction.
const FACES: [(usize, bool, i32); 4] =
    [(0, false, 201), (0, true, 202), (1, false, 203), (1, true, 204)];

/// One rank's block, with a frame for its neighbours' edges if messages carry bytes.
struct FramedBlock {
    bytes: SimulatedRank<u8>,
    lengths: SimulatedRank<()>,
    carries: bool,
    plane: Plane,
    grid: Rc<Grid>,
    /// The extent of the whole plane in cells.
    extent: [u32; 2],
    /// The coordinates of the block's first cell.
    first: [u32; 2],
}

impl FramedBlock {
    fn new(rank: Rank, plane: Plane) -> FramedBlock {
        let blocks = balanced(rank.size(), 2);
        let (me, across) = (rank.rank(), blocks[0]);
        let side = plane.side.max(1);
        let plane = Plane { side, check_every: plane.check_every.max(1), ..plane };
        FramedBlock {
            carries: rank.payload() == Payload::Carried,
            bytes: SimulatedRank::new(rank.clone()),
            lengths: SimulatedRank::new(rank),
            plane,
            extent: [across * side, blocks[1] * side],
            first: [me % across * side, me / across * side],
            grid: Rc::new(Grid::torus(&blocks)),
        }
    }

    fn rank(&self) -> &Rank {
        self.bytes.rank()
    }

    /// Cells in a row, the frame included.
    fn width(&self) -> usize {
        self.plane.side as usize + 2
    }

    /// The cells of the block with its frame; empty with lengths only.
    fn cells(&self, at: impl Fn(u32, u32) -> f64) -> Vec<f64> {
        let mut cells = vec![0.0; if self.carries { self.width() * self.width() } else { 0 }];
        for (place, (x, y)) in self.inner().zip(self.places()) {
            cells[place] = at(x, y);
        }
        cells
    }

    /// Indices of the block's own cells within the frame, row by row; none with lengths only.
    fn inner(&self) -> impl Iterator<Item = usize> + use<> {
        let (side, width) = (self.plane.side as usize, self.width());
        let rows = 1..=if self.carries { side } else { 0 };
        rows.flat_map(move |y| (1..=side).map(move |x| y * width + x))
    }

    /// The coordinates of those cells in the plane.
    fn places(&self) -> impl Iterator<Item = (u32, u32)> + use<> {
        let ([left, top], side) = (self.first, self.plane.side);
        (0..side).flat_map(move |y| (0..side).map(move |x| (left + x, top + y)))
    }

    /// Receives the neighbours' edges into the frame.
    async fn edges(&self, cells: &mut [f64]) -> Result<(), SimError> {
        let rank = self.rank();
        let (side, width) = (self.plane.side as usize, self.width());
        let other = |d, up| self.grid.neighbour(rank.rank(), d, up).unwrap_or(rank.rank());
        // A column or a row of the block, or of the frame outside it.
        let line = |d: usize, at: usize| -> Vec<usize> {
            let place = |along: usize| if d == 0 { along * width + at } else { at * width + along };
            (1..=side).map(place).collect()
        };
        let incoming: Vec<_> =
            FACES.iter().map(|&(d, up, tag)| rank.irecv(Some(other(d, !up)), Some(tag))).collect();
        let mut outgoing = Vec::with_capacity(FACES.len());
        for &(d, up, tag) in &FACES {
            let edge = line(d, if up { side } else { 1 });
            let values: Vec<f64> = edge.iter().filter_map(|&at| cells.get(at)).copied().collect();
            let content = match self.carries {
                true => Content::Bytes(bytemuck::cast_slice(&values)),
                false => Content::Length(8 * side as u64),
            };
            outgoing.push(rank.isend(other(d, up), tag, content)?);
        }
        for (request, &(d, up, _)) in incoming.into_iter().zip(&FACES) {
            let message = request.await;
            let values = message.data.as_deref().unwrap_or_default().chunks_exact(8);
            for (at, bytes) in line(d, if up { 0 } else { side + 1 }).into_iter().zip(values) {
                cells[at] = f64::from_le_bytes(bytes.try_into().expect("chunks of eight"));
            }
        }
        for request in outgoing {
            request.await;
        }
        Ok(())
    }

    /// Computes every cell from itself and its four neighbours; the frame of the result is zero.
    fn stencil(&self, cells: &[f64], at: impl Fn(f64, [f64; 4]) -> f64) -> Vec<f64> {
        let (mut out, width) = (vec![0.0; cells.len()], self.width());
        for place in self.inner() {
            let around = [place - 1, place + 1, place - width, place + width];
            out[place] = at(cells[place], around.map(|place| cells[place]));
        }
        out
    }

    /// Spends the processor time of a step.
    fn compute(&self) {
        let cells = u64::from(self.plane.side) * u64::from(self.plane.side);
        let span = self.plane.per_cell.picoseconds().saturating_mul(cells);
        self.rank().compute(Time::from_picoseconds(span));
    }

    /// Multiplies the matrix of the system by a vector.
    async fn multiply(&self, vector: &mut [f64]) -> Result<Vec<f64>, PlaneError> {
        self.edges(vector).await?;
        self.compute();
        let row =
            |middle: f64, around: [f64; 4]| (4.0 + SHIFT) * middle - around.iter().sum::<f64>();
        Ok(self.stencil(vector, row))
    }

    async fn dot(&self, one: &[f64], other: &[f64]) -> Result<f64, PlaneError> {
        let here = self.inner().map(|place| one[place] * other[place]).sum();
        self.reduce(here, |left, right| left + right).await
    }

    async fn largest(&self, here: f64) -> Result<f64, PlaneError> {
        self.reduce(here, f64::max).await
    }

    /// Reduces one number over all ranks; 1 with lengths only.
    async fn reduce(&self, here: f64, with: fn(f64, f64) -> f64) -> Result<f64, PlaneError> {
        let algorithm = Choices::default().allreduce;
        if !self.carries {
            let nothing = Reduction::commutative(8, |_: &[()], _: &mut [()]| {});
            allreduce(&self.lengths, algorithm, &mut [(); 8], nothing).await?;
            return Ok(1.0);
        }
        let number = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let combine = |left: &[u8], right: &mut [u8]| {
            right.copy_from_slice(&with(number(left), number(right)).to_le_bytes());
        };
        let mut bytes = here.to_le_bytes();
        allreduce(&self.bytes, algorithm, &mut bytes, Reduction::commutative(8, combine)).await?;
        Ok(number(&bytes))
    }

    /// Compares the block with the expected values.
    fn check(&self, cells: &[f64], at: impl Fn(u32, u32) -> f64) -> Result<(), PlaneError> {
        for (place, (x, y)) in self.inner().zip(self.places()) {
            let (found, expected) = (cells[place], at(x, y));
            let right = (found - expected).abs() <= EXACT * (1.0 + expected.abs());
            if !right {
                let rank = Group::rank(&self.bytes);
                return Err(PlaneError::Wrong { rank, found, expected });
            }
        }
        Ok(())
    }
}
