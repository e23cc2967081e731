//! Copies between the memory of two processes, made by the kernel.
//!
//! `process_vm_readv` and `process_vm_writev` reach any address of another process of the same
//! user, in one copy, if the system allows it. Containers, Yama and seccomp filters often do not,
//! and only a trial with that very process shows it. The caller must know what is at the peer's
//! address: the kernel checks only that it is mapped. As with every remote write, the two programs
//! must agree on the use of the memory.

use std::sync::OnceLock;

use hikyaku_nic::ring::repeats_slowly;
use libc::{c_ulong, c_void, iovec, pid_t};
use rustix::io::Errno;

/// Linux copies at most this many bytes a call; a smaller request keeps the count positive.
const MOST_PER_CALL: usize = 1 << 30;

/// Copies `into.len()` bytes from address `from` of a process.
///
/// # Errors
/// The system's error. A part may have been copied.
pub(crate) fn read(pid: u32, from: u64, into: &mut [u8]) -> Result<(), Errno> {
    if !is_slow(from, into.as_ptr().addr() as u64, into.len()) {
        return read_at_once(pid, from, into);
    }
    let mut steps = Steps::like(from);
    let mut at = from;
    for piece in into.chunks_mut(STEP) {
        let step = steps.room(piece.len());
        read_at_once(pid, at, step)?;
        hikyaku_nic::ring::copy(step, piece);
        at = at.wrapping_add(STEP as u64);
    }
    Ok(())
}

fn read_at_once(pid: u32, from: u64, into: &mut [u8]) -> Result<(), Errno> {
    let length = into.len();
    let start = into.as_mut_ptr();
    // SAFETY: `copy` passes addresses inside `into`, which may be written.
    let call = |pid, local: &iovec, remote: &iovec| unsafe {
        libc::process_vm_readv(pid, local, ONE, remote, ONE, 0)
    };
    copy(pid, start.cast(), length, from, call)
}

/// Copies `payload` to address `to` of a process.
///
/// # Errors
/// The system's error. A part may have been copied.
pub(crate) fn write(pid: u32, to: u64, payload: &[u8]) -> Result<(), Errno> {
    if !is_slow(payload.as_ptr().addr() as u64, to, payload.len()) {
        return write_at_once(pid, to, payload);
    }
    let mut steps = Steps::like(to);
    let mut at = to;
    for piece in payload.chunks(STEP) {
        let step = steps.room(piece.len());
        hikyaku_nic::ring::copy(piece, step);
        write_at_once(pid, at, step)?;
        at = at.wrapping_add(STEP as u64);
    }
    Ok(())
}

fn write_at_once(pid: u32, to: u64, payload: &[u8]) -> Result<(), Errno> {
    let start = payload.as_ptr().cast_mut();
    // SAFETY: `copy` passes addresses inside `payload`, which the call only reads.
    let call = |pid, local: &iovec, remote: &iovec| unsafe {
        libc::process_vm_writev(pid, local, ONE, remote, ONE, 0)
    };
    copy(pid, start.cast(), payload.len(), to, call)
}

/// The length from which two copies are faster than a slow one, bytes.
const STEPS_FROM: usize = 32 << 10;

/// Bytes that are copied at a time in two steps: in the second-level cache.
const STEP: usize = 64 << 10;

/// Bytes of a page.
const PAGE: usize = 4096;

/// Whether the kernel copies slowly between these addresses: it uses `rep movsb` too. On a Zen 3
/// 1 MiB takes 620 us, and 120 between others.
fn is_slow(source: u64, target: u64, length: usize) -> bool {
    length >= STEPS_FROM && repeats_slowly(source, target) && is_amd()
}

/// Whether this is a processor of AMD. Those of others are not slow.
fn is_amd() -> bool {
    static IS_AMD: OnceLock<bool> = OnceLock::new();
    *IS_AMD.get_or_init(|| {
        #[cfg(target_arch = "x86_64")]
        {
            let name = std::arch::x86_64::__cpuid(0);
            let name = [name.ebx, name.edx, name.ecx].map(u32::to_le_bytes);
            name.as_flattened() == b"AuthenticAMD"
        }
        #[cfg(not(target_arch = "x86_64"))]
        false
    })
}

