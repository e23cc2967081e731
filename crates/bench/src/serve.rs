//! The rank side: `hikyaku bench` started again by `hikyaku run`, executing the conductor's
//! commands.
//!
//! A rank sleeps in a read between commands and touches the world only inside one, so that it
//! costs nothing while another contestant is measured.

use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use hikyaku::World;

use super::control::{BlockAnswer, BlockCommand, Hello, Verb, read_line};
use super::rank::RankError;
use super::{hardware, kinds};

/// Joins the job and serves the conductor at `control` until it sends `quit` or goes.
pub(crate) fn serve(control: &Path) -> Result<(), RankError> {
    let world = World::init()?;
    let mut answers = UnixStream::connect(control)?;
    let mut commands = BufReader::new(answers.try_clone()?);
    say(&mut answers, &hello(&world))?;
    while let Some(line) = read_line(&mut commands)? {
        let command = BlockCommand::parse(&line).map_err(RankError::Command)?;
        if command.verb == Verb::Quit {
            break;
        }
        let answer = match obey(&world, &command) {
            Ok(answer) => answer,
            Err(error) => BlockAnswer::Failed { error: error.to_string() },
        };
        say(&mut answers, &answer)?;
    }
    Ok(())
}

/// Joins the job, passes one barrier and leaves, for the measurement of start-up.
pub(crate) fn start_only() -> Result<(), RankError> {
    World::init()?.barrier()?;
    Ok(())
}

fn hello(world: &World) -> Hello {
    Hello {
        rank: world.rank(),
        size: world.size(),
        pid: std::process::id(),
        library: concat!("hikyaku ", env!("CARGO_PKG_VERSION")).to_owned(),
        cpus: hardware::affinity(),
    }
}

fn say(stream: &mut UnixStream, message: &impl serde::Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(message)?;
    line.push('\n');
    stream.write_all(line.as_bytes())
}

fn obey(world: &World, command: &BlockCommand) -> Result<BlockAnswer, RankError> {
    match command.verb {
        Verb::Latency => kinds::latency::serve(world, command),
        Verb::Send => kinds::rate::serve_blocking(world, command),
        Verb::Isend => kinds::rate::serve_nonblocking(world, command),
        Verb::Bidirectional => kinds::bidirectional::serve(world, command),
        Verb::Barrier => kinds::barrier::serve(world, command),
        Verb::Allreduce => kinds::collectives::serve_allreduce(world, command),
        Verb::Broadcast => kinds::collectives::serve_broadcast(world, command),
        Verb::Gather => kinds::collectives::serve_gather(world, command),
        Verb::Scatter => kinds::collectives::serve_scatter(world, command),
        Verb::Reduce => kinds::collectives::serve_reduce(world, command),
        Verb::Allgather => kinds::collectives::serve_allgather(world, command),
        Verb::Allgatherv => kinds::collectives::serve_allgatherv(world, command),
        Verb::Alltoall => kinds::collectives::serve_alltoall(world, command),
        Verb::Alltoallv => kinds::collectives::serve_alltoallv(world, command),
        Verb::ReduceScatter => kinds::collectives::serve_reduce_scatter(world, command),
        Verb::Scan => kinds::collectives::serve_scan(world, command),
        Verb::Exchange(clock, calls) => kinds::exchange::serve(world, command, clock, calls),
        Verb::Dense(clock, form) => kinds::dense::serve(world, command, clock, form),
        Verb::FreeWrite => kinds::shared::serve_free(world, command, kinds::shared::write),
        Verb::FreeRead => kinds::shared::serve_free(world, command, kinds::shared::read),
        Verb::WriteAt(home) => kinds::nodes::serve_free(world, command, home, kinds::nodes::write),
        Verb::ReadAt(home) => kinds::nodes::serve_free(world, command, home, kinds::nodes::read),
        Verb::SharedTurns => kinds::shared::serve_turns(world, command),
        Verb::Travel(by) => kinds::nodes::serve_travel(world, command, by),
        Verb::OwnerWaits(by) => kinds::nodes::serve_owner(world, command, by, false),
        Verb::OwnerComputes(by) => kinds::nodes::serve_owner(world, command, by, true),
        Verb::Rows(by) => kinds::rows::serve(world, command, by),
        Verb::TurnsBy(_) | Verb::OneWay(_) | Verb::TwoWays(_) => {
            Err(RankError::Command("that is for the program of a rival".into()))
        }
        Verb::Memory => kinds::start::resident().map_err(RankError::Control),
        Verb::Block => kinds::idle::block(world),
        Verb::Release => kinds::idle::release(world),
        Verb::Quit => Ok(BlockAnswer::Times { nanoseconds: Vec::new() }),
    }
}
