//! Random traffic: each rank to any other at random times, the textbook load of a network.

use std::rc::Rc;

use hikyaku_nic::time::Time;

use super::{ProgramError, check, start};
use crate::engine;
use crate::job::Rank;

/// The tag of these messages. No other program uses it, so one may follow another.
const TAG: i32 = 100;

/// Messages to destinations drawn uniformly, after gaps drawn from an exponential distribution.
#[derive(Debug, Clone)]
pub struct RandomTraffic {
    bytes: u64,
    /// Messages that each rank sends.
    messages: u32,
    /// Mean gap between two messages of a rank, picoseconds.
    gap: f64,
    /// By rank: how many it will receive.
    expected: Rc<[u32]>,
}

impl RandomTraffic {
    /// `messages` messages of each of `ranks` ranks, `gap` apart on average.
    ///
    /// The numbers of messages to receive are drawn here as the ranks will draw them, so that every
    /// rank knows when it has all of its messages; that takes `seed` of the simulation.
    pub fn new(seed: u64, ranks: u32, bytes: u64, messages: u32, gap: Time) -> RandomTraffic {
        let mut expected = vec![0; ranks as usize];
        for from in 0..ranks {
            let mut draws = engine::Random::stream(seed, u64::from(from));
            for _ in 0..messages {
                let (_, to) = draw(&mut draws, ranks);
                expected[to as usize] += 1;
            }
        }
        RandomTraffic { bytes, messages, gap: gap.picoseconds() as f64, expected: expected.into() }
    }

    /// One rank's part.
    ///
    /// # Errors
    /// A call failed, or a message arrived changed.
    pub async fn run(self, rank: Rank) -> Result<(), ProgramError> {
        let mut draws = rank.sim().random(u64::from(rank.rank()));
        for _ in 0..self.messages {
            let (gap, to) = draw(&mut draws, rank.size());
            rank.sleep(Time::from_picoseconds((gap * self.gap) as u64)).await;
            drop(start(&rank, to, TAG, (self.bytes, 0))?);
        }
        for _ in 0..self.expected[rank.rank() as usize] {
            check(&rank, &rank.recv(None, Some(TAG)).await, self.bytes, 0)?;
        }
        Ok(())
    }
}

/// A gap in means, and a destination.
fn draw(random: &mut engine::Random, ranks: u32) -> (f64, u32) {
    let gap = random.exponential(1.0);
    (gap, random.below(u64::from(ranks)) as u32)
}
