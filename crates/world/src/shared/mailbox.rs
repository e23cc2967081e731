//! How `fagus` and `udp` are driven: requests and answers go by way of the rank's service.

use std::rc::Rc;

use hikyaku_dsm::{Kind, Patience};
use hikyaku_nic::fabric::Port;
use hikyaku_nic::time::Time;

use super::direct::Control;
use super::driver::{Asked, Outcome};
use super::service::{Rest, Service, Side};
use crate::world::World;

/// A variable under a protocol of messages, as its handles have it.
#[derive(Debug)]
pub(super) struct MailboxDriver {
    pub(super) side: Rc<Side>,
    service: Rc<Service>,
    by_datagrams: bool,
}

impl MailboxDriver {
    pub(super) fn new(side: Rc<Side>, service: Rc<Service>, by_datagrams: bool) -> Self {
        MailboxDriver { side, service, by_datagrams }
    }

    pub(super) fn request(
        &self,
        world: &World,
        part: u64,
        kind: Kind,
        patience: Patience,
    ) -> Asked {
        self.service.request(world.engine(), &self.side, part, (kind, patience))
    }

    pub(super) fn look(&self, world: &World, part: u64) -> Outcome {
        self.service.look(world.engine(), &self.side, part)
    }

    pub(super) fn give(&self, world: &World, part: u64) {
        self.service.give(world.engine(), &self.side, part);
    }

    /// Owner and state of a part; asks nobody, and handles nothing.
    pub(super) fn control(&self, world: &World, part: u64) -> Option<Control> {
        self.side.catch_up(world.engine());
        self.side.control(part)
    }

    /// Waits a little for datagrams, if that is how answers come; `false`: they come otherwise.
    pub(super) fn rest(&self, world: &World, rest: &mut Rest, until: Option<Time>) -> bool {
        if !self.by_datagrams {
            return false;
        }
        world.attend();
        let any = world.engine().borrow_mut().progress();
        let now = world.engine().borrow().port().now();
        if rest.is_long(now, any) {
            let most = Time::from_nanoseconds(1_000_000);
            let left = until.map_or(most, |until| if until > now { until - now } else { most });
            self.service.sleep(left.min(most));
        } else {
            std::thread::yield_now();
        }
        true
    }

    /// The end of this rank's handles: it goes on serving until all others have parted.
    pub(super) fn part(&self, world: &World) {
        let memory = self.side.memory();
        if memory.is_virtual() && !std::thread::panicking() {
            memory.part_in_time(world.engine());
        } else {
            memory.part();
        }
    }
}
