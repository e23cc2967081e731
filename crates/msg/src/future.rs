//! Send and receive as futures, and how to run them.
//!
//! A future borrows its memory, and lends it to its request only while it is polled (see
//! `buffer.rs`). Between polls the request is detached: an arriving message stays where it landed,
//! a cleared one is not streamed. So a future may be dropped or leaked at any time. Dropping it
//! abandons its operation; leaking it leaves the operation as it is.
//!
//! No thread moves the engine in the background, so no thread can wake a future. It wakes itself,
//! and is polled again after the executor has let time pass. [`block_on`] does that by
//! [`Engine::idle`].

use std::cell::RefCell;
use std::future::Future;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use hikyaku_nic::fabric::{Activity, CopyPort, Wait};

use crate::buffer::{RecvBuffer, Scattered};
use crate::engine::{Blocked, Engine, Pace};
use crate::envelope::{Envelope, Received, Selector, SendMode};
use crate::error::MsgError;
use crate::request::RequestId;

/// A send in progress. Ready when the bytes may be used again; in synchronous mode, when the
/// message has matched.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct SendFuture<'e, 'b, P: CopyPort> {
    engine: &'e RefCell<Engine<P>>,
    bytes: &'b [u8],
    exposes: bool,
    state: OperationState<(Envelope, SendMode)>,
}

/// A receive in progress. Ready when the message is in the buffer.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct RecvFuture<'e, 'b, P: CopyPort> {
    engine: &'e RefCell<Engine<P>>,
    buffer: &'b mut [u8],
    state: OperationState<Selector>,
}

/// A message of scattered data in progress, sent or received. Its request holds the data from the
/// first poll to the end: their maker has promised the memory for that long.
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct ScatteredFuture<'e, P: CopyPort> {
    engine: &'e RefCell<Engine<P>>,
    state: OperationState<(Scattered, Way)>,
}

/// The direction of a message, with its envelope or selector.
#[derive(Debug, Clone, Copy)]
enum Way {
    Out(Envelope),
    In(Selector),
}

#[derive(Debug)]
enum OperationState<S> {
    /// Not polled yet: the first poll gives it its place in the order of messages.
    New(S),
    Pending(RequestId),
    /// The operation is invalid; the first poll returns this error.
    Refused(MsgError),
    Over,
}

impl<'e, 'b, P: CopyPort> SendFuture<'e, 'b, P> {
    /// A send of `bytes`, which starts at the first poll.
    pub fn new(
        engine: &'e RefCell<Engine<P>>,
        bytes: &'b [u8],
        envelope: Envelope,
        mode: SendMode,
    ) -> SendFuture<'e, 'b, P> {
        SendFuture { engine, bytes, exposes: false, state: OperationState::New((envelope, mode)) }
    }

    /// The same send, whose receiver may read the bytes until it is complete. Do not use it for a
    /// future that may be dropped or leaked earlier: the receiver would then read other data as the
    /// message.
    pub fn exposing(mut self) -> SendFuture<'e, 'b, P> {
        self.exposes = true;
        self
    }

    /// The rest of a started send: request `id`.
    pub(crate) fn pending(
        engine: &'e RefCell<Engine<P>>,
        bytes: &'b [u8],
        id: RequestId,
    ) -> SendFuture<'e, 'b, P> {
        SendFuture { engine, bytes, exposes: false, state: OperationState::Pending(id) }
    }

    /// A send that fails when it is polled.
    pub fn refused(
        engine: &'e RefCell<Engine<P>>,
        bytes: &'b [u8],
        error: MsgError,
    ) -> SendFuture<'e, 'b, P> {
        SendFuture { engine, bytes, exposes: false, state: OperationState::Refused(error) }
    }
}

impl<'e, 'b, P: CopyPort> RecvFuture<'e, 'b, P> {
    /// A receive into `buffer`, posted at the first poll.
    pub fn new(
        engine: &'e RefCell<Engine<P>>,
        buffer: &'b mut [u8],
        selector: Selector,
    ) -> RecvFuture<'e, 'b, P> {
        RecvFuture { engine, buffer, state: OperationState::New(selector) }
    }

    /// A receive that fails when it is polled.
    pub fn refused(
        engine: &'e RefCell<Engine<P>>,
        buffer: &'b mut [u8],
        error: MsgError,
    ) -> RecvFuture<'e, 'b, P> {
        RecvFuture { engine, buffer, state: OperationState::Refused(error) }
    }
}

