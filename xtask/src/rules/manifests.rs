//! Every member takes the workspace's lints and says what it is.
//!
//! A crate without `[lints] workspace = true` compiles in silence under none of the lints that the
//! others are held to, and cargo does not warn about it.

use crate::{Tree, Violation, WorkspaceMember};

/// A shorter description says no more than the crate's name does.
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
    found
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

    #[test]
    fn a_description_that_says_nothing_is_reported_at_its_line() {
        for description in [None, Some(""), Some("nic"), Some("placeholder, to be written soon")] {
            let found = check_one(GOOD, description);
            assert_eq!(found.len(), 1, "{description:?}");
            assert_eq!(found[0].0, 2);
        }
    }
}
