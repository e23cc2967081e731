//! The choice among offers: a pure function of their abilities, with a reason for each.

use std::net::IpAddr;

use crate::{EndpointKind, Error, Offer};

/// The environment variable that overrides the choice.
pub const VARIABLE: &str = "HIKYAKU_FABRIC";

/// The inputs of the choice besides the offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProviderRequest {
    /// The provider that the user wants, by libfabric's name.
    pub provider: Option<String>,
    /// The domain that the user wants: an interface, a device.
    pub domain: Option<String>,
    /// The own address on the route to the peers, if known.
    pub near: Option<IpAddr>,
    /// Whether all peers are on this host, so that shared memory can carry the transport.
    pub one_host: bool,
}

impl ProviderRequest {
    /// Parses a value of `HIKYAKU_FABRIC`: `PROVIDER`, `/DOMAIN` or `PROVIDER/DOMAIN`. The layers
    /// of a provider may be joined by `+`, since shells end a command at `;`.
    pub fn parse(value: &str) -> Result<Self, Error> {
        let (provider, domain) = match value.split_once('/') {
            Some((provider, domain)) => (provider, Some(domain)),
            None => (value, None),
        };
        if value.is_empty() || domain == Some("") {
            return Err(Error::Invalid(format!(
                "{VARIABLE}={value} names no provider; use PROVIDER, PROVIDER/DOMAIN or /DOMAIN, \
                 as in tcp/eth0"
            )));
        }
        Ok(Self {
            provider: Some(provider.replace('+', ";")).filter(|name| !name.is_empty()),
            domain: domain.map(str::to_owned),
            ..Self::default()
        })
    }

    /// Whether the user names a provider or domain, so that unknown ones are allowed.
    fn is_explicit(&self) -> bool {
        self.provider.is_some() || self.domain.is_some()
    }
}

/// The chosen offer, and a reason for each offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The index of the chosen offer; `None`: none is usable.
    pub best: Option<usize>,
    /// For each offer, in order, why it is used or not.
    pub reasons: Vec<String>,
}

/// Known providers, the best for the transport first. Hardware that moves data by itself comes
/// before sockets; of the sockets, tcp's own endpoint comes before layers on it, which take 2.5
/// times as long for 8 bytes and reach half the bandwidth.
const KNOWN: &[(&str, &str)] = &[
    ("cxi", "Slingshot's own"),
    ("efa", "EFA's own"),
    ("verbs;ofi_rxm", "InfiniBand or RoCE"),
    ("psm3", "its own protocol over Ethernet or Omni-Path"),
    ("opx", "Omni-Path's own"),
    ("psm2", "Omni-Path's own"),
    ("tcp", "sockets, with endpoints of its own"),
    ("net", "sockets, with endpoints of its own"),
    ("tcp;ofi_rxm", "sockets, with a layer for reliable endpoints"),
    ("net;ofi_rxm", "sockets, with a layer for reliable endpoints"),
    ("udp;ofi_rxd", "datagrams, with a layer that repeats them"),
    ("sockets", "sockets, by a thread; superseded by tcp"),
];

/// Providers that reach this host only.
const ONE_HOST: &[&str] = &["shm", "sm2"];

/// Chooses an offer.
pub fn choose(offers: &[Offer], request: &ProviderRequest) -> Choice {
    let judged: Vec<Result<OfferRank, String>> =
        offers.iter().map(|offer| judge(offer, request)).collect();
    let fitting =
        judged.iter().enumerate().filter_map(|(at, rank)| Some((rank.as_ref().ok()?, at)));
    let best = fitting.min().map(|(_, at)| at);
    let reasons = judged.iter().enumerate().map(|(at, rank)| match (rank, best) {
        (Err(reason), _) => reason.clone(),
        (Ok(rank), Some(best)) if at == best => format!("chosen: {}", quality(&offers[at], rank)),
        (Ok(rank), Some(best)) => beaten(rank, &offers[at], judged[best].as_ref().ok()),
        (Ok(_), None) => String::new(),
    });
    let reasons = reasons.collect();
    Choice { best, reasons }
}

