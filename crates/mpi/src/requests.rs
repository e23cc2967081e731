//! Requests: operations in flight, and persistent operations (MPI 5.0 §3.7, §3.9).

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;
use std::task::Poll;

use hikyaku_msg::{CancelOutcome, MsgError, Received, RequestId};
use hikyaku_nic::fabric::Rank;
use hikyaku_rank::TaskId;

use crate::communicators::Comm;
use crate::dialect::{ANY_TAG, Dialect, Handle, Object, PROC_NULL, Status, UNDEFINED};
use crate::errors::Results;
use crate::failure::{Class, Failure};
use crate::generalised::Generalised;
use crate::raw::{HandleAt, Handles, HandlesAt, NumbersAt, Out, StatusesAt};
use crate::runtime::Mpi;
use crate::types::Area;

/// The object behind the handle of a request.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// A message for which the program can only wait, as for most: it needs no allocation.
    Message(Message),
    /// A message that was received at the start of its receive, or that is from MPI_PROC_NULL.
    Received(Received),
    /// Any other request.
    Request(Rc<Request>),
}

/// A message in flight whose data are sent or received directly in the program's memory.
#[derive(Debug, Clone)]
pub(crate) struct Message {
    comm: Rc<Comm>,
    id: RequestId,
    is_receive: bool,
}

pub(crate) struct Request {
    /// The request's communicator, if it has one.
    comm: Option<Rc<Comm>>,
    state: RefCell<RequestState>,
    /// Starts a persistent request.
    start: Option<Start>,
    is_cancelled: Cell<bool>,
    /// Whether it is the shared request of operations that are complete at once. It stays complete.
    is_shared: bool,
    /// The program's functions of a generalised request.
    pub(crate) own: Option<Box<Generalised>>,
}

/// The function that starts a persistent request.
pub(crate) type Start = Box<dyn Fn() -> Result<RequestState, Failure>>;

/// The state of a request.
pub(crate) enum RequestState {
    /// A message. If its data have gaps, received data are copied from `staged` at the end.
    Message { id: RequestId, is_receive: bool, staged: Option<Box<Staged>> },
    /// An operation that progresses when it is polled.
    Task(TaskId),
    /// An exchange with neighbours.
    Round(Rc<dyn Round>),
    /// Several requests, all of which must complete.
    All(Vec<Rc<Request>>),
    /// A generalised request.
    Own,
    /// Complete, and the result has not been taken.
    Done(Status),
    /// Failed, and the result has not been taken.
    Failed(Failure),
    /// Inactive: complete or not started.
    Inactive,
}

/// A round of an exchange in flight. A trait, because the files on topologies, which implement it,
/// depend on this one.
pub(crate) trait Round {
    /// Waits until the round is complete.
    fn wait(&self) -> Outcome;

    /// Polls the round. Returns its result if it is complete.
    fn test(&self, comm: &Comm) -> Option<Outcome>;
}

/// The function that starts a round of `kept`, which was set up once.
pub(crate) fn starts<R: Round + 'static>(
    kept: R,
    start: impl Fn(&R) -> Result<(), Failure> + 'static,
) -> Start {
    let kept = Rc::new(kept);
    Box::new(move || {
        start(&kept)?;
        let round = Rc::clone(&kept);
        Ok(RequestState::Round(round))
    })
}

/// Data of a message in a staging buffer.
#[derive(Debug)]
pub(crate) struct Staged {
    /// The data.
    pub(crate) bytes: Box<[u8]>,
    /// The area of received data; `None` for sent data.
    pub(crate) into: Option<Area>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_persistent = self.start.is_some();
        f.debug_struct("Request").field("is_persistent", &is_persistent).finish_non_exhaustive()
    }
}

/// The result of an operation: its status or a failure.
pub(crate) type Outcome = Result<Status, Failure>;

impl Staged {
    /// Completes a receive: copies the data to their area.
    pub(crate) fn land(&self, received: Result<Received, MsgError>) -> Outcome {
        let came = received.as_ref().map_or(self.bytes.len(), |it| it.bytes as usize);
        let Some(into) = &self.into else { return Ok(status_of(received?)) };
        let came = came.min(self.bytes.len());
        into.put(&self.bytes[..came.min(into.len())]);
        if came > into.len() {
            let text = format!("the message of {came} bytes is longer than {}", into.len());
            let mut failure = Failure::new(Class::Truncate, text);
            let received = received.ok().map(status_of);
            failure.received = received.map(|it| Status { bytes: into.len() as u64, ..it });
            return Err(failure);
        }
        Ok(status_of(received?))
    }
}

