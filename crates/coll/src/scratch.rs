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
        assert!((Scratch::<u8>::new(3).bytes().as_ptr() as usize).is_multiple_of(16));
    }
}
