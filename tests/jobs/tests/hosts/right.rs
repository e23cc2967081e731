//! Programs on two and four hosts give the expected results.

use hikyaku_jobs::net::{NETWORK, address};

use super::hosts;
use super::started::Started;

#[test]
fn programs_on_hosts_are_right() {
    let Some((net, _alone)) = hosts(4) else { return };
    for (count, per_host) in [(2, 2), (4, 2), (4, 1)] {
        for (program, rounds) in [("ring", "5"), ("halo", "20"), ("queue", "3"), ("sums", "10")] {
            let about = format!("{program} on {count} hosts with {per_host} ranks each");
            let ended = Started::new(&net, count, per_host, &["apart", program, rounds]).end();
            assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "{about}");
            assert_eq!(ended.lines, ["right"], "{about}");
            net.wait_for_silence(&about);
        }
    }
}

/// Over the network that hosts share; and over their loopbacks, which are separate: a daemon that
/// cannot connect there continues through its agent.
#[test]
fn daemons_that_connect_change_nothing() {
    let Some((net, _alone)) = hosts(2) else { return };
    let said = format!("hikyaku: host {}: cannot connect to 127.0.0.1:", address(1));
    for (network, lines) in [(NETWORK, 0), ("eth0", 0), ("lo", 1)] {
        let words = ["apart", "halo", "20"];
        let ended = Started::connected(&net, Some(network), false, (2, 2), &words).end();
        assert_eq!(
            (ended.code, &ended.lines[..]),
            (Some(0), &["right".to_owned()][..]),
            "{ended:?}"
        );
        let errors: Vec<&str> = ended.errors.lines().collect();
        assert_eq!(errors.len(), lines, "{network}: {errors:?}");
        assert!(errors.iter().all(|line| line.starts_with(&said)), "{network}: {errors:?}");
        assert!(errors.iter().all(|line| line.contains("refused") && line.ends_with("reach")));
        net.wait_for_silence(network);
    }
}

/// The hosts' clocks are days apart.
#[test]
fn cp_16_behind_a_barrier_each_host_measures_by_its_own_clock() {
    let Some((net, _alone)) = hosts(3) else { return };
    let ended = Started::new(&net, 3, 2, &["apart", "clocks", "5"]).end();
    assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""));
    assert_eq!(ended.lines, ["right"]);
}
