//! The paper's program (figures 7 and 8), run by its two protocols, and by `direct`, on modelled
//! hardware.
//!
//! Two nodes; in every round each acquires the rows of one parity for writing, the other parity in
//! the next, and they pass a barrier in between: from the second round on every acquire moves
//! ownership and data from the other node. What is sent is what `hikyaku_dsm`'s state machines say,
//! the same that its tests check; here each message, store and copy costs its time.
//!
//! ```text
//!   UDP       request ► contents ► ownership ► invalidation; each with an ACK, each handled by a
//!             processor at both ends
//!   DIMMnet   AOTF request ► BOTF contents ► AOTF ownership ► AOTF invalidation, a store that no
//!             processor handles; only the request needs the owner's
//!   direct    each word of the other node: request ► answer; contents: request ► BOTF; no
//!             processor but the requester's
//! ```
//!
//! With two nodes nobody but the old and the new owner has to be told of the change.
//!
//! **Assumed for `direct`.** DIMMnet-1 has neither remote reads nor remote atomics. The board is
//! taken to answer them: request and answer are a store each (AOTF), it reads memory as fast as
//! BOTF sends, and the requester takes an answer as it takes any word that arrives. An operation on
//! a word of the own board costs as much as the paper's update of a variable's members.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use hikyaku_dsm::geometry::{WordPlace, initial_node};
use hikyaku_dsm::{
    AccessKind, Action, Departed, Direct, Effect, Geometry, Mailbox, MailboxMessage, Patience,
    Style, Word, WordOp,
};
use hikyaku_sim::engine::{Signal, Simulation, TaskName};
use hikyaku_sim::machine::Interface;
use hikyaku_sim::model::dimmnet1::{Costs, Pair, Side};

use crate::Machines;

/// Which version of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemVersion {
    Udp,
    Dimmnet,
    Direct,
}

impl SystemVersion {
    /// All of them.
    pub(super) const ALL: [SystemVersion; 3] =
        [SystemVersion::Udp, SystemVersion::Dimmnet, SystemVersion::Direct];

    /// As figures call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            SystemVersion::Udp => "UDP",
            SystemVersion::Dimmnet => "DIMMnet",
            SystemVersion::Direct => "direct",
        }
    }
}

/// Which costs a byte has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ByteCosts {
    /// Copies and links, as the machine file says.
    Physical,
    /// Copies only, at the same rate in both versions: the paper's explanation of its figures.
    CopyBound,
}

/// Rounds that move data; the paper does not say how many it ran.
const ROUNDS: u64 = 2;

/// Bytes of a request, an answer, an ACK.
const SMALL: u64 = 64;

/// Most bytes of a UDP datagram's payload that the version sends.
const DATAGRAM: u64 = 32 << 10;

fn costs(machines: &Machines) -> Costs {
    let Interface::Dimmnet1(costs) = machines.get("dimmnet1").interface.clone() else {
        unreachable!("the file says which interface it describes")
    };
    *costs
}

/// What both nodes share of a run.
struct NodesRun {
    pair: Pair,
    version: SystemVersion,
    bytes: ByteCosts,
    /// Bytes of a variable.
    size: u64,
    /// Each variable's two sides, of the paper's protocols.
    variables: RefCell<Vec<[Mailbox; 2]>>,
    /// The same of `direct`.
    shared: RefCell<Vec<SharedVariable>>,
}

/// A variable of `direct`: its words, and both nodes' machines.
struct SharedVariable {
    home: Side,
    at_home: Vec<u64>,
    at_nodes: [[u64; 2]; 2],
    sides: [Direct; 2],
}

impl SharedVariable {
    fn new(home: Side) -> SharedVariable {
        let geometry = |rank| Geometry::new(2, 1, rank);
        let sides = [0, 1].map(|rank| Direct::new(geometry(rank), home as u32, false));
        SharedVariable {
            home,
            at_home: geometry(0).initial_home(),
            at_nodes: [initial_node(); 2],
            sides,
        }
    }

