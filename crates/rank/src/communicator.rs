//! Communicators: the ranks that compute together, and the contexts that separate their messages.

use std::cell::RefCell;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use hikyaku_coll::{
    Choices, CollectiveBook, CommunicatorGroup as Group, Group as _, Mates, SessionChoices,
};
use hikyaku_msg::{ContextEndpoint, Engine, Members, MsgError, Received};
use hikyaku_nic::fabric::Port;
use hikyaku_nic::time::Time;
use hikyaku_shm::JobEnd;

use crate::contexts::{BESIDE, COLLECTIVES, CONTEXTS, NEIGHBOURS, leader_of};
use crate::port::RankPort;
use crate::rank::{Lease, Observer, Rank};
use crate::tasks::Tasks;

/// The reason why a rank ends its job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndReason {
    /// The program requests it; this rank's exit code is the job's even if it is 0.
    Abort,
    /// The rank has failed.
    Failure,
    /// It was notified of another rank's failure; that rank may give the reason later.
    OfAnother,
}

/// A communicator: all ranks of the job (MPI_COMM_WORLD) or some of them, numbered from 0. A clone
/// is another handle on the same one.
///
/// When the last handle is dropped, the rank leaves the job in order: it first posts its pending
/// sends. If it is dropped in a panic, the rank has died, and its peers are notified when its
/// process ends.
#[derive(Debug, Clone)]
pub struct Communicator {
    pub(crate) rank: Rc<Rank>,
    /// The first of its contexts, for messages between two ranks.
    context: u32,
    /// Its ranks, unless they are all of the job in their order.
    members: Option<Arc<Members>>,
    /// This rank's records of its collectives.
    collectives: Rc<CollectiveBook>,
    /// The algorithms chosen by name that are possible here.
    choices: Choices,
    /// Returns resources that others can use after it.
    _lease: Rc<Lease>,
}

/// A communicator that does not keep its rank in the job.
#[derive(Debug)]
pub(crate) struct Unheld {
    rank: Weak<Rank>,
    collectives: Weak<CollectiveBook>,
    lease: Weak<Lease>,
    context: u32,
    choices: Choices,
}

impl Unheld {
    /// The communicator, if a handle on it still exists.
    pub(crate) fn held(&self) -> Option<Communicator> {
        Some(Communicator {
            rank: self.rank.upgrade()?,
            context: self.context,
            members: None,
            collectives: self.collectives.upgrade()?,
            choices: self.choices,
            _lease: self.lease.upgrade()?,
        })
    }
}

impl Communicator {
    /// This communicator of all ranks, without keeping its rank in the job.
    pub(crate) fn unheld(&self) -> Unheld {
        Unheld {
            rank: Rc::downgrade(&self.rank),
            collectives: Rc::downgrade(&self.collectives),
            lease: Rc::downgrade(&self._lease),
            context: self.context,
            choices: self.choices,
        }
    }

    /// All ranks of a port's job. Their lines exist from the start.
    pub fn over(port: impl Into<RankPort>, choices: Choices) -> Communicator {
        let rank = Rc::new(Rank::new(port.into(), choices));
        let book = CollectiveBook::with_lines(&ContextEndpoint::new(&rank.engine, 0), 0);
        Communicator::new(rank, 0, None, book)
    }

    /// These ranks (`None`: all of the job), all of which make collectives here.
    fn of(rank: Rc<Rank>, context: u32, members: Option<Arc<Members>>) -> Communicator {
        let endpoint = ContextEndpoint::new(&rank.engine, context).among(members.as_deref());
        let book = CollectiveBook::agreeing(&endpoint, context / CONTEXTS);
        Communicator::new(rank, context, members, book)
    }

    fn new(
        rank: Rc<Rank>,
        context: u32,
        members: Option<Arc<Members>>,
        collectives: CollectiveBook,
    ) -> Communicator {
        let choices = rank.choices;
        let answerer = collectives.answerer();
        rank.engine.borrow_mut().set_answerer(context + COLLECTIVES, members.clone(), answerer);
        let collectives = Rc::new(collectives);
        let lease = Rc::new(Lease::new(&rank, context, &collectives));
        let made = Communicator { rank, context, members, collectives, choices, _lease: lease };
        let choices = if made.lacks_lines() { choices.without_lines() } else { choices };
        Communicator { choices, ..made }
    }

    /// Whether other communicators of the job may have lines, but this one may not: its ranks on a
    /// node are not consecutive, or are single.
    fn lacks_lines(&self) -> bool {
        let choices = self.rank.choices;
        if choices == choices.without_lines() || self.group().mates().is_some() {
            return false;
        }
        let engine = self.engine().borrow();
        let port = engine.port();
        Mates::of(port.rank(), port.size(), |rank| port.node_of(rank)).is_some()
    }

