//! Two halves of a job, each with its own communicator: a death in one does not affect the other.

use hikyaku::{ANY_SOURCE, Error, MsgError, Op, World};
use rustix::process::{Signal, getpid, kill_process};

/// The rank that dies, and the number of rounds before that.
const VICTIM: u32 = 1;
const ROUNDS: u32 = 30;

/// Rounds of the other half after all of it know of the death.
const AFTER: u32 = 100;

/// Every rank prints the fate of its half.
pub(crate) fn run(world: &World) -> Result<(), Error> {
    let rank = world.rank();
    let half = world.split(rank % 2, 0)?.expect("every rank has a color");
    if rank % 2 == VICTIM % 2 {
        let error = until_a_death(&half, rank).unwrap_err();
        println!("{rank} told: {error}");
        return Ok(());
    }
    let mut after = 0;
    while after < AFTER {
        let looked = world.iprobe(VICTIM, 0);
        let knows = matches!(looked, Err(Error::Message(MsgError::PeerFailed(_))));
        let mut least = [u32::from(knows)];
        half.allreduce(&mut least, Op::Min)?;
        after += least[0];
        // Any source means any rank of this half.
        if half.rank() == 0 {
            for _ in 1..half.size() {
                half.recv(&mut least, ANY_SOURCE, 0)?;
            }
        } else {
            half.send(&least, 0, 0)?;
        }
        let pair = half.split(half.rank() / 2, 0)?.expect("every rank has a color");
        pair.barrier()?;
    }
    println!("{rank} whole");
    Ok(())
}

fn until_a_death(half: &World, rank: u32) -> Result<(), Error> {
    for round in 0.. {
        half.barrier()?;
        if (rank, round) == (VICTIM, ROUNDS) {
            let _ = kill_process(getpid(), Signal::KILL);
        }
    }
    Ok(())
}
