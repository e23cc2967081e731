//! Halo: exchanges of one block with each of two neighbours, back to back, as the border exchange
//! of a program on a line of blocks. [`super::exchange`] describes the blocks, fresh and warm.

use hikyaku::World;

use super::exchange::RepeatableExchange;
use super::{Bare, FigureKind, MeasuredForm, MeasuredPoint, PartCounts};
use crate::arguments::BenchSettings;
use crate::control::{BlockAnswer, BlockCommand, Clock, ExchangeCalls, Verb};
use crate::rank::{self, RankError};

const SIZES: [u64; 4] = [8, 1 << 10, 16 << 10, 64 << 10];

/// One point per rank count and size, on a machine of `cores` usable cores.
pub(crate) fn points(settings: &BenchSettings, cores: u32) -> Vec<MeasuredPoint> {
    let counts = if settings.ranks.is_empty() { &[2][..] } else { &settings.ranks };
    let sizes = if settings.sizes.is_empty() { &SIZES[..] } else { &settings.sizes };
    let sizes = || sizes.iter().copied().filter(|bytes| *bytes > 0);
    let (ours, theirs) = forms(Clock::Whole);
    let point = |ranks: u32, bytes: u64| {
        // The neighbours' signals overlap: one line, or every rank of a core in turn.
        let signal = PartCounts::signal(if ranks <= cores { 2 } else { ranks }, cores);
        let bare = Bare::Parts(signal.with_copies(2.0, bytes, ranks, cores));
        let blocking = Verb::Exchange(Clock::Whole, ExchangeCalls::Blocking);
        let theirs = [&theirs[..], &[MeasuredForm::heap("blocking", blocking)]].concat();
        let ours = [&ours[..], &[MeasuredForm::heap("blocking heap", blocking)]].concat();
        MeasuredPoint { ours, theirs, ..MeasuredPoint::new(FigureKind::Halo, ranks, bytes, bare) }
    };
    let of_count = |ranks: &u32| sizes().map(|bytes| point(*ranks, bytes)).collect::<Vec<_>>();
    counts.iter().flat_map(of_count).collect()
}

/// The forms of starting and waiting for an exchange: ours, theirs.
pub(crate) fn forms(clock: Clock) -> (Vec<MeasuredForm>, Vec<MeasuredForm>) {
    let isend = Verb::Exchange(clock, ExchangeCalls::Isend);
    let persistent = Verb::Exchange(clock, ExchangeCalls::Persistent);
    let ours = vec![
        MeasuredForm::heap("isend heap", isend),
        MeasuredForm::allocated("isend allocated", isend),
        MeasuredForm::heap("persistent heap", persistent),
        MeasuredForm::allocated("persistent allocated", persistent),
    ];
    let theirs =
        vec![MeasuredForm::heap("isend", isend), MeasuredForm::heap("persistent", persistent)];
    (ours, theirs)
}

/// The ranks' side.
pub(crate) fn whole(
    world: &World,
    command: &BlockCommand,
    exchange: &mut impl RepeatableExchange,
) -> Result<BlockAnswer, RankError> {
    rank::whole(world, command, || exchange.exchange(|| {}))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::arguments::tests::parse;

    #[test]
    fn a_point_for_each_size_with_all_forms_of_both_sides() {
        let settings = parse("halo -n 2,4 --sizes 0,8,64K").unwrap().settings().unwrap();
        let points = points(&settings, 2);
        let places: Vec<(u32, u64)> = points.iter().map(|p| (p.ranks, p.bytes)).collect();
        assert_eq!(places, [(2, 8), (2, 65536), (4, 8), (4, 65536)]);
        let bares: Vec<String> = points.iter().map(|point| point.bare_is()).collect();
        assert_eq!(bares[0], "a cache line one way");
        assert_eq!(bares[1], "a cache line one way and 2 copies of fresh data");
        assert_eq!(bares[3], "2 switches of threads and 4 copies of fresh data");
        let names: Vec<&str> = points[0].theirs.iter().map(|form| form.name).collect();
        assert_eq!(names, ["isend", "persistent", "blocking"]);
        let names: Vec<&str> = points[0].ours.iter().map(|form| form.name).collect();
        let heap_and_allocated = ["persistent heap", "persistent allocated"];
        assert_eq!(names[2..4], heap_and_allocated, "{names:?}");
    }
}
