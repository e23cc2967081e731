//! What a call of a collective operation is made of, as far as algorithms must know.

/// What the elements of a call are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// Bytes of one.
    width: u32,
}

impl Element {
    /// Bytes that are nothing else.
    pub const BYTE: Element = Element { width: 1 };

    /// The element of a type of Rust.
    #[inline]
    pub fn of<T: 'static>() -> Element {
        Element { width: size_of::<T>().max(1) as u32 }
    }

    /// Bytes of one.
    pub fn width(self) -> usize {
        self.width as usize
    }
}
