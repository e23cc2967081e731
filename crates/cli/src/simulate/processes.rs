//! `hikyaku simulate … -- ./program`: real processes in virtual time.
//!
//! The programs' own output appears as with `hikyaku run`. The report goes to standard error, or to
//! a file, so that a program's output can be compared with that of a real run.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use hikyaku::shared::{NotASeed, Protocol};
use hikyaku::{Choices, Operation};
use hikyaku_launch::processes::{Computing, Processes, RankReport, VirtualReport};
use hikyaku_launch::{FullPolicy, Launch};
use hikyaku_report::{Cell, Table, Unit};
use hikyaku_sim::machine::Machine;

use super::Setting;
use super::exhibit::{self, ExhibitError, RunFacts};
use crate::exit::{say, say_as_it_is};
use crate::run::{WRONG_USE, WhenFull};

/// Up to so many ranks are listed individually; with more, only the extremes and the median are.
const LISTED: usize = 16;

/// The maximum number of trace records that are kept: 40 bytes each.
const MOST_RECORDS: usize = 50_000_000;

/// Options for processes only.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Processes (everything after '--')")]
pub(crate) struct ProcessOptions {
    /// The time of computing between calls: `given`, by the program's calls of World::compute;
    /// `measured`, the CPU time on this machine; or `measured=F`, F times that
    #[arg(long, value_name = "HOW", value_parser = parse_computing, default_value = "given")]
    compute: Computing,

    /// Transfer shared variables by this protocol: direct, fagus or udp
    ///
    /// Equivalent to HIKYAKU_SHARED=fagus in the environment.
    #[arg(long, value_name = "PROTOCOL")]
    shared: Option<Protocol>,

    /// What happens to a message if its receiver has no room: stall or refuse [default: stall]
    ///
    /// A message that stalls waits at the receiver and blocks the messages behind it on its path. A
    /// refused message is discarded there; the refusal travels back, and the sender's interface
    /// sends the message again, which takes time and bandwidth.
    #[arg(long, value_enum, value_name = "POLICY")]
    full: Option<WhenFull>,

    /// Start with so many landing rings a rank [default: one for each rank up to 16, 8 beyond]
    ///
    /// See 'hikyaku run --help'.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rings: Option<u32>,

    /// Leave senders in their first landing rings, unless the program moves them
    #[arg(long)]
    keep_rings: bool,

    /// Inject faults from this seed into the ranks' ports, for tests
    #[arg(long, value_name = "SEED", hide = true)]
    faults: Option<u64>,

    #[allow(rustdoc::broken_intra_doc_links, reason = "a text of --help, not a link")]
    /// Start each line of the ranks' output with "[rank] "
    #[arg(long)]
    label: bool,

    /// End the processes after so many seconds of real time
    #[arg(long, value_name = "SECONDS", value_parser = crate::run::seconds)]
    #[arg(allow_negative_numbers = true)]
    timeout: Option<Duration>,

    /// Write the report to this file instead of standard error
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Write the run's records, one per line: time in picoseconds, event, rank, peer, amount
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
}

impl ProcessOptions {
    /// The name of the first option that was given.
    pub(crate) fn first(&self) -> Option<&'static str> {
        let given = [
            (self.compute != Computing::default(), "--compute"),
            (self.shared.is_some(), "--shared"),
            (self.full.is_some(), "--full"),
            (self.rings.is_some(), "--rings"),
            (self.keep_rings, "--keep-rings"),
            (self.faults.is_some(), "--faults"),
            (self.label, "--label"),
            (self.timeout.is_some(), "--timeout"),
            (self.report.is_some(), "--report"),
            (self.records.is_some(), "--records"),
        ];
        given.into_iter().find_map(|(is_given, name)| is_given.then_some(name))
    }
}

/// Runs the processes of a command on a simulated machine.
pub(crate) fn run(setting: &Setting, command: &[OsString], options: &ProcessOptions) -> ExitCode {
    let is_one_node = setting.job.ranks <= setting.job.ranks_per_node;
    let chosen = |name: &str| std::env::var(name).ok();
    if let Err(line) = check_choices(&setting.machine, is_one_node, chosen) {
        say(&line);
        return ExitCode::from(WRONG_USE);
    }
    let mut words = command.iter().cloned();
    let program = words.next().unwrap_or_default();
    let mut launch = Launch {
        args: words.collect(),
        ranks_per_node: Some(setting.job.ranks_per_node),
        label: options.label,
        timeout: options.timeout,
        owns_process: true,
        full: options.full.map(FullPolicy::from).unwrap_or_default(),
        rings: options.rings,
        keeps_rings: options.keep_rings,
        ..Launch::new(setting.job.ranks, program)
    };
    launch.offer_mpi();
    if let Some(protocol) = options.shared {
        launch.set(Protocol::VARIABLE, protocol);
    }
    if let Some(seed) = options.faults {
        launch.set(NotASeed::OF_PORTS, seed);
    }
    let written = [&options.report, &options.records].into_iter().flatten();
    if let Err(error) = setting.exhibit.begin(written) {
        say(&error);
        return ExitCode::FAILURE;
    }
    let processes = Processes {
        launch,
        machine: setting.machine.clone(),
        memory: setting.job.memory,
        computing: options.compute,
        trace: if options.records.is_some() { MOST_RECORDS } else { setting.exhibit.records() },
    };
    match processes.run() {
        Ok(report) => finish(setting, options, &report),
        Err(error) => {
            say(&error);
            ExitCode::from(u8::try_from(error.code()).unwrap_or(u8::MAX))
        }
    }
}

