//! The paper's protocols on networks with arbitrary delays, with nodes that cancel, try, leave and
//! die.
//!
//! Messages between two nodes stay in order. Everything else is random, from a seed: which message
//! arrives next, when a store lands (stores of different nodes in any order), when a node asks and
//! releases, which node dies and when each other node learns of it. Contents are numbers, a new one
//! for each write.

#![allow(clippy::unwrap_used)]

mod chance;

use std::collections::{BTreeMap, VecDeque};

use chance::Chance;
use hikyaku_dsm::word::Version;
use hikyaku_dsm::{
    AccessKind, Copyset, Effect, Mailbox, MailboxMessage, Mark, Patience, Refusal, Style,
};

/// The activity of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NodeActivity {
    Nothing,
    Waiting,
    Inside,
}

/// A message in flight, its contents if any, and the ends that its sender knew of.
type InTransit = (MailboxMessage, u64, Copyset);

struct MailboxNetwork {
    style: Style,
    recoverable: bool,
    nodes: Vec<Mailbox>,
    copies: Vec<u64>,
    /// The number of requests that each node still has to make.
    wants: Vec<u32>,
    doing: Vec<NodeActivity>,
    /// The ends that each node knows of, the nodes that are gone, and those that died.
    knows: Vec<Copyset>,
    gone: Copyset,
    died: Copyset,
    channels: BTreeMap<(u32, u32), VecDeque<InTransit>>,
    stores: Vec<(u32, Version)>,
    newest: u64,
    writes: u64,
    /// Whether nodes cancel, and try without waiting.
    fickle: bool,
    /// The number of answers of each kind.
    entered: u32,
    lost: u32,
    marked: u32,
    handed_over: u32,
    /// Messages with contents, messages without, and stores.
    counts: [u64; 3],
    chance: Chance,
}

impl MailboxNetwork {
    fn new(style: Style, nodes: u32, wants: u32, seed: u64) -> MailboxNetwork {
        let count = nodes as usize;
        let side = |node| Mailbox::new(style, node, nodes, 0, false);
        MailboxNetwork {
            style,
            recoverable: false,
            nodes: (0..nodes).map(side).collect(),
            copies: vec![0; count],
            wants: vec![wants; count],
            doing: vec![NodeActivity::Nothing; count],
            knows: vec![Copyset::default(); count],
            gone: Copyset::default(),
            died: Copyset::default(),
            channels: BTreeMap::new(),
            stores: Vec::new(),
            newest: 0,
            writes: 0,
            fickle: false,
            entered: 0,
            lost: 0,
            marked: 0,
            handed_over: 0,
            counts: [0; 3],
            chance: Chance::new(seed),
        }
    }

    fn recoverable(mut self) -> MailboxNetwork {
        let (style, nodes) = (self.style, self.nodes.len() as u32);
        self.nodes = (0..nodes).map(|node| Mailbox::new(style, node, nodes, 0, true)).collect();
        self.recoverable = true;
        self
    }

