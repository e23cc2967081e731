//! The two primitives' printed times.

#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;

use super::*;
use crate::engine::{Simulation, TaskName};
use crate::machine::{Interface as Model, Machine};

fn time(program: impl AsyncFnOnce(Pair) + 'static) -> f64 {
    let text = include_str!("../../../../../machines/dimmnet1.toml");
    let machine = Machine::parse("dimmnet1", text).unwrap();
    let Model::Dimmnet1(costs) = machine.interface else { panic!("another model") };
    let simulation = Simulation::new(1);
    let pair = Pair::new(&simulation, &costs);
    simulation.spawn(TaskName { kind: "program", index: 0 }, async move { program(pair).await });
    simulation.run().unwrap();
    simulation.now().seconds()
}

#[test]
fn fg_12_stores_take_270_ns_answers_1_84_us() {
    assert!((time(async |pair| pair.store().await) - 270e-9).abs() < 1e-12);
    let round_trip = time(async |pair| {
        pair.store().await;
        pair.respond(1).await;
        pair.store().await;
        pair.respond(0).await;
    });
    assert!((round_trip - 1.84e-6).abs() < 1e-9, "{round_trip}");
}

#[test]
fn fg_13_blocks_of_464_bytes_sustain_1017_mb_a_second() {
    let bytes = 1 << 20;
    let rate = bytes as f64 / time(async move |pair| pair.blocks(0, bytes).await);
    assert!((rate / 1017e6 - 1.0).abs() < 0.001, "{rate}");
}

#[test]
fn fg_13_4_kib_are_nine_packets_between_which_others_pass() {
    let text = include_str!("../../../../../machines/dimmnet1.toml");
    let Model::Dimmnet1(costs) = Machine::parse("dimmnet1", text).unwrap().interface else {
        panic!("another model")
    };
    let simulation = Simulation::new(1);
    let pair = Pair::new(&simulation, &costs);
    let (long, short) = (pair.clone(), pair);
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
    // One behind each packet of the long one but the last.
    assert_eq!(passed.get(), [20, 8]);
}

#[test]
fn a_datagram_pays_both_processors_and_every_frame() {
    let small = time(async |pair| pair.datagram(0, 64, true).await);
    let large = time(async |pair| pair.datagram(0, 32 << 10, true).await);
    assert!(small > 55e-6 && large > small + 32768.0 * 8.0 / 100e6);
    assert!(time(async |pair| pair.datagram(0, 32 << 10, false).await) < small);
}
