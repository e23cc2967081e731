//! Harnesses of layers over another harness's fabric.

use hikyaku_nic::layer::{FaultInjector, Faults, Layer, Recording, Tracer};

use crate::{Harness, Setup};

/// An injector that injects nothing.
pub const OFF: Faults = Faults::NONE;

/// Half of the commands land up to nine calls late.
pub const DELAY: Faults = Faults { seed: 9, delay: 500, delay_polls: 9, window: 8, ..Faults::NONE };

/// Two commands in five are refused for no reason.
pub const REFUSE: Faults = Faults { seed: 3, refuse: 400, ..Faults::NONE };

/// One packet in ten is lost, one in ten arrives twice.
pub const LOSSY: Faults = Faults { refuse: 0, delay: 0, ..Faults::all(77) };

/// Everything at once.
pub const ALL: Faults = Faults::all(4);

/// Entries that a traced port keeps.
const ENTRIES: usize = 100;

/// The fabric of `base` with a tracer on each port.
pub fn traced<H: Harness>(base: H) -> Traced<H> {
    Traced(base)
}

/// The fabric of `base` with unreliable links at each port.
pub fn faulty<H: Harness>(base: H, faults: Faults) -> Faulty<H> {
    Faulty { base, faults }
}

/// See [`traced`].
#[derive(Debug)]
pub struct Traced<H>(H);

impl<H: Harness> Harness for Traced<H> {
    type P = Tracer<H::P, Recording>;

    fn open(&self, setup: &Setup) -> Vec<Self::P> {
        let ports = self.0.open(setup).into_iter();
        ports.map(|port| Tracer::new(port, Recording::new(ENTRIES))).collect()
    }

    fn kill(&self, port: &mut Self::P) {
        self.0.kill(port.inner_mut());
    }

    fn settle(&self, port: &mut Self::P) {
        self.0.settle(port.inner_mut());
    }

    fn doorbells(&self, port: &mut Self::P) -> Option<u64> {
        self.0.doorbells(port.inner_mut())
    }
}

/// See [`faulty`].
#[derive(Debug)]
pub struct Faulty<H> {
    base: H,
    faults: Faults,
}

impl<H: Harness> Harness for Faulty<H> {
    type P = FaultInjector<H::P>;

    fn open(&self, setup: &Setup) -> Vec<Self::P> {
        let ports = self.base.open(setup).into_iter();
        ports.map(|port| FaultInjector::new(port, self.faults)).collect()
    }

    fn kill(&self, port: &mut Self::P) {
        port.discard();
        self.base.kill(port.inner_mut());
    }

    fn settle(&self, port: &mut Self::P) {
        // What has settled may have made room for more.
        let mut left = usize::MAX;
        loop {
            let is_empty = port.flush();
            self.base.settle(port.inner_mut());
            if is_empty || port.held() >= left {
                break;
            }
            left = port.held();
        }
    }

    fn doorbells(&self, port: &mut Self::P) -> Option<u64> {
        // A chain through links that may fail becomes single posts.
        if self.faults == OFF { self.base.doorbells(port.inner_mut()) } else { None }
    }
}
