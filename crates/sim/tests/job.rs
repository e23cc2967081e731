//! Jobs: matching, own time, errors, deadlocks, determinism, and many ranks.

use std::future::Future;
use std::rc::Rc;

use hikyaku_nic::time::Time;
use hikyaku_sim::SimError;
use hikyaku_sim::engine::{RecordKind, Simulation};
use hikyaku_sim::job::{
    HostCosts, Job, JobConfig, JobReport, MemoryPath, PacketFormat, Payload, PlainInterface, Rank,
    ReceivedMessage,
};
use hikyaku_sim::network::{
    CutThrough, LogGp, LogGpParameters, Network, NetworkModel, Rate, Timing, Wormhole,
};
use hikyaku_sim::topology::{Grid, HyperCrossbar};

fn ns(nanoseconds: u64) -> Time {
    Time::from_nanoseconds(nanoseconds)
}

/// 1 µs, 1 GB/s.
fn log_gp(nodes: u32) -> Box<dyn NetworkModel> {
    let rate = Rate::bytes_per_second(1e9);
    Box::new(LogGp::new(nodes, LogGpParameters { latency: ns(1_000), gap: ns(0), rate }))
}

fn run_on<F: Future<Output = R> + 'static, R: 'static>(
    model: Box<dyn NetworkModel>,
    config: JobConfig,
    program: impl Fn(Rank) -> F,
) -> Result<JobReport<R>, SimError> {
    let simulation = Simulation::new(3);
    let network = Network::new(&simulation, model);
    let interface = PlainInterface::new(&simulation, network, PacketFormat::WHOLE);
    Job::new(&simulation, config, interface)?.run(program)
}

#[test]
fn a_rank_has_its_own_time() {
    let host = HostCosts { send: ns(30), receive: ns(20) };
    let config = JobConfig { host, ..JobConfig::new(2) };
    let report = run_on(log_gp(2), config, |rank| async move {
        let other = 1 - rank.rank();
        if rank.rank() == 0 {
            rank.compute(ns(100));
            rank.send(other, 0, 1u64).await.unwrap();
            assert_eq!(rank.now(), ns(130), "the overhead, and one byte leaves at once");
            let answer = rank.recv(Some(other), None).await;
            assert_eq!((answer.tag, answer.bytes, rank.now()), (5, 1, ns(130 + 1_020 + 1_050)));
        } else {
            rank.recv(None, None).await;
            assert_eq!(rank.now(), ns(1_150), "sent at 130, 1 µs on its way, 20 to receive");
            rank.send(other, 5, 1u64).await.unwrap();
        }
        rank.now()
    });
    let report = report.unwrap();
    assert_eq!(report.ends, report.results);
    assert_eq!(report.end, ns(2_200));
}

#[test]
fn a_late_receive_pays_from_its_posting() {
    let host = HostCosts { send: ns(0), receive: ns(20) };
    let config = JobConfig { host, ..JobConfig::new(2) };
    let report = run_on(log_gp(2), config, |rank| async move {
        match rank.rank() {
            0 => rank.send(1, 0, &b"x"[..]).await.unwrap(),
            _ => {
                rank.sleep(ns(5_000)).await;
                assert_eq!(rank.recv(Some(0), Some(0)).await.data.as_deref(), Some(&b"x"[..]));
            }
        }
    });
    assert_eq!(report.unwrap().ends, [ns(0), ns(5_020)]);
}

#[test]
fn tags_and_sources_select() {
    let report = run_on(log_gp(3), JobConfig::new(3), |rank| async move {
        if rank.rank() > 0 {
            for tag in [1, 2, 1] {
                let text = format!("{}:{tag}", rank.rank());
                rank.send(0, tag, text.as_bytes()).await.unwrap();
            }
            return Vec::new();
        }
        let mut texts = Vec::new();
        for (source, tag) in [
            (Some(2), Some(2)),
            (Some(2), None),
            (None, Some(2)),
            (Some(2), Some(1)),
            (Some(1), None),
            (None, None),
        ] {
            let data = rank.recv(source, tag).await.data.unwrap();
            texts.push(String::from_utf8(data.into_vec()).unwrap());
        }
        texts
    });
    assert_eq!(report.unwrap().results[0], ["2:2", "2:1", "1:2", "2:1", "1:1", "1:1"]);
}

