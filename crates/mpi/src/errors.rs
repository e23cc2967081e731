//! Error handlers, codes and classes (MPI 5.0 chapter 9).

use std::ffi::OsString;
use std::fmt;
use std::io::Write as _;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hikyaku_rank::EndReason;

use crate::callbacks;
use crate::communicators::Comm;
use crate::dialect::{Dialect, Handle, Object, Status};
use crate::failure::{CalledFunction, Class, Failure};
use crate::raw::{HandleAt, Out, StatusesAt, TextAt};
use crate::runtime::{Mpi, Phase, Scope, lock};
use crate::sessions::Session;

/// Bytes of MPI_MAX_ERROR_STRING, in both interfaces.
const MAX_ERROR_STRING: usize = 512;

/// An error handler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handler {
    /// Ends all processes.
    Fatal,
    /// Ends the processes of the communicator; here, all processes.
    Abort,
    /// The call returns a code.
    Return,
    /// A function of the program, for this kind of object.
    Own(Object, usize),
}

/// Codes and classes that a program has added.
#[derive(Debug)]
pub(crate) struct Codes(Vec<Option<Code>>);

#[derive(Debug)]
struct Code {
    class: i32,
    text: OsString,
    is_class: bool,
}

impl Codes {
    pub(crate) const fn new() -> Codes {
        Codes(Vec::new())
    }
}

/// An object that has an error handler.
#[derive(Debug)]
enum Scoped {
    Comm(Rc<Comm>),
    Session(Arc<Session>),
    /// An object that this call cannot use, described.
    Apart {
        place: String,
        owner: (Object, Handle),
        handler: Handler,
    },
}

impl Scoped {
    fn handler(&self) -> Handler {
        match self {
            Scoped::Comm(comm) => comm.handler.get(),
            Scoped::Session(session) => *lock(&session.handler),
            Scoped::Apart { handler, .. } => *handler,
        }
    }

    fn owner(&self) -> (Object, Handle) {
        match self {
            Scoped::Comm(comm) => (Object::Comm, comm.handle.get()),
            Scoped::Apart { owner, .. } => *owner,
            Scoped::Session(session) => {
                (Object::Session, Handle(session.handle.load(Ordering::Relaxed)))
            }
        }
    }
}

impl fmt::Display for Scoped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scoped::Comm(comm) => write!(f, "{}, ", comm.own_place()),
            Scoped::Session(_) => f.write_str("a session, "),
            Scoped::Apart { place, .. } => write!(f, "{place}, "),
        }
    }
}

impl<D: Dialect> Mpi<D> {
    /// Calls the error handler for a failed call.
    #[cold]
    pub(crate) fn raise(&self, call: &CalledFunction, scope: Scope<D>, failure: &Failure) -> i32 {
        let scoped = match scope {
            Some((Object::Comm, handle)) => self.comm(handle).ok().map(Scoped::Comm),
            Some((Object::Session, handle)) => self.session(handle).ok().map(Scoped::Session),
            Some((Object::Errhandler, handle)) => self.unmade(handle),
            _ => None,
        };
        let scoped = scoped.or_else(|| {
            let (handle, handler) = failure.comm?;
            let known = self.comm(D::handle(Object::Comm, handle)).map(Scoped::Comm);
            let place = "a communicator that was freed".to_owned();
            let owner = (Object::Comm, handle);
            Some(known.unwrap_or(Scoped::Apart { place, owner, handler }))
        });
        // Errors of no object are handled as errors of MPI_COMM_SELF (MPI 5.0 §9.3).
        let scoped = scoped.or_else(|| match self.is_beside {
            true => self.own_beside(),
            false => self.own().ok().map(Scoped::Comm),
        });
        let code = code_of::<D>(failure);
        *lock(&self.state.told) = Some((code, call.explain(failure)));
        // Errors of the tools' interface call no handler, and end no process (MPI 5.0 §15.3).
        if call.name.starts_with("MPI_T_") {
            return code;
        }
        match (scoped.as_ref().map_or(Handler::Fatal, Scoped::handler), scoped) {
            (Handler::Return, _) => {}
            (Handler::Own(_, function), Some(scoped)) => {
                callbacks::handle_error::<D>(function, scoped.owner(), code, self.is_beside);
            }
            (_, scoped) => self.end(call, scoped.as_ref(), failure),
        }
        code
    }

