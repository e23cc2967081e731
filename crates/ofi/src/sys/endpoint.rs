//! An endpoint with its completion queue, its peers' addresses and its receive buffers.

use std::collections::VecDeque;
use std::ffi::{CStr, c_char, c_void};
use std::mem::ManuallyDrop;
use std::ops::Range;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;
use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use libc::iovec;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::abi::{self, CqDataEntry, CqErrEntry, FidAv, FidCq, FidEp, flag, mr_mode};
use super::fill::BufferFill;
use super::info::{NO_CONTEXT, Survey};
use super::memory::{LentMemory, PeerAccess, Region, Registered, Remote};
use super::object::{Domain, OpenObject};
use super::operations::{ContextOwner, OperationInFlight, Operations};
use crate::Error;

/// Completions that are read in one call.
const BATCH: usize = 16;

/// The most operations in flight.
const OPERATIONS: usize = 256;

/// The longest address of an endpoint. The longest known, that of shm, has 64 bytes.
const LONGEST_ADDRESS: usize = 512;

/// Time limit of a trial of atomics. They take microseconds; a provider without them may not
/// answer.
const TRIAL: Duration = Duration::from_secs(1);

/// Bytes of a receive buffer during a trial.
const TRIAL_BUFFER: usize = 1 << 14;

/// Consecutive sleeps that a descriptor may end without an event before it is ignored.
const FALSE_ALARMS: u32 = 16;

/// The shortest and the longest sleep between two polls without a descriptor.
const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];

/// A peer in the table of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Peer(pub(crate) u64);

/// Whether the provider has taken an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a full provider has not taken the operation"]
pub enum PostResult {
    /// The provider has taken it; a completion follows.
    Accepted,
    /// The provider is full: poll, then try again.
    Full,
}

/// An event of an endpoint.
#[derive(Debug, PartialEq, Eq)]
pub enum EndpointCompletion<'a> {
    /// The operation with this token is done, and its memory may be reused.
    Done {
        /// The caller's token.
        token: u64,
    },
    /// A message has arrived. It stays in a receive buffer until the next call.
    Message {
        /// Its bytes.
        payload: &'a [u8],
    },
    /// A peer has written into a region of this endpoint, with immediate data.
    Written {
        /// The immediate data.
        data: u64,
    },
    /// An operation has failed.
    Failed {
        /// The caller's token; `None`: it was not an operation of the caller.
        token: Option<u64>,
        /// Why.
        error: Error,
    },
}

/// Memory for messages, and the events reported for it.
struct ReceiveBuffer {
    memory: Registered,
    fill: BufferFill,
}

/// An endpoint that sends messages to any peer and reads and writes their regions.
///
/// One thread uses it at a time. Dropping it ends operations in flight; peers are not informed.
pub struct Endpoint {
    handle: OpenObject<FidEp>,
    /// Contexts of operations in flight, and receive buffers. Leaked if the endpoint cannot close.
    operations: ManuallyDrop<Operations>,
    receives: ManuallyDrop<Vec<ReceiveBuffer>>,
    /// Receive buffers that the provider does not hold, to be posted again.
    idle: Vec<usize>,
    /// Receive buffers that are not posted again, because a message into them has failed.
    retired: usize,
    /// Whether the provider may release a buffer while messages are on their way into it.
    releases_early: bool,
    buffer_bytes: usize,
    arrived: VecDeque<CqDataEntry>,
    queue: OpenObject<FidCq>,
    descriptor: Option<RawFd>,
    /// Consecutive sleeps that the descriptor has ended without an event.
    false_alarms: u32,
    addresses: OpenObject<FidAv>,
    address: Vec<u8>,
    domain: Arc<Domain>,
}

impl Endpoint {
    /// Opens an offer of a survey, with `buffers` receive buffers. Messages may be as long as a
    /// quarter of a buffer.
    pub fn open(
        survey: &Survey,
        offer: usize,
        buffers: usize,
        buffer_bytes: usize,
    ) -> Result<Self, Error> {
        Self::open_to_grow(survey, offer, (buffers, buffers), buffer_bytes)
    }

