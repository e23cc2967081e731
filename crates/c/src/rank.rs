//! This process's rank, the one thread that may use it, and the shared variables held by C.
//!
//! The rank is a thread-local of the thread that joined the job. C holds a variable by a number: a
//! slot of a table and the slot's generation. A freed number stays invalid, even when its slot is
//! reused.

use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use hikyaku::shared::{Mark, ReadGuard, Shared, WriteGuard};
use hikyaku::{Inside, World};

use crate::api::Type;
use crate::failure::{CallFailure, FailureCode};

/// The rank, and its variables by slot.
pub(crate) struct JoinedRank {
    pub(crate) world: World,
    variables: RefCell<Vec<VariableSlot>>,
}

/// A slot of the table of variables.
#[derive(Default)]
struct VariableSlot {
    /// How often the slot was freed.
    generation: u32,
    variable: Option<Rc<HeldVariable>>,
}

/// A shared variable that C holds.
pub(crate) struct HeldVariable {
    pub(crate) shared: Shared<u8>,
    pub(crate) element: Type,
    /// The guard of each part that is held.
    holds: RefCell<Vec<Option<HeldGuard>>>,
}

/// The guard of a part.
pub(crate) enum HeldGuard {
    Read(ReadGuard<u8>),
    Write(WriteGuard<u8>),
}

/// A thread's view of the rank. Only [`leave`] drops it. A program that ends without that call has
/// not left its job in order, and its peers get an error.
enum Here {
    Nothing,
    Rank(ManuallyDrop<Rc<JoinedRank>>),
    Left,
}

thread_local! {
    static HERE: RefCell<Here> = const { RefCell::new(Here::Nothing) };
}

/// Whether a thread of this process has joined the job.
static JOINED: AtomicBool = AtomicBool::new(false);

/// Calls `body` with the rank, if this is its thread and it is in its job.
#[inline]
pub(crate) fn with<R>(
    body: impl FnOnce(&JoinedRank) -> Result<R, CallFailure>,
) -> Result<R, CallFailure> {
    let here = HERE.try_with(|here| {
        let here = here.borrow();
        match &*here {
            Here::Rank(rank) => Ok(Rc::clone(rank)),
            Here::Left => Err(Some(left())),
            Here::Nothing => Err(None),
        }
    });
    match here.unwrap_or(Err(None)) {
        Ok(rank) => {
            // In an MPI program other threads may use the same rank.
            let _inside = Inside::enter();
            body(&rank)
        }
        Err(failure) => Err(failure.unwrap_or_else(|| not_here("hikyaku_init"))),
    }
}

fn left() -> CallFailure {
    CallFailure::order("this process has left its job by hikyaku_finalize: there is no way back")
}

fn not_here(wanted: &str) -> CallFailure {
    match JOINED.load(Ordering::Relaxed) {
        true => CallFailure::new(
            FailureCode::Thread,
            "this is not the thread that called hikyaku_init, the only one that may call hikyaku",
        ),
        false => CallFailure::order(format!("this process has not joined its job: call {wanted}")),
    }
}

/// Joins the job.
pub(crate) fn join() -> Result<(), CallFailure> {
    let known = HERE.with_borrow(|here| match here {
        Here::Rank(_) => Some(CallFailure::order("this process is a rank already: call it once")),
        Here::Left => Some(left()),
        Here::Nothing => None,
    });
    if let Some(failure) = known {
        return Err(failure);
    }
    if JOINED.swap(true, Ordering::Relaxed) {
        return Err(not_here("hikyaku_init"));
    }
    let world = World::join().inspect_err(|_| JOINED.store(false, Ordering::Relaxed))?;
    let rank = Rc::new(JoinedRank { world, variables: RefCell::default() });
    HERE.set(Here::Rank(ManuallyDrop::new(rank)));
    Ok(())
}

/// Leaves the job in order, if no variable is held.
pub(crate) fn leave() -> Result<(), CallFailure> {
    with(|rank| match rank.held() {
        None => Ok(()),
        Some(name) => Err(CallFailure::order(format!(
            "the shared variable `{name}` is held: call hikyaku_end before hikyaku_finalize"
        ))),
    })?;
    if let Here::Rank(rank) = HERE.replace(Here::Left) {
        let _inside = Inside::enter();
        drop(ManuallyDrop::into_inner(rank));
    }
    Ok(())
}

