//! Latency: half a round trip of one message between rank 0 and rank 1.
//!
//! Fresh: a rank answers from the buffer it has just received into, so every message is data that
//! its sender has just written, as in a program that computes. Warm, the usual ping-pong: a rank
//! sends the same untouched buffer repeatedly and receives into another, which nothing reads;
//! copied data is warm in both caches.

use hikyaku::{Error, World};

use super::{Bare, FigureKind, MeasuredForm, MeasuredPoint, PartCounts};
use crate::arguments::BenchSettings;
use crate::buffers::Sets;
use crate::control::{BlockAnswer, BlockCommand, Verb};
use crate::rank::{self, RankError, TAG};

const SIZES: [u64; 7] = [0, 8, 64, 1 << 10, 16 << 10, 64 << 10, 1 << 20];

/// One point per size.
pub(crate) fn points(settings: &BenchSettings) -> Vec<MeasuredPoint> {
    let sizes = if settings.sizes.is_empty() { &SIZES[..] } else { &settings.sizes };
    let heap = MeasuredForm::heap("heap", Verb::Latency);
    let allocated = MeasuredForm::allocated("allocated", Verb::Latency);
    let point = |bytes: &u64| {
        let bare = Bare::Parts(PartCounts::signal(2, 2).with_copies(1.0, *bytes, 2, 2));
        let mut ours = vec![heap];
        ours.extend((settings.allocated && *bytes > 0).then_some(allocated));
        MeasuredPoint {
            ours,
            theirs: vec![heap],
            ..MeasuredPoint::new(FigureKind::Latency, 2, *bytes, bare)
        }
    };
    sizes.iter().map(point).collect()
}

/// The ranks' side; ranks beyond the first two are idle.
pub(crate) fn serve(world: &World, command: &BlockCommand) -> Result<BlockAnswer, RankError> {
    let mut sets = Sets::in_place(world, command, 1, 1_u8)?;
    rank::whole(world, command, || ping_pong(world, &mut sets))
}

fn ping_pong(world: &World, sets: &mut Sets) -> Result<(), Error> {
    match world.rank() {
        0 => {
            world.send::<u8>(sets.send(), 1, TAG)?;
            world.recv::<u8>(sets.receive(), 1, TAG)?;
        }
        1 => {
            world.recv::<u8>(sets.receive(), 0, TAG)?;
            world.send::<u8>(sets.send(), 0, TAG)?;
        }
        _ => {}
    }
    Ok(())
}
