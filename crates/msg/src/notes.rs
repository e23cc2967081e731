//! Notes: short messages between the library's own protocols, which use no resources of the
//! program.
//!
//! A protocol above this layer (letters of shared variables, notices of failed collectives) must
//! progress while the program's messages are unmatched and their credit and rings are exhausted. So
//! a note is sent in control packets: pieces of one status record each, without credit and without
//! ring space. They arrive at the receiver's next poll of its status ring, before anything else
//! that waits for the same rank. Arrived notes are kept apart from messages and are never matched:
//! the protocol takes them out.
//!
//! A protocol may have to answer while the rank is in a call that takes out no notes of it. Then it
//! gives the engine an [`Answerer`], which is called with each note of its context on arrival.
//!
//! Nothing delays the sender of notes. The protocol bounds their number: a request is answered
//! before the next one is made.

use std::collections::VecDeque;
use std::fmt;

use hikyaku_nic::by_rank::ByRank;
use hikyaku_nic::fabric::{INLINE_BYTES, Rank};

use crate::config::of_each_rank;
use crate::envelope::{Received, Selector, context_of, tag_of};
use crate::protocol::Control;

/// Maximum length of a note, bytes.
pub const NOTE_MOST: usize = 160;

/// Maximum number of one source's notes here: our ranks never send that many without an answer.
const OF_A_SOURCE: u32 = 1 << 16;

/// Answers notes of a context as they arrive, whatever call the rank is in.
pub trait Answerer: fmt::Debug + Send {
    /// The answer to all ranks of the context, sent as a note of the same tag; `None`: no answer.
    /// The note that has arrived stays until it is taken out.
    fn answer(&mut self, tag: i32, bytes: &[u8]) -> Option<Vec<u8>>;
}

/// A note that has arrived.
#[derive(Debug)]
struct Note {
    source: Rank,
    bits: u64,
    bytes: Vec<u8>,
}

/// The notes of one engine.
#[derive(Debug)]
pub(crate) struct Notes {
    here: VecDeque<Note>,
    sources: ByRank<NoteSource>,
    /// Notes that have arrived since the start.
    come: u64,
}

#[derive(Debug, Default)]
struct NoteSource {
    /// The match bits and the pieces so far of the note that is arriving.
    coming: Option<(u64, Vec<u8>)>,
    /// How many notes of the source are here.
    here: u32,
}

impl Notes {
    pub(crate) fn new(ranks: u32) -> Notes {
        Notes { here: VecDeque::new(), sources: of_each_rank(ranks, NoteSource::default), come: 0 }
    }

    /// Whether no note is here.
    #[inline]
    pub(crate) fn are_none(&self) -> bool {
        self.here.is_empty()
    }

    /// How many notes have arrived since the start.
    #[inline]
    pub(crate) fn come(&self) -> u64 {
        self.come
    }

    /// Takes a piece from an existing source. `false`: it does not fit the current note, and is
    /// dropped.
    pub(crate) fn arrive(&mut self, source: Rank, bits: u64, piece: &[u8], last: bool) -> bool {
        let state = &mut self.sources[source as usize];
        let (begun, mut bytes) = state.coming.take().unwrap_or((bits, Vec::new()));
        let fits = bytes.len() + piece.len() <= NOTE_MOST;
        if begun != bits || !fits || state.here == OF_A_SOURCE {
            return false;
        }
        bytes.extend_from_slice(piece);
        if last {
            state.here += 1;
            self.come += 1;
            self.here.push_back(Note { source, bits, bytes });
        } else {
            state.coming = Some((bits, bytes));
        }
        true
    }

    /// The bytes of the latest note.
    pub(crate) fn latest(&self) -> &[u8] {
        self.here.back().map_or(&[], |note| &note.bytes)
    }

    /// Drops the latest note.
    pub(crate) fn drop_latest(&mut self) {
        if let Some(note) = self.here.pop_back() {
            self.sources[note.source as usize].here -= 1;
        }
    }

