//! A process dies, or a host freezes or is cut off, while all ranks wait: ranks that wait for a
//! gone rank are told which one, and the launcher reports the host.

use std::time::Duration;

use hikyaku_jobs::net::{NETWORK, Net, address, now};

use super::hosts;
use super::started::{Ended, HOST_TIMEOUT, Started};

/// Ranks on each of two hosts.
const RANKS: u32 = 2;

/// The fault.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    RankKilled,
    DaemonKilled,
    CableCut,
    HostFrozen,
    HostKilled,
}

impl Fault {
    /// Time limit until ranks are told, seconds.
    fn limit(self) -> f64 {
        if self.is_silent() { HOST_TIMEOUT + 1.0 } else { 1.0 }
    }

    /// Whether only silence reveals it.
    fn is_silent(self) -> bool {
        matches!(self, Fault::CableCut | Fault::HostFrozen | Fault::HostKilled)
    }

    /// The ranks that are lost by it.
    fn gone(self) -> &'static [u32] {
        if self == Fault::RankKilled { &[3] } else { &[2, 3] }
    }

    fn happen(self, net: &mut Net, job: &mut Started) {
        match self {
            Fault::RankKilled => job.rank(net, 3).unwrap().kill(),
            Fault::DaemonKilled => job.daemon(net, 1).unwrap().kill(),
            Fault::CableCut => net.set_cable(1, false),
            Fault::HostFrozen => net.set_frozen(1, true),
            Fault::HostKilled => net.kill(1),
        }
    }

    /// Undoes it, if possible.
    fn mend(self, net: &Net) {
        match self {
            Fault::CableCut => net.set_cable(1, true),
            Fault::HostFrozen => net.set_frozen(1, false),
            _ => {}
        }
    }
}

#[test]
fn whoever_waits_is_told_and_nothing_is_left() {
    let Some((mut net, _alone)) = hosts(2) else { return };
    use Fault::{CableCut, DaemonKilled, HostFrozen, HostKilled, RankKilled};
    // The last fault destroys the host.
    for fault in [RankKilled, DaemonKilled, CableCut, HostFrozen, HostKilled] {
        happens(fault, &mut net, None);
    }
}

/// Daemons with connections of their own learn the same as through their agents.
#[test]
fn whoever_waits_is_told_by_daemons_that_connect() {
    let Some((mut net, _alone)) = hosts(2) else { return };
    for fault in [Fault::DaemonKilled, Fault::CableCut, Fault::HostFrozen, Fault::HostKilled] {
        happens(fault, &mut net, Some(NETWORK));
    }
}

fn happens(fault: Fault, net: &mut Net, network: Option<&str>) {
    let victim = fault.gone()[0];
    let words = ["wait-for", &victim.to_string()];
    let mut job = Started::connected(net, network, fault.is_silent(), (2, RANKS), &words);
    job.all_wait(2 * RANKS);
    let at = now();
    fault.happen(net, &mut job);
    let ended = job.end();
    check(fault, at, &ended);
    if fault == Fault::CableCut {
        // Processes that are cut off end by themselves.
        net.wait_for_silence(&format!("{fault:?}, cut off"));
    }
    fault.mend(net);
    net.wait_for_silence(&format!("{fault:?}"));
}

fn check(fault: Fault, at: Duration, ended: &Ended) {
    let gone = fault.gone();
    println!("{fault:?}");
    let told = ended.told(at, (gone, &address(1)), fault.limit());
    let expected: Vec<u32> = (0..2 * RANKS).filter(|rank| !gone.contains(rank)).collect();
    assert_eq!(told, expected, "{fault:?}: {ended:?}");
    let lines: Vec<&str> =
        ended.errors.lines().filter(|line| line.starts_with("launch: ")).collect();
    println!("{fault:?}: {lines:?}");
    let [line] = lines[..] else { panic!("{fault:?}: {}", ended.errors) };
    assert!(line.contains(&address(1)), "{fault:?}: {line}");
    let (code, words) = match fault {
        Fault::RankKilled => (137, "rank 3 (pid "),
        _ => (1, "its ranks were 2 to 3"),
    };
    assert_eq!(ended.code, Some(code), "{fault:?}: {line}");
    assert!(line.contains(words), "{fault:?}: {line}");
}

#[test]
fn a_killed_launcher_takes_its_job_with_it() {
    let Some((net, _alone)) = hosts(2) else { return };
    for network in [None, Some(NETWORK)] {
        let mut job = Started::connected(&net, network, false, (2, RANKS), &["wait-for", "3"]);
        job.all_wait(2 * RANKS);
        job.launcher(&net).unwrap().kill();
        let ended = job.end();
        assert_eq!(ended.code, None, "{}", ended.errors);
        net.wait_for_silence("killed launcher");
    }
}
