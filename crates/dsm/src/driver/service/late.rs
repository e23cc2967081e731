//! Letters that have arrived and are handled later, as if their path were longer. For tests.

use std::collections::VecDeque;

use crate::Copyset;

/// A letter that is late.
#[derive(Debug)]
struct LateLetter {
    from: u32,
    message: Vec<u8>,
    /// How many more polls it waits.
    looks: u64,
}

/// All late letters. Letters of one rank stay in order, as on any fabric; those of different ranks
/// do not.
#[derive(Debug, Default)]
pub(super) struct Late {
    letters: VecDeque<LateLetter>,
}

impl Late {
    /// A letter has arrived, and is handled after this many polls at the earliest.
    pub(super) fn push(&mut self, from: u32, message: Vec<u8>, looks: u64) {
        self.letters.push_back(LateLetter { from, message, looks });
    }

    /// One poll: `take` receives the letters that are due, and all letters of ranks that are
    /// `gone`.
    pub(super) fn look(&mut self, gone: impl Fn(u32) -> bool, mut take: impl FnMut(u32, Vec<u8>)) {
        let mut behind = Copyset::default();
        for mut letter in std::mem::take(&mut self.letters) {
            let now = letter.looks == 0 && !behind.contains(letter.from);
            if now || gone(letter.from) {
                take(letter.from, letter.message);
                continue;
            }
            behind.insert(letter.from);
            letter.looks = letter.looks.saturating_sub(1);
            self.letters.push_back(letter);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(late: &mut Late, gone: Option<u32>) -> Vec<(u32, u8)> {
        let mut seen = Vec::new();
        late.look(|from| gone == Some(from), |from, message| seen.push((from, message[0])));
        seen
    }

    #[test]
    fn letters_of_a_rank_stay_in_order_and_others_overtake_them() {
        let mut late = Late::default();
        for (from, message, looks) in [(1, 10, 2), (2, 20, 1), (1, 11, 0), (3, 30, 0), (2, 21, 9)] {
            late.push(from, vec![message], looks);
        }
        assert_eq!(seen(&mut late, None), [(3, 30)]);
        assert_eq!(seen(&mut late, None), [(2, 20)]);
        assert_eq!(seen(&mut late, None), [(1, 10), (1, 11)]);
        assert_eq!(seen(&mut late, Some(1)), []);
        assert_eq!(
            seen(&mut late, Some(2)),
            [(2, 21)],
            "nothing more comes of a rank that is gone"
        );
        assert!(late.letters.is_empty());
    }
}
