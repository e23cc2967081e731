//! Each program is right on several numbers of ranks, and its trace shows the communication
//! partners.

#![allow(clippy::unwrap_used)]

use std::fs;

use hikyaku_jobs::own;
use hikyaku_nic::plan::{Growth, LandingPlan, TrafficKind, TrafficTrace};

const NPB: &str = env!("CARGO_BIN_EXE_npb");

#[test]
fn launcher() {
    own::launch(NPB);
}

/// Runs a program on this many ranks and reads their trace.
fn traced(program: &str, ranks: u32) -> TrafficTrace {
    let place = own::directory(env!("CARGO_TARGET_TMPDIR"), &format!("{program}-{ranks}"));
    let file = place.join("trace");
    fs::write(&file, TrafficTrace::head(ranks)).unwrap();
    let (code, said, complaints) =
        own::run_with((TrafficTrace::VARIABLE, &file), ranks, &[program]);
    let right = format!("{program}: {ranks} of {ranks} ranks have the right result");
    assert!(code == 0 && said.contains(&right), "{said}{complaints}");
    let trace: TrafficTrace = fs::read_to_string(&file).unwrap().parse().unwrap();
    assert_eq!(trace.missing().count(), 0);
    trace
}

/// The program's own messages: destination, source, messages, bytes.
fn by_program(trace: &TrafficTrace) -> Vec<(u32, u32, u64, u64)> {
    let flows = trace.flows().filter(|(_, _, kind, _)| *kind == TrafficKind::Point);
    flows.map(|(to, from, _, flow)| (to, from, flow.messages, flow.bytes)).collect()
}

/// Table 1 of paper 000 is counted in these traces.
#[test]
fn ip_21_programs_on_64_ranks_trace_what_table_1_counts() {
    for program in ["mg", "cg", "is", "lu", "sp", "bt"] {
        let file = format!("../../reproduce/traces/{program}-64.trace");
        let kept: TrafficTrace = fs::read_to_string(&file).unwrap().parse().unwrap();
        let now = traced(program, 64);
        assert_eq!(by_program(&now), by_program(&kept), "{file}: trace {program} again");
    }
}

#[test]
fn ip_21_a_trace_plans_rings_at_its_size_and_at_others() {
    let ring = 64 << 10;
    let counted = [4, 16].map(|ranks| {
        let trace = traced("cg", ranks);
        let plan = LandingPlan::of(&trace, ring, hikyaku_nic::plan::Budget::Partners).unwrap();
        assert_eq!(plan.estimate(&trace).shared, 0.0);
        (ranks, *trace.partners().iter().max().unwrap())
    });
    // The steps of a butterfly within a row, and the block across the diagonal.
    let growth = Growth::through(&counted);
    assert_eq!((growth.partners(64), growth.partners(4096)), (4, 7));
}

#[test]
fn programs_are_right_on_other_numbers_of_ranks() {
    for (program, ranks) in [("mg", 8), ("is", 5), ("lu", 9), ("sp", 9), ("bt", 4)] {
        traced(program, ranks);
    }
    for program in ["mg", "cg", "is", "lu", "sp", "bt"] {
        traced(program, 1);
    }
    let (code, _, complaints) = own::run(6, &["cg"]);
    assert!(code == 2 && complaints.contains("npb: cg takes 1, 4, 16, 64, ... ranks, not 6"));
    let (code, _, complaints) = own::run(1, &["ft"]);
    assert!(code == 2 && complaints.contains("npb: `ft` is no program"), "{complaints}");
}
