//! Every collective algorithm on simulated ranks: right answers on machines with contention, times
//! that can be computed by hand, and large jobs without bytes.

use std::future::Future;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use hikyaku::{Choices, Operation};
use hikyaku_cli::simulated::{
    Plane, SimulatedRank, algorithms, collective, conjugate_gradients, heat, message_costs,
};
use hikyaku_coll::{
    CollError, Combination, Reduction, allgather, allreduce, alltoall, barrier, broadcast, exscan,
    gather, reduce, reduce_scatter, reduce_scatter_block, scan, scatter,
};
use hikyaku_nic::time::Time;
use hikyaku_sim::SimError;
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{
    HostCosts, Job, JobConfig, JobReport, PacketFormat, Payload, PlainInterface, Rank,
};
use hikyaku_sim::machine::Machine;
use hikyaku_sim::network::{
    CutThrough, LogGp, LogGpParameters, Network, NetworkModel, Rate, Timing, Wormhole,
};
use hikyaku_sim::topology::{Grid, HyperCrossbar, Multistage, Topology};

type Group = SimulatedRank<u8>;

fn ns(nanoseconds: u64) -> Time {
    Time::from_nanoseconds(nanoseconds)
}

fn run<F: Future<Output = R> + 'static, R: 'static>(
    model: Box<dyn NetworkModel>,
    config: JobConfig,
    program: impl Fn(Rank) -> F,
) -> Result<JobReport<R>, SimError> {
    let simulation = Simulation::new(1);
    let network = Network::new(&simulation, model);
    let interface = PlainInterface::new(&simulation, network, PacketFormat::WHOLE);
    Job::new(&simulation, config, interface)?.run(program)
}

/// Machines of enough nodes, one of each model; the last has two ranks per node.
fn machines(ranks: u32) -> Vec<(Box<dyn NetworkModel>, JobConfig)> {
    let timing = Timing::uniform(ns(50), Rate::megabytes_per_second(300.0), 64);
    let torus: Rc<dyn Topology> = Rc::new(Grid::torus(&[ranks.div_ceil(3), 3]));
    let rate = Rate::megabytes_per_second(300.0);
    let parameters = LogGpParameters { latency: ns(500), gap: ns(10), rate };
    let config = JobConfig::new(ranks);
    vec![
        (Box::new(Wormhole::new(torus, &timing)), config),
        (Box::new(CutThrough::new(Rc::new(Multistage::new(ranks)), &timing)), config),
        (Box::new(LogGp::new(ranks, parameters)), JobConfig { ranks_per_node: 2, ..config }),
    ]
}

/// A sum of single bytes.
fn sum() -> Reduction<impl FnMut(&[u8], &mut [u8])> {
    Reduction::commutative(1, |left: &[u8], right: &mut [u8]| {
        left.iter().zip(right).for_each(|(left, right)| *right = right.wrapping_add(*left));
    })
}

