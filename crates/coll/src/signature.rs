//! The signature of a call: the properties that all ranks must agree on, in words that they
//! compare.
//!
//! ```text
//!   word:  | operation 4 | element 6 | root 13 | reduction 3 | call 8 | list 1 | bytes 29 |
//! ```

use std::any::TypeId;
use std::fmt;

use crate::names::Operation;

/// The element type of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Element {
    /// Bytes of one element.
    width: u32,
    /// Its index in [`KINDS`], or for other types a larger number, derived from their width.
    kind: u8,
}

/// Types that have a name. The first one is bytes, or any type that was passed as bytes.
const KINDS: [&str; 15] = [
    "bytes", "i8", "i16", "i32", "i64", "i128", "u16", "u32", "u64", "u128", "f32", "f64", "isize",
    "usize", "bool",
];

/// The number of kinds that fit in a word.
const MOST_KINDS: u32 = 64;

impl Element {
    /// Plain bytes.
    pub const BYTE: Element = Element { width: 1, kind: 0 };

    /// The element of a Rust type.
    #[inline]
    pub fn of<T: 'static>() -> Element {
        let id = TypeId::of::<T>();
        // The compiler resolves this statically.
        macro_rules! kind {
            ($($type:ty = $kind:literal),*) => {
                $(if id == TypeId::of::<$type>() { $kind } else)* {
                    let named = KINDS.len() as u32;
                    (named + (size_of::<T>() as u32) % (MOST_KINDS - named)) as u8
                }
            };
        }
        let kind = kind! {
            u8 = 0, i8 = 1, i16 = 2, i32 = 3, i64 = 4, i128 = 5, u16 = 6, u32 = 7, u64 = 8,
            u128 = 9, f32 = 10, f64 = 11, isize = 12, usize = 13, bool = 14
        };
        Element { width: size_of::<T>().max(1) as u32, kind }
    }

    /// Whether it is an integer; bytes are.
    #[inline]
    pub(crate) fn is_integer(self) -> bool {
        matches!(self.kind, 0..=9 | 12 | 13)
    }

    /// Bytes of one element.
    pub fn width(self) -> usize {
        self.width as usize
    }
}

/// The operator of a reduction, as far as ranks can compare it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Combination(u8);

impl Combination {
    /// A reduction that the program defines.
    pub const OWN: Combination = Combination(0);

    /// The sum.
    pub const SUM: Combination = Combination(1);

    /// The product.
    pub const PRODUCT: Combination = Combination(2);

    /// The minimum.
    pub const MIN: Combination = Combination(3);

    /// The maximum.
    pub const MAX: Combination = Combination(4);

    /// None: received data replaces sent data (MPI_IN_PLACE), which uses another exchange.
    pub(crate) const IN_PLACE: Combination = Combination(5);

    fn name(self) -> &'static str {
        ["by its own reduction", "by sum", "by product", "by min", "by max", "in place"]
            .get(usize::from(self.0))
            .unwrap_or(&"by an unknown reduction")
    }
}

/// The properties of a collective call that all ranks must agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Signature {
    operation: Operation,
    element: u8,
    root: Option<u32>,
    combination: Option<Combination>,
    /// Whether it has a list of lengths, one per rank. By messages alone this makes no difference.
    has_list: bool,
    /// Bytes per rank, as [`held`]; 0 if ranks may differ.
    bytes: u64,
}

/// The number of roots that checksums distinguish.
const ROOTS: u32 = 1000;

const BYTES_BITS: u32 = 29;

/// Lengths below this are stored exactly.
const EXACT: u64 = 1 << (BYTES_BITS - 1);

/// The form of a length in a word: a long one is [`EXACT`] and the remainder by it. A rank that
/// compared its full length would find it different from the others' words.
const fn held(bytes: u64) -> u64 {
    if bytes < EXACT { bytes } else { EXACT | (bytes % EXACT) }
}
const LIST_BITS: u32 = 1;
const NUMBER_BITS: u32 = 8;
const COMBINATION_BITS: u32 = 3;
const ROOT_BITS: u32 = 13;
const ELEMENT_BITS: u32 = 6;

/// The lowest bit of a root.
const ROOT_AT: u32 = BYTES_BITS + LIST_BITS + NUMBER_BITS + COMBINATION_BITS;

/// The lowest bits of a word.
const fn low(word: u64, bits: u32) -> u64 {
    word & ((1 << bits) - 1)
}

impl Signature {
    /// A call without root, reduction and bytes.
    #[inline]
    pub fn new(operation: Operation) -> Signature {
        let (element, root, combination, bytes) = (Element::BYTE.kind, None, None, 0);
        Signature { operation, element, root, combination, has_list: false, bytes }
    }

    #[inline]
    pub(crate) fn root(self, root: u32) -> Signature {
        Signature { root: Some(root), ..self }
    }

    #[inline]
    pub(crate) fn combination(self, combination: Combination) -> Signature {
        Signature { combination: Some(combination), ..self }
    }