impl Entry {
    /// The status of a message that is complete, or completes within a few polls. `None`: it does
    /// not, or has failed, or this is another kind of request.
    #[inline(always)]
    fn at_once(&self) -> Option<Status> {
        match self {
            Entry::Received(received) => Some(status_of(received.copied())),
            Entry::Message(Message { comm, id, is_receive }) => {
                let received = comm.inner.wait_for_next(*id)?;
                Some(if *is_receive { status_of(received) } else { Status::EMPTY })
            }
            Entry::Request(_) => None,
        }
    }

    /// Whether the request is active.
    #[inline(always)]
    fn is_active(&self) -> bool {
        match self {
            Entry::Message(_) | Entry::Received(_) => true,
            Entry::Request(request) => !request.is_shared && request.is_active(),
        }
    }
}

impl Message {
    /// The outcome of the message, given its result.
    #[inline(always)]
    fn outcome(&self, result: Result<Received, MsgError>) -> Outcome {
        match self.comm.inner.told(result) {
            Ok(received) if self.is_receive => Ok(status_of(received)),
            Ok(_) => Ok(Status::EMPTY),
            Err(error) => Err(Failure::from(error).of(self.comm.handled())),
        }
    }
}

impl Request {
    /// A request for an operation in flight.
    pub(crate) fn new(comm: Rc<Comm>, state: RequestState) -> Rc<Request> {
        Rc::new(Request { comm: Some(comm), ..Request::in_state(state) })
    }

    /// A request without a communicator.
    pub(crate) fn of_none(state: RequestState) -> Rc<Request> {
        Rc::new(Request::in_state(state))
    }

    /// A generalised request.
    pub(crate) fn generalised(own: Generalised) -> Rc<Request> {
        Rc::new(Request { own: Some(Box::new(own)), ..Request::in_state(RequestState::Own) })
    }

    /// A persistent request.
    pub(crate) fn persistent(comm: Rc<Comm>, start: Start) -> Rc<Request> {
        let state = Request::in_state(RequestState::Inactive);
        Rc::new(Request { comm: Some(comm), start: Some(start), ..state })
    }

    fn in_state(state: RequestState) -> Request {
        let (state, is_cancelled) = (RefCell::new(state), Cell::new(false));
        Request { comm: None, state, start: None, is_cancelled, is_shared: false, own: None }
    }

    fn is_active(&self) -> bool {
        !matches!(*self.state.borrow(), RequestState::Inactive)
    }

    /// Makes the request of a message inactive, and returns its outcome.
    fn settle(&self, result: Result<Received, MsgError>) -> Outcome {
        let cancelled = self.is_cancelled.get() && result == Err(MsgError::Cancelled);
        let state = self.state.replace(RequestState::Inactive);
        let (is_receive, staged, comm) = match (state, &self.comm) {
            (RequestState::Message { is_receive, staged, .. }, Some(comm)) => {
                (is_receive, staged, comm)
            }
            // Another thread has cancelled it, or asked for its status, while this one waited.
            (RequestState::Done(status), _) => return Ok(status),
            (RequestState::Failed(failure), _) => return Err(failure),
            _ => return Ok(Status::EMPTY),
        };
        if cancelled {
            return Ok(Status { cancelled: true, ..Status::EMPTY });
        }
        let received = comm.inner.told(result);
        if !is_receive {
            return Ok(received.map(|_| Status::EMPTY)?);
        }
        match staged {
            Some(staged) => staged.land(received),
            None => Ok(status_of(received?)),
        }
    }

    /// Makes the request inactive after a wait that had this outcome.
    fn end(&self, outcome: Outcome) -> Outcome {
        match self.state.replace(RequestState::Inactive) {
            // Another thread has asked for its status, and taken the result, while this one waited.
            RequestState::Done(status) => Ok(status),
            RequestState::Failed(failure) => Err(failure),
            _ => outcome,
        }
    }

    /// Assigns a failure to the request's communicator, if it has one.
    #[cold]
    fn own(&self, failure: Failure) -> Failure {
        match &self.comm {
            Some(comm) => failure.of(comm.handled()),
            None => failure,
        }
    }

