//! Calls that never return, one per rank, as listed by [`hikyaku_jobs::waits`].

use std::future::poll_fn;
use std::task::Poll;

use hikyaku::topology::Reorder;
use hikyaku::{ANY_SOURCE, ANY_TAG, Error, Op, World, join, join_all};
use hikyaku_jobs::waits::CALLS;

/// Longer than messages that are sent without asking.
const LONG: usize = 1 << 20;

/// Makes the call of this rank's number.
pub(crate) fn run(world: &World) -> Result<(), Error> {
    let last = world.size() - 1;
    let call = match world.rank() {
        rank if rank == last => "last",
        rank => CALLS[rank as usize].0,
    };
    let window = world.window::<u64>(1)?;
    let ring = world.cartesian(&[world.size()], &[true], Reorder::Keep)?.unwrap();
    // Ranks in different collectives of one communicator would get an error.
    let own = (0..world.rank()).fold(world.duplicate(), |_, _| world.duplicate());
    world.barrier()?;
    let (mut one, mut two, mut all) = ([0_u8], [0_u8], vec![0_u8; world.size() as usize]);
    let mut each = all.clone();
    match call {
        "last" => world.recv(&mut one, 0, 99).map(drop),
        "send" => world.send(&[0_u8; LONG], last, 3),
        "ssend" => world.ssend(&[0_u8], last, 4),
        "recv" => world.recv(&mut one, last, 5).map(drop),
        "recv any" => world.recv(&mut one, ANY_SOURCE, ANY_TAG).map(drop),
        "sendrecv" => world.sendrecv(&[0_u8], last, 6, &mut one, last, 6).map(drop),
        "probe" => world.probe(last, ANY_TAG).map(drop),
        "future" => world.block_on(world.recv_async(&mut one, last, 9)).map(drop),
        "futures" => {
            let receives = [(&mut one, 9), (&mut two, 10)];
            let receives = receives.map(|(into, tag)| Box::pin(world.recv_async(into, last, tag)));
            world.block_on(join_all(receives.into())).into_iter().try_for_each(|r| r.map(drop))
        }
        "one of two futures" => {
            let receive = Box::pin(world.recv_async(&mut one, last, 9));
            let send = Box::pin(world.send_async(&[1_u8], world.rank(), 1));
            world.block_on(join(send, receive)).1.map(drop)
        }
        "own future" => world.block_on(poll_fn(|_| Poll::Pending)),
        "barrier" => own.barrier(),
        "broadcast" => own.broadcast(&mut one, last),
        "reduce" => own.reduce(&mut one, Op::Sum, world.rank()),
        "allreduce" => own.allreduce(&mut one, Op::Sum),
        "gather" => own.gather(&one, world.rank()).map(drop),
        "scatter" => own.scatter(&all, &mut one, last),
        "allgather" => own.allgather(&one, &mut all),
        "alltoall" => own.alltoall(&each, &mut all),
        "scan" => own.scan(&mut one, Op::Sum),
        "persistent" => {
            let mut barrier = own.barrier_init();
            barrier.start()?;
            barrier.wait()
        }
        "neighbours" => ring.neighbour_allgather(&one, &mut each[..2]),
        "neighbours later" => {
            world.scope(|scope| scope.ineighbour_allgather(&ring, &one, &mut each[..2])?.wait())
        }
        "window" => window.wait(0, last, |value| value > 0).map(drop),
        call => within_a_scope(&own, call, last),
    }
}

/// The calls of scopes.
fn within_a_scope(world: &World, call: &str, last: u32) -> Result<(), Error> {
    let (mut one, mut two, mut three) = ([0_u8], [0_u8], [0_u8]);
    let long = vec![0_u8; LONG];
    world.scope(|scope| match call {
        "isend" => scope.isend(&long, last, 3)?.wait().map(drop),
        "irecv" => scope.irecv(&mut one, last, 5)?.wait().map(drop),
        "wait all" => {
            scope.irecv(&mut one, last, 8)?;
            scope.isend(&long, last, 3)?;
            scope.irecv(&mut two, last, 9)?;
            scope.wait_all()
        }
        "end of scope" => {
            scope.irecv(&mut one, last, 8)?;
            scope.irecv(&mut two, last, 9).map(drop)
        }
        "wait any" => {
            let mut both = vec![scope.irecv(&mut one, last, 8)?, scope.irecv(&mut two, last, 9)?];
            scope.wait_any(&mut both).map(drop)
        }
        "recv beside a collective" => {
            let _barrier = scope.ibarrier();
            world.recv(&mut three, last, 5).map(drop)
        }
        "probe beside a collective" => {
            let _barrier = scope.ibarrier();
            world.probe(last, ANY_TAG).map(drop)
        }
        "ibroadcast" => scope.ibroadcast(&mut one, last).wait(),
        "awaited" => world.block_on(scope.iallreduce(&mut one, Op::Sum).into_future()),
        "two collectives" => {
            let _barrier = scope.ibarrier();
            let _sum = scope.iallreduce(&mut one, Op::Sum);
            scope.wait_all()
        }
        call => panic!("there is no call {call}"),
    })
}