    fn carry_out(&mut self, node: u32, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(to, message) => {
                    assert_ne!(to, node, "nobody writes to himself: {message:?}");
                    let contents = matches!(message, MailboxMessage::Contents(..));
                    self.counts[usize::from(!contents)] += 1;
                    if let MailboxMessage::Contents(version, mark) = message
                        && self.style == Style::Stores
                        && !self.gone.contains(to)
                    {
                        // The contents are stored there, whatever happens to the message.
                        self.nodes[to as usize].hold(if mark.is_some() { 0 } else { version });
                        self.copies[to as usize] = self.copies[node as usize];
                        assert_ne!(self.doing[to as usize], NodeActivity::Inside, "under a reader");
                    }
                    let value = self.copies[node as usize];
                    let parcel = (message, value, self.knows[node as usize]);
                    self.channels.entry((node, to)).or_default().push_back(parcel);
                }
                Effect::Store(to, version) => {
                    self.counts[2] += 1;
                    self.stores.push((to, version));
                }
                Effect::Entered { mark, .. } => self.on_entry(node, mark),
                Effect::Refused(refusal) => {
                    assert_eq!(self.doing[node as usize], NodeActivity::Waiting);
                    self.doing[node as usize] = NodeActivity::Nothing;
                    if let Refusal::Lost(mark) = refusal {
                        assert!(!self.recoverable && self.gone.contains(mark.victim));
                        self.lost += 1;
                    }
                }
            }
        }
        self.check();
    }

    fn on_entry(&mut self, node: u32, mark: Option<Mark>) {
        let at = node as usize;
        assert_eq!(self.doing[at], NodeActivity::Waiting);
        self.doing[at] = NodeActivity::Inside;
        self.entered += 1;
        let kind = self.nodes[at].inside().unwrap();
        if let Some(mark) = mark {
            assert!(self.recoverable && self.gone.contains(mark.victim));
            self.marked += 1;
        } else {
            assert_eq!(self.copies[at], self.newest, "old contents");
        }
        if kind == AccessKind::Write {
            self.writes += 1;
            self.copies[at] = self.writes;
        }
    }

    fn check(&self) {
        let living = || (0..self.nodes.len()).filter(|at| !self.gone.contains(*at as u32));
        let inside = |kind| living().filter(|at| self.nodes[*at].inside() == Some(kind)).count();
        let (writers, readers) = (inside(AccessKind::Write), inside(AccessKind::Read));
        assert!(writers <= 1, "two writers");
        assert!(writers == 0 || readers == 0, "a reader beside a writer");
        let owners = living().filter(|at| self.nodes[*at].owns()).count();
        let promised = |(ends, channel): (&(u32, u32), &VecDeque<InTransit>)| {
            let heard = !self.gone.contains(ends.1) && !self.nodes[ends.1 as usize].is_gone(ends.0);
            let grants = channel.iter().filter(|(message, ..)| {
                matches!(
                    message,
                    MailboxMessage::Grant { kind: AccessKind::Write, .. }
                        | MailboxMessage::Adopt { .. }
                )
            });
            if heard { grants.count() } else { 0 }
        };
        let promised: usize = self.channels.iter().map(promised).sum();
        assert!(owners + promised <= 1, "two owners, here or on their way");
        assert!(!self.gone.is_empty() || owners + promised == 1, "no owner");
    }

    /// Takes one possible step. `false` if there is none left.
    fn step(&mut self) -> bool {
        let full: Vec<(u32, u32)> = self
            .channels
            .iter()
            .filter(|(ends, channel)| self.may_come(**ends, channel))
            .map(|(ends, _)| *ends)
            .collect();
        let ready: Vec<usize> = (0..self.nodes.len())
            .filter(|at| !self.gone.contains(*at as u32))
            .filter(|at| match self.doing[*at] {
                NodeActivity::Nothing => self.wants[*at] > 0,
                NodeActivity::Waiting => false,
                NodeActivity::Inside => true,
            })
            .collect();
        let unaware: Vec<(usize, u32)> = (0..self.nodes.len())
            .filter(|at| !self.gone.contains(*at as u32))
            .flat_map(|at| (0..self.nodes.len() as u32).map(move |node| (at, node)))
            .filter(|(at, node)| self.gone.contains(*node) && !self.knows[*at].contains(*node))
            .collect();
        let total = full.len() + self.stores.len() + ready.len() + unaware.len();
        if total == 0 {
            return false;
        }
        let mut pick = self.chance.place(total);
        if let Some((from, to)) = full.get(pick).copied() {
            self.deliver(from, to);
            return true;
        }
        pick -= full.len();
        if pick < self.stores.len() {
            let (to, version) = self.stores.swap_remove(pick);
            self.nodes[to as usize].told(version);
            return true;
        }
        pick -= self.stores.len();
        match ready.get(pick) {
            Some(at) => self.act(*at),
            None => {
                let (at, node) = unaware[pick - ready.len()];
                self.learn(at, node);
            }
        }
        true
    }

    /// Whether the next message of a channel may be handled: its receiver lives and knows of every
    /// end that its sender knew of.
    fn may_come(&self, (_, to): (u32, u32), channel: &VecDeque<InTransit>) -> bool {
        let knows = &self.knows[to as usize];
        let next = channel.front();
        !self.gone.contains(to) && next.is_some_and(|(.., theirs)| theirs.is_within(knows))
    }

    fn deliver(&mut self, from: u32, to: u32) {
        let parcel = self.channels.get_mut(&(from, to)).unwrap().pop_front().unwrap();
        let (message, value, _) = parcel;
        let at = to as usize;
        if let MailboxMessage::Contents(version, _) = message
            && self.style == Style::Datagrams
            && !self.nodes[at].is_gone(from)
            && self.nodes[at].takes(version)
        {
            self.copies[at] = value;
        }
        let mut effects = Vec::new();
        self.nodes[at].receive(from, message, &mut effects);
        self.carry_out(to, effects);
    }

    /// A node learns of another's end, after all messages of that node.
    fn learn(&mut self, at: usize, node: u32) {
        let ends = (node, at as u32);
        while self.channels.get(&ends).is_some_and(|channel| !channel.is_empty()) {
            self.deliver(node, at as u32);
        }
        self.channels.remove(&ends);
        self.knows[at].insert(node);
        // By stores: all stores to this node have landed.
        let landed: Vec<_> =
            self.stores.iter().filter(|(to, _)| *to == at as u32).copied().collect();
        self.stores.retain(|(to, _)| *to != at as u32);
        landed.into_iter().for_each(|(_, version)| self.nodes[at].told(version));
        let mut effects = Vec::new();
        self.nodes[at].depart(node, self.died.contains(node), &mut effects);
        self.carry_out(at as u32, effects);
    }

    fn act(&mut self, at: usize) {
        let mut effects = Vec::new();
        if self.doing[at] == NodeActivity::Inside {
            if self.nodes[at].inside() == Some(AccessKind::Write) {
                self.newest = self.copies[at];
            }
            self.doing[at] = NodeActivity::Nothing;
            self.nodes[at].release(&mut effects);
        } else {
            let kind = if self.chance.place(3) == 0 { AccessKind::Read } else { AccessKind::Write };
            let hasty = self.fickle && self.chance.place(3) == 0;
            let patience = if hasty { Patience::Try } else { Patience::Wait };
            self.doing[at] = NodeActivity::Waiting;
            self.wants[at] -= 1;
            self.nodes[at].acquire(kind, patience, &mut effects);
        }
        self.carry_out(at as u32, effects);
        if self.fickle && self.doing[at] == NodeActivity::Waiting && self.chance.place(3) == 0 {
            let mut effects = Vec::new();
            self.doing[at] = NodeActivity::Nothing;
            self.nodes[at].cancel(&mut effects);
            self.carry_out(at as u32, effects);
        }
    }

    /// A node dies: pending stores are dropped, and its last messages may be lost.
    fn kill(&mut self, node: u32) {
        self.gone.insert(node);
        self.died.insert(node);
        for (ends, channel) in &mut self.channels {
            if ends.0 == node {
                let rest = self.chance.place(channel.len() + 1);
                channel.truncate(rest);
            }
        }
    }

    /// A node with nothing more to do leaves in order: it hands its variable over to a node that
    /// stays, asks whether ownership that it granted has arrived, and leaves when it may.
    fn leave(&mut self, node: u32) {
        let at = node as usize;
        let living: Vec<u32> = (0..self.nodes.len() as u32)
            .filter(|other| *other != node && !self.gone.contains(*other))
            .collect();
        if !self.gone.contains(node) && self.nodes[at].may_hand_over() && !living.is_empty() {
            let heir = living[self.chance.place(living.len())];
            let mut effects = Vec::new();
            self.nodes[at].hand_over(heir, &mut effects);
            self.handed_over += 1;
            self.carry_out(node, effects);
        }
        // Ranks leave when all their datagrams are acknowledged.
        let mut sent = self
            .channels
            .iter()
            .filter(|((from, to), _)| *from == node && !self.gone.contains(*to));
        let is_quiet = self.style != Style::Datagrams || sent.all(|(_, sent)| sent.is_empty());
        if is_quiet && self.nodes[at].may_leave() && !self.gone.contains(node) {
            self.gone.insert(node);
        }
    }

    /// Runs to the end. Every request must be answered.
    fn run(&mut self) {
        while self.step() {}
        for at in 0..self.nodes.len() {
            if !self.gone.contains(at as u32) {
                assert_eq!(self.wants[at], 0, "node {at} has not asked");
                assert_eq!(self.doing[at], NodeActivity::Nothing, "node {at} was not answered");
            }
        }
    }
}

