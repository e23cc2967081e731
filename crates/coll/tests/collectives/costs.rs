//! Counts messages and commands, and compares them with the tables of the operations.

use hikyaku_coll::{
    Reduction, allgather, allreduce, alltoall, alltoallw, barrier, broadcast, scatter,
};
use hikyaku_msg::Layout;

use crate::network::{Counts, Node, Setup, run};
use crate::oracle::ALL;

/// The messages and commands that each of `size` ranks starts in one operation.
fn counts(size: u32, body: impl AsyncFn(&Node<u8>)) -> Vec<Counts> {
    let nodes = (0..size).map(|rank| rank / 4).collect();
    counted(nodes, body, Node::counts)
}

/// The final count of each rank, with ranks on these nodes.
fn counted<R>(
    nodes: Vec<u32>,
    body: impl AsyncFn(&Node<u8>),
    count: impl Fn(&Node<u8>) -> R,
) -> Vec<R> {
    let setup = Setup { seed: 1, nodes, facilities: ALL, death: None };
    let body = async |node: &Node<u8>| {
        body(node).await;
        count(node)
    };
    run(&setup, body).into_iter().flatten().collect()
}

fn messages(counts: &[Counts]) -> Vec<usize> {
    counts.iter().map(|count| count.messages).collect()
}

/// The barriers of paper 003's Fig. 10 and the two others. C and D are counted in
/// [`crate::groups`].
#[test]
fn cj_15_cj_22_barriers_send_what_the_paper_says() {
    let by = |algorithm: barrier::Algorithm| {
        counts(16, async move |node| barrier(node, Some(algorithm)).await.unwrap())
    };
    let total = |counts: &[Counts]| messages(counts).iter().sum::<usize>();
    assert_eq!(total(&by(barrier::Algorithm::AllToAll)), 16 * 15);
    assert_eq!(total(&by(barrier::Algorithm::BinaryTree)), 2 * 15);
    assert_eq!(total(&by(barrier::Algorithm::WideTree)), 2 * 15);
    assert_eq!(messages(&by(barrier::Algorithm::Dissemination)), [4; 16]);
    assert_eq!(by(barrier::Algorithm::Sync), vec![Counts::default(); 16]);
}

/// Paper 004, Fig. 4: a tree in log2 P steps whose sends are one chain, P - 1 sends at the root,
/// and one message along each line of the network.
#[test]
fn cp_06_cp_08_broadcasts_send_what_the_paper_says() {
    let by = |algorithm| {
        counts(32, async move |node| {
            broadcast(node, Some(algorithm), &mut [0; 10], 5).await.unwrap();
        })
    };
    use broadcast::Algorithm::{Lines, Read};
    let by_messages = |by: &&broadcast::Algorithm| !matches!(by, Lines | Read);
    for algorithm in broadcast::Algorithm::ALL.iter().filter(by_messages) {
        let sent = by(*algorithm);
        assert_eq!(messages(&sent).iter().sum::<usize>(), 31, "{algorithm:?}");
        assert_eq!(sent.iter().map(|count| count.bytes).sum::<usize>(), 310);
    }
    let root = |algorithm| by(algorithm)[5];
    let tree = root(broadcast::Algorithm::BinaryTree);
    assert_eq!((tree.messages, tree.commands), (5, 1));
    let one_by_one = root(broadcast::Algorithm::PointToPoint);
    assert_eq!((one_by_one.messages, one_by_one.commands), (31, 31));
    assert_eq!(root(broadcast::Algorithm::System).messages, 3);
    assert!(by(broadcast::Algorithm::Pipelined).iter().all(|count| count.messages <= 1));
    assert_eq!(root(broadcast::Algorithm::Multicast).commands, 1);
}

/// Paper 004, Fig. 6: log2 P sends of doubling length.
#[test]
fn cp_10_a_butterfly_sends_log2_times() {
    let by = |algorithm| {
        counts(8, async move |node| {
            allgather(node, Some(algorithm), None, &mut [0; 80]).await.unwrap();
        })
    };
    let sent =
        |messages, commands| vec![Counts { messages, bytes: 70, commands, ..Counts::default() }; 8];
    assert_eq!(by(allgather::Algorithm::Butterfly), sent(3, 3));
    assert_eq!(by(allgather::Algorithm::Bruck), sent(3, 3));
    assert_eq!(by(allgather::Algorithm::Ring), sent(7, 7));
}