#[test]
fn requests_may_be_dropped() {
    // A withdrawn receive leaves its message to the next one. A send whose request is dropped
    // arrives.
    for model in [
        log_gp(2),
        Box::new(Wormhole::new(
            Rc::new(Grid::mesh(&[2])),
            &Timing::uniform(ns(10), Rate::bytes_per_second(1e9), 16),
        )),
    ] {
        let report = run_on(model, JobConfig::new(2), |rank| async move {
            if rank.rank() == 0 {
                drop(rank.isend(1, 0, &b"first"[..]).unwrap());
                rank.isend(1, 0, &b"second"[..]).unwrap().await;
                return;
            }
            drop(rank.irecv(Some(0), Some(0)));
            let message = rank.irecv(Some(0), Some(0)).await;
            assert_eq!(message.data.as_deref(), Some(&b"first"[..]));
            assert_eq!(rank.recv(None, None).await.data.as_deref(), Some(&b"second"[..]));
        });
        assert_eq!(report.unwrap().totals.received, 2);
    }
}

#[test]
fn ranks_of_a_node_use_its_memory() {
    let memory = MemoryPath { latency: ns(50), rate: Rate::bytes_per_second(10e9) };
    let config = JobConfig { ranks_per_node: 2, memory, ..JobConfig::new(4) };
    let report = run_on(log_gp(2), config, |rank| async move {
        assert_eq!(rank.node_of(3), 1);
        if rank.rank() == 0 {
            rank.send(1, 0, 1_000u64).await.unwrap();
            assert_eq!(rank.now(), ns(100), "the sender copies");
            rank.send(2, 0, 1_001u64).await.unwrap();
        } else if rank.rank() < 3 {
            rank.recv(Some(0), None).await;
        }
        rank.now()
    });
    assert_eq!(report.unwrap().results, [ns(1_100), ns(150), ns(2_100), ns(0)]);
}

#[test]
fn lengths_only_drops_what_is_written() {
    let config = JobConfig { payload: Payload::LengthsOnly, ..JobConfig::new(2) };
    let report = run_on(log_gp(2), config, |rank| async move {
        if rank.rank() == 0 {
            rank.send(1, 0, &[1u8; 100][..]).await.unwrap();
            return None;
        }
        Some(rank.recv(None, None).await)
    });
    let message = report.unwrap().results.remove(1).unwrap();
    assert_eq!((message.bytes, message.data), (100, None));
}

#[test]
fn a_deadlock_names_each_wait() {
    let error = run_on(log_gp(3), JobConfig::new(3), |rank| async move {
        match rank.rank() {
            0 => drop(rank.recv(Some(1), Some(7)).await),
            1 => {
                let first = rank.irecv(Some(2), None);
                rank.recv(None, Some(4)).await;
                first.await;
            }
            _ => {}
        }
    })
    .unwrap_err();
    let text = "deadlock at 0.0 ns: rank 0 waits for a message from rank 1 with tag 7, rank 1 \
                waits for a message from rank 2 and a message from any rank with tag 4";
    assert_eq!(error.to_string(), text);
    let error = run_on(log_gp(100), JobConfig::new(100), |rank| async move {
        rank.recv(None, None).await;
    })
    .unwrap_err();
    assert!(error.to_string().ends_with(", and 92 more"), "{error}");
    let SimError::Deadlock { stuck, .. } = error else { panic!("{error}") };
    assert_eq!(stuck.len(), 100);
}

