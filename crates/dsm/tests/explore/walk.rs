//! Long walks through cases that are too large to search: many nodes, each operation with a delay
//! drawn at random, some nodes slow. What must hold after each step is the model's.

use crate::chance::Chance;
use crate::model::{Case, Model, Tally};

/// Steps after which a request that is not answered never will be: the longest walk takes a tenth.
const STEPS_MOST: u64 = 5_000_000;

/// How long an operation takes: mostly about as long as the others, one in fifty a hundred times as
/// long, so that others pass it. Where one rank is `near`, its own take less than all others.
fn delay(chance: &mut Chance, at: usize, near: Option<usize>) -> u64 {
    if near == Some(at) {
        return 1;
    }
    let delay = 1 + chance.below(20);
    if chance.below(50) == 0 { 100 * delay } else { delay }
}

/// What a walk has come by.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) steps: u64,
    pub(crate) deaths: u32,
    pub(crate) given_up: u32,
    pub(crate) insisted: u32,
    /// What the model has counted.
    pub(crate) tally: Tally,
}

/// Walks until every rank has what it wants.
pub(crate) fn walk(case: &Case, near: Option<usize>, seed: u64) -> Result<Walked, String> {
    let mut chance = Chance(seed);
    let mut model = Model::new(case);
    let ranks = case.wants.len();
    // When each rank's operation takes effect.
    let mut due: Vec<u64> = (0..ranks).map(|at| delay(&mut chance, at, near)).collect();
    let mut now = 0;
    let mut walked = Walked::default();
    // When the next death becomes known.
    let mut news = None;
    loop {
        let awake = (0..ranks).filter(|at| !model.is_over(*at, case) && !model.sleeps(*at));
        let next = awake.min_by_key(|at| due[*at]);
        if news.is_some_and(|known| next.is_none_or(|at| known <= now.max(due[at]))) {
            model.learn();
            news = None;
            continue;
        }
        let Some(at) = next else { break };
        now = now.max(due[at]);
        model.advance(at, case)?;
        due[at] = now + delay(&mut chance, at, near);
        walked.steps += 1;
        if walked.steps > STEPS_MOST {
            return Err("not answered".into());
        }
        if walked.given_up < case.cancels && chance.below(200) == 0 {
            walked.given_up += u32::from(model.give_up(chance.place(ranks)));
        }
        let victim = chance.place(ranks);
        if walked.deaths < case.deaths && chance.below(500) == 0 && !model.is_over(victim, case) {
            model.kill(victim, case);
            walked.deaths += 1;
            news = Some(now + delay(&mut chance, victim, near));
        }
        if case.insists && chance.below(20) == 0 {
            walked.insisted += u32::from(model.insist(chance.place(ranks)));
        }
    }
    if !model.is_end(case) {
        return Err("asleep for ever".into());
    }
    walked.tally = model.tally;
    Ok(walked)
}
