//! The packets between ranks on different hosts, as bytes. Little-endian; every field is checked
//! when it is read.

use hikyaku_nic::fabric::{
    Atomic, AtomicOp, Command, Fault, FullCause, Granularity, Integer, Key, Notification,
    PostError, Rank, RemoteAddress, Rights, Route, Space,
};

const SEND: u8 = 1;
const HELD: u8 = 2;
const GRANT: u8 = 3;
const BYE: u8 = 4;
const PUT: u8 = 5;
const GET: u8 = 6;
const ATOMIC: u8 = 7;
const DATA: u8 = 8;
const ANSWER: u8 = 9;
const DROPPED: u8 = 10;

/// Bytes of the longest header of a send, of a put, which notifies by a word, and of data.
pub(super) const SEND_HEAD: usize = 32;
pub(super) const PUT_HEAD: usize = 4 + 4 + (17 + 8) + 17 + 8 + 8;
pub(super) const DATA_HEAD: usize = 8;

const CREDITED: u8 = 1;
const PART: u8 = 2;
const WHOLE_RECORD: u8 = 4;
const RING: u8 = 8;

/// A packet, decoded.
#[derive(Debug, PartialEq)]
pub(super) enum FarPacket<'a> {
    /// A send, or a part of one.
    Send(SendPart<'a>),
    /// The sender waits for credit.
    Held,
    /// The sender has dropped a send: its tables have no place for it.
    Dropped,
    /// The sender has granted this many messages since the start.
    Grant(u64),
    /// The sender leaves and sends no more messages. `keeps`: it serves memory that it gave.
    Bye { keeps: bool },
    /// Bytes to write.
    Put(PutPart<'a>),
    /// A request for bytes.
    Get { call: u32, from: WireAddress, length: u64 },
    /// An atomic operation on the integer at `at`; its own target is unused.
    Atomic { call: u32, told: Told, at: WireAddress, atomic: Atomic },
    /// Requested bytes.
    Data { call: u32, bytes: &'a [u8] },
    /// The outcome of an operation.
    Answer { call: u32, outcome: Result<u64, PostError> },
}

/// A send, or a part of one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SendPart<'a> {
    pub(super) protocol: u8,
    pub(super) header: u64,
    pub(super) credited: bool,
    pub(super) granularity: Granularity,
    pub(super) route: Route,
    pub(super) total: u64,
    pub(super) offset: u64,
    pub(super) payload: &'a [u8],
}

impl SendPart<'_> {
    /// The source's command that begins `from` bytes into the payload.
    pub(super) fn command(&self, from: usize) -> Command<'_> {
        let whole = Command {
            total: self.total,
            offset: self.offset,
            granularity: self.granularity,
            route: self.route,
            credited: self.credited,
            ..Command::send(0, self.protocol, self.header, self.payload)
        };
        whole.rest(from)
    }
}

/// Memory of the rank that receives the request, or of another rank on its host.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct WireAddress {
    pub(super) space: Space,
    pub(super) offset: u64,
    /// The rank that has given this memory of its region to the job, whichever rank of its host
    /// serves it.
    pub(super) given_by: Option<Rank>,
}

impl WireAddress {
    pub(super) fn of(address: RemoteAddress) -> WireAddress {
        WireAddress { space: address.space, offset: address.offset, given_by: None }
    }

    /// Memory of a rank's region that the rank has given to the job.
    pub(super) fn given(address: RemoteAddress) -> WireAddress {
        WireAddress { given_by: Some(address.rank), ..WireAddress::of(address) }
    }

    /// The address of the bytes from `done` on; `asked` is the rank that receives the request.
    pub(super) fn at(self, asked: Rank, done: u64) -> RemoteAddress {
        let (rank, offset) = (self.given_by.unwrap_or(asked), self.offset.wrapping_add(done));
        RemoteAddress { rank, space: self.space, offset }
    }
}

/// The call number of an operation without an answer.
pub(super) const UNANSWERED: u32 = 0;

/// The way in which the target of an operation is notified.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Told {
    Not,
    Record { protocol: u8, header: u64 },
    Word { place: WireAddress, value: u64 },
}

impl Told {
    pub(super) fn of(command: &Command<'_>) -> Told {
        match command.notification {
            Notification::None => Told::Not,
            Notification::Status => {
                Told::Record { protocol: command.protocol, header: command.header }
            }
            Notification::Word { address, value } => {
                Told::Word { place: WireAddress::of(address), value }
            }
        }
    }
}

