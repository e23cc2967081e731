//! IS: integer sort by counting. The timed part calls collectives only; the library chooses the
//! messages within those. The one message of the program itself is in its verification: the largest
//! key goes to the next rank.

use hikyaku::{Error, Op, World};

/// Keys of each rank.
const KEYS: usize = 1024;
/// Keys are below this times the number of ranks: every rank sorts this many values.
const VALUES: u32 = 256;

pub(crate) fn run(world: &World) -> Result<bool, Error> {
    let (rank, size) = (world.rank(), world.size());
    let range = VALUES * size;
    let mut seed = u64::from(rank) * 2 + 1;
    let mut parts: Vec<Vec<u32>> = vec![Vec::new(); size as usize];
    for _ in 0..KEYS {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = (seed >> 33) as u32 % range;
        parts[(key / VALUES) as usize].push(key);
    }
    let given: Vec<u32> = parts.iter().map(|part| part.len() as u32).collect();
    let mut got = vec![0; size as usize];
    world.alltoall(&given, &mut got)?;
    let mut received: Vec<Vec<u32>> = got.iter().map(|count| vec![0; *count as usize]).collect();
    let parts: Vec<&[u32]> = parts.iter().map(Vec::as_slice).collect();
    world.alltoallv(&parts, received.iter_mut().map(Vec::as_mut_slice).collect())?;
    let mut counts = vec![0_usize; VALUES as usize];
    let own = rank * VALUES;
    received.iter().flatten().for_each(|key| counts[(key - own) as usize] += 1);
    let values = (own..).zip(&counts);
    let sorted: Vec<u32> =
        values.flat_map(|(key, count)| std::iter::repeat_n(key, *count)).collect();
    let mut total = [sorted.len() as u64];
    world.allreduce(&mut total, Op::Sum)?;
    // A rank without keys passes on the bound of those below it.
    let largest = sorted.last().copied().unwrap_or(own);
    if rank + 1 < size {
        world.send(&[largest], rank + 1, 0)?;
    }
    let mut below = [0];
    if rank > 0 {
        world.recv(&mut below, rank - 1, 0)?;
    }
    let in_order = sorted.first().is_none_or(|first| below[0] <= *first);
    Ok(in_order && total[0] == KEYS as u64 * u64::from(size))
}
