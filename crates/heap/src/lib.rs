//! `libhikyaku_heap.so`: the C library's allocating functions, for `hikyaku run --shared-heap`.
//!
//! It is preloaded, so that programs, numpy and the C library itself call these. They pass
//! everything on to the C library's heap until the process has joined a job as a rank. Its library
//! then passes the rank's shared heap ([`hikyaku_heap_use_1`]). From then on large allocations go
//! there, and pointers into it come back to it. In a process that is not a rank (a shell, a child
//! that executes another program) each call costs one more comparison.
//!
//! All functions of the C library with these names are here: a missing function would pass it
//! memory that it does not know. Errors are the C library's: null and `ENOMEM`, or `EINVAL`.
//!
//! Nothing here may allocate, take a lock or panic.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

// glibc exports its own functions under these names too.
unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, each: usize) -> *mut c_void;
    fn __libc_realloc(start: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(start: *mut c_void);
}

/// The alignment of the heap's buffers.
const PAGE: usize = 4096;

type Allocate = extern "C" fn(usize) -> *mut u8;
type SizeOf = extern "C" fn(*mut u8) -> usize;
type Free = extern "C" fn(*mut u8);

/// The heap: its first address, one past its last, and the least length that it serves. All are
/// unset until the heap exists; `END` and `FROM` are set last.
static START: AtomicUsize = AtomicUsize::new(0);
static END: AtomicUsize = AtomicUsize::new(0);
static FROM: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Its functions, set before `END` and `FROM`.
static ALLOCATE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static SIZE_OF: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
static FREE: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Sets the rank's heap. Called by the rank's library, once.
///
/// # Safety
/// The functions may be called at any time from any thread until the process ends, and every buffer
/// that `allocate` returns is between `start` and `end`, at a multiple of 4096.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hikyaku_heap_use_1(
    start: usize,
    end: usize,
    from: usize,
    allocate: Allocate,
    size_of: SizeOf,
    free: Free,
) {
    ALLOCATE.store(allocate as *mut c_void, Ordering::Relaxed);
    SIZE_OF.store(size_of as *mut c_void, Ordering::Relaxed);
    FREE.store(free as *mut c_void, Ordering::Relaxed);
    START.store(start, Ordering::Relaxed);
    // Release: a thread that sees one of these sees the stores above.
    END.store(end, Ordering::Release);
    FROM.store(from, Ordering::Release);
}

/// A buffer of the heap; null: the length is below the limit, or there is no room.
fn from_heap(bytes: usize) -> *mut c_void {
    if bytes < FROM.load(Ordering::Acquire) {
        return ptr::null_mut();
    }
    let found = ALLOCATE.load(Ordering::Relaxed);
    // SAFETY: stored before `FROM`, and of this type.
    let allocate = unsafe { ptr::from_ref(&found).cast::<Allocate>().read() };
    keeping_errno(|| allocate(bytes)).cast()
}

/// Whether a pointer is the heap's.
fn is_of_heap(start: *mut c_void) -> bool {
    let end = END.load(Ordering::Acquire);
    start.addr() < end && start.addr() >= START.load(Ordering::Relaxed)
}

/// The length of a buffer of the heap.
fn length(start: *mut c_void) -> usize {
    let found = SIZE_OF.load(Ordering::Relaxed);
    // SAFETY: stored before `END`, which the caller has compared with, and of this type.
    let size_of = unsafe { ptr::from_ref(&found).cast::<SizeOf>().read() };
    size_of(start.cast())
}

/// Runs a call that may change `errno`, which `free` and a successful `malloc` must preserve.
fn keeping_errno<R>(act: impl FnOnce() -> R) -> R {
    // SAFETY: it has no condition.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the thread's own word, always there.
    let before = unsafe { errno.read() };
    let result = act();
    set_errno(before);
    result
}

fn set_errno(to: c_int) {
    // SAFETY: it has no condition.
    let errno = unsafe { libc::__errno_location() };
    // SAFETY: the thread's own word, always there.
    unsafe { errno.write(to) };
}

/// C17 7.22.3.4.
#[unsafe(no_mangle)]
pub extern "C" fn malloc(bytes: usize) -> *mut c_void {
    let start = from_heap(bytes);
    if !start.is_null() {
        return start;
    }
    // SAFETY: any length is valid.
    unsafe { __libc_malloc(bytes) }
}

/// C17 7.22.3.2.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, each: usize) -> *mut c_void {
    if let Some(bytes) = count.checked_mul(each) {
        let start = from_heap(bytes);
        if !start.is_null() {
            // SAFETY: it has `bytes` bytes and is new; the memory may have been another buffer
            // before.
            unsafe { start.write_bytes(0, bytes) };
            return start;
        }
    }
    // SAFETY: any lengths are valid: glibc checks their product.
    unsafe { __libc_calloc(count, each) }
}

/// C17 7.22.3.3.
///
/// # Safety
/// Null, or allocated and not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free(start: *mut c_void) {
    if !is_of_heap(start) {
        // SAFETY: the caller's promise.
        return unsafe { __libc_free(start) };
    }
    let found = FREE.load(Ordering::Relaxed);
    // SAFETY: stored before `END`, and of this type.
    let give_back = unsafe { ptr::from_ref(&found).cast::<Free>().read() };
    keeping_errno(|| give_back(start.cast()));
}

