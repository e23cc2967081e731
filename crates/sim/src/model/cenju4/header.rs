//! The parcel header: four double words that a task writes into its header queue (paper 003,
//! Table 1).
//!
//! ```text
//!   protocol                    DW 2         DW 3          DW 4
//!   remote DMA                  source*      destination   (ntf)      * the data itself if inline
//!   ... with address register   source       -             (ntf)
//!   message 0, 1                source       -             (ntf)
//!   atomic add                  value        destination   (ntf)
//!   remote read                 source       destination   (ntf)
//!   swap                        destination  value         result
//!   compare and swap            destination  expected      value
//!   synchronise                 -            -             -
//!
//!   DW 1   bits 0-3 protocol   4-5 packet type   6 inline   7 has ntf
//!          8-13 rrid   14-25 logical number   26-45 length   46-63 zero
//! ```
//!
//! The paper states the fields and their widths but not their positions in DW 1.

/// Bytes of a parcel header.
pub const HEADER_BYTES: usize = 32;

/// The bytes of a word and of a double word.
pub(super) const WORD: u64 = 4;
pub(super) const DOUBLE_WORD: u64 = 8;

/// The number of remote read ids: 6 bits.
pub const READ_IDS: u8 = 64;

/// The number of offsets in a destination table: 12 bits.
pub const LOGICAL_NUMBERS: u16 = 1 << 12;

/// An offset in one of three tables. The packet type names the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketTarget {
    /// The node table: one processor.
    One(u16),
    /// The multicast header table.
    Group(u16),
    /// The synchronisation header table.
    Sync(u16),
}

/// The source of the data of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteSource {
    /// The sender's memory.
    Address(u64),
    /// The header itself, up to a double word.
    Inline(u64),
}

/// The destination of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteDestination {
    /// An address that the sender names.
    Address(u64),
    /// The address in the receiver's address register 0, 1 or 2.
    Register(u8),
    /// The receiver's message buffer 0 or 1.
    Message(u8),
}

/// The seven protocols of Table 1, and synchronisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParcelOperation {
    /// Remote DMA, with address register, message.
    Write {
        /// The data.
        source: WriteSource,
        /// The destination.
        place: WriteDestination,
        /// The number of bytes.
        bytes: u64,
    },
    /// `v(destination) += value`, of a double word.
    Add {
        /// The operand.
        value: u64,
        /// The double word at the receiver.
        destination: u64,
    },
    /// Remote DMA from the receiver's `source` to the sender's `destination`, as a reply.
    Read {
        /// The source address at the receiver.
        source: u64,
        /// The destination address at the sender.
        destination: u64,
        /// The number of bytes.
        bytes: u64,
        /// The entry of the notification buffer that is written at the end.
        rrid: u8,
    },
    /// Writes `value` to `destination`. The old value is returned to `result`.
    Swap {
        /// The double word at the receiver.
        destination: u64,
        /// The new value.
        value: u64,
        /// The address for the old value at the sender.
        result: u64,
    },
    /// Writes `value` to `destination` if the old value is `expected`. The answer is returned.
    CompareSwap {
        /// The double word at the receiver.
        destination: u64,
        /// The expected value.
        expected: u64,
        /// The new value.
        value: u64,
        /// The entry of the notification buffer for the answer.
        rrid: u8,
    },
    /// Enters a barrier.
    Synchronise,
}

impl ParcelOperation {
    /// Whether an answer is returned.
    pub(super) fn is_answered(&self) -> bool {
        use ParcelOperation::{CompareSwap, Read, Swap};
        matches!(self, Read { .. } | Swap { .. } | CompareSwap { .. })
    }
}

/// A parcel header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The destination.
    pub target: PacketTarget,
    /// The operation at the destination.
    pub operation: ParcelOperation,
    /// The address to which the sender writes [`COMPLETED`](super::COMPLETED) after the last
    /// packet.
    pub ntf: Option<u64>,
}

