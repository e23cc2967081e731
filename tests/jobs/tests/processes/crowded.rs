//! A protocol's traffic for shared variables never queues behind the program's messages, an owner
//! serves in every kind of wait, and an owner that leaves is known to have left.

use std::thread;
use std::time::Duration;

use hikyaku_jobs::at_length;

use super::job;
use super::kill_one::kill_one;

const PROTOCOLS: [&str; 3] = ["direct", "fagus", "udp"];

/// Far longer than anything here takes; a hanging job is ended then.
const IN_TIME: Duration = Duration::from_secs(60);

/// The shapes of a job: ranks and ranks per node.
const SHAPES: [(u32, u32); 4] = [(2, 1), (2, 2), (3, 1), (3, 3)];

#[test]
fn variables_are_acquired_behind_unmatched_messages() {
    let messages = ["255 8", "256 8", "257 8", "4 65536", "8 65536", "16 65536"];
    let rings = messages.map(|messages| format!("crowded ring {messages} 3"));
    let sends = messages.map(|messages| format!("crowded send {messages} 3"));
    let others = ["gather", "bcast"].map(|what| format!("crowded {what} 1 1600000 5"));
    let programs: Vec<&String> = rings.iter().chain(&sends).chain(&others).collect();
    for (at, program) in programs.iter().enumerate() {
        // In the short form, each program in one shape, and each shape with programs of every kind.
        let shapes = if at_length() { &SHAPES[..] } else { &SHAPES[at % 4..][..1] };
        for &(ranks, ranks_per_node) in shapes {
            for protocol in PROTOCOLS {
                println!("{program}: {ranks} ranks, {ranks_per_node} a node, {protocol}");
                let words: Vec<&str> = program.split(' ').collect();
                let job = job(ranks, &words).ranks_per_node(ranks_per_node).timeout(IN_TIME);
                job.variable("HIKYAKU_SHARED", protocol).succeed();
            }
        }
    }
}

#[test]
fn writing_and_broadcasting_in_turns_comes_to_an_end() {
    for (ranks, ranks_per_node) in [(3, 1), (3, 3), (4, 2)] {
        for (algorithm, length) in [("", "200000"), ("pipelined", "50000")] {
            println!("{ranks} ranks, {ranks_per_node} a node, {algorithm}");
            let job = job(ranks, &["broadcasts", "40", length]).ranks_per_node(ranks_per_node);
            let mut job = job.timeout(IN_TIME).variable("HIKYAKU_SHARED", "fagus");
            if !algorithm.is_empty() {
                job = job.variable("HIKYAKU_COLL_BROADCAST", algorithm);
            }
            let mut ended: Vec<String> = job.succeed().lines().map(str::to_owned).collect();
            ended.sort_unstable();
            assert_eq!(ended, (0..ranks).map(|rank| rank.to_string()).collect::<Vec<_>>());
        }
    }
}

#[test]
fn a_death_in_the_middle_of_that_is_told_to_all_others_at_once() {
    for protocol in PROTOCOLS {
        for (number, victim) in [0, 1, 2, 0, 1, 2].into_iter().enumerate() {
            let about = format!("{protocol}, rank {victim}");
            let job = job(3, &["until-a-death", "50000"]).ranks_per_node(1);
            let job = job.variable("HIKYAKU_SHARED", protocol);
            let delay = Duration::from_millis(60 + 17 * number as u64);
            for (rank, error) in kill_one(job, 3, victim, delay, &about).lines {
                // The victim, or a rank that was told earlier and has left.
                let mut gone = (0..3).filter(|other| *other != rank);
                let named = gone.any(|gone| error.contains(&format!("rank {gone}")));
                assert!(named, "{about}: rank {rank}: {error}");
            }
        }
    }
}

#[test]
fn an_owner_that_leaves_is_known_to_have_left_and_takes_nothing_away() {
    for protocol in PROTOCOLS {
        for (ranks, ranks_per_node) in SHAPES {
            for _ in 0..if at_length() { 3 } else { 1 } {
                println!("{protocol}: {ranks} ranks, {ranks_per_node} a node");
                let job = job(ranks, &["leave"]).ranks_per_node(ranks_per_node).timeout(IN_TIME);
                let told = job.variable("HIKYAKU_SHARED", protocol).succeed();
                assert_eq!(told.lines().count(), ranks as usize - 1, "{told}");
                assert!(told.lines().all(|line| line.contains("rank 0")), "{told}");
            }
        }
    }
}

#[test]
fn an_owner_serves_in_whatever_it_waits() {
    let ways = [
        "send", "receive", "probe", "barrier", "requests", "variable", "window", "exchange",
        "making", "leaving",
    ];
    for way in ways {
        for protocol in PROTOCOLS {
            for ranks_per_node in [1, 2] {
                println!("{way}, {protocol}, {ranks_per_node} a node");
                let job = job(2, &["wait-in", way]).ranks_per_node(ranks_per_node);
                job.variable("HIKYAKU_SHARED", protocol).timeout(IN_TIME).succeed();
            }
        }
    }
}

/// All jobs at once: each only waits until its time is up.
#[test]
fn a_job_that_hangs_says_who_waits_for_a_variable_and_who_has_it() {
    let ways = [("write", 1), ("write", 2), ("read", 1), ("look", 1), ("async", 1)];
    thread::scope(|scope| {
        for protocol in PROTOCOLS {
            for (way, ranks_per_node) in ways {
                scope.spawn(move || says_who_waits(protocol, way, ranks_per_node));
            }
        }
    });
}

fn says_who_waits(protocol: &str, way: &str, ranks_per_node: u32) {
    let job = job(2, &["hold", way]).ranks_per_node(ranks_per_node);
    let job = job.timeout(Duration::from_secs(4));
    let end = job.variable("HIKYAKU_SHARED", protocol).run();
    assert_eq!(end.code, Some(124), "{protocol}, {way}: {}", end.stderr);
    let mut lines = end.stderr.lines();
    let line = lines.find(|line| line.contains("rank 1 (pid ")).unwrap();
    let to = if way == "look" { "read" } else { "write" };
    let told = format!("acquisition of shared variable 'held' to {to}, held by rank 0, for ");
    assert!(line.contains(&told), "{protocol}, {way}: {line}");
}
