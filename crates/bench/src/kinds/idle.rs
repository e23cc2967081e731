//! Idle: the cost of two waiting ranks.
//!
//! A blocked rank takes no commands, so one rank blocks in a receive while the other sleeps outside
//! the library, and then they change places. The figure is the sum of the two, measured from
//! outside over two seconds that begin a tenth of a second after the receive was posted.

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use hikyaku::World;

use crate::control::{BlockAnswer, BlockCommand, Verb};
use crate::job::{ConnectedJob, ContestantError};
use crate::rank::{RankError, TAG};

/// Waiting may spin for this long before it counts.
const SETTLE: Duration = Duration::from_millis(100);

/// How long a blocked rank is watched.
const WATCH: Duration = Duration::from_secs(2);

/// The clock ticks of /proc/PID/stat: `USER_HZ` is 100 in every Linux ABI that Rust supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// The ranks' side: blocks until the other rank's [`release`].
pub(crate) fn block(world: &World) -> Result<BlockAnswer, RankError> {
    world.recv::<u8>(&mut [0], 1 - world.rank().min(1), TAG)?;
    Ok(BlockAnswer::Times { nanoseconds: Vec::new() })
}

/// The ranks' side: ends the other rank's [`block`].
pub(crate) fn release(world: &World) -> Result<BlockAnswer, RankError> {
    world.send::<u8>(&[0], 1 - world.rank().min(1), TAG)?;
    Ok(BlockAnswer::Times { nanoseconds: Vec::new() })
}

/// The processor use of both ranks while each is blocked, in percent of one core.
pub(crate) fn sample(job: &mut ConnectedJob) -> Result<f64, ContestantError> {
    let pids: Vec<u32> = job.hello().map(|hello| hello.pid).collect();
    let mut percent = 0.0;
    for (rank, pid) in pids.iter().enumerate().take(2) {
        job.tell(rank, &BlockCommand::plain(Verb::Block))?;
        pass(SETTLE);
        let (start, before) = (Instant::now(), ticks(*pid)?);
        pass(WATCH);
        let used = ticks(*pid)?.saturating_sub(before) as f64 / TICKS_PER_SECOND;
        percent += 100.0 * used / start.elapsed().as_secs_f64();
        job.tell(1 - rank, &BlockCommand::plain(Verb::Release))?;
        job.answer(1 - rank)?;
        job.answer(rank)?;
    }
    Ok(percent)
}

#[expect(clippy::disallowed_methods, reason = "the passing of time is what is measured against")]
fn pass(time: Duration) {
    thread::sleep(time);
}

fn ticks(pid: u32) -> Result<u64, ContestantError> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.ok().and_then(|stat| parse_ticks(&stat)).ok_or_else(|| {
        ContestantError::Ended(format!("process {pid} cannot be read in /proc; did it die?"))
    })
}

/// `utime` and `stime`, fields 14 and 15 of proc(5); the name before them may contain anything.
fn parse_ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let (user, system): (u64, u64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticks_are_read_behind_any_name() {
        let stat = "17 (a) b (c) S 1 2 3 4 5 6 7 8 9 10 40 2 0 0 20 0 1 0 5";
        assert_eq!(parse_ticks(stat), Some(42));
        for wrong in ["", "17 name S 1", "17 (x) S 1 2 3", "1 (x) S 1 2 3 4 5 6 7 8 9 10 a b"] {
            assert_eq!(parse_ticks(wrong), None, "{wrong}");
        }
        assert!(ticks(std::process::id()).is_ok());
        assert!(ticks(u32::MAX).is_err());
    }
}
