//! Figure 6: latency of short messages between two nodes, by library.

use hikyaku_nic::time::Time;
use hikyaku_report::{Axis, LineChart, Series, Unit};
use hikyaku_sim::model::cenju4::{Span, To};

use super::library::{MessageLibrary, data, flag, half_round_trip};
use crate::{Check, ExperimentOutcome, Machines};

/// The time of a message of `bytes`, seconds. Up to a double word is sent inline.
fn latency(machines: &Machines, library: MessageLibrary, bytes: u64) -> f64 {
    let parcel = |to| match bytes {
        0..=8 => flag(To::One(to), 0),
        _ => data(to, Span { source: 0, destination: 0, bytes }, true),
    };
    half_round_trip(machines, library, bytes, [parcel(1), parcel(0)], Time::ZERO)
}

/// Sweeps short messages.
pub fn run_item(machines: &Machines) -> ExperimentOutcome {
    let sizes: Vec<u64> = (1..=16).map(|words| 8 * words).collect();
    let curve = |library| -> Vec<(f64, f64)> {
        sizes.iter().map(|&bytes| (bytes as f64, latency(machines, library, bytes))).collect()
    };
    let (paralib, mpi) = (curve(MessageLibrary::Paralib), curve(MessageLibrary::Mpi));
    let call = curve(MessageLibrary::ParalibWithCall);
    let us = |value: f64| value * 1e-6;
    let seconds = Unit::Seconds;
    let step = paralib[1].1 - paralib[0].1;
    let later = (1..15).map(|i| paralib[i + 1].1 - paralib[i].1).fold(0.0, f64::max);
    let checks = vec![
        Check::number("Paralib/CJ4, 8 B", us(4.9), paralib[0].1, seconds)
            .calibrated("host.paralib"),
        Check::number("MPI, 8 B", us(9.1), mpi[0].1, seconds).calibrated("host.mpi"),
        Check::number("saved by inline mode (16 B less 8 B)", us(0.3), step, seconds)
            .calibrated("network.body_hop"),
        Check::number("system call and flush, 8 B", us(13.0), call[0].1 - paralib[0].1, seconds)
            .identity("host.system_call"),
        Check::shape(
            "shape",
            "a step between 8 and 16 B",
            format!("{}, later at most {}", seconds.format(step), seconds.format(later)),
            step > 3.0 * later,
        )
        .calibrated("network.body_hop, fitted to that step"),
    ];
    let chart = LineChart::new(
        "1 to 1 communication latency",
        Axis::linear("message length", Unit::Bytes),
        Axis::linear("latency", Unit::Seconds).from_zero(),
    )
    .with(Series::line("Paralib/CJ4", paralib))
    .with(Series::line("MPI", mpi))
    .with(Series::line("Paralib/CJ4 + system call", call))
    .with(Series::printed("paper, 8 B", vec![(8.0, us(4.9)), (8.0, us(9.1)), (8.0, us(17.9))]));
    ExperimentOutcome {
        statement: "8 bytes take 4.9 µs with Paralib/CJ4 and 9.1 µs with MPI; inline mode saves \
                    about 0.3 µs against 16 bytes; a system call costs about 13 µs."
            .into(),
        setup: "Half a round trip between two nodes of the 32.".into(),
        checks,
        tables: Vec::new(),
        charts: vec![chart.into()],
        notes: vec![
            "All printed numbers of this figure are calibration: one fits each library's own time \
             and one the switches' time for flits behind a header. Without the last, the read of \
             a dirty line would show whole, 0.47 µs."
                .into(),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cj_19_short_messages_take_4_9_and_9_1_us() {
        let outcome = run_item(&Machines::stored());
        assert!(outcome.passes(), "{:?}", outcome.checks);
    }
}
