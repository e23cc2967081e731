//! A shared array: one variable that every rank writes and reads, and that travels with its lock. A
//! guard gives the newest contents as a slice. No rank sends a message.

use hikyaku::World;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let world = World::init()?;
    let votes = world.shared::<u64>("votes", &[10])?; // on every rank, zeros at first
    for ballot in 0..100 {
        let choice = (ballot * 7 + world.rank() as usize) % 10;
        votes.write()?[choice] += 1;
    }
    world.barrier()?; // all have voted
    let counted: u64 = votes.read()?.iter().sum();
    println!("rank {}: {counted} votes", world.rank());
    Ok(())
}
