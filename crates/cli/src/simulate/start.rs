//! `hikyaku simulate start`: the cost of starting a large job, computed from the launcher's steps.
//!
//! Nothing is run. `launch` knows the tree of daemons and the frames along it; the machine file
//! states the costs of its links, and the command line those of processes.

use std::process::ExitCode;
use std::time::Duration;

use hikyaku::Time;
use hikyaku_launch::hosts::{StartCosts, StartEstimate, StartedJob};
use hikyaku_report::{Cell, Table};

use super::arguments::{SimulateArguments, StartArguments};
use super::refuse;
use super::setting::Setting;
use crate::exit::print;

/// Prints the table.
pub(super) fn run(arguments: &SimulateArguments, costs: &StartArguments) -> ExitCode {
    let setting = match Setting::new(arguments) {
        Ok(setting) => setting,
        Err(error) => return refuse(&error),
    };
    match print(table(&setting, costs).trim_end()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => error.end(),
    }
}

fn table(setting: &Setting, arguments: &StartArguments) -> String {
    let Setting { machine, job, .. } = setting;
    let hosts = job.ranks.div_ceil(job.ranks_per_node);
    let farthest = machine.topology().distance(0, hosts.saturating_sub(1));
    let latency = Time::from_picoseconds(machine.links.hop.picoseconds() * u64::from(farthest));
    let costs = StartCosts {
        latency: duration(latency),
        bytes_per_second: machine.links.rate.as_bytes_per_second(),
        frame: duration(arguments.frame),
        card: duration(arguments.card),
        agent: duration(arguments.agent),
        process: duration(arguments.process),
        program: duration(arguments.init),
    };
    let started = StartedJob::new(hosts, job.ranks_per_node, arguments.card_size as usize);
    let caption = format!(
        "Starting {} ranks on {hosts} hosts of {}: calculated from the launcher's steps",
        u64::from(hosts) * u64::from(job.ranks_per_node),
        machine.name
    );
    let header = [
        "fan-out",
        "depth",
        "plans",
        "started",
        "addresses up",
        "addresses down",
        "at the launcher",
        "GB on all links",
        "MB out of a host",
        "all run, s",
        "all known, s",
    ];
    let mut table = Table::new(caption, header);
    let mut fan_outs = [&[started.fan_out], &arguments.fan_out[..]].concat();
    fan_outs.extend((hosts > 1).then_some(hosts));
    fan_outs.sort_unstable();
    fan_outs.dedup();
    for fan_out in fan_outs {
        let all = StartEstimate::of(&StartedJob { fan_out, ..started }, &costs);
        let mark = if fan_out == started.fan_out { " (hikyaku run)" } else { "" };
        let numbers = [
            all.depth.to_string(),
            all.plans.to_string(),
            all.started.to_string(),
            all.cards_up.to_string(),
            all.cards_down.to_string(),
            all.at_launcher.to_string(),
            format!("{:.1}", all.bytes as f64 / 1e9),
            format!("{:.1}", all.most_sent as f64 / 1e6),
            format!("{:.2}", all.running.as_secs_f64()),
            format!("{:.2}", all.known.as_secs_f64()),
        ];
        let row = [format!("{fan_out}{mark}")].into_iter().chain(numbers).map(Cell::Text);
        table.push(row);
    }
    table.to_text()
}

fn duration(time: Time) -> Duration {
    Duration::from_nanos(time.nanoseconds())
}
