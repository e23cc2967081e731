//! The hosts of a job as a user names them, and the number of ranks on each.

use std::{env, ffi::OsString, time::Duration};

use thiserror::Error;

use super::network::DaemonNetwork;

/// How long a host may be silent by default.
pub const HOST_TIMEOUT: Duration = Duration::from_secs(5);

/// The hosts on which the ranks of a job run.
#[derive(Debug, Clone)]
pub struct OnHosts {
    /// Hosts, and the number of ranks on each. Ranks are numbered in this order.
    pub places: Vec<(String, u32)>,
    /// The command that reaches a host. The host's name and a command line are appended.
    pub agent: Vec<OsString>,
    /// The command that starts a daemon on every host: see [`daemon()`](super::daemon()).
    pub daemon: Vec<OsString>,
    /// How long a host may be silent before its ranks count as dead.
    pub timeout: Duration,
    /// The network over which daemons connect. `None`: frames go through the agent.
    pub network: Option<DaemonNetwork>,
}

impl OnHosts {
    /// Uses `ssh`, and daemons that are this program with the argument `daemon`.
    pub fn new(places: Vec<(String, u32)>) -> OnHosts {
        let this = env::current_exe().unwrap_or_else(|_| "hikyaku".into());
        OnHosts {
            places,
            agent: ["ssh", "-x", "-o", "BatchMode=yes"].map(OsString::from).into(),
            daemon: vec![this.into(), "daemon".into()],
            timeout: HOST_TIMEOUT,
            network: None,
        }
    }
}

/// A host, and the number of ranks it takes if that was given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEntry {
    /// The name by which the agent reaches it.
    pub name: String,
    /// The number of ranks it takes.
    pub slots: Option<u32>,
}

/// Why a list of hosts is invalid or does not fit the ranks.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum HostsError {
    /// The name is empty or would be taken for an option.
    #[error("`{0}` is no name of a host")]
    Name(String),
    /// The number of ranks is not valid.
    #[error("host {name} cannot have `{number}` ranks: write a number of 1 or more")]
    Slots {
        /// The host.
        name: String,
        /// The text that was given.
        number: String,
    },
    /// The text is not an address, a network or an interface.
    #[error(
        "`{0}` is no network: write one such as 10.1.0.0/16, an address or an interface \
             such as ib0"
    )]
    Network(String),
    /// Slurm's description of an allocation has an unknown form.
    #[error("`{0}` is no list of an allocation of Slurm: name hosts by --hosts")]
    Allocation(String),
    /// No host was named.
    #[error("no host is named")]
    Empty,
    /// There are more ranks than places.
    #[error("{ranks} ranks do not fit on hosts with {places} places: name more, such as {example}")]
    TooFew {
        /// The number of ranks asked for.
        ranks: u32,
        /// The number of places.
        places: u64,
        /// An example with enough places.
        example: String,
    },
}

impl HostEntry {
    /// Parses hosts separated by commas: `a:4,b`.
    ///
    /// # Errors
    /// An entry is not a host.
    pub fn list(text: &str) -> Result<Vec<HostEntry>, HostsError> {
        let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
        names.map(HostEntry::parse).collect()
    }

    /// Parses one host per line, as `host`, `host:4` or `host slots=4`; `#` begins a comment. Other
    /// words are ignored: they have a meaning for other launchers.
    ///
    /// # Errors
    /// An entry is not a host.
    pub fn file(text: &str) -> Result<Vec<HostEntry>, HostsError> {
        let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
        let mut entries = Vec::new();
        for line in lines {
            let mut words = line.split_whitespace();
            let Some(name) = words.next() else { continue };
            let mut entry = HostEntry::parse(name)?;
            // `slots = 4` would otherwise be read as no number.
            for word in words.filter(|word| word.starts_with("slots")) {
                let number = word.strip_prefix("slots=").unwrap_or(word);
                entry.slots = Some(slots(&entry.name, number)?);
            }
            entries.push(entry);
        }
        Ok(entries)
    }

