//! Collectives over several nodes: the first rank of each, its leader, exchanges messages with the
//! other leaders, between what the ranks of a node do by themselves.
//!
//! ```text
//!   node 0   0 1 2     rounds ─► 0 ─┐                 ┌─► rounds   0 1 2
//!   node 1   3 4 5     rounds ─► 3 ─┼─► leader of 0 ──┼─► rounds   3 4 5
//!   node 2   6 7       rounds ─► 6 ─┘                 └─► rounds   6 7
//! ```
//!
//! A message of a leader begins with a [`Head`]: the operation and its length, or why its node
//! cannot take part. The leader of node 0 hears all of them and tells all what came of it, and each
//! leader its node. So a rank that died, or that called something else, is an error of the same
//! name everywhere, and nobody waits for a node that has given up.
//!
//! A node of very many ranks counts as several. A star, for few nodes: with more, messages through
//! trees are faster ([`MOST_NODES`]).

use std::cell::Cell;
use std::ops::Range;

use hikyaku_msg::{Envelope, MsgError, Selector, SendMode};
use hikyaku_nic::fabric::{DeathCause, PeerFailure, Port, Rank};

use crate::error::Error;
use crate::held::Held;
use crate::node::Kind;

/// Most nodes that are worth a star.
const MOST_NODES: usize = 16;

/// Most ranks that look at each other one by one. To look into a rank's memory costs a page of page
/// tables, so that 1,024 ranks that all look at all take 4 GiB and 30 s the first time. A larger
/// node counts as several, of [`LEAST_MATES`] ranks or as many more as make [`MOST_NODES`] of them.
const MOST_MATES: u32 = 256;

/// Ranks that a part of a node has at least.
const LEAST_MATES: u32 = 64;

/// Messages of leaders have a context of their own: that of their communicator with this bit, which
/// no communicator's has.
const LEADERS: u32 = 1 << 30;

/// Codes of a [`Head`].
const FINE: u64 = 0;
const FAILED: u64 = 1;
const LEFT: u64 = 2;
const DIFFERS: u64 = 3;
const GAVE_UP: u64 = 4;

/// Where the ranks of a communicator are.
#[derive(Debug)]
pub(crate) struct Nodes {
    /// The ranks of this rank's node.
    pub(crate) mates: Range<Rank>,
    /// The first rank of each node.
    pub(crate) leaders: Vec<Rank>,
    /// The place of this rank's node among them.
    own: usize,
    context: u32,
    /// Operations so far.
    operations: Cell<u32>,
}

impl Nodes {
    /// Asks the port. `None`: nodes are not runs of ranks, or there are too many, or all are of one
    /// rank, so that there is nothing to gain.
    pub(crate) fn of(port: &impl Port, context: u32) -> Option<Nodes> {
        let (rank, size) = (port.rank(), port.size());
        let leaders = parts(runs(size, |rank| port.node_of(rank))?, size);
        let own = leaders.partition_point(|leader| *leader <= rank) - 1;
        let end = leaders.get(own + 1).copied().unwrap_or(size);
        let few = leaders.len() <= MOST_NODES && leaders.len() < size as usize;
        let mates = leaders[own]..end;
        let context = context | LEADERS;
        few.then(|| Nodes { mates, leaders, own, context, operations: Cell::new(0) })
    }

    /// Whether there is one node only.
    pub(crate) fn is_one(&self) -> bool {
        self.leaders.len() == 1
    }

    /// The node of a rank.
    pub(crate) fn node_of(&self, rank: Rank) -> usize {
        self.leaders.partition_point(|leader| *leader <= rank) - 1
    }

    /// Whether this rank's node has it.
    pub(crate) fn is_near(&self, rank: Rank) -> bool {
        self.mates.contains(&rank)
    }

    /// Whether all this is faster than messages among all ranks.
    ///
    /// Times by rounds and leaders over times by messages, virtual nodes on 2 cores (where messages
    /// between nodes are as fast as within):
    ///
    /// ```text
    ///                barrier   allreduce 8 B   64 KiB   broadcast 64 KiB
    ///   2 nodes of 2     0.9             1.7      1.2                1.0
    ///   4 nodes of 2     1.6             1.1      1.0                1.1
    ///   2 nodes of 4     1.0             1.1      0.7                0.8
    /// ```
    ///
    /// An allgather took 1.0 to 1.8 times as long, and goes by messages.
    pub(crate) fn pays(&self, size: u32) -> bool {
        self.is_one() || size as usize >= 4 * self.leaders.len()
    }
}

/// The first rank of each node. `None`: nodes are not runs of ranks, or too many.
fn runs(size: u32, node_of: impl Fn(Rank) -> u32) -> Option<Vec<Rank>> {
    let mut firsts: Vec<Rank> = Vec::new();
    for rank in 0..size {
        let node = node_of(rank);
        if rank > 0 && node == node_of(rank - 1) {
            continue;
        }
        let again = firsts.iter().any(|first| node_of(*first) == node);
        if again || firsts.len() == MOST_NODES {
            return None;
        }
        firsts.push(rank);
    }
    Some(firsts)
}