    /// The same with this length.
    #[inline]
    pub(crate) fn bytes(self, bytes: usize) -> Signature {
        Signature { bytes: held(bytes as u64), has_list: false, ..self }
    }

    /// The same with or without a list of lengths.
    #[inline]
    pub(crate) fn list(self, has_list: bool) -> Signature {
        Signature { has_list, ..self }
    }

    #[inline]
    pub(crate) fn element(self, element: Element) -> Signature {
        Signature { element: element.kind, ..self }
    }

    /// Whether its length is this rank's own, and others may have another one.
    pub(crate) fn has_own_length(&self) -> bool {
        self.has_list && self.operation == Operation::Allgather
    }

    /// Whether two ranks can have made the same call by messages: lengths may be unknown, and it
    /// does not matter which rank has a list of them.
    pub(crate) fn fits(&self, other: &Signature) -> bool {
        let known = self.bytes != 0 && other.bytes != 0;
        let bytes = if known { other.bytes } else { self.bytes };
        *self == Signature { bytes, has_list: self.has_list, ..*other }
    }

    /// The operation.
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Bytes per rank; 0 if ranks may differ.
    pub fn length(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn of_root(&self) -> Option<u32> {
        self.root
    }

    /// A checksum of root, reduction and type, for tags.
    pub(crate) fn sum(&self) -> u32 {
        let root = self.root.map_or(0, |root| root % ROOTS + 1);
        let combination = self.combination.map_or(0, |how| u32::from(how.0) + 1);
        root * 197 + combination * 211 + u32::from(self.element) * 13
    }

    /// All properties in a word, with the number of the call, to which a checksum over earlier
    /// calls may be added. Roots and numbers with more bits are truncated.
    #[inline]
    pub(crate) fn word(&self, number: u32) -> u64 {
        let root = self.root.map_or(0, |root| u64::from(root) + 1);
        let combination = self.combination.map_or(0, |how| u64::from(how.0) + 1);
        let word = (self.operation as u64) << ELEMENT_BITS | u64::from(self.element);
        let word = word << ROOT_BITS | low(root, ROOT_BITS);
        let word = word << COMBINATION_BITS | low(combination, COMBINATION_BITS);
        let word = word << NUMBER_BITS | low(u64::from(number), NUMBER_BITS);
        let word = word << LIST_BITS | u64::from(self.has_list);
        word << BYTES_BITS | self.bytes
    }

    /// The word of the same call with another length.
    #[inline]
    pub(crate) fn word_of_length(word: u64, bytes: usize) -> u64 {
        word >> BYTES_BITS << BYTES_BITS | held(bytes as u64)
    }

    /// The word of a broadcast's root that sends the data by messages. It has no list of lengths.
    #[inline]
    pub(crate) fn word_off_lines(word: u64) -> u64 {
        word | 1 << BYTES_BITS
    }

    /// The word of a call without a root that announces the way of this many calls after it, fewer
    /// than 8,192, in place of the root ([`crate::long`]).
    #[inline]
    pub(crate) fn word_ahead(word: u64, calls: u32) -> u64 {
        word | low(u64::from(calls), ROOT_BITS) << ROOT_AT
    }

    /// The number of calls whose way a word announces, if it is `word` but for that.
    pub(crate) fn calls_ahead(said: u64, word: u64) -> Option<u32> {
        let calls = low(said >> ROOT_AT, ROOT_BITS) as u32;
        (said != word && said == Signature::word_ahead(word, calls)).then_some(calls)
    }

    /// Whether two words have the same call number. Truncated numbers may be equal by accident.
    pub(crate) fn is_same_number(word: u64, other: u64) -> bool {
        low((word ^ other) >> (BYTES_BITS + LIST_BITS), NUMBER_BITS) == 0
    }

    /// Decodes [`Signature::word`]. `None`: there is no such operation.
    pub(crate) fn of_word(word: u64) -> Option<Signature> {
        let (bytes, word) = (low(word, BYTES_BITS), word >> BYTES_BITS);
        let (has_list, word) = (low(word, LIST_BITS) != 0, word >> (LIST_BITS + NUMBER_BITS));
        let (combination, word) = (low(word, COMBINATION_BITS), word >> COMBINATION_BITS);
        let (root, word) = (low(word, ROOT_BITS), word >> ROOT_BITS);
        let (element, word) = (low(word, ELEMENT_BITS) as u8, word >> ELEMENT_BITS);
        let operation = Operation::ALL.get(word as usize).copied()?;
        // See `word_off_lines` and `word_ahead`.
        let has_list = has_list && operation != Operation::Broadcast;
        let has_root = !matches!(operation, Operation::Allgather | Operation::Allreduce);
        let combination = combination.checked_sub(1).map(|how| Combination(how as u8));
        let root = root.checked_sub(1).filter(|_| has_root).map(|root| root as u32);
        Some(Signature { operation, element, root, combination, has_list, bytes })
    }
}

impl fmt::Display for Signature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Signature { operation, element, root, combination, has_list, bytes } = self;
        write!(f, "{}", operation.name())?;
        if *operation == Operation::Barrier {
            return Ok(());
        }
        if let Some(how) = combination {
            write!(f, " {}", how.name())?;
        }
        if let Some(root) = root {
            write!(f, " with root {root}")?;
        }
        if *has_list {
            write!(f, " with a list of lengths")?;
        }
        let kind = KINDS.get(usize::from(*element)).unwrap_or(&"another type");
        match *bytes {
            0 if *has_list && *element == 0 => return Ok(()),
            0 => return write!(f, " of {kind}"),
            bytes if bytes < EXACT => write!(f, " of {bytes} bytes")?,
            bytes => write!(f, " of n * {} MiB + {} bytes", EXACT >> 20, bytes - EXACT)?,
        }
        if *element == 0 { Ok(()) } else { write!(f, " of {kind}") }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_word_says_all_and_nonsense_is_nothing() {
        for operation in Operation::ALL {
            let plain = Signature::new(operation).bytes(123_456_789).element(Element::of::<f64>());
            let max = plain.combination(Combination::MAX);
            let in_place = plain.combination(Combination::IN_PLACE);
            for other in [plain.root(u32::MAX), max, in_place, plain.element(Element::BYTE)] {
                assert_ne!(other.sum(), plain.sum());
            }
            for call in [plain, plain.root(0), max.root(4095), max, in_place, max.list(true)] {
                let mut decoded = call.list(call.has_list && operation != Operation::Broadcast);
                if matches!(operation, Operation::Allgather | Operation::Allreduce) {
                    decoded.root = None;
                }
                assert_eq!(Signature::of_word(call.word(77)), Some(decoded));
                assert!(Signature::is_same_number(call.word(3), plain.word(259)));
                assert!(!Signature::is_same_number(call.word(3), call.word(4)));
                let other = call.bytes(9).list(call.has_list);
                assert_eq!(Signature::word_of_length(call.word(3), 9), other.word(3));
            }
        }
        assert_eq!(Signature::of_word(u64::MAX), None);
    }