/// Refuses an algorithm in the environment that the nodes of this machine do not support.
fn check_choices(
    machine: &Machine,
    is_one_node: bool,
    value_of: impl Fn(&str) -> Option<String>,
) -> Result<(), String> {
    if machine.has_groups() || is_one_node {
        return Ok(());
    }
    // Ranks of a machine without groups have the capabilities of ranks of several hosts.
    let choices = Choices::from_environment(value_of).unwrap_or_default();
    let barrier = choices.barrier.map(|by| (Operation::Barrier, by.name()));
    let broadcast = choices.broadcast.map(|by| (Operation::Broadcast, by.name()));
    barrier.into_iter().chain(broadcast).try_for_each(|(operation, by)| match by {
        "sync" | "atomic-add" | "multicast-add" | "multicast" => Err(format!(
            "{} by {by} needs groups in the network, which {} has not: choose another algorithm, \
             or the machine cenju4",
            operation.name(),
            machine.name
        )),
        _ => Ok(()),
    })
}

/// Writes the report and files, and returns the job's exit code.
fn finish(setting: &Setting, options: &ProcessOptions, report: &VirtualReport) -> ExitCode {
    let mut code = u8::try_from(report.outcome.code).unwrap_or(u8::MAX);
    let mut wrote = |path: &Path, written: io::Result<()>| {
        if let Err(error) = written {
            say(format_args!("cannot write {}: {error}", path.display()));
            code = code.max(1);
        }
    };
    if report.joined == 0 {
        say("no rank called hikyaku: the program ran, but nothing was simulated");
    } else {
        let text = to_text(setting, report);
        match &options.report {
            Some(path) => wrote(path, fs::write(path, text)),
            None => say_as_it_is(text),
        }
    }
    if let Some(path) = &options.records {
        wrote(path, fs::write(path, records(report)));
    }
    if let Err(error) = show(setting, report) {
        say(&error);
        code = code.max(1);
    }
    report.outcome.reason.iter().for_each(say);
    report.outcome.details.iter().for_each(|line| say(format_args!("  {line}")));
    ExitCode::from(code)
}

/// Writes the trace and the timeline if they are requested.
fn show(setting: &Setting, report: &VirtualReport) -> Result<(), ExhibitError> {
    let title = title(setting, report);
    let whole: f64 = report.ranks.iter().map(|rank| rank.time.seconds()).sum();
    let share = |of: fn(&RankReport) -> hikyaku::Time| {
        let part: f64 = report.ranks.iter().map(|rank| of(rank).seconds()).sum();
        if whole > 0.0 { part / whole } else { 0.0 }
    };
    let notes = [note(setting)];
    let facts = RunFacts {
        title: &title,
        end: report.end().seconds(),
        messages: report.ranks.iter().map(|rank| rank.messages).sum(),
        shares: [
            share(|rank| rank.computing),
            share(RankReport::in_calls),
            share(|rank| rank.waiting),
        ],
        summary: summary("The whole job", report),
        by_rank: by_rank("What the ranks did", report),
        notes: &notes,
    };
    let topology = setting.machine.topology();
    let page = |timeline: &_| exhibit::page(&facts, timeline);
    setting.exhibit.show(&report.trace, &title, Some(&*topology), page)
}

fn title(setting: &Setting, report: &VirtualReport) -> String {
    let ranks = report.ranks.len();
    let (machine, shape) = (&setting.machine.name, setting.machine.topology().name());
    format!("{ranks} processes on {machine} ({shape}), in virtual time")
}

fn note(setting: &Setting) -> String {
    let memory = &setting.job.memory;
    let (latency, rate) = (memory.latency, memory.rate);
    format!(
        "Copies and messages within a node: {latency} and {rate} (assumed; machine files state \
         none)."
    )
}

fn records(report: &VirtualReport) -> String {
    let mut text = String::from("picoseconds,what,who,whom,how_much\n");
    for record in report.trace.records() {
        let (time, kind) = (record.time.picoseconds(), format!("{:?}", record.kind));
        text += &format!(
            "{time},{},{},{},{}\n",
            kind.to_lowercase(),
            record.who,
            record.whom,
            record.what
        );
    }
    text
}

/// The report on a terminal.
fn to_text(setting: &Setting, report: &VirtualReport) -> String {
    let (title, note) = (title(setting, report), note(setting));
    let (summary, by_rank) = (summary("", report), by_rank("", report));
    format!("{title}\n\n{}\n{}\n{note}\n", summary.to_text(), by_rank.to_text())
}