    /// The object that the call should have made with this error handler.
    fn unmade(&self, handle: D::Handle) -> Option<Scoped> {
        let handler = self.errhandler(handle).ok()?.0;
        let kind = if let Handler::Own(object, _) = handler { object } else { Object::Comm };
        let place = match self.state.joined.get() {
            Some((rank, _)) => format!("rank {rank} of the job"),
            None => "a process outside of MPI".to_owned(),
        };
        Some(Scoped::Apart { place, owner: (kind, Handle::null(kind)), handler })
    }

    /// MPI_COMM_SELF for a call that did not enter: another thread may be using it.
    fn own_beside(&self) -> Option<Scoped> {
        let (rank, size) = self.state.joined.get()?;
        let is_there = self.state.phase.get() == Phase::Running;
        is_there.then(|| Scoped::Apart {
            place: match size {
                1 => "rank 0 of MPI_COMM_SELF".to_owned(),
                _ => format!("rank 0 of MPI_COMM_SELF (rank {rank} of the job)"),
            },
            owner: (Object::Comm, Handle::COMM_SELF),
            handler: *lock(&self.state.own_handler),
        })
    }

    /// Another thread is in a call although threads must take turns, so the state of this rank may
    /// be corrupt. The first thread that detects this ends the job.
    #[cold]
    pub(crate) fn end_as_second(&self, call: &CalledFunction) -> ! {
        static IS_NOTICED: AtomicBool = AtomicBool::new(false);
        while IS_NOTICED.swap(true, Ordering::Relaxed) {
            std::thread::park();
        }
        let level = self.thread_level();
        let text = format!(
            "another thread is in a call of MPI, and {level} was asked for: ask MPI_Init_thread \
             for MPI_THREAD_MULTIPLE, or have threads take turns"
        );
        let own = self.own().ok().map(Scoped::Comm);
        self.end(call, own.as_ref(), &Failure::new(Class::Other, text))
    }

    /// Ends the job with one line that states the reason.
    fn end(&self, call: &CalledFunction, scoped: Option<&Scoped>, failure: &Failure) -> ! {
        let class = failure.class.text();
        let place = scoped.map_or(String::new(), ToString::to_string);
        let line = format!("{place}{}: {} ({class})", call.name, call.explain(failure));
        let reason = if failure.is_of_another { EndReason::OfAnother } else { EndReason::Failure };
        self.end_job(&line, D::class_out(failure.class).clamp(1, 255), reason)
    }

    /// Ends this process, and so the job. Only the first rank that does so prints its line, because
    /// failures at other ranks are consequences. If the first rank only knows which other rank has
    /// failed, that rank prints its line too.
    #[expect(clippy::disallowed_methods, reason = "ending the processes is what is asked for")]
    pub(crate) fn end_job(&self, line: &str, code: i32, reason: EndReason) -> ! {
        let job = self.state.job.borrow().clone();
        if job.is_none_or(|job| job.ends_job(reason)) {
            print_line(line);
        }
        crate::runtime::outside(|| std::process::exit(code))
    }

    /// The error handler of a handle.
    pub fn errhandler(&self, handle: D::Handle) -> Result<Rc<Handling>, Failure> {
        let number = D::number(Object::Errhandler, handle);
        let handler = match number {
            Handle::ERRORS_ARE_FATAL => Handler::Fatal,
            Handle::ERRORS_ABORT => Handler::Abort,
            Handle::ERRORS_RETURN => Handler::Return,
            other => lock(&self.state.handlers)
                .get(other)
                .ok_or_else(|| self.no_such(Object::Errhandler, other))?,
        };
        Ok(Rc::new(Handling(handler)))
    }