    /// The node that a word is at.
    fn node_of(&self, word: Word) -> Side {
        match Geometry::new(2, 1, 0).place(word) {
            WordPlace::Home(_) => self.home,
            WordPlace::Node(node, _) => node as Side,
        }
    }

    /// What an operation on a word answers.
    fn apply(&mut self, word: Word, op: WordOp) -> u64 {
        let word = match Geometry::new(2, 1, 0).place(word) {
            WordPlace::Home(at) => &mut self.at_home[at as usize],
            WordPlace::Node(node, at) => &mut self.at_nodes[node as usize][at as usize],
        };
        let old = *word;
        *word = op.apply(old);
        old
    }
}

/// Seconds of the program with so many variables of so many bytes.
pub(super) fn run(
    machines: &Machines,
    version: SystemVersion,
    bytes: ByteCosts,
    variables: u64,
    size: u64,
) -> f64 {
    let simulation = Simulation::new(0xfa605);
    let pair = Pair::new(&simulation, &costs(machines));
    let arrived = Signal::new(&simulation, "the other node at the barrier");
    let style = match version {
        SystemVersion::Udp => Style::Datagrams,
        SystemVersion::Dimmnet | SystemVersion::Direct => Style::Stores,
    };
    let direct = if version == SystemVersion::Direct { variables } else { 0 };
    let shared = RefCell::new((0..direct).map(|at| SharedVariable::new(at as Side % 2)).collect());
    // The state before the first round that moves data: each row at the node of the other parity.
    let sides =
        |variable| [0, 1].map(|node| Mailbox::new(style, node, 2, variable as u32 % 2, false));
    let variables = RefCell::new((0..variables).map(sides).collect());
    let run = Rc::new(NodesRun { pair, version, bytes, size, variables, shared });
    for side in [0, 1] {
        let (run, arrived) = (Rc::clone(&run), arrived.clone());
        let name = TaskName { kind: "node", index: side as u32 };
        simulation.spawn(name, async move {
            run.first_round(side);
            for round in 1..=ROUNDS {
                run.round(side, round).await;
                arrived.raise();
                arrived.reaches(2 * round).await;
            }
        });
    }
    simulation.run().expect("the program ends");
    simulation.now().seconds()
}

impl NodesRun {
    /// Writes the own rows, of which the other node has no copy then: nothing is timed.
    fn first_round(&self, side: Side) {
        let mut all = self.shared.borrow_mut();
        for shared in all.iter_mut().filter(|shared| shared.home == side) {
            shared.sides[side].request(AccessKind::Write, Patience::Wait);
            for release in [false, true] {
                let mut answer = 0;
                while let Some(action) = NodesRun::next(shared, side, answer) {
                    answer = match action {
                        Action::Access(word, op) => shared.apply(word, op),
                        _ => 0,
                    };
                }
                if !release {
                    shared.sides[side].release();
                }
            }
        }
        let mut variables = self.variables.borrow_mut();
        for [a, b] in variables.iter_mut() {
            let (own, other) = if side == 0 { (a, b) } else { (b, a) };
            if !own.owns() {
                continue;
            }
            let mut pair = [own, other];
            settle(&mut pair, side, |own, effects| {
                own.acquire(AccessKind::Write, Patience::Wait, effects);
            });
            settle(&mut pair, side, Mailbox::release);
        }
    }

    async fn round(&self, side: Side, round: u64) {
        let count = self.variables.borrow().len();
        for variable in (0..count).filter(|at| (at + round as usize) % 2 == side) {
            if self.version == SystemVersion::Direct {
                self.shared.borrow_mut()[variable].sides[side]
                    .request(AccessKind::Write, Patience::Wait);
                self.drive(variable, side).await;
                self.shared.borrow_mut()[variable].sides[side].release();
                self.drive(variable, side).await;
                continue;
            }
            self.step(variable, side, |mailbox, effects| {
                mailbox.acquire(AccessKind::Write, Patience::Wait, effects);
            })
            .await;
            let inside = self.variables.borrow()[variable][side].inside();
            assert_eq!(inside, Some(AccessKind::Write), "an acquire ends inside");
            self.step(variable, side, Mailbox::release).await;
        }
    }

