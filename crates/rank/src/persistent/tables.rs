//! The announcements of ranks when an exchange is made, as words, and the check of the topology.

use hikyaku_coll::persistent::QueueLimits;
use hikyaku_nic::fabric::QueueAddress;

use super::error::PersistentError;
use super::setup::{EdgeEnd, Places};

/// The announced edges of a rank: the peer and the bytes of each.
#[derive(Debug, Default)]
pub(super) struct Ends {
    pub(super) outs: Vec<(u32, u64)>,
    pub(super) ins: Vec<(u32, u64)>,
    /// For each of `ins`, its offset in the rank's buffer. `None`: the exchange may choose it. Sent
    /// only with room for relays.
    pub(super) starts: Vec<Option<u64>>,
    pub(super) offer: Offer,
}

/// A rank's resources for an exchange besides its edges.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Offer {
    /// The maximum bytes of its letters; 0: it exchanges none.
    pub(super) letters: u32,
    /// Room for relays; without slots it wants none.
    pub(super) relays: QueueLimits,
    /// The maximum bytes of an edge, if the rank sets a limit, which then holds for all ranks.
    pub(super) most: Option<u64>,
}

/// One end of an edge that a queue serves, as announced by its rank.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServedEnd {
    pub(super) peer: u32,
    /// For an incoming edge: the places of its data.
    pub(super) at: Places,
    pub(super) queue: QueueAddress,
    /// For an outgoing edge: the slots that its READY-TO-RECV releases.
    pub(super) ready: u32,
    /// Whether its queue serves no other neighbour, and its exchange has places for two rounds.
    pub(super) alone: bool,
}

pub(super) fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

pub(super) fn long(low: u32, high: u32) -> u64 {
    u64::from(high) << 32 | u64::from(low)
}

impl ServedEnd {
    /// The number of words of its encoding.
    pub(super) const WORDS: usize = 9;

    pub(super) fn to_words(self) -> [u32; ServedEnd::WORDS] {
        let [a, b] = self.at.map(halves);
        let QueueAddress { queue, generation, .. } = self.queue;
        let (generation, alone) = (generation.into(), self.alone.into());
        [self.peer, a[0], a[1], b[0], b[1], queue, generation, self.ready, alone]
    }

    /// Decodes the [`ServedEnd::WORDS`] words of `rank`.
    pub(super) fn hear(rank: u32, w: &[u32]) -> ServedEnd {
        ServedEnd {
            peer: w[0],
            at: [long(w[1], w[2]), long(w[3], w[4])],
            queue: QueueAddress { rank, queue: w[5], generation: w[6] as u16 },
            ready: w[7],
            alone: w[8] != 0,
        }
    }
}

/// The number of words before those of edges.
const HEAD: usize = 8;

/// Encodes a rank's edges: their number, and each one. `staged`: the exchange chooses the places of
/// received data.
pub(super) fn tell_ends(outs: &[EdgeEnd], ins: &[EdgeEnd], offer: Offer, staged: bool) -> Vec<u32> {
    let Offer { letters, relays: QueueLimits { queues, slots }, most } = offer;
    let [low, high] = halves(most.unwrap_or(u64::MAX));
    let (many, from) = (outs.len() as u32, ins.len() as u32);
    let mut words = vec![1, letters, queues, slots, low, high, many, from];
    for end in outs.iter().chain(ins) {
        let [low, high] = halves(end.bytes());
        words.extend([end.rank, low, high]);
    }
    let told = if slots > 0 { ins } else { &[] };
    for end in told {
        let start = end.runs.first().filter(|_| !staged).map(|run| run.start as u64);
        words.extend(halves(start.unwrap_or(u64::MAX)));
    }
    words
}

/// Decodes the edges of all ranks. `[1]`: a rank that takes no part in the exchange.
pub(super) fn hear_ends(shared: &[Vec<u32>]) -> Result<Vec<Ends>, PersistentError> {
    let hear = |words: &Vec<u32>| {
        if words[..] == [1] {
            return Some(Ends::default());
        }
        let (head, rest) = words.split_first_chunk::<HEAD>()?;
        let &[1, letters, queues, slots, low, high, outs, ins] = head else { return None };
        let (outs, ins) = (outs as usize, ins as usize);
        let (ends, starts) = rest.split_at_checked((outs + ins) * 3)?;
        if starts.len() != if slots > 0 { 2 * ins } else { 0 } {
            return None;
        }
        let end = |w: &[u32]| (w[0], long(w[1], w[2]));
        let mut outs_ = ends.chunks_exact(3).map(end).collect::<Vec<_>>();
        let ins = outs_.split_off(outs);
        let known = |low, high| Some(long(low, high)).filter(|word| *word != u64::MAX);
        let starts: Vec<_> = starts.chunks_exact(2).map(|w| known(w[0], w[1])).collect();
        let most = known(low, high);
        let offer = Offer { letters, relays: QueueLimits { queues, slots }, most };
        Some(Ends { outs: outs_, ins, starts, offer })
    };
    let size = shared.len() as u32;
    let exist = |ends: &Ends| ends.outs.iter().chain(&ends.ins).all(|(rank, _)| *rank < size);
    let heard = (0..)
        .zip(shared)
        .map(|(rank, words)| hear(words).filter(exist).ok_or(PersistentError::Elsewhere { rank }));
    heard.collect()
}

