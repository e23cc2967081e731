//! Messages between two ranks (MPI 5.0 chapter 3).
//!
//! Data without gaps are sent and received directly in the program's memory. Data with gaps are
//! packed into the landing ring and unpacked from it, one packet at a time; a message of a single
//! packet is packed into a buffer of its own.

use std::rc::Rc;

use hikyaku_msg::{Engine, Envelope, Received, RecvBuffer, RequestId, Selector, SendMode};
use hikyaku_rank::RankPort;

use crate::arguments::Elements;
use crate::communicators::Comm;
use crate::dialect::{ANY_SOURCE, ANY_TAG, Dialect, Handle, Object, PROC_NULL, Status};
use crate::failure::{Class, Failure};
use crate::raw::{Buffer, HandleAt, NumberAt, Out, StatusesAt};
use crate::requests::{OF_NOBODY, Request, RequestState, Staged, status_of};
use crate::runtime::Mpi;
use crate::types::{Area, Type};

/// A message to send: its data, destination and tag.
pub(crate) struct Outgoing {
    pub(crate) area: Area,
    /// `None`: to MPI_PROC_NULL.
    pub(crate) to: Option<Envelope>,
}

/// A message to receive.
pub(crate) struct Incoming {
    pub(crate) area: Area,
    /// `None`: from MPI_PROC_NULL.
    pub(crate) from: Option<Selector>,
}

/// A started receive: its request, and its staging buffer if it has one.
type PostedReceive = (RequestId, Option<Box<Staged>>);

/// The envelope of a message to `dest`; `None` for MPI_PROC_NULL.
#[inline(always)]
fn envelope(comm: &Comm, dest: i32, tag: i32) -> Result<Option<Envelope>, Failure> {
    if tag < 0 {
        return Err(no_tag(tag).sent());
    }
    match dest {
        PROC_NULL => Ok(None),
        0.. => {
            let destination = known(comm, dest, Failure::sent)?;
            Ok(Some(Envelope { destination, context: comm.inner.context(), tag }))
        }
        _ => Err(no_rank(comm, dest).sent()),
    }
}

#[cold]
pub(crate) fn no_tag(tag: i32) -> Failure {
    Failure::new(Class::Tag, format!("tag {tag} is not valid: tags start at 0"))
}

/// The selector of messages from `source`; `None` for MPI_PROC_NULL.
#[inline(always)]
fn selector(comm: &Comm, source: i32, tag: i32) -> Result<Option<Selector>, Failure> {
    let tag = match tag {
        0.. => Some(tag),
        ANY_TAG => None,
        _ => return Err(no_tag(tag).received()),
    };
    let source = match source {
        PROC_NULL => return Ok(None),
        ANY_SOURCE => None,
        0.. => {
            known(comm, source, Failure::received)?;
            Some(source as u32)
        }
        _ => return Err(no_rank(comm, source).received()),
    };
    let source = comm.inner.source_in_job(source)?;
    Ok(Some(Selector { source, tag, context: comm.inner.context() }))
}

/// The rank in the job of a rank that exists. `of_side` marks a failure's side.
#[inline(always)]
fn known(comm: &Comm, rank: i32, of_side: fn(Failure) -> Failure) -> Result<u32, Failure> {
    if rank as u32 >= comm.inner.size() {
        return Err(of_side(no_rank(comm, rank)));
    }
    Ok(comm.inner.in_job(rank as u32)?)
}

#[cold]
fn no_rank(comm: &Comm, rank: i32) -> Failure {
    let (name, size) = (comm.name.borrow().display().to_string(), comm.inner.size());
    let name = if name.is_empty() { "the communicator" } else { &name };
    let text = format!("rank {rank} does not exist: {name} has ranks 0 to {}", size - 1);
    Failure::new(Class::Rank, text)
}

/// Sends a message without gaps if that needs no request and there is room at once. The result is a
/// `bool`, for the reason in [`hikyaku_msg::Engine::send_directly`].
#[inline(always)]
fn send_at_once(comm: &Comm, to: &Envelope, data: &[u8], mode: SendMode) -> bool {
    comm.inner.engine().borrow_mut().send_directly(data, to, mode)
}

/// Receives contiguous data without a request, with one of the engine's functions. `None`: the
/// message is not known to have arrived.
#[inline(always)]
fn receive_at_once(
    comm: &Comm,
    from: &Selector,
    into: &mut [u8],
    by: impl FnOnce(&mut Engine<RankPort>, &mut [u8], u32, u32, i32) -> Option<u64>,
) -> Option<Received> {
    let (source, tag) = (from.source?, from.tag?);
    let bytes = by(&mut comm.inner.engine().borrow_mut(), into, source, from.context, tag)?;
    Some(comm.inner.told_at_once(Received { source, tag, bytes }))
}

