//! Collectives of MPI give the same bits as in Rust, in every form, in real and in virtual time:
//! the table `tests/jobs/bits.txt`.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use hikyaku_jobs::bits::Table;

use crate::support::{HIKYAKU, assert_success, compile, is_long, root, scratch, stdout};

/// The forms, by their names in the table.
const FORMS: [&str; 3] = ["blocking", "started", "persistent"];

#[test]
fn collectives_give_the_bits_that_they_give_in_rust() {
    let folder = scratch("bits");
    let program = compile(&root().join("tests/mpi/bits.c"), &folder);
    let table = Table::read();
    let of_mpi = table.operations.iter().filter(|(_, forms)| forms.iter().any(|it| it == "mpi"));
    let names: Vec<&str> = of_mpi.map(|(name, _)| name.as_str()).collect();
    let words = [names.join(","), table.lengths.join(",")];
    let shapes: BTreeSet<_> = table.digests.keys().map(|(shape, _)| *shape).collect();
    for (ranks, per_node) in shapes {
        let on_one = if per_node == 0 { ranks } else { per_node };
        let of_nodes = ["-n", &ranks.to_string(), "--ranks-per-node", &on_one.to_string()];
        let ways = [&["run", "--timeout", "100"][..], &["simulate", "-m", "cenju4"]];
        // In virtual time, the short form of the test runs every shape of three ranks only.
        let count = if is_long() || ranks == 3 { 2 } else { 1 };
        for way in &ways[..count] {
            let mut command = Command::new(HIKYAKU);
            command.args(*way).args(of_nodes).arg("--").arg(&program).args(&words);
            let output = command.output().unwrap();
            assert_success(&output, "hikyaku");
            let given = table.sums(&stdout(&output));
            assert_eq!(given.len(), names.len() * FORMS.len(), "{way:?}");
            for ((name, form), digests) in given {
                let expected = &table.digests[&((ranks, per_node), name.clone())];
                let is_right = digests == *expected;
                assert!(is_right, "{way:?} {of_nodes:?}: {name}, {form}: {digests:x?}");
            }
        }
    }
    fs::remove_dir_all(folder).unwrap();
}
