//! The arithmetic of a benchmark: the length of a block, and the evaluation of a series of blocks.
//!
//! Everything here is a pure function of numbers, so that it can be tested exactly. The whole
//! module follows one rule: machines drift (cores that share a cache at one moment do not at the
//! next), so a ratio is formed inside each block, against the bare measurement taken directly
//! before and after it, and only the ratios are summarised. The ratio of two medians is never used.

use serde::Serialize;

/// Two bare measurements belong to the same state of the machine up to this factor.
const SAME_STATE: f64 = 1.5;

/// The shortest batch worth timing, in nanoseconds: a clock reading costs about 25 ns.
const BATCH_NANOSECONDS: f64 = 1e6;

/// The most batches of one block (a peer's program keeps an array of that order).
const MOST_BATCHES: u32 = 200;

/// A trial is long enough once it takes this share of a block.
const LOOK_SHARE: f64 = 0.1;

/// By how much a trial is longer than the one before.
const LOOK_GROWTH: u64 = 8;

/// The most repetitions in one batch, whatever the estimate says.
const MOST_REPETITIONS: u64 = 10_000_000;

/// The middle and the spread of a set of values.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct ValueSummary {
    /// The middle value.
    pub(crate) median: f64,
    /// A tenth of the values lie below.
    pub(crate) p10: f64,
    /// A tenth of the values lie above.
    pub(crate) p90: f64,
    /// How many values there were.
    pub(crate) blocks: usize,
}

impl ValueSummary {
    /// The summary of `values`; `None` for an empty set or one with a value that is not finite.
    pub(crate) fn of(values: &[f64]) -> Option<ValueSummary> {
        Some(ValueSummary {
            median: percentile(values, 0.5)?,
            p10: percentile(values, 0.1)?,
            p90: percentile(values, 0.9)?,
            blocks: values.len(),
        })
    }
}

/// The value below which `fraction` (0 to 1) of `values` lie, interpolated between neighbours.
pub(crate) fn percentile(values: &[f64], fraction: f64) -> Option<f64> {
    if values.is_empty() || values.iter().any(|value| !value.is_finite()) {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let place = fraction.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let (low, high) = (place.floor() as usize, place.ceil() as usize);
    Some(sorted[low] + (sorted[high] - sorted[low]) * (place - low as f64))
}

/// The middle of `values`.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    percentile(values, 0.5)
}

/// The mean of `values`; `None` for an empty set or one with a value that is not finite.
pub(crate) fn mean(values: &[f64]) -> Option<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    mean.is_finite().then_some(mean)
}

/// One block: the contestant's value, and the bare hardware's value at the same time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MeasuredBlock {
    /// The contestant's value, in the point's unit.
    pub(crate) value: f64,
    /// The bare value in the same unit, if the point has one.
    pub(crate) bare: Option<f64>,
    /// The cache-line transfers before and after it, in nanoseconds, if they are the bare value.
    pub(crate) lines: Option<[f64; 2]>,
}

/// The distance of the cores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Distance {
    /// In the nearer one of two states.
    Near,
    /// In the farther one.
    Far,
}

impl MeasuredBlock {
    /// The state of the machine during the block, if it was constant; `split` is between the two
    /// states, in nanoseconds.
    pub(crate) fn distance(&self, split: f64) -> Option<Distance> {
        match self.lines?.map(|line| line > split) {
            [false, false] => Some(Distance::Near),
            [true, true] => Some(Distance::Far),
            _ => None,
        }
    }
}

/// The values of a series of blocks.
pub(crate) fn values(blocks: &[MeasuredBlock]) -> Vec<f64> {
    blocks.iter().map(|block| block.value).collect()
}

/// The bare values beside a series of blocks.
pub(crate) fn bare_values(blocks: &[MeasuredBlock]) -> Vec<f64> {
    blocks.iter().filter_map(|block| block.bare).collect()
}

/// Each block's value over its own bare value.
pub(crate) fn ratios_to_bare(blocks: &[MeasuredBlock]) -> Vec<f64> {
    let ratio =
        |block: &MeasuredBlock| block.bare.filter(|bare| *bare > 0.0).map(|b| block.value / b);
    blocks.iter().filter_map(ratio).collect()
}

/// Each block of `ours` over the block of `theirs` taken in the same round.
///
/// A pair between whose halves the machine changed state says nothing about either, so it is left
/// out; if the machine changed in every pair, all pairs count, and the spread shows it.
pub(crate) fn ratios_to_peer(ours: &[MeasuredBlock], theirs: &[MeasuredBlock]) -> Vec<f64> {
    let pairs = || ours.iter().zip(theirs).filter(|(_, their)| their.value > 0.0);
    let ratio = |(our, their): (&MeasuredBlock, &MeasuredBlock)| our.value / their.value;
    let settled: Vec<f64> = pairs().filter(|(o, t)| same_state(o, t)).map(ratio).collect();
    if settled.is_empty() { pairs().map(ratio).collect() } else { settled }
}

