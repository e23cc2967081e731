//! Acquiring by polling, for callers that have other work between two polls, such as bindings of a
//! language with signals and other threads.

use std::fmt;
use std::rc::Rc;

use hikyaku_dsm::driver::{Asking, Variable};
use hikyaku_dsm::{AccessKind, EntryResult, Patience};

use crate::error::Error;

/// A request for a part, with its place in the queue; [`super::Part::ask_write`] makes one.
/// Dropping it cancels the request.
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
    variable: &'p Rc<Variable>,
    part: u64,
    guard: fn(&Rc<Variable>, u64, EntryResult) -> G,
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
        kind: AccessKind,
        guard: fn(&Rc<Variable>, u64, EntryResult) -> G,
    ) -> Result<Turn<'p, G>, Error> {
        let asking = Asking::new(variable, part, kind, Patience::Wait)?;
        Ok(Turn { asking, variable, part, guard })
    }

    /// Polls whether it is this rank's turn; never waits. `None`: not yet.
    ///
    /// # Errors
    /// The part was lost with a rank that died.
    ///
    /// # Panics
    /// Like a future: the request has ended, because a guard was returned or the part was lost.
    #[inline]
    pub fn look(&mut self) -> Result<Option<G>, Error> {
        assert!(!self.asking.is_over(), "a request that is over is looked at again");
        let entry = self.asking.poll()?.flatten();
        Ok(entry.map(|entry| (self.guard)(self.variable, self.part, entry)))
    }

    /// Spins for the time of a few polls of memory, half a microsecond. Returns `false` at once if
    /// it has spun long enough, or if no word can be polled; then call [`Turn::rest`]. If ranks
    /// share a processor, call [`Turn::rest`] first.
    #[inline]
    pub fn glance(&mut self) -> bool {
        self.asking.glance()
    }

    /// Makes progress on messages and yields, or sleeps for a millisecond at most. When called
    /// repeatedly, it mostly spins, as `write` does.
    pub fn rest(&mut self) {
        self.asking.rest_after_glances();
    }
}
