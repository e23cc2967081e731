//! The paper's protocols on networks that delay what they carry as they like.
//!
//! Messages between two nodes stay in order; everything else is a matter of chance, seeded: which
//! message comes next, when a store lands (stores of different nodes in any order), when a node
//! asks and lets go. Contents are numbers, a new one for each write.

#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, VecDeque};

use hikyaku_dsm::word::Version;
use hikyaku_dsm::{Effect, Kind, Mailbox, Message, Style};

/// A small generator: the order of things, nothing more.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}

struct Network {
    style: Style,
    nodes: Vec<Mailbox>,
    copies: Vec<u64>,
    /// What each node still wants.
    wants: Vec<u32>,
    asked: Vec<bool>,
    entered: Vec<bool>,
    channels: BTreeMap<(u32, u32), VecDeque<(Message, u64)>>,
    stores: Vec<(u32, Version)>,
    newest: u64,
    writes: u64,
    /// Messages with contents, without, and stores.
    counts: [u64; 3],
    /// Grants of turns to write, in order of their requests' arrival at the owner, if watched.
    chance: Chance,
}

impl Network {
    fn new(style: Style, nodes: u32, wants: u32, seed: u64) -> Network {
        let count = nodes as usize;
        Network {
            style,
            nodes: (0..nodes).map(|node| Mailbox::new(style, node, nodes, 0)).collect(),
            copies: vec![0; count],
            wants: vec![wants; count],
            asked: vec![false; count],
            entered: vec![false; count],
            channels: BTreeMap::new(),
            stores: Vec::new(),
            newest: 0,
            writes: 0,
            counts: [0; 3],
            chance: Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
        }
    }

    fn carry_out(&mut self, node: u32, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Send(to, message) => {
                    let contents = matches!(message, Message::Contents(_));
                    self.counts[usize::from(!contents)] += 1;
                    let value = self.copies[node as usize];
                    self.channels.entry((node, to)).or_default().push_back((message, value));
                }
                Effect::Store(to, version) => {
                    self.counts[2] += 1;
                    self.stores.push((to, version));
                }
                Effect::Entered { .. } => self.on_entry(node),
            }
        }
        self.check();
    }

    fn on_entry(&mut self, node: u32) {
        let at = node as usize;
        self.entered[at] = true;
        let kind = self.nodes[at].inside().unwrap();
        let newest = self.copies[at] == self.newest;
        // With datagrams a copy may be read that is about to be told old (§4.2: no message).
        assert!(newest || (kind == Kind::Read && self.style == Style::Datagrams), "old contents");
        if kind == Kind::Write {
            self.writes += 1;
            self.copies[at] = self.writes;
        }
    }

    fn check(&self) {
        let inside = |kind| self.nodes.iter().filter(|node| node.inside() == Some(kind)).count();
        let (writers, readers) = (inside(Kind::Write), inside(Kind::Read));
        assert!(writers <= 1, "two writers");
        if self.style == Style::Stores {
            assert!(writers == 0 || readers == 0, "a reader beside a writer");
        }
        let owners = self.nodes.iter().filter(|node| node.owns()).count();
        let promised = self
            .channels
            .values()
            .flatten()
            .filter(|(message, _)| matches!(message, Message::Grant { kind: Kind::Write, .. }));
        assert_eq!(owners + promised.count(), 1, "one owner, here or on its way");
    }

    /// Does something that can be done; `false`: nothing can.
    fn step(&mut self) -> bool {
        let full: Vec<(u32, u32)> = self
            .channels
            .iter()
            .filter(|(_, channel)| !channel.is_empty())
            .map(|(ends, _)| *ends)
            .collect();
        let ready: Vec<usize> = (0..self.nodes.len())
            .filter(|at| self.entered[*at] || (!self.asked[*at] && self.wants[*at] > 0))
            .collect();
        let total = full.len() + self.stores.len() + ready.len();
        if total == 0 {
            return false;
        }
        let mut pick = self.chance.below(total);
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
        self.act(ready[pick - self.stores.len()]);
        true
    }

    fn deliver(&mut self, from: u32, to: u32) {
        let (message, value) = self.channels.get_mut(&(from, to)).unwrap().pop_front().unwrap();
        if matches!(message, Message::Contents(_)) {
            self.copies[to as usize] = value;
        }
        let mut effects = Vec::new();
        self.nodes[to as usize].receive(from, message, &mut effects);
        self.carry_out(to, effects);
    }

    fn act(&mut self, at: usize) {
        let mut effects = Vec::new();
        if self.entered[at] {
            if self.nodes[at].inside() == Some(Kind::Write) {
                self.newest = self.copies[at];
            }
            (self.entered[at], self.asked[at]) = (false, false);
            self.nodes[at].release(&mut effects);
        } else {
            let kind = if self.chance.below(3) == 0 { Kind::Read } else { Kind::Write };
            self.asked[at] = true;
            self.wants[at] -= 1;
            self.nodes[at].acquire(kind, &mut effects);
        }
        self.carry_out(at as u32, effects);
    }

    /// Runs to the end; every request is answered.
    fn run(&mut self) {
        while self.step() {}
        assert!(self.wants.iter().all(|wants| *wants == 0), "not everybody has asked");
        assert!(self.asked.iter().all(|asked| !asked), "a request was not answered");
    }
}

