//! Messages of calls that have ended, and their evidence about those calls: step by step, with two
//! ranks, without an algorithm.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

use hikyaku_coll::{
    Asked, Cause, CollectiveBook, CommunicatorGroup, Group, Made, Notice, Operation,
    OperationEnding, Signature,
};
use hikyaku_msg::{ContextEndpoint, Engine, EngineConfig};

use crate::engines::{TestPort, kill, tight_ports};

type Ranks<'e> = CommunicatorGroup<'e, TestPort>;

fn barrier() -> Made {
    Made { call: Signature::new(Operation::Barrier), algorithm: Some(0) }
}

fn gather() -> Made {
    Made { call: Signature::new(Operation::Gather), ..barrier() }
}

fn by_lines() -> Made {
    Made { algorithm: None, ..barrier() }
}

/// Two ranks of one node or of two.
struct Pair<'e> {
    engines: &'e [RefCell<Engine<TestPort>>],
    ranks: [Ranks<'e>; 2],
}

fn with_pair(ranks_per_node: u32, test: impl FnOnce(&Pair<'_>)) {
    let engine = |port| RefCell::new(Engine::new(port, EngineConfig::default()));
    let engines: Vec<_> = tight_ports(2, ranks_per_node).into_iter().map(engine).collect();
    let endpoints = [0, 1].map(|rank: usize| ContextEndpoint::new(&engines[rank], 9));
    let books = [0, 1].map(|rank: usize| CollectiveBook::with_lines(&endpoints[rank], 0));
    let ranks = [0, 1].map(|rank: usize| CommunicatorGroup::new(endpoints[rank], &books[rank]));
    test(&Pair { engines: &engines, ranks });
}

impl Pair<'_> {
    /// Delivers all messages.
    fn arrive(&self) {
        for _ in 0..8 {
            self.engines.iter().for_each(|engine| {
                engine.borrow_mut().progress();
            });
        }
    }

    /// Rank 1 sends a message of a call, which this test makes nowhere else.
    fn message(&self, number: u32) {
        let mut context = Context::from_waker(Waker::noop());
        let sent = pin!(self.ranks[1].endpoint().send(&[7], 0, tag(number, 1000)));
        assert!(sent.poll(&mut context).is_ready());
        self.arrive();
    }

    /// Rank 1 reports that its call has failed.
    fn failure(&self, number: u32) {
        self.ranks[1].endpoint().send_note(&[], 0, tag(number, 0)).unwrap();
        self.arrive();
        self.ranks[0].drop_left_overs();
    }

    /// Whether rank 0 asks rank 1 after it receives a message of a call that has ended.
    fn asks(&self, number: u32) -> bool {
        self.message(number);
        self.ranks[0].drop_left_overs();
        self.arrive();
        self.ranks[1].endpoint().take_note(|other| other == tag(number, 1)).is_some()
    }

    fn is_in_doubt(&self, number: u32) -> bool {
        self.ranks[0].is_in_doubt(number)
    }

    /// Rank 0 makes calls that succeed.
    fn done(&self, calls: u32) {
        for _ in 0..calls {
            let number = self.ranks[0].open(barrier());
            self.ranks[0].close(number, OperationEnding::Done);
        }
    }

    /// Both handle their messages until they stop answering each other, which is soon.
    fn talk(&self) {
        for _ in 0..8 {
            self.ranks.iter().for_each(Ranks::drop_left_overs);
            self.arrive();
        }
        assert!(!self.engines.iter().any(|engine| engine.borrow().has_left_overs()));
    }

    fn differs(&self, rank: usize, number: u32) -> Option<[u32; 2]> {
        match self.ranks[rank].notice(number) {
            Some(Notice { cause: Cause::Differ { one, other }, .. }) => {
                Some([one.rank, other.rank])
            }
            _ => None,
        }
    }
}

fn tag(number: u32, sum: i32) -> i32 {
    (number << 10) as i32 | sum
}

/// The calls with unreceived messages at rank 0.
fn kept(pair: &Pair<'_>) -> Vec<u32> {
    (0..9)
        .filter(|call| pair.ranks[0].endpoint().unexpected(|it| it == tag(*call, 1000)).is_some())
        .collect()
}

