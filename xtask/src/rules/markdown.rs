//! Links in Markdown files lead somewhere, and every Markdown file has a title.
//!
//! Only links inside the repository are followed: to a tracked file or folder, and to a heading if
//! there is a `#fragment`, by GitHub's rule for anchors of headings. Fenced code and code spans are
//! not prose and are skipped.

use std::collections::BTreeSet;

use crate::{TextFile, Tree, Violation};

/// Checks every `*.md`.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let is_markdown = |file: &&TextFile| file.path.ends_with(".md");
    tree.texts.iter().filter(is_markdown).flat_map(|file| check_file(tree, file)).collect()
}

fn check_file(tree: &Tree, file: &TextFile) -> Vec<Violation> {
    let mut found = Vec::new();
    if !file.text.lines().any(|line| line.starts_with("# ")) {
        found.push(Violation::new(&file.path, 1, "no title", "open it with a `# heading`"));
    }
    for (line, text) in prose(&file.text) {
        for target in targets(&text) {
            if let Err(what) = follow(tree, file, &target) {
                found.push(Violation::new(&file.path, line, what, "mend the link"));
            }
        }
    }
    found
}

/// Checks that `target`, written in `file`, exists.
fn follow(tree: &Tree, file: &TextFile, target: &str) -> Result<(), String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(());
    }
    let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
    let resolved =
        if path.is_empty() { Some(file.path.clone()) } else { resolve(&file.path, path) };
    let Some(resolved) = resolved.filter(|path| tree.exists(path)) else {
        return Err(format!("link to `{target}`, which is not in the repository"));
    };
    let Some(text) = tree.text(&resolved).filter(|_| resolved.ends_with(".md")) else {
        return Ok(());
    };
    if fragment.is_empty() || anchors(text).contains(fragment) {
        Ok(())
    } else {
        Err(format!("link to `{target}`, but `{resolved}` has no such heading"))
    }
}

/// The path `relative` seen from the file at `from`; `None` if it leaves the repository.
fn resolve(from: &str, relative: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// Lines outside fenced code, with their numbers, code spans blanked.
fn prose(text: &str) -> Vec<(usize, String)> {
    let mut fenced = false;
    let mut lines = Vec::new();
    for (at, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            let outside_code = line.split('`').step_by(2).collect::<Vec<_>>().join("``");
            lines.push((at + 1, outside_code));
        }
    }
    lines
}

/// Targets of inline links and images, of reference definitions and of HTML attributes.
fn targets(line: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut after = |opening: &str, closing: &[char]| {
        for (at, _) in line.match_indices(opening) {
            let rest = &line[at + opening.len()..];
            let end = rest.find(closing).unwrap_or(rest.len());
            found.push(rest[..end].trim_matches(['<', '>']).to_string());
        }
    };
    after("](", &[')', ' ']);
    after("src=\"", &['"']);
    after("href=\"", &['"']);
    if line.starts_with('[') {
        after("]: ", &[' ']);
    }
    found
}

/// The fragments that lead to the headings of `text`, numbered where headings repeat.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines().filter(|line| line.starts_with('#')) {
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        });
        let anchor: String = kept.collect();
        let mut numbered = anchor.clone();
        let mut repetition = 0;
        while !found.insert(numbered) {
            repetition += 1;
            numbered = format!("{anchor}-{repetition}");
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(usize, String)> {
        let tree = Tree::from_samples(
            &[
                ("README.md", "# Read me\n## How fast, and why?\n## Again\n## Again\n"),
                ("docs/a.md", text),
                ("docs/heat.png", ""),
            ],
            Vec::new(),
        );
        check(&tree).into_iter().map(|violation| (violation.line, violation.what)).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "# A\n[r](../README.md) ![p](heat.png \"title\") [d](../docs) [w](https://x.y)\n\
                    [h](../README.md#how-fast-and-why) [s](#a) [g](../README.md#again-1)\n\
                    <img src=\"heat.png\">\n[ref]: ../README.md\n`[code](none.md)`\n\
                    ```\n[fenced](none.md)\n```\n";
        assert_eq!(found(text), []);
    }

    #[test]
    fn a_link_to_nothing_is_reported_at_its_line() {
        let lead_nowhere = [
            "[r](README.md)",
            "![p](cold.png)",
            "[h](../README.md#how-slow)",
            "[s](#b)",
            "[out](../../README.md)",
            "<img src=\"cold.png\">",
            "[ref]: none.md",
        ];
        for link in lead_nowhere {
            let found = found(&format!("# A\n\n{link}\n"));
            assert_eq!(found.len(), 1, "{link}: {found:?}");
            assert_eq!(found[0].0, 3);
        }
    }

    #[test]
    fn a_file_without_a_title_is_reported() {
        assert_eq!(found("text\n"), [(1, "no title".into())]);
    }
}
