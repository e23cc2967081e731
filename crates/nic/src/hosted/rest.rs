//! Waiting in two halves, between which other threads of the rank use its port.
//!
//! [`Port::park`](crate::fabric::Port::park) sleeps while it holds the port. Here the first half
//! returns how to rest, and the rest itself needs neither port nor host. Each thread keeps what its
//! polls have missed and no event reports ([`MissedStep`]); one thread rests for all.

use super::group::Groups;
use super::mail::Mailboxes;
use super::queue::Queues;
use super::state::StatusLane;
use super::{AwaitedStep, Host, HostedPort};
use crate::fabric::{MailboxId, QueueId, Wake};
use crate::segment::Segment;
use crate::sync::Ordering::Relaxed;
use crate::time::Time;

/// A change of memory that a poll has missed, and that no event reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MissedStep {
    /// A step of a member of a group.
    Member(AwaitedStep),
    /// A letter in this rank's mailbox, by its round.
    Letter(MailboxId, u64),
    /// A change of this rank's command queue since it had these values.
    Queue(QueueId, [u64; 3]),
}

/// How a rank without work should rest.
#[derive(Debug)]
pub enum Rest<N> {
    /// The rest is over.
    Over(Wake),
    /// Yield the processor.
    Yield,
    /// Sleep, then call [`HostedPort::end_rest`].
    Sleep(N),
}

/// How a rest begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RestStart {
    /// Awake: it spins and then yields, so an early reply finds the rank awake.
    Awake,
    /// Asleep at once: for a thread that should take no processor time from others.
    Asleep,
}

/// A host whose sleeps do not need the host itself.
pub trait Sleeper: Host {
    /// A sleep that has been announced.
    type Nap;

    /// [`Host::wait`] up to the point where it would yield or sleep.
    fn begin_wait(
        &mut self,
        idle: u32,
        limits: (Option<Time>, RestStart),
        pending: impl Fn(&Self) -> bool,
    ) -> Rest<Self::Nap>;

    /// Ends a sleep.
    fn end_wait(&mut self, nap: Self::Nap) -> Wake;
}

/// Sources of events that may have arrived unseen; a rank checks them before it sleeps.
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
            // The copy is open, so the sender was copying its last part.
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
    /// The number of this wait since the last event; `None`: a sender waits for room here: poll
    /// again.
    #[inline]
    pub(super) fn begin_wait_number(&mut self) -> Option<u32> {
        let idle = self.idle;
        self.idle = self.idle.saturating_add(1);
        (idle != 1 || !self.holds_up_somebody()).then_some(idle)
    }

    /// Ends the wait with this number.
    #[inline]
    pub(super) fn rested(&mut self, idle: u32, wake: Wake) {
        self.mailboxes.after_park();
        self.queues.after_park();
        self.after_wait(idle, wake);
    }

    /// Takes the steps that the polls since the last call or wait have missed.
    pub fn take_steps(&mut self, into: &mut Vec<MissedStep>) {
        into.extend(self.groups.take_asked().map(MissedStep::Member));
        self.mailboxes.take_awaited(into);
        self.queues.take_awaited(into);
    }

    /// Whether one of these steps has been taken.
    pub fn have_any(&self, steps: &[MissedStep]) -> bool {
        steps.iter().any(|step| match step {
            MissedStep::Member(step) => self.groups.has(step),
            MissedStep::Letter(mailbox, round) => self.mailboxes.has(&self.host, *mailbox, *round),
            MissedStep::Queue(queue, seen) => self.queues.has_moved(&self.own, *queue, *seen),
        })
    }

    /// Repeats a poll that has missed a step, for the check before a sleep.
    fn ask_again(&mut self, step: MissedStep) {
        match step {
            MissedStep::Member(step) => self.groups.ask(step),
            MissedStep::Letter(mailbox, round) => self.mailboxes.ask(mailbox, round),
            MissedStep::Queue(queue, seen) => self.queues.see(queue, seen),
        }
    }
}

impl<H: Sleeper> HostedPort<H> {
    /// The first half of [`Port::park`](crate::fabric::Port::park), for all threads of the rank,
    /// which wait for these steps.
    pub fn begin_rest(
        &mut self,
        (deadline, start): (Option<Time>, RestStart),
        steps: impl Iterator<Item = MissedStep>,
    ) -> Rest<H::Nap> {
        if !self.events.is_empty() {
            return Rest::Over(Wake::Look);
        }
        let Some(idle) = self.begin_wait_number() else { return Rest::Over(Wake::Slept) };
        steps.for_each(|step| self.ask_again(step));
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