impl Outgoing {
    #[inline(always)]
    pub(crate) fn new(
        elements: &Elements<Rc<Type>>,
        (dest, tag): (i32, i32),
        comm: &Comm,
    ) -> Result<Outgoing, Failure> {
        let to = envelope(comm, dest, tag)?;
        Ok(Outgoing { area: elements.sent()?, to })
    }

    /// Sends the message and waits.
    fn send(&self, comm: &Comm, mode: SendMode) -> Result<(), Failure> {
        let Some(to) = self.to else { return Ok(()) };
        if comm.inner.tasks().are_over() && !self.area.is_scattered() {
            let data = self.area.data();
            let sent = comm.inner.engine().borrow_mut().send(&data, to, mode);
            return sent.map_err(|error| comm.inner.explained(error).into());
        }
        let state = self.start(comm, mode)?;
        wait_for(comm, state).map(drop)
    }

    /// Starts the send.
    pub(crate) fn start(&self, comm: &Comm, mode: SendMode) -> Result<RequestState, Failure> {
        let Some(to) = self.to else { return Ok(RequestState::Done(Status::EMPTY)) };
        let (buffer, staged) = match self.area.memory() {
            Some(memory) => (memory.to_send(self.area.len()), None),
            None => {
                if let Some(data) = self.area.scattered(self.area.len()) {
                    let mut engine = comm.inner.engine().borrow_mut();
                    let started = engine.start_send_scattered(data, to, mode);
                    let id = started.map_err(|error| comm.inner.explained(error))?;
                    return Ok(RequestState::Message { id, is_receive: false, staged: None });
                }
                let mut bytes = self.area.data().into_owned().into_boxed_slice();
                let start = Buffer::new(bytes.as_mut_ptr());
                (start.to_send(bytes.len()), Some(Box::new(Staged { bytes, into: None })))
            }
        };
        let started = comm.inner.engine().borrow_mut().try_send(buffer, to, mode);
        let started = started.map_err(|error| comm.inner.explained(error))?;
        Ok(match started {
            Some(id) => RequestState::Message { id, is_receive: false, staged },
            None => RequestState::Done(Status::EMPTY),
        })
    }
}

impl Incoming {
    #[inline(always)]
    fn new(
        elements: &Elements<Rc<Type>>,
        (source, tag): (i32, i32),
        comm: &Comm,
    ) -> Result<Incoming, Failure> {
        let from = selector(comm, source, tag)?;
        Ok(Incoming { area: elements.received()?, from })
    }

    /// Receives the message and waits.
    fn receive(&self, comm: &Comm) -> Result<Status, Failure> {
        let Some(from) = self.from else { return Ok(Status::OF_NOBODY) };
        if let Some(memory) = self.area.memory()
            && comm.inner.tasks().are_over()
        {
            let into = memory.bytes_mut(self.area.len());
            let received = comm.inner.engine().borrow_mut().recv(into, from);
            return Ok(status_of(comm.inner.told(received)?));
        }
        let state = self.start(comm)?;
        wait_for(comm, state)
    }

    /// Starts the receive.
    pub(crate) fn start(&self, comm: &Comm) -> Result<RequestState, Failure> {
        Ok(match self.post(comm)? {
            Some((id, staged)) => RequestState::Message { id, is_receive: true, staged },
            None => RequestState::Done(Status::OF_NOBODY),
        })
    }

    /// Posts the receive. `None`: it is from MPI_PROC_NULL.
    #[inline(always)]
    fn post(&self, comm: &Comm) -> Result<Option<PostedReceive>, Failure> {
        let Some(from) = self.from else { return Ok(None) };
        let (buffer, staged) = match self.area.memory() {
            Some(memory) => (memory.to_receive(self.area.len()), None),
            None => gaps_of(&self.area, self.area.len()),
        };
        let started = comm.inner.engine().borrow_mut().start_recv(buffer, from);
        let id = started.map_err(|error| comm.inner.explained(error))?;
        Ok(Some((id, staged)))
    }
}

