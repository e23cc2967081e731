//! Sends and receives in flight, as futures.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hikyaku_nic::time::Time;

use super::state::JobState;

/// A received message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceivedMessage {
    /// The rank that sent it.
    pub source: u32,
    /// Its tag.
    pub tag: i32,
    /// Bytes of payload.
    pub bytes: u64,
    /// The payload; `None` if the job carries lengths only, or the sender gave only a length.
    pub data: Option<Box<[u8]>>,
}

/// A send in flight. It is ready when the sender's memory is free again. If it is dropped, the
/// message still arrives.
#[derive(Debug)]
#[must_use = "wait for it, or drop it on purpose: the message is sent either way"]
pub struct SendRequest {
    pub(super) job: Rc<JobState>,
    pub(super) rank: u32,
    pub(super) departure: Departure,
}

/// The time when the sender's memory is free.
#[derive(Debug, Clone, Copy)]
pub(super) enum Departure {
    Known(Time),
    /// The number of the send in the job's table.
    Awaited(u32),
}

impl Future for SendRequest {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Departure::Awaited(key) = self.departure {
            match self.job.departure(key, context) {
                Some(time) => self.departure = Departure::Known(time),
                None => return Poll::Pending,
            }
        }
        if let Departure::Known(time) = self.departure {
            self.job.catch_up(self.rank, time);
        }
        Poll::Ready(())
    }
}

impl Drop for SendRequest {
    fn drop(&mut self) {
        if let Departure::Awaited(key) = self.departure {
            self.job.forget_send(key);
        }
    }
}

/// A receive in flight. It is ready when its message has arrived. Dropping it withdraws the
/// receive.
#[derive(Debug)]
#[must_use = "nothing is received until this is awaited"]
pub struct RecvRequest {
    pub(super) job: Rc<JobState>,
    pub(super) rank: u32,
    pub(super) arrival: ReceiveArrival,
}

/// The message of a receive. It stays in the job's table until it is taken, so that a request is
/// small: programs keep dozens of them.
#[derive(Debug, Clone, Copy)]
pub(super) enum ReceiveArrival {
    /// It has already arrived, with this number.
    Here(u32),
    /// The number of the receive in the job's table.
    Awaited(u32),
    /// The message has been taken.
    Taken,
}

impl Future for RecvRequest {
    type Output = ReceivedMessage;

    /// # Panics
    /// When polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<ReceivedMessage> {
        let rank = self.rank;
        let matched = match self.arrival {
            ReceiveArrival::Here(message) => self.job.unexpected(message),
            ReceiveArrival::Awaited(receive) => self.job.arrival(receive, context),
            ReceiveArrival::Taken => panic!("a receive is polled again after it gave its message"),
        };
        let Some((message, arrived)) = matched else { return Poll::Pending };
        self.arrival = ReceiveArrival::Taken;
        self.job.received(rank, &message, arrived);
        Poll::Ready(message)
    }
}

/// Several receives that are waited for together: [`Rank::wait_all`](super::Rank::wait_all).
#[derive(Debug)]
#[must_use = "nothing is received until this is awaited"]
pub struct WaitAll<'r> {
    pub(super) job: &'r JobState,
    pub(super) rank: u32,
    pub(super) requests: &'r mut Vec<RecvRequest>,
    /// The rank's own time when it began to wait.
    pub(super) since: Time,
}

impl Future for WaitAll<'_> {
    type Output = Vec<ReceivedMessage>;

    /// Waits at the last receive without a message. Messages mostly arrive in the order of their
    /// receives, so the rank is woken once and not by each of them.
    ///
    /// # Panics
    /// If one of the receives has already returned its message.
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Vec<ReceivedMessage>> {
        let WaitAll { job, rank, requests, since } = self.get_mut();
        let open = |request: &&RecvRequest| match request.arrival {
            ReceiveArrival::Awaited(receive) => !job.has_arrived(receive),
            ReceiveArrival::Here(_) | ReceiveArrival::Taken => false,
        };
        if let Some(ReceiveArrival::Awaited(last)) =
            requests.iter().rev().find(open).map(|r| r.arrival)
        {
            job.wake_for(last, context);
            return Poll::Pending;
        }
        // The rank's own time advances from the begin of the wait, message by message, as if the
        // rank had waited for one after the other.
        job.catch_up(*rank, *since);
        let messages = requests.drain(..).map(|mut request| {
            let arrival = std::mem::replace(&mut request.arrival, ReceiveArrival::Taken);
            let matched = match arrival {
                ReceiveArrival::Here(message) => job.unexpected(message),
                ReceiveArrival::Awaited(receive) => job.collect(receive),
                ReceiveArrival::Taken => None,
            };
            let (message, arrived) = matched.expect("a receive gives its message once");
            job.received_by(*rank, &message, arrived);
            message
        });
        Poll::Ready(messages.collect())
    }
}

impl Drop for RecvRequest {
    fn drop(&mut self) {
        match self.arrival {
            ReceiveArrival::Here(message) => drop(self.job.unexpected(message)),
            ReceiveArrival::Awaited(receive) => self.job.withdraw(self.rank, receive),
            ReceiveArrival::Taken => {}
        }
    }
}