const STYLES: [Style; 2] = [Style::Stores, Style::Datagrams];

#[test]
fn fg_01_fg_04_one_owner_one_writer_and_every_request_answered() {
    for style in STYLES {
        for nodes in [2, 3, 5] {
            for seed in 1..150 {
                println!("{style:?}, {nodes} nodes, seed {seed}");
                MailboxNetwork::new(style, nodes, 6, seed).run();
            }
        }
    }
}

#[test]
fn nodes_that_cancel_or_try_leave_nothing_behind() {
    for style in STYLES {
        for nodes in [2, 3, 5] {
            for seed in 1..150 {
                println!("{style:?}, {nodes} nodes, seed {seed}");
                let mut network = MailboxNetwork::new(style, nodes, 10, seed);
                network.fickle = true;
                network.run();
                assert!(network.entered > 0);
            }
        }
    }
}

#[test]
fn sixty_four_nodes_with_random_delays() {
    for style in STYLES {
        for seed in 1..4 {
            println!("{style:?}, seed {seed}");
            MailboxNetwork::new(style, 64, 5, seed).run();
        }
    }
}

#[test]
fn every_request_is_answered_despite_deaths() {
    let (mut lost, mut marked, mut whole) = (0, 0, 0);
    for style in STYLES {
        for nodes in [2, 3, 5] {
            for seed in 1..600 {
                let recoverable = seed % 2 == 0;
                println!("{style:?}, {nodes} nodes, seed {seed}");
                let mut network = MailboxNetwork::new(style, nodes, 8, seed);
                if recoverable {
                    network = network.recoverable();
                }
                network.fickle = seed % 3 == 0;
                let deaths = 1 + network.chance.place(nodes as usize - 1);
                for _ in 0..deaths {
                    for _ in 0..network.chance.place(60) {
                        network.step();
                    }
                    // Other nodes may be about to leave.
                    let leaver = network.chance.place(2 * nodes as usize) as u32;
                    if leaver < nodes {
                        network.leave(leaver);
                    }
                    for _ in 0..network.chance.place(3) {
                        network.step();
                    }
                    let victim = network.chance.place(nodes as usize) as u32;
                    if !network.gone.contains(victim) {
                        network.kill(victim);
                    }
                }
                network.run();
                lost += network.lost;
                marked += network.marked;
                whole += u32::from(network.lost + network.marked == 0);
            }
        }
    }
    assert!(lost > 0 && marked > 0 && whole > 0, "{lost} {marked} {whole}");
}