    /// Polls the request. Returns its outcome if it is complete, and makes it inactive.
    fn look(&self) -> Option<Outcome> {
        Some(self.look_at_state()?.map_err(|failure| self.own(failure)))
    }

    fn look_at_state(&self) -> Option<Outcome> {
        enum Found {
            Message(RequestId),
            Task(TaskId),
            Round(Rc<dyn Round>),
            All(Vec<Rc<Request>>),
            Own,
            Done(Status),
            Failed,
        }
        let state = self.state.borrow();
        let found = match &*state {
            RequestState::Message { id, .. } => Found::Message(*id),
            RequestState::Task(id) => Found::Task(*id),
            RequestState::Round(round) => Found::Round(Rc::clone(round)),
            RequestState::All(all) => Found::All(all.clone()),
            RequestState::Own => Found::Own,
            RequestState::Done(status) => Found::Done(*status),
            RequestState::Failed(_) => Found::Failed,
            RequestState::Inactive => Found::Done(Status::EMPTY),
        };
        drop(state);
        Some(match found {
            Found::Message(id) => self.settle(self.comm.as_ref()?.inner.test(id)?),
            Found::Task(id) => {
                let result = self.comm.as_ref()?.inner.test_task(id)?;
                self.state.replace(RequestState::Inactive);
                result.map(|()| Status::EMPTY).map_err(Failure::from)
            }
            Found::Round(round) => {
                let outcome = round.test(self.comm.as_ref()?)?;
                self.state.replace(RequestState::Inactive);
                outcome
            }
            Found::All(all) => {
                // Poll every request, so that all make progress.
                let open = all.iter().filter(|request| !request.is_complete()).count();
                if open > 0 {
                    return None;
                }
                self.state.replace(RequestState::Inactive);
                let mut outcomes = all.iter().filter_map(|request| request.look());
                outcomes.find(Result::is_err).unwrap_or(Ok(Status::EMPTY))
            }
            Found::Own => {
                let status = self.own.as_ref()?.status()?;
                self.state.replace(RequestState::Inactive);
                status
            }
            Found::Done(status) => {
                if !self.is_shared {
                    self.state.replace(RequestState::Inactive);
                }
                Ok(status)
            }
            Found::Failed => match self.state.replace(RequestState::Inactive) {
                RequestState::Failed(failure) => Err(failure),
                _ => Ok(Status::EMPTY),
            },
        })
    }

    /// The result of a complete request. It is not taken.
    fn result(&self) -> Outcome {
        let state = self.state.borrow();
        match &*state {
            RequestState::Done(status) => Ok(*status),
            RequestState::Failed(failure) => Err(failure.clone()),
            _ => Ok(Status::EMPTY),
        }
    }

    /// Whether the request is known to be complete. It is not polled.
    pub(crate) fn has_ended(&self) -> bool {
        use RequestState::{Done, Failed, Inactive};
        matches!(*self.state.borrow(), Done(_) | Failed(_) | Inactive)
    }

    /// Polls the request without taking its result. An inactive request counts as complete.
    pub(crate) fn is_complete(&self) -> bool {
        if !self.is_active() {
            return true;
        }
        let Some(outcome) = self.look() else { return false };
        self.state.replace(outcome.map_or_else(RequestState::Failed, RequestState::Done));
        true
    }

    /// Waits until the request is complete. `open`: the number of requests the program waits for.
    pub(crate) fn wait(&self, open: u32) -> Outcome {
        self.wait_for_state(open).map_err(|failure| self.own(failure))
    }

    fn wait_for_state(&self, open: u32) -> Outcome {
        enum For {
            Message(RequestId),
            Task(TaskId),
            Round(Rc<dyn Round>),
            All(Vec<Rc<Request>>),
            Own,
        }
        let state = self.state.borrow();
        let waits = match &*state {
            RequestState::Message { id, .. } => Some(For::Message(*id)),
            RequestState::Task(id) => Some(For::Task(*id)),
            RequestState::Round(round) => Some(For::Round(Rc::clone(round))),
            RequestState::All(all) => Some(For::All(all.clone())),
            RequestState::Own => Some(For::Own),
            RequestState::Done(_) | RequestState::Failed(_) | RequestState::Inactive => None,
        };
        drop(state);
        match (waits, &self.comm) {
            (Some(For::Message(id)), Some(comm)) => self.settle(comm.inner.wait_for(id, open)),
            (Some(For::Task(id)), Some(comm)) => {
                let result = comm.inner.wait_for_task(id, open);
                self.end(result.map(|()| Status::EMPTY).map_err(Failure::from))
            }
            (Some(For::Round(round)), _) => self.end(round.wait()),
            (Some(For::All(all)), _) => self.end(wait_for_all(&all).map(|()| Status::EMPTY)),
            (Some(For::Own), _) => {
                if let Some(own) = &self.own {
                    own.wait();
                }
                self.look().unwrap_or(Ok(Status::EMPTY))
            }
            _ => self.look().unwrap_or(Ok(Status::EMPTY)),
        }
    }
}

