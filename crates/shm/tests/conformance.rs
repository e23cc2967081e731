//! The rules of a fabric, checked on shared memory: all ranks in one process, each with its own
//! mapping.

#![allow(clippy::unwrap_used)]

use hikyaku_conformance::{Harness, Setup};
use hikyaku_nic::fabric::{DeathCause, Port, Rank};
use hikyaku_nic::hosted::Host;
use hikyaku_nic::sync::Ordering;
use hikyaku_shm::{JobConfig, ShmPort, open_all};

struct Shm;

impl Harness for Shm {
    type P = ShmPort;

    fn open(&self, setup: &Setup) -> Vec<ShmPort> {
        let Setup { layout, ranks_per_node, region_bytes } = *setup;
        let ranks = layout.ranks;
        let region_bytes = region_bytes as u64;
        let config = JobConfig {
            ranks,
            ranks_per_node,
            layout,
            region_bytes,
            log_bytes: 0,
            // Both ways occur, whichever is measured to be faster.
            long_stores: None,
            hosts: None,
            landing: None,
            moves_rings: true,
        };
        open_all(&config).unwrap()
    }

    fn kill(&self, port: &mut ShmPort) {
        assert!(port.host().fail(port.rank(), DeathCause::Signal(9)));
    }

    fn epoch(&self, port: &mut ShmPort, at: Rank) -> Option<u64> {
        Some(port.host().segment(at).sender(port.rank()).epoch.load(Ordering::Relaxed))
    }

    fn doorbells(&self, port: &mut ShmPort) -> Option<u64> {
        Some(port.doorbells())
    }
}

hikyaku_conformance::conformance!(Shm);
hikyaku_conformance::conformance_layered!(Shm);
