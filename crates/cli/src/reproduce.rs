//! `hikyaku reproduce`: runs the experiments of the papers and writes their report.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hikyaku_reproduce::{
    self as reproduce, ExperimentOutcome, PaperItem, Report, Verdict, items, select,
};

use crate::exit::{PrintError, USAGE, begin_results, print, say};

/// Run the papers' tables and figures on simulated machines and compare with what is printed.
///
/// Writes report.html (self-contained) and the results as CSV files. Everything is deterministic:
/// the same results every time. Without ITEM all experiments run, in half a minute of one core.
#[derive(Debug, Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct ReproduceArguments {
    /// Which experiments: names of --list, or the beginnings of names (000, 003-figure)
    #[arg(value_name = "ITEM")]
    items: Vec<String>,

    /// List the experiments and end
    #[arg(long, conflicts_with = "items")]
    list: bool,

    /// Also run each with half and twice every value that was assumed, in some minutes: the range
    /// of every curve, and the verdicts that an assumption decides
    #[arg(long)]
    ranges: bool,

    /// Where to write report.html and the folder results
    #[arg(long, value_name = "DIR", default_value = "reproduce")]
    output: PathBuf,
}

const DETAILS: &str = "\
Exit code:
  0      everything that ran gives what the papers state
  1      results, or lines of progress, could not be written
  2      there is no such experiment
  3      something that a paper states does not come out; the report says what and why

Examples:
  Everything, into ./reproduce:
      hikyaku reproduce

  One paper, elsewhere, with the ranges of what was assumed:
      hikyaku reproduce 004 --ranges --output /tmp/cp-pacs
";

/// The exit code if a statement of a paper is not met.
const NOT_MET: u8 = 3;

/// Runs the experiments and writes the results.
pub(crate) fn run(arguments: &ReproduceArguments) -> ExitCode {
    if arguments.list {
        let line = |item: &PaperItem| format!("{:20} {}", item.name, item.title);
        return match print(items().iter().map(line).collect::<Vec<_>>().join("\n")) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => error.end(),
        };
    }
    let chosen = match select(&arguments.items) {
        Ok(chosen) => chosen,
        Err(word) => {
            say(format_args!("there is no experiment `{word}`; see hikyaku reproduce --list"));
            return ExitCode::from(USAGE);
        }
    };
    let cannot_write = |error: io::Error| {
        say(format_args!("cannot write to {}: {error}", arguments.output.display()));
        ExitCode::FAILURE
    };
    if let Err(error) = begin_results(&arguments.output, "report.html") {
        return cannot_write(error);
    }
    let mut progress = ProgressLines::default();
    let report = reproduce::run(&chosen, arguments.ranges, |item, outcome, took| {
        tell(item, outcome, took, &mut progress);
    });
    if let Err(error) = write(&report, &arguments.output) {
        return cannot_write(error);
    }
    let count = |verdict: Verdict| format!("{} {}", report.count(verdict), verdict.plural());
    progress.print(Verdict::ALL.map(count).join(", "));
    progress.print(format!("report: {}", arguments.output.join("report.html").display()));
    match (report.passes(), progress.failed) {
        (false, _) => ExitCode::from(NOT_MET),
        (true, Some(error)) => error.end(),
        (true, None) => ExitCode::SUCCESS,
    }
}

/// Prints one line on an experiment, and one for each mismatch.
fn tell(
    item: &PaperItem,
    outcome: &ExperimentOutcome,
    took: Duration,
    progress: &mut ProgressLines,
) {
    let mark = if outcome.passes() { "        " } else { "mismatch" };
    let seconds = took.as_secs_f64();
    progress.print(format!("{mark}  {:20} {} ({seconds:.1} s)", item.name, item.title));
    for check in outcome.checks.iter().filter(|check| check.verdict == Verdict::Mismatch) {
        progress.print(format!(
            "          {}: stated {}, model {}",
            check.what, check.stated, check.model
        ));
    }
}

/// Prints lines of progress. If they cannot be printed the run continues: the results are files.
#[derive(Default)]
struct ProgressLines {
    failed: Option<PrintError>,
}

impl ProgressLines {
    fn print(&mut self, line: String) {
        if self.failed.is_none() {
            self.failed = print(line).err();
        }
    }
}

/// Writes the page and the results. Files of experiments that did not run stay unchanged; files
/// about all experiments are written only if all ran.
fn write(report: &Report, output: &Path) -> io::Result<()> {
    let results = output.join("results");
    fs::create_dir_all(&results)?;
    fs::write(output.join("report.html"), report.to_html())?;
    let all = report.results.len() == items().len();
    for (name, content) in report.files() {
        if all || !["summary.csv", "sensitivity.csv"].contains(&name.as_str()) {
            fs::write(results.join(name), content)?;
        }
    }
    Ok(())
}