/// A walk in which nodes leave in order. Nothing is lost, and every request is answered.
fn walk_of_leavers(style: Style, nodes: u32, seed: u64) -> MailboxNetwork {
    println!("{style:?}, {nodes} nodes, seed {seed}");
    let mut network = MailboxNetwork::new(style, nodes, 8, seed);
    network.fickle = seed.is_multiple_of(2);
    for _ in 0..20 {
        for _ in 0..network.chance.place(20) {
            network.step();
        }
        let node = network.chance.place(nodes as usize) as u32;
        network.leave(node);
    }
    network.run();
    assert_eq!((network.lost, network.marked), (0, 0));
    network
}

#[test]
fn a_node_that_leaves_takes_nothing_away() {
    let (mut left, mut handed_over) = (0, 0);
    for style in STYLES {
        for nodes in [2, 3, 5] {
            for seed in 1..1200 {
                let network = walk_of_leavers(style, nodes, seed);
                left += u32::from(!network.gone.is_empty());
                handed_over += network.handed_over;
            }
        }
    }
    assert!(left > 0 && handed_over > 1000, "{left} {handed_over}");
}

/// Walks that once lost something, found once in some thousand walks.
#[test]
fn rare_walks_of_leavers_lose_nothing() {
    // Lost contents: granted to a node that had left, by a node that left before it knew.
    let contents = [(3, &[7729, 8102, 10486][..]), (5, &[5024, 6322, 7575, 9080])];
    for (nodes, seeds) in contents {
        for seed in seeds {
            walk_of_leavers(Style::Stores, nodes, *seed);
        }
    }
    // A lost request: of an owner that asked itself, after a reader's grant arrived late.
    walk_of_leavers(Style::Stores, 6, 21342);
}

