//! LU, SP and BT: neighbours on a lattice of 8 x 8 ranks.
//!
//! LU has pencils of a 64^3 grid and sends wavefronts to the four neighbours, without wrapping.
//! SP and BT are multi-partitioned: each rank has eight cells along a diagonal, and every cell's
//! successor in x, y and z lies with one rank each, periodic.

use super::{Message, RANKS};

/// Ranks along a side.
const SIDE: u32 = 8;
/// Five unknowns of eight bytes at each point of a face.
const POINT_BYTES: u64 = 5 * 8;
/// Faces of SP, 64^3 in cells of 8^3.
pub(super) const SP_BYTES: u64 = POINT_BYTES * 8 * 8;
/// Faces of BT: with 5 x 5 blocks of the factorisation beside the unknowns.
pub(super) const BT_BYTES: u64 = (25 + 5) * 8 * 8 * 8;

/// The wavefronts and the exchange of right-hand sides.
pub(super) fn lu() -> Vec<Message> {
    let bytes = POINT_BYTES * 64 / u64::from(SIDE);
    let mut messages = Vec::new();
    for source in 0..RANKS {
        let (row, column) = (source / SIDE, source % SIDE);
        let mut to = |exists: bool, destination: u32| {
            if exists {
                messages.push(Message { source, destination, bytes });
            }
        };
        to(row > 0, source.wrapping_sub(SIDE));
        to(row + 1 < SIDE, source + SIDE);
        to(column > 0, source.wrapping_sub(1));
        to(column + 1 < SIDE, source + 1);
    }
    messages
}

/// Successors and predecessors in x, y and z: the rank at (row, column) has its cell of slab k at
/// ((column + k), (row - k)), so that z moves along the diagonal.
pub(super) fn multipartition(bytes: u64) -> Vec<Message> {
    let back = SIDE - 1;
    let directions = [(0, 1), (0, back), (1, 0), (back, 0), (1, back), (back, 1)];
    let mut messages = Vec::new();
    for source in 0..RANKS {
        for (down, right) in directions {
            let row = (source / SIDE + down) % SIDE;
            let column = (source % SIDE + right) % SIDE;
            messages.push(Message { source, destination: row * SIDE + column, bytes });
        }
    }
    messages
}
