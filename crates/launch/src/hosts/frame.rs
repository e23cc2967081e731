//! The frames between the launcher and the daemons. Pure.
//!
//! ```text
//!   length u32 | kind u8 | host u32 | contents        length counts what follows it
//! ```
//!
//! `host` is the destination of a frame from the launcher ([`ALL`]: every host), and the source of
//! a frame to the launcher. Frames that keep a link alive name no host and are not passed on. On a
//! TCP connection a seal follows each frame.

use std::collections::VecDeque;

use hikyaku_nic::fabric::DeathCause;
use hikyaku_shm::JobEnd;

use super::bytes::{Malformed, Value, take_bytes};
use super::plan::HostPlan;
use super::seal::{SEAL_BYTES, Seal};
use crate::crew::RankExit;
use crate::ending::Ending;

/// For every host.
pub(super) const ALL: u32 = u32::MAX;

/// The maximum length of a frame. The longest frame in practice is a plan: the environment and
/// arguments, which the kernel limits to 2 MiB together, and the names of all hosts.
pub(super) const MOST_BYTES: usize = 4 << 20;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Frame {
    /// Down: the host's plan, with everything that it starts.
    Plan(Box<HostPlan>),
    /// Down: a signal for the ranks.
    Signal(i32),
    /// Down: a request for the calls in which the ranks wait.
    Ask,
    /// Down: standard input of rank 0. An empty frame is the end of input.
    Input(Vec<u8>),
    /// Down: so many bytes of this stream were consumed, so that the host may send as many more.
    Taken(u8, u32),
    /// Down: this stream has no reader any more.
    Close(u8),
    /// Down: this rank has died. Fields: rank, process id, cause.
    Dead(u32, u32, DeathCause),
    /// Down: these ranks have left, and their processes have ended.
    Left(Vec<u32>),
    /// Down: the job is over.
    End,
    /// Both: addresses of ranks.
    Cards(Vec<(u32, Vec<u8>)>),
    /// Both: the link is alive.
    Beat,
    /// Up: the process ids of the ranks, which run now.
    Started(Vec<u32>),
    /// Up: the ranks cannot be started. Fields: exit code, reason.
    Refused(i32, String),
    /// Up: a rank has ended.
    Ended(RankExit),
    /// Up: output of a rank. Fields: rank, stream, bytes.
    Output(u32, u8, Vec<u8>),
    /// Up: each rank's current activity. Fields: rank, process id, the rest of a sentence.
    Doing(Vec<(u32, u32, String)>),
    /// Up: rank 0 has consumed so many bytes of its input. `None`: it accepts no more.
    TookInput(Option<u32>),
    /// Up: this host is lost. The daemon that started the host's daemon reports it.
    Lost(String),
    /// Up: one line of text for the user.
    Said(String),
    /// Up: nothing of the job is left on this host.
    Done,
}

