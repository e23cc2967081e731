//! The words of a variable, bit by bit.
//!
//! ```text
//!   bits    63 ........ 18 | 17 .... 6 | 5 .. 0
//!   head    position       | victim    | marks        whose turn it is; what was lost
//!   readers 32 .. 63: who wants to ask | 0 .. 31: who reads, a bit a rank
//!   cell    position       | rank      | kind, phase  who asked for which turn
//!   latest  position       | node      | shared       which write is the newest, and where
//!   held    position       | node      | kept         which write a node's copy holds; 0: none
//!   owner   position       | node      | -            the last change of owner that was announced
//! ```
//!
//! One word holds both the ranks that read and the ranks that want to ask, 32 ranks to a word. A
//! rank that checks for readers sees both at no further cost.
//!
//! A *position* numbers the turns of one variable, from [`FIRST`] on. It is the ticket of a waiting
//! rank, and the version that a writer wrote. All words but the readers' have it in their upper
//! bits, so the later of two words is the larger one, and an atomic maximum keeps it. That closes
//! the race of two owner changes of which the older one arrives last. 46 bits last for eighty days
//! at ten million turns a second.

/// The maximum number of ranks, and of nodes, that a word can name.
pub const RANKS_MOST: u32 = 1 << RANK_BITS;

/// The version of the initial zeros in every copy.
pub const INITIAL: u64 = 1;

/// The first turn.
pub const FIRST: u64 = 2;

/// Bytes of the control region that a variable takes at each node: its owner and its state (paper
/// 001 §5.1, Fig. 4).
pub const CONTROL_BYTES: u64 = 16;

/// Bytes of the control region: the LLCM of DIMMnet-1 (paper 001 §5.1).
pub const CONTROL_REGION: u64 = 128 << 10;

/// Ranks in one word of readers.
pub const READERS_A_WORD: u32 = 32;

/// The bits of the ranks that read, in a word of readers.
pub const READING: u64 = (1 << READERS_A_WORD) - 1;

/// The maximum number of variables of a job.
pub const VARIABLES_MOST: u64 = CONTROL_REGION / CONTROL_BYTES;

const RANK_BITS: u32 = 12;
const FLAG_BITS: u32 = 6;

fn pack(position: u64, rank: u32, flags: u64) -> u64 {
    debug_assert!(rank < RANKS_MOST && flags < 1 << FLAG_BITS);
    position << (RANK_BITS + FLAG_BITS) | u64::from(rank) << FLAG_BITS | flags
}

fn position_of(word: u64) -> u64 {
    word >> (RANK_BITS + FLAG_BITS)
}

fn rank_of(word: u64) -> u32 {
    (word >> FLAG_BITS) as u32 & (RANKS_MOST - 1)
}

fn flags_of(word: u64) -> u64 {
    word & ((1 << FLAG_BITS) - 1)
}

/// The kind of access to a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessKind {
    /// Reading, beside other readers.
    Read,
    /// Reading and writing, alone.
    Write,
}

/// Possible damage of the contents, because a rank died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    /// The rank that died.
    pub victim: u32,
    /// Whether the contents are those of an earlier write, because newer ones died with their only
    /// copy. Otherwise they may be in the middle of an update.
    pub stale: bool,
}

/// The turn at the head of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Head {
    /// The turn. Every earlier request has ended or is reading.
    pub position: u64,
    /// The damage that has not been overwritten by a new write.
    pub mark: Option<Mark>,
}

const TORN: u64 = 1;
const STALE: u64 = 2;

impl Head {
    /// The word.
    pub fn bits(self) -> u64 {
        let Head { position, mark } = self;
        let flags = mark.map_or(0, |mark| if mark.stale { STALE } else { TORN });
        pack(position, mark.map_or(0, |mark| mark.victim), flags)
    }

    /// Decodes a word.
    pub fn of(word: u64) -> Head {
        let stale = flags_of(word) & STALE != 0;
        let mark = (flags_of(word) != 0).then_some(Mark { victim: rank_of(word), stale });
        Head { position: position_of(word), mark }
    }

    /// The turn after this one.
    pub fn next(self) -> Head {
        Head { position: self.position + 1, ..self }
    }
}

/// The phase of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RequestPhase {
    /// It waits, or it has its turn and has changed nothing.
    Waiting,
    /// It has its turn and may be writing.
    Entered,
    /// Its rank cancelled it and may take it up again.
    Gone,
    /// Other ranks pass it, whatever its rank does.
    Buried,
    /// Its rank has released the variable and keeps the turn until another rank asks for it.
    Kept,
}

