//! A variable that one rank keeps and others request, one of which is killed.

use hikyaku::shared::SharedOptions;
use hikyaku::{Error, MsgError, Shared, World};

/// Elements: enough that the keeper is often killed in the middle.
const LENGTH: usize = 2000;

/// The time between requests of the others, ns: long enough that the variable is kept in between.
const SELDOM: u64 = 300_000;

/// Writes of each rank after the death is known.
const AFTER: u32 = 20;

/// The last rank writes all the time, as the keeper, and sometimes reads; each other rank reads or
/// writes occasionally. When one has died the others print which one, and the damage they found in
/// the contents, and end.
pub(crate) fn run(world: &World) -> Result<(), Error> {
    let options = SharedOptions { recoverable: true, ..SharedOptions::default() };
    let Ok(shared) = world.shared_with::<u64>("kept", &[LENGTH as u64], options) else {
        // A rank was killed while it was made.
        println!("{} early", world.rank());
        return Ok(());
    };
    let keeps = world.rank() + 1 == world.size();
    let (mut marked, mut turns) = (false, 0u64);
    let victim = loop {
        let begun = world.now().nanoseconds();
        turns += 1;
        marked |= if turns.is_multiple_of(3) { read(&shared)? } else { write(&shared)? };
        if let Some(victim) = dead(world) {
            break victim;
        }
        while !keeps && world.now().nanoseconds() < begun + SELDOM {}
    };
    for _ in 0..AFTER {
        marked |= write(&shared)?;
    }
    println!("{} {victim} {marked}", world.rank());
    Ok(())
}

/// Writes, and returns whether the contents were marked.
fn write(shared: &Shared<u64>) -> Result<bool, Error> {
    let mut guard = shared.write()?;
    let marked = check(&guard, guard.mark().is_some());
    let next = guard[0] + 1;
    guard.fill(next);
    Ok(marked)
}

fn read(shared: &Shared<u64>) -> Result<bool, Error> {
    let guard = shared.read()?;
    Ok(check(&guard, guard.mark().is_some()))
}

fn check(found: &[u64], marked: bool) -> bool {
    assert!(marked || found.iter().all(|value| *value == found[0]), "torn and not marked");
    marked
}

/// A rank that died.
pub(crate) fn dead(world: &World) -> Option<u32> {
    let mut others = (0..world.size()).filter(|rank| *rank != world.rank());
    others.find(|rank| {
        let looked = world.iprobe(*rank, 1);
        matches!(looked, Err(Error::Message(MsgError::PeerFailed(_))))
    })
}