impl Frame {
    /// Appends the encoded frame.
    pub(super) fn put(&self, host: u32, out: &mut Vec<u8>) {
        let at = out.len();
        0u32.put(out);
        self.kind().put(out);
        host.put(out);
        match self {
            Frame::Plan(plan) => plan.put(out),
            Frame::Signal(signal) => signal.put(out),
            Frame::Ask | Frame::End | Frame::Beat | Frame::Done => {}
            Frame::Input(bytes) => bytes.put(out),
            Frame::Taken(stream, bytes) => (*stream, *bytes).put(out),
            Frame::Close(stream) => stream.put(out),
            Frame::Dead(rank, pid, cause) => {
                (*rank, *pid).put(out);
                cause.put(out);
            }
            Frame::Left(ranks) => ranks.put(out),
            Frame::Cards(cards) => cards.put(out),
            Frame::Started(pids) => pids.put(out),
            Frame::Refused(code, reason) => {
                code.put(out);
                reason.put(out);
            }
            Frame::Ended(ended) => ended.put(out),
            Frame::Output(rank, stream, bytes) => {
                rank.put(out);
                stream.put(out);
                bytes.put(out);
            }
            Frame::Doing(doing) => doing.put(out),
            Frame::TookInput(bytes) => bytes.put(out),
            Frame::Lost(reason) | Frame::Said(reason) => reason.put(out),
        }
        let length = u32::try_from(out.len() - at - 4).expect("frames are much shorter");
        out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn kind(&self) -> u8 {
        match self {
            Frame::Plan(_) => 1,
            Frame::Signal(_) => 2,
            Frame::Ask => 3,
            Frame::Input(_) => 4,
            Frame::Taken(..) => 5,
            Frame::Close(_) => 6,
            Frame::Dead(..) => 7,
            Frame::End => 8,
            Frame::Cards(_) => 9,
            Frame::Beat => 10,
            Frame::Started(_) => 11,
            Frame::Refused(..) => 12,
            Frame::Ended(_) => 13,
            Frame::Output(..) => 14,
            Frame::Doing(_) => 15,
            Frame::TookInput(_) => 16,
            Frame::Lost(_) => 17,
            Frame::Said(_) => 18,
            Frame::Done => 19,
            Frame::Left(_) => 20,
        }
    }

    /// Decodes a frame. All bytes must belong to it.
    fn take(mut from: &[u8]) -> Result<(u32, Frame), Malformed> {
        let from = &mut from;
        let (kind, host) = <(u8, u32)>::take(from)?;
        let frame = match kind {
            1 => Frame::Plan(Box::new(HostPlan::take(from)?)),
            2 => Frame::Signal(Value::take(from)?),
            3 => Frame::Ask,
            4 => Frame::Input(Value::take(from)?),
            5 => Frame::Taken(Value::take(from)?, Value::take(from)?),
            6 => Frame::Close(Value::take(from)?),
            7 => Frame::Dead(Value::take(from)?, Value::take(from)?, Value::take(from)?),
            8 => Frame::End,
            9 => Frame::Cards(Value::take(from)?),
            10 => Frame::Beat,
            11 => Frame::Started(Value::take(from)?),
            12 => Frame::Refused(Value::take(from)?, Value::take(from)?),
            13 => Frame::Ended(Value::take(from)?),
            14 => Frame::Output(Value::take(from)?, Value::take(from)?, Value::take(from)?),
            15 => Frame::Doing(Value::take(from)?),
            16 => Frame::TookInput(Value::take(from)?),
            17 => Frame::Lost(Value::take(from)?),
            18 => Frame::Said(Value::take(from)?),
            19 => Frame::Done,
            20 => Frame::Left(Value::take(from)?),
            _ => return Err(Malformed("a kind that does not exist")),
        };
        match from.is_empty() {
            true => Ok((host, frame)),
            false => Err(Malformed("it goes on after its end")),
        }
    }
}

impl Value for DeathCause {
    fn put(&self, out: &mut Vec<u8>) {
        match *self {
            DeathCause::Unknown => (0u8, 0i32),
            DeathCause::Exit(code) => (1, code),
            DeathCause::Signal(signal) => (2, signal),
            DeathCause::Overwritten => (3, 0),
            DeathCause::Malformed => (4, 0),
            DeathCause::Unreachable(code) => (5, code),
            DeathCause::Dropped => (6, 0),
        }
        .put(out);
    }

    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        match Value::take(from)? {
            (0u8, _) => Ok(DeathCause::Unknown),
            (1, code) => Ok(DeathCause::Exit(code)),
            (2, signal) => Ok(DeathCause::Signal(signal)),
            (3, _) => Ok(DeathCause::Overwritten),
            (4, _) => Ok(DeathCause::Malformed),
            (5, code) => Ok(DeathCause::Unreachable(code)),
            (6, _) => Ok(DeathCause::Dropped),
            _ => Err(Malformed("a cause of death that does not exist")),
        }
    }
}

