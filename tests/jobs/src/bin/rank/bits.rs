//! One collective operation in every form that Rust has, and a digest of what came of it.
//!
//! Which operations, lengths and forms is said by the words, which come from the table
//! `tests/jobs/bits.txt`. The same program is there in C and in Python. What a rank gives follows
//! from its number alone, and digests are added up over the ranks, so any two programs can be
//! compared.

use hikyaku::{Error, Op, Persistent, World};
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

/// The forms by the names that the table gives them.
const FORMS: [(&str, Form); 4] = [
    ("blocking", Form::Blocking),
    ("started", Form::Started),
    ("persistent", Form::Persistent),
    (LATE, Form::Persistent),
];

/// Persistent operations that start when others have all channels of lines.
const LATE: &str = "late";

/// More operations than there are channels of lines for, even if a channel is passed over now and
/// then because a rank is late in giving it back.
const HOLDERS: u32 = 2 * GroupLayout::DEFAULT.channels;

/// Calls an operation with so many elements a rank; gives what this rank has of the result.
type Call = fn(&World, Form, usize) -> Result<Vec<f64>, Error>;

const OPERATIONS: [(&str, Call); 12] = [
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

/// What a persistent operation gives: twice the same, whether it is waited for or tested.
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

/// What this rank gives, so many elements.
fn mine(world: &World, length: usize) -> Vec<f64> {
    values(world.rank(), length)
}

/// The same with so many for each rank.
fn for_each(world: &World, length: usize) -> Vec<f64> {
    mine(world, world.size() as usize * length)
}

/// The last rank: a tree that begins anywhere else than at rank 0 adds in another order.
fn root(world: &World) -> u32 {
    world.size() - 1
}

/// What counts where only the root has a result.
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

/// Each rank's part is longer by one than that of the rank before it.
fn reduce_scatter(world: &World, form: Form, length: usize) -> Result<Vec<f64>, Error> {
    let counts: Vec<usize> = (length..length + world.size() as usize).collect();
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
