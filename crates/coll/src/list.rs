//! The list in front of a contribution by lines: the length of each of its parts.
//!
//! ```text
//!   | 0 | end of part 0 | … | end of part n - 1 | part 0 | … | part n - 1 |
//! ```
//!
//! An entry has four bytes. There is no list if the parts would then begin in the middle of a word.
//! Ends are counted from the end of the list.

use std::any::Any;

use hikyaku_nic::ring::LINE_BYTES;

/// Bytes of an entry.
const ENTRY: usize = 4;

/// The maximum number of ranks whose parts have lists: each rank reads all of them.
pub(crate) const MOST_LISTED: usize = 27;

// There is always room for a line.
const _: () = assert!(bytes_of(MOST_LISTED) <= LINE_BYTES);

/// The value of each entry if the parts are too long and do not follow.
const TOO_LONG: u32 = u32::MAX;

/// Bytes of the list of `parts` parts.
pub(crate) const fn bytes_of(parts: usize) -> usize {
    ((parts + 1) * ENTRY).next_multiple_of(size_of::<u64>())
}

/// Writes a list of parts with these ends.
pub(crate) fn write<B: 'static>(list: &mut [B], ends: impl Iterator<Item = usize>) {
    for (entry, end) in list.chunks_exact_mut(ENTRY).zip(std::iter::once(0).chain(ends)) {
        write_number(entry, end as u32);
    }
}

/// Writes a list of parts that do not follow.
pub(crate) fn write_too_long<B: 'static>(list: &mut [B]) {
    list.chunks_exact_mut(ENTRY).for_each(|entry| write_number(entry, TOO_LONG));
}

/// The range of the two entries with the start and the end of a part.
pub(crate) fn entries_of(part: usize) -> std::ops::Range<usize> {
    part * ENTRY..(part + 2) * ENTRY
}

/// The start and the length of a part, from its two entries. `None`: it does not follow.
pub(crate) fn part_of<B: 'static>(entries: &[B]) -> Option<(usize, usize)> {
    let (start, end) = entries.split_at(ENTRY);
    let (start, end) = (number(start), number(end));
    (start != TOO_LONG).then_some((start as usize, end.wrapping_sub(start) as usize))
}

/// Ranks with lines carry bytes; others never get here.
fn write_number<B: 'static>(entry: &mut [B], number: u32) {
    for (place, byte) in entry.iter_mut().zip(number.to_le_bytes()) {
        if let Some(place) = (place as &mut dyn Any).downcast_mut() {
            *place = byte;
        }
    }
}

fn number<B: 'static>(entry: &[B]) -> u32 {
    let byte = |place: &B| (place as &dyn Any).downcast_ref::<u8>().copied().unwrap_or(0);
    entry.iter().rev().fold(0, |number, place| number << 8 | u32::from(byte(place)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_where_each_part_is() {
        let mut list = vec![0xEE_u8; bytes_of(3)];
        write(&mut list, [3, 3, 1 << 20].into_iter());
        let parts = [0, 1, 2].map(|part| part_of(&list[entries_of(part)]));
        assert_eq!(parts, [Some((0, 3)), Some((3, 0)), Some((3, (1 << 20) - 3))]);
        write_too_long(&mut list);
        assert_eq!([0, 1, 2].map(|part| part_of(&list[entries_of(part)])), [None; 3]);
        assert_eq!([1, 2, 3].map(bytes_of), [8, 16, 16]);
    }
}
