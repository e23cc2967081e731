//! The choice of mutants: one in `share`, by a hash of the change.
//!
//! The choice depends on a mutant's own file, text and the seed, and on nothing else. So an
//! inserted line, or one more mutant, changes no other choice, and the picks of a small share are
//! among those of a larger one that divides it: 1 in 40 is part of 1 in 10.

use std::collections::BTreeMap;
use std::ops::Range;

use serde::Deserialize;

/// A mutant, as listed by `cargo mutants --list --json`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Mutant {
    /// File from the root of the workspace.
    pub file: String,
    /// `file:line:column: text`, as cargo-mutants writes it.
    pub name: String,
    /// The kind of change.
    pub genre: Genre,
    /// The replaced part.
    pub span: Span,
    /// The replacement.
    pub replacement: String,
}

/// The part of code that a mutant changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Genre {
    /// The result of a function.
    FnValue,
    /// An operator between two values.
    BinaryOperator,
    /// An operator before a value.
    UnaryOperator,
    /// An arm of a match is deleted.
    MatchArm,
    /// The guard of an arm becomes true or false.
    MatchArmGuard,
    /// A field is deleted and takes the value of the base.
    StructField,
    /// A change unknown to this version of cargo-mutants: it is not switched.
    #[serde(other)]
    Other,
}

/// A part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Span {
    /// The first character.
    pub start: Point,
    /// One past the last character.
    pub end: Point,
}

/// A place in a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Point {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl Mutant {
    /// The bytes of its file that it replaces; `source` is the file's text.
    pub(super) fn bytes(&self, source: &str) -> Range<usize> {
        let at = |point: &Point| {
            let before: usize =
                source.split_inclusive('\n').take(point.line - 1).map(str::len).sum();
            let mut columns = source[before..].char_indices().skip(point.column - 1);
            columns.next().map_or(source.len(), |(column, _)| before + column)
        };
        at(&self.span.start)..at(&self.span.end)
    }

    /// The change and its function: the name without the place.
    fn text(&self) -> &str {
        self.name.split_once(": ").map_or(self.name.as_str(), |(_, text)| text)
    }
}

/// A mutant that is to be run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picked<'a> {
    /// The mutant.
    pub mutant: &'a Mutant,
    /// A key that identifies it, independent of its place in the file.
    pub key: String,
}

/// One in `share` of the `mutants`, with another choice for each `seed`.
///
/// Mutants of one file with the same text (two `+` of one function) are distinguished by their
/// order.
pub fn pick(mutants: &[Mutant], share: u64, seed: u64) -> Vec<Picked<'_>> {
    let mut before: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let keyed = mutants.iter().map(|mutant| {
        let twin = before.entry((&mutant.file, mutant.text())).or_default();
        let key = format!("{}\n{}\n{twin}", mutant.file, mutant.text());
        *twin += 1;
        Picked { mutant, key }
    });
    keyed.filter(|picked| hash(seed, picked.key.as_bytes()).is_multiple_of(share)).collect()
}

/// FNV-1a over the seed and the bytes, mixed by the last step of SplitMix64: the remainder depends
/// on the low bits, which FNV alone spreads badly. Rust's own hashers may change with its version,
/// and xtask builds none of the crates that it checks and mutates: so not `mix` of nic's `random`.
fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in seed.to_le_bytes().iter().chain(bytes) {
        hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    hash ^ (hash >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutant(line: usize, text: &str) -> Mutant {
        let file = "crates/nic/src/time.rs".to_string();
        let span = Span { start: Point { line, column: 9 }, end: Point { line, column: 10 } };
        let (name, genre) = (format!("{file}:{line}:9: {text}"), Genre::BinaryOperator);
        Mutant { name, file, genre, span, replacement: "-".to_string() }
    }

    /// `count` mutants, each text twice.
    fn many(count: usize) -> Vec<Mutant> {
        (0..count).map(|i| mutant(i + 1, &format!("replace + with - in f{}", i / 2))).collect()
    }

    fn texts(picked: &[Picked<'_>]) -> Vec<String> {
        picked.iter().map(|picked| picked.mutant.text().to_string()).collect()
    }

    #[test]
    fn the_text_of_a_mutant_has_no_place() {
        assert_eq!(mutant(7, "replace f -> u64 with 0").text(), "replace f -> u64 with 0");
    }

    #[test]
    fn a_span_counts_lines_and_characters() {
        let mutant = mutant(2, "replace + with -");
        assert_eq!(mutant.bytes("a\n\u{e4} + b + c\n"), 11..12);
    }

    #[test]
    fn a_choice_is_known_in_advance() {
        // From another implementation of the same functions, to detect a change of them.
        assert_eq!(hash(1, b"a"), 0xb2a8_1edc_870f_611d);
        let mutants = many(100);
        assert_eq!(pick(&mutants, 10, 1), pick(&mutants, 10, 1));
        assert_ne!(pick(&mutants, 10, 1), pick(&mutants, 10, 2));
    }

    #[test]
    fn about_the_share_asked_for_is_picked() {
        let mutants = many(20_000);
        for (share, seed) in [(1, 1), (10, 1), (10, 2), (40, 1), (7, 9)] {
            let expected = 20_000 / share as usize;
            let picked = pick(&mutants, share, seed).len();
            let off = picked.abs_diff(expected);
            // Six standard deviations of this many draws.
            assert!(off * off <= 36 * expected, "1 in {share}, seed {seed}: {picked}");
        }
    }

    #[test]
    fn both_of_two_equal_texts_can_be_picked() {
        let mutants = many(2_000);
        let picked = texts(&pick(&mutants, 2, 1));
        let both = picked.windows(2).filter(|pair| pair[0] == pair[1]).count();
        assert!((150..350).contains(&both), "{both} of 1000 pairs");
    }

    #[test]
    fn a_smaller_share_is_part_of_a_larger_one() {
        let mutants = many(4_000);
        let larger = pick(&mutants, 10, 3);
        let smaller = pick(&mutants, 40, 3);
        assert!(!smaller.is_empty());
        assert!(smaller.iter().all(|picked| larger.contains(picked)));
    }

    #[test]
    fn an_inserted_mutant_moves_no_other() {
        let before = many(2_000);
        let mut after: Vec<Mutant> = Vec::new();
        for (i, old) in before.iter().enumerate() {
            if i == 700 {
                after.push(mutant(i + 1, "replace g with ()"));
            }
            // Every line below the insertion has moved.
            after.push(mutant(i + 1 + usize::from(i >= 700), old.text()));
        }
        let mut now = texts(&pick(&after, 10, 1));
        now.retain(|text| text != "replace g with ()");
        assert_eq!(now, texts(&pick(&before, 10, 1)));
    }
}
