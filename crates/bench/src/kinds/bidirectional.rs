//! Both directions at once: rank 0 and rank 1 each send one message to the other at the same time.
//!
//! Each rank starts a receive and a send and waits for both: a window of one. No rank can run
//! ahead, because it needs the other's message. Fresh: a rank sends the data that it received last,
//! from two alternating buffers. Warm: it sends the same untouched buffer repeatedly, and receives
//! into another, which nothing reads.

use hikyaku::{Error, World};

use super::{Bare, FigureKind, MeasuredForm, MeasuredPoint, PartCounts};
use crate::arguments::BenchSettings;
use crate::buffers::Sets;
use crate::control::{BlockAnswer, BlockCommand, Verb};
use crate::rank::{self, RankError, TAG};

const SIZES: [u64; 5] = [8, 1 << 10, 16 << 10, 64 << 10, 1 << 20];

/// One point per size; empty messages are left to latency.
pub(crate) fn points(settings: &BenchSettings) -> Vec<MeasuredPoint> {
    let sizes = if settings.sizes.is_empty() { &SIZES[..] } else { &settings.sizes };
    let heap = MeasuredForm::heap("heap", Verb::Bidirectional);
    let allocated = MeasuredForm::allocated("allocated", Verb::Bidirectional);
    let point = |bytes: &u64| {
        // The two messages move at the same time, each by one core.
        let bare = Bare::Parts(PartCounts::signal(2, 2).with_copies(1.0, *bytes, 2, 2));
        let point = MeasuredPoint::new(FigureKind::Bidirectional, 2, *bytes, bare);
        MeasuredPoint { ours: vec![heap, allocated], theirs: vec![heap], ..point }
    };
    sizes.iter().filter(|bytes| **bytes > 0).map(point).collect()
}

/// The ranks' side; ranks beyond the first two are idle.
pub(crate) fn serve(world: &World, command: &BlockCommand) -> Result<BlockAnswer, RankError> {
    let mut sets = Sets::in_turns(world, command, 1, 1_u8)?;
    rank::whole(world, command, || match world.rank() {
        0 => both_ways(world, &mut sets, 1),
        1 => both_ways(world, &mut sets, 0),
        _ => Ok(()),
    })
}

fn both_ways(world: &World, sets: &mut Sets, other: u32) -> Result<(), Error> {
    let (send, receive) = sets.both();
    world.scope(|scope| {
        scope.irecv::<u8>(receive, other, TAG)?;
        scope.isend::<u8>(send, other, TAG)?;
        scope.wait_all()
    })?;
    sets.turn();
    Ok(())
}