impl Choice {
    /// The chosen offer, or one line that says why there is none.
    pub fn offer(&self, offers: &[Offer], request: &ProviderRequest) -> Result<usize, Error> {
        if let Some(best) = self.best {
            return Ok(best);
        }
        let mut providers: Vec<&str> = offers.iter().map(|offer| &*offer.provider).collect();
        providers.sort_unstable();
        providers.dedup();
        let wanted = match (&request.provider, &request.domain) {
            (None, None) => "no provider of libfabric can carry messages between hosts".to_owned(),
            (Some(provider), None) => format!("libfabric has no usable provider {provider}"),
            (None, Some(domain)) => format!("libfabric has nothing usable at {domain}"),
            (Some(provider), Some(domain)) => {
                format!("libfabric has no usable provider {provider} at {domain}")
            }
        };
        Err(Error::NoChoice(format!(
            "{wanted}; it lists {}: `hikyaku fabric list` says what of each",
            if providers.is_empty() { "nothing".to_owned() } else { providers.join(", ") }
        )))
    }
}

/// The rank of an offer; the least is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct OfferRank {
    /// Place in the list of known providers.
    provider: usize,
    /// Whether its address is known not to be the one on the route to the peers.
    elsewhere: bool,
    /// How far its address reaches.
    reach: AddressReach,
}

/// How far an address reaches, the farthest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum AddressReach {
    Any,
    SixthVersion,
    Link,
    OwnHost,
}

/// The rank of an offer, or why it cannot be used.
fn judge(offer: &Offer, request: &ProviderRequest) -> Result<OfferRank, String> {
    if request.provider.as_ref().is_some_and(|wanted| *wanted != offer.provider)
        || request.domain.as_ref().is_some_and(|wanted| *wanted != offer.domain)
    {
        return Err("not asked for".to_owned());
    }
    match offer.kind {
        EndpointKind::Reliable => {}
        EndpointKind::Connection => {
            return Err("no: a connection for each peer, no reliable endpoint".to_owned());
        }
        EndpointKind::Datagram => return Err("no: datagrams, which may be lost".to_owned()),
        EndpointKind::Other => return Err("no: an endpoint of unknown kind".to_owned()),
    }
    if !offer.fits {
        return Err("no: refuses ordered messages, multi-receive or remote access".to_owned());
    }
    if ONE_HOST.contains(&&*offer.provider) {
        if !request.one_host {
            return Err("no: reaches this host only".to_owned());
        }
        return Ok(OfferRank {
            provider: KNOWN.len(),
            elsewhere: false,
            reach: AddressReach::OwnHost,
        });
    }
    let provider = match KNOWN.iter().position(|(name, _)| *name == offer.provider) {
        Some(known) => known,
        None if request.is_explicit() => KNOWN.len(),
        None => {
            return Err(format!("no: never tried; {VARIABLE}={} uses it", shell(&offer.provider)));
        }
    };
    let elsewhere =
        request.near.is_some() && offer.address.is_some() && offer.address != request.near;
    Ok(OfferRank { provider, elsewhere, reach: reach(offer.address) })
}

/// A provider's name in a form that needs no quotes in a shell.
fn shell(provider: &str) -> String {
    provider.replace(';', "+")
}

fn reach(address: Option<IpAddr>) -> AddressReach {
    match address {
        None => AddressReach::Any,
        Some(address) if address.is_loopback() => AddressReach::OwnHost,
        Some(IpAddr::V4(address)) if address.is_link_local() => AddressReach::Link,
        Some(IpAddr::V4(_)) => AddressReach::Any,
        Some(IpAddr::V6(address)) if address.is_unicast_link_local() => AddressReach::Link,
        Some(IpAddr::V6(_)) => AddressReach::SixthVersion,
    }
}

