//! Ranks that disagree, abandon a call or die: an error at every rank that is still in the
//! operation, and never a deadlock (which the network would detect).

use std::cell::Cell;

use hikyaku_coll::{
    Cause, CollError, Facilities, Group, Reduction, allgather, allreduce, alltoall, alltoallv,
    alltoallw, alltoallw_in_place, barrier, broadcast, gather, reduce_scatter_block, scan, scatter,
};
use hikyaku_msg::Layout;
use proptest::prelude::*;

use crate::case::{Case, add, everything};
use crate::network::{NetworkError, Node, Setup, run};
use crate::oracle::{ALL, nodes};

type Error = CollError<NetworkError>;

fn setup(size: u32, seed: u64) -> Setup {
    Setup { seed, nodes: nodes(size, 2, seed), facilities: Facilities::default(), death: None }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1500, failure_persistence: None, ..ProptestConfig::default()
    })]

    /// Whenever a rank dies, all others end: with success, if they no longer needed it, or with an
    /// error that names it.
    #[test]
    fn a_death_ends_an_operation_at_every_rank(
        what in 0..everything().len(),
        size in 2u32..=12,
        root in 0u32..12,
        elements in 0usize..40,
        victim in 0u32..12,
        polls in 0usize..12,
        layout in 0u32..4,
        seed: u64,
    ) {
        let what = everything()[what];
        let case = Case { what, size, root: root % size, elements, commutative: true, seed };
        let victim = victim % size;
        // Counters and the network's barrier do not know ranks; groups that have them detect
        // deaths.
        let facilities = Facilities { multicast: true, ..Facilities::default() };
        let nodes = nodes(size, layout, seed);
        let setup = Setup { seed, nodes, facilities, death: Some((victim, polls)) };
        let entered = Cell::new(0);
        let results = run(&setup, async |node: &Node<u8>| case.perform(node, &entered, 1).await);
        for (rank, result) in (0..).zip(results) {
            match result {
                // It died, or it finished before.
                None => prop_assert_eq!(rank, victim),
                Some(Ok(result)) => prop_assert_eq!(result, case.expected(rank)),
                Some(Err(CollError::Unsuitable { .. })) => {}
                Some(Err(error)) => prop_assert!(names(&error, victim), "rank {}: {}", rank, error),
            }
        }
    }

    /// One rank calls with more bytes, so that it may even choose another algorithm.
    #[test]
    fn ranks_that_disagree_on_the_length_of_an_allreduce_all_fail(
        size in 2u32..=12,
        odd in 0u32..12,
        length in prop_oneof![0usize..100, Just(1usize << 16), Just(1usize << 17)],
        other in prop_oneof![0usize..100, Just(1usize << 16), Just(1usize << 17)],
        seed: u64,
    ) {
        prop_assume!(length != other);
        let odd = odd % size;
        let results = run(&setup(size, seed), async |node: &Node<u8>| {
            let mut data = vec![1; if node.rank() == odd { other } else { length }];
            allreduce(node, None, &mut data, add()).await
        });
        for (rank, result) in (0..).zip(results) {
            prop_assert!(matches!(result, Some(Err(_))), "rank {} got {:?}", rank, result);
        }
    }

    /// The same for a broadcast, in which only the receivers of a wrong message can detect it. No
    /// rank waits for ever, and none accepts a wrong length.
    #[test]
    fn a_broadcast_of_another_length_than_expected_is_an_error_where_it_arrives(
        size in 2u32..=12, odd in 0u32..12, length in 0usize..40, other in 0usize..40, seed: u64,
    ) {
        prop_assume!(length != other);
        let odd = odd % size;
        for algorithm in broadcast::Algorithm::ALL {
            let results = run(&setup(size, seed), async |node: &Node<u8>| {
                let mut data = vec![1; if node.rank() == odd { other } else { length }];
                broadcast(node, Some(*algorithm), &mut data, 0).await
            });
            prop_assert!(results.iter().any(|result| matches!(result, Some(Err(_)))));
            let told = |result: &Option<Result<(), Error>>| matches!(result, Some(Err(_)));
            prop_assert!(odd == 0 || told(&results[odd as usize]), "{:?}", results);
        }
    }
}

fn names(error: &Error, victim: u32) -> bool {
    match error {
        CollError::Message(NetworkError::Dead(rank)) => *rank == victim,
        CollError::Abandoned { cause: Cause::Gone { rank }, .. } => *rank == victim,
        _ => false,
    }
}

/// The message of each rank's error.
fn lines(results: Vec<Option<Result<(), Error>>>) -> Vec<String> {
    results.into_iter().map(|result| result.unwrap().unwrap_err().to_string()).collect()
}

