//! The ranks of a job in shared memory, as the simulator's conductor sees them.

use std::cell::RefCell;
use std::rc::Rc;

use hikyaku_nic::fabric::{FullCause, Rank};
use hikyaku_nic::hosted::{ActionOutbox, ConductorAnswer, ConductorRequest, Deed, HostedPort};
use hikyaku_nic::time::Time;
use hikyaku_shm::{Handed, InterfaceHost, Stage};
use hikyaku_sim::port::Ranks;

/// Ranks of which only one runs at a time.
#[derive(Debug)]
pub(super) struct OneByOne<S>(pub(super) S);

/// Ranks whose ports are stepped by their holder. Requests are served in order of arrival.
#[derive(Debug, Clone)]
pub(super) struct AsTheyCome {
    pub(super) stage: Rc<Stage>,
    /// By rank: whether it has the turn.
    pub(super) running: Rc<RefCell<Vec<bool>>>,
    /// The ranks that continue once everything in flight has completed: rank, time and answer.
    pub(super) answered: Rc<RefCell<Vec<(Rank, Time, ConductorAnswer)>>>,
}

impl AsTheyCome {
    /// Gives the turn to the ranks whose requests have been answered.
    pub(super) fn go_on(&self) {
        for (rank, now, answer) in self.answered.take() {
            self.running.borrow_mut()[rank as usize] = true;
            self.stage.give(rank, now, answer);
        }
    }
}

/// The methods that only forward to the stage. The order of the ranks is not one of them.
macro_rules! by_the_stage {
    ($stage:tt) => {
        type Host = InterfaceHost;

        fn count(&self) -> u32 {
            self.$stage.ranks()
        }

        fn node_of(&self, rank: Rank) -> u32 {
            self.$stage.node_of(rank)
        }

        fn most_bytes(&self) -> u64 {
            self.$stage.rank_bytes()
        }

        fn interface(&self, rank: Rank, outbox: &ActionOutbox) -> HostedPort<InterfaceHost> {
            self.$stage.interface(rank, outbox)
        }

        fn take_deeds(&self, rank: Rank, into: &mut Vec<(Time, Deed)>) {
            self.$stage.take_deeds(rank, into);
        }

        fn leave_datagram(&self, from: Rank, to: Rank, datagram: &[u8]) -> bool {
            self.$stage.leave_datagram(from, to, datagram)
        }

        fn landed(&self, from: Rank, to: Rank) {
            self.$stage.landed(from, to);
        }

        fn set_blocked(&self, from: Rank, to: Rank, cause: Option<FullCause>) {
            self.$stage.set_blocked(from, to, cause);
        }

        fn was_refused(&self, rank: Rank) -> bool {
            self.$stage.was_refused(rank)
        }

        fn is_there(&self, rank: Rank) -> bool {
            self.$stage.is_there(rank)
        }

        fn computed(&self, rank: Rank) -> Time {
            self.$stage.tally(rank).computing
        }
    };
}

impl<S: std::ops::Deref<Target = Stage> + 'static> Ranks for OneByOne<S> {
    fn run(
        &self,
        rank: Rank,
        now: Time,
        answer: ConductorAnswer,
    ) -> Option<(Time, ConductorRequest)> {
        self.0.give(rank, now, answer);
        Some(self.begin(rank))
    }

    fn begin(&self, rank: Rank) -> (Time, ConductorRequest) {
        let Handed { now, request } = self.0.await_rank(rank);
        if request == ConductorRequest::Leave {
            self.0.see_end(rank);
        }
        (now, request)
    }

    by_the_stage!(0);
}

impl Ranks for AsTheyCome {
    fn run(
        &self,
        rank: Rank,
        now: Time,
        answer: ConductorAnswer,
    ) -> Option<(Time, ConductorRequest)> {
        // Deferred: the rank is a thread, and would miss what is still in flight.
        self.answered.borrow_mut().push((rank, now, answer));
        None
    }

    fn begin(&self, rank: Rank) -> (Time, ConductorRequest) {
        let Handed { now, request } = self.stage.await_rank(rank);
        (now, request)
    }

    by_the_stage!(stage);
}
