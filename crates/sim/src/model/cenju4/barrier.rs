//! Synchronisation in the switches: the sync tables of paper 003 §3.
//!
//! ```text
//!   nodes ──► switch: waits until a packet has come on every input that is part of the group,
//!             then sends one on every output that leads to the group ──► next stage ──► nodes
//! ```
//!
//! A table entry is accessed once for each packet that comes, one at a time; everything else of a
//! switch goes on port by port. So a synchronisation takes as many switches as there are stages,
//! however many nodes take part. Which inputs and outputs count is what the sync header says, and
//! here follows from the routes between all members.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::costs::Costs;
use crate::engine::{Server, Signal, Sim};
use crate::topology::{Node, Topology, Vertex};

/// One synchronisation id (sid) of a group of nodes.
#[derive(Debug, Clone)]
pub struct Synchronisation(Rc<State>);

#[derive(Debug)]
struct State {
    sim: Sim,
    costs: Costs,
    switches: RefCell<BTreeMap<u32, Switch>>,
    done: BTreeMap<Node, Signal>,
    /// By member: the switch that its packets enter.
    entrance: BTreeMap<Node, Vertex>,
}

/// A switch's entry for this id.
#[derive(Debug)]
struct Switch {
    inputs: u32,
    outputs: BTreeSet<Vertex>,
    waiting: u32,
    table: Server,
}

impl Synchronisation {
    /// Registers the group's header: what the system call of §5.4 does.
    pub fn new(sim: &Sim, costs: &Costs, topology: &dyn Topology, group: &[Node]) -> Self {
        let mut links = BTreeSet::new();
        let mut route = Vec::new();
        for (&from, &to) in group.iter().flat_map(|from| group.iter().map(move |to| (from, to))) {
            route.clear();
            topology.route(from, to, &mut route);
            links.extend(route.iter().map(|&channel| topology.link_of(channel)));
        }
        let (mut switches, mut entrance) = (BTreeMap::new(), BTreeMap::new());
        let new = || Switch {
            inputs: 0,
            outputs: BTreeSet::new(),
            waiting: 0,
            table: Server::new(sim),
        };
        for ends in links.into_iter().map(|link| topology.link(link)) {
            if let Vertex::Switch(switch) = ends.to {
                switches.entry(switch).or_insert_with(new).inputs += 1;
            }
            match ends.from {
                Vertex::Switch(switch) => {
                    switches.entry(switch).or_insert_with(new).outputs.insert(ends.to);
                }
                Vertex::Node(node) => drop(entrance.insert(node, ends.to)),
            }
        }
        let signal = |&node: &Node| (node, Signal::new(sim, "a synchronisation"));
        let done = group.iter().map(signal).collect();
        let state = State {
            sim: sim.clone(),
            costs: costs.clone(),
            switches: RefCell::new(switches),
            done,
            entrance,
        };
        Synchronisation(Rc::new(state))
    }

    /// Host: one sync packet, and the wait for the one that comes back; the `count`th time.
    pub async fn synchronise(&self, node: Node, count: u64) {
        let State { sim, costs, done, entrance, .. } = &*self.0;
        sim.delay(costs.host.register).await;
        // The header is read and checked as any other; its table entry holds the port map.
        let memory = &costs.memory;
        let words = costs.interface.parcel_header_bytes / 8;
        let clocks = costs.interface.check + costs.interface.start_packet;
        sim.delay(memory.dirty + times(memory.word, words) + memory.query + memory.word).await;
        sim.delay(times(costs.interface.clock, clocks)).await;
        let wire = costs.network.link.time(costs.interface.packet_header_bytes);
        let unit = self.clone();
        let entrance = entrance[&node];
        sim.at(sim.now() + wire, move |_| unit.arrive(entrance));
        done[&node].reaches(count).await;
        // The notification in the synchronisation table of memory, and its line in the cache.
        let accept = times(costs.interface.clock, costs.interface.accept);
        sim.delay(accept + memory.query + memory.word + costs.host.poll).await;
    }

    /// A sync packet has come to a switch or to a node.
    fn arrive(&self, at: Vertex) {
        let State { sim, costs, switches, done, .. } = &*self.0;
        let number = match at {
            Vertex::Node(node) => return done[&node].raise(),
            Vertex::Switch(number) => number,
        };
        let mut switches = switches.borrow_mut();
        let Some(switch) = switches.get_mut(&number) else { return };
        let access = costs.network.table;
        let through = switch.table.book(sim.now(), access) + access + costs.network.synchronise;
        switch.waiting += 1;
        if switch.waiting < switch.inputs {
            return;
        }
        switch.waiting = 0;
        for &output in &switch.outputs {
            let unit = self.clone();
            sim.at(through, move |_| unit.arrive(output));
        }
    }
}

fn times(span: Time, count: u64) -> Time {
    Time::from_picoseconds(span.picoseconds() * count)
}
