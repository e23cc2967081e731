//! Reductions round a ring with blocks so long that they are sent in pieces.

use hikyaku_coll::{CollError, CommunicatorGroup, Group, Reduction, allreduce, reduce_scatter};
use hikyaku_nic::loopback::LoopbackConfig;
use hikyaku_nic::segment::SegmentLayout;

use crate::engines::{TestPort, open, run};

const RANKS: u32 = 3;

/// The contribution of a rank: a different byte in each place.
fn given(rank: u32, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at as u32 * (2 * rank + 1) + at as u32 / 251) as u8).collect()
}

fn sums(length: usize) -> Vec<u8> {
    let mut all = vec![0_u8; length];
    for rank in 0..RANKS {
        all.iter_mut()
            .zip(given(rank, length))
            .for_each(|(sum, byte)| *sum = sum.wrapping_add(byte));
    }
    all
}

/// Elements are 3 bytes long, and pieces must end between elements.
fn add() -> Reduction<impl FnMut(&[u8], &mut [u8])> {
    Reduction::commutative(3, |left: &[u8], right: &mut [u8]| {
        assert!(left.len() == right.len() && left.len().is_multiple_of(3));
        right.iter_mut().zip(left).for_each(|(sum, byte)| *sum = sum.wrapping_add(*byte));
    })
}

fn ports() -> Vec<TestPort> {
    let layout = SegmentLayout::for_ranks(RANKS);
    open(&LoopbackConfig { layout, ranks_per_node: 1, region_bytes: 1 << 16 })
}

#[test]
fn blocks_of_several_pieces_are_combined_once() {
    // One piece per block, two of which the second is short, and three.
    for length in [307_200, 999_999, 2_000_001] {
        let by = Some(allreduce::Algorithm::Ring);
        let results = run(ports(), 5, async |group: &CommunicatorGroup<'_, TestPort>| {
            let mut data = given(group.rank(), length);
            allreduce(group, by, &mut data, add()).await.unwrap();
            data
        });
        assert!(results.iter().all(|result| *result == sums(length)), "{length} B");
    }
}

#[test]
fn blocks_of_unlike_numbers_of_pieces_go_round() {
    let lengths = [700_002, 0, 262_146];
    let results = run(ports(), 6, async |group: &CommunicatorGroup<'_, TestPort>| {
        let rank = group.rank();
        let mut data = given(rank, lengths.iter().sum());
        let mut into = vec![0; lengths[rank as usize]];
        let by = Some(reduce_scatter::Algorithm::Ring);
        reduce_scatter(group, by, &mut data, &lengths, &mut into, add()).await.unwrap();
        into
    });
    assert!(results.concat() == sums(lengths.iter().sum()));
}

#[test]
fn ranks_that_cut_blocks_elsewhere_all_fail() {
    let piece = (256_usize << 10).next_multiple_of(3);
    let results = run(ports(), 7, async |group: &CommunicatorGroup<'_, TestPort>| {
        let rank = group.rank();
        // One rank takes a whole piece for another one.
        let lengths = if rank == 1 { [piece, 2 * piece, piece] } else { [2 * piece, piece, piece] };
        let mut data = given(rank, 4 * piece);
        let mut into = vec![0; lengths[rank as usize]];
        let by = Some(reduce_scatter::Algorithm::Ring);
        reduce_scatter(group, by, &mut data, &lengths, &mut into, add()).await
    });
    for result in results {
        assert!(matches!(result, Err(CollError::Differ { .. })), "{result:?}");
    }
}