/// Waits for all requests, even if one fails, because they own the data that they send. Returns the
/// first failure.
pub(crate) fn wait_for_all<'a>(
    requests: impl IntoIterator<Item = &'a Rc<Request>>,
) -> Result<(), Failure> {
    let mut first = Ok(());
    for request in requests {
        first = first.and(request.wait(1).map(drop));
    }
    first
}

/// A message from MPI_PROC_NULL, in the form for its status (MPI 5.0 §3.10).
pub(crate) const OF_NOBODY: Received =
    Received { source: PROC_NULL as Rank, tag: ANY_TAG, bytes: 0 };

/// The status of a message.
#[inline(always)]
pub(crate) fn status_of(received: Received) -> Status {
    let Received { source, tag, bytes } = received;
    Status { source: source as i32, tag, bytes, error: None, cancelled: false }
}

impl<D: Dialect> Mpi<D> {
    /// Gives a request a handle.
    pub(crate) fn add_request(
        &self,
        request: Rc<Request>,
        into: &HandleAt<D>,
    ) -> Result<(), Failure> {
        self.add_entry(|| Entry::Request(request), into)
    }

    #[inline(always)]
    fn add_entry(&self, entry: impl FnOnce() -> Entry, into: &HandleAt<D>) -> Result<(), Failure> {
        into.set(self.state.requests.add_made(entry)?);
        Ok(())
    }

    /// Gives a started receive a handle.
    #[inline(always)]
    pub(crate) fn add_receive(
        &self,
        comm: Rc<Comm>,
        id: RequestId,
        into: &HandleAt<D>,
    ) -> Result<(), Failure> {
        self.add_entry(|| Entry::Message(Message { comm, id, is_receive: true }), into)
    }

    /// Gives a started message a handle.
    pub(crate) fn add_message(
        &self,
        comm: Rc<Comm>,
        state: RequestState,
        into: &HandleAt<D>,
    ) -> Result<(), Failure> {
        let RequestState::Message { id, is_receive, staged: None } = state else {
            return self.add_request(Request::new(comm, state), into);
        };
        self.add_entry(|| Entry::Message(Message { comm, id, is_receive }), into)
    }

    /// Gives a message that was received at once a handle.
    #[inline(always)]
    pub(crate) fn add_received(
        &self,
        received: Received,
        into: &HandleAt<D>,
    ) -> Result<(), Failure> {
        self.add_entry(|| Entry::Received(received.copied()), into)
    }

    /// Gives the handle of an operation that completed at once with an empty status. All such
    /// operations share one request, which is made at its first use.
    #[inline(always)]
    pub(crate) fn add_complete(&self, into: &HandleAt<D>) -> Result<(), Failure> {
        let known = self.state.complete.get();
        into.set(if known == Handle::REQUEST_NULL { self.make_complete()? } else { known });
        Ok(())
    }

    #[cold]
    fn make_complete(&self) -> Result<Handle, Failure> {
        let request = Request::in_state(RequestState::Done(Status::EMPTY));
        let shared = Rc::new(Request { is_shared: true, ..request });
        let handle = self.state.requests.add(Entry::Request(shared))?;
        self.state.complete.set(handle);
        Ok(handle)
    }

    /// Removes the handle of a request, unless it is shared.
    fn take_handle(&self, request: &Request, handle: Handle) {
        if !request.is_shared {
            self.state.requests.remove(handle);
        }
    }

    /// The request of a number; `None` for the null handle.
    pub(crate) fn request_of(&self, number: Handle) -> Result<Option<Rc<Request>>, Failure> {
        if number == Handle::REQUEST_NULL {
            return Ok(None);
        }
        let request = match self.state.requests.get(number) {
            None => return Err(self.no_such(Object::Request, number)),
            Some(Entry::Request(request)) => return Ok(Some(request)),
            Some(Entry::Message(Message { comm, id, is_receive })) => {
                Request::new(comm, RequestState::Message { id, is_receive, staged: None })
            }
            Some(Entry::Received(received)) => {
                Request::of_none(RequestState::Done(status_of(received)))
            }
        };
        self.state.requests.replace(number, Entry::Request(Rc::clone(&request)));
        Ok(Some(request))
    }

