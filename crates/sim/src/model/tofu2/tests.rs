//! Latency of a put, engines side by side, sessions gated by arrivals, queues that run out.

#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::*;
use crate::engine::{Simulation, TaskName};
use crate::machine::{Interface, Machine};
use crate::topology::Grid;

fn costs() -> Costs {
    let text = include_str!("../../../../../machines/fx100-tofu2.toml");
    let machine = Machine::parse("fx100-tofu2", text).unwrap();
    let Interface::Tofu2(costs) = machine.interface else { panic!("another model") };
    *costs
}

fn system(simulation: &Simulation) -> System {
    System::new(simulation, &costs(), Rc::new(Grid::tofu(3, 1, 1)))
}

fn host() -> TaskName {
    TaskName { kind: "host", index: 0 }
}

fn put(to: QueueAddress, bytes: u64, release: u32) -> Command {
    Command::Put { to, bytes, release, notify: true }
}

#[test]
fn a_put_to_a_neighbour_takes_what_its_vendor_says() {
    let simulation = Simulation::new(0);
    let system = system(&simulation);
    let (from, to) = (system.open(0, 0, 4, None).unwrap(), system.open(1, 0, 4, None).unwrap());
    let sim = simulation.clone();
    simulation.spawn(host(), async move {
        system.start(from, &[put(to, 8, 0)]).await;
        let rung = sim.now();
        system.wait(to, 0, 1).await;
        let latency = sim.now() - rung - costs().poll;
        assert!((latency.seconds() / 0.71e-6 - 1.0).abs() < 0.01, "{latency}");
    });
    simulation.run().unwrap();
}

#[test]
fn tf_20_puts_on_two_engines_overlap_and_on_one_they_do_not() {
    let time = |engines: [u32; 2]| {
        let simulation = Simulation::new(0);
        let system = system(&simulation);
        let from = engines.map(|engine| system.open(0, engine, 4, None).unwrap());
        let to = [0, 1].map(|engine| system.open(1, engine, 4, None).unwrap());
        simulation.spawn(host(), async move {
            for (from, to) in from.into_iter().zip(to) {
                system.start(from, &[put(to, 1 << 20, 0)]).await;
            }
            system.wait(to[0], 0, 1).await;
            system.wait(to[1], 0, 1).await;
        });
        simulation.run().unwrap();
        simulation.now().seconds()
    };
    let (apart, together) = (time([0, 1]), time([2, 2]));
    assert!((together / apart - 2.0).abs() < 0.02, "{together} {apart}");
}

#[test]
fn tf_02_a_session_runs_what_an_arrival_releases_and_nothing_before() {
    let simulation = Simulation::new(0);
    let system = system(&simulation);
    let session = system.open(1, 0, 4, Some(0)).unwrap();
    let normal = system.open(0, 0, 4, None).unwrap();
    let sim = simulation.clone();
    simulation.spawn(host(), async move {
        system.start(session, &[put(normal, 64, 0), put(normal, 64, 0)]).await;
        sim.delay(Time::from_nanoseconds(10_000)).await;
        let release = |slots| [put(session, 0, slots)];
        system.start(normal, &release(1)).await;
        system.wait(normal, 1, 1).await;
        sim.delay(Time::from_nanoseconds(10_000)).await;
        assert!(sim.now() > Time::from_nanoseconds(20_000));
        system.start(normal, &release(1)).await;
        system.wait(normal, 2, 2).await;
    });
    simulation.run().unwrap();
}

#[test]
fn tf_22_a_nop_sends_nothing_and_a_put_to_oneself_releases() {
    let simulation = Simulation::new(0);
    let system = system(&simulation);
    let own = system.open(5, 3, 8, Some(2)).unwrap();
    let ended = Rc::new(Cell::new(false));
    let flag = Rc::clone(&ended);
    simulation.spawn(host(), async move {
        let chain = [Command::Nop, put(own, 0, 2), Command::Nop, Command::Nop];
        system.start(own, &chain).await;
        system.wait(own, 4, 1).await;
        flag.set(true);
    });
    simulation.run().unwrap();
    assert!(ended.get());
}

#[test]
fn a_session_that_nobody_releases_is_a_deadlock_that_says_so() {
    let simulation = Simulation::new(0);
    let system = system(&simulation);
    let session = system.open(0, 0, 4, Some(0)).unwrap();
    simulation.spawn(host(), async move {
        system.start(session, &[Command::Nop]).await;
        system.wait(session, 1, 0).await;
    });
    let error = simulation.run().unwrap_err().to_string();
    assert!(error.contains("host 0 waits for a completion"), "{error}");
}

#[test]
fn tf_19_an_engine_has_twelve_queues_and_then_none() {
    let simulation = Simulation::new(0);
    let system = system(&simulation);
    for engine in 0..4 {
        for _ in 0..12 {
            system.open(7, engine, 4, Some(1)).unwrap();
        }
        let refused = system.open(7, engine, 4, Some(1)).unwrap_err();
        assert_eq!(refused, NoQueue { node: 7, engine, queues: 12 });
    }
    assert!(system.open(8, 0, 4, None).is_ok());
}
