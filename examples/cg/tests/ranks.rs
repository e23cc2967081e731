//! The program on several ranks: the same solution on any number, and bad input ends the whole job
//! in one line.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hikyaku_jobs::own;

const MESH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/mesh.mtx");

/// A separate directory for each test. Those of all packages are in one folder.
fn directory(name: &str) -> PathBuf {
    own::directory(env!("CARGO_TARGET_TMPDIR"), &format!("cg-{name}"))
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[test]
fn any_number_of_ranks_solves_the_mesh() {
    let place = directory("mesh");
    for ranks in [1, 2, 3, 5, 8] {
        let page = place.join(format!("{ranks}.html"));
        let exchanges = "blocking,nonblocking,persistent";
        let arguments = [MESH, "--check", "--exchange", exchanges, "--report", text(&page)];
        let (code, said, complaints) = own::run(ranks, &arguments);
        assert_eq!((code, complaints.as_str()), (0, ""), "{ranks} ranks: {said}");
        for exchange in exchanges.split(',') {
            let line = format!("cg: 651 rows, 4255 entries on {ranks} ranks, {exchange}: ");
            assert!(said.contains(&line), "{said}");
        }
        assert_eq!(said.matches("agrees with the serial solver's").count(), 3, "{said}");
        assert!(fs::read_to_string(page).unwrap().contains("agrees with the serial"));
    }
}

#[test]
fn more_ranks_than_rows_and_rows_without_neighbours() {
    let place = directory("small");
    let file = place.join("diagonal.mtx");
    let banner = "%%MatrixMarket matrix coordinate real symmetric";
    fs::write(&file, format!("{banner}\n3 3 4\n1 1 2\n2 2 3\n3 3 5\n3 1 1\n")).unwrap();
    let (code, said, complaints) = own::run(6, &[text(&file), "--check"]);
    assert_eq!((code, complaints.as_str()), (0, ""), "{said}");
    assert!(said.contains("agrees with the serial solver's"), "{said}");
}

/// A named pipe without a writer.
fn pipe(place: &Path) -> PathBuf {
    let path = place.join("pipe.mtx");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

#[test]
fn what_cannot_be_solved_is_said_once() {
    let place = directory("bad");
    let banner = "%%MatrixMarket matrix coordinate real symmetric\n";
    let file = |name: &str, lines: &str| {
        let path = place.join(name);
        fs::write(&path, format!("{banner}{lines}")).unwrap();
        path
    };
    for (path, line) in [
        (place.join("absent.mtx"), "absent.mtx: cannot be read: No such file"),
        (pipe(&place), "pipe.mtx: cannot be read: it is not a regular file"),
        (file("cut.mtx", "2 2 3\n1 1 1\n"), "cut.mtx: the file ends after 1 of 3 entries"),
        (file("word.mtx", "1 1 1\n1 1 one\n"), "word.mtx: line 3: one is no finite number"),
        (file("saddle.mtx", "2 2 2\n1 1 1\n2 2 -1\n"), "the matrix is not positive definite"),
    ] {
        for ranks in [1, 3] {
            let (code, _, complaints) = own::run(ranks, &[text(&path)]);
            assert_eq!(code, 2, "{complaints}");
            assert_eq!(complaints.lines().count(), 1, "{complaints}");
            assert!(complaints.starts_with("cg: ") && complaints.contains(line), "{complaints}");
        }
    }
    let (code, _, complaints) = own::run(2, &[MESH, "--tolerance", "2"]);
    assert_eq!((code, complaints.lines().count()), (2, 1), "{complaints}");
    let (code, _, complaints) = own::run(2, &[MESH, "--iterations", "3"]);
    assert_eq!(code, 1);
    assert!(complaints.contains("it has not converged to 1e-10"), "{complaints}");
}

/// The same program in virtual time, on a simulated machine: the same answer.
#[test]
fn in_virtual_time_the_solution_is_the_same() {
    for ranks in [1, 4] {
        let (code, said, complaints) = own::run_in_virtual_time(ranks, &[MESH, "--check"]);
        assert_eq!((code, complaints.as_str()), (0, ""), "{ranks} ranks: {said}");
        assert!(said.contains("agrees with the serial solver's"), "{said}");
    }
}
