//! Data with gaps, at some ranks or at all: every algorithm that goes through them packet by packet,
//! against the oracle, between ranks that have none.

use std::sync::{Arc, Mutex};

use hikyaku_coll::{
    CollError, CommunicatorGroup, Failure, Group, Part, Place, allgather_scattered,
    allgatherv_scattered, allreduce_scattered, alltoall_in_place_scattered, alltoall_scattered,
    alltoallv_in_place_scattered, broadcast, broadcast_scattered, gather_scattered,
    scatter_scattered,
};
use hikyaku_msg::{Pieces, Scattered};
use hikyaku_nic::loopback::LoopbackPort;
use proptest::prelude::*;

use crate::case::{Case, WIDTH, What};
use crate::endpoints::with_messages;
use crate::engines::{run, tight_ports};

/// Most bytes that are beside the memory at a time: what ranks say on lines at once.
const MOST: usize = 64 << 10;

/// What is between the bytes.
const GAP: u8 = 0xEE;

type Ranks<'e> = CommunicatorGroup<'e, LoopbackPort>;

/// Bytes with a gap after each, or none.
#[derive(Clone)]
struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    stride: usize,
}

impl Memory {
    fn of(data: &[u8], gaps: bool) -> Memory {
        let stride = 1 + usize::from(gaps);
        let spread = data.iter().flat_map(|byte| [*byte, GAP].into_iter().take(stride));
        Memory { bytes: Arc::new(Mutex::new(spread.collect())), stride }
    }

    fn part(&self) -> Part<'static, u8> {
        Part::Scattered(Scattered::new(Box::new(self.clone())))
    }

    fn place(&self) -> Place<'static, u8> {
        Place::Scattered(Scattered::new(Box::new(self.clone())))
    }

    /// What is there now; nothing has gone between.
    fn data(&self) -> Vec<u8> {
        let bytes = self.bytes.lock().unwrap();
        let elements = bytes.chunks(self.stride);
        assert!(elements.clone().all(|one| one[1..].iter().all(|gap| *gap == GAP)));
        elements.map(|one| one[0]).collect()
    }
}

impl Pieces for Memory {
    fn len(&self) -> usize {
        self.bytes.lock().unwrap().len() / self.stride
    }

    fn pack(&self, from: usize, into: &mut [u8]) {
        assert!(into.len() <= MOST, "{} bytes beside the memory", into.len());
        let bytes = self.bytes.lock().unwrap();
        let rest = bytes.iter().step_by(self.stride).skip(from);
        assert!(rest.len() >= into.len());
        into.iter_mut().zip(rest).for_each(|(into, byte)| *into = *byte);
    }

    fn unpack(&mut self, at: usize, data: &[u8]) {
        let mut bytes = self.bytes.lock().unwrap();
        let rest = bytes.iter_mut().step_by(self.stride).skip(at);
        assert!(rest.len() >= data.len());
        rest.zip(data).for_each(|(byte, from)| *byte = *from);
    }

    fn again(&self) -> Box<dyn Pieces> {
        Box::new(self.clone())
    }
}

/// Those that have a form for data with gaps.
fn with_gaps() -> Vec<What> {
    let mut all = with_messages();
    all.retain(|what| {
        matches!(
            what,
            What::Broadcast(_)
                | What::Allreduce(_)
                | What::Gather(..)
                | What::Scatter(..)
                | What::Allgather(..)
                | What::Allgatherv(..)
                | What::Alltoall(_)
                | What::AlltoallInPlace
                | What::AlltoallvInPlace
        )
    });
    all
}

