//! One collective operation in every form of the Rust API, and a digest of the result.
//!
//! The words name operations, lengths and forms; they come from the table `tests/jobs/bits.txt`.
//! The same program exists in C and in Python. A rank's contribution follows from its number alone,
//! and digests are added up over the ranks, so any two programs can be compared.

use hikyaku::topology::Reorder;
use hikyaku::{Error, Layout, Op, Persistent, World};
use hikyaku_jobs::bits::{digest, values};
use hikyaku_nic::segment::GroupLayout;

/// How an operation is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Blocking,
    /// Started in a scope and waited for.
    Started,
    Persistent,
}

/// The forms by their names in the table.
const FORMS: [(&str, Form); 4] = [
    ("blocking", Form::Blocking),
    ("started", Form::Started),
    ("persistent", Form::Persistent),
    (LATE, Form::Persistent),
];

/// Persistent operations that start when others have all channels of shared lines.
const LATE: &str = "late";

/// More operations than there are channels of shared lines, even if a channel is sometimes passed
/// over because a rank is late in freeing it.
const HOLDERS: u32 = 2 * GroupLayout::DEFAULT.channels;

/// Calls an operation with this many elements per rank; returns this rank's part of the result.
type Call = fn(&World, Form, usize) -> Result<Vec<f64>, Error>;

const OPERATIONS: [(&str, Call); 25] = [
    ("barrier", barrier),
    ("broadcast", broadcast),
    ("reduce", reduce),
    ("allreduce", allreduce),
    ("gather", gather),
    ("scatter", scatter),
    ("allgather", allgather),
    ("alltoall", alltoall),
    ("reduce_scatter", reduce_scatter),
    ("reduce_scatter_block", reduce_scatter_block),
    ("scan", scan),
    ("exscan", exscan),
    ("gatherv", gatherv),
    ("scatterv", scatterv),
    ("allgatherv", allgatherv),
    ("alltoallv", alltoallv),
    ("alltoallw", alltoallw),
    ("allgather_in_place", allgather_in_place),
    ("alltoall_in_place", alltoall_in_place),
    ("alltoallw_in_place", alltoallw_in_place),
    ("neighbour_allgather", |world, form, length| edges(world, form, Edges::Allgather, length)),
    ("neighbour_allgatherv", |world, form, length| edges(world, form, Edges::Allgatherv, length)),
    ("neighbour_alltoall", |world, form, length| edges(world, form, Edges::Alltoall, length)),
    ("neighbour_alltoallv", |world, form, length| edges(world, form, Edges::Alltoallv, length)),
    ("neighbour_alltoallw", |world, form, length| edges(world, form, Edges::Alltoallw, length)),
];

/// `bits OPERATIONS LENGTHS FORMS`, each a list with commas. Writes a line for each combination:
/// form, operation, length, digest.
pub(crate) fn run(world: &World, words: &[String]) -> Result<(), Error> {
    let [_, operations, lengths, forms] = words else { panic!("{words:?}") };
    let mut holders = Vec::new();
    for name in forms.split(',') {
        let form = named(&FORMS, name);
        if name == LATE {
            for _ in 0..HOLDERS {
                let mut holder = world.barrier_init();
                holder.start()?;
                holder.wait()?;
                holders.push(holder);
            }
        }
        for operation in operations.split(',') {
            let call = named(&OPERATIONS, operation);
            for length in lengths.split(',') {
                let result = call(world, form, length.parse().unwrap())?;
                let digest = digest(world.rank(), &result);
                println!("{name} {operation} {length} {digest:016x}");
            }
        }
    }
    Ok(())
}

fn named<T: Copy>(table: &[(&str, T)], name: &str) -> T {
    table.iter().find(|(known, _)| *known == name).unwrap_or_else(|| panic!("no {name}")).1
}

/// The result of a persistent operation: the same twice, whether it is waited for or tested.
fn twice<B: Clone + PartialEq>(mut operation: Persistent<B>) -> Result<B, Error> {
    let given = operation.buffers()?.clone();
    operation.start()?;
    operation.wait()?;
    let first = operation.buffers()?.clone();
    operation.buffers_mut()?.clone_from(&given);
    operation.start()?;
    let _ = operation.test()?;
    operation.wait()?;
    assert!(*operation.buffers()? == first, "the second start gave something else");
    Ok(first)
}

/// This rank's contribution of `length` elements.
fn mine(world: &World, length: usize) -> Vec<f64> {
    values(world.rank(), length)
}

/// The same with `length` elements for each rank.
fn for_each(world: &World, length: usize) -> Vec<f64> {
    mine(world, world.size() as usize * length)
}

/// Different lengths of the ranks' parts: each is longer by one than the one before it.
fn rising(world: &World, length: usize) -> Vec<usize> {
    (length..length + world.size() as usize).collect()
}

