//! Initialization and finalization, versions, time (MPI 5.0 chapters 9 and 11).

use hikyaku_nic::fabric::Port;
use hikyaku_rank::EndReason;
use rustix::time::{ClockId, clock_gettime};

use crate::communicators::Comm;
use crate::dialect::{Dialect, Handle, Object};
use crate::errors::Handler;
use crate::failure::{CalledFunction, Class, Failure};
use crate::info::Info;
use crate::raw::{Buffer, HandleAt, NumberAt, Out, TextAt};
use crate::runtime::{Mpi, Phase, call, lock};

use std::rc::Rc;
use std::sync::atomic::Ordering;

/// The implemented version of the standard.
const VERSION: [i32; 2] = [5, 0];

/// MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED (the maximum in virtual time), and
/// MPI_THREAD_MULTIPLE, as MPI 5.0's interface numbers them.
const THREAD_FUNNELED: i32 = 1024;
const THREAD_SERIALIZED: i32 = 2048;
pub(crate) const THREAD_MULTIPLE: i32 = 4096;

/// Bytes of MPI_MAX_LIBRARY_VERSION_STRING, in both interfaces.
const MAX_VERSION: usize = 8192;

impl<D: Dialect> Mpi<D> {
    /// MPI_Init.
    pub fn init(&self) -> Result<(), Failure> {
        self.begin(0)
    }

    /// MPI_Init_thread. In virtual time a rank is one thread at a time: its threads may take turns.
    pub fn init_thread(&self, required: i32, provided: Out<i32>) -> Result<(), Failure> {
        self.begin(required.clamp(0, THREAD_MULTIPLE))?;
        provided.set(self.state.threads.load(Ordering::Relaxed));
        Ok(())
    }

    fn begin(&self, threads: i32) -> Result<(), Failure> {
        match self.state.phase.get() {
            Phase::Before => {}
            Phase::Running => {
                return Err(Failure::new(Class::Other, "MPI_Init was called before"));
            }
            Phase::After => return Err(self.not_running()),
        }
        self.join()?;
        let job = self.state.job.borrow().clone();
        let inner = job.ok_or_else(|| self.not_running())?;
        let world = Rc::new(Comm::of(inner, "MPI_COMM_WORLD", Handler::Fatal));
        world.handle.set(Handle::COMM_WORLD);
        self.state.world.replace(Some(Rc::clone(&world)));
        self.state.thread.get_or_init(|| std::thread::current().id());
        self.state.phase.set(Phase::Running);
        // Make it now, before two threads can do so at once.
        self.own()?;
        // A session may belong to another thread.
        let others = if lock(&self.state.sessions).is_empty() { 0 } else { THREAD_MULTIPLE };
        self.begin_threads(threads.max(others))?;
        let provided = threads.min(self.most_threads()?);
        self.state.threads.store(provided, Ordering::Relaxed);
        Ok(())
    }

