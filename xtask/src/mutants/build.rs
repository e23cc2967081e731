//! Cargo's output for a changed copy: errors, and test programs.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::switch::Place;

/// A test program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// Folder of its package, in which it runs.
    pub(super) folder: PathBuf,
    /// Folder and name, which identify it.
    pub(super) name: String,
    /// The file to run.
    pub(super) path: PathBuf,
}

/// An error of the compiler.
#[derive(Debug, Deserialize)]
pub(super) struct Fault {
    /// Its message.
    pub(super) message: String,
    code: Option<Code>,
    level: String,
    spans: Vec<FaultSpan>,
}

#[derive(Debug, Deserialize)]
struct Code {
    code: String,
}

#[derive(Debug, Deserialize)]
struct FaultSpan {
    file_name: String,
    byte_start: usize,
    byte_end: usize,
    is_primary: bool,
}

/// A line that cargo writes with `--message-format=json`.
#[derive(Deserialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
enum Line {
    CompilerMessage {
        message: Fault,
    },
    CompilerArtifact {
        manifest_path: PathBuf,
        target: Target,
        profile: Profile,
        executable: Option<PathBuf>,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// The errors with a position in cargo's output: the last one of a crate only counts the others.
pub(super) fn faults(output: &str) -> Vec<Fault> {
    let faults = lines(output).filter_map(|line| match line {
        Line::CompilerMessage { message } => Some(message),
        _ => None,
    });
    faults.filter(|fault| fault.level == "error" && !fault.spans.is_empty()).collect()
}

/// The test programs in cargo's output.
pub(super) fn programs(output: &str) -> Vec<Program> {
    let programs = lines(output).filter_map(|line| match line {
        Line::CompilerArtifact {
            manifest_path,
            target,
            profile: Profile { test: true },
            executable: Some(path),
        } => {
            let folder = manifest_path.parent().unwrap_or(Path::new("/")).to_path_buf();
            let package = folder.file_name().unwrap_or_default().to_string_lossy();
            let kind = target.kind.first().map_or("", String::as_str);
            let name = format!("{package}/{kind}/{}", target.name);
            Some(Program { folder, name, path })
        }
        _ => None,
    });
    programs.collect()
}

/// The messages in cargo's output. Other lines are output of a build script.
fn lines(output: &str) -> impl Iterator<Item = Line> {
    output.lines().filter_map(|line| serde_json::from_str(line).ok())
}

/// The number of the mutant that causes an error; `places` has the mutants of each file.
///
/// Most errors name bytes that the mutant has added. A missing arm is an error of the match, so the
/// next deleted arm is blamed. For other errors the last mutant before the error is blamed, because
/// a type that cannot be inferred is named where it is used.
pub(super) fn blame(fault: &Fault, places: &BTreeMap<&str, Vec<Place>>) -> Option<usize> {
    let mut spans: Vec<&FaultSpan> = fault.spans.iter().collect();
    spans.sort_by_key(|span| !span.is_primary);
    let meets = |bytes: &Range<usize>, span: &FaultSpan| {
        bytes.start <= span.byte_end && span.byte_start <= bytes.end
    };
    for span in &spans {
        let here = places.get(span.file_name.as_str()).into_iter().flatten();
        // Of two, the one that begins last is the inner one.
        let met = here.filter(|place| meets(&place.bytes, span)).max_by_key(|p| p.bytes.start);
        if let Some(place) = met {
            return Some(place.number);
        }
    }
    let span = spans.first()?;
    let here = places.get(span.file_name.as_str())?;
    let is_match = fault.code.as_ref().is_some_and(|code| code.code == "E0004");
    let arms = here.iter().filter(|place| place.is_arm && place.bytes.start >= span.byte_start);
    let arm = arms.min_by_key(|place| place.bytes.start).filter(|_| is_match);
    let before = here.iter().filter(|place| place.bytes.start <= span.byte_start);
    arm.or(before.max_by_key(|place| place.bytes.start)).map(|place| place.number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fault(code: &str, spans: &[(usize, usize, bool)]) -> Fault {
        let spans = spans.iter().map(|&(byte_start, byte_end, is_primary)| FaultSpan {
            file_name: "a.rs".to_string(),
            byte_start,
            byte_end,
            is_primary,
        });
        let (message, level) = ("mismatched types".to_string(), "error".to_string());
        let code = Some(Code { code: code.to_string() });
        Fault { message, code, level, spans: spans.collect() }
    }

    #[test]
    fn an_error_is_that_of_the_mutant_it_names() {
        let place = |number, is_arm, bytes| Place { number, is_arm, bytes };
        let here = vec![
            place(1, false, 10..20),
            place(2, false, 30..40),
            place(3, true, 70..80),
            place(4, true, 90..95),
        ];
        let places = BTreeMap::from([("a.rs", here)]);
        for (fault, expected) in [
            (fault("E0308", &[(12, 13, true)]), Some(1)),
            // The branches of a choice have different types: the second span is that of the mutant.
            (fault("E0308", &[(45, 46, true), (32, 38, false)]), Some(2)),
            (fault("E0282", &[(50, 51, true)]), Some(2)),
            (fault("E0004", &[(60, 61, true)]), Some(3)),
            (fault("E0004", &[(82, 83, true)]), Some(4)),
            (fault("E0308", &[(5, 6, true)]), None),
        ] {
            assert_eq!(blame(&fault, &places), expected, "{fault:?}");
        }
    }

    #[test]
    fn errors_and_programs_are_read_from_lines() {
        let span = json!({ "file_name": "a.rs", "byte_start": 1, "byte_end": 2,
            "is_primary": true, "line_start": 1 });
        let message = |level: &str, spans: &[serde_json::Value]| {
            let message = json!({ "message": "no", "code": null, "level": level, "spans": spans });
            json!({ "reason": "compiler-message", "message": message }).to_string()
        };
        let artifact = |test: bool, executable: Option<&str>| {
            json!({ "reason": "compiler-artifact", "manifest_path": "/w/crates/dsm/Cargo.toml",
                "target": { "name": "explore", "kind": ["test"] }, "profile": { "test": test },
                "executable": executable })
            .to_string()
        };
        let output = [
            "printed by a build script".to_string(),
            message("error", std::slice::from_ref(&span)),
            message("error", &[]),
            message("warning", &[span]),
            artifact(true, Some("/t/explore")),
            artifact(false, Some("/t/bin")),
            artifact(true, None),
            json!({ "reason": "build-finished", "success": true }).to_string(),
        ]
        .join("\n");
        assert_eq!(faults(&output).len(), 1);
        let expected = Program {
            folder: PathBuf::from("/w/crates/dsm"),
            name: "dsm/test/explore".to_string(),
            path: PathBuf::from("/t/explore"),
        };
        assert_eq!(programs(&output), [expected]);
    }
}
