//! The rank side: `hikyaku bench` started again by `hikyaku run`, doing what the conductor says.
//!
//! A rank sleeps in a read between commands and touches the world only inside one, so that it
//! costs nothing while another contestant is measured.

use std::io::{self, BufReader, Write};
use std::ops::{Deref, DerefMut};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use hikyaku::{SharedBuffer, World};
use thiserror::Error;

use super::control::{Answer, Command, Hello, Verb, read_line};
use super::{hardware, kinds};

/// The tag of every message of the benchmark.
pub(crate) const TAG: i32 = 7;

/// Why a rank could not go on.
#[derive(Debug, Error)]
pub(crate) enum RankError {
    /// The conductor cannot be reached or has gone.
    #[error("a rank cannot talk to its conductor: {0}")]
    Control(#[from] io::Error),
    /// There is no job to join.
    #[error("a rank cannot start: {0}")]
    Init(#[from] hikyaku::InitError),
    /// The library refused.
    #[error("a rank cannot go on: {0}")]
    World(#[from] hikyaku::Error),
    /// A command that makes no sense.
    #[error("{0}")]
    Command(String),
}

/// The buffer of a measurement.
pub(crate) enum Buffer {
    /// From the heap, as any program's.
    Heap(Vec<u8>),
    /// From [`World::alloc`]: peers can copy from it directly.
    Allocated(SharedBuffer<u8>),
}

impl Buffer {
    /// A buffer whose every page has been written, so that no page fault is timed.
    fn new(world: &World, bytes: usize, allocated: bool) -> Result<Buffer, hikyaku::Error> {
        let mut buffer = match allocated {
            true => Buffer::Allocated(world.alloc::<u8>(bytes)?),
            false => Buffer::Heap(vec![0; bytes]),
        };
        buffer.fill(1);
        Ok(buffer)
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Buffer::Heap(bytes) => bytes,
            Buffer::Allocated(bytes) => bytes,
        }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match self {
            Buffer::Heap(bytes) => bytes,
            Buffer::Allocated(bytes) => bytes,
        }
    }
}

/// Joins the job and serves the conductor at `control` until it says `quit` or goes.
pub(crate) fn serve(control: &Path) -> Result<(), RankError> {
    let world = World::init()?;
    let mut answers = UnixStream::connect(control)?;
    let mut commands = BufReader::new(answers.try_clone()?);
    say(&mut answers, &hello(&world))?;
    while let Some(line) = read_line(&mut commands)? {
        let command = Command::parse(&line).map_err(RankError::Command)?;
        if command.verb == Verb::Quit {
            break;
        }
        let answer = match obey(&world, &command) {
            Ok(answer) => answer,
            Err(error) => Answer::Failed { error: error.to_string() },
        };
        say(&mut answers, &answer)?;
    }
    Ok(())
}

/// Joins the job, passes one barrier and leaves: what start-up is measured with.
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

fn obey(world: &World, command: &Command) -> Result<Answer, RankError> {
    match command.verb {
        Verb::Latency => timed(world, command, kinds::latency::ping_pong),
        Verb::Send => timed(world, command, kinds::rate::blocking_windows),
        Verb::Isend => timed(world, command, kinds::rate::nonblocking_windows),
        Verb::Barrier => timed(world, command, kinds::barrier::barriers),
        Verb::Memory => kinds::start::resident().map_err(RankError::Control),
        Verb::Block => kinds::idle::block(world),
        Verb::Release => kinds::idle::release(world),
        Verb::Quit => Ok(Answer::Times { nanoseconds: Vec::new() }),
    }
}

/// What a timed body is: it runs the command's repetitions once through.
type Body = fn(&World, &mut Buffer, &Command) -> Result<(), hikyaku::Error>;

fn timed(world: &World, command: &Command, body: Body) -> Result<Answer, RankError> {
    let messages = usize::try_from(command.window.max(1)).unwrap_or(usize::MAX);
    let bytes = usize::try_from(command.bytes).unwrap_or(usize::MAX).checked_mul(messages);
    let bytes = bytes.ok_or_else(|| RankError::Command("the window is too large".into()))?;
    let mut buffer = Buffer::new(world, bytes, command.allocated)?;
    world.barrier()?;
    let mut nanoseconds = Vec::with_capacity(command.batches as usize);
    for _ in 0..command.batches {
        let start = Instant::now();
        body(world, &mut buffer, command)?;
        nanoseconds.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(Answer::Times { nanoseconds })
}
