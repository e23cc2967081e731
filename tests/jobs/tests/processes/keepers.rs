//! Jobs in which a rank keeps a variable far from its home and one of the ranks is killed: the
//! others continue.

use std::time::Duration;

use hikyaku_jobs::{Random, at_length};

use super::job;
use super::kill_one::kill_one;

/// Deaths of the keeper, and of another rank.
const RUNS: u32 = 60;

/// In the short form: until a keeper was killed inside, and at least these.
const FEW: u32 = 12;

/// The earliest time of the kill, microseconds after the start: while all use the variable. Later,
/// if it is still being made then; and the range of the delay.
const AFTER: usize = 20_000;
const LATER: usize = 10_000;
const WITHIN: usize = 40_000;

#[test]
fn what_was_kept_can_be_used_when_its_keeper_was_killed() {
    let (mut torn, mut whole, mut after) = (0, 0, AFTER);
    for number in 0..RUNS {
        if !at_length() && number >= FEW && torn > 0 {
            break;
        }
        let mut random = Random::new(u64::from(number) + 5);
        let ranks = 2 + random.below(3) as u32;
        // The last rank is not on the node of the variable's home, rank 0.
        let ranks_per_node = 1 + random.below((ranks as usize - 1).min(2)) as u32;
        let keeper = ranks - 1;
        let victim = if number % 3 == 0 { random.below(ranks as usize) as u32 } else { keeper };
        let delay = Duration::from_micros((after + random.below(WITHIN)) as u64);
        let about = format!(
            "run {number}: rank {victim} of {ranks}, {ranks_per_node} a node, after {delay:?}"
        );
        let job = job(ranks, &["keep"]).ranks_per_node(ranks_per_node);
        let survivors = kill_one(job, ranks, victim, delay, &about);
        let (mut marked, mut early) = (false, 0);
        for (rank, said) in &survivors.lines {
            if said == "early" {
                early += 1;
                continue;
            }
            let (dead, mark) = said.split_once(' ').unwrap();
            assert_eq!(dead, victim.to_string(), "{about}: rank {rank}: {said}");
            marked |= mark == "true";
        }
        // All have the variable, or none.
        assert!(early == 0 || early == survivors.lines.len(), "{about}: {}", survivors.stdout);
        if early > 0 {
            after += LATER;
        } else if victim == keeper {
            torn += u32::from(marked);
            whole += u32::from(!marked);
        }
    }
    // A keeper spends most of its time inside. The contents that a keeper was writing after it had
    // just lost the variable count as whole, because they are the copy that it had fetched.
    println!("{torn} torn, {whole} whole");
    assert!(torn > 0, "no keeper was killed inside");
}