    /// The name of the provided level of thread support.
    pub(crate) fn thread_level(&self) -> &'static str {
        match self.state.threads.load(Ordering::Relaxed) {
            ..THREAD_FUNNELED => "MPI_THREAD_SINGLE",
            THREAD_FUNNELED..THREAD_SERIALIZED => "MPI_THREAD_FUNNELED",
            THREAD_SERIALIZED..THREAD_MULTIPLE => "MPI_THREAD_SERIALIZED",
            THREAD_MULTIPLE.. => "MPI_THREAD_MULTIPLE",
        }
    }

    /// The highest level of thread support available.
    pub(crate) fn most_threads(&self) -> Result<i32, Failure> {
        let rank = self.rank()?;
        let is_virtual = rank.engine().borrow().port().capabilities().virtual_time;
        Ok(if is_virtual { THREAD_SERIALIZED } else { THREAD_MULTIPLE })
    }

    /// Prepares for threads at this level, or at the highest available one below it. Starts the
    /// library's progress thread if the user asks for it.
    pub(crate) fn begin_threads(&self, level: i32) -> Result<(), Failure> {
        let most = self.most_threads()?;
        let is_virtual = most < THREAD_MULTIPLE;
        crate::runtime::go_by_virtual_time(is_virtual);
        let is_helped = crate::progress::is_wanted(is_virtual)?;
        let rank = self.rank()?;
        if is_helped || level.min(most) == THREAD_MULTIPLE {
            rank.share_among_threads(crate::runtime::gate());
        }
        // This is permanent: waits of a rank that threads have shared leave the gate.
        let is_shared = rank.is_shared();
        crate::runtime::go_through_gate(is_shared);
        if is_helped { self.start_progress_thread() } else { Ok(()) }
    }

    /// Ends the use of MPI until the next initialization: from here on any thread may call the
    /// functions that are allowed outside it. The current call leaves in the same way as it
    /// entered.
    pub(crate) fn end_threads(&self) {
        crate::progress::end(self.state.job.borrow().clone());
        crate::runtime::go_through_gate(true);
    }

    /// Fails if another thread is in a call. For the last call of the process.
    pub(crate) fn be_alone(&self) -> Result<(), Failure> {
        if crate::runtime::has_other_calls() {
            return Err(Failure::new(Class::Other, "another thread is still in a call of MPI"));
        }
        Ok(())
    }

    /// MPI_Finalize. The remaining communicators and requests are dropped, unless a session is
    /// still open.
    pub fn finalize(&self) -> Result<(), Failure> {
        self.be_alone()?;
        let own = self.state.own.borrow().clone();
        if let Some(own) = own {
            self.delete_attributes((Object::Comm, Handle::COMM_SELF), &own.attributes)?;
        }
        let world = self.world()?;
        self.delete_attributes((Object::Comm, Handle::COMM_WORLD), &world.attributes)?;
        world.buffered.flush()?;
        self.compare_last_calls(world)?;
        self.settle()?;
        self.state.phase.set(Phase::After);
        if self.state.is_idle() {
            self.state.freed.take();
            self.state.requests.clear();
            self.state.complete.set(Handle::REQUEST_NULL);
            self.state.messages.clear();
            self.state.comms.clear();
        }
        self.state.own.replace(None);
        self.state.world.replace(None);
        if self.state.is_idle() {
            self.end_threads();
        }
        Ok(())
    }

    /// Fails if the ranks' last calls on a communicator differ. While a session is open, only
    /// MPI_COMM_WORLD is compared.
    fn compare_last_calls(&self, world: Rc<Comm>) -> Result<(), Failure> {
        let until = world.inner.compared_until();
        let is_last = lock(&self.state.sessions).is_empty();
        let mut all = if is_last { self.state.comms.all() } else { Vec::new() };
        all.push(world);
        all.retain(|comm| !comm.is_inter());
        // All ranks must use the same order.
        all.sort_by_key(|comm| comm.inner.context());
        all.iter().try_for_each(|comm| {
            let compared = comm.inner.compare_last_call(until);
            compared.map_err(|error| Failure::from(error).of(comm.handled()))
        })
    }

    /// MPI_Initialized.
    pub fn initialized(&self, flag: Out<i32>) -> Result<(), Failure> {
        flag.set_flag(self.state.phase.get() != Phase::Before);
        Ok(())
    }

    /// MPI_Finalized.
    pub fn finalized(&self, flag: Out<i32>) -> Result<(), Failure> {
        flag.set_flag(self.state.phase.get() == Phase::After);
        Ok(())
    }

    /// MPI_Query_thread.
    pub fn query_thread(&self, provided: Out<i32>) -> Result<(), Failure> {
        self.needs_init()?;
        provided.set(self.state.threads.load(Ordering::Relaxed));
        Ok(())
    }

    /// MPI_Is_thread_main: whether this is the thread that called MPI_Init.
    pub fn is_thread_main(&self, flag: Out<i32>) -> Result<(), Failure> {
        self.needs_init()?;
        flag.set_flag(self.state.thread.get() == Some(&std::thread::current().id()));
        Ok(())
    }

    /// The check for functions that any thread may call. It touches no shared counts.
    fn needs_init(&self) -> Result<(), Failure> {
        match self.state.phase.get() {
            Phase::Running => Ok(()),
            _ => Err(self.not_running()),
        }
    }

    /// MPI_Abort. The exit code is the given one, 0 included. A nonzero code whose lowest byte, the
    /// only one that the system keeps, is 0 becomes 1.
    pub fn abort(&self, comm: Rc<Comm>, code: i32) -> Result<(), Failure> {
        let place = comm.own_place();
        let line = format!("{place}, MPI_Abort: the program ends all ranks with code {code}");
        let code = if code != 0 && code & 0xFF == 0 { 1 } else { code };
        self.end_job(&line, code, EndReason::Abort)
    }

    /// MPI_Get_version.
    pub fn get_version(&self, version: Out<i32>, subversion: Out<i32>) -> Result<(), Failure> {
        version.set(VERSION[0]);
        subversion.set(VERSION[1]);
        Ok(())
    }

    /// MPI_Get_library_version.
    pub fn get_library_version(&self, into: TextAt, length: Out<i32>) -> Result<(), Failure> {
        let (version, name) = (env!("CARGO_PKG_VERSION"), D::NAME);
        length.set(into.set(format!("hikyaku {version}, {name}"), MAX_VERSION)?);
        Ok(())
    }

    /// MPI_Get_processor_name.
    pub fn get_processor_name(&self, into: TextAt, length: Out<i32>) -> Result<(), Failure> {
        let name = hikyaku_rank::own_host_name();
        let name = if name.is_empty() { "localhost" } else { &name };
        length.set(into.set(name, D::MAX_NAMES[0])?);
        Ok(())
    }

    /// MPI_Get_hw_resource_info: the named resources, and whether this process is restricted to one
    /// of them. There are none.
    pub fn get_hw_resource_info(&self, into: HandleAt<D>) -> Result<(), Failure> {
        self.add_info(Info::default(), &into)
    }

    /// MPI_Pcontrol: there is nothing to control.
    pub fn pcontrol(&self, _: i32) -> Result<(), Failure> {
        Ok(())
    }

    /// MPI_Get_address.
    pub fn get_address(&self, location: Buffer, address: NumberAt) -> Result<(), Failure> {
        address.set(location.address() as i64);
        Ok(())
    }
}

/// MPI_Wtime: seconds since a moment that is the same for all ranks of a host. In virtual time it
/// is the machine's time.
///
/// Programs call it from any thread, whatever their level of thread support: OpenMP programs
/// measure their loops so. In real time it touches no state of the rank.
pub fn wtime<D: Dialect>() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    let mut seconds = now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9;
    if crate::runtime::is_in_virtual_time() {
        const WTIME: CalledFunction =
            CalledFunction { name: "MPI_Wtime", arguments: &[], is_for_any_thread: true };
        call::<D>(&WTIME, None, |mpi| {
            if let Ok(rank) = mpi.rank() {
                seconds = rank.now().nanoseconds() as f64 * 1e-9;
            }
            Ok(())
        });
    }
    seconds
}

/// MPI_Wtick: the resolution of [`wtime`] in seconds.
pub fn wtick<D: Dialect>() -> f64 {
    1e-9
}

/// MPI_Aint_add.
pub fn aint_add<D: Dialect>(base: isize, displacement: isize) -> isize {
    base.wrapping_add(displacement)
}

/// MPI_Aint_diff.
pub fn aint_diff<D: Dialect>(one: isize, other: isize) -> isize {
    one.wrapping_sub(other)
}
