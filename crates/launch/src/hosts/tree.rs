//! The tree of daemons: which process starts which daemon. Pure.
//!
//! ```text
//!   launcher ─┬─ host 0 ─┬─ host 1        up to 16 hosts: all by the launcher;
//!             │          └─ host 2        more: each by the first of its part
//!             └─ host 3 ─── host 4
//! ```
//!
//! Parts are ranges, so a frame for a host goes to the part that contains it.

use std::ops::Range;

/// Maximum number of daemons that one process starts; one more on either side of the launcher's
/// own host.
pub(super) const MOST_CHILDREN: u32 = 16;

/// Splits a range of hosts into parts; the first host of each part is started. A host that `is_own`
/// is a part by itself: other hosts cannot reach it by its name.
pub(super) fn parts(hosts: Range<u32>, is_own: impl Fn(u32) -> bool) -> Vec<Range<u32>> {
    parts_by(MOST_CHILDREN, hosts, &is_own)
}

/// [`parts`] with another number of children.
pub(super) fn parts_by(
    most: u32,
    hosts: Range<u32>,
    is_own: &dyn Fn(u32) -> bool,
) -> Vec<Range<u32>> {
    let own = hosts.clone().find(|host| is_own(*host));
    let Some(own) = own else { return equal_parts(hosts, most) };
    let before = hosts.start..own;
    let mut all = equal_parts(before, most / 2);
    all.push(own..own + 1);
    all.extend(parts_by(most, own + 1..hosts.end, is_own));
    all
}

/// At most `most` parts of about the same length.
fn equal_parts(hosts: Range<u32>, most: u32) -> Vec<Range<u32>> {
    let length = hosts.end.saturating_sub(hosts.start);
    let count = length.min(most);
    let at =
        |part: u32| hosts.start + (u64::from(length) * u64::from(part) / u64::from(count)) as u32;
    (0..count).map(|part| at(part)..at(part + 1)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_is_in_one_part() {
        for length in [0_u32, 1, 2, 16, 17, 33, 64, 1000] {
            for own in [None, Some(0), Some(length / 2), Some(length.saturating_sub(1))] {
                let all = parts(0..length, |host| Some(host) == own);
                let hosts: Vec<u32> = all.iter().cloned().flatten().collect();
                assert_eq!(hosts, (0..length).collect::<Vec<_>>());
                assert!(all.iter().all(|part| !part.is_empty()));
                assert!(all.len() as u32 <= MOST_CHILDREN + MOST_CHILDREN / 2 + 1);
                let alone = own.is_none_or(|own| length == 0 || all.contains(&(own..own + 1)));
                assert!(alone, "{all:?}");
            }
        }
    }

    #[test]
    fn few_hosts_are_all_started_by_the_launcher() {
        assert_eq!(parts(0..3, |_| false), [0..1, 1..2, 2..3]);
        let deep = parts(0..64, |_| false);
        assert_eq!((deep.len(), deep[1].clone()), (16, 4..8));
    }
}
