//! A value that grows to its left and right while parts of it come in.
//!
//! `combine` leaves its result in its right operand. What comes in on the left is combined in
//! place; what comes in on the right leaves the result in the buffer it came in, so the two buffers
//! change places. One that stands in the wrong buffer at the end is copied, once.

/// A value in one of two buffers of equal length, and the other buffer.
pub(crate) struct Accumulator<'b, B> {
    value: &'b mut [B],
    spare: &'b mut [B],
    /// Whether the value stands in what was the spare buffer at first.
    swapped: bool,
}

impl<'b, B: Copy> Accumulator<'b, B> {
    /// The value is what `data` holds.
    pub(crate) fn new(data: &'b mut [B], spare: &'b mut [B]) -> Accumulator<'b, B> {
        Accumulator { value: data, spare, swapped: false }
    }

    /// The value, and the place for what comes in.
    pub(crate) fn parts(&mut self) -> (&[B], &mut [B]) {
        (self.value, self.spare)
    }

    /// Puts what came in before the value.
    pub(crate) fn prepend(&mut self, combine: &mut impl FnMut(&[B], &mut [B])) {
        combine(self.spare, self.value);
    }

    /// Puts what came in after the value.
    pub(crate) fn append(&mut self, combine: &mut impl FnMut(&[B], &mut [B])) {
        combine(self.value, self.spare);
        std::mem::swap(&mut self.value, &mut self.spare);
        self.swapped = !self.swapped;
    }

    /// Brings the value to where it was at first.
    pub(crate) fn finish(self) {
        if self.swapped {
            self.spare.copy_from_slice(self.value);
        }
    }
}