/// The receive buffer for a message of up to `room` bytes whose data have gaps: the gaps
/// themselves, or a staging buffer if the message is short or the area is too small for it.
#[cold]
fn gaps_of(area: &Area, room: usize) -> (RecvBuffer, Option<Box<Staged>>) {
    if let Some(data) = area.scattered(room) {
        return (RecvBuffer::scattered(data), None);
    }
    let mut bytes = vec![0; room].into_boxed_slice();
    let start = Buffer::new(bytes.as_mut_ptr());
    let into = Some(area.clone());
    (start.to_receive(room), Some(Box::new(Staged { bytes, into })))
}

/// Waits for a message that was started.
fn wait_for(comm: &Comm, state: RequestState) -> Result<Status, Failure> {
    match state {
        RequestState::Done(status) => Ok(status),
        RequestState::Message { id, staged, .. } => {
            let received = comm.inner.told(comm.inner.wait_for(id, 1));
            match staged {
                Some(staged) => staged.land(received),
                None => Ok(status_of(received?)),
            }
        }
        _ => Ok(Status::EMPTY),
    }
}

/// Abandons a started message, so that the program may reuse its memory.
#[cold]
fn abandon(comm: &Comm, state: &RequestState) {
    if let RequestState::Message { id, .. } = state {
        comm.inner.engine().borrow_mut().abandon(*id);
    }
}

/// A message matched by a probe: no other receive can get it (MPI 5.0 §3.8.2).
#[derive(Debug)]
pub(crate) struct Matched {
    comm: Rc<Comm>,
    /// Its receive, which has no buffer yet.
    id: RequestId,
    bytes: usize,
}

impl Matched {
    /// Attaches the buffer to its receive.
    fn receive(&self, area: Area) -> RequestState {
        let (buffer, staged) = match area.memory() {
            Some(memory) if area.len() >= self.bytes => (memory.to_receive(self.bytes), None),
            _ => gaps_of(&area, self.bytes),
        };
        self.comm.inner.engine().borrow_mut().attach_receive(self.id, buffer);
        RequestState::Message { id: self.id, is_receive: true, staged }
    }
}

/// The functions of one send mode.
macro_rules! sends {
    ($(($mode:expr, $blocking:ident, $started:ident, $kept:ident, $name:literal);)*) => {
        impl<D: Dialect> Mpi<D> {
            $(
                #[doc = concat!("MPI_", $name, ".")]
                #[inline(always)]
                pub fn $blocking(
                    &self,
                    elements: Elements<Rc<Type>>,
                    dest: i32,
                    tag: i32,
                    comm: Rc<Comm>,
                ) -> Result<(), Failure> {
                    let to = envelope(&comm, dest, tag)?;
                    if let (Some(to), Some(place)) = (&to, elements.plain())
                        && send_at_once(&comm, to, place.bytes(), $mode)
                    {
                        return Ok(());
                    }
                    send(elements.lent(), to, &comm, $mode)
                }

                #[doc = concat!("The same, left in flight: MPI_I", stringify!($blocking), ".")]
                #[inline(always)]
                pub fn $started(
                    &self,
                    elements: Elements<Rc<Type>>,
                    dest: i32,
                    tag: i32,
                    comm: Rc<Comm>,
                    request: HandleAt<D>,
                ) -> Result<(), Failure> {
                    let to = envelope(&comm, dest, tag)?;
                    if let (Some(to), Some(place)) = (&to, elements.plain())
                        && send_at_once(&comm, to, place.bytes(), $mode)
                    {
                        return self.add_complete(&request);
                    }
                    self.start_send(elements.lent(), to, comm, $mode, &request)
                }

                #[doc = concat!("The same, to be started: MPI_", $name, "_init.")]
                pub fn $kept(
                    &self,
                    elements: Elements<Rc<Type>>,
                    dest: i32,
                    tag: i32,
                    comm: Rc<Comm>,
                    request: HandleAt<D>,
                ) -> Result<(), Failure> {
                    let message = Outgoing::new(&elements, (dest, tag), &comm)?;
                    let of = Rc::clone(&comm);
                    let start = Box::new(move || message.start(&of, $mode));
                    self.add_request(Request::persistent(comm, start), &request)
                }
            )*
        }
    };
}

/// Sends a message that cannot be sent at once.
#[inline(never)]
fn send(
    elements: Elements<&Type>,
    to: Option<Envelope>,
    comm: &Comm,
    mode: SendMode,
) -> Result<(), Failure> {
    Outgoing { area: elements.sent()?, to }.send(comm, mode)
}

