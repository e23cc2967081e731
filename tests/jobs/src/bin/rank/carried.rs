//! Messages of every length and alignment, out of and into each kind of memory: with every way, the
//! same bytes arrive, and nothing beside them is touched.

use hikyaku::{Error, Received, World};
use hikyaku_jobs::pattern::{check, fill, key};

/// Lengths around thresholds and granules of the ways: words, cache lines, packets, pages, classes
/// of lengths, and the size of one step of a copy.
const LENGTHS: [usize; 26] = [
    0, 1, 7, 8, 63, 64, 65, 1000, 2047, 2048, 4095, 4096, 4097, 8191, 8192, 8193, 16_383, 16_384,
    16_385, 65_535, 65_536, 65_537, 131_071, 262_145, 600_001, 1_048_579,
];

/// The offsets of a message in the memory of its sender and of its receiver, bytes.
const PLACES: [(usize, usize); 5] = [(0, 0), (1, 0), (0, 3), (5, 5), (64, 17)];

/// Bytes on both sides of a message that must stay as they are.
const MARGIN: usize = 128;
const UNTOUCHED: u8 = 0xa5;

/// The time of the receive relative to the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meets {
    /// The receiver waits for the message.
    Blocking,
    /// The receive is posted before the message is sent.
    Early,
    /// The message is sent before the receive is posted.
    Late,
}

const MEETS: [Meets; 3] = [Meets::Blocking, Meets::Early, Meets::Late];

/// Memory of a rank.
enum Memory {
    Own(Vec<u8>),
    Shared(hikyaku::SharedBuffer<u8>),
}

impl Memory {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Memory::Own(bytes) => bytes,
            Memory::Shared(bytes) => bytes,
        }
    }
}

/// Rank 0 sends all of them to rank 1, which prints the ways that they took.
pub(crate) fn run(world: &World) -> Result<(), Error> {
    let room = LENGTHS[LENGTHS.len() - 1] + 3 * MARGIN;
    let mut number = 0_u64;
    for is_shared in [false, true] {
        let mut memory = match is_shared {
            true => Memory::Shared(world.alloc(room)?),
            false => Memory::Own(vec![0; room]),
        };
        for length in LENGTHS {
            for (from, to) in PLACES {
                // Alternating: as there are five places, each length occurs with each kind of
                // receive.
                let meets = MEETS[number as usize % MEETS.len()];
                number += 1;
                let place = if world.rank() == 0 { from } else { to };
                let around = &mut memory.bytes()[..length + place + 2 * MARGIN];
                one(world, key(7, &[number]), (around, place), (length, meets))?;
            }
        }
    }
    let statistics = world.statistics();
    if world.rank() == 1 {
        println!("{} {}", statistics.direct_reads.min(1), statistics.joint_copies.min(1));
    }
    Ok(())
}

fn one(
    world: &World,
    key: u64,
    (around, place): (&mut [u8], usize),
    (length, meets): (usize, Meets),
) -> Result<(), Error> {
    let start = MARGIN + place;
    if world.rank() == 0 {
        let message = &mut around[start..start + length];
        fill(key, message);
        // The other rank has posted its receive.
        if meets == Meets::Early {
            world.recv(&mut [0_u8; 0], 1, 1)?;
        }
        return world.scope(|scope| {
            let sent = scope.isend(message, 1, 0)?;
            if meets == Meets::Late {
                world.send(&[0_u8; 0], 1, 1)?;
            }
            sent.wait().map(drop)
        });
    }
    around.fill(UNTOUCHED);
    let into = &mut around[start..start + length];
    let came: Received = match meets {
        Meets::Blocking => world.recv(into, 0, 0)?,
        Meets::Early => world.scope(|scope| {
            let request = scope.irecv(into, 0, 0)?;
            world.send(&[0_u8; 0], 0, 1)?;
            request.wait()
        })?,
        Meets::Late => {
            world.recv(&mut [0_u8; 0], 0, 1)?;
            world.recv(into, 0, 0)?
        }
    };
    assert_eq!(came.bytes, length as u64);
    check(key, &around[start..start + length]);
    let is_whole = |part: &[u8]| part.iter().all(|byte| *byte == UNTOUCHED);
    assert!(is_whole(&around[..start]) && is_whole(&around[start + length..]), "{length} bytes");
    Ok(())
}
