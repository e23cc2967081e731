//! The machine file decides the costs of calls in virtual time: a lone message of a process takes
//! as long as that of a built-in program, on every machine, and another value in the file changes
//! it by as much.

use std::fs;
use std::path::Path;

use hikyaku_jobs::{Job, machines};
use hikyaku_sim::engine::Simulation;
use hikyaku_sim::job::{self, JobConfig};
use hikyaku_sim::machine::Machine;

use super::RANK;

/// Bytes on the wire of a process's message besides its payload.
const ENVELOPE: u64 = 16;

/// Copying out of the landing ring, picoseconds a byte: 10 GB/s.
const COPYING: u64 = 100;

/// The time of a message to a process that waits for it, in picoseconds from its sending.
fn by_process(machine: &Path, bytes: u64) -> u64 {
    let words = ["lone", &bytes.to_string()];
    let file = format!("SIMULATE_MACHINE={}", machine.display());
    let job = Job::new(env!("CARGO_BIN_EXE_simulate"), RANK, 2, &words);
    let output = job.within(&["env", &file]).succeed();
    let said = |what: &str| -> u64 {
        let line = output.lines().find_map(|line| line.strip_prefix(what));
        line.unwrap_or_else(|| panic!("{output}")).trim().parse().unwrap()
    };
    said("had ") - said("sent ")
}

/// The same for a built-in program.
fn by_task(machine: &Path, bytes: u64) -> u64 {
    let machine = Machine::parse("machine", &fs::read_to_string(machine).unwrap()).unwrap();
    let simulation = Simulation::new(0);
    let carrier = machine.install(&simulation).carrier;
    let job = job::Job::new(&simulation, JobConfig::new(2), carrier).unwrap();
    let report = job.run(move |rank| async move {
        if rank.rank() == 0 {
            rank.send(1, 0, &vec![1u8; bytes as usize][..]).await.unwrap();
        } else {
            rank.recv(Some(0), Some(0)).await;
        }
    });
    report.unwrap().ends[1].picoseconds()
}

#[test]
fn a_lone_message_of_a_process_takes_what_one_of_a_built_in_program_takes() {
    for machine in machines() {
        for bytes in [8, 64, 4096] {
            let expected = by_task(&machine, bytes + ENVELOPE) + COPYING * bytes;
            let took = by_process(&machine, bytes);
            let name = machine.display();
            assert!(took.abs_diff(expected) <= 2, "{name}, {bytes} B: {took}, not {expected} ps");
        }
    }
}

/// The messages of all ranks and the end, in picoseconds, of a job whose sender finds full rings.
fn behind(machine: &Path, full: Option<&str>) -> [u64; 2] {
    let job = Job::new(env!("CARGO_BIN_EXE_simulate"), RANK, 2, &["flood-behind"]);
    let job = job.variable("SIMULATE_MACHINE", machine.to_str().unwrap());
    let job = full.iter().fold(job, |job, full| job.variable("HIKYAKU_JOBS_FULL", full));
    let output = job.succeed();
    ["messages ", "end "].map(|what| {
        let line = output.lines().find_map(|line| line.strip_prefix(what));
        let number = line.and_then(|line| line.split(' ').next()).unwrap_or_default();
        number.parse().unwrap_or_else(|_| panic!("{output}"))
    })
}

#[test]
fn ip_10_ip_11_what_is_refused_travels_again_and_what_stalls_waits_there() {
    for machine in machines() {
        let [stalled, refused] = [None, Some("refuse")].map(|full| behind(&machine, full));
        let about = format!("{}: {stalled:?}, {refused:?}", machine.display());
        // A refusal and one more message for each refused message; and the transmission of the last
        // ones twice. The contents are the same: the program checks them.
        assert!(refused[0] >= stalled[0] + 2, "{about}");
        assert!(refused[1] > stalled[1], "{about}");
    }
}

