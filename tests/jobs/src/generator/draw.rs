//! Drawing a program from a seed.

use hikyaku::shared::Protocol;
use hikyaku::topology::dims_create;

use super::calls::{Call, Combine, Kind};
use super::memory::SLOTS;
use super::plan::{Act, DUPLICATES, How, Message, Program, Step, Turn, Variable, Way};
use super::run::first_tag;
use crate::Random;

/// Lengths near thresholds: inline, packets, eager, segments of broadcasts.
const EDGES: [usize; 8] = [40, 64, 4096, 8192, 16 << 10, 64 << 10, 256 << 10, 1 << 20];

/// Bytes of a program's messages and collectives, added up over the ranks.
const MOST_BYTES: usize = 48 << 20;
/// The same in virtual time, where packets are simulated one by one.
const MOST_VIRTUAL_BYTES: usize = 2 << 20;

/// Bytes of a program's window.
const MOST_WINDOW: usize = 4 << 20;

/// The depth of steps within steps.
const DEPTH: usize = 2;

impl Program {
    /// The program of a seed. `nodes`: for a machine of this many nodes, in virtual time, where
    /// there are no kills, and no variables that use datagrams.
    pub fn from_seed(seed: u64, nodes: Option<u32>) -> Program {
        let virtual_time = nodes.is_some();
        let mut random = Random::new(seed);
        let ranks = 2 + random.below(5) as u32;
        let per_node = match random.below(3) {
            0 if !virtual_time => 0,
            1 => 1 + random.below(ranks as usize) as u32,
            _ => 1,
        };
        let per_node = nodes.map_or(per_node, |nodes| per_node.max(ranks.div_ceil(nodes)));
        let bytes = if virtual_time { MOST_VIRTUAL_BYTES } else { MOST_BYTES };
        let (variables, steps) = (Vec::new(), Vec::new());
        let program = Program { seed, ranks, per_node, variables, window: (0, 0), steps };
        let mut draw = Draw { random, virtual_time, bytes, number: 0, loss: None, program };
        draw.loss();
        draw.variables();
        let count = 2 + draw.below(if virtual_time { 14 } else { 24 });
        let mut steps: Vec<Step> = (0..count).map(|_| draw.step(0)).collect();
        if let Some(act) = draw.loss.take() {
            let at = draw.below(steps.len() + 1);
            steps.insert(at, Step { number: draw.number + 1, act });
        }
        Program { steps, ..draw.program }
    }
}

struct Draw {
    random: Random,
    virtual_time: bool,
    /// How many bytes may still be sent.
    bytes: usize,
    /// The number of the last step.
    number: u32,
    /// The early end of a rank.
    loss: Option<Act>,
    program: Program,
}

