//! Words that no tracked file may contain: unfinished work, skipped tests, paths of one machine.
//!
//! Open work belongs in the issue tracker, where it has an owner. The words are written in two
//! halves below, so that this file needs no exception from its own rule.

use crate::{TextFile, Tree, Violation};

/// The files in which a word is searched.
#[derive(PartialEq)]
enum WordScope {
    Everywhere,
    Rust,
}

struct SearchedWord {
    text: &'static str,
    scope: WordScope,
    remedy: &'static str,
}

const fn word(text: &'static str, scope: WordScope, remedy: &'static str) -> SearchedWord {
    SearchedWord { text, scope, remedy }
}

const WORDS: &[SearchedWord] = &[
    word(concat!("TO", "DO"), WordScope::Everywhere, "finish it or file an issue"),
    word(concat!("FIX", "ME"), WordScope::Everywhere, "mend it or file an issue"),
    word(concat!("XX", "X"), WordScope::Everywhere, "finish it or file an issue"),
    word(concat!("to", "do!"), WordScope::Rust, "write the code"),
    word(concat!("unim", "plemented!"), WordScope::Rust, "write the code or return an error"),
    word(concat!("#[ig", "nore"), WordScope::Rust, "mend the test or delete it"),
    word(concat!("assert!(tr", "ue)"), WordScope::Rust, "assert something that can fail"),
    word(concat!("/ro", "ot/"), WordScope::Everywhere, "use a path relative to the workspace"),
    word(concat!("/ho", "me/"), WordScope::Everywhere, "use a path relative to the workspace"),
    word(concat!("/Use", "rs/"), WordScope::Everywhere, "use a path relative to the workspace"),
];

/// Searches every line of every text file.
pub fn check(tree: &Tree) -> Vec<Violation> {
    // Cargo.lock is written by cargo: checksums and names of external crates.
    tree.texts.iter().filter(|file| file.path != "Cargo.lock").flat_map(check_file).collect()
}

fn check_file(file: &TextFile) -> Vec<Violation> {
    let is_rust = file.path.ends_with(".rs");
    let mut found = Vec::new();
    for (at, line) in file.text.lines().enumerate() {
        let searched = WORDS.iter().filter(|word| is_rust || word.scope == WordScope::Everywhere);
        for word in searched.filter(|word| holds(line, word.text)) {
            let what = format!("`{}` in a tracked file", word.text);
            found.push(Violation::new(&file.path, at + 1, what, word.remedy));
        }
    }
    found
}

/// Whether `line` contains `word` as a word: the end of `net/root/x` is another folder's name.
fn holds(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        let joined_after = word.ends_with(char::is_alphanumeric) && after.is_some_and(is_part);
        !before.is_some_and(is_part) && !joined_after
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&Tree::from_samples(&[(path, text)], Vec::new())).len()
    }

    #[test]
    fn every_word_is_found_in_the_files_it_is_searched_in() {
        for word in WORDS {
            let line = format!("// see {} x\n", word.text);
            assert_eq!(count("a.rs", &line), 1, "{}", word.text);
            let elsewhere = usize::from(word.scope == WordScope::Everywhere);
            assert_eq!(count("a.md", &line), elsewhere, "{}", word.text);
        }
    }

    #[test]
    fn a_word_inside_another_is_not_found() {
        let longer = format!("x{} {}x net{}x", WORDS[0].text, WORDS[0].text, WORDS[7].text);
        assert_eq!(count("a.md", &longer), 0);
        assert_eq!(count("Cargo.lock", WORDS[0].text), 0);
    }

    #[test]
    fn the_line_is_named() {
        let tree = Tree::from_samples(&[("a.md", &format!("a\nb {}\n", WORDS[1].text))], vec![]);
        assert_eq!(check(&tree)[0].line, 2);
    }
}
