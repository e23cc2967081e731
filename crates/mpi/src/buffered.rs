//! Buffered mode: sends of copies for which the program need not wait (MPI 5.0 §3.4, §3.6).
//!
//! The library allocates the memory for the copies itself. So an attached buffer limits nothing,
//! whether or not it is MPI_BUFFER_AUTOMATIC; its address is only kept until it is detached. Only
//! its owner matters: the messages of a communicator with its own buffer are flushed separately,
//! those of sessions and of the process together.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use hikyaku_msg::SendMode;

use crate::arguments::Elements;
use crate::communicators::Comm;
use crate::dialect::{Dialect, Status};
use crate::failure::{Class, Failure};
use crate::messages::Outgoing;
use crate::raw::{Buffer, HandleAt, NumberAt, Out};
use crate::requests::{Request, RequestState, Staged, wait_for_all};
use crate::runtime::Mpi;
use crate::sessions::Session;
use crate::types::Type;

/// MPI_BUFFER_AUTOMATIC as an address, in the two binary interfaces. Neither has memory at the
/// other's.
const AUTOMATIC: [usize; 2] = [2, usize::MAX - 1];

/// The buffer of an object, and the messages that are sent through it.
#[derive(Debug)]
pub(crate) struct Outbox {
    /// The attached buffer: address and bytes.
    attached: RefCell<Option<(usize, usize)>>,
    /// The sends that are not complete.
    open: RefCell<Vec<Rc<Request>>>,
}

impl Outbox {
    pub(crate) const fn new() -> Outbox {
        Outbox { attached: RefCell::new(None), open: RefCell::new(Vec::new()) }
    }

    fn attach(&self, buffer: Buffer, size: i64) -> Result<(), Failure> {
        // The size of an automatic buffer is irrelevant (MPI 5.0 §3.6.1).
        let size = if AUTOMATIC.contains(&buffer.address()) { 0 } else { size };
        let size = crate::raw::length(size, "size")?;
        buffer.needed(size, "buffer")?;
        let mut attached = self.attached.borrow_mut();
        if attached.is_some() {
            return Err(Failure::new(Class::Buffer, "a buffer is attached already"));
        }
        *attached = Some((buffer.address(), size));
        Ok(())
    }

    /// Polls the sends, and forgets those that are complete. The others stay in the list all the
    /// time: a poll may call a function of the program, and meanwhile another thread may send.
    fn forget_complete(&self) {
        let open = self.open.borrow().clone();
        open.iter().for_each(|request| _ = request.is_complete());
        self.open.borrow_mut().retain(|request| !request.has_ended());
    }

    /// Waits for all sends. They stay in the list, since other threads may flush them too.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        let open = self.open.borrow().clone();
        let done = wait_for_all(&open);
        self.forget_complete();
        done
    }

    /// Returns the attached buffer once all messages through `sent` are sent, even if one has
    /// failed.
    fn detach(&self, sent: &Outbox, (buffer, size): (Out<usize>, NumberAt)) -> Result<(), Failure> {
        let text = "no buffer is attached";
        let attached = self.attached.borrow_mut().take();
        let (address, length) = attached.ok_or_else(|| Failure::new(Class::Buffer, text))?;
        let gone = sent.flush();
        buffer.set(address);
        size.set(length as i64);
        gone
    }
}

impl Default for Outbox {
    fn default() -> Outbox {
        Outbox::new()
    }
}

impl<D: Dialect> Mpi<D> {
    /// Sends a copy. The program need not wait for it.
    pub(crate) fn send_copy(&self, message: &Outgoing, comm: &Rc<Comm>) -> Result<(), Failure> {
        let Some(to) = message.to else { return Ok(()) };
        let mut bytes = message.area.data().into_owned().into_boxed_slice();
        let view = Buffer::new(bytes.as_mut_ptr()).to_send(bytes.len());
        let started = comm.inner.engine().borrow_mut().start_send(view, to, SendMode::Standard);
        let id = started.map_err(|error| comm.inner.explained(error))?;
        let staged = Some(Box::new(Staged { bytes, into: None }));
        let request =
            Request::new(Rc::clone(comm), RequestState::Message { id, is_receive: false, staged });
        if !request.is_complete() {
            let outbox = self.outbox_of(comm);
            outbox.forget_complete();
            outbox.open.borrow_mut().push(request);
        }
        Ok(())
    }

    /// The outbox that a communicator uses.
    fn outbox_of<'a>(&'a self, comm: &'a Comm) -> &'a Outbox {
        let has_own = comm.buffered.attached.borrow().is_some();
        if has_own { &comm.buffered } else { &self.state.buffered }
    }

