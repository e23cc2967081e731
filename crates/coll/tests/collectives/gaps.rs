//! Data with gaps, at some ranks or all, against the oracle: every algorithm that accesses it
//! packet by packet, also with ranks whose data has no gaps.

use std::sync::{Arc, Mutex};

use hikyaku_coll::{
    CollError, CommunicatorGroup, Failure, Group, Part, Place, allgather_scattered,
    allgatherv_scattered, allreduce_scattered, alltoall_in_place_scattered, alltoall_scattered,
    alltoallv_in_place_scattered, broadcast, broadcast_scattered, gather_scattered,
    scatter_scattered,
};
use hikyaku_msg::{Pieces, Scattered};
use proptest::prelude::*;

use crate::case::{Case, WIDTH, What, cases};
use crate::endpoints::with_messages;
use crate::engines::{TestPort, run, tight_ports};

/// The maximum number of bytes that are buffered at a time: the contributions on lines.
const MOST: usize = 64 << 10;

/// The bytes in the gaps.
const GAP: u8 = 0xEE;

type Ranks<'e> = CommunicatorGroup<'e, TestPort>;

/// Bytes with a gap after each, or without gaps.
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

    /// The current data. Checks that the gaps are unchanged.
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

/// The operations that have a form for data with gaps.
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

/// Makes the call at a rank whose data has gaps where it sends, where it receives, at both or at
/// neither. Returns this rank's data.
async fn perform(
    case: &Case,
    group: &Ranks<'_>,
    gaps: [bool; 2],
) -> Result<Vec<u8>, Failure<Ranks<'static>>> {
    let rank = group.rank();
    match case.what {
        What::Broadcast(by) => {
            let memory = Memory::of(&case.own(rank), gaps[1]);
            broadcast_scattered(group, by, &mut memory.place(), case.root).await?;
            Ok(memory.data())
        }
        What::Allreduce(by) => {
            let memory = Memory::of(&case.own(rank), gaps[1]);
            allreduce_scattered(group, by, &mut memory.place(), case.reduction()).await?;
            Ok(memory.data())
        }
        What::Gather(..) | What::Scatter(..) => perform_rooted(case, group, gaps).await,
        What::Allgather(..) | What::Allgatherv(..) => perform_allgather(case, group, gaps[1]).await,
        _ => perform_alltoall(case, group, gaps).await,
    }
}

async fn perform_rooted(
    case: &Case,
    group: &Ranks<'_>,
    [out, into]: [bool; 2],
) -> Result<Vec<u8>, Failure<Ranks<'static>>> {
    let (rank, root, length) = (group.rank(), case.root, case.elements * WIDTH);
    let (at_root, own) = (rank == root, rank as usize * length);
    if let What::Scatter(by, in_place) = case.what {
        let parts = case.joined(|to| case.data(root, to, case.elements));
        let all = Memory::of(if at_root { &parts } else { &[] }, out);
        let is_there = in_place && at_root;
        let here = if is_there { parts[own..][..length].to_vec() } else { vec![0; length] };
        let mine = Memory::of(&here, into);
        let mut place = (!is_there).then(|| mine.place());
        scatter_scattered(group, by, &all.part(), place.as_mut(), root).await?;
        return Ok(mine.data());
    }
    let What::Gather(by, in_place) = case.what else { unreachable!("the caller has these only") };
    let (given, is_there) = (case.own(rank), in_place && at_root);
    let mut all = vec![0; if at_root { length * case.size as usize } else { 0 }];
    if is_there {
        all[own..][..length].copy_from_slice(&given);
    }
    let all = Memory::of(&all, into);
    let mine = (!is_there).then(|| Memory::of(&given, out).part());
    gather_scattered(group, by, mine.as_ref(), &mut all.place(), root).await?;
    Ok(all.data())
}

async fn perform_allgather(
    case: &Case,
    group: &Ranks<'_>,
    into: bool,
) -> Result<Vec<u8>, Failure<Ranks<'static>>> {
    let (What::Allgather(_, in_place) | What::Allgatherv(_, in_place)) = case.what else {
        unreachable!("the caller has these only")
    };
    let count = |rank| match case.what {
        What::Allgatherv(..) => case.count(rank),
        _ => case.elements,
    };
    let rank = group.rank();
    let given = case.data(rank, 0, count(rank));
    let lengths: Vec<usize> = case.ranks().map(|rank| count(rank) * WIDTH).collect();
    let all = case.joined(|from| match from == rank && in_place {
        true => given.clone(),
        false => vec![0; lengths[from as usize]],
    });
    let (all, mine) = (Memory::of(&all, into), (!in_place).then_some(&given[..]));
    match case.what {
        What::Allgather(by, _) => {
            allgather_scattered(group, by, mine, &mut all.place()).await?;
        }
        What::Allgatherv(by, _) => {
            allgatherv_scattered(group, by, mine, &mut all.place(), &lengths).await?;
        }
        _ => unreachable!("the caller has these only"),
    }
    Ok(all.data())
}

async fn perform_alltoall(
    case: &Case,
    group: &Ranks<'_>,
    [out, into]: [bool; 2],
) -> Result<Vec<u8>, Failure<Ranks<'static>>> {
    let rank = group.rank();
    if let What::AlltoallvInPlace = case.what {
        let part = |to| case.data(rank, to, case.symmetric_count(rank, to));
        let blocks: Vec<Memory> =
            case.ranks().map(|to| Memory::of(&part(to), into ^ (to % 2 == 0))).collect();
        let mut places: Vec<Place<'_, u8>> = blocks.iter().map(Memory::place).collect();
        alltoallv_in_place_scattered(group, places.iter_mut().collect()).await?;
        return Ok(blocks.iter().flat_map(Memory::data).collect());
    }
    let given = case.joined(|to| case.data(rank, to, case.elements));
    let parts = Memory::of(&given, out);
    let What::Alltoall(by) = case.what else {
        alltoall_in_place_scattered(group, &mut parts.place()).await?;
        return Ok(parts.data());
    };
    let all = Memory::of(&vec![0; given.len()], into);
    alltoall_scattered(group, by, &parts.part(), &mut all.place()).await?;
    Ok(all.data())
}

/// Runs a case with gaps at ranks drawn from `seed`; all results must match the oracle.
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
        case in cases(with_gaps(), 1..=17, 30..200),
        ranks_per_node in 1u32..=17,
    ) {
        check(&case, ranks_per_node);
    }
}

/// Longer than a packet; in place also as long as the block that is exchanged at a time, and
/// longer.
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

/// Ranks with gaps and without them are in the same call, through its two functions.
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
