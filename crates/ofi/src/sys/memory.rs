//! Memory that a provider may touch at any time, and its registration.
//!
//! No reference to bytes that a peer may write is ever made: they are copied in and out by address.
//! A race with a peer gives some bytes of each, as between any two users of shared memory.

use std::alloc::{self, Layout};
use std::ffi::c_void;
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use hikyaku_nic::ring::copy_apart;

use super::abi::{FidEp, FidMr, flag, mr_mode};
use super::info::NO_CONTEXT;
use super::object::{Domain, OpenObject};
use crate::Error;

const PAGE: usize = 4096;

/// Zeroed bytes at a fixed address, from the start of a page on. Their pages are allocated on first
/// use, unless the provider pins registered memory.
pub(crate) struct PinnedBytes {
    /// The allocation, which is a page longer.
    all: NonNull<u8>,
    layout: Layout,
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: it owns its bytes, which are reached by address only.
unsafe impl Send for PinnedBytes {}
// SAFETY: as above; callers arrange that threads do not copy to the same bytes at once.
unsafe impl Sync for PinnedBytes {}

impl PinnedBytes {
    pub(crate) fn new(length: usize) -> Result<Self, Error> {
        let too_much = || Error::Invalid(format!("no memory for {length} bytes of a region"));
        let more = length.max(1).checked_add(PAGE).ok_or_else(too_much)?;
        // An allocator that is asked for aligned pages writes the zeros itself.
        let layout = Layout::from_size_align(more, 1).map_err(|_| too_much())?;
        // SAFETY: the layout's size is not zero.
        let all = NonNull::new(unsafe { alloc::alloc_zeroed(layout) }).ok_or_else(too_much)?;
        let before = all.as_ptr().addr().next_multiple_of(PAGE) - all.as_ptr().addr();
        // SAFETY: less than a page, which was allocated beside the bytes.
        let start = unsafe { all.add(before) };
        Ok(Self { all, layout, start, length })
    }

    pub(crate) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for PinnedBytes {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and is freed once.
        unsafe { alloc::dealloc(self.all.as_ptr(), self.layout) };
    }
}

/// Memory with its registration. The memory stays if the registration cannot be closed.
pub(crate) struct Registered {
    pub(crate) memory: ManuallyDrop<PinnedBytes>,
    handle: OpenObject<FidMr>,
    domain: Arc<Domain>,
}

/// The peers' access to registered memory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum PeerAccess {
    /// Nothing: it holds our own messages.
    Own,
    /// Read and write it.
    Peers,
}

impl Registered {
    pub(crate) fn new(
        domain: &Arc<Domain>,
        endpoint: &OpenObject<FidEp>,
        length: usize,
        access: PeerAccess,
    ) -> Result<Self, Error> {
        let memory = PinnedBytes::new(length)?;
        let mut rights = flag::SEND | flag::RECV | flag::READ | flag::WRITE;
        if access == PeerAccess::Peers {
            rights |= flag::REMOTE_READ | flag::REMOTE_WRITE;
        }
        let bytes = (memory.start().cast_const(), memory.length());
        let handle = register((domain, endpoint), bytes, rights, domain.new_key())?;
        let memory = ManuallyDrop::new(memory);
        Ok(Self { memory, handle, domain: Arc::clone(domain) })
    }

    /// The descriptor by which operations name the memory.
    pub(crate) fn descriptor(&self) -> *mut c_void {
        self.handle.get().mem_desc
    }

    fn remote(&self) -> Remote {
        remote(&self.domain, &self.handle, self.memory.start())
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        if self.handle.close() {
            // SAFETY: dropped here only, once; the provider no longer uses it.
            unsafe { ManuallyDrop::drop(&mut self.memory) };
        }
    }
}

