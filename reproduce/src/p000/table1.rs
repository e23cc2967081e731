//! Table 1: the landing memory that six benchmarks save when rings are planned from a trace.

use hikyaku_report::{Cell, Table, Unit};

use super::npb;
use crate::{Check, ExperimentOutcome, Machines};

/// Counts partners in the traces and applies the formula.
pub fn run(_: &Machines) -> ExperimentOutcome {
    outcome(&npb::benchmarks())
}

fn outcome(benchmarks: &[npb::Benchmark]) -> ExperimentOutcome {
    let mut table = Table::new(
        "Rings of 64 processes, planned from a trace",
        [
            "application",
            "partners (most)",
            "rings",
            "reduction",
            "printed",
            "ranks with as many",
            "partners with collectives",
        ],
    );
    let mut checks = Vec::new();
    for benchmark in benchmarks {
        let trace = &benchmark.trace;
        let partners = trace.partners();
        let most = partners.iter().copied().max().unwrap_or(0);
        let reduction = npb::reduction(most, trace.ranks());
        let busiest = partners.iter().filter(|&&count| count == most).count();
        let of_all = (0..trace.ranks()).map(|rank| trace.sources(rank).len()).max().unwrap_or(0);
        table.push([
            Cell::from(benchmark.name),
            Cell::number(f64::from(most), Unit::Number),
            Cell::number(f64::from(most + 1), Unit::Number),
            Cell::fixed(reduction, Unit::Named("%"), 1),
            Cell::fixed(benchmark.printed_reduction, Unit::Named("%"), 1),
            Cell::number(busiest as f64, Unit::Number),
            Cell::number(of_all as f64, Unit::Number),
        ]);
        checks.extend(compare(benchmark, most, reduction));
    }
    ExperimentOutcome {
        statement: "Rings of their own for a process's partners and one shared by all others \
                    need (k + 1) N instead of 64 N bytes; NPB class A saves 76.6 % (MG) to 98.4 % \
                    (IS)."
            .into(),
        setup:
            "Programs with the decompositions and messages of the six benchmarks were traced on \
                64 real ranks (hikyaku run --trace; examples/npb); k is counted in those traces, \
                in the messages of the programs themselves."
                .into(),
        checks,
        tables: vec![table],
        charts: Vec::new(),
        notes: vec![
            "IS uses collectives in its timed part, in which all 63 others are partners; sharing \
             one ring saves 98.4 %."
                .into(),
        ],
    }
}

/// The partners and the reduction.
fn compare(benchmark: &npb::Benchmark, most: u32, reduction: f64) -> [Check; 2] {
    let percent = Unit::Named("%");
    let printed = f64::from(benchmark.printed_partners);
    let partners = format!("{}: partners of the busiest process", benchmark.name);
    let partners = Check::within(partners, printed, f64::from(most), Unit::Number, 0.0);
    let partners = match benchmark.name {
        "IS" => partners.calibrated(
            "which messages of IS are counted: its collectives' partners are 63, and the one \
             message left is the one that table 1 has",
        ),
        _ => partners,
    };
    let what = format!("{}: reduction", benchmark.name);
    let second = Check::within(what, benchmark.printed_reduction, reduction, percent, 0.1)
        .identity("1 - (k + 1) / 64 of the row's k")
        .because(format!(
            "print contradicts print: by the formula {printed} partners save {reduction:.1} %"
        ));
    [partners, second]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use hikyaku_nic::plan::{RankFlow, TrafficKind};

    use super::*;
    use crate::Verdict;

    /// The criteria that these traces miss.
    fn missed(benchmarks: &[npb::Benchmark]) -> BTreeSet<String> {
        let checks = outcome(benchmarks).checks.into_iter();
        checks.filter(|check| check.verdict == Verdict::Mismatch).map(|check| check.what).collect()
    }

    #[test]
    fn one_more_partner_of_the_busiest_is_missed_by_its_row_alone() {
        let stored = npb::benchmarks();
        let before = missed(&stored);
        assert_eq!(before, ["IS: reduction", "MG: reduction"].map(String::from).into());
        for at in 0..stored.len() {
            let mut benchmarks = stored.clone();
            let npb::Benchmark { name, trace, .. } = &mut benchmarks[at];
            let partners = trace.partners();
            let busiest = partners.iter().zip(0..).max_by_key(|(count, _)| **count);
            let busiest = busiest.expect("there are 64 ranks").1;
            let is_partner = |from: &u32| {
                let row = (busiest, *from, TrafficKind::Point);
                trace.flows().any(|(to, from, kind, _)| (to, from, kind) == row)
            };
            let other = (0..64).find(|rank| *rank != busiest && !is_partner(rank));
            let flow = RankFlow { messages: 1, bytes: 8, ..RankFlow::default() };
            trace.add(other.expect("it has no 63"), busiest, TrafficKind::Point, &flow);
            let both = ["partners of the busiest process", "reduction"];
            let row = both.map(|what| format!("{name}: {what}"));
            let after: BTreeSet<String> = before.iter().cloned().chain(row).collect();
            assert_eq!(missed(&benchmarks), after);
        }
    }
}
