//! A neighbour dies: the ranks that wait for it get an error, in every kind of call.

use std::fs;
use std::process::Command;

use crate::support::{HIKYAKU, compile, root, scratch, stderr, stdout};

/// Runs a program in which a rank dies, once with each of these arguments. It prints `said` and
/// ends by itself.
fn ends(name: &str, ranks: &str, words: &[&[&str]], said: &str) {
    let folder = scratch(name);
    let program = compile(&root().join("tests/mpi").join(name).with_extension("c"), &folder);
    for how in words {
        let job = ["run", "-n", ranks, "--timeout", "60", "--grace", "20", "--"];
        let output = Command::new(HIKYAKU).args(job).arg(&program).args(*how).output().unwrap();
        assert_eq!(stdout(&output), said, "{how:?}: {}", stderr(&output));
        assert!(!stderr(&output).contains("timeout"), "{how:?}: {}", stderr(&output));
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_kept_exchange_ends_when_a_neighbour_dies() {
    ends("gone", "2", &[&["wait"], &["test"]], "told\n");
}

/// The copies for the other ranks are kept until they are received.
#[test]
fn a_flush_waits_for_the_living_when_a_receiver_dies() {
    ends("flush", "3", &[&["flush"], &["iflush"], &["detach"]], "told\nwhole\n");
}

#[test]
fn the_receive_of_an_exchange_that_cannot_be_is_abandoned() {
    ends("sendrecv_gone", "3", &[&[]], "told\n");
}
