//! The outcome of a run as text: the whole job, and its ranks.

use hikyaku_report::{Cell, Table, Unit};
use hikyaku_sim::job::{Totals, Usage};

use super::exhibit::{ExhibitError, RunFacts};

/// Up to so many ranks are listed individually; with more, only the extremes and the median are.
const LISTED: usize = 16;

/// The outcome of a run.
#[derive(Debug)]
pub(crate) struct RunOutcome {
    /// Program and machine, in one line.
    pub(crate) title: String,
    /// Virtual time at the end of the last rank.
    pub(crate) end: hikyaku::Time,
    /// Each rank's end, and its use of time.
    pub(crate) ranks: Vec<(hikyaku::Time, Usage)>,
    /// Messages and bytes.
    pub(crate) totals: Totals,
    /// Events of the simulation.
    pub(crate) events: u64,
    /// Wall time, seconds.
    pub(crate) seconds: f64,
    /// Growth of the process's memory, bytes.
    pub(crate) grown: u64,
    /// In words, whether the answer was checked and is right.
    pub(crate) answer: &'static str,
    /// Assumptions and limitations that a reader should know.
    pub(crate) notes: Vec<String>,
    /// Whether trace and timeline could be written.
    pub(crate) shown: Result<(), ExhibitError>,
}

impl Default for RunOutcome {
    /// The outcome of a run without events.
    fn default() -> RunOutcome {
        RunOutcome {
            title: String::new(),
            end: hikyaku::Time::ZERO,
            ranks: Vec::new(),
            totals: Totals::default(),
            events: 0,
            seconds: 0.0,
            grown: 0,
            answer: "",
            notes: Vec::new(),
            shown: Ok(()),
        }
    }
}

impl RunOutcome {
    /// The report on a terminal.
    pub(crate) fn to_text(&self) -> String {
        let (summary, by_rank) = (self.summary("").to_text(), self.by_rank("").to_text());
        let mut text = format!("{}\n\n{summary}\n{by_rank}", self.title);
        for note in &self.notes {
            text += &format!("\n{note}");
        }
        text
    }

    /// The contents of a page about it.
    pub(super) fn facts(&self) -> RunFacts<'_> {
        RunFacts {
            title: &self.title,
            end: self.end.seconds(),
            messages: self.totals.sent,
            shares: self.shares(),
            summary: self.summary("The whole job"),
            by_rank: self.by_rank("What the ranks did"),
            notes: &self.notes,
        }
    }

    /// Fractions of all ranks' time: computing, in calls, waiting.
    pub(super) fn shares(&self) -> [f64; 3] {
        let sum = |of: &dyn Fn(&(hikyaku::Time, Usage)) -> hikyaku::Time| -> f64 {
            self.ranks.iter().map(|rank| of(rank).seconds()).sum()
        };
        let whole = sum(&|(end, _)| *end);
        let [computing, calling] =
            [sum(&|(_, usage)| usage.computing), sum(&|(_, usage)| usage.calling)]
                .map(|part| if whole > 0.0 { part / whole } else { 0.0 });
        let waiting = if whole > 0.0 { 1.0 - computing - calling } else { 0.0 };
        [computing, calling, waiting]
    }

    /// The whole job in virtual time and in wall time.
    pub(super) fn summary(&self, caption: &str) -> Table {
        let mut table = Table::new(caption, ["", "in virtual time", "of wall time"]);
        let (end, seconds) = (self.end.seconds(), self.seconds);
        let rate = |count: f64, time: f64| match time > 0.0 {
            true => Cell::number(count / time, Unit::PerSecond),
            false => Cell::Empty,
        };
        let (messages, bytes) = (self.totals.sent as f64, self.totals.bytes_sent as f64);
        table.push([
            Cell::from("time"),
            Cell::number(end, Unit::Seconds),
            Cell::number(seconds, Unit::Seconds),
        ]);
        let count = Cell::number(messages, Unit::Number).display();
        table.push([
            format!("{count} messages").into(),
            rate(messages, end),
            rate(messages, seconds),
        ]);
        let amount = Cell::number(bytes, Unit::Bytes).display();
        let bandwidth = match end > 0.0 {
            true => Cell::number(bytes / end, Unit::BytesPerSecond),
            false => Cell::Empty,
        };
        table.push([format!("{amount} of payload").into(), bandwidth, Cell::Empty]);
        let events = self.events as f64;
        let count = Cell::number(events, Unit::Number).display();
        table.push([format!("{count} events").into(), Cell::Empty, rate(events, seconds)]);
        let each = self.grown / self.ranks.len().max(1) as u64;
        table.push([
            Cell::from("memory a rank"),
            Cell::Empty,
            Cell::number(each as f64, Unit::Bytes),
        ]);
        table.push([Cell::from("answer"), Cell::from(self.answer), Cell::Empty]);
        table
    }

    /// Its ranks; if there are many, the extremes and the median.
    pub(super) fn by_rank(&self, caption: &str) -> Table {
        let head =
            ["rank", "ended", "computing", "in calls", "waiting", "sent", "bytes", "received"];
        let mut table = Table::new(caption, head);
        if self.ranks.len() <= LISTED {
            for (rank, (end, usage)) in self.ranks.iter().enumerate() {
                table.push(row(rank.to_string(), columns(*end, usage)));
            }
            return table;
        }
        let mut all: Vec<[f64; 7]> = vec![[0.0; 7]; 0];
        all.extend(self.ranks.iter().map(|(end, usage)| columns(*end, usage)));
        let sorted: Vec<Vec<f64>> = (0..7)
            .map(|column| {
                let mut values: Vec<f64> = all.iter().map(|row| row[column]).collect();
                values.sort_by(f64::total_cmp);
                values
            })
            .collect();
        let last = self.ranks.len() - 1;
        for (name, place) in [("least", 0), ("median", last / 2), ("most", last)] {
            let values = std::array::from_fn(|column| sorted[column][place]);
            table.push(row(name.to_owned(), values));
        }
        table
    }
}

