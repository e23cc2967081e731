//! Objects on which tasks of one simulation wait: a signal, a mailbox, a server with a queue.
//!
//! A modelled interface consists of units with queues between them. These are the queues. All of
//! them are FIFO, and each storage has a limit.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use hikyaku_nic::time::Time;

use super::kernel::{Delay, Sim};
use super::task::Wakeup;

/// A count of events of one kind, on which tasks wait: a doorbell.
#[derive(Debug, Clone)]
pub struct Signal(Rc<SignalState>);

#[derive(Debug)]
struct SignalState {
    sim: Sim,
    what: &'static str,
    count: Cell<u64>,
    waiting: RefCell<Vec<Wakeup>>,
}

impl SignalState {
    /// Registers the task to wake, once: a task may be polled many times for other reasons.
    fn wait(&self, context: &Context<'_>) {
        let wakeup = self.sim.wakeup(context, self.what);
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.iter().any(|other| other.same(&wakeup)) {
            waiting.push(wakeup);
        }
    }
}

impl Signal {
    /// A signal that has not been raised. `what` completes "waits for ..." in a deadlock report.
    pub fn new(sim: &Sim, what: &'static str) -> Signal {
        let state = SignalState {
            sim: sim.clone(),
            what,
            count: Cell::new(0),
            waiting: RefCell::default(),
        };
        Signal(Rc::new(state))
    }

    /// Raises the signal once. Wakes every task that waits for this count.
    pub fn raise(&self) {
        self.0.count.set(self.0.count.get() + 1);
        let waiting = self.0.waiting.take();
        waiting.into_iter().for_each(|wakeup| self.0.sim.wake(wakeup));
    }

    /// The number of times that it has been raised.
    pub fn count(&self) -> u64 {
        self.0.count.get()
    }

    /// Waits until the signal has been raised `count` times in total.
    pub fn reaches(&self, count: u64) -> SignalWait {
        SignalWait { signal: self.clone(), count }
    }
}

/// Waits for a signal: [`Signal::reaches`].
#[derive(Debug)]
#[must_use = "nothing waits until this is awaited"]
pub struct SignalWait {
    signal: Signal,
    count: u64,
}

impl Future for SignalWait {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let state = &self.signal.0;
        if state.count.get() >= self.count {
            return Poll::Ready(());
        }
        state.wait(context);
        Poll::Pending
    }
}

/// A queue of limited length between units. An item that finds no room is returned.
#[derive(Debug)]
pub struct Mailbox<T>(Rc<MailboxState<T>>);

#[derive(Debug)]
struct MailboxState<T> {
    capacity: usize,
    items: RefCell<VecDeque<T>>,
    changed: Signal,
}

impl<T> Clone for Mailbox<T> {
    fn clone(&self) -> Self {
        Mailbox(Rc::clone(&self.0))
    }
}

impl<T> Mailbox<T> {
    /// An empty mailbox for up to `capacity` items. `what` completes "waits for ...".
    pub fn new(sim: &Sim, capacity: usize, what: &'static str) -> Mailbox<T> {
        let changed = Signal::new(sim, what);
        Mailbox(Rc::new(MailboxState { capacity, items: RefCell::default(), changed }))
    }

    /// Puts an item in.
    ///
    /// # Errors
    /// The item itself if the mailbox is full.
    pub fn post(&self, item: T) -> Result<(), T> {
        let mut items = self.0.items.borrow_mut();
        if items.len() >= self.0.capacity {
            return Err(item);
        }
        items.push_back(item);
        drop(items);
        self.0.changed.raise();
        Ok(())
    }

    /// Puts an item in even if the mailbox is full. For callers that bound the items by other
    /// means.
    pub fn admit(&self, item: T) {
        self.0.items.borrow_mut().push_back(item);
        self.0.changed.raise();
    }

    /// Puts an item in. Waits while the mailbox is full.
    pub async fn send(&self, mut item: T) {
        loop {
            let seen = self.0.changed.count();
            match self.post(item) {
                Ok(()) => return,
                Err(refused) => item = refused,
            }
            self.0.changed.reaches(seen + 1).await;
        }
    }

    /// Takes the oldest item, if any.
    pub fn take(&self) -> Option<T> {
        let item = self.0.items.borrow_mut().pop_front();
        if item.is_some() {
            self.0.changed.raise();
        }
        item
    }

    /// Waits for the oldest item.
    pub fn receive(&self) -> MailboxReceive<'_, T> {
        MailboxReceive { mailbox: self }
    }

    /// The number of waiting items.
    pub fn len(&self) -> usize {
        self.0.items.borrow().len()
    }

    /// Whether no item waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Waits for an item: [`Mailbox::receive`].
#[derive(Debug)]
#[must_use = "nothing is taken until this is awaited"]
pub struct MailboxReceive<'m, T> {
    mailbox: &'m Mailbox<T>,
}

impl<T> Future for MailboxReceive<'_, T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        match self.mailbox.take() {
            Some(item) => Poll::Ready(item),
            None => {
                self.mailbox.0.changed.0.wait(context);
                Poll::Pending
            }
        }
    }
}