impl JoinedRank {
    /// The name of a variable that is held, if there is one.
    fn held(&self) -> Option<String> {
        let variables = self.variables.borrow();
        let mut all = variables.iter().filter_map(|slot| slot.variable.as_ref());
        all.find(|variable| variable.is_held()).map(|variable| variable.shared.name().to_owned())
    }

    /// Adds a variable and returns its number, which is not 0.
    pub(crate) fn add(&self, shared: Shared<u8>, element: Type) -> u64 {
        let parts = usize::try_from(shared.parts()).unwrap_or(usize::MAX);
        let holds = RefCell::new((0..parts).map(|_| None).collect());
        let variable = Some(Rc::new(HeldVariable { shared, element, holds }));
        let mut variables = self.variables.borrow_mut();
        let free = |slot: &VariableSlot| slot.variable.is_none() && slot.generation < u32::MAX;
        let at = variables.iter().position(free).unwrap_or_else(|| {
            variables.push(VariableSlot::default());
            variables.len() - 1
        });
        variables[at].variable = variable;
        u64::from(variables[at].generation) << 32 | (at as u64 + 1)
    }

    /// The variable of a number.
    #[inline]
    pub(crate) fn variable(&self, number: u64) -> Result<Rc<HeldVariable>, CallFailure> {
        let variables = self.variables.borrow();
        let found = slot_of(number).and_then(|(at, generation)| {
            variables
                .get(at)
                .filter(|slot| slot.generation == generation)?
                .variable
                .as_ref()
                .map(Rc::clone)
        });
        found.ok_or_else(|| {
            CallFailure::order("this is no shared variable: it was freed, or never made")
        })
    }

    /// Frees a number.
    pub(crate) fn remove(&self, number: u64) -> Result<(), CallFailure> {
        let variable = self.variable(number)?;
        if variable.is_held() {
            let name = variable.shared.name();
            let text = format!("the shared variable `{name}` is held: call hikyaku_end before");
            return Err(CallFailure::order(text));
        }
        if let Some((at, _)) = slot_of(number) {
            let slot = &mut self.variables.borrow_mut()[at];
            slot.generation += 1;
            slot.variable = None;
        }
        // The last handle: it is dropped while nothing is borrowed.
        drop(variable);
        Ok(())
    }
}

/// The slot and the generation of a number.
#[inline]
fn slot_of(number: u64) -> Option<(usize, u32)> {
    let at = (number & u64::from(u32::MAX)).checked_sub(1)?;
    Some((at as usize, (number >> 32) as u32))
}

impl HeldVariable {
    fn is_held(&self) -> bool {
        self.holds.borrow().iter().any(Option::is_some)
    }

    /// Keeps the guard of a part.
    #[inline]
    pub(crate) fn hold(&self, part: u64, hold: HeldGuard) {
        self.holds.borrow_mut()[part as usize] = Some(hold);
    }

    /// Releases a part.
    #[inline]
    pub(crate) fn end(&self, part: u64) -> Result<(), CallFailure> {
        let hold = self.holds.borrow_mut().get_mut(part as usize).and_then(Option::take);
        hold.map(drop).ok_or_else(|| self.not_held(part))
    }

    /// The damage to the contents of a held part, if any.
    pub(crate) fn mark(&self, part: u64) -> Result<Option<Mark>, CallFailure> {
        let holds = self.holds.borrow();
        match holds.get(part as usize) {
            Some(Some(HeldGuard::Read(guard))) => Ok(guard.mark()),
            Some(Some(HeldGuard::Write(guard))) => Ok(guard.mark()),
            _ => Err(self.not_held(part)),
        }
    }

    #[cold]
    fn not_held(&self, part: u64) -> CallFailure {
        let (name, parts) = (self.shared.name(), self.shared.parts());
        if part >= parts {
            let last = parts - 1;
            let text = format!("the shared variable `{name}` has parts 0 to {last}, not {part}");
            return CallFailure::argument(text);
        }
        CallFailure::order(match parts {
            1 => format!("the shared variable `{name}` is not held through this handle"),
            _ => format!(
                "part {part} of the shared variable `{name}` is not held through this handle"
            ),
        })
    }
}
