//! A neighbour dies: who waits for it is told, in whichever way.

use std::fs;
use std::process::Command;

use crate::support::{HIKYAKU, compile, root, scratch, stderr, stdout};

#[test]
fn a_kept_exchange_ends_when_a_neighbour_dies() {
    let folder = scratch("gone");
    let program = compile(&root().join("tests/mpi/gone.c"), &folder);
    for how in ["wait", "test"] {
        let words = ["run", "-n", "2", "--timeout", "60", "--grace", "20", "--"];
        let output = Command::new(HIKYAKU).args(words).arg(&program).arg(how).output().unwrap();
        assert_eq!(stdout(&output), "told\n", "{how}: {}", stderr(&output));
        assert!(!stderr(&output).contains("timeout"), "{how}: {}", stderr(&output));
    }
    fs::remove_dir_all(folder).unwrap();
}

/// The copies that other ranks have not received stay until they have.
#[test]
fn a_flush_waits_for_the_living_when_a_receiver_dies() {
    let folder = scratch("flush");
    let program = compile(&root().join("tests/mpi/flush.c"), &folder);
    for how in ["flush", "iflush", "detach"] {
        let words = ["run", "-n", "3", "--timeout", "60", "--grace", "20", "--"];
        let output = Command::new(HIKYAKU).args(words).arg(&program).arg(how).output().unwrap();
        assert_eq!(stdout(&output), "told\nwhole\n", "{how}: {}", stderr(&output));
        assert!(!stderr(&output).contains("timeout"), "{how}: {}", stderr(&output));
    }
    fs::remove_dir_all(folder).unwrap();
}

#[test]
fn the_receive_of_an_exchange_that_cannot_be_is_given_up() {
    let folder = scratch("sendrecv");
    let program = compile(&root().join("tests/mpi/sendrecv_gone.c"), &folder);
    let words = ["run", "-n", "3", "--timeout", "60", "--grace", "20", "--"];
    let output = Command::new(HIKYAKU).args(words).arg(&program).output().unwrap();
    assert_eq!(stdout(&output), "told\n", "{}", stderr(&output));
    assert!(!stderr(&output).contains("timeout"), "{}", stderr(&output));
    fs::remove_dir_all(folder).unwrap();
}
