//! The guards: they hold a shared variable, and release it when dropped.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use hikyaku_dsm::driver::{CopyContents, Variable};
use hikyaku_dsm::{EntryResult, Mark};

use crate::scalar::Scalar;

/// A part that is held.
struct HeldPart<T: Scalar> {
    variable: Rc<Variable>,
    part: u64,
    entry: EntryResult,
    contents: CopyContents<T>,
}

impl<T: Scalar> HeldPart<T> {
    #[inline(always)]
    fn new(variable: &Rc<Variable>, part: u64, entry: EntryResult) -> HeldPart<T> {
        let contents = variable.contents(part);
        HeldPart { variable: Rc::clone(variable), part, entry, contents }
    }

    fn write(&self, what: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(what)
            .field("variable", &self.variable.name())
            .field("part", &self.part)
            .field("entry", &self.entry)
            .finish_non_exhaustive()
    }
}

impl<T: Scalar> Drop for HeldPart<T> {
    #[inline]
    fn drop(&mut self) {
        self.variable.release(self.part);
    }
}

/// A shared variable acquired for reading and writing: a slice of its elements, newest on entry.
pub struct WriteGuard<T: Scalar>(HeldPart<T>);

/// A shared variable acquired for reading, beside other readers: a slice of its elements.
pub struct ReadGuard<T: Scalar>(HeldPart<T>);

macro_rules! guards {
    ($($guard:ident)*) => {$(
        impl<T: Scalar> $guard<T> {
            #[inline(always)]
            pub(super) fn new(variable: &Rc<Variable>, part: u64, entry: EntryResult) -> Self {
                $guard(HeldPart::new(variable, part, entry))
            }

            /// The damage to the contents by a rank's death; only of recoverable variables. The
            /// next released write clears it.
            pub fn mark(&self) -> Option<Mark> {
                self.0.entry.mark
            }

            /// Whether this acquisition moved the contents from another node.
            pub fn moved(&self) -> bool {
                self.0.entry.moved
            }

            /// The index of this part.
            pub fn part(&self) -> u64 {
                self.0.part
            }

            /// The address of the elements, valid as long as the guard; for bindings.
            pub fn as_ptr(&self) -> *const T {
                self.0.contents.start().as_ptr()
            }
        }

        impl<T: Scalar> Deref for $guard<T> {
            type Target = [T];

            #[inline]
            fn deref(&self) -> &[T] {
                // SAFETY: the part is held by this rank, so no other rank writes to this copy, and
                // this guard is borrowed; the variable keeps the memory mapped.
                unsafe { self.0.contents.as_slice() }
            }
        }

        impl<T: Scalar> fmt::Debug for $guard<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.write(stringify!($guard), f)
            }
        }
    )*};
}

guards!(WriteGuard ReadGuard);

impl<T: Scalar> WriteGuard<T> {
    /// The address of the elements for writing, valid as long as the guard.
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self.0.contents.start().as_ptr()
    }
}

impl<T: Scalar> DerefMut for WriteGuard<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: the part is held by this rank for writing, so no other rank has it, and this
        // guard is borrowed exclusively; the variable keeps the memory mapped.
        unsafe { self.0.contents.as_slice_mut() }
    }
}
