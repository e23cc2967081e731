//! Unsafe code is in named files, each block with its proof.
//!
//! Clippy requires a `SAFETY` comment too; this rule adds *where* unsafe code may be at all, checks
//! macro bodies, and accepts no proof for two blocks.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, TokenStream, TokenTree};

use crate::rules::covers;
use crate::{RustFile, Tree, Violation};

/// Files, or folders ending in `/`, that may hold unsafe code, with the purpose.
const ALLOWED: &[(&str, &str)] = &[
    ("crates/nic/src/ring/", "slots of rings are written by peers through shared memory"),
    ("crates/nic/src/segment.rs", "views of a memory segment as atomics and bytes"),
    ("crates/nic/src/region.rs", "buffers in memory that peers reach"),
    ("crates/nic/src/sync.rs", "the processor's clock and prefetch"),
    ("crates/nic/src/hosted/host.rs", "the promise that a host keeps its memory where it is"),
    ("crates/nic/src/hosted/mod.rs", "a port keeps views of its host's memory"),
    ("crates/nic/src/loopback.rs", "the memory of a job within one process"),
    ("crates/nic/tests/hostile.rs", "a host whose memory a hostile peer scribbles on"),
    ("crates/nic/tests/hostile_regions.rs", "the same with regions and a registry"),
    ("crates/nic/tests/loom.rs", "cells that threads of a model share"),
    ("crates/nic/tests/loom_joint.rs", "pages that both ends of a model copy"),
    ("crates/nic/tests/loom_lines.rs", "areas that members of a model share"),
    ("crates/nic/tests/loom_queue.rs", "the log that runners of a model share"),
    ("crates/nic/tests/loom_route.rs", "a ring that goes from one sender of a model to another"),
    ("crates/nic/tests/loom_table.rs", "memory that a model opens and takes back"),
    ("crates/nic/tests/loom_threads.rs", "what threads of a model touch under their gate"),
    ("crates/shm/src/fork.rs", "a handler that runs in the child of every fork"),
    ("crates/shm/src/conducted/interface.rs", "the promise of nic's Host, by its second type"),
    ("crates/shm/src/heap.rs", "an allocator, and the library that is preloaded to ask it"),
    ("crates/heap/src/lib.rs", "functions that programs call in place of the C library's"),
    ("crates/shm/src/host.rs", "the promise of nic's Host"),
    ("crates/shm/src/mapping.rs", "the job's memory as references"),
    ("crates/shm/src/view.rs", "words of a view"),
    ("crates/shm/src/kernel_copy.rs", "reading and writing another process's memory"),
    ("crates/rank/src/launchers/pmix/sys.rs", "libpmix's structures and calls, opened at run time"),
    ("crates/ofi/src/sys/", "libfabric's structures and calls, opened at run time"),
    ("crates/sim/tests/memory.rs", "an allocator that counts what a rank costs"),
    ("crates/msg/src/buffer.rs", "a user's buffer, kept while a request is in flight"),
    ("crates/msg/src/engine/lend.rs", "a user's buffer, kept for the time of one call"),
    ("crates/rank/src/copies.rs", "a rank that libraries of one process share"),
    ("crates/dsm/src/driver/contents.rs", "a copy that ranks of a node share, as a slice"),
    ("crates/dsm/src/driver/direct.rs", "the bytes of a part that are fetched"),
    ("crates/dsm/src/driver/service/side.rs", "contents that are sent, and put into the copy"),
    ("crates/world/src/scope/mod.rs", "borrowed buffers, kept while a scope is open"),
    ("crates/world/src/shared/guard.rs", "the slice of a part that is held"),
    ("crates/launch/src/spawn.rs", "what a rank sets up between fork and exec"),
    ("crates/mpi/src/datatype/copy.rs", "blocks of a datatype in the memory of a C program"),
    ("crates/mpi/tests/datatype_allocations.rs", "an allocator that counts what packing takes"),
    ("crates/bench/src/hardware.rs", "a place that two threads write to in turns"),
    ("crates/c/src/api/", "functions that C links with by their names"),
    ("crates/c/src/pointer.rs", "arguments of C that are pointers"),
    ("crates/mpi/src/raw.rs", "arguments of C that are pointers"),
    ("crates/mpi/src/callbacks.rs", "functions of the program, which came as addresses"),
    ("crates/mpi/src/runtime.rs", "the state of a process whose threads take turns"),
    ("crates/mpi/src/long_double.rs", "instructions of the x87 unit"),
    ("crates/mpi-mpich/src/extra.rs", "statuses and attributes that a program points to"),
    ("crates/python/src/array.rs", "memory of Python objects as bytes"),
    ("crates/python/src/memory.rs", "memory of a job, shown to Python as a buffer"),
    ("crates/python/src/shown.rs", "the beginning of numpy's arrays, and who else has one"),
    ("crates/python/src/wait.rs", "what is done while other threads have the interpreter"),
    ("tests/jobs/src/bin/cable.rs", "a network device that a program makes"),
    ("tests/jobs/src/bin/rank/forked.rs", "a rank that forks and waits for its child"),
    ("tests/jobs/src/bin/rank/protected.rs", "a rank that writes where it may not"),
    ("crates/python/src/window.rs", "a window kept beside the world that it is of"),
];

/// Lines of code that may be between a proof and its block: the statement it is part of.
const REACH: usize = 6;

/// Looks for the word `unsafe` in every Rust file.
pub fn check(tree: &Tree) -> Vec<Violation> {
    check_with(tree, ALLOWED)
}

