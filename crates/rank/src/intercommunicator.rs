//! Intercommunicators: two groups that exchange messages with each other (MPI 5.0 §7.6).
//!
//! ```text
//!   both      all ranks of the two groups: agreements, barriers          one context,
//!   others    the other group alone: the peers of messages               the same one
//!   local     this rank's group alone: its part of a reduction           another
//! ```
//!
//! Ranks of one group never exchange messages, so both directions share one context. A collective
//! of the two groups uses one message per pair of ranks, with a tag that all count alike, in a
//! context of its own: a rank that neither sends nor receives takes no part.
//!
//! A collective operation of `both` or `local` counts from its start, and most operations here
//! consist of several. So operations in flight at the same time take turns: otherwise one rank
//! would start the second step of the first operation before the first step of the second, and
//! another rank after it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use hikyaku_coll::neighbour::{ExchangeError, IncomingBlock, OutgoingBlock, exchange};
use hikyaku_coll::{self as coll, CollectiveBook, CommunicatorGroup as Group};
use hikyaku_msg::{ContextEndpoint, Members, MsgError, join};
use hikyaku_nic::fabric::Port;

use crate::communicator::Communicator;
use crate::contexts::BETWEEN;
use crate::create::{CreationError, mixed};
use crate::error::Error;

/// Two groups, seen from a rank of one of them.
#[derive(Debug)]
pub struct Intercommunicator {
    both: Communicator,
    local: Communicator,
    others: Communicator,
    /// The group of this rank.
    side: GroupSide,
    /// The numbers in `both` of the other group's ranks.
    numbers: Vec<u32>,
    /// The number of exchanges started.
    exchanges: Cell<u32>,
    /// Open operations of several steps, the oldest first, and the number of operations started.
    turns: RefCell<VecDeque<u64>>,
    started: Cell<u64>,
}

/// The right to use the collectives of both groups and of one; passed on when dropped.
#[derive(Debug)]
pub struct GroupTurn<'i> {
    of: &'i Intercommunicator,
    number: u64,
}

impl Drop for GroupTurn<'_> {
    fn drop(&mut self) {
        self.of.turns.borrow_mut().retain(|number| *number != self.number);
    }
}

/// One of the two groups, by a number that all ranks agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GroupSide {
    First,
    Second,
}

/// The way in which the leader of a group learns of the other group.
#[derive(Debug)]
pub enum Bridge<'b> {
    /// By messages to the other leader.
    Messages {
        /// Over a communicator that has both leaders.
        over: &'b Communicator,
        /// The other leader's rank there.
        leader: u32,
        /// Distinguishes the messages from those of other such calls.
        tag: i32,
    },
    /// It knows the other group's ranks in the job.
    Known(Vec<u32>),
}

impl Intercommunicator {
    /// Joins two groups. The ranks of each group call it with a communicator of that group, in
    /// which only rank `leader` has the bridge to the other group. `tag`: distinguishes calls of
    /// the same ranks at the same time, also if their groups are [known](Bridge::Known) and so no
    /// messages tell the leaders which communicators call.
    ///
    /// # Errors
    /// The groups have a rank in common, or a rank is gone or abandoned the call.
    pub fn join(
        local: &Communicator,
        leader: u32,
        bridge: Option<Bridge<'_>>,
        tag: u32,
    ) -> Result<Intercommunicator, Error> {
        local.run(async {
            let theirs = match bridge {
                Some(bridge) => Some(meet(local, bridge).await),
                None => None,
            };
            let (theirs, context) = tell(local, leader, theirs).await?;
            // Threads may make such calls on several communicators of the same ranks at once.
            let of_call = |context| mixed(local.context()) ^ mixed(context);
            let tag = tag ^ context.map_or(0, of_call);
            Intercommunicator::of_groups(local, &ranks_of(local), &theirs, tag).await
        })
    }

    /// The intercommunicator of two groups that every rank of both knows.
    async fn of_groups(
        rank: &Communicator,
        ours: &[u32],
        theirs: &[u32],
        tag: u32,
    ) -> Result<Intercommunicator, Error> {
        if let Some(&rank) = theirs.iter().find(|rank| ours.contains(rank)) {
            return Err(CreationError::InBoth { rank }.into());
        }
        let side = if ours.first() < theirs.first() { GroupSide::First } else { GroupSide::Second };
        let all = match side {
            GroupSide::First => [ours, theirs].concat(),
            GroupSide::Second => [theirs, ours].concat(),
        };
        let both = rank.whole().create_group_for(&all, tag).await?;
        let place = ours.iter().position(|rank| *rank == both.in_job_own()).unwrap_or(0);
        let local = both.split_async(Some(side as u32), place as i32).await?;
        let local = local.ok_or(CreationError::Members { rank: both.rank() })?;
        let made = Intercommunicator::over(both, local, side).await?;
        made.ok_or(CreationError::Alone.into())
    }

