//! Long data of blocking and pending collectives, on shared lines and by messages.

#![allow(clippy::unwrap_used)]

use std::mem::ManuallyDrop;
use std::sync::Barrier;
use std::thread;

use hikyaku_coll::Choices;
use hikyaku_dsm::driver::Settings;
use hikyaku_nic::fabric::DeathCause;
use hikyaku_nic::layer::Layer as _;
use hikyaku_rank::Communicator;
use hikyaku_shm::{JobConfig, open_all};

use crate::error::Error;
use crate::{Op, World};

/// Enough calls to try both ways.
const CALLS: u64 = 70;

/// Runs a program on every rank of a job, as threads; only rank 0 has these choices.
fn on_ranks(ranks: u32, of_the_first: &[&str], program: impl Fn(World) + Sync) {
    let ports = open_all(&JobConfig::new(ranks, ranks)).unwrap();
    thread::scope(|scope| {
        for (rank, port) in ports.into_iter().enumerate() {
            let program = &program;
            let mut choices = Choices::default();
            for name in of_the_first.iter().filter(|_| rank == 0) {
                choices.choose_written(name).unwrap();
            }
            scope.spawn(move || {
                let rank = Communicator::over(port, choices);
                program(World::over(rank, Settings::default()));
            });
        }
    });
}

/// Element `at` of a rank's contribution to a call.
fn given(rank: u32, call: u64, at: usize) -> u64 {
    u64::from(rank) << 48 | call << 32 | at as u64
}

fn fill(data: &mut [u64], rank: u32, call: u64) {
    data.iter_mut().enumerate().for_each(|(at, it)| *it = given(rank, call, at));
}

/// Every call gives the right result on either way: lengths on both sides of the threshold, no
/// multiples of a part, roots in turn, and concurrent calls.
fn calls_of(world: &World, elements: usize) {
    let (own, size) = (world.rank(), world.size());
    let count = elements * size as usize;
    let (mut mine, mut all) = (vec![0; elements], vec![0; count]);
    let (mut sum, mut pending) = (vec![0.0; elements], vec![0; elements]);
    for call in 0..CALLS {
        let root = (call % u64::from(size)) as u32;
        if own == root {
            fill(&mut mine, root, call);
        }
        world.broadcast(&mut mine, root).unwrap();
        assert!((0..elements).all(|at| mine[at] == given(root, call, at)), "broadcast {call}");
        fill(&mut mine, own, call);
        all.fill(0);
        world.allgather(&mine, &mut all).unwrap();
        let is_right =
            |(at, it): (usize, &u64)| *it == given((at / elements) as u32, call, at % elements);
        assert!(all.iter().enumerate().all(is_right), "allgather {call}");
        let term = |rank: u32, at: usize| 0.1 * f64::from(rank + 1) + (at % 97) as f64;
        (0..elements).for_each(|at| sum[at] = term(own, at));
        if own == 0 {
            fill(&mut pending, 0, call);
        }
        let at_once = world.scope(|scope| {
            let others = [scope.ibroadcast(&mut pending, 0), scope.iallreduce(&mut sum, Op::Sum)];
            others.into_iter().try_for_each(|it| it.wait())
        });
        at_once.unwrap();
        assert!((0..elements).all(|at| pending[at] == given(0, call, at)), "ibroadcast {call}");
        let expected = |at| match size {
            2 => term(0, at) + term(1, at),
            3 => (term(0, at) + term(1, at)) + term(2, at),
            _ => (term(0, at) + term(1, at)) + (term(2, at) + term(3, at)),
        };
        assert!((0..elements).all(|at| sum[at] == expected(at)), "iallreduce {call}");
    }
}

#[test]
fn long_data_arrive_whichever_way_they_go() {
    for ranks in 2..5 {
        for elements in [8 << 10, (64 << 10) + 7, (8 << 10) - 1] {
            on_ranks(ranks, &[], |world| calls_of(&world, elements));
        }
    }
}

#[test]
fn a_rank_that_names_lines_goes_with_those_that_measure() {
    let names = ["broadcast=lines", "allgather=lines", "allreduce=lines"];
    on_ranks(2, &names, |world| calls_of(&world, (64 << 10) + 1));
}

#[test]
fn unlike_long_calls_are_an_error_to_all() {
    type LongCall = fn(&World, &mut [u64]) -> Result<(), Error>;
    let calls: [LongCall; 3] = [
        |world, data| world.broadcast(data, 0),
        |world, data| world.allgather_in_place(data),
        |world, data| world.allreduce(data, Op::Sum),
    ];
    for (first, second) in [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)] {
        let both = Barrier::new(2);
        on_ranks(2, &[], |world| {
            let mut data = vec![1; 128 << 10];
            let call = calls[if world.rank() == 0 { first } else { second }];
            // A root continues, and fails in the next call of all.
            let done = call(&world, &mut data).and_then(|()| world.barrier());
            // No rank learns it from the other one's leaving.
            both.wait();
            let error = done.unwrap_err().to_string();
            assert!(error.contains("where rank") || error.contains("abandoned it"), "{error}");
        });
    }
}

#[test]
fn a_rank_that_dies_between_long_calls_is_an_error_to_those_that_wait() {
    on_ranks(2, &[], |world| {
        let mut data = vec![1u8; 1 << 20];
        for call in 0..CALLS {
            if world.rank() == 1 && call == CALLS / 2 {
                let host = world.engine().borrow().rank();
                world.engine().borrow().port().inner().host().fail(host, DeathCause::Signal(9));
                let _never_leaves = ManuallyDrop::new(world);
                return;
            }
            if let Err(error) = world.broadcast(&mut data, 1) {
                assert!(call >= CALLS / 2, "{error}");
                return;
            }
        }
        panic!("rank 1 is dead, and its broadcasts end well");
    });
}
