//! A rank of a random program: `generated SEED [WORDS]`.
//!
//! - `--virtual NODES`: a program for virtual time, on a machine of this many nodes.
//! - `--keep 3,4`: only these steps. `--without kind,kind`: no steps of these kinds.
//! - `--show`: prints the program and does not run it.
//! - `--tell SECONDS`: a rank that is in one step for this long prints which.
//!
//! A wrong value ends the rank with code 101, an error with code 1. In a program that loses a rank,
//! errors are expected, and a rank that gets one ends with code 0.

#![allow(clippy::unwrap_used)]

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::Duration;
use std::{env, thread};

use hikyaku::World;
use hikyaku_jobs::generator::{End, Kept, Program, run};

/// The number of the step that this rank is in.
static STEP: AtomicU32 = AtomicU32::new(0);

/// The word after a flag.
fn after(words: &[String], flag: &str) -> Option<String> {
    let at = words.iter().position(|word| word == flag)?;
    words.get(at + 1).cloned()
}

fn program(words: &[String]) -> Program {
    let list = |flag: &str| -> Option<Vec<String>> {
        Some(
            after(words, flag)?
                .split(',')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect(),
        )
    };
    let numbers = |words: Vec<String>| words.iter().map(|word| word.parse().unwrap()).collect();
    let kept =
        Kept { steps: list("--keep").map(numbers), without: list("--without").unwrap_or_default() };
    let nodes = after(words, "--virtual").map(|nodes| nodes.parse().unwrap());
    Program::from_seed(words[0].parse().unwrap(), nodes).only(&kept)
}

fn show(program: &Program) -> io::Result<()> {
    let Program { seed, ranks, per_node, .. } = program;
    let mut out = std::io::stdout().lock();
    writeln!(out, "seed {seed}: {ranks} ranks, {per_node} to a node (0: all)")?;
    writeln!(out, "{program:#?}")
}

fn step_name(program: &Program, number: u32) -> String {
    match number {
        0 => "the start".to_owned(),
        u32::MAX => "the end".to_owned(),
        _ => {
            let step = program.all_steps().into_iter().find(|step| step.number == number);
            format!("step {number}, {}", step.unwrap().kind())
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = env::args().skip(1).collect();
    let program = program(&words);
    if words.iter().any(|word| word == "--show") {
        // The reader may close the pipe early.
        return ExitCode::from(u8::from(show(&program).is_err()));
    }
    let world = World::init().unwrap();
    let rank = world.rank();
    let (done, ended) = sync_channel::<()>(1);
    let limit = after(&words, "--tell").map_or(3600.0, |seconds| seconds.parse().unwrap());
    let watched = program.clone();
    let teller = thread::spawn(move || {
        if ended.recv_timeout(Duration::from_secs_f64(limit)) == Err(RecvTimeoutError::Timeout) {
            let step = STEP.load(Ordering::Relaxed);
            eprintln!("rank {rank} is in {}", step_name(&watched, step));
        }
    });
    let tell_where = std::panic::take_hook();
    let panicking = program.clone();
    std::panic::set_hook(Box::new(move |info| {
        let step = STEP.load(Ordering::Relaxed);
        eprintln!("rank {rank} panicked in {}", step_name(&panicking, step));
        tell_where(info);
    }));
    let end = run(&world, &program, &|number| STEP.store(number, Ordering::Relaxed));
    drop(done);
    teller.join().unwrap();
    match end {
        End::Done => ExitCode::SUCCESS,
        End::Left => {
            println!("rank {rank} left");
            ExitCode::SUCCESS
        }
        End::Failed(number, error) if program.loses_a_rank() => {
            println!("rank {rank}, {}: {error}", step_name(&program, number));
            ExitCode::SUCCESS
        }
        End::Failed(number, error) => {
            eprintln!("rank {rank}, {}: {error}", step_name(&program, number));
            ExitCode::FAILURE
        }
    }
}