    /// The same with `buffers` at first, and room for `most` of them ([`Self::grow`]).
    pub fn open_to_grow(
        survey: &Survey,
        offer: usize,
        (buffers, most): (usize, usize),
        buffer_bytes: usize,
    ) -> Result<Self, Error> {
        let unfit = || Error::NoChoice(format!("offer {offer} cannot carry the transport"));
        let info = survey.info(offer).ok_or_else(unfit)??;
        let domain = Domain::open(info)?;
        let (queue, descriptor) = domain.open_queue(OPERATIONS + 1024)?;
        let addresses = domain.open_addresses()?;
        let handle = domain.open_endpoint()?;
        let releases_early = releases_early(&domain.provider);

        domain.check("fi_ep_bind", handle.bind(&queue, flag::SEND | flag::RECV))?;
        domain.check("fi_ep_bind", handle.bind(&addresses, 0))?;
        let mut endpoint = Self {
            handle,
            operations: ManuallyDrop::new(Operations::new(most.max(buffers), OPERATIONS)?),
            receives: ManuallyDrop::new(Vec::new()),
            idle: Vec::new(),
            retired: 0,
            releases_early,
            buffer_bytes,
            arrived: VecDeque::new(),
            queue,
            descriptor,
            false_alarms: 0,
            addresses,
            address: Vec::new(),
            domain,
        };
        endpoint.enable(buffer_bytes / 4)?;
        endpoint.address = endpoint.name()?;
        endpoint.grow(buffers)?;
        Ok(endpoint)
    }

    /// Adds receive buffers until there are `buffers`, up to the number given when it was opened.
    pub fn grow(&mut self, buffers: usize) -> Result<(), Error> {
        while self.buffers() < buffers && self.receives.len() < self.operations.receives() {
            let memory = self.registered(self.buffer_bytes, PeerAccess::Own)?;
            self.idle.push(self.receives.len());
            self.receives.push(ReceiveBuffer { memory, fill: BufferFill::default() });
        }
        self.post_receives()
    }

    /// How many receive buffers are in use.
    pub fn buffers(&self) -> usize {
        self.receives.len() - self.retired
    }

    /// Enables the endpoint, and sets that a receive buffer is released when it has less room left
    /// than a message may need. shm of 1.17 crashes if that is set before it is enabled; shm of
    /// 2.5.1 ignores it afterwards, and writes past the buffer. The releases between were not
    /// tried:
    /// they are assumed to behave like the tried one of their major number, and the value in force
    /// is read back.
    fn enable(&self, longest: usize) -> Result<(), Error> {
        let (major, _) = self.domain.info.library().version();
        let late = self.domain.provider == "shm" && major < 2;
        if late {
            self.domain.check("fi_enable", self.handle.enable())?;
        }
        // SAFETY: an open endpoint has its table.
        let calls = unsafe { &*self.handle.get().ops };
        let (fid, level, option) = (self.handle.fid(), abi::OPT_ENDPOINT, abi::OPT_MIN_MULTI_RECV);
        let value = (&raw const longest).cast::<c_void>();
        // SAFETY: the option is a size_t, which is read during the call.
        let result = unsafe { (calls.setopt)(fid, level, option, value, size_of::<usize>()) };
        self.domain.check("fi_setopt(FI_OPT_MIN_MULTI_RECV)", result)?;
        if !late {
            self.domain.check("fi_enable", self.handle.enable())?;
        }
        let (mut set, mut size) = (longest, size_of::<usize>());
        let place = (&raw mut set).cast::<c_void>();
        // SAFETY: the option is a size_t, for which there is room.
        unsafe { (calls.getopt)(fid, level, option, place, &raw mut size) };
        if set < longest {
            return Err(self.broken("it ignores FI_OPT_MIN_MULTI_RECV"));
        }
        Ok(())
    }

    fn name(&self) -> Result<Vec<u8>, Error> {
        // SAFETY: an open endpoint has its table.
        let calls = unsafe { &*self.handle.get().cm };
        let mut bytes = vec![0; LONGEST_ADDRESS];
        let mut length = bytes.len();
        let place = bytes.as_mut_ptr().cast();
        // SAFETY: the buffer has as many bytes as `length` says.
        let result = unsafe { (calls.getname)(self.handle.fid(), place, &raw mut length) };
        self.domain.check("fi_getname", result)?;
        bytes.truncate(length);
        Ok(bytes)
    }

    /// The provider by libfabric's name.
    pub fn provider(&self) -> &str {
        &self.domain.provider
    }

    /// The address of this endpoint, in the provider's format.
    pub fn address(&self) -> &[u8] {
        &self.address
    }

