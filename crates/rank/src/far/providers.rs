//! The conformance rules of a fabric between hosts with each installed provider, and with those of
//! the releases in `HIKYAKU_TEST_LIBFABRICS`: runs this program's conformance tests again, in a
//! separate process for each, because a process has one libfabric and one `HIKYAKU_FABRIC`.

#![allow(clippy::unwrap_used)]

use std::env;
use std::io::{Write, stderr};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, ExitStatus};

use hikyaku_ofi::{Endpoint, ProviderRequest, Survey, VARIABLE, choose};

use super::LAYOUT;

/// Folders with a `libfabric.so.1` each, separated by `:`.
const OTHERS: &str = "HIKYAKU_TEST_LIBFABRICS";

/// Requests the answer of the test [`offered`].
const ASKED: &str = "HIKYAKU_TEST_OFFERED";

/// Providers to test that are tested only on request, separated by `,`.
const REQUESTED: &str = "HIKYAKU_TEST_PROVIDERS";

/// These providers, with the reasons.
const ON_REQUEST: [(&str, &str); 2] = [
    ("udp;ofi_rxd", "on a busy machine 1.17 hands over messages with the length of others"),
    (
        "sockets",
        "libfabric deprecates it, and its threads never sleep: ten minutes on a slow machine",
    ),
];

/// The time limit of tests with a provider, in seconds. One whose threads never sleep takes a
/// minute alone.
const LIMIT: &str = "600";

/// Lets providers choose keys, like those of devices.
const AS_DEVICES: &str = "HIKYAKU_TEST_AS_DEVICES";

/// Changes libfabric's offers as [`AS_DEVICES`] requests.
pub(super) fn register_as_asked(survey: &mut Survey) {
    if goes_as_device() {
        survey.register_as_devices();
    }
}

/// Whether providers choose keys, like those of devices.
pub(super) fn goes_as_device() -> bool {
    env::var_os(AS_DEVICES).is_some()
}

/// Runs tests of this program with a provider of a release. Returns how it ended, and the output.
fn run(provider: &str, release: Option<&Path>, words: &[&str]) -> (ExitStatus, String) {
    let mut command = this_program(words);
    command.env(VARIABLE, provider).env(ASKED, "1");
    if let Some(folder) = release {
        command.env("LD_LIBRARY_PATH", folder);
    }
    output(&mut command)
}

fn this_program(words: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["--foreground", LIMIT]).arg(env::current_exe().unwrap()).args(words);
    command.args(["--nocapture", "--test-threads=2"]).env_remove("HIKYAKU_LONG");
    command
}

fn output(command: &mut Command) -> (ExitStatus, String) {
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status, String::from_utf8_lossy(&said).into_owned())
}

/// Prints the release, and whether the provider can be opened or why not.
#[test]
fn offered() {
    if env::var_os(ASKED).is_none() {
        return;
    }
    let request = ProviderRequest::parse(&env::var(VARIABLE).unwrap()).unwrap();
    let request = ProviderRequest { one_host: true, ..request };
    let opened = Survey::take().and_then(|survey| {
        let (major, minor) = survey.version();
        println!("\n= libfabric {major}.{minor}");
        let offer = choose(survey.offers(), &request).offer(survey.offers(), &request)?;
        Endpoint::open(&survey, offer, 2, LAYOUT.buffer_bytes())
    });
    println!("= {}", opened.err().map_or("open".to_owned(), |error| error.to_string()));
}

/// Not by a macro, whose output the harness captures: the reader of a long run shall see what was
/// not tested.
fn say(line: &str) {
    let _ = writeln!(stderr(), "{line}");
}

/// Whether this process uses the provider, so that its own conformance tests are those with it.
fn is_default(provider: &str) -> bool {
    let asked = env::var(VARIABLE).ok().map(|value| ProviderRequest::parse(&value).unwrap());
    let request = ProviderRequest { one_host: true, ..asked.unwrap_or_default() };
    let offer = |survey: Survey| {
        let best = choose(survey.offers(), &request).best?;
        Some(survey.offers()[best].provider.clone())
    };
    Survey::take().ok().and_then(offer).is_some_and(|name| name == provider)
}

/// All conformance tests with a provider, for each release.
fn conforms(provider: &str) {
    if env::var_os("HIKYAKU_LONG").is_none() {
        println!("skipped: {provider}: takes up to a minute; HIKYAKU_LONG=1 runs it");
        return;
    }
    let requested = env::var(REQUESTED).unwrap_or_default();
    if let Some((_, why)) = ON_REQUEST.iter().find(|(name, _)| *name == provider)
        && !requested.split(',').any(|name| name == provider)
    {
        say(&format!("skipped: {provider}: {why}; {REQUESTED}='{provider}' runs it"));
        return;
    }
    let others = env::var_os(OTHERS).unwrap_or_default();
    let others = env::split_paths(&others).filter(|folder| !folder.as_os_str().is_empty());
    for release in [None].into_iter().chain(others.map(Some)) {
        let release = release.as_deref();
        let (_, said) = run(provider, release, &["--exact", "far::providers::offered"]);
        let said: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("= ")).collect();
        if said.last() != Some(&"open") {
            say(&format!("skipped: {provider}: {}", said.join(": ")));
            continue;
        }
        if release.is_none() && is_default(provider) {
            say(&format!("{provider} of {}: the default, tested by far::conformance", said[0]));
            continue;
        }
        // A known fault, which does not affect ranks, because they are processes.
        if provider == "shm" && said[0].starts_with("libfabric 2") {
            say(&format!("skipped: shm of {}: crashes on 4 KiB within one process", said[0]));
            continue;
        }
        let all = || run(provider, release, &["far::conformance", "--skip", "layers"]);
        let (mut status, mut told) = all();
        // The provider's own fault within one process, beside other tests: no test fails, a signal
        // ends the process. Twice in succession is another fault.
        if provider == "shm"
            && let Some(signal) = status.signal()
        {
            say(&format!("shm of {}: ended by signal {signal}, once more", said[0]));
            (status, told) = all();
        }
        assert!(status.success(), "{provider} of {}, in {LIMIT} s at most: {told}", said[0]);
        say(&format!("{provider} of {}: passed", said[0]));
    }
}

/// With a provider that chooses keys and uses addresses, like those of devices.
#[test]
fn as_devices() {
    let words = ["--exact", "far::conformance::lent_memory_is_fetched_whole"];
    let too = "far::conformance::a_send_dropped_while_it_is_fetched_arrives_whole";
    let (status, said) = output(this_program(&words).arg(too).env(AS_DEVICES, "1"));
    assert!(status.success() && said.contains("2 passed"), "{said}");
}

#[test]
fn net() {
    conforms("net");
}

#[test]
fn tcp() {
    conforms("tcp");
}

#[test]
fn net_with_rxm() {
    conforms("net;ofi_rxm");
}

#[test]
fn tcp_with_rxm() {
    conforms("tcp;ofi_rxm");
}

#[test]
fn udp_with_rxd() {
    conforms("udp;ofi_rxd");
}

#[test]
fn shm() {
    conforms("shm");
}

#[test]
fn sockets() {
    conforms("sockets");
}

#[test]
fn hardware() {
    for provider in ["verbs;ofi_rxm", "efa", "cxi", "psm2", "psm3", "opx"] {
        conforms(provider);
    }
}
