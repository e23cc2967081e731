//! Each program prints the same on one rank and on several, in real and in virtual time.

use std::fs;
use std::process::Command;

use hikyaku_jobs::own;

const PROGRAMS: &[(&str, &str)] = &[
    ("ring", env!("CARGO_BIN_EXE_ring")),
    ("halo", env!("CARGO_BIN_EXE_halo")),
    ("exchanges", env!("CARGO_BIN_EXE_exchanges")),
    ("schemes", env!("CARGO_BIN_EXE_schemes")),
    ("work_queue", env!("CARGO_BIN_EXE_work_queue")),
    ("buckets", env!("CARGO_BIN_EXE_buckets")),
    ("shared_array", env!("CARGO_BIN_EXE_shared_array")),
    ("landing", env!("CARGO_BIN_EXE_landing")),
];

#[test]
fn launcher() {
    own::launch_one_of(PROGRAMS);
}

/// The loop of paper 002's Fig. 3: other buffers have another exchange, and while both are in
/// flight each is waited for separately.
#[test]
fn tf_15_tf_21_two_exchanges_are_waited_for_one_by_one() {
    let lines = (0..3).map(|rank| format!("rank {rank}: 100 steps, and 1 by the other exchange"));
    let lines: Vec<String> = lines.collect();
    for run in [own::run, own::run_in_virtual_time] {
        let (code, said, complaints) = run(3, &["exchanges"]);
        assert_eq!((code, &*complaints), (0, ""), "{said}");
        assert!(lines.iter().all(|line| said.contains(line)), "{said}");
    }
}

#[test]
fn programs_say_what_they_should() {
    for (program, ranks, lines) in [
        ("ring", 1, &["rank 0 of 1: sum 0"][..]),
        ("ring", 3, &["rank 0 of 3: sum 3", "rank 1 of 3: sum 3", "rank 2 of 3: sum 3"]),
        ("halo", 1, &["100 steps of 1000 cells: heat 4500.000"]),
        ("halo", 4, &["100 steps of 4000 cells: heat 18000.000"]),
        ("exchanges", 1, &["rank 0: 100 steps, and 1 by the other exchange"]),
        ("schemes", 1, &["others: 0 edges of 8 B:", "around: 8 edges of 4096 B:"]),
        ("schemes", 4, &["others: ", "around: 8 edges of 4096 B:"]),
        ("work_queue", 1, &["400 tasks, 20141 steps in all"]),
        ("work_queue", 4, &["400 tasks, 20141 steps in all"]),
        ("buckets", 1, &["rank 0: 1000 numbers from 48271 on"]),
        (
            "buckets",
            4,
            &[
                "rank 0: 1004 numbers from 48271 on",
                "rank 1: 987 numbers from 537251398 on",
                "rank 2: 994 numbers from 1074502796 on",
                "rank 3: 1015 numbers from 1612340451 on",
            ],
        ),
        ("shared_array", 1, &["rank 0: 100 votes"]),
        ("shared_array", 3, &["rank 0: 300 votes", "rank 1: 300 votes", "rank 2: 300 votes"]),
    ] {
        for run in [own::run, own::run_in_virtual_time] {
            let (code, said, complaints) = run(ranks, &[program]);
            assert_eq!((code, &*complaints), (0, ""), "{program} on {ranks}: {said}");
            for line in lines {
                assert!(said.contains(line), "{program} on {ranks}: no `{line}` in {said}");
            }
        }
    }
}

#[test]
fn ip_13_a_frequent_sender_lands_in_a_ring_of_its_own() {
    let landed = "rank [1] alone has landed 102400 B in its ring";
    for (ranks, then) in
        [(3, "each rank keeps its ring"), (18, "rank 1 shares a ring again: with 2 others")]
    {
        for run in [own::run, own::run_in_virtual_time] {
            let (code, said, complaints) = run(ranks, &["landing"]);
            assert_eq!((code, &*complaints), (0, ""), "{said}");
            assert!([landed, then].iter().all(|line| said.contains(line)), "{said}");
        }
    }
}

/// The README shows the program that runs here.
#[test]
fn the_readme_shows_the_ring() {
    let read = |path: &str| fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR")));
    let readme = read("../../README.md").expect("the README is there");
    let ring = read("src/bin/ring.rs").expect("the program is there");
    let (_, code) = ring.split_once("\n\n").expect("a line says what it is");
    assert!(readme.contains(&format!("```rust\n{code}```")), "README.md differs from ring.rs");
}

/// The `main` of these programs returns the error, which Rust prints by `Debug`.
#[test]
fn an_error_that_main_returns_is_one_line() {
    let ring = env!("CARGO_BIN_EXE_ring");
    let output = Command::new(ring).env("HIKYAKU_UNMATCHED", "much").output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("Error: HIKYAKU_UNMATCHED: "), "{said}");
    assert_eq!((output.status.code(), said.lines().count()), (Some(1), 1), "{said}");
}
