//! The cost of an invalidation in paper 001 when many nodes have a valid copy: with one datagram
//! for each, with the multicast of the paper's baseline, and with a store (AOTF) to each.
//!
//! The state machines of real runs decide who is notified, who answers and when the writer may
//! enter. Here each datagram and store takes its time from the machine file.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use hikyaku_dsm::{AccessKind, Effect, Mailbox, MailboxMessage, Patience, Style};
use hikyaku_nic::time::Time;
use hikyaku_report::{Axis, Cell as TableCell, LineChart, Unit};
use hikyaku_sim::engine::{Sim, Simulation, TaskName};
use hikyaku_sim::machine::Interface;
use hikyaku_sim::model::dimmnet1::Nodes;

use super::{WhatIfAnswer, draw, tabulate};
use crate::Machines;

/// Bytes of a notice, an answer, an ACK.
const SMALL: u64 = 64;

/// How the sharers are notified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notice {
    /// A datagram to each.
    OneByOne,
    /// One datagram, which the switch copies.
    Multicast,
    /// A store into the memory of each.
    Stores,
}

const NAMES: [(&str, Notice); 3] = [
    ("UDP, one by one", Notice::OneByOne),
    ("UDP, multicast", Notice::Multicast),
    ("DIMMnet, stores", Notice::Stores),
];

/// The nodes of a run; the first is the writer.
struct Sharing {
    sim: Sim,
    hardware: Nodes,
    nodes: RefCell<Vec<Mailbox>>,
    notice: Notice,
    /// The number of messages that the writer sent, without ACKs.
    left: Cell<u64>,
    entered: Cell<Time>,
}

/// The seconds until all other copies are invalidated and the writer may write; and the number of
/// messages that the writer sent, without ACKs.
fn invalidate(machines: &Machines, notice: Notice, sharers: u32) -> (f64, u64) {
    let Interface::Dimmnet1(costs) = machines.get("dimmnet1").interface.clone() else {
        unreachable!("the file says which interface it describes")
    };
    let simulation = Simulation::new(0x5a4e);
    let style = if notice == Notice::Stores { Style::Stores } else { Style::Datagrams };
    let nodes = sharers + 1;
    let mailboxes = (0..nodes).map(|node| Mailbox::new(style, node, nodes, 0, false)).collect();
    let run = Rc::new(Sharing {
        sim: simulation.clone(),
        hardware: Nodes::new(&simulation, &costs, nodes),
        nodes: RefCell::new(mailboxes),
        notice,
        left: Cell::new(0),
        entered: Cell::new(Time::ZERO),
    });
    (1..nodes).for_each(|node| run.share(node));
    let mut effects = Vec::new();
    run.nodes.borrow_mut()[0].acquire(AccessKind::Write, Patience::Wait, &mut effects);
    run.follow(0, effects);
    simulation.run().expect("an invalidation ends");
    (run.entered.get().seconds(), run.left.get())
}

impl Sharing {
    /// Untimed: a node reads, and has a valid copy from then on.
    fn share(&self, node: u32) {
        let mut nodes = self.nodes.borrow_mut();
        for call in [
            |own: &mut Mailbox, effects: &mut Vec<Effect>| {
                own.acquire(AccessKind::Read, Patience::Wait, effects);
            },
            Mailbox::release,
        ] {
            let mut effects = Vec::new();
            call(&mut nodes[node as usize], &mut effects);
            let from = |at| move |effect| (at, effect);
            let mut work: VecDeque<(u32, Effect)> = effects.into_iter().map(from(node)).collect();
            while let Some((at, effect)) = work.pop_front() {
                let mut effects = Vec::new();
                match effect {
                    Effect::Send(to, message) => {
                        nodes[to as usize].receive(at, message, &mut effects);
                        work.extend(effects.into_iter().map(from(to)));
                    }
                    Effect::Store(to, version) => nodes[to as usize].told(version),
                    Effect::Entered { .. } | Effect::Refused(_) => {}
                }
            }
        }
    }

    /// The effects of a node's step, in order. Sends of one message are one notice.
    fn follow(self: &Rc<Self>, node: u32, effects: Vec<Effect>) {
        let mut notices: Vec<(MailboxMessage, Vec<u32>)> = Vec::new();
        let mut stores = Vec::new();
        for effect in effects {
            match effect {
                Effect::Send(to, message) => match notices.last_mut() {
                    Some((last, all)) if *last == message => all.push(to),
                    _ => notices.push((message, vec![to])),
                },
                Effect::Store(to, version) => stores.push((to, version)),
                Effect::Entered { .. } if stores.is_empty() => self.entered.set(self.sim.now()),
                Effect::Entered { .. } | Effect::Refused(_) => {}
            }
        }
        let this = Rc::clone(self);
        self.sim.spawn(TaskName { kind: "node", index: node }, async move {
            for (to, version) in stores {
                let costs = this.hardware.costs();
                this.hardware.work(node, costs.host.bookkeeping).await;
                this.left.set(this.left.get() + 1);
                let there = this.sim.now() + costs.interface.atomic;
                this.nodes.borrow_mut()[to as usize].told(version);
                this.entered.set(there);
            }
            for (message, to) in notices {
                this.send(node, &to, message).await;
            }
        });
    }

