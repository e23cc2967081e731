//! The nodes of a Slurm allocation, parsed from the environment variables of its jobs (sbatch(1),
//! "output environment variables"). Pure.

use super::list::{HostEntry, HostsError};

/// Maximum nodes of an allocation: a list of a few bytes may name very many.
const MOST_NODES: usize = 1 << 16;

impl HostEntry {
    /// The hosts of an allocation. `nodes`: SLURM_JOB_NODELIST, such as `n[1-3,07],gpu5`. `each`:
    /// SLURM_TASKS_PER_NODE or SLURM_JOB_CPUS_PER_NODE, such as `4(x3),8,2`: the number of ranks on
    /// each host, in that order.
    ///
    /// # Errors
    /// One of them is not such a list, or their lengths differ.
    pub fn of_slurm(nodes: &str, each: &str) -> Result<Vec<HostEntry>, HostsError> {
        let wrong = |text: &str| HostsError::Allocation(text.to_owned());
        let names = expand(nodes).filter(|names| !names.is_empty()).ok_or_else(|| wrong(nodes))?;
        let slots = counts(each).filter(|slots| slots.len() == names.len());
        let slots = slots.ok_or_else(|| wrong(each))?;
        let entries = names.into_iter().zip(slots).map(|(name, slots)| {
            let entry = HostEntry::list(&name)?.pop().ok_or_else(|| wrong(nodes))?;
            Ok(HostEntry { slots: Some(slots), ..entry })
        });
        entries.collect()
    }
}

/// Expands a list with ranges in brackets.
fn expand(nodes: &str) -> Option<Vec<String>> {
    let (mut names, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, letter) in nodes.char_indices().chain([(nodes.len(), ',')]) {
        match letter {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                names.extend(expand_one(&nodes[start..at])?);
                start = at + 1;
            }
            _ => {}
        }
        if !(0..=1).contains(&depth) || names.len() > MOST_NODES {
            return None;
        }
    }
    (depth == 0).then_some(names)
}

/// Expands one entry of the list. Each pair of brackets in it holds numbers and ranges.
fn expand_one(entry: &str) -> Option<Vec<String>> {
    let Some((before, rest)) = entry.split_once('[') else { return Some(vec![entry.to_owned()]) };
    let (ranges, after) = rest.split_once(']')?;
    let ends = expand_one(after)?;
    let mut names = Vec::new();
    for range in ranges.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let width = low.len();
        let numbers = low.parse::<u64>().ok()?..=high.parse().ok()?;
        let fit = numbers.end().checked_sub(*numbers.start())? < MOST_NODES as u64;
        for number in Some(numbers).filter(|_| fit)? {
            names.extend(ends.iter().map(|end| format!("{before}{number:0width$}{end}")));
            if names.len() > MOST_NODES {
                return None;
            }
        }
    }
    Some(names)
}

/// Expands a list of numbers with repeats: `4(x3),8`.
fn counts(each: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for entry in each.split(',') {
        let (number, times) = match entry.split_once("(x") {
            Some((number, times)) => (number, times.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1),
        };
        let number = number.parse().ok().filter(|number| *number > 0)?;
        if all.len().checked_add(times)? > MOST_NODES {
            return None;
        }
        all.resize(all.len() + times, number);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn allocations_name_hosts_and_ranks() {
        for (nodes, each, expected) in [
            ("a", "4", "a:4"),
            ("n[1-3,07],gpu5", "4(x3),8,2", "n1:4 n2:4 n3:4 n07:8 gpu5:2"),
            ("n[08-11]", "1(x4)", "n08:1 n09:1 n10:1 n11:1"),
            ("r[1-2]n[1-2]-ib,x", "2(x4),1", "r1n1-ib:2 r1n2-ib:2 r2n1-ib:2 r2n2-ib:2 x:1"),
        ] {
            let entries = HostEntry::of_slurm(nodes, each).unwrap();
            let told = entries.iter().map(|it| format!("{}:{}", it.name, it.slots.unwrap()));
            assert_eq!(told.collect::<Vec<_>>().join(" "), expected, "{nodes} {each}");
        }
    }

    #[test]
    fn what_is_no_allocation_is_refused() {
        for (nodes, each) in [
            ("", "1"),
            ("n[1-2", "1(x2)"),
            ("n1-2]", "1"),
            ("n[[1]]", "1"),
            ("n[2-1]", "1"),
            ("n[a-b]", "1(x2)"),
            ("n[1-99999999999]", "1"),
            ("n[1-300]m[1-300]", "1"),
            ("-oProxyCommand=x", "1"),
            ("a,b", "1"),
            ("a", "0"),
            ("a", "2(x1"),
            ("a", "2(x99999999999999999999)"),
            ("a", "many"),
        ] {
            assert!(HostEntry::of_slurm(nodes, each).is_err(), "{nodes} {each}");
        }
    }
}
