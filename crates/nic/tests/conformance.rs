//! The rules of a fabric, checked on loopback and on every layer over it.

#![cfg(not(loom))]
#![allow(clippy::unwrap_used)]

use hikyaku_conformance::{Harness, Setup};
use hikyaku_nic::fabric::{DeathCause, Port, Rank};
use hikyaku_nic::hosted::Host;
use hikyaku_nic::loopback::{self, LoopbackConfig, LoopbackPort};
use hikyaku_nic::sync::Ordering;

/// The reference fabric without layers.
struct Loopback;

impl Harness for Loopback {
    type P = LoopbackPort;

    fn open(&self, setup: &Setup) -> Vec<LoopbackPort> {
        let Setup { layout, ranks_per_node, region_bytes } = *setup;
        loopback::open(&LoopbackConfig { layout, ranks_per_node, region_bytes }).unwrap()
    }

    fn kill(&self, port: &mut LoopbackPort) {
        assert!(port.host().fail(port.rank(), DeathCause::Signal(9)));
    }

    fn epoch(&self, port: &mut LoopbackPort, at: Rank) -> Option<u64> {
        Some(port.host().segment(at).sender(port.rank()).epoch.load(Ordering::Relaxed))
    }

    fn doorbells(&self, port: &mut LoopbackPort) -> Option<u64> {
        Some(port.doorbells())
    }
}

hikyaku_conformance::conformance!(Loopback);
hikyaku_conformance::conformance_layered!(Loopback);