/// The first rank of each part of the nodes, those that are too large divided.
fn parts(firsts: Vec<Rank>, size: u32) -> Vec<Rank> {
    let part = size.div_ceil(MOST_NODES as u32).max(LEAST_MATES);
    let ends = firsts.iter().skip(1).copied().chain([size]);
    let of_node = |(first, end): (&Rank, Rank)| {
        let step = if end - first > MOST_MATES { part } else { end - first };
        (*first..end).step_by(step as usize)
    };
    firsts.iter().zip(ends).flat_map(of_node).collect()
}

/// What a leader says first: the word of its operation and how many bytes follow, or what went
/// wrong.
pub(crate) type Head = [u64; 4];

/// Puts what came of an operation into words that other ranks can read: the word of the operation
/// and the bytes that follow, or why there are none.
///
/// ```text
///   word 0   code (8) | two small numbers (8, 8)     word 1   rank (32) | another (32)
///   word 2, word 3   two numbers
/// ```
pub(crate) fn to_head(outcome: Result<(u64, usize), &Error>, own: Rank) -> Head {
    let ranks = |one: Rank, other: u32| u64::from(one) | u64::from(other) << 32;
    match outcome {
        Ok((word, bytes)) => [FINE, 0, word, bytes as u64],
        Err(Error::Message(MsgError::PeerFailed(failure))) => {
            let (how, number) = match failure.cause {
                DeathCause::Signal(number) => (0, number),
                DeathCause::Exit(code) => (1, code),
                DeathCause::Unknown => (2, 0),
                DeathCause::Overwritten => (3, 0),
            };
            [FAILED | how << 8, ranks(failure.rank, failure.pid), u64::from(number as u32), 0]
        }
        Err(Error::Message(MsgError::PeerLeft { rank })) => [LEFT, ranks(*rank, 0), 0, 0],
        Err(Error::Disagreement { rank, theirs, given, own, ours, expected }) => {
            let kinds = Kind::number(theirs) << 8 | Kind::number(ours) << 16;
            [DIFFERS | kinds, ranks(*rank, *own), *given, *expected]
        }
        Err(Error::GaveUp { rank }) => [GAVE_UP, ranks(*rank, 0), 0, 0],
        Err(_) => [GAVE_UP, ranks(own, 0), 0, 0],
    }
}

/// The reverse of [`to_head`]. What makes no sense is a rank that gave up.
pub(crate) fn of_head(head: &Head, from: Rank) -> Result<(u64, u64), Error> {
    let [code, ranks, one, other] = *head;
    let (rank, second) = (ranks as u32, (ranks >> 32) as u32);
    let small = |at: u32| code >> at & 0xff;
    Err(match small(0) {
        FINE => return Ok((one, other)),
        FAILED => {
            let cause = match small(8) {
                0 => DeathCause::Signal(one as i32),
                1 => DeathCause::Exit(one as i32),
                3 => DeathCause::Overwritten,
                _ => DeathCause::Unknown,
            };
            MsgError::PeerFailed(PeerFailure { rank, pid: second, cause }).into()
        }
        LEFT => MsgError::PeerLeft { rank }.into(),
        DIFFERS => Error::Disagreement {
            rank,
            theirs: Kind::name(small(8)),
            given: one,
            own: second,
            ours: Kind::name(small(16)),
            expected: other,
        },
        GAVE_UP => Error::GaveUp { rank },
        _ => Error::GaveUp { rank: from },
    })
}

/// One operation among the leaders, at one of them.
#[derive(Debug)]
pub(crate) struct Star<'n, 'e, P: Port> {
    nodes: &'n Nodes,
    engine: &'e mut Held<'n, P>,
    tag: i32,
    word: u64,
}

impl<'n, 'e, P: Port> Star<'n, 'e, P> {
    /// The next operation, of the kind and length that `word` says.
    pub(crate) fn new(nodes: &'n Nodes, engine: &'e mut Held<'n, P>, word: u64) -> Self {
        let number = nodes.operations.get();
        nodes.operations.set(number.wrapping_add(1));
        Star { nodes, engine, tag: (number & i32::MAX as u32) as i32, word }
    }

