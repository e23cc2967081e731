//! Sessions, and the process sets from which groups are made (MPI 5.0 §11.3).
//!
//! MPI_Init and all sessions use the same rank of the job; the first of them joins it. The rank
//! leaves when the process ends and not before, since another session may be opened.

use std::ffi::{OsStr, OsString};
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use hikyaku_rank::{Communicator, Foreign, InitError, Inside};

use crate::buffered::Outbox;
use crate::dialect::{Dialect, Handle, Object};
use crate::environment::THREAD_MULTIPLE;
use crate::errors::{Handler, Handling, print_line};
use crate::failure::{Class, Failure};
use crate::info::Info;
use crate::raw::{HandleAt, Out, TextAt};
use crate::runtime::{Mpi, Phase, lock};

/// The available process sets. Names of sets are URIs, whose scheme and authority are not
/// case-sensitive.
const SETS: [&str; 2] = ["mpi://WORLD", "mpi://SELF"];

/// A session. Any thread may call its error handler, at each level of thread support.
#[derive(Debug)]
pub struct Session {
    /// The number of its handle.
    pub(crate) handle: AtomicU32,
    pub(crate) handler: Mutex<Handler>,
    pub(crate) info: Info,
    pub(crate) buffered: Outbox,
}

impl<D: Dialect> Mpi<D> {
    /// The session of a handle.
    pub fn session(&self, handle: D::Handle) -> Result<Arc<Session>, Failure> {
        let number = D::number(Object::Session, handle);
        lock(&self.state.sessions).get(number).ok_or_else(|| self.no_such(Object::Session, number))
    }

    /// MPI_Session_init. Below MPI_THREAD_MULTIPLE another thread may be in MPI without the gate.
    /// So this does not change the rank or the gate, and the session has the same level.
    pub fn session_init(
        &self,
        info: Option<Arc<Info>>,
        handler: Rc<Handling>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let handler = handler.of(Object::Session)?;
        self.join()?;
        let hints = Info::default();
        hints.take_from(info.as_deref());
        #[expect(clippy::arc_with_non_send_sync, reason = "threads in MPI alone use the buffer")]
        let session = Arc::new(Session {
            handle: AtomicU32::new(Handle::null(Object::Session).0),
            handler: Mutex::new(handler),
            info: hints,
            buffered: Outbox::default(),
        });
        let handle = lock(&self.state.sessions).add(Arc::clone(&session))?;
        if crate::runtime::is_gated() {
            self.begin_threads(THREAD_MULTIPLE)?;
        }
        session.handle.store(handle.0, Ordering::Relaxed);
        into.set(handle);
        Ok(())
    }

    /// MPI_Session_finalize.
    pub fn session_finalize(&self, handle: HandleAt<D>) -> Result<(), Failure> {
        let number = handle.get();
        if lock(&self.state.sessions).remove(number).is_none() {
            return Err(self.no_such(Object::Session, number));
        }
        handle.set_null();
        if self.state.is_idle() {
            self.settle()?;
            self.end_threads();
        }
        Ok(())
    }

    /// Completes the sends at the end of the use of MPI.
    pub(crate) fn settle(&self) -> Result<(), Failure> {
        self.flush()?;
        self.state.buffered.flush()?;
        self.state.comms.all().iter().try_for_each(|comm| comm.buffered.flush())?;
        let job = self.state.job.borrow().clone();
        if let Some(job) = job {
            job.engine().borrow_mut().flush();
        }
        Ok(())
    }

    /// MPI_Session_get_info.
    pub fn session_get_info(
        &self,
        session: Arc<Session>,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let level =
            if self.rank()?.is_shared() { "MPI_THREAD_MULTIPLE" } else { "MPI_THREAD_SERIALIZED" };
        let info = session.info.clone();
        info.take_from(Some(&Info::of(&[("thread_level", level.into())])));
        self.add_info(info, &into)
    }

    /// MPI_Session_get_num_psets.
    pub fn session_get_num_psets(
        &self,
        _: Arc<Session>,
        _: Option<Arc<Info>>,
        count: Out<i32>,
    ) -> Result<(), Failure> {
        count.set(SETS.len() as i32);
        Ok(())
    }

    /// MPI_Session_get_nth_pset. Without room, only the length is returned.
    pub fn session_get_nth_pset(
        &self,
        _: Arc<Session>,
        _: Option<Arc<Info>>,
        number: i32,
        room: Out<i32>,
        into: TextAt,
    ) -> Result<(), Failure> {
        let name = usize::try_from(number).ok().and_then(|at| SETS.get(at));
        let name = name.ok_or_else(|| {
            Failure::argument(format!("there is no process set {number}: there are {}", SETS.len()))
        })?;
        into.set(name, usize::try_from(room.get()).unwrap_or(0))?;
        room.set(name.len() as i32 + 1);
        Ok(())
    }

    /// The ranks of a process set.
    fn ranks_of_set(&self, name: &OsStr) -> Result<Vec<u32>, Failure> {
        let rank = self.rank()?;
        match SETS.iter().position(|set| name.eq_ignore_ascii_case(set)) {
            Some(0) => Ok((0..rank.whole().size()).collect()),
            Some(_) => Ok(vec![rank.whole().rank()]),
            None => {
                let sets = SETS.join(" and ");
                let text = format!("there is no process set `{}`, but {sets}", name.display());
                Err(Failure::argument(text).named("pset_name"))
            }
        }
    }

    /// MPI_Session_get_pset_info.
    pub fn session_get_pset_info(
        &self,
        _: Arc<Session>,
        name: OsString,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        let size = self.ranks_of_set(&name)?.len();
        self.add_info(Info::of(&[("mpi_size", size.to_string().into())]), &into)
    }

    /// MPI_Group_from_session_pset.
    pub fn group_from_session_pset(
        &self,
        _: Arc<Session>,
        name: OsString,
        into: HandleAt<D>,
    ) -> Result<(), Failure> {
        self.add_group(self.ranks_of_set(&name)?, &into)
    }

    /// Joins the job, if this process has not.
    pub(crate) fn join(&self) -> Result<(), Failure> {
        if self.state.joined.get().is_some() {
            return Ok(());
        }
        let joined = Communicator::join().map_err(|error| {
            if let InitError::Foreign(foreign) = &error {
                refuse(foreign);
            }
            Failure::new(Class::Other, error.to_string())
        })?;
        if joined.is_shared() {
            // Its calls are inside another gate than those of this library.
            let inside = Inside::enter();
            drop(joined);
            drop(inside);
            let text = "another library of MPI in this process has provided \
                        MPI_THREAD_MULTIPLE or has a progress thread: use one of both";
            return Err(Failure::new(Class::Other, text));
        }
        // At any level of thread support, because another rank may have a different level.
        joined.count_no_contexts();
        self.state.joined.get_or_init(|| (joined.rank(), joined.size()));
        self.state.job.replace(Some(joined));
        crate::runtime::leave_at_exit();
        Ok(())
    }
}

impl crate::runtime::Runtime {
    /// Whether neither MPI_Init nor a session uses this rank now.
    pub(crate) fn is_idle(&self) -> bool {
        self.phase.get() != Phase::Running && lock(&self.sessions).is_empty()
    }
}

/// Ends a process that is not a rank of our launcher, as an invalid command line does. The program
/// has had no chance yet to choose an error handler.
#[expect(clippy::disallowed_methods, reason = "going on would be a wrong result, once a process")]
fn refuse(foreign: &Foreign) -> ! {
    print_line(&format!("MPI_Init: {foreign}"));
    std::process::exit(2)
}