    /// The intercommunicator of the ranks of two sides. `None`: the other side has no rank.
    async fn over(
        both: Communicator,
        local: Communicator,
        side: GroupSide,
    ) -> Result<Option<Intercommunicator>, Error> {
        let mine = [side as u32, local.rank()];
        let mut all = vec![0; mine.len() * both.size() as usize];
        let into = bytemuck::cast_slice_mut(&mut all);
        coll::allgather(&both.group(), None, Some(bytemuck::cast_slice(&mine)), into).await?;
        let (all, _) = all.as_chunks::<2>();
        let other = |(_, [of, _]): &(u32, &[u32; 2])| *of != side as u32;
        let mut others: Vec<(u32, u32)> =
            (0..).zip(all).filter(other).map(|(number, [_, place])| (*place, number)).collect();
        others.sort_unstable();
        let numbers: Vec<u32> = others.into_iter().map(|(_, number)| number).collect();
        if numbers.is_empty() {
            return Ok(None);
        }
        let ranks: Result<Vec<u32>, _> =
            numbers.iter().map(|number| both.in_job(*number)).collect();
        let others = both.with_others(ranks?)?;
        let (exchanges, turns) = (Cell::new(0), RefCell::default());
        let started = Cell::new(0);
        let made =
            Intercommunicator { both, local, others, side, numbers, exchanges, turns, started };
        Ok(Some(made))
    }

    /// The ranks of this rank's group.
    pub fn local(&self) -> &Communicator {
        &self.local
    }

    /// The ranks of the other group, for messages to and from them. This rank is not among them.
    pub fn others(&self) -> &Communicator {
        &self.others
    }

    /// All ranks, in an order that all agree on.
    pub fn both(&self) -> &Communicator {
        &self.both
    }

    /// Waits until earlier operations of several steps have ended. The order is that of the calls:
    /// every rank starts the same operations in the same order.
    pub fn turn(&self) -> impl Future<Output = GroupTurn<'_>> {
        let number = self.started.get();
        self.started.set(number + 1);
        self.turns.borrow_mut().push_back(number);
        // A call that is abandoned while it waits leaves the queue too.
        let mut turn = Some(GroupTurn { of: self, number });
        poll_fn(move |_| {
            let first = self.turns.borrow().front().copied();
            match first {
                Some(first) if first != number => Poll::Pending,
                _ => turn.take().map_or(Poll::Pending, Poll::Ready),
            }
        })
    }

    /// The same groups with new contexts. Every rank calls it.
    ///
    /// # Errors
    /// A rank is gone or abandoned the call, or there is no context left.
    pub async fn duplicate_async(&self) -> Result<Intercommunicator, Error> {
        let made = self.split_async(Some(0), self.local.rank() as i32).await?;
        made.ok_or(CreationError::Alone.into())
    }

    /// Divides both groups by color, and joins the parts of equal color. `None` for a rank without
    /// a color, or if the other group has no such color. Every rank calls it.
    ///
    /// # Errors
    /// As [`Intercommunicator::duplicate_async`].
    pub async fn split_async(
        &self,
        color: Option<u32>,
        key: i32,
    ) -> Result<Option<Intercommunicator>, Error> {
        let _turn = self.turn().await;
        let local = self.local.split_async(color, key).await;
        let both = self.both.split_async(color, 0).await?;
        match (both, local?) {
            (Some(both), Some(local)) => Intercommunicator::over(both, local, self.side).await,
            _ => Ok(None),
        }
    }

    /// A communicator of all ranks; those of the group with `high` set come last. Every rank calls
    /// it, and all ranks of a group pass the same value.
    ///
    /// # Errors
    /// As [`Intercommunicator::duplicate_async`].
    pub async fn merge_async(&self, high: bool) -> Result<Communicator, Error> {
        let _turn = self.turn().await;
        let made = self.both.split_async(Some(0), high.into()).await?;
        made.ok_or(CreationError::Members { rank: self.both.rank() }.into())
    }

    /// Starts an exchange with ranks of the other group, addressed by their ranks there. Every rank
    /// starts the same exchanges in the same order, even without a part in them.
    pub fn exchange(&self) -> GroupExchange<'_> {
        let tag = self.exchanges.get();
        self.exchanges.set((tag + 1) & i32::MAX as u32);
        GroupExchange { of: self, tag: tag as i32 }
    }
}

/// A started exchange between the groups.
#[derive(Debug)]
pub struct GroupExchange<'i> {
    of: &'i Intercommunicator,
    tag: i32,
}

