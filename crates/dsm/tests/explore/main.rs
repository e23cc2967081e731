//! Every interleaving of the protocol `direct` on small cases: two writers and a reader of one
//! variable, on one node, on a node each, and mixed; with cancelled requests; with a rank killed at
//! any moment. The search must also find the fault of each faulty variant.

#![allow(clippy::unwrap_used)]

#[path = "../chance/mod.rs"]
mod chance;
mod model;
mod search;
mod walk;

use chance::Chance;
use hikyaku_dsm::AccessKind::{self, Read, Write};
use hikyaku_dsm::Patience;
use hikyaku_dsm::protocol::direct::FAR_LOOK;
use model::{Break, DirectCase};
use search::explore;
use walk::walk;

fn case(ranks_per_node: u32) -> DirectCase {
    let wants = [Write, Write, Read].map(|kind| vec![(kind, Patience::Wait)]).to_vec();
    DirectCase {
        wants,
        ranks_per_node,
        alone: None,
        deaths: 0,
        cancels: 0,
        insists: false,
        overtakes: false,
        recoverable: true,
        broken: None,
    }
}

/// Explores a case to its end, without a fault.
fn holds(case: DirectCase) {
    let found = explore(&case);
    assert_eq!(found.fault, None, "{case:?}");
    assert!(found.states > 300 && found.ends > 0, "{found:?}");
    println!("{} states, {} ends: {case:?}", found.states, found.ends);
}

/// Explores a case with an injected fault, and expects this report.
fn is_caught(broken: Break, case: DirectCase, fault: &str) {
    let case = DirectCase { broken: Some(broken), ..case };
    let found = explore(&case).fault.unwrap_or_else(|| panic!("{case:?}: nothing is found"));
    assert!(found.contains(fault), "{case:?}: {found:?}");
}

#[test]
fn fg_01_two_writers_and_a_reader_on_one_node() {
    holds(case(3));
}

#[test]
fn fg_10_two_writers_and_a_reader_on_a_node_each() {
    holds(case(1));
}

#[test]
fn fg_11_writer_and_reader_on_one_node_writer_elsewhere() {
    let wants = [Write, Read, Write].map(|kind| vec![(kind, Patience::Wait)]).to_vec();
    holds(DirectCase { wants, ..case(2) });
    let wants = [Read, Read, Write].map(|kind| vec![(kind, Patience::Wait)]).to_vec();
    holds(DirectCase { wants, ..case(2) });
}

#[test]
fn fg_04_requests_follow_each_other() {
    for ranks_per_node in [1, 2] {
        let wants = vec![
            vec![(Write, Patience::Wait), (Read, Patience::Wait), (Write, Patience::Wait)],
            vec![(Read, Patience::Wait), (Write, Patience::Wait), (Read, Patience::Wait)],
        ];
        holds(DirectCase { wants, ..case(ranks_per_node) });
    }
}

#[test]
fn requests_may_be_tried_and_cancelled() {
    for ranks_per_node in [1, 3] {
        let wants = vec![
            vec![(Write, Patience::Wait)],
            vec![(Write, Patience::Wait), (Read, Patience::Try)],
            vec![(Write, Patience::Try)],
        ];
        holds(DirectCase { wants, cancels: 1, ..case(ranks_per_node) });
        let wants = vec![
            vec![(Read, Patience::Wait)],
            vec![(Write, Patience::Wait), (Write, Patience::Wait)],
        ];
        holds(DirectCase { wants, cancels: 2, ..case(ranks_per_node) });
    }
    let wants = vec![
        vec![(Write, Patience::Wait)],
        vec![(Write, Patience::Wait), (Write, Patience::Wait)],
        vec![(Write, Patience::Wait)],
    ];
    holds(DirectCase { wants, cancels: 1, ..case(3) });
}

/// Two writers and a reader, of which one may die.
fn with_a_death(ranks_per_node: u32, recoverable: bool) {
    holds(DirectCase { deaths: 1, recoverable, ..case(ranks_per_node) });
}