    fn parse(text: &str) -> Result<HostEntry, HostsError> {
        // In an IPv6 address, a number follows the last colon only if the address is in brackets.
        let (name, number) = match text.rsplit_once(':') {
            Some((name, number)) if !name.contains(':') || name.ends_with(']') => {
                (name, Some(number))
            }
            _ => (text, None),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        if name.is_empty() || name.starts_with('-') || name.contains(char::is_control) {
            return Err(HostsError::Name(text.to_owned()));
        }
        let slots = number.map(|number| slots(&name, number)).transpose()?;
        Ok(HostEntry { name, slots })
    }
}

fn slots(name: &str, number: &str) -> Result<u32, HostsError> {
    let wrong = || HostsError::Slots { name: name.to_owned(), number: number.to_owned() };
    number.parse().ok().filter(|&slots| slots > 0).ok_or_else(wrong)
}

/// The number of ranks on each host, for `ranks` ranks or as many as fit; at most `most` each if
/// given. The ranks of a host are consecutive. A host that is named again gets more of them.
///
/// Hosts with a given number of slots are filled in order. If none has one, all get about the same.
///
/// # Errors
/// There is no host, or there are too few places.
pub fn assign(
    entries: &[HostEntry],
    ranks: Option<u32>,
    most: Option<u32>,
) -> Result<Vec<(String, u32)>, HostsError> {
    let mut hosts: Vec<(String, u64)> = Vec::new();
    for entry in entries {
        let slots = u64::from(most.or(entry.slots).unwrap_or(1));
        match hosts.iter_mut().find(|(name, _)| *name == entry.name) {
            // With a limit per host, naming a host again adds nothing.
            Some((_, places)) => *places += if most.is_some() { 0 } else { slots },
            None => hosts.push((entry.name.clone(), slots)),
        }
    }
    if hosts.is_empty() {
        return Err(HostsError::Empty);
    }
    let places: u64 = hosts.iter().map(|(_, slots)| slots).sum();
    let ranks = ranks.unwrap_or_else(|| u32::try_from(places).unwrap_or(u32::MAX));
    if most.is_none() && entries.iter().all(|entry| entry.slots.is_none()) {
        let count = hosts.len() as u64;
        let share = |host: u64| (u64::from(ranks) + count - 1 - host) / count;
        (0..).zip(&mut hosts).for_each(|(host, (_, slots))| *slots = share(host));
    } else if u64::from(ranks) > places {
        let example = format!("{}:{}", hosts[0].0, hosts[0].1 + u64::from(ranks) - places);
        return Err(HostsError::TooFew { ranks, places, example });
    }
    let mut left = ranks;
    let taken = hosts.into_iter().map(|(name, slots)| {
        let count = left.min(u32::try_from(slots).unwrap_or(u32::MAX));
        left -= count;
        (name, count)
    });
    Ok(taken.filter(|(_, count)| *count > 0).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn assigned(list: &str, ranks: Option<u32>, most: Option<u32>) -> String {
        match assign(&HostEntry::list(list).unwrap(), ranks, most) {
            Ok(hosts) => {
                let words: Vec<_> = hosts.iter().map(|(name, n)| format!("{name}:{n}")).collect();
                words.join(",")
            }
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn ranks_fill_hosts_in_order() {
        for (list, ranks, most, expected) in [
            ("a:4,b:4", None, None, "a:4,b:4"),
            ("a:4,b:4", Some(6), None, "a:4,b:2"),
            ("a:4,b:4", Some(2), None, "a:2"),
            ("a,b", None, None, "a:1,b:1"),
            ("a,b,c", Some(8), None, "a:3,b:3,c:2"),
            ("a,b,c", Some(2), None, "a:1,b:1"),
            ("a:2,b,a:3", None, None, "a:5,b:1"),
            ("a,b", Some(5), Some(3), "a:3,b:2"),
            ("a:9,b:9", None, Some(2), "a:2,b:2"),
            (" a , b:2,", None, None, "a:1,b:2"),
            ("", None, None, "no host is named"),
            (
                "a:4,b:4",
                Some(9),
                None,
                "9 ranks do not fit on hosts with 8 places: name more, such as a:5",
            ),
        ] {
            assert_eq!(assigned(list, ranks, most), expected, "{list} {ranks:?} {most:?}");
        }
    }

    #[test]
    fn files_have_the_usual_forms() {
        let text = "# ours\na\nb:3\n\nc slots=4 max-slots=9 # far\n[::1]:2\n10.0.0.1\nfe80::2\n";
        let entries = HostEntry::file(text).unwrap();
        let told: Vec<_> = entries.iter().map(|it| (it.name.as_str(), it.slots)).collect();
        let expected = [
            ("a", None),
            ("b", Some(3)),
            ("c", Some(4)),
            ("::1", Some(2)),
            ("10.0.0.1", None),
            ("fe80::2", None),
        ];
        assert_eq!(told, expected);
        assert!(HostEntry::file("a slots=many").is_err());
        assert!(HostEntry::file("a slots = 4").is_err());
    }

    #[test]
    fn names_that_an_agent_would_misread_are_refused() {
        for bad in ["-oProxyCommand=x", ":4", "a:0", "a:b", "a:-1"] {
            assert!(HostEntry::list(bad).is_err(), "{bad}");
        }
    }
}
