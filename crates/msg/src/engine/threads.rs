//! The engine's part in waits of several threads of a rank.
//!
//! One thread at a time has the engine. A waiting thread hands it to others. Afterwards somebody
//! has to know whether the awaited operation may be complete: [`Wanted`] records what to check.

use hikyaku_nic::fabric::{CopyPort, Wake};

use super::Engine;
use super::wait::Blocked;
use crate::request::RequestId;

/// The unsuccessful polls of one thread.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Requests that have their memory, and so complete without their thread.
    pub requests: Vec<RequestId>,
    /// Whether other polls failed too: these may succeed after any progress of the engine.
    pub more: bool,
}

impl<P: CopyPort> Engine<P> {
    /// Starts to record unsuccessful polls in `wanted`.
    pub fn begin_to_want(&mut self, mut wanted: Wanted) {
        wanted.requests.clear();
        wanted.more = false;
        self.wanted = Some(wanted);
    }

    /// Stops recording: until [`Engine::want_again`], polls belong to another thread. Returns the
    /// records so far.
    pub fn wait_for_nothing(&mut self) -> Option<Wanted> {
        self.wanted.take()
    }

    /// Resumes recording.
    pub fn want_again(&mut self, wanted: Option<Wanted>) {
        self.wanted = wanted;
    }

    /// Ends recording and returns the records. Sets `more` if they name no request.
    pub fn end_to_want(&mut self) -> Wanted {
        let mut wanted = self.wanted.take().unwrap_or_default();
        wanted.more |= wanted.requests.is_empty();
        wanted
    }

    /// Records a request that has its memory and is not complete.
    pub(super) fn want(&mut self, id: RequestId) {
        if let Some(wanted) = &mut self.wanted {
            wanted.requests.push(id);
        }
    }

    /// Records a poll of something else.
    pub(crate) fn want_more(&mut self) {
        if let Some(wanted) = &mut self.wanted {
            wanted.more = true;
        }
    }

    /// Whether something in `wanted`, recorded at `turns` ([`Engine::turns`]), may be complete.
    pub fn may_have_come(&self, wanted: &Wanted, turns: u64) -> bool {
        wanted.more && turns != self.turns
            || wanted.requests.iter().any(|id| self.requests.is_done(*id))
    }

    /// Whether something waits for room to be posted.
    pub fn waits_for_room(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// How many rounds had something to do.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Counts deaths, notes and results of periodic checks: they may concern every thread.
    pub fn news(&self) -> u64 {
        self.news
    }

    /// Makes progress, or else runs the periodic checks. Returns whether there was anything to do.
    pub fn advance(&mut self) -> bool {
        self.progress() || self.attend(None)
    }

    /// The part of [`Engine::rest`] before the port waits; [`Engine::end_rest`] follows it.
    pub fn begin_rest(&mut self, blocked: &mut Blocked) {
        self.account(blocked);
    }

    /// The part of [`Engine::rest`] after the port has waited.
    pub fn end_rest(&mut self, blocked: &Blocked, wake: Wake) {
        self.rested(wake);
        self.begin_round(blocked);
    }
}
