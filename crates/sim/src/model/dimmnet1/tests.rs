//! The printed times of the two primitives.

#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;

use super::*;
use crate::engine::{Signal, Simulation, TaskName};
use crate::machine::{Interface as Model, Machine};

fn time(program: impl AsyncFnOnce(Nodes) + 'static) -> f64 {
    let text = include_str!("../../../../../machines/dimmnet1.toml");
    let machine = Machine::parse("dimmnet1", text).unwrap();
    let Model::Dimmnet1(costs) = machine.interface else { panic!("another model") };
    let simulation = Simulation::new(1);
    let nodes = Nodes::new(&simulation, &costs, 2);
    simulation.spawn(TaskName { kind: "program", index: 0 }, async move { program(nodes).await });
    simulation.run().unwrap();
    simulation.now().seconds()
}

#[test]
fn fg_12_stores_take_270_ns_answers_1_84_us() {
    assert!((time(async |nodes| nodes.store().await) - 270e-9).abs() < 1e-12);
    let round_trip = time(async |nodes| {
        nodes.store().await;
        nodes.respond(1).await;
        nodes.store().await;
        nodes.respond(0).await;
    });
    assert!((round_trip - 1.84e-6).abs() < 1e-9, "{round_trip}");
}

#[test]
fn fg_13_blocks_of_464_bytes_sustain_1017_mb_a_second() {
    let bytes = 1 << 20;
    let rate = bytes as f64 / time(async move |nodes| nodes.blocks(0, bytes).await);
    assert!((rate / 1017e6 - 1.0).abs() < 0.001, "{rate}");
}

#[test]
fn fg_13_4_kib_are_nine_packets_between_which_others_pass() {
    let text = include_str!("../../../../../machines/dimmnet1.toml");
    let Model::Dimmnet1(costs) = Machine::parse("dimmnet1", text).unwrap().interface else {
        panic!("another model")
    };
    let simulation = Simulation::new(1);
    let nodes = Nodes::new(&simulation, &costs, 2);
    let (long, short) = (nodes.clone(), nodes);
    let passed = Rc::new(Cell::new([0, 0]));
    let (count, seen) = (Rc::clone(&passed), Rc::clone(&passed));
    simulation.spawn(TaskName { kind: "long", index: 0 }, async move {
        long.packets(0, 4096).await;
        seen.set([seen.get()[0]; 2]);
    });
    simulation.spawn(TaskName { kind: "short", index: 0 }, async move {
        for _ in 0..20 {
            short.packets(0, 8).await;
            count.set([count.get()[0] + 1, count.get()[1]]);
        }
    });
    simulation.run().unwrap();
    // One other packet behind each packet of the long message but the last.
    assert_eq!(passed.get(), [20, 8]);
}

#[test]
fn fg_15_a_datagram_pays_both_processors_and_every_frame_on_both_wires() {
    let text = include_str!("../../../../../machines/dimmnet1.toml");
    let Model::Dimmnet1(costs) = Machine::parse("dimmnet1", text).unwrap().interface else {
        panic!("another model")
    };
    let last_of_three = |bytes: u64| {
        let simulation = Simulation::new(1);
        let nodes = Nodes::new(&simulation, &costs, 4);
        let came = Signal::new(&simulation, "copies of a datagram");
        simulation.spawn(TaskName { kind: "program", index: 0 }, async move {
            let passed_on = nodes.send(0, bytes).await;
            for to in 1..4 {
                let came = came.clone();
                nodes.pass_on(to, bytes, passed_on, move || came.raise());
            }
            came.reaches(3).await;
            nodes.receive(1).await;
        });
        simulation.run().unwrap();
        simulation.now().seconds()
    };
    // The switch receives a whole frame and copies it. Each wire from it carries all frames.
    let of = |bytes: f64| bytes * 8.0 / 100e6;
    let expected = 20e-6 + of(64.0 + 58.0) + 5e-6 + of(64.0 + 58.0) + 35e-6;
    assert!((last_of_three(64) - expected).abs() < 1e-9);
    let expected = 20e-6 + of(1480.0 + 58.0) + 5e-6 + of(4096.0 + 3.0 * 58.0) + 35e-6;
    assert!((last_of_three(4096) - expected).abs() < 1e-9);
}