    async fn send(self: &Rc<Self>, from: u32, to: &[u32], message: MailboxMessage) {
        let at_once = if self.notice == Notice::Multicast { to.len() } else { 1 };
        for group in to.chunks(at_once) {
            let passed_on = self.hardware.send(from, SMALL).await;
            self.left.set(self.left.get() + u64::from(from == 0));
            for &node in group {
                let this = Rc::clone(self);
                self.hardware.pass_on(node, SMALL, passed_on, move || {
                    let name = TaskName { kind: "arrival", index: node };
                    let sim = this.sim.clone();
                    sim.spawn(name, async move { this.take(from, node, message).await });
                });
            }
        }
    }

    /// A node handles a message. It acknowledges the message before the effects that follow.
    async fn take(self: Rc<Self>, from: u32, node: u32, message: MailboxMessage) {
        self.hardware.receive(node).await;
        let passed_on = self.hardware.send(node, SMALL).await;
        let this = Rc::clone(&self);
        self.hardware.pass_on(from, SMALL, passed_on, move || {
            let name = TaskName { kind: "ACK", index: from };
            let sim = this.sim.clone();
            sim.spawn(name, async move { this.hardware.receive(from).await });
        });
        let mut effects = Vec::new();
        self.nodes.borrow_mut()[node as usize].receive(from, message, &mut effects);
        self.follow(node, effects);
    }
}

pub(super) fn run() -> WhatIfAnswer {
    let machines = Machines::stored();
    let counts: Vec<u32> = (0..=6).map(|log| 1 << log).collect();
    let found = NAMES.map(|(name, notice)| {
        let of = |&sharers: &u32| invalidate(&machines, notice, sharers);
        let (times, left): (Vec<f64>, Vec<u64>) = counts.iter().map(of).unzip();
        (name, times, left)
    });
    let times = found.each_ref().map(|(name, times, _)| (*name, times.clone()));
    let left = found.map(|(name, _, left)| (name, left.iter().map(|&left| left as f64).collect()));
    let points: Vec<f64> = counts.iter().map(|&sharers| f64::from(sharers)).collect();
    let heads = || ("sharers", points.iter().map(|&count| TableCell::number(count, Unit::Number)));
    let tables = vec![
        tabulate("Until the writer may write", heads(), &times, Unit::Seconds),
        tabulate("Datagrams and stores that leave the writer", heads(), &left, Unit::Number),
    ];
    let chart = LineChart::new(
        "Until the writer may write",
        Axis::log2("sharers", Unit::Number),
        Axis::log10("time", Unit::Seconds),
    );
    let chart = draw(chart, &points, &times);
    let last = times.each_ref().map(|(_, times)| times[times.len() - 1]);
    let time = |at: usize| Unit::Seconds.format(last[at]);
    WhatIfAnswer {
        setup: "The baseline of paper 001 with more nodes than its two, all on one switch of its \
                Ethernet, and the same variable by stores over DIMMnet-1. All but the writer have \
                a valid copy and do not read."
            .into(),
        findings: vec![
            format!(
                "By multicast one datagram leaves the writer for 64 sharers, and it may write \
                 after {}; after {} by a datagram to each.",
                time(1),
                time(0)
            ),
            format!(
                "That is no 64th: every sharer acknowledges and answers, and the writer's \
                 processor takes each of these in. Stores ask for neither: {}, although one goes \
                 to each.",
                time(2)
            ),
        ],
        charts: vec![chart.into()],
        tables,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fg_15_a_multicast_leaves_the_writer_once_for_all_sharers() {
        let machines = Machines::stored();
        let of = |notice, sharers| invalidate(&machines, notice, sharers);
        for sharers in [1, 2, 16, 64] {
            let (single, each) = of(Notice::OneByOne, sharers);
            let (multicast, once) = of(Notice::Multicast, sharers);
            assert_eq!((each, once), (u64::from(sharers), 1));
            // A multicast saves the other sends, of 20 us each. The gain is smaller than that,
            // because the first answers cross the wires during the sends and queue behind them.
            let sends = 20e-6 * f64::from(sharers - 1);
            assert!(sharers < 16 || single - multicast > 0.5 * sends, "{multicast}, {single} s");
            let (stores, left) = of(Notice::Stores, sharers);
            assert!(left == u64::from(sharers) && 10.0 * stores < multicast, "{stores} s");
        }
    }
}