const STYLES: [Style; 2] = [Style::Stores, Style::Datagrams];

#[test]
fn fg_01_fg_04_one_owner_one_writer_and_every_request_answered() {
    for style in STYLES {
        for nodes in [2, 3, 5] {
            for seed in 1..150 {
                println!("{style:?}, {nodes} nodes, seed {seed}");
                Network::new(style, nodes, 6, seed).run();
            }
        }
    }
}

#[test]
fn sixty_four_nodes_with_random_delays() {
    for style in STYLES {
        for seed in 1..4 {
            println!("{style:?}, seed {seed}");
            Network::new(style, 64, 5, seed).run();
        }
    }
}

/// One after the other, everything delivered in between.
fn settle(network: &mut Network, at: usize, kind: Kind) -> [u64; 3] {
    let before = network.counts;
    let mut effects = Vec::new();
    network.nodes[at].acquire(kind, &mut effects);
    network.carry_out(at as u32, effects);
    loop {
        let open = network.channels.iter().find(|(_, channel)| !channel.is_empty());
        match open.map(|(ends, _)| *ends) {
            Some((from, to)) => network.deliver(from, to),
            None => break,
        }
    }
    for (to, version) in std::mem::take(&mut network.stores) {
        network.nodes[to as usize].told(version);
    }
    network.act(at);
    while let Some((from, to)) =
        network.channels.iter().find(|(_, c)| !c.is_empty()).map(|(ends, _)| *ends)
    {
        network.deliver(from, to);
    }
    std::array::from_fn(|which| network.counts[which] - before[which])
}

#[test]
fn fg_02_fg_03_the_owner_asks_nobody_and_a_clean_copy_moves_nothing() {
    let mut network = Network::new(Style::Stores, 3, 0, 1);
    // Contents, other messages, stores. The owner: an invalidation at each other node.
    assert_eq!(settle(&mut network, 0, Kind::Write), [0, 0, 2]);
    assert!(network.nodes[0].is_clean() && !network.nodes[1].is_clean(), "FG-08");
    // Request, ownership; owner change to the third, invalidations to both.
    assert_eq!(settle(&mut network, 1, Kind::Write), [1, 2, 3]);
    assert_eq!((network.nodes[0].owner(), network.nodes[2].owner()), (1, 1), "FG-07");
    // A reader is counted, and says when it has finished.
    assert_eq!(settle(&mut network, 2, Kind::Read), [1, 3, 0]);
    assert_eq!(settle(&mut network, 2, Kind::Read), [0, 3, 0]);
    // CLEAN, and not the owner: ownership alone.
    assert_eq!(settle(&mut network, 2, Kind::Write), [0, 2, 3]);
}

#[test]
fn fg_15_the_baseline_tells_copies_by_messages_and_reads_valid_ones_alone() {
    let mut network = Network::new(Style::Datagrams, 3, 0, 1);
    assert_eq!(settle(&mut network, 0, Kind::Write), [0, 2, 0], "an invalidation each");
    assert_eq!(settle(&mut network, 0, Kind::Write), [0, 0, 0], "nobody has a copy");
    assert_eq!(settle(&mut network, 1, Kind::Read), [1, 2, 0], "request, contents, grant");
    assert_eq!(settle(&mut network, 1, Kind::Read), [0, 0, 0], "a valid copy is read alone");
    // Request, ownership, owner change to the third, invalidation of the old owner's copy.
    assert_eq!(settle(&mut network, 1, Kind::Write), [0, 4, 0]);
}

#[test]
fn fg_21_an_invalidation_leaves_a_reader_alone() {
    let mut reader = Mailbox::new(Style::Datagrams, 1, 2, 0);
    let mut effects = Vec::new();
    reader.acquire(Kind::Read, &mut effects);
    reader.receive(0, Message::Told(Version { position: 9, node: 0, shared: false }), &mut effects);
    assert_eq!(reader.inside(), Some(Kind::Read));
    reader.release(&mut effects);
    assert!(!reader.is_clean(), "DIRTY once it has let go");
    assert_eq!(effects, [Effect::Entered { moved: false }]);
}