/// The qualities of an offer, for its reason.
fn quality(offer: &Offer, rank: &OfferRank) -> String {
    let reach = match rank.reach {
        AddressReach::OwnHost => ", on this host only",
        AddressReach::Link => ", on this link only",
        AddressReach::Any | AddressReach::SixthVersion => "",
    };
    format!("{}{reach}", way(offer, rank))
}

/// The kind of network that a provider uses.
fn way(offer: &Offer, rank: &OfferRank) -> &'static str {
    match KNOWN.get(rank.provider) {
        Some((_, way)) => way,
        None if ONE_HOST.contains(&&*offer.provider) => "memory of this host",
        None => "asked for",
    }
}

/// Why a usable offer was not chosen.
fn beaten(rank: &OfferRank, offer: &Offer, best: Option<&OfferRank>) -> String {
    let why = match best {
        Some(best) if best.provider != rank.provider => {
            return format!("{}; another provider is faster", way(offer, rank));
        }
        Some(best) if best.elsewhere != rank.elsewhere => "not on the way to the peers",
        Some(best) if best.reach != rank.reach => "another address reaches farther",
        _ => "an earlier one is as good",
    };
    format!("{}; {why}", quality(offer, rank))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A usable endpoint `provider@domain[=address]`.
    fn offer(words: &str) -> Offer {
        let (words, address) = words.split_once('=').map_or((words, None), |(w, a)| (w, Some(a)));
        let (provider, domain) = words.split_once('@').unwrap();
        Offer {
            provider: provider.into(),
            domain: domain.into(),
            address: address.map(|address| address.parse().unwrap()),
            kind: EndpointKind::Reliable,
            fits: true,
            claims_atomics: false,
            manual_progress: false,
            inject: 64,
            max_message: 1 << 30,
        }
    }

    fn offers(all: &[&str]) -> Vec<Offer> {
        all.iter().map(|words| offer(words)).collect()
    }

    fn best(all: &[&str], request: &ProviderRequest) -> Option<usize> {
        choose(&offers(all), request).best
    }

    /// The offers of 1.17 of Debian and of 2.5.1 on a host with Ethernet only.
    const DEBIAN: &[&str] = &[
        "tcp;ofi_rxm@eth0=10.0.0.5",
        "net@lo=127.0.0.1",
        "net@eth0=10.0.0.5",
        "udp;ofi_rxd@eth0=10.0.0.5",
        "shm@shm",
        "sockets@eth0=10.0.0.5",
    ];
    const NEWER: &[&str] = &[
        "tcp@eth0=10.0.0.5",
        "tcp@lo=127.0.0.1",
        "tcp;ofi_rxm@eth0=10.0.0.5",
        "udp;ofi_rxd@eth0=10.0.0.5",
        "shm@shm",
        "sm2@sm2",
    ];

    #[test]
    fn sockets_go_by_their_own_endpoints_on_an_outer_interface() {
        assert_eq!(best(DEBIAN, &ProviderRequest::default()), Some(2));
        assert_eq!(best(NEWER, &ProviderRequest::default()), Some(0));
        assert_eq!(best(&DEBIAN[..1], &ProviderRequest::default()), Some(0));
        assert_eq!(best(&DEBIAN[3..4], &ProviderRequest::default()), Some(0));
    }

    #[test]
    fn hardware_comes_before_sockets() {
        for hardware in ["cxi@cxi0", "efa@rdmap0s6-rdm", "verbs;ofi_rxm@mlx5_0", "psm3@irdma0"] {
            let all = [NEWER, &[hardware]].concat();
            assert_eq!(best(&all, &ProviderRequest::default()), Some(NEWER.len()), "{hardware}");
        }
    }

    #[test]
    fn shared_memory_is_for_one_host_and_the_last_choice() {
        assert_eq!(best(&["shm@shm"], &ProviderRequest::default()), None);
        let one_host = ProviderRequest { one_host: true, ..ProviderRequest::default() };
        assert_eq!(best(&["shm@shm"], &one_host), Some(0));
        assert_eq!(best(NEWER, &one_host), Some(0));
        let shm = ProviderRequest { one_host: true, ..ProviderRequest::parse("shm").unwrap() };
        assert_eq!(best(NEWER, &shm), Some(4));
        assert_eq!(best(NEWER, &ProviderRequest::parse("shm").unwrap()), None);
    }

    #[test]
    fn the_address_towards_the_peers_is_preferred() {
        let all = ["tcp@eth0=10.0.0.5", "tcp@ib0=10.1.0.5", "tcp@lo=127.0.0.1"];
        let near = |address: &str| ProviderRequest {
            near: Some(address.parse().unwrap()),
            ..ProviderRequest::default()
        };
        assert_eq!(best(&all, &near("10.1.0.5")), Some(1));
        assert_eq!(best(&all, &near("127.0.0.1")), Some(2));
        assert_eq!(best(&all, &near("10.9.9.9")), Some(0));
    }

    #[test]
    fn addresses_that_reach_farther_come_first() {
        let all = ["tcp@e=fe80::1", "tcp@lo=::1", "tcp@e=2001:db8::1", "tcp@e=169.254.1.1"];
        assert_eq!(best(&all, &ProviderRequest::default()), Some(2));
        assert_eq!(best(&[all[0], all[1]], &ProviderRequest::default()), Some(0));
        let all = [all[2], "tcp@e=10.0.0.1"];
        assert_eq!(best(&all, &ProviderRequest::default()), Some(1));
    }

    #[test]
    fn the_user_overrides_by_provider_and_domain() {
        for (value, expected) in [
            ("tcp+ofi_rxm", Some(0)),
            ("tcp;ofi_rxm", Some(0)),
            ("net/lo", Some(1)),
            ("/lo", Some(1)),
            ("net/eth1", None),
            ("verbs", None),
        ] {
            assert_eq!(best(DEBIAN, &ProviderRequest::parse(value).unwrap()), expected, "{value}");
        }
        assert_eq!(best(&["ucx@mlx5_0"], &ProviderRequest::default()), None);
        assert_eq!(best(&["ucx@mlx5_0"], &ProviderRequest::parse("ucx").unwrap()), Some(0));
        for value in ["", "tcp/", "/"] {
            assert!(ProviderRequest::parse(value).is_err(), "{value:?}");
        }
    }

    #[test]
    fn every_offer_has_a_reason() {
        let mut all = offers(NEWER);
        all.push(Offer { kind: EndpointKind::Connection, fits: false, ..offer("tcp@eth0") });
        all.push(Offer { kind: EndpointKind::Datagram, fits: false, ..offer("udp@eth0") });
        all.push(Offer { fits: false, ..offer("sm2@sm2") });
        all.push(offer("ucx;x@mlx5_0"));
        let reasons = choose(&all, &ProviderRequest::default()).reasons;
        let expected = [
            "chosen: sockets, with endpoints of its own",
            "sockets, with endpoints of its own, on this host only; another address reaches \
             farther",
            "sockets, with a layer for reliable endpoints; another provider is faster",
            "datagrams, with a layer that repeats them; another provider is faster",
            "no: reaches this host only",
            "no: reaches this host only",
            "no: a connection for each peer, no reliable endpoint",
            "no: datagrams, which may be lost",
            "no: refuses ordered messages, multi-receive or remote access",
            "no: never tried; HIKYAKU_FABRIC=ucx+x uses it",
        ];
        assert_eq!(reasons, expected);
    }

    #[test]
    fn no_choice_is_one_line_that_names_what_there_is() {
        let (all, request) = (offers(DEBIAN), ProviderRequest::parse("verbs").unwrap());
        let error = choose(&all, &request).offer(&all, &request).unwrap_err().to_string();
        assert_eq!(
            error,
            "libfabric has no usable provider verbs; it lists net, shm, sockets, tcp;ofi_rxm, \
             udp;ofi_rxd: `hikyaku fabric list` says what of each"
        );
        let error = choose(&[], &ProviderRequest::default())
            .offer(&[], &ProviderRequest::default())
            .unwrap_err();
        assert!(error.to_string().contains("it lists nothing"), "{error}");
    }
}
