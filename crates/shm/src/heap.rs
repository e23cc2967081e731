//! The shared heap: large allocations of a program, made in its rank's region.
//!
//! Peers copy messages out of and into a region without the kernel, with one copy that both ends
//! can share. Buffers of `World::alloc` are in the region; the heap also puts ordinary buffers
//! there, of programs that are unaware of it. Two front ends lead here:
//!
//! ```text
//!   C, numpy    malloc ── libhikyaku_heap.so, preloaded ──┐  from FROM bytes on,
//!   Rust        #[global_allocator] SharedHeap ───────────┴─► after the rank has joined ─► Heap
//!                  all else, and what does not fit: the C library's heap
//! ```
//!
//! - Memory is committed when it is allocated, so a lack of memory is an error and not a signal. An
//!   allocation that does not fit is made in the C library's heap.
//! - Freed buffers are kept for later ones of their size, up to [`KEPT_MOST`] bytes: committing a
//!   page takes a quarter of a microsecond.
//! - A forked child must not write into memory that its parent and the parent's peers share. It
//!   gets a copy of every buffer, at the same address, before `fork` returns on either side; its
//!   own large allocations are the C library's. `vfork` and `posix_spawn`, and so most ways to
//!   start another program, copy nothing.
//! - The heap lasts as long as the process: the program may free a buffer after its rank has left.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::io::{ErrorKind, Read, Write};
use std::mem::ManuallyDrop;
use std::os::unix::net::UnixStream;
use std::process::abort;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use hikyaku_nic::region::RegionBuffer;

use crate::fork::at_forks;
use crate::memory::available;
use crate::region::JobRegion;
use crate::wait::{sleep_while, wake_one};

/// The smallest allocation made here, bytes: shorter messages gain little.
const FROM: usize = 64 << 10;

/// The alignment of all buffers; their lengths are multiples of it.
const PAGE: usize = 4096;

/// Limits of kept free buffers: total bytes, and bytes of one buffer.
const KEPT_MOST: usize = 64 << 20;
const KEPT_EACH: usize = 32 << 20;

/// The bytes that the heap leaves free in the machine or the control group. The C library makes
/// further allocations, whose pages take memory when the program touches them.
const LEFT: u64 = 32 << 20;

/// The bounds of the region: `free` recognizes the heap's buffers by them.
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);

/// Whether the program uses [`SharedHeap`] as its allocator.
static IS_ALLOCATOR: AtomicBool = AtomicBool::new(false);

/// The heap of the first rank that this process has joined as.
static HEAP: Mutex<Option<Heap>> = Mutex::new(None);

/// The lock of [`HEAP`]. It is also held across a fork, which a Rust mutex does not allow. 0:
/// unlocked, 1: locked, 2: locked with waiters.
static TURN: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Whether this thread holds the lock. The heap's own allocations then go to the system.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The global allocator of a program whose large buffers peers may copy without the kernel.
///
/// ```no_run
/// #[global_allocator]
/// static HEAP: hikyaku_shm::SharedHeap = hikyaku_shm::SharedHeap;
/// ```
///
/// Allocations of 64 KiB and more, made after the program has joined its job, are in memory that
/// the ranks of a node share. All others, and those that do not fit, are made by the system's
/// allocator. A program that is started on its own, or in virtual time, allocates as without it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SharedHeap;

