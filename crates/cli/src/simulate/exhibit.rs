//! Where what happened in a run is written: a trace for viewers, a page or a picture for people.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hikyaku_report::{Page, Timeline, Unit};
use hikyaku_sim::engine::Sim;
use hikyaku_sim::topology::Topology;
use thiserror::Error;

use super::outcome::Outcome;
use super::story::{Limits, tell};

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

    /// Has a simulation keep what is needed; before anything is set up in it.
    pub(crate) fn prepare(&self, sim: &Sim) {
        if self.trace.is_some() || self.timeline.is_some() {
            sim.trace().records_on(MOST_RECORDS);
        }
    }

    /// Writes what is asked for. `links` is the shape of the network whose links were traced.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn show(
        &self,
        sim: &Sim,
        outcome: &Outcome,
        links: Option<&dyn Topology>,
    ) -> Result<(), ExhibitError> {
        let story = |limits: &Limits| tell(&sim.trace(), &outcome.title, links, limits);
        if let Some(file) = &self.trace {
            write(file, &story(&Limits::FILE).to_trace())?;
        }
        if let Some(file) = &self.timeline {
            let timeline = story(&Limits::PAGE);
            let text = match is(file, "svg") {
                true => timeline.to_svg(),
                false => page(outcome, &timeline),
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

/// The page: what it was, the timeline, links and ranks as tables.
fn page(outcome: &Outcome, timeline: &Timeline) -> String {
    let mut page = Page::new(&outcome.title);
    let [computing, calling, waiting] = outcome.shares().map(|share| Unit::Fraction.format(share));
    let mut facts = vec![
        ("virtual time", Unit::Seconds.format(outcome.end.seconds())),
        ("messages", Unit::Number.format(outcome.totals.sent as f64)),
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
    page.section("The run").table(&outcome.summary("The whole job"));
    for note in &outcome.notes {
        page.note(note);
    }
    page.section("Ranks").table(&outcome.by_rank("What the ranks did"));
    if !timeline.links.is_empty() {
        page.section("Links").table(&timeline.links_table());
    }
    page.to_html()
}
