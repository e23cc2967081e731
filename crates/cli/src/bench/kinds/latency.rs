//! Latency: half a round trip of one message between rank 0 and rank 1.
//!
//! A rank answers from the buffer it has just received into, so every message is data that its
//! sender has freshly written, as in a program that computes; the usual ping-pong, which sends the
//! same untouched buffer again and again, measures copies of data that lie warm in both caches.

use hikyaku::{Error, World};

use super::{Bare, Kind, LINE_BYTES, Point};
use crate::bench::arguments::Settings;
use crate::bench::control::{Command, Verb};
use crate::bench::rank::{Buffer, TAG};

const SIZES: [u64; 7] = [0, 8, 64, 1 << 10, 16 << 10, 64 << 10, 1 << 20];

/// One point per size.
pub(crate) fn points(settings: &Settings) -> Vec<Point> {
    let sizes = if settings.sizes.is_empty() { &SIZES[..] } else { &settings.sizes };
    let point = |bytes: &u64| Point {
        kind: Kind::Latency,
        verb: Verb::Latency,
        ranks: 2,
        bytes: *bytes,
        window: 1,
        allocated: settings.allocated && *bytes > 0,
        bare: if *bytes <= LINE_BYTES { Bare::Line } else { Bare::LineAndCopy },
    };
    sizes.iter().map(point).collect()
}

/// The ranks' side; ranks beyond the first two look on.
pub(crate) fn ping_pong(
    world: &World,
    buffer: &mut Buffer,
    command: &Command,
) -> Result<(), Error> {
    for _ in 0..command.repetitions {
        match world.rank() {
            0 => {
                world.send::<u8>(buffer, 1, TAG)?;
                world.recv::<u8>(buffer, 1, TAG)?;
            }
            1 => {
                world.recv::<u8>(buffer, 0, TAG)?;
                world.send::<u8>(buffer, 0, TAG)?;
            }
            _ => {}
        }
    }
    Ok(())
}
