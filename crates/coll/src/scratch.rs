//! Memory for what is under way between two buffers of the program.

/// Lengths up to which no memory is allocated: a convergence test reduces one number.
const INLINE: usize = 64;

/// So many bytes (or places of lengths only), aligned for every element that can be reduced.
#[repr(C, align(16))]
pub(crate) struct Scratch<B> {
    inline: [B; INLINE],
    length: usize,
    heap: Vec<B>,
}

impl<B: Copy + Default> Scratch<B> {
    /// `length` zeros.
    pub(crate) fn new(length: usize) -> Scratch<B> {
        let heap = if length > INLINE { vec![B::default(); length] } else { Vec::new() };
        Scratch { inline: [B::default(); INLINE], length, heap }
    }

    /// These pieces, one after the other. Memory for long ones is written once.
    pub(crate) fn of<'a>(pieces: impl Iterator<Item = &'a [B]> + Clone) -> Scratch<B>
    where
        B: 'a,
    {
        let length = pieces.clone().map(<[B]>::len).sum();
        if length > INLINE {
            let mut heap = Vec::with_capacity(length);
            pieces.for_each(|piece| heap.extend_from_slice(piece));
            return Scratch { inline: [B::default(); INLINE], length, heap };
        }
        let mut scratch = Scratch::new(length);
        let mut rest = scratch.bytes();
        for piece in pieces {
            let (place, after) = rest.split_at_mut(piece.len());
            place.copy_from_slice(piece);
            rest = after;
        }
        scratch
    }

    pub(crate) fn bytes(&mut self) -> &mut [B] {
        if self.length > INLINE { &mut self.heap } else { &mut self.inline[..self.length] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_as_long_as_asked_for_and_lengths_take_no_memory() {
        for length in [0, 1, 63, 64, 65, 1000] {
            assert_eq!(Scratch::<u8>::new(length).bytes().len(), length);
        }
        assert_eq!(Scratch::<()>::new(usize::MAX).bytes().len(), usize::MAX);
        for lengths in [&[][..], &[0], &[3, 0, 61], &[3, 62], &[0, 1000, 2]] {
            let pieces: Vec<Vec<u8>> = lengths.iter().map(|it| vec![*it as u8; *it]).collect();
            let mut scratch = Scratch::of(pieces.iter().map(Vec::as_slice));
            assert_eq!(scratch.bytes(), pieces.concat());
        }
        assert!((Scratch::<u8>::new(3).bytes().as_ptr() as usize).is_multiple_of(16));
    }
}
