//! Our structures against the headers of libfabric, by a C program that prints its view of them.

#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::process::Command;
use std::{env, fs};

use hikyaku_ofi::sys::layout;

/// A C program that prints the value of each expression on a line.
fn program(expressions: &[(String, u64)]) -> String {
    let mut text = String::from(
        "#include <stdio.h>\n#include <stddef.h>\n#include <rdma/fabric.h>\n\
         #include <rdma/fi_domain.h>\n#include <rdma/fi_endpoint.h>\n#include <rdma/fi_cm.h>\n\
         #include <rdma/fi_rma.h>\n#include <rdma/fi_tagged.h>\n#include <rdma/fi_atomic.h>\n\
         #include <rdma/fi_errno.h>\nint main(void) {\n",
    );
    for (expression, _) in expressions {
        writeln!(text, "printf(\"%llu\\n\", (unsigned long long)({expression}));").unwrap();
    }
    text + "return 0;\n}\n"
}

#[test]
fn structures_are_those_of_the_headers() {
    let folder = env::temp_dir().join(format!("hikyaku-layout-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    let expressions = layout();
    fs::write(&source, "#include <rdma/fi_atomic.h>\n").unwrap();
    let there = Command::new("cc").arg("-fsyntax-only").arg(&source).output();
    if !there.is_ok_and(|output| output.status.success()) {
        fs::remove_dir_all(&folder).unwrap();
        eprintln!("skipped: no headers of libfabric; install them: apt-get install libfabric-dev");
        return;
    }
    fs::write(&source, program(&expressions)).unwrap();
    let built = Command::new("cc").arg(&source).arg("-o").arg(&binary).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let output = Command::new(&binary).output().unwrap();
    fs::remove_dir_all(&folder).unwrap();

    let printed = String::from_utf8(output.stdout).unwrap();
    let seen: Vec<u64> = printed.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(seen.len(), expressions.len());
    for ((expression, ours), theirs) in expressions.iter().zip(seen) {
        // Later headers may have longer structures; fields before their end must not move.
        let grown = expression.starts_with("sizeof") && theirs > *ours;
        assert!(grown || theirs == *ours, "{expression} is {theirs} in C and {ours} here");
    }
    assert!(expressions.len() > 150, "the list has not lost its rows");
}