fn same_state(one: &MeasuredBlock, other: &MeasuredBlock) -> bool {
    match (one.bare, other.bare) {
        (Some(a), Some(b)) => a.max(b) <= SAME_STATE * a.min(b),
        _ => true,
    }
}

/// The parts of a block: every batch is timed separately and the block's value is their median, so
/// that a batch in which another process took the core does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// Timed batches in the block.
    pub(crate) batches: u32,
    /// Repetitions in each batch.
    pub(crate) repetitions: u64,
}

impl Schedule {
    /// The first trial of an operation of unknown cost.
    pub(crate) const FIRST: Schedule = Schedule { batches: 1, repetitions: 1 };

    /// The next trial after `self` showed that a repetition takes `each_nanoseconds`; `None` once
    /// that is known well enough to plan a block of `block_nanoseconds`.
    ///
    /// The first trial does not count: it pays for connections and page faults. Later ones grow by
    /// steps, for one repetition may be misleading: the root of a broadcast is done long before the
    /// others, and a block planned from its time could take minutes.
    pub(crate) fn look_again(
        self,
        each_nanoseconds: f64,
        block_nanoseconds: f64,
    ) -> Option<Schedule> {
        let planned = Schedule::fill(each_nanoseconds, block_nanoseconds).repetitions;
        let taken = each_nanoseconds * self.repetitions as f64;
        let first = self == Schedule::FIRST;
        let enough = self.repetitions >= planned || taken >= LOOK_SHARE * block_nanoseconds;
        let repetitions = (self.repetitions * LOOK_GROWTH).min(planned.max(2));
        (first || !enough).then_some(Schedule { batches: 1, repetitions })
    }

    /// A block of about `block_nanoseconds` of an operation that takes `each_nanoseconds`.
    pub(crate) fn fill(each_nanoseconds: f64, block_nanoseconds: f64) -> Schedule {
        let each = if each_nanoseconds.is_finite() { each_nanoseconds.max(1.0) } else { f64::MAX };
        let batch = BATCH_NANOSECONDS.min(block_nanoseconds);
        let repetitions = ((batch / each) as u64).clamp(1, MOST_REPETITIONS);
        let batches = (block_nanoseconds / (each * repetitions as f64)) as u32;
        Schedule { batches: batches.clamp(1, MOST_BATCHES), repetitions }
    }
}

/// The two states a machine was seen in: cores close to each other, and far apart.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct NearFar {
    /// Median cache-line transfer of the near blocks, one way, in nanoseconds.
    pub(crate) near_nanoseconds: f64,
    /// How many blocks were near.
    pub(crate) near_blocks: usize,
    /// Median of the far blocks, in nanoseconds; absent on a machine with one state.
    pub(crate) far_nanoseconds: Option<f64>,
    /// How many blocks were far.
    pub(crate) far_blocks: usize,
}

impl NearFar {
    /// Splits cache-line times at the geometric mean of their 5th and 95th percentile, if these
    /// are a factor of two apart; a machine that never changed has near blocks only.
    pub(crate) fn of(lines: &[f64]) -> Option<NearFar> {
        let split = NearFar::split(lines).unwrap_or(f64::INFINITY);
        let (near, far): (Vec<f64>, Vec<f64>) = lines.iter().partition(|line| **line <= split);
        Some(NearFar {
            near_nanoseconds: median(&near)?,
            near_blocks: near.len(),
            far_nanoseconds: median(&far),
            far_blocks: far.len(),
        })
    }

