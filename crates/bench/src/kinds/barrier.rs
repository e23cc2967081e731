//! Barrier: the mean of many, for as many ranks as cores and, on purpose, for more.
//!
//! With more ranks than cores a barrier needs every rank to run once, so what the hardware gives
//! is a number of switches between threads of one core, not cache lines.

use hikyaku::World;

use super::{Bare, Form, Kind, Parts, Point};
use crate::arguments::Settings;
use crate::control::{Answer, Command, Verb};
use crate::rank::{self, RankError};

/// The rank counts of this and of the other collectives.
pub(crate) const RANKS: [u32; 3] = [2, 4, 8];

/// One point per rank count on a machine of `cores` usable cores.
pub(crate) fn points(settings: &Settings, cores: u32) -> Vec<Point> {
    let ranks = if settings.ranks.is_empty() { &RANKS[..] } else { &settings.ranks };
    let form = Form::heap("", Verb::Barrier);
    let point = |ranks: &u32| {
        let bare = Bare::Parts(Parts::signal(*ranks, cores));
        let point = Point::new(Kind::Barrier, *ranks, 0, bare);
        Point { ours: vec![form], theirs: vec![form], ..point }
    };
    ranks.iter().map(point).collect()
}

/// The ranks' side.
pub(crate) fn serve(world: &World, command: &Command) -> Result<Answer, RankError> {
    rank::whole(world, command, || world.barrier())
}