#[test]
fn messages_are_dropped_when_their_call_is_over() {
    with_pair(1, |pair| {
        let [rank, _] = pair.ranks;
        let number = rank.open(barrier());
        pair.message(0);
        rank.drop_left_overs();
        assert_eq!(kept(pair), [0], "its call is open");
        pair.message(1);
        rank.close(number, OperationEnding::Done);
        assert_eq!(kept(pair), [1], "its call is still to come");
        rank.pass(barrier());
        assert_eq!(kept(pair), [0; 0], "its call was made at once");
        assert_eq!(rank.open(barrier()), 2);
    });
}

#[test]
fn only_after_a_failure_all_messages_are_looked_at() {
    for (ending, left) in [
        (OperationEnding::Done, vec![0, 5]),
        (OperationEnding::Failed(Cause::Failed), vec![5]),
        (OperationEnding::Told, vec![5]),
    ] {
        with_pair(1, |pair| {
            let number = pair.ranks[0].open(barrier());
            pair.message(5);
            pair.message(0);
            pair.ranks[0].close(number, ending);
            assert_eq!(kept(pair), left, "{ending:?}");
        });
    }
}

#[test]
fn a_message_of_another_call_puts_one_in_doubt() {
    with_pair(1, |pair| {
        pair.done(2);
        assert!(!pair.is_in_doubt(1));
        assert!(pair.asks(1));
        assert_eq!([0, 1, 2].map(|number| pair.is_in_doubt(number)), [false, true, true]);
        assert!(!pair.asks(1) && !pair.asks(0), "it has asked");
    });
    with_pair(2, |pair| {
        let number = pair.ranks[0].open(by_lines());
        pair.ranks[0].close(number, OperationEnding::Done);
        assert_eq!(pair.ranks[0].next_on_lines(), Some(1));
        assert!(pair.asks(0));
        assert!(!pair.is_in_doubt(0), "a call by lines may have had messages");
        pair.done(1);
        assert!(pair.asks(1));
        assert_eq!(pair.ranks[0].next_on_lines(), None, "the next call is to fail");
    });
}

#[test]
fn a_failure_elsewhere_ends_the_doubt_of_its_call() {
    with_pair(1, |pair| {
        pair.done(3);
        assert!(pair.asks(1));
        pair.failure(0);
        assert!(pair.is_in_doubt(1), "that was another call");
        pair.failure(1);
        assert!(!pair.is_in_doubt(1));
        pair.failure(0);
        assert!(!pair.asks(0) && !pair.asks(1), "what is left of failed calls says nothing");
        assert!(pair.asks(2));
    });
}

#[test]
fn a_failure_here_ends_the_doubt_of_calls_before() {
    for ending in
        [OperationEnding::Known, OperationEnding::Told, OperationEnding::Failed(Cause::Failed)]
    {
        with_pair(1, |pair| {
            let early = pair.ranks[0].open(barrier());
            pair.done(1);
            let late = pair.ranks[0].open(barrier());
            assert!(pair.asks(1));
            pair.ranks[0].close(early, ending);
            assert!(pair.is_in_doubt(late), "{ending:?}");
            pair.ranks[0].close(late, ending);
            assert!(!pair.is_in_doubt(late), "{ending:?}");
            assert!(!pair.asks(1), "{ending:?}");
            pair.done(1);
            assert!(pair.asks(3), "{ending:?}");
        });
    }
}

#[test]
fn two_calls_that_ended_well_fail_the_next_at_both() {
    for passes in [false, true] {
        with_pair(1, |pair| {
            pair.done(1);
            pair.message(0);
            pair.ranks[0].drop_left_overs();
            // The question arrives before the call that it is about.
            pair.arrive();
            pair.ranks[1].drop_left_overs();
            if passes {
                pair.ranks[1].pass(gather());
            } else {
                let number = pair.ranks[1].open(gather());
                assert_eq!(pair.differs(1, number), Some([1, 0]), "an open call is told");
                pair.ranks[1].close(number, OperationEnding::Done);
            }
            pair.arrive();
            pair.talk();
            assert_eq!(pair.differs(1, 1), Some([1, 0]));
            // Rank 1 would have failed its open call, and notified rank 0.
            assert_eq!(pair.differs(0, 1), passes.then_some([0, 1]));
            if passes {
                pair.failure(0);
                assert_eq!(pair.differs(0, 1), Some([0, 1]), "both know what differs");
            }
        });
    }
}