/// End, computing, in calls, waiting; messages and bytes sent, messages received.
fn columns(end: hikyaku::Time, usage: &Usage) -> [f64; 7] {
    let Usage { computing, calling, totals } = usage;
    let waiting = end - *computing - *calling;
    let times = [end, *computing, *calling, waiting].map(hikyaku::Time::seconds);
    let counts = [totals.sent, totals.bytes_sent, totals.received].map(|count| count as f64);
    std::array::from_fn(|column| match column {
        0..4 => times[column],
        _ => counts[column - 4],
    })
}

fn row(name: String, values: [f64; 7]) -> Vec<Cell> {
    let units = [
        Unit::Seconds,
        Unit::Seconds,
        Unit::Seconds,
        Unit::Seconds,
        Unit::Number,
        Unit::Bytes,
        Unit::Number,
    ];
    let cells = values.into_iter().zip(units).map(|(value, unit)| Cell::number(value, unit));
    [Cell::from(name)].into_iter().chain(cells).collect()
}

#[cfg(test)]
mod tests {
    use hikyaku::Time;

    use super::*;

    fn outcome(ranks: u32) -> RunOutcome {
        let usage = |rank: u32| {
            let totals = Totals { sent: 1, bytes_sent: u64::from(rank), ..Totals::default() };
            let computing = Time::from_nanoseconds(u64::from(rank));
            (Time::from_nanoseconds(1_000), Usage { computing, calling: Time::ZERO, totals })
        };
        RunOutcome { ranks: (0..ranks).map(usage).collect(), seconds: 0.5, ..RunOutcome::default() }
    }

    #[test]
    fn few_ranks_are_listed_and_many_summed_up() {
        assert!(outcome(4).to_text().contains("\n3 "));
        let many = outcome(101).to_text();
        assert!(many.contains("least") && many.contains("median") && many.contains("most"));
        assert!(many.contains("50.0 ns") && many.contains("950 ns"), "{many}");
    }

    #[test]
    fn what_did_not_happen_has_no_rate() {
        let text = RunOutcome::default().to_text();
        assert!(!text.contains("NaN") && !text.contains("n/a"), "{text}");
    }
}
