//! Temporary memory for data between two buffers of the program.

/// Lengths up to which no memory is allocated: a convergence test reduces one number, and a line is
/// combined within the time of an allocation or two. Zeroing costs time, too.
const FEW: usize = 64;
const SOME: usize = 512;

/// An array of places, aligned for every element that can be reduced.
#[repr(align(16))]
pub(crate) struct Places<B, const N: usize>([B; N]);

/// A buffer of bytes (or of lengths only), aligned for every element that can be reduced.
pub(crate) enum Scratch<B> {
    Few(Places<B, FEW>, usize),
    Some(Places<B, SOME>, usize),
    Many(Vec<B>),
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
            Scratch::Many(vec![B::default(); length])
        }
    }

    pub(crate) fn bytes(&mut self) -> &mut [B] {
        match self {
            Scratch::Few(bytes, length) => &mut bytes.0[..*length],
            Scratch::Some(bytes, length) => &mut bytes.0[..*length],
            Scratch::Many(bytes) => bytes,
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
        for length in [3, 65, 513] {
            let address = Scratch::<u8>::new(length).bytes().as_ptr() as usize;
            assert!(address.is_multiple_of(16), "{length} bytes");
        }
    }
}