    fn create_handler(
        &self,
        object: Object,
        function: usize,
        into: &HandleAt<D>,
    ) -> Result<(), Failure> {
        let function = callbacks::function(function, "errhandler_fn")?;
        into.set(lock(&self.state.handlers).add(Handler::Own(object, function))?);
        Ok(())
    }

    fn get_handler(&self, handler: Handler, into: &HandleAt<D>) -> Result<(), Failure> {
        into.set(match handler {
            Handler::Fatal => Handle::ERRORS_ARE_FATAL,
            Handler::Abort => Handle::ERRORS_ABORT,
            Handler::Return => Handle::ERRORS_RETURN,
            own => lock(&self.state.handlers).add(own)?,
        });
        Ok(())
    }

    fn call_handler(&self, scoped: Scoped, name: &'static str, code: i32) -> Result<(), Failure> {
        match scoped.handler() {
            Handler::Return => Ok(()),
            Handler::Own(_, function) => {
                callbacks::handle_error::<D>(function, scoped.owner(), code, self.is_beside);
                Ok(())
            }
            _ => {
                let failure = Failure::new(
                    D::class(code).unwrap_or(Class::Other),
                    format!("the program called the error handler with code {code}"),
                );
                let call = CalledFunction { name, arguments: &[], is_for_any_thread: false };
                self.end(&call, Some(&scoped), &failure)
            }
        }
    }

    /// MPI_Comm_create_errhandler.
    pub fn comm_create_errhandler(
        &self,
        function: usize,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.create_handler(Object::Comm, function, &into)
    }

    /// MPI_Session_create_errhandler.
    pub fn session_create_errhandler(
        &self,
        function: usize,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.create_handler(Object::Session, function, &into)
    }

    /// MPI_Win_create_errhandler.
    pub fn win_create_errhandler(&self, function: usize, into: HandleAt<D>) -> Result<(), Failure> {
        self.create_handler(Object::Win, function, &into)
    }

    /// MPI_File_create_errhandler.
    pub fn file_create_errhandler(
        &self,
        function: usize,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.create_handler(Object::File, function, &into)
    }

    /// MPI_Comm_set_errhandler.
    pub fn comm_set_errhandler(&self, comm: Rc<Comm>, to: Rc<Handling>) -> Result<(), Failure> {
        let handler = to.of(Object::Comm)?;
        comm.handler.set(handler);
        if comm.handle.get() == Handle::COMM_SELF {
            *lock(&self.state.own_handler) = handler;
        }
        Ok(())
    }

    /// MPI_Session_set_errhandler.
    pub fn session_set_errhandler(
        &self,
        session: Arc<Session>,
        to: Rc<Handling>,
    ) -> Result<(), Failure> {
        *lock(&session.handler) = to.of(Object::Session)?;
        Ok(())
    }

    /// MPI_Comm_get_errhandler.
    pub fn comm_get_errhandler(&self, comm: Rc<Comm>, into: HandleAt<D>) -> Result<(), Failure> {
        self.get_handler(comm.handler.get(), &into)
    }

    /// MPI_Session_get_errhandler.
    pub fn session_get_errhandler(
        &self,
        session: Arc<Session>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.get_handler(*lock(&session.handler), &into)
    }

    /// MPI_Comm_call_errhandler.
    pub fn comm_call_errhandler(&self, comm: Rc<Comm>, code: i32) -> Result<(), Failure> {
        self.call_handler(Scoped::Comm(comm), "MPI_Comm_call_errhandler", code)
    }

    /// MPI_Session_call_errhandler.
    pub fn session_call_errhandler(&self, session: Arc<Session>, code: i32) -> Result<(), Failure> {
        self.call_handler(Scoped::Session(session), "MPI_Session_call_errhandler", code)
    }

