//! Acquiring look by look: for callers that have something to do between two looks, such as the
//! bindings of a language that has signals and other threads.

use std::fmt;
use std::rc::Rc;

use hikyaku_dsm::{Entry, Kind, Patience};

use super::lost;
use super::variable::{Asking, Variable};
use crate::error::Error;

/// A request for a part, which has its place in the queue; [`super::Part::ask_write`] makes one.
/// Dropping it gives it up.
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let world = hikyaku::World::init()?;
/// # let field = world.shared::<f64>("field", &[1000])?;
/// let mut turn = field.ask_write()?;
/// let mut guard = loop {
///     match turn.look()? {
///         Some(guard) => break guard,
///         None if turn.glance() => {}
///         None => turn.rest(),
///     }
/// };
/// guard[0] = 1.0;
/// # Ok(())
/// # }
/// ```
pub struct Turn<'p, G> {
    asking: Asking<'p>,
    guard: fn(&Rc<Variable>, u64, Entry) -> G,
}

impl<G> fmt::Debug for Turn<'_, G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn").field("asking", &self.asking).finish()
    }
}

impl<'p, G> Turn<'p, G> {
    #[inline]
    pub(super) fn new(
        variable: &'p Rc<Variable>,
        part: u64,
        kind: Kind,
        guard: fn(&Rc<Variable>, u64, Entry) -> G,
    ) -> Result<Turn<'p, G>, Error> {
        let asking = Asking::new(variable, part, kind, Patience::Wait)?;
        Ok(Turn { asking, guard })
    }

    /// Looks whether it is this rank's turn; never waits. `None`: not yet.
    ///
    /// # Errors
    /// The part was lost with a rank that died.
    ///
    /// # Panics
    /// As a future may: the request is over, by a guard or by being lost.
    #[inline]
    pub fn look(&mut self) -> Result<Option<G>, Error> {
        assert!(!self.asking.is_over(), "a request that is over is looked at again");
        let (variable, part) = (self.asking.variable(), self.asking.part());
        match self.asking.poll()? {
            None => Ok(None),
            Some(Ok(entry)) => Ok(Some((self.guard)(variable, part, entry))),
            Some(Err(refusal)) => {
                let none = lost(variable, part, refusal)?;
                debug_assert!(none.is_none(), "whoever waits is not told that it is busy");
                Ok(None)
            }
        }
    }

    /// Spins for as long as it takes to look at memory a few times, half a microsecond. `false`,
    /// at once: it has done so for long enough, or there is nothing to look at; to [`Turn::rest`]
    /// is what is left. Where ranks share a processor that is better done first.
    #[inline]
    pub fn glance(&mut self) -> bool {
        self.asking.glance()
    }

    /// Makes progress on messages and gives way, or sleeps for a millisecond at most. If that is
    /// done again and again, it spins most of the times, as `write` does.
    pub fn rest(&mut self) {
        self.asking.rest_after_glances();
    }
}
