//! Writes the records of a run: a trace for viewers, a page or a picture for people.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use hikyaku_report::{Page, Table, Timeline, Unit};
use hikyaku_sim::engine::{Sim, Trace};
use hikyaku_sim::topology::Topology;
use thiserror::Error;

use super::story::{StoryLimits, tell};

/// Records that a run keeps, 32 bytes each. Later ones are counted and reported.
const MOST_RECORDS: usize = 4 << 20;

/// The files to write about a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Exhibit {
    trace: Option<PathBuf>,
    timeline: Option<PathBuf>,
}

/// A file that could not be written.
#[derive(Debug, Error)]
#[error("cannot write {}: {error}", file.display())]
pub(crate) struct ExhibitError {
    file: PathBuf,
    error: io::Error,
}

impl Exhibit {
    /// A trace, a timeline, both or nothing.
    ///
    /// # Errors
    /// The name of the timeline is neither that of a page nor of a picture.
    pub(crate) fn new(
        trace: Option<PathBuf>,
        timeline: Option<PathBuf>,
    ) -> Result<Exhibit, PathBuf> {
        match timeline {
            Some(file) if !is(&file, "html") && !is(&file, "svg") => Err(file),
            timeline => Ok(Exhibit { trace, timeline }),
        }
    }

    /// Creates these files and the `other` files if they do not exist, so that an unwritable file
    /// is reported before a long run and not after it.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn begin<'f>(
        &'f self,
        other: impl Iterator<Item = &'f PathBuf>,
    ) -> Result<(), ExhibitError> {
        self.trace.iter().chain(&self.timeline).chain(other).try_for_each(|file| {
            let opened = OpenOptions::new().append(true).create(true).open(file);
            opened.map(drop).map_err(|error| ExhibitError { file: file.clone(), error })
        })
    }

    /// The number of records it needs, at most.
    pub(crate) fn records(&self) -> usize {
        if self.trace.is_some() || self.timeline.is_some() { MOST_RECORDS } else { 0 }
    }

    /// Makes a simulation keep the needed records. Call it before anything is set up in the
    /// simulation.
    pub(crate) fn prepare(&self, sim: &Sim) {
        if self.records() > 0 {
            sim.trace().records_on(self.records());
        }
    }

    /// Writes the requested files. `links` is the shape of the network whose links were traced,
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

/// The contents of a page about a run beside its timeline.
pub(crate) struct RunFacts<'r> {
    pub(crate) title: &'r str,
    /// Virtual time at the end of the run, seconds.
    pub(crate) end: f64,
    pub(crate) messages: u64,
    /// Fractions of all ranks' time: computing, in calls, waiting.
    pub(crate) shares: [f64; 3],
    pub(crate) summary: Table,
    pub(crate) by_rank: Table,
    pub(crate) notes: &'r [String],
}

/// The page of a run: its description, the timeline, tables of links and ranks.
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
