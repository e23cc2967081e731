//! The paper's program (figures 7 and 8) with its two protocols, and with `direct`, on modelled
//! hardware.
//!
//! In every round each node acquires its share of the rows for writing. In the next round, after a
//! barrier, it acquires the share of the previous node. So from the second round on every acquire
//! moves ownership and data from another node. With the paper's two nodes a share is the rows of
//! one parity. The state machines of `hikyaku_dsm`, the same that its tests check, decide what is
//! sent. Here each message, store and copy takes its time, and simultaneous work of several nodes
//! queues on their processors and wires.
//!
//! ```text
//!   UDP       request ► contents ► ownership ► invalidation; each with an ACK, each handled by a
//!             processor at both ends; the owner change goes to all nodes in one datagram, which
//!             the switch copies, or in one datagram for each
//!   DIMMnet   AOTF request ► BOTF contents ► AOTF ownership ► AOTF invalidation, a store that no
//!             processor handles; only the request needs the owner's processor
//!   direct    each word of another node: request ► answer; contents: request ► BOTF; only the
//!             requester's processor is needed
//! ```
//!
//! No datagram is lost, so none is sent again. The barrier takes no time.
//!
//! **Assumed for `direct`.** DIMMnet-1 has neither remote reads nor remote atomics. The model
//! assumes that the board answers them: request and answer are a store each (AOTF), the board reads
//! memory as fast as BOTF sends, and the requester handles an answer like any word that arrives. An
//! operation on a word of the node's own board costs as much as the paper's update of a variable's
//! members.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use hikyaku_dsm::geometry::{WordPlace, initial_node};
use hikyaku_dsm::{
    AccessKind, Action, Departed, Direct, Effect, Geometry, Mailbox, MailboxMessage, Patience,
    Style, Word, WordOp,
};
use hikyaku_sim::engine::{Mailbox as Inbox, Signal, Sim, Simulation, TaskName};
use hikyaku_sim::machine::Interface;
use hikyaku_sim::model::dimmnet1::{Costs, Nodes};
use hikyaku_sim::topology::Node;

use crate::Machines;

/// The version of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SystemVersion {
    /// A message for several nodes is one datagram, as in the paper.
    Udp,
    /// A message for several nodes is one datagram for each.
    UdpOneByOne,
    Dimmnet,
    Direct,
}

impl SystemVersion {
    /// The versions of the figures.
    pub(super) const FIGURES: [SystemVersion; 3] =
        [SystemVersion::Udp, SystemVersion::Dimmnet, SystemVersion::Direct];

    /// All versions.
    pub(super) const ALL: [SystemVersion; 4] = [
        SystemVersion::Udp,
        SystemVersion::UdpOneByOne,
        SystemVersion::Dimmnet,
        SystemVersion::Direct,
    ];

    /// Its name in figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            SystemVersion::Udp => "UDP",
            SystemVersion::UdpOneByOne => "UDP, one by one",
            SystemVersion::Dimmnet => "DIMMnet",
            SystemVersion::Direct => "direct",
        }
    }

    fn style(self) -> Style {
        match self {
            SystemVersion::Udp | SystemVersion::UdpOneByOne => Style::Datagrams,
            SystemVersion::Dimmnet | SystemVersion::Direct => Style::Stores,
        }
    }
}

/// The costs of the bytes of contents on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Links {
    /// The costs in the machine file.
    Physical,
    /// No costs. In the paper's explanation of its figures, copies are the only cost of a byte, at
    /// the same rate in both versions.
    Free,
}

/// The settings of a run of the program.
#[derive(Debug, Clone, Copy)]
pub(super) struct Setting {
    pub(super) version: SystemVersion,
    pub(super) links: Links,
    pub(super) nodes: u32,
    pub(super) variables: u64,
    /// Bytes per variable.
    pub(super) size: u64,
}

/// The costs of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RunCosts {
    pub(super) seconds: f64,
    /// Datagrams sent, including ACKs; a datagram that the switch copies counts once.
    pub(super) datagrams: u64,
}

