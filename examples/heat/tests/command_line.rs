//! The program as a person meets it: what it prints, what it writes, how it ends.
//!
//! Started without a launcher it is a world of one rank, which runs the same code as
//! rank 0 of many.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use heat::field::Field;
use heat::files::{PNG_MAGIC, decode_npy, encode_npy};

/// A directory of its own for each test. Those of all packages lie in one folder.
fn directory(name: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("heat-{name}"));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

fn heat(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heat")).args(arguments).output().unwrap()
}

/// The complaint of a run with bad input: exit code 2, one line, nothing else.
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
    let text = "pattern = \"disc\"\nsize = [33, 21]\nsteps = 120\nboundary = \"insulated\"\n";
    fs::write(&config, text).unwrap();
    let (config, out) = (config.to_str().unwrap(), place.join("out"));
    let report = place.join("pages/report.html");
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
    let line = "check: field is bitwise equal to the serial program's (693 cells)";
    assert!(text.lines().any(|said| said == line), "{text}");
    assert!(progress.lines().filter(|line| line.contains(" of 120 steps")).count() == 10);
    let field = decode_npy(&fs::read(out.join("final.npy")).unwrap()).unwrap();
    assert_eq!(field.size, [33, 21, 1]);
    assert!(fs::read(out.join("final.png")).unwrap().starts_with(PNG_MAGIC));
    let page = fs::read_to_string(report).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.contains("bitwise equal"));
}

#[test]
fn steps_can_be_given() {
    let place = directory("steps");
    let config = place.join("small.toml");
    let text = "initial = \"in.npy\"\nsteps = 1000000\nboundary = \"fixed\"\ndt = 0.25\n";
    fs::write(&config, text).unwrap();
    let mut spot = Field::filled([3, 3, 1], 0.0);
    spot.cells[4] = 8.0;
    fs::write(place.join("in.npy"), encode_npy(&spot)).unwrap();
    let out = place.join("out");
    let arguments = [config.to_str().unwrap(), "--steps", "1", "--output"];
    let output = heat(&[&arguments[..], &[out.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(0));
    let field = decode_npy(&fs::read(out.join("final.npy")).unwrap()).unwrap();
    assert_eq!(field.cells, [0.0, 2.0, 0.0, 2.0, 0.0, 2.0, 0.0, 2.0, 0.0]);
}

#[test]
fn bad_command_lines_are_answered_in_one_line() {
    assert!(refusal(&[]).contains("<CONFIG>"));
    assert!(refusal(&["a.toml", "--colour"]).contains("'--colour'"));
    assert!(refusal(&["a.toml", "--steps", "many"]).contains("'many'"));
    assert!(refusal(&["a.toml", "--steps", "0"]).contains("'0'"));
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
    let rest = "steps = 5\nboundary = \"fixed\"\n";
    let with = |lines: &str| format!("pattern = \"disc\"\nsize = [8, 8]\n{rest}{lines}\n");
    assert!(refusal(&["absent.toml"]).contains("absent.toml: cannot be read: No such file"));
    assert!(refused("a.toml", "[[[").contains("a.toml: line 1: "));
    assert!(refused("b.toml", &with("colour = 1")).contains("unknown field `colour`"));
    assert!(refused("c.toml", &with("alpha = -1.0")).contains("c.toml: alpha: "));
    assert!(refused("d.toml", &with("dt = 0.3")).contains("1/(4 alpha) = 0.25 s"));
    let sized = |size: &str| format!("pattern = \"disc\"\nsize = {size}\n{rest}");
    assert!(refused("e.toml", &sized("[0, 8]")).contains("e.toml: size: "));
    assert!(refused("f.toml", &sized("[99999999, 99999999]")).contains("f.toml: size: "));
    let file = |name: &str| format!("initial = \"{name}\"\n{rest}");
    assert!(refused("g.toml", &file("none.png")).contains("none.png: cannot be read: No such"));
    fs::write(place.join("cut.png"), PNG_MAGIC).unwrap();
    assert!(refused("h.toml", &file("cut.png")).contains("cut.png: the PNG is truncated"));
    let hot =
        encode_npy(&Field::from_fn([2, 2, 1], |[x, y, _]| if x < y { f64::NAN } else { 0.0 }));
    fs::write(place.join("hot.npy"), hot).unwrap();
    let said = refused("k.toml", &file("hot.npy"));
    assert!(said.contains("hot.npy: row 1, column 0 is NaN: no temperature"), "{said}");
    let mut array = encode_npy(&Field::filled([4, 4, 1], 1.0));
    array.pop();
    fs::write(place.join("cut.npy"), array).unwrap();
    assert!(Command::new("mkfifo").arg(place.join("pipe")).status().unwrap().success());
    assert!(refused("j.toml", &file("pipe")).contains("pipe: cannot be read: it is not a regular"));
    let pipe = place.join("pipe");
    assert!(refusal(&[pipe.to_str().unwrap()]).contains("it is not a regular file"));
    assert!(
        refused("i.toml", &file("cut.npy"))
            .contains("cut.npy: 127 bytes of numbers were found, not 128")
    );
}

#[test]
fn results_that_cannot_be_written_are_told_before_computing() {
    let place = directory("blocked");
    let config = place.join("small.toml");
    let text = "pattern = \"disc\"\nsize = [8, 8]\nsteps = 5\nboundary = \"fixed\"\n";
    fs::write(&config, text).unwrap();
    fs::write(place.join("file"), "").unwrap();
    let blocked = place.join("file/out");
    let line = refusal(&[config.to_str().unwrap(), "--output", blocked.to_str().unwrap()]);
    assert!(line.contains("file/out: cannot be made a directory"), "{line}");
}
