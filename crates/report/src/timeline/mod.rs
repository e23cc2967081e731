//! A run in time: what every rank did when, which messages went where, how busy links were.
//!
//! ```text
//!   rank 0  ▓▓▓▓▓▓▓░░░░░░▒▓▓▓▓▓▓        ▓ computing   ▒ in a call   ░ waiting
//!                  ╲      ╱
//!   rank 1  ▓▓▓▓▓▓▓▓▓░░░▒▓▓▓▓▓▓▓        ╲ a message, from its sending to its arrival
//!           ├────────┼────────┤
//!   link 3  ··▪▪▪▪··········▪▪▪▪        how busy a link was
//! ```
//!
//! A [`Timeline`] is data; it is written as part of a page, as a picture and as a trace in the JSON
//! form that Chrome's tracing view and Perfetto read ([`Timeline::to_trace`]). The page zooms by
//! style alone, so that it keeps the promise of having no script.
//!
//! Whoever fills it reduces large runs and says in `left_out` what is not shown.

mod json;
mod ruler;
mod view;

pub(crate) use view::TIMELINE_PAGE_STYLE;

use crate::table::{Cell, Table};
use crate::unit::Unit;

/// What happened in a run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// What ran.
    pub title: String,
    /// Begin and end of what is shown, seconds.
    pub window: (f64, f64),
    /// One per rank, from the top.
    pub lanes: Vec<Lane>,
    /// Messages between lanes.
    pub messages: Vec<Flow>,
    /// Links, the busiest first.
    pub links: Vec<Link>,
    /// What is not shown and why, a sentence each.
    pub left_out: Vec<String>,
}

/// One rank.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// What it did, in order; slices of an activity do not overlap.
    pub slices: Vec<Slice>,
}

/// What a rank does for a span of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// What kind of thing.
    pub activity: Activity,
    /// Begin, seconds.
    pub start: f64,
    /// End, seconds.
    pub end: f64,
    /// What it is, in words.
    pub label: String,
}

/// Kinds of what a rank does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activity {
    /// Its program computes.
    Computing,
    /// Its processor works on a message.
    Calling,
    /// It waits.
    Waiting,
    /// A part of the program that has a name; other activities lie within.
    Phase,
}

impl Activity {
    fn word(self) -> &'static str {
        match self {
            Activity::Computing => "computing",
            Activity::Calling => "call",
            Activity::Waiting => "waiting",
            Activity::Phase => "phase",
        }
    }
}

/// A message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flow {
    /// Lane of the sender.
    pub from: usize,
    /// Lane of the receiver.
    pub to: usize,
    /// When it was sent, seconds.
    pub sent: f64,
    /// When it had arrived, seconds.
    pub arrived: f64,
    /// Bytes of payload.
    pub bytes: u64,
}

/// A link of the network.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Link {
    /// What it joins.
    pub name: String,
    /// Part of the time that it carried bytes in each of so many equal parts of the window.
    pub busy: Vec<f64>,
}

impl Link {
    /// Part of the whole window that it carried bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.busy.iter().sum::<f64>() / self.busy.len().max(1) as f64
    }
}

impl Timeline {
    /// Part of the window that the lanes spent on an activity, together.
    #[must_use]
    pub fn share(&self, activity: Activity) -> f64 {
        let slices = self.lanes.iter().flat_map(|lane| &lane.slices);
        let spent: f64 =
            slices.filter(|s| s.activity == activity).map(|slice| slice.end - slice.start).sum();
        let whole = self.length() * self.lanes.len() as f64;
        if whole > 0.0 { spent / whole } else { 0.0 }
    }

    /// The links with their mean utilisation.
    #[must_use]
    pub fn links_table(&self) -> Table {
        let mut table = Table::new("Links", ["link", "carrying bytes", "at most"]);
        for link in &self.links {
            let most = link.busy.iter().copied().fold(0.0, f64::max);
            let part = |value| Cell::number(value, Unit::Fraction);
            table.push([Cell::from(link.name.as_str()), part(link.mean()), part(most)]);
        }
        table
    }

    fn length(&self) -> f64 {
        let (start, end) = self.window;
        if end > start && (end - start).is_finite() { end - start } else { 0.0 }
    }
}

#[cfg(test)]
mod tests;
