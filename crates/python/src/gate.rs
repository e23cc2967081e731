//! The gate before a rank that threads share, as calls from Python go through it.
//!
//! An mpi4py program asks for MPI_THREAD_MULTIPLE, and `import hikyaku` there is the same rank:
//! then another thread may be in MPI at any time. So the rank's things are [`Gated`]: they are
//! accessible only with a [`GateGuard`], and are dropped inside the gate. Without such threads
//! there is no gate, and all this is a counter.
//!
//! A thread inside the gate must not wait for the interpreter, because the thread that holds the
//! interpreter may wait for the gate. So no Python code runs inside. Waits leave the gate before
//! they take the interpreter ([`Paused`], [`outside`]), and buffers of finished operations are
//! released when the gate is left ([`later`]).

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::mem::ManuallyDrop;

use hikyaku::World;
use pyo3::buffer::PyUntypedBuffer;

/// The gate's state for the rank's thread. It is never dropped: values that the thread drops at its
/// end still use it.
struct Passage {
    /// Nested calls that are inside.
    depth: Cell<u32>,
    held: RefCell<Option<ManuallyDrop<hikyaku::Inside>>>,
    /// Buffers to be released outside.
    buffers: RefCell<ManuallyDrop<Vec<PyUntypedBuffer>>>,
}

thread_local! {
    static PASSAGE: Passage = const {
        Passage {
            depth: Cell::new(0),
            held: RefCell::new(None),
            buffers: RefCell::new(ManuallyDrop::new(Vec::new())),
        }
    };
}

impl Passage {
    fn enter(&self) {
        *self.held.borrow_mut() = hikyaku::Inside::enter().map(ManuallyDrop::new);
    }

    fn leave(&self) {
        let held = self.held.take();
        drop(held.map(ManuallyDrop::into_inner));
        if !self.buffers.borrow().is_empty() {
            let buffers = std::mem::take(&mut **self.buffers.borrow_mut());
            drop(buffers);
        }
    }
}

/// While this exists its thread is inside the gate, if there is one.
pub(crate) struct GateGuard(PhantomData<*const ()>);

impl GateGuard {
    #[inline]
    pub(crate) fn enter() -> GateGuard {
        PASSAGE.with(|passage| {
            let depth = passage.depth.get();
            passage.depth.set(depth + 1);
            if depth == 0 {
                passage.enter();
            }
        });
        GateGuard(PhantomData)
    }
}

impl Drop for GateGuard {
    #[inline]
    fn drop(&mut self) {
        PASSAGE.with(|passage| {
            let depth = passage.depth.get() - 1;
            passage.depth.set(depth);
            if depth == 0 {
                passage.leave();
            }
        });
    }
}

/// While this exists its thread, which is inside, is outside, so that it can take the interpreter.
pub(crate) struct Paused(u32);

impl Paused {
    pub(crate) fn new(_: &GateGuard) -> Paused {
        PASSAGE.with(|passage| {
            let depth = passage.depth.take();
            passage.leave();
            Paused(depth)
        })
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        PASSAGE.with(|passage| {
            passage.enter();
            passage.depth.set(self.0);
        });
    }
}

/// Runs Python code in the middle of a wait, outside the gate.
pub(crate) fn outside<R>(world: &World, _: &GateGuard, act: impl FnOnce() -> R) -> R {
    PASSAGE.with(|passage| {
        let (depth, held) = (passage.depth.take(), passage.held.take());
        let had_gate = held.is_some();
        // `World::outside` leaves the gate and enters it again, if there is one by now.
        let result = if had_gate { world.outside(act) } else { act() };
        if had_gate {
            *passage.held.borrow_mut() = held;
        } else {
            passage.enter();
        }
        passage.depth.set(depth);
        result
    })
}

/// Releases a buffer, as soon as this thread is outside.
pub(crate) fn later(buffer: PyUntypedBuffer) {
    PASSAGE.with(|passage| match passage.depth.get() {
        0 => drop(buffer),
        _ => passage.buffers.borrow_mut().push(buffer),
    });
}

/// A value of the rank that is accessed only inside the gate.
pub(crate) struct Gated<T>(Option<T>);

impl<T> Gated<T> {
    pub(crate) fn new(it: T) -> Gated<T> {
        Gated(Some(it))
    }

    #[inline]
    pub(crate) fn get(&self, _: &GateGuard) -> &T {
        self.0.as_ref().expect("it is there until it is dropped")
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, _: &GateGuard) -> &mut T {
        self.0.as_mut().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Gated<T> {
    #[inline]
    fn drop(&mut self) {
        let inside = GateGuard::enter();
        self.0 = None;
        drop(inside);
    }
}
