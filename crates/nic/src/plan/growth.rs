//! How the number of partners grows with the ranks of a job: a law fitted to the counts of traces
//! of several sizes.

use std::fmt;

/// Functions of the number of ranks, the slowest first: of equally good fits the first is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Law {
    /// The same at any size: neighbours in a grid.
    Constant,
    /// Proportional to the logarithm to base two: butterflies, trees.
    Logarithm,
    /// Proportional to the square root: rows of a square of ranks.
    Root,
    /// Proportional to the ranks: all to all.
    Linear,
}

impl Law {
    fn of(self, ranks: f64) -> f64 {
        match self {
            Law::Constant => 0.0,
            Law::Logarithm => ranks.log2(),
            Law::Root => ranks.sqrt(),
            Law::Linear => ranks,
        }
    }
}

/// The number of partners as a function of the ranks: `base + slope * law(ranks)`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    law: Law,
    base: f64,
    slope: f64,
}

/// Residuals that differ by less than this count as equal: partners are whole numbers.
const ALIKE: f64 = 1e-6;

impl Growth {
    /// The law that fits these numbers of ranks and partners best, by least squares. With one
    /// number of ranks, the partners are taken as constant; with none, there are no partners.
    pub fn through(counted: &[(u32, u32)]) -> Growth {
        let points: Vec<(f64, f64)> = counted
            .iter()
            .map(|(ranks, partners)| (f64::from(*ranks), f64::from(*partners)))
            .collect();
        let laws = [Law::Constant, Law::Logarithm, Law::Root, Law::Linear];
        let fits = laws.into_iter().filter_map(|law| Growth::by(law, &points));
        let best = fits.reduce(|best, next| {
            if next.residual(&points) + ALIKE < best.residual(&points) { next } else { best }
        });
        best.unwrap_or(Growth { law: Law::Constant, base: 0.0, slope: 0.0 })
    }

    /// The best line of one law. `None`: the points do not determine its slope, or it is negative.
    fn by(law: Law, points: &[(f64, f64)]) -> Option<Growth> {
        if points.is_empty() {
            return None;
        }
        let count = points.len() as f64;
        let mean_x = points.iter().map(|(ranks, _)| law.of(*ranks)).sum::<f64>() / count;
        let mean_y = points.iter().map(|(_, partners)| partners).sum::<f64>() / count;
        if law == Law::Constant {
            return Some(Growth { law, base: mean_y, slope: 0.0 });
        }
        let spread: f64 = points.iter().map(|(ranks, _)| (law.of(*ranks) - mean_x).powi(2)).sum();
        let common: f64 = points
            .iter()
            .map(|(ranks, partners)| (law.of(*ranks) - mean_x) * (partners - mean_y))
            .sum();
        let slope = common / spread;
        (slope > 0.0).then_some(Growth { law, base: mean_y - slope * mean_x, slope })
    }

    /// The sum of the squared residuals.
    fn residual(&self, points: &[(f64, f64)]) -> f64 {
        points.iter().map(|(ranks, partners)| (self.value(*ranks) - partners).powi(2)).sum()
    }

    fn value(&self, ranks: f64) -> f64 {
        self.base + self.slope * self.law.of(ranks)
    }

    /// The number of partners at `ranks` ranks: a whole number, and no more than the other ranks.
    pub fn partners(&self, ranks: u64) -> u64 {
        let value = (self.value(ranks as f64) - ALIKE).ceil().max(0.0);
        (value as u64).min(ranks.saturating_sub(1))
    }
}

/// The law as a formula, `N` being the ranks.
impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Growth { law, base, slope } = *self;
        let of = match law {
            Law::Constant => return write!(f, "{}", two_places(base)),
            Law::Logarithm => "log2 N",
            Law::Root => "sqrt N",
            Law::Linear => "N",
        };
        let sign = if base < 0.0 { '-' } else { '+' };
        write!(f, "{} {of} {sign} {}", two_places(slope), two_places(base.abs()))
    }
}

/// Rounds to two places, so that no zeros are printed at the end.
fn two_places(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn laws_are_found_in_what_follows_them() {
        for (counted, formula, at_4096) in [
            (&[(64, 6)][..], "6", 6),
            (&[(16, 4), (64, 4), (256, 4)], "4", 4),
            // CG of the NAS benchmarks: log2 of a row of ranks, and the transposed one.
            (&[(16, 3), (64, 4), (256, 5)], "0.5 log2 N + 1", 7),
            (&[(16, 6), (64, 14), (256, 30)], "2 sqrt N - 2", 126),
            (&[(16, 15), (64, 63), (256, 255)], "1 N - 1", 4095),
            (&[], "0", 0),
        ] {
            let growth = Growth::through(counted);
            assert_eq!((growth.to_string().as_str(), growth.partners(4096)), (formula, at_4096));
            for (ranks, partners) in counted {
                assert_eq!(growth.partners((*ranks).into()), u64::from(*partners));
            }
        }
    }

    #[test]
    fn two_sizes_are_met_by_the_slowest_law() {
        let growth = Growth::through(&[(16, 15), (64, 63)]);
        assert_eq!(
            (growth.law, growth.partners(16), growth.partners(64)),
            (Law::Logarithm, 15, 63)
        );
    }

    #[test]
    fn nobody_has_more_partners_than_there_are_others() {
        assert_eq!(Growth::through(&[(64, 6)]).partners(4), 3);
        assert_eq!(Growth::through(&[(64, 6)]).partners(0), 0);
        // A falling number of partners is taken as constant.
        assert_eq!(Growth::through(&[(16, 8), (64, 4)]).partners(1 << 20), 6);
    }
}