/// The bytes of a put.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct PutPart<'a> {
    pub(super) call: u32,
    pub(super) told: Told,
    pub(super) to: WireAddress,
    pub(super) total: u64,
    pub(super) done: u64,
    pub(super) bytes: &'a [u8],
}

impl PutPart<'_> {
    /// Whether it contains the last bytes.
    pub(super) fn is_last(&self) -> bool {
        self.done + self.bytes.len() as u64 == self.total
    }
}

/// The header of a part of a send: its bytes and its length.
pub(super) fn send_head(command: &Command<'_>, length: usize) -> ([u8; SEND_HEAD], usize) {
    let mut head = [0; SEND_HEAD];
    let whole = command.offset == 0 && command.total == length as u64;
    let mut flags = if command.credited { CREDITED } else { 0 };
    if command.granularity == Granularity::PerMessage {
        flags |= WHOLE_RECORD;
    }
    head[..2].copy_from_slice(&[SEND, command.protocol]);
    head[4..12].copy_from_slice(&command.header.to_le_bytes());
    let mut end = 12;
    if !whole {
        flags |= PART;
        head[12..20].copy_from_slice(&command.total.to_le_bytes());
        head[20..28].copy_from_slice(&command.offset.to_le_bytes());
        end = 28;
    }
    if let Route::Ring(ring) = command.route {
        flags |= RING;
        head[end..end + 4].copy_from_slice(&ring.to_le_bytes());
        end += 4;
    }
    head[2] = flags;
    (head, end)
}

pub(super) fn held() -> Vec<u8> {
    vec![HELD, 0, 0, 0]
}

pub(super) fn dropped() -> Vec<u8> {
    vec![DROPPED, 0, 0, 0]
}

pub(super) fn grant(messages: u64) -> Vec<u8> {
    [&[GRANT, 0, 0, 0][..], &messages.to_le_bytes()].concat()
}

pub(super) fn bye(keeps: bool) -> Vec<u8> {
    vec![BYE, keeps.into(), 0, 0]
}

pub(super) fn data_head(call: u32) -> [u8; DATA_HEAD] {
    let mut head = [DATA, 0, 0, 0, 0, 0, 0, 0];
    head[4..].copy_from_slice(&call.to_le_bytes());
    head
}

/// The header of a part of a put; its bytes follow.
pub(super) fn put_head(put: &PutPart<'_>) -> Vec<u8> {
    let mut head = start(PUT, put.call, put.told);
    place(&mut head, put.to);
    head.extend(put.total.to_le_bytes());
    head.extend(put.done.to_le_bytes());
    head
}

pub(super) fn get(call: u32, from: WireAddress, length: u64) -> Vec<u8> {
    let mut bytes = start(GET, call, Told::Not);
    place(&mut bytes, from);
    bytes.extend(length.to_le_bytes());
    bytes
}

pub(super) fn atomic(call: u32, told: Told, at: WireAddress, atomic: &Atomic) -> Vec<u8> {
    let mut bytes = start(ATOMIC, call, told);
    place(&mut bytes, at);
    let integer = INTEGERS.iter().position(|integer| *integer == atomic.integer);
    let expected = match atomic.operation {
        AtomicOp::CompareSwap { expected } => expected,
        _ => 0,
    };
    let named = |operation: &AtomicOp| same_kind(*operation, atomic.operation);
    let operation = OPERATIONS.iter().position(named);
    bytes.extend([integer, operation].map(|place| place.map_or(u8::MAX, |place| place as u8)));
    bytes.extend(atomic.operand.to_le_bytes());
    bytes.extend(expected.to_le_bytes());
    bytes
}

pub(super) fn answer(call: u32, outcome: Result<u64, PostError>) -> Vec<u8> {
    let (kind, words) = match outcome {
        Ok(value) => (0, [value, 0]),
        Err(PostError::OutOfBounds { offset, length, .. }) => (1, [offset, length]),
        Err(PostError::Misaligned { offset, size, .. }) => (2, [offset, size]),
        Err(PostError::Full { cause: FullCause::Register, .. }) => (3, [0, 0]),
        Err(PostError::Full { .. }) => (4, [0, 0]),
        Err(PostError::Protection { fault, .. }) => match fault {
            Fault::NoSuchSegment(key) => (5, [key.to_bits(), 0]),
            Fault::NoSuchRegister(key) => (6, [key.to_bits(), 0]),
            Fault::Stale(key) => (7, [key.to_bits(), 0]),
            Fault::RegisterUnset(key) => (8, [key.to_bits(), 0]),
            Fault::Rights { wanted, granted } => (9, [wanted.bits().into(), granted.bits().into()]),
        },
        Err(_) => (10, [0, 0]),
    };
    let mut bytes = vec![ANSWER, kind, 0, 0];
    bytes.extend(call.to_le_bytes());
    words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes
}

