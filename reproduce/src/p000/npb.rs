//! Traces of the messages between the 64 ranks of six NAS Parallel Benchmarks.
//!
//! The traces were made by `hikyaku run -n 64 --trace` of the programs in `examples/npb`, which
//! have the benchmarks' decompositions and messages. A test there runs them again and compares.

use hikyaku_nic::plan::TrafficTrace;

/// A benchmark: its name, its trace, and its values in table 1.
#[derive(Debug, Clone)]
pub struct Benchmark {
    /// Two letters.
    pub name: &'static str,
    /// How much each rank sent to each other.
    pub trace: TrafficTrace,
    /// The maximum number of partners of a rank, as printed.
    pub printed_partners: u32,
    /// Reduction of landing memory, percent, as printed.
    pub printed_reduction: f64,
}

/// The six benchmarks in the order of table 1.
///
/// # Panics
/// Never: a test reads the traces.
pub fn benchmarks() -> Vec<Benchmark> {
    let row = |name, trace: &str, printed_partners, printed_reduction| Benchmark {
        name,
        trace: trace.parse().expect("a test reads it"),
        printed_partners,
        printed_reduction,
    };
    vec![
        row("MG", include_str!("../../traces/mg-64.trace"), 9, 76.6),
        row("CG", include_str!("../../traces/cg-64.trace"), 4, 92.2),
        row("IS", include_str!("../../traces/is-64.trace"), 1, 98.4),
        row("LU", include_str!("../../traces/lu-64.trace"), 4, 92.2),
        row("SP", include_str!("../../traces/sp-64.trace"), 6, 89.1),
        row("BT", include_str!("../../traces/bt-64.trace"), 6, 89.1),
    ]
}

/// Percent of landing memory saved when the `partners` sources of the busiest rank have rings of
/// their own and all others share one: 1 - (k + 1) / ranks (paper 000 §4.2).
pub fn reduction(partners: u32, ranks: u32) -> f64 {
    100.0 * (1.0 - f64::from(partners + 1) / f64::from(ranks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ip_21_the_busiest_rank_has_as_many_sources_as_table_1_says() {
        for benchmark in benchmarks() {
            let most = benchmark.trace.partners().into_iter().max();
            assert_eq!(most, Some(benchmark.printed_partners), "{}", benchmark.name);
        }
    }

    #[test]
    fn ip_21_the_formula_gives_the_printed_percentages_but_for_mg_and_is() {
        for benchmark in benchmarks() {
            let formula = reduction(benchmark.printed_partners, 64);
            let agrees = (formula - benchmark.printed_reduction).abs() < 0.05;
            assert_eq!(agrees, !["MG", "IS"].contains(&benchmark.name), "{formula}");
        }
    }

    #[test]
    fn in_mg_most_ranks_have_six_partners_and_some_nine() {
        let mg = benchmarks()[0].trace.partners();
        let count = |partners| mg.iter().filter(|&&sources| sources == partners).count();
        assert_eq!((count(9), count(6)), (8, 56));
    }

    #[test]
    fn traces_are_whole_and_of_64_ranks() {
        for Benchmark { name, trace, .. } in benchmarks() {
            assert_eq!((trace.ranks(), trace.missing().count()), (64, 0), "{name}");
            assert_eq!(trace.beyond().messages, 0, "{name}");
        }
    }
}
