//! Jobs in which a rank keeps a variable far from its home and one of them is killed: the others go
//! on.

use std::time::Duration;

use hikyaku_jobs::Random;

use super::job;

/// Deaths of the keeper, and of somebody else.
const RUNS: u32 = 60;

/// When at the earliest, microseconds after the start: while all use the variable. Later, where
/// that is still being made then; and within how long.
const AFTER: usize = 20_000;
const LATER: usize = 10_000;
const WITHIN: usize = 40_000;

const IN_TIME: Duration = Duration::from_secs(25);

/// As in `survivors`.
const GRACE: &str = "20";

#[test]
fn what_was_kept_can_be_used_when_its_keeper_was_killed() {
    let (mut torn, mut whole, mut after) = (0, 0, AFTER);
    for number in 0..RUNS {
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
        let mut running = job.variable("HIKYAKU_JOBS_GRACE", GRACE).start();
        let (process, _) = running.rank(victim);
        assert!(!running.has_ended_within(delay), "{about}: {:?}", running.end());
        process.kill();
        assert!(running.has_ended_within(IN_TIME), "{about}: it does not end");
        let end = running.end();
        assert_eq!(end.code, Some(137), "{about}: {}", end.stderr);
        let mut told: Vec<u32> = Vec::new();
        let (mut marked, mut early) = (false, 0);
        for line in end.stdout.lines() {
            let words: Vec<&str> = line.split(' ').collect();
            told.push(words[0].parse().unwrap());
            if words[1] == "early" {
                early += 1;
                continue;
            }
            assert_eq!(words[1], victim.to_string(), "{about}: {line}");
            marked |= words[2] == "true";
        }
        told.sort_unstable();
        let expected: Vec<u32> = (0..ranks).filter(|rank| *rank != victim).collect();
        assert_eq!(told, expected, "{about}: {} {}", end.stdout, end.stderr);
        // All have the variable, or none.
        assert!(early == 0 || early == told.len(), "{about}: {}", end.stdout);
        if early > 0 {
            after += LATER;
        } else if victim == keeper {
            torn += u32::from(marked);
            whole += u32::from(!marked);
        }
    }
    // A keeper spends most of its time inside; what one that had just lost the variable was writing
    // counts as whole, being the copy that it had fetched.
    println!("{torn} torn, {whole} whole");
    assert!(torn > 0, "no keeper was killed inside");
}
