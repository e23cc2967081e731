//! Sends and receives that are under way, as futures.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hikyaku_nic::time::Time;

use super::state::Inner;

/// A message as its receiver gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The rank that sent it.
    pub source: u32,
    /// Its tag.
    pub tag: i32,
    /// Bytes of payload.
    pub bytes: u64,
    /// The payload; `None` if the job carries lengths only or the sender gave only a length.
    pub data: Option<Box<[u8]>>,
}

/// A send under way; ready when the sender's memory is free again. Dropping it forgets it: the
/// message arrives all the same.
#[derive(Debug)]
#[must_use = "wait for it, or drop it on purpose: the message is sent either way"]
pub struct SendRequest {
    pub(super) job: Rc<Inner>,
    pub(super) rank: u32,
    pub(super) departure: Departure,
}

/// When the sender's memory is free.
#[derive(Debug, Clone, Copy)]
pub(super) enum Departure {
    Known(Time),
    /// Number of the send in the job's table.
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

/// A receive under way; ready with its message. Dropping it takes the receive back.
#[derive(Debug)]
#[must_use = "nothing is received until this is awaited"]
pub struct RecvRequest {
    pub(super) job: Rc<Inner>,
    pub(super) rank: u32,
    pub(super) arrival: Arrival,
}

/// The message of a receive.
#[derive(Debug)]
pub(super) enum Arrival {
    /// It was there already.
    Here(Message),
    /// Number of the receive in the job's table.
    Awaited(u32),
    /// It has been handed out.
    Taken,
}

impl Future for RecvRequest {
    type Output = Message;

    /// # Panics
    /// When polled again after it was ready.
    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Message> {
        let rank = self.rank;
        let (message, arrived) = match std::mem::replace(&mut self.arrival, Arrival::Taken) {
            Arrival::Here(message) => (message, Time::ZERO),
            Arrival::Awaited(key) => match self.job.arrival(key, context) {
                Some(matched) => matched,
                None => {
                    self.arrival = Arrival::Awaited(key);
                    return Poll::Pending;
                }
            },
            Arrival::Taken => panic!("a receive is polled again after it gave its message"),
        };
        self.job.received(rank, &message, arrived);
        Poll::Ready(message)
    }
}

impl Drop for RecvRequest {
    fn drop(&mut self) {
        if let Arrival::Awaited(key) = self.arrival {
            self.job.withdraw(self.rank, key);
        }
    }
}
