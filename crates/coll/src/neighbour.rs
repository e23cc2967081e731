//! One exchange along the edges of a topology: everything out, everything in, all at once.
//!
//! What neighbour allgather and alltoall in all their forms are made of (MPI 5.0 §8.6). There is
//! nothing to choose: each edge is one message, and messages of different edges do not wait for
//! each other. Sends are polled before receives, so that neighbours have something to land.
//!
//! Which message belongs to which receive is said by the tags: the caller gives both ends of an
//! edge the same one, and another to each edge between the same ranks.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use thiserror::Error;

use crate::group::Group;

/// What goes out along an edge.
#[derive(Debug, Clone, Copy)]
pub struct OutgoingBlock<'b, B> {
    /// The rank at its end.
    pub to: u32,
    /// What tells it apart.
    pub tag: i32,
    /// The data.
    pub bytes: &'b [B],
}

/// What comes in along an edge.
#[derive(Debug)]
pub struct IncomingBlock<'b, B> {
    /// The rank at its beginning.
    pub from: u32,
    /// What tells it apart.
    pub tag: i32,
    /// Where it goes. Exactly so much must come.
    pub into: &'b mut [B],
}

/// Why an exchange did not do what was asked; `E` is the error of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ExchangeError<E> {
    /// A neighbour sent more or less than was to come. The data is gone.
    #[error("{sent} bytes came along edge {edge} where {expected} were to come")]
    Size {
        /// Place of the edge among those given to the exchange.
        edge: usize,
        /// Bytes that were sent.
        sent: u64,
        /// Bytes there is room for.
        expected: u64,
    },
    /// A message went wrong.
    #[error(transparent)]
    Message(E),
}

/// Sends and receives along all edges. When it answers, every edge has been dealt with: the first
/// failure is reported after the others have ended.
///
/// Cost: one message an edge, all at the same time.
///
/// # Errors
/// [`ExchangeError`]: sizes differ between the ends of an edge (told by the receiving end), or a
/// message failed.
pub async fn exchange<'b, G: Group>(
    group: &'b G,
    outgoing: impl IntoIterator<Item = OutgoingBlock<'b, G::Byte>>,
    incoming: impl IntoIterator<Item = IncomingBlock<'b, G::Byte>>,
) -> Result<(), ExchangeError<G::Error>> {
    let mut sends = Vec::new();
    let mut outcome = Ok(());
    for OutgoingBlock { to, tag, bytes } in outgoing {
        let mut send = group.send(bytes, to, tag);
        // Small messages are gone at once and need no place in the list.
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

/// Polls what is not complete; ready when nothing is left.
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

/// Whether what came along an edge has the size that was expected. `sent` is what its receive
/// answered: the length of the message, also if there was no room for it.
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
