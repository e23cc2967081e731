//! The encoding of messages of the paper's protocols.
//!
//! ```text
//!   byte  0     1      2 .. 4   4 .. 8     8 ..
//!         kind  flags  part     variable   [departed: 16]  fields of the kind
//! ```
//!
//! All numbers are little-endian. Received bytes are checked, and malformed ones are rejected.

use super::{Account, Copyset, MailboxMessage, Want};
use crate::protocol::{Patience, Refusal};
use crate::word::{AccessKind, Mark, RANKS_MOST, Version};

/// A message with its variable, and the departures that its sender knows of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Letter {
    /// The number of the variable.
    pub variable: u32,
    /// The part of the variable.
    pub part: u16,
    /// The nodes that are gone, to the sender's knowledge.
    pub departed: Copyset,
    /// Whether the contents of this grant have already been stored into the receiver's copy.
    pub filled: bool,
    /// The message.
    pub message: MailboxMessage,
}

/// The maximum size of a letter in bytes.
pub const LETTER_MOST: usize = 128;

const DEPARTED: u8 = 1;
const FILLED: u8 = 2;
const WRITE: u8 = 4;
const TRY: u8 = 8;
const MARK: u8 = 16;
const STALE: u8 = 32;
const FIRST: u8 = 64;
const SECOND: u8 = 128;

#[derive(Default)]
struct LetterWriter {
    flags: u8,
    bytes: Vec<u8>,
}

impl LetterWriter {
    fn short(&mut self, value: u32) {
        self.bytes.extend(value.to_le_bytes());
    }

    fn long(&mut self, value: u64) {
        self.bytes.extend(value.to_le_bytes());
    }

    fn set(&mut self, set: Copyset) {
        set.words().into_iter().for_each(|word| self.long(word));
    }

    fn flag(&mut self, flag: u8, on: bool) {
        self.flags |= if on { flag } else { 0 };
    }

    fn mark(&mut self, mark: Option<Mark>) {
        self.flag(MARK, mark.is_some());
        self.flag(STALE, mark.is_some_and(|mark| mark.stale));
        self.short(mark.map_or(0, |mark| mark.victim));
    }
}

impl Letter {
    /// The letter as bytes, at most [`LETTER_MOST`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = LetterWriter::default();
        let kind = write(&mut out, &self.message);
        out.flag(DEPARTED, !self.departed.is_empty());
        out.flag(FILLED, self.filled);
        let mut bytes = vec![kind, out.flags];
        bytes.extend(self.part.to_le_bytes());
        bytes.extend(self.variable.to_le_bytes());
        if !self.departed.is_empty() {
            self.departed.words().iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        }
        bytes.extend(out.bytes);
        debug_assert!(bytes.len() <= LETTER_MOST);
        bytes
    }

    /// Decodes a letter between `nodes`. `None` if the bytes are malformed or name another node.
    pub fn decode(bytes: &[u8], nodes: u32) -> Option<Letter> {
        let (head, rest) = bytes.split_first_chunk::<8>()?;
        let mut reader = LetterReader { flags: head[1], rest, nodes };
        let part = u16::from_le_bytes([head[2], head[3]]);
        let variable = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let departed = if reader.has(DEPARTED) { reader.set()? } else { Copyset::default() };
        let filled = reader.has(FILLED);
        let message = read(&mut reader, head[0])?;
        let letter = Letter { variable, part, departed, filled, message };
        reader.rest.is_empty().then_some(letter)
    }
}