#[test]
fn a_rank_may_die_on_one_node() {
    with_a_death(3, true);
}

#[test]
fn a_rank_may_die_on_a_node_of_its_own() {
    with_a_death(1, true);
}

#[test]
fn a_rank_may_die_beside_another() {
    with_a_death(2, true);
}

#[test]
fn a_variable_may_be_lost_for_good() {
    with_a_death(2, false);
}

#[test]
fn all_but_one_may_die() {
    for ranks_per_node in [1, 3] {
        let wants = vec![vec![(Write, Patience::Wait)], vec![(Write, Patience::Wait)], vec![]];
        holds(DirectCase { wants, deaths: 2, ..case(ranks_per_node) });
    }
    let wants = vec![vec![(Write, Patience::Wait)]; 3];
    holds(DirectCase { wants, deaths: 2, ..case(3) });
}

/// Ranks that each want to write this many times.
fn writers(counts: &[usize], ranks_per_node: u32) -> DirectCase {
    let wants = counts.iter().map(|count| vec![(Write, Patience::Wait); *count]).collect();
    DirectCase { wants, ..case(ranks_per_node) }
}

#[test]
fn each_rank_overtakes_a_wanting_rank_once() {
    for ranks_per_node in [1, 3] {
        holds(DirectCase { overtakes: true, ..writers(&[5, 1], ranks_per_node) });
        holds(DirectCase { overtakes: true, ..writers(&[2, 1, 1], ranks_per_node) });
    }
    let mut far_reader = writers(&[5, 1], 1);
    far_reader.wants[1][0].0 = Read;
    holds(DirectCase { overtakes: true, ..far_reader });
}

#[test]
fn a_rank_that_wants_to_ask_may_die_or_cancel() {
    for ranks_per_node in [1, 3] {
        holds(DirectCase {
            deaths: 1,
            cancels: 1,
            insists: true,
            ..writers(&[4, 1], ranks_per_node)
        });
    }
}

#[test]
fn a_bit_that_stays_behind_is_caught() {
    is_caught(Break::WantStays, writers(&[4, 1], 1), "not answered");
}

#[test]
fn a_rank_that_stands_back_for_nobody_is_caught() {
    let case = DirectCase { overtakes: true, ..writers(&[6, 1], 1) };
    is_caught(Break::NobodyStandsBack, case, "has overtaken");
}

/// The first rank of the second node, far from the home, has written twice and then makes these
/// requests. Each other rank makes one request.
fn keeper(wants: &[AccessKind], others: &[AccessKind], ranks_per_node: u32) -> DirectCase {
    let list = |kinds: &[AccessKind]| kinds.iter().map(|kind| (*kind, Patience::Wait)).collect();
    let mut all: Vec<Vec<_>> = vec![vec![]; ranks_per_node as usize];
    all.push(list(&[&[Write, Write], wants].concat()));
    all.extend(others.iter().map(|kind| list(&[*kind])));
    DirectCase { wants: all, alone: Some((ranks_per_node as usize, 2)), ..case(ranks_per_node) }
}

#[test]
fn a_kept_variable_goes_to_a_rank_that_asks() {
    // Also when others ask before the first writes have ended.
    holds(DirectCase { alone: None, ..keeper(&[Write], &[Write], 1) });
    holds(keeper(&[Write], &[Write, Read], 1));
    holds(keeper(&[Read], &[Write, Read], 1));
    // A rank of the keeper's node, and one of the home's node, which also tries and cancels.
    holds(keeper(&[Write, Read, Write], &[Write], 2));
    let mut home = keeper(&[Write, Read, Write], &[], 1);
    home.wants[0] = vec![(Write, Patience::Wait), (Read, Patience::Try)];
    holds(DirectCase { cancels: 1, ..home });
}

#[test]
fn keepers_and_ranks_that_ask_may_die() {
    // A rank of the keeper's node and another rank find the remains.
    holds(DirectCase { deaths: 1, ..keeper(&[Write], &[Write, Write], 2) });
    for recoverable in [true, false] {
        for ranks_per_node in [1, 2] {
            let case = keeper(&[Write, Read], &[Write], ranks_per_node);
            holds(DirectCase { deaths: 1, cancels: 1, recoverable, ..case });
        }
    }
}

