//! Barriers in the switches of a multistage network (paper 003 §2.2 and §4.4).
//!
//! Every member sends one synchronisation packet and gets one. A switch has a table with the state
//! of each identifier, and counts the packets of each input. When every expected input has received
//! one, the switch sends one packet out of every output that leads to members.
//!
//! ```text
//!   members 0, 2, 5      stage 0               stage 1
//!      0 --->[ expects 0 and 2; fires ]--->[ expects a packet from each    ]---> 0, 2
//!      2 --->[ out to both halves     ] X  [ first-stage switch with members ]
//!      5 --->[ expects 5; fires at once]-->[                               ]---> 5
//! ```
//!
//! After the last stage every packet depends on every member, so its arrival ends the barrier. A
//! table serves one packet at a time. The paper's latency of a switch is "200 + a ns", where `a` is
//! the wait for the table. Stages work in parallel, so the time depends on the number of stages and
//! hardly on the number of members (paper 003, Fig. 10 E).
//!
//! The packets are a few bytes on wires that also carry data. A wait for data is not modelled.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use hikyaku_nic::time::Time;

use crate::engine::{Component, ComponentId, Server, Signal, SignalWait, Sim};
use crate::slab::Slab;
use crate::topology::{Multistage, Node, Topology};

/// The number of identifiers in a packet's 7-bit field.
const IDENTIFIERS: u8 = 128;
/// The number of nodes in a packet's routing map: the largest system with such barriers.
const LARGEST_SYSTEM: u32 = 64;
/// The number of ports of a switch.
const PORTS: usize = 4;

/// The costs of synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SyncParameters {
    /// The time from a node to its first switch, and from the last switch into a node.
    pub wire: Time,
    /// The time through a switch whose table is free: paper 003 §2.2 gives 200 ns.
    pub switch: Time,
    /// The time for which one packet occupies the table; part of `switch`.
    pub table: Time,
}

/// The reasons why a barrier cannot be set up or entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SyncError {
    /// The network is too large for the switches' header registers.
    #[error("barriers in switches work up to {LARGEST_SYSTEM} nodes, the network has {nodes}")]
    SystemTooLarge {
        /// Nodes of the network.
        nodes: u32,
    },
    /// The identifier does not fit into a packet.
    #[error("barrier {id}: identifiers go from 0 to {}", IDENTIFIERS - 1)]
    NoSuchIdentifier {
        /// The identifier.
        id: u8,
    },
    /// The identifier is in use.
    #[error("barrier {id} is in use; release it first or take another")]
    InUse {
        /// The identifier.
        id: u8,
    },
    /// A member is not in the network, or the set is empty.
    #[error("barrier {id} needs at least one member, and all of them among the {nodes} nodes")]
    BadMembers {
        /// The identifier.
        id: u8,
        /// Nodes of the network.
        nodes: u32,
    },
    /// A node enters a barrier without being a member.
    #[error("node {node} is no member of barrier {id}")]
    NotAMember {
        /// The identifier.
        id: u8,
        /// The node.
        node: Node,
    },
}

/// The synchronisation part of a multistage network.
#[derive(Debug)]
pub struct SyncNetwork {
    sim: Sim,
    shape: Multistage,
    parameters: SyncParameters,
    component: Cell<Option<ComponentId>>,
    /// The table of each switch.
    tables: Vec<Server>,
    groups: RefCell<BTreeMap<u8, SyncGroup>>,
    packets: RefCell<Slab<SyncPacket>>,
}

/// The members of an identifier and the state of the switches for it.
#[derive(Debug)]
struct SyncGroup {
    members: BTreeMap<Node, SyncMember>,
    /// By switch: the number of received packets for each input that expects packets.
    states: BTreeMap<u32, [Option<u32>; PORTS]>,
}

/// A member of a group.
#[derive(Debug)]
struct SyncMember {
    /// The number of times that it has entered the barrier.
    entered: u64,
    /// Raised when the barrier has ended for this member.
    released: Signal,
}

