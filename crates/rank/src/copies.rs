//! One rank in a process with several copies of this crate.
//!
//! `libmpi_abi.so.1`, `libmpi.so.12`, `libhikyaku_c.so` and Python's module are each linked with
//! the whole crate, including statics and thread-locals. The first copy that joins the job makes
//! the rank, and the others find it:
//!
//! ```text
//!   join ──► every other object of the process that has `hikyaku_rank_here`
//!              │ of another build: the rank is named, and the join is an error
//!              └ of this build: its communicator of all ranks, and the gate before it
//! ```
//!
//! A [`Communicator`] is handed over. The layout of its type is not fixed, so both copies must have
//! been compiled from the same sources, with the same flags, by the same compiler. `build.rs`
//! hashes all that, and [`build`] adds the sizes of the state's parts. Every copy allocates with
//! the C library, so each may free what the other has allocated. State in statics is handed over
//! with it: the gate of threads ([`crate::threads`]), and the number of forks of the process
//! ([`hikyaku_shm::ForkedProcess`]). Objects that a rank may point into are never unloaded
//! ([`stay`]).
//!
//! The rejected alternatives are in `docs/design/decisions.md`.

#![expect(
    clippy::disallowed_methods,
    reason = "a function from an address is made by transmute and by nothing else"
)]

use std::ffi::{CStr, CString, c_int, c_void};
use std::panic::catch_unwind;
use std::ptr::NonNull;
use std::sync::OnceLock;

use hikyaku_coll::CollectiveBook;
use hikyaku_msg::Engine;

use crate::communicator::Communicator;
use crate::init::InitError;
use crate::port::RankPort;
use crate::rank::Rank;
use crate::threads::Gate;

/// A copy's answer about the rank to a copy of any build: this layout must never change.
#[repr(C)]
struct RankAnswer {
    /// The build of the answering copy, a text that remains valid.
    build: *const u8,
    build_bytes: usize,
    /// Whether it has joined as the rank of this thread.
    has_joined: c_int,
    /// If it has, and the builds are equal: a boxed [`Communicator`], now owned by the asking copy.
    communicator: *mut c_void,
    /// The gate before it, if threads share it.
    gate: *const c_void,
}

/// Asks a copy for the rank of the calling thread.
type Here = extern "C" fn(build: *const u8, build_bytes: usize, answer: *mut RankAnswer);

/// Notifies a copy that threads share the rank, each inside this gate.
type Share = extern "C" fn(build: *const u8, build_bytes: usize, gate: *const c_void);

/// The exported names of these functions.
const HERE: &CStr = c"hikyaku_rank_here";
const SHARE: &CStr = c"hikyaku_rank_share";

/// The build of this copy: release, sources, compilation settings, and the sizes of the types that
/// it hands over.
fn build() -> &'static str {
    static BUILD: OnceLock<String> = OnceLock::new();
    BUILD.get_or_init(|| {
        let sizes = [
            size_of::<Rank>(),
            size_of::<Engine<RankPort>>(),
            size_of::<RankPort>(),
            size_of::<CollectiveBook>(),
            size_of::<Communicator>(),
        ];
        let sizes: usize = sizes.iter().fold(0, |sum, size| sum * 31 + size);
        format!("{}, build {}-{sizes:x}", env!("CARGO_PKG_VERSION"), env!("HIKYAKU_BUILD"))
    })
}

/// The rank of this thread that another copy has joined, if there is one.
///
/// # Errors
/// That copy is from another build.
pub(crate) fn rank_elsewhere() -> Result<Option<Communicator>, InitError> {
    let own = build();
    for (object, function) in others(HERE) {
        let mut answer = RankAnswer {
            build: std::ptr::null(),
            build_bytes: 0,
            has_joined: 0,
            communicator: std::ptr::null_mut(),
            gate: std::ptr::null(),
        };
        // SAFETY: any object that exports this name has a copy of this file, of any release, with a
        // function of this type.
        let here = unsafe { std::mem::transmute::<NonNull<c_void>, Here>(function) };
        here(own.as_ptr(), own.len(), &raw mut answer);
        if answer.has_joined == 0 {
            continue;
        }
        let Some(found) = NonNull::new(answer.communicator) else {
            return Err(other_build(object, &answer));
        };
        if let Some(gate) = NonNull::new(answer.gate.cast_mut()) {
            // SAFETY: the gate of a copy of this build: a static of a copy that is never unloaded.
            crate::threads::adopt_gate(unsafe { gate.cast::<Gate>().as_ref() });
        }
        let inside = crate::threads::Inside::enter();
        // SAFETY: a copy of the same build has boxed it for the asking copy, and both use the C
        // library's allocator.
        let communicator = unsafe { Box::from_raw(found.cast::<Communicator>().as_ptr()) };
        let process = communicator.engine().borrow().port().host().process();
        process.adopt();
        drop(inside);
        stay();
        return Ok(Some(*communicator));
    }
    Ok(None)
}

