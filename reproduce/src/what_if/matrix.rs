//! Each paper's mechanism on every machine: how many times as fast the same exchange is with it.
//!
//! A message between programs takes a processor at both ends, and the machine's interfaces and
//! network in between. Each mechanism leaves out some of that: an announcement, a processor, a
//! start. That is all that differs between the two runs of a cell; no constant is added.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;
use hikyaku_report::{BarChart, Cell as Value, Unit};
use hikyaku_sim::engine::{Sim, Simulation};
use hikyaku_sim::job::{Carrier, Consignee, HostCosts, Parcel};
use hikyaku_sim::machine::Machine;
use hikyaku_sim::topology::Node;

use super::{WhatIfAnswer, tabulate};
use crate::{FILES, Machines};

/// Bytes of a request, an announcement, a READY-TO-RECV.
const WORD: u64 = 16;
/// Bytes of what is asked for, announced or exchanged.
const BLOCK: u64 = 4096;
/// Messages of a chain, and bytes of each.
const CHAIN: (u32, u64) = (16, 64);
/// Nodes of a broadcast, at most.
const GROUP: u32 = 32;

/// With and without: seconds.
type Pair = [f64; 2];

/// Its name, and what it gives on a machine.
type Mechanism = (&'static str, fn(&Machine) -> Pair);

/// The mechanisms, by paper.
const MECHANISMS: [Mechanism; 5] = [
    ("landing rings (000)", rings),
    ("owner's processor left out (001)", variables),
    ("session queues (002)", queues),
    ("multicast (003)", multicast),
    ("chains (004)", chains),
];

/// What follows when a message has arrived.
type Then = Box<dyn FnOnce(Time)>;

/// Exchanges on a machine, step by step.
struct Desk {
    sim: Sim,
    carrier: Rc<dyn Carrier>,
    /// By the messages' numbers.
    next: RefCell<Vec<Option<Then>>>,
    /// When the last exchange has ended.
    end: Cell<Time>,
}

impl Consignee for Desk {
    fn departed(&self, _token: u64) {}

    fn delivered(&self, token: u64) {
        let then = self.next.borrow_mut()[token as usize].take();
        then.expect("a message arrives once")(self.sim.now());
    }
}

impl Desk {
    /// A message that the interfaces carry from a time on, and what they do when it has come.
    fn carry(
        self: &Rc<Desk>,
        at: Time,
        (source, destination): (Node, Node),
        bytes: u64,
        then: impl FnOnce(Time) + 'static,
    ) {
        let token = self.next.borrow().len() as u64;
        self.next.borrow_mut().push(Some(Box::new(then)));
        let carrier = Rc::clone(&self.carrier);
        self.sim.at(at, move |sim| {
            carrier.carry(Parcel { source, destination, bytes, token }, sim.now());
        });
    }

    /// A message that a program sends and another receives.
    fn send(
        self: &Rc<Desk>,
        at: Time,
        ends: (Node, Node),
        bytes: u64,
        then: impl FnOnce(Time) + 'static,
    ) {
        let HostCosts { send, receive } = self.carrier.host(bytes);
        self.carry(at + send, ends, bytes, move |arrived| then(arrived + receive));
    }

    fn end(&self, at: Time) {
        self.end.set(self.end.get().max(at));
    }
}

/// Seconds of what `start` begins on a machine.
fn time(machine: &Machine, start: impl FnOnce(&Rc<Desk>)) -> f64 {
    let simulation = Simulation::new(0x3a7);
    let carrier = machine.install(&simulation).carrier;
    let (sim, next) = (simulation.clone(), RefCell::default());
    let desk = Rc::new(Desk { sim, carrier, next, end: Cell::default() });
    let consignee: Weak<dyn Consignee> = Rc::downgrade(&desk) as Weak<dyn Consignee>;
    desk.carrier.connect(consignee);
    start(&desk);
    simulation.run().expect("nothing here waits for anything");
    desk.end.get().seconds()
}

/// A message whose sender does not know where it may land is announced, and sent when the receiver
/// has answered; into a ring it goes at once.
fn rings(machine: &Machine) -> Pair {
    let (a, b) = (0, machine.nodes - 1);
    let announced = time(machine, |desk| {
        let own = Rc::clone(desk);
        desk.send(Time::ZERO, (a, b), WORD, move |at| {
            let desk = Rc::clone(&own);
            own.send(at, (b, a), WORD, move |at| {
                let last = Rc::clone(&desk);
                desk.send(at, (a, b), BLOCK, move |at| last.end(at));
            });
        });
    });
    let ring = time(machine, |desk| {
        let own = Rc::clone(desk);
        desk.send(Time::ZERO, (a, b), BLOCK, move |at| own.end(at));
    });
    [ring, announced]
}

/// Contents that another node owns: its processor answers, or its interface.
fn variables(machine: &Machine) -> Pair {
    let (a, b) = (0, machine.nodes - 1);
    let by_processor = time(machine, |desk| {
        let own = Rc::clone(desk);
        desk.send(Time::ZERO, (a, b), WORD, move |at| {
            let last = Rc::clone(&own);
            own.send(at, (b, a), BLOCK, move |at| last.end(at));
        });
    });
    let by_interface = time(machine, |desk| {
        let own = Rc::clone(desk);
        let HostCosts { send, receive } = desk.carrier.host(WORD);
        desk.carry(send, (a, b), WORD, move |at| {
            let last = Rc::clone(&own);
            own.carry(at, (b, a), BLOCK, move |at| last.end(at + receive));
        });
    });
    [by_interface, by_processor]
}

/// Two nodes exchange a block, each when the other is ready, and compute in between for as long as
/// an exchange takes: the programs send when they look again, or the queues when readiness comes.
fn queues(machine: &Machine) -> Pair {
    let by_programs = |computing: Time| {
        time(machine, |desk| {
            let HostCosts { send, receive } = desk.carrier.host(WORD);
            for ends in [(0, 1), (1, 0)] {
                let own = Rc::clone(desk);
                // Node `ends.1` is ready; the other looks when it has computed.
                desk.carry(send, (ends.1, ends.0), WORD, move |at| {
                    let last = Rc::clone(&own);
                    let sees = at.max(send + computing) + receive;
                    own.send(sees, ends, BLOCK, move |at| last.end(at));
                });
            }
        })
    };
    let alone = by_programs(Time::ZERO);
    let computing = Time::from_picoseconds((alone * 1e12) as u64);
    let by_queues = time(machine, |desk| {
        let HostCosts { send, receive } = desk.carrier.host(WORD);
        for ends in [(0, 1), (1, 0)] {
            let own = Rc::clone(desk);
            desk.carry(send, (ends.1, ends.0), WORD, move |at| {
                let last = Rc::clone(&own);
                own.carry(at, ends, BLOCK, move |at| last.end(at.max(send + computing) + receive));
            });
        }
    });
    [by_queues, by_programs(computing)]
}

/// A broadcast along a binomial tree of programs, or by one command whose copies are each as fast
/// as a message alone.
fn multicast(machine: &Machine) -> Pair {
    let nodes = machine.nodes.min(GROUP);
    let tree = time(machine, |desk| pass_on(desk, Time::ZERO, 0, nodes.next_power_of_two(), nodes));
    let farthest = |to: Node| {
        time(machine, |desk| {
            let own = Rc::clone(desk);
            desk.send(Time::ZERO, (0, to), BLOCK, move |at| own.end(at));
        })
    };
    [(1..nodes).map(farthest).fold(0.0, f64::max), tree]
}

/// A node that has the block sends it to the halves of its subtree, which begins there.
fn pass_on(desk: &Rc<Desk>, at: Time, node: Node, subtree: u32, nodes: u32) {
    let mut at = at;
    let mut half = subtree / 2;
    while half > 0 {
        let to = node + half;
        if to < nodes {
            let (own, part) = (Rc::clone(desk), half);
            desk.send(at, (node, to), BLOCK, move |at| {
                own.end(at);
                pass_on(&own, at, to, part, nodes);
            });
            at = at + desk.carrier.host(BLOCK).send;
        }
        half /= 2;
    }
}

/// Short messages to several nodes, each started by itself, or behind one start.
fn chains(machine: &Machine) -> Pair {
    let (count, bytes) = CHAIN;
    let run = |chained: bool| {
        time(machine, |desk| {
            let send = desk.carrier.host(bytes).send.picoseconds();
            for number in 0..count {
                let own = Rc::clone(desk);
                let before = if chained { 0 } else { u64::from(number) };
                let to = 1 + number % (machine.nodes - 1);
                let at = Time::from_picoseconds(before * send);
                desk.send(at, (0, to), bytes, move |at| own.end(at));
            }
        })
    };
    [run(true), run(false)]
}

pub(super) fn run() -> WhatIfAnswer {
    let machines = Machines::stored();
    let names: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
    let gains = MECHANISMS.map(|(name, mechanism)| -> (&str, Vec<f64>) {
        let gain = |machine: &&str| {
            let [with, without] = mechanism(machines.get(machine));
            without / with
        };
        (name, names.iter().map(gain).collect())
    });
    let heads = names.iter().map(|name| Value::from(*name));
    let title = "Times as fast with the mechanism";
    let table = tabulate(title, ("machine", heads), &gains, Unit::Ratio);
    let chart = BarChart::new(
        "Each mechanism on every machine",
        "times as fast",
        Unit::Ratio,
        names.clone(),
    );
    let chart = gains.iter().fold(chart, |chart, (name, gains)| chart.with(*name, gains.clone()));
    let finding = |(name, gains): &(&str, Vec<f64>)| {
        let most = gains.iter().copied().fold(0.0, f64::max);
        let at = gains.iter().position(|gain| *gain == most).unwrap_or(0);
        format!("{name}: at most {most:.1} times as fast, on {}.", names[at])
    };
    WhatIfAnswer {
        setup: format!(
            "A message between programs takes both processors, as each machine file says. Landing \
             rings: {BLOCK} B, announced first or not. The owner's processor: {BLOCK} B asked for \
             by {WORD} B, answered by a program or an interface. Session queues: two nodes \
             exchange {BLOCK} B and compute for as long as that takes. Multicast: {BLOCK} B to \
             {GROUP} nodes (two on the boards' machines) by a binomial tree, or in the time of one \
             message to the farthest. Chains: {} messages of {} B with as many starts, or one.",
            CHAIN.0, CHAIN.1
        ),
        findings: gains.iter().map(finding).collect(),
        charts: vec![chart.into()],
        tables: vec![table],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_mechanism_is_slower_and_each_gives_something_on_its_own_machine() {
        let machines = Machines::stored();
        for (name, mechanism) in MECHANISMS {
            for (machine, _) in FILES {
                let [with, without] = mechanism(machines.get(machine));
                assert!(without >= 0.999 * with, "{name} on {machine}: {with} and {without} s");
            }
        }
        let gain = |mechanism: fn(&Machine) -> Pair, machine| {
            let [with, without] = mechanism(machines.get(machine));
            without / with
        };
        assert!(gain(rings, "dimmnet2") > 1.01);
        assert!(gain(queues, "fx100-tofu2") > 1.01);
        assert!(gain(multicast, "cenju4") > 2.0);
        assert!(gain(chains, "cp-pacs") > 3.0);
        // Two nodes: there is nobody else to copy to.
        assert!((gain(multicast, "dimmnet1") - 1.0).abs() < 0.01);
    }
}