impl Value for RankExit {
    fn put(&self, out: &mut Vec<u8>) {
        let RankExit { rank, pid, ending, left, end } = *self;
        (rank, pid).put(out);
        match ending {
            Ending::Code(code) => (0u8, code),
            Ending::Signal(signal) => (1, signal),
        }
        .put(out);
        left.put(out);
        match end {
            None => (0u8, 0),
            Some(JobEnd::Failed) => (1, 0),
            Some(JobEnd::Aborted(rank)) => (2, rank),
            Some(JobEnd::Followed) => (3, 0),
        }
        .put(out);
    }

    fn take(from: &mut &[u8]) -> Result<Self, Malformed> {
        let (rank, pid) = Value::take(from)?;
        let ending = match Value::take(from)? {
            (0u8, code) => Ending::Code(code),
            (1, signal) => Ending::Signal(signal),
            _ => return Err(Malformed("an ending that does not exist")),
        };
        let left = Value::take(from)?;
        let end = match Value::take(from)? {
            (0u8, 0u32) => None,
            (1, 0) => Some(JobEnd::Failed),
            (2, rank) => Some(JobEnd::Aborted(rank)),
            (3, 0) => Some(JobEnd::Followed),
            _ => return Err(Malformed("an end of a job that does not exist")),
        };
        Ok(RankExit { rank, pid, ending, left, end })
    }
}

/// Assembles frames from bytes that arrive in pieces.
#[derive(Default)]
pub(super) struct Decoder {
    bytes: VecDeque<u8>,
    seal: Option<Seal>,
}

impl Decoder {
    /// A decoder of sealed frames.
    pub(super) fn sealed(seal: Seal) -> Decoder {
        Decoder { bytes: VecDeque::new(), seal: Some(seal) }
    }

