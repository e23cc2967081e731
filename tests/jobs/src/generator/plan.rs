//! A program as data.

use hikyaku::shared::Protocol;

use super::calls::Call;

/// The communicator of a program: 0 is the world, others its duplicates.
pub(super) type Comm = usize;

/// A program, as known to all ranks.
#[derive(Debug, Clone)]
pub struct Program {
    /// The seed it was made from.
    pub seed: u64,
    /// The number of ranks that run it.
    pub ranks: u32,
    /// The number of ranks on a node; 0: all.
    pub per_node: u32,
    /// Shared variables.
    pub(super) variables: Vec<Variable>,
    /// Words of a window that are used, and bytes of another.
    pub(super) window: (usize, usize),
    /// The steps, in their order.
    pub steps: Vec<Step>,
}

/// Duplicates of the world on which collectives are in flight; one more is for wildcards.
pub(super) const DUPLICATES: usize = 3;
/// The communicator on which receives take any message at all.
pub(super) const WILD: Comm = DUPLICATES + 1;

/// A shared variable: rows of equal length, each acquired by itself.
#[derive(Debug, Clone)]
pub(super) struct Variable {
    pub protocol: Protocol,
    pub rows: usize,
    pub elements: usize,
}

/// A step, by a number that no other step of the program has.
#[derive(Debug, Clone)]
pub struct Step {
    /// The number.
    pub number: u32,
    pub(super) act: Act,
}

/// The action of a step.
#[derive(Debug, Clone)]
pub(super) enum Act {
    /// One message after the other, blocking.
    Messages(Vec<Message>),
    /// All of them at once, in a scope.
    Requests { messages: Vec<Message>, receive_first: bool, order: u64 },
    /// Ready sends, each when its receive is posted.
    Ready(Vec<Message>),
    /// All ranks send `count` messages to one, which receives from any source; lengths are below
    /// `most`.
    ToOne { root: u32, count: usize, most: usize },
    /// Futures with all ranks at once.
    Futures { turns: usize, length: usize },
    /// Around a ring; from shared buffers or others.
    Around { distance: u32, length: usize, shared: bool },
    /// Sends and receives that are cancelled if they have not matched.
    Cancelled { distance: u32, length: usize },
    /// A collective.
    Collective(Comm, Call),
    /// A collective that is made once and started `rounds` times.
    Persistent { call: Call, rounds: u32 },
    /// Collectives and messages in flight, other steps meanwhile, waited for in any order.
    Flight { calls: Vec<(Comm, Call)>, messages: Vec<Message>, within: Vec<Step>, order: u64 },
    /// Messages that no rank receives before other steps are done.
    Unmatched { from: u32, to: u32, count: usize, length: usize, before: Vec<Step> },
    /// Acquisitions of each rank; `settle`: its value is checked when all are done.
    Acquire { variable: usize, turns: Vec<Vec<Turn>>, settle: bool },
    /// Atomic operations on words from `slot` on at all ranks.
    Atomics { slot: usize, turns: Vec<Vec<(u32, u64)>> },
    /// A lock by compare-and-swap at rank 0, and the data it protects.
    Lock { slot: usize, rounds: u64 },
    /// All ranks put into all ranks' memory from `place` on.
    Puts { place: usize, length: usize },
    /// Data, then a word, to the next rank.
    Signal { slot: usize, place: usize, length: usize },
    /// A persistent exchange along edges (from, to, elements).
    Exchange { edges: Vec<(u32, u32, usize)>, rounds: u32, kind: usize },
    /// Neighbours of a grid.
    Grid { dims: Vec<u32>, periods: Vec<bool>, length: usize },
    /// Neighbours along these edges.
    Graph { edges: Vec<(u32, u32)>, length: usize },
    /// Sleeping, or computing, for `micros` microseconds at each rank.
    Pause { micros: Vec<u64>, computing: bool },
    /// A rank leaves its job in order.
    Leave { rank: u32 },
    /// A rank is killed `micros` microseconds later.
    Kill { rank: u32, micros: u64 },
}

/// A message from one rank to another.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message {
    pub from: u32,
    pub to: u32,
    pub tag: i32,
    pub length: usize,
    pub synchronous: bool,
    pub how: How,
    /// The key of its content.
    pub name: u64,
}

/// How a message is received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Exact,
    /// From any source: no other message has its tag.
    AnySource,
    /// Probed first.
    Probe,
    /// Polled for until it has arrived.
    Poll,
}

/// One acquisition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    pub row: usize,
    /// The number added to every element; 0: the row is read.
    pub adds: u64,
    pub way: Way,
    /// Microseconds inside.
    pub micros: u64,
}

