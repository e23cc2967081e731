//! The rules of a fabric, checked on loopback and on every layer over it.

#![cfg(not(loom))]

use hikyaku_conformance::{Harness, Setup};
use hikyaku_nic::fabric::{DeathCause, Rank};
use hikyaku_nic::loopback::{self, Config, LoopbackPort};

/// The reference fabric as it is.
struct Loopback;

impl Harness for Loopback {
    type P = LoopbackPort;

    fn open(&self, setup: &Setup) -> Vec<LoopbackPort> {
        let Setup { layout, ranks_per_node, region_bytes } = *setup;
        loopback::open(&Config { layout, ranks_per_node, region_bytes }).unwrap()
    }

    fn kill(&self, ports: &mut [Option<LoopbackPort>], rank: Rank) {
        let port = ports[rank as usize].take().unwrap();
        assert!(port.host().fail(rank, DeathCause::Signal(9)));
    }

    fn doorbells(&self, port: &LoopbackPort) -> Option<u64> {
        Some(port.doorbells())
    }
}

mod plain {
    use super::Loopback;
    hikyaku_conformance::conformance!(Loopback);
}
