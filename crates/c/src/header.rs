//! Compares `include/hikyaku.h`, which is written by hand, with the library: each function's
//! arguments and result, each constant's value, each structure's fields.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

const HEADER: &str = include_str!("../include/hikyaku.h");

/// The chapters of the functions.
const SOURCES: [&str; 3] =
    [include_str!("api/world.rs"), include_str!("api/message.rs"), include_str!("api/shared.rs")];

/// The header without comments, as words separated by one space.
fn plain_header() -> String {
    let mut text = String::new();
    for (at, piece) in HEADER.split("/*").enumerate() {
        let code = if at == 0 { piece } else { piece.split_once("*/").unwrap().1 };
        text.push_str(code);
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// All texts between `from` and the next `to`.
fn between<'t>(text: &'t str, from: &str, to: &str) -> Vec<&'t str> {
    let pieces = text.split(from).skip(1);
    pieces.map(|piece| piece.split_once(to).unwrap().0.trim()).collect()
}

/// The C type of an argument, with a space at its end unless it ends with a star.
fn c_type(rust: &str, argument: &str) -> &'static str {
    match (rust, argument) {
        ("TextPointer<'_>", _) => "const char *",
        ("DataPointer<'_>", "shape") => "const uint64_t *",
        ("DataPointer<'_>", _) => "const void *",
        ("Room<'_>", "origin" | "shape") => "uint64_t *",
        ("Room<'_>", _) => "void *",
        ("InPointer<'_, VariableOptions>", _) => "const hikyaku_options *",
        ("OutPointer<'_, SharedName>", _) => "hikyaku_shared *",
        ("OutPointer<'_, Received>", _) => "hikyaku_received *",
        ("OutPointer<'_, Marked>", _) => "hikyaku_mark *",
        ("OutPointer<'_, *mut c_void>", _) => "void **",
        ("OutPointer<'_, *const c_void>", _) => "const void **",
        ("OutPointer<'_, usize>", _) => "size_t *",
        ("OutPointer<'_, u64>", _) => "uint64_t *",
        ("SharedName", _) => "hikyaku_shared ",
        ("c_int", _) => "int ",
        ("*const c_char", _) => "const char *",
        ("usize", _) => "size_t ",
        ("u64", _) => "uint64_t ",
        ("i64", _) => "int64_t ",
        _ => panic!("no type of C for `{argument}: {rust}`"),
    }
}

/// The C declaration of a Rust signature.
fn declaration(signature: &str) -> String {
    let (name, rest) = signature.split_once('(').unwrap();
    let (arguments, result) = rest.rsplit_once(") -> ").unwrap();
    // A comma and a space separate arguments, but occur within `OutPointer<'_, u64>` too.
    let arguments = arguments.replace("<'_, ", "<'_,");
    let arguments = arguments.split(", ").map(str::trim).filter(|argument| !argument.is_empty());
    let arguments = arguments.map(|argument| {
        let (name, rust) = argument.trim_end_matches(',').split_once(": ").unwrap();
        let rust = rust.replace("<'_,", "<'_, ");
        format!("{}{name}", c_type(&rust, name))
    });
    let arguments = arguments.collect::<Vec<_>>().join(", ");
    let arguments = if arguments.is_empty() { "void".to_owned() } else { arguments };
    format!("{}{name}({arguments});", c_type(result, "result"))
}

#[test]
fn every_function_is_declared_as_it_is_and_no_other_is() {
    let header = plain_header();
    let mut known = 0;
    for source in SOURCES {
        let words = source.split_whitespace().collect::<Vec<_>>().join(" ").replace("( ", "(");
        for signature in between(&words, "extern \"C\" fn ", " {") {
            let expected = declaration(signature);
            assert!(header.contains(&expected), "hikyaku.h does not declare\n{expected}");
            known += 1;
        }
    }
    assert!(known > 20);
    assert_eq!(header.matches(");").count(), known, "hikyaku.h declares more than there is");
}

#[test]
fn every_constant_has_its_value() {
    let header = plain_header();
    let mut found = BTreeMap::new();
    for pair in header.split(['{', '}', ',']).filter_map(|pair| pair.trim().split_once(" = ")) {
        let value: i64 = pair.1.parse().unwrap();
        assert_eq!(found.insert(pair.0, value), None, "{} is there twice", pair.0);
    }
    let codes = crate::failure::CONSTANTS.into_iter().chain(crate::api::constants());
    for (name, value) in codes {
        assert_eq!(found.remove(name), Some(value), "{name}");
    }
    assert!(found.is_empty(), "hikyaku.h has more: {found:?}");
}

#[test]
fn every_structure_has_its_fields() {
    let header = plain_header();
    let expected = [
        ("hikyaku_shared", "uint64_t number;"),
        ("hikyaku_options", "uint64_t rows; uint64_t columns; uint64_t flags;"),
        ("hikyaku_mark", "int what; int victim;"),
        ("hikyaku_received", "int source; int tag; size_t count;"),
    ];
    for (name, fields) in expected {
        let expected = format!("typedef struct {name} {{ {fields} }} {name};");
        assert!(header.contains(&expected), "hikyaku.h does not have\n{expected}");
    }
    assert_eq!(header.matches("typedef struct").count(), expected.len());
    // `repr(C)` structures of these sizes have the same fields in the same order.
    assert_eq!(crate::api::sizes(), [8, 24, 8, 16]);
}