    /// The longest message that [`Self::inject`] takes, bytes.
    pub fn inject_size(&self) -> usize {
        self.domain.info.parts().send.map_or(0, |send| send.inject_size)
    }

    /// How many operations are in flight.
    pub fn in_flight(&self) -> usize {
        self.operations.count()
    }

    /// Adds a peer by the address that the peer has given.
    pub fn insert(&mut self, address: &[u8]) -> Result<Peer, Error> {
        // The provider reads the length of its own addresses, whatever the slice's length.
        if address.len() != self.address.len() && !self.has_text_addresses(address) {
            return Err(Error::Invalid(format!(
                "an address of {} bytes is none of provider {}, whose addresses have {}",
                address.len(),
                self.provider(),
                self.address.len()
            )));
        }
        // SAFETY: an open table of addresses has its calls.
        let calls = unsafe { &*self.addresses.get().ops };
        let mut peer = abi::ADDR_UNSPEC;
        let start = address.as_ptr().cast();
        let table = self.addresses.as_ptr();
        // SAFETY: one address of the provider's length, or a text with its end; `peer` takes it.
        let inserted = unsafe { (calls.insert)(table, start, 1, &raw mut peer, 0, NO_CONTEXT) };
        match inserted {
            1 if peer != abi::ADDR_UNSPEC => Ok(Peer(peer)),
            result if result < 0 => Err(self.domain.error("fi_av_insert", result as isize)),
            _ => Err(Error::Invalid(format!(
                "provider {} does not accept the address of a peer",
                self.provider()
            ))),
        }
    }

    /// Whether addresses are strings, as those of shm, and this is a terminated one.
    fn has_text_addresses(&self, address: &[u8]) -> bool {
        self.domain.info.get().addr_format == abi::ADDR_STR
            && CStr::from_bytes_with_nul(address).is_ok()
    }

    /// Registers memory that peers may read and write.
    pub fn region(&self, bytes: usize) -> Result<Region, Error> {
        Ok(Region(Arc::new(self.registered(bytes, PeerAccess::Peers)?)))
    }

    /// Whether memory of the program can be lent to peers. That is possible if the kernel alone
    /// reads it, as for a socket, or if a device does, which has pinned it: then a read that is in
    /// progress when the memory is taken back does no harm. Other providers copy it within their
    /// calls. Sockets' own small buffers take messages below 9,000 bytes; lend only longer ones,
    /// and read them in longer pieces.
    pub fn lends(&self) -> bool {
        const BY_KERNEL: [&str; 4] = ["tcp", "net", "tcp;ofi_rxm", "net;ofi_rxm"];
        const BY_DEVICE: [&str; 3] = ["verbs;ofi_rxm", "efa", "cxi"];
        BY_KERNEL.into_iter().chain(BY_DEVICE).any(|provider| provider == self.provider())
    }

    /// Lends memory of the program to peers, until the result is dropped. Its key is derived from
    /// the name, unless the provider chooses keys. Only if [`Self::lends`].
    pub fn lend(&self, name: u64, bytes: &[u8]) -> Result<LentMemory, Error> {
        LentMemory::new(&self.domain, &self.handle, name, bytes)
    }

    /// Whether other memory lent under a name has the same remote address as the first: not if the
    /// provider chooses keys, or peers use this process's addresses.
    pub fn replaces_lent(&self) -> bool {
        !self.domain.has_mr_mode(mr_mode::PROV_KEY | mr_mode::VIRT_ADDR)
    }

    fn registered(&self, bytes: usize, access: PeerAccess) -> Result<Registered, Error> {
        Registered::new(&self.domain, &self.handle, bytes, access)
    }

    /// Sends a short message without a completion. It may be up to [`Self::inject_size`] long.
    pub fn inject(&mut self, to: Peer, message: &[u8]) -> Result<PostResult, Error> {
        assert!(message.len() <= self.inject_size(), "a message that is injected is short");
        // SAFETY: an open endpoint has its table.
        let calls = unsafe { &*self.handle.get().msg };
        let start = message.as_ptr().cast();
        // SAFETY: the bytes are read during the call.
        let result = unsafe { (calls.inject)(self.handle.as_ptr(), start, message.len(), to.0) };
        self.posted("fi_inject", result)
    }

