//! A faulty cable does not change results, with each provider on sockets.
//!
//! HIKYAKU_CABLE_SEED: selects the frames that are lost, doubled, changed or late.

use std::path::Path;

use hikyaku_jobs::net::Net;
use hikyaku_jobs::number;
use hikyaku_ofi::{ProviderRequest, Survey, VARIABLE, choose};

use super::hosts_by;
use super::others::mpich;
use super::started::{LIMIT, Started};

/// Providers of the installed libfabric. A release may lack some of them.
const PROVIDERS: [&str; 4] = ["net", "tcp", "tcp;ofi_rxm", "udp;ofi_rxd"];

/// Providers of the release that comes with MPICH.
const PROVIDERS_OF_MPICH: [&str; 2] = ["tcp", "udp;ofi_rxd"];

/// Jobs of mixed traffic with each.
const TRAFFIC: u64 = 2;

#[test]
fn a_bad_cable_changes_no_byte() {
    let seed = number("HIKYAKU_CABLE_SEED").unwrap_or(1);
    let mpich = mpich();
    let bad = |reach: &str| Net::on_bad_cable(reach, env!("CARGO_BIN_EXE_cable"), seed);
    let Some((mut net, _alone)) = hosts_by(bad) else { return };
    let survey = Survey::take().unwrap();
    for provider in PROVIDERS {
        let request = ProviderRequest::parse(provider).unwrap();
        match choose(survey.offers(), &request).offer(survey.offers(), &request) {
            Ok(_) => run(&net, provider, None, seed),
            Err(error) => println!("skipped: {provider}: {error}"),
        }
    }
    if let Some(folder) = mpich.map(|folder| folder.join("lib/mpich")) {
        PROVIDERS_OF_MPICH.iter().for_each(|it| run(&net, it, Some(&folder), seed));
    }
    let happened = net.take_cable();
    println!("HIKYAKU_CABLE_SEED={seed}: {happened}");
    let counts: Vec<u64> = happened.split([' ', ',']).flat_map(str::parse).collect();
    assert!(counts.len() == 5 && !counts.contains(&0), "{happened}");
}

/// Programs that check all their results.
fn run(net: &Net, provider: &str, release: Option<&Path>, seed: u64) {
    let mut variables = vec![(VARIABLE, provider.to_owned())];
    variables.extend(release.map(|folder| ("LD_LIBRARY_PATH", folder.display().to_string())));
    let start = |words: &[&str]| {
        let about = format!("{words:?} by {provider} of {release:?}, HIKYAKU_CABLE_SEED={seed}");
        let ended = Started::with((LIMIT, &variables), net, (2, 2), words).end();
        assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "{about}");
        net.wait_for_silence(&about);
        (ended.lines, about)
    };
    for (program, rounds) in [("ring", "5"), ("halo", "20"), ("queue", "3"), ("sums", "5")] {
        let (lines, about) = start(&["apart", program, rounds]);
        assert_eq!(lines, ["right"], "{about}");
    }
    // Messages of two peers at once complete in another order than they began.
    // On a busy machine udp;ofi_rxd repeats so much that they take minutes.
    let jobs = if provider == "udp;ofi_rxd" { 0 } else { TRAFFIC };
    for seed in 1..=jobs {
        let (lines, about) = start(&["traffic", "2", &seed.to_string()]);
        assert!(lines.len() == 1 && lines[0].contains(" rounds, "), "{about}: {lines:?}");
    }
}
