//! The same collective in every form and language, bit for bit: the ranks' contributions, a digest
//! of the result, and the table `tests/jobs/bits.txt` of calls and their digests.
//!
//! [`values`] and [`digest`] exist in C and in Python too: they use only arithmetic of 64-bit
//! words, which is the same everywhere.

use std::collections::BTreeMap;
use std::fs;

use hikyaku_nic::random::{GOLDEN, mix};

/// The table.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/bits.txt");

/// The first word of the table's lines of digests.
const DIGESTS: &str = "bits";

/// The word for a place of a rank.
fn word(rank: u32, place: usize) -> u64 {
    (u64::from(rank) << 40).wrapping_add(place as u64 + 1).wrapping_mul(GOLDEN)
}

/// A rank's contribution: 53 bits of either sign times 2^-32 to 2^31, so that another order of
/// additions gives another sum.
pub fn values(rank: u32, length: usize) -> Vec<f64> {
    let value = |place| {
        let word = mix(word(rank, place));
        let mantissa = (word >> 11) as i64 - (1 << 52);
        mantissa as f64 * f64::from_bits((1023 - 32 + (word & 63)) << 52)
    };
    (0..length).map(value).collect()
}

/// A digest of a rank's part of a result. Those of all ranks are added up.
pub fn digest(rank: u32, result: &[f64]) -> u64 {
    let digest = |(place, value): (usize, &f64)| mix(value.to_bits() ^ word(rank, place));
    result.iter().enumerate().map(digest).fold(0, u64::wrapping_add)
}

/// The ranks of a job, and of each of its nodes (0: all are on one).
pub type Shape = (u32, u32);

/// Digests by operation and form: one for each length.
pub type Digests = BTreeMap<(String, String), Vec<u64>>;

/// The calls, the shapes of their jobs, and their digests.
#[derive(Debug, Default)]
pub struct Table {
    /// Elements of a rank.
    pub lengths: Vec<String>,
    /// Operations, and the forms of each.
    pub operations: Vec<(String, Vec<String>)>,
    /// The digests of each operation, for each length.
    pub digests: BTreeMap<(Shape, String), Vec<u64>>,
}

impl Table {
    /// Reads it.
    pub fn read() -> Table {
        let mut table = Table::default();
        for line in fs::read_to_string(FILE).unwrap().lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            let shape = |ranks: &str, per_node: &str| -> Shape {
                (ranks.parse().unwrap(), per_node.parse().unwrap())
            };
            match words[..] {
                [] | ["#", ..] => {}
                ["lengths", ref lengths @ ..] => table.lengths = owned(lengths),
                ["operation", name, ref forms @ ..] => {
                    table.operations.push((name.to_owned(), owned(forms)));
                }
                [DIGESTS, ranks, per_node, name, ref digests @ ..] => {
                    let digests = digests.iter().map(|word| number(word).unwrap()).collect();
                    table.digests.insert((shape(ranks, per_node), name.to_owned()), digests);
                }
                _ => panic!("{FILE}: {line}"),
            }
        }
        table
    }

    /// Rewrites the lines of digests.
    pub fn write(&self) {
        let text = fs::read_to_string(FILE).unwrap();
        let others = text.lines().filter(|line| !line.starts_with(DIGESTS));
        let mut lines: Vec<String> = others.map(str::to_owned).collect();
        for (((ranks, per_node), name), digests) in &self.digests {
            let digests: Vec<String> = digests.iter().map(|word| format!("{word:016x}")).collect();
            lines.push(format!("{DIGESTS} {ranks} {per_node} {name} {}", digests.join(" ")));
        }
        fs::write(FILE, lines.join("\n") + "\n").unwrap();
    }

    /// The digests that a job has written in lines of form, operation, length and digest, added up
    /// over its ranks. Other lines are skipped.
    pub fn sums(&self, output: &str) -> Digests {
        let mut sums = Digests::new();
        for line in output.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [form, operation, length, digest] = words[..] else { continue };
            let Some(at) = self.lengths.iter().position(|it| it == length) else { continue };
            let key = (operation.to_owned(), form.to_owned());
            let sums = sums.entry(key).or_insert_with(|| vec![0; self.lengths.len()]);
            sums[at] = sums[at].wrapping_add(number(digest).unwrap());
        }
        sums
    }
}

fn number(word: &str) -> Option<u64> {
    u64::from_str_radix(word, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise the digests would show nothing.
    #[test]
    fn another_order_of_additions_is_another_digest() {
        let ranks: Vec<Vec<f64>> = (0..3).map(|rank| values(rank, 8)).collect();
        let add = |left: &[f64], right: &[f64]| -> Vec<f64> {
            left.iter().zip(right).map(|(left, right)| left + right).collect()
        };
        let one = add(&add(&ranks[0], &ranks[1]), &ranks[2]);
        let mut other = add(&ranks[0], &add(&ranks[1], &ranks[2]));
        assert_ne!(digest(0, &one), digest(0, &other));
        assert_ne!(digest(0, &one), digest(1, &one));
        other.clone_from(&one);
        other.swap(2, 5);
        assert_ne!(digest(0, &one), digest(0, &other));
    }
}