/// The number of rounds that move data; the paper does not state its number.
const ROUNDS: u64 = 2;

/// Bytes of a request, an answer, an ACK.
const SMALL: u64 = 64;

/// The maximum payload of a UDP datagram, in bytes.
const DATAGRAM: u64 = 32 << 10;

fn costs(machines: &Machines) -> Costs {
    let Interface::Dimmnet1(costs) = machines.get("dimmnet1").interface.clone() else {
        unreachable!("the file says which interface it describes")
    };
    *costs
}

/// An arrival at a node.
enum Arrival {
    /// An ACK, or a part of contents other than the last, to be acknowledged to its sender.
    Datagram { ack_to: Option<Node> },
    /// A message about a variable.
    Message { from: Node, variable: usize, message: MailboxMessage },
}

/// The state of a run that all nodes share.
struct ProgramRun {
    sim: Sim,
    setting: Setting,
    nodes: Nodes,
    /// For each variable the sides, with the paper's protocols.
    variables: RefCell<Vec<Vec<Mailbox>>>,
    /// The same for `direct`.
    shared: RefCell<Vec<SharedVariable>>,
    /// By node: its arrivals, and how often its program has entered.
    inboxes: Vec<Inbox<Arrival>>,
    entered: Vec<Signal>,
    datagrams: Cell<u64>,
}

/// A variable of `direct`: its words, and the state machines of all nodes.
struct SharedVariable {
    home: Node,
    nodes: u32,
    at_home: Vec<u64>,
    at_nodes: Vec<[u64; 2]>,
    sides: Vec<Direct>,
}

impl SharedVariable {
    fn new(home: Node, nodes: u32) -> SharedVariable {
        let geometry = |rank| Geometry::new(nodes, 1, rank);
        SharedVariable {
            home,
            nodes,
            at_home: geometry(0).initial_home(),
            at_nodes: vec![initial_node(); nodes as usize],
            sides: (0..nodes).map(|rank| Direct::new(geometry(rank), home, false)).collect(),
        }
    }

    /// The node that holds a word.
    fn node_of(&self, word: Word) -> Node {
        match Geometry::new(self.nodes, 1, 0).place(word) {
            WordPlace::Home(_) => self.home,
            WordPlace::Node(node, _) => node,
        }
    }

    /// Applies an operation to a word and returns the answer.
    fn apply(&mut self, word: Word, op: WordOp) -> u64 {
        let word = match Geometry::new(self.nodes, 1, 0).place(word) {
            WordPlace::Home(at) => &mut self.at_home[at as usize],
            WordPlace::Node(node, at) => &mut self.at_nodes[node as usize][at as usize],
        };
        let old = *word;
        *word = op.apply(old);
        old
    }

    /// The next action of a side; `None`: it holds the variable, or has released it.
    fn next(&mut self, node: Node, answer: u64) -> Option<Action> {
        match self.sides[node as usize].next(answer, &Departed::default()) {
            Action::Entered(_) | Action::Released => None,
            Action::Wait | Action::StandBack | Action::Refused(_) => {
                unreachable!("no row is wanted by two nodes")
            }
            action => Some(action),
        }
    }

    /// Untimed: the home writes it, so that no other node has a copy.
    fn write_at_home(&mut self) {
        let home = self.home;
        self.sides[home as usize].request(AccessKind::Write, Patience::Wait);
        for release in [false, true] {
            let mut answer = 0;
            while let Some(action) = self.next(home, answer) {
                answer = match action {
                    Action::Access(word, op) => self.apply(word, op),
                    _ => 0,
                };
            }
            if !release {
                self.sides[home as usize].release();
            }
        }
    }
}