    /// The requests of several handles.
    fn requests_of(
        &self,
        handles: &HandlesAt<D>,
        count: i32,
    ) -> Result<Vec<Option<Rc<Request>>>, Failure> {
        let count = crate::raw::count(count.into())?;
        handles.check(count, "array_of_requests")?;
        (0..count).map(|at| self.request_of(handles.at(at).get())).collect()
    }

    /// Ends a request that is complete with this outcome. Removes its handle unless it is
    /// persistent. Returns the outcome, or the error of the program's function that frees it.
    fn end_request(&self, request: &Request, handle: &HandleAt<D>, outcome: Outcome) -> Outcome {
        if request.start.is_none() {
            self.take_handle(request, handle.get());
            handle.set_null();
        }
        let freed = request.own.as_ref().map_or(Ok(()), |own| own.free());
        outcome.and_then(|status| freed.map(|()| status))
    }

    /// Waits for the request of a handle. `open`: the number of requests the program waits for. It
    /// is reduced if this one was active.
    fn finish(&self, handle: &HandleAt<D>, open: &mut u32) -> Outcome {
        match self.finish_at_once(handle, open) {
            Some(status) => Ok(status),
            None => self.finish_later(handle, open),
        }
    }

    /// [`Mpi::finish`] for a message that completes within a few polls. Only the status of the
    /// message leaves it, in registers. Parts that are stored one by one and loaded as a whole
    /// would wait in the store buffer, behind the messages that were just sent.
    #[inline(always)]
    fn finish_at_once(&self, handle: &HandleAt<D>, open: &mut u32) -> Option<Status> {
        let status = self.state.requests.remove_if(handle.get(), Entry::at_once)?;
        *open = open.saturating_sub(1);
        handle.set_null();
        Some(status)
    }

    #[inline(never)]
    fn finish_later(&self, handle: &HandleAt<D>, open: &mut u32) -> Outcome {
        let number = handle.get();
        // The handle stays valid during the wait, because another thread may cancel the message.
        if let Some(Entry::Message(message)) = self.state.requests.get(number) {
            let result = message.comm.inner.wait_for(message.id, *open);
            *open = open.saturating_sub(1);
            handle.set_null();
            return match self.state.requests.remove(number) {
                // Another thread has asked to cancel it meanwhile.
                Some(Entry::Request(request)) => {
                    request.settle(result).map_err(|failure| request.own(failure))
                }
                _ => message.outcome(result),
            };
        }
        let Some(request) = self.request_of(number)? else { return Ok(Status::EMPTY) };
        let is_active = request.is_active();
        let outcome = request.wait(*open);
        *open = open.saturating_sub(u32::from(is_active));
        self.end_request(&request, handle, outcome)
    }

    /// MPI_Wait.
    pub fn wait(&self, handle: HandleAt<D>, status: StatusesAt<D>) -> Result<(), Failure> {
        status.tell(self.finish(&handle, &mut 1))
    }

    /// MPI_Test.
    pub fn test(
        &self,
        handle: HandleAt<D>,
        flag: Out<i32>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let number = handle.get();
        let outcome = match self.state.requests.get(number) {
            Some(Entry::Received(received)) => Some(Ok(status_of(received))),
            Some(Entry::Message(message)) => {
                let result = message.comm.inner.test(message.id);
                result.map(|result| message.outcome(result))
            }
            _ => return self.test_request(&handle, flag, &status),
        };
        self.tell_found(flag, outcome.is_some())?;
        let Some(outcome) = outcome else { return Ok(()) };
        self.state.requests.remove(number);
        handle.set_null();
        status.tell(outcome)
    }

    fn test_request(
        &self,
        handle: &HandleAt<D>,
        flag: Out<i32>,
        status: &StatusesAt<D>,
    ) -> Result<(), Failure> {
        let Some(request) = self.request_of(handle.get())? else {
            flag.set_flag(true);
            status.set(0, Status::EMPTY);
            return Ok(());
        };
        let outcome = request.look();
        self.tell_found(flag, outcome.is_some())?;
        let Some(outcome) = outcome else { return Ok(()) };
        status.tell(self.end_request(&request, handle, outcome))
    }