/// Registers bytes, which stay until the registration is closed. The key is the given one, unless
/// the provider chooses.
fn register(
    (domain, endpoint): (&Domain, &OpenObject<FidEp>),
    (start, length): (*const u8, usize),
    rights: u64,
    key: u64,
) -> Result<OpenObject<FidMr>, Error> {
    let handle = domain.handle();
    // SAFETY: an open domain has its table.
    let calls = unsafe { &*handle.get().mr };
    let start = start.cast::<c_void>();
    let mut region = ptr::null_mut();
    // SAFETY: the domain is open; the memory is there until the registration is closed.
    let result = unsafe {
        (calls.reg)(handle.fid(), start, length, rights, 0, key, 0, &raw mut region, NO_CONTEXT)
    };
    // SAFETY: fi_mr_reg has filled it in.
    let handle = unsafe { OpenObject::opened(result, region) }
        .map_err(|result| domain.error("fi_mr_reg", result as isize))?;
    if domain.has_mr_mode(mr_mode::ENDPOINT) {
        domain.check("fi_mr_bind", handle.bind(endpoint, 0))?;
        domain.check("fi_mr_enable", handle.enable())?;
    }
    Ok(handle)
}

/// The remote address of registered memory: relative to its start, or the owner's address.
fn remote(domain: &Domain, handle: &OpenObject<FidMr>, start: *const u8) -> Remote {
    let by_address = domain.has_mr_mode(mr_mode::VIRT_ADDR);
    Remote { address: if by_address { start as u64 } else { 0 }, key: handle.get().key }
}

/// Memory of the program that peers may read, until this is dropped.
pub struct LentMemory {
    _handle: OpenObject<FidMr>,
    remote: Remote,
    /// Closed after the registration.
    _domain: Arc<Domain>,
}

/// The bit that marks a key made of a name; other keys are counted.
const NAMED: u64 = 1 << 63;

impl LentMemory {
    /// Lends bytes to peers, for a provider that has the kernel or a device read them: see
    /// [`Endpoint::lends`](crate::Endpoint::lends). Names in use must differ, and be below 2^63.
    pub(crate) fn new(
        domain: &Arc<Domain>,
        endpoint: &OpenObject<FidEp>,
        name: u64,
        bytes: &[u8],
    ) -> Result<Self, Error> {
        let range = (bytes.as_ptr(), bytes.len());
        let handle = register((domain, endpoint), range, flag::REMOTE_READ, name | NAMED)?;
        let remote = remote(domain, &handle, bytes.as_ptr());
        Ok(Self { _handle: handle, remote, _domain: Arc::clone(domain) })
    }

    /// The address and key for a peer's reads.
    pub fn remote(&self) -> Remote {
        self.remote
    }
}

/// Registered memory that peers may read and write. Operations in flight keep it.
#[derive(Clone)]
pub struct Region(pub(crate) Arc<Registered>);

/// The address of a region of a peer, as given by the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// The address of its first byte.
    pub address: u64,
    /// The key that gives access.
    pub key: u64,
}

impl Remote {
    /// Encodes it for a message.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.address.to_le_bytes());
        bytes[8..].copy_from_slice(&self.key.to_le_bytes());
        bytes
    }

    /// Decodes it.
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        let [a, k] = [0, 8].map(|at| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        });
        Self { address: a, key: k }
    }
}

impl Region {
    /// The length, bytes.
    pub fn length(&self) -> usize {
        self.0.memory.length()
    }

    /// The address and key for a peer's access.
    pub fn remote(&self) -> Remote {
        self.0.remote()
    }

    /// Copies bytes into it. Panics if they are out of bounds.
    pub fn copy_in(&self, offset: usize, bytes: &[u8]) {
        let place = self.place(offset, bytes.len());
        // SAFETY: `place` has checked the target's bounds; a slice of a program cannot overlap it,
        // as no reference into regions is ever made.
        unsafe { copy_apart(bytes.as_ptr(), place, bytes.len()) };
    }

    /// Copies bytes out of it. Panics if they are out of bounds.
    pub fn copy_out(&self, offset: usize, bytes: &mut [u8]) {
        let place = self.place(offset, bytes.len());
        // SAFETY: as in `copy_in`.
        unsafe { copy_apart(place, bytes.as_mut_ptr(), bytes.len()) };
    }

    /// The address of bytes within it. Panics if they are out of bounds.
    pub(crate) fn place(&self, offset: usize, length: usize) -> *mut u8 {
        let end = offset.checked_add(length);
        let inside = end.is_some_and(|end| end <= self.length());
        assert!(inside, "{length} bytes at {offset} reach outside a region of {}", self.length());
        // SAFETY: the offset is within the allocation.
        unsafe { self.0.memory.start().add(offset) }
    }
}