#[derive(Debug, Clone, Copy)]
struct SyncPacket {
    id: u8,
    stage: u32,
    /// The wire, by position.
    position: u32,
    /// Whether the packet has passed the table of its switch.
    looked_up: bool,
}

impl SyncNetwork {
    /// The synchronisation part of `shape`.
    ///
    /// # Errors
    /// [`SyncError::SystemTooLarge`] above 64 nodes.
    pub fn new(
        sim: &Sim,
        shape: Multistage,
        parameters: SyncParameters,
    ) -> Result<Rc<SyncNetwork>, SyncError> {
        let nodes = shape.nodes();
        if nodes > LARGEST_SYSTEM {
            return Err(SyncError::SystemTooLarge { nodes });
        }
        let network = Rc::new(SyncNetwork {
            sim: sim.clone(),
            tables: (0..shape.switches()).map(|_| Server::new(sim)).collect(),
            shape,
            parameters,
            component: Cell::new(None),
            groups: RefCell::default(),
            packets: RefCell::default(),
        });
        network.component.set(Some(sim.register(Rc::clone(&network) as Rc<dyn Component>)));
        Ok(network)
    }

    /// Assigns an identifier to a set of nodes.
    ///
    /// # Errors
    /// [`SyncError::NoSuchIdentifier`], [`SyncError::InUse`], [`SyncError::BadMembers`].
    pub fn set_up(&self, id: u8, members: &[Node]) -> Result<(), SyncError> {
        let nodes = self.shape.nodes();
        if id >= IDENTIFIERS {
            return Err(SyncError::NoSuchIdentifier { id });
        }
        if self.groups.borrow().contains_key(&id) {
            return Err(SyncError::InUse { id });
        }
        if members.is_empty() || members.iter().any(|&node| node >= nodes) {
            return Err(SyncError::BadMembers { id, nodes });
        }
        let member = |&node: &Node| {
            let released = Signal::new(&self.sim, "a barrier in the switches");
            (node, SyncMember { entered: 0, released })
        };
        let states = self.expectations(members);
        let members = members.iter().map(member).collect();
        self.groups.borrow_mut().insert(id, SyncGroup { members, states });
        Ok(())
    }

    /// Releases an identifier. Its packets in flight are lost.
    pub fn release(&self, id: u8) {
        self.groups.borrow_mut().remove(&id);
    }

    /// Enters a barrier at a time, which is now or later. The returned wait ends when every member
    /// has entered the same number of times.
    ///
    /// # Errors
    /// [`SyncError::NotAMember`].
    pub fn enter(&self, node: Node, id: u8, at: Time) -> Result<SignalWait, SyncError> {
        let mut groups = self.groups.borrow_mut();
        let member = groups.get_mut(&id).and_then(|group| group.members.get_mut(&node));
        let Some(SyncMember { entered, released }) = member else {
            return Err(SyncError::NotAMember { id, node });
        };
        *entered += 1;
        let packet = SyncPacket { id, stage: 0, position: node, looked_up: false };
        self.schedule(at + self.parameters.wire, packet);
        Ok(released.reaches(*entered))
    }

    /// The switches and inputs at which packets of these members arrive.
    fn expectations(&self, members: &[Node]) -> BTreeMap<u32, [Option<u32>; PORTS]> {
        let mut states = BTreeMap::<u32, [Option<u32>; PORTS]>::new();
        for &from in members {
            for &to in members {
                let mut position = from;
                for stage in 0..self.shape.stages() {
                    let switch = self.shape.switch_at(stage, position);
                    let input = self.shape.digit(position, stage) as usize;
                    states.entry(switch).or_default()[input] = Some(0);
                    position = self.shape.advance(stage, position, to);
                }
            }
        }
        states
    }