#[test]
fn impossible_calls_are_errors() {
    let report = run_on(log_gp(2), JobConfig::new(2), |rank| async move {
        rank.isend(2, 0, 1u64).map(drop).unwrap_err().to_string()
    });
    let text = "rank 0 sends to rank 2, but the job has ranks 0 to 1";
    assert_eq!(report.unwrap().results[0], text);
    let config = JobConfig { ranks_per_node: 2, ..JobConfig::new(5) };
    let error = run_on(log_gp(2), config, |_| async {}).unwrap_err().to_string();
    assert_eq!(error, "5 ranks, 2 to a node, need 3 nodes; the network has 2");
    let config = JobConfig { ranks_per_node: 0, ..JobConfig::new(5) };
    assert!(run_on(log_gp(2), config, |_| async {}).is_err());
}

#[test]
fn a_flood_ends_at_the_limit() {
    let config = JobConfig { in_flight: 1_000, ..JobConfig::new(2) };
    let report = run_on(log_gp(2), config, |rank| async move {
        let mut sent = 0;
        while rank.rank() == 0 {
            match rank.send(1, 0, 1u64).await {
                Ok(()) => sent += 1,
                Err(error) => return (sent, error.to_string()),
            }
        }
        (0, String::new())
    });
    let (sent, error) = report.unwrap().results.remove(0);
    assert_eq!(sent, 1_000);
    assert!(error.contains("1000 messages are in flight or were never received"), "{error}");
}

#[test]
fn a_sender_stays_near_its_receiver() {
    // A million messages of 1 µs each are received as they arrive: few are ever in flight.
    let simulation = Simulation::new(3);
    let network = Network::new(&simulation, log_gp(2));
    let interface = PlainInterface::new(&simulation, network, PacketFormat::WHOLE);
    let job = Job::new(&simulation, JobConfig::new(2), interface).unwrap();
    let watched = job.clone();
    let report = job.run(move |rank| {
        let job = watched.clone();
        async move {
            for _ in 0..20_000 {
                match rank.rank() {
                    0 => rank.send(1, 0, 1_000u64).await.unwrap(),
                    _ => drop(rank.recv(Some(0), None).await),
                }
                assert!(job.in_flight() < 200, "{}", job.in_flight());
            }
        }
    });
    assert_eq!(report.unwrap().totals.received, 20_000);
}

/// A halo exchange in two dimensions with random computing, on a machine with contention.
fn digest(seed: u64, cut_through: bool) -> (u64, Time) {
    let simulation = Simulation::new(seed);
    simulation.trace().records_on(1 << 20);
    let timing = Timing::uniform(ns(50), Rate::bytes_per_second(1e9), 128);
    let shape = Rc::new(HyperCrossbar::new(&[4, 4, 2]));
    let model: Box<dyn NetworkModel> = match cut_through {
        true => Box::new(CutThrough::new(shape, &timing)),
        false => Box::new(Wormhole::new(shape, &timing)),
    };
    let network = Network::new(&simulation, model);
    let format = PacketFormat { payload: 256, header: 16 };
    let interface = PlainInterface::new(&simulation, network, format);
    let job = Job::new(&simulation, JobConfig::new(32), interface).expect("32 nodes");
    let report = job.run(|rank| async move {
        let mut random = rank.sim().random(u64::from(rank.rank()));
        for step in 0..20 {
            rank.compute(ns(random.below(500)));
            let others = [1, 4, 16].map(|distance| (rank.rank() + distance) % 32);
            let sends = others.map(|to| rank.isend(to, step, &[0u8; 700][..]).expect("a rank"));
            for _ in others {
                rank.recv(None, Some(step)).await;
            }
            for send in sends {
                send.await;
            }
        }
    });
    let end = report.expect("everybody gets everything").end;
    let trace = simulation.trace();
    let arrivals = trace.records().iter().filter(|record| record.kind == RecordKind::Arrive);
    assert_eq!(arrivals.count(), 32 * 20 * 3);
    (trace.digest(), end)
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for cut_through in [false, true] {
        let first = digest(1, cut_through);
        assert_eq!(digest(1, cut_through), first);
        assert_ne!(digest(2, cut_through).0, first.0);
    }
}

