//! Figure 10: the same exchange with one queue for both neighbours (MRC), and its ratio to FAST.

use hikyaku_report::{Axis, LineChart, Series, Unit};

use super::exchange::{FAST, MRC, costs, run};
use super::figure9::lengths;
use crate::{Check, ExperimentOutcome, Machines};

/// Sweeps the lengths with both mappings.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let (machine, costs) = costs(machines);
    let times = |scheme| -> Vec<f64> {
        let time = |&bytes: &u64| run(&machine, &costs, scheme, bytes).expect("no deadlock");
        lengths().iter().map(time).collect()
    };
    let (fast, mrc) = (times(FAST), times(MRC));
    let ratios: Vec<f64> = mrc.iter().zip(&fast).map(|(mrc, fast)| mrc / fast).collect();
    let series = |name: &str, values: &[f64]| {
        let x = lengths().into_iter().map(|bytes| bytes as f64);
        Series::line(name, x.zip(values.iter().copied()).collect())
    };
    let x = || Axis::linear("message length", Unit::Bytes);
    let time = LineChart::new(
        "MPI_Start and MPI_Wait of a 1-D 3-point halo exchange",
        x(),
        Axis::linear("time", Unit::Seconds).from_zero(),
    )
    .with(series("MRC", &mrc))
    .with(series("FAST", &fast));
    let ratio = LineChart::new("MRC over FAST", x(), Axis::linear("ratio", Unit::Ratio))
        .with(series("MRC / FAST", &ratios))
        .with(Series::printed("paper, 16 KiB", vec![(16384.0, 1.5)]));
    let level = |value: f64| lengths().into_iter().map(|bytes| (bytes as f64, value)).collect();
    let ratio = ratio
        .with(Series::reference("paper, least", level(1.2)))
        .with(Series::reference("paper, most", level(1.8)));
    ExperimentOutcome {
        statement: "One engine serialises both directions: about 1.2 to 1.8 times FAST depending \
                    on length, about 1.5 at 16 KiB."
            .into(),
        setup: "As figure 9, with one session queue for both neighbours.".into(),
        checks: checks(&ratios),
        tables: Vec::new(),
        charts: vec![time.into(), ratio.into()],
        notes: vec![
            "No constant is fitted to this figure: the ratio follows from the NOP, the RTR to the \
             own queue and the second put on the same engine."
                .into(),
        ],
    }
}

fn checks(ratios: &[f64]) -> Vec<Check> {
    let unit = Unit::Ratio;
    let (least, most) =
        ratios.iter().fold((f64::MAX, 0.0_f64), |(a, b), &ratio| (a.min(ratio), b.max(ratio)));
    let rises = ratios.windows(2).all(|pair| pair[1] > pair[0]);
    vec![
        Check::number("ratio at 16 KiB", 1.5, ratios[16], unit),
        Check::number("smallest ratio", 1.2, least, unit),
        Check::number("largest ratio", 1.8, most, unit),
        Check::shape("ratio", "rises with length", format!("{least:.2} to {most:.2}"), rises),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tf_17_mrc_takes_1_2_to_1_8_times_as_long_and_1_5_at_16_kib() {
        let outcome = run_item(&Machines::stored());
        assert!(outcome.passes(), "{:?}", outcome.checks);
    }
}
