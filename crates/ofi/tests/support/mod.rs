//! What is installed, and what tests on it share.

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use hikyaku_ofi::{Error, Survey};

/// How long a test waits for what takes microseconds.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);

/// What is installed, or a line on what is not.
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

/// One usable offer of each provider: that with the most local address. Not `sockets`, whose thread
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

/// Processor time of this thread, by its own clock.
pub(crate) fn processor_time() -> Duration {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(text.split(' ').next().unwrap().parse().unwrap())
}