    /// Sends bytes of a region as a message.
    pub fn send(
        &mut self,
        to: Peer,
        from: (&Region, usize, usize),
        token: u64,
    ) -> Result<PostResult, Error> {
        self.start("fi_send", from, token, |endpoint, bytes, length, descriptor, context| {
            // SAFETY: an open endpoint has its table.
            let calls = unsafe { &*endpoint.handle.get().msg };
            let handle = endpoint.handle.as_ptr();
            // SAFETY: `start` keeps the region until the operation completes.
            unsafe { (calls.send)(handle, bytes, length, descriptor, to.0, context) }
        })
    }

    /// Writes bytes of a region into a peer's region. With `data` the peer is notified.
    pub fn write(
        &mut self,
        to: Peer,
        remote: Remote,
        from: (&Region, usize, usize),
        data: Option<u64>,
        token: u64,
    ) -> Result<PostResult, Error> {
        let Remote { address, key } = remote;
        self.start("fi_write", from, token, |endpoint, bytes, length, descriptor, context| {
            // SAFETY: an open endpoint with FI_RMA has its table.
            let calls = unsafe { &*endpoint.handle.get().rma };
            let to = to.0;
            let handle = endpoint.handle.as_ptr();
            match data {
                // SAFETY: as in `send`.
                Some(data) => unsafe {
                    (calls.writedata)(
                        handle, bytes, length, descriptor, data, to, address, key, context,
                    )
                },
                // SAFETY: as in `send`.
                None => unsafe {
                    (calls.write)(handle, bytes, length, descriptor, to, address, key, context)
                },
            }
        })
    }

    /// Reads bytes of a peer's region into one of this endpoint.
    pub fn read(
        &mut self,
        from: Peer,
        remote: Remote,
        into: (&Region, usize, usize),
        token: u64,
    ) -> Result<PostResult, Error> {
        let Remote { address, key } = remote;
        self.start("fi_read", into, token, |endpoint, bytes, length, descriptor, context| {
            // SAFETY: an open endpoint with FI_RMA has its table.
            let calls = unsafe { &*endpoint.handle.get().rma };
            let (handle, from) = (endpoint.handle.as_ptr(), from.0);
            // SAFETY: as in `send`; no reference to bytes of a region exists.
            unsafe { (calls.read)(handle, bytes, length, descriptor, from, address, key, context) }
        })
    }

    /// Starts an operation on bytes of a region, and keeps the region until it completes. Panics
    /// if the bytes are out of bounds.
    fn start(
        &mut self,
        name: &'static str,
        (region, offset, length): (&Region, usize, usize),
        token: u64,
        call: impl FnOnce(&Self, *mut c_void, usize, *mut c_void, *mut c_void) -> isize,
    ) -> Result<PostResult, Error> {
        let Some(place) = self.operations.vacancy() else { return Ok(PostResult::Full) };
        let bytes = region.place(offset, length).cast();
        let context = self.operations.context(place);
        let result = call(self, bytes, length, region.0.descriptor(), context);
        let posted = self.posted(name, result)?;
        if posted == PostResult::Accepted {
            let region = Arc::clone(&region.0);
            self.operations.begin(place, OperationInFlight { name, token, region });
        }
        Ok(posted)
    }

    fn posted(&self, call: &'static str, result: isize) -> Result<PostResult, Error> {
        match result {
            0 => Ok(PostResult::Accepted),
            full if full == -(libc::EAGAIN as isize) => Ok(PostResult::Full),
            result => Err(self.domain.error(call, result)),
        }
    }

    /// Posts the receive buffers that the provider does not hold.
    fn post_receives(&mut self) -> Result<(), Error> {
        while let Some(&buffer) = self.idle.last() {
            let registered = &self.receives[buffer].memory;
            let bytes = iovec {
                iov_base: registered.memory.start().cast(),
                iov_len: registered.memory.length(),
            };
            let mut descriptor = registered.descriptor();
            let message = abi::Msg {
                msg_iov: &raw const bytes,
                desc: &raw mut descriptor,
                iov_count: 1,
                addr: abi::ADDR_UNSPEC,
                context: self.operations.context(buffer),
                data: 0,
            };
            // SAFETY: an open endpoint has its table.
            let calls = unsafe { &*self.handle.get().msg };
            let handle = self.handle.as_ptr();
            // SAFETY: the buffer is this endpoint's own; it is read only where completions report
            // messages, and posted again only after the provider has released it.
            let result = unsafe { (calls.recvmsg)(handle, &raw const message, flag::MULTI_RECV) };
            if self.posted("fi_recvmsg", result)? == PostResult::Full {
                break;
            }
            self.idle.pop();
            self.receives[buffer].fill = BufferFill::default();
        }
        Ok(())
    }

