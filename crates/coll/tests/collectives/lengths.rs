//! Groups that carry only lengths, as in a simulation of many ranks, and what stays O(1) there.

use hikyaku_coll::{
    Group, Reduction, allgather, allreduce, alltoall, alltoallw, barrier, broadcast,
};
use hikyaku_msg::Layout;

use crate::network::{Node, Setup, run};
use crate::oracle::ALL;

#[test]
fn every_algorithm_runs_on_terabytes_that_are_not_there() {
    const HUGE: usize = 1 << 40;
    let nothing = Reduction::commutative(8, |_: &[()], _: &mut [()]| {});
    let facilities = hikyaku_coll::Facilities { lines: false, ..ALL };
    let setup = Setup { seed: 3, nodes: vec![0, 0, 0, 1, 1, 2], facilities, death: None };
    run(&setup, async |node: &Node<()>| {
        let size = node.size() as usize;
        // Lines need real bytes.
        use allreduce::Algorithm as Reduced;
        let by_messages = |by: &&Reduced| !matches!(by, Reduced::Lines | Reduced::Read);
        for algorithm in allreduce::Algorithm::ALL.iter().filter(by_messages) {
            let mut data = vec![(); HUGE];
            allreduce(node, Some(*algorithm), &mut data, nothing).await.unwrap();
        }
        use allgather::Algorithm as Gathered;
        let by_messages = |by: &&Gathered| !matches!(by, Gathered::Lines | Gathered::Read);
        for algorithm in allgather::Algorithm::ALL.iter().filter(by_messages) {
            let mut all = vec![(); HUGE * size];
            allgather(node, Some(*algorithm), Some(&[(); HUGE]), &mut all).await.unwrap();
        }
        use alltoall::Algorithm as Parted;
        let by_messages = |by: &&Parted| !matches!(by, Parted::Lines | Parted::Read);
        for algorithm in alltoall::Algorithm::ALL.iter().filter(by_messages) {
            let (data, mut into) = (vec![(); HUGE * size], vec![(); HUGE * size]);
            alltoall(node, Some(*algorithm), &data, &mut into).await.unwrap();
        }
        for algorithm in alltoallw::Algorithm::ALL {
            let (data, mut into) = (vec![(); HUGE * size], vec![(); HUGE * size]);
            let half = HUGE / 2;
            let columns = |to| Layout::vector(to * half, 2, half, size * half);
            let columns: Vec<Layout> = (0..size).map(columns).collect();
            alltoallw(node, Some(*algorithm), &data, &columns, &mut into, &columns).await.unwrap();
        }
        broadcast(node, None, &mut [(); HUGE], 4).await.unwrap();
    });
}

#[test]
fn a_thousand_ranks_agree() {
    let nodes = (0..1000).map(|rank| rank / 8).collect();
    let facilities = hikyaku_coll::Facilities::default();
    let setup = Setup { seed: 9, nodes, facilities, death: None };
    let results = run(&setup, async |node: &Node<u8>| {
        let mut sum = 1u32.to_le_bytes();
        let add = Reduction::commutative(4, |left: &[u8], right: &mut [u8]| {
            let read = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
            right.copy_from_slice(&(read(left) + read(right)).to_le_bytes());
        });
        barrier(node, None).await.unwrap();
        allreduce(node, None, &mut sum, add).await.unwrap();
        u32::from_le_bytes(sum)
    });
    assert!(results.iter().all(|sum| *sum == Some(1000)));
}