fn check_with(tree: &Tree, allowed: &[(&str, &str)]) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut used = BTreeSet::new();
    for file in &tree.rust {
        let mut uses = Vec::new();
        collect(file.tokens.clone(), &mut uses);
        if uses.is_empty() {
            continue;
        }
        match allowed.iter().find(|(pattern, _)| covers(pattern, &file.path)) {
            Some((pattern, _)) => {
                used.insert(*pattern);
            }
            None => found.push(Violation::new(
                &file.path,
                uses[0].line,
                "unsafe code in a file that is not named for it",
                "use a safe interface, or name the file in xtask/src/rules/unsafety.rs and say why",
            )),
        }
        check_proofs(file, &uses, &mut found);
    }
    for (pattern, _) in allowed.iter().filter(|(pattern, _)| !used.contains(pattern)) {
        found.push(Violation::new(
            "xtask/src/rules/unsafety.rs",
            1,
            format!("`{pattern}` is named for unsafe code and holds none"),
            "delete the entry",
        ));
    }
    found
}

/// One `unsafe` keyword.
struct UnsafeUse {
    line: usize,
    /// Whether it claims something that has to be proven: a block or an `unsafe impl`. An unsafe
    /// function or trait states an obligation instead (`# Safety`), an attribute links.
    needs_proof: bool,
}

fn collect(stream: TokenStream, uses: &mut Vec<UnsafeUse>) {
    let mut tokens = stream.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(word) if word == "unsafe" => {
                let needs_proof = match tokens.peek() {
                    Some(TokenTree::Group(group)) => group.delimiter() == Delimiter::Brace,
                    Some(TokenTree::Ident(next)) => next == "impl",
                    _ => false,
                };
                uses.push(UnsafeUse { line: word.span().start().line, needs_proof });
            }
            TokenTree::Group(group) => collect(group.stream(), uses),
            _ => {}
        }
    }
}

fn check_proofs(file: &RustFile, uses: &[UnsafeUse], found: &mut Vec<Violation>) {
    let lines: Vec<&str> = file.text.lines().collect();
    let used: BTreeSet<usize> = uses.iter().map(|use_| use_.line).collect();
    for line in uses.iter().filter(|use_| use_.needs_proof).map(|use_| use_.line) {
        if !is_proven(&lines, line, &used) {
            found.push(Violation::new(
                &file.path,
                line,
                "unsafe without a proof",
                "write a `// SAFETY:` comment above it that says why it holds",
            ));
        }
    }
}

/// Looks upward from the block for its proof. Comment lines cost nothing, so a long proof is
/// found; another unsafe line ends the search, so a proof serves one block.
fn is_proven(lines: &[&str], line: usize, used: &BTreeSet<usize>) -> bool {
    let mut code_lines = 0;
    for above in (1..line).rev() {
        let text = lines[above - 1].trim_start();
        if text.starts_with("// SAFETY:") {
            return true;
        }
        if !text.starts_with("//") {
            code_lines += 1;
        }
        if code_lines > REACH || used.contains(&above) {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[(&str, &str)] = &[("crates/nic/src/ring/", "a reason")];
    const INSIDE: &str = "crates/nic/src/ring/slot.rs";

    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let tree = Tree::from_samples(&[(path, text)], Vec::new());
        check_with(&tree, TABLE).into_iter().map(|v| (v.line, v.what)).collect()
    }

    #[test]
    fn a_proven_block_in_a_named_file_passes() {
        let text = "fn f(p: *const u8) -> u8 {\n    // SAFETY: p is valid,\n    // see new.\n    \
                    let x =\n        unsafe { *p };\n    x\n}\n// SAFETY: no state.\n\
                    unsafe impl Send for S {}\n/// # Safety\nunsafe fn g() {}\n";
        assert_eq!(found(INSIDE, text), []);
    }

    #[test]
    fn a_block_without_a_proof_of_its_own_is_reported() {
        let none = "fn f(p: *const u8) -> u8 {\n    unsafe { *p }\n}\n";
        assert_eq!(found(INSIDE, none), [(2, "unsafe without a proof".into())]);
        let shared = "// SAFETY: p is valid.\nfn f(p: *const u8) {\n    unsafe { *p };\n    \
                      unsafe { *p };\n}\n";
        assert_eq!(found(INSIDE, shared), [(4, "unsafe without a proof".into())]);
        let far = format!(
            "// SAFETY: no state.\n{}unsafe impl Send for S {{}}\n",
            "fn f() {}\n".repeat(7)
        );
        assert_eq!(found(INSIDE, &far), [(9, "unsafe without a proof".into())]);
    }

    #[test]
    fn unsafe_elsewhere_is_reported_even_in_a_macro() {
        let text = "//! A.\nfn f() {\n    // SAFETY: a proof does not help.\n    \
                    println!(\"{}\", unsafe { g() });\n}\n";
        let found = found("crates/cli/src/main.rs", text);
        assert_eq!(found[0], (4, "unsafe code in a file that is not named for it".into()));
    }

    #[test]
    fn the_word_in_a_comment_a_string_or_a_lint_is_not_unsafe_code() {
        let text = "#![forbid(unsafe_code)]\n// unsafe\nconst S: &str = \"unsafe { }\";\n";
        assert_eq!(found("crates/cli/src/main.rs", text).len(), 1);
        assert!(found("crates/cli/src/main.rs", text)[0].1.contains("holds none"));
    }

    #[test]
    fn every_entry_of_the_table_has_a_reason() {
        let is_ours = |path: &str| path.starts_with("crates/") || path.starts_with("tests/");
        assert!(ALLOWED.iter().all(|(path, why)| is_ours(path) && why.len() > 10));
    }
}