    /// MPI_Bsend.
    pub fn bsend(
        &self,
        elements: Elements<Rc<Type>>,
        dest: i32,
        tag: i32,
        comm: Rc<Comm>,
    ) -> Result<(), Failure> {
        let message = Outgoing::new(&elements, (dest, tag), &comm)?;
        self.send_copy(&message, &comm)
    }

    /// MPI_Ibsend.
    pub fn ibsend(
        &self,
        elements: Elements<Rc<Type>>,
        dest: i32,
        tag: i32,
        comm: Rc<Comm>,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.bsend(elements, dest, tag, Rc::clone(&comm))?;
        self.add_request(Request::new(comm, RequestState::Done(Status::EMPTY)), &request)
    }

    /// MPI_Bsend_init.
    pub fn bsend_init(
        &self,
        elements: Elements<Rc<Type>>,
        dest: i32,
        tag: i32,
        comm: Rc<Comm>,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        let message = Outgoing::new(&elements, (dest, tag), &comm)?;
        let (mpi, of) = (*self, Rc::clone(&comm));
        let start = Box::new(move || {
            mpi.send_copy(&message, &of)?;
            Ok(RequestState::Done(Status::EMPTY))
        });
        self.add_request(Request::persistent(comm, start), &request)
    }

    /// Creates a request that completes with the open sends of an outbox.
    fn iflush(&self, outbox: &Outbox, request: &HandleAt<D>) -> Result<(), Failure> {
        outbox.forget_complete();
        let open = outbox.open.borrow().clone();
        self.add_request(Request::of_none(RequestState::All(open)), request)
    }

    /// MPI_Buffer_attach.
    pub fn buffer_attach(&self, buffer: Buffer, size: i64) -> Result<(), Failure> {
        self.state.buffered.attach(buffer, size)
    }

    /// MPI_Buffer_detach: waits until all buffered messages are sent.
    pub fn buffer_detach(&self, buffer: Out<usize>, size: NumberAt) -> Result<(), Failure> {
        self.state.buffered.detach(&self.state.buffered, (buffer, size))
    }

    /// MPI_Buffer_flush.
    pub fn buffer_flush(&self) -> Result<(), Failure> {
        self.state.buffered.flush()
    }

    /// MPI_Buffer_iflush.
    pub fn buffer_iflush(&self, request: HandleAt<D>) -> Result<(), Failure> {
        self.iflush(&self.state.buffered, &request)
    }

    /// MPI_Comm_attach_buffer.
    pub fn comm_attach_buffer(
        &self,
        comm: Rc<Comm>,
        buffer: Buffer,
        size: i64,
    ) -> Result<(), Failure> {
        comm.buffered.attach(buffer, size)
    }

    /// MPI_Comm_detach_buffer.
    pub fn comm_detach_buffer(
        &self,
        comm: Rc<Comm>,
        buffer: Out<usize>,
        size: NumberAt,
    ) -> Result<(), Failure> {
        comm.buffered.detach(&comm.buffered, (buffer, size))
    }

    /// MPI_Comm_flush_buffer.
    pub fn comm_flush_buffer(&self, comm: Rc<Comm>) -> Result<(), Failure> {
        comm.buffered.flush()
    }

    /// MPI_Comm_iflush_buffer.
    pub fn comm_iflush_buffer(&self, comm: Rc<Comm>, request: HandleAt<D>) -> Result<(), Failure> {
        self.iflush(&comm.buffered, &request)
    }

    /// MPI_Session_attach_buffer.
    pub fn session_attach_buffer(
        &self,
        session: Arc<Session>,
        buffer: Buffer,
        size: i64,
    ) -> Result<(), Failure> {
        session.buffered.attach(buffer, size)
    }

    /// MPI_Session_detach_buffer.
    pub fn session_detach_buffer(
        &self,
        session: Arc<Session>,
        buffer: Out<usize>,
        size: NumberAt,
    ) -> Result<(), Failure> {
        session.buffered.detach(&self.state.buffered, (buffer, size))
    }

    /// MPI_Session_flush_buffer.
    pub fn session_flush_buffer(&self, _: Arc<Session>) -> Result<(), Failure> {
        self.state.buffered.flush()
    }

    /// MPI_Session_iflush_buffer.
    pub fn session_iflush_buffer(
        &self,
        _: Arc<Session>,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.iflush(&self.state.buffered, &request)
    }
}