/// The way in which a variable is acquired.
#[derive(Debug, Clone, Copy)]
pub(super) enum Way {
    Wait,
    Within,
    Future,
    /// Tried first, then waited for.
    Try,
    /// As a future that is polled this often and dropped, then waited for.
    Dropped(usize),
}

/// The part of a program that is kept.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    /// Numbers of the steps, including those within steps; `None`: all.
    pub steps: Option<Vec<u32>>,
    /// Kinds that are left out.
    pub without: Vec<String>,
}

impl Kept {
    fn keeps(&self, step: &Step) -> bool {
        self.steps.as_ref().is_none_or(|kept| kept.contains(&step.number))
            && !self.without.iter().any(|kind| kind == step.act.kind())
    }

    fn only(&self, steps: Vec<Step>) -> Vec<Step> {
        let mut kept = Vec::new();
        for mut step in steps {
            let keeps = self.keeps(&step);
            let Some(inner) = step.act.inner_mut() else {
                kept.extend(keeps.then_some(step));
                continue;
            };
            let within = self.only(std::mem::take(inner));
            if keeps {
                *inner = within;
                kept.push(step);
            } else {
                // Steps that ran meanwhile run by themselves.
                kept.extend(within);
            }
        }
        kept
    }
}

impl Program {
    /// The kept part of this program.
    #[must_use]
    pub fn only(mut self, kept: &Kept) -> Program {
        self.steps = kept.only(std::mem::take(&mut self.steps));
        self
    }

    /// All steps, those within a step after that step.
    pub fn all_steps(&self) -> Vec<&Step> {
        fn walk<'a>(steps: &'a [Step], into: &mut Vec<&'a Step>) {
            for step in steps {
                into.push(step);
                walk(step.act.inner(), into);
            }
        }
        let mut all = Vec::new();
        walk(&self.steps, &mut all);
        all
    }

    /// Whether a rank ends before the others, so that these may get errors.
    pub fn loses_a_rank(&self) -> bool {
        let loses = |step: &&Step| matches!(step.act, Act::Leave { .. } | Act::Kill { .. });
        self.all_steps().iter().any(loses)
    }

    /// Whether a rank is killed.
    pub fn kills(&self) -> bool {
        self.all_steps().iter().any(|step| matches!(step.act, Act::Kill { .. }))
    }

    /// Whether any step is of one of these kinds.
    pub(super) fn has(&self, kinds: &[&str]) -> bool {
        self.all_steps().iter().any(|step| kinds.contains(&step.kind()))
    }

    /// The sum that all writes of the kept steps add to a row.
    pub(super) fn total(&self, variable: usize, row: usize) -> u64 {
        self.all_steps().iter().map(|step| step.act.adds(variable, row)).sum()
    }
}

impl Step {
    /// The word for its kind.
    pub fn kind(&self) -> &'static str {
        self.act.kind()
    }
}

impl Act {
    fn kind(&self) -> &'static str {
        match self {
            Act::Messages(_) => "messages",
            Act::Requests { .. } => "requests",
            Act::Ready(_) => "ready",
            Act::ToOne { .. } => "to-one",
            Act::Futures { .. } => "futures",
            Act::Around { .. } => "around",
            Act::Cancelled { .. } => "cancelled",
            Act::Collective(..) => "collective",
            Act::Persistent { .. } => "persistent",
            Act::Flight { .. } => "flight",
            Act::Unmatched { .. } => "unmatched",
            Act::Acquire { .. } => "acquire",
            Act::Atomics { .. } => "atomics",
            Act::Lock { .. } => "lock",
            Act::Puts { .. } => "puts",
            Act::Signal { .. } => "signal",
            Act::Exchange { .. } => "exchange",
            Act::Grid { .. } => "grid",
            Act::Graph { .. } => "graph",
            Act::Pause { .. } => "pause",
            Act::Leave { .. } => "leave",
            Act::Kill { .. } => "kill",
        }
    }

    fn inner(&self) -> &[Step] {
        match self {
            Act::Flight { within, .. } => within,
            Act::Unmatched { before, .. } => before,
            _ => &[],
        }
    }

    fn inner_mut(&mut self) -> Option<&mut Vec<Step>> {
        match self {
            Act::Flight { within, .. } => Some(within),
            Act::Unmatched { before, .. } => Some(before),
            _ => None,
        }
    }

    /// The sum that the writes of this step add to a row.
    pub(super) fn adds(&self, of: usize, row: usize) -> u64 {
        let Act::Acquire { variable, turns, .. } = self else { return 0 };
        if *variable != of {
            return 0;
        }
        turns.iter().flatten().filter(|turn| turn.row == row).map(|turn| turn.adds).sum()
    }
}