/// Lengths of a rank's parts for the other ranks: equal to the lengths of their parts for it.
fn mutual(world: &World, length: usize) -> Vec<usize> {
    rising(world, length + world.rank() as usize)
}

/// This rank's contribution, in parts of these lengths.
fn parts(world: &World, lengths: &[usize]) -> Vec<Vec<f64>> {
    let mut rest = mine(world, lengths.iter().sum()).into_iter();
    lengths.iter().map(|length| rest.by_ref().take(*length).collect()).collect()
}

fn zeros(lengths: &[usize]) -> Vec<Vec<f64>> {
    lengths.iter().map(|length| vec![0.0; *length]).collect()
}

fn slices(parts: &[Vec<f64>]) -> Vec<&[f64]> {
    parts.iter().map(Vec::as_slice).collect()
}

fn slices_mut(parts: &mut [Vec<f64>]) -> Vec<&mut [f64]> {
    parts.iter_mut().map(Vec::as_mut_slice).collect()
}

/// Parts one after the other, with an element at every `stride`-th place.
fn spread(lengths: &[usize], stride: usize) -> Vec<Layout> {
    let mut start = 0;
    let part = |length: &usize| {
        start += length * stride;
        Layout::vector(start - length * stride, *length, 1, stride)
    };
    lengths.iter().map(part).collect()
}

/// The root is the last rank: a tree that begins elsewhere than at rank 0 adds in another order.
fn root(world: &World) -> u32 {
    world.size() - 1
}

/// The result that counts if only the root has one.
fn at_root(world: &World, result: Vec<f64>) -> Vec<f64> {
    if world.rank() == root(world) { result } else { Vec::new() }
}

fn barrier(world: &World, form: Form, _: usize) -> Result<Vec<f64>, Error> {
    match form {
        Form::Blocking => world.barrier()?,
        Form::Started => world.scope(|scope| scope.ibarrier().wait())?,
        Form::Persistent => twice(world.barrier_init())?,
    }
    Ok(Vec::new())
}

fn broadcast(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let (mut data, root) = (mine(world, length), root(world));
    match form {
        Form::Blocking => world.broadcast(&mut data, root)?,
        Form::Started => world.scope(|scope| scope.ibroadcast(&mut data, root).wait())?,
        Form::Persistent => data = twice(world.broadcast_init(data, root))?,
    }
    Ok(data)
}

fn reduce(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let (mut data, root) = (mine(world, length), root(world));
    match form {
        Form::Blocking => world.reduce(&mut data, Op::Sum, root)?,
        Form::Started => world.scope(|scope| scope.ireduce(&mut data, Op::Sum, root).wait())?,
        Form::Persistent => data = twice(world.reduce_init(data, Op::Sum, root))?,
    }
    Ok(at_root(world, data))
}

fn allreduce(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let mut data = mine(world, length);
    match form {
        Form::Blocking => world.allreduce(&mut data, Op::Sum)?,
        Form::Started => world.scope(|scope| scope.iallreduce(&mut data, Op::Sum).wait())?,
        Form::Persistent => data = twice(world.allreduce_init(data, Op::Sum))?,
    }
    Ok(data)
}

fn gather(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let (data, root) = (mine(world, length), root(world));
    let mut all = at_root(world, vec![0.0; world.size() as usize * length]);
    match form {
        Form::Blocking => world.gather_into(&data, &mut all, root)?,
        Form::Started => world.scope(|scope| scope.igather_into(&data, &mut all, root).wait())?,
        Form::Persistent => all = twice(world.gather_into_init(data, all, root))?.1,
    }
    Ok(all)
}

fn scatter(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let (all, root) = (at_root(world, for_each(world, length)), root(world));
    let mut part = vec![0.0; length];
    match form {
        Form::Blocking => world.scatter(&all, &mut part, root)?,
        Form::Started => world.scope(|scope| scope.iscatter(&all, &mut part, root).wait())?,
        Form::Persistent => part = twice(world.scatter_init(all, part, root))?.1,
    }
    Ok(part)
}

fn allgather(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let (data, mut all) = (mine(world, length), vec![0.0; world.size() as usize * length]);
    match form {
        Form::Blocking => world.allgather(&data, &mut all)?,
        Form::Started => world.scope(|scope| scope.iallgather(&data, &mut all).wait())?,
        Form::Persistent => all = twice(world.allgather_init(data, all))?.1,
    }
    Ok(all)
}

fn alltoall(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let data = for_each(world, length);
    let mut came = vec![0.0; data.len()];
    match form {
        Form::Blocking => world.alltoall(&data, &mut came)?,
        Form::Started => world.scope(|scope| scope.ialltoall(&data, &mut came).wait())?,
        Form::Persistent => came = twice(world.alltoall_init(data, came))?.1,
    }
    Ok(came)
}