/// A buffer for copies in two steps, at the same place of a page as one end, so that the kernel's
/// copy is fast.
struct Steps {
    bytes: Vec<u8>,
    start: usize,
}

impl Steps {
    fn like(address: u64) -> Steps {
        let bytes = vec![0; STEP + PAGE];
        let start = (address as usize).wrapping_sub(bytes.as_ptr().addr()) % PAGE;
        Steps { bytes, start }
    }

    fn room(&mut self, length: usize) -> &mut [u8] {
        &mut self.bytes[self.start..][..length]
    }
}

/// Each call names one range on each side.
const ONE: c_ulong = 1;

/// Repeats a call until all is copied: the kernel may stop at a page that it must wait for.
fn copy(
    pid: u32,
    local: *mut c_void,
    length: usize,
    remote: u64,
    call: impl Fn(pid_t, &iovec, &iovec) -> isize,
) -> Result<(), Errno> {
    let pid = pid_t::try_from(pid).ok().filter(|pid| *pid > 0).ok_or(Errno::SRCH)?;
    let mut done = 0;
    while done < length {
        let part = (length - done).min(MOST_PER_CALL);
        let at = remote.checked_add(done as u64).ok_or(Errno::FAULT)?;
        let at = usize::try_from(at).map_err(|_| Errno::FAULT)?;
        let here = iovec { iov_base: local.wrapping_byte_add(done), iov_len: part };
        let there = iovec { iov_base: std::ptr::without_provenance_mut(at), iov_len: part };
        match call(pid, &here, &there) {
            copied if copied > 0 => done += copied.unsigned_abs(),
            0 => return Err(Errno::FAULT),
            _ => match last_error() {
                Errno::INTR => {}
                errno => return Err(errno),
            },
        }
    }
    Ok(())
}

