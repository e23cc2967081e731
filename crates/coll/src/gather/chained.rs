//! Gather: everybody to the root, directly.
//!
//! A tree would save the root messages and cost it nothing in bytes; for the few ranks of one host
//! the root's copies are the cost, and a tree copies more.

use std::future::Future;

use hikyaku_nic::fabric::{Port, Rank};

use crate::check_length;
use hikyaku_msg::Endpoint;
use hikyaku_msg::MsgError;
use hikyaku_msg::join_all;

/// Collects `mine` of every rank at `root`, in rank order, in `into`, which has room for as many
/// bytes of each; elsewhere `into` is not looked at (MPI 5.0 §6.5).
///
/// Cost: one message of m bytes from each rank; (n - 1) m bytes at the root.
///
/// # Errors
/// [`MsgError`] of the messages it consists of: a rank is gone, `root` does not exist, or lengths
/// differ.
pub fn gather<'e, 'b, P: Port>(
    endpoint: &Endpoint<'e, P>,
    mine: &'b [u8],
    into: &'b mut [u8],
    root: Rank,
) -> impl Future<Output = Result<(), MsgError>> + use<'e, 'b, P> {
    let (endpoint, tag) = (*endpoint, endpoint.next_tag());
    async move {
        if endpoint.rank() != root {
            return endpoint.send(mine, root, tag).await;
        }
        check_length(into.len(), mine.len() * endpoint.size() as usize)?;
        let blocks = split(into, mine.len(), endpoint.size());
        receive_blocks(&endpoint, tag, mine, blocks, root).await
    }
}

/// The same with any length per rank: block `r` of `blocks` gets what rank `r` has, and is as
/// long (MPI 5.0 §6.5). Elsewhere than at the root `blocks` is not looked at.
///
/// # Errors
/// As [`gather`].
pub fn gather_blocks<'e, 'b, P: Port>(
    endpoint: &Endpoint<'e, P>,
    mine: &'b [u8],
    blocks: Vec<&'b mut [u8]>,
    root: Rank,
) -> impl Future<Output = Result<(), MsgError>> + use<'e, 'b, P> {
    let (endpoint, tag) = (*endpoint, endpoint.next_tag());
    async move {
        if endpoint.rank() != root {
            return endpoint.send(mine, root, tag).await;
        }
        check_length(blocks.len(), endpoint.size() as usize)?;
        receive_blocks(&endpoint, tag, mine, blocks, root).await
    }
}

async fn receive_blocks<P: Port>(
    endpoint: &Endpoint<'_, P>,
    tag: i32,
    mine: &[u8],
    blocks: Vec<&mut [u8]>,
    root: Rank,
) -> Result<(), MsgError> {
    let mut lengths = Vec::with_capacity(blocks.len());
    let mut receives = Vec::with_capacity(blocks.len());
    for (rank, block) in (0..).zip(blocks) {
        if rank == root {
            check_length(block.len(), mine.len())?;
            block.copy_from_slice(mine);
        } else {
            lengths.push(block.len());
            receives.push(endpoint.recv(block, Some(rank), Some(tag)));
        }
    }
    for (result, length) in join_all(receives).await.into_iter().zip(lengths) {
        check_length(length, result?.bytes as usize)?;
    }
    Ok(())
}

/// `count` blocks of `length` bytes, which may be none.
fn split(mut bytes: &mut [u8], length: usize, count: u32) -> Vec<&mut [u8]> {
    let block = |_| {
        let (block, rest) = std::mem::take(&mut bytes).split_at_mut(length);
        bytes = rest;
        block
    };
    (0..count).map(block).collect()
}
