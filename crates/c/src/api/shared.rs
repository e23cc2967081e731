//! Shared variables: create, find, acquire, release, free.

use std::ffi::{c_int, c_void};
use std::rc::Rc;
use std::time::Duration;

use hikyaku::Error;
use hikyaku::shared::{CopyState, Element, Part, Parts, SharedOptions};

use super::{Type, number};
use crate::failure::{BUSY, CallFailure, OK, answer};
use crate::pointer::{DataPointer, InPointer, OutPointer, Room, TextPointer};
use crate::rank::{self, HeldGuard, HeldVariable, JoinedRank};

/// Names a shared variable of this rank: `hikyaku_shared`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct SharedName {
    number: u64,
}

/// The options of a new variable: `hikyaku_options`.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct VariableOptions {
    rows: u64,
    columns: u64,
    flags: u64,
}

/// The effect of a death on the contents: `hikyaku_mark`.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(crate) struct Marked {
    what: c_int,
    victim: c_int,
}

/// `HIKYAKU_RECOVERABLE`.
const RECOVERABLE: u64 = 1;

/// `HIKYAKU_WAIT`.
const WAIT: i64 = -1;

/// Most dimensions of an array.
const DIMENSIONS_MOST: usize = 32;

/// `HIKYAKU_WHOLE`, `HIKYAKU_TORN`, `HIKYAKU_STALE`.
const WHOLE: c_int = 0;
const TORN: c_int = 1;
const STALE: c_int = 2;

/// `HIKYAKU_WLOCK` and so on.
const WLOCK: c_int = 0;
const RLOCK: c_int = 1;
const CLEAN: c_int = 2;
const DIRTY: c_int = 3;

/// The header's names.
#[cfg(test)]
pub(super) const CONSTANTS: [(&str, i64); 9] = [
    ("HIKYAKU_RECOVERABLE", RECOVERABLE as i64),
    ("HIKYAKU_WAIT", WAIT),
    ("HIKYAKU_WHOLE", WHOLE as i64),
    ("HIKYAKU_TORN", TORN as i64),
    ("HIKYAKU_STALE", STALE as i64),
    ("HIKYAKU_WLOCK", WLOCK as i64),
    ("HIKYAKU_RLOCK", RLOCK as i64),
    ("HIKYAKU_CLEAN", CLEAN as i64),
    ("HIKYAKU_DIRTY", DIRTY as i64),
];

impl VariableOptions {
    fn read(self) -> Result<SharedOptions, CallFailure> {
        let VariableOptions { rows, columns, flags } = self;
        if flags & !RECOVERABLE != 0 {
            let text = format!("options: flags {flags:#x} has bits that hikyaku.h does not name");
            return Err(CallFailure::argument(text));
        }
        let parts = match (rows, columns) {
            (0, 0) => Parts::Whole,
            (0, _) => {
                return Err(CallFailure::argument(
                    "options: columns without rows: tiles have both",
                ));
            }
            (rows, 0) => Parts::Rows(rows),
            (rows, columns) => Parts::Tiles(rows, columns),
        };
        Ok(SharedOptions { parts, recoverable: flags & RECOVERABLE != 0, protocol: None })
    }
}

/// The description of a new variable, if the arguments are valid.
fn wanted<'c>(
    name: TextPointer<'c>,
    element: c_int,
    shape: (DataPointer<'c>, usize),
    options: InPointer<'_, VariableOptions>,
) -> Result<(&'c str, Type, &'c [u64], SharedOptions), CallFailure> {
    let (shape, dimensions) = shape;
    if dimensions > DIMENSIONS_MOST {
        let text = format!("{dimensions} dimensions are too many: at most {DIMENSIONS_MOST}");
        return Err(CallFailure::argument(text));
    }
    let options = options.get().unwrap_or_default().read()?;
    let shape = shape.read::<u64>(dimensions, "shape")?;
    Ok((name.read("name")?, Type::of(element)?, shape, options))
}

