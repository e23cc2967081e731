//! The search: every reachable state, and from each one a path to the end.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::model::{DirectCase, Model};

/// The maximum number of states. A case with more states is too large.
const STATES_MOST: usize = 6_000_000;

/// In a short run, a search ends after this many states, the deepest first, so that ends are among
/// them. `make test-all` sets `HIKYAKU_LONG` for full runs.
const STATES_IN_SHORT: usize = 40_000;

/// The result of a search.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) ends: usize,
    /// The first fault.
    pub(crate) fault: Option<String>,
}

fn print(model: &Model) -> (u64, u64) {
    let hash = |salt: u64| {
        let mut hasher = DefaultHasher::new();
        (salt, model).hash(&mut hasher);
        hasher.finish()
    };
    (hash(1), hash(2))
}

/// Visits every state, or in a short run the first ones of a case that is not broken. Requests can
/// go in circles. So the search decides backwards, from the ends, whether each state can lead to an
/// end. If it can, every request is answered under any fair order of steps. The search does not
/// rely on steps that need not happen (a death, a cancel).
pub(crate) fn explore(case: &DirectCase) -> Found {
    let all = std::env::var_os("HIKYAKU_LONG").is_some() || case.broken.is_some();
    let enough = if all { STATES_MOST } else { STATES_IN_SHORT };
    let first = Model::new(case);
    let mut numbers = HashMap::from([(print(&first), 0u32)]);
    let mut sources: Vec<Vec<u32>> = vec![Vec::new()];
    let (mut open, mut ends) = (vec![(0u32, first)], Vec::new());
    while numbers.len() < enough
        && let Some((number, model)) = open.pop()
    {
        let (mut following, mut by_chance) = (Vec::new(), Vec::new());
        if let Err(fault) = model.steps(case, &mut following, &mut by_chance) {
            return Found { states: numbers.len(), ends: ends.len(), fault: Some(fault) };
        }
        if model.is_end(case) {
            ends.push(number);
        }
        let following = following.into_iter().map(|next| (next, true));
        for (next, sure) in following.chain(by_chance.into_iter().map(|next| (next, false))) {
            let fresh = numbers.len() as u32;
            let known = *numbers.entry(print(&next)).or_insert(fresh);
            if known == fresh {
                sources.push(Vec::new());
                open.push((fresh, next));
            }
            if sure {
                sources[known as usize].push(number);
            }
        }
    }
    assert!(numbers.len() < STATES_MOST, "{case:?} has too many states");
    // A state that was not visited may lead to an end.
    let hopeful = open.iter().map(|(number, _)| *number).chain(ends.iter().copied()).collect();
    let hopeless = numbers.len() - reaching(hopeful, &sources);
    let fault = (hopeless > 0).then(|| format!("not answered: {hopeless} states lead nowhere"));
    Found { states: numbers.len(), ends: ends.len(), fault }
}

/// The number of states that lead to one of `open`.
fn reaching(mut open: Vec<u32>, sources: &[Vec<u32>]) -> usize {
    let mut reached = vec![false; sources.len()];
    let mut count = 0;
    while let Some(state) = open.pop() {
        if std::mem::replace(&mut reached[state as usize], true) {
            continue;
        }
        count += 1;
        open.extend(&sources[state as usize]);
    }
    count
}
