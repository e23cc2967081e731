//! Ways in which a rank can end while the others still need it.

use std::process::ExitCode;

use hikyaku::{Error, World};

/// Rank 1 ends in this way; the others wait for a message from it.
#[expect(clippy::disallowed_methods, reason = "leaving without a word is what is tested")]
pub(crate) fn run(world: &World, way: &str) -> Result<ExitCode, Error> {
    let mut heard = [0u8];
    if world.rank() != 1 {
        world.recv(&mut heard, 1, 0)?;
        return Ok(ExitCode::SUCCESS);
    }
    match way {
        "return" => Ok(ExitCode::SUCCESS),
        "fail" => Ok(ExitCode::from(9)),
        "error" => world.recv(&mut heard, 99, 0).map(|_| ExitCode::SUCCESS),
        "panic" => panic!("on purpose"),
        "exit" => std::process::exit(0),
        "exit-with-code" => std::process::exit(7),
        "abort" => world.abort(3),
        "abort-signal" => std::process::abort(),
        other => panic!("there is no way {other}"),
    }
}