/// Runs the program.
pub(super) fn run(machines: &Machines, setting: Setting) -> RunCosts {
    let simulation = Simulation::new(0xfa605);
    let Setting { version, nodes, .. } = setting;
    let arrived = Signal::new(&simulation, "all nodes at the barrier");
    let (rows, is_direct) = (setting.variables as u32, version == SystemVersion::Direct);
    let [mailboxes, direct] = if is_direct { [0, rows] } else { [rows, 0] };
    let sides = |row| {
        let side = |node| Mailbox::new(version.style(), node, nodes, row % nodes, false);
        let mut sides: Vec<Mailbox> = (0..nodes).map(side).collect();
        write_at_home(&mut sides, row % nodes);
        sides
    };
    let shared = |row| {
        let mut shared = SharedVariable::new(row % nodes, nodes);
        shared.write_at_home();
        shared
    };
    let run = Rc::new(ProgramRun {
        sim: simulation.clone(),
        setting,
        nodes: Nodes::new(&simulation, &costs(machines), nodes),
        variables: RefCell::new((0..mailboxes).map(sides).collect()),
        shared: RefCell::new((0..direct).map(shared).collect()),
        inboxes: (0..nodes).map(|_| Inbox::new(&simulation, 1, "a message")).collect(),
        entered: (0..nodes).map(|_| Signal::new(&simulation, "the variable")).collect(),
        datagrams: Cell::new(0),
    });
    for node in 0..nodes {
        let (program, arrived) = (Rc::clone(&run), arrived.clone());
        simulation.spawn(TaskName { kind: "node", index: node }, async move {
            for round in 1..=ROUNDS {
                program.round(node, round).await;
                arrived.raise();
                arrived.reaches(u64::from(nodes) * round).await;
            }
        });
        let receiver = Rc::clone(&run);
        simulation.spawn_service(TaskName { kind: "receiver", index: node }, async move {
            loop {
                let arrival = receiver.inboxes[node as usize].receive().await;
                receiver.take_in(node, arrival).await;
            }
        });
    }
    simulation.run().expect("the program ends");
    RunCosts { seconds: simulation.now().seconds(), datagrams: run.datagrams.get() }
}

impl ProgramRun {
    async fn round(self: &Rc<Self>, node: Node, round: u64) {
        let (rows, nodes) = (self.setting.variables, u64::from(self.setting.nodes));
        for row in (0..rows).filter(|row| (row + round) % nodes == u64::from(node)) {
            let variable = row as usize;
            if self.setting.version == SystemVersion::Direct {
                self.side(variable, node, |side| {
                    side.request(AccessKind::Write, Patience::Wait);
                });
                self.drive(variable, node).await;
                self.side(variable, node, Direct::release);
                self.drive(variable, node).await;
                continue;
            }
            let entered = &self.entered[node as usize];
            let before = entered.count();
            self.step(variable, node, |mailbox, effects| {
                mailbox.acquire(AccessKind::Write, Patience::Wait, effects);
            })
            .await;
            entered.reaches(before + 1).await;
            let inside = self.variables.borrow()[variable][node as usize].inside();
            assert_eq!(inside, Some(AccessKind::Write), "an acquire ends inside");
            self.step(variable, node, Mailbox::release).await;
        }
    }

    fn side(&self, variable: usize, node: Node, call: impl FnOnce(&mut Direct)) {
        call(&mut self.shared.borrow_mut()[variable].sides[node as usize]);
    }

    /// Makes a side of `direct` acquire or release a variable.
    async fn drive(&self, variable: usize, node: Node) {
        let mut answer = 0;
        loop {
            let next = self.shared.borrow_mut()[variable].next(node, answer);
            answer = match next {
                None => return,
                Some(Action::Access(word, op)) => self.access(variable, node, word, op).await,
                Some(Action::Copy { from }) => {
                    self.nodes.store().await;
                    if self.setting.links == Links::Physical {
                        self.nodes.blocks(from, self.setting.size).await;
                    }
                    self.nodes.respond(node).await;
                    self.nodes.copy(node, self.setting.size).await;
                    0
                }
                Some(_) => {
                    self.nodes.store().await;
                    0
                }
            };
        }
    }

