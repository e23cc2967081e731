//! One exchange along all edges of a topology at the same time.
//!
//! The basis of neighbour allgather and alltoall in all their forms (MPI 5.0 §8.6). There is no
//! choice of algorithm: each edge is one message, and messages of different edges do not wait for
//! each other. Sends are polled before receives, so that neighbours have something to receive.
//!
//! Tags match messages with receives: the caller gives both ends of an edge the same tag, and
//! another tag to each edge between the same ranks.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use thiserror::Error;

use crate::group::Group;

/// The data sent along an edge.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingBlock<'b, B> {
    /// The destination rank.
    pub to: u32,
    /// The tag of the edge.
    pub tag: i32,
    /// The data.
    pub bytes: &'b [B],
}

/// The place of the data received along an edge.
#[derive(Debug)]
pub struct IncomingBlock<'b, B> {
    /// The source rank.
    pub from: u32,
    /// The tag of the edge.
    pub tag: i32,
    /// The buffer. The message must have exactly this length.
    pub into: &'b mut [B],
}

/// The error of an exchange; `E` is the error of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ExchangeError<E> {
    /// A neighbour sent more or less than expected. The data is lost.
    #[error("{sent} bytes came along edge {edge} where {expected} were to come")]
    Size {
        /// The index of the edge among those of the exchange.
        edge: usize,
        /// Bytes that were sent.
        sent: u64,
        /// Bytes that were expected.
        expected: u64,
    },
    /// A message failed.
    #[error(transparent)]
    Message(E),
}

/// Sends and receives along all edges. It completes after every edge has; the first failure is
/// reported after the others have ended.
///
/// Cost: one message an edge, all at the same time.
///
/// # Errors
/// [`ExchangeError`]: sizes differ between the ends of an edge (reported by the receiving end), or
/// a message failed.
pub async fn exchange<'b, G: Group>(
    group: &'b G,
    outgoing: impl IntoIterator<Item = OutgoingBlock<'b, G::Byte>>,
    incoming: impl IntoIterator<Item = IncomingBlock<'b, G::Byte>>,
) -> Result<(), ExchangeError<G::Error>> {
    let mut sends = Vec::new();
    let mut outcome = Ok(());
    for OutgoingBlock { to, tag, bytes } in outgoing {
        let mut send = group.send(bytes, to, tag);
        // Small messages complete at once and need no place in the list.
        match poll_fn(|context| Poll::Ready(Pin::new(&mut send).poll(context))).await {
            Poll::Ready(result) => note(&mut outcome, result.map_err(ExchangeError::Message)),
            Poll::Pending => sends.push(Some(send)),
        }
    }
    let receive =
        |(edge, IncomingBlock { from, tag, into }): (usize, IncomingBlock<'b, G::Byte>)| {
            let expected = into.len() as u64;
            EdgeReceive { edge, expected, future: Some(group.recv(into, from, tag)) }
        };
    let mut receives: Vec<_> = incoming.into_iter().enumerate().map(receive).collect();
    poll_fn(|context| poll_all(&mut sends, &mut receives, &mut outcome, context)).await;
    outcome
}

/// A receive, until it is complete.
struct EdgeReceive<F> {
    edge: usize,
    expected: u64,
    future: Option<F>,
}

/// Keeps the first failure.
fn note<E>(outcome: &mut Result<(), E>, result: Result<(), E>) {
    if outcome.is_ok() {
        *outcome = result;
    }
}

/// Polls all incomplete futures; ready when none is left.
fn poll_all<S, R, E>(
    sends: &mut [Option<S>],
    receives: &mut [EdgeReceive<R>],
    outcome: &mut Result<(), ExchangeError<E>>,
    context: &mut Context<'_>,
) -> Poll<()>
where
    S: Future<Output = Result<(), E>> + Unpin,
    R: Future<Output = Result<u64, E>> + Unpin,
{
    let mut open = false;
    for slot in sends {
        let Some(send) = slot else { continue };
        match Pin::new(send).poll(context) {
            Poll::Pending => open = true,
            Poll::Ready(result) => {
                *slot = None;
                note(outcome, result.map_err(ExchangeError::Message));
            }
        }
    }
    for receive in receives {
        let Some(future) = &mut receive.future else { continue };
        match Pin::new(future).poll(context) {
            Poll::Pending => open = true,
            Poll::Ready(result) => {
                receive.future = None;
                note(outcome, check_size(receive.edge, receive.expected, result));
            }
        }
    }
    if open { Poll::Pending } else { Poll::Ready(()) }
}

/// Checks that the message along an edge has the expected size. `sent` is the result of its
/// receive: the length of the message, even if it did not fit.
///
/// # Errors
/// [`ExchangeError`], also if the receive failed.
pub fn check_size<E>(
    edge: usize,
    expected: u64,
    sent: Result<u64, E>,
) -> Result<(), ExchangeError<E>> {
    match sent {
        Ok(sent) if sent != expected => Err(ExchangeError::Size { edge, sent, expected }),
        Ok(_) => Ok(()),
        Err(error) => Err(ExchangeError::Message(error)),
    }
}
