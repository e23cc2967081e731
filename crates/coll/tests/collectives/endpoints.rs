//! Every algorithm over message engines with small rings, without faults and under the fault
//! injector; and properties of engines: notices, deaths, ranks that leave.

use std::cell::Cell;

use hikyaku_coll::{
    Cause, CollError, CommunicatorGroup, Group, allreduce, barrier, broadcast, gather,
};
use hikyaku_msg::MsgError;
use hikyaku_nic::layer::Faults;
use proptest::prelude::*;

use crate::case::{Case, What, add, cases, everything};
use crate::engines::{TestPort, kill, run, run_counting, tight_ports, tight_unreliable_ports};

/// Runs a case and compares its results with the oracle.
fn check(case: &Case, ports: Vec<TestPort>) {
    let entered = Cell::new(0);
    let results = run(ports, case.seed, async |group: &CommunicatorGroup<'_, TestPort>| {
        case.perform(group, &entered, 1).await
    });
    let unsuitable = |result: &Result<Vec<u8>, CollError<MsgError>>| {
        matches!(result, Err(CollError::Unsuitable { .. }))
    };
    if !results.iter().all(unsuitable) {
        for (rank, result) in (0..).zip(results) {
            assert_eq!(result, Ok(case.expected(rank)), "rank {rank} of {case:?}");
        }
    }
}

/// All operations, without the algorithms that need facilities that engines lack.
pub(crate) fn with_messages() -> Vec<What> {
    use hikyaku_coll::{barrier::Algorithm as Barrier, broadcast::Algorithm as Broadcast};
    let mut all = everything();
    all.retain(|what| {
        !matches!(
            what,
            What::Barrier(Some(Barrier::AtomicAdd | Barrier::MulticastAdd | Barrier::Sync))
                | What::Broadcast(Some(Broadcast::Multicast))
        )
    });
    all
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn every_algorithm_works_over_messages(
        case in cases(with_messages(), 1..=17, 30..200),
        ranks_per_node in 1u32..=17,
    ) {
        check(&case, tight_ports(case.size, ranks_per_node));
    }

    #[test]
    fn every_algorithm_works_on_unreliable_links(
        case in cases(with_messages(), 2..=9, 30..200),
    ) {
        let faults = |rank| Faults::all(case.seed.wrapping_add(rank));
        check(&case, tight_unreliable_ports(case.size, 3, faults));
    }
}

type Outcome = Result<(), CollError<MsgError>>;

#[test]
fn a_mismatch_is_told_to_every_rank_and_leaves_the_group_usable() {
    use allreduce::Algorithm::{RecursiveDoubling, Ring};
    let by = [None, Some(Ring), Some(RecursiveDoubling)];
    for (length, algorithm) in [4, 700, 5000].into_iter().flat_map(|it| by.map(|by| (it, by))) {
        let (results, left) = run_counting(tight_ports(6, 6), 11, async |group| {
            let mut data = vec![1; length + usize::from(group.rank() == 2)];
            let failed = allreduce(group, algorithm, &mut data, add()).await;
            let mut data = vec![1; length];
            allreduce(group, algorithm, &mut data, add()).await.unwrap();
            assert_eq!(data, vec![6; length]);
            // By then all left-over messages have arrived.
            barrier(group, None).await.unwrap();
            barrier(group, None).await.unwrap();
            failed
        });
        assert_eq!(left, 0, "{length} B by {algorithm:?}: something of the failed call is left");
        for result in results {
            match result {
                Err(CollError::Differ { one, other }) => {
                    assert!(one.call.length().abs_diff(other.call.length()) <= 1);
                    assert_ne!(one, other);
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

#[test]
fn a_death_in_a_barrier_ends_it_at_every_rank() {
    for algorithm in [barrier::Algorithm::BinaryTree, barrier::Algorithm::Dissemination] {
        for victim in 0..7 {
            let ports = tight_ports(7, 7);
            kill(&ports[(victim + 1) % 7], victim as u32);
            let results: Vec<Outcome> = run(ports, 3, async |group| {
                if group.rank() == victim as u32 {
                    return Ok(());
                }
                barrier(group, Some(algorithm)).await
            });
            for (rank, result) in results.into_iter().enumerate() {
                let names = match result {
                    Err(CollError::Message(MsgError::PeerFailed(failure))) => failure.rank,
                    Err(CollError::Abandoned { cause: Cause::Gone { rank }, .. }) => rank,
                    Ok(()) if rank == victim => continue,
                    other => panic!("rank {rank}: {other:?}"),
                };
                assert_eq!(names, victim as u32);
            }
        }
    }
}

#[test]
fn a_rank_that_calls_something_else_is_an_error_at_all() {
    let results = run(tight_ports(4, 2), 8, async |group| {
        if group.rank() == 3 {
            gather(group, None, Some(&[1; 8]), &mut [], 0).await
        } else {
            broadcast(group, None, &mut [0; 8], 3).await
        }
    });
    // A rank that only sends may finish before it can know.
    let failed = results.iter().filter(|result| result.is_err()).count();
    assert!(failed >= 3, "{results:?}");
    // Rank 3 makes no further call, so it cannot be asked which call it was.
    let named = |result: &Outcome| {
        matches!(result, Err(CollError::Abandoned { peer: 3, cause: Cause::OtherCall, .. }))
    };
    assert!(results.iter().any(named), "{results:?}");
}
