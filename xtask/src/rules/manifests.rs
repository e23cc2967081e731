//! Every member uses the workspace's lints, has a description, and has its examples tested.
//!
//! A crate without `[lints] workspace = true` compiles silently without any of the lints that the
//! others follow, and cargo does not warn about it.
//!
//! `doctest = false` below `[lib]` saves a start of rustdoc, which reads the whole crate and finds
//! no example. A library sets it if and only if it has no example: cargo would not compile one.

use crate::{Tree, Violation, WorkspaceMember};

/// A shorter description says no more than the crate's name.
const SHORTEST_DESCRIPTION: usize = 20;

/// Checks the manifest of every member.
pub fn check(tree: &Tree) -> Vec<Violation> {
    tree.members.iter().flat_map(|member| check_member(tree, member)).collect()
}

fn check_member(tree: &Tree, member: &WorkspaceMember) -> Vec<Violation> {
    let path = format!("{}/Cargo.toml", member.folder);
    let text = tree.text(&path).unwrap_or_default();
    let mut found = Vec::new();
    if !takes_workspace_lints(text) {
        found.push(Violation::new(
            &path,
            1,
            "the workspace's lints are not taken",
            "add `[lints]` with `workspace = true`",
        ));
    }
    let description = member.description.as_deref().unwrap_or_default();
    let is_filler = description.to_lowercase().contains("placeholder");
    if is_filler || description.chars().count() < SHORTEST_DESCRIPTION {
        let line = text.lines().position(|line| line.starts_with("description"));
        found.push(Violation::new(
            &path,
            line.map_or(1, |at| at + 1),
            format!("the description \"{description}\" does not say what the crate is"),
            "write one sentence",
        ));
    }
    found.extend(check_examples(tree, member, text));
    found
}

/// Checks that cargo looks for examples in the library if and only if there is one.
fn check_examples(tree: &Tree, member: &WorkspaceMember, manifest: &str) -> Option<Violation> {
    let sources = format!("{}/src/", member.folder);
    tree.text(&format!("{sources}lib.rs"))?;
    let of_library = |path: &str| {
        let file = path.strip_prefix(&sources).unwrap_or("main.rs");
        file.ends_with(".rs") && file != "main.rs" && !file.starts_with("bin/")
    };
    let example = (tree.texts.iter().filter(|file| of_library(&file.path)))
        .find_map(|file| Some((&file.path, first_example(&file.text)?)));
    match (example, looks_for_examples(manifest)) {
        (Some((path, line)), false) => Some(Violation::new(
            path,
            line,
            "no test compiles this example",
            format!("take `doctest = false` out of {}/Cargo.toml, or write ```text", member.folder),
        )),
        (None, true) => Some(Violation::new(
            format!("{}/Cargo.toml", member.folder),
            1,
            "cargo looks for examples in comments, and there is none",
            "add `[lib]` with `doctest = false`",
        )),
        _ => None,
    }
}

fn looks_for_examples(manifest: &str) -> bool {
    let table: Option<toml::Table> = manifest.parse().ok();
    let said = table.as_ref().and_then(|table| table.get("lib")?.get("doctest")?.as_bool());
    said != Some(false)
}

/// The line of the first code block in a doc comment that rustdoc treats as Rust.
fn first_example(text: &str) -> Option<usize> {
    let mut is_inside = false;
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        let comment = line.strip_prefix("///").or_else(|| line.strip_prefix("//!"));
        let fence = comment.and_then(|comment| comment.trim_start().strip_prefix("```"));
        match fence {
            Some(words) if !is_inside && is_rust(words) => return Some(at + 1),
            Some(_) => is_inside = !is_inside,
            None => is_inside &= comment.is_some(),
        }
    }
    None
}

/// Whether no word after the fence names another language. rustdoc's chapter *Attributes* of
/// documentation tests lists the words that do not.
fn is_rust(words: &str) -> bool {
    let is_known = |word: &str| {
        ["", "rust", "no_run", "should_panic", "compile_fail", "ignore"].contains(&word)
            || ["edition", "ignore-", "standalone"].iter().any(|start| word.starts_with(start))
    };
    words.split([' ', ',']).all(is_known)
}

