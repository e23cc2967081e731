//! Programs on two and four hosts come to what they must come to.

use super::hosts;
use super::started::Started;

#[test]
fn programs_on_hosts_are_right() {
    let Some((net, _alone)) = hosts(4) else { return };
    for (count, per_host) in [(2, 2), (4, 2), (4, 1)] {
        for (program, rounds) in [("ring", "5"), ("halo", "20"), ("queue", "3"), ("sums", "10")] {
            let about = format!("{program} on {count} hosts with {per_host} ranks each");
            let words = ["apart", program, rounds];
            let ended = Started::patiently(&net, count, per_host, &words, 60.0).end();
            assert_eq!((ended.code, ended.errors.as_str()), (Some(0), ""), "{about}");
            assert_eq!(ended.lines, ["right"], "{about}");
            net.wait_for_silence(&about);
        }
    }
}
