//! A forked child of a rank's process is not a rank: its calls fail and change nothing.

use std::process::ExitCode;

use hikyaku::persistent::{Neighbour, Neighbours};
use hikyaku::{ANY_SOURCE, ANY_TAG, Error, Op, Shared, Window, World};

/// The exit code of a child whose calls all failed as expected.
const CHILD: u8 = 7;

/// Both ranks have a message to take, rank 0 holds two variables, and rank 1's request for one of
/// them is in flight, when each forks a child that tries everything. Afterwards the state is as
/// before.
pub(crate) fn run(world: &World) -> Result<ExitCode, Error> {
    let (me, other) = (world.rank(), 1 - world.rank());
    let (held, free) = (world.shared::<u64>("held", &[4])?, world.shared::<u64>("free", &[4])?);
    let wanted = world.shared::<u64>("wanted", &[1])?;
    let (window, sign) = (world.window::<u64>(2)?, world.window::<u64>(1)?);
    let edge = || vec![Neighbour { rank: other, elements: 0..1 }];
    let edges = Neighbours { sources: edge(), destinations: edge(), ..Neighbours::default() };
    let mut exchange = world.staged_exchange_init::<u64>(&edges)?;
    let mut buffer = world.alloc::<u8>(1 << 20)?;
    buffer.fill(me as u8 + 1);
    let guard = (me == 0).then(|| held.write()).transpose()?;
    let mine = (me == 0).then(|| wanted.write()).transpose()?;
    world.send(&[me], other, 5)?;
    world.barrier()?;
    let mut turn = (me == 1).then(|| wanted.ask_write()).transpose()?;
    if me == 1 {
        sign.put(other, 0, &[1])?;
    }
    // Reading own memory handles no request: requests are left for the next receive.
    while me == 0 && sign.local()? == [0] {
        std::hint::spin_loop();
    }
    // SAFETY: this process has one thread, so its child may do whatever it could.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process can be forked");
    if child == 0 {
        let done = calls(world, &free, &window, &edges);
        let wrong: Vec<_> = done.iter().filter(|(_, done)| !is_told(done.as_ref(), me)).collect();
        for (name, done) in &wrong {
            eprintln!("the child of rank {me}: {name} gave {done:?}");
        }
        // Values that it drops from here on are its parent's.
        return Ok(ExitCode::from(if wrong.is_empty() { CHILD } else { 1 }));
    }
    let mut state = 0;
    // SAFETY: `state` is a word that the call may write.
    let ended = unsafe { libc::waitpid(child, &raw mut state, 0) };
    assert!(ended == child && state == i32::from(CHILD) << 8, "the child ended with {state:#x}");
    drop(mine);
    if let Some(turn) = &mut turn {
        while turn.look()?.is_none() {
            turn.rest();
        }
    }
    after(world, other, &held, &free, &window, guard.is_some())?;
    drop(guard);
    assert!(buffer.iter().all(|byte| *byte == me as u8 + 1), "a child has freed a buffer");
    let mut exchanged = [0];
    exchange.start_from(&[u64::from(me)])?;
    exchange.wait_into(&mut exchanged)?;
    assert_eq!(exchanged, [u64::from(other)]);
    held.write()?[0] += 1;
    world.barrier()?;
    assert_eq!(held.read()?[0], 2);
    Ok(ExitCode::SUCCESS)
}

/// Whether a call reported which rank forked this child.
fn is_told(done: Result<&(), &Error>, me: u32) -> bool {
    let said = format!("this process was forked from rank {me} and is not a rank itself");
    done.is_err_and(|error| error.to_string().contains(&said))
}

type Done = (&'static str, Result<(), Error>);

fn calls(
    world: &World,
    free: &Shared<u64>,
    window: &Window<'_, u64>,
    edges: &Neighbours,
) -> Vec<Done> {
    let other = 1 - world.rank();
    let (mut one, mut two, mut many) = ([1_u32], [1_u64], vec![1_u64; 200_000]);
    let messages = [
        ("send", world.send(&one, other, 5)),
        ("long send", world.send(&many, other, 5)),
        ("ssend", world.ssend(&one, other, 5)),
        ("rsend", world.rsend(&one, other, 5)),
        ("recv", world.recv(&mut one, other, 5).map(drop)),
        ("recv any", world.recv(&mut one, ANY_SOURCE, ANY_TAG).map(drop)),
        ("probe", world.probe(other, 5).map(drop)),
        ("iprobe", world.iprobe(other, 5).map(drop)),
        ("sendrecv", world.sendrecv(&two, other, 5, &mut one, other, 5).map(drop)),
        ("isend", world.scope(|scope| scope.isend(&many, other, 5)?.wait().map(drop))),
        ("irecv", world.scope(|scope| scope.irecv(&mut one, other, 5)?.wait().map(drop))),
    ];
    let mut part = vec![0; 2];
    let collectives = [
        ("barrier", world.barrier()),
        ("broadcast", world.broadcast(&mut two, 0)),
        ("reduce", world.reduce(&mut two, Op::Sum, 0)),
        ("allreduce", world.allreduce(&mut two, Op::Sum)),
        ("long allreduce", world.allreduce(&mut many, Op::Sum)),
        ("scan", world.scan(&mut two, Op::Sum)),
        ("allgather", world.allgather(&two, &mut part)),
        ("alltoall", world.alltoall(&[1, 2], &mut part)),
        ("iallreduce", world.scope(|scope| scope.iallreduce(&mut two, Op::Sum).wait())),
        ("split", world.split(0, 0).map(drop)),
        ("create_group", world.create_group(&[0, 1]).map(drop)),
        ("staged exchange", world.staged_exchange_init::<u64>(edges).map(drop)),
    ];
    let memory = [
        ("shared", world.shared::<u64>("another", &[4]).map(drop)),
        ("write", free.write().map(drop)),
        ("read", free.read().map(drop)),
        ("try_write", free.try_write().map(drop)),
        ("window", world.window::<u64>(1).map(drop)),
        ("put", window.put(other, 0, &two)),
        ("get", window.get(other, 0, &mut two)),
        ("fetch_add", window.fetch_add(other, 0, 1).map(drop)),
        ("window wait", window.wait(1, other, |value| value == 1).map(drop)),
    ];
    messages.into_iter().chain(collectives).chain(memory).collect()
}

/// The rank has everything that it had, and its calls work.
fn after(
    world: &World,
    other: u32,
    held: &Shared<u64>,
    free: &Shared<u64>,
    window: &Window<'_, u64>,
    holds: bool,
) -> Result<(), Error> {
    let mut heard = [u32::MAX];
    world.recv(&mut heard, other, 5)?;
    assert_eq!((heard, world.iprobe(ANY_SOURCE, ANY_TAG)?), ([other], None));
    assert!(holds || held.try_write()?.is_none(), "a child has released what its parent holds");
    assert_eq!(window.local()?, [0, 0], "a child has written to a window");
    world.barrier()?;
    free.write()?[0] += 1;
    let mut sum = [1_u64];
    world.allreduce(&mut sum, Op::Sum)?;
    assert_eq!((sum, free.read()?[0]), ([2], 2));
    window.put(other, 0, &[3])?;
    world.barrier()?;
    assert_eq!(window.local()?, [3, 0]);
    Ok(())
}