/// The reasons why the Read Header Module refuses a header. Nothing of its parcel is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// No protocol has this number.
    #[error("no protocol has the number {number}")]
    UnknownProtocol {
        /// The number.
        number: u8,
    },
    /// The protocol does not match the packet type.
    #[error("protocol {number} cannot be sent to this kind of destination")]
    WrongTarget {
        /// The protocol.
        number: u8,
    },
    /// Bits without a meaning are set.
    #[error("bits without a meaning are set in the first double word: {word:#x}")]
    UnusedBits {
        /// The double word.
        word: u64,
    },
    /// The data are longer than a parcel.
    #[error("{bytes} bytes are more than the {most} of a parcel; send several")]
    TooLong {
        /// The length.
        bytes: u64,
        /// The limit.
        most: u64,
    },
    /// The data do not fit into the header.
    #[error("{bytes} bytes do not fit into a header, which has room for 8")]
    TooLongInline {
        /// The length.
        bytes: u64,
    },
    /// The hardware cannot read the source or write the destination.
    #[error("address {address:#x} must be a multiple of {of}")]
    Misaligned {
        /// The address.
        address: u64,
        /// The required alignment.
        of: u64,
    },
    /// The number is beyond the end of the table of this packet type.
    #[error("destination {number} is beyond the table's end; it has {entries} entries")]
    NoSuchTarget {
        /// The logical number.
        number: u16,
        /// Entries of the table.
        entries: usize,
    },
}

const DMA: u8 = 0;
const REGISTER: u8 = 1;
const MESSAGE: u8 = 4;
const ADD: u8 = 6;
const READ: u8 = 7;
const SWAP: u8 = 8;
const COMPARE_SWAP: u8 = 9;
const SYNCHRONISE: u8 = 10;

impl Header {
    /// A write of `bytes` bytes without notification.
    pub fn write(target: PacketTarget, source: u64, place: WriteDestination, bytes: u64) -> Header {
        let source = WriteSource::Address(source);
        Header { target, operation: ParcelOperation::Write { source, place, bytes }, ntf: None }
    }

    /// A write of up to 8 bytes that are sent in the header.
    pub fn inline(target: PacketTarget, data: u64, destination: u64, bytes: u64) -> Header {
        let (source, place) = (WriteSource::Inline(data), WriteDestination::Address(destination));
        Header { target, operation: ParcelOperation::Write { source, place, bytes }, ntf: None }
    }

    /// Any operation without notification.
    pub fn new(target: PacketTarget, operation: ParcelOperation) -> Header {
        Header { target, operation, ntf: None }
    }