/// Joins the collective creation with arguments that every rank refuses. This rank's arguments are
/// invalid, and so the others get an error too instead of waiting for it.
fn refuse(rank: &JoinedRank) {
    let element = Element { name: "none".to_owned(), bytes: 0 };
    let name = "(none: an argument cannot be)";
    let refused = rank.world.shared_bytes(name, &[0], element, SharedOptions::default());
    debug_assert!(refused.is_err(), "there is no array of no elements");
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_shared_create(
    name: TextPointer<'_>,
    element: c_int,
    dimensions: usize,
    shape: DataPointer<'_>,
    options: InPointer<'_, VariableOptions>,
    made: OutPointer<'_, SharedName>,
) -> c_int {
    answer(|| {
        rank::with(|rank| {
            let wanted = wanted(name, element, (shape, dimensions), options);
            let wanted = made.required("made").and_then(|made| Ok((made, wanted?)));
            let (made, (name, element, shape, options)) = wanted.inspect_err(|_| refuse(rank))?;
            let shared = rank.world.shared_bytes(name, shape, element.element(), options)?;
            made.put(SharedName { number: rank.add(shared, element) });
            Ok(OK)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_shared_find(
    name: TextPointer<'_>,
    element: c_int,
    found: OutPointer<'_, SharedName>,
) -> c_int {
    answer(|| {
        rank::with(|rank| {
            let (name, element) = (name.read("name")?, Type::of(element)?);
            let found = found.required("found")?;
            let shared = rank.world.shared_named_bytes(name)?;
            let (has, wants) = (&shared.element().name, element.element().name);
            if *has != wants {
                let text =
                    format!("the shared variable `{name}` has elements of {has}, not of {wants}");
                return Err(CallFailure::argument(text));
            }
            found.put(SharedName { number: rank.add(shared, element) });
            Ok(OK)
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_shared_free(shared: SharedName) -> c_int {
    answer(|| rank::with(|rank| rank.remove(shared.number).map(|()| OK)))
}

/// Runs a call about one variable.
#[inline]
fn about(
    shared: SharedName,
    body: impl FnOnce(&Rc<HeldVariable>) -> Result<c_int, CallFailure>,
) -> c_int {
    answer(|| rank::with(|rank| body(&rank.variable(shared.number)?)))
}

/// The waiting limit of a call.
enum Limit {
    None,
    Look,
    Within(Duration),
}

impl Limit {
    #[inline]
    fn of(timeout: i64) -> Result<Limit, CallFailure> {
        match timeout {
            WAIT => Ok(Limit::None),
            0 => Ok(Limit::Look),
            _ => {
                u64::try_from(timeout).map(Duration::from_nanos).map(Limit::Within).map_err(|_| {
                    CallFailure::argument(format!(
                        "timeout {timeout} cannot be: nanoseconds, 0 to look once, or HIKYAKU_WAIT"
                    ))
                })
            }
        }
    }
}

/// Acquires a part. `acquire` returns the address of its bytes, their number, and the guard.
#[inline]
fn begin<P: Copy>(
    (shared, part, timeout): (SharedName, u64, i64),
    (data, count): (OutPointer<'_, P>, OutPointer<'_, usize>),
    acquire: impl FnOnce(&Part<u8>, Limit) -> Result<Option<(P, usize, HeldGuard)>, Error>,
) -> c_int {
    about(shared, |variable| {
        let data = data.required("data")?;
        let limit = Limit::of(timeout)?;
        let had = acquire(&variable.shared.part(part)?, limit)?;
        let Some((start, bytes, hold)) = had else { return Ok(BUSY) };
        data.put(start);
        count.put(bytes / variable.element.size());
        variable.hold(part, hold);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_write_begin(
    shared: SharedName,
    part: u64,
    timeout: i64,
    data: OutPointer<'_, *mut c_void>,
    count: OutPointer<'_, usize>,
) -> c_int {
    begin((shared, part, timeout), (data, count), |part, limit| {
        let guard = match limit {
            Limit::None => Some(part.write()?),
            Limit::Look => part.try_write()?,
            Limit::Within(time) => part.write_within(time)?,
        };
        Ok(guard.map(|mut guard| (guard.as_mut_ptr().cast(), guard.len(), HeldGuard::Write(guard))))
    })
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_read_begin(
    shared: SharedName,
    part: u64,
    timeout: i64,
    data: OutPointer<'_, *const c_void>,
    count: OutPointer<'_, usize>,
) -> c_int {
    begin((shared, part, timeout), (data, count), |part, limit| {
        let guard = match limit {
            Limit::None => Some(part.read()?),
            Limit::Look => part.try_read()?,
            Limit::Within(time) => part.read_within(time)?,
        };
        Ok(guard.map(|guard| (guard.as_ptr().cast(), guard.len(), HeldGuard::Read(guard))))
    })
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_end(shared: SharedName, part: u64) -> c_int {
    about(shared, |variable| variable.end(part).map(|()| OK))
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_shared_mark(
    shared: SharedName,
    part: u64,
    mark: OutPointer<'_, Marked>,
) -> c_int {
    about(shared, |variable| {
        let mark = mark.required("mark")?;
        let found = variable.mark(part)?;
        mark.put(match found {
            None => Marked { what: WHOLE, victim: -1 },
            Some(found) => {
                let what = if found.stale { STALE } else { TORN };
                Marked { what, victim: number(found.victim) }
            }
        });
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_shared_state(shared: SharedName, part: u64) -> c_int {
    about(shared, |variable| {
        Ok(match variable.shared.part(part)?.state()? {
            CopyState::Wlock => WLOCK,
            CopyState::Rlock => RLOCK,
            CopyState::Clean => CLEAN,
            CopyState::Dirty => DIRTY,
        })
    })
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_shared_owner(shared: SharedName, part: u64) -> c_int {
    about(shared, |variable| Ok(number(variable.shared.part(part)?.owner()?)))
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_shared_moved(
    shared: SharedName,
    bytes: OutPointer<'_, u64>,
    times: OutPointer<'_, u64>,
) -> c_int {
    about(shared, |variable| {
        let moved = variable.shared.moved();
        bytes.put(moved.0);
        times.put(moved.1);
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_shared_parts(shared: SharedName, parts: OutPointer<'_, u64>) -> c_int {
    about(shared, |variable| {
        parts.required("parts")?.put(variable.shared.parts());
        Ok(OK)
    })
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_shared_shape(shared: SharedName, room: usize, shape: Room<'_>) -> c_int {
    about(shared, |variable| fill(shape, room, variable.shared.shape()))
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_shared_part(
    shared: SharedName,
    part: u64,
    room: usize,
    origin: Room<'_>,
    shape: Room<'_>,
) -> c_int {
    about(shared, |variable| {
        let part = variable.shared.part(part)?;
        fill(origin, room, &part.origin())?;
        fill(shape, room, &part.shape())
    })
}

/// Stores as many of the numbers as fit, and returns how many there are.
fn fill(into: Room<'_>, room: usize, numbers: &[u64]) -> Result<c_int, CallFailure> {
    let fitting = if into.is_wanted() { room.min(numbers.len()) } else { 0 };
    into.open::<u64>(fitting, "the room for numbers")?.copy_from_slice(&numbers[..fitting]);
    Ok(number(numbers.len() as u32))
}
