//! The same collective call gives the same bits in every form, in real and in virtual time: those
//! of the table `tests/jobs/bits.txt`, with which the tests of C, of MPI and of Python compare
//! theirs.

use std::iter;

use hikyaku::Operation;
use hikyaku_jobs::bits::{Digests, Shape, Table};
use hikyaku_jobs::{Job, at_length};

use super::{RANK, job};

/// Ranks, and ranks of a node (0: all are on one).
const SHAPES: [Shape; 8] = [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2), (4, 0), (4, 1), (4, 2)];

/// The forms that Rust has.
const FORMS: [&str; 4] = ["blocking", "started", "persistent", "late"];

/// If set, the table's digests are rewritten.
const WRITE: &str = "HIKYAKU_WRITE_BITS";

/// Operations that add.
const REDUCTIONS: [Operation; 5] = [
    Operation::Reduce,
    Operation::Allreduce,
    Operation::ReduceScatter,
    Operation::Scan,
    Operation::Exscan,
];

/// Every operation in every form, in a job that `start` makes from its number of ranks and words.
fn every_call(table: &Table, ranks: u32, start: impl Fn(u32, &[&str]) -> Job) -> Job {
    let names: Vec<&str> = table.operations.iter().map(|(name, _)| name.as_str()).collect();
    start(ranks, &["bits", &names.join(","), &table.lengths.join(","), &FORMS.join(",")])
}

fn real(table: &Table, (ranks, per_node): Shape) -> Job {
    every_call(table, ranks, job).ranks_per_node(per_node)
}

fn simulated(table: &Table, (ranks, per_node): Shape) -> Job {
    let simulate =
        |ranks, words: &[&str]| Job::new(env!("CARGO_BIN_EXE_simulate"), RANK, ranks, words);
    every_call(table, ranks, simulate).ranks_per_node(if per_node == 0 { ranks } else { per_node })
}

/// Compares a job's digests with the `expected` ones of each operation.
#[track_caller]
fn compare(table: &Table, given: &Digests, expected: impl Fn(&str) -> Vec<u64>) {
    assert_eq!(given.len(), table.operations.len() * FORMS.len());
    for ((operation, form), digests) in given {
        let expected = expected(operation);
        let is_right = *digests == expected;
        assert!(is_right, "{operation}, {form}: {digests:x?}, expected {expected:x?}");
    }
}

#[test]
fn every_form_gives_the_bits_of_the_table() {
    let mut table = Table::read();
    if std::env::var_os(WRITE).is_some() {
        table.digests.clear();
        for shape in SHAPES {
            let given = table.sums(&real(&table, shape).succeed());
            let blocking = given.into_iter().filter(|((_, form), _)| form == FORMS[0]);
            table.digests.extend(blocking.map(|((name, _), it)| ((shape, name), it)));
        }
        table.write();
    }
    for shape in SHAPES {
        let expected = |name: &str| table.digests[&(shape, name.to_owned())].clone();
        // In virtual time, in the short form, every shape of three ranks.
        let simulated = (at_length() || shape.0 == 3).then(|| simulated(&table, shape));
        for job in iter::once(real(&table, shape)).chain(simulated) {
            println!("{job:?}");
            compare(&table, &table.sums(&job.succeed()), expected);
        }
    }
}

/// Keeps only the operations whose names begin like this.
fn keep(table: &mut Table, names: &[&str]) {
    table.operations.retain(|(operation, _)| names.iter().any(|name| operation.starts_with(name)));
}

/// With a named algorithm all forms give the same bits, with lines or without. The last length,
/// which costs most, is tested only at length: lengths make no choice here.
#[test]
fn every_form_gives_the_same_bits_by_every_algorithm() {
    let mut table = Table::read();
    if !at_length() {
        table.lengths.pop();
    }
    keep(&mut table, &REDUCTIONS.map(Operation::name));
    let some = [(3, 0), (4, 2)];
    let most = REDUCTIONS.map(|operation| algorithms(operation).len()).into_iter().max().unwrap();
    for shape in SHAPES.into_iter().filter(|shape| at_length() || some.contains(shape)) {
        for number in 0..most {
            let choose = |job: Job, operation: Operation| {
                let (names, name) = (algorithms(operation), operation.name().to_ascii_uppercase());
                job.variable(&format!("HIKYAKU_COLL_{name}"), names[number % names.len()])
            };
            let job = REDUCTIONS.into_iter().fold(real(&table, shape), choose);
            println!("{job:?}");
            let given = table.sums(&job.succeed());
            let expected = |name: &str| given[&(name.to_owned(), FORMS[0].to_owned())].clone();
            compare(&table, &given, expected);
        }
    }
}

/// All algorithms except those on lines: the table chooses these where they exist, and on nodes of
/// one rank they are refused.
fn algorithms(operation: Operation) -> Vec<&'static str> {
    let by_messages = |name: &&str| !["lines", "read"].contains(name);
    operation.algorithms().iter().copied().filter(by_messages).collect()
}

/// Ranks of a node that copy out of each other's memory combine in the same order, even if the
/// kernel copies.
#[test]
fn reading_gives_the_bits_of_the_table() {
    let mut table = Table::read();
    let operations = ["broadcast", "allreduce", "allgather", "alltoall", "reduce_scatter"];
    keep(&mut table, &operations);
    for shape in SHAPES.into_iter().filter(|(_, per_node)| *per_node == 0) {
        let expected = |name: &str| table.digests[&(shape, name.to_owned())].clone();
        let read = |job: Job, name: &&str| {
            job.variable(&format!("HIKYAKU_COLL_{}", name.to_ascii_uppercase()), "read")
        };
        let job = operations.iter().fold(real(&table, shape), read);
        compare(&table, &table.sums(&job.succeed()), expected);
    }
}

/// Barriers and broadcasts by the group of a communicator give the bits of the table, in all forms
/// and also if other communicators have all channels (CJ-14, CJ-15).
#[test]
fn cj_14_cj_15_groups_give_the_bits_of_the_table() {
    let mut table = Table::read();
    keep(&mut table, &[&["barrier", "broadcast"][..], &REDUCTIONS.map(Operation::name)].concat());
    let barriers = ["sync", "atomic-add", "multicast-add"];
    for (shape, barrier) in [(3, 0), (4, 2), (3, 1)].into_iter().zip(barriers) {
        let expected = |name: &str| table.digests[&(shape, name.to_owned())].clone();
        let job = real(&table, shape).variable("HIKYAKU_COLL_BARRIER", barrier);
        let job = job.variable("HIKYAKU_COLL_BROADCAST", "multicast");
        compare(&table, &table.sums(&job.succeed()), expected);
    }
}