/// Receives a message that has not arrived yet.
#[inline(never)]
fn receive(
    elements: Elements<&Type>,
    from: Option<Selector>,
    comm: &Comm,
) -> Result<Status, Failure> {
    Incoming { area: elements.received()?, from }.receive(comm)
}

sends! {
    (SendMode::Standard, send, isend, send_init, "Send");
    (SendMode::Synchronous, ssend, issend, ssend_init, "Ssend");
    (SendMode::Ready, rsend, irsend, rsend_init, "Rsend");
}

impl<D: Dialect> Mpi<D> {
    /// Starts a send and gives it a handle.
    #[inline(never)]
    fn start_send(
        &self,
        elements: Elements<&Type>,
        to: Option<Envelope>,
        comm: Rc<Comm>,
        mode: SendMode,
        request: &HandleAt<D>,
    ) -> Result<(), Failure> {
        let message = Outgoing { area: elements.sent()?, to };
        match message.start(&comm, mode)? {
            RequestState::Done(_) => self.add_complete(request),
            state => self.add_message(comm, state, request),
        }
    }

    /// Starts a receive and gives it a handle.
    #[inline(never)]
    fn start_receive(
        &self,
        elements: Elements<&Type>,
        from: Option<Selector>,
        comm: Rc<Comm>,
        request: &HandleAt<D>,
    ) -> Result<(), Failure> {
        let message = Incoming { area: elements.received()?, from };
        match message.post(&comm)? {
            Some((id, None)) => self.add_receive(comm, id, request),
            Some((id, staged)) => {
                let state = RequestState::Message { id, is_receive: true, staged };
                self.add_request(Request::new(comm, state), request)
            }
            None => self.add_received(OF_NOBODY, request),
        }
    }
}

#[allow(clippy::too_many_arguments)]
impl<D: Dialect> Mpi<D> {
    /// MPI_Recv.
    #[inline(always)]
    pub fn recv(
        &self,
        elements: Elements<Rc<Type>>,
        source: i32,
        tag: i32,
        comm: Rc<Comm>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let from = selector(&comm, source, tag)?;
        if let (Some(from), Some(place)) = (&from, elements.plain())
            && let Some(received) =
                receive_at_once(&comm, from, place.bytes_mut(), Engine::recv_at_once)
        {
            status.set(0, status_of(received));
            return Ok(());
        }
        status.tell(receive(elements.lent(), from, &comm))
    }

    /// MPI_Irecv.
    #[inline(always)]
    pub fn irecv(
        &self,
        elements: Elements<Rc<Type>>,
        source: i32,
        tag: i32,
        comm: Rc<Comm>,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        let from = selector(&comm, source, tag)?;
        let Some((from, place)) = from.zip(elements.plain()) else {
            return self.start_receive(elements.lent(), from, comm, &request);
        };
        let there = receive_at_once(&comm, &from, place.bytes_mut(), Engine::recv_if_there);
        if let Some(received) = there {
            return self.add_received(received, &request);
        }
        let make = || place.to_receive();
        let started = comm.inner.engine().borrow_mut().start_recv_made(place.len(), make, from);
        let id = started.map_err(|error| comm.inner.explained(error))?;
        self.add_receive(comm, id, &request)
    }

    /// MPI_Recv_init.
    pub fn recv_init(
        &self,
        elements: Elements<Rc<Type>>,
        source: i32,
        tag: i32,
        comm: Rc<Comm>,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        let message = Incoming::new(&elements, (source, tag), &comm)?;
        let of = Rc::clone(&comm);
        let start = Box::new(move || message.start(&of));
        self.add_request(Request::persistent(comm, start), &request)
    }

    /// MPI_Sendrecv.
    pub fn sendrecv(
        &self,
        out: Elements<Rc<Type>>,
        dest: i32,
        out_tag: i32,
        into: Elements<Rc<Type>>,
        source: i32,
        in_tag: i32,
        comm: Rc<Comm>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let sent = Outgoing::new(&out, (dest, out_tag), &comm)?;
        let received = Incoming::new(&into, (source, in_tag), &comm)?;
        let receiving = received.start(&comm)?;
        let sending =
            sent.start(&comm, SendMode::Standard).inspect_err(|_| abandon(&comm, &receiving))?;
        let came = wait_for(&comm, receiving);
        let gone = wait_for(&comm, sending);
        status.tell(came)?;
        gone.map(drop)
    }

