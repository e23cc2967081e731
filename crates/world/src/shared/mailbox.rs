//! The driver of `fagus` and `udp`: requests and answers go through the rank's service.

use std::rc::Rc;

use hikyaku_dsm::{Kind, Patience};
use hikyaku_nic::fabric::Port;
use hikyaku_nic::time::Time;
use hikyaku_rank::{LOOK_AGAIN, Rest};

use super::direct::Control;
use super::driver::{Asked, Outcome};
use super::service::{Service, Side};
use crate::world::World;

/// A variable under a message protocol, as its handles use it.
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

    /// Owner and state of a part; asks no rank, and handles no message.
    pub(super) fn control(&self, world: &World, part: u64) -> Option<Control> {
        self.side.catch_up(world.engine());
        self.side.control(part)
    }

    /// Waits a moment for datagrams if answers come by them; `false`: they do not.
    pub(super) fn rest(&self, world: &World, rest: &mut Rest, until: Option<Time>) -> bool {
        if !self.by_datagrams {
            return false;
        }
        world.attend();
        let any = world.engine().borrow_mut().progress();
        let now = world.engine().borrow().port().now();
        if rest.is_long(now, any) {
            let left = until.filter(|until| *until > now).map(|until| until - now);
            self.service.sleep(left.map_or(LOOK_AGAIN, |left| left.min(LOOK_AGAIN)));
        } else {
            std::thread::yield_now();
        }
        true
    }

    /// Ends this rank's handles: it goes on serving until all others have parted.
    pub(super) fn part(&self, world: &World) {
        let memory = self.side.memory();
        if memory.is_virtual() && !std::thread::panicking() {
            memory.part_in_time(world.engine());
        } else {
            memory.part();
        }
    }
}