/// Makes one request, and delivers everything before the next.
fn settle(network: &mut MailboxNetwork, at: usize, kind: AccessKind) -> [u64; 3] {
    let before = network.counts;
    let mut effects = Vec::new();
    network.doing[at] = NodeActivity::Waiting;
    network.nodes[at].acquire(kind, Patience::Wait, &mut effects);
    network.carry_out(at as u32, effects);
    let deliver = |network: &mut MailboxNetwork| {
        while let Some((from, to)) =
            network.channels.iter().find(|(_, c)| !c.is_empty()).map(|(ends, _)| *ends)
        {
            network.deliver(from, to);
        }
    };
    deliver(network);
    for (to, version) in std::mem::take(&mut network.stores) {
        network.nodes[to as usize].told(version);
    }
    network.act(at);
    deliver(network);
    std::array::from_fn(|which| network.counts[which] - before[which])
}

#[test]
fn fg_02_fg_03_an_owner_asks_nobody_clean_moves_nothing() {
    let mut network = MailboxNetwork::new(Style::Stores, 3, 0, 1);
    // Counted are contents, other messages, stores. The owner invalidates at each other node.
    assert_eq!(settle(&mut network, 0, AccessKind::Write), [0, 0, 2]);
    assert!(network.nodes[0].is_clean() && !network.nodes[1].is_clean(), "FG-08");
    // Request, ownership; owner change to the third node, invalidations to both.
    assert_eq!(settle(&mut network, 1, AccessKind::Write), [1, 2, 3]);
    assert_eq!((network.nodes[0].owner(), network.nodes[2].owner()), (1, 1), "FG-07");
    // A reader is counted, and reports when it has finished.
    assert_eq!(settle(&mut network, 2, AccessKind::Read), [1, 3, 0]);
    assert_eq!(settle(&mut network, 2, AccessKind::Read), [0, 3, 0]);
    // CLEAN, but not the owner: ownership alone moves.
    assert_eq!(settle(&mut network, 2, AccessKind::Write), [0, 2, 3]);
}

#[test]
fn fg_15_the_baseline_sends_messages_and_reads_valid_copies_alone() {
    let mut network = MailboxNetwork::new(Style::Datagrams, 3, 0, 1);
    assert_eq!(
        settle(&mut network, 0, AccessKind::Write),
        [0, 4, 0],
        "an invalidation each, heard"
    );
    assert_eq!(settle(&mut network, 0, AccessKind::Write), [0, 0, 0], "nobody has a copy");
    assert_eq!(settle(&mut network, 1, AccessKind::Read), [1, 2, 0], "request, contents, grant");
    assert_eq!(settle(&mut network, 1, AccessKind::Read), [0, 0, 0], "a valid copy is read alone");
    // Request, ownership, owner change to the third node, invalidation of the old owner's copy.
    assert_eq!(settle(&mut network, 1, AccessKind::Write), [0, 4, 0]);
}