    #[test]
    fn a_word_without_root_announces_calls_and_stays_that_of_its_call() {
        let call = Signature::new(Operation::Allreduce).bytes(1 << 20);
        let call = call.combination(Combination::SUM).element(Element::of::<f64>());
        let word = call.word(200);
        for calls in [1, 6, 100, 8191] {
            let said = Signature::word_ahead(word, calls);
            assert_eq!(Signature::calls_ahead(said, word), Some(calls));
            assert_eq!(Signature::of_word(said), Some(call));
            assert_eq!(Signature::calls_ahead(said, call.word(201)), None);
            assert_eq!(Signature::calls_ahead(said, call.bytes(8).word(200)), None);
        }
        assert_eq!(Signature::calls_ahead(word, word), None);
    }

    /// A question carries a word; the decoded call is compared with the rank's own call.
    #[test]
    fn long_calls_are_those_of_their_words() {
        let of = |bytes: usize| Signature::new(Operation::Broadcast).root(0).bytes(bytes);
        for bytes in [1 << 28, (1 << 30) - 1, 1 << 30, (1 << 31) + 5, usize::MAX] {
            let call = of(bytes);
            assert_eq!(Signature::of_word(call.word(1)), Some(call), "{bytes}");
            assert!(call.fits(&of(bytes)) && !call.fits(&of(bytes - 1)), "{bytes}");
            assert!(!call.fits(&of(bytes % (1 << 28) + 1)), "{bytes}");
        }
        let line = "broadcast with root 0 of n * 256 MiB + 5 bytes";
        assert_eq!(of((1 << 31) + 5).to_string(), line);
    }

    #[test]
    fn types_of_one_width_differ() {
        let elements = [Element::of::<i64>(), Element::of::<u64>(), Element::of::<f64>()];
        let kinds: std::collections::BTreeSet<u8> = elements.iter().map(|it| it.kind).collect();
        assert_eq!(kinds.len(), 3);
        assert_eq!(Element::of::<u8>(), Element::BYTE);
        assert!(u32::from(Element::of::<[f64; 1000]>().kind) < MOST_KINDS);
        assert_eq!(Element::of::<[f64; 3]>().width(), 24);
    }

    #[test]
    fn a_line_says_what_was_called() {
        let call = Signature::new(Operation::Allreduce).bytes(16).element(Element::of::<f64>());
        assert_eq!(
            call.combination(Combination::SUM).to_string(),
            "allreduce by sum of 16 bytes of f64"
        );
        let call = Signature::new(Operation::Gather).root(3);
        assert_eq!(call.to_string(), "gather with root 3 of bytes");
        assert_eq!(Signature::new(Operation::Barrier).to_string(), "barrier");
        let call = Signature::new(Operation::Alltoall).list(true);
        assert_eq!(call.to_string(), "alltoall with a list of lengths");
        assert_eq!(call.bytes(8).to_string(), "alltoall of 8 bytes");
        let call = Signature::new(Operation::Alltoall).bytes(8).combination(Combination::IN_PLACE);
        assert_eq!(call.to_string(), "alltoall in place of 8 bytes");
    }
}