    /// An operation on a word, executed by the board that holds it.
    async fn access(&self, variable: usize, node: Node, word: Word, op: WordOp) -> u64 {
        let apply = || self.shared.borrow_mut()[variable].apply(word, op);
        let at = self.shared.borrow()[variable].node_of(word);
        if at == node {
            self.nodes.work(node, self.nodes.costs().host.bookkeeping).await;
            return apply();
        }
        self.nodes.store().await;
        let answer = apply();
        self.nodes.store().await;
        self.nodes.respond(node).await;
        answer
    }

    /// One call of a node's protocol, and the resulting actions of the node, in order. Successive
    /// sends of the same message are sent together.
    async fn step(
        self: &Rc<Self>,
        variable: usize,
        node: Node,
        call: impl FnOnce(&mut Mailbox, &mut Vec<Effect>),
    ) {
        let mut effects = Vec::new();
        call(&mut self.variables.borrow_mut()[variable][node as usize], &mut effects);
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::Entered { .. } => self.entered[node as usize].raise(),
                Effect::Refused(_) => {}
                Effect::Store(to, version) => {
                    self.nodes.work(node, self.nodes.costs().host.bookkeeping).await;
                    let run = Rc::clone(self);
                    self.sim.at(self.sim.now() + self.nodes.costs().interface.atomic, move |_| {
                        run.variables.borrow_mut()[variable][to as usize].told(version);
                    });
                }
                Effect::Send(to, message) => {
                    let mut all = vec![to];
                    while let Some(&Effect::Send(to, next)) = effects.front()
                        && next == message
                    {
                        all.push(to);
                        effects.pop_front();
                    }
                    match self.setting.version.style() {
                        Style::Datagrams => self.send(node, &all, variable, message).await,
                        Style::Stores => self.store(node, &all, variable, message).await,
                    }
                }
            }
        }
    }

    /// Bytes of a datagram on the wire.
    fn on_the_wire(&self, contents: u64) -> u64 {
        if self.setting.links == Links::Physical { contents } else { 0 }
    }

    /// A datagram has left a node; `arrive` gives the arrival at each of the others.
    async fn datagram(
        self: &Rc<Self>,
        from: Node,
        to: &[Node],
        bytes: u64,
        arrive: impl Fn() -> Arrival,
    ) {
        let passed_on = self.nodes.send(from, bytes).await;
        self.datagrams.set(self.datagrams.get() + 1);
        for &to in to {
            let (run, arrival) = (Rc::clone(self), arrive());
            self.nodes.pass_on(to, bytes, passed_on, move || {
                run.inboxes[to as usize].admit(arrival);
            });
        }
    }

    /// Sends a message of the baseline.
    async fn send(
        self: &Rc<Self>,
        from: Node,
        to: &[Node],
        variable: usize,
        message: MailboxMessage,
    ) {
        let mut bytes = SMALL;
        match message {
            MailboxMessage::Contents(..) => {
                self.nodes.copy(from, self.setting.size).await;
                bytes = self.setting.size;
                while bytes > DATAGRAM {
                    let part = || Arrival::Datagram { ack_to: Some(from) };
                    self.datagram(from, to, self.on_the_wire(DATAGRAM), part).await;
                    bytes -= DATAGRAM;
                }
                bytes = self.on_the_wire(bytes);
            }
            MailboxMessage::Told { .. } => {
                self.nodes.work(from, self.nodes.costs().host.bookkeeping).await;
            }
            _ => {}
        }
        let at_once = if self.setting.version == SystemVersion::Udp { to.len() } else { 1 };
        for to in to.chunks(at_once) {
            let arrive = || Arrival::Message { from, variable, message };
            self.datagram(from, to, bytes, arrive).await;
        }
    }

    /// Stores a message into the memory of other nodes.
    async fn store(
        self: &Rc<Self>,
        from: Node,
        to: &[Node],
        variable: usize,
        message: MailboxMessage,
    ) {
        let Costs { host, interface, .. } = self.nodes.costs();
        for &to in to {
            match message {
                MailboxMessage::Want(_) => {}
                MailboxMessage::Contents(..) => {
                    self.nodes.copy(from, self.setting.size).await;
                    self.nodes.packets(from, self.on_the_wire(self.setting.size)).await;
                }
                _ => self.nodes.work(from, host.bookkeeping).await,
            }
            let run = Rc::clone(self);
            self.sim.at(self.sim.now() + interface.atomic, move |_| {
                run.inboxes[to as usize].admit(Arrival::Message { from, variable, message });
            });
        }
    }

    /// A node handles an arrival. It acknowledges a datagram before the actions that follow.
    async fn take_in(self: &Rc<Self>, node: Node, arrival: Arrival) {
        let is_udp = self.setting.version.style() == Style::Datagrams;
        if is_udp {
            self.nodes.receive(node).await;
            let ack_to = match arrival {
                Arrival::Datagram { ack_to } => ack_to,
                Arrival::Message { from, .. } => Some(from),
            };
            if let Some(to) = ack_to {
                self.datagram(node, &[to], SMALL, || Arrival::Datagram { ack_to: None }).await;
            }
        }
        let Arrival::Message { from, variable, message } = arrival else { return };
        let host = &self.nodes.costs().host;
        match message {
            MailboxMessage::Contents(..) => self.nodes.copy(node, self.setting.size).await,
            _ if !is_udp => self.nodes.respond(node).await,
            MailboxMessage::Want(_) | MailboxMessage::Told { .. } => {
                self.nodes.work(node, host.bookkeeping).await;
            }
            _ => {}
        }
        self.step(variable, node, |mailbox, effects| mailbox.receive(from, message, effects)).await;
    }
}

