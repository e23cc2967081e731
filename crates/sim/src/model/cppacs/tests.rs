//! A transfer, a chain, both directions at once, and messages that share a path.

#![allow(clippy::unwrap_used)]

use hikyaku_nic::time::Time;

use super::*;
use crate::engine::{Simulation, TaskName};
use crate::machine::{Interface, Machine};
use crate::topology::HyperCrossbar;

/// A machine, its costs, and the adaptors in a new simulation.
fn system() -> (Simulation, NiaSystem, Costs) {
    let text = include_str!("../../../../../machines/cp-pacs.toml");
    let machine = Machine::parse("cp-pacs", text).unwrap();
    let Interface::CpPacs(costs) = machine.interface.clone() else { panic!("another model") };
    let simulation = Simulation::new(4);
    let network = machine.network(&simulation);
    let system = NiaSystem::new(&simulation, &costs, network);
    (simulation, system, *costs)
}

fn host(index: u32) -> TaskName {
    TaskName { kind: "host", index }
}

fn tcw(to: u32, bytes: u64) -> Tcw {
    Tcw { to, bytes, area: 0 }
}

/// The time until node 1 has received `count` messages that node 0 sends as `chains`.
fn time(chains: Vec<Vec<Tcw>>) -> Time {
    let (simulation, system, _) = system();
    let count = chains.iter().flatten().count() as u64;
    let sender = system.clone();
    simulation.spawn(host(0), async move {
        for chain in chains {
            sender.send(0, chain).await;
        }
    });
    simulation.spawn(host(1), async move { system.receive(1, 0, count).await });
    simulation.run().unwrap();
    simulation.now()
}

#[test]
fn cp_06_a_chain_has_one_start_and_k_overheads() {
    let (_, _, costs) = system();
    let one = time(vec![vec![tcw(1, 8)]]);
    let chain = time(vec![vec![tcw(1, 8); 11]]);
    let single = time(vec![vec![tcw(1, 8)]; 11]);
    let further = |all: Time| Time::from_picoseconds((all - one).picoseconds() / 10);
    assert!(further(chain) >= costs.message && further(chain) < costs.message + ns(300));
    // Without overlap each chain has its own start: the host waits for the chain to leave.
    assert!(further(single) >= costs.message + costs.start, "{}", further(single));
}

fn ns(nanoseconds: u64) -> Time {
    Time::from_nanoseconds(nanoseconds)
}

#[test]
fn a_message_arrives_with_its_last_packet() {
    let (_, _, costs) = system();
    let bytes = 10 * costs.packet_bytes + 1;
    let took = time(vec![vec![tcw(1, bytes)]]);
    assert!(took > costs.start + costs.link.time(bytes));
    assert!(time(vec![vec![tcw(1, 0)]]) < time(vec![vec![tcw(1, 1024)]]));
}

#[test]
fn cp_15_an_adaptor_sends_and_receives_at_once() {
    let both = |second: bool| {
        let (simulation, system, _) = system();
        for (node, other) in [(0, 1), (1, 0)] {
            let system = system.clone();
            simulation.spawn(host(node), async move {
                if node == 0 || second {
                    system.send(node, vec![tcw(other, 1 << 20)]).await;
                }
                if node == 1 || second {
                    system.receive(node, 0, 1).await;
                }
            });
        }
        simulation.run().unwrap();
        simulation.now().seconds()
    };
    assert!((both(true) / both(false) - 1.0).abs() < 0.01);
}

/// The time in which all nodes of a ring send to the nodes at these distances. The ring goes
/// through the partition, and its neighbours differ in one coordinate.
fn around_the_ring(steps: &[u32]) -> f64 {
    let (simulation, system, _) = system();
    let shape = HyperCrossbar::new(&[4, 8, 8]);
    let node_at = |place: u32| {
        let (x, y, z) = (place % 4, place / 4 % 8, place / 32 % 8);
        let y = if z % 2 == 0 { y } else { 7 - y };
        shape.node_at(&[if place & 4 == 0 { x } else { 3 - x }, y, z])
    };
    for place in 0..256 {
        let (node, system) = (node_at(place), system.clone());
        let chain: Vec<Tcw> =
            steps.iter().map(|step| tcw(node_at(place + step), 1 << 16)).collect();
        let count = steps.len() as u64;
        simulation.spawn(host(node), async move {
            system.send(node, chain).await;
            system.receive(node, 0, count).await;
        });
    }
    simulation.run().unwrap();
    simulation.now().seconds()
}

#[test]
fn cp_04_an_embedded_ring_is_as_fast_both_ways_at_once() {
    let alone = time(vec![vec![tcw(1, 1 << 16)]]).seconds();
    let (one, both) = (around_the_ring(&[1]), around_the_ring(&[1, 255]));
    assert!((one / alone - 1.0).abs() < 0.01, "{one} and {alone} s");
    assert!((both / (2.0 * one) - 1.0).abs() < 0.02, "{both} and {one} s");
}

#[test]
fn messages_to_one_node_share_its_link() {
    let (simulation, system, costs) = system();
    let bytes = 1 << 18;
    for node in 1..4 {
        let system = system.clone();
        simulation.spawn(host(node), async move { system.send(node, vec![tcw(0, bytes)]).await });
    }
    simulation.spawn(host(0), async move { system.receive(0, 0, 3).await });
    simulation.run().unwrap();
    assert!(simulation.now() > costs.link.time(3 * bytes));
}

#[test]
fn waiting_for_an_unsent_message_is_a_named_deadlock() {
    let (simulation, system, _) = system();
    simulation.spawn(host(9), async move { system.receive(9, 1, 1).await });
    let error = simulation.run().unwrap_err().to_string();
    assert!(error.contains("host 9 waits for a message in its area"), "{error}");
}
