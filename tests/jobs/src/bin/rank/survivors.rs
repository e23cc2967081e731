//! Ranks that continue to use shared variables when one of them has been killed.

use hikyaku::shared::{SharedError, SharedOptions};
use hikyaku::{Error, Shared, World};
use rustix::process::{Signal, getpid, kill_process};

use crate::keepers;

/// Elements of a variable: enough that a rank is often killed in the middle.
const LENGTH: usize = 2000;

/// Acquisitions of each variable after the death is known.
const AFTER: u32 = 20;

/// How long a rank holds a variable before it kills itself, ns: longer than ranks spin.
const WAITING: u64 = 2_000_000;

/// The state of a variable after the death.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Whole,
    Marked,
    Lost,
}

/// All ranks write two variables alternately until one of them dies. The others then acquire both
/// many times more, print the state of each and how soon it could be used, and end.
pub(crate) fn run(world: &World) -> Result<(), Error> {
    let options = SharedOptions { recoverable: true, ..SharedOptions::default() };
    let kept = world.shared_with::<u64>("kept", &[LENGTH as u64], options);
    let fixed = world.shared::<u64>("fixed", &[LENGTH as u64]);
    let (kept, fixed) = match (kept, fixed) {
        (Ok(kept), Ok(fixed)) => (kept, fixed),
        // A rank was killed before both existed: making one is collective, and an error then.
        (kept, Err(error)) => {
            let made = if kept.is_ok() { "kept" } else { "none" };
            println!("{} early {made} {error}", world.rank());
            return Ok(());
        }
        (Err(error), Ok(_)) => panic!("made after somebody was gone: {error}"),
    };
    let mut fates = [Fate::Whole; 2];
    let mut turn = |both: bool| -> Result<(), Error> {
        fates[0] = worse(fates[0], write(world, &kept)?);
        // A lost variable stays lost, and every call reports that at once.
        fates[1] = worse(fates[1], if both { write(world, &fixed)? } else { read(&fixed)? });
        Ok(())
    };
    let victim = loop {
        turn(true)?;
        turn(false)?;
        if let Some(victim) = keepers::dead(world) {
            break victim;
        }
    };
    let known = world.now();
    turn(true)?;
    let usable = world.now() - known;
    for _ in 0..AFTER {
        turn(true)?;
    }
    println!("{} {victim} {:?} {:?} {}", world.rank(), fates[0], fates[1], usable.nanoseconds());
    Ok(())
}

/// Rank 0 kills itself while it writes; each other rank waits for the variable, writes it, and
/// prints how long after the kill that was possible.
pub(crate) fn recover(world: &World) -> Result<(), Error> {
    let options = SharedOptions { recoverable: true, ..SharedOptions::default() };
    let shared = world.shared_with::<u64>("held", &[LENGTH as u64], options)?;
    world.barrier()?;
    if world.rank() == 0 {
        let _guard = shared.write()?;
        (1..world.size()).try_for_each(|rank| world.send(&[0u64], rank, 0))?;
        // By then the others are in the middle of their wait, or asleep.
        let begun = world.now().nanoseconds();
        while world.now().nanoseconds() < begun + WAITING {}
        let now = [world.now().nanoseconds()];
        (1..world.size()).try_for_each(|rank| world.send(&now, rank, 1))?;
        kill_process(getpid(), Signal::KILL).unwrap();
    }
    let mut killed = [0u64];
    world.recv(&mut killed, 0, 0)?;
    shared.write()?.fill(1);
    let usable = world.now().nanoseconds();
    world.recv(&mut killed, 0, 1)?;
    println!("{} {}", world.rank(), usable - killed[0]);
    Ok(())
}

fn worse(before: Fate, now: Fate) -> Fate {
    if now == Fate::Whole { before } else { now }
}

fn write(world: &World, variable: &Shared<u64>) -> Result<Fate, Error> {
    let mut guard = match variable.write() {
        Err(Error::Shared(error)) => return Ok(lost(variable, &error)),
        guard => guard?,
    };
    let fate = check(&guard, guard.mark().is_some());
    let next = guard[0] + 1 + u64::from(world.rank());
    guard.fill(next);
    Ok(fate)
}

fn read(variable: &Shared<u64>) -> Result<Fate, Error> {
    let guard = match variable.read() {
        Err(Error::Shared(error)) => return Ok(lost(variable, &error)),
        guard => guard?,
    };
    Ok(check(&guard, guard.mark().is_some()))
}

fn check(found: &[u64], marked: bool) -> Fate {
    let whole = found.iter().all(|value| *value == found[0]);
    assert!(whole || marked, "torn and not marked");
    if marked { Fate::Marked } else { Fate::Whole }
}

fn lost(variable: &Shared<u64>, error: &SharedError) -> Fate {
    assert!(!variable.options().recoverable, "{error}");
    assert!(error.to_string().contains("`fixed` is lost: rank "), "{error}");
    Fate::Lost
}