    /// The limit between the two states, in nanoseconds; `None` if the machine never changed.
    pub(crate) fn split(lines: &[f64]) -> Option<f64> {
        let (low, high) = (percentile(lines, 0.05)?, percentile(lines, 0.95)?);
        (high > 2.0 * low).then(|| (low * high).sqrt())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn block(value: f64, bare: f64) -> MeasuredBlock {
        MeasuredBlock { value, bare: Some(bare), lines: None }
    }

    #[test]
    fn percentiles_interpolate_and_ignore_order() {
        let values = [5.0, 1.0, 4.0, 2.0, 3.0];
        assert_eq!(percentile(&values, 0.0), Some(1.0));
        assert_eq!(percentile(&values, 0.5), Some(3.0));
        assert_eq!(percentile(&values, 1.0), Some(5.0));
        assert_eq!(percentile(&values, 0.1), Some(1.4));
        assert_eq!(median(&[1.0, 2.0]), Some(1.5));
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(mean(&[1.0, 2.0, 6.0]), Some(3.0));
    }

    #[test]
    fn nothing_comes_of_nothing_or_of_what_is_no_number() {
        assert_eq!(ValueSummary::of(&[]), None);
        assert_eq!(ValueSummary::of(&[1.0, f64::NAN]), None);
        assert_eq!(ValueSummary::of(&[f64::INFINITY]), None);
        assert_eq!(NearFar::of(&[]), None);
        assert_eq!((mean(&[]), mean(&[f64::INFINITY])), (None, None));
    }

    #[test]
    fn the_ratio_is_formed_in_each_block() {
        // The machine flips from near to far: both medians of values would mix the two states.
        let blocks = [block(100.0, 50.0), block(480.0, 240.0), block(110.0, 55.0)];
        assert_eq!(ratios_to_bare(&blocks), [2.0, 2.0, 2.0]);
        let summary = ValueSummary::of(&values(&blocks)).unwrap();
        assert_eq!((summary.median, summary.blocks), (110.0, 3));
        assert_eq!(bare_values(&blocks), [50.0, 240.0, 55.0]);
    }

    #[test]
    fn a_block_without_a_bare_value_has_no_ratio() {
        assert!(
            ratios_to_bare(&[MeasuredBlock { bare: None, ..block(3.0, 1.0) }, block(1.0, 0.0)])
                .is_empty()
        );
    }

    #[test]
    fn a_pair_across_a_flip_is_left_out_unless_there_is_no_other() {
        let ours = [block(100.0, 50.0), block(100.0, 50.0)];
        let theirs = [block(400.0, 52.0), block(900.0, 240.0)];
        assert_eq!(ratios_to_peer(&ours, &theirs), [0.25]);
        assert_eq!(ratios_to_peer(&ours[1..], &theirs[1..]), [100.0 / 900.0]);
        assert!(ratios_to_peer(&ours, &[]).is_empty());
    }

    #[test]
    fn a_schedule_fills_the_block_in_batches() {
        assert_eq!(Schedule::fill(1e3, 50e6), Schedule { batches: 50, repetitions: 1_000 });
        assert_eq!(Schedule::fill(20e6, 50e6), Schedule { batches: 2, repetitions: 1 });
        assert_eq!(Schedule::fill(1e12, 50e6), Schedule::FIRST);
        assert_eq!(Schedule::fill(f64::NAN, 50e6), Schedule::FIRST);
        let tiny = Schedule::fill(0.0, 1e15);
        assert_eq!((tiny.batches, tiny.repetitions), (MOST_BATCHES, 1_000_000));
    }

    #[test]
    fn looks_grow_until_they_can_be_trusted() {
        let mut look = Schedule::FIRST;
        let mut repetitions = Vec::new();
        while let Some(next) = look.look_again(1e3, 50e6) {
            repetitions.push(next.repetitions);
            look = next;
        }
        assert_eq!(repetitions, [8, 64, 512, 1_000]);
        // An operation that turns out to be slow needs no longer trial.
        let slow = Schedule { batches: 1, repetitions: 8 };
        assert_eq!(slow.look_again(5e6, 50e6), None);
        assert_eq!(Schedule::FIRST.look_again(5e9, 50e6).map(|next| next.repetitions), Some(2));
        assert_eq!(Schedule::FIRST.look_again(f64::NAN, 50e6).map(|next| next.batches), Some(1));
    }

    #[test]
    fn a_block_is_of_one_state_if_it_began_and_ended_there() {
        let between =
            |before, after| MeasuredBlock { lines: Some([before, after]), ..block(1.0, 1.0) };
        assert_eq!(between(50.0, 60.0).distance(110.0), Some(Distance::Near));
        assert_eq!(between(160.0, 240.0).distance(110.0), Some(Distance::Far));
        assert_eq!(between(50.0, 160.0).distance(110.0), None);
        assert_eq!(block(1.0, 1.0).distance(110.0), None);
    }

    #[test]
    fn near_and_far_are_told_apart_only_when_they_are() {
        let split = NearFar::of(&[55.0, 56.0, 57.0, 240.0, 242.0]).unwrap();
        assert_eq!((split.near_nanoseconds, split.near_blocks), (56.0, 3));
        assert_eq!((split.far_nanoseconds, split.far_blocks), (Some(241.0), 2));
        let steady = NearFar::of(&[55.0, 60.0, 70.0]).unwrap();
        assert_eq!((steady.far_nanoseconds, steady.near_blocks), (None, 3));
    }
}