#[test]
fn who_asks_about_a_failed_call_is_told_of_it() {
    with_pair(1, |pair| {
        pair.done(1);
        let number = pair.ranks[1].open(gather());
        pair.ranks[1].close(number, OperationEnding::Told);
        pair.message(0);
        pair.ranks[0].drop_left_overs();
        assert!(pair.is_in_doubt(0));
        pair.arrive();
        pair.talk();
        assert!(!pair.is_in_doubt(0));
        assert_eq!(pair.ranks[1].notice(1), None);
    });
}

#[test]
fn the_end_of_lines_is_known_from_one_hearing() {
    let dropped = Some(Notice { rank: 1, cause: Cause::Dropped });
    with_pair(2, |pair| {
        let [rank, other] = pair.ranks;
        pair.done(1);
        let number = other.open(barrier());
        other.close(number, OperationEnding::Done);
        let lost = other.open(by_lines());
        other.close(lost, OperationEnding::Failed(Cause::Dropped));
        // Calls that this rank has made before it receives the report are news for the other.
        (0..3).for_each(|_| rank.pass(by_lines()));
        pair.arrive();
        rank.drop_left_overs();
        pair.arrive();
        assert!(!rank.endpoint().has_left_overs());
        assert_eq!([0, 1, 3, 4].map(|it| rank.notice(it)), [None, dropped, dropped, None]);
        assert_eq!([0, 1, 3, 4].map(|it| other.notice(it)), [None, dropped, dropped, None]);
        assert!(!pair.asks(0), "who hears late still sends for calls done by lines");
    });
}

#[test]
fn books_of_one_context_leave_each_other_what_is_theirs() {
    with_pair(1, |pair| {
        let endpoint = *pair.ranks[0].endpoint();
        let (earlier, later) = (CollectiveBook::only(0, 2), CollectiveBook::only(4, 2));
        let [earlier, later] =
            [&earlier, &later].map(|book| CommunicatorGroup::new(endpoint, book));
        assert_eq!(later.open(barrier()), 4);
        pair.message(4);
        pair.message(0);
        pair.ranks[1].endpoint().send_note(&[], 0, tag(0, 1)).unwrap();
        pair.arrive();
        later.close(4, OperationEnding::Failed(Cause::Failed));
        assert_eq!(kept(pair), [0], "the other book's call is still to come");
        assert!(endpoint.take_note(|other| other == tag(0, 1)).is_some(), "and its questions");
        let number = earlier.open(barrier());
        earlier.close(number, OperationEnding::Done);
        assert_eq!(kept(pair), [0; 0]);
    });
}

#[test]
fn a_message_that_contradicts_an_open_call_counts_after_a_while_and_not_by_lines() {
    with_pair(2, |pair| {
        let [rank, _] = pair.ranks;
        let made = [by_lines(), barrier()];
        let numbers = made.map(|made| rank.open(made));
        numbers.iter().for_each(|number| pair.message(*number));
        let asked = [Cell::new(Asked::default()), Cell::new(Asked::default())];
        let ask = |at: usize| rank.ask(numbers[at], tag(numbers[at], 1), made[at], &asked[at]);
        assert_eq!([ask(0), ask(1)], [None, None], "it has just come");
        assert_eq!([ask(0), ask(1)], [None, None], "and may be explained");
        // Time passes with waits.
        let found = (0..10_000_000).find_map(|_| {
            pair.engines[0].borrow_mut().idle();
            ask(1)
        });
        assert_eq!(found, Some(Notice { rank: 1, cause: Cause::OtherCall }));
        assert_eq!(ask(0), None, "lines may have been lost elsewhere");
    });
}

#[test]
fn who_is_gone_answers_no_question() {
    with_pair(1, |pair| {
        let [rank, _] = pair.ranks;
        pair.done(1);
        assert!(pair.asks(0));
        let (number, asked) = (rank.open(barrier()), Cell::new(Asked::default()));
        let ask = || rank.ask(number, tag(number, 1), barrier(), &asked);
        assert_eq!(ask(), None, "it may still answer");
        kill(pair.engines[0].borrow().port(), 1);
        assert_eq!(ask(), Some(Notice { rank: 1, cause: Cause::OtherCall }));
    });
}
