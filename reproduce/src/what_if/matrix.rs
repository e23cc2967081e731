//! Each paper's mechanism on every machine: the speed-up of the same exchange.
//!
//! A message between programs takes a processor at both ends, and the machine's interfaces and
//! network in between. Each mechanism saves a part of that: an announcement, a processor, a start.
//! The two runs of a cell differ only in this part; no constant is added.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};

use hikyaku_nic::time::Time;
use hikyaku_report::{BarChart, Cell as Value, Table, Unit};
use hikyaku_sim::engine::{Sim, Simulation};
use hikyaku_sim::job::{Carrier, Consignee, HostCosts, Parcel};
use hikyaku_sim::machine::Machine;
use hikyaku_sim::topology::Node;

use super::{WhatIfAnswer, tabulate};
use crate::{FILES, Machines};

/// Bytes of a request, an announcement, a READY-TO-RECV.
const WORD: u64 = 16;
/// Bytes of a block that is requested, announced or exchanged.
const BLOCK: u64 = 4096;
/// The number of messages in a chain, and their bytes.
const CHAIN: (u32, u64) = (16, 64);
/// Nodes of a broadcast, at most.
const GROUP: u32 = 32;

/// The times with and without a mechanism, seconds.
type Pair = [f64; 2];

/// A mechanism's name, and its times on a machine.
type Mechanism = (&'static str, fn(&Machine) -> Pair);

/// The mechanisms, by paper.
const MECHANISMS: [Mechanism; 5] = [
    ("landing rings (000)", rings),
    ("owner's processor left out (001)", variables),
    ("session queues (002)", queues),
    ("multicast (003)", multicast),
    ("chains (004)", chains),
];

/// What the numbers of each column are computed from: the steps without the mechanism, and with it.
/// They are steps of one exchange, not whole programs.
const STEPS: [(&str, &str, &str); 5] = [
    (
        MECHANISMS[0].0,
        "16 B announce a message of 4 KiB, 16 B answer, then it is sent: each a message between \
         programs",
        "the message alone, between programs",
    ),
    (
        MECHANISMS[1].0,
        "16 B ask the other node's program, which sends 4 KiB back",
        "16 B ask the other node's interface, which sends 4 KiB back without a processor's time",
    ),
    (
        MECHANISMS[2].0,
        "two nodes send each other 16 B when ready, and 4 KiB on that; a program sees the 16 B \
         only when it has computed for as long as the exchange takes alone",
        "the 4 KiB leave when the 16 B arrive; the program sees their arrival when it has computed",
    ),
    (
        MECHANISMS[3].0,
        "4 KiB to at most 32 nodes along a binomial tree of programs",
        "the time of one message of 4 KiB to the farthest of the nodes: copies cost nothing. With \
         two nodes the tree is that message too, so the ratio is 1 by construction",
    ),
    (
        MECHANISMS[4].0,
        "16 messages of 64 B to other nodes, a processor's start before each",
        "the same behind one start. The ratio is 1 where interfaces take longer for a message than \
         the processor for a start",
    ),
];

/// The action after the arrival of a message.
type Then = Box<dyn FnOnce(Time)>;

/// Exchanges on a machine, step by step.
struct Desk {
    sim: Sim,
    carrier: Rc<dyn Carrier>,
    /// By message number.
    next: RefCell<Vec<Option<Then>>>,
    /// The end of the last exchange.
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
    /// Lets the interfaces carry a message from a time on, and calls `then` at its arrival.
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

    /// Sends a message from one program to another.
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

/// The duration of what `start` begins on a machine, seconds.
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

/// A message to a ring is sent at once. Without rings, the sender does not know the landing
/// address: it announces the message, and sends it after the receiver's answer.
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

/// Contents that another node owns: its processor or its interface answers.
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

/// Two nodes exchange a block, each when the other is ready, and compute in between for the
/// duration of an exchange. Programs send at their next poll, queues when the readiness arrives.
fn queues(machine: &Machine) -> Pair {
    let by_programs = |computing: Time| {
        time(machine, |desk| {
            let HostCosts { send, receive } = desk.carrier.host(WORD);
            for ends in [(0, 1), (1, 0)] {
                let own = Rc::clone(desk);
                // Node `ends.1` is ready; the other node polls after it has computed.
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

/// A broadcast along a binomial tree of programs, or with one command whose copies are each as fast
/// as a single message.
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

/// A node with the block sends it to the halves of its subtree, which starts at the node.
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

/// Short messages to several nodes, each with its own start, or all with one start.
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
    let header = ["column", "without the mechanism", "with it"];
    let mut steps = Table::new("What each column computes: the steps of one exchange", header);
    for (name, without, with) in STEPS {
        steps.push([name, without, with]);
    }
    WhatIfAnswer {
        setup: "Times of the steps in the second table, without the mechanism over with it. They \
                are steps of one exchange, not whole programs, with all the time that each \
                machine file states for processors, interfaces and network; no constant is added. \
                A program gains less, by as much as it does other things."
            .into(),
        findings: gains.iter().map(finding).collect(),
        charts: vec![chart.into()],
        tables: vec![table, steps],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The texts say the numbers that the code has.
    #[test]
    fn the_steps_are_those_that_run() {
        let text = format!("{STEPS:?}");
        for number in [
            format!("{WORD} B announce"),
            format!("of {} KiB", BLOCK >> 10),
            format!("at most {GROUP} nodes"),
            format!("{} messages of {} B", CHAIN.0, CHAIN.1),
        ] {
            assert!(text.contains(&number), "{number}");
        }
        for ((name, ..), (mechanism, _)) in STEPS.iter().zip(MECHANISMS) {
            assert_eq!(*name, mechanism);
        }
    }

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
        // With two nodes, there is no other node to copy to.
        for (machine, _) in FILES.iter().filter(|(name, _)| machines.get(name).nodes == 2) {
            assert!((gain(multicast, *machine) - 1.0).abs() < 0.01, "{machine}");
        }
    }
}
