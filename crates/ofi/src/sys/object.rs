//! Objects of libfabric: each closes when it is dropped, after the objects opened within it.

use std::ffi::c_int;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::abi::{self, Fid, FidAv, FidCq, FidDomain, FidEp, FidFabric, FidMr};
use super::info::{NO_CONTEXT, OwnedInfo, provider};
use crate::Error;

/// A structure of libfabric that begins with a [`Fid`].
///
/// # Safety
///
/// The structure must begin with a [`Fid`].
pub(crate) unsafe trait FabricObject {}

// SAFETY: its first field is a `Fid`, and it is `repr(C)`; so below.
unsafe impl FabricObject for FidFabric {}
// SAFETY: as above.
unsafe impl FabricObject for FidDomain {}
// SAFETY: as above.
unsafe impl FabricObject for FidAv {}
// SAFETY: as above.
unsafe impl FabricObject for FidCq {}
// SAFETY: as above.
unsafe impl FabricObject for FidMr {}
// SAFETY: as above.
unsafe impl FabricObject for FidEp {}

/// An open object.
pub(crate) struct OpenObject<T: FabricObject> {
    object: NonNull<T>,
    open: bool,
}

// SAFETY: an object of libfabric belongs to no thread, and domains are opened with
// FI_THREAD_SAFE: any thread may call.
unsafe impl<T: FabricObject> Send for OpenObject<T> {}
// SAFETY: as above; its own words only change in calls.
unsafe impl<T: FabricObject> Sync for OpenObject<T> {}

impl<T: FabricObject> OpenObject<T> {
    /// The object that a call has opened, from its result and the pointer that it has filled in.
    ///
    /// # Safety
    ///
    /// If the result is 0 the pointer is null or of an open object that no one else closes.
    pub(crate) unsafe fn opened(result: c_int, object: *mut T) -> Result<Self, c_int> {
        match NonNull::new(object) {
            Some(object) if result == 0 => Ok(Self { object, open: true }),
            // A call that succeeds without an object is reported as out of memory.
            None if result == 0 => Err(-libc::ENOMEM),
            _ => Err(result),
        }
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.object.as_ptr()
    }

    pub(crate) fn fid(&self) -> *mut Fid {
        self.as_ptr().cast()
    }

    /// The object's fields, which only libfabric changes, in calls.
    pub(crate) fn get(&self) -> &T {
        // SAFETY: the object is open as long as `self`, or leaked.
        unsafe { self.object.as_ref() }
    }

    fn operations(&self) -> &abi::Ops {
        // SAFETY: an object of libfabric begins with a fid.
        let fid = unsafe { &*self.fid() };
        // SAFETY: its table exists from opening to closing.
        unsafe { &*fid.ops }
    }

    /// Binds it to another object.
    pub(crate) fn bind<U: FabricObject>(&self, other: &OpenObject<U>, flags: u64) -> c_int {
        // SAFETY: both objects are open.
        unsafe { (self.operations().bind)(self.fid(), other.fid(), flags) }
    }

    /// Enables it.
    pub(crate) fn enable(&self) -> c_int {
        // SAFETY: the object is open; the command takes no argument.
        unsafe { (self.operations().control)(self.fid(), abi::ENABLE, ptr::null_mut()) }
    }

    /// Returns the descriptor that its owner can sleep on.
    pub(crate) fn descriptor(&self) -> Option<c_int> {
        let mut descriptor: c_int = -1;
        let place = (&raw mut descriptor).cast();
        // SAFETY: the command writes an int to its argument if the object has a descriptor, which
        // the caller has opened it with.
        let result = unsafe { (self.operations().control)(self.fid(), abi::GETWAIT, place) };
        (result == 0 && descriptor >= 0).then_some(descriptor)
    }

    /// Closes it now. Returns whether that worked: an object that others still use stays open for
    /// ever, and so must all the memory that it may touch.
    pub(crate) fn close(&mut self) -> bool {
        if !self.open {
            return true;
        }
        // SAFETY: the object is open, and marked before any other call can close it.
        let closed = unsafe { (self.operations().close)(self.fid()) } == 0;
        self.open = false;
        closed
    }
}

impl<T: FabricObject> Drop for OpenObject<T> {
    fn drop(&mut self) {
        self.close();
    }
}

/// A provider's network, opened by one entry of its list. The domain closes before its fabric.
pub(crate) struct Domain {
    handle: OpenObject<FidDomain>,
    fabric: OpenObject<FidFabric>,
    pub(crate) info: OwnedInfo,
    pub(crate) provider: String,
    next_key: AtomicU64,
}

impl Domain {
    pub(crate) fn open(info: OwnedInfo) -> Result<Arc<Self>, Error> {
        let library = info.library();
        let provider = provider(&info);
        let error = |call, result| library.error(call, &provider, result as isize);

        let mut fabric = ptr::null_mut();
        let attributes = info.get().fabric_attr;
        // SAFETY: the attributes belong to an entry that is alive; `fabric` takes the object.
        let result = unsafe { (library.fabric)(attributes, &raw mut fabric, NO_CONTEXT) };
        // SAFETY: fi_fabric has filled it in.
        let fabric = unsafe { OpenObject::opened(result, fabric) }
            .map_err(|result| error("fi_fabric", result))?;

        let mut domain = ptr::null_mut();
        // SAFETY: an open fabric has its table.
        let calls = unsafe { &*fabric.get().ops };
        // SAFETY: the fabric is open and the entry alive; `domain` takes the object.
        let result =
            unsafe { (calls.domain)(fabric.as_ptr(), info.as_ptr(), &raw mut domain, NO_CONTEXT) };
        // SAFETY: fi_domain has filled it in.
        let handle = unsafe { OpenObject::opened(result, domain) }
            .map_err(|result| error("fi_domain", result))?;
        Ok(Arc::new(Self { handle, fabric, info, provider, next_key: AtomicU64::new(1) }))
    }

