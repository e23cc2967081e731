//! MG: a multigrid V-cycle on 256^3 points, periodic, in 4 x 4 x 4 blocks.
//!
//! A level of 2^l points a side gives each of the four blocks along a side 2^l / 4 of them. On the
//! level of two points a side only every second block has one, and its neighbours are two blocks
//! away: three partners that a rank has on no finer level.

use super::{Message, RANKS};

/// Blocks along a side.
const SIDE: u32 = 4;
/// log2 of the points along a side on the finest level, Class A.
const FINEST: u32 = 8;

/// The faces that all levels exchange.
pub(super) fn trace() -> Vec<Message> {
    (1..=FINEST).rev().flat_map(level).collect()
}

/// The faces of one level: each active block to its next active ones in six directions.
fn level(log_points: u32) -> Vec<Message> {
    let points = 1 << log_points;
    let stride = (SIDE / points).max(1);
    let face = u64::from((points / SIDE).max(1));
    let bytes = 8 * face * face;
    let mut messages = Vec::new();
    for source in (0..RANKS).filter(|&rank| position(rank).iter().all(|at| at % stride == 0)) {
        for dimension in 0..3 {
            for step in [stride, SIDE - stride] {
                let mut at = position(source);
                at[dimension] = (at[dimension] + step) % SIDE;
                let destination = at[0] + SIDE * (at[1] + SIDE * at[2]);
                messages.push(Message { source, destination, bytes });
            }
        }
    }
    messages
}

fn position(rank: u32) -> [u32; 3] {
    [rank % SIDE, rank / SIDE % SIDE, rank / (SIDE * SIDE)]
}
