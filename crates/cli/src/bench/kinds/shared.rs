//! Shared variables: acquiring one that is free, and handing one over between two ranks.
//!
//! A hand-over is a strict alternation: each rank acquires the variable for writing, and if the
//! other wrote last it changes every byte and lets go. What that must cost is a cache line that
//! says so and a copy of data that the other core has just written.

use std::hint::black_box;

use hikyaku::{Error, Shared, World};

use super::{Bare, Form, Kind, Parts, Point};
use crate::bench::arguments::Settings;
use crate::bench::control::{Answer, Command, Verb};
use crate::bench::rank::{self, RankError};

const SIZES: [u64; 3] = [8, 4 << 10, 64 << 10];

/// The free one, and one hand-over per size.
pub(crate) fn points(settings: &Settings) -> Vec<Point> {
    let sizes = if settings.sizes.is_empty() { &SIZES[..] } else { &settings.sizes };
    let free = Form::heap("", Verb::SharedFree);
    let free = Point { ours: vec![free], ..Point::new(Kind::Acquire, 2, 0, Bare::LINE) };
    let turns = Form::heap("", Verb::SharedTurns);
    let point = |bytes: &u64| {
        let bytes = (*bytes).next_multiple_of(8).max(8);
        let bare = Bare::Parts(Parts::signal(2, 2).with_copies(1.0, bytes, 2, 2));
        Point { ours: vec![turns], ..Point::new(Kind::HandOver, 2, bytes, bare) }
    };
    std::iter::once(free).chain(sizes.iter().map(point)).collect()
}

fn variable(world: &World, command: &Command) -> Result<Shared<u64>, RankError> {
    Ok(world.shared::<u64>("bench", &[command.bytes.div_ceil(8).max(1)])?)
}

/// Rank 0 acquires and lets go; the others look on.
pub(crate) fn serve_free(world: &World, command: &Command) -> Result<Answer, RankError> {
    let shared = variable(world, command)?;
    let answer = rank::whole(world, command, || {
        if world.rank() == 0 {
            black_box(&mut shared.write()?)[0] += 1;
        }
        Ok(())
    });
    world.barrier()?;
    answer
}

/// Ranks 0 and 1 write in turns; a repetition is one turn of each.
pub(crate) fn serve_turns(world: &World, command: &Command) -> Result<Answer, RankError> {
    let shared = variable(world, command)?;
    let answer = rank::whole(world, command, || match world.rank() {
        0 | 1 => turn(world, &shared),
        _ => Ok(()),
    });
    world.barrier()?;
    answer
}

fn turn(world: &World, shared: &Shared<u64>) -> Result<(), Error> {
    loop {
        let mut guard = shared.write()?;
        let number = guard[0];
        if number % 2 == u64::from(world.rank()) {
            guard.fill(number + 1);
            return Ok(());
        }
    }
}
