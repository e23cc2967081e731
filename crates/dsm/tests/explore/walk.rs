//! Long random walks through cases that are too large to search: many nodes, a random delay for
//! each operation, some nodes slow. The model checks each step.

use crate::chance::Chance;
use crate::model::{DirectCase, Model, Tally};

/// After this many steps a request will never be answered. The longest walk takes a tenth of them.
const STEPS_MOST: u64 = 5_000_000;

/// The delay of an operation, mostly similar to the others. One in fifty takes a hundred times as
/// long, so that others overtake it. The operations of a `near` rank take the least.
fn delay(chance: &mut Chance, at: usize, near: Option<usize>) -> u64 {
    if near == Some(at) {
        return 1;
    }
    let delay = 1 + chance.below(20);
    if chance.below(50) == 0 { 100 * delay } else { delay }
}

/// The result of a walk.
#[derive(Debug, Default)]
pub(crate) struct Walked {
    pub(crate) steps: u64,
    pub(crate) deaths: u32,
    pub(crate) abandoned: u32,
    pub(crate) insisted: u32,
    /// The counters of the model.
    pub(crate) tally: Tally,
}

/// Walks until every request is answered.
pub(crate) fn walk(case: &DirectCase, near: Option<usize>, seed: u64) -> Result<Walked, String> {
    let mut chance = Chance::new(seed);
    let mut model = Model::new(case);
    let ranks = case.wants.len();
    // The time when each rank's operation takes effect.
    let mut due: Vec<u64> = (0..ranks).map(|at| delay(&mut chance, at, near)).collect();
    let mut now = 0;
    let mut walked = Walked::default();
    // The time when the next death becomes known.
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
        if walked.abandoned < case.cancels && chance.below(200) == 0 {
            walked.abandoned += u32::from(model.cancel(chance.place(ranks)));
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
