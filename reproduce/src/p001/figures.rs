//! Figures 9 to 12: execution time with UDP and with DIMMnet, over the size and over the number of
//! shared variables, with the costs of the machine file and with those of the paper's explanation.

use hikyaku_report::{Axis, Chart, LineChart, Series, Unit};

use super::program::{Bytes, Version, run};
use crate::{Check, Outcome};

/// Kibibytes of a variable: 4 to 32 (figures 9, 10).
const SIZES: [u64; 4] = [4, 8, 16, 32];
/// Numbers of variables: 1024 to 8192 (figures 11, 12).
const COUNTS: [u64; 4] = [1024, 2048, 4096, 8192];

/// Times of both versions along one axis.
struct Sweep {
    title: &'static str,
    x: Vec<f64>,
    udp: Vec<f64>,
    dimmnet: Vec<f64>,
}

impl Sweep {
    fn over_sizes(title: &'static str, bytes: Bytes, variables: u64) -> Sweep {
        let time = |version| SIZES.map(|kib| run(version, bytes, variables, kib << 10)).to_vec();
        let x = SIZES.map(|kib| (kib << 10) as f64).to_vec();
        Sweep { title, x, udp: time(Version::Udp), dimmnet: time(Version::Dimmnet) }
    }

    fn over_counts(title: &'static str, bytes: Bytes, size: u64) -> Sweep {
        let time = |version| COUNTS.map(|count| run(version, bytes, count, size)).to_vec();
        let x = COUNTS.map(|count| count as f64).to_vec();
        Sweep { title, x, udp: time(Version::Udp), dimmnet: time(Version::Dimmnet) }
    }

    fn gaps(&self) -> Vec<f64> {
        self.udp.iter().zip(&self.dimmnet).map(|(udp, dimmnet)| udp - dimmnet).collect()
    }

    fn chart(&self, x: Axis) -> Chart {
        let series = |name: &str, times: &[f64]| {
            Series::line(name, self.x.iter().copied().zip(times.iter().copied()).collect())
        };
        LineChart::new(self.title, x, Axis::linear("time", Unit::Seconds).from_zero())
            .with(series("UDP", &self.udp))
            .with(series("DIMMnet", &self.dimmnet))
            .into()
    }
}

/// Runs the four figures with both sets of costs.
pub fn run_item() -> Outcome {
    let size = || Axis::linear("size of a variable", Unit::Bytes);
    let count = || Axis::linear("variables", Unit::Number);
    let copy = Bytes::CopyBound;
    let nine = Sweep::over_sizes("Figure 9: 1024 variables", copy, 1024);
    let ten = Sweep::over_sizes("Figure 10: 8192 variables", copy, 8192);
    let eleven = Sweep::over_counts("Figure 11: 4 KB", copy, 4 << 10);
    let twelve = Sweep::over_counts("Figure 12: 16 KB", copy, 16 << 10);
    let physical =
        Sweep::over_sizes("Figure 9 with the links' rates: 1024 variables", Bytes::Physical, 1024);
    let physical_count =
        Sweep::over_counts("Figure 11 with the links' rates: 4 KB", Bytes::Physical, 4 << 10);
    let checks = checks([&nine, &ten, &physical], [&eleven, &twelve, &physical_count]);
    Outcome {
        statement: "DIMMnet is faster in every case; the gap is nearly constant in the size of \
                    the variables and grows with their number."
            .into(),
        setup: "The program's acquires as their messages and copies, two rounds that move data; \
                once with copies as the only cost of a byte (the paper's explanation), once with \
                the links' rates too."
            .into(),
        checks,
        tables: Vec::new(),
        charts: vec![
            nine.chart(size()),
            ten.chart(size()),
            eleven.chart(count()),
            twelve.chart(count()),
            physical.chart(size()),
            physical_count.chart(count()),
        ],
        notes: vec![
            "No times are printed. With the links' rates the gap grows with the size as well: 100 \
             Mb/s take 0.34 s for 1024 rows of 4 KB, 1017 MB/s 4 ms. The paper's constant gap \
             holds if both versions spend their time for a byte in the same copies; the first set \
             of costs assumes that."
                .into(),
        ],
    }
}

/// Sweeps over sizes and over counts: two with copies only, then one with links.
fn checks(sizes: [&Sweep; 3], counts: [&Sweep; 3]) -> Vec<Check> {
    let faster = |sweep: &&Sweep| sweep.gaps().iter().all(|gap| *gap > 0.0);
    let spread = |sweep: &Sweep| {
        let gaps = sweep.gaps();
        gaps.iter().copied().fold(0.0, f64::max) / gaps.iter().copied().fold(f64::MAX, f64::min)
    };
    let growth = |sweep: &Sweep| {
        let gaps = sweep.gaps();
        gaps[gaps.len() - 1] / gaps[0]
    };
    let mut all = vec![Check::shape(
        "every case of all sweeps",
        "DIMMnet faster than UDP",
        "faster",
        sizes.iter().chain(&counts).all(faster),
    )];
    for (figure, sweep) in [(9, sizes[0]), (10, sizes[1])] {
        all.push(Check::shape(
            format!("figure {figure}: gap over size, copies only"),
            "nearly constant",
            format!("largest {:.2} times smallest", spread(sweep)),
            spread(sweep) < 1.1,
        ));
    }
    for (figure, sweep) in [(11, counts[0]), (12, counts[1])] {
        all.push(Check::shape(
            format!("figure {figure}: gap over count"),
            "grows with the number",
            format!("{:.2} times from 1024 to 8192", growth(sweep)),
            growth(sweep) > 2.0,
        ));
    }
    let ratio = |sweep: &Sweep| Unit::Ratio.format(growth(sweep));
    all.push(Check {
        verdict: crate::Verdict::Reported,
        ..Check::shape(
            "figure 9: gap over size, with links",
            "nearly constant",
            ratio(sizes[2]),
            true,
        )
    });
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fg_17_fg_19_direct_stores_are_faster_and_with_equal_copies_by_a_constant() {
        let sweep = Sweep::over_sizes("few", Bytes::CopyBound, 64);
        let gaps = sweep.gaps();
        assert!(gaps.iter().all(|gap| *gap > 0.0), "{gaps:?}");
        assert!(gaps[3] / gaps[0] < 1.1 && gaps[0] / gaps[3] < 1.1, "{gaps:?}");
    }
}
