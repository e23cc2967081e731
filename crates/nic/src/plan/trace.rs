//! A trace: the traffic from each rank to each other rank in a run.
//!
//! ```text
//!   hikyaku trace 1
//!   ranks 64
//!   0 1 p 100 409600 100 409600 3        source, destination, kind: messages, bytes,
//!   0 8 c 4 32 0 0 0                     packets in the landing ring, their room, held up
//!   0 * 7 280 0 0 0                      traffic of rank 0 to ranks that are left out
//!   end 0                                the rows of rank 0 are complete
//! ```
//!
//! Ranks append their rows as they leave, so rows of several ranks may be in any order, and a rank
//! that was killed has none. Rows of the same pair and kind are added. A rank writes at most
//! [`MOST_PARTNERS`] pairs of a kind, the busiest, and the sum of the others.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use crate::fabric::Rank;

/// Limit of pairs that a rank writes for each kind of message: it bounds a trace for any program.
pub const MOST_PARTNERS: usize = 1024;

/// Limit of ranks of a trace or plan: it bounds the input.
const MOST_RANKS: u32 = 1 << 20;

/// The first line of a trace.
const TITLE: &str = "hikyaku trace 1";

/// The origin of the messages that a row counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrafficKind {
    /// Messages that the program has sent to a rank it named, including those to neighbours.
    Point,
    /// Messages of collective operations and of the library itself, whose partners the library has
    /// chosen.
    Collective,
}

impl TrafficKind {
    /// Both kinds, in the order of a trace.
    pub const ALL: [TrafficKind; 2] = [TrafficKind::Point, TrafficKind::Collective];

    fn letter(self) -> &'static str {
        match self {
            TrafficKind::Point => "p",
            TrafficKind::Collective => "c",
        }
    }
}

/// The traffic from one rank to another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RankFlow {
    /// The number of messages.
    pub messages: u64,
    /// Their bytes, by whichever path they were sent.
    pub bytes: u64,
    /// Packets that took room in the destination's landing ring. Messages inside their status
    /// record take none, nor do bytes that the receiver has copied out of the sender's memory.
    pub packets: u64,
    /// The room of those packets, bytes: whole granules.
    pub ring_bytes: u64,
    /// Messages that found no room or credit at once.
    pub held_up: u64,
}

impl RankFlow {
    /// Adds the counts of another flow.
    pub fn add(&mut self, other: &RankFlow) {
        for (sum, more) in self.words_mut().into_iter().zip(other.words()) {
            *sum = sum.saturating_add(more);
        }
    }

    fn words(&self) -> [u64; 5] {
        [self.messages, self.bytes, self.packets, self.ring_bytes, self.held_up]
    }

    fn words_mut(&mut self) -> [&mut u64; 5] {
        let RankFlow { messages, bytes, packets, ring_bytes, held_up } = self;
        [messages, bytes, packets, ring_bytes, held_up]
    }

    /// The sort key that decides which flows are kept when there are too many.
    fn weight(&self) -> (u64, u64) {
        (self.ring_bytes, self.messages)
    }
}

impl fmt::Display for RankFlow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [messages, bytes, packets, ring_bytes, held_up] = self.words();
        write!(f, "{messages} {bytes} {packets} {ring_bytes} {held_up}")
    }
}

/// The rows of one rank; a trace is written from them as its ranks leave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SentRows {
    flows: BTreeMap<(TrafficKind, Rank), RankFlow>,
}

impl SentRows {
    /// The flow to a rank.
    pub fn to(&mut self, destination: Rank, kind: TrafficKind) -> &mut RankFlow {
        self.flows.entry((kind, destination)).or_default()
    }

    /// All flows, by kind and destination.
    pub fn flows(&self) -> impl Iterator<Item = (TrafficKind, Rank, &RankFlow)> {
        self.flows.iter().map(|((kind, destination), flow)| (*kind, *destination, flow))
    }

    /// The rows of `source`.
    pub fn rows(&self, source: Rank) -> String {
        let mut rows = Vec::new();
        let mut beyond = RankFlow::default();
        for kind in TrafficKind::ALL {
            let mut flows: Vec<_> = self.flows().filter(|(of, ..)| *of == kind).collect();
            flows.sort_by_key(|(_, destination, flow)| {
                (std::cmp::Reverse(flow.weight()), *destination)
            });
            let kept = flows.len().min(MOST_PARTNERS);
            flows[kept..].iter().for_each(|(.., flow)| beyond.add(flow));
            flows.truncate(kept);
            flows.sort_by_key(|(_, destination, _)| *destination);
            rows.extend(flows.iter().map(|(_, destination, flow)| {
                format!("{source} {destination} {} {flow}\n", kind.letter())
            }));
        }
        if beyond != RankFlow::default() {
            rows.push(format!("{source} * {beyond}\n"));
        }
        rows.push(format!("end {source}\n"));
        rows.concat()
    }
}