/// Paper 004, Figs. 5 and 9: all of a node's messages are one chain.
#[test]
fn cp_06_cp_12_chains_are_one_command() {
    let by = |algorithm| {
        counts(8, async move |node| {
            alltoall(node, Some(algorithm), &[0; 16], &mut [0; 16]).await.unwrap();
        })
    };
    let sent = |messages, bytes, commands| {
        vec![Counts { messages, bytes, commands, ..Counts::default() }; 8]
    };
    assert_eq!(by(alltoall::Algorithm::Chained), sent(7, 14, 1));
    assert_eq!(by(alltoall::Algorithm::Pairwise), sent(7, 14, 7));
    assert_eq!(by(alltoall::Algorithm::Bruck), sent(3, 24, 3));
    let by_layouts = |algorithm| {
        counts(8, async move |node| {
            let columns: Vec<Layout> = (0..8).map(|to| Layout::vector(to, 2, 1, 8)).collect();
            let (data, mut into) = ([0; 16], [0; 16]);
            alltoallw(node, Some(algorithm), &data, &columns, &mut into, &columns).await.unwrap();
        })
    };
    assert_eq!(by_layouts(alltoallw::Algorithm::Chained), sent(7, 14, 1));
    assert_eq!(by_layouts(alltoallw::Algorithm::Pairwise), sent(7, 14, 7));
    let scattered = |algorithm| {
        let all = counts(8, async move |node| {
            scatter(node, Some(algorithm), &[0; 16], Some(&mut [0; 2]), 0).await.unwrap();
        });
        (all[0].messages, all[0].commands)
    };
    assert_eq!(scattered(scatter::Algorithm::Chained), (7, 1));
    assert_eq!(scattered(scatter::Algorithm::Linear), (7, 7));
    assert_eq!(scattered(scatter::Algorithm::Binomial), (3, 3));
}

/// Paper 002, future work: the data of a node's ranks for those of another is one message.
#[test]
fn two_nodes_exchange_one_message_each_way() {
    let between = |nodes: &[u32], algorithm| {
        let size = nodes.len();
        let body = async move |node: &Node<u8>| {
            let (data, mut into) = (vec![1; 3 * size], vec![0; 3 * size]);
            alltoall(node, Some(algorithm), &data, &mut into).await.unwrap();
            assert_eq!(into, data);
        };
        counted(nodes.to_vec(), body, |node| node.between_nodes())
    };
    use alltoall::Algorithm::{Chained, TwoLevel};
    let fours: Vec<u32> = (0..16).map(|rank| rank / 4).collect();
    assert_eq!(between(&fours, Chained), [12; 16]);
    // Each rank but the last of each node represents one of the three other nodes.
    assert_eq!(between(&fours, TwoLevel), [1, 1, 1, 0].repeat(4));
    // Nodes of 1, 5 and 2 ranks that are not consecutive.
    let mixed = between(&[1, 0, 1, 2, 1, 1, 2, 1], TwoLevel);
    assert_eq!(mixed, [1, 2, 1, 1, 0, 0, 1, 0]);
    assert_eq!(between(&[3; 4], TwoLevel), [0; 4]);
}

#[test]
fn allreduces_send_what_their_table_says() {
    let by = |algorithm| {
        counts(8, async move |node| {
            let nothing = Reduction::commutative(1, |_: &[u8], _: &mut [u8]| {});
            allreduce(node, Some(algorithm), &mut [0; 80], nothing).await.unwrap();
        })
    };
    let sent = |messages, bytes, commands| {
        vec![Counts { messages, bytes, commands, ..Counts::default() }; 8]
    };
    assert_eq!(by(allreduce::Algorithm::RecursiveDoubling), sent(3, 240, 3));
    assert_eq!(by(allreduce::Algorithm::Ring), sent(14, 140, 14));
    // Two nodes of four: between them, one message each way.
    let leaders = messages(&by(allreduce::Algorithm::TwoLevel));
    assert_eq!(leaders, [3, 1, 2, 1, 3, 1, 2, 1]);
}
