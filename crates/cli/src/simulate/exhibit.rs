//! Where what happened in a run is written: a trace for viewers, a page or a picture for people.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use hikyaku_report::{Page, Table, Timeline, Unit};
use hikyaku_sim::engine::{Sim, Trace};
use hikyaku_sim::topology::Topology;
use thiserror::Error;

use super::story::{StoryLimits, tell};

/// Records that a run keeps, 32 bytes each; what comes later is counted and said.
const MOST_RECORDS: usize = 4 << 20;

/// What to write of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Exhibit {
    trace: Option<PathBuf>,
    timeline: Option<PathBuf>,
}

/// A file could not be written.
#[derive(Debug, Error)]
#[error("cannot write {}: {error}", file.display())]
pub(crate) struct ExhibitError {
    file: PathBuf,
    error: io::Error,
}

impl Exhibit {
    /// Writes a trace, a timeline, both or nothing.
    ///
    /// # Errors
    /// The name of a timeline that is neither a page nor a picture.
    pub(crate) fn new(
        trace: Option<PathBuf>,
        timeline: Option<PathBuf>,
    ) -> Result<Exhibit, PathBuf> {
        match timeline {
            Some(file) if !is(&file, "html") && !is(&file, "svg") => Err(file),
            timeline => Ok(Exhibit { trace, timeline }),
        }
    }

    /// Creates what will be written, and the `other` files, unless they are there: whoever has
    /// waited for a run is not to hear then that they cannot be.
    ///
    /// # Errors
    /// One cannot be written.
    pub(crate) fn begin<'f>(
        &'f self,
        other: impl Iterator<Item = &'f PathBuf>,
    ) -> Result<(), ExhibitError> {
        self.trace.iter().chain(&self.timeline).chain(other).try_for_each(|file| {
            let opened = OpenOptions::new().append(true).create(true).open(file);
            opened.map(drop).map_err(|error| ExhibitError { file: file.clone(), error })
        })
    }

    /// How many records it needs, at most.
    pub(crate) fn records(&self) -> usize {
        if self.trace.is_some() || self.timeline.is_some() { MOST_RECORDS } else { 0 }
    }

    /// Has a simulation keep what is needed; before anything is set up in it.
    pub(crate) fn prepare(&self, sim: &Sim) {
        if self.records() > 0 {
            sim.trace().records_on(self.records());
        }
    }

    /// Writes what is asked for. `links` is the shape of the network whose links were traced,
    /// `page` makes the page around a timeline.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn show(
        &self,
        trace: &Trace,
        title: &str,
        links: Option<&dyn Topology>,
        page: impl FnOnce(&Timeline) -> Page,
    ) -> Result<(), ExhibitError> {
        let story = |limits: &StoryLimits| tell(trace, title, links, limits);
        if let Some(file) = &self.trace {
            write(file, &story(&StoryLimits::FILE).to_trace())?;
        }
        if let Some(file) = &self.timeline {
            let timeline = story(&StoryLimits::PAGE);
            let text = match is(file, "svg") {
                true => timeline.to_svg(),
                false => page(&timeline).to_html(),
            };
            write(file, &text)?;
        }
        Ok(())
    }
}

fn is(file: &Path, form: &str) -> bool {
    file.extension().is_some_and(|extension| extension == form)
}

fn write(file: &Path, text: &str) -> Result<(), ExhibitError> {
    fs::write(file, text).map_err(|error| ExhibitError { file: file.to_owned(), error })
}

/// What a page says of a run beside its timeline.
pub(crate) struct RunFacts<'r> {
    pub(crate) title: &'r str,
    /// Virtual time at its end, seconds.
    pub(crate) end: f64,
    pub(crate) messages: u64,
    /// Parts of all ranks' time: computing, in calls, waiting.
    pub(crate) shares: [f64; 3],
    pub(crate) summary: Table,
    pub(crate) by_rank: Table,
    pub(crate) notes: &'r [String],
}

/// The page: what it was, the timeline, links and ranks as tables.
pub(crate) fn page(run: &RunFacts<'_>, timeline: &Timeline) -> Page {
    let mut page = Page::new(run.title);
    let [computing, calling, waiting] = run.shares.map(|share| Unit::Fraction.format(share));
    let mut facts = vec![
        ("virtual time", Unit::Seconds.format(run.end)),
        ("messages", Unit::Number.format(run.messages as f64)),
        ("of the ranks' time computing", computing),
        ("in calls", calling),
        ("waiting", waiting),
    ];
    if let Some(link) = timeline.links.first() {
        facts.push(("busiest link shown", Unit::Fraction.format(link.mean())));
    }
    page.lead(
        "Each row is a rank, time runs to the right, a line is a message. Choose a magnification \
         and scroll; hold the pointer over anything to read what it is.",
    );
    page.facts(facts).timeline(timeline);
    page.section("The run").table(&run.summary);
    for note in run.notes {
        page.note(note);
    }
    page.section("Ranks").table(&run.by_rank);
    if !timeline.links.is_empty() {
        page.section("Links").table(&timeline.links_table());
    }
    page
}
