//! Results as data, written as a page, a picture, a spreadsheet or a terminal table.
//!
//! Benchmarks, the demo and the reproduced experiments hold their results as numbers with units.
//! This crate writes them as a self-contained HTML page, SVG charts, CSV and aligned text. So
//! measuring code never formats results, and all reports of the project look alike.
//!
//! Invariants:
//!
//! - Pure: the same data gives the same bytes. No clock, environment, file or random source.
//! - Self-contained: a page refers to nothing outside itself (no script, no link, images inline).
//! - All text is escaped, and no input makes a writer panic. Values that cannot be drawn (not
//!   finite, not positive on a logarithmic axis) are counted and reported, never hidden.
//! - Values are in base units (seconds, bytes, per second); a [`Unit`] chooses how they are shown.
//!
//! ```
//! use hikyaku_report::{Axis, Cell, LineChart, Page, Series, Table, Unit};
//!
//! let mut table = Table::new("One way", ["size", "time"]);
//! table.push([Cell::number(8.0, Unit::Bytes), Cell::number(78.2e-9, Unit::Seconds)]);
//! assert_eq!(table.to_csv(), "size (B),time (s)\r\n8,0.0000000782\r\n");
//!
//! let size = Axis::log2("message size", Unit::Bytes);
//! let time = Axis::log10("one way", Unit::Seconds);
//! let chart = LineChart::new("Latency", size, time)
//!     .with(Series::line("hikyaku", vec![(8.0, 78.2e-9), (1024.0, 210e-9)]));
//!
//! let mut page = Page::new("Latency between two ranks");
//! page.lead("Two ranks of one host.").section("Results").table(&table).chart(chart);
//! assert!(page.to_html().starts_with("<!doctype html>"));
//! ```

#![forbid(unsafe_code)]

mod chart;
mod page;
mod table;
mod timeline;
mod unit;

mod scale;
mod svg;
mod text;

pub use chart::{
    Axis, BarChart, Chart, Diagram, DiagramPlace, LineChart, Series, SeriesStyle, StackedBars,
};
pub use page::{Page, Picture};
pub use scale::Scale;
pub use table::{Cell, Table, Tone};
pub use timeline::{Activity, Flow, Lane, NetworkLink, Slice, Timeline};
pub use unit::Unit;
