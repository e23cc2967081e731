//! `hikyaku bench --api mpi`: MPI from C as another contestant, with the other libraries' program.

use std::process::Command;

use serde_json::Value;

use crate::support::{HIKYAKU, assert_success, folder};

#[test]
fn mpi_from_c_is_measured_beside_rust() {
    folder();
    let mut command = Command::new(HIKYAKU);
    command.args(["bench", "halo", "-n", "2", "--sizes", "8", "--api", "mpi", "--json"]);
    command.args(["--repetitions", "1", "--block", "1", "--data", "warm"]);
    let output = command.output().unwrap();
    assert_success(&output, "bench");
    let results: Value = serde_json::from_slice(&output.stdout).unwrap();
    let forms = forms(&results, "hikyaku MPI");
    assert_eq!(forms, ["blocking", "isend", "persistent"], "MPI has no buffers of our own");
    let library = results["contestants"][1]["library"].as_str().unwrap();
    assert!(library.starts_with("hikyaku "), "it runs on this library: {library}");
}

/// The forms for which a contestant has times, without the part that tells buffers apart.
fn forms(results: &Value, contestant: &str) -> Vec<String> {
    let figures = results["figures"].as_array().unwrap().iter();
    let series = figures.flat_map(|figure| figure["series"].as_array().unwrap());
    let measured = series.filter(|series| {
        let time = series["value"]["median"].as_f64();
        series["contestant"] == contestant && time.is_some_and(|time| time > 0.0)
    });
    let form = |series: &Value| series["form"].as_str().unwrap().to_owned();
    let mut forms: Vec<String> = measured.map(form).collect();
    forms.sort();
    forms
}