#[test]
fn fg_21_an_invalidation_leaves_a_reader_alone() {
    let mut reader = Mailbox::new(Style::Datagrams, 1, 2, 0, false);
    let mut effects = Vec::new();
    reader.acquire(AccessKind::Read, Patience::Wait, &mut effects);
    assert_eq!(effects, [Effect::Entered { moved: false, mark: None }]);
    effects.clear();
    let version = Version { position: 9, node: 0, shared: false };
    let told = |answer| MailboxMessage::Told { version, answer };
    reader.receive(0, told(Some(Patience::Try)), &mut effects);
    assert_eq!(effects, [Effect::Send(0, MailboxMessage::Heard { position: 9, busy: true })]);
    effects.clear();
    reader.receive(0, told(Some(Patience::Wait)), &mut effects);
    assert_eq!((reader.inside(), &effects[..]), (Some(AccessKind::Read), &[][..]));
    reader.release(&mut effects);
    assert!(!reader.is_clean(), "DIRTY once it has let go");
    // Then the owner learns that this node no longer reads (FG-09).
    assert_eq!(effects, [Effect::Send(0, MailboxMessage::Heard { position: 9, busy: false })]);
}

#[test]
fn the_next_owner_waits_for_a_dead_owners_reader() {
    let mut network = MailboxNetwork::new(Style::Stores, 3, 0, 1);
    settle(&mut network, 0, AccessKind::Write);
    // Node 1 reads, counted by node 0, which dies.
    let mut effects = Vec::new();
    network.doing[1] = NodeActivity::Waiting;
    network.nodes[1].acquire(AccessKind::Read, Patience::Wait, &mut effects);
    network.carry_out(1, effects);
    while network.doing[1] != NodeActivity::Inside {
        network.step();
    }
    network.gone.insert(0);
    network.learn(1, 0);
    network.learn(2, 0);
    let mut effects = Vec::new();
    network.doing[2] = NodeActivity::Waiting;
    network.nodes[2].acquire(AccessKind::Write, Patience::Wait, &mut effects);
    network.carry_out(2, effects);
    while let Some((from, to)) =
        network.channels.iter().find(|(_, c)| !c.is_empty()).map(|(ends, _)| *ends)
    {
        network.deliver(from, to);
    }
    assert_eq!(network.doing[2], NodeActivity::Waiting, "FG-09");
    network.act(1);
    while network.doing[2] == NodeActivity::Waiting {
        assert!(network.step(), "it is never answered");
    }
    // Node 1 had the newest contents: nothing is lost.
    assert_eq!((network.lost, network.doing[2]), (0, NodeActivity::Inside));
}

#[test]
fn a_request_is_sent_again_to_the_stand_in_whoever_seems_to_own_the_variable() {
    // Node 1 lives and may have passed the request on to node 3, which is gone. Asking node 1 again
    // could go in circles: it may believe that this node owns the variable.
    let mut node = Mailbox::new(Style::Stores, 2, 4, 1, false);
    let mut effects = Vec::new();
    node.acquire(AccessKind::Write, Patience::Wait, &mut effects);
    assert!(
        matches!(effects[..], [Effect::Send(1, MailboxMessage::Want(want))] if !want.doubt),
        "{effects:?}"
    );
    effects.clear();
    node.depart(3, true, &mut effects);
    assert!(
        matches!(effects[..], [Effect::Send(0, MailboxMessage::Want(want))] if want.doubt),
        "{effects:?}"
    );
}