fn write(out: &mut LetterWriter, message: &MailboxMessage) -> u8 {
    match *message {
        MailboxMessage::Want(Want { from, number, kind, patience, held, doubt }) => {
            out.flag(WRITE, kind == AccessKind::Write);
            out.flag(TRY, patience == Patience::Try);
            out.flag(FIRST, doubt);
            out.short(from);
            out.short(number);
            out.long(held);
            0
        }
        MailboxMessage::Contents(version, mark) => {
            out.long(version);
            out.mark(mark);
            1
        }
        MailboxMessage::Grant { number, kind, version, copies, mark } => {
            out.flag(WRITE, kind == AccessKind::Write);
            out.short(number);
            out.long(version);
            out.set(copies);
            out.mark(mark);
            2
        }
        MailboxMessage::Refused { number, refusal } => {
            out.short(number);
            out.flag(FIRST, refusal == Refusal::Overwritten);
            out.mark(match refusal {
                Refusal::Busy | Refusal::Overwritten => None,
                Refusal::Lost(mark) => Some(mark),
            });
            3
        }
        MailboxMessage::Done { number } => {
            out.short(number);
            4
        }
        MailboxMessage::Told { version, answer } => {
            out.flag(FIRST, answer.is_some());
            out.flag(TRY, answer == Some(Patience::Try));
            out.long(version.bits());
            5
        }
        MailboxMessage::Heard { position, busy } => {
            out.flag(FIRST, busy);
            out.long(position);
            6
        }
        MailboxMessage::Survey => 7,
        MailboxMessage::Account(Account { owns, known, passed, held, reads, departed }) => {
            out.flag(FIRST, owns);
            out.flag(SECOND, reads);
            out.long(known.bits());
            out.long(passed.bits());
            out.long(held);
            out.set(departed);
            8
        }
        MailboxMessage::Adopt { version, mark, readers } => {
            out.long(version);
            out.mark(mark);
            out.set(readers);
            9
        }
    }
}

struct LetterReader<'b> {
    flags: u8,
    rest: &'b [u8],
    nodes: u32,
}