impl Draw {
    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound)
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn rank(&mut self) -> u32 {
        self.below(self.program.ranks as usize) as u32
    }

    /// Two different ranks.
    fn pair(&mut self) -> (u32, u32) {
        let (from, ranks) = (self.rank(), self.program.ranks);
        (from, (from + 1 + self.below(ranks as usize - 1) as u32) % ranks)
    }

    /// A length for data that `copies` ranks send: near a threshold, or as likely between 1 and 2
    /// bytes as between 1 and 2 MiB, and sometimes zero.
    fn length(&mut self, copies: usize) -> usize {
        let length = match self.below(3) {
            0 => (self.random.pick(&EDGES) + self.below(3)) - 1,
            _ => {
                let bits = self.below(22);
                self.below(1 << bits)
            }
        };
        let copies = copies.max(1);
        let length = if length * copies > self.bytes / 4 { length % 100 } else { length };
        self.bytes -= (length * copies).min(self.bytes);
        length
    }

    /// One program in six loses a rank.
    fn loss(&mut self) {
        if !self.one_in(6) {
            return;
        }
        let rank = self.rank();
        let kill = !self.virtual_time && self.one_in(2);
        let most = self.random.pick(&[1, 1_000, 30_000]);
        let micros = self.below(most) as u64;
        self.loss = Some(if kill { Act::Kill { rank, micros } } else { Act::Leave { rank } });
    }

    /// Whether a rank leaves before the others. Then no rank can know whether a message from any
    /// rank is still to arrive: such a receive waits until all others have left.
    fn loses_in_order(&self) -> bool {
        matches!(self.loss, Some(Act::Leave { .. }))
    }

    fn variables(&mut self) {
        for _ in 0..self.below(4) {
            let protocols =
                if self.virtual_time { &Protocol::ALL[..2] } else { &Protocol::ALL[..] };
            let protocol = self.random.pick(protocols);
            let most = if self.virtual_time { 2_000 } else { 200_000 };
            let elements = self.random.pick(&[1, 8, 100, 1_000, most]);
            let rows = self.random.pick(&[1, 1, 3]);
            self.program.variables.push(Variable { protocol, rows, elements });
        }
    }

    fn step(&mut self, depth: usize) -> Step {
        self.number += 1;
        let number = self.number;
        let act = match self.below(if depth < DEPTH { 34 } else { 28 }) {
            0..2 => Act::Messages(self.messages(number, 30)),
            2..4 => self.requests(number),
            4 => {
                let mut messages = self.messages(number, 6);
                messages.retain(|message| message.from != message.to);
                Act::Ready(messages)
            }
            5 => self.many_to_one(),
            6 => {
                let (turns, ranks) = (self.below(6), self.program.ranks as usize);
                Act::Futures { turns, length: self.length(turns * ranks * ranks) }
            }
            7 => {
                let (distance, ranks) = (self.rank(), self.program.ranks as usize);
                Act::Around { distance, length: self.length(ranks), shared: self.one_in(2) }
            }
            8 => {
                let (distance, ranks) = (self.rank(), self.program.ranks as usize);
                Act::Cancelled { distance, length: self.length(ranks) }
            }
            9..14 => Act::Collective(self.below(DUPLICATES + 1), self.call()),
            14 => Act::Persistent { call: self.call(), rounds: 1 + self.below(4) as u32 },
            15..20 => self.acquire(),
            20..24 => self.window(),
            24 => self.exchange(),
            25 => self.topology(),
            26..28 => {
                let most = [1, 100, 2_000][self.below(3)];
                let micros = (0..self.program.ranks).map(|_| self.below(most) as u64).collect();
                Act::Pause { micros, computing: self.one_in(2) }
            }
            28..32 => self.flight(number, depth),
            _ => self.unmatched(depth),
        };
        Step { number, act }
    }

    fn messages(&mut self, number: u32, most: usize) -> Vec<Message> {
        let count = self.below(most + 1);
        (0..count).map(|place| self.message(number, place)).collect()
    }

    /// A message of a step; `place`: the number of messages before it.
    fn message(&mut self, number: u32, place: usize) -> Message {
        let (from, to) = if self.one_in(10) {
            let rank = self.rank();
            (rank, rank)
        } else {
            self.pair()
        };
        let how =
            self.random.pick(&[How::Exact, How::Exact, How::AnySource, How::Probe, How::Poll]);
        // Others share few tags, so that order matters.
        let tag = if how == How::AnySource { 10 + place } else { self.below(3) };
        let how = match how {
            How::AnySource if self.loses_in_order() => How::Probe,
            how => how,
        };
        Message {
            from,
            to,
            tag: first_tag(number) + tag as i32,
            length: self.length(1),
            synchronous: self.one_in(3),
            how,
            name: self.random.draw(),
        }
    }

    fn requests(&mut self, number: u32) -> Act {
        let messages = self.messages(number, 40);
        Act::Requests { messages, receive_first: self.one_in(2), order: self.random.draw() }
    }

    fn many_to_one(&mut self) -> Act {
        let (root, count) = (self.rank(), self.random.pick(&[0, 1, 10, 100, 300]));
        let count = match () {
            () if self.loses_in_order() => 0,
            () if self.virtual_time => count.min(40),
            () => count,
        };
        let copies = count * self.program.ranks as usize;
        Act::ToOne { root, count, most: self.length(copies).min(200_000) }
    }

    fn call(&mut self) -> Call {
        let (kind, root) = (self.random.pick(&Kind::ALL), self.rank());
        let ranks = self.program.ranks as usize;
        let copies = if kind.is_all_to_all() { ranks * ranks } else { ranks };
        let mut length = self.length(copies);
        if matches!(kind, Kind::Reduce | Kind::Allreduce | Kind::Scan | Kind::Exscan)
            || matches!(kind, Kind::ReduceScatter | Kind::ReduceScatterBlock)
        {
            length /= 8;
        }
        let combine = self.random.pick(&[Combine::Sum, Combine::Max, Combine::Maps]);
        Call { kind, root, length, combine, name: self.random.draw() }
    }

    fn flight(&mut self, number: u32, depth: usize) -> Act {
        let calls = (0..self.below(6)).map(|_| (1 + self.below(DUPLICATES), self.call())).collect();
        let mut messages = self.messages(number, 8);
        for message in &mut messages {
            // They are waited for when all have been started.
            message.how = if message.how == How::AnySource { How::AnySource } else { How::Exact };
        }
        let within = (0..self.below(4)).map(|_| self.step(depth + 1)).collect();
        Act::Flight { calls, messages, within, order: self.random.draw() }
    }

    fn unmatched(&mut self, depth: usize) -> Act {
        let (from, to) = self.pair();
        let count = self.random.pick(&[1, 9, 100, 256, 300]);
        let length = self.length(count);
        let before = (0..1 + self.below(3)).map(|_| self.step(depth + 1)).collect();
        Act::Unmatched { from, to, count, length, before }
    }

    fn acquire(&mut self) -> Act {
        if self.program.variables.is_empty() {
            return Act::Collective(0, self.call());
        }
        let variable = self.below(self.program.variables.len());
        let rows = self.program.variables[variable].rows;
        let turns = (0..self.program.ranks).map(|_| {
            let count = self.below(7);
            (0..count).map(|_| self.turn(rows)).collect()
        });
        let turns = turns.collect();
        Act::Acquire { variable, turns, settle: self.one_in(3) }
    }

    fn turn(&mut self, rows: usize) -> Turn {
        let dropped = Way::Dropped(1 + self.below(4));
        let ways = [Way::Wait, Way::Wait, Way::Within, Way::Future, Way::Try, dropped];
        Turn {
            row: self.below(rows),
            adds: if self.one_in(2) { 0 } else { 1 + self.below(1_000) as u64 },
            way: self.random.pick(&ways),
            micros: if self.one_in(3) { self.below(200) as u64 } else { 0 },
        }
    }

    fn window(&mut self) -> Act {
        let ranks = self.program.ranks as usize;
        let (slot, place) = self.program.window;
        let length = self.length(ranks * ranks);
        let length = if place + ranks * length > MOST_WINDOW { length % 100 } else { length };
        match self.below(4) {
            0 => {
                self.program.window.0 += SLOTS;
                let turns = (0..ranks).map(|_| {
                    let count = self.below(12);
                    (0..count).map(|_| (self.rank(), self.below(1_000) as u64)).collect()
                });
                let turns = turns.collect();
                Act::Atomics { slot, turns }
            }
            // A rank that is killed inside passes the lock to no other rank.
            1 if !matches!(self.loss, Some(Act::Kill { .. })) => {
                self.program.window.0 += SLOTS;
                Act::Lock { slot, rounds: 1 + self.below(6) as u64 }
            }
            2 => {
                self.program.window.1 += ranks * length;
                Act::Puts { place, length }
            }
            _ => {
                self.program.window = (slot + SLOTS, place + length);
                Act::Signal { slot, place, length }
            }
        }
    }

    fn exchange(&mut self) -> Act {
        let ranks = self.program.ranks as usize;
        let most = if self.virtual_time { 300 } else { 5_000 };
        let edges = (0..self.below(2 * ranks + 1))
            .map(|_| (self.rank(), self.rank(), self.below(2) * self.below(most)))
            .collect();
        Act::Exchange { edges, rounds: 1 + self.below(8) as u32, kind: self.below(6) }
    }

    fn topology(&mut self) -> Act {
        let ranks = self.program.ranks;
        let length = self.length(8 * ranks as usize);
        if self.one_in(2) {
            let mut dims = vec![0; 1 + self.below(3)];
            dims_create(ranks, &mut dims).expect("every number can be divided so");
            let periods = dims.iter().map(|_| self.one_in(2)).collect();
            return Act::Grid { dims, periods, length };
        }
        let edges = (0..self.below(3 * ranks as usize)).map(|_| (self.rank(), self.rank()));
        Act::Graph { edges: edges.collect(), length }
    }
}
