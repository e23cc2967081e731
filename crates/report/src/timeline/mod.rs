//! A run in time: the activity of every rank, the messages, and the load of links.
//!
//! ```text
//!   rank 0  ▓▓▓▓▓▓▓░░░░░░▒▓▓▓▓▓▓        ▓ computing   ▒ in a call   ░ waiting
//!                  ╲      ╱
//!   rank 1  ▓▓▓▓▓▓▓▓▓░░░▒▓▓▓▓▓▓▓        ╲ a message, from its sending to its arrival
//!           ├────────┼────────┤
//!   link 3  ··▪▪▪▪··········▪▪▪▪        how busy a link was
//! ```
//!
//! A [`Timeline`] is data. It is written as part of a page, as a picture, and as a trace in the
//! JSON form of Chrome's tracing view and Perfetto ([`Timeline::to_trace`]). The page zooms with
//! CSS alone and needs no script.
//!
//! The caller reduces large runs and lists in `left_out` what is omitted.

mod json;
mod view;

pub(crate) use view::TIMELINE_PAGE_STYLE;

use crate::table::{Cell, Table};
use crate::unit::Unit;

/// A run in time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Timeline {
    /// The title.
    pub title: String,
    /// Begin and end of the shown time, seconds.
    pub window: (f64, f64),
    /// One per rank, from the top.
    pub lanes: Vec<Lane>,
    /// Messages between lanes.
    pub messages: Vec<Flow>,
    /// Links, the busiest first.
    pub links: Vec<NetworkLink>,
    /// What is not shown and why, one sentence each.
    pub left_out: Vec<String>,
}

/// One rank.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Lane {
    /// The rank's name.
    pub name: String,
    /// The rank's activities, in order. Slices of one activity do not overlap.
    pub slices: Vec<Slice>,
}

/// An activity of a rank for a span of time.
#[derive(Debug, Clone, PartialEq)]
pub struct Slice {
    /// The kind.
    pub activity: Activity,
    /// Begin, seconds.
    pub start: f64,
    /// End, seconds.
    pub end: f64,
    /// A description.
    pub label: String,
}

/// The kinds of activity of a rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Activity {
    /// The program computes.
    Computing,
    /// The processor works on a message.
    Calling,
    /// The rank waits.
    Waiting,
    /// A named part of the program. It contains other activities.
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
    /// The time of sending, seconds.
    pub sent: f64,
    /// The time of arrival, seconds.
    pub arrived: f64,
    /// Bytes of payload.
    pub bytes: u64,
}

/// A link of the network.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NetworkLink {
    /// The names of both ends.
    pub name: String,
    /// The share of time during which the link carried bytes, per equal part of the window.
    pub busy: Vec<f64>,
}

impl NetworkLink {
    /// The share of the whole window during which the link carried bytes.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.busy.iter().sum::<f64>() / self.busy.len().max(1) as f64
    }
}

impl Timeline {
    /// The share of an activity in the time of all lanes together.
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
