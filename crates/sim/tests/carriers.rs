//! Every shipped machine carries a job's messages by the steps of its own interface. The time of a
//! lone message is the sum of its steps, added here by hand. All programs run on all machines.

use hikyaku_nic::time::Time;
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{Job, JobConfig, Payload};
use hikyaku_sim::machine::Machine;
use hikyaku_sim::program::{Halo, RandomTraffic, balanced};

const MACHINES: [(&str, &str); 8] = [
    ("dimmnet1", include_str!("../../../machines/dimmnet1.toml")),
    ("dimmnet2", include_str!("../../../machines/dimmnet2.toml")),
    ("fx100-tofu2", include_str!("../../../machines/fx100-tofu2.toml")),
    ("cenju4", include_str!("../../../machines/cenju4.toml")),
    ("cp-pacs", include_str!("../../../machines/cp-pacs.toml")),
    ("fat-tree-200g", include_str!("../../../machines/fat-tree-200g.toml")),
    ("dragonfly-200g", include_str!("../../../machines/dragonfly-200g.toml")),
    ("ethernet-100", include_str!("../../../machines/ethernet-100.toml")),
];

fn machine(name: &str) -> Machine {
    let (name, text) = MACHINES.iter().find(|(known, _)| *known == name).expect("shipped");
    Machine::parse(name, text).expect("a shipped file is right")
}

/// The time at which the receiver has a lone message from rank 0 to rank 1, in ps from its sending.
fn one_way(name: &str, bytes: u64) -> u64 {
    let simulation = Simulation::new(1);
    let carrier = machine(name).install(&simulation).carrier;
    let job = Job::new(&simulation, JobConfig::new(2), carrier).expect("two nodes");
    let report = job.run(move |rank| async move {
        if rank.rank() == 0 {
            rank.send(1, 0, &vec![1u8; bytes as usize][..]).await.expect("rank 1 is there");
        } else {
            let message = rank.recv(Some(0), Some(0)).await;
            assert_eq!(message.data.as_deref(), Some(&vec![1u8; bytes as usize][..]));
        }
    });
    report.expect("no deadlock").ends[1].picoseconds()
}

/// Checks a time against steps in nanoseconds, to the picosecond.
fn is_sum(name: &str, bytes: u64, steps: &[f64]) {
    let sum = (steps.iter().sum::<f64>() * 1e3).round() as u64;
    let took = one_way(name, bytes);
    assert!(took.abs_diff(sum) <= 2, "{name}, {bytes} B: {took} ps, by hand {sum} ps");
}

#[test]
fn dimmnet1_words_are_stores_and_blocks_are_packets() {
    // AOTF 270 ns and the answering program's 0.65 µs: half of 1.84 µs.
    is_sum("dimmnet1", 8, &[270.0, 650.0]);
    // BOTF: 928 B at 1017 MB/s before that.
    is_sum("dimmnet1", 928, &[928e3 / 1017.0, 270.0, 650.0]);
}

#[test]
fn ip_20_dimmnet2_takes_the_rows_of_table_7() {
    // A, B, C with its cable; D: to SWIF, 20 clocks; E: 4 clocks; F by one access, G; H, I with the
    // head's update, J by one access, K; the time that the table leaves unexplained.
    let arrival = [93.0, 428.0, 385.0, 132.5, 312.0, 200.0, 40.0];
    let host = [189.0, 312.0, 101.0, 240.0, 10.0, 189.0, 605.0, 652.5];
    is_sum("dimmnet2", 8, &[&arrival[..], &host].concat());
    // 64 bytes: seven more words through the SO-DIMM's port, at three places.
    let words = [70.0; 3];
    is_sum("dimmnet2", 64, &[&arrival[..], &host, &words].concat());
}

#[test]
fn tf_16_tofu2_takes_the_steps_to_a_neighbour() {
    // Library, descriptor, doorbell; fetch, inject, a router and its link, 8 B at 10 GB/s, land; a
    // poll of the event queue.
    is_sum("fx100-tofu2", 8, &[1470.0, 30.0, 150.0, 100.0, 210.0, 100.0, 0.8, 300.0, 50.0]);
    is_sum("fx100-tofu2", 16384, &[1470.0, 30.0, 150.0, 100.0, 210.0, 100.0, 1638.4, 300.0, 50.0]);
}

