//! Who sends to whom in six NAS Parallel Benchmarks, Class A on 64 ranks: skeletons without the
//! arithmetic, written from the benchmarks' published decompositions (NPB 2 report, NAS-95-020).
//!
//! ```text
//!   MG   4 x 4 x 4 blocks, periodic; at the coarsest level every second rank has a point left
//!   CG   8 x 8 blocks of the matrix: butterfly sums within a row, one partner across the diagonal
//!   IS   all-to-all and reductions; one key to the next rank
//!   LU   8 x 8 pencils: wavefronts to the four neighbours
//!   SP   multi-partition on 8 x 8: successor and predecessor in three directions
//!   BT   as SP
//! ```
//!
//! A skeleton lists each point-to-point message of one time step once: what is counted is
//! partners, not traffic.

mod cg;
mod is;
mod lattice;
mod mg;

use std::collections::BTreeSet;

/// Ranks of the study (paper 000 §4.2).
pub const RANKS: u32 = 64;

/// A point-to-point message of a skeleton.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// Who sends it.
    pub source: u32,
    /// Who receives it.
    pub destination: u32,
    /// Payload, bytes.
    pub bytes: u64,
}

/// A benchmark: its name, its messages, and what table 1 prints for it.
#[derive(Debug, Clone)]
pub struct Benchmark {
    /// Two letters.
    pub name: &'static str,
    /// Messages of a time step.
    pub trace: Vec<Message>,
    /// Partners of the rank with the most, as printed.
    pub printed_partners: u32,
    /// Reduction of landing memory, percent, as printed.
    pub printed_reduction: f64,
}

/// The six benchmarks in the order of table 1.
pub fn benchmarks() -> Vec<Benchmark> {
    let row = |name, trace, printed_partners, printed_reduction| Benchmark {
        name,
        trace,
        printed_partners,
        printed_reduction,
    };
    vec![
        row("MG", mg::trace(), 9, 76.6),
        row("CG", cg::trace(), 4, 92.2),
        row("IS", is::trace(), 1, 98.4),
        row("LU", lattice::lu(), 4, 92.2),
        row("SP", lattice::multipartition(lattice::SP_BYTES), 6, 89.1),
        row("BT", lattice::multipartition(lattice::BT_BYTES), 6, 89.1),
    ]
}

/// How many others each rank receives from: the private landing rings that it needs.
pub fn sources(trace: &[Message]) -> Vec<u32> {
    let mut from = vec![BTreeSet::new(); RANKS as usize];
    for message in trace.iter().filter(|message| message.source != message.destination) {
        from[message.destination as usize].insert(message.source);
    }
    from.iter().map(|sources| sources.len() as u32).collect()
}

/// Percent of landing memory saved when the `partners` sources of the busiest rank have rings of
/// their own and all others share one: 1 - (k + 1) / ranks (paper 000 §4.2).
pub fn reduction(partners: u32) -> f64 {
    100.0 * (1.0 - f64::from(partners + 1) / f64::from(RANKS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_21_the_busiest_rank_has_as_many_sources_as_table_1_says() {
        for benchmark in benchmarks() {
            let most = sources(&benchmark.trace).into_iter().max();
            assert_eq!(most, Some(benchmark.printed_partners), "{}", benchmark.name);
        }
    }

    #[test]
    fn ip_21_the_formula_gives_the_printed_percentages_but_for_mg_and_is() {
        for benchmark in benchmarks() {
            let formula = reduction(benchmark.printed_partners);
            let agrees = (formula - benchmark.printed_reduction).abs() < 0.05;
            assert_eq!(agrees, !["MG", "IS"].contains(&benchmark.name), "{formula}");
        }
    }

    #[test]
    fn in_mg_most_ranks_have_six_partners_and_some_nine() {
        let mg = sources(&benchmarks()[0].trace);
        let count = |partners| mg.iter().filter(|&&sources| sources == partners).count();
        assert_eq!((count(9), count(6)), (8, 56));
    }

    #[test]
    fn traces_name_ranks_that_exist_and_bytes() {
        for benchmark in benchmarks() {
            assert!(!benchmark.trace.is_empty());
            for message in &benchmark.trace {
                assert!(message.source < RANKS && message.destination < RANKS);
                assert!(message.bytes > 0, "{} {message:?}", benchmark.name);
            }
        }
    }
}
