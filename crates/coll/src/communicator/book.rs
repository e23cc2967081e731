//! A rank's records of a communicator's collectives: call numbers, lines, and doubts.

use std::cell::{Cell, RefCell};

use hikyaku_msg::{Answerer, ContextEndpoint};
use hikyaku_nic::fabric::{ChannelOffer, CopyPort, GroupId, GroupPort, Rank};

use crate::long::LongCalls;
use crate::mates::Mates;
use crate::names::{is_among, is_of_call, is_to_come};
use crate::questions::{Doubt, Questions};
use crate::turns::{LineTurns, is_before, later};

/// A rank's records of a communicator's collectives.
#[derive(Debug, Default)]
pub struct CollectiveBook {
    /// The number of collectives started.
    pub(super) started: Cell<u32>,
    /// The first number and the count, if the context serves other books too.
    pub(super) only: Option<(u32, u32)>,
    /// The numbers of calls that have not ended.
    pub(super) open: RefCell<Vec<u32>>,
    /// Whether a call has failed. Then any unexpected message may be left over, not only the
    /// oldest.
    pub(super) any_failed: Cell<bool>,
    /// The last call that is known to have failed, here or elsewhere.
    pub(super) failed: Cell<Option<u32>>,
    /// A call that succeeded here although another rank has made a different call.
    pub(super) doubt: Cell<Option<Doubt>>,
    /// The ranks that share lines with this one, if there are any, and their ranks in the job.
    pub(super) mates: Option<Mates>,
    pub(super) ranks: Vec<Rank>,
    /// The lines, after the ranks have agreed on them.
    pub(super) lines: Cell<Option<GroupId>>,
    /// The group of all ranks, after they have agreed on it. Where all ranks share lines, the group
    /// of the lines serves, and this stays empty.
    pub(super) network: Cell<Option<GroupId>>,
    /// Whether all ranks can be in that group, if it is known.
    pub(super) reaches_all: Cell<Option<bool>>,
    /// Rounds of its counters so far.
    pub(super) counted: Cell<u64>,
    /// This rank's offer for lines or the group, with the number of its call.
    pub(super) offered: Cell<Option<(u32, ChannelOffer)>>,
    /// Selects the channels that it offers first.
    pub(super) like: u32,
    pub(super) turns: RefCell<LineTurns>,
    pub(super) questions: Questions,
    /// [`crate::Group::past`].
    pub(super) past: Cell<u32>,
    /// Whether the kernel has refused a mate a copy in a call by lines. All ranks know the same.
    pub(super) reads_refused: Cell<bool>,
    /// The measured ways of long data.
    pub(super) long: RefCell<LongCalls>,
}

impl CollectiveBook {
    /// A book for the ranks that `endpoint` reaches, all of which make collectives with it. If
    /// ranks of a node can share lines, they agree on them at the first use. `like`: a number that
    /// all ranks know and that differs for each of their communicators.
    pub fn agreeing<P: CopyPort + GroupPort>(
        endpoint: &ContextEndpoint<'_, P>,
        like: u32,
    ) -> CollectiveBook {
        let is_forked = endpoint.with_port(|port| port.is_forked());
        let mates = Mates::of(endpoint.rank(), endpoint.size(), |rank| endpoint.node_of(rank));
        let mates = mates.filter(|_| !is_forked);
        let in_job = |mates: &Mates| mates.ranks().map(|rank| endpoint.in_job(rank).ok()).collect();
        let ranks: Option<Vec<Rank>> = mates.as_ref().and_then(in_job);
        let mates = mates.filter(|_| ranks.is_some());
        CollectiveBook {
            mates,
            ranks: ranks.unwrap_or_default(),
            like,
            ..CollectiveBook::default()
        }
    }

