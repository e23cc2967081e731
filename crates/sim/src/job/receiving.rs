//! The receiving side of a job: receives from their posting until their messages are taken.

use std::task::Context;

use hikyaku_nic::time::Time;

use super::matching::ReceiveSelector;
use super::request::{ReceiveArrival, ReceivedMessage};
use super::state::{JobState, MESSAGE, Totals};
use crate::engine::RecordKind;

impl JobState {
    pub(super) fn receive(&self, rank: u32, selector: ReceiveSelector) -> ReceiveArrival {
        let lists = &mut self.ranks.borrow_mut()[rank as usize].lists;
        lists.post(&mut self.tables.borrow_mut(), selector)
    }

    /// Takes a message that arrived before its receive was posted, at a time in the past.
    pub(super) fn unexpected(&self, key: u32) -> Option<(ReceivedMessage, Time)> {
        self.tables.borrow_mut().unexpected(key).map(|message| (message, Time::ZERO))
    }

    /// The message of a posted receive, with the time when it was complete, if it is.
    pub(super) fn arrival(
        &self,
        key: u32,
        context: &Context<'_>,
    ) -> Option<(ReceivedMessage, Time)> {
        let mut tables = self.tables.borrow_mut();
        let matched = tables.collect(key);
        if matched.is_none() {
            tables.receives[key].wakeup = Some(self.sim.wakeup(context, MESSAGE));
        }
        matched
    }

    /// Whether the message of a posted receive has arrived.
    pub(super) fn has_arrived(&self, receive: u32) -> bool {
        self.tables.borrow().is_matched(receive)
    }

    /// Registers the task that is being polled, to be woken when the message of a posted receive
    /// arrives.
    pub(super) fn wake_for(&self, receive: u32, context: &Context<'_>) {
        let wakeup = self.sim.wakeup(context, MESSAGE);
        self.tables.borrow_mut().receives[receive].wakeup = Some(wakeup);
    }

    /// The message of a posted receive, with the time when it was complete, if it is.
    pub(super) fn collect(&self, receive: u32) -> Option<(ReceivedMessage, Time)> {
        self.tables.borrow_mut().collect(receive)
    }

    /// Charges a receive that returns a message which arrived at `arrived`.
    pub(super) fn received(&self, rank: u32, message: &ReceivedMessage, arrived: Time) {
        self.received_by(rank, message, arrived.max(self.sim.now()));
    }

    /// The same in the rank's own time, not the engine's.
    pub(super) fn received_by(&self, rank: u32, message: &ReceivedMessage, arrived: Time) {
        self.catch_up(rank, arrived);
        let span = match self.are_together(rank, message.source) {
            true => self.config.host.receive,
            false => self.host(message.bytes).receive,
        };
        let count = |totals: &mut Totals| {
            totals.received += 1;
            totals.bytes_received += message.bytes;
        };
        let time = self.ranks.borrow()[rank as usize].local;
        let end = self.overhead_at(time, (rank, message.source), span, count) + span;
        self.record(end, RecordKind::Receive, rank, message.source, message.bytes);
    }

    pub(super) fn withdraw(&self, rank: u32, key: u32) {
        let lists = &mut self.ranks.borrow_mut()[rank as usize].lists;
        lists.withdraw(&mut self.tables.borrow_mut(), key);
    }
}