    /// Brings `data` of each node to the first leader, in the order of the nodes, and what comes of
    /// it back to all: `take` combines what a node sent into its first argument. `near` is what
    /// came of the node's own part.
    pub(crate) fn collect(
        &mut self,
        near: Result<(), Error>,
        data: &mut [u8],
        mut take: impl FnMut(&mut [u8], &mut [u8]),
    ) -> Result<(), Error> {
        if self.nodes.own > 0 {
            self.say(0, near.as_ref().map(drop), data)?;
            // Heard in any case, or it would be left over.
            let heard = self.hear(0, data);
            return near.and(heard);
        }
        let mut outcome = near;
        let mut theirs = vec![0; data.len()];
        for node in 1..self.nodes.leaders.len() {
            match self.hear(node, &mut theirs) {
                Ok(()) if outcome.is_ok() => take(data, &mut theirs),
                Ok(()) => {}
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        self.tell_all(outcome, data)
    }

    /// Sends `data`, or why there is none, to all other leaders.
    pub(crate) fn tell_all(
        &mut self,
        outcome: Result<(), Error>,
        data: &[u8],
    ) -> Result<(), Error> {
        let mut told = outcome.clone();
        for node in (0..self.nodes.leaders.len()).filter(|node| *node != self.nodes.own) {
            // Who is gone needs no answer; all others do.
            told = told.and(self.say(node, outcome.as_ref().map(drop), data));
        }
        told
    }

    fn say(&mut self, node: usize, outcome: Result<(), &Error>, data: &[u8]) -> Result<(), Error> {
        let ok = outcome.is_ok();
        let head = to_head(outcome.map(|()| (self.word, data.len())), self.engine.rank());
        self.send(node, bytemuck::bytes_of(&head))?;
        if ok && !data.is_empty() { self.send(node, data) } else { Ok(()) }
    }

    /// What a leader says, into `data`.
    pub(crate) fn hear(&mut self, node: usize, data: &mut [u8]) -> Result<(), Error> {
        let leader = self.nodes.leaders[node];
        let mut head = Head::default();
        self.receive(node, bytemuck::bytes_of_mut(&mut head))?;
        let (theirs, bytes) = of_head(&head, leader)?;
        let agreed = theirs == self.word && bytes == data.len() as u64;
        if bytes > 0 {
            // What is not wanted is consumed all the same.
            match self.receive(node, if agreed { data } else { &mut [] }) {
                Err(Error::Message(MsgError::Truncated { .. })) => {}
                received => received?,
            }
        }
        if agreed {
            return Ok(());
        }
        Err(Error::Disagreement {
            rank: leader,
            theirs: Kind::name(theirs >> 56),
            given: Kind::bytes_of(theirs),
            own: self.engine.rank(),
            ours: Kind::name(self.word >> 56),
            expected: Kind::bytes_of(self.word),
        })
    }

    fn send(&mut self, node: usize, bytes: &[u8]) -> Result<(), Error> {
        let destination = self.nodes.leaders[node];
        let envelope = Envelope { destination, context: self.nodes.context, tag: self.tag };
        Ok(self.engine.send(bytes, envelope, SendMode::Standard)?)
    }

    fn receive(&mut self, node: usize, into: &mut [u8]) -> Result<(), Error> {
        let source = Some(self.nodes.leaders[node]);
        let selector = Selector { source, tag: Some(self.tag), context: self.nodes.context };
        Ok(self.engine.recv(into, selector).map(drop)?)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn firsts(size: u32, per_node: u32) -> Vec<Rank> {
        parts(runs(size, |rank| rank / per_node).unwrap(), size)
    }

    #[test]
    fn nodes_are_runs_of_ranks_and_few() {
        assert_eq!(firsts(5, 2), [0, 2, 4]);
        assert_eq!(firsts(256, 256), [0]);
        assert_eq!(runs(4, |rank| rank % 2), None);
        assert_eq!(runs(17, |rank| rank), None);
    }

    #[test]
    fn a_node_of_very_many_ranks_counts_as_several() {
        assert_eq!(firsts(300, 300), [0, 64, 128, 192, 256]);
        assert_eq!(firsts(600, 300).len(), 10);
        for size in [257, 1000, 1024, 4095, 4096] {
            let leaders = firsts(size, size);
            assert!(leaders.len() <= MOST_NODES, "{size} ranks: {leaders:?}");
            let ends = leaders.iter().skip(1).copied().chain([size]);
            let most = leaders.iter().zip(ends).map(|(first, end)| end - first).max();
            assert!(most.is_some_and(|most| most <= MOST_MATES), "{size} ranks: {leaders:?}");
        }
    }

    #[test]
    fn what_went_wrong_survives_the_way() {
        let failed = |cause| {
            let failure = PeerFailure { rank: 7, pid: u32::MAX, cause };
            Error::Message(MsgError::PeerFailed(failure))
        };
        let (rank, given, own, expected) = (4095, u64::MAX, 3, 0);
        for error in [
            failed(DeathCause::Signal(9)),
            failed(DeathCause::Exit(-1)),
            failed(DeathCause::Unknown),
            failed(DeathCause::Overwritten),
            Error::Message(MsgError::PeerLeft { rank: 0 }),
            Error::GaveUp { rank: 12 },
            Error::Disagreement {
                rank,
                theirs: "barrier",
                given,
                own,
                ours: "allgather",
                expected,
            },
        ] {
            assert_eq!(of_head(&to_head(Err(&error), 1), 2), Err(error));
        }
        assert_eq!(of_head(&to_head(Ok((1 << 60, 5)), 1), 2), Ok((1 << 60, 5)));
        let other = Error::TooLarge { elements: 1, element: 1 };
        assert_eq!(of_head(&to_head(Err(&other), 1), 2), Err(Error::GaveUp { rank: 1 }));
        assert_eq!(of_head(&[77, 0, 0, 0], 2), Err(Error::GaveUp { rank: 2 }), "nonsense");
    }
}