impl<'e, P: CopyPort> ScatteredFuture<'e, P> {
    /// A send in standard mode, which starts at the first poll.
    pub fn send(
        engine: &'e RefCell<Engine<P>>,
        data: Scattered,
        envelope: Envelope,
    ) -> ScatteredFuture<'e, P> {
        ScatteredFuture { engine, state: OperationState::New((data, Way::Out(envelope))) }
    }

    /// A receive, posted at the first poll.
    pub fn recv(
        engine: &'e RefCell<Engine<P>>,
        data: Scattered,
        selector: Selector,
    ) -> ScatteredFuture<'e, P> {
        ScatteredFuture { engine, state: OperationState::New((data, Way::In(selector))) }
    }

    /// A message that fails when it is polled.
    pub fn refused(engine: &'e RefCell<Engine<P>>, error: MsgError) -> ScatteredFuture<'e, P> {
        ScatteredFuture { engine, state: OperationState::Refused(error) }
    }
}

impl<P: CopyPort> Future for SendFuture<'_, '_, P> {
    type Output = Result<(), MsgError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut engine = this.engine.borrow_mut();
        let id = match this.state {
            OperationState::New((envelope, mode)) => {
                if engine.send_directly(this.bytes, &envelope, mode) {
                    this.state = OperationState::Over;
                    return Poll::Ready(Ok(()));
                }
                match engine.start_send_detached(this.bytes, envelope, mode, this.exposes) {
                    Ok(id) => id,
                    Err(error) => {
                        this.state = OperationState::Over;
                        return Poll::Ready(Err(error));
                    }
                }
            }
            OperationState::Pending(id) => id,
            OperationState::Refused(error) => return Poll::Ready(Err(error)),
            OperationState::Over => return Poll::Ready(Err(MsgError::NoSuchRequest)),
        };
        let result = engine.poll_send(id, this.bytes, |engine| engine.test(id));
        engine.want_more();
        settle(&mut this.state, id, result, context).map_ok(|_| ())
    }
}

impl<P: CopyPort> Future for RecvFuture<'_, '_, P> {
    type Output = Result<Received, MsgError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut engine = this.engine.borrow_mut();
        let id = match this.state {
            OperationState::New(selector) => {
                if let Some(received) = engine.recv_directly(this.buffer, &selector) {
                    this.state = OperationState::Over;
                    return Poll::Ready(Ok(received));
                }
                match engine.start_recv_detached(this.buffer.len(), selector) {
                    Ok(id) => id,
                    Err(error) => {
                        this.state = OperationState::Over;
                        return Poll::Ready(Err(error));
                    }
                }
            }
            OperationState::Pending(id) => id,
            OperationState::Refused(error) => return Poll::Ready(Err(error)),
            OperationState::Over => return Poll::Ready(Err(MsgError::NoSuchRequest)),
        };
        let result = engine.poll_receive(id, this.buffer);
        engine.want_more();
        settle(&mut this.state, id, result, context)
    }
}

impl<P: CopyPort> Future for ScatteredFuture<'_, P> {
    type Output = Result<Received, MsgError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        let mut engine = this.engine.borrow_mut();
        let started = match std::mem::replace(&mut this.state, OperationState::Over) {
            OperationState::New((data, Way::Out(envelope))) => {
                engine.start_send_scattered(data, envelope, SendMode::Standard)
            }
            OperationState::New((data, Way::In(selector))) => {
                engine.start_recv(RecvBuffer::scattered(data), selector)
            }
            OperationState::Pending(id) => Ok(id),
            OperationState::Refused(error) => Err(error),
            OperationState::Over => Err(MsgError::NoSuchRequest),
        };
        let id = match started {
            Ok(id) => id,
            Err(error) => return Poll::Ready(Err(error)),
        };
        let result = engine.test(id);
        engine.want_more();
        settle(&mut this.state, id, result, context)
    }
}

fn settle<S>(
    state: &mut OperationState<S>,
    id: RequestId,
    result: Option<Result<Received, MsgError>>,
    context: &mut Context<'_>,
) -> Poll<Result<Received, MsgError>> {
    match result {
        Some(result) => {
            *state = OperationState::Over;
            Poll::Ready(result)
        }
        None => {
            *state = OperationState::Pending(id);
            context.waker().wake_by_ref();
            Poll::Pending
        }
    }
}

impl<P: CopyPort> Drop for SendFuture<'_, '_, P> {
    fn drop(&mut self) {
        if let OperationState::Pending(id) = self.state {
            // The receiver may be fetching these bytes, so they are copied.
            let mut engine = self.engine.borrow_mut();
            engine.poll_send(id, self.bytes, |engine| engine.abandon(id));
        }
    }
}