    /// Drops an incomplete note of a source that sends nothing more.
    pub(crate) fn end(&mut self, source: Rank) {
        self.sources[source as usize].coming = None;
    }

    /// Drops the notes of contexts that have ended.
    pub(crate) fn drop_of(&mut self, is_over: impl Fn(u32) -> bool) {
        let sources = &mut self.sources;
        self.here.retain(|note| {
            let stays = !is_over(context_of(note.bits));
            sources[note.source as usize].here -= u32::from(!stays);
            stays
        });
    }

    /// Takes the earliest note of a context with a wanted tag.
    pub(crate) fn take(
        &mut self,
        context: u32,
        wanted: impl Fn(i32) -> bool,
    ) -> Option<(Received, Vec<u8>)> {
        let any_tag = Selector { source: None, tag: None, context }.pattern();
        let fits = |note: &Note| any_tag.takes(note.bits) && wanted(tag_of(note.bits));
        let at = self.here.iter().position(fits)?;
        let Note { source, bits, bytes } = self.here.remove(at)?;
        self.sources[source as usize].here -= 1;
        Some((Received { source, tag: tag_of(bits), bytes: bytes.len() as u64 }, bytes))
    }
}

/// The packets of a note.
pub(crate) fn pieces(bits: u64, bytes: &[u8]) -> impl Iterator<Item = Control> + '_ {
    let count = bytes.len().div_ceil(INLINE_BYTES).max(1);
    (0..count).map(move |at| {
        let piece = &bytes[at * INLINE_BYTES..bytes.len().min((at + 1) * INLINE_BYTES)];
        let mut payload = [0; INLINE_BYTES];
        payload[..piece.len()].copy_from_slice(piece);
        Control::Note { bits, payload, length: piece.len() as u8, last: at + 1 == count }
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::envelope::match_bits;

    fn carry(notes: &mut Notes, source: Rank, bits: u64, bytes: &[u8]) {
        for control in pieces(bits, bytes) {
            let Control::Note { bits, payload, length, last } = control else { unreachable!() };
            assert!(notes.arrive(source, bits, &payload[..length.into()], last));
        }
    }

    #[test]
    fn notes_of_any_length_arrive_intact_in_order() {
        let mut notes = Notes::new(2);
        let bytes: Vec<u8> = (0..NOTE_MOST as u8).collect();
        for length in 0..=NOTE_MOST {
            carry(&mut notes, 1, match_bits(7, length as i32), &bytes[..length]);
        }
        assert_eq!(notes.take(8, |_| true), None, "of another context");
        for length in (0..=NOTE_MOST).rev().filter(|length| length % 2 == 1) {
            let (about, note) = notes.take(7, |tag| tag == length as i32).unwrap();
            assert_eq!((about.source, about.tag, &note[..]), (1, length as i32, &bytes[..length]));
        }
        for length in (0..=NOTE_MOST).step_by(2) {
            let (about, note) = notes.take(7, |_| true).unwrap();
            assert_eq!((about.tag, about.bytes), (length as i32, note.len() as u64));
            assert_eq!(note.len(), length);
        }
        assert_eq!(notes.take(7, |_| true), None);
    }

    #[test]
    fn invalid_pieces_and_excess_notes_are_refused() {
        let mut notes = Notes::new(2);
        assert!(notes.arrive(0, 1, &[1; 40], false));
        assert!(!notes.arrive(0, 2, &[2; 40], true), "it does not go on with that");
        (0..4).for_each(|_| assert!(notes.arrive(0, 1, &[1; 40], false)));
        assert!(!notes.arrive(0, 1, &[1], true), "too long");
        assert!(notes.arrive(1, 1, &[1], false));
        notes.end(1);
        carry(&mut notes, 1, 2, &[3]);
        assert_eq!(notes.here.len(), 1);
        (1..OF_A_SOURCE).for_each(|_| assert!(notes.arrive(1, 2, &[], true)));
        assert!(!notes.arrive(1, 2, &[], true));
        assert!(notes.take(0, |_| true).is_some() && notes.arrive(1, 2, &[], true));
    }
}