impl LetterReader<'_> {
    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    fn short(&mut self) -> Option<u32> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    fn long(&mut self) -> Option<u64> {
        let (bytes, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    /// A position. It has 46 bits.
    fn position(&mut self) -> Option<u64> {
        self.long().filter(|position| *position < 1 << 46)
    }

    fn node(&mut self) -> Option<u32> {
        self.short().filter(|node| *node < self.nodes)
    }

    fn set(&mut self) -> Option<Copyset> {
        let set = Copyset::of([self.long()?, self.long()?]);
        set.is_within(&Copyset::all(self.nodes)).then_some(set)
    }

    fn version(&mut self) -> Option<Version> {
        let version = Version::of(self.long()?);
        (version.node < self.nodes).then_some(version)
    }

    fn mark(&mut self) -> Option<Option<Mark>> {
        let victim = self.short().filter(|victim| *victim < RANKS_MOST)?;
        Some(self.has(MARK).then_some(Mark { victim, stale: self.has(STALE) }))
    }

    fn kind(&self) -> AccessKind {
        if self.has(WRITE) { AccessKind::Write } else { AccessKind::Read }
    }

    fn patience(&self) -> Patience {
        if self.has(TRY) { Patience::Try } else { Patience::Wait }
    }
}

fn read(from: &mut LetterReader<'_>, kind: u8) -> Option<MailboxMessage> {
    Some(match kind {
        0 => MailboxMessage::Want(Want {
            from: from.node()?,
            number: from.short()?,
            kind: from.kind(),
            patience: from.patience(),
            held: from.position()?,
            doubt: from.has(FIRST),
        }),
        1 => MailboxMessage::Contents(from.position()?, from.mark()?),
        2 => MailboxMessage::Grant {
            number: from.short()?,
            kind: from.kind(),
            version: from.position()?,
            copies: from.set()?,
            mark: from.mark()?,
        },
        3 => MailboxMessage::Refused {
            number: from.short()?,
            refusal: match (from.mark()?, from.has(FIRST)) {
                (Some(mark), _) => Refusal::Lost(mark),
                (None, true) => Refusal::Overwritten,
                (None, false) => Refusal::Busy,
            },
        },
        4 => MailboxMessage::Done { number: from.short()? },
        5 => MailboxMessage::Told {
            version: from.version()?,
            answer: from.has(FIRST).then_some(from.patience()),
        },
        6 => MailboxMessage::Heard { position: from.position()?, busy: from.has(FIRST) },
        7 => MailboxMessage::Survey,
        8 => MailboxMessage::Account(Account {
            owns: from.has(FIRST),
            reads: from.has(SECOND),
            known: from.version()?,
            passed: from.version()?,
            held: from.position()?,
            departed: from.set()?,
        }),
        9 => MailboxMessage::Adopt {
            version: from.position()?,
            mark: from.mark()?,
            readers: from.set()?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters() -> Vec<Letter> {
        let version = Version { position: (1 << 46) - 1, node: 127, shared: false };
        let mark = Some(Mark { victim: 4095, stale: true });
        let all = Copyset::all(128);
        let (kind, patience, doubt) = (AccessKind::Write, Patience::Try, true);
        let messages = [
            MailboxMessage::Want(Want {
                from: 127,
                number: u32::MAX,
                kind,
                patience,
                held: 7,
                doubt,
            }),
            MailboxMessage::Contents(9, mark),
            MailboxMessage::Contents(9, None),
            MailboxMessage::Grant { number: 3, kind, version: 8, copies: all, mark },
            MailboxMessage::Grant {
                number: 3,
                kind: AccessKind::Read,
                version: 8,
                copies: all,
                mark: None,
            },
            MailboxMessage::Refused { number: 1, refusal: Refusal::Busy },
            MailboxMessage::Refused { number: 1, refusal: Refusal::Overwritten },
            MailboxMessage::Refused {
                number: 1,
                refusal: Refusal::Lost(Mark { victim: 2, stale: false }),
            },
            MailboxMessage::Done { number: 4 },
            MailboxMessage::Told { version, answer: None },
            MailboxMessage::Told { version, answer: Some(Patience::Wait) },
            MailboxMessage::Told { version, answer: Some(Patience::Try) },
            MailboxMessage::Heard { position: 6, busy: true },
            MailboxMessage::Survey,
            MailboxMessage::Account(Account {
                owns: true,
                known: version,
                passed: version,
                held: 3,
                reads: true,
                departed: all,
            }),
            MailboxMessage::Adopt { version: 1, mark, readers: all },
        ];
        let letter = |message| {
            [(Copyset::default(), false), (all, true)].map(|(departed, filled)| Letter {
                variable: 0xfeed_beef,
                part: 8191,
                departed,
                filled,
                message,
            })
        };
        messages.into_iter().flat_map(letter).collect()
    }

    #[test]
    fn letters_survive_encoding() {
        for letter in letters() {
            let bytes = letter.encode();
            assert!(bytes.len() <= LETTER_MOST, "{}", bytes.len());
            assert_eq!(Letter::decode(&bytes, 128), Some(letter));
        }
    }

    #[test]
    fn malformed_bytes_are_no_letter() {
        let contents = |victim| {
            let message = MailboxMessage::Contents(9, Some(Mark { victim, stale: false }));
            Letter { variable: 0, part: 0, departed: Copyset::default(), filled: false, message }
        };
        let read = |victim| Letter::decode(&contents(victim).encode(), 128);
        assert_eq!(read(RANKS_MOST - 1), Some(contents(RANKS_MOST - 1)));
        assert_eq!(read(RANKS_MOST), None);
        for letter in letters() {
            let bytes = letter.encode();
            for length in 0..bytes.len() {
                assert_eq!(Letter::decode(&bytes[..length], 128), None, "{letter:?}");
            }
            let longer = [&bytes[..], &[0]].concat();
            assert_eq!(Letter::decode(&longer, 128), None);
            // No value of any byte causes a panic or a node out of range.
            for at in 0..bytes.len() {
                for value in [0, 1, 0x7f, 0x80, 0xff] {
                    let mut other = bytes.clone();
                    other[at] = value;
                    if let Some(Letter { message: MailboxMessage::Want(want), .. }) =
                        Letter::decode(&other, 128)
                    {
                        assert!(want.from < Copyset::MOST);
                    }
                }
            }
        }
    }
}
