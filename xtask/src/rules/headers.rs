//! Every Rust file opens with its purpose: a `//!` comment of at least one full sentence.
//!
//! `missing_docs` requires this only of public modules of libraries; private modules, tests and
//! binaries are read just as often.

use crate::{Tree, Violation};

/// Fewer words are a title and not a sentence.
const FEWEST_WORDS: usize = 4;

/// Checks the first paragraph of every Rust file.
pub fn check(tree: &Tree) -> Vec<Violation> {
    let remedy = "open it with `//!` and a sentence on what it is and why it exists";
    let faulty = tree.rust.iter().filter_map(|file| Some((file, fault(&file.text)?)));
    faulty.map(|(file, what)| Violation::new(&file.path, 1, what, remedy)).collect()
}

fn fault(text: &str) -> Option<&'static str> {
    let paragraph: Vec<&str> = text
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(str::trim)
        .take_while(|line| !line.is_empty())
        .collect();
    let paragraph = paragraph.join(" ");
    if paragraph.is_empty() {
        return Some("the file does not open with a module comment");
    }
    let is_sentence = paragraph.split_whitespace().count() >= FEWEST_WORDS
        && paragraph.contains(['.', ':', '!', '?']);
    (!is_sentence).then_some("the module comment does not open with a full sentence")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> usize {
        check(&Tree::from_samples(&[("a.rs", text)], Vec::new())).len()
    }

    #[test]
    fn a_sentence_passes_on_one_line_or_two() {
        assert_eq!(faults("//! The landing ring of a receiver.\n\nfn f() {}\n"), 0);
        assert_eq!(faults("//! The landing ring of a receiver, which\n//! peers fill.\n"), 0);
    }

    #[test]
    fn no_comment_a_late_one_an_empty_one_or_a_title_are_reported() {
        assert_eq!(faults("fn f() {}\n"), 1);
        assert_eq!(faults("\n//! The landing ring of a receiver.\n"), 1);
        assert_eq!(faults("//!\n//! The landing ring of a receiver.\n"), 1);
        assert_eq!(faults("//! Landing ring.\n"), 1);
        assert_eq!(faults("//! the landing ring of a receiver\n"), 1);
        assert_eq!(faults("// The landing ring of a receiver.\n"), 1);
    }
}