/// Makes the call at a rank whose data have gaps where it sends, where it receives, at both or at
/// neither; gives what it has then.
async fn perform(
    case: &Case,
    group: &Ranks<'_>,
    [out, into]: [bool; 2],
) -> Result<Vec<u8>, Failure<Ranks<'static>>> {
    let (rank, root, size) = (group.rank(), case.root, case.size as usize);
    let (at_root, length) = (rank == root, case.elements * WIDTH);
    let count = |rank| match case.what {
        What::Allgatherv(..) => case.count(rank),
        _ => case.elements,
    };
    let given = case.data(rank, 0, count(rank));
    // The part of this rank is in its place.
    let in_its_place = |mut all: Vec<u8>, start: usize, is_there: bool| {
        if is_there {
            all[start..][..given.len()].copy_from_slice(&given);
        }
        all
    };
    match case.what {
        What::Broadcast(by) => {
            let memory = Memory::of(&case.own(if at_root { root } else { rank }), into);
            broadcast_scattered(group, by, &mut memory.place(), root).await?;
            Ok(memory.data())
        }
        What::Allreduce(by) => {
            let memory = Memory::of(&case.own(rank), into);
            allreduce_scattered(group, by, &mut memory.place(), case.reduction()).await?;
            Ok(memory.data())
        }
        What::Gather(by, in_place) => {
            let all = vec![0; if at_root { length * size } else { 0 }];
            let in_place = in_place && at_root;
            let all = Memory::of(&in_its_place(all, root as usize * length, in_place), into);
            let mine = (!in_place).then(|| Memory::of(&given, out).part());
            gather_scattered(group, by, mine.as_ref(), &mut all.place(), root).await?;
            Ok(all.data())
        }
        What::Scatter(by, in_place) => {
            let parts = case.joined(|to| case.data(root, to, case.elements));
            let all = Memory::of(if at_root { &parts } else { &[] }, out);
            let in_place = in_place && at_root;
            let own = &parts[rank as usize * length..][..length];
            let mine = Memory::of(if in_place { own } else { &given }, into);
            let mut place = (!in_place).then(|| mine.place());
            scatter_scattered(group, by, &all.part(), place.as_mut(), root).await?;
            Ok(mine.data())
        }
        What::Allgather(_, in_place) | What::Allgatherv(_, in_place) => {
            let lengths: Vec<usize> = case.ranks().map(|rank| count(rank) * WIDTH).collect();
            let start = lengths[..rank as usize].iter().sum();
            let all = in_its_place(vec![0; lengths.iter().sum()], start, in_place);
            let (all, mine) = (Memory::of(&all, into), (!in_place).then_some(&given[..]));
            match case.what {
                What::Allgather(by, _) => {
                    allgather_scattered(group, by, mine, &mut all.place()).await?;
                }
                What::Allgatherv(by, _) => {
                    allgatherv_scattered(group, by, mine, &mut all.place(), &lengths).await?;
                }
                _ => unreachable!("the outer match has these only"),
            }
            Ok(all.data())
        }
        What::AlltoallvInPlace => {
            let part = |to| case.data(rank, to, case.symmetric_count(rank, to));
            let blocks: Vec<Memory> =
                case.ranks().map(|to| Memory::of(&part(to), into ^ (to % 2 == 0))).collect();
            let mut places: Vec<Place<'_, u8>> = blocks.iter().map(Memory::place).collect();
            alltoallv_in_place_scattered(group, places.iter_mut().collect()).await?;
            Ok(blocks.iter().flat_map(Memory::data).collect())
        }
        _ => {
            let parts = Memory::of(&case.joined(|to| case.data(rank, to, case.elements)), out);
            let What::Alltoall(by) = case.what else {
                alltoall_in_place_scattered(group, &mut parts.place()).await?;
                return Ok(parts.data());
            };
            let all = Memory::of(&vec![0; length * size], into);
            alltoall_scattered(group, by, &parts.part(), &mut all.place()).await?;
            Ok(all.data())
        }
    }
}

/// Every rank has gaps or not, as `seed` says; all have what the oracle says.
fn check(case: &Case, ranks_per_node: u32) {
    let ports = tight_ports(case.size, ranks_per_node);
    let results = run(ports, case.seed, async |group: &Ranks<'_>| {
        let draw = (case.seed >> (2 * group.rank() + 1)) as usize;
        let gaps = [draw % 2 == 1, draw / 2 % 2 == 1];
        perform(case, group, gaps).await
    });
    if results.iter().all(|it| matches!(it, Err(CollError::Unsuitable { .. }))) {
        return;
    }
    for (rank, result) in (0..).zip(results) {
        assert!(result == Ok(case.expected(rank)), "rank {rank} of {case:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn every_algorithm_takes_data_with_gaps(
        what in 0..with_gaps().len(),
        size in 1u32..=17,
        root in 0u32..17,
        elements in prop_oneof![0usize..6, 30usize..200],
        commutative: bool,
        ranks_per_node in 1u32..=17,
        seed: u64,
    ) {
        let what = with_gaps()[what];
        let case = Case { what, size, root: root % size, elements, commutative, seed };
        check(&case, ranks_per_node);
    }
}

/// Longer than a packet; in place also as long as what is exchanged at a time, and longer.
#[test]
fn long_data_with_gaps_go_packet_by_packet() {
    for what in with_gaps() {
        let is_in_place = matches!(what, What::AlltoallInPlace);
        let lengths: &[usize] = if is_in_place { &[4096, 4097] } else { &[600] };
        for (size, ranks_per_node, seed) in [(3, 3, 0x35), (4, 2, 0xb7)] {
            for elements in lengths {
                let elements = *elements;
                let case = Case { what, size, root: 1, elements, commutative: true, seed };
                check(&case, ranks_per_node);
            }
        }
    }
}

/// Ranks with gaps and without them are in the same call: they make it by its two functions.
#[test]
fn ranks_without_gaps_need_not_know_of_them() {
    for (ranks_per_node, length) in [(3, 200_000), (1, 20_000), (2, 20_000)] {
        let results = run(tight_ports(3, ranks_per_node), 5, async |group: &Ranks<'_>| {
            let given = vec![group.rank() as u8 + 1; length];
            if group.rank() == 1 {
                let mut data = given;
                broadcast(group, None, &mut data, 2).await.unwrap();
                return data;
            }
            let memory = Memory::of(&given, true);
            broadcast_scattered(group, None, &mut memory.place(), 2).await.unwrap();
            memory.data()
        });
        assert!(results.iter().all(|data| *data == vec![3; length]));
    }
}
