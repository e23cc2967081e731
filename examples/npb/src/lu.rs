//! LU: wavefronts over pencils of a grid. Plane by plane a rank gets the edges of its northern and
//! western neighbours, computes, and passes its own on to the south and the east; then backwards.

use hikyaku::{Error, World};

use crate::side;

/// Points of a pencil along a side, and planes.
const POINTS: usize = 8;
const PLANES: usize = 16;
/// Unknowns of a point.
const UNKNOWNS: usize = 5;

type Point = [u64; UNKNOWNS];

/// A point of the grid before anything is computed.
fn first(x: usize, y: usize, z: usize) -> Point {
    std::array::from_fn(|unknown| ((x * 7 + y * 5 + z * 3 + unknown) % 11) as u64)
}

/// A pencil, or the whole grid, as planes of rows.
struct Pencil {
    /// Points in x and y.
    side: usize,
    points: Vec<Point>,
}

impl Pencil {
    fn new(side: usize, (x, y): (usize, usize)) -> Pencil {
        let at = |index: usize| {
            let (column, row) = (index % side, index / side % side);
            first(x + column, y + row, index / (side * side))
        };
        Pencil { side, points: (0..side * side * PLANES).map(at).collect() }
    }

    fn index(&self, x: usize, y: usize, z: usize) -> usize {
        (z * self.side + y) * self.side + x
    }

    /// One plane of a sweep: each point gets those behind it, in all three directions. `north` and
    /// `west` are edges of the neighbours behind; `forward` is away from the origin.
    fn sweep(&mut self, z: usize, forward: bool, north: &[u64], west: &[u64]) {
        let side = self.side;
        let turned = |at: usize| if forward { at } else { side - 1 - at };
        for y in 0..side {
            for x in 0..side {
                let at = self.index(turned(x), turned(y), z);
                let mut sum = self.points[at];
                let mut add = |from: &[u64]| {
                    sum.iter_mut().zip(from).for_each(|(sum, add)| *sum = sum.wrapping_add(*add));
                };
                match x {
                    0 => add(edge(west, turned(y))),
                    _ => add(&self.points[self.index(turned(x - 1), turned(y), z)]),
                }
                match y {
                    0 => add(edge(north, turned(x))),
                    _ => add(&self.points[self.index(turned(x), turned(y - 1), z)]),
                }
                let behind = if forward { z.checked_sub(1) } else { Some(z + 1) };
                if let Some(z) = behind.filter(|z| *z < PLANES) {
                    add(&self.points[self.index(turned(x), turned(y), z)]);
                }
                self.points[at] = sum;
            }
        }
    }

    /// The edge of a plane that lies ahead in x or in y.
    fn ahead(&self, z: usize, forward: bool, in_x: bool) -> Vec<u64> {
        let last = if forward { self.side - 1 } else { 0 };
        let at = |along: usize| match in_x {
            true => self.index(last, along, z),
            false => self.index(along, last, z),
        };
        (0..self.side).flat_map(|along| self.points[at(along)]).collect()
    }
}

/// A point of an edge; empty at the border of the grid.
fn edge(edge: &[u64], at: usize) -> &[u64] {
    edge.get(at * UNKNOWNS..(at + 1) * UNKNOWNS).unwrap_or(&[])
}

/// Planes in the order of a sweep.
fn planes(forward: bool) -> impl Iterator<Item = usize> {
    (0..PLANES).map(move |z| if forward { z } else { PLANES - 1 - z })
}

pub(crate) fn run(world: &World) -> Result<bool, Error> {
    let (side, rank) = (side(world.size()), world.rank() as usize);
    let (row, column) = (rank / side, rank % side);
    let mut pencil = Pencil::new(POINTS, (column * POINTS, row * POINTS));
    for forward in [true, false] {
        let behind = |at: usize| if forward { at.checked_sub(1) } else { Some(at + 1) };
        let ahead = |at: usize| if forward { Some(at + 1) } else { at.checked_sub(1) };
        let inside = |at: &usize| *at < side;
        let north = behind(row).filter(inside).map(|row| (row * side + column) as u32);
        let west = behind(column).filter(inside).map(|column| (row * side + column) as u32);
        let south = ahead(row).filter(inside).map(|row| (row * side + column) as u32);
        let east = ahead(column).filter(inside).map(|column| (row * side + column) as u32);
        for z in planes(forward) {
            let from_north = hear(world, north)?;
            let from_west = hear(world, west)?;
            pencil.sweep(z, forward, &from_north, &from_west);
            if let Some(south) = south {
                world.send(&pencil.ahead(z, forward, false), south, 0)?;
            }
            if let Some(east) = east {
                world.send(&pencil.ahead(z, forward, true), east, 0)?;
            }
        }
    }
    Ok(pencil.points == alone(side, (column * POINTS, row * POINTS)))
}

/// Receives an edge from a neighbour, if there is one.
fn hear(world: &World, from: Option<u32>) -> Result<Vec<u64>, Error> {
    let Some(from) = from else { return Ok(Vec::new()) };
    let mut edge = vec![0; POINTS * UNKNOWNS];
    world.recv(&mut edge, from, 0)?;
    Ok(edge)
}

/// The result of one rank alone: the pencil from a point on.
fn alone(side: usize, (x, y): (usize, usize)) -> Vec<Point> {
    let mut grid = Pencil::new(side * POINTS, (0, 0));
    for forward in [true, false] {
        planes(forward).for_each(|z| grid.sweep(z, forward, &[], &[]));
    }
    let part = |index: usize| {
        let (column, row) = (index % POINTS, index / POINTS % POINTS);
        grid.points[grid.index(x + column, y + row, index / (POINTS * POINTS))]
    };
    (0..POINTS * POINTS * PLANES).map(part).collect()
}
