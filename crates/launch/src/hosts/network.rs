//! The network over which daemons connect to each other, as a user names it.

use std::{fmt, net::IpAddr, str::FromStr};

use if_addrs::get_if_addrs;

use super::list::HostsError;

/// The longest name of an interface (`IFNAMSIZ` without the terminating zero).
const MOST_LETTERS: usize = 15;

/// A network, such as `10.1.0.0/16`, one address, or an interface, such as `ib0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DaemonNetwork(Named);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Named {
    /// Addresses that share this many leading bits with this one.
    Addresses(IpAddr, u8),
    Interface(String),
}

impl FromStr for DaemonNetwork {
    type Err = HostsError;

    fn from_str(text: &str) -> Result<DaemonNetwork, HostsError> {
        let wrong = || HostsError::Network(text.to_owned());
        let (name, bits) = match text.split_once('/') {
            Some((name, bits)) => (name, Some(bits.parse::<u8>().map_err(|_| wrong())?)),
            None => (text, None),
        };
        let named = match (name.parse::<IpAddr>(), bits) {
            (Ok(address), bits) => {
                let most = if address.is_ipv4() { 32 } else { 128 };
                let bits = bits.unwrap_or(most);
                (bits <= most).then_some(Named::Addresses(address, bits))
            }
            (Err(_), None) => {
                let is_name = (1..=MOST_LETTERS).contains(&name.len())
                    && !name.contains(|letter: char| letter.is_whitespace());
                is_name.then(|| Named::Interface(name.to_owned()))
            }
            (Err(_), Some(_)) => None,
        };
        named.map(DaemonNetwork).ok_or_else(wrong)
    }
}

/// Formats a network in the form that [`FromStr`] reads.
impl fmt::Display for DaemonNetwork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Named::Addresses(address, bits) => write!(f, "{address}/{bits}"),
            Named::Interface(name) => f.write_str(name),
        }
    }
}

impl DaemonNetwork {
    /// An address of this host in the network. Loopback and IPv6 addresses are used only if there
    /// is no other. Link-local addresses are never used: they need more than their bytes to be
    /// reached.
    pub(super) fn own_address(&self) -> Option<IpAddr> {
        let all = get_if_addrs().unwrap_or_default();
        self.choose(all.into_iter().map(|it| (it.ip(), it.name)))
    }

    fn choose(&self, all: impl IntoIterator<Item = (IpAddr, String)>) -> Option<IpAddr> {
        let of_link = |ip: IpAddr| matches!(ip, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let all = all.into_iter().filter(|(ip, name)| self.contains(*ip, name) && !of_link(*ip));
        all.map(|(ip, _)| ip).min_by_key(|ip| (ip.is_loopback(), ip.is_ipv6()))
    }

    fn contains(&self, ip: IpAddr, interface: &str) -> bool {
        match &self.0 {
            Named::Interface(name) => interface == name,
            Named::Addresses(address, bits) => {
                let differ = word(*address) ^ word(ip);
                ip.is_ipv4() == address.is_ipv4()
                    && differ.checked_shr(128 - u32::from(*bits)).unwrap_or(0) == 0
            }
        }
    }
}

/// An address as a number whose highest bit is the address's first bit.
fn word(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_network_chooses_an_address_of_this_host() {
        let all = [
            ("lo", "127.0.0.1"),
            ("eth0", "fe80::1"),
            ("eth0", "2001:db8::5"),
            ("eth0", "192.0.2.7"),
            ("ib0", "10.1.4.9"),
            ("ib1", "2001:db8:1::9"),
        ];
        let all = all.map(|(name, ip)| (ip.parse().unwrap(), name.to_owned()));
        for (network, expected) in [
            ("10.1.0.0/16", Some("10.1.4.9")),
            ("10.1.99.99/16", Some("10.1.4.9")),
            ("10.2.0.0/16", None),
            ("10.1.4.9", Some("10.1.4.9")),
            ("10.1.4.8", None),
            ("10.1.4.8/31", Some("10.1.4.9")),
            ("2001:db8::/64", Some("2001:db8::5")),
            ("0.0.0.0/0", Some("192.0.2.7")),
            ("fe80::/10", None),
            ("eth0", Some("192.0.2.7")),
            ("ib1", Some("2001:db8:1::9")),
            ("ib2", None),
            ("lo", Some("127.0.0.1")),
            ("127.0.0.0/8", Some("127.0.0.1")),
        ] {
            let chosen = network.parse::<DaemonNetwork>().unwrap().choose(all.clone());
            assert_eq!(chosen, expected.map(|text| text.parse().unwrap()), "{network}");
        }
    }

    #[test]
    fn a_network_reads_as_it_is_written() {
        for (text, written) in
            [("10.1.0.0/16", "10.1.0.0/16"), ("::1", "::1/128"), ("eth0.100", "eth0.100")]
        {
            let network: DaemonNetwork = text.parse().unwrap();
            assert_eq!(network.to_string(), written);
            assert_eq!(written.parse(), Ok(network));
        }
        for wrong in
            ["", "10.1.0.0/33", "::/129", "eth0/16", "10.1.0.0/x", "a b", "longer-than-ifname"]
        {
            let refused = HostsError::Network(wrong.to_owned());
            assert_eq!(wrong.parse::<DaemonNetwork>(), Err(refused), "{wrong}");
        }
    }
}
