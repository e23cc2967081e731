//! What people see while it runs: a bar on a terminal, a line for every tenth of the way elsewhere
//! (a file, a pipe, the launcher's label).

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How often the bar's text is renewed at most.
const REFRESH: Duration = Duration::from_millis(100);

/// Shows how far a run is, on the standard error stream.
#[derive(Debug)]
pub struct Progress {
    label: &'static str,
    total: u64,
    began: Instant,
    style: Style,
}

#[derive(Debug)]
enum Style {
    Quiet,
    Bar { bar: ProgressBar, renewed: Instant },
    Lines { tenths: u64 },
}

impl Progress {
    /// Starts to show a run of `total` steps, or shows nothing if `quiet`.
    pub fn new(label: &'static str, total: u64, quiet: bool) -> Progress {
        let began = Instant::now();
        let style = match (quiet, std::io::stderr().is_terminal()) {
            (true, _) => Style::Quiet,
            (false, true) => Style::Bar { bar: bar(label, total), renewed: began },
            (false, false) => Style::Lines { tenths: 0 },
        };
        Progress { label, total, began, style }
    }

    /// Step `number` is made; `change` is the largest change of a cell if that is known.
    pub fn step(&mut self, number: u64, change: Option<f64>) {
        match &mut self.style {
            Style::Quiet => {}
            Style::Bar { bar, renewed } => {
                // Looking at the clock is cheaper than telling the bar.
                if renewed.elapsed() >= REFRESH || number == self.total {
                    *renewed = Instant::now();
                    let rate = rate(number, self.began.elapsed());
                    bar.set_message(describe(rate, change));
                    bar.set_position(number);
                }
            }
            Style::Lines { tenths } => {
                let now = tenth(number, self.total);
                if now > *tenths {
                    *tenths = now;
                    let rate = rate(number, self.began.elapsed());
                    let line = line(self.label, number, self.total, rate, change);
                    // Nobody listens any more: no reason to stop computing.
                    let _ = writeln!(std::io::stderr(), "{line}");
                }
            }
        }
    }

    /// The run is over. The bar makes room for what is printed next.
    pub fn finish(self) {
        if let Style::Bar { bar, .. } = self.style {
            bar.finish_and_clear();
        }
    }
}

fn bar(label: &'static str, total: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{prefix} [{bar:32}] {percent:>3} %  {msg}  {eta}")
        .expect("the template is a constant and well formed")
        .progress_chars("█▉▊▋▌▍▎▏ ");
    ProgressBar::new(total).with_prefix(label).with_style(style)
}

/// How many tenths of the way are made.
fn tenth(number: u64, total: u64) -> u64 {
    (u128::from(number) * 10 / u128::from(total.max(1))) as u64
}

fn rate(steps: u64, elapsed: Duration) -> f64 {
    steps as f64 / elapsed.as_secs_f64().max(1e-9)
}

/// A line of the plain form.
fn line(label: &str, number: u64, total: u64, rate: f64, change: Option<f64>) -> String {
    let made = tenth(number, total) as usize;
    format!(
        "{label} [{:<10}] {:>3} %  {} of {} steps  {}",
        "#".repeat(made.min(10)),
        made * 10,
        grouped(number),
        grouped(total),
        describe(rate, change)
    )
}

fn describe(rate: f64, change: Option<f64>) -> String {
    let rate = grouped(rate.round() as u64);
    match change {
        Some(change) => format!("{rate} steps/s  largest change {change:.1e}"),
        None => format!("{rate} steps/s"),
    }
}

/// A number with commas between its thousands: `1,048,576`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        let text: Vec<String> = [0, 999, 1000, 1_048_576].into_iter().map(grouped).collect();
        assert_eq!(text, ["0", "999", "1,000", "1,048,576"]);
    }

    #[test]
    fn a_line_says_how_far_how_fast_and_how_calm() {
        assert_eq!(
            line("heat", 1600, 4000, 1034.4, Some(0.0031)),
            "heat [####      ]  40 %  1,600 of 4,000 steps  1,034 steps/s  largest change 3.1e-3"
        );
        assert!(line("heat", 4000, 4000, 10.0, None).contains("[##########] 100 %"));
    }

    #[test]
    fn every_tenth_comes_once_whatever_the_number_of_steps() {
        for total in [1, 3, 10, 99, 1000] {
            let mut seen: Vec<u64> = (1..=total).map(|step| tenth(step, total)).collect();
            assert_eq!(seen.last(), Some(&10));
            assert!(seen.is_sorted());
            seen.dedup();
            assert!(seen.len() as u64 <= total.min(11));
        }
        assert_eq!(tenth(u64::MAX, u64::MAX), 10);
    }

    #[test]
    fn the_bar_can_be_made() {
        bar("heat", 10).abandon();
    }
}