fn takes_workspace_lints(manifest: &str) -> bool {
    let table: Option<toml::Table> = manifest.parse().ok();
    let lints = table.as_ref().and_then(|table| table.get("lints")?.get("workspace")?.as_bool());
    lints == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(manifest: &str, description: Option<&str>) -> Vec<(usize, String)> {
        let member = WorkspaceMember {
            name: "hikyaku-nic".into(),
            folder: "crates/nic".into(),
            description: description.map(Into::into),
            dependencies: Vec::new(),
        };
        let tree = Tree::from_samples(&[("crates/nic/Cargo.toml", manifest)], vec![member]);
        check(&tree).into_iter().map(|violation| (violation.line, violation.what)).collect()
    }

    const GOOD: &str = "[package]\ndescription = \"...\"\n[lints]\nworkspace = true\n";

    #[test]
    fn lints_and_a_sentence_pass() {
        assert_eq!(check_one(GOOD, Some("The network interface of hikyaku")), []);
    }

    #[test]
    fn missing_or_own_lints_are_reported() {
        let sentence = Some("The network interface of hikyaku");
        for manifest in
            ["", "[lints]\nworkspace = false\n", "[lints.rust]\nunsafe_code = \"deny\"\n"]
        {
            let found = check_one(manifest, sentence);
            assert_eq!(found.len(), 1, "{manifest}");
            assert!(found[0].1.contains("lints"));
        }
    }

    /// The violations of a crate with this table `[lib]` and this file in `src`.
    fn check_comments(library: &str, file: &str, text: &str) -> Vec<String> {
        let manifest = format!("{GOOD}[lib]\n{library}");
        let member = WorkspaceMember {
            name: "hikyaku-nic".into(),
            folder: "crates/nic".into(),
            description: Some("The network interface of hikyaku".into()),
            dependencies: Vec::new(),
        };
        let path = format!("crates/nic/src/{file}");
        let samples =
            [("crates/nic/Cargo.toml", &*manifest), ("crates/nic/src/lib.rs", ""), (&path, text)];
        let found = check(&Tree::from_samples(&samples, vec![member]));
        found.iter().map(|found| format!("{}:{}", found.path, found.line)).collect()
    }

    #[test]
    fn an_example_is_tested_and_no_test_is_looked_for_in_vain() {
        let fence = "```";
        let example = format!("//! A ring.\n\n    /// {fence}no_run\n    /// x\n    /// {fence}");
        let drawing = format!("//! {fence}text\n//! a -> b\n//! {fence}\n//! Words.\n");
        let both = format!("{drawing}//! {fence}\n//! x\n//! {fence}\n");
        let (without, with) = ("doctest = false", "");
        let manifest = ["crates/nic/Cargo.toml:1"];
        assert_eq!(check_comments(without, "ring.rs", &example), ["crates/nic/src/ring.rs:3"]);
        assert_eq!(check_comments(without, "ring.rs", &both), ["crates/nic/src/ring.rs:5"]);
        assert_eq!(check_comments(without, "ring.rs", &drawing), [""; 0]);
        assert_eq!(check_comments(with, "ring.rs", &example), [""; 0]);
        assert_eq!(check_comments(with, "ring.rs", &drawing), manifest);
        // cargo looks into libraries only.
        for file in ["main.rs", "bin/ring.rs"] {
            assert_eq!(check_comments(without, file, &example), [""; 0]);
            assert_eq!(check_comments(with, file, &example), manifest);
        }
    }

    #[test]
    fn words_behind_a_fence_name_the_language() {
        for words in ["", "rust", "no_run", "rust,ignore", "edition2024 should_panic"] {
            assert!(is_rust(words), "{words}");
        }
        for words in ["text", "c", "console", "toml", "no_run,python"] {
            assert!(!is_rust(words), "{words}");
        }
    }

    #[test]
    fn a_description_that_says_nothing_is_reported_at_its_line() {
        for description in [None, Some(""), Some("nic"), Some("placeholder, to be written soon")] {
            let found = check_one(GOOD, description);
            assert_eq!(found.len(), 1, "{description:?}");
            assert_eq!(found[0].0, 2);
        }
    }
}