fn reduce_scatter(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let counts = rising(world, length);
    let mut data = mine(world, counts.iter().sum());
    let mut part = vec![0.0; counts[world.rank() as usize]];
    match form {
        Form::Blocking => world.reduce_scatter(&mut data, &mut part, &counts, Op::Sum)?,
        Form::Started => world
            .scope(|scope| scope.ireduce_scatter(&mut data, &mut part, counts, Op::Sum).wait())?,
        Form::Persistent => {
            part = twice(world.reduce_scatter_init(data, part, counts, Op::Sum))?.1;
        }
    }
    Ok(part)
}

fn reduce_scatter_block(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let (mut data, mut part) = (for_each(world, length), vec![0.0; length]);
    match form {
        Form::Blocking => world.reduce_scatter_block(&mut data, &mut part, Op::Sum)?,
        Form::Started => world
            .scope(|scope| scope.ireduce_scatter_block(&mut data, &mut part, Op::Sum).wait())?,
        Form::Persistent => {
            part = twice(world.reduce_scatter_block_init(data, part, Op::Sum))?.1;
        }
    }
    Ok(part)
}

fn scan(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let mut data = mine(world, length);
    match form {
        Form::Blocking => world.scan(&mut data, Op::Sum)?,
        Form::Started => world.scope(|scope| scope.iscan(&mut data, Op::Sum).wait())?,
        Form::Persistent => data = twice(world.scan_init(data, Op::Sum))?,
    }
    Ok(data)
}

fn exscan(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let mut data = mine(world, length);
    match form {
        Form::Blocking => world.exscan(&mut data, Op::Sum)?,
        Form::Started => world.scope(|scope| scope.iexscan(&mut data, Op::Sum).wait())?,
        Form::Persistent => data = twice(world.exscan_init(data, Op::Sum))?,
    }
    Ok(data)
}

fn gatherv(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let (lengths, root) = (rising(world, length), root(world));
    let data = mine(world, lengths[world.rank() as usize]);
    let mut blocks = if world.rank() == root { zeros(&lengths) } else { Vec::new() };
    match form {
        Form::Blocking => world.gatherv_into(&data, slices_mut(&mut blocks), root)?,
        Form::Started => {
            let into = slices_mut(&mut blocks);
            world.scope(|scope| scope.igatherv_into(&data, into, root).wait())?;
        }
        Form::Persistent => blocks = twice(world.gatherv_into_init(data, blocks, root))?.1,
    }
    Ok(blocks.concat())
}

fn scatterv(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let (lengths, root) = (rising(world, length), root(world));
    let mut part = vec![0.0; lengths[world.rank() as usize]];
    let all = if world.rank() == root { parts(world, &lengths) } else { Vec::new() };
    match form {
        Form::Blocking => world.scatterv(&slices(&all), &mut part, root)?,
        Form::Started => {
            world.scope(|scope| scope.iscatterv(slices(&all), &mut part, root).wait())?;
        }
        Form::Persistent => part = twice(world.scatterv_init(all, part, root))?.1,
    }
    Ok(part)
}

fn allgatherv(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let counts = rising(world, length);
    let data = mine(world, counts[world.rank() as usize]);
    let mut all = vec![0.0; counts.iter().sum()];
    match form {
        Form::Blocking => world.allgatherv(&data, &mut all, &counts)?,
        Form::Started => world.scope(|scope| scope.iallgatherv(&data, &mut all, counts).wait())?,
        Form::Persistent => all = twice(world.allgatherv_init(data, all, counts))?.1,
    }
    Ok(all)
}

fn alltoallv(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let lengths = mutual(world, length);
    let (data, mut came) = (parts(world, &lengths), zeros(&lengths));
    match form {
        Form::Blocking => world.alltoallv(&slices(&data), slices_mut(&mut came))?,
        Form::Started => {
            let into = slices_mut(&mut came);
            world.scope(|scope| scope.ialltoallv(slices(&data), into).wait())?;
        }
        Form::Persistent => came = twice(world.alltoallv_init(data, came))?.1,
    }
    Ok(came.concat())
}

/// From every second place into every third.
fn alltoallw(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let lengths = mutual(world, length);
    let (parts, places) = (spread(&lengths, 2), spread(&lengths, 3));
    let sum: usize = lengths.iter().sum();
    let (data, mut came) = (mine(world, 2 * sum), vec![0.0; 3 * sum]);
    match form {
        Form::Blocking => world.alltoallw(&data, &parts, &mut came, &places)?,
        Form::Started => {
            world.scope(|scope| scope.ialltoallw(&data, &parts, &mut came, &places).wait())?;
        }
        Form::Persistent => {
            came = twice(world.alltoallw_init(data, &parts, came, &places))?.1;
        }
    }
    Ok(came)
}