    fn schedule(&self, time: Time, packet: SyncPacket) {
        let component = self.component.get().expect("set when the network is made");
        let key = self.packets.borrow_mut().insert(packet);
        self.sim.schedule(time, component, key);
    }

    /// Handles a packet that has reached a switch: it waits for the table.
    fn look_up(&self, packet: SyncPacket) {
        let switch = self.shape.switch_at(packet.stage, packet.position);
        let start = self.tables[switch as usize].book(self.sim.now(), self.parameters.table);
        self.schedule(start + self.parameters.switch, SyncPacket { looked_up: true, ..packet });
    }

    /// Counts a packet. If it was the last expected one, packets leave the switch.
    fn count(&self, packet: SyncPacket) {
        let SyncPacket { id, stage, position, .. } = packet;
        let switch = self.shape.switch_at(stage, position);
        let input = self.shape.digit(position, stage) as usize;
        let mut groups = self.groups.borrow_mut();
        let Some(group) = groups.get_mut(&id) else { return };
        let Some(state) = group.states.get_mut(&switch) else { return };
        if let Some(count) = &mut state[input] {
            *count += 1;
        }
        if state.iter().flatten().any(|&count| count == 0) {
            return;
        }
        // A member may already have entered the next barrier: its packet stays counted.
        state.iter_mut().flatten().for_each(|count| *count -= 1);
        let outputs = self.outputs(group, stage, position);
        drop(groups);
        for position in outputs {
            let packet = SyncPacket { id, stage: stage + 1, position, looked_up: false };
            let last = stage + 1 == self.shape.stages();
            let wire = if last { self.parameters.wire } else { Time::ZERO };
            self.schedule(self.sim.now() + wire, packet);
        }
    }

    /// The wires behind a switch that lead to members.
    fn outputs(&self, group: &SyncGroup, stage: u32, position: u32) -> Vec<u32> {
        let behind = |&to: &Node| {
            // A member lies behind this switch if both agree in all the digits replaced so far.
            (0..stage)
                .all(|before| self.shape.digit(to, before) == self.shape.digit(position, before))
        };
        let members = group.members.keys().copied().filter(|to| behind(to));
        let mut outputs: Vec<u32> =
            members.map(|to| self.shape.advance(stage, position, to)).collect();
        outputs.dedup();
        outputs
    }
}

