//! The tests of MPI in C on hikyaku, a folder per chapter. The long form also runs the same
//! binaries on MPICH, and uses both binary interfaces, the standard's and MPICH's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{
    HIKYAKU, assert_success, compile, compile_for_mpich, has_libfabric, hikyaku, hikyaku_asleep,
    is_long, job_on_mpich, mpich, on_hosts, root, say, scratch, stderr, stdout,
};

/// Numbers of ranks, and of ranks per virtual node.
const JOBS: [(u32, u32); 5] = [(1, 1), (2, 2), (5, 5), (3, 1), (4, 2)];

/// Further jobs of a long test.
const MORE_JOBS: [(u32, u32); 7] = [(2, 1), (3, 3), (4, 4), (8, 8), (7, 3), (8, 4), (16, 16)];

/// The sources of a chapter.
fn sources(chapter: &str) -> Vec<PathBuf> {
    let folder = root().join("tests/mpi").join(chapter);
    let mut sources: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.retain(|path| path.extension().is_some_and(|it| it == "c"));
    sources.sort();
    assert!(!sources.is_empty(), "{chapter}");
    sources
}

/// Checks that a program prints nothing and ends with 0 on these ranks.
fn passes(program: &Path, ranks: u32, ranks_per_node: u32) {
    let (ranks, ranks_per_node) = (ranks.to_string(), ranks_per_node.to_string());
    passes_as(program, &["run", "-n", &ranks, "--ranks-per-node", &ranks_per_node]);
}

fn passes_as(program: &Path, words: &[&str]) {
    let words = [words, &["--timeout", "100"]].concat();
    let of_threads = program.to_string_lossy().contains("/threads-");
    let run = if of_threads { hikyaku_asleep } else { hikyaku };
    let output = run(&words, program);
    let said = stdout(&output) + &stderr(&output);
    assert!(output.status.success() && said.is_empty(), "{program:?} {words:?}: {said}");
}

/// [`passes`] on hosts that are all this machine: messages between them use libfabric.
fn passes_on_hosts(program: &Path, hosts: &str) {
    passes_as(program, &on_hosts(hosts));
}

/// [`passes`] for the same binary on MPICH's library of its binary interface. A job that does not
/// end there has not failed: on a machine with much else to do, 0.3 s can become a minute.
fn passes_on_mpich(program: &Path, prefix: &Path, ranks: u32) {
    let output = job_on_mpich(prefix, "60", ranks, program).output().unwrap();
    let said = stdout(&output) + &stderr(&output);
    if output.status.code() == Some(124) {
        return say(&format!("unknown: {program:?} on MPICH, {ranks} ranks, did not end in 60 s"));
    }
    assert!(output.status.success(), "{program:?} on MPICH, {ranks} ranks: {said}");
}

