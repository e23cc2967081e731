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
