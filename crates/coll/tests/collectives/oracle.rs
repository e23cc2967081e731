//! Every algorithm against the oracle, over a network that disturbs as much as it may.

use std::cell::Cell;

use hikyaku_coll::{CollError, Facilities};
use hikyaku_nic::random::Random;
use proptest::prelude::*;

use crate::case::{Case, What, cases, everything};
use crate::network::{Node, Setup, run};

pub(crate) const ALL: Facilities = Facilities { multicast: true, sync: true, lines: true };

/// Nodes of ranks: all on one, one rank each, blocks, or at random.
pub(crate) fn nodes(size: u32, kind: u32, seed: u64) -> Vec<u32> {
    let mut random = Random::new(seed);
    let block = 1 + random.below(4) as u32;
    let node = |rank: u32| match kind {
        0 => 0,
        1 => rank,
        2 => rank / block,
        _ => random.below(3) as u32,
    };
    (0..size).map(node).collect()
}

/// Runs a case three times in a row in one group. Either every rank's result must match the oracle,
/// or all ranks must return the error that the algorithm cannot do this.
fn check(case: &Case, setup: &Setup) -> bool {
    let entered = Cell::new(0);
    let results = run(setup, async |node: &Node<u8>| {
        let mut last = None;
        for round in 1..=3 {
            last = Some(case.perform(node, &entered, round).await);
        }
        last.unwrap()
    });
    let unsuitable = |result: &Option<_>| matches!(result, Some(Err(CollError::Unsuitable { .. })));
    if results.iter().all(unsuitable) {
        return false;
    }
    for (rank, result) in (0..).zip(results) {
        assert_eq!(result, Some(Ok(case.expected(rank))), "rank {rank} of {case:?} on {setup:?}");
    }
    true
}

#[test]
fn every_algorithm_gives_what_the_definitions_say_on_any_number_of_ranks() {
    let mut performed = 0;
    for what in everything() {
        for size in 1..=17 {
            let seed = u64::from(size);
            for commutative in [true, false] {
                let root = (size * 5 + 2) % size;
                let case = Case { what, size, root, elements: 3, commutative, seed };
                let setup = Setup {
                    seed,
                    nodes: nodes(size, size % 4, seed),
                    facilities: ALL,
                    death: None,
                };
                performed += u32::from(check(&case, &setup));
            }
        }
    }
    // Impossible cases: orders that an algorithm cannot keep, lengths that it cannot know, numbers
    // that are not a power of two.
    assert!(performed > 1800, "only {performed} of {} could be done", everything().len() * 34);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn every_algorithm_gives_what_the_definitions_say(
        case in cases(everything(), 1..=17, 0..170),
        layout in 0u32..4,
    ) {
        let (seed, nodes) = (case.seed, nodes(case.size, layout, case.seed));
        let setup = Setup { seed, nodes, facilities: ALL, death: None };
        check(&case, &setup);
    }

    #[test]
    fn a_broadcast_in_segments_has_all_of_them(
        size in 1u32..=9, root in 0u32..9, segments in 0usize..4, rest in 0usize..3, seed: u64,
    ) {
        let what = What::Broadcast(Some(hikyaku_coll::broadcast::Algorithm::Pipelined));
        let elements = (segments * 1024 + rest).saturating_sub(1);
        let case = Case { what, size, root: root % size, elements, commutative: true, seed };
        let setup = Setup { seed, nodes: nodes(size, 0, 0), facilities: ALL, death: None };
        prop_assert!(check(&case, &setup));
    }
}

#[test]
fn operations_in_flight_together_do_not_take_each_others_messages() {
    use hikyaku_coll::{Reduction, allreduce, broadcast};
    use hikyaku_msg::join;
    let add = Reduction::commutative(1, |left: &[u8], right: &mut [u8]| right[0] += left[0]);
    for seed in 0..50 {
        let setup = Setup { seed, nodes: vec![0; 6], facilities: ALL, death: None };
        let results = run(&setup, async |node: &Node<u8>| {
            let rank = hikyaku_coll::Group::rank(node) as u8;
            let (mut sum, mut first, mut second) = ([rank + 1], [rank; 8], [rank + 10; 8]);
            let one = broadcast(node, None, &mut first, 1);
            let two = allreduce(node, None, &mut sum, add);
            let three = broadcast(node, None, &mut second, 2);
            // Called in one order, run in two.
            if rank.is_multiple_of(2) {
                let (one, (two, three)) = join(one, join(two, three)).await;
                one.and(two).and(three).unwrap();
            } else {
                let (three, (two, one)) = join(three, join(two, one)).await;
                one.and(two).and(three).unwrap();
            }
            (first, sum, second)
        });
        assert_eq!(results, [Some(([1; 8], [21], [12; 8])); 6], "seed {seed}");
    }
}

/// Values whose sum depends on the order in its last bits.
#[test]
fn an_allreduce_gives_every_rank_the_same_bits_every_time() {
    use hikyaku_coll::{Group, Reduction, allreduce};
    let add = Reduction::commutative(8, |left: &[u8], right: &mut [u8]| {
        for (left, right) in left.chunks_exact(8).zip(right.chunks_exact_mut(8)) {
            let read = |bytes: &[u8]| f64::from_le_bytes(bytes.try_into().unwrap());
            right.copy_from_slice(&(read(left) + read(right)).to_le_bytes());
        }
    });
    let value = |rank: u32, at: usize| {
        1.0 / (1.0 + f64::from(rank) * 3.7 + at as f64) * 1e10_f64.powi(at as i32 % 3)
    };
    for algorithm in allreduce::Algorithm::ALL {
        // Lines need ranks with mates.
        let by_lines =
            matches!(algorithm, allreduce::Algorithm::Lines | allreduce::Algorithm::Read);
        for size in if by_lines { 2 } else { 1 }..=17 {
            let once = |seed| {
                let nodes = nodes(size, if by_lines { 0 } else { 2 }, 1);
                let setup = Setup { seed, nodes, facilities: ALL, death: None };
                run(&setup, async |node: &Node<u8>| {
                    let values = (0..40).flat_map(|at| value(node.rank(), at).to_le_bytes());
                    let mut data: Vec<u8> = values.collect();
                    allreduce(node, Some(*algorithm), &mut data, add).await.unwrap();
                    data
                })
            };
            let (first, second) = (once(1), once(2));
            assert!(first.iter().chain(&second).all(|bits| *bits == first[0]), "{size} ranks");
            let bytes = first[0].as_ref().unwrap();
            for (at, got) in bytes.chunks_exact(8).enumerate() {
                let got = f64::from_le_bytes(got.try_into().unwrap());
                let sum: f64 = (0..size).map(|rank| value(rank, at)).sum();
                assert!((got - sum).abs() <= sum.abs() * 1e-12);
            }
        }
    }
}