#[test]
fn a_keeper_that_is_careless_is_caught() {
    let late = DirectCase { alone: None, ..keeper(&[Write], &[Write], 1) };
    is_caught(Break::KeepsBlindly, late, "not answered");
    is_caught(Break::EntersBlindly, keeper(&[Write], &[Write], 1), "");
    is_caught(Break::ReadsBlindly, keeper(&[Read], &[Write], 1), "");
    is_caught(Break::LeavesBlindly, keeper(&[Write], &[Write], 1), "not answered");
    let case = DirectCase { deaths: 1, ..keeper(&[Write], &[Write], 2) };
    is_caught(Break::KeptIsWhole, case, "torn contents");
}

#[test]
fn sleepers_behind_cancelled_requests_and_deaths_are_woken() {
    for ranks_per_node in [1, 3] {
        holds(DirectCase { cancels: 2, ..writers(&[1, 1, 1], ranks_per_node) });
    }
    holds(DirectCase { cancels: 1, deaths: 1, ..case(3) });
}

#[test]
fn a_rank_that_is_not_woken_is_caught() {
    is_caught(Break::NobodyIsWoken, writers(&[1, 1], 1), "not answered");
    for broken in [Break::CancelsBlindly, Break::PassesBlindly] {
        is_caught(broken, DirectCase { cancels: 1, ..writers(&[1, 1, 1], 1) }, "not answered");
    }
}

#[test]
fn a_writer_that_does_not_wait_for_readers_is_caught() {
    is_caught(Break::IgnoreReaders, case(3), "beside a writer");
}

#[test]
fn a_turn_taken_by_a_store_is_caught() {
    is_caught(Break::StoreCell, case(3), "");
    let wants = [Write, Write].map(|kind| vec![(kind, Patience::Wait)]).to_vec();
    is_caught(Break::StoreCell, DirectCase { wants, ..case(2) }, "two writers");
}

#[test]
fn contents_that_are_not_fetched_are_caught() {
    is_caught(Break::NoCopy, case(1), "old contents");
}

#[test]
fn passing_the_turn_before_publishing_is_caught() {
    is_caught(Break::LatestLate, case(1), "old contents");
}

#[test]
fn a_changing_copy_that_counts_as_whole_is_caught() {
    let (writes, reads) = (vec![(Write, Patience::Wait)], vec![(Read, Patience::Wait)]);
    let wants = vec![vec![], vec![], writes, reads];
    holds(DirectCase { wants: wants.clone(), deaths: 1, ..case(2) });
    is_caught(Break::HeldStays, DirectCase { wants, deaths: 1, ..case(2) }, "torn contents");
}

#[test]
fn a_head_that_passes_no_dead_rank_is_caught() {
    is_caught(Break::NobodyHelps, DirectCase { deaths: 1, ..writers(&[1, 1], 2) }, "not answered");
}

/// Ranks that each make some requests, one in three to write.
fn crowd(ranks: u32, ranks_per_node: u32, seed: u64) -> DirectCase {
    let mut chance = Chance::new(seed);
    let mut want = || (if chance.below(3) == 0 { Write } else { Read }, Patience::Wait);
    let wants = (0..ranks).map(|_| (0..5).map(|_| want()).collect()).collect();
    DirectCase { wants, ..case(ranks_per_node) }
}

/// Walks. Reports the seed of a fault.
fn walks(case: &DirectCase, seed: u64) -> walk::Walked {
    walks_beside(case, None, seed)
}

/// The same, beside a rank whose operations take almost no time.
fn walks_beside(case: &DirectCase, near: Option<usize>, seed: u64) -> walk::Walked {
    walk(case, near, seed).unwrap_or_else(|fault| {
        let DirectCase { ranks_per_node, deaths, cancels, .. } = case;
        let ranks = case.wants.len();
        panic!(
            "{fault}: {ranks} ranks, {ranks_per_node} a node, {deaths} deaths, {cancels} cancels, \
             seed {seed}"
        )
    })
}