    /// MPI_Sendrecv_replace.
    pub fn sendrecv_replace(
        &self,
        elements: Elements<Rc<Type>>,
        dest: i32,
        out_tag: i32,
        source: i32,
        in_tag: i32,
        comm: Rc<Comm>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let sent = Outgoing::new(&elements, (dest, out_tag), &comm)?;
        let received = Incoming::new(&elements, (source, in_tag), &comm)?;
        self.send_copy(&sent, &comm)?;
        status.tell(received.receive(&comm))
    }

    /// MPI_Isendrecv: the outgoing data are copied, so that the request is that of the receive.
    pub fn isendrecv(
        &self,
        out: Elements<Rc<Type>>,
        dest: i32,
        out_tag: i32,
        into: Elements<Rc<Type>>,
        source: i32,
        in_tag: i32,
        comm: Rc<Comm>,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        let sent = Outgoing::new(&out, (dest, out_tag), &comm)?;
        let received = Incoming::new(&into, (source, in_tag), &comm)?;
        self.send_copy(&sent, &comm)?;
        let state = received.start(&comm)?;
        self.add_message(comm, state, &request)
    }

    /// MPI_Isendrecv_replace.
    pub fn isendrecv_replace(
        &self,
        elements: Elements<Rc<Type>>,
        dest: i32,
        out_tag: i32,
        source: i32,
        in_tag: i32,
        comm: Rc<Comm>,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        let out = elements.clone();
        self.isendrecv(out, dest, out_tag, elements, source, in_tag, comm, request)
    }

    /// MPI_Probe.
    pub fn probe(
        &self,
        source: i32,
        tag: i32,
        comm: Rc<Comm>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        status.set(
            0,
            match selector(&comm, source, tag)? {
                None => Status::OF_NOBODY,
                Some(from) => status_of(comm.inner.told(comm.inner.wait_for_probe(from))?),
            },
        );
        Ok(())
    }

    /// MPI_Iprobe.
    pub fn iprobe(
        &self,
        source: i32,
        tag: i32,
        comm: Rc<Comm>,
        flag: Out<i32>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let found = match selector(&comm, source, tag)? {
            None => Some(Status::OF_NOBODY),
            Some(from) => {
                comm.inner.attend();
                let probed = comm.inner.engine().borrow_mut().probe(from);
                let found = probed.map_err(|error| comm.inner.explained(error))?;
                found.map(|it| comm.inner.told(Ok(it))).transpose()?.map(status_of)
            }
        };
        self.tell_found(flag, found.is_some())?;
        if let Some(found) = found {
            status.set(0, found);
        }
        Ok(())
    }

    /// Posts the receive of a message that a probe has found.
    fn matched(
        &self,
        comm: &Rc<Comm>,
        found: Received,
        into: &HandleAt<D>,
    ) -> Result<Status, Failure> {
        // The engine found it with this selector: the first message of this sender with this tag.
        let Received { source, tag, bytes } = found;
        let of = Selector { source: Some(source), tag: Some(tag), context: comm.inner.context() };
        let bytes = bytes as usize;
        let started = comm.inner.engine().borrow_mut().start_recv_detached(bytes, of);
        let id = started.map_err(|error| comm.inner.explained(error))?;
        let matched = Matched { comm: Rc::clone(comm), id, bytes };
        into.set(self.state.messages.add(Rc::new(matched))?);
        Ok(status_of(comm.inner.told(Ok(found))?))
    }

    /// MPI_Mprobe.
    pub fn mprobe(
        &self,
        source: i32,
        tag: i32,
        comm: Rc<Comm>,
        message: HandleAt<D>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        status.set(
            0,
            match selector(&comm, source, tag)? {
                None => {
                    message.set(Handle::MESSAGE_NO_PROC);
                    Status::OF_NOBODY
                }
                Some(from) => {
                    let found = comm.inner.wait_for_probe(from);
                    let found = found.map_err(|error| comm.inner.explained(error))?;
                    self.matched(&comm, found, &message)?
                }
            },
        );
        Ok(())
    }

    /// MPI_Improbe.
    pub fn improbe(
        &self,
        source: i32,
        tag: i32,
        comm: Rc<Comm>,
        flag: Out<i32>,
        message: HandleAt<D>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let Some(from) = selector(&comm, source, tag)? else {
            flag.set_flag(true);
            message.set(Handle::MESSAGE_NO_PROC);
            status.set(0, Status::OF_NOBODY);
            return Ok(());
        };
        comm.inner.attend();
        let probed = comm.inner.engine().borrow_mut().probe(from);
        let found = probed.map_err(|error| comm.inner.explained(error))?;
        self.tell_found(flag, found.is_some())?;
        match found {
            Some(found) => status.set(0, self.matched(&comm, found, &message)?),
            None => message.set_null(),
        }
        Ok(())
    }

