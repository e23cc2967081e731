//! The contents of messages: a receiver can compute every byte by itself.
//!
//! A message is named by a key that both sides make from what they agree on (sender, receiver,
//! sequence number). Its words follow from key and place, so a message that is cut, shifted, mixed
//! with another or delivered twice differs somewhere.

use crate::Random;

/// The key of a message, from the numbers that name it.
pub fn key(seed: u64, names: &[u64]) -> u64 {
    names.iter().fold(seed, |key, name| Random::new(key ^ name.rotate_left(32)).draw())
}

/// Fills `into` with the message of this key.
pub fn fill(key: u64, into: &mut [u8]) {
    let mut word = Random::new(key).draw();
    let (words, rest) = into.as_chunks_mut::<8>();
    for place in words {
        *place = word.to_le_bytes();
        word = following(word);
    }
    rest.copy_from_slice(&word.to_le_bytes()[..rest.len()]);
}

/// The message of this key.
pub fn message(key: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    fill(key, &mut bytes);
    bytes
}

/// The first place at which `bytes` differs from the message of this key; `None`: they are equal.
pub fn first_difference(key: u64, bytes: &[u8]) -> Option<usize> {
    let mut word = Random::new(key).draw();
    let (words, rest) = bytes.as_chunks::<8>();
    let differs = |found: &[u8; 8]| {
        let expected = word.to_le_bytes();
        word = following(word);
        *found != expected
    };
    let place = words.iter().position(differs);
    let has_other_rest = rest != &word.to_le_bytes()[..rest.len()];
    place.or(has_other_rest.then_some(words.len())).map(|at| at * 8)
}

/// Asserts that `bytes` is the message of this key.
#[track_caller]
pub fn check(key: u64, bytes: &[u8]) {
    let (difference, length) = (first_difference(key, bytes), bytes.len());
    assert_eq!(difference, None, "content differs, first in the word at byte, of {length} bytes");
}

/// Cheap enough for gigabytes: an odd multiplier and an odd step run through all 2^64 words.
fn following(word: u64) -> u64 {
    word.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_damage_is_seen() {
        let key = key(7, &[1, 2]);
        for length in [0, 1, 8, 9, 1000] {
            let message = message(key, length);
            assert_eq!(first_difference(key, &message), None);
            for at in (0..length).step_by(7) {
                let mut damaged = message.clone();
                damaged[at] ^= 1;
                assert_eq!(first_difference(key, &damaged), Some(at / 8 * 8));
            }
        }
        assert_eq!(first_difference(key, &message(key, 100)[8..]), Some(0));
        assert_eq!(first_difference(key + 1, &message(key, 100)), Some(0));
    }
}
