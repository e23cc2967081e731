//! Tests of a communicator's book: its ranks and the collectives started in it.

use hikyaku_coll::{CollectiveBook, CommunicatorGroup, Group, Made, Operation, Signature};
use hikyaku_msg::{ContextEndpoint, Engine, EngineConfig};

use crate::engines::{run, tight_ports};

#[test]
fn a_book_goes_on_where_it_was_begun() {
    let port = tight_ports(1, 1).remove(0);
    let engine = Engine::new(port, EngineConfig::default()).into();
    let opened = |started| {
        let book = CollectiveBook::default().after(started);
        let group = CommunicatorGroup::new(ContextEndpoint::new(&engine, 9), &book);
        let made = Made { call: Signature::new(Operation::Barrier), algorithm: Some(0) };
        [group.open(made), group.open(made)]
    };
    assert_eq!(opened(0), [0, 1]);
    assert_eq!(opened(7), [7, 8]);
    assert_eq!(opened(u32::MAX), [u32::MAX, 0]);
}

#[test]
fn nodes_are_counted() {
    for (ranks, ranks_per_node, nodes) in [(1, 1, 1), (4, 4, 1), (4, 2, 2), (5, 2, 3), (3, 1, 3)] {
        let counted = run(tight_ports(ranks, ranks_per_node), 1, async |group| group.nodes());
        assert_eq!(counted, vec![nodes; ranks as usize], "{ranks_per_node} of {ranks} a node");
    }
}