#[test]
fn fg_09_sixty_four_nodes_with_random_delays() {
    for (ranks, ranks_per_node) in [(64, 1), (64, 4), (64, 64)] {
        for seed in 1..=8 {
            let walked = walks(&crowd(ranks, ranks_per_node, seed), seed);
            assert!(walked.steps > 64 * 5 * 4, "{walked:?}");
        }
    }
}

#[test]
fn sixty_four_nodes_with_deaths_and_cancels() {
    let (mut deaths, mut abandoned) = (0, 0);
    for ranks_per_node in [1, 4] {
        for seed in 1..=12 {
            let case = DirectCase {
                deaths: 6,
                cancels: 40,
                insists: seed % 3 == 0,
                recoverable: seed % 2 == 0,
                ..crowd(64, ranks_per_node, seed)
            };
            let walked = walks(&case, seed);
            deaths += walked.deaths;
            abandoned += walked.abandoned;
        }
    }
    assert!(deaths > 20 && abandoned > 20, "{deaths} deaths, {abandoned} abandoned");
}

#[test]
fn keepers_may_die_and_be_asked_at_any_time() {
    for seed in 1..=40 {
        let mut chance = Chance::new(seed);
        let mut wants = |count: usize, reads: u64| {
            let mut want = || if chance.below(reads) == 0 { Read } else { Write };
            (0..count).map(|_| (want(), Patience::Wait)).collect::<Vec<_>>()
        };
        let often = [wants(300, 4), wants(300, 1000)];
        let seldom = [wants(6, 2), wants(6, 2), wants(6, 2)];
        let [home, mate, other] = seldom;
        let wants = vec![home, other, often[0].clone(), mate, often[1].clone()];
        for (ranks_per_node, deaths) in [(1, 0), (2, 0), (2, 2)] {
            let (wants, recoverable) = (wants.clone(), seed % 2 == 0);
            walks(
                &DirectCase { wants, deaths, cancels: 3, recoverable, ..case(ranks_per_node) },
                seed,
            );
        }
    }
}

/// Rank 0, at home, acquires and releases without pause. The others are far.
fn beside_a_hurry(broken: Option<Break>, seed: u64) -> DirectCase {
    let mut chance = Chance::new(seed);
    let mut want = || (if chance.below(3) == 0 { Write } else { Read }, Patience::Wait);
    let mut wants: Vec<Vec<_>> = (0..64).map(|_| (0..12).map(|_| want()).collect()).collect();
    wants[0] = vec![(Write, Patience::Wait); 20_000];
    DirectCase { wants, overtakes: true, broken, ..case(1) }
}

#[test]
fn far_ranks_beside_a_busy_one_keep_the_bound() {
    let (mut wanted, mut worst) = (0, 0);
    for seed in 1..=4 {
        let tally = walks_beside(&beside_a_hurry(None, seed), Some(0), seed).tally;
        println!("seed {seed}: {tally:?}");
        // From a rank's first poll until it has asked, 63 others overtake it, and rank 0 during two
        // attempts.
        assert!(tally.bypassed < 200, "seed {seed}: {tally:?}");
        wanted += tally.wanted;
        worst = worst.max(tally.worst);
    }
    assert!(wanted > 100 && (1..=FAR_LOOK).contains(&worst), "{wanted} wanted, {worst}");
    let case = beside_a_hurry(Some(Break::NobodyStandsBack), 1);
    let fault = walk(&case, Some(0), 1).unwrap_err();
    assert!(fault.contains("has overtaken"), "{fault}");
}

#[test]
fn a_walk_finds_each_injected_fault() {
    for broken in [Break::IgnoreReaders, Break::NoCopy] {
        let fault = (1..=20).find_map(|seed| {
            let case = DirectCase { broken: Some(broken), ..crowd(16, 1, seed) };
            walk(&case, None, seed).err()
        });
        println!("{broken:?}: {fault:?}");
        assert!(fault.is_some(), "{broken:?}");
    }
}