    /// MPI_Waitall.
    pub fn waitall(
        &self,
        count: i32,
        handles: HandlesAt<D>,
        statuses: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let count = crate::raw::count(count.into())?;
        handles.check(count, "array_of_requests")?;
        let complete = self.state.complete.get();
        // Check before the first wait that all handles are requests.
        let mut open = 0;
        let numbers = (0..count).map(|at| handles.at(at).get());
        let others = numbers.filter(|it| *it != complete && *it != Handle::REQUEST_NULL);
        self.state.requests.each(others, |number, entry| {
            let entry = entry.ok_or_else(|| self.no_such(Object::Request, number))?;
            open += u32::from(entry.is_active());
            Ok(())
        })?;
        let mut results = Results::new(statuses);
        for at in 0..count {
            let handle = handles.at(at);
            let number = handle.get();
            if number == Handle::REQUEST_NULL {
                results.push(Ok(Status::EMPTY));
            } else if number == complete {
                handle.set_null();
                results.push(Ok(Status::EMPTY));
            } else if let Some(status) = self.finish_at_once(&handle, &mut open) {
                results.push(Ok(status));
            } else {
                results.push(self.finish_later(&handle, &mut open));
            }
        }
        results.end()
    }

    /// MPI_Testall.
    pub fn testall(
        &self,
        count: i32,
        handles: HandlesAt<D>,
        flag: Out<i32>,
        statuses: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let requests = self.requests_of(&handles, count)?;
        // Poll every request, so that all make progress.
        let open = requests.iter().flatten().filter(|request| !request.is_complete()).count();
        self.tell_found(flag, open == 0)?;
        if open > 0 { Ok(()) } else { self.waitall(count, handles, statuses) }
    }

    /// An active request that is complete. Among messages, the one that completed first.
    fn find_complete(requests: &[Option<Rc<Request>>]) -> Option<(usize, Rc<Request>, Outcome)> {
        let (mut messages, mut ids) = (Vec::new(), Vec::new());
        for (at, request) in requests.iter().enumerate() {
            let Some(request) = request.as_ref().filter(|it| it.is_active()) else { continue };
            let state = request.state.borrow();
            if let RequestState::Message { id, .. } = *state {
                messages.push((at, request));
                ids.push(id);
                continue;
            }
            drop(state);
            if let Some(outcome) = request.look() {
                return Some((at, Rc::clone(request), outcome));
            }
        }
        let comm = messages.first()?.1.comm.as_ref()?;
        let (place, result) = comm.inner.test_any(&ids)?;
        let (at, request) = messages[place];
        let outcome = request.settle(result).map_err(|failure| request.own(failure));
        Some((at, Rc::clone(request), outcome))
    }

    /// MPI_Waitany.
    pub fn waitany(
        &self,
        count: i32,
        handles: HandlesAt<D>,
        index: Out<i32>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let requests = self.requests_of(&handles, count)?;
        if !requests.iter().flatten().any(|request| request.is_active()) {
            index.set(UNDEFINED);
            status.set(0, Status::EMPTY);
            return Ok(());
        }
        let found = self.wait_until(&requests, || Self::find_complete(&requests))?;
        self.tell_one(&handles, found, index, &status)
    }

    /// MPI_Testany.
    pub fn testany(
        &self,
        count: i32,
        handles: HandlesAt<D>,
        index: Out<i32>,
        flag: Out<i32>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let requests = self.requests_of(&handles, count)?;
        let none = !requests.iter().flatten().any(|request| request.is_active());
        let found = Self::find_complete(&requests);
        index.set(UNDEFINED);
        self.tell_found(flag, none || found.is_some())?;
        if none {
            status.set(0, Status::EMPTY);
        }
        found.map_or(Ok(()), |found| self.tell_one(&handles, found, index, &status))
    }

    fn tell_one(
        &self,
        handles: &HandlesAt<D>,
        (at, request, outcome): (usize, Rc<Request>, Outcome),
        index: Out<i32>,
        status: &StatusesAt<D>,
    ) -> Result<(), Failure> {
        let outcome = self.end_request(&request, &handles.at(at), outcome);
        index.set(at as i32);
        status.tell(outcome)
    }