impl<P: CopyPort> Drop for RecvFuture<'_, '_, P> {
    fn drop(&mut self) {
        if let OperationState::Pending(id) = self.state {
            self.engine.borrow_mut().abandon(id);
        }
    }
}

impl<P: CopyPort> Drop for ScatteredFuture<'_, P> {
    fn drop(&mut self) {
        if let OperationState::Pending(id) = self.state {
            self.engine.borrow_mut().abandon(id);
        }
    }
}

/// Runs a future to completion. The port waits while there is nothing to do, and announces the
/// operations that the future polls as its wait.
pub fn block_on<P: CopyPort, F: Future>(engine: &RefCell<Engine<P>>, future: F) -> F::Output {
    block_on_for(engine, Wait::new(Activity::Future), future)
}

/// [`block_on`] for a future that waits, as `wait` says, for something unknown to the engine.
pub fn block_on_for<P: CopyPort, F: Future>(
    engine: &RefCell<Engine<P>>,
    wait: Wait,
    future: F,
) -> F::Output {
    drive(engine, wait, future, |blocked| engine.borrow_mut().pass(blocked, Pace::Doorbell))
}

/// The loop of every wait for a future: polls it, and after each unsuccessful poll calls `pass`,
/// which makes progress or lets time pass ([`Engine::pass`] in most waits) and accounts for the
/// round. The wait is announced as the operation that the future polls, or else as `wait` says.
pub fn drive<P: CopyPort, F: Future>(
    engine: &RefCell<Engine<P>>,
    wait: Wait,
    future: F,
    mut pass: impl FnMut(&mut Blocked),
) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let mut blocked = Blocked::new(wait);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            engine.borrow_mut().awake(&blocked);
            return output;
        }
        pass(&mut blocked);
    }
}

/// A future whose operations are reported as parts of one operation that waits as `wait` says.
pub async fn as_one<P: CopyPort, F: Future>(
    engine: &RefCell<Engine<P>>,
    wait: Wait,
    future: F,
) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let before = engine.borrow().reported_waits();
        let polled = future.as_mut().poll(context);
        if let (Some(before), Poll::Pending) = (before, &polled) {
            engine.borrow_mut().report_whole(before, wait);
        }
        polled
    })
    .await
}

/// Runs two futures concurrently until both are done.
pub async fn join<A: Future, B: Future>(a: A, b: B) -> (A::Output, B::Output) {
    let (mut a, mut b) = (pin!(a), pin!(b));
    let (mut first, mut second) = (None, None);
    poll_fn(move |context| {
        poll_once(&mut first, a.as_mut(), context);
        poll_once(&mut second, b.as_mut(), context);
        match (first.take(), second.take()) {
            (Some(a), Some(b)) => Poll::Ready((a, b)),
            (a, b) => {
                (first, second) = (a, b);
                Poll::Pending
            }
        }
    })
    .await
}

/// Runs futures concurrently until all are done; outputs are in the futures' order. Each round
/// polls them in that order, so their operations are ordered among messages in the same way.
pub async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    poll_fn(move |context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            poll_once(output, future.as_mut(), context);
        }
        if outputs.iter().any(Option::is_none) {
            return Poll::Pending;
        }
        Poll::Ready(outputs.iter_mut().filter_map(Option::take).collect())
    })
    .await
}

