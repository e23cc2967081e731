//! Table 1: how much landing memory six benchmarks save when rings are planned from a trace.

use hikyaku_report::{Cell, Table, Unit};

use super::npb;
use crate::{Check, Outcome};

/// Counts partners in the skeletons' traces and applies the formula.
pub fn run() -> Outcome {
    let mut table = Table::new(
        "Rings of 64 processes, planned from a trace",
        ["application", "partners (most)", "rings", "reduction", "printed", "ranks with as many"],
    );
    let mut checks = Vec::new();
    for benchmark in npb::benchmarks() {
        let sources = npb::sources(&benchmark.trace);
        let most = sources.iter().copied().max().unwrap_or(0);
        let reduction = npb::reduction(most);
        let busiest = sources.iter().filter(|&&count| count == most).count();
        table.push([
            Cell::from(benchmark.name),
            Cell::number(f64::from(most), Unit::Number),
            Cell::number(f64::from(most + 1), Unit::Number),
            Cell::fixed(reduction, Unit::Named("%"), 1),
            Cell::fixed(benchmark.printed_reduction, Unit::Named("%"), 1),
            Cell::number(busiest as f64, Unit::Number),
        ]);
        checks.extend(compare(&benchmark, most, reduction));
    }
    Outcome {
        statement: "Rings of their own for a process's partners and one shared by all others \
                    need (k + 1) N instead of 64 N bytes; NPB class A saves 76.6 % (MG) to 98.4 % \
                    (IS)."
            .into(),
        setup: "Skeletons of the six benchmarks on 64 ranks give who sends to whom; k is counted \
                in those traces."
            .into(),
        checks,
        tables: vec![table],
        charts: Vec::new(),
        notes: vec![
            "MG and IS: the printed percentages do not follow from the printed k. 76.6 % is 15 \
             rings and 98.4 % is one; by the formula MG saves 84.4 % and IS 96.9 %. Both are shown \
             and judged by the formula."
                .into(),
            "IS uses collectives in its timed part; done by a message between each pair, all 63 \
             others are partners, and sharing one ring saves 98.4 %."
                .into(),
        ],
    }
}

/// The partners, which must agree, and the reduction: by the formula where print contradicts it.
fn compare(benchmark: &npb::Benchmark, most: u32, reduction: f64) -> [Check; 2] {
    let percent = Unit::Named("%");
    let printed = f64::from(benchmark.printed_partners);
    let partners = format!("{}: partners of the busiest process", benchmark.name);
    let partners = Check::within(partners, printed, f64::from(most), Unit::Number, 0.0);
    let what = format!("{}: reduction", benchmark.name);
    let second = match benchmark.name {
        "MG" | "IS" => Check::reported(what, benchmark.printed_reduction, reduction, percent),
        _ => Check::within(what, benchmark.printed_reduction, reduction, percent, 0.1),
    };
    [partners, second]
}