/// The request for one turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RequestCell {
    /// The turn. A cell with an earlier turn is free.
    pub position: u64,
    /// The rank that asked.
    pub rank: u32,
    /// The access that the rank wants.
    pub kind: AccessKind,
    /// Its phase.
    pub phase: RequestPhase,
}

impl RequestCell {
    /// The word.
    pub fn bits(self) -> u64 {
        let kind = u64::from(self.kind == AccessKind::Write);
        let phase = match self.phase {
            RequestPhase::Waiting => 0,
            RequestPhase::Entered => 2,
            RequestPhase::Gone => 4,
            RequestPhase::Buried => 6,
            RequestPhase::Kept => 8,
        };
        pack(self.position, self.rank, kind | phase)
    }

    /// Decodes a word.
    pub fn of(word: u64) -> RequestCell {
        let flags = flags_of(word);
        let phase = match flags & !1 {
            0 => RequestPhase::Waiting,
            2 => RequestPhase::Entered,
            4 => RequestPhase::Gone,
            6 => RequestPhase::Buried,
            _ => RequestPhase::Kept,
        };
        let kind = if flags & 1 == 0 { AccessKind::Read } else { AccessKind::Write };
        RequestCell { position: position_of(word), rank: rank_of(word), kind, phase }
    }
}

/// A version and a node: the contents of the words `latest`, `held` and `owner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Version {
    /// The turn of the write.
    pub position: u64,
    /// The node that wrote it.
    pub node: u32,
    /// Whether other nodes may have copies of it.
    pub shared: bool,
}

impl Version {
    /// The bit of [`Version::shared`]. It is above the bits of a kept version.
    pub const SHARED: u64 = 1 << (FLAG_BITS - 1);

    /// Bits of `held` for a version that its writer keeps: kept, inside again, and asked for by
    /// another rank.
    pub const KEPT: u64 = 1;
    /// See [`Version::KEPT`].
    pub const INSIDE: u64 = 2;
    /// See [`Version::KEPT`].
    pub const ASKED: u64 = 4;

    /// The word.
    pub fn bits(self) -> u64 {
        pack(self.position, self.node, if self.shared { Version::SHARED } else { 0 })
    }

    /// Decodes a word.
    pub fn of(word: u64) -> Version {
        let shared = flags_of(word) & Version::SHARED != 0;
        Version { position: position_of(word), node: rank_of(word), shared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: u64 = (1 << 46) - 1;

    const PHASES: [RequestPhase; 5] = [
        RequestPhase::Waiting,
        RequestPhase::Entered,
        RequestPhase::Gone,
        RequestPhase::Buried,
        RequestPhase::Kept,
    ];

    #[test]
    fn words_survive_encoding() {
        for position in [0, FIRST, LATE] {
            for rank in [0, 7, RANKS_MOST - 1] {
                for stale in [false, true] {
                    let head = Head { position, mark: Some(Mark { victim: rank, stale }) };
                    assert_eq!(Head::of(head.bits()), head);
                    let version = Version { position, node: rank, shared: stale };
                    assert_eq!(Version::of(version.bits()), version);
                }
                for phase in PHASES {
                    for kind in [AccessKind::Read, AccessKind::Write] {
                        let cell = RequestCell { position, rank, kind, phase };
                        assert_eq!(RequestCell::of(cell.bits()), cell);
                    }
                }
            }
            let head = Head { position, mark: None };
            assert_eq!(Head::of(head.bits()), head);
        }
    }

    #[test]
    fn the_later_word_is_the_larger() {
        let early = Version { position: 5, node: RANKS_MOST - 1, shared: true };
        let late = Version { position: 6, node: 0, shared: false };
        assert!(late.bits() > early.bits());
        // A copy that was found torn sorts above the version that its writer wrote.
        let kept = Version { position: 5, node: 0, shared: false }.bits() | Version::KEPT;
        let torn = Version { position: 5, node: 0, shared: true }.bits();
        assert!(torn > (kept | Version::INSIDE | Version::ASKED) && kept < late.bits());
    }

    #[test]
    fn fg_05_owner_and_state_of_8192_variables_fit_the_llcm() {
        assert_eq!(VARIABLES_MOST, 8192);
    }
}
