//! CG: a sparse matrix of order 14,000 in 8 x 8 blocks.
//!
//! Each matrix-vector product sums partial results within a row of blocks, in three steps of a
//! butterfly, and then exchanges them with the block across the diagonal.

use super::{Message, RANKS};

/// Blocks along a side of the matrix.
const SIDE: u32 = 8;
/// Order of the matrix, Class A.
const ORDER: u64 = 14_000;

/// The messages of one product.
pub(super) fn trace() -> Vec<Message> {
    let bytes = 8 * ORDER / u64::from(SIDE);
    let mut messages = Vec::new();
    for source in 0..RANKS {
        let (row, column) = (source / SIDE, source % SIDE);
        for step in [1, 2, 4] {
            let destination = row * SIDE + (column ^ step);
            messages.push(Message { source, destination, bytes });
        }
        messages.push(Message { source, destination: column * SIDE + row, bytes });
    }
    messages
}