/// Untimed: the home writes the variable.
fn write_at_home(sides: &mut [Mailbox], home: Node) {
    let acquire = |own: &mut Mailbox, effects: &mut Vec<Effect>| {
        own.acquire(AccessKind::Write, Patience::Wait, effects);
    };
    for call in [acquire, Mailbox::release] {
        let mut effects = Vec::new();
        call(&mut sides[home as usize], &mut effects);
        let mut work: VecDeque<(Node, Effect)> = effects.into_iter().map(|e| (home, e)).collect();
        while let Some((from, effect)) = work.pop_front() {
            let mut effects = Vec::new();
            match effect {
                Effect::Send(to, message) => {
                    sides[to as usize].receive(from, message, &mut effects);
                    work.extend(effects.into_iter().map(|effect| (to, effect)));
                }
                Effect::Store(to, version) => sides[to as usize].told(version),
                Effect::Entered { .. } | Effect::Refused(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use hikyaku_nic::time::Time;

    use super::*;

    #[test]
    fn fg_18_time_is_proportional_to_the_number_of_variables() {
        for version in SystemVersion::ALL {
            let time = |variables| {
                let links = Links::Physical;
                let setting = Setting { version, links, nodes: 2, variables, size: 4096 };
                run(&Machines::stored(), setting).seconds
            };
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
        // In the first round, home is the other node. Acquire: head, readers, cell, claim and
        // newest version at home, two words on the own copy, and the owner change at both. Release:
        // a word on the own copy; newest version, head and the next cell at home.
        let away = times(word, 5 + 1 + 3) + times(bookkeeping, 2 + 1 + 1) + contents;
        // In the second round, this node is home: only the other node's owner word is remote.
        let here = times(word, 1) + times(bookkeeping, 5 + 2 + 1 + 4) + contents;
        let version = SystemVersion::Direct;
        let setting = Setting { version, links: Links::Free, nodes: 2, variables: 2, size: 4096 };
        let took = run(&Machines::stored(), setting).seconds;
        let expected = (away + here).seconds();
        assert!((took - expected).abs() < 1e-12, "{took} s, not {expected}");
    }
}
