//! Tables 2 and 3: clocks of the receive path for a packet of 24 bytes, row by row.

use hikyaku_report::{Cell, Table, Unit};
use hikyaku_sim::model::dimmnet2::Steps;

use super::ping_pong::{CONDITIONS, costs, run};
use crate::{Check, ExperimentOutcome, Machines};

/// Runs one message with 8 bytes of data for each primitive and takes the rows from the board's
/// log.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let costs = costs(machines);
    let clock = costs.interface.clock.seconds();
    let logs = [CONDITIONS[0], CONDITIONS[1]].map(|condition| {
        let mut rounds = run(&costs, condition, 8, 1).steps;
        rounds.pop().unwrap_or_default()
    });
    let mut table =
        Table::new("Clocks of the receive path, 24 B packet", ["step", "PUSH", "IPUSH"]);
    for step in &costs.interface.steps {
        let spent = logs.each_ref().map(|log| clocks(log, step.what, clock));
        let cell = |clocks: Option<f64>| clocks.map_or(Cell::from("-"), Cell::from);
        table.push([Cell::from(step.what), cell(spent[0]), cell(spent[1])]);
    }
    let totals = logs.each_ref().map(|log| (total(log) / clock * 1e6).round() / 1e6);
    table.push([Cell::from("total"), Cell::from(totals[0]), Cell::from(totals[1])]);
    let clocks = Unit::Named("clocks");
    ExperimentOutcome {
        statement: "A packet of 24 bytes takes 20 clocks with PUSH and 24 with IPUSH from its \
                    detection to its status, at 100 MHz."
            .into(),
        setup: "One message through the modelled board; the rows are differences of the times \
                at which its units ended each step."
            .into(),
        checks: vec![
            Check::within("total, PUSH (table 2)", 20.0, totals[0], clocks, 0.0)
                .identity("the rows of the table are the file's"),
            Check::within("total, IPUSH (table 3)", 24.0, totals[1], clocks, 0.0)
                .identity("the rows of the table are the file's"),
        ],
        tables: vec![table],
        charts: Vec::new(),
        notes: vec![
            "The rows themselves are the machine file's, from the paper; what the run shows is \
             that the units, with their queues and with nic's landing in between, spend them and \
             nothing else. The lookup of the AMT address is hidden under the first header, the \
             tail's update under the status write."
                .into(),
        ],
    }
}

/// The time from the detection to the status, seconds.
fn total(log: &Steps) -> f64 {
    let at = |what: &str| log.iter().find(|(step, _)| *step == what).map(|(_, at)| at.seconds());
    match (at("detect arrival at SWIF"), at("write packet receive status")) {
        (Some(start), Some(end)) => end - start,
        _ => f64::NAN,
    }
}

/// Clocks from the previous step to this one; `None` if the step did not occur.
fn clocks(log: &Steps, what: &str, clock: f64) -> Option<f64> {
    let rows: Vec<_> = log.iter().filter(|(step, _)| !step.starts_with(is_letter)).collect();
    let index = rows.iter().position(|(step, _)| *step == what)?;
    let before = match index {
        0 => return Some(0.0),
        index => rows[index - 1].1,
    };
    Some(((rows[index].1 - before).seconds() / clock).round())
}

/// Rows of table 7 begin with a capital letter, those of tables 2 and 3 do not.
fn is_letter(letter: char) -> bool {
    letter.is_ascii_uppercase()
}