#[test]
fn a_mismatch_names_the_ranks_and_their_sizes_everywhere() {
    let results = run(&setup(3, 1), async |node: &Node<u8>| {
        let mut data = vec![0; if node.rank() == 1 { 4 } else { 8 }];
        scan(node, None, &mut data, add()).await
    });
    // Rank 0 only sends, and may finish before it is notified.
    for result in results.into_iter().skip(1) {
        let line = result.unwrap().unwrap_err().to_string();
        let call = "called scan by its own reduction of";
        let first = format!("rank 0 {call} 8 bytes where rank 1 {call} 4 bytes: all ranks call");
        let second = format!("rank 1 {call} 4 bytes where rank 2 {call} 8 bytes: all ranks call");
        assert!(line.starts_with(&first) || line.starts_with(&second), "{line}");
    }
}

/// Rank 1 sends rank 2 a part that is one element longer than its place.
#[test]
fn a_mismatch_of_layouts_names_the_ranks_and_their_sizes() {
    for algorithm in alltoallw::Algorithm::ALL {
        let results = run(&setup(3, 1), async |node: &Node<u8>| {
            let column = |peer: usize| Layout::vector(peer * 4, 2, 4, 12);
            let mut parts: Vec<Layout> = (0..3).map(column).collect();
            let places = parts.clone();
            if node.rank() == 1 {
                parts[2] = Layout::vector(8, 3, 4, 12);
            }
            alltoallw(node, Some(*algorithm), &[1; 36], &parts, &mut [0; 36], &places).await
        });
        let line = results[2].clone().unwrap().unwrap_err().to_string();
        let told = "rank 1 called alltoallw of 12 bytes where rank 2 called alltoallw of 8 bytes: \
                    all ranks call the same operations in the same order, with arguments that fit";
        assert_eq!(line, told);
        for rank in [0, 1] {
            // A rank that has sent and received all its parts may finish before it is notified.
            if let Err(error) = results[rank].clone().unwrap() {
                assert_eq!(error.to_string(), told);
            }
        }
    }
}

#[test]
fn wrong_layouts_are_errors_at_the_rank_that_gives_them_and_told_to_the_others() {
    let results = run(&setup(2, 4), async |node: &Node<u8>| {
        let odd = usize::from(node.rank() == 0);
        let two = [Layout::from(0..2), Layout::from(2..4)];
        let outside = [Layout::from(0..2), Layout::vector(2, 2, 1, 1 + odd)];
        let other = [Layout::from(0..2 + odd), Layout::from(2..4)];
        let mut all = Vec::new();
        let (data, mut into) = ([0; 4], [0; 4]);
        for (parts, places) in [(&two[odd..], &two[..]), (&two, &two[odd..]), (&outside, &two)] {
            all.push(alltoallw(node, None, &data, parts, &mut into, places).await);
        }
        all.push(alltoallw(node, None, &data, &two, &mut into, &outside).await);
        all.push(alltoallw(node, None, &data, &two, &mut into, &other).await);
        all.push(alltoallw_in_place(node, &mut into, &outside).await);
        all
    });
    let lines: Vec<Vec<String>> = results
        .into_iter()
        .map(|all| all.unwrap().into_iter().map(|it| it.unwrap_err().to_string()).collect())
        .collect();
    let outside = "alltoallw: the layout for rank 1 reaches to byte 5 of an array of 4";
    assert_eq!(
        lines[0],
        [
            "alltoallw: the list of layouts to send, one a rank, has 1 where 2 are needed",
            "alltoallw: the list of layouts to receive, one a rank, has 1 where 2 are needed",
            outside,
            outside,
            "alltoallw: a rank's part for itself, in bytes, has 3 where 2 are needed",
            outside,
        ]
    );
    let told = "alltoallw: rank 0 abandoned it: its own call failed there";
    assert!(lines[1].iter().all(|line| line == told), "{:?}", lines[1]);
}

#[test]
fn a_rank_in_another_operation_is_named() {
    let results = run(&setup(2, 5), async |node: &Node<u8>| {
        if node.rank() == 0 {
            barrier(node, None).await
        } else {
            broadcast(node, None, &mut [0; 3], 1).await
        }
    });
    let lines = lines(results);
    assert!(
        lines.iter().all(|line| line.contains("called broadcast with root 1 of 3 bytes")
            && line.contains("called barrier")),
        "{lines:?}"
    );
}

#[test]
fn an_operation_dropped_at_one_rank_ends_at_all() {
    for polled in [false, true] {
        let results = run(&setup(4, 2), async |node: &Node<u8>| {
            let mut data = [0; 9];
            if node.rank() != 2 {
                return allreduce(node, None, &mut data, add()).await;
            }
            let mut operation = Box::pin(allreduce(node, None, &mut data, add()));
            if polled {
                let mut context = std::task::Context::from_waker(std::task::Waker::noop());
                assert!(operation.as_mut().poll(&mut context).is_pending());
            }
            drop(operation);
            Ok(())
        });
        for (rank, result) in (0..).zip(results) {
            let error =
                CollError::Abandoned { operation: "allreduce", peer: 2, cause: Cause::Dropped };
            assert_eq!(result, Some(if rank == 2 { Ok(()) } else { Err(error) }));
        }
    }
}

