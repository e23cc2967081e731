//! What threads of a rank that wait at the same time need to know of the engine.
//!
//! One thread at a time has the engine. A thread that waits lets others have it, and so has to know
//! afterwards, or have others know, whether what it waits for may have come meanwhile: [`Wanted`].

use hikyaku_nic::fabric::{CopyPort, Wake};

use super::Engine;
use super::wait::Blocked;
use crate::request::RequestId;

/// What one thread has polled in vain.
#[derive(Debug, Default)]
pub struct Wanted {
    /// Requests that have their memory, and so end without their thread.
    pub requests: Vec<RequestId>,
    /// Whether there was more: then it may have come whenever the engine has made progress.
    pub more: bool,
}

impl<P: CopyPort> Engine<P> {
    /// From here on unsuccessful polls are noted in `wanted`.
    pub fn begin_to_want(&mut self, mut wanted: Wanted) {
        wanted.requests.clear();
        wanted.more = false;
        self.wanted = Some(wanted);
    }

    /// Until [`Engine::want_again`] polls are another thread's. What was noted until here.
    pub fn wait_for_nothing(&mut self) -> Option<Wanted> {
        self.wanted.take()
    }

    /// Goes on noting.
    pub fn want_again(&mut self, wanted: Option<Wanted>) {
        self.wanted = wanted;
    }

    /// What was noted since. `more` if there was nothing.
    pub fn end_to_want(&mut self) -> Wanted {
        let mut wanted = self.wanted.take().unwrap_or_default();
        wanted.more |= wanted.requests.is_empty();
        wanted
    }

    /// Notes a request that has its memory and is not complete.
    pub(super) fn want(&mut self, id: RequestId) {
        if let Some(wanted) = &mut self.wanted {
            wanted.requests.push(id);
        }
    }

    /// Notes something else.
    pub(crate) fn want_more(&mut self) {
        if let Some(wanted) = &mut self.wanted {
            wanted.more = true;
        }
    }

    /// Whether what a thread wanted, `turns` ago by [`Engine::turns`], may have come.
    pub fn may_have_come(&self, wanted: &Wanted, turns: u64) -> bool {
        wanted.more && turns != self.turns
            || wanted.requests.iter().any(|id| self.requests.is_done(*id))
    }

    /// How often there was something to do.
    pub fn turns(&self) -> u64 {
        self.turns
    }

    /// Counts deaths, notes and what came of periodic checks: they may concern every thread.
    pub fn news(&self) -> u64 {
        self.news
    }

    /// Makes progress, or else the periodic checks. Whether there was anything to do.
    pub fn advance(&mut self) -> bool {
        self.progress() || self.attend(None)
    }

    /// [`Engine::rest`] up to where the port waits; then [`Engine::end_rest`].
    pub fn begin_rest(&mut self, blocked: &mut Blocked) {
        self.account(blocked);
    }

    /// The rest of a round is over.
    pub fn end_rest(&mut self, blocked: &Blocked, wake: Wake) {
        self.rested(wake);
        self.begin_round(blocked);
    }
}