/// Decodes the outcome in an answer of rank `rank`.
fn outcome(kind: u8, [first, second]: [u64; 2], rank: Rank) -> Option<Result<u64, PostError>> {
    let full = |cause| PostError::Full { destination: rank, cause };
    let protection = |fault| PostError::Protection { rank, fault };
    let key = || Key::from_bits(first);
    Some(Err(match kind {
        0 => return Some(Ok(first)),
        1 => PostError::OutOfBounds { rank, offset: first, length: second },
        2 => PostError::Misaligned { rank, offset: first, size: second },
        3 => full(FullCause::Register),
        4 => full(FullCause::StatusStalled),
        5 => protection(Fault::NoSuchSegment(key()?)),
        6 => protection(Fault::NoSuchRegister(key()?)),
        7 => protection(Fault::Stale(key()?)),
        8 => protection(Fault::RegisterUnset(key()?)),
        9 => {
            let rights = |bits: u64| Rights::from_bits(bits as u8);
            protection(Fault::Rights { wanted: rights(first), granted: rights(second) })
        }
        10 => PostError::Unsupported("do that to memory of a rank of another host"),
        _ => return None,
    }))
}

const INTEGERS: [Integer; 4] = [Integer::U32, Integer::I32, Integer::U64, Integer::I64];

const OPERATIONS: [AtomicOp; 9] = [
    AtomicOp::Load,
    AtomicOp::Add,
    AtomicOp::Swap,
    AtomicOp::CompareSwap { expected: 0 },
    AtomicOp::And,
    AtomicOp::Or,
    AtomicOp::Xor,
    AtomicOp::Min,
    AtomicOp::Max,
];

fn same_kind(one: AtomicOp, other: AtomicOp) -> bool {
    std::mem::discriminant(&one) == std::mem::discriminant(&other)
}

/// The beginning of every operation on memory.
fn start(kind: u8, call: u32, told: Told) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(PUT_HEAD);
    let (protocol, form) = match told {
        Told::Not => (0, 0),
        Told::Record { protocol, .. } => (protocol, 1),
        Told::Word { .. } => (0, 2),
    };
    bytes.extend([kind, protocol, form, 0]);
    bytes.extend(call.to_le_bytes());
    match told {
        Told::Not => {}
        Told::Record { header, .. } => bytes.extend(header.to_le_bytes()),
        Told::Word { place: at, value } => {
            place(&mut bytes, at);
            bytes.extend(value.to_le_bytes());
        }
    }
    bytes
}

fn place(bytes: &mut Vec<u8>, place: WireAddress) {
    let (kind, key) = match (place.space, place.given_by) {
        (Space::Region, Some(rank)) => (4, rank.into()),
        (Space::Region, None) => (0, 0),
        (Space::Segment(key), _) => (1, key.to_bits()),
        (Space::Register(key), _) => (2, key.to_bits()),
        (Space::Process, _) => (3, 0),
    };
    bytes.push(kind);
    bytes.extend(key.to_le_bytes());
    bytes.extend(place.offset.to_le_bytes());
}

