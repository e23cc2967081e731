//! Barrier: the mean of many, for as many ranks as cores and, on purpose, for more.
//!
//! With more ranks than cores a barrier needs every rank to run once, so the hardware's limit is a
//! number of switches between threads of one core, not of cache lines.

use hikyaku::World;

use super::{Bare, FigureKind, MeasuredForm, MeasuredPoint, PartCounts};
use crate::arguments::BenchSettings;
use crate::control::{BlockAnswer, BlockCommand, Verb};
use crate::rank::{self, RankError};

/// The rank counts of this and of the other collectives.
pub(crate) const RANKS: [u32; 3] = [2, 4, 8];

/// One point per rank count on a machine of `cores` usable cores.
pub(crate) fn points(settings: &BenchSettings, cores: u32) -> Vec<MeasuredPoint> {
    let ranks = if settings.ranks.is_empty() { &RANKS[..] } else { &settings.ranks };
    let form = MeasuredForm::heap("", Verb::Barrier);
    let point = |ranks: &u32| {
        let bare = Bare::Parts(PartCounts::signal(*ranks, cores));
        let point = MeasuredPoint::new(FigureKind::Barrier, *ranks, 0, bare);
        MeasuredPoint { ours: vec![form], theirs: vec![form], ..point }
    };
    ranks.iter().map(point).collect()
}

/// The ranks' side.
pub(crate) fn serve(world: &World, command: &BlockCommand) -> Result<BlockAnswer, RankError> {
    rank::whole(world, command, || world.barrier())
}