    pub(crate) fn handle(&self) -> &OpenObject<FidDomain> {
        &self.handle
    }

    /// The error of a call within this domain.
    pub(crate) fn error(&self, call: &'static str, result: isize) -> Error {
        self.info.library().error(call, &self.provider, result)
    }

    /// Turns the result of a call into an error, if it is one.
    pub(crate) fn check(&self, call: &'static str, result: c_int) -> Result<(), Error> {
        if result == 0 { Ok(()) } else { Err(self.error(call, result as isize)) }
    }

    /// Whether a mode of registration is in force.
    pub(crate) fn has_mr_mode(&self, mode: c_int) -> bool {
        self.info.parts().domain.is_some_and(|domain| domain.mr_mode & mode != 0)
    }

    /// A key that no region of this domain has had.
    pub(crate) fn new_key(&self) -> u64 {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    /// Opens a completion queue, with a descriptor to sleep on if the provider has one.
    pub(crate) fn open_queue(
        &self,
        entries: usize,
    ) -> Result<(OpenObject<FidCq>, Option<c_int>), Error> {
        // ofi_rxd of 1.17 gives a descriptor, and crashes when asked whether one may sleep on it.
        let broken = self.provider.ends_with("ofi_rxd") && self.info.library().version().0 < 2;
        if !broken
            && let Ok(queue) = self.open_queue_as(entries, abi::WAIT_FD)
            && let Some(descriptor) = queue.descriptor()
        {
            return Ok((queue, Some(descriptor)));
        }
        let queue = self
            .open_queue_as(entries, abi::WAIT_NONE)
            .map_err(|result| self.error("fi_cq_open", result as isize))?;
        Ok((queue, None))
    }

    fn open_queue_as(&self, entries: usize, wait_obj: u32) -> Result<OpenObject<FidCq>, c_int> {
        let mut attributes = abi::CqAttr {
            size: entries,
            flags: 0,
            format: abi::CQ_FORMAT_DATA,
            wait_obj,
            signaling_vector: 0,
            wait_cond: 0,
            wait_set: ptr::null_mut(),
        };
        let mut queue = ptr::null_mut();
        let domain = self.handle.as_ptr();
        let open = self.calls().cq_open;
        // SAFETY: the domain is open, the attributes are read during the call only.
        let result = unsafe { open(domain, &raw mut attributes, &raw mut queue, NO_CONTEXT) };
        // SAFETY: fi_cq_open has filled it in.
        unsafe { OpenObject::opened(result, queue) }
    }

    /// Opens the table of peers' addresses.
    pub(crate) fn open_addresses(&self) -> Result<OpenObject<FidAv>, Error> {
        let mut attributes = abi::AvAttr {
            kind: abi::AV_TABLE,
            rx_ctx_bits: 0,
            count: 0,
            ep_per_node: 0,
            name: ptr::null(),
            map_addr: ptr::null_mut(),
            flags: 0,
        };
        let mut addresses = ptr::null_mut();
        let domain = self.handle.as_ptr();
        let open = self.calls().av_open;
        // SAFETY: the domain is open, the attributes are read during the call only.
        let result = unsafe { open(domain, &raw mut attributes, &raw mut addresses, NO_CONTEXT) };
        // SAFETY: fi_av_open has filled it in.
        unsafe { OpenObject::opened(result, addresses) }
            .map_err(|result| self.error("fi_av_open", result as isize))
    }

    /// Opens an endpoint. The caller binds and enables it.
    pub(crate) fn open_endpoint(&self) -> Result<OpenObject<FidEp>, Error> {
        let mut endpoint = ptr::null_mut();
        let domain = self.handle.as_ptr();
        let open = self.calls().endpoint;
        // SAFETY: the domain is open and its entry alive.
        let result = unsafe { open(domain, self.info.as_ptr(), &raw mut endpoint, NO_CONTEXT) };
        // SAFETY: fi_endpoint has filled it in.
        unsafe { OpenObject::opened(result, endpoint) }
            .map_err(|result| self.error("fi_endpoint", result as isize))
    }

    fn calls(&self) -> &abi::OpsDomain {
        // SAFETY: an open domain has its table.
        unsafe { &*self.handle.get().ops }
    }

    /// Whether a thread may sleep on the descriptor of a queue: nothing is waiting to be read.
    pub(crate) fn may_sleep(&self, queue: &OpenObject<FidCq>) -> bool {
        // SAFETY: an open fabric has its table.
        let calls = unsafe { &*self.fabric.get().ops };
        let mut queues = [queue.fid()];
        // SAFETY: the fabric is open, and so is the queue, the only one in the array.
        unsafe { (calls.trywait)(self.fabric.as_ptr(), queues.as_mut_ptr(), 1) == 0 }
    }
}