/// The end times and messages of ranks that wait for several receives, together or one after the
/// other.
fn several(together: bool, seed: u64) -> (Vec<Time>, Vec<Vec<ReceivedMessage>>) {
    let host = HostCosts { send: ns(30), receive: ns(70) };
    let config = JobConfig { host, ranks_per_node: 2, ..JobConfig::new(8) };
    let simulation = Simulation::new(seed);
    let network = Network::new(&simulation, log_gp(4));
    let interface = PlainInterface::new(&simulation, network, PacketFormat::WHOLE);
    let job = Job::new(&simulation, config, interface).expect("four nodes");
    let report = job.run(move |rank| async move {
        let mut random = rank.sim().random(u64::from(rank.rank()));
        let mut all = Vec::new();
        for step in 0..30 {
            rank.compute(ns(random.below(3_000)));
            let others: Vec<u32> = (0..8).filter(|&other| other != rank.rank()).collect();
            let post = |&from: &u32| rank.irecv(Some(from), Some(step));
            // Some messages arrive before their receive. The others arrive in any order.
            let mut requests: Vec<_> = others[..4].iter().map(post).collect();
            for &to in &others {
                rank.compute(ns(random.below(400)));
                drop(rank.isend(to, step, u64::from(to * 100 + rank.rank())).expect("a rank"));
            }
            rank.sleep(ns(random.below(2_000))).await;
            requests.extend(others[4..].iter().map(post));
            if together {
                all.extend(rank.wait_all(&mut requests).await);
                assert!(requests.is_empty());
            } else {
                for request in requests {
                    all.push(request.await);
                }
            }
        }
        all
    });
    let report = report.expect("everybody gets everything");
    (report.ends, report.results)
}

#[test]
fn waiting_for_all_equals_waiting_in_order() {
    for seed in 0..20 {
        let (ends, messages) = several(true, seed);
        assert_eq!(several(false, seed), (ends, messages), "seed {seed}");
    }
}

#[test]
fn an_unwanted_message_is_dropped() {
    let simulation = Simulation::new(3);
    let network = Network::new(&simulation, log_gp(2));
    let interface = PlainInterface::new(&simulation, network, PacketFormat::WHOLE);
    let job = Job::new(&simulation, JobConfig::new(2), interface).unwrap();
    let watched = job.clone();
    let report = job.run(move |rank| {
        let job = watched.clone();
        async move {
            if rank.rank() == 0 {
                rank.send(1, 0, 1u64).await.unwrap();
                return rank.send(1, 0, 2u64).await.unwrap();
            }
            rank.sleep(ns(5_000)).await;
            let here = rank.irecv(Some(0), Some(0));
            assert_eq!(job.in_flight(), 2, "a message stays until it is handed out");
            drop(here);
            assert_eq!(job.in_flight(), 1);
            assert_eq!(rank.recv(Some(0), Some(0)).await.bytes, 2);
        }
    });
    assert_eq!((report.unwrap().totals.received, job.in_flight()), (1, 0));
}

#[test]
fn a_hundred_thousand_ranks_run_in_one_job() {
    // Each rank sends to the next, in a ring, and up a binary tree to count at the root.
    const RANKS: u32 = 100_000;
    let config = JobConfig { payload: Payload::LengthsOnly, ..JobConfig::new(RANKS) };
    let report = run_on(log_gp(RANKS), config, |rank| async move {
        let (me, size) = (rank.rank(), rank.size());
        let from_before = rank.irecv(Some((me + size - 1) % size), Some(0));
        drop(rank.isend((me + 1) % size, 0, 8u64).unwrap());
        from_before.await;
        let mut below = 1;
        for child in [2 * me + 1, 2 * me + 2].into_iter().filter(|&child| child < size) {
            below += rank.recv(Some(child), Some(1)).await.bytes;
        }
        if me > 0 {
            rank.send((me - 1) / 2, 1, below).await.unwrap();
        }
        below
    });
    assert_eq!(report.unwrap().results[0], u64::from(RANKS), "every rank was counted once");
}
