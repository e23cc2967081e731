//! The pure crates read no clock, environment, file, socket or random source and start no thread.
//!
//! So one implementation of a protocol can run on shared memory, on a cluster and in virtual time,
//! and a failing test can be replayed. Atomics of the network interface go through one door,
//! `nic/src/sync.rs`, so that loom can replace them; a second door would be a part of the interface
//! that no model sees. (Clippy cannot check this: its lists use the type that a path resolves to,
//! and the door's own re-exports resolve to the forbidden type.)
//!
//! Tests are exempt: they may use threads. Items under `#[cfg(test)]` and the folders `tests/` and
//! `benches/` of a crate are tests.

use crate::{RustFile, Tree, Violation};

/// Crates whose code is a function of its input.
const PURE_CRATES: &[&str] = &["nic", "sim", "msg", "coll", "dsm", "report"];

/// Folders of theirs that are not pure: there the values meet memory, messages and time.
const HOSTS: &[&str] = &["crates/dsm/src/driver/"];

/// Names that none of them may use.
const FORBIDDEN: &[&str] = &[
    "std::env",
    "std::fs",
    "std::net",
    "std::os",
    "std::process",
    "std::thread",
    "std::time::Instant",
    "std::time::SystemTime",
    "std::collections::hash_map::RandomState",
    "std::hash::RandomState",
    // Other crates that give access to the same things.
    "fastrand",
    "getrandom",
    "libc",
    "rand",
    "rustix",
    "hikyaku_rank",
];

/// Names that the network interface may use in its door only.
const BEHIND_THE_DOOR: &[&str] = &["std::sync::atomic", "core::sync::atomic", "loom"];

/// A file that may use names which its crate may not.
struct PurityException {
    path: &'static str,
    may_name: &'static [&'static str],
}

/// The door itself: atomics, and the yielding of a spinning thread, from std or from loom.
const DOOR: PurityException = PurityException {
    path: "crates/nic/src/sync.rs",
    may_name: &["std::sync::atomic", "core::sync::atomic", "loom", "std::thread"],
};

const EXCEPTIONS: &[PurityException] = &[DOOR];

/// Checks every path that the product code of the pure crates names.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let mut found = Vec::new();
    for file in &tree.rust {
        let Some(name) = pure_crate(&file.path) else { continue };
        check_file(file, name, &mut found);
    }
    found
}

fn check_file(file: &RustFile, name: &str, found: &mut Vec<Violation>) {
    let door: &[&str] = if name == "nic" { BEHIND_THE_DOOR } else { &[] };
    let excused =
        EXCEPTIONS.iter().find(|e| e.path == file.path).map_or(&[] as &[&str], |e| e.may_name);
    for path in file.paths() {
        let forbidden = FORBIDDEN.iter().chain(door).find(|forbidden| path.reaches(forbidden));
        let Some(forbidden) = forbidden else { continue };
        if excused.contains(forbidden) || file.is_test_line(path.line) {
            continue;
        }
        let written = path.segments.join("::");
        let remedy = if name == "nic" && DOOR.may_name.contains(forbidden) {
            "take it from crate::sync, where loom can replace it"
        } else if written.len() < forbidden.len() {
            "import the item itself, so that the rule can see which it is"
        } else {
            "take it as an argument from the crate that hosts this one"
        };
        found.push(Violation::new(
            &file.path,
            path.line,
            format!("`{written}` in `{name}`, which may not name `{forbidden}`"),
            remedy,
        ));
    }
}

/// The pure crate to whose sources `path` belongs.
fn pure_crate(path: &str) -> Option<&'static str> {
    let (name, _) = path.strip_prefix("crates/")?.split_once("/src/")?;
    if HOSTS.iter().any(|host| path.starts_with(host)) {
        return None;
    }
    PURE_CRATES.iter().copied().find(|pure| *pure == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let tree = Tree::from_samples(&[(path, text)], Vec::new());
        check(&tree).iter().map(|violation| violation.line).collect()
    }

    #[test]
    fn pure_code_passes() {
        let text = "use std::collections::BTreeMap;\nuse std::time::Duration;\n\
                    use std::sync::Arc;\nuse crate::sync::AtomicU64;\nfn f(time: u64) {}\n";
        assert_eq!(lines("crates/nic/src/ring/slot.rs", text), [0usize; 0]);
    }

    #[test]
    fn the_outside_world_is_reported_wherever_it_is_named() {
        let text = "use std::{collections::BTreeMap, fs};\nuse std::time::Instant;\n\
                    fn f() { std::thread::yield_now() }\n\
                    fn g() { assert!(std::env::var(\"A\").is_ok()) }\n\
                    fn h(a: &std::process::Command) -> u8 { rand::random() }\nuse std::time;\n";
        for name in PURE_CRATES {
            assert_eq!(lines(&format!("crates/{name}/src/a.rs"), text), [1, 2, 3, 4, 5, 5, 6]);
        }
        assert_eq!(lines("crates/shm/src/a.rs", text), [0usize; 0]);
    }

    #[test]
    fn the_host_of_pure_values_is_exempt_and_they_do_not_name_what_it_stands_on() {
        let text = "use std::net::UdpSocket;\nuse hikyaku_rank::Communicator;\n";
        assert_eq!(lines("crates/dsm/src/driver/service/sockets.rs", text), [0usize; 0]);
        assert_eq!(lines("crates/dsm/src/protocol/direct/mod.rs", text), [1, 2]);
    }

    #[test]
    fn tests_of_pure_crates_are_exempt() {
        let text = "#[cfg(test)]\nmod tests {\n    use std::thread;\n}\n";
        assert_eq!(lines("crates/nic/src/a.rs", text), [0usize; 0]);
        assert_eq!(
            lines("crates/nic/tests/loom.rs", "use std::sync::atomic::AtomicU8;"),
            [0usize; 0]
        );
    }

    #[test]
    fn atomics_of_the_interface_have_one_door() {
        let text = "use std::sync::atomic::AtomicU32;\nuse loom::thread;\n";
        assert_eq!(lines("crates/nic/src/ring/slot.rs", text), [1, 2]);
        assert_eq!(lines("crates/nic/src/sync.rs", text), [0usize; 0]);
        assert_eq!(lines("crates/nic/src/sync.rs", "use std::fs;"), [1]);
        assert_eq!(lines("crates/msg/src/a.rs", text), [0usize; 0]);
    }
}
