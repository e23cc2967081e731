//! The installed libfabric, and functions that the tests share.

use std::collections::BTreeMap;
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

use hikyaku_ofi::{Error, Survey};

/// Folders, separated by `:`, each with a `libfabric.so.1` to run these tests with as well.
const OTHERS: &str = "HIKYAKU_TEST_LIBFABRICS";

/// Time limit of a test for events that take microseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// The installed offers; or prints why there are none.
pub(crate) fn survey() -> Option<Survey> {
    match Survey::take() {
        Ok(survey) => Some(survey),
        Err(error @ Error::NotInstalled { .. }) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// One usable offer of each provider, that with the most local address. Not `sockets`, whose thread
/// starves beside others that poll and takes 10 ms for what takes 10 us.
pub(crate) fn usable(survey: &Survey) -> BTreeMap<String, usize> {
    let mut found = BTreeMap::new();
    let offers = survey.offers().iter().enumerate();
    for (at, offer) in offers.filter(|(_, offer)| offer.fits && offer.provider != "sockets") {
        let local = offer.address.is_some_and(|address| address.is_loopback());
        if local || !found.contains_key(&offer.provider) {
            found.insert(offer.provider.clone(), at);
        }
    }
    found
}

/// Processor time of this thread, by the kernel's accounting.
pub(crate) fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}

/// Runs all tests of this program with each other release that the environment names.
pub(crate) fn with_other_releases() {
    let Some(folders) = env::var_os(OTHERS) else {
        eprintln!("skipped: {OTHERS} names no folder with another libfabric.so.1");
        return;
    };
    for folder in env::split_paths(&folders) {
        let output = Command::new(env::current_exe().unwrap())
            .args(["--nocapture", "--skip", "other_releases", "--test-threads", "1"])
            .env_remove(OTHERS)
            .env("LD_LIBRARY_PATH", &folder)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{}: {said}{complaints}", folder.display());
        assert!(!complaints.contains("cannot be opened"), "{}: {complaints}", folder.display());
    }
}