    /// The header as bytes in the queue.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let (mut inline, mut rrid, mut length) = (false, 0, 0);
        let (protocol, words) = match self.operation {
            ParcelOperation::Write { source, place, bytes } => {
                length = bytes;
                inline = matches!(source, WriteSource::Inline(_));
                let (WriteSource::Address(first) | WriteSource::Inline(first)) = source;
                match place {
                    WriteDestination::Address(to) => (DMA, [first, to, 0]),
                    WriteDestination::Register(number) => (REGISTER + number, [first, 0, 0]),
                    WriteDestination::Message(number) => (MESSAGE + number, [first, 0, 0]),
                }
            }
            ParcelOperation::Add { value, destination } => (ADD, [value, destination, 0]),
            ParcelOperation::Read { source, destination, bytes, rrid: id } => {
                (length, rrid) = (bytes, id);
                (READ, [source, destination, 0])
            }
            ParcelOperation::Swap { destination, value, result } => {
                (SWAP, [destination, value, result])
            }
            ParcelOperation::CompareSwap { destination, expected, value, rrid: id } => {
                rrid = id;
                (COMPARE_SWAP, [destination, expected, value])
            }
            ParcelOperation::Synchronise => (SYNCHRONISE, [0; 3]),
        };
        let (kind, number) = match self.target {
            PacketTarget::One(number) => (0, number),
            PacketTarget::Group(number) => (1, number),
            PacketTarget::Sync(number) => (2, number),
        };
        let first = u64::from(protocol)
            | kind << 4
            | u64::from(inline) << 6
            | u64::from(self.ntf.is_some()) << 7
            | u64::from(rrid) << 8
            | u64::from(number) << 14
            | length << 26;
        let [second, third, fourth] = words;
        let mut bytes = [0; HEADER_BYTES];
        let words = [first, second, third, self.ntf.unwrap_or(fourth)];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// Reads and checks a header, as the Read Header Module does. `most` is the maximum parcel
    /// size.
    ///
    /// # Errors
    /// [`HeaderError`], all but [`NoSuchTarget`](HeaderError::NoSuchTarget).
    pub fn decode(bytes: &[u8; HEADER_BYTES], most: u64) -> Result<Header, HeaderError> {
        let mut words = [0; 4];
        for (word, place) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            let place = <[u8; 8]>::try_from(place).expect("chunks of 8 bytes");
            *word = u64::from_le_bytes(place);
        }
        let [first, second, third, fourth] = words;
        let field = |shift: u32, bits: u32| first >> shift & ((1 << bits) - 1);
        let (number, length, rrid) = (field(0, 4) as u8, field(26, 20), field(8, 6) as u8);
        let (inline, has_ntf) = (field(6, 1) == 1, field(7, 1) == 1);
        if first >> 46 != 0 || has_ntf && number >= SWAP || inline && number != DMA {
            return Err(HeaderError::UnusedBits { word: first });
        }
        if length > most {
            return Err(HeaderError::TooLong { bytes: length, most });
        }
        let logical = field(14, 12) as u16;
        let target = match field(4, 2) {
            0 if number != SYNCHRONISE => PacketTarget::One(logical),
            // The answers of several nodes would overwrite each other.
            1 if number < READ => PacketTarget::Group(logical),
            2 if number == SYNCHRONISE => PacketTarget::Sync(logical),
            _ => return Err(HeaderError::WrongTarget { number }),
        };
        let source =
            if inline { WriteSource::Inline(second) } else { WriteSource::Address(second) };
        let write = |place| ParcelOperation::Write { source, place, bytes: length };
        let operation = match number {
            DMA => write(WriteDestination::Address(third)),
            1..4 => write(WriteDestination::Register(number - REGISTER)),
            4..6 => write(WriteDestination::Message(number - MESSAGE)),
            ADD => ParcelOperation::Add { value: second, destination: third },
            READ => {
                ParcelOperation::Read { source: second, destination: third, bytes: length, rrid }
            }
            SWAP => ParcelOperation::Swap { destination: second, value: third, result: fourth },
            COMPARE_SWAP => {
                let (destination, expected, value) = (second, third, fourth);
                ParcelOperation::CompareSwap { destination, expected, value, rrid }
            }
            SYNCHRONISE => ParcelOperation::Synchronise,
            number => return Err(HeaderError::UnknownProtocol { number }),
        };
        check_addresses(&operation)?;
        Ok(Header { target, operation, ntf: has_ntf.then_some(fourth) })
    }
}

