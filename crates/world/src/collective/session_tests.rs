//! Persistent collectives on session queues: they progress while no rank calls the library.

#![allow(clippy::unwrap_used)]

use std::mem::ManuallyDrop;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use hikyaku_coll::Choices;
use hikyaku_dsm::driver::Settings;
use hikyaku_nic::fabric::{DeathCause, QueuePort};
use hikyaku_nic::layer::Layer as _;
use hikyaku_rank::Communicator;
use hikyaku_shm::{JobConfig, open_all};

use super::Persistent;
use crate::error::Error;
use crate::{Commutative, Op, World};

/// The operations that queues support.
const NAMES: [&str; 4] = ["barrier", "broadcast", "allgather", "allreduce"];

/// Runs a program on every rank of a job, as threads, with these operations on queues.
fn on_ranks(config: &JobConfig, names: &[&str], program: impl Fn(World) + Sync) {
    let mut choices = Choices::default();
    for name in names {
        choices.choose_written(&format!("{name}=session")).unwrap();
    }
    let ports = open_all(config).unwrap();
    thread::scope(|scope| {
        for port in ports {
            let program = &program;
            scope.spawn(move || {
                let rank = Communicator::over(port, choices);
                program(World::over(rank, Settings::default()));
            });
        }
    });
}

/// An operation, and the contents of its buffers before a start and after.
trait Offloaded {
    fn start(&mut self, round: u64);
    fn wait(&mut self) -> Result<(), Error>;
    fn test(&mut self) -> bool;
    fn check(&self, round: u64);
}

struct Case<B, P, C> {
    operation: Persistent<B>,
    put: P,
    check: C,
}

impl<B: 'static, P: Fn(&mut B, u64), C: Fn(&B, u64)> Offloaded for Case<B, P, C> {
    fn start(&mut self, round: u64) {
        (self.put)(self.operation.buffers_mut().unwrap(), round);
        self.operation.start().unwrap();
    }

    fn wait(&mut self) -> Result<(), Error> {
        self.operation.wait()
    }

    fn test(&mut self) -> bool {
        self.operation.test().unwrap()
    }

    fn check(&self, round: u64) {
        (self.check)(self.operation.buffers().unwrap(), round);
    }
}

/// All operations on `length` numbers a rank.
fn cases(world: &World, length: usize) -> Vec<Box<dyn Offloaded>> {
    let (rank, size) = (u64::from(world.rank()), u64::from(world.size()));
    let root = size - 1;
    let fill = move |data: &mut Vec<u64>, round: u64| data.fill(100 * round + rank);
    let block = move |round: u64, rank: u64| vec![100 * round + rank; length];
    let all = move |round: u64| (0..size).flat_map(|rank| block(round, rank)).collect::<Vec<_>>();
    let sum = move |round: u64| 100 * round * size + size * (size - 1) / 2;
    vec![
        Box::new(Case {
            operation: world.barrier_init(),
            put: |(): &mut (), _| {},
            check: |(): &(), _| {},
        }),
        Box::new(Case {
            operation: world.broadcast_init(vec![0; length], root as u32),
            put: fill,
            check: move |data: &Vec<u64>, round| assert_eq!(*data, block(round, root)),
        }),
        Box::new(Case {
            operation: world.allgather_init(vec![0; length], vec![0; length * size as usize]),
            put: move |(own, _): &mut (Vec<u64>, Vec<u64>), round| fill(own, round),
            check: move |(_, found): &(Vec<u64>, Vec<u64>), round| assert_eq!(*found, all(round)),
        }),
        Box::new(Case {
            operation: world.allgather_in_place_init(vec![0; length * size as usize]),
            put: move |data: &mut Vec<u64>, round| {
                data.fill(0);
                data[rank as usize * length..][..length].fill(100 * round + rank);
            },
            check: move |data: &Vec<u64>, round| assert_eq!(*data, all(round)),
        }),
        Box::new(Case {
            operation: world.allreduce_init(vec![0; length], Op::Sum),
            put: fill,
            check: move |data: &Vec<u64>, round| assert_eq!(*data, vec![sum(round); length]),
        }),
    ]
}

/// Every rank starts; then one waits for the result while the others compute until it has it.
/// Then all have it: the first poll of each finds it.
fn goes_on_while_all_but_one_compute(ranks: u32, per_node: u32, length: usize) {
    let started = Barrier::new(ranks as usize);
    on_ranks(&JobConfig::new(ranks, per_node), &NAMES, |world| {
        for case in &mut cases(&world, length) {
            for round in 1..=u64::from(2 * ranks) {
                case.start(round);
                let flag = FLAGS.get((round % 2) as usize).unwrap();
                started.wait();
                FLAGS[((round + 1) % 2) as usize].store(false, Ordering::SeqCst);
                if u64::from(world.rank()) == round % u64::from(ranks) {
                    case.wait().unwrap();
                    flag.store(true, Ordering::SeqCst);
                } else {
                    compute_until(flag);
                    assert!(case.test(), "rank {} has the result", world.rank());
                }
                case.check(round);
                started.wait();
            }
        }
    });
}

/// Set by the rank that waits; the flags alternate between rounds. One test uses them.
static FLAGS: [AtomicBool; 2] = [AtomicBool::new(false), AtomicBool::new(false)];