/// Runs `body` for every rank of every machine, for a few rank counts, and passes each result to
/// `check` with its rank and the number of ranks. Algorithms may refuse as unsuitable.
fn everywhere<F>(body: impl Fn(Group) -> F + Copy + 'static, check: impl Fn(&[u8], u8, u8))
where
    F: Future<Output = Result<Vec<u8>, CollError<SimError>>> + 'static,
{
    for ranks in [1, 2, 7, 8, 12] {
        for (model, config) in machines(ranks) {
            let report = run(model, config, move |rank| body(Group::new(rank)));
            let report = report.expect("no deadlock");
            for (rank, result) in (0u8..).zip(&report.results) {
                match result {
                    Ok(bytes) => check(bytes, rank, ranks as u8),
                    Err(CollError::Unsuitable { .. }) => {}
                    Err(error) => panic!("{ranks} ranks, rank {rank}: {error}"),
                }
            }
            assert_eq!(report.totals.sent, report.totals.received);
        }
    }
}

#[test]
fn broadcasts_and_scatters_reach_everyone() {
    for &algorithm in broadcast::Algorithm::ALL {
        everywhere(
            move |group| async move {
                let mut data = vec![u8::from(group.rank().rank() == 0) * 7; 100];
                broadcast(&group, Some(algorithm), &mut data, 0).await.map(|()| data)
            },
            |data, _, _| assert_eq!(data, [7; 100]),
        );
    }
    for &algorithm in scatter::Algorithm::ALL {
        everywhere(
            move |group| async move {
                let parts: Vec<u8> = (0..group.rank().size() as u8).collect();
                let root = group.rank().rank() == 0;
                let mut mine = [0];
                let from = if root { &parts[..] } else { &[] };
                scatter(&group, Some(algorithm), from, Some(&mut mine), 0)
                    .await
                    .map(|()| mine.to_vec())
            },
            |mine, rank, _| assert_eq!(mine, [rank]),
        );
    }
}

#[test]
fn reductions_are_right() {
    let total = |ranks: u8| (0..ranks).sum::<u8>();
    for &algorithm in allreduce::Algorithm::ALL {
        everywhere(
            move |group| async move {
                let mut data = vec![group.rank().rank() as u8; 40];
                allreduce(&group, Some(algorithm), &mut data, sum()).await.map(|()| data)
            },
            |data, _, ranks| assert_eq!(data, [total(ranks); 40]),
        );
    }
    for &algorithm in reduce::Algorithm::ALL {
        everywhere(
            move |group| async move {
                let mut data = vec![group.rank().rank() as u8; 40];
                reduce(&group, Some(algorithm), &mut data, 0, sum()).await.map(|()| data)
            },
            |data, rank, ranks| assert!(rank != 0 || data == [total(ranks); 40]),
        );
    }
    for &algorithm in reduce_scatter::Algorithm::ALL {
        everywhere(
            move |group| async move {
                let mut data = vec![group.rank().rank() as u8; group.rank().size() as usize];
                let mut mine = [0];
                reduce_scatter_block(&group, Some(algorithm), &mut data, &mut mine, sum())
                    .await
                    .map(|()| mine.to_vec())
            },
            |mine, _, ranks| assert_eq!(mine, [total(ranks)]),
        );
    }
    for &algorithm in scan::Algorithm::ALL {
        everywhere(
            move |group| async move {
                let mut upto = [group.rank().rank() as u8];
                let mut before = upto;
                scan(&group, Some(algorithm), &mut upto, sum()).await?;
                exscan(&group, Some(algorithm), &mut before, sum()).await?;
                Ok(vec![upto[0], before[0]])
            },
            |sums, rank, _| {
                let before = (0..rank).sum::<u8>();
                assert_eq!(sums[0], before + rank);
                assert!(rank == 0 || sums[1] == before);
            },
        );
    }
}

#[test]
fn exchanges_bring_everyones_part() {
    for &algorithm in gather::Algorithm::ALL {
        everywhere(
            move |group| async move {
                let (rank, size) = (group.rank().rank(), group.rank().size());
                let mut all = vec![0; if rank == 0 { size as usize } else { 0 }];
                let mine = [rank as u8];
                gather(&group, Some(algorithm), Some(&mine), &mut all, 0).await.map(|()| all)
            },
            |all, rank, ranks| assert!(rank != 0 || all.iter().copied().eq(0..ranks)),
        );
    }
    for &algorithm in allgather::Algorithm::ALL {
        everywhere(
            move |group| async move {
                let mut all = vec![0; group.rank().size() as usize];
                all[group.rank().rank() as usize] = group.rank().rank() as u8;
                allgather(&group, Some(algorithm), None, &mut all).await.map(|()| all)
            },
            |all, _, ranks| assert!(all.iter().copied().eq(0..ranks)),
        );
    }
    for &algorithm in alltoall::Algorithm::ALL {
        everywhere(
            move |group| async move {
                let (rank, size) = (group.rank().rank() as u8, group.rank().size() as u8);
                let parts: Vec<u8> = (0..size).map(|to| rank * 16 + to).collect();
                let mut all = vec![0; size as usize];
                alltoall(&group, Some(algorithm), &parts, &mut all).await.map(|()| all)
            },
            |all, rank, ranks| {
                assert!(all.iter().copied().eq((0..ranks).map(|from| from * 16 + rank)));
            },
        );
    }
}

#[test]
fn nobody_leaves_a_barrier_before_the_last_has_come() {
    for &algorithm in barrier::Algorithm::ALL {
        everywhere(
            move |group| async move {
                let (rank, size) = (group.rank().rank(), group.rank().size());
                group.rank().compute(ns(u64::from(rank) * 1_000));
                barrier(&group, Some(algorithm)).await?;
                assert!(group.rank().now() >= ns(u64::from(size - 1) * 1_000), "{algorithm:?}");
                Ok(Vec::new())
            },
            |_, _, _| {},
        );
    }
}

/// 1 µs from node to node, 0.3 µs of the host for sending and 0.2 for receiving, no cost per byte.
fn simple(ranks: u32) -> (Box<dyn NetworkModel>, JobConfig) {
    let parameters = LogGpParameters { latency: ns(1_000), gap: ns(0), rate: Rate::INFINITE };
    let host = HostCosts { send: ns(300), receive: ns(200) };
    let config = JobConfig { host, payload: Payload::LengthsOnly, ..JobConfig::new(ranks) };
    (Box::new(LogGp::new(ranks, parameters)), config)
}

#[test]
fn times_by_hand() {
    let step = 300 + 1_000 + 200;
    let end = |ranks, algorithm| {
        let (model, config) = simple(ranks);
        let program = move |rank| async move {
            barrier(&SimulatedRank::<()>::new(rank), Some(algorithm)).await
        };
        let report = run(model, config, program).expect("no deadlock");
        assert!(report.results.iter().all(Result::is_ok));
        report.end
    };
    // log2 n rounds of one send and one receive each.
    assert_eq!(end(8, barrier::Algorithm::Dissemination), ns(3 * step));
    assert_eq!(end(1024, barrier::Algorithm::Dissemination), ns(10 * step));
    // Every rank sends to every other, one after the other, and then receives: the last message
    // arrives after n - 1 sends; the others are received meanwhile or wait.
    let all_to_all = end(16, barrier::Algorithm::AllToAll);
    assert!(all_to_all >= ns(15 * 300 + 1_000 + 200) && all_to_all <= ns(15 * 500 + 1_000));
}

/// Paper 002, future work: one message between two nodes for all their ranks.
#[test]
fn short_parts_between_nodes_of_several_ranks_go_faster_together() {
    let end = |algorithm, bytes: usize| {
        let (model, config) = simple(32);
        let program = move |rank| async move {
            let (parts, mut all) = (vec![(); 32 * bytes], vec![(); 32 * bytes]);
            alltoall(&SimulatedRank::<()>::new(rank), Some(algorithm), &parts, &mut all).await
        };
        let config = JobConfig { ranks_per_node: 8, ..config };
        let report = run(model, config, program).expect("no deadlock");
        assert!(report.results.iter().all(Result::is_ok));
        report.end
    };
    use alltoall::Algorithm::{Chained, Pairwise, TwoLevel};
    for one_by_one in [Chained, Pairwise] {
        let (alone, together) = (end(one_by_one, 8), end(TwoLevel, 8));
        assert!(alone > together + together, "{alone} and {together}");
    }
}

#[test]
fn cj_15_the_switches_do_a_barrier_on_a_machine_that_has_them() {
    let run = |machine: &str, ranks: u32, apart: u64| {
        let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
        let text = std::fs::read_to_string(machines.join(format!("{machine}.toml")));
        let machine = Machine::parse(machine, &text.expect("it comes with hikyaku"));
        let machine = machine.expect("it is right");
        let simulation = Simulation::new(1);
        let sync = machine.synchronisation(&simulation, ranks);
        let carrier = machine.install(&simulation).carrier;
        let job = Job::new(&simulation, JobConfig::new(ranks), carrier).expect("32 nodes");
        let report = job.run(|rank| {
            let group = SimulatedRank::<()>::new(rank).with_sync(sync.clone());
            async move {
                group.rank().compute(ns(u64::from(group.rank().rank()) * apart));
                barrier(&group, Some(barrier::Algorithm::Sync)).await
            }
        });
        report.expect("no deadlock")
    };
    let together = run("cenju4", 32, 0);
    let apart = run("cenju4", 32, 100);
    assert!(together.results.iter().chain(&apart.results).all(Result::is_ok));
    // The last rank arrives at 3.1 µs and finds all tables free. No message is sent.
    assert!(apart.end > ns(3_100) && apart.end <= ns(3_100) + together.end);
    assert_eq!(together.totals.sent, 0);
    // Paper 003, Fig. 10 E: the time hardly grows with the nodes.
    let two = run("cenju4", 2, 0).end;
    assert!(together.end < two + two);
    // Without the hardware it is refused, not simulated in another way.
    assert!(run("cp-pacs", 4, 0).results.iter().all(Result::is_err));
}

/// A machine that comes with hikyaku.
fn machine(name: &str) -> Machine {
    let machines = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines");
    let text = std::fs::read_to_string(machines.join(format!("{name}.toml")));
    Machine::parse(name, &text.expect("it comes with hikyaku")).expect("it is right")
}

/// A job of 32 ranks, each on a node of its own, on a machine that comes with hikyaku. It lives as
/// long as its simulation.
fn job_on(name: &str) -> (Simulation, Job) {
    let simulation = Simulation::new(1);
    let carrier = machine(name).install(&simulation).carrier;
    let job = Job::new(&simulation, JobConfig::new(32), carrier).expect("32 nodes");
    (simulation, job)
}

/// Broadcasts to all ranks of a machine that comes with hikyaku, and returns their data.
fn broadcast_on(
    machine: &str,
    algorithm: Option<broadcast::Algorithm>,
    bytes: usize,
) -> JobReport<Result<Vec<u8>, CollError<SimError>>> {
    let (_simulation, job) = job_on(machine);
    let report = job.run(move |rank| {
        let group = SimulatedRank::<u8>::new(rank);
        async move {
            let mine = if group.rank().rank() == 3 { 7 } else { 0 };
            let mut data = vec![mine; bytes];
            broadcast(&group, algorithm, &mut data, 3).await.map(|()| data)
        }
    });
    report.expect("no deadlock")
}

#[test]
fn cj_14_the_switches_copy_a_broadcast_on_a_machine_that_can() {
    use broadcast::Algorithm::{Binomial, Multicast, Pipelined};
    for bytes in [0, 8, 1000, 600 << 10] {
        let by = |algorithm| broadcast_on("cenju4", algorithm, bytes);
        let multicast = by(Some(Multicast));
        assert!(multicast.results.iter().all(|data| *data == Ok(vec![7; bytes])), "{bytes} bytes");
        // It leaves the root once, and is the fastest: so it is the default choice.
        assert_eq!((multicast.totals.sent, by(Some(Binomial)).totals.sent), (1, 31));
        for other in [Binomial, Pipelined] {
            assert!(multicast.end < by(Some(other)).end, "{bytes} bytes by {other:?}");
        }
        assert_eq!(by(None).end, multicast.end, "{bytes} bytes");
    }
    // Without the hardware it is refused, and not chosen.
    let refused = broadcast_on("cp-pacs", Some(Multicast), 8);
    assert!(refused.results.iter().all(Result::is_err));
    assert!(broadcast_on("cp-pacs", None, 8).results.iter().all(Result::is_ok));
}

/// The processor time of rank 0 in a scatter of 32 parts on a machine that comes with hikyaku.
fn scattering_takes(machine: &str, algorithm: scatter::Algorithm) -> Time {
    let (_simulation, job) = job_on(machine);
    let report = job.run(move |rank| {
        let group = SimulatedRank::<u8>::new(rank);
        async move {
            let root = group.rank().rank() == 0;
            let parts = vec![5; if root { 32 } else { 0 }];
            let mut mine = [0];
            scatter(&group, Some(algorithm), &parts, Some(&mut mine), 0).await.map(|()| mine)
        }
    });
    assert!(report.expect("no deadlock").results.iter().all(|mine| *mine == Ok([5])));
    job.usage(0).calling
}

#[test]
fn cp_06_a_chain_costs_one_start_where_there_are_chains() {
    use scatter::Algorithm::{Chained, Linear};
    let start = Time::from_nanoseconds(2_670);
    assert_eq!(scattering_takes("cp-pacs", Chained), start);
    assert_eq!(scattering_takes("cp-pacs", Linear).picoseconds(), 31 * start.picoseconds());
    // On other machines each message has a start of its own.
    let by = |algorithm| scattering_takes("fat-tree-200g", algorithm);
    assert_eq!(by(Chained), by(Linear));
}

/// The times of a reduction of 32 ranks on fx100-tofu2, where a message of each rank to the root is
/// faster than the table's tree: first by the choice, then by the table.
fn reduced_on_tofu2(combination: Combination, per_node: u32) -> (Time, Time) {
    let machine = machine("fx100-tofu2");
    let costs = message_costs(&machine, 32).map(Arc::new);
    let by = |algorithm| {
        let simulation = Simulation::new(1);
        let carrier = machine.install(&simulation).carrier;
        let config = JobConfig { ranks_per_node: per_node, ..JobConfig::new(32) };
        let job = Job::new(&simulation, config, carrier).expect("32 nodes");
        let costs = costs.clone();
        let report = job.run(move |rank| {
            let group = SimulatedRank::<u8>::new(rank).with_costs(costs.clone());
            async move {
                let add = |left: &[u8], right: &mut [u8]| right[0] += left[0];
                let sum = Reduction { combination, ..Reduction::commutative(1, add) };
                reduce(&group, algorithm, &mut [1], 0, sum).await
            }
        });
        report.expect("no deadlock").end
    };
    (by(None), by(Some(reduce::Algorithm::Binomial)))
}

#[test]
fn only_reductions_without_an_order_leave_the_table() {
    let (chosen, table) = reduced_on_tofu2(Combination::SUM, 1);
    assert!(chosen < table, "a sum of integers is the same in any order");
    let (chosen, table) = reduced_on_tofu2(Combination::OWN, 1);
    assert_eq!(chosen, table, "of a program's own reduction nobody knows");
    let (chosen, table) = reduced_on_tofu2(Combination::SUM, 2);
    assert_eq!(chosen, table, "the costs are of ranks with a node each");
}

#[test]
fn a_mistake_of_the_program_is_an_error_that_names_it() {
    // Rank 2 does not take part: the others wait, and the simulator reports for which rank.
    let (model, config) = simple(4);
    let ended = run(model, config, |rank| async move {
        if rank.rank() != 2 {
            let group = SimulatedRank::<()>::new(rank);
            let _ = barrier(&group, Some(barrier::Algorithm::Dissemination)).await;
        }
    });
    let text = ended.expect_err("a deadlock").to_string();
    assert!(text.contains("rank 3 waits for a message from rank 2"), "{text}");
}

#[test]
fn cp_10_butterflies_do_not_meet_on_a_hyper_crossbar() {
    // The butterfly exchanges at distances of powers of two, which stay within a line.
    let busy = |shape: Rc<dyn Topology>| {
        let timing = Timing::uniform(ns(10), Rate::bytes_per_second(1e9), 16);
        let config = JobConfig { payload: Payload::LengthsOnly, ..JobConfig::new(64) };
        let report = run(Box::new(Wormhole::new(shape, &timing)), config, |rank| async move {
            let group = SimulatedRank::<()>::new(rank);
            let mut all = [(); 64 * 1_000];
            allgather(&group, Some(allgather::Algorithm::Butterfly), None, &mut all).await
        });
        report.expect("no deadlock").end
    };
    // Six rounds of four links and 1, 2, 4, ... 32 times the bytes.
    assert_eq!(busy(Rc::new(HyperCrossbar::new(&[4, 4, 4]))), ns(6 * 40 + 63_000));
    assert!(busy(Rc::new(Grid::mesh(&[4, 4, 4]))) > ns(80_000), "messages meet on a mesh");
}

#[test]
fn an_allreduce_of_a_hundred_thousand_ranks() {
    const RANKS: u32 = 100_000;
    let (model, config) = simple(RANKS);
    let report = run(model, config, |rank| async move {
        let group = SimulatedRank::<()>::new(rank);
        let nothing = Reduction::commutative(1, |_: &[()], _: &mut [()]| {});
        let algorithm = Some(allreduce::Algorithm::RecursiveDoubling);
        allreduce(&group, algorithm, &mut [(); 8], nothing).await.is_ok()
    });
    let report = report.expect("no deadlock");
    assert!(report.results.iter().all(|ok| *ok));
    // 2^16 places, so 16 rounds, and a message before and after for the remaining ranks.
    assert_eq!(report.end, ns(18 * 1_500));
}

#[test]
fn every_collective_by_name_gives_its_answer_on_bytes_and_takes_as_long_on_lengths() {
    for operation in Operation::ALL {
        // This machine has no switches that multicast or synchronise.
        for name in algorithms(operation).filter(|name| !["multicast", "sync"].contains(name)) {
            let mut choices = Choices::default();
            choices.choose(operation, name).unwrap();
            let model = || machines(8).remove(0).0;
            let carried = run(model(), JobConfig::new(8), move |rank| async move {
                collective(&SimulatedRank::<u8>::new(rank), operation, &choices, 24).await
            });
            let config = JobConfig { payload: Payload::LengthsOnly, ..JobConfig::new(8) };
            let lengths = run(model(), config, move |rank| async move {
                collective(&SimulatedRank::<()>::new(rank), operation, &choices, 24).await
            });
            let (carried, lengths) = (carried.unwrap(), lengths.unwrap());
            assert_eq!(carried.results, vec![Ok(()); 8], "{operation:?} {name}");
            assert_eq!(carried.end, lengths.end, "{operation:?} {name}");
        }
    }
}

#[test]
fn solvers_find_the_known_answers_on_any_number_of_ranks() {
    let plane = Plane { side: 6, steps: 30, check_every: 7, per_cell: ns(2) };
    let many = Plane { steps: 400, ..plane };
    for ranks in [1, 2, 6, 20] {
        for (model, config) in machines(ranks) {
            let config = JobConfig { ranks, ..config };
            let report = run(model, config, move |rank| heat(rank, plane)).unwrap();
            assert_eq!(report.results, vec![Ok(()); ranks as usize]);
            assert!(report.end >= ns(30 * 36 * 2));
        }
        for (model, config) in machines(ranks) {
            let report = run(model, config, move |rank| conjugate_gradients(rank, many)).unwrap();
            assert_eq!(report.results, vec![Ok(()); ranks as usize]);
        }
    }
}

#[test]
fn a_thousand_ranks_solve_with_bytes_and_with_lengths_in_the_same_time() {
    let plane = Plane { side: 4, steps: 12, check_every: 4, per_cell: ns(2) };
    let model = || -> Box<dyn NetworkModel> {
        let rate = Rate::megabytes_per_second(300.0);
        Box::new(LogGp::new(1000, LogGpParameters { latency: ns(500), gap: ns(10), rate }))
    };
    let ends = [Payload::Carried, Payload::LengthsOnly].map(|payload| {
        let config = JobConfig { payload, ..JobConfig::new(1000) };
        let hot = run(model(), config, move |rank| heat(rank, plane)).unwrap();
        let cg = run(model(), config, move |rank| conjugate_gradients(rank, plane)).unwrap();
        assert!(hot.results.iter().chain(&cg.results).all(Result::is_ok));
        [hot.end, cg.end]
    });
    assert_eq!(ends[0], ends[1]);
}
