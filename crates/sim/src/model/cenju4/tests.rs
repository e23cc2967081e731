//! Latency by steps, throughput by lines, multicast, order, head-of-line blocking, synchronisation.

#![allow(clippy::unwrap_used)]

use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::*;
use crate::engine::{Simulation, TaskName};
use crate::machine::{Interface as Model, Machine};
use crate::topology::{Multistage, Topology};

pub(super) fn costs() -> Costs {
    let text = include_str!("../../../../../machines/cenju4.toml");
    let machine = Machine::parse("cenju4", text).unwrap();
    let Model::Cenju4(costs) = machine.interface else { panic!("another model") };
    *costs
}

fn system(simulation: &Simulation) -> CenjuSystem {
    CenjuSystem::new(simulation, &costs(), Rc::new(Multistage::new(32)), 512)
}

fn host(index: u32) -> TaskName {
    TaskName { kind: "host", index }
}

fn write(to: u32, source: u64, bytes: u64) -> CenjuParcel {
    let span = Span { source, destination: 0, bytes };
    let (to, protocol) = (To::One(to), ParcelProtocol::Write(span));
    CenjuParcel { to, protocol, area: 0, optimise: true, dirty: true }
}

/// The time until a parcel of node 0 has arrived at node 1.
fn time(parcel: CenjuParcel) -> Time {
    let simulation = Simulation::new(5);
    let system = system(&simulation);
    simulation.spawn(host(0), async move {
        system.post(0, parcel).await;
        system.wait(1, 0, 1).await;
    });
    simulation.run().unwrap();
    simulation.now()
}

#[test]
fn cj_13_inline_mode_saves_a_memory_access() {
    let inline = time(CenjuParcel { protocol: ParcelProtocol::Inline, ..write(1, 0, 8) });
    let (eight, sixteen) = (time(write(1, 0, 8)), time(write(1, 0, 16)));
    assert!(inline < eight && eight < sixteen);
    let saved = (sixteen - inline).seconds();
    assert!((0.2e-6..1.0e-6).contains(&saved), "{saved}");
}

#[test]
fn cj_18_packets_take_125_ns_a_switch_multicasts_187_5() {
    let shape = Multistage::new(32);
    assert_eq!(shape.distance(0, 31), 4);
    let one = time(CenjuParcel { protocol: ParcelProtocol::Inline, ..write(1, 0, 8) });
    let all = To::All((0..32).collect());
    let many = time(CenjuParcel { protocol: ParcelProtocol::Inline, to: all, ..write(1, 0, 8) });
    // Each crossing of a link by a multicast packet takes the switch's larger latency.
    let further = (many - one).picoseconds();
    assert!((3 * 62_500..=4 * 62_500).contains(&further), "{further}");
}

#[test]
fn cj_20_throughput_follows_the_lines_of_a_packet() {
    let bytes = 1 << 17;
    let rate = |parcel| bytes as f64 / time(parcel).seconds();
    let aligned = rate(write(1, 0, bytes));
    let plain = rate(CenjuParcel { optimise: false, ..write(1, 8, bytes) });
    let optimised = rate(write(1, 8, bytes));
    assert!(aligned > optimised && optimised > plain, "{aligned} {optimised} {plain}");
    assert!(aligned < costs().network.link.as_bytes_per_second());
}

#[test]
fn parcels_of_any_length_arrive_in_order() {
    let simulation = Simulation::new(5);
    let system = system(&simulation);
    let sim = simulation.clone();
    simulation.spawn(host(0), async move {
        system.post(0, write(1, 0, 4096)).await;
        system
            .post(0, CenjuParcel { area: 1, protocol: ParcelProtocol::Inline, ..write(1, 0, 8) })
            .await;
        system.wait(1, 1, 1).await;
        let flagged = sim.now();
        system.wait(1, 0, 1).await;
        assert_eq!(sim.now(), flagged + costs().host.poll, "the data was there before its flag");
    });
    simulation.run().unwrap();
}

/// The time at which a word from node 0 arrives at node 17, while 31 nodes flood node 1 and a
/// parcel from node 0 to node 1 is ahead of the word.
fn word_behind_a_blocked_parcel(registers: u64) -> f64 {
    let simulation = Simulation::new(5);
    let mut costs = costs();
    costs.interface.registers = registers;
    let system = CenjuSystem::new(&simulation, &costs, Rc::new(Multistage::new(32)), 512);
    for node in 2..32 {
        let system = system.clone();
        simulation.spawn(host(node), async move { system.post(node, write(1, 0, 1 << 14)).await });
    }
    let sim = simulation.clone();
    simulation.spawn(host(0), async move {
        sim.delay(Time::from_nanoseconds(100_000)).await;
        system.post(0, write(1, 0, 1 << 14)).await;
        system.post(0, CenjuParcel { protocol: ParcelProtocol::Inline, ..write(17, 0, 8) }).await;
        system.wait(17, 0, 1).await;
        sim.stop();
    });
    let stopped = simulation.run();
    assert!(matches!(stopped, Err(crate::SimError::Stopped { .. })));
    simulation.now().seconds()
}

#[test]
fn cj_16_header_registers_let_parcels_pass_blocked_ones() {
    let (one, four) = (word_behind_a_blocked_parcel(1), word_behind_a_blocked_parcel(4));
    assert!(four < 0.5 * one, "{four} {one}");
}

#[test]
fn cj_22_switch_barriers_do_not_grow_with_nodes() {
    let time = |nodes: u32| {
        let simulation = Simulation::new(5);
        let group: Vec<u32> = (0..nodes).collect();
        let barrier = Synchronisation::new(&simulation, &costs(), 32, &group).unwrap();
        for node in group {
            let (barrier, sim) = (barrier.clone(), simulation.clone());
            simulation.spawn(host(node), async move {
                // The last node decides, twice.
                sim.delay(Time::from_nanoseconds(u64::from(node) * 10)).await;
                for _ in 0..2 {
                    barrier.synchronise(node).await.unwrap();
                }
            });
        }
        simulation.run().unwrap();
        simulation.now().seconds() / 2.0
    };
    let (two, all) = (time(2), time(32));
    assert!(all < 1.2 * two, "{all} {two}");
}