#[test]
fn cj_16_cenju4_takes_its_steps_and_stages() {
    // Half of Paralib, the register; header from the cache (dirty line, four double words), check
    // and table entry; packet header; injection and three stages of 125 ns for 32 nodes ...
    let send = [1500.0, 100.0, 410.0, 50.0, 50.0, 160.0, 12.5, 50.0];
    let switches = [125.0 * 3.0, 12.5];
    // ... 24 bytes on the wire; accept, page walk, part of a line, its word, the notification; a
    // poll, and the other half.
    let wire = [24e3 / 213.333_333];
    let receive = [50.0, 480.0, 160.0, 12.5, 160.0, 12.5, 50.0, 1500.0];
    is_sum("cenju4", 8, &[&send[..], &switches, &wire, &receive].concat());
}

#[test]
fn cp_05_cp_pacs_takes_its_steps() {
    // Light system call; TCW; into the exchanger, to the crossbar, from it, out: four links of
    // 100 ns; 8 B at 300 MB/s; poll.
    is_sum("cp-pacs", 8, &[2670.0, 200.0, 400.0, 8e3 / 300.0, 200.0]);
    // A second packet leaves 758 ns after the tail of the first has left.
    let (first, second) = (2048e3 / 300.0, 52e3 / 300.0);
    is_sum("cp-pacs", 2100, &[2670.0, 200.0, first, 758.0, 400.0, second, 200.0]);
}

#[test]
fn rdma_takes_its_steps_and_a_switch() {
    // Nodes 0 and 1 are on one switch. 8 B at 25 GB/s.
    is_sum("fat-tree-200g", 8, &[50.0, 250.0, 130.0, 0.32, 220.0, 30.0]);
    is_sum("dragonfly-200g", 8, &[50.0, 350.0, 350.0, 0.32, 350.0, 30.0]);
    // Three packets of 4096 B follow each other without a gap.
    is_sum("fat-tree-200g", 12288, &[50.0, 250.0, 130.0, 12288.0 / 25.0, 220.0, 30.0]);
}

#[test]
fn fg_15_ethernet_takes_its_frames_twice_and_both_processors() {
    // 66 B at 100 Mb/s to the switch, which takes the frame in whole, and from it.
    is_sum("ethernet-100", 8, &[20e3, 5280.0, 5e3, 5280.0, 35e3]);
    // Four frames, of which the second one's bytes arrive while the first is passed on.
    let (first, all) = (1538.0 * 80.0, (4500.0 + 4.0 * 58.0) * 80.0);
    is_sum("ethernet-100", 4500, &[20e3, first, 5e3, all, 35e3]);
}

#[test]
fn every_machine_runs_every_program() {
    for (name, _) in MACHINES {
        // The DIMMnet machines have only two nodes; the test enlarges them.
        let machine = machine(name).with_nodes(12).expect("every shape grows to twelve nodes");
        let ends = [Payload::Carried, Payload::LengthsOnly].map(|payload| {
            let simulation = Simulation::new(9);
            let carrier = machine.install(&simulation).carrier;
            let config = JobConfig { payload, ..JobConfig::new(12) };
            let job = Job::new(&simulation, config, carrier).expect("twelve nodes");
            let halo = Halo::new(&balanced(12, 3), 3_000, 4, Time::from_nanoseconds(700));
            let random = RandomTraffic::new(9, 12, 600, 150, Time::from_nanoseconds(900));
            let report = job.run(move |rank| {
                let (halo, random) = (halo.clone(), random.clone());
                async move {
                    halo.run(rank.clone()).await?;
                    random.run(rank).await
                }
            });
            let report = report.expect("no deadlock");
            assert!(report.results.iter().all(Result::is_ok), "{name}: {:?}", report.results);
            assert_eq!(report.totals.sent, report.totals.received, "{name}");
            report.end
        });
        assert_eq!(ends[0], ends[1], "{name}");
    }
}
