//! The conformance tests of every fabric, in virtual time: sends land when they arrive.

#![allow(clippy::unwrap_used)]

use hikyaku_conformance::{Harness, Setup};
use hikyaku_launch::processes::conduct_threads;
use hikyaku_nic::fabric::{DeathCause, Port};
use hikyaku_nic::time::Time;
use hikyaku_shm::{JobConfig, ShmPort, open_conducted};

struct Virtual;

impl Harness for Virtual {
    type P = ShmPort;

    fn open(&self, setup: &Setup) -> Vec<ShmPort> {
        let Setup { layout, ranks_per_node, region_bytes } = setup.clone();
        let (ranks, region_bytes, log_bytes) = (layout.ranks, region_bytes as u64, 0);
        let config = JobConfig {
            ranks,
            ranks_per_node,
            layout,
            region_bytes,
            log_bytes,
            long_stores: None,
            hosts: None,
            landing: None,
            moves_rings: true,
        };
        open_conducted(&config.in_virtual_time(), conduct_threads).unwrap()
    }

    fn kill(&self, port: &mut ShmPort) {
        port.host().fail(port.rank(), DeathCause::Signal(9));
    }

    fn settle(&self, port: &mut ShmPort) {
        port.compute(Time::ZERO);
    }

    fn doorbells(&self, port: &mut ShmPort) -> Option<u64> {
        Some(port.doorbells())
    }
}

// tests/conformance.rs of hikyaku-shm injects each kind of fault alone over the same ports in
// real time.
hikyaku_conformance::conformance!(Virtual);
hikyaku_conformance::conformance_all_faults!(Virtual);