// SAFETY: a buffer of the heap is at least as long as asked for, at a multiple of a page, and is
// handed out once until it is freed; everything else is `System`'s.
unsafe impl GlobalAlloc for SharedHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= FROM && layout.align() <= PAGE {
            let start = allocate(layout.size());
            if !start.is_null() {
                return start;
            }
        } else if !IS_ALLOCATOR.load(Ordering::Relaxed) {
            IS_ALLOCATOR.store(true, Ordering::Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < FROM || END.load(Ordering::Relaxed) == 0 {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the caller's promise.
        let start = unsafe { self.alloc(layout) };
        if !start.is_null() {
            // SAFETY: that many bytes were allocated.
            unsafe { start.write_bytes(0, layout.size()) };
        }
        start
    }

    unsafe fn dealloc(&self, start: *mut u8, layout: Layout) {
        if is_inside(start) {
            return free(start);
        }
        // SAFETY: the caller's promise; it was not allocated here, so `System` has.
        unsafe { System.dealloc(start, layout) };
    }

    unsafe fn realloc(&self, start: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let crosses = layout.size() < FROM && size >= FROM && END.load(Ordering::Relaxed) != 0;
        if !is_inside(start) && !crosses {
            // SAFETY: the caller's promise; it was not allocated here, so `System` has.
            return unsafe { System.realloc(start, layout, size) };
        }
        if is_inside(start) && (FROM..=size_of(start)).contains(&size) {
            return start;
        }
        // SAFETY: the caller's promise: the size is not 0, and the alignment is that of before.
        let wanted = unsafe { Layout::from_size_align_unchecked(size, layout.align()) };
        // SAFETY: the size is not 0.
        let other = unsafe { self.alloc(wanted) };
        if !other.is_null() {
            // SAFETY: both are at least that long, and one is new.
            unsafe { other.copy_from_nonoverlapping(start, size.min(layout.size())) };
            // SAFETY: the caller's promise.
            unsafe { self.dealloc(start, layout) };
        }
        other
    }
}

/// The type of the preloaded library's function. Its arguments: the bounds of the heap, the
/// smallest allocation in it, and the functions to call.
type Use = unsafe extern "C" fn(
    start: usize,
    end: usize,
    from: usize,
    allocate: extern "C" fn(usize) -> *mut u8,
    size_of: extern "C" fn(*mut u8) -> usize,
    free: extern "C" fn(*mut u8),
);

/// The preloaded library's function of that type. Its number is the version of the argument list.
const USE: &CStr = c"hikyaku_heap_use_1";

/// Makes the program's large allocations in this region from now on, if it has a front end of the
/// heap and this is the first rank that the process joins as.
pub(crate) fn begin(region: &Arc<JobRegion>) {
    static HANDLERS: Once = Once::new();
    let preloaded = preloaded();
    if preloaded.is_none() && !IS_ALLOCATOR.load(Ordering::Relaxed) {
        return;
    }
    let turn = HeapGuard::take();
    let mut heap = HEAP.lock().unwrap_or_else(PoisonError::into_inner);
    if heap.is_some() {
        return;
    }
    *heap = Some(Heap::new(Arc::clone(region)));
    drop(heap);
    drop(turn);
    HANDLERS.call_once(|| at_forks(before_fork, after_in_parent, after_in_child));
    let (start, end) = region.own_range();
    START.store(start, Ordering::Relaxed);
    END.store(end, Ordering::Relaxed);
    if let Some(use_it) = preloaded {
        // SAFETY: the function of that name takes these; they are safe to call at any time.
        unsafe { use_it(start, end, FROM, allocate, size_of, free) };
    }
}

fn preloaded() -> Option<Use> {
    const { assert!(size_of_use() == size_of_pointer()) };
    // SAFETY: the argument is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, USE.as_ptr()) };
    // SAFETY: a function pointer is as large as `found`, and the name determines its type.
    (!found.is_null()).then(|| unsafe { ptr::from_ref(&found).cast::<Use>().read() })
}

const fn size_of_use() -> usize {
    std::mem::size_of::<Use>()
}

const fn size_of_pointer() -> usize {
    std::mem::size_of::<*mut libc::c_void>()
}

/// Whether a pointer lies in the heap.
fn is_inside(start: *mut u8) -> bool {
    let (from, to) = (START.load(Ordering::Relaxed), END.load(Ordering::Relaxed));
    (from..to).contains(&start.addr())
}

/// Allocates a buffer of at least `bytes` bytes. Null if there is no room, or no heap.
extern "C" fn allocate(bytes: usize) -> *mut u8 {
    if INSIDE.get() {
        return ptr::null_mut();
    }
    with_heap(|heap| heap.allocate(bytes)).flatten().unwrap_or(ptr::null_mut())
}

/// The length of a buffer of the heap.
extern "C" fn size_of(start: *mut u8) -> usize {
    with_heap(|heap| heap.taken.get(&start.addr()).map(|it| it.len())).flatten().unwrap_or(0)
}

/// Frees a buffer of the heap. Any other pointer ends the process, as with the C library.
extern "C" fn free(start: *mut u8) {
    if INSIDE.get() {
        // In another handler of this fork: the buffer stays, since the buffers are being copied.
        return;
    }
    if with_heap(|heap| heap.free(start.addr())) != Some(true) {
        let line = format!(
            "hikyaku: {start:?} was freed, which is no buffer of the shared heap: freed twice?\n"
        );
        let _ = std::io::stderr().write_all(line.as_bytes());
        abort();
    }
}

fn with_heap<R>(act: impl FnOnce(&mut Heap) -> R) -> Option<R> {
    let _turn = HeapGuard::take();
    HEAP.lock().unwrap_or_else(PoisonError::into_inner).as_mut().map(act)
}

/// Proof that this thread holds the lock of the heap.
struct HeapGuard;

impl HeapGuard {
    fn take() -> HeapGuard {
        if TURN.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_err() {
            while TURN.swap(2, Ordering::Acquire) != 0 {
                sleep_while(&TURN, 2, None);
            }
        }
        INSIDE.set(true);
        HeapGuard
    }
}

impl Drop for HeapGuard {
    fn drop(&mut self) {
        INSIDE.set(false);
        if TURN.swap(0, Ordering::Release) == 2 {
            wake_one(&TURN);
        }
    }
}

#[derive(Debug)]
struct Heap {
    region: Arc<JobRegion>,
    /// The buffers in use by the program, by their addresses.
    taken: BTreeMap<usize, RegionBuffer>,
    /// Freed buffers that are kept, and their total bytes.
    kept: Vec<RegionBuffer>,
    kept_bytes: usize,
    /// Whether the process that owns the buffers is forking.
    forks: bool,
    /// During a fork, the two ends by which the parent waits for its child's copies.
    ends: Option<(UnixStream, UnixStream)>,
}

impl Heap {
    fn new(region: Arc<JobRegion>) -> Heap {
        let (taken, kept) = (BTreeMap::new(), Vec::new());
        Heap { region, taken, kept, kept_bytes: 0, forks: false, ends: None }
    }

    fn allocate(&mut self, bytes: usize) -> Option<*mut u8> {
        if !self.region.is_of_this_process() {
            return None;
        }
        let wanted = bytes.checked_next_multiple_of(PAGE)?;
        let fits =
            |it: &RegionBuffer| (wanted..=wanted.saturating_add(wanted / 4)).contains(&it.len());
        let mut buffer = match self.kept.iter().position(fits) {
            Some(at) => {
                let kept = self.kept.swap_remove(at);
                self.kept_bytes -= kept.len();
                kept
            }
            None => self.region.allocate_beside(LEFT, wanted).ok()?,
        };
        let start = buffer.as_mut_ptr();
        self.taken.insert(start.expose_provenance(), buffer);
        Some(start)
    }

    /// Frees the buffer that begins at `start`; `false`: no buffer does.
    fn free(&mut self, start: usize) -> bool {
        let Some(buffer) = self.taken.remove(&start) else { return false };
        let kept = self.kept_bytes + buffer.len();
        if buffer.len() <= KEPT_EACH && kept <= KEPT_MOST {
            self.kept_bytes = kept;
            self.kept.push(buffer);
        }
        true
    }
}

extern "C" fn before_fork() {
    // The lock is released after the fork, in both processes.
    let _turn = ManuallyDrop::new(HeapGuard::take());
    let mut heap = HEAP.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(heap) = &mut *heap else { return };
    heap.forks = heap.region.is_of_this_process();
    if heap.forks && !heap.taken.is_empty() {
        // Without this pair the parent continues while the child copies.
        heap.ends = UnixStream::pair().ok();
    }
}

/// Waits until the child has its copies, or has died.
extern "C" fn after_in_parent() {
    let ends = end_of_fork(|_| ());
    if let Some((mut here, there)) = ends {
        drop(there);
        while matches!(here.read(&mut [0]), Err(error) if error.kind() == ErrorKind::Interrupted) {}
    }
}

/// Copies the program's buffers into memory of this process at the same addresses.
extern "C" fn after_in_child() {
    let ends = end_of_fork(|heap| {
        let bytes: usize = heap.taken.values().map(|it| it.len()).sum();
        let is_short = available().is_some_and(|free| free < bytes as u64);
        if is_short || heap.taken.values().any(|it| heap.region.make_private(it).is_err()) {
            let line = format!(
                "hikyaku: no memory to copy {bytes} bytes of the shared heap for a forked child\n"
            );
            let _ = std::io::stderr().write_all(line.as_bytes());
            abort();
        }
    });
    drop(ends);
}

/// Ends a fork in either process. Releases the lock that [`before_fork`] has taken.
fn end_of_fork(act: impl FnOnce(&mut Heap)) -> Option<(UnixStream, UnixStream)> {
    let _turn = HeapGuard;
    let mut heap = HEAP.lock().unwrap_or_else(PoisonError::into_inner);
    let heap = heap.as_mut()?;
    if std::mem::take(&mut heap.forks) {
        act(heap);
    }
    heap.ends.take()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::region::tests::region;

    #[test]
    fn freed_buffers_are_kept_up_to_a_limit() {
        let mut heap = Heap::new(region(1 << 30));
        let first = heap.allocate(FROM).unwrap();
        assert!(first.addr().is_multiple_of(PAGE));
        assert!(heap.free(first.addr()) && !heap.free(first.addr()), "freed twice");
        assert_eq!(heap.allocate(FROM - 100), Some(first), "as long, to a page");
        assert_ne!(heap.allocate(FROM), Some(first), "it is taken");
        let many: Vec<_> = (0..5).map(|_| heap.allocate(KEPT_EACH / 2).unwrap()).collect();
        many.iter().for_each(|start| assert!(heap.free(start.addr())));
        assert_eq!((heap.kept.len(), heap.kept_bytes), (4, KEPT_MOST));
        let large = heap.allocate(KEPT_EACH + 1).unwrap();
        assert!(heap.free(large.addr()));
        assert_eq!(heap.kept.len(), 4, "too large to keep");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut heap = Heap::new(region(1 << 20));
        for bytes in [2 << 20, usize::MAX] {
            assert_eq!(heap.allocate(bytes), None);
        }
        assert!(heap.allocate(1 << 20).is_some());
        assert_eq!(heap.allocate(FROM), None);
    }

    #[test]
    fn a_process_without_a_front_has_no_heap() {
        begin(&region(1 << 20));
        assert!(HEAP.lock().unwrap().is_none());
        assert!(allocate(FROM).is_null());
    }
}