/// The traffic from each rank to each other rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficTrace {
    ranks: u32,
    /// By destination, source and kind.
    flows: BTreeMap<(Rank, Rank, TrafficKind), RankFlow>,
    /// The traffic to ranks that their sources have left out.
    beyond: RankFlow,
    /// The ranks whose rows are complete.
    ended: BTreeSet<Rank>,
}

/// Why a text is not a valid trace.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub struct TraceError {
    /// The line, from 1.
    pub line: usize,
    /// The error in that line.
    pub what: String,
}

impl TrafficTrace {
    /// The environment variable of the ranks that names the file to which they append their rows.
    pub const VARIABLE: &str = "HIKYAKU_TRACE";

    /// A trace of `ranks` ranks without traffic.
    pub fn new(ranks: u32) -> TrafficTrace {
        let (flows, ended) = Default::default();
        TrafficTrace { ranks, flows, beyond: RankFlow::default(), ended }
    }

    /// The lines before the rows of the ranks.
    pub fn head(ranks: u32) -> String {
        format!("{TITLE}\nranks {ranks}\n")
    }

    /// The number of ranks of the job.
    pub fn ranks(&self) -> u32 {
        self.ranks
    }

    /// Adds traffic from one rank to another.
    pub fn add(&mut self, source: Rank, destination: Rank, kind: TrafficKind, flow: &RankFlow) {
        self.flows.entry((destination, source, kind)).or_default().add(flow);
    }

    /// All rows: destination, source, kind.
    pub fn flows(&self) -> impl Iterator<Item = (Rank, Rank, TrafficKind, &RankFlow)> {
        self.flows.iter().map(|((to, from, kind), flow)| (*to, *from, *kind, flow))
    }

    /// The traffic of each source of a rank, of both kinds together, without the rank's messages to
    /// itself.
    pub fn sources(&self, destination: Rank) -> Vec<(Rank, RankFlow)> {
        let mut sources: Vec<(Rank, RankFlow)> = Vec::new();
        let of = (destination, 0, TrafficKind::Point)
            ..=(destination, Rank::MAX, TrafficKind::Collective);
        for ((_, source, _), flow) in self.flows.range(of) {
            match sources.last_mut() {
                Some((last, sum)) if last == source => sum.add(flow),
                _ => sources.push((*source, *flow)),
            }
        }
        sources.retain(|(source, _)| *source != destination);
        sources
    }

    /// For each rank, the number of other ranks from which it has received messages that their
    /// programs addressed to it: the partners that table 1 of paper 000 counts.
    pub fn partners(&self) -> Vec<u32> {
        let mut partners = vec![0; self.ranks as usize];
        for (to, from, kind, flow) in self.flows() {
            let counts = kind == TrafficKind::Point && to != from && flow.messages > 0;
            partners[to as usize] += u32::from(counts);
        }
        partners
    }

    /// The total traffic.
    pub fn total(&self) -> RankFlow {
        let mut total = self.beyond;
        self.flows.values().for_each(|flow| total.add(flow));
        total
    }

    /// The traffic to ranks that their sources have left out.
    pub fn beyond(&self) -> &RankFlow {
        &self.beyond
    }

    /// Ranks whose rows are missing: they were killed, or the job still runs.
    pub fn missing(&self) -> impl Iterator<Item = Rank> {
        (0..self.ranks).filter(|rank| !self.ended.contains(rank))
    }

    /// Parses a row after the head.
    fn read(&mut self, row: &str) -> Result<(), String> {
        let words: Vec<&str> = row.split_whitespace().collect();
        let rank = |word| rank_of(word, self.ranks);
        match words[..] {
            ["end", of] => {
                let of = rank(of)?;
                self.ended.insert(of);
            }
            [from, "*", ref counts @ ..] => {
                rank(from)?;
                self.beyond.add(&flow(counts)?);
            }
            [from, to, kind, ref counts @ ..] => {
                let of_kind = |known: &TrafficKind| known.letter() == kind;
                let known = TrafficKind::ALL.into_iter().find(of_kind);
                let kind = known.ok_or_else(|| format!("`{kind}` is no kind: p or c"))?;
                let (from, to) = (rank(from)?, rank(to)?);
                self.add(from, to, kind, &flow(counts)?);
            }
            _ => return Err("not `SOURCE DESTINATION KIND` and five counts".into()),
        }
        Ok(())
    }
}

fn flow(counts: &[&str]) -> Result<RankFlow, String> {
    let mut flow = RankFlow::default();
    if counts.len() != flow.words().len() {
        return Err(format!("{} counts, five are expected", counts.len()));
    }
    for (word, text) in flow.words_mut().into_iter().zip(counts) {
        *word = text.parse().map_err(|_| format!("`{text}` is no count"))?;
    }
    Ok(flow)
}