    /// MPI_Waitsome.
    pub fn waitsome(
        &self,
        count: i32,
        handles: HandlesAt<D>,
        found: Out<i32>,
        indices: NumbersAt,
        statuses: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let requests = self.requests_of(&handles, count)?;
        indices.check(requests.len(), "array_of_indices")?;
        if requests.iter().flatten().any(|request| request.is_active()) {
            let any = |request: &Rc<Request>| request.is_active() && request.is_complete();
            self.wait_until(&requests, || requests.iter().flatten().any(any).then_some(()))?;
        }
        self.testsome(count, handles, found, indices, statuses)
    }

    /// MPI_Testsome.
    pub fn testsome(
        &self,
        count: i32,
        handles: HandlesAt<D>,
        found: Out<i32>,
        indices: NumbersAt,
        statuses: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let requests = self.requests_of(&handles, count)?;
        indices.check(requests.len(), "array_of_indices")?;
        if !requests.iter().flatten().any(|request| request.is_active()) {
            found.set(UNDEFINED);
            return Ok(());
        }
        let mut results = Results::new(statuses);
        for (at, request) in requests.iter().enumerate() {
            let Some(request) = request.as_ref().filter(|request| request.is_active()) else {
                continue;
            };
            let Some(outcome) = request.look() else { continue };
            indices.set(results.count, at as i64);
            results.push(self.end_request(request, &handles.at(at), outcome));
        }
        found.set(results.count as i32);
        if results.count == 0 {
            self.rank()?.found_nothing();
        }
        results.end()
    }

    /// Sets the flag of a call that does not wait. If nothing was found, the call may yield the
    /// processor ([`hikyaku_rank::Communicator::found_nothing`]).
    #[inline]
    pub(crate) fn tell_found(&self, flag: Out<i32>, is_found: bool) -> Result<(), Failure> {
        flag.set_flag(is_found);
        if !is_found {
            self.rank()?.found_nothing();
        }
        Ok(())
    }

    /// Waits until `look` finds something, and progresses everything in flight meanwhile.
    fn wait_until<R>(
        &self,
        requests: &[Option<Rc<Request>>],
        mut look: impl FnMut() -> Option<R>,
    ) -> Result<R, Failure> {
        let rank = self.rank()?;
        let poll = std::future::poll_fn(|_| look().map_or(Poll::Pending, Poll::Ready));
        // No arriving message reports that the program has completed a generalised request.
        Ok(match requests.iter().flatten().any(|request| request.own.is_some()) {
            true => rank.block_on_memory(poll),
            false => rank.drive(poll),
        })
    }

    /// MPI_Request_get_status.
    pub fn request_get_status(
        &self,
        number: Handle,
        flag: Out<i32>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let request = self.request_of(number)?;
        let Some(request) = request.filter(|request| request.is_active()) else {
            flag.set_flag(true);
            status.set(0, Status::EMPTY);
            return Ok(());
        };
        let is_complete = request.is_complete();
        self.tell_found(flag, is_complete)?;
        if is_complete { status.tell(request.result()) } else { Ok(()) }
    }

    /// MPI_Request_free. An operation in flight continues.
    pub fn request_free(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        let number = handle.get();
        let request = self.request_of(number)?;
        let request = request.ok_or_else(|| self.no_such(Object::Request, number))?;
        handle.set_null();
        if let Some(own) = &request.own {
            // The program needs the handle to complete the request.
            if !own.free_when_complete() {
                return Ok(());
            }
            self.state.requests.remove(number);
            return own.free();
        }
        self.take_handle(&request, number);
        let known = self.state.freed.take();
        let open: Vec<_> =
            known.into_iter().chain([request]).filter(|it| !it.is_complete()).collect();
        // Extend, do not replace: polling may have called functions of the program, and another
        // thread may have been here meanwhile.
        self.state.freed.borrow_mut().extend(open);
        Ok(())
    }

    /// Waits for the sends whose handles were freed.
    pub(crate) fn flush(&self) -> Result<(), Failure> {
        let freed = self.state.freed.take();
        let is_send = |request: &&Rc<Request>| {
            matches!(*request.state.borrow(), RequestState::Message { is_receive: false, .. })
        };
        wait_for_all(freed.iter().filter(is_send))
    }