    /// The same ranks with the next of the contexts that all ranks of the job count alike.
    pub(crate) fn counted(&self) -> Communicator {
        Communicator::of(Rc::clone(&self.rank), self.rank.count_context(), None)
    }

    /// All ranks of the job with contexts that need neither agreement nor counting: for one front
    /// end, which makes it once.
    pub fn beside(&self) -> Communicator {
        Communicator::of(Rc::clone(&self.rank), BESIDE, None)
    }

    /// These ranks (`None`: all of the job) with contexts from a leader. `apart`: some of them use
    /// it among themselves.
    pub(crate) fn led(
        &self,
        context: u32,
        members: Option<Arc<Members>>,
        apart: bool,
    ) -> Communicator {
        if let Some(members) = &members {
            self.engine().borrow_mut().set_members(context, Arc::clone(members));
        }
        let rank = Rc::clone(&self.rank);
        match apart {
            true => Communicator::new(rank, context, members, CollectiveBook::default()),
            false => Communicator::of(rank, context, members),
        }
    }

    /// The same, with these persistent collectives on session queues.
    pub fn with_sessions(mut self, sessions: SessionChoices) -> Communicator {
        self.choices.sessions = sessions;
        self
    }

    /// The same ranks; every use of them is an error.
    pub fn broken(&self, error: MsgError) -> Communicator {
        let members = self.members().cloned().map(|members| Arc::new(members.broken(error)));
        Communicator { members, collectives: Rc::default(), ..self.clone() }
    }

    /// The same context with ranks that do not include this one.
    pub(crate) fn among_others(&self, others: Arc<Members>) -> Communicator {
        Communicator { members: Some(others), collectives: Rc::default(), ..self.clone() }
    }

    /// Its ranks by number. `None`: all ranks of the job, in their order.
    #[inline]
    pub fn members(&self) -> Option<&Members> {
        self.members.as_deref()
    }

    /// The job rank of a rank here.
    ///
    /// # Errors
    /// This communicator has no such rank. For the whole job, the engine checks ranks instead.
    #[inline]
    pub fn in_job(&self, rank: u32) -> Result<u32, MsgError> {
        self.members().map_or(Ok(rank), |members| members.rank(rank))
    }

    /// The same for the source of a receive or probe. `None`: any source.
    ///
    /// # Errors
    /// As [`Communicator::in_job`].
    #[inline]
    pub fn source_in_job(&self, source: Option<u32>) -> Result<Option<u32>, MsgError> {
        self.members().map_or(Ok(source), |members| members.source(source))
    }

    /// The rank here of a job rank, which is one of these.
    pub fn number(&self, rank: u32) -> u32 {
        self.members().and_then(|members| members.number(rank)).unwrap_or(rank)
    }

    /// Translates a result of the engine for the program.
    ///
    /// # Errors
    /// The engine's, with ranks of this communicator.
    #[inline]
    pub fn told(&self, result: Result<Received, MsgError>) -> Result<Received, MsgError> {
        match self.members() {
            None => result,
            Some(members) => match result {
                Ok(received) => Ok(members.told(received)),
                Err(error) => Err(members.explained(error)),
            },
        }
    }

    /// Translates a received message for the program.
    #[inline(always)]
    pub fn told_at_once(&self, received: Received) -> Received {
        match self.members() {
            None => received.copied(),
            Some(members) => members.told(received.copied()),
        }
    }

    /// Translates an error of the engine for the program.
    pub fn explained(&self, error: MsgError) -> MsgError {
        self.members().map_or(error, |members| members.explained(error))
    }

    /// The engine of this rank.
    #[inline]
    pub fn engine(&self) -> &RefCell<Engine<RankPort>> {
        &self.rank.engine
    }

    /// Whether this process is the rank, and not a forked child of it.
    pub(crate) fn is_in_this_process(&self) -> bool {
        !self.engine().borrow().port().is_forked()
    }

    /// Records that this rank has shared variables, which one interface serves. `who`: identifies
    /// the interface. `false`: they belong to another one.
    pub fn begin_variables(&self, who: usize) -> bool {
        let known = self.rank.has_variables.get().unwrap_or(who);
        self.rank.has_variables.set(Some(known));
        known == who
    }

    /// Records the end of an interface with its shared variables.
    pub fn end_variables(&self, who: usize) {
        let others = self.rank.has_variables.get().filter(|known| *known != who);
        self.rank.has_variables.set(others);
    }