fn last_error() -> Errno {
    let error = std::io::Error::last_os_error();
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::ptr::{NonNull, null_mut};

    use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

    fn address(bytes: &[u8]) -> u64 {
        bytes.as_ptr().expose_provenance() as u64
    }

    #[test]
    fn reads_and_writes_work_within_one_process() {
        let own = std::process::id();
        let source: Vec<u8> = (0..100_000u32).map(|i| i as u8).collect();
        let mut target = vec![0; source.len()];
        read(own, address(&source), &mut target).unwrap();
        assert_eq!(source, target);
        assert_eq!(read(own, 8, &mut target), Err(Errno::FAULT));
        assert_eq!(write(own, 8, &source), Err(Errno::FAULT));
        assert_eq!(read(own, 8, &mut []), Ok(()));
    }

    #[test]
    fn copies_are_exact_wherever_both_ends_lie() {
        let own = std::process::id();
        const SIZE: usize = 2 * STEP + STEP / 2;
        let source: Vec<u8> = (0..SIZE + PAGE).map(|at| (at % 251) as u8).collect();
        let mut target = vec![0; SIZE + PAGE];
        // Somewhere among these places the two are a slow pair.
        for at in (0..PAGE).step_by(16) {
            for length in [STEPS_FROM - 1, STEPS_FROM, STEP, STEP + 1, SIZE] {
                target.fill(0xee);
                read(own, address(&source), &mut target[at..][..length]).unwrap();
                assert!(target[at..][..length] == source[..length], "read, {length} at {at}");
                assert!(target[at + length..].iter().all(|byte| *byte == 0xee));
                target.fill(0xee);
                let to = target[at..].as_mut_ptr().expose_provenance() as u64;
                write(own, to, &source[..length]).unwrap();
                assert!(target[at..][..length] == source[..length], "write, {length} at {at}");
                assert!(target[at + length..].iter().all(|byte| *byte == 0xee));
            }
        }
    }

    /// Three pages: two that are mapped and one that is not.
    fn pages() -> NonNull<u8> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory, at an address of the system's choice.
        let start = unsafe { mmap_anonymous(null_mut(), 3 * PAGE, access, MapFlags::PRIVATE) };
        let start: NonNull<u8> = NonNull::new(start.unwrap().cast()).unwrap();
        // SAFETY: within the three pages.
        let last = unsafe { start.add(2 * PAGE) };
        // SAFETY: no code refers to the page.
        unsafe { munmap(last.as_ptr().cast(), PAGE) }.unwrap();
        start
    }

    #[test]
    fn missing_memory_ends_a_copy_after_a_part() {
        let (own, start) = (std::process::id(), pages());
        let at = start.as_ptr().expose_provenance() as u64 + 100;
        let payload: Vec<u8> = (0..3 * PAGE).map(|at| at as u8 | 1).collect();
        assert_eq!(write(own, at, &payload), Err(Errno::FAULT));
        // SAFETY: the two pages are mapped until the end of the test, and no code writes them now.
        let pages = unsafe { std::slice::from_raw_parts(start.as_ptr(), 2 * PAGE) };
        assert_eq!(pages[..100], [0; 100]);
        assert_eq!(pages[100..], payload[..2 * PAGE - 100], "all before what is missing");
        let mut into = vec![0; 3 * PAGE];
        assert_eq!(read(own, at, &mut into), Err(Errno::FAULT));
        assert_eq!(into[..2 * PAGE - 100], payload[..2 * PAGE - 100]);
        assert_eq!(into[2 * PAGE - 100..], [0; PAGE + 100]);
        // SAFETY: no code refers to the pages any more.
        unsafe { munmap(start.as_ptr().cast(), 2 * PAGE) }.unwrap();
    }

    #[test]
    fn memory_that_may_only_be_read_is_not_written() {
        let (own, start) = (std::process::id(), pages());
        let address = start.as_ptr().expose_provenance() as u64;
        write(own, address, &[3; 2 * PAGE]).unwrap();
        // SAFETY: within the pages, to which no code refers.
        let second = unsafe { start.add(PAGE) };
        // SAFETY: the page was mapped here, and no code refers to it.
        unsafe { mprotect(second.as_ptr().cast(), PAGE, MprotectFlags::READ) }.unwrap();
        assert_eq!(write(own, address + PAGE as u64, &[7]), Err(Errno::FAULT));
        assert_eq!(write(own, address, &[7; 2 * PAGE]), Err(Errno::FAULT));
        let mut into = [0; 2 * PAGE];
        read(own, address, &mut into).unwrap();
        assert_eq!(into[..PAGE], [7; PAGE], "what may be written is, in part");
        assert_eq!(into[PAGE..], [3; PAGE]);
        // SAFETY: no code refers to the pages any more.
        unsafe { munmap(start.as_ptr().cast(), 2 * PAGE) }.unwrap();
    }

    #[test]
    fn a_missing_process_is_an_error() {
        assert_eq!(read(0, 8, &mut [0]), Err(Errno::SRCH));
        assert_eq!(read(u32::MAX, 8, &mut [0]), Err(Errno::SRCH));
        assert_eq!(write(u32::MAX >> 1, 8, &[0]), Err(Errno::SRCH));
    }

    #[test]
    fn a_partial_copy_continues() {
        let asked = Cell::new(0);
        let call = |_, local: &iovec, remote: &iovec| {
            assert_eq!(remote.iov_base.addr(), 1000 + asked.get());
            assert_eq!(local.iov_base.addr(), asked.get());
            let part = local.iov_len.min(7);
            asked.set(asked.get() + part);
            part as isize
        };
        assert_eq!(copy(1, std::ptr::null_mut(), 100, 1000, call), Ok(()));
        assert_eq!(asked.get(), 100);
        assert_eq!(copy(1, std::ptr::null_mut(), 100, 0, |_, _, _| 0), Err(Errno::FAULT));
        assert_eq!(copy(1, std::ptr::null_mut(), 9, u64::MAX, |_, _, _| 1), Err(Errno::FAULT));
    }
}
