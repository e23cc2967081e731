//! The thread that makes progress while the program computes, if the user asks for it.
//!
//! It lives from the first call that begins MPI to the last that ends it. It uses the rank under
//! the same gate as the program's own calls, whatever level of thread support the program has asked
//! for. [`hikyaku_rank::SpareThread`] is its body.

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use hikyaku_rank::{Communicator, ForkedProcess, ProgressThread, SpareThread, from_environment};

use crate::dialect::Dialect;
use crate::failure::{Class, Failure};
use crate::runtime::{Mpi, attend_as_spare, outside};

/// The thread of this process.
struct Running {
    spare: Arc<SpareThread>,
    thread: JoinHandle<()>,
    /// A child that is forked does not have it.
    process: ForkedProcess,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

fn take_running() -> Option<Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Whether the environment asks for the thread.
///
/// # Errors
/// It has another value than there are; or time is virtual.
pub(crate) fn is_wanted(is_virtual: bool) -> Result<bool, Failure> {
    let variable = ProgressThread::VARIABLE;
    let failure = |why: String| Failure::new(Class::Other, format!("{variable}: {why}"));
    let value_of = |name: &str| std::env::var(name).ok();
    let ProgressThread(is_wanted) = from_environment(variable, value_of)
        .map_err(|error: hikyaku_rank::NotASwitch| failure(error.to_string()))?;
    if is_wanted && is_virtual {
        let why = "in virtual time a rank is one thread at a time: unset it, or run in real time";
        return Err(failure(why.to_owned()));
    }
    Ok(is_wanted)
}

impl<D: Dialect> Mpi<D> {
    /// Starts the thread, if there is none. It comes in when this call is over.
    pub(crate) fn start_progress_thread(&self) -> Result<(), Failure> {
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return Ok(());
        }
        let spare = Arc::<SpareThread>::default();
        let own = Arc::clone(&spare);
        let builder = thread::Builder::new().name("hikyaku-progress".into());
        let thread = builder.spawn(move || attend_as_spare(&own)).map_err(|error| {
            Failure::new(Class::Other, format!("the progress thread cannot be started: {error}"))
        })?;
        *running = Some(Running { spare, thread, process: ForkedProcess::this() });
        Ok(())
    }
}

/// Ends the thread, if there is one, and waits until it has ended. For calls, which are inside of
/// the gate.
pub(crate) fn end(job: Option<Communicator>) {
    let Some(Running { spare, thread, process }) = take_running() else { return };
    // The thread itself may be who ends the process, in a function of the program.
    if !process.is_this() || thread.thread().id() == thread::current().id() {
        return;
    }
    if let Some(job) = job {
        job.end_spare(&spare);
    }
    // A panic has been told.
    outside(|| _ = thread.join());
}
