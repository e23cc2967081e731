//! A halo exchange: a rod in pieces. Each rank needs the outermost cells of its two neighbours, and
//! computes the cells that do not need them meanwhile. The borrow checker allows the overlap: the
//! exchange reads `mine` and writes `ends`, the computation reads `mine` and writes `new`.

use hikyaku::World;

const CELLS: usize = 1_000;
const STEPS: usize = 100;

/// A cell after a step, from its neighbours and itself.
fn cell(left: f64, here: f64, right: f64) -> f64 {
    here + 0.25 * (left - 2.0 * here + right)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::init()?;
    let (rank, size) = (world.rank(), world.size());
    let (left, right) = ((rank + size - 1) % size, (rank + 1) % size);
    let last = CELLS - 1;
    let mut mine: Vec<f64> = (0..CELLS).map(|at| ((at + rank as usize) % 10) as f64).collect();
    let mut new = mine.clone();
    let mut ends = [[0.0], [0.0]];
    for _ in 0..STEPS {
        let [from_left, from_right] = &mut ends;
        world.scope(|scope| {
            scope.irecv(from_left, left, 0)?;
            scope.irecv(from_right, right, 1)?;
            scope.isend(&mine[last..], right, 0)?;
            scope.isend(&mine[..1], left, 1)?;
            for at in 1..last {
                new[at] = cell(mine[at - 1], mine[at], mine[at + 1]);
            }
            scope.wait_all()
        })?;
        new[0] = cell(ends[0][0], mine[0], mine[1]);
        new[last] = cell(mine[last - 1], mine[last], ends[1][0]);
        std::mem::swap(&mut mine, &mut new);
    }
    // The rod is a ring, so no heat is lost.
    let mut heat = [mine.iter().sum::<f64>()];
    world.allreduce(&mut heat, hikyaku::Op::Sum)?;
    if rank == 0 {
        println!("{STEPS} steps of {} cells: heat {:.3}", CELLS * size as usize, heat[0]);
    }
    Ok(())
}