/// Computes until the other rank has its result, or until a time limit.
fn compute_until(flag: &AtomicBool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !flag.load(Ordering::SeqCst) {
        assert!(Instant::now() < end, "no result as long as this rank computes");
        thread::yield_now();
    }
}

/// The broadcast among them: as by the system of paper 004, no program between takes part (CP-08).
#[test]
fn tf_10_cp_08_dense_collectives_finish_while_all_but_one_compute() {
    for (ranks, per_node, length) in [(2, 2, 5000), (5, 5, 300), (4, 2, 1), (7, 3, 5000)] {
        goes_on_while_all_but_one_compute(ranks, per_node, length);
    }
}

#[test]
fn tf_11_rounds_of_dense_collectives_may_start_when_each_rank_likes() {
    on_ranks(&JobConfig::new(5, 5), &NAMES, |world| {
        let mut cases = cases(&world, 40);
        for round in 1..150 {
            for case in &mut cases {
                case.start(round);
            }
            if round % 5 == u64::from(world.rank()) {
                thread::yield_now();
            }
            for case in cases.iter_mut().rev() {
                case.wait().unwrap();
                case.check(round);
            }
        }
    });
}

#[test]
fn tf_19_without_queues_dense_collectives_go_by_messages_at_all_ranks() {
    let mut config = JobConfig::new(3, 3);
    config.layout.queues = 2;
    on_ranks(&config, &NAMES, |world| {
        // Two operations have queues; the others run as if nothing had been chosen.
        let mut cases = cases(&world, 10);
        for round in 1..5 {
            for case in &mut cases {
                case.start(round);
            }
            for case in &mut cases {
                case.wait().unwrap();
                case.check(round);
            }
        }
        let free = world.engine().borrow().port().free_queues().0;
        assert_eq!(free, 0);
        drop(cases);
        world.barrier().unwrap();
        let free = world.engine().borrow().port().free_queues().0;
        assert_eq!(free, 2, "they are given back");
    });
}

#[test]
fn the_bits_are_those_of_a_blocking_call() {
    for ranks in [3, 5, 6] {
        on_ranks(&JobConfig::new(ranks, ranks), &NAMES, |world| {
            let own = |at: usize| 1.0 / (f64::from(world.rank()) * 7.0 + at as f64 + 1.1);
            let own: Vec<f64> = (0..500).map(own).collect();
            for length in [1, 500] {
                let mut blocking = own[..length].to_vec();
                world.allreduce(&mut blocking, Op::Sum).unwrap();
                let mut sums = world.allreduce_init(own[..length].to_vec(), Op::Sum);
                sums.start().unwrap();
                sums.wait().unwrap();
                let bits = |data: &[f64]| data.iter().map(|it| it.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(sums.buffers().unwrap()), bits(&blocking));
            }
        });
    }
}

#[test]
fn what_queues_cannot_do_goes_as_before() {
    on_ranks(&JobConfig::new(3, 3), &NAMES, |world| {
        let or = Commutative(|left: &[u8], right: &mut [u8]| {
            left.iter().zip(right).for_each(|(left, right)| *right |= left);
        });
        let mut masks = world.allreduce_init(vec![1u8 << world.rank()], or);
        masks.start().unwrap();
        masks.wait().unwrap();
        assert_eq!(masks.buffers().unwrap(), &[7]);
        // Disagreeing ranks get an error, as in the other forms.
        let length = if world.rank() == 1 { 3 } else { 2 };
        let mut sums = world.allreduce_init(vec![1u32; length], Op::Sum);
        sums.start().unwrap();
        let error = sums.wait().unwrap_err();
        assert!(matches!(error, Error::Collective(_)), "{error}");
        // A buffer that has grown is an error of this rank, before anything is written.
        let mut grown = world.broadcast_init(vec![0u8; 2], 0);
        grown.buffers_mut().unwrap().push(1);
        let error = grown.start().unwrap_err().to_string();
        assert!(error.contains("3 bytes, and had 2"), "{error}");
        assert_eq!(grown.buffers().unwrap().len(), 3);
        world.barrier().unwrap();
    });
}

#[test]
fn a_rank_that_dies_in_a_dense_round_is_an_error_at_all_others() {
    for dead in [0, 2, 3] {
        let made = Barrier::new(4);
        on_ranks(&JobConfig::new(4, 4), &NAMES, |world| {
            let mut cases = cases(&world, 10);
            for case in &mut cases {
                case.start(1);
                case.wait().unwrap();
            }
            made.wait();
            let own = world.engine().borrow().rank();
            if world.rank() == dead {
                world.engine().borrow().port().inner().host().fail(own, DeathCause::Signal(9));
                let _never_leaves = ManuallyDrop::new((world, cases));
                return;
            }
            for case in &mut cases {
                case.start(2);
                let error = case.wait().unwrap_err().to_string();
                assert!(error.contains(&format!("rank {dead}")), "{error}");
            }
        });
    }
}

#[test]
fn a_dense_round_that_is_dropped_is_an_error_at_all_others() {
    on_ranks(&JobConfig::new(3, 3), &NAMES, |world| {
        let mut sums = world.allreduce_init(vec![1u32; 9], Op::Sum);
        if world.rank() == 2 {
            return drop(sums);
        }
        sums.start().unwrap();
        let error = sums.wait().unwrap_err().to_string();
        assert!(error.contains("rank 2"), "{error}");
        let error = sums.start().unwrap_err().to_string();
        assert!(error.contains("make a new one"), "{error}");
    });
}