fn poll_once<F: Future>(
    output: &mut Option<F::Output>,
    future: Pin<&mut F>,
    context: &mut Context<'_>,
) {
    if output.is_none()
        && let Poll::Ready(value) = future.poll(context)
    {
        *output = Some(value);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::mem::ManuallyDrop;

    use super::*;
    use crate::buffer::memory::Leaked;
    use crate::testing::{Unruly, pair, pattern, run, settle, tight};

    fn to(destination: u32) -> Envelope {
        Envelope { destination, context: 1, tag: 0 }
    }

    fn from(source: u32) -> Selector {
        Selector { source: Some(source), tag: Some(0), context: 1 }
    }

    fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn messages_of_every_length_go_both_ways() {
        run(tight(2), |engine| {
            let engine = RefCell::new(engine);
            let other = 1 - engine.borrow().rank();
            for length in [0, 48, 49, 600, 601, 5000] {
                let bytes = pattern(length, other as usize);
                let mut buffer = vec![0; length];
                block_on(&engine, async {
                    let send = SendFuture::new(&engine, &bytes, to(other), SendMode::Standard);
                    let receive = RecvFuture::new(&engine, &mut buffer, from(other));
                    let (sent, received) = join(send, receive).await;
                    sent.unwrap();
                    assert_eq!(received.unwrap().bytes, length as u64);
                });
                assert_eq!(buffer, pattern(length, 1 - other as usize));
            }
            engine.borrow_mut().flush();
        });
    }

    /// The memory that an engine's port has lent to the fabric: addresses and bytes.
    fn lent(engine: &RefCell<Engine<Unruly>>) -> Vec<(usize, Vec<u8>)> {
        engine.borrow_mut().port_mut().rules().lent.values().cloned().collect()
    }

    #[test]
    fn what_a_send_exposes_stays_lent_to_the_fabric_until_it_is_complete() {
        let (a, b) = pair();
        let (a, b) = (RefCell::new(a), RefCell::new(b));
        a.borrow_mut().port_mut().rules().lends = true;
        let bytes = pattern(3000, 1);
        let send = || SendFuture::new(&a, &bytes, to(1), SendMode::Standard);
        let settle = || settle(&mut [&mut a.borrow_mut(), &mut b.borrow_mut()]);

        let mut closed = send();
        assert!(poll(&mut closed).is_pending() && lent(&a).is_empty());
        let mut open = send().exposing();
        for _ in 0..2 {
            assert!(poll(&mut open).is_pending());
            settle();
            assert_eq!(lent(&a), [(bytes.as_ptr().addr(), bytes.clone())]);
        }
        for send in [&mut closed, &mut open] {
            let (mut buffer, mut is_sent) = (vec![0; 3000], false);
            let mut receive = RecvFuture::new(&b, &mut buffer, from(0));
            while poll(&mut receive).is_pending() {
                is_sent = is_sent || poll(send).is_ready();
                settle();
            }
            drop(receive);
            assert_eq!(buffer, bytes);
            assert!(is_sent || poll(send).is_ready());
        }
        assert!(lent(&a).is_empty());

        // One future is dropped early: its receiver may be fetching, so the bytes are copied.
        let short_lived = bytes.clone();
        let send = SendFuture::new(&a, &short_lived, to(1), SendMode::Standard);
        let mut dropped = send.exposing();
        assert!(poll(&mut dropped).is_pending());
        settle();
        drop(dropped);
        let copies = lent(&a);
        assert!(copies.len() == 1 && copies[0].0 != short_lived.as_ptr().addr());
        assert_eq!(copies[0].1, bytes);
        let id = b.borrow_mut().start_recv(Leaked::new(vec![0; 3000]).to_receive(), from(0));
        settle();
        assert!(b.borrow_mut().test(id.unwrap()).is_some());
        assert!(lent(&a).is_empty());
    }

    #[test]
    fn a_dropped_receive_takes_no_unmatched_message() {
        let (a, b) = pair();
        let (a, b) = (RefCell::new(a), RefCell::new(b));
        let mut unused = [0; 8];
        let mut first = RecvFuture::new(&b, &mut unused, from(0));
        assert!(poll(&mut first).is_pending());
        drop(first);
        a.borrow_mut().send(&[3], to(1), SendMode::Standard).unwrap();
        let mut buffer = [0];
        assert!(poll(&mut RecvFuture::new(&b, &mut buffer, from(0))).is_ready());
        assert_eq!((buffer, unused), ([3], [0; 8]));
    }

    #[test]
    fn leaked_futures_touch_no_memory_afterwards() {
        for length in [500, 3000] {
            let (a, b) = pair();
            let (a, b) = (RefCell::new(a), RefCell::new(b));
            let mut buffer = vec![0xEE; length];
            let mut receive = ManuallyDrop::new(RecvFuture::new(&b, &mut buffer, from(0)));
            assert!(poll(&mut *receive).is_pending());
            let bytes = pattern(length, 1);
            a.borrow_mut().port_mut().rules().part = Some(100);
            let send = SendFuture::new(&a, &bytes, to(1), SendMode::Standard);
            let mut send = ManuallyDrop::new(send);
            assert!(poll(&mut *send).is_pending());
            drop(bytes);
            settle(&mut [&mut *a.borrow_mut(), &mut *b.borrow_mut()]);
            assert_eq!(buffer, vec![0xEE; length]);
        }
    }

    #[test]
    fn a_dropped_unposted_send_is_never_sent() {
        let (a, b) = pair();
        let (a, b) = (RefCell::new(a), RefCell::new(b));
        a.borrow_mut().port_mut().rules().full = 100;
        let mut send = SendFuture::new(&a, &[1], to(1), SendMode::Standard);
        assert!(poll(&mut send).is_pending());
        drop(send);
        a.borrow_mut().port_mut().rules().full = 0;
        settle(&mut [&mut *a.borrow_mut(), &mut *b.borrow_mut()]);
        assert_eq!(b.borrow_mut().probe(from(0)), Ok(None));
    }

    #[test]
    fn an_unpolled_future_does_not_delay_later_messages() {
        let (a, b) = pair();
        let (a, mut b) = (RefCell::new(a), b);
        let bytes = pattern(500, 1);
        a.borrow_mut().port_mut().rules().full = 5;
        let mut send = SendFuture::new(&a, &bytes, to(1), SendMode::Standard);
        assert!(poll(&mut send).is_pending());
        a.borrow_mut().send(&[9], to(1), SendMode::Standard).unwrap();
        let mut buffer = vec![0; 500];
        b.recv(&mut buffer, from(0)).unwrap();
        assert_eq!(buffer, bytes);
        b.recv(&mut buffer, from(0)).unwrap();
        assert_eq!(buffer[0], 9);
        assert!(poll(&mut send).is_ready());
    }

    #[test]
    fn polling_a_finished_future_is_an_error() {
        let (a, _b) = pair();
        let a = RefCell::new(a);
        let mut send = SendFuture::new(&a, &[], to(1), SendMode::Standard);
        assert_eq!(poll(&mut send), Poll::Ready(Ok(())));
        assert_eq!(poll(&mut send), Poll::Ready(Err(MsgError::NoSuchRequest)));
        let mut receive = RecvFuture::new(&a, &mut [], from(5));
        assert!(matches!(poll(&mut receive), Poll::Ready(Err(MsgError::NoSuchRank { .. }))));
        assert_eq!(poll(&mut receive), Poll::Ready(Err(MsgError::NoSuchRequest)));
    }

    #[test]
    fn receives_complete_in_any_order_of_arrival() {
        let (mut a, b) = pair();
        let b = RefCell::new(b);
        let mut buffers = [[0u8; 1]; 4];
        for tag in [2, 0, 3, 1] {
            a.send(&[tag as u8], Envelope { tag, ..to(1) }, SendMode::Standard).unwrap();
        }
        let receives = (0..).zip(&mut buffers).map(|(tag, buffer)| {
            RecvFuture::new(&b, buffer, Selector { tag: Some(tag), ..from(0) })
        });
        let all = block_on(&b, join_all(receives.collect()));
        assert!(all.iter().zip(0..).all(|(result, tag)| result.unwrap().tag == tag));
        assert_eq!(buffers, [[0], [1], [2], [3]]);
    }

    #[test]
    fn a_long_wait_is_announced_by_its_operation() {
        let (engine, _other) = pair();
        let engine = RefCell::new(engine);
        let mut polls = 0;
        let heard = poll_fn(|_| {
            polls += 1;
            assert!(polls < 1000, "nothing is announced, or the port never waits");
            let announced = engine.borrow_mut().port_mut().rules().announced;
            announced.map_or(Poll::Pending, Poll::Ready)
        });
        let wait = block_on_for(&engine, Wait::new(Activity::Collective), heard);
        assert_eq!(wait.activity, Activity::Collective);
    }

    #[test]
    fn data_with_gaps_go_both_ways_as_they_lie() {
        run(tight(2), |engine| {
            let engine = RefCell::new(engine);
            let own = engine.borrow().rank();
            for length in [1, 600, 9000, 100_000] {
                let out = Leaked::new(pattern(length, own as usize));
                let into = Leaked::new(vec![0; length]);
                let (sent, received) = block_on(&engine, async {
                    let send = ScatteredFuture::send(&engine, out.backwards(), to(1 - own));
                    let receive = ScatteredFuture::recv(&engine, into.backwards(), from(1 - own));
                    join(send, receive).await
                });
                sent.unwrap();
                assert_eq!(received.unwrap().bytes, length as u64);
                assert_eq!(into.to_vec(), pattern(length, 1 - own as usize));
            }
        });
    }

    #[test]
    fn a_dropped_receive_with_gaps_leaves_its_memory_alone() {
        let (a, b) = pair();
        let (a, b) = (RefCell::new(a), RefCell::new(b));
        let into = Leaked::new(vec![0; 100]);
        let mut receive = ScatteredFuture::recv(&b, into.backwards(), from(0));
        assert!(poll(&mut receive).is_pending());
        drop(receive);
        let (bytes, mut buffer) = (pattern(100, 0), [0; 100]);
        block_on(&a, SendFuture::new(&a, &bytes, to(1), SendMode::Standard)).unwrap();
        block_on(&b, RecvFuture::new(&b, &mut buffer, from(0))).unwrap();
        assert_eq!((&buffer[..], into.to_vec()), (&bytes[..], vec![0; 100]));
    }
}
