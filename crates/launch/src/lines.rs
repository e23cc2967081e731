//! Assembles whole lines from pieces, and merges many ranks' lines into one stream.
//!
//! ```text
//!   rank 0 ─pipe─► Assembler ─┐  whole lines, or a fragment
//!   rank 1 ─pipe─► Assembler ─┼──────────────────────────────► Weaver ─► bytes to write
//!   rank 2 ─pipe─► Assembler ─┘                                (labels, line ends)
//! ```
//!
//! Pure: bytes in, bytes out. Output is bytes, not text; nothing is decoded or dropped. The output
//! of a rank that writes alone is unchanged to the last byte, with or without a final newline. A
//! newline is added in one case only: between an unfinished line and another rank's output.
//!
//! Memory is bounded: an assembler holds less than [`LINE_BYTES`]. Only a longer line can be
//! broken, into pieces of that length, and only if another rank writes in between.

/// How many bytes of an unfinished line are held back. Long enough for any log line or a row of
/// numbers; short enough that 4096 ranks in the middle of a line stay within 512 MiB, and the usual
/// few ranks within a few hundred KiB.
pub(super) const LINE_BYTES: usize = 64 * 1024;

/// Cuts one rank's stream at line ends.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    /// The beginning of a line whose end has not arrived yet.
    held: Vec<u8>,
}

impl Assembler {
    /// Takes the next bytes of the stream and passes on complete output: any number of whole lines
    /// in one piece, or a fragment if a line grows beyond [`LINE_BYTES`].
    pub(super) fn feed(&mut self, bytes: &[u8], mut pass: impl FnMut(&[u8])) {
        let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let (whole, rest) = bytes.split_at(end);
        if !whole.is_empty() {
            if self.held.is_empty() {
                pass(whole);
            } else {
                self.held.extend_from_slice(whole);
                pass(&self.held);
                self.held.clear();
            }
        }
        self.held.extend_from_slice(rest);
        if self.held.len() >= LINE_BYTES {
            pass(&self.held);
            self.held.clear();
        }
    }

    /// Whether it holds an unfinished line.
    pub(super) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Passes on the unfinished line, at the end of the stream or when it must be shown.
    pub(super) fn flush(&mut self, pass: impl FnOnce(&[u8])) {
        if self.is_holding() {
            pass(&self.held);
            self.held.clear();
        }
    }
}

/// The source of output: the rank, and which of its streams (two may go to one file).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OutputSource {
    pub(super) rank: u32,
    pub(super) stream: usize,
}

/// Merges pieces of many sources into one stream, keeps lines apart and labels them.
#[derive(Debug)]
pub(super) struct Weaver {
    /// Whether lines start with `[rank] `.
    label: bool,
    /// The source of an unfinished line at the end of the stream.
    open: Option<OutputSource>,
}

impl Weaver {
    pub(super) fn new(label: bool) -> Weaver {
        Weaver { label, open: None }
    }

    /// Appends a piece (not empty) to `out`.
    pub(super) fn weave(&mut self, source: OutputSource, piece: &[u8], out: &mut Vec<u8>) {
        let continues = self.open == Some(source);
        if !continues {
            self.close(out);
        }
        if self.label {
            let label = format!("[{}] ", source.rank);
            let lines = piece.split_inclusive(|&byte| byte == b'\n');
            for (index, line) in lines.enumerate() {
                if index > 0 || !continues {
                    out.extend_from_slice(label.as_bytes());
                }
                out.extend_from_slice(line);
            }
        } else {
            out.extend_from_slice(piece);
        }
        self.open = (piece.last() != Some(&b'\n')).then_some(source);
    }

