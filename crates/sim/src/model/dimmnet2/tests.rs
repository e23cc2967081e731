//! The board's steps, its pipeline, a full ring, and the host's polling.

#![allow(clippy::unwrap_used)]

use hikyaku_nic::time::Time;

use super::*;
use crate::engine::{Simulation, TaskName};
use crate::machine::{self, Machine};
use crate::model::landing::Arrival;

fn costs() -> Costs {
    let text = include_str!("../../../../../machines/dimmnet2.toml");
    let machine = Machine::parse("dimmnet2", text).unwrap();
    let machine::Interface::Dimmnet2(costs) = machine.interface else { panic!("another model") };
    *costs
}

fn task(index: u32) -> TaskName {
    TaskName { kind: "host", index }
}

/// Sends one message of `bytes` and returns the receiving board's log.
fn one_way(primitive: Primitive, bytes: usize) -> Steps {
    let simulation = Simulation::new(1);
    let [a, b] = pair(&simulation, &costs(), 1 << 20).unwrap();
    let board = b.board().clone();
    simulation.spawn(task(0), async move {
        a.send(&b, primitive, &vec![5; bytes]).await;
        let packets = bytes.div_ceil(2048) as u64;
        b.detect(packets).await;
        let arrivals = b.read_status().await;
        assert_eq!(arrivals.len() as u64, packets);
    });
    simulation.run().unwrap();
    board.take_log()
}

fn clocks_between(log: &Steps, from: &str, to: &str) -> f64 {
    let at = |what: &str| log.iter().find(|(step, _)| *step == what).unwrap().1.seconds();
    (at(to) - at(from)) / 10e-9
}

#[test]
fn ip_15_24_bytes_take_24_clocks_or_20_by_address() {
    let clocks = |log| clocks_between(&log, "detect arrival at SWIF", "E status write");
    assert!((clocks(one_way(Primitive::IndirectPush, 8)) - 24.0).abs() < 1e-6);
    let simulation = Simulation::new(1);
    let [_, b] = pair(&simulation, &costs(), 1 << 20).unwrap();
    let (_memory, address) = b.memory().register(1, 64);
    assert!((clocks(one_way(Primitive::Push(address), 8)) - 20.0).abs() < 1e-6);
}

#[test]
fn packets_of_a_message_overlap() {
    let time = |bytes| one_way(Primitive::IndirectPush, bytes).last().unwrap().1;
    let (one, eight) = (time(2048), time(8 * 2048));
    let packet = Time::from_picoseconds((eight - one).picoseconds() / 7);
    // The sending side's time for a packet, not the sum of all units.
    let sending = costs().interface.further_words(2048) + costs().interface.packet_gap;
    assert!(packet <= sending + Time::from_nanoseconds(30), "{packet} {sending}");
}

#[test]
fn ip_10_a_full_ring_blocks_the_board_without_loss() {
    let simulation = Simulation::new(3);
    let [a, b] = pair(&simulation, &costs(), 4096).unwrap();
    let sim = simulation.clone();
    simulation.spawn(task(0), async move {
        let message: Vec<u8> = (0..16 * 2048).map(|n| (n / 2048) as u8).collect();
        a.send(&b, Primitive::IndirectPush, &message).await;
        // The board has long received as much as fits, and is blocked.
        sim.delay(Time::from_nanoseconds(1_000_000)).await;
        assert_eq!(b.board().status().count(), 2);
        let mut got = Vec::new();
        while got.len() < message.len() {
            b.detect(got.len() as u64 / 2048 + 1).await;
            for arrival in b.read_status().await {
                if let Arrival::Landed(0, payload) = arrival {
                    got.extend(payload);
                }
            }
        }
        assert_eq!(got, message);
    });
    simulation.run().unwrap();
}

#[test]
fn ip_20_a_poll_takes_one_access_on_average() {
    let simulation = Simulation::new(7);
    let [_, b] = pair(&simulation, &costs(), 4096).unwrap();
    let sim = simulation.clone();
    simulation.spawn(task(0), async move {
        let access = costs().host.access.seconds();
        let mut sum = 0.0;
        let runs = 2000;
        for run in 0..runs {
            let board = b.board().clone();
            let change = sim.now() + Time::from_nanoseconds(1000 + run % 7);
            sim.at(change, move |_| board.status().raise());
            b.detect(run + 1).await;
            let delay = (sim.now() - change).seconds() / access;
            assert!((0.499..=1.501).contains(&delay), "{delay}");
            sum += delay;
        }
        assert!((sum / runs as f64 - 1.0).abs() < 0.02);
    });
    simulation.run().unwrap();
}
