//! Waiting in two halves, between which other threads of the rank use its port.
//!
//! [`Port::park`](crate::fabric::Port::park) sleeps with the port in its hands. Here the first half
//! says how to rest, and what it says needs neither port nor host. Threads that wait for steps of
//! groups each keep their own ([`HostedPort::take_steps`]); who rests rests for all of them.

use super::group::Groups;
use super::mail::Mailboxes;
use super::queue::Queues;
use super::state::StatusLane;
use super::{AwaitedStep, Host, HostedPort};
use crate::fabric::Wake;
use crate::segment::Segment;
use crate::sync::Ordering::Relaxed;
use crate::time::Time;

/// How a rank that has nothing to do is to rest.
#[derive(Debug)]
pub enum Rest<N> {
    /// It has rested.
    Over(Wake),
    /// By letting others have the processor.
    Yield,
    /// By a sleep, after which [`HostedPort::end_rest`] is to be called.
    Sleep(N),
}

/// How a rest begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestStart {
    /// Awake, by spins and then by giving way: an early answer finds the rank awake.
    Awake,
    /// Asleep at once: for a thread that is to take no processor from others.
    Asleep,
}

/// A host whose sleeps are apart from it.
pub trait Sleeper: Host {
    /// A sleep that has been announced.
    type Nap;

    /// [`Host::wait`] up to where it would yield or sleep.
    fn begin_wait(
        &mut self,
        idle: u32,
        limits: (Option<Time>, RestStart),
        pending: impl Fn(&Self) -> bool,
    ) -> Rest<Self::Nap>;

    /// A sleep is over.
    fn end_wait(&mut self, nap: Self::Nap) -> Wake;
}

/// What may have come that nobody has seen: what a rank that is about to sleep checks once more.
pub(super) struct Unseen<'p> {
    pub(super) own: Segment<'static>,
    pub(super) lanes: &'p [StatusLane],
    pub(super) ends: u64,
    pub(super) queues: &'p Queues,
    pub(super) mailboxes: &'p Mailboxes,
    pub(super) groups: &'p Groups,
    pub(super) joint: (u32, bool),
}

impl Unseen<'_> {
    pub(super) fn has_come<H: Host>(&self, host: &H) -> bool {
        let own = &self.own;
        self.lanes.iter().any(|lane| lane.ring.peek(lane.head).is_some())
            || own.doorbell().attention.load(Relaxed) != 0
            || self.queues.have_moved(own)
            || self.mailboxes.have_moved(host)
            || host.registry().ends() != self.ends
            || self.groups.pending()
            // It is open, and so the sender had a part in its hands.
            || self.joint.1 && !own.joint().is_copying(self.joint.0)
    }
}

/// The [`Unseen`] of a port, without its host.
macro_rules! unseen {
    ($port:expr) => {
        crate::hosted::rest::Unseen {
            own: $port.own,
            lanes: &$port.lanes,
            ends: $port.seen_ends,
            queues: &$port.queues,
            mailboxes: &$port.mailboxes,
            groups: &$port.groups,
            joint: $port.joint,
        }
    };
}
pub(super) use unseen;

impl<H: Host> HostedPort<H> {
    /// The number of a wait among those since the last event; `None`: a source is held up.
    #[inline]
    pub(super) fn begin_wait_number(&mut self) -> Option<u32> {
        let idle = self.idle;
        self.idle = self.idle.saturating_add(1);
        (idle != 1 || !self.holds_up_somebody()).then_some(idle)
    }

    /// A wait of this number is over.
    #[inline]
    pub(super) fn rested(&mut self, idle: u32, wake: Wake) {
        self.mailboxes.after_park();
        self.queues.after_park();
        self.after_wait(idle, wake);
    }

    /// Takes the steps of groups for which the polls since the last call or wait have looked in
    /// vain.
    pub fn take_steps(&mut self, into: &mut Vec<AwaitedStep>) {
        self.groups.take_asked(into);
    }

    /// Whether one of these steps has been taken.
    pub fn have_any(&self, steps: &[AwaitedStep]) -> bool {
        self.groups.have_any(steps)
    }
}

impl<H: Sleeper> HostedPort<H> {
    /// The first half of [`Port::park`](crate::fabric::Port::park), for all threads of the rank:
    /// they wait for these steps.
    pub fn begin_rest(
        &mut self,
        (deadline, start): (Option<Time>, RestStart),
        steps: impl Iterator<Item = AwaitedStep>,
    ) -> Rest<H::Nap> {
        if !self.events.is_empty() {
            return Rest::Over(Wake::Look);
        }
        let Some(idle) = self.begin_wait_number() else { return Rest::Over(Wake::Slept) };
        steps.for_each(|step| self.groups.ask(step));
        self.groups.before_park();
        let unseen = unseen!(self);
        let rest = self.host.begin_wait(idle, (deadline, start), |host| unseen.has_come(host));
        self.groups.after_park();
        if !matches!(rest, Rest::Sleep(_)) {
            self.rested(idle, Wake::Look);
        }
        rest
    }

    /// The second half, after a sleep.
    pub fn end_rest(&mut self, nap: H::Nap) -> Wake {
        let wake = self.host.end_wait(nap);
        // Other threads may have polled meanwhile.
        self.rested(self.idle.saturating_sub(1), wake);
        wake
    }
}
