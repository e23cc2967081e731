//! The search: every state that can be reached, and from each a way to the end.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use crate::model::{Case, Model};

/// More states than any case has: a case that grows beyond is not the small case it should be.
const STATES_MOST: usize = 6_000_000;

/// What a search found.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) states: usize,
    pub(crate) ends: usize,
    /// What is wrong first.
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

/// Visits every state. Asking turns in circles, so that each state can lead to an end is decided
/// backwards, from the ends: under any fair order of steps, then, every request is answered. Of
/// what need not happen (a death, a request that is given up) nothing is hoped for.
pub(crate) fn explore(case: &Case) -> Found {
    let first = Model::new(case);
    let mut numbers = HashMap::from([(print(&first), 0u32)]);
    let mut sources: Vec<Vec<u32>> = vec![Vec::new()];
    let (mut open, mut ends) = (vec![(0u32, first)], Vec::new());
    while let Some((number, model)) = open.pop() {
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
        assert!(numbers.len() < STATES_MOST, "{case:?} has too many states");
    }
    let hopeless = numbers.len() - reaching(&ends, &sources);
    let fault = (hopeless > 0).then(|| format!("not answered: {hopeless} states lead nowhere"));
    Found { states: numbers.len(), ends: ends.len(), fault }
}

/// How many states lead to one of `ends`.
fn reaching(ends: &[u32], sources: &[Vec<u32>]) -> usize {
    let mut reached = vec![false; sources.len()];
    let mut open = ends.to_vec();
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