/// The hardware reads words and writes double words. Only a header's own data may be written to a
/// word (paper 003 §5.1.3, cases A to D).
fn check_addresses(operation: &ParcelOperation) -> Result<(), HeaderError> {
    let multiple = |address: u64, of| match address.is_multiple_of(of) {
        true => Ok(()),
        false => Err(HeaderError::Misaligned { address, of }),
    };
    match *operation {
        ParcelOperation::Write { source: WriteSource::Inline(_), bytes, place } => {
            let WriteDestination::Address(to) = place else { return Ok(()) };
            match bytes {
                0..=DOUBLE_WORD => multiple(to, if bytes > WORD { DOUBLE_WORD } else { WORD }),
                _ => Err(HeaderError::TooLongInline { bytes }),
            }
        }
        ParcelOperation::Write { source: WriteSource::Address(from), place, .. } => {
            multiple(from, WORD)?;
            match place {
                WriteDestination::Address(to) => multiple(to, DOUBLE_WORD),
                WriteDestination::Register(_) | WriteDestination::Message(_) => Ok(()),
            }
        }
        ParcelOperation::Read { source, destination, .. } => {
            multiple(source, WORD)?;
            multiple(destination, DOUBLE_WORD)
        }
        ParcelOperation::Add { destination, .. }
        | ParcelOperation::CompareSwap { destination, .. } => multiple(destination, DOUBLE_WORD),
        ParcelOperation::Swap { destination, result, .. } => {
            multiple(destination, DOUBLE_WORD)?;
            multiple(result, DOUBLE_WORD)
        }
        ParcelOperation::Synchronise => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MOST: u64 = 512 << 10;

    fn operations() -> impl Strategy<Value = ParcelOperation> {
        let word = || any::<u64>().prop_map(|word| word & !7);
        let place = prop_oneof![
            word().prop_map(WriteDestination::Address),
            (0_u8..3).prop_map(WriteDestination::Register),
            (0_u8..2).prop_map(WriteDestination::Message),
        ];
        prop_oneof![
            (word(), place, 0..=MOST).prop_map(|(source, place, bytes)| ParcelOperation::Write {
                source: WriteSource::Address(source | 4),
                place,
                bytes
            }),
            (any::<u64>(), word(), 0_u64..=8).prop_map(|(data, to, bytes)| {
                ParcelOperation::Write {
                    source: WriteSource::Inline(data),
                    place: WriteDestination::Address(to),
                    bytes,
                }
            }),
            (any::<u64>(), word())
                .prop_map(|(value, destination)| ParcelOperation::Add { value, destination }),
            (word(), word(), 0..=MOST, 0_u8..64).prop_map(|(source, destination, bytes, rrid)| {
                ParcelOperation::Read { source, destination, bytes, rrid }
            }),
            (word(), any::<u64>(), word()).prop_map(|(destination, value, result)| {
                ParcelOperation::Swap { destination, value, result }
            }),
            (word(), any::<u64>(), any::<u64>(), 0_u8..64).prop_map(
                |(destination, expected, value, rrid)| {
                    ParcelOperation::CompareSwap { destination, expected, value, rrid }
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn cj_01_a_header_is_32_bytes_and_keeps_every_field(
            operation in operations(), number in 0..LOGICAL_NUMBERS, ntf in any::<Option<u64>>(),
        ) {
            let fourth_is_taken = matches!(
                operation,
                ParcelOperation::Swap { .. } | ParcelOperation::CompareSwap { .. }
            );
            let ntf = ntf.filter(|_| !fourth_is_taken);
            let header = Header { target: PacketTarget::One(number), operation, ntf };
            prop_assert_eq!(Header::decode(&header.encode(), MOST), Ok(header));
        }

        #[test]
        fn no_words_make_the_decoder_panic(words in any::<[u8; HEADER_BYTES]>()) {
            if let Ok(header) = Header::decode(&words, MOST) {
                prop_assert_eq!(Header::decode(&header.encode(), MOST), Ok(header));
            }
        }
    }

    #[test]
    fn cj_01_what_is_longer_than_a_parcel_is_refused() {
        let header =
            |bytes| Header::write(PacketTarget::One(1), 0, WriteDestination::Address(0), bytes);
        let decoded = |bytes| Header::decode(&header(bytes).encode(), MOST);
        assert_eq!(decoded(MOST), Ok(header(MOST)));
        let refused = HeaderError::TooLong { bytes: MOST + 1, most: MOST };
        assert_eq!(decoded(MOST + 1), Err(refused));
    }

    #[test]
    fn headers_that_mean_nothing_are_refused_by_what_is_wrong() {
        let decoded = |target, operation| {
            Header::decode(&Header::new(target, operation).encode(), MOST).unwrap_err()
        };
        let write = |source, place, bytes| ParcelOperation::Write { source, place, bytes };
        let one = PacketTarget::One(0);
        let inline = write(WriteSource::Inline(1), WriteDestination::Address(0), 9);
        assert_eq!(decoded(one, inline), HeaderError::TooLongInline { bytes: 9 });
        let odd = write(WriteSource::Address(8), WriteDestination::Address(4), 16);
        assert_eq!(decoded(one, odd), HeaderError::Misaligned { address: 4, of: 8 });
        let bytes = write(WriteSource::Address(2), WriteDestination::Message(0), 16);
        assert_eq!(decoded(one, bytes), HeaderError::Misaligned { address: 2, of: 4 });
        let read = ParcelOperation::Read { source: 0, destination: 0, bytes: 8, rrid: 0 };
        assert_eq!(
            decoded(PacketTarget::Group(0), read),
            HeaderError::WrongTarget { number: READ }
        );
        let number = SYNCHRONISE;
        assert_eq!(decoded(one, ParcelOperation::Synchronise), HeaderError::WrongTarget { number });
        let mut words = Header::new(one, read).encode();
        words[0] = 15;
        let refused = Header::decode(&words, MOST).unwrap_err();
        assert_eq!(refused, HeaderError::UnknownProtocol { number: 15 });
        words[7] = 0x80;
        assert!(matches!(Header::decode(&words, MOST), Err(HeaderError::UnusedBits { .. })));
    }
}
