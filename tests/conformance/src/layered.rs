//! Harnesses of layers over another harness's fabric.

use hikyaku_nic::fabric::Rank;
use hikyaku_nic::layer::{FaultInjector, Faults, Layer};

use crate::{Harness, Setup};

/// An injector that injects no fault.
pub const OFF: Faults = Faults::NONE;

/// Half of the commands land up to nine calls late.
pub const DELAY: Faults = Faults { seed: 9, delay: 500, delay_polls: 9, window: 8, ..Faults::NONE };

/// Two commands in five are refused without a reason.
pub const REFUSE: Faults = Faults { seed: 3, refuse: 400, ..Faults::NONE };

/// One packet in ten is lost, one in ten arrives twice.
pub const LOSSY: Faults = Faults { refuse: 0, delay: 0, ..Faults::all(77) };

/// Everything at once.
pub const ALL: Faults = Faults::all(4);

/// The fabric of `base` with unreliable links at each port.
pub fn layered<H: Harness>(base: H, faults: Faults) -> Layered<H> {
    Layered { base, faults }
}

/// See [`layered`].
#[derive(Debug)]
pub struct Layered<H> {
    base: H,
    faults: Faults,
}

impl<H: Harness> Harness for Layered<H> {
    type P = FaultInjector<H::P>;

    fn open(&self, setup: &Setup) -> Vec<Self::P> {
        let unreliable = |port| FaultInjector::new(port, self.faults);
        self.base.open(setup).into_iter().map(unreliable).collect()
    }

    fn kill(&self, port: &mut Self::P) {
        port.discard();
        self.base.kill(port.inner_mut());
    }

    fn settle(&self, faulty: &mut Self::P) {
        // Settled commands may have made room for more.
        let mut left = usize::MAX;
        loop {
            let is_empty = faulty.flush();
            self.base.settle(faulty.inner_mut());
            if is_empty || faulty.held() >= left {
                break;
            }
            left = faulty.held();
        }
    }

    fn epoch(&self, port: &mut Self::P, at: Rank) -> Option<u64> {
        (self.faults == OFF).then(|| self.base.epoch(port.inner_mut(), at))?
    }

    fn doorbells(&self, port: &mut Self::P) -> Option<u64> {
        // A chain through links that may fail becomes single posts.
        (self.faults == OFF).then(|| self.base.doorbells(port.inner_mut()))?
    }
}
