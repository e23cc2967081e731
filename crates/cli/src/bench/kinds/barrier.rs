//! Barrier: the mean of many, for as many ranks as cores and, on purpose, for more.
//!
//! With more ranks than cores a barrier needs every rank to run once, so what the hardware gives
//! is a number of switches between threads of one core, not cache lines.

use hikyaku::{Error, World};

use super::{Bare, Kind, Point};
use crate::bench::arguments::Settings;
use crate::bench::control::{Command, Verb};
use crate::bench::rank::Buffer;

const RANKS: [u32; 3] = [2, 4, 8];

/// One point per rank count on a machine of `cores` usable cores.
pub(crate) fn points(settings: &Settings, cores: u32) -> Vec<Point> {
    let ranks = if settings.ranks.is_empty() { &RANKS[..] } else { &settings.ranks };
    let point = |ranks: &u32| Point {
        kind: Kind::Barrier,
        verb: Verb::Barrier,
        ranks: *ranks,
        bytes: 0,
        window: 1,
        allocated: false,
        bare: bare(*ranks, cores),
    };
    ranks.iter().map(point).collect()
}

fn bare(ranks: u32, cores: u32) -> Bare {
    match ranks <= cores {
        true => Bare::LineRounds(ranks.next_power_of_two().ilog2().max(1)),
        false => Bare::Switches(ranks.div_ceil(cores.max(1))),
    }
}

/// The ranks' side.
pub(crate) fn barriers(world: &World, _: &mut Buffer, command: &Command) -> Result<(), Error> {
    (0..command.repetitions).try_for_each(|_| world.barrier())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_on_cores_of_their_own_and_switches_otherwise() {
        assert_eq!(bare(1, 2), Bare::LineRounds(1));
        assert_eq!(bare(2, 2), Bare::LineRounds(1));
        assert_eq!(bare(5, 8), Bare::LineRounds(3));
        assert_eq!(bare(8, 2), Bare::Switches(4));
        assert_eq!(bare(3, 2), Bare::Switches(2));
    }
}