/// The time of a broadcast to `others` ranks on Cenju-4, in picoseconds until the last one has it.
fn broadcast(by: &str, others: u32, bytes: u64) -> u64 {
    let machine = machines().into_iter().find(|file| file.ends_with("cenju4.toml")).unwrap();
    let words = ["lone-broadcast", &bytes.to_string()];
    let job = Job::new(env!("CARGO_BIN_EXE_simulate"), RANK, others + 1, &words);
    let job = job.variable("SIMULATE_MACHINE", machine.to_str().unwrap());
    let output = job.variable("HIKYAKU_COLL_BROADCAST", by).succeed();
    let said = |what: &str| -> Vec<u64> {
        let lines = output.lines().filter_map(|line| line.strip_prefix(what));
        lines.map(|number| number.trim().parse().unwrap()).collect()
    };
    let (sent, had) = (said("sent "), said("had "));
    had.into_iter().max().unwrap() - sent[0]
}

#[test]
fn cj_14_a_multicast_leaves_its_rank_once_and_the_switches_copy_it() {
    for bytes in [64, 4096] {
        let [one, sixteen] = [1, 16].map(|others| broadcast("multicast", others, bytes));
        // As sends, the last of them would leave after fifteen others.
        assert!(sixteen < one + one / 10, "{bytes} B: {one} and {sixteen} ps");
        let tree = broadcast("binomial", 16, bytes);
        assert!(tree > 3 * sixteen, "{bytes} B: {tree} and {sixteen} ps");
    }
}

/// The times of rounds of 16 KiB an edge, in picoseconds, of exchanges made until queues run out,
/// on nodes of two ranks whose engines have this many queues.
fn rounds(queues: u64) -> Vec<u64> {
    let shipped = machines().into_iter().find(|file| file.ends_with("fx100-tofu2.toml")).unwrap();
    let text = fs::read_to_string(shipped).unwrap();
    let twelve = "queues = { value = 12,";
    assert!(text.contains(twelve), "{text}");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("queues-{queues}.toml"));
    fs::write(&file, text.replace(twelve, &format!("queues = {{ value = {queues},"))).unwrap();
    let job = Job::new(env!("CARGO_BIN_EXE_simulate"), RANK, 6, &["combined-falls-back"]);
    let job = job.ranks_per_node(2).variable("SIMULATE_MACHINE", file.to_str().unwrap());
    let output = job.succeed();
    let numbers = output.lines().filter_map(|line| line.strip_prefix("round "));
    numbers.map(|number| number.parse().unwrap()).collect()
}

/// A process has its share of the four engines' queues, of which the program uses one elsewhere.
/// Exchanges of two neighbours take two each, and each queue has a start of its own; the last queue
/// serves both neighbours behind one start; then there are messages. Rounds of each take another
/// time.
#[test]
fn tf_19_exchanges_fall_back_when_the_machines_queues_run_out() {
    for (queues, pairs) in [(12, 11), (2, 1)] {
        let rounds = rounds(queues);
        let about = format!("{queues} queues an engine: {rounds:?} ps");
        assert_eq!(rounds.len(), pairs + 2, "{about}");
        let (fast, one, messages) = (rounds[0], rounds[pairs], rounds[pairs + 1]);
        assert!(rounds[..pairs].iter().all(|round| *round == fast), "{about}");
        assert!(one < fast - fast / 5 && messages > fast, "{about}");
    }
}

#[test]
fn what_the_file_says_of_the_host_is_what_a_process_is_charged() {
    let [shipped, changed] = [
        machines().into_iter().find(|file| file.ends_with("fat-tree-200g.toml")).unwrap(),
        Path::new(env!("CARGO_TARGET_TMPDIR")).join("slow-host.toml"),
    ];
    let text = fs::read_to_string(&shipped).unwrap();
    let machine = Machine::parse("machine", &text).unwrap();
    let hikyaku_sim::machine::Interface::Rdma(costs) = &machine.interface else {
        panic!("an RDMA interface")
    };
    let mut slow = String::new();
    for line in text.lines() {
        let key = line.split('=').next().unwrap_or_default().trim();
        match key {
            "post" => slow += "post = { value = \"1000 ns\", source = \"assumed: a slow host\" }",
            "poll" => slow += "poll = { value = \"700 ns\", source = \"assumed: a slow host\" }",
            _ => slow += line,
        }
        slow.push('\n');
    }
    fs::write(&changed, slow).unwrap();
    let more = 1_700_000 - (costs.post + costs.poll).picoseconds();
    assert_eq!(by_process(&changed, 64), by_process(&shipped, 64) + more);
}
