//! The thread that makes progress while the program computes, if the user asks for it.
//!
//! It runs from the first call that begins MPI to the last that ends it. It uses the rank under the
//! same gate as the program's own calls, whatever level of thread support the program has asked
//! for. Its body is [`hikyaku_rank::SpareThread`].

use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use hikyaku_rank::{Communicator, ForkedProcess, ProgressThread, SpareThread, from_environment};

use crate::dialect::Dialect;
use crate::failure::{Class, Failure};
use crate::runtime::{Mpi, attend_as_spare, outside};

/// The progress thread of this process.
struct Running {
    spare: Arc<SpareThread>,
    thread: JoinHandle<()>,
    /// The process that started it: a forked child does not have the thread.
    process: ForkedProcess,
}

static RUNNING: Mutex<Option<Running>> = Mutex::new(None);

fn take_running() -> Option<Running> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// Whether the environment asks for the thread.
///
/// # Errors
/// The variable has an invalid value, or time is virtual.
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
    /// Starts the thread, if there is none. It enters the gate when this call is over.
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

/// Ends the thread, if there is one, and waits until it has ended. For calls, which are inside the
/// gate.
pub(crate) fn end(job: Option<Communicator>) {
    let Some(Running { spare, thread, process }) = take_running() else { return };
    // The thread itself may end the process, in a function of the program.
    if !process.is_this() || thread.thread().id() == thread::current().id() {
        return;
    }
    if let Some(job) = job {
        job.end_spare(&spare);
    }
    // A panic was reported already.
    outside(|| _ = thread.join());
}
