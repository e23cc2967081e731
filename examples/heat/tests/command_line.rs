//! The program as a user sees it: its output, its files, its exit codes.
//!
//! Started without a launcher it is a world of one rank, which runs the same code as
//! rank 0 of many.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::process::{Command, Output};

use crate::{PNG_MAGIC, directory};

fn heat(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heat")).args(arguments).output().unwrap()
}

/// The error line of a run with bad input: exit code 2, one line, nothing else.
fn refusal(arguments: &[&str]) -> String {
    let output = heat(arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(text.starts_with("heat: ") && text.ends_with('\n'), "{text}");
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(output.stdout.is_empty());
    text
}

#[test]
fn a_run_writes_its_results_and_checks_them() {
    let place = directory("run");
    let config = place.join("small.toml");
    let text = "size = [33, 21]\nsteps = 120\n";
    fs::write(&config, text).unwrap();
    let (config, out) = (config.to_str().unwrap(), place.join("out"));
    let report = place.join("report.html");
    let output = heat(&[
        config,
        "--check",
        "--output",
        out.to_str().unwrap(),
        "--report",
        report.to_str().unwrap(),
    ]);
    let text = String::from_utf8(output.stdout).unwrap();
    let progress = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(0), "{text}{progress}");
    let line = "check: field is bitwise equal to the serial program's (120 steps)";
    assert!(text.lines().any(|said| said == line), "{text}");
    assert!(progress.lines().filter(|line| line.contains(" of 120 steps")).count() == 10);
    let field = fs::read(out.join("final.npy")).unwrap();
    assert_eq!(field.len(), 128 + 33 * 21 * 8);
    assert!(fs::read(out.join("final.png")).unwrap().starts_with(PNG_MAGIC));
    let page = fs::read_to_string(report).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("bitwise equal"));
}

#[test]
fn bad_command_lines_are_answered_in_one_line() {
    assert!(refusal(&[]).contains("<CONFIG>"));
    assert!(refusal(&["a.toml", "--colour"]).contains("'--colour'"));
    assert!(refusal(&["a.toml", "--exchange", "many"]).contains("'many'"));
    assert!(refusal(&["a.toml", "b.toml"]).contains("'b.toml'"));
    let help = heat(&["--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(String::from_utf8(help.stdout).unwrap().contains("--report"));
}

#[test]
fn bad_input_is_answered_in_one_line_that_names_it() {
    let place = directory("bad");
    let out = place.join("out");
    let refused = |file: &str, text: &str| {
        fs::write(place.join(file), text).unwrap();
        let path = place.join(file);
        let line = refusal(&[path.to_str().unwrap(), "--output", out.to_str().unwrap()]);
        assert!(!out.exists(), "nothing is made for a run that does not happen");
        line
    };
    assert!(refusal(&["absent.toml"]).contains("absent.toml: cannot be read: No such file"));
    assert!(refused("a.toml", "[[[").contains("a.toml: line 1: "));
    assert!(refused("b.toml", "colour = 1").contains("b.toml: line 1: unknown field `colour`"));
    assert!(refused("c.toml", "size = [8, 8]\nalpha = -1.0").contains("c.toml: dt: "));
    assert!(refused("d.toml", "size = [99999999, 99999999]").contains("d.toml: size: "));
    let file = |name: &str| format!("initial = \"{name}\"");
    assert!(refused("e.toml", &file("none.png")).contains("none.png: cannot be read: No such"));
    fs::write(place.join("cut.png"), PNG_MAGIC).unwrap();
    assert!(refused("f.toml", &file("cut.png")).contains("cut.png: the PNG cannot be read: "));
    assert!(Command::new("mkfifo").arg(place.join("pipe")).status().unwrap().success());
    assert!(refused("g.toml", &file("pipe")).contains("pipe: cannot be read: it is not a regular"));
    let pipe = place.join("pipe");
    assert!(refusal(&[pipe.to_str().unwrap()]).contains("it is not a regular file"));
}

#[test]
fn results_that_cannot_be_written_are_told_before_computing() {
    let place = directory("blocked");
    let config = place.join("small.toml");
    let text = "size = [8, 8]\nsteps = 5\n";
    fs::write(&config, text).unwrap();
    fs::write(place.join("file"), "").unwrap();
    let blocked = place.join("file/out");
    let line = refusal(&[config.to_str().unwrap(), "--output", blocked.to_str().unwrap()]);
    assert!(line.contains("file/out: cannot be made a directory"), "{line}");
}