/// Whether no edge has more bytes than some rank allows.
///
/// # Errors
/// The ends of an edge disagree.
pub(super) fn judge(tables: &[Ends]) -> Result<bool, PersistentError> {
    for (source_rank, table) in (0..).zip(tables) {
        for rank in 0..tables.len() as u32 {
            let theirs = &tables[rank as usize].ins;
            let bytes = |list: &[(u32, u64)], peer: u32| -> Vec<u64> {
                list.iter().filter(|end| end.0 == peer).map(|end| end.1).collect()
            };
            let (out, into) = (bytes(&table.outs, rank), bytes(theirs, source_rank));
            if out.len() != into.len() {
                let (sent, expected) = (out.len() as u64, into.len() as u64);
                return Err(PersistentError::Edges { source_rank, sent, rank, expected });
            }
            if let Some(edge) = (0..out.len()).find(|edge| out[*edge] != into[*edge]) {
                let (sent, expected) = (out[edge], into[edge]);
                return Err(PersistentError::Sizes { source_rank, sent, edge, rank, expected });
            }
        }
    }
    let most = tables.iter().filter_map(|table| table.offer.most).min();
    let is_large =
        |most: &u64| tables.iter().flat_map(|table| &table.outs).any(|end| end.1 > *most);
    Ok(most.filter(is_large).is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_heard() {
        let queue = QueueAddress { rank: 3, queue: 7, generation: 0x3fff };
        let at = [u64::MAX - 1, 1 << 40];
        let told = ServedEnd { peer: 9, at, queue, ready: 2, alone: true };
        let heard = ServedEnd::hear(3, &told.to_words());
        assert_eq!(format!("{heard:?}"), format!("{told:?}"));
        let ends =
            [EdgeEnd { rank: 1, runs: vec![8..16, 20..28] }, EdgeEnd { rank: 0, runs: vec![] }];
        for (slots, staged, starts) in
            [(0, false, vec![]), (9, true, vec![None, None]), (9, false, vec![Some(8), None])]
        {
            let most = Some(1 << 33).filter(|_| staged);
            let offer = Offer { letters: 77, relays: QueueLimits { queues: 5, slots }, most };
            let words = tell_ends(&ends[..1], &ends, offer, staged);
            let heard = &hear_ends(&[words, vec![1]]).unwrap()[0];
            assert_eq!((&heard.outs, &heard.ins), (&vec![(1, 16)], &vec![(1, 16), (0, 0)]));
            assert_eq!((heard.offer, &heard.starts), (offer, &starts));
        }
    }

    #[test]
    fn words_that_are_not_what_they_say_are_a_rank_that_took_no_part() {
        let ends = [EdgeEnd { rank: 0, runs: vec![0..2, 2..4] }];
        let relays = QueueLimits { queues: 1, slots: 1 };
        let well = tell_ends(&[], &ends, Offer { relays, ..Offer::default() }, false);
        let short = well[..well.len() - 1].to_vec();
        let long = [&well[..], &[0]].concat();
        let many = vec![1, 0, 0, 0, 0, 0, u32::MAX, u32::MAX];
        let two = vec![2, 0, 0, 0, 0, 0, 0, 0];
        for wrong in [vec![], vec![0], vec![1, 0, 0], two, short, long, many] {
            let error = hear_ends(&[well.clone(), wrong]).unwrap_err();
            assert_eq!(error, PersistentError::Elsewhere { rank: 1 });
        }
    }

    #[test]
    fn ends_that_disagree_are_named() {
        let table = |outs: &[(u32, u64)], ins: &[(u32, u64)]| Ends {
            outs: outs.to_vec(),
            ins: ins.to_vec(),
            ..Ends::default()
        };
        let lone = judge(&[table(&[(1, 4)], &[]), table(&[], &[])]).unwrap_err();
        let expected = PersistentError::Edges { source_rank: 0, sent: 1, rank: 1, expected: 0 };
        assert_eq!(lone, expected);
        let unlike = judge(&[table(&[], &[(1, 8), (1, 4)]), table(&[(0, 8), (0, 5)], &[])]);
        let (source_rank, sent, edge, rank, expected) = (1, 5, 1, 0, 4);
        let expected = PersistentError::Sizes { source_rank, sent, edge, rank, expected };
        assert_eq!(unlike, Err(expected));
        let mut two = [table(&[(0, 3)], &[(0, 3)]), table(&[], &[])];
        assert_eq!(judge(&two), Ok(true));
        // One rank's limit holds for all.
        for (most, expected) in [(3, true), (2, false)] {
            two[1].offer.most = Some(most);
            assert_eq!(judge(&two), Ok(expected));
        }
    }

    #[test]
    fn a_neighbour_that_there_is_not_is_refused() {
        let words = |rank| {
            let ends = [EdgeEnd { rank, runs: vec![0..8, 9..10] }];
            tell_ends(&ends, &[], Offer::default(), false)
        };
        assert!(hear_ends(&[words(1), vec![1]]).is_ok());
        let error = hear_ends(&[words(2), vec![1]]).unwrap_err();
        assert!(matches!(error, PersistentError::Elsewhere { rank: 0 }), "{error}");
    }
}