    /// Takes a matched message; `None` for a message from MPI_PROC_NULL.
    fn take_matched(&self, handle: &HandleAt<D>) -> Result<Option<Rc<Matched>>, Failure> {
        let number = handle.get();
        let found = match number {
            Handle::MESSAGE_NO_PROC => None,
            other => {
                let found = self.state.messages.remove(other);
                Some(found.ok_or_else(|| self.no_such(Object::Message, other))?)
            }
        };
        handle.set_null();
        Ok(found)
    }

    /// MPI_Mrecv.
    pub fn mrecv(
        &self,
        elements: Elements<Rc<Type>>,
        message: HandleAt<D>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let area = elements.area()?;
        status.tell(match self.take_matched(&message)? {
            None => Ok(Status::OF_NOBODY),
            // No argument names a communicator, so the failure is one of the message's
            // communicator.
            Some(matched) => wait_for(&matched.comm, matched.receive(area))
                .map_err(|failure| failure.of(matched.comm.handled())),
        })
    }

    /// MPI_Imrecv.
    pub fn imrecv(
        &self,
        elements: Elements<Rc<Type>>,
        message: HandleAt<D>,
        request: HandleAt<D>,
    ) -> Result<(), Failure> {
        let area = elements.area()?;
        let (comm, state) = match self.take_matched(&message)? {
            None => return self.add_received(OF_NOBODY, &request),
            Some(matched) => (Rc::clone(&matched.comm), matched.receive(area)),
        };
        self.add_message(comm, state, &request)
    }

    /// MPI_Get_count.
    pub fn get_count(
        &self,
        status: Status,
        datatype: Rc<Type>,
        count: NumberAt,
    ) -> Result<(), Failure> {
        let found = datatype.datatype.count_of(status.bytes);
        count.set(found.map_or(crate::dialect::UNDEFINED.into(), |found| found as i64));
        Ok(())
    }

    /// MPI_Status_set_cancelled.
    pub fn status_set_cancelled(&self, status: StatusesAt<D>, flag: i32) -> Result<(), Failure> {
        change(&status, |status| status.cancelled = flag != 0)
    }

    /// MPI_Status_set_elements.
    pub fn status_set_elements(
        &self,
        status: StatusesAt<D>,
        datatype: Rc<Type>,
        count: i64,
    ) -> Result<(), Failure> {
        let count = crate::raw::count(count)? as u64;
        let bytes = datatype.datatype.bytes_of(count).unwrap_or(0);
        change(&status, |status| status.bytes = bytes)
    }

    /// MPI_Status_set_elements_x.
    pub fn status_set_elements_x(
        &self,
        status: StatusesAt<D>,
        datatype: Rc<Type>,
        count: i64,
    ) -> Result<(), Failure> {
        self.status_set_elements(status, datatype, count)
    }

    /// MPI_Status_get_source.
    pub fn status_get_source(&self, status: Status, source: Out<i32>) -> Result<(), Failure> {
        source.set(status.source);
        Ok(())
    }

    /// MPI_Status_set_source.
    pub fn status_set_source(&self, status: StatusesAt<D>, source: i32) -> Result<(), Failure> {
        change(&status, |status| status.source = source)
    }

    /// MPI_Status_get_tag.
    pub fn status_get_tag(&self, status: Status, tag: Out<i32>) -> Result<(), Failure> {
        tag.set(D::tag_out(status.tag));
        Ok(())
    }

    /// MPI_Status_set_tag.
    pub fn status_set_tag(&self, status: StatusesAt<D>, tag: i32) -> Result<(), Failure> {
        change(&status, |status| status.tag = tag)
    }

    /// MPI_Status_get_error.
    pub fn status_get_error(&self, status: Status, error: Out<i32>) -> Result<(), Failure> {
        error.set(status.error.unwrap_or(0));
        Ok(())
    }

    /// MPI_Status_set_error.
    pub fn status_set_error(&self, status: StatusesAt<D>, error: i32) -> Result<(), Failure> {
        change(&status, |status| status.error = Some(error))
    }
}

/// Changes a status of the program.
fn change<D: Dialect>(
    status: &StatusesAt<D>,
    act: impl FnOnce(&mut Status),
) -> Result<(), Failure> {
    let mut known = status.get().unwrap_or(Status::EMPTY);
    act(&mut known);
    status.set(0, known);
    Ok(())
}