fn other_build(object: CString, answer: &RankAnswer) -> InitError {
    let text = match NonNull::new(answer.build.cast_mut()) {
        // SAFETY: a text of this length in the copy that answered, which remains valid.
        Some(build) => unsafe { std::slice::from_raw_parts(build.as_ptr(), answer.build_bytes) },
        None => b"unknown",
    };
    InitError::OtherBuild {
        object: object.to_string_lossy().into_owned(),
        other: String::from_utf8_lossy(text).into_owned(),
        own: build().to_owned(),
    }
}

/// Notifies the other copies of this build that threads share the rank.
pub(crate) fn share_elsewhere(gate: &'static Gate) {
    let own = build();
    for (_, function) in others(SHARE) {
        // SAFETY: as for `rank_elsewhere`.
        let share = unsafe { std::mem::transmute::<NonNull<c_void>, Share>(function) };
        share(own.as_ptr(), own.len(), std::ptr::from_ref(gate).cast());
    }
}

/// Whether a text of another copy is the name of this build.
///
/// # Safety
/// `build` points to `bytes` bytes.
unsafe fn is_own_build(build: *const u8, bytes: usize) -> bool {
    // SAFETY: the caller's promise.
    !build.is_null() && unsafe { std::slice::from_raw_parts(build, bytes) } == build_bytes()
}

fn build_bytes() -> &'static [u8] {
    build().as_bytes()
}

/// The rank of the calling thread, for another copy of this crate in the process: see
/// [`RankAnswer`].
///
/// # Safety
/// `build` points to `build_bytes` bytes, and `answer` to a [`RankAnswer`].
#[unsafe(no_mangle)]
unsafe extern "C" fn hikyaku_rank_here(build: *const u8, bytes: usize, answer: *mut RankAnswer) {
    // SAFETY: the caller's promise.
    let is_own = unsafe { is_own_build(build, bytes) };
    let found = catch_unwind(|| {
        let inside = crate::threads::Inside::enter();
        let found = crate::init::joined_here().filter(Communicator::is_in_this_process);
        // A handle that is not passed on is dropped inside the gate.
        let has_joined = found.is_some();
        let boxed = found.filter(|_| is_own).map(|found| Box::into_raw(Box::new(found)));
        drop(inside);
        stay();
        (has_joined, boxed)
    });
    let (has_joined, boxed) = found.unwrap_or((false, None));
    let own = self::build();
    let gate = crate::threads::shared_gate().map_or(std::ptr::null(), std::ptr::from_ref);
    let said = RankAnswer {
        build: own.as_ptr(),
        build_bytes: own.len(),
        has_joined: c_int::from(has_joined),
        communicator: boxed.map_or(std::ptr::null_mut(), <*mut Communicator>::cast),
        gate: gate.cast(),
    };
    // SAFETY: the caller's promise.
    unsafe { answer.write(said) };
}

/// Called by another copy of this crate: threads share the rank, inside its gate.
///
/// # Safety
/// `build` points to `bytes` bytes; if they name this build, `gate` points to a [`Gate`] that
/// remains valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn hikyaku_rank_share(build: *const u8, bytes: usize, gate: *const c_void) {
    // SAFETY: the caller's promise.
    if unsafe { is_own_build(build, bytes) } {
        // SAFETY: the caller's promise, for a copy of this build.
        crate::threads::adopt_gate(unsafe { &*gate.cast::<Gate>() });
    }
}

/// A loaded object of the process: its name and its address range.
struct LoadedObject {
    name: CString,
    from: usize,
    to: usize,
}

impl LoadedObject {
    fn holds(&self, address: usize) -> bool {
        (self.from..self.to).contains(&address)
    }
}

/// A variable in the object that this copy is part of.
static OWN: u8 = 0;

