//! Temporary memory for data between two buffers of the program.

/// Lengths up to which no memory is allocated: a convergence test reduces one number, and a line is
/// combined within the time of an allocation or two. Zeroing costs time, too.
const FEW: usize = 64;
const SOME: usize = 512;

/// The alignment in bytes: a line, which also suits every element that can be reduced.
const ALIGNMENT: usize = 64;

/// An array of places, aligned to a line.
#[repr(align(64))]
pub(crate) struct Places<B, const N: usize>([B; N]);

/// A buffer of bytes (or of lengths only), aligned to a line.
pub(crate) enum Scratch<B> {
    Few(Places<B, FEW>, usize),
    Some(Places<B, SOME>, usize),
    /// Allocated memory, and the number of places before the first one on a line.
    Many(Vec<B>, usize),
}

impl<B: Copy + Default> Scratch<B> {
    /// `length` zeros.
    #[inline(always)]
    pub(crate) fn new(length: usize) -> Scratch<B> {
        if length <= FEW {
            Scratch::Few(Places([B::default(); FEW]), length)
        } else if length <= SOME {
            Scratch::Some(Places([B::default(); SOME]), length)
        } else {
            Scratch::many(length)
        }
    }

    /// Places that are allocated beside those asked for. Lengths have no addresses.
    const SPARE: usize = if size_of::<B>() == 0 { 0 } else { ALIGNMENT };

    /// Not a `Vec` of lines: `vec!` has zeroed bytes from the allocator, and writes zeros for other
    /// types.
    fn many(length: usize) -> Scratch<B> {
        let places = vec![B::default(); length + Self::SPARE];
        let before = places.as_ptr().align_offset(ALIGNMENT).min(Self::SPARE);
        Scratch::Many(places, before)
    }

    pub(crate) fn bytes(&mut self) -> &mut [B] {
        match self {
            Scratch::Few(bytes, length) => &mut bytes.0[..*length],
            Scratch::Some(bytes, length) => &mut bytes.0[..*length],
            Scratch::Many(places, before) => {
                let length = places.len() - Self::SPARE;
                &mut places[*before..][..length]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_long_as_asked_for_and_lengths_take_no_memory() {
        for length in [0, 1, 63, 64, 65, 512, 513, 1000] {
            assert_eq!(Scratch::<u8>::new(length).bytes().len(), length);
        }
        assert_eq!(Scratch::<()>::new(usize::MAX).bytes().len(), usize::MAX);
        for length in [1, 3, 64, 65, 512, 513, 1000, 5000, 100_000] {
            let mut several: Vec<_> = (0..4).map(|_| Scratch::<u8>::new(length)).collect();
            for scratch in &mut several {
                let address = scratch.bytes().as_ptr() as usize;
                assert!(address.is_multiple_of(64), "{length} bytes");
            }
        }
    }
}