fn summary(caption: &str, report: &VirtualReport) -> Table {
    let mut table = Table::new(caption, ["", "in virtual time", "of wall time"]);
    let (end, wall) = (report.end().seconds(), report.wall.as_secs_f64());
    let rate = |count: f64, time: f64| match time > 0.0 {
        true => Cell::number(count / time, Unit::PerSecond),
        false => Cell::Empty,
    };
    let times = [end, wall].map(|time| Cell::number(time, Unit::Seconds));
    let [end_cell, wall_cell] = times;
    table.push([Cell::from("time"), end_cell, wall_cell]);
    let sum = |of: fn(&RankReport) -> u64| report.ranks.iter().map(of).sum::<u64>() as f64;
    let rows = [
        (sum(|rank| rank.messages), Unit::Number, "messages"),
        (sum(|rank| rank.bytes), Unit::Bytes, "of payload"),
        (sum(|rank| rank.calls), Unit::Number, "calls"),
        (report.events as f64, Unit::Number, "events"),
    ];
    for (count, unit, what) in rows {
        let name = format!("{} {what}", Cell::number(count, unit).display());
        table.push([Cell::from(name), rate(count, end), rate(count, wall)]);
    }
    table
}

fn by_rank(caption: &str, report: &VirtualReport) -> Table {
    let head = ["rank", "ended", "computing", "in calls", "waiting", "messages", "bytes", "calls"];
    let mut table = Table::new(caption, head);
    let rows: Vec<[f64; 7]> = report.ranks.iter().map(columns).collect();
    if rows.len() <= LISTED {
        for (rank, values) in rows.into_iter().enumerate() {
            table.push(row(rank.to_string(), values));
        }
        return table;
    }
    let sorted: [Vec<f64>; 7] = std::array::from_fn(|column| {
        let mut values: Vec<f64> = rows.iter().map(|row| row[column]).collect();
        values.sort_by(f64::total_cmp);
        values
    });
    let last = rows.len() - 1;
    for (name, place) in [("least", 0), ("median", last / 2), ("most", last)] {
        table.push(row(name.to_owned(), std::array::from_fn(|column| sorted[column][place])));
    }
    table
}

fn columns(rank: &RankReport) -> [f64; 7] {
    let [time, computing, calls, waiting] =
        [rank.time, rank.computing, rank.in_calls(), rank.waiting].map(hikyaku::Time::seconds);
    let [messages, bytes, count] =
        [rank.messages, rank.bytes, rank.calls].map(|count| count as f64);
    [time, computing, calls, waiting, messages, bytes, count]
}

fn row(name: String, values: [f64; 7]) -> Vec<Cell> {
    let (time, number) = (Unit::Seconds, Unit::Number);
    let units = [time, time, time, time, number, Unit::Bytes, number];
    let cells = values.into_iter().zip(units).map(|(value, unit)| Cell::number(value, unit));
    [Cell::from(name)].into_iter().chain(cells).collect()
}

fn parse_computing(text: &str) -> Result<Computing, String> {
    let wrong = || format!("{text:?} is neither given, nor measured, nor measured=FACTOR");
    match text.split_once('=').unwrap_or((text, "1")) {
        ("given", "1") if !text.contains('=') => Ok(Computing::Given),
        ("measured", factor) => {
            let factor: f64 = factor.parse().map_err(|_| wrong())?;
            let sensible = (1e-3..=1e6).contains(&factor);
            sensible.then_some(Computing::Measured(factor)).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_a_machine_has_no_groups_for_is_refused() {
        let load = |name: &str| crate::machine::load(Path::new(name)).unwrap();
        for (name, value) in [
            ("HIKYAKU_COLL_BARRIER", "sync"),
            ("HIKYAKU_COLL_BARRIER", "atomic-add"),
            ("HIKYAKU_COLL_BROADCAST", "multicast"),
        ] {
            let chosen = |of: &str| (of == name).then(|| value.to_owned());
            let check = |machine, is_one_node| check_choices(&load(machine), is_one_node, chosen);
            let line = check("cp-pacs", false).unwrap_err();
            let part = format!("by {value} needs groups in the network, which cp-pacs has not");
            assert!(line.contains(&part), "{line}");
            assert_eq!(check("cp-pacs", true), Ok(()));
            assert_eq!(check("cenju4", false), Ok(()));
        }
        let tree = |name: &str| (name == "HIKYAKU_COLL_BARRIER").then(|| "wide-tree".to_owned());
        assert_eq!(check_choices(&load("cp-pacs"), false, tree), Ok(()));
    }

    #[test]
    fn computing_is_given_or_measured() {
        assert_eq!(parse_computing("given"), Ok(Computing::Given));
        assert_eq!(parse_computing("measured"), Ok(Computing::Measured(1.0)));
        assert_eq!(parse_computing("measured=0.5"), Ok(Computing::Measured(0.5)));
        for text in ["", "given=1", "measured=", "measured=nan", "measured=0", "zero"] {
            assert!(parse_computing(text).unwrap_err().contains("is neither given"), "{text}");
        }
    }
}