/// Reads fields. `None`: no more bytes, or an invalid field.
struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let (byte, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*byte)
    }

    fn short(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    fn word(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    fn place(&mut self) -> Option<WireAddress> {
        let (kind, key, offset) = (self.byte()?, self.word()?, self.word()?);
        let space = match kind {
            0 => Space::Region,
            1 => Space::Segment(Key::from_bits(key)?),
            2 => Space::Register(Key::from_bits(key)?),
            3 => Space::Process,
            4 => {
                let given_by = Some(Rank::try_from(key).ok()?);
                return Some(WireAddress { space: Space::Region, offset, given_by });
            }
            _ => return None,
        };
        Some(WireAddress { space, offset, given_by: None })
    }

    fn told(&mut self, protocol: u8, form: u8) -> Option<Told> {
        Some(match form {
            0 => Told::Not,
            1 => Told::Record { protocol, header: self.word()? },
            2 => Told::Word { place: self.place()?, value: self.word()? },
            _ => return None,
        })
    }
}

/// Decodes a packet of `source`. `None`: it is invalid.
pub(super) fn decode(bytes: &[u8], source: Rank) -> Option<FarPacket<'_>> {
    let mut reader = FieldReader(bytes);
    let (kind, protocol, form) = (reader.byte()?, reader.byte()?, reader.byte()?);
    reader.byte()?;
    Some(match kind {
        SEND => FarPacket::Send(send_part(reader, protocol, form)?),
        HELD => FarPacket::Held,
        DROPPED => FarPacket::Dropped,
        GRANT => FarPacket::Grant(reader.word()?),
        BYE => FarPacket::Bye { keeps: protocol != 0 },
        DATA => FarPacket::Data { call: reader.short()?, bytes: reader.0 },
        ANSWER => {
            let call = reader.short()?;
            let words = [reader.word()?, reader.word()?];
            FarPacket::Answer { call, outcome: outcome(protocol, words, source)? }
        }
        PUT | GET | ATOMIC => {
            let call = reader.short()?;
            let told = reader.told(protocol, form)?;
            let at = reader.place()?;
            operation(kind, (call, told, at), reader)?
        }
        _ => return None,
    })
}