/// C17 7.22.3.5. A buffer that grows gets a quarter more than it had, since it cannot grow in
/// place.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(start: *mut c_void, bytes: usize) -> *mut c_void {
    if is_of_heap(start) {
        if bytes == 0 {
            // As the C library does.
            // SAFETY: the caller's promise.
            unsafe { free(start) };
            return ptr::null_mut();
        }
        let before = length(start);
        if (before / 2..=before).contains(&bytes) {
            return start;
        }
        let room =
            if bytes > before { bytes.max(before.saturating_add(before / 4)) } else { bytes };
        let mut other = malloc(room);
        if other.is_null() {
            other = malloc(bytes);
        }
        // SAFETY: the caller's promise; both have at least the copied length.
        return unsafe { moved(start, before.min(bytes), other) };
    }
    let from = FROM.load(Ordering::Acquire);
    if !start.is_null() && bytes >= from {
        // SAFETY: the caller's promise; it is no buffer of the heap.
        let before = unsafe { malloc_usable_size(start) };
        // A longer buffer stays in place: from 128 KiB on the C library moves pages, not bytes.
        let other = if before < 2 * from { from_heap(bytes) } else { ptr::null_mut() };
        if !other.is_null() {
            // SAFETY: as above.
            return unsafe { moved(start, before.min(bytes), other) };
        }
    } else if start.is_null() {
        return malloc(bytes);
    }
    // SAFETY: the caller's promise; it is no buffer of the heap.
    unsafe { __libc_realloc(start, bytes) }
}

/// Copies to `other` and frees `start`, unless `other` is null.
///
/// # Safety
/// As for [`free`]; both have at least `bytes` bytes.
unsafe fn moved(start: *mut c_void, bytes: usize, other: *mut c_void) -> *mut c_void {
    if !other.is_null() {
        // SAFETY: the caller's promise; one of them is new.
        unsafe { other.copy_from_nonoverlapping(start, bytes) };
        // SAFETY: the caller's promise.
        unsafe { free(start) };
    }
    other
}

/// glibc's extension: `realloc` of a product.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    start: *mut c_void,
    count: usize,
    each: usize,
) -> *mut c_void {
    let Some(bytes) = count.checked_mul(each) else {
        set_errno(libc::ENOMEM);
        return ptr::null_mut();
    };
    // SAFETY: the caller's promise.
    unsafe { realloc(start, bytes) }
}

/// POSIX.1-2017.
///
/// # Safety
/// There is room for a pointer at `into`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    into: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    let start = keeping_errno(|| memalign(alignment, bytes));
    if start.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's promise.
    unsafe { into.write(start) };
    0
}

/// C17 7.22.3.1.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    if !alignment.is_power_of_two() {
        set_errno(libc::EINVAL);
        return ptr::null_mut();
    }
    memalign(alignment, bytes)
}

/// glibc's extension.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    let start = if alignment <= PAGE { from_heap(bytes) } else { ptr::null_mut() };
    if !start.is_null() {
        return start;
    }
    // SAFETY: glibc checks both.
    unsafe { __libc_memalign(alignment, bytes) }
}

/// glibc's extension: at a multiple of a page.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(bytes: usize) -> *mut c_void {
    memalign(PAGE, bytes)
}

/// glibc's extension: whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    let Some(whole) = bytes.max(1).checked_next_multiple_of(PAGE) else {
        set_errno(libc::ENOMEM);
        return ptr::null_mut();
    };
    memalign(PAGE, whole)
}

/// Linux's remapping of pages. Of memory from `malloc`, which no program may remap, it would move
/// or unmap pages that later buffers of the heap have.
///
/// # Safety
/// As the system's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    start: *mut c_void,
    before: usize,
    bytes: usize,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    if is_of_heap(start) {
        set_errno(libc::EINVAL);
        return libc::MAP_FAILED;
    }
    // SAFETY: the caller's promise. The call returns an address, or -1.
    let moved = unsafe { libc::syscall(libc::SYS_mremap, start, before, bytes, flags, to) };
    ptr::with_exposed_provenance_mut(moved as usize)
}

/// glibc's extension: the number of usable bytes.
///
/// # Safety
/// As for [`free`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(start: *mut c_void) -> usize {
    type Usable = unsafe extern "C" fn(*mut c_void) -> usize;
    static NEXT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
    if is_of_heap(start) {
        return length(start);
    }
    let mut next = NEXT.load(Ordering::Relaxed);
    if next.is_null() {
        // SAFETY: the name is a C string.
        next = unsafe { libc::dlsym(libc::RTLD_NEXT, c"malloc_usable_size".as_ptr()) };
        NEXT.store(next, Ordering::Relaxed);
    }
    if next.is_null() {
        return 0;
    }
    // SAFETY: the function of that name has this type.
    let usable = unsafe { ptr::from_ref(&next).cast::<Usable>().read() };
    // SAFETY: the caller's promise.
    unsafe { usable(start) }
}
