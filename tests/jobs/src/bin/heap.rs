//! A rank whose global allocator is the shared heap: the places of vectors, and messages of them.

use std::fs;

use hikyaku::{SharedHeap, World};

#[global_allocator]
static HEAP: SharedHeap = SharedHeap;

/// Whether these bytes are in the job's memory, by the system's map of the process.
fn is_shared(bytes: &[u8]) -> bool {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let holds = |line: &&str| {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let hex = |text: &str| usize::from_str_radix(text, 16).unwrap_or(0);
        range.is_some_and(|(from, to)| (hex(from)..hex(to)).contains(&bytes.as_ptr().addr()))
    };
    maps.lines().find(holds).is_some_and(|line| line.contains("/memfd:hikyaku"))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let before = vec![1u8; 1 << 20];
    assert!(!is_shared(&before), "no job has been joined");
    let world = World::init()?;
    let (rank, other) = (world.rank() as u8, 1 - world.rank());
    let (short, long) = (vec![7u8; 100], vec![0u8; 64 << 10]);
    assert!(!is_shared(&short) && is_shared(&long));
    // A vector that grows into the heap keeps its elements, and so does one that shrinks out of it.
    let mut out: Vec<u8> = Vec::new();
    for length in 0..300_000 {
        out.push((length % 251) as u8 + rank);
    }
    assert!(is_shared(&out));
    let right = |bytes: &[u8], rank: u8| {
        bytes.iter().enumerate().all(|(at, byte)| *byte == (at % 251) as u8 + rank)
    };
    assert!(right(&out, rank));
    let mut into = vec![0; out.len()];
    for _ in 0..50 {
        into.fill(0);
        world.sendrecv(&out, other, 0, &mut into, other, 0)?;
        assert!(right(&into, other as u8));
    }
    out.truncate(1000);
    out.shrink_to_fit();
    assert!(!is_shared(&out) && right(&out, rank));
    drop(before);
    world.barrier()?;
    drop(world);
    // Remaining vectors outlive the rank.
    assert!(right(&into, other as u8));
    Ok(())
}