fn allgather_in_place(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let mut all = vec![0.0; world.size() as usize * length];
    all[world.rank() as usize * length..][..length].copy_from_slice(&mine(world, length));
    match form {
        Form::Blocking => world.allgather_in_place(&mut all)?,
        Form::Started => world.scope(|scope| scope.iallgather_in_place(&mut all).wait())?,
        Form::Persistent => all = twice(world.allgather_in_place_init(all))?,
    }
    Ok(all)
}

fn alltoall_in_place(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let mut data = for_each(world, length);
    match form {
        Form::Blocking => world.alltoall_in_place(&mut data)?,
        Form::Started => world.scope(|scope| scope.ialltoall_in_place(&mut data).wait())?,
        Form::Persistent => data = twice(world.alltoall_in_place_init(data))?,
    }
    Ok(data)
}

/// At every second place.
fn alltoallw_in_place(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let lengths = mutual(world, length);
    let layouts = spread(&lengths, 2);
    let mut data = mine(world, 2 * lengths.iter().sum::<usize>());
    match form {
        Form::Blocking => world.alltoallw_in_place(&mut data, &layouts)?,
        Form::Started => {
            world.scope(|scope| scope.ialltoallw_in_place(&mut data, &layouts).wait())?;
        }
        Form::Persistent => data = twice(world.alltoallw_in_place_init(data, &layouts))?,
    }
    Ok(data)
}

/// The exchanges between neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edges {
    Allgather,
    Allgatherv,
    Alltoall,
    Alltoallv,
    /// From every second place into every third.
    Alltoallw,
}

/// Blocking calls of neighbours: short blocks use letters from the fifth call on.
const CALLS: usize = 6;

/// Both neighbours of a ring exchange. Persistent exchanges use layouts for all operations.
fn edges(world: &World, form: Form, edges: Edges, length: usize) -> Result<Vec<f64>, Error> {
    let ring = world.cartesian(&[world.size()], &[true], Reorder::Keep)?;
    let ring = ring.expect("every rank is in it");
    let own = world.rank() as usize;
    let others = ring.sources().iter().map(|link| link.rank.expect("no border") as usize);
    let received: Vec<usize> = match edges {
        Edges::Allgather | Edges::Alltoall => vec![length; 2],
        Edges::Allgatherv => others.map(|other| length + other).collect(),
        Edges::Alltoallv | Edges::Alltoallw => others.map(|other| length + own + other).collect(),
    };
    let (out_stride, stride) = if edges == Edges::Alltoallw { (2, 3) } else { (1, 1) };
    let sends = match edges {
        Edges::Allgather => vec![Layout::contiguous(0, length); 2],
        Edges::Allgatherv => vec![Layout::contiguous(0, length + own); 2],
        _ => spread(&received, out_stride),
    };
    let out = mine(world, sends.iter().map(Layout::end).max().unwrap_or(0));
    let mut into = vec![0.0; received.iter().sum::<usize>() * stride];
    let receives = spread(&received, stride);
    let ranges = |layouts: &[Layout]| layouts.iter().filter_map(Layout::as_range).collect();
    let (out_ranges, ranges): (Vec<_>, Vec<_>) = (ranges(&sends), ranges(&receives));
    match form {
        Form::Blocking => {
            for _ in 0..CALLS {
                into.fill(0.0);
                match edges {
                    Edges::Allgather => ring.neighbour_allgather(&out, &mut into)?,
                    Edges::Allgatherv => ring.neighbour_allgatherv(&out, &mut into, &ranges)?,
                    Edges::Alltoall => ring.neighbour_alltoall(&out, &mut into)?,
                    Edges::Alltoallv => {
                        ring.neighbour_alltoallv(&out, &out_ranges, &mut into, &ranges)?;
                    }
                    Edges::Alltoallw => {
                        ring.neighbour_alltoallw(&out, &sends, &mut into, &receives)?;
                    }
                }
            }
        }
        Form::Started => world.scope(|scope| {
            let (ring, out, into) = (&ring, &out[..], &mut into[..]);
            let request = match edges {
                Edges::Allgather => scope.ineighbour_allgather(ring, out, into),
                Edges::Allgatherv => scope.ineighbour_allgatherv(ring, out, into, &ranges),
                Edges::Alltoall => scope.ineighbour_alltoall(ring, out, into),
                Edges::Alltoallv => {
                    scope.ineighbour_alltoallv(ring, out, &out_ranges, into, &ranges)
                }
                Edges::Alltoallw => scope.ineighbour_alltoallw(ring, out, &sends, into, &receives),
            };
            request?.wait()
        })?,
        Form::Persistent => {
            let mut exchange = ring.neighbour_alltoallw_init::<f64>(&sends, &receives)?;
            for _ in 0..2 {
                into.fill(0.0);
                exchange.start_from(&out)?;
                exchange.wait_into(&mut into)?;
            }
        }
    }
    Ok(into)
}