    /// MPI_Cancel.
    pub fn cancel(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        let number = handle.get();
        let request = self.request_of(number)?;
        let request = request.ok_or_else(|| self.no_such(Object::Request, number))?;
        if let Some(own) = &request.own {
            return own.cancel();
        }
        let state = request.state.borrow();
        let RequestState::Message { id, .. } = *state else { return Ok(()) };
        drop(state);
        let Some(comm) = &request.comm else { return Ok(()) };
        let outcome = comm.inner.engine().borrow_mut().cancel(id);
        match outcome {
            CancelOutcome::Cancelled => {
                request
                    .state
                    .replace(RequestState::Done(Status { cancelled: true, ..Status::EMPTY }));
            }
            CancelOutcome::Asked => request.is_cancelled.set(true),
            CancelOutcome::TooLate => {}
        }
        Ok(())
    }

    /// MPI_Test_cancelled.
    pub fn test_cancelled(&self, status: Status, flag: Out<i32>) -> Result<(), Failure> {
        flag.set_flag(status.cancelled);
        Ok(())
    }

    /// MPI_Start.
    pub fn start(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        let number = handle.get();
        let request = self.request_of(number)?;
        let request = request.ok_or_else(|| self.no_such(Object::Request, number))?;
        let start = request.start.as_ref().ok_or_else(|| {
            Failure::new(Class::Request, "the request is not persistent: it cannot be started")
        })?;
        if request.is_active() {
            let text = "the request was started and is not complete";
            return Err(Failure::new(Class::Request, text));
        }
        let state = start()?;
        request.state.replace(state);
        Ok(())
    }

    /// MPI_Startall.
    pub fn startall(&self, count: i32, handles: HandlesAt<D>) -> Result<(), Failure> {
        let count = crate::raw::count(count.into())?;
        handles.check(count, "array_of_requests")?;
        (0..count).try_for_each(|at| self.start(handles.at(at)))
    }

    /// The requests of several handles, which are not changed.
    fn requests_to_look_at(
        &self,
        count: i32,
        handles: &Handles<D>,
    ) -> Result<Vec<Option<Rc<Request>>>, Failure> {
        let numbers = handles.all(crate::raw::count(count.into())?, "array_of_requests")?;
        numbers.iter().map(|number| self.request_of(*number)).collect()
    }

    /// MPI_Request_get_status_any.
    pub fn request_get_status_any(
        &self,
        count: i32,
        handles: Handles<D>,
        index: Out<i32>,
        flag: Out<i32>,
        status: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let requests = self.requests_to_look_at(count, &handles)?;
        let is_active = |it: &Option<Rc<Request>>| it.as_ref().is_some_and(|it| it.is_active());
        let none = !requests.iter().any(is_active);
        let complete = |it: &Option<Rc<Request>>| {
            it.as_ref().is_some_and(|it| it.is_active() && it.is_complete())
        };
        let found = requests.iter().position(complete);
        flag.set_flag(none || found.is_some());
        index.set(found.map_or(UNDEFINED, |at| at as i32));
        if none || found.is_some() {
            let request = found.and_then(|at| requests[at].as_ref());
            return status.tell(request.map_or(Ok(Status::EMPTY), |request| request.result()));
        }
        Ok(())
    }

    /// MPI_Request_get_status_some.
    pub fn request_get_status_some(
        &self,
        count: i32,
        handles: Handles<D>,
        found: Out<i32>,
        indices: NumbersAt,
        statuses: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let requests = self.requests_to_look_at(count, &handles)?;
        indices.check(requests.len(), "array_of_indices")?;
        let (mut active, mut results) = (0, Results::new(statuses));
        for (at, request) in requests.iter().enumerate() {
            let Some(request) = request.as_ref().filter(|request| request.is_active()) else {
                continue;
            };
            active += 1;
            if request.is_complete() {
                indices.set(results.count, at as i64);
                results.push(request.result());
            }
        }
        found.set(if active == 0 { UNDEFINED } else { results.count as i32 });
        results.end()
    }

    /// MPI_Request_get_status_all.
    pub fn request_get_status_all(
        &self,
        count: i32,
        handles: Handles<D>,
        flag: Out<i32>,
        statuses: StatusesAt<D>,
    ) -> Result<(), Failure> {
        let requests = self.requests_to_look_at(count, &handles)?;
        let all = requests.iter().flatten().filter(|it| !it.is_complete()).count() == 0;
        flag.set_flag(all);
        if !all {
            return Ok(());
        }
        let mut results = Results::new(statuses);
        for request in &requests {
            results.push(request.as_ref().map_or(Ok(Status::EMPTY), |request| request.result()));
        }
        results.end()
    }
}
