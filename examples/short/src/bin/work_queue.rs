//! A work queue without a server. The number of the next task is a counter in a window of rank 0.
//! Ranks draw from it by an atomic addition, while rank 0 works like the others.

use hikyaku::World;

const TASKS: u64 = 400;

/// Steps of the Collatz sequence to 1: work of unknown length.
fn collatz(mut number: u64) -> u64 {
    let mut steps = 0;
    while number != 1 {
        number = if number.is_multiple_of(2) { number / 2 } else { 3 * number + 1 };
        steps += 1;
    }
    steps
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::init()?;
    let counter = world.window::<u64>(1)?;
    let results = world.window::<u64>(TASKS as usize)?;
    loop {
        let task = counter.fetch_add(0, 0, 1)?;
        if task >= TASKS {
            break;
        }
        results.put(0, task as usize, &[collatz(task + 1)])?;
    }
    world.barrier()?; // all results are there
    if world.rank() == 0 {
        let steps = results.local()?;
        println!("{TASKS} tasks, {} steps in all", steps.iter().sum::<u64>());
    }
    world.barrier()?; // no rank drops a window that others still use
    Ok(())
}