    /// The next completion; `None`: nothing has happened. The provider makes progress in this call.
    pub fn poll(&mut self) -> Result<Option<EndpointCompletion<'_>>, Error> {
        loop {
            // The message of the last completion may be overwritten from here on.
            self.post_receives()?;
            let Some(entry) = self.next_entry()? else { return Ok(None) };
            let entry = match entry {
                Ok(entry) => entry,
                Err(failure) => return Ok(Some(failure)),
            };
            if entry.flags & flag::REMOTE_WRITE != 0 {
                if entry.flags & flag::REMOTE_CQ_DATA != 0 {
                    return Ok(Some(EndpointCompletion::Written { data: entry.data }));
                }
                continue;
            }
            match self.operations.place(entry.op_context) {
                Some(ContextOwner::Operation(place)) => {
                    let operation = self.operations.end(place);
                    let operation = operation.ok_or_else(|| self.broken("a completion twice"))?;
                    return Ok(Some(EndpointCompletion::Done { token: operation.token }));
                }
                Some(ContextOwner::Receive(buffer)) => {
                    // A buffer may be released without a message.
                    let is_message = entry.flags & flag::RECV != 0;
                    let place = is_message.then(|| self.place(buffer, &entry)).transpose()?;
                    self.note(buffer, entry.flags, place.as_ref());
                    if let Some(place) = place {
                        let payload = self.message(buffer, place);
                        return Ok(Some(EndpointCompletion::Message { payload }));
                    }
                }
                None => return Err(self.broken("a completion of nothing")),
            }
        }
    }

    fn broken(&self, what: &'static str) -> Error {
        Error::Provider { provider: self.domain.provider.clone(), what }
    }

    /// The range of a message within its receive buffer.
    fn place(&self, buffer: usize, entry: &CqDataEntry) -> Result<Range<usize>, Error> {
        let memory = &self.receives[buffer].memory.memory;
        let offset = (entry.buf as usize).wrapping_sub(memory.start() as usize);
        let end = offset.checked_add(entry.len).filter(|end| *end <= memory.length());
        end.map(|end| offset..end).ok_or_else(|| self.broken("a message outside its buffer"))
    }

    /// Records a completion of a receive buffer, which is posted again once nothing more is written
    /// into it.
    fn note(&mut self, buffer: usize, flags: u64, message: Option<&Range<usize>>) {
        let fill = &mut self.receives[buffer].fill;
        if let Some(place) = message {
            fill.note_message(place);
        }
        let is_released = flags & flag::MULTI_RECV != 0;
        if is_released {
            fill.note_release();
        }
        let is_over = if self.releases_early { fill.is_over() } else { is_released };
        if is_over {
            self.idle.push(buffer);
        }
    }

    /// The bytes of a message at a range that [`Self::place`] returned.
    fn message(&self, buffer: usize, place: Range<usize>) -> &[u8] {
        let memory = &self.receives[buffer].memory.memory;
        assert!(place.end <= memory.length(), "within the buffer");
        let start = memory.start().wrapping_add(place.start);
        // SAFETY: within the buffer, as checked; the provider has put a whole message there and
        // leaves those bytes alone until the buffer is posted again, which takes `&mut self`.
        unsafe { slice::from_raw_parts(start, place.len()) }
    }

    /// The next entry of the queue, from the last batch or a new one, or a failure.
    fn next_entry(
        &mut self,
    ) -> Result<Option<Result<CqDataEntry, EndpointCompletion<'static>>>, Error> {
        if self.arrived.is_empty()
            && let Some(failure) = self.fetch()?
        {
            return Ok(Some(Err(failure)));
        }
        Ok(self.arrived.pop_front().map(Ok))
    }

    /// Reads a batch, or a failure, which is returned alone.
    fn fetch(&mut self) -> Result<Option<EndpointCompletion<'static>>, Error> {
        const EMPTY: CqDataEntry = CqDataEntry {
            op_context: ptr::null_mut(),
            flags: 0,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
        };
        let mut batch = [EMPTY; BATCH];
        // SAFETY: an open queue has its table.
        let calls = unsafe { &*self.queue.get().ops };
        let place = batch.as_mut_ptr().cast();
        // SAFETY: the queue was opened with this entry format, and `batch` has `BATCH` entries.
        let count = unsafe { (calls.read)(self.queue.as_ptr(), place, BATCH) };
        match usize::try_from(count) {
            Ok(count) if count <= BATCH => {
                self.false_alarms = 0;
                self.arrived.extend(&batch[..count]);
                Ok(None)
            }
            Ok(_) => Err(self.broken("more completions than were asked for")),
            Err(_) if count == -(libc::EAGAIN as isize) => Ok(None),
            Err(_) if count == -(abi::EAVAIL as isize) => self.failure(),
            Err(_) => Err(self.domain.error("fi_cq_read", count)),
        }
    }

    /// Reads why an operation failed; `None`: the provider does not report it yet.
    fn failure(&mut self) -> Result<Option<EndpointCompletion<'static>>, Error> {
        let mut entry = CqErrEntry {
            op_context: ptr::null_mut(),
            flags: 0,
            len: 0,
            buf: ptr::null_mut(),
            data: 0,
            tag: 0,
            olen: 0,
            err: 0,
            prov_errno: 0,
            err_data: ptr::null_mut(),
            err_data_size: 0,
        };
        // SAFETY: an open queue has its table.
        let calls = unsafe { &*self.queue.get().ops };
        // SAFETY: the queue is open, the entry takes the error.
        let result = unsafe { (calls.readerr)(self.queue.as_ptr(), &raw mut entry, 0) };
        if result == -(libc::EAGAIN as isize) {
            return Ok(None);
        }
        if result < 0 {
            return Err(self.domain.error("fi_cq_readerr", result));
        }
        let detail = self.detail(&entry);
        let (operation, token) = match self.operations.place(entry.op_context) {
            Some(ContextOwner::Operation(place)) => match self.operations.end(place) {
                Some(operation) => (operation.name, Some(operation.token)),
                None => ("an operation that was over", None),
            },
            Some(ContextOwner::Receive(buffer)) => {
                if self.releases_early {
                    let is_first = self.receives[buffer].fill.note_failure();
                    self.retired += usize::from(is_first);
                }
                self.note(buffer, entry.flags, None);
                ("fi_recvmsg", None)
            }
            None => ("an operation of a peer", None),
        };
        let error = Error::Operation {
            operation,
            provider: self.domain.provider.clone(),
            code: entry.err,
            text: self.domain.info.library().text(entry.err),
            detail,
        };
        Ok(Some(EndpointCompletion::Failed { token, error }))
    }

    fn detail(&self, entry: &CqErrEntry) -> String {
        // SAFETY: an open queue has its table.
        let calls = unsafe { &*self.queue.get().ops };
        let mut text = [0 as c_char; 128];
        let (place, length) = (text.as_mut_ptr(), text.len());
        let queue = self.queue.as_ptr();
        // SAFETY: the error's data arrived with its entry just now; the text has `length` bytes.
        let said =
            unsafe { (calls.strerror)(queue, entry.prov_errno, entry.err_data, place, length) };
        // SAFETY: null, a constant, or our own terminated buffer.
        unsafe { super::library::string(said) }.unwrap_or_else(|| "nothing".to_owned())
    }

    /// Whether a thread can sleep until completions without polling in between.
    pub fn has_descriptor(&self) -> bool {
        self.descriptor.is_some()
    }

    /// A descriptor that becomes readable when something has happened, if the provider has one.
    /// Sleep on it only after [`Self::may_sleep`].
    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the descriptor belongs to the queue, which lives as long as `self`.
        self.descriptor.map(|descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// Whether there is a descriptor, and a sleep on it misses nothing.
    pub fn may_sleep(&self) -> bool {
        self.descriptor.is_some() && self.arrived.is_empty() && self.domain.may_sleep(&self.queue)
    }

    /// Sleeps until there is something to poll, or for at most `at_most`. It may return early.
    ///
    /// Without a descriptor the provider is polled at growing intervals. So it is if the descriptor
    /// is always readable, as that of net in 1.17 is once a peer has connected.
    pub fn wait(&mut self, at_most: Duration) -> Result<(), Error> {
        let end = Instant::now() + at_most;
        if self.descriptor.is_some() && self.false_alarms < FALSE_ALARMS {
            if self.may_sleep() && self.sleep(self.descriptor(), at_most)? {
                self.false_alarms += 1;
            }
            return Ok(());
        }
        let [mut nap, longest] = NAPS;
        while self.arrived.is_empty() {
            let rest = end.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                break;
            }
            self.sleep(None, nap.min(rest))?;
            nap = (nap * 2).min(longest);
            if let Some(EndpointCompletion::Failed { error, .. }) = self.fetch()? {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Sleeps for `time`, or until a descriptor is readable. Returns whether it was.
    fn sleep(&self, descriptor: Option<BorrowedFd<'_>>, time: Duration) -> Result<bool, Error> {
        let time = Timespec::try_from(time).ok();
        let mut polled: Vec<_> =
            descriptor.iter().map(|descriptor| PollFd::new(descriptor, PollFlags::IN)).collect();
        match poll(&mut polled, time.as_ref()) {
            Ok(readable) => Ok(readable > 0),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(Error::Wait(error.to_string())),
        }
    }

    /// Tests whether atomic operations of an offer work, by one of them between two endpoints. Only
    /// a trial shows that: net of 1.17 claims them and refuses each, and udp;ofi_rxd of 1.17
    /// reports a fetch-and-add as complete before it is done. (A trial on a word of the same
    /// endpoint does not work: udp;ofi_rxd crashes.)
    pub fn try_atomics(survey: &Survey, offer: usize) -> Result<bool, Error> {
        if survey.offers().get(offer).is_none_or(|offer| !offer.claims_atomics) {
            return Ok(false);
        }
        let open = || Self::open(survey, offer, 1, TRIAL_BUFFER);
        let (mut near, mut far) = (open()?, open()?);
        let peer = near.insert(&far.address)?;
        far.insert(&near.address)?;
        let target = far.region(size_of::<u64>())?;
        let words = near.region(2 * size_of::<u64>())?;
        target.copy_in(0, &40_u64.to_ne_bytes());
        words.copy_in(0, &2_u64.to_ne_bytes());
        let end = Instant::now() + TRIAL;
        let mut posted = PostResult::Full;
        while Instant::now() < end {
            if posted == PostResult::Full {
                match near.fetch_add(peer, target.remote(), &words) {
                    Ok(answer) => posted = answer,
                    Err(_) => return Ok(false),
                }
            }
            match near.poll()? {
                Some(EndpointCompletion::Done { .. }) => {
                    let (mut before, mut sum) = ([0; 8], [0; 8]);
                    words.copy_out(8, &mut before);
                    target.copy_out(0, &mut sum);
                    return Ok([before, sum].map(u64::from_ne_bytes) == [40, 42]);
                }
                Some(_) => return Ok(false),
                None => {}
            }
            far.poll()?;
        }
        Ok(false)
    }

    /// Adds the first of two words to a word of a peer, and stores the old value in the second.
    fn fetch_add(&mut self, to: Peer, remote: Remote, words: &Region) -> Result<PostResult, Error> {
        // SAFETY: null, or the table of an open endpoint.
        let calls = unsafe { self.handle.get().atomic.as_ref() };
        let Some(calls) = calls else { return Err(self.domain.error("fi_fetch_atomic", -38)) };
        let (readwrite, Remote { address, key }) = (calls.readwrite, remote);
        let result_at = words.place(8, 8).cast();
        self.start("fi_fetch_atomic", (words, 0, 8), 0, |endpoint, bytes, _, desc, context| {
            let handle = endpoint.handle.as_ptr();
            let (kind, sum) = (abi::UINT64, abi::SUM);
            // SAFETY: one word each at two places of a region that `start` keeps.
            unsafe {
                readwrite(
                    handle, bytes, 1, desc, result_at, desc, to.0, address, key, kind, sum, context,
                )
            }
        })
    }
}

/// Whether a provider may release a receive buffer while messages are on their way into it
/// ([`BufferFill`]): `tcp` and `net` before 1.20; `ofi_rxm` of each, which reads long messages.
/// Other providers are trusted: their gaps between messages are unknown.
fn releases_early(provider: &str) -> bool {
    ["net", "tcp"].contains(&provider) || provider.ends_with(";ofi_rxm")
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        if self.handle.close() {
            // SAFETY: dropped here only, once; a closed endpoint touches none of it.
            unsafe { ManuallyDrop::drop(&mut self.operations) };
            // SAFETY: as above.
            unsafe { ManuallyDrop::drop(&mut self.receives) };
        }
    }
}