impl Component for SyncNetwork {
    fn handle(&self, _sim: &Sim, word: u32) {
        let Some(packet) = self.packets.borrow_mut().remove(word) else { return };
        if packet.stage == self.shape.stages() {
            let groups = self.groups.borrow();
            let group = groups.get(&packet.id);
            if let Some(member) = group.and_then(|group| group.members.get(&packet.position)) {
                member.released.raise();
            }
        } else if packet.looked_up {
            self.count(packet);
        } else {
            self.look_up(packet);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Simulation, TaskName};
    use proptest::prelude::*;

    fn ns(nanoseconds: u64) -> Time {
        Time::from_nanoseconds(nanoseconds)
    }

    const PARAMETERS: SyncParameters = SyncParameters {
        wire: Time::from_nanoseconds(10),
        switch: Time::from_nanoseconds(200),
        table: Time::from_nanoseconds(50),
    };

    /// The times when each member leaves each round. `members` gives the time when each enters the
    /// first round, and the time of its work between rounds.
    fn run(nodes: u32, members: &[(Node, u64)], rounds: u32) -> Vec<Vec<(u64, u64)>> {
        let simulation = Simulation::new(0);
        let network = SyncNetwork::new(&simulation, Multistage::new(nodes), PARAMETERS).unwrap();
        let set: Vec<Node> = members.iter().map(|member| member.0).collect();
        network.set_up(5, &set).unwrap();
        let spans = Rc::new(RefCell::new(vec![Vec::new(); members.len()]));
        for (index, &(node, work)) in members.iter().enumerate() {
            let (sim, network, spans) =
                (simulation.clone(), Rc::clone(&network), Rc::clone(&spans));
            simulation.spawn(TaskName { kind: "node", index: node }, async move {
                for _ in 0..rounds {
                    sim.delay(ns(work)).await;
                    let entered = sim.now().nanoseconds();
                    network.enter(node, 5, sim.now()).unwrap().await;
                    spans.borrow_mut()[index].push((entered, sim.now().nanoseconds()));
                }
            });
        }
        simulation.run().unwrap();
        spans.take()
    }

    #[test]
    fn a_lone_member_passes_its_stages() {
        // Wire, two switches, wire.
        assert_eq!(run(16, &[(3, 0)], 1), [[(0, 420)]]);
        assert_eq!(run(64, &[(63, 0)], 1), [[(0, 620)]]);
    }

    #[test]
    fn the_time_depends_on_stages_more_than_members() {
        let leave = |count: u32| {
            let members: Vec<(Node, u64)> = (0..count).map(|node| (node, 0)).collect();
            let spans = run(64, &members, 1);
            spans.iter().map(|rounds| rounds[0].1).max().unwrap()
        };
        // At most three additional waits for a table in each of three stages.
        assert_eq!(leave(1), 620);
        assert!((620..=620 + 3 * 3 * 50).contains(&leave(64)), "{}", leave(64));
    }

    #[test]
    fn invalid_barriers_are_errors() {
        let simulation = Simulation::new(0);
        let too_large = SyncNetwork::new(&simulation, Multistage::new(128), PARAMETERS);
        assert_eq!(too_large.unwrap_err(), SyncError::SystemTooLarge { nodes: 128 });
        let network = SyncNetwork::new(&simulation, Multistage::new(16), PARAMETERS).unwrap();
        assert_eq!(network.set_up(128, &[0]), Err(SyncError::NoSuchIdentifier { id: 128 }));
        assert_eq!(network.set_up(0, &[]), Err(SyncError::BadMembers { id: 0, nodes: 16 }));
        assert_eq!(network.set_up(0, &[16]), Err(SyncError::BadMembers { id: 0, nodes: 16 }));
        network.set_up(0, &[1]).unwrap();
        assert_eq!(network.set_up(0, &[1]), Err(SyncError::InUse { id: 0 }));
        network.release(0);
        network.set_up(0, &[2]).unwrap();
        assert_eq!(
            network.enter(1, 0, Time::ZERO).unwrap_err(),
            SyncError::NotAMember { id: 0, node: 1 }
        );
    }

    #[test]
    fn a_missing_member_is_a_named_deadlock() {
        let simulation = Simulation::new(0);
        let network = SyncNetwork::new(&simulation, Multistage::new(4), PARAMETERS).unwrap();
        network.set_up(1, &[0, 3]).unwrap();
        simulation.spawn(TaskName { kind: "node", index: 0 }, async move {
            network.enter(0, 1, Time::ZERO).unwrap().await;
        });
        let text = simulation.run().unwrap_err().to_string();
        assert!(text.contains("node 0 waits for a barrier in the switches"), "{text}");
    }

    proptest! {
        /// No node leaves a round before every node has entered it, for any set and any work.
        #[test]
        fn no_member_leaves_before_all_have_entered(
            nodes in 1u32..65,
            members in prop::collection::btree_map(0u32..64, 0u64..2_000, 1..20),
            rounds in 1u32..5,
        ) {
            let set: std::collections::BTreeMap<Node, u64> =
                members.into_iter().map(|(node, work)| (node % nodes, work)).collect();
            let list: Vec<(Node, u64)> = set.into_iter().collect();
            let spans = run(nodes, &list, rounds);
            for round in 0..rounds as usize {
                let last_in = spans.iter().map(|rounds| rounds[round].0).max().unwrap();
                let first_out = spans.iter().map(|rounds| rounds[round].1).min().unwrap();
                prop_assert!(first_out > last_in, "round {round}: {first_out} <= {last_in}");
            }
        }
    }
}