    /// What a side of `direct` is to do next; `None`: it has the variable, or has let it go.
    fn next(shared: &mut SharedVariable, side: Side, answer: u64) -> Option<Action> {
        match shared.sides[side].next(answer, &Departed::default()) {
            Action::Entered(_) | Action::Released => None,
            Action::Wait | Action::StandBack | Action::Refused(_) => {
                unreachable!("no row is wanted by both nodes")
            }
            action => Some(action),
        }
    }

    /// Has a side of `direct` acquire a variable, or let it go.
    async fn drive(&self, variable: usize, side: Side) {
        let mut answer = 0;
        loop {
            let next = NodesRun::next(&mut self.shared.borrow_mut()[variable], side, answer);
            answer = match next {
                None => return,
                Some(Action::Access(word, op)) => self.access(variable, side, word, op).await,
                Some(Action::Copy { from }) => {
                    self.pair.store().await;
                    if self.bytes == ByteCosts::Physical {
                        self.pair.blocks(from as Side, self.size).await;
                    }
                    self.pair.respond(side).await;
                    self.pair.copy(side, self.size).await;
                    0
                }
                Some(_) => {
                    self.pair.store().await;
                    0
                }
            };
        }
    }

    /// An operation on a word: by the board that it is at.
    async fn access(&self, variable: usize, side: Side, word: Word, op: WordOp) -> u64 {
        let apply = || self.shared.borrow_mut()[variable].apply(word, op);
        let at = self.shared.borrow()[variable].node_of(word);
        if at == side {
            self.pair.work(side, self.pair.costs().host.bookkeeping).await;
            return apply();
        }
        self.pair.store().await;
        let answer = apply();
        self.pair.store().await;
        self.pair.respond(side).await;
        answer
    }

    /// One call of a node's protocol and all that follows from it, in order.
    async fn step(
        &self,
        variable: usize,
        side: Side,
        call: impl FnOnce(&mut Mailbox, &mut Vec<Effect>),
    ) {
        let mut effects = Vec::new();
        call(&mut self.variables.borrow_mut()[variable][side], &mut effects);
        let mut work: VecDeque<(Side, Effect)> =
            effects.into_iter().map(|effect| (side, effect)).collect();
        while let Some((from, effect)) = work.pop_front() {
            let mut effects = Vec::new();
            match effect {
                Effect::Entered { .. } | Effect::Refused(_) => {}
                Effect::Store(to, version) => {
                    self.pair.work(from, self.pair.costs().host.bookkeeping).await;
                    self.pair.store().await;
                    self.variables.borrow_mut()[variable][to as Side].told(version);
                }
                Effect::Send(to, message) => {
                    match self.version {
                        SystemVersion::Udp => self.datagram(from, message).await,
                        SystemVersion::Dimmnet | SystemVersion::Direct => {
                            self.stores(from, message).await;
                        }
                    }
                    let mailbox = &mut self.variables.borrow_mut()[variable][to as Side];
                    mailbox.receive(from as u32, message, &mut effects);
                }
            }
            let at = match effect {
                Effect::Send(to, _) | Effect::Store(to, _) => to as Side,
                Effect::Entered { .. } | Effect::Refused(_) => from,
            };
            work.extend(effects.into_iter().map(|effect| (at, effect)));
        }
    }

    /// A message and its ACK.
    async fn acknowledged(&self, from: Side, bytes: u64, wire: bool) {
        self.pair.datagram(from, bytes, wire).await;
        self.pair.datagram(1 - from, SMALL, true).await;
    }