    /// Ends an unfinished line.
    pub(super) fn close(&mut self, out: &mut Vec<u8>) {
        if self.open.take().is_some() {
            out.push(b'\n');
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn source(rank: u32) -> OutputSource {
        OutputSource { rank, stream: 0 }
    }

    fn pieces(chunks: &[&[u8]]) -> (Vec<Vec<u8>>, Assembler) {
        let (mut out, mut assembler) = (Vec::new(), Assembler::default());
        for chunk in chunks {
            assembler.feed(chunk, |piece| out.push(piece.to_vec()));
        }
        (out, assembler)
    }

    fn woven(label: bool, pieces: &[(u32, &[u8])]) -> Vec<u8> {
        let (mut weaver, mut out) = (Weaver::new(label), Vec::new());
        for &(rank, piece) in pieces {
            weaver.weave(source(rank), piece, &mut out);
        }
        out
    }

    #[test]
    fn lines_wait_for_their_end() {
        let (out, assembler) = pieces(&[b"he", b"llo\nwor", b"ld"]);
        assert_eq!(out, [b"hello\n".to_vec()]);
        assert!(assembler.is_holding());
        let (out, assembler) = pieces(&[b"a\nb\n\nc\n"]);
        assert_eq!(out, [b"a\nb\n\nc\n".to_vec()], "many lines go in one piece");
        assert!(!assembler.is_holding());
    }

    #[test]
    fn a_stream_may_end_without_a_newline() {
        let (_, mut assembler) = pieces(&[b"tail"]);
        let mut rest = Vec::new();
        assembler.flush(|piece| rest.extend_from_slice(piece));
        assert_eq!(rest, b"tail");
        assembler.flush(|_| unreachable!("nothing is left"));
    }

    #[test]
    fn an_endless_line_does_not_grow_memory() {
        let chunk = [b'x'; 1000];
        let (mut assembler, mut passed) = (Assembler::default(), 0);
        for _ in 0..1000 {
            assembler.feed(&chunk, |piece| {
                assert!(piece.len() < LINE_BYTES + chunk.len());
                passed += piece.len();
            });
            assert!(assembler.held.len() < LINE_BYTES);
        }
        assert_eq!(passed + assembler.held.len(), 1_000_000);
    }

    #[test]
    fn a_long_line_below_the_limit_stays_whole() {
        let mut line = vec![b'y'; LINE_BYTES - 2];
        line.push(b'\n');
        let (first, second) = line.split_at(LINE_BYTES / 2);
        let (out, _) = pieces(&[first, second]);
        assert_eq!(out, [line]);
    }

    #[test]
    fn one_rank_alone_is_unchanged() {
        assert_eq!(
            woven(false, &[(0, b"\0\xffa"), (0, b"b\n\r\n"), (0, b"c")]),
            b"\0\xffab\n\r\nc"
        );
    }

    #[test]
    fn an_open_line_is_ended_before_another_rank_writes() {
        assert_eq!(
            woven(false, &[(0, b"open"), (1, b"line\n"), (0, b"more")]),
            b"open\nline\nmore"
        );
        assert_eq!(woven(false, &[(0, b"a\n"), (1, b"b\n")]), b"a\nb\n");
    }

    #[test]
    fn labels_start_every_line_once() {
        let out = woven(true, &[(3, b"a\n\nb\n"), (12, b"c"), (12, b"d\ne"), (3, b"f\n")]);
        assert_eq!(out, b"[3] a\n[3] \n[3] b\n[12] cd\n[12] e\n[3] f\n");
    }

    #[test]
    fn two_streams_of_one_rank_do_not_join_lines() {
        let (mut weaver, mut out) = (Weaver::new(false), Vec::new());
        weaver.weave(OutputSource { rank: 0, stream: 0 }, b"out", &mut out);
        weaver.weave(OutputSource { rank: 0, stream: 1 }, b"err\n", &mut out);
        assert_eq!(out, b"out\nerr\n");
    }

    proptest! {
        /// However the streams are cut into pieces and interleaved, every line is whole, and each
        /// rank's lines are in order.
        #[test]
        fn lines_are_whole_however_they_are_cut(
            cuts in proptest::collection::vec((0u32..3, 1usize..9), 1..200)
        ) {
            let texts: Vec<Vec<u8>> = (0..3)
                .map(|rank| (0..50).flat_map(|i| format!("{rank}:{i}\n").into_bytes()).collect())
                .collect();
            let mut at = [0usize; 3];
            let mut assemblers = [Assembler::default(), Assembler::default(), Assembler::default()];
            let (mut weaver, mut out) = (Weaver::new(false), Vec::new());
            let rest = (0..3).map(|rank| (rank, usize::MAX));
            for (rank, length) in cuts.into_iter().chain(rest) {
                let index = rank as usize;
                let end = at[index].saturating_add(length).min(texts[index].len());
                let piece = &texts[index][at[index]..end];
                at[index] = end;
                assemblers[index].feed(piece, |whole| weaver.weave(source(rank), whole, &mut out));
            }
            for rank in 0..3u32 {
                let prefix = format!("{rank}:");
                let lines: Vec<u8> = out
                    .split_inclusive(|&b| b == b'\n')
                    .filter(|line| line.starts_with(prefix.as_bytes()))
                    .flatten()
                    .copied()
                    .collect();
                prop_assert_eq!(&lines, &texts[rank as usize]);
            }
            prop_assert_eq!(out.len(), texts.iter().map(Vec::len).sum::<usize>());
        }
    }
}