impl GroupExchange<'_> {
    /// Sends and receives.
    ///
    /// # Errors
    /// A message has another length than its place, or a rank is gone.
    pub async fn run(
        self,
        out: impl IntoIterator<Item = (u32, &[u8])>,
        into: impl IntoIterator<Item = (u32, &mut [u8])>,
    ) -> Result<(), Error> {
        let GroupExchange { of, tag } = self;
        let book = CollectiveBook::default();
        let both = &of.both;
        let endpoint = ContextEndpoint::new(both.engine(), both.context() + BETWEEN);
        let group = Group::new(endpoint.among(both.members()), &book);
        let number = |rank: u32| of.numbers[rank as usize];
        let out = out.into_iter().map(|(to, bytes)| OutgoingBlock { to: number(to), tag, bytes });
        let into: Vec<_> = into.into_iter().collect();
        let from: Vec<u32> = into.iter().map(|(from, _)| *from).collect();
        let into = into.into_iter();
        let into = into.map(|(from, into)| IncomingBlock { from: number(from), tag, into });
        exchange(&group, out, into).await.map_err(|error| match error {
            ExchangeError::Message(error) => error.into(),
            ExchangeError::Size { edge, sent, expected } => {
                MsgError::Truncated { sent, room: expected, source_rank: from[edge], tag }.into()
            }
        })
    }
}

/// The job ranks of a communicator.
fn ranks_of(communicator: &Communicator) -> Vec<u32> {
    // Every rank below the size exists.
    (0..communicator.size()).filter_map(|rank| communicator.in_job(rank).ok()).collect()
}

/// The ranks of the other group, and the context of its communicator, if its leader told it.
type OtherGroup = (Vec<u32>, Option<u32>);

/// Finds the other group, at a leader.
async fn meet(local: &Communicator, bridge: Bridge<'_>) -> Result<OtherGroup, Error> {
    let (over, leader, tag) = match bridge {
        Bridge::Known(ranks) => return Ok((ranks, None)),
        Bridge::Messages { over, leader, tag } => (over, leader, tag),
    };
    let messages =
        ContextEndpoint::new(over.engine(), over.context() + BETWEEN).among(over.members());
    let ours = ranks_of(local);
    let (own, mut other) = ([ours.len() as u32, local.context()], [0; 2]);
    let send = messages.send(bytemuck::cast_slice(&own), leader, tag);
    let into = bytemuck::cast_slice_mut(&mut other);
    let (sent, came) = join(send, messages.recv(into, Some(leader), Some(tag))).await;
    let (_, _) = (sent?, came?);
    let most = over.engine().borrow().size();
    let [count, context] = other;
    if count > most {
        return Err(MsgError::Malformed { source_rank: leader }.into());
    }
    let mut theirs = vec![0; count as usize];
    let send = messages.send(bytemuck::cast_slice(&ours), leader, tag);
    let into = bytemuck::cast_slice_mut(&mut theirs);
    let (sent, came) = join(send, messages.recv(into, Some(leader), Some(tag))).await;
    let (_, _) = (sent?, came?);
    Ok((theirs, Some(context)))
}

/// Broadcasts what the leader knows of the other group, or its failure.
async fn tell(
    local: &Communicator,
    leader: u32,
    known: Option<Result<OtherGroup, Error>>,
) -> Result<OtherGroup, Error> {
    let group = local.group();
    let (failed, (mut ranks, context)) = match known {
        Some(Ok(other)) => (None, other),
        Some(Err(error)) => (Some(error), Default::default()),
        None => Default::default(),
    };
    // A leader that has failed announces a group without ranks.
    let mut told = [ranks.len() as u32, context.is_some().into(), context.unwrap_or(0)];
    coll::broadcast(&group, None, bytemuck::cast_slice_mut(&mut told), leader).await?;
    let [count, has_context, context] = told;
    ranks.resize(count as usize, 0);
    coll::broadcast(&group, None, bytemuck::cast_slice_mut(&mut ranks), leader).await?;
    match failed {
        Some(error) => Err(error),
        None if ranks.is_empty() => Err(CreationError::Alone.into()),
        None => Ok((ranks, (has_context != 0).then_some(context))),
    }
}

impl Communicator {
    /// All ranks of the job, for creation of communicators of some of them. It has no collectives.
    pub fn whole(&self) -> Communicator {
        self.led(0, None, true)
    }

    /// This rank's number in the job.
    fn in_job_own(&self) -> u32 {
        self.engine().borrow().rank()
    }

    /// The same context with the ranks of another group, with which this rank exchanges messages.
    fn with_others(&self, ranks: Vec<u32>) -> Result<Communicator, Error> {
        let node_of = |rank| self.engine().borrow().port().node_of(rank);
        let members = Members::of_others(ranks, node_of);
        let members = Arc::new(members.ok_or(CreationError::Members { rank: self.rank() })?);
        // The death of these members ends a wait for a message from any source.
        self.engine().borrow_mut().set_members(self.context(), Arc::clone(&members));
        Ok(self.among_others(members))
    }
}