    /// What a message of the baseline costs, until it is handled.
    async fn datagram(&self, from: Side, message: MailboxMessage) {
        let (pair, bookkeeping) = (&self.pair, self.pair.costs().host.bookkeeping);
        match message {
            MailboxMessage::Want(_) => {
                self.acknowledged(from, SMALL, true).await;
                pair.work(1 - from, bookkeeping).await;
            }
            MailboxMessage::Contents(..) => {
                pair.copy(from, self.size).await;
                let mut left = self.size;
                while left > 0 {
                    let part = left.min(DATAGRAM);
                    self.acknowledged(from, part, self.bytes == ByteCosts::Physical).await;
                    left -= part;
                }
                pair.copy(1 - from, self.size).await;
            }
            MailboxMessage::Told { .. } => {
                pair.work(from, bookkeeping).await;
                self.acknowledged(from, SMALL, true).await;
                pair.work(1 - from, bookkeeping).await;
            }
            _ => self.acknowledged(from, SMALL, true).await,
        }
    }

    /// What a message costs that is stored into the other node's memory, until it is seen there.
    async fn stores(&self, from: Side, message: MailboxMessage) {
        let (pair, bookkeeping) = (&self.pair, self.pair.costs().host.bookkeeping);
        match message {
            MailboxMessage::Want(_) => {
                pair.store().await;
                pair.respond(1 - from).await;
            }
            MailboxMessage::Contents(..) => {
                pair.copy(from, self.size).await;
                if self.bytes == ByteCosts::Physical {
                    pair.blocks(from, self.size).await;
                }
                pair.copy(1 - from, self.size).await;
            }
            _ => {
                pair.work(from, bookkeeping).await;
                pair.store().await;
                pair.respond(1 - from).await;
            }
        }
    }
}

/// One call of the first of a variable's two sides, which is node `side`, and all that follows.
fn settle(
    pair: &mut [&mut Mailbox; 2],
    side: Side,
    call: impl FnOnce(&mut Mailbox, &mut Vec<Effect>),
) {
    let mut effects = Vec::new();
    call(pair[0], &mut effects);
    let mut work: VecDeque<(usize, Effect)> = effects.into_iter().map(|e| (0, e)).collect();
    while let Some((at, effect)) = work.pop_front() {
        let mut effects = Vec::new();
        let from = if at == 0 { side } else { 1 - side };
        match effect {
            Effect::Send(_, message) => pair[1 - at].receive(from as u32, message, &mut effects),
            Effect::Store(_, version) => pair[1 - at].told(version),
            Effect::Entered { .. } | Effect::Refused(_) => {}
        }
        work.extend(effects.into_iter().map(|effect| (1 - at, effect)));
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_nic::time::Time;

    use super::*;

    #[test]
    fn fg_18_time_is_proportional_to_the_number_of_variables() {
        for version in SystemVersion::ALL {
            let time =
                |variables| run(&Machines::stored(), version, ByteCosts::Physical, variables, 4096);
            let ratio = time(512) / time(64);
            assert!((ratio / 8.0 - 1.0).abs() < 0.02, "{ratio}");
        }
    }

    #[test]
    fn direct_takes_the_steps_of_its_machine_and_asks_no_processor_of_the_owner() {
        let costs = costs(&Machines::stored());
        let (store, response) = (costs.interface.atomic, costs.host.response);
        let bookkeeping = costs.host.bookkeeping;
        let times = |span: Time, count: u64| Time::from_picoseconds(span.picoseconds() * count);
        let word = times(store, 2) + response;
        let contents = store + response + costs.host.copy.time(4096);
        // Home is the other node in the first of the rounds. Asking: head, readers, cell, claim and
        // newest version there, what the own copy holds and that it holds nothing, the owner change
        // at both. Letting go: what it holds now; newest version, head and the next cell at home.
        let away = times(word, 5 + 1 + 3) + times(bookkeeping, 2 + 1 + 1) + contents;
        // In the second it is this one: only the other's word of the owner is not.
        let here = times(word, 1) + times(bookkeeping, 5 + 2 + 1 + 4) + contents;
        let took = run(&Machines::stored(), SystemVersion::Direct, ByteCosts::CopyBound, 2, 4096);
        let expected = (away + here).seconds();
        assert!((took - expected).abs() < 1e-12, "{took} s, not {expected}");
    }
}
