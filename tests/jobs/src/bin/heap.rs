//! A rank whose global allocator is the shared heap: the places of vectors, and messages of them.
//! With the word `limited`: in a control group with less memory than it allocates.

use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;

use hikyaku::{SharedHeap, World};

#[global_allocator]
static HEAP: SharedHeap = SharedHeap;

/// Whether these bytes are in the job's memory, by the system's map of the process.
fn is_shared(bytes: &[u8]) -> bool {
    let map = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    is_shared_at(&map, bytes.as_ptr().addr())
}

fn is_shared_at(map: &str, address: usize) -> bool {
    let holds = |line: &&str| {
        let range = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
        let hex = |text: &str| usize::from_str_radix(text, 16).unwrap_or(0);
        range.is_some_and(|(from, to)| (hex(from)..hex(to)).contains(&address))
    };
    map.lines().find(holds).is_some_and(|line| line.contains("/memfd:hikyaku"))
}

/// Allocates 500 MiB in pieces of half a megabyte, and touches none of them.
fn allocate_beyond_the_limit() -> Result<(), Box<dyn std::error::Error>> {
    const PIECE: usize = 512 << 10;
    let world = World::init()?;
    let pieces: Vec<Vec<u8>> = (0..1000).map(|_| Vec::with_capacity(PIECE)).collect();
    let place = |piece: &Vec<u8>| piece.as_ptr().addr();
    let map = fs::read_to_string("/proc/self/maps")?;
    let shared = pieces.iter().filter(|piece| is_shared_at(&map, place(piece))).count();
    assert!((200..512).contains(&shared), "{shared} of 1000 are shared");
    // A child that sets its user is made by `fork`.
    let status = Command::new("true").uid(rustix::process::getuid().as_raw()).status()?;
    println!("{status}");
    world.barrier()?;
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() == Some("limited") {
        return allocate_beyond_the_limit();
    }
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