/// Parses a rank in a line of a trace or plan; it must be less than `ranks`.
pub(super) fn rank_of(word: &str, ranks: u32) -> Result<Rank, String> {
    let rank: Option<Rank> = word.parse().ok().filter(|rank| *rank < ranks);
    rank.ok_or_else(|| format!("`{word}` is none of the {ranks} ranks"))
}

/// The number of ranks in the second line of a trace or plan.
pub(super) fn ranks_of(line: Option<&str>) -> Result<u32, TraceError> {
    let ranks = line.and_then(|line| line.strip_prefix("ranks "));
    let ranks = ranks.and_then(|ranks| ranks.trim().parse().ok());
    let valid = ranks.filter(|ranks| (1..=MOST_RANKS).contains(ranks));
    let what = || format!("expected `ranks N`, N from 1 to {MOST_RANKS}");
    valid.ok_or_else(|| TraceError { line: 2, what: what() })
}

impl FromStr for TrafficTrace {
    type Err = TraceError;

    fn from_str(text: &str) -> Result<TrafficTrace, TraceError> {
        let mut lines = text.lines();
        if lines.next().map(str::trim_end) != Some(TITLE) {
            let what = format!("expected `{TITLE}`: this is no trace of `hikyaku run --trace`");
            return Err(TraceError { line: 1, what });
        }
        let mut trace = TrafficTrace::new(ranks_of(lines.next())?);
        for (at, row) in lines.enumerate().filter(|(_, row)| !row.trim().is_empty()) {
            trace.read(row).map_err(|what| TraceError { line: at + 3, what })?;
        }
        Ok(trace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow_of(messages: u64) -> RankFlow {
        RankFlow { messages, bytes: 100 * messages, packets: 1, ring_bytes: 128, held_up: 0 }
    }

    #[test]
    fn what_ranks_write_is_read() {
        let mut sent = SentRows::default();
        sent.to(2, TrafficKind::Point).add(&flow_of(3));
        sent.to(2, TrafficKind::Collective).add(&flow_of(1));
        sent.to(0, TrafficKind::Point).add(&flow_of(5));
        let text = [TrafficTrace::head(3), sent.rows(1), SentRows::default().rows(2)].concat();
        let trace: TrafficTrace = text.parse().unwrap();
        assert_eq!(
            trace.sources(2),
            [(1, RankFlow { messages: 4, bytes: 400, packets: 2, ring_bytes: 256, held_up: 0 })]
        );
        assert_eq!(trace.partners(), [1, 0, 1]);
        assert_eq!(trace.total().messages, 9);
        assert_eq!(trace.missing().collect::<Vec<_>>(), [0]);
    }

    #[test]
    fn own_messages_and_collectives_are_no_partners() {
        let mut trace = TrafficTrace::new(2);
        trace.add(0, 0, TrafficKind::Point, &flow_of(1));
        trace.add(1, 0, TrafficKind::Collective, &flow_of(1));
        assert_eq!(trace.partners(), [0, 0]);
        assert_eq!(trace.sources(0).len(), 1);
    }

    #[test]
    fn a_rank_writes_its_busiest_partners_and_the_sum_of_others() {
        let mut sent = SentRows::default();
        for rank in 0..MOST_PARTNERS as u32 + 10 {
            let ring_bytes = if rank < 10 { 64 } else { 128 };
            *sent.to(rank, TrafficKind::Point) = RankFlow { ring_bytes, ..flow_of(1) };
        }
        let text = [TrafficTrace::head(2000), sent.rows(7)].concat();
        let trace: TrafficTrace = text.parse().unwrap();
        assert_eq!(trace.flows().count(), MOST_PARTNERS);
        assert!(trace.flows().all(|(to, ..)| to >= 10));
        assert_eq!((trace.beyond().messages, trace.beyond().ring_bytes), (10, 640));
    }

    #[test]
    fn wrong_lines_are_named() {
        for (text, error) in [
            ("", "line 1: expected `hikyaku trace 1`: this is no trace of `hikyaku run --trace`"),
            ("hikyaku trace 1\nranks 0\n", "line 2: expected `ranks N`, N from 1 to 1048576"),
            ("hikyaku trace 1\nranks 2\n0 2 p 1 1 1 1 1", "line 3: `2` is none of the 2 ranks"),
            ("hikyaku trace 1\nranks 2\n\n0 1 x 1 1 1 1 1", "line 4: `x` is no kind: p or c"),
            ("hikyaku trace 1\nranks 2\n0 1 p 1 1", "line 3: 2 counts, five are expected"),
            ("hikyaku trace 1\nranks 2\n0 1 p 1 1 1 1 -1", "line 3: `-1` is no count"),
            (
                "hikyaku trace 1\nranks 2\nend",
                "line 3: not `SOURCE DESTINATION KIND` and five \
                counts",
            ),
        ] {
            assert_eq!(text.parse::<TrafficTrace>().unwrap_err().to_string(), error);
        }
    }
}