/// The functions with this name in the other objects of this process, with the objects' names.
fn others(function: &CStr) -> Vec<(CString, NonNull<c_void>)> {
    let own = (&raw const OWN).addr();
    let objects = objects().into_iter().filter(|object| !object.holds(own));
    objects.filter_map(|object| Some((object.name.clone(), find(&object, function)?))).collect()
}

/// The objects of this process with a name, without the program itself.
fn objects() -> Vec<LoadedObject> {
    let mut objects: Vec<LoadedObject> = Vec::new();
    // SAFETY: the function is called with the vector's address before this returns.
    unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut objects).cast()) };
    objects
}

/// Appends one object to the vector that `all` points to.
unsafe extern "C" fn note(
    info: *mut libc::dl_phdr_info,
    _: libc::size_t,
    all: *mut c_void,
) -> c_int {
    // SAFETY: the C library passes an object that is valid during the call.
    let info = unsafe { &*info };
    if info.dlpi_name.is_null() {
        return 0;
    }
    // SAFETY: not null, so a C string.
    let name = unsafe { CStr::from_ptr(info.dlpi_name) };
    // SAFETY: the object has this number of headers.
    let headers =
        unsafe { std::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let loaded = headers.iter().filter(|header| header.p_type == libc::PT_LOAD);
    let ends = loaded.map(|header| {
        let from = info.dlpi_addr.wrapping_add(header.p_vaddr) as usize;
        (from, from.saturating_add(header.p_memsz as usize))
    });
    let whole = ends.reduce(|one, next| (one.0.min(next.0), one.1.max(next.1)));
    if let Some((from, to)) = whole.filter(|_| !name.is_empty()) {
        // SAFETY: the vector of `objects`, which waits for this call.
        let all = unsafe { &mut *all.cast::<Vec<LoadedObject>>() };
        all.push(LoadedObject { name: name.to_owned(), from, to });
    }
    0
}

/// A function that the object itself defines, not one that it depends on.
fn find(object: &LoadedObject, function: &CStr) -> Option<NonNull<c_void>> {
    let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
    // SAFETY: a C string; the flag prevents that an object is loaded that was not there.
    let handle = NonNull::new(unsafe { libc::dlopen(object.name.as_ptr(), flags) })?;
    // SAFETY: a handle from the C library, and a C string.
    let found = unsafe { libc::dlsym(handle.as_ptr(), function.as_ptr()) };
    // SAFETY: a handle from the C library, closed once.
    unsafe { libc::dlclose(handle.as_ptr()) };
    NonNull::new(found).filter(|found| object.holds(found.addr().get()))
}

/// Keeps the object that this copy is part of loaded until the process ends.
fn stay() {
    let own = (&raw const OWN).addr();
    if let Some(object) = objects().into_iter().find(|object| object.holds(own)) {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE;
        // SAFETY: a C string; no object is loaded that was not there. The handle is never closed.
        let _ = unsafe { libc::dlopen(object.name.as_ptr(), flags) };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn functions_of_other_objects_are_found_once_each() {
        let found = others(c"getpid");
        assert_eq!(found.len(), 1, "the C library alone has it, whoever depends on that");
        assert!(found[0].0.to_str().unwrap().contains("libc.so"));
        assert!(others(c"hikyaku_no_such_function").is_empty());
    }

    #[test]
    fn another_build_learns_that_there_is_a_rank_and_does_not_get_it() {
        let ask = |build: &str| {
            let mut answer = std::mem::MaybeUninit::<RankAnswer>::uninit();
            // SAFETY: a text, and room for an answer.
            unsafe { hikyaku_rank_here(build.as_ptr(), build.len(), answer.as_mut_ptr()) };
            // SAFETY: written above.
            unsafe { answer.assume_init() }
        };
        assert_eq!(ask(build()).has_joined, 0);
        let joined = Communicator::join().unwrap();
        let other = ask("9.9.9, build of others");
        assert_eq!((other.has_joined, other.communicator.is_null()), (1, true));
        let said = other_build(c"/lib/x.so".to_owned(), &other).to_string();
        assert!(said.contains("/lib/x.so") && said.contains(build()), "{said}");
        let same = ask(build());
        // SAFETY: boxed for the copy that asks.
        let found = unsafe { Box::from_raw(same.communicator.cast::<Communicator>()) };
        assert!(std::rc::Rc::ptr_eq(&found.rank, &joined.rank));
        std::thread::spawn(move || assert_eq!(ask(build()).has_joined, 0)).join().unwrap();
    }
}
