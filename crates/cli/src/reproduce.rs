//! `hikyaku reproduce`: runs the experiments of the papers and writes their report.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use hikyaku_reproduce::{Item, Report, Result as Experiment, Verdict, items, select};

use crate::exit::{PrintError, USAGE, print, say};

/// Run the papers' tables and figures on simulated machines and compare with what is printed.
///
/// Writes report.html (self-contained) and the results as CSV files. Everything is deterministic:
/// the same results every time. Without ITEM all experiments run, in about a minute.
#[derive(Debug, Args)]
#[command(after_long_help = DETAILS)]
pub(crate) struct Arguments {
    /// Which experiments: names of --list, or the beginnings of names (000, 003-figure)
    #[arg(value_name = "ITEM")]
    items: Vec<String>,

    /// List the experiments and end
    #[arg(long)]
    list: bool,

    /// Where to write report.html and the folder results
    #[arg(long, value_name = "DIR", default_value = "reproduce")]
    output: PathBuf,
}

const DETAILS: &str = "\
Exit code:
  0      every experiment that ran meets its criteria
  1      results, or lines of progress, could not be written
  2      there is no such experiment
  3      an experiment fails a criterion; the report says which and why

Examples:
  Everything, into ./reproduce:
      hikyaku reproduce

  One paper, elsewhere:
      hikyaku reproduce 004 --output /tmp/cp-pacs
";

/// Some statement of a paper is not met.
const NOT_MET: u8 = 3;

/// Runs the experiments and writes what came out.
pub(crate) fn run(arguments: &Arguments) -> ExitCode {
    if arguments.list {
        let line = |item: &Item| format!("{:20} {}", item.name, item.title);
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
    let mut progress = Progress::default();
    let perform = |item| perform(item, &mut progress);
    let report = Report { results: chosen.into_iter().map(perform).collect() };
    if let Err(error) = write(&report, &arguments.output) {
        say(format_args!("cannot write to {}: {error}", arguments.output.display()));
        return ExitCode::FAILURE;
    }
    progress.print(format!("report: {}", arguments.output.join("report.html").display()));
    match (report.passes(), progress.failed) {
        (false, _) => ExitCode::from(NOT_MET),
        (true, Some(error)) => error.end(),
        (true, None) => ExitCode::SUCCESS,
    }
}

/// Runs one experiment and says in a line how it went.
fn perform(item: &'static Item, progress: &mut Progress) -> Experiment {
    let start = Instant::now();
    let outcome = (item.run)();
    let verdict = if outcome.passes() { "pass" } else { "FAIL" };
    let seconds = start.elapsed().as_secs_f64();
    progress.print(format!("{verdict}  {:20} {} ({seconds:.1} s)", item.name, item.title));
    for check in outcome.checks.iter().filter(|check| check.verdict == Verdict::Fail) {
        progress
            .print(format!("      {}: stated {}, model {}", check.what, check.stated, check.model));
    }
    Experiment { item, outcome }
}

/// Lines of progress. That nobody reads them is no reason to stop: the results are files.
#[derive(Default)]
struct Progress {
    failed: Option<PrintError>,
}

impl Progress {
    fn print(&mut self, line: String) {
        if self.failed.is_none() {
            self.failed = print(line).err();
        }
    }
}

/// Writes the page and the results. Those of experiments that did not run stay as they are; the
/// summary is written only when all ran.
fn write(report: &Report, output: &Path) -> io::Result<()> {
    let results = output.join("results");
    fs::create_dir_all(&results)?;
    fs::write(output.join("report.html"), report.to_html())?;
    let all = report.results.len() == items().len();
    for (name, content) in report.files() {
        if all || name != "summary.csv" {
            fs::write(results.join(name), content)?;
        }
    }
    Ok(())
}