#[test]
fn after_a_failure_the_next_operation_works() {
    let results = run(&setup(5, 7), async |node: &Node<u8>| {
        let mut data = vec![1; if node.rank() == 3 { 4 } else { 8 }];
        assert!(allreduce(node, None, &mut data, add()).await.is_err());
        let mut data = [1; 8];
        allreduce(node, None, &mut data, add()).await.unwrap();
        data
    });
    assert_eq!(results, [Some([5; 8]); 5]);
}

#[test]
fn wrong_arguments_are_errors_at_the_rank_that_gives_them_and_told_to_the_others() {
    let results = run(&setup(2, 4), async |node: &Node<u8>| {
        let first = node.rank() == 0;
        let mut six = [0; 6];
        let mut all = Vec::new();
        all.push(broadcast(node, None, &mut six, if first { 2 } else { 0 }).await);
        all.push(gather(node, None, if first { None } else { Some(&[1]) }, &mut six[..2], 1).await);
        all.push(gather(node, None, Some(&[1]), &mut six[..3], 0).await);
        let own = if first { None } else { Some(&mut [0][..]) };
        all.push(scatter(node, None, &[1, 2], own, 1).await);
        let odd = if first { 5 } else { 6 };
        all.push(allgather(node, None, None, &mut six[..odd]).await);
        all.push(alltoall(node, None, &[1, 2], &mut [0; 6][..if first { 3 } else { 2 }]).await);
        all.push(
            alltoallv(
                node,
                None,
                &[&[1][..], &[2][..]][..odd - 4],
                vec![&mut [0][..], &mut [0][..]],
            )
            .await,
        );
        let pairs = Reduction { width: 2, ..add() };
        all.push(allreduce(node, None, &mut six[..odd], pairs).await);
        all.push(reduce_scatter_block(node, None, &mut [0; 4], &mut six[..odd - 4], add()).await);
        all
    });
    let line = |rank: usize, at: usize| match &results[rank] {
        Some(all) => all[at].as_ref().err().map(ToString::to_string).unwrap_or_default(),
        None => String::new(),
    };
    let first: Vec<String> = (0..9).map(|at| line(0, at)).collect();
    assert_eq!(
        first,
        [
            "broadcast: rank 2 cannot be the root: there are ranks 0 to 1",
            "gather: rank 0 is not the root 1, so it must give a part of its own",
            "gather: the buffer for all parts has 3 elements, which cannot be divided evenly \
             among 2 ranks",
            "scatter: rank 0 is not the root 1, so it must give a part of its own",
            "allgather: the array of all parts has 5 elements, which cannot be divided evenly \
             among 2 ranks",
            "alltoall: the array of parts to receive, in bytes, has 3 where 2 are needed",
            "alltoall: the list of parts to send, one a rank, has 1 where 2 are needed",
            "allreduce: the array, in bytes of whole elements, has 5 where 6 are needed",
            "reduce_scatter: the buffer for the result, in bytes, has 1 where 2 are needed",
        ]
    );
    for at in [0, 1, 3, 4, 5, 6, 7, 8] {
        let told = line(1, at);
        // The root of the scatter may have sent everything before it is notified.
        let is_over = at == 3 && told.is_empty();
        assert!(
            is_over || told.ends_with("rank 0 abandoned it: its own call failed there"),
            "{at}"
        );
    }
}

#[test]
fn cp_08_an_algorithm_that_needs_what_is_not_there_says_what() {
    let results = run(&setup(3, 4), async |node: &Node<u8>| {
        let mut all = Vec::new();
        for algorithm in ["atomic-add", "multicast-add", "sync"] {
            let algorithm = barrier::Algorithm::from_name(algorithm);
            all.push(barrier(node, algorithm).await.unwrap_err().to_string());
        }
        for algorithm in ["binary-tree", "multicast"] {
            let algorithm = broadcast::Algorithm::from_name(algorithm);
            all.push(broadcast(node, algorithm, &mut [0], 0).await.unwrap_err().to_string());
        }
        let ordered = Reduction { commutative: false, ..add() };
        let ring = Some(allreduce::Algorithm::Ring);
        all.push(allreduce(node, ring, &mut [0], ordered).await.unwrap_err().to_string());
        all
    });
    let lines = [
        "barrier by atomic-add needs ranks that share memory, or remote counters",
        "barrier by multicast-add needs ranks that share memory, or multicast to counters",
        "barrier by sync needs ranks that share memory, or a network that synchronises",
        "broadcast by binary-tree needs a number of ranks that is a power of two",
        "broadcast by multicast needs ranks that share memory, or a network that multicasts",
        "allreduce by ring needs a commutative reduction",
    ];
    let lines = lines.map(|line| format!("{line}: choose another algorithm or none"));
    assert_eq!(results[1].as_deref(), Some(&lines[..]));
    assert!(results.iter().all(|result| *result == results[0]));
}

#[test]
fn facilities_are_chosen_where_they_are() {
    let all = Setup { facilities: ALL, ..setup(5, 3) };
    let results = run(&all, async |node: &Node<u8>| {
        barrier(node, None).await.unwrap();
        let mut data = [node.rank() as u8];
        broadcast(node, None, &mut data, 3).await.unwrap();
        data
    });
    assert_eq!(results, [Some([3]); 5]);
}