    /// MPI_Errhandler_free.
    pub fn errhandler_free(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        let number = handle.get();
        let predefined = [Handle::ERRORS_ARE_FATAL, Handle::ERRORS_ABORT, Handle::ERRORS_RETURN];
        let is_gone = || lock(&self.state.handlers).remove(number).is_none();
        if !predefined.contains(&number) && is_gone() {
            return Err(self.no_such(Object::Errhandler, number));
        }
        handle.set_null();
        Ok(())
    }

    /// MPI_Error_class.
    pub fn error_class(&self, code: i32, class: Out<i32>) -> Result<(), Failure> {
        if code == 0 || D::class(code).is_some() {
            class.set(code);
            return Ok(());
        }
        class.set(lock(&self.state.codes).find::<D>(code)?.class);
        Ok(())
    }

    /// MPI_Error_string. For the last error it includes the reason, which is more than the class.
    pub fn error_string(&self, code: i32, into: TextAt, length: Out<i32>) -> Result<(), Failure> {
        let told = lock(&self.state.told);
        let why = told.as_ref().filter(|(of, _)| *of == code).map(|(_, why)| why);
        let text = match D::class(code) {
            _ if code == 0 => "no error".into(),
            Some(class) => {
                why.map_or(class.text().into(), |why| format!("{}: {why}", class.text()).into())
            }
            None => lock(&self.state.codes).find::<D>(code)?.text.clone(),
        };
        length.set(into.set(&text, MAX_ERROR_STRING)?);
        Ok(())
    }

    /// MPI_Add_error_class.
    pub fn add_error_class(&self, class: Out<i32>) -> Result<(), Failure> {
        let number = lock(&self.state.codes).add::<D>(None)?;
        class.set(number);
        Ok(())
    }

    /// MPI_Add_error_code.
    pub fn add_error_code(&self, class: i32, code: Out<i32>) -> Result<(), Failure> {
        let number = lock(&self.state.codes).add::<D>(Some(class))?;
        code.set(number);
        Ok(())
    }

    /// MPI_Add_error_string.
    pub fn add_error_string(&self, code: i32, text: OsString) -> Result<(), Failure> {
        if text.len() >= MAX_ERROR_STRING {
            let text = format!(
                "{} bytes are more than the {MAX_ERROR_STRING} that there are for it",
                text.len()
            );
            return Err(Failure::argument(text).named("string"));
        }
        lock(&self.state.codes).find_mut::<D>(code)?.text = text;
        Ok(())
    }

    /// MPI_Remove_error_class.
    pub fn remove_error_class(&self, class: i32) -> Result<(), Failure> {
        self.remove_code(class, true)
    }

    /// MPI_Remove_error_code.
    pub fn remove_error_code(&self, code: i32) -> Result<(), Failure> {
        self.remove_code(code, false)
    }

    fn remove_code(&self, code: i32, is_class: bool) -> Result<(), Failure> {
        let mut codes = lock(&self.state.codes);
        let is_used =
            is_class && codes.0.iter().flatten().any(|it| !it.is_class && it.class == code);
        let known = codes.find::<D>(code)?;
        if known.is_class != is_class || is_used || !known.text.is_empty() {
            let text = format!("{code} is of the other kind, or still has codes or a string");
            return Err(Failure::argument(text));
        }
        let at = (code - D::FIRST_CODE) as usize;
        codes.0[at] = None;
        Ok(())
    }

    /// MPI_Remove_error_string.
    pub fn remove_error_string(&self, code: i32) -> Result<(), Failure> {
        lock(&self.state.codes).find_mut::<D>(code)?.text.clear();
        Ok(())
    }
}

