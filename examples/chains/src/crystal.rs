//! Molecular dynamics of a crystal: every atom is tied to its 26 neighbours, across the ends too.
//!
//! A rank has a block of atoms, surrounded by a layer of its neighbours' atoms. In each step it
//! puts its outermost atoms directly into those layers: one put per row of them, which is three
//! numbers long at an end of the contiguous dimension. Two layers alternate: a rank that has all
//! atoms of a step knows that its neighbours have read those of the step before.

use hikyaku::{Error, Window};

use crate::exchange::{Exchange, Put};
use crate::grid::Grid;

const STEPS: usize = 4;
/// Stiffness of the springs between atoms, and the time step.
const STIFFNESS: f64 = 0.1;
const STEP: f64 = 0.25;

type Vector = [f64; 3];

/// Atoms of a block with a layer around it: the displacement of each, and its velocity.
struct Atoms {
    /// Size without the layer; the first dimension is contiguous.
    extent: [usize; 3],
    away: Vec<f64>,
    speed: Vec<Vector>,
}

impl Atoms {
    /// At rest, with each atom displaced; the block begins at `start` of a crystal of `side` atoms.
    fn new(extent: [usize; 3], start: [usize; 3], side: usize) -> Atoms {
        let count = extent.iter().map(|atoms| atoms + 2).product::<usize>();
        let mut atoms = Atoms { extent, away: vec![0.0; 3 * count], speed: Vec::new() };
        atoms.speed = vec![[0.0; 3]; count];
        for place in places([1; 3], extent.map(|last| last + 1)) {
            let of = |axis: usize| (start[axis] + place[axis] - 1) % side;
            let seed = (of(2) * side + of(1)) * side + of(0);
            let push = |axis: usize| ((seed * 31 + axis * 17) % 101) as f64 / 1010.0 - 0.05;
            let at = atoms.at(place);
            (0..3).for_each(|axis| atoms.away[at + axis] = push(axis));
        }
        atoms
    }

    /// The index of an atom's first number; place 0 is in the layer.
    fn at(&self, [x, y, z]: [usize; 3]) -> usize {
        3 * ((z * (self.extent[1] + 2) + y) * (self.extent[0] + 2) + x)
    }

    fn vector(&self, place: [usize; 3]) -> Vector {
        let at = self.at(place);
        [self.away[at], self.away[at + 1], self.away[at + 2]]
    }

    /// The force on an atom: springs whose rest length is the distance of the atoms' places. The
    /// order of the sum is that of the neighbours, whichever rank computes it.
    fn force(&self, place: [usize; 3]) -> Vector {
        let (own, mut force) = (self.vector(place), [0.0; 3]);
        for side in sides() {
            let other = self.vector([0, 1, 2].map(|axis| place[axis] + side[axis] - 1));
            let rest = side.map(|step| step as f64 - 1.0);
            let apart = [0, 1, 2].map(|axis| rest[axis] + other[axis] - own[axis]);
            let squared = |vector: Vector| vector.iter().map(|part| part * part).sum::<f64>();
            let pull = STIFFNESS * (squared(apart) - squared(rest));
            (0..3).for_each(|axis| force[axis] += pull * apart[axis]);
        }
        force
    }

    /// A step of all atoms of the block, with the present layer.
    fn advance(&mut self) {
        let inner = || places([1; 3], self.extent.map(|last| last + 1));
        let forces: Vec<_> = inner().map(|place| (self.at(place), self.force(place))).collect();
        for (at, force) in forces {
            let speed = &mut self.speed[at / 3];
            for axis in 0..3 {
                speed[axis] += STEP * force[axis];
                self.away[at + axis] += STEP * speed[axis];
            }
        }
    }
}

/// Places from one corner up to another, exclusive.
fn places(from: [usize; 3], to: [usize; 3]) -> impl Iterator<Item = [usize; 3]> {
    let plane =
        move |z| (from[1]..to[1]).flat_map(move |y| (from[0]..to[0]).map(move |x| [x, y, z]));
    (from[2]..to[2]).flat_map(plane)
}

/// The neighbours' places; 1 is the own place in each dimension.
fn sides() -> impl Iterator<Item = [usize; 3]> {
    places([0; 3], [3; 3]).filter(|side| *side != [1; 3])
}

/// Along one dimension: the first atom for a side, the number of atoms, and their destination.
fn strip(side: usize, atoms: usize) -> (usize, usize, usize) {
    match side {
        0 => (1, 1, atoms + 1),
        1 => (1, atoms, 1),
        _ => (atoms, 1, 0),
    }
}

/// Moves the atoms some steps; returns whether each is where one rank alone puts it.
pub(crate) fn run(exchange: &mut Exchange<'_>, grid: &Grid, side: usize) -> Result<bool, Error> {
    let world = exchange.world;
    let place = grid.place(world.rank());
    let extent = [0, 1, 2].map(|axis| grid.cells(axis));
    let start = [0, 1, 2].map(|axis| place[axis] * extent[axis]);
    let mut atoms = Atoms::new(extent, start, side);
    let layers: [Window<'_, f64>; 2] =
        [world.window(atoms.away.len())?, world.window(atoms.away.len())?];
    let neighbour = |side: [usize; 3]| {
        let along = |axis: usize| {
            let ranks = grid.ranks[axis];
            (place[axis] + ranks + side[axis] - 1) % ranks
        };
        grid.rank([0, 1, 2].map(along))
    };
    let mut sources: Vec<u32> = sides().map(neighbour).collect();
    sources.sort_unstable();
    sources.dedup();
    for step in 0..STEPS {
        let layer = &layers[step % 2];
        let away = std::mem::take(&mut atoms.away);
        let mut puts: Vec<Put<'_>> = Vec::new();
        for side in sides() {
            let [x, y, z] = [0, 1, 2].map(|axis| strip(side[axis], extent[axis]));
            for row in places([0; 3], [1, y.1, z.1]) {
                let at = atoms.at([x.0, y.0 + row[1], z.0 + row[2]]);
                let to = atoms.at([x.2, y.2 + row[1], z.2 + row[2]]);
                puts.push((neighbour(side), to, &away[at..at + 3 * x.1]));
            }
        }
        if step == 0 {
            world.barrier()?;
        }
        exchange.step(layer, &puts, &sources)?;
        let around = layer.local()?;
        atoms.away = away;
        for place in places([0; 3], extent.map(|last| last + 2)) {
            let is_inner = (0..3).all(|axis| (1..=extent[axis]).contains(&place[axis]));
            if !is_inner {
                let at = atoms.at(place);
                atoms.away[at..at + 3].copy_from_slice(&around[at..at + 3]);
            }
        }
        atoms.advance();
    }
    world.barrier()?;
    let all = alone(side);
    let is_right = |inner: [usize; 3]| {
        atoms.vector(inner) == all.vector([0, 1, 2].map(|axis| start[axis] + inner[axis]))
    };
    Ok(places([1; 3], extent.map(|last| last + 1)).all(is_right))
}

/// The whole crystal, by one rank alone.
fn alone(side: usize) -> Atoms {
    let mut atoms = Atoms::new([side; 3], [0; 3], side);
    for _ in 0..STEPS {
        for place in places([0; 3], [side + 2; 3]) {
            let (at, from) =
                (atoms.at(place), atoms.at(place.map(|at| (at + side - 1) % side + 1)));
            atoms.away.copy_within(from..from + 3, at);
        }
        atoms.advance();
    }
    atoms
}