    /// A book for all ranks of a job whose lines already exist, on a channel that no rank offers
    /// before.
    pub fn with_lines<P: CopyPort + GroupPort>(
        endpoint: &ContextEndpoint<'_, P>,
        channel: u32,
    ) -> CollectiveBook {
        let book = CollectiveBook::agreeing(endpoint, channel);
        let join = |port: &mut P| port.join(channel, &book.ranks, 0).ok();
        let lines = book.mates.as_ref().and_then(|_| endpoint.with_port(join));
        book.lines.set(lines);
        let mates = book.mates.filter(|_| lines.is_some());
        CollectiveBook { mates, ..book }
    }

    /// Whether this is the only rank: its rounds complete as it enters them, and need no lines.
    #[inline]
    pub(super) fn is_alone(&self) -> bool {
        self.ranks.len() == 1 && self.mates.as_ref().is_some_and(Mates::are_all)
    }

    /// Ends the communicator. Its lines become free for others after all ranks have done so.
    pub fn leave(&self, port: &mut impl GroupPort) {
        let are_lost = self.turns.borrow().are_lost();
        let groups = [self.lines.take(), self.network.take()];
        if are_lost && self.counted.get() > 0 {
            // Ranks that do not know of it yet may add to this rank's counter: it is not used
            // again.
            return;
        }
        for group in groups.into_iter().flatten() {
            // The group was joined: leaving it cannot fail.
            let _ = port.leave(group);
            if are_lost {
                port.pass_over(1 << group.channel());
            }
        }
    }

    /// Answers notes of these collectives while this rank is in none of them.
    pub fn answerer(&self) -> Box<dyn Answerer> {
        Box::new(self.turns.borrow().passed().clone())
    }

    /// The number of a call that starts now.
    #[inline]
    pub(super) fn number(&self) -> u32 {
        let number = self.started.get();
        self.started.set(number.wrapping_add(1));
        number
    }

    /// The same with `started` collectives already started, none of which is open.
    #[must_use]
    pub fn after(self, started: u32) -> CollectiveBook {
        CollectiveBook { started: Cell::new(started), ..self }
    }

    /// A book of `count` collectives from `first` on, in a context that has others too: several
    /// threads may make calls at the same time.
    #[must_use]
    pub fn only(first: u32, count: u32) -> CollectiveBook {
        CollectiveBook {
            started: Cell::new(first),
            only: Some((first, count)),
            ..CollectiveBook::default()
        }
    }

    /// Whether a message with this tag may belong to this book.
    pub(super) fn concerns(&self, tag: i32) -> bool {
        self.only.is_none_or(|(first, count)| is_among(tag, first, count))
    }

    /// Whether a message with this tag belongs to a call that has ended here.
    pub(super) fn is_left_over(&self, tag: i32) -> bool {
        let is_open = || self.open.borrow().iter().any(|number| is_of_call(tag, *number));
        self.concerns(tag) && !is_to_come(tag, self.started.get()) && !is_open()
    }

    /// Whether a call made here has ended, and neither it nor a later one has failed.
    pub(super) fn has_ended_well(&self, number: u32) -> bool {
        !self.open.borrow().contains(&number)
            && self.failed.get().is_none_or(|failed| is_before(failed, number))
    }

    /// The doubt about this call or an earlier one.
    #[inline]
    pub(super) fn doubt_for(&self, number: u32) -> Option<Doubt> {
        self.doubt.get().filter(|doubt| !is_before(number, doubt.number))
    }

    /// Records that a call has failed, here or elsewhere. Messages left over from it and from
    /// earlier calls carry no further information.
    pub(super) fn note_failure(&self, number: u32) {
        self.failed.set(Some(self.failed.get().map_or(number, |failed| later(failed, number))));
    }

    /// Drops the doubt if `is_over` returns true for it.
    pub(super) fn end_doubt(&self, is_over: impl FnOnce(&Doubt) -> bool) {
        self.doubt.set(self.doubt.get().filter(|doubt| !is_over(doubt)));
    }
}