    /// Announces that this rank ends the job, with the reason. `false`: a rank has done so before,
    /// and no further message is needed.
    pub fn ends_job(&self, reason: EndReason) -> bool {
        // If the engine is in use, one message too many is better than none.
        self.engine().try_borrow().map_or(true, |engine| {
            engine.port().host().end_job(match reason {
                EndReason::Abort => JobEnd::Aborted(engine.rank()),
                EndReason::Failure => JobEnd::Failed,
                EndReason::OfAnother => JobEnd::Followed,
            })
        })
    }

    /// The index of this rank's program in the job, from 0, as given by the launcher; ours sets
    /// `HIKYAKU_APPNUM` if there are several.
    pub fn program(&self) -> i32 {
        let ours = std::env::var("HIKYAKU_APPNUM").ok().and_then(|number| number.parse().ok());
        ours.or_else(|| self.engine().borrow().port().program()).unwrap_or(0)
    }

    /// The operations in flight at this rank that make progress only when they are polled.
    #[inline]
    pub fn tasks(&self) -> &Tasks {
        &self.rank.tasks
    }

    /// A weak handle on this rank, which does not keep it from leaving.
    pub fn observe(&self) -> Observer {
        Observer::of(&self.rank)
    }

    /// The context of messages between two ranks.
    #[inline]
    pub fn context(&self) -> u32 {
        self.context
    }

    /// Names it, for reports of what this rank waits for.
    pub fn set_name(&self, name: &str) {
        self.engine().borrow_mut().port_mut().names_mut().set(self.context, name);
    }

    /// The endpoint for messages between two ranks of this communicator.
    pub fn messages(&self) -> ContextEndpoint<'_, RankPort> {
        ContextEndpoint::new(self.engine(), self.context).among(self.members())
    }

    /// The context of messages between neighbours, if it has a topology. Their exchanges number the
    /// tags.
    pub fn neighbour_context(&self) -> u32 {
        self.context + NEIGHBOURS
    }

    /// The group that runs collectives on this communicator.
    #[inline]
    pub fn group(&self) -> Group<'_, RankPort> {
        let endpoint = ContextEndpoint::new(self.engine(), self.context + COLLECTIVES);
        let group = Group::new(endpoint.among(self.members()), &self.collectives);
        group.among_threads(self.is_shared())
    }

    /// The same for blocking calls.
    #[inline]
    pub fn waiting_group(&self) -> Group<'_, RankPort> {
        self.group().waiting()
    }

    /// Fails the collective that the program calls now at all ranks, because it failed here before
    /// it could begin.
    pub fn fail_collective(&self) {
        hikyaku_coll::fail_call(&self.group());
    }

    /// Algorithms chosen by name, for calls of the program and not of the library.
    pub fn choices(&self) -> Choices {
        self.choices
    }

    /// Ends a communicator for collectives. If one of these was abandoned here or elsewhere, ranks
    /// may still send messages for it, which must be dropped.
    pub fn retire(&self) {
        // Messages in a context with a leader are dropped when the context is freed.
        if leader_of(self.context).is_none() {
            self.rank.retire(self.context + COLLECTIVES, &self.collectives);
        }
    }

    /// Drops messages of collectives that have failed, here and in retired communicators. Must be
    /// called after each blocking collective.
    #[inline]
    pub fn drop_left_overs(&self) {
        if self.engine().borrow().has_left_overs() {
            self.look_for_left_overs();
        }
    }

    #[cold]
    fn look_for_left_overs(&self) {
        self.group().drop_left_overs();
        if !self.rank.has_something_come() {
            return;
        }
        let retired = self.rank.retired.borrow();
        for (context, book) in &*retired {
            let endpoint = ContextEndpoint::new(self.engine(), *context);
            Group::new(endpoint, book).drop_left_overs();
        }
        self.rank.drop_what_ended();
    }

    /// This rank, `0..size`.
    #[inline]
    pub fn rank(&self) -> u32 {
        self.members().map_or_else(|| self.engine().borrow().rank(), Members::own)
    }

    /// The number of ranks.
    #[inline]
    pub fn size(&self) -> u32 {
        self.members().map_or_else(|| self.engine().borrow().size(), Members::size)
    }

    /// The (virtual) node of a rank, which is below the size.
    pub fn node_of(&self, rank: u32) -> u32 {
        self.messages().node_of(rank)
    }

    /// The number of (virtual) nodes of its ranks.
    pub fn nodes(&self) -> u32 {
        self.messages().nodes()
    }

    /// The job's clock: the same for all ranks of a host. The clocks of two hosts are unrelated.
    pub fn now(&self) -> Time {
        self.engine().borrow().port().now()
    }

    /// Whether [`Communicator::now`] is one clock for all ranks of the job.
    pub fn has_one_clock(&self) -> bool {
        !self.engine().borrow().port().spans_hosts()
    }
}