fn send_part(mut reader: FieldReader<'_>, protocol: u8, flags: u8) -> Option<SendPart<'_>> {
    let header = reader.word()?;
    let span = match flags & PART {
        0 => None,
        _ => Some((reader.word()?, reader.word()?)),
    };
    let route = match flags & RING {
        0 => Route::Table,
        _ => Route::Ring(reader.short()?),
    };
    let payload = reader.0;
    let (total, offset) = span.unwrap_or((payload.len() as u64, 0));
    let end = offset.checked_add(payload.len() as u64)?;
    let granularity = match flags & WHOLE_RECORD {
        0 => Granularity::PerPacket,
        _ => Granularity::PerMessage,
    };
    let credited = flags & CREDITED != 0;
    let part = SendPart { protocol, header, credited, granularity, route, total, offset, payload };
    (end <= total).then_some(part)
}

fn operation<'a>(
    kind: u8,
    (call, told, at): (u32, Told, WireAddress),
    mut reader: FieldReader<'a>,
) -> Option<FarPacket<'a>> {
    Some(match kind {
        PUT => {
            let (total, done) = (reader.word()?, reader.word()?);
            let bytes = reader.0;
            let end = done.checked_add(bytes.len() as u64)?;
            let put = PutPart { call, told, to: at, total, done, bytes };
            (end <= total).then_some(FarPacket::Put(put))?
        }
        GET => FarPacket::Get { call, from: at, length: reader.word()? },
        _ => {
            let (integer, operation) = (reader.byte()?, reader.byte()?);
            let (operand, expected) = (reader.word()?, reader.word()?);
            let operation = match *OPERATIONS.get(usize::from(operation))? {
                AtomicOp::CompareSwap { .. } => AtomicOp::CompareSwap { expected },
                operation => operation,
            };
            let target = RemoteAddress { rank: 0, space: Space::Region, offset: 0 };
            let integer = *INTEGERS.get(usize::from(integer))?;
            let atomic = Atomic { target, integer, operation, operand, result: None };
            FarPacket::Atomic { call, told, at, atomic }
        }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use hikyaku_nic::fabric::ContextId;

    use super::*;

    const KEY: Key = Key { context: ContextId(3), index: 1, generation: 9 };
    const THERE: WireAddress =
        WireAddress { space: Space::Segment(KEY), offset: 77, given_by: None };
    const GIVEN: WireAddress = WireAddress { space: Space::Region, offset: 80, given_by: Some(7) };
    const NOWHERE: RemoteAddress = RemoteAddress { rank: 0, space: Space::Region, offset: 0 };

    #[test]
    fn sends_read_as_written() {
        let command = Command { credited: true, ..Command::send(1, 7, 1 << 40, b"payload") };
        let part = Command { total: 100, offset: 20, ..command };
        let named = Command { route: Route::Ring(3), granularity: Granularity::PerMessage, ..part };
        for command in [command, part, named] {
            let (head, end) = send_head(&command, 7);
            let bytes = [&head[..end], command.payload].concat();
            let Some(FarPacket::Send(found)) = decode(&bytes, 1) else { panic!() };
            let again = found.command(0);
            assert_eq!((again.protocol, again.header), (command.protocol, command.header));
            assert_eq!((again.total, again.offset), (command.total, command.offset));
            assert_eq!((again.route, again.granularity), (command.route, command.granularity));
            assert_eq!((again.credited, again.payload), (true, command.payload));
            assert!(!found.command(1).credited);
        }
    }

    #[test]
    fn operations_and_answers_read_as_written() {
        let told = [
            Told::Not,
            Told::Record { protocol: 5, header: u64::MAX },
            Told::Word { place: THERE, value: 6 },
        ];
        let mut longest = 0;
        for told in told {
            let put = PutPart { call: 8, told, to: THERE, total: 10, done: 3, bytes: b"abc" };
            let head = put_head(&put);
            longest = longest.max(head.len());
            assert_eq!(decode(&[&head, put.bytes].concat(), 1), Some(FarPacket::Put(put)));
            let is_last = |done| PutPart { done, ..put }.is_last();
            assert_eq!([3, 6, 7].map(is_last), [false, false, true]);
            for (at, operation) in OPERATIONS.into_iter().enumerate() {
                let operation = match operation {
                    AtomicOp::CompareSwap { .. } => AtomicOp::CompareSwap { expected: 4 },
                    operation => operation,
                };
                let integer = INTEGERS[at % 4];
                let target = NOWHERE;
                let change = Atomic { target, integer, operation, operand: 5, result: None };
                for at in [THERE, GIVEN] {
                    let found = FarPacket::Atomic { call: 2, told, at, atomic: change };
                    assert_eq!(decode(&atomic(2, told, at, &change), 1), Some(found));
                }
            }
        }
        assert_eq!(longest, PUT_HEAD);
        for from in [THERE, GIVEN] {
            let wanted = FarPacket::Get { call: 1, from, length: 99 };
            assert_eq!(decode(&get(1, from, 99), 1), Some(wanted));
        }
        let (rank, rights) = (4, Rights::READ);
        let faults = [
            Fault::NoSuchSegment(KEY),
            Fault::NoSuchRegister(KEY),
            Fault::Stale(KEY),
            Fault::RegisterUnset(KEY),
            Fault::Rights { wanted: Rights::ALL, granted: rights },
        ];
        let faults = faults.map(|fault| Err(PostError::Protection { rank, fault }));
        let others = [
            Ok(u64::MAX),
            Err(PostError::OutOfBounds { rank, offset: 5, length: 6 }),
            Err(PostError::Misaligned { rank, offset: 5, size: 8 }),
            Err(PostError::Full { destination: rank, cause: FullCause::Register }),
            Err(PostError::Full { destination: rank, cause: FullCause::StatusStalled }),
        ];
        for outcome in faults.into_iter().chain(others) {
            let found = FarPacket::Answer { call: 3, outcome };
            assert_eq!(decode(&answer(3, outcome), rank), Some(found));
        }
    }

    #[test]
    fn what_is_cut_or_impossible_is_no_packet() {
        let put = PutPart { call: 8, told: Told::Not, to: THERE, total: 2, done: 0, bytes: b"abc" };
        assert_eq!(decode(&[&put_head(&put)[..], b"abc"].concat(), 1), None, "beyond its total");
        let load = Atomic {
            target: NOWHERE,
            integer: Integer::U64,
            operation: AtomicOp::Load,
            operand: 0,
            result: None,
        };
        let asked = atomic(1, Told::Not, THERE, &load);
        let whole = [grant(5), get(1, THERE, 9), asked, answer(1, Ok(0))];
        for bytes in &whole {
            assert!((0..bytes.len()).all(|end| decode(&bytes[..end], 1).is_none()));
        }
        let command = Command { total: 5, offset: 4, ..Command::send(1, 0, 0, b"ab") };
        let (head, end) = send_head(&command, 2);
        assert_eq!(decode(&[&head[..end], b"ab"].concat(), 1), None, "beyond its message");
        assert_eq!(decode(&[0, 0, 0, 0], 1), None);
        assert_eq!(decode(&dropped(), 1), Some(FarPacket::Dropped));
        for keeps in [true, false] {
            assert_eq!(decode(&bye(keeps), 1), Some(FarPacket::Bye { keeps }));
        }
        assert_eq!(decode(&[ANSWER, 99, 0, 0, 0, 0, 0, 0], 1), None);
    }
}