/// A server that serves one request at a time, in the order of the requests: a bus, a DMA engine, a
/// table.
///
/// It needs no queue. The caller learns at once when its service will end, so a request costs one
/// event, however many requests are ahead of it.
#[derive(Debug, Clone)]
pub struct Server(Rc<ServerState>);

#[derive(Debug)]
struct ServerState {
    sim: Sim,
    free_at: Cell<Time>,
    busy: Cell<Time>,
}

impl Server {
    /// An idle server.
    pub fn new(sim: &Sim) -> Server {
        let state =
            ServerState { sim: sim.clone(), free_at: Cell::default(), busy: Cell::default() };
        Server(Rc::new(state))
    }

    /// Books `span` of service from `ready` on, or from the time when the server is free. Returns
    /// its start.
    pub fn book(&self, ready: Time, span: Time) -> Time {
        let start = ready.max(self.0.free_at.get());
        self.0.free_at.set(start + span);
        self.0.busy.set(self.0.busy.get() + span);
        start
    }

    /// Waits for the server and then for `span` of its service.
    pub fn serve(&self, span: Time) -> Delay {
        let start = self.book(self.0.sim.now(), span);
        self.0.sim.delay_until(start + span)
    }

    /// The time when the server will be free without further requests.
    pub fn free_at(&self) -> Time {
        self.0.free_at.get()
    }

    /// The sum of all booked spans.
    pub fn busy(&self) -> Time {
        self.0.busy.get()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Simulation, TaskName};
    use super::*;

    fn ns(nanoseconds: u64) -> Time {
        Time::from_nanoseconds(nanoseconds)
    }

    fn name(index: u32) -> TaskName {
        TaskName { kind: "unit", index }
    }

    #[test]
    fn a_mailbox_keeps_order_and_holds_back_the_faster_side() {
        let simulation = Simulation::new(0);
        let mailbox = Mailbox::new(&simulation, 2, "an item");
        let (sim, inbox) = (simulation.clone(), mailbox.clone());
        let seen = Rc::new(RefCell::new(Vec::new()));
        let log = Rc::clone(&seen);
        simulation.spawn(name(0), async move {
            for item in 0..6 {
                mailbox.send(item).await;
                assert!(mailbox.len() <= 2);
            }
        });
        simulation.spawn(name(1), async move {
            for _ in 0..6 {
                let item = inbox.receive().await;
                log.borrow_mut().push((sim.now().nanoseconds(), item));
                sim.delay(ns(10)).await;
            }
            assert!(inbox.is_empty());
        });
        simulation.run().unwrap();
        assert_eq!(*seen.borrow(), [(0, 0), (10, 1), (20, 2), (30, 3), (40, 4), (50, 5)]);
    }

    #[test]
    fn a_full_mailbox_gives_the_item_back() {
        let simulation = Simulation::new(0);
        let mailbox = Mailbox::new(&simulation, 1, "an item");
        assert_eq!((mailbox.post('a'), mailbox.post('b')), (Ok(()), Err('b')));
        assert_eq!((mailbox.take(), mailbox.take()), (Some('a'), None));
    }

    #[test]
    fn reports_name_a_signal_never_raised() {
        let simulation = Simulation::new(0);
        let signal = Signal::new(&simulation, "the doorbell");
        simulation.spawn(name(4), async move { signal.reaches(1).await });
        let text = simulation.run().unwrap_err().to_string();
        assert!(text.contains("unit 4 waits for the doorbell"), "{text}");
    }

    #[test]
    fn a_task_polled_often_waits_once() {
        let simulation = Simulation::new(0);
        let (never, often) =
            (Signal::new(&simulation, "what never comes"), Signal::new(&simulation, "ticks"));
        let (sim, ticks, watched) = (simulation.clone(), often.clone(), never.clone());
        simulation.spawn_service(name(0), async move {
            let mut waiting = never.reaches(1);
            let mut count = 0;
            std::future::poll_fn(|context| {
                count += 1;
                let _ = Pin::new(&mut often.reaches(count)).poll(context);
                Pin::new(&mut waiting).poll(context)
            })
            .await;
        });
        simulation.spawn(name(1), async move {
            for _ in 0..100 {
                sim.delay(ns(1)).await;
                ticks.raise();
            }
        });
        simulation.run().unwrap();
        assert_eq!(watched.0.waiting.borrow().len(), 1);
    }

    #[test]
    fn a_server_serves_in_the_order_of_asking() {
        let simulation = Simulation::new(0);
        let (server, done) = (Server::new(&simulation), Rc::new(RefCell::new(Vec::new())));
        for index in 0..3 {
            let (server, done) = (server.clone(), Rc::clone(&done));
            let sim = Sim::clone(&simulation);
            simulation.spawn(name(index), async move {
                server.serve(ns(4)).await;
                done.borrow_mut().push((sim.now().nanoseconds(), index));
            });
        }
        simulation.run().unwrap();
        assert_eq!(*done.borrow(), [(4, 0), (8, 1), (12, 2)]);
        assert_eq!((server.free_at(), server.busy()), (ns(12), ns(12)));
    }
}