    /// Appends received bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
    }

    /// The next frame, once it is complete.
    ///
    /// # Errors
    /// The bytes are not a frame, or the seal is wrong. Nothing that follows can be trusted.
    pub(super) fn next(&mut self) -> Result<Option<(u32, Frame)>, Malformed> {
        let bytes = self.bytes.make_contiguous();
        let Ok(length) = u32::take(&mut &bytes[..]) else { return Ok(None) };
        let length = length as usize;
        if length > MOST_BYTES {
            return Err(Malformed("a frame that is longer than any"));
        }
        let mut from = &bytes[4..];
        let Ok(contents) = take_bytes(&mut from, length) else { return Ok(None) };
        let mut end = 4 + length;
        if let Some(seal) = &mut self.seal {
            let Ok(code) = take_bytes(&mut from, SEAL_BYTES) else { return Ok(None) };
            seal.check(&bytes[..end], code)?;
            end += SEAL_BYTES;
        }
        let frame = Frame::take(contents)?;
        self.bytes.drain(..end);
        Ok(Some(frame))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn frames() -> Vec<Frame> {
        let ended = RankExit {
            rank: 3,
            pid: 9,
            ending: Ending::Signal(9),
            left: false,
            end: Some(JobEnd::Failed),
        };
        vec![
            Frame::Signal(15),
            Frame::Ask,
            Frame::Input(b"in".to_vec()),
            Frame::Taken(1, 7),
            Frame::Close(0),
            Frame::Dead(2, 77, DeathCause::Exit(3)),
            Frame::Left(vec![4, 5]),
            Frame::End,
            Frame::Cards(vec![(1, vec![1, 2]), (2, Vec::new())]),
            Frame::Beat,
            Frame::Started(vec![4, 5]),
            Frame::Refused(2, "no".into()),
            Frame::Ended(ended),
            Frame::Output(1, 0, b"out\n".to_vec()),
            Frame::Doing(vec![(0, 1, "waits".into())]),
            Frame::TookInput(None),
            Frame::TookInput(Some(5)),
            Frame::Lost("b".into()),
            Frame::Said("c".into()),
            Frame::Done,
        ]
    }

    #[test]
    fn frames_arrive_as_they_were_sent_byte_by_byte() {
        let mut bytes = Vec::new();
        frames().iter().for_each(|frame| frame.put(6, &mut bytes));
        let (mut decoder, mut came) = (Decoder::default(), Vec::new());
        for byte in bytes {
            decoder.feed(&[byte]);
            while let Some((host, frame)) = decoder.next().unwrap() {
                assert_eq!(host, 6);
                came.push(frame);
            }
        }
        assert_eq!(came, frames());
    }

    #[test]
    fn what_is_cut_or_goes_on_is_malformed() {
        for frame in frames() {
            let mut bytes = Vec::new();
            frame.put(0, &mut bytes);
            let contents = &bytes[4..];
            assert!(Frame::take(&contents[..contents.len() - 1]).is_err(), "{frame:?}");
            assert!(Frame::take(&[contents, &[0]].concat()).is_err(), "{frame:?}");
        }
    }

    /// Sealed frames, as a connection carries them.
    fn sealed(frames: &[Frame]) -> Vec<Vec<u8>> {
        let (mut seal, mut all) = (seals().up, Vec::new());
        for frame in frames {
            let mut bytes = Vec::new();
            frame.put(6, &mut bytes);
            let code = seal.next(&bytes);
            bytes.extend_from_slice(&code);
            all.push(bytes);
        }
        all
    }

    fn seals() -> crate::hosts::seal::Seals {
        use crate::hosts::seal::{Challenge, Hello, Secret};
        let hello = Hello::new(&Secret([1; 32]), 0, [2; 32]);
        let challenge = Challenge::new(&Secret([1; 32]), &hello.message(), [3; 32]).unwrap();
        hello.answer(&challenge.message()).unwrap().1
    }

    /// The number of frames in these bytes, and whether decoding then failed.
    fn came(pieces: &[&[u8]]) -> (usize, bool) {
        let (mut decoder, mut count) = (Decoder::sealed(seals().up), 0);
        pieces.iter().for_each(|piece| decoder.feed(piece));
        loop {
            match decoder.next() {
                Ok(Some(_)) => count += 1,
                Ok(None) => return (count, false),
                Err(_) => return (count, true),
            }
        }
    }

    #[test]
    fn sealed_frames_arrive_byte_by_byte() {
        let (mut decoder, mut came) = (Decoder::sealed(seals().up), Vec::new());
        for byte in sealed(&frames()).concat() {
            decoder.feed(&[byte]);
            came.extend(decoder.next().unwrap().map(|(_, frame)| frame));
        }
        assert_eq!(came, frames());
    }

    #[test]
    fn a_sealed_frame_is_taken_once_in_its_place_and_unchanged() {
        let all = sealed(&[Frame::Ask, Frame::Input(b"words".to_vec()), Frame::End]);
        let [a, b, c] = [0, 1, 2].map(|at| &all[at][..]);
        assert_eq!(came(&[a, b, c]), (3, false));
        assert_eq!(came(&[a, a]), (1, true), "repeated");
        assert_eq!(came(&[a, c]), (1, true), "left out");
        assert_eq!(came(&[b, a]), (0, true), "another order");
        assert_eq!(came(&[a, &b[..b.len() - 1]]), (1, false), "cut");
        for at in 4..b.len() {
            let mut changed = b.to_vec();
            changed[at] ^= 4;
            assert_eq!(came(&[a, &changed]), (1, true), "{at}");
        }
        let mut other = Vec::new();
        Frame::End.put(6, &mut other);
        assert_eq!(came(&[a, &other, &[0; SEAL_BYTES]]), (1, true), "put in");
        let (mut down, mut code) = (seals().down, other);
        code.extend_from_slice(&down.next(&code.clone()));
        assert_eq!(came(&[&code]), (0, true), "of the other direction");
    }

    proptest! {
        #[test]
        fn nonsense_is_refused_and_harms_nothing(kind in 0u8..22, bytes: Vec<u8>) {
            let contents = [&[kind, 0, 0, 0, 0], &bytes[..]].concat();
            if let Ok((host, frame)) = Frame::take(&contents) {
                let mut again = Vec::new();
                frame.put(host, &mut again);
                prop_assert!(!again.is_empty());
            }
        }
    }
}