/// Prints a line to the standard error output. One that is full or closed is not another failure.
pub(crate) fn print_line(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// The code of a failure: the one that a function of the program returned, else that of its class.
pub(crate) fn code_of<D: Dialect>(failure: &Failure) -> i32 {
    failure.code.unwrap_or_else(|| D::class_out(failure.class))
}

/// An error handler that can be set.
#[derive(Debug)]
pub struct Handling(Handler);

impl Handling {
    /// The handler, checked for this kind of object.
    ///
    /// # Errors
    /// The handler is for another kind.
    pub(crate) fn of(&self, object: Object) -> Result<Handler, Failure> {
        match self.0 {
            Handler::Own(other, _) if other != object => {
                let (it, other) = (object.name(), other.name());
                let text = format!("the error handler is one of a {other}, and not of a {it}");
                Err(Failure::new(Class::Errhandler, text))
            }
            handler => Ok(handler),
        }
    }
}

impl Codes {
    /// Adds a class, or a code of a class.
    fn add<D: Dialect>(&mut self, class: Option<i32>) -> Result<i32, Failure> {
        if let Some(class) = class
            && D::class(class).is_none()
            && !self.find::<D>(class)?.is_class
        {
            return Err(Failure::argument(format!("{class} is a code, and not a class")));
        }
        let free = self.0.iter().position(Option::is_none);
        let at = free.unwrap_or(self.0.len());
        let number = D::FIRST_CODE + at as i32;
        let is_class = class.is_none();
        let code = Some(Code { class: class.unwrap_or(number), text: OsString::new(), is_class });
        if free.is_some() {
            self.0[at] = code;
        } else {
            self.0.push(code);
        }
        Ok(number)
    }

    /// The last code in use.
    pub(crate) fn last<D: Dialect>(&self) -> i32 {
        D::FIRST_CODE - 1 + self.0.len() as i32
    }

    fn place<D: Dialect>(code: i32) -> usize {
        usize::try_from(code.wrapping_sub(D::FIRST_CODE)).unwrap_or(usize::MAX)
    }

    fn unknown(code: i32) -> Failure {
        Failure::argument(format!("{code} is no error code that was added"))
    }

    fn find<D: Dialect>(&self, code: i32) -> Result<&Code, Failure> {
        let place = self.0.get(Codes::place::<D>(code));
        place.and_then(Option::as_ref).ok_or_else(|| Codes::unknown(code))
    }

    fn find_mut<D: Dialect>(&mut self, code: i32) -> Result<&mut Code, Failure> {
        let place = self.0.get_mut(Codes::place::<D>(code));
        place.and_then(Option::as_mut).ok_or_else(|| Codes::unknown(code))
    }
}

impl Default for Codes {
    fn default() -> Codes {
        Codes::new()
    }
}

/// The results of several operations, as they are reported to the program.
pub(crate) struct Results<D: Dialect> {
    statuses: StatusesAt<D>,
    pub(crate) count: usize,
    failed: Option<Failure>,
}

impl<D: Dialect> Results<D> {
    pub(crate) fn new(statuses: StatusesAt<D>) -> Results<D> {
        Results { statuses, count: 0, failed: None }
    }

    /// Writes the result of the next operation.
    #[inline]
    pub(crate) fn push(&mut self, outcome: Result<Status, Failure>) {
        match outcome {
            Ok(status) if self.failed.is_none() => self.statuses.set(self.count, status),
            Ok(status) => self.statuses.set(self.count, Status { error: Some(0), ..status }),
            Err(failure) => self.push_failure(failure),
        }
        self.count += 1;
    }

    /// Records a failed operation. From now on each status has an error field.
    #[cold]
    fn push_failure(&mut self, failure: Failure) {
        if self.failed.is_none() {
            (0..self.count).for_each(|at| self.statuses.set_error(at, 0));
        }
        let (error, status) = (code_of::<D>(&failure), failure.received.unwrap_or(Status::EMPTY));
        self.statuses.set(self.count, Status { error: Some(error), ..status });
        self.failed.get_or_insert(failure);
    }

    /// Returns an error if an operation has failed.
    pub(crate) fn end(self) -> Result<(), Failure> {
        match self.failed {
            None => Ok(()),
            Some(failure) => Err(failure.of_class(Class::InStatus).with_code(None)),
        }
    }
}
