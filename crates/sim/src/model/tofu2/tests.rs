//! The latency of a put, engines in parallel, sessions gated by arrivals, and exhausted queues.

#![allow(clippy::unwrap_used)]

use std::cell::Cell;
use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::*;
use crate::engine::{Simulation, TaskName};
use crate::machine::{Interface, Machine};

fn machine() -> Machine {
    let text = include_str!("../../../../../machines/fx100-tofu2.toml");
    Machine::parse("fx100-tofu2", text).unwrap()
}

fn costs() -> Costs {
    let Interface::Tofu2(costs) = machine().interface else { panic!("another model") };
    *costs
}

/// 3 x 1 x 1 cells: nodes 0, 1 and 2 are neighbours along X.
fn system(simulation: &Simulation) -> TofuSystem {
    TofuSystem::new(simulation, &costs(), machine().network(simulation))
}

fn host() -> TaskName {
    TaskName { kind: "host", index: 0 }
}

fn put(to: TofuQueueAddress, bytes: u64, release: u32) -> DescriptorCommand {
    DescriptorCommand::Put { to, bytes, release, notify: true }
}

#[test]
fn a_put_to_a_neighbour_takes_the_vendors_time() {
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

/// The seconds until long puts of node 0 from these engines to these nodes have all arrived.
fn puts(flows: &[(u32, u32)]) -> f64 {
    let simulation = Simulation::new(0);
    let system = system(&simulation);
    let open = |node, engine| system.open(node, engine, 4, None).unwrap();
    let ends: Vec<_> = flows
        .iter()
        .enumerate()
        .map(|(at, &(engine, node))| (open(0, engine), open(node, at as u32)))
        .collect();
    simulation.spawn(host(), async move {
        for &(from, to) in &ends {
            system.start(from, &[put(to, 1 << 20, 0)]).await;
        }
        for (_, to) in ends {
            system.wait(to, 0, 1).await;
        }
    });
    simulation.run().unwrap();
    simulation.now().seconds()
}

#[test]
fn tf_20_puts_overlap_on_two_engines_only() {
    // Nodes 1 and 2 are two neighbours, each at the end of its own link.
    let (apart, together) = (puts(&[(0, 1), (1, 2)]), puts(&[(2, 1), (2, 2)]));
    assert!((together / apart - 2.0).abs() < 0.02, "{together} {apart}");
}

#[test]
fn puts_that_share_a_link_share_its_rate() {
    // One engine gives 10 GB/s, and a link takes 12.5. Two engines over one link take 20 / 12.5 as
    // long as one, three take 30 / 12.5. Over two links two engines take no longer than one.
    let alone = puts(&[(0, 1)]);
    let times = [puts(&[(0, 1), (1, 1)]), puts(&[(0, 1), (1, 1), (2, 1)]), puts(&[(0, 1), (1, 2)])];
    for (time, expected) in times.into_iter().zip([1.6, 2.4, 1.0]) {
        assert!((time / alone / expected - 1.0).abs() < 0.01, "{} for {expected}", time / alone);
    }
}

#[test]
fn packets_do_not_slow_a_put() {
    // From node 0 to node 4: one step along X, one along A.
    let time = |packet_bytes| {
        let simulation = Simulation::new(0);
        let costs = Costs { packet_bytes, ..costs() };
        let system = TofuSystem::new(&simulation, &costs, machine().network(&simulation));
        let (from, to) = (system.open(0, 0, 4, None).unwrap(), system.open(4, 0, 4, None).unwrap());
        simulation.spawn(host(), async move {
            system.start(from, &[put(to, 100_000, 0)]).await;
            system.wait(to, 0, 1).await;
        });
        simulation.run().unwrap();
        simulation.now()
    };
    let whole = time(1 << 20);
    assert_eq!([time(1920), time(256)], [whole; 2]);
    let Costs { describe, doorbell, fetch, inject, land, poll, rate, .. } = costs();
    let hops = Time::from_nanoseconds(2 * 100);
    let sum = describe + doorbell + fetch + inject + hops + rate.time(100_000) + land + poll;
    assert_eq!(whole, sum);
}

#[test]
fn tf_02_a_session_runs_only_released_commands() {
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
fn tf_22_nops_send_nothing_puts_to_oneself_release() {
    let simulation = Simulation::new(0);
    let system = system(&simulation);
    let own = system.open(5, 3, 8, Some(2)).unwrap();
    let ended = Rc::new(Cell::new(false));
    let flag = Rc::clone(&ended);
    simulation.spawn(host(), async move {
        let chain = [
            DescriptorCommand::Nop,
            put(own, 0, 2),
            DescriptorCommand::Nop,
            DescriptorCommand::Nop,
        ];
        system.start(own, &chain).await;
        system.wait(own, 4, 1).await;
        flag.set(true);
    });
    simulation.run().unwrap();
    assert!(ended.get());
}

#[test]
fn an_unreleased_session_is_a_named_deadlock() {
    let simulation = Simulation::new(0);
    let system = system(&simulation);
    let session = system.open(0, 0, 4, Some(0)).unwrap();
    simulation.spawn(host(), async move {
        system.start(session, &[DescriptorCommand::Nop]).await;
        system.wait(session, 1, 0).await;
    });
    let error = simulation.run().unwrap_err().to_string();
    assert!(error.contains("host 0 waits for a completion"), "{error}");
}

#[test]
fn tf_19_an_engine_has_twelve_queues() {
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
