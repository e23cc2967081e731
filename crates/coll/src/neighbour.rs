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

use hikyaku_msg::{Endpoint, MsgError, RecvFuture, SendFuture};
use hikyaku_nic::fabric::{Port, Rank};
use thiserror::Error;

/// What goes out along an edge.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'b> {
    /// The rank at its end.
    pub to: Rank,
    /// What tells it apart.
    pub tag: i32,
    /// The data.
    pub bytes: &'b [u8],
}

/// What comes in along an edge.
#[derive(Debug)]
pub struct Incoming<'b> {
    /// The rank at its beginning.
    pub from: Rank,
    /// What tells it apart.
    pub tag: i32,
    /// Where it goes. Exactly so much must come.
    pub into: &'b mut [u8],
}

/// Why an exchange did not do what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ExchangeError {
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
    Message(#[from] MsgError),
}

/// Sends and receives along all edges. When it answers, every edge has been dealt with: the first
/// failure is reported after the others have ended.
///
/// Cost: one message an edge, all at the same time.
///
/// # Errors
/// [`ExchangeError`]: sizes differ between the ends of an edge (told by the receiving end), or a
/// message failed.
pub async fn exchange<'b, P: Port>(
    endpoint: &Endpoint<'_, P>,
    outgoing: impl IntoIterator<Item = Outgoing<'b>>,
    incoming: impl IntoIterator<Item = Incoming<'b>>,
) -> Result<(), ExchangeError> {
    let mut sends: Vec<Sending<'_, '_, P>> = Vec::new();
    let mut first = Ok(());
    for Outgoing { to, tag, bytes } in outgoing {
        let mut send = endpoint.send(bytes, to, tag);
        // Small messages are gone at once and need no place in the list.
        match poll_fn(|context| Poll::Ready(Pin::new(&mut send).poll(context))).await {
            Poll::Ready(result) => first = first.and(result.map_err(ExchangeError::from)),
            Poll::Pending => sends.push(Some(send)),
        }
    }
    let receive = |(edge, Incoming { from, tag, into }): (usize, Incoming<'b>)| Receiving {
        edge,
        expected: into.len() as u64,
        future: Some(endpoint.recv(into, Some(from), Some(tag))),
    };
    let mut receives: Vec<_> = incoming.into_iter().enumerate().map(receive).collect();
    let rest = poll_fn(|context| poll_all(&mut sends, &mut receives, &mut first, context)).await;
    debug_assert!(sends.iter().all(Option::is_none));
    rest
}

/// A send that is not complete, until it is.
type Sending<'e, 'b, P> = Option<SendFuture<'e, 'b, P>>;

/// A receive, until it is complete.
struct Receiving<'e, 'b, P: Port> {
    edge: usize,
    expected: u64,
    future: Option<RecvFuture<'e, 'b, P>>,
}

/// Polls what is not complete; ready when nothing is left, with the first failure.
fn poll_all<P: Port>(
    sends: &mut [Sending<'_, '_, P>],
    receives: &mut [Receiving<'_, '_, P>],
    first: &mut Result<(), ExchangeError>,
    context: &mut Context<'_>,
) -> Poll<Result<(), ExchangeError>> {
    let mut open = false;
    for slot in sends {
        let Some(send) = slot else { continue };
        match Pin::new(send).poll(context) {
            Poll::Pending => open = true,
            Poll::Ready(result) => {
                *slot = None;
                *first = first.and(result.map_err(ExchangeError::from));
            }
        }
    }
    for receive in receives {
        let Some(future) = &mut receive.future else { continue };
        match Pin::new(future).poll(context) {
            Poll::Pending => open = true,
            Poll::Ready(result) => {
                receive.future = None;
                let bytes = result.map(|received| received.bytes);
                *first = first.and(check_size(receive.edge, receive.expected, bytes));
            }
        }
    }
    if open { Poll::Pending } else { Poll::Ready(*first) }
}

/// Whether what came along an edge has the size that was expected. `bytes` is the result of its
/// receive.
///
/// # Errors
/// [`ExchangeError`], also if the receive failed.
pub fn check_size(
    edge: usize,
    expected: u64,
    bytes: Result<u64, MsgError>,
) -> Result<(), ExchangeError> {
    match bytes {
        Ok(sent) | Err(MsgError::Truncated { sent, .. }) if sent != expected => {
            Err(ExchangeError::Size { edge, sent, expected })
        }
        Ok(_) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