fn chapter(name: &str) {
    let folder = scratch(name);
    let programs: Vec<PathBuf> = sources(name).iter().map(|it| compile(it, &folder)).collect();
    pass(&programs, is_long());
    if is_long()
        && let Some(prefix) = mpich()
    {
        pass_on_mpich(&programs, &prefix, &[1, 2, 3, 4]);
        let compiled = |it: &PathBuf| compile_for_mpich(it, &folder, &prefix);
        let programs: Vec<PathBuf> = sources(name).iter().map(compiled).collect();
        // The interfaces differ in constants and handles, not in what ranks do together.
        pass(&programs, false);
        pass_on_mpich(&programs, &prefix, &[2]);
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Checks all programs, at length in [`MORE_JOBS`] and on more hosts too.
fn pass(programs: &[PathBuf], at_length: bool) {
    let jobs = JOBS.iter().chain(MORE_JOBS.iter().filter(|_| at_length));
    for program in programs {
        jobs.clone().for_each(|(ranks, ranks_per_node)| passes(program, *ranks, *ranks_per_node));
    }
    if has_libfabric() {
        let hosts: &[&str] =
            if at_length { &["a:1,b:1", "a:2,b:2", "a:3,b:1,c:2"] } else { &["a:2,b:2"] };
        for program in programs {
            hosts.iter().for_each(|hosts| passes_on_hosts(program, hosts));
        }
    }
}

fn pass_on_mpich(programs: &[PathBuf], prefix: &Path, ranks: &[u32]) {
    for program in programs {
        ranks.iter().for_each(|ranks| passes_on_mpich(program, prefix, *ranks));
    }
}

#[test]
fn messages() {
    chapter("messages");
}

#[test]
fn datatypes() {
    chapter("datatypes");
}

#[test]
fn communicators() {
    chapter("communicators");
}

#[test]
fn collectives() {
    chapter("collectives");
}

#[test]
fn attributes() {
    chapter("attributes");
}

#[test]
fn errors() {
    chapter("errors");
}

#[test]
fn environment() {
    chapter("environment");
}

#[test]
fn threads() {
    chapter("threads");
}

#[test]
fn topologies() {
    chapter("topologies");
}

/// Communicators, threads and requests in random plans from seeds.
#[test]
fn random() {
    chapter("random");
}

/// All persistent collectives that session queues can do use them, also beside other collectives,
/// and make progress while no rank calls MPI (TF-10).
#[test]
fn tf_10_persistent_collectives_by_session_queues() {
    let folder = scratch("session");
    let names = ["barrier=session", "broadcast=session", "allgather=session", "allreduce=session"];
    let chosen: Vec<&str> = names.iter().flat_map(|name| ["--coll", name]).collect();
    for name in ["offloaded.c", "collectives/kept.c"] {
        let program = compile(&root().join("tests/mpi").join(name), &folder);
        for (ranks, ranks_per_node) in [("2", "2"), ("5", "5"), ("4", "2")] {
            let job = ["run", "-n", ranks, "--ranks-per-node", ranks_per_node, "--timeout", "100"];
            let output = hikyaku(&[&job[..], &chosen].concat(), &program);
            let said = stdout(&output) + &stderr(&output);
            assert!(output.status.success() && said.is_empty(), "{name} {job:?}: {said}");
        }
    }
    fs::remove_dir_all(folder).unwrap();
}

/// Two nodes of four ranks, each rank with edges to all of the other node, in virtual time. Checks
/// the messages between the nodes in a round, by the scheme that the info object or the job names:
/// with FAST and MRC a READY-TO-RECV and the data of each edge, with the combined scheme one of
/// each kind in each direction. The program checks the received data.
#[test]
fn an_info_object_or_the_job_says_how_queues_serve_neighbours() {
    /// Number of forms of the collective; each makes so many rounds.
    const FORMS: usize = 4;
    let folder = scratch("exchanged");
    let program = compile(&root().join("tests/mpi/exchanged.c"), &folder);
    let records = folder.join("records.csv");
    let crossed = |what: &str, (scheme, of_job): (&str, &str), rounds: &str| {
        let mut command = Command::new(HIKYAKU);
        command.args(["simulate", "-m", "fx100-tofu2", "-n", "8", "--ranks-per-node", "4"]);
        command.arg("--records").arg(&records).arg("--").arg(&program).args([what, rounds]);
        command.arg(scheme).env("HIKYAKU_COLL_EXCHANGE", of_job);
        assert_success(&command.output().unwrap(), "hikyaku simulate");
        let of_nodes = |line: &&str| {
            let words: Vec<&str> = line.split(',').collect();
            let node = |at: usize| words[at].parse::<u32>().unwrap() / 4;
            words[1] == "send" && node(2) != node(3)
        };
        fs::read_to_string(&records).unwrap().lines().filter(of_nodes).count()
    };
    for (what, schemes, expected) in [
        ("rounds", ("none", "fast"), 64),
        ("rounds", ("none", "combined"), 4),
        ("rounds", ("combined", ""), 4),
        ("rounds", ("mrc", "combined"), 64),
        // Without a chosen scheme, edges of this length would use messages.
        ("long", ("combined", ""), 4),
    ] {
        // Both numbers include the messages that set up the exchanges.
        let rounds = crossed(what, schemes, "7") - crossed(what, schemes, "2");
        assert_eq!(rounds, 5 * FORMS * expected, "{what}, {schemes:?}");
    }
    fs::remove_dir_all(folder).unwrap();
}

/// The same in real time. If one rank or every rank has no queue or no memory left, all ranks use
/// messages. An unknown scheme gives one line. Regions are a limited part of the address space, so
/// that the test can fill them.
#[test]
fn tf_19_exchanges_of_chosen_schemes_without_queues_go_by_messages() {
    let folder = scratch("exchanges");
    let program = compile(&root().join("tests/mpi/exchanged.c"), &folder);
    let run = |words: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -v 2000000; exec \"$0\" \"$@\"", HIKYAKU, "run", "-n", "8"]);
        command.args(["--ranks-per-node", "4", "--timeout", "100", "--"]).arg(&program);
        command.args(words).output().unwrap()
    };
    for scheme in ["none", "fast", "mrc", "combined"] {
        for what in ["rounds", "long", "many", "scarce", "memory"] {
            let output = run(&[what, "20", scheme]);
            let said = stdout(&output) + &stderr(&output);
            assert!(output.status.success() && said.is_empty(), "{what} {scheme}: {said}");
        }
    }
    assert_success(&run(&["refused", "2", "combined"]), "refused");
    let said = stderr(&run(&["rounds", "2", "tree"]));
    let line = "`info`: the key hikyaku_exchange: `tree` is no scheme of exchanges: there are fast";
    assert!(said.contains(line) && said.lines().count() == 1, "{said}");
    fs::remove_dir_all(folder).unwrap();
}

/// Runs a program that belongs to no chapter on two ranks.
fn alone(name: &str) {
    alone_as(name, &["run", "-n", "2"]);
}

fn alone_as(name: &str, words: &[&str]) {
    let folder = scratch(name);
    let program = compile(&root().join("tests/mpi").join(name).with_extension("c"), &folder);
    passes_as(&program, words);
    fs::remove_dir_all(folder).unwrap();
}

/// Runs in the long form only, if the machine has enough memory.
#[test]
fn a_message_of_a_derived_type_of_more_than_2_gib() {
    if is_long() && has_memory(5 << 20) {
        alone("huge");
    }
}

/// Whether so many KiB are available.
fn has_memory(needed: u64) -> bool {
    let text = fs::read_to_string("/proc/meminfo").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"));
    let available: u64 = line.unwrap().trim_end_matches("kB").trim().parse().unwrap();
    if available < needed {
        say(&format!("skipped: {available} KiB of memory are available, and {needed} are needed"));
    }
    available >= needed
}

#[test]
fn functions_that_mpi_3_removed() {
    alone("removed");
}

#[test]
fn ranks_that_poll_on_one_processor_give_it_away() {
    // The program binds the ranks to one processor, the first allowed one: the same for all.
    alone_as("polling", &["run", "-n", "3", "--bind", "none"]);
}

#[test]
fn attributes_for_the_fortran_library_of_mpich() {
    alone("fortran_attributes");
}
