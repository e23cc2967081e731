//! Shared variables that travel with their locks: entry consistency, as in Midway and paper 001's
//! Fagus.
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let world = hikyaku::World::init()?;
//! let field = world.shared::<f64>("field", &[1000])?;
//! field.write()?[world.rank() as usize] = 1.0;
//! world.barrier()?;
//! let sum: f64 = field.read()?.iter().sum();
//! # let _ = sum;
//! # Ok(())
//! # }
//! ```
//!
//! A variable is an array bound to a lock. A guard is a slice of its elements, newest on entry;
//! many readers or one writer hold one. Ranks of a node share one copy: acquiring an unlocked
//! variable is an atomic operation. Between nodes contents travel only if the node's copy is old.
//!
//! An array may be divided into [`Parts`], each a variable of its own: `field.part(3)?.write()`. A
//! rank knows the owner and the state of a part without asking others: [`Part::owner`] and
//! [`Part::state`].

mod guard;
#[cfg(test)]
mod tests;
mod turn;
#[cfg(test)]
mod wrong;

use std::marker::PhantomData;
use std::rc::Rc;
use std::time::Duration;

use hikyaku_dsm::AccessKind;
use hikyaku_dsm::driver::Variable;

pub use guard::{ReadGuard, WriteGuard};
pub use hikyaku_dsm::driver::{
    Element, Protocol, SharedError, SharedOptions, Traffic, UnknownProtocol,
};
pub use hikyaku_dsm::{CopyState, Mark, Parts, PartsError};
pub use hikyaku_rank::NotASeed;
pub use turn::Turn;

use crate::error::Error;
use crate::scalar::Scalar;
use crate::world::World;

impl World {
    /// Makes a shared variable: an array of zeros of this shape, bound to a lock. Every rank calls
    /// it, with the same arguments, in the same order as other collective operations.
    ///
    /// # Errors
    /// [`SharedError`]: ranks disagree, the name is taken, memory is full. Or a rank is gone.
    pub fn shared<T: Scalar>(&self, name: &str, shape: &[u64]) -> Result<Shared<T>, Error> {
        self.shared_with(name, shape, SharedOptions::default())
    }

    /// [`World::shared`] with options.
    ///
    /// # Errors
    /// As [`World::shared`].
    pub fn shared_with<T: Scalar>(
        &self,
        name: &str,
        shape: &[u64],
        options: SharedOptions,
    ) -> Result<Shared<T>, Error> {
        let (world, element) = (self.communicator(), Element::of::<T>());
        Ok(Shared::new(self.variables().make(world, name, shape, element, options)?))
    }

    /// [`World::shared`] with elements of which only name and size are known: its guards are slices
    /// of bytes. For bindings of other languages.
    ///
    /// # Errors
    /// As [`World::shared`].
    pub fn shared_bytes(
        &self,
        name: &str,
        shape: &[u64],
        element: Element,
        options: SharedOptions,
    ) -> Result<Shared<u8>, Error> {
        let world = self.communicator();
        Ok(Shared::new(self.variables().make(world, name, shape, element, options)?))
    }

    /// Finds a shared variable of this rank by its name.
    ///
    /// # Errors
    /// [`SharedError::Unknown`], [`SharedError::WrongElement`].
    pub fn shared_named<T: Scalar>(&self, name: &str) -> Result<Shared<T>, Error> {
        let variable = self.variables().find(name)?;
        let (element, wanted) = (variable.element(), Element::of::<T>());
        if *element != wanted {
            let (name, element) = (name.to_owned(), element.name.clone());
            return Err(SharedError::WrongElement { name, element, wanted: wanted.name }.into());
        }
        Ok(Shared::new(variable))
    }

    /// [`World::shared_named`] as bytes, for elements of any type.
    ///
    /// # Errors
    /// [`SharedError::Unknown`].
    pub fn shared_named_bytes(&self, name: &str) -> Result<Shared<u8>, Error> {
        Ok(Shared::new(self.variables().find(name)?))
    }
}

/// A shared variable; see [`crate::World::shared`]. A clone is another handle to it.
#[derive(Debug)]
pub struct Shared<T: Scalar> {
    variable: Rc<Variable>,
    element: PhantomData<T>,
}

impl<T: Scalar> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared::new(Rc::clone(&self.variable))
    }
}

/// A part of a shared variable, which is acquired alone.
#[derive(Debug)]
pub struct Part<T: Scalar> {
    variable: Rc<Variable>,
    part: u64,
    element: PhantomData<T>,
}

impl<T: Scalar> Clone for Part<T> {
    fn clone(&self) -> Part<T> {
        Part { variable: Rc::clone(&self.variable), part: self.part, element: PhantomData }
    }
}

impl<T: Scalar> Shared<T> {
    fn new(variable: Rc<Variable>) -> Shared<T> {
        Shared { variable, element: PhantomData }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.variable.name()
    }

    /// Its shape.
    pub fn shape(&self) -> &[u64] {
        self.variable.division().shape()
    }

    /// The type of its elements.
    pub fn element(&self) -> &Element {
        self.variable.element()
    }

    /// The options that it was made with.
    pub fn options(&self) -> SharedOptions {
        self.variable.options()
    }

    /// How many parts it has.
    pub fn parts(&self) -> u64 {
        self.variable.division().count()
    }

    /// One of its parts.
    ///
    /// # Errors
    /// [`SharedError::NoSuchPart`].
    pub fn part(&self, part: u64) -> Result<Part<T>, Error> {
        let parts = self.parts();
        if part >= parts {
            let name = self.name().to_owned();
            return Err(SharedError::NoSuchPart { name, part, parts }.into());
        }
        Ok(Part { variable: Rc::clone(&self.variable), part, element: PhantomData })
    }

    /// Its protocol: the one of its options, or the world's.
    pub fn protocol(&self) -> Protocol {
        self.options().protocol.unwrap_or_default()
    }

    /// Messages and operations that this rank has sent for it so far.
    pub fn traffic(&self) -> Traffic {
        self.variable.traffic()
    }

    /// Bytes of contents that were moved to this rank from other nodes, and the number of moves.
    pub fn moved(&self) -> (u64, u64) {
        self.variable.moved()
    }
}

/// The calls that acquire, for a variable (its first and usually only part) and for a part.
macro_rules! acquire {
    ($what:ident, $part:expr) => {
        impl<T: Scalar> $what<T> {
            /// Acquires it for reading and writing; waits for its turn.
            ///
            /// # Errors
            /// This rank holds it; or it was lost with a rank that died.
            // Inlined to the end, with two exits: this keeps the guard in registers. Moving it
            // through memory would cost a fifth of an acquisition.
            #[inline(always)]
            pub fn write(&self) -> Result<WriteGuard<T>, Error> {
                let (variable, part) = (&self.variable, $part(self));
                if let Some(entry) = variable.enter_free(part, AccessKind::Write) {
                    return Ok(WriteGuard::new(variable, part, entry?));
                }
                Ok(WriteGuard::new(variable, part, variable.enter(part, AccessKind::Write)?))
            }

            /// Acquires it for reading; waits for its turn.
            ///
            /// # Errors
            /// As for writing.
            #[inline(always)]
            pub fn read(&self) -> Result<ReadGuard<T>, Error> {
                let (variable, part) = (&self.variable, $part(self));
                if let Some(entry) = variable.enter_free(part, AccessKind::Read) {
                    return Ok(ReadGuard::new(variable, part, entry?));
                }
                Ok(ReadGuard::new(variable, part, variable.enter(part, AccessKind::Read)?))
            }

            /// Acquires it for reading and writing on the fast path: within nanoseconds, or with a
            /// fetch. On `None` acquire it by one of the other calls; it may still be unlocked.
            ///
            /// # Errors
            /// None is expected.
            #[inline(always)]
            pub fn write_free(&self) -> Result<Option<WriteGuard<T>>, Error> {
                let (variable, part) = (&self.variable, $part(self));
                let entry = variable.enter_free(part, AccessKind::Write).transpose()?;
                Ok(entry.map(|entry| WriteGuard::new(variable, part, entry)))
            }

            /// The same for reading.
            ///
            /// # Errors
            /// None is expected.
            #[inline(always)]
            pub fn read_free(&self) -> Result<Option<ReadGuard<T>>, Error> {
                let (variable, part) = (&self.variable, $part(self));
                let entry = variable.enter_free(part, AccessKind::Read).transpose()?;
                Ok(entry.map(|entry| ReadGuard::new(variable, part, entry)))
            }

            /// Requests it for reading and writing; the caller polls the [`Turn`].
            ///
            /// # Errors
            /// As for waiting.
            #[inline]
            pub fn ask_write(&self) -> Result<Turn<'_, WriteGuard<T>>, Error> {
                Turn::new(&self.variable, $part(self), AccessKind::Write, WriteGuard::new)
            }

            /// Requests it for reading; the caller polls the [`Turn`].
            ///
            /// # Errors
            /// As for waiting.
            #[inline]
            pub fn ask_read(&self) -> Result<Turn<'_, ReadGuard<T>>, Error> {
                Turn::new(&self.variable, $part(self), AccessKind::Read, ReadGuard::new)
            }

            /// Acquires it for reading and writing if no other rank holds it or waits for it.
            ///
            /// # Errors
            /// As for waiting.
            pub fn try_write(&self) -> Result<Option<WriteGuard<T>>, Error> {
                let (variable, part) = (&self.variable, $part(self));
                let entry = variable.enter_now(part, AccessKind::Write)?;
                Ok(entry.map(|entry| WriteGuard::new(variable, part, entry)))
            }

            /// Acquires it for reading if no rank writes it or waits for it.
            ///
            /// # Errors
            /// As for waiting.
            pub fn try_read(&self) -> Result<Option<ReadGuard<T>>, Error> {
                let (variable, part) = (&self.variable, $part(self));
                let entry = variable.enter_now(part, AccessKind::Read)?;
                Ok(entry.map(|entry| ReadGuard::new(variable, part, entry)))
            }

            /// Acquires it for reading and writing if its turn comes within `limit`.
            ///
            /// # Errors
            /// As for waiting.
            pub fn write_within(&self, limit: Duration) -> Result<Option<WriteGuard<T>>, Error> {
                let (variable, part) = (&self.variable, $part(self));
                let entry = variable.enter_within(part, AccessKind::Write, limit)?;
                Ok(entry.map(|entry| WriteGuard::new(variable, part, entry)))
            }

            /// Acquires it for reading if its turn comes within `limit`.
            ///
            /// # Errors
            /// As for waiting.
            pub fn read_within(&self, limit: Duration) -> Result<Option<ReadGuard<T>>, Error> {
                let (variable, part) = (&self.variable, $part(self));
                let entry = variable.enter_within(part, AccessKind::Read, limit)?;
                Ok(entry.map(|entry| ReadGuard::new(variable, part, entry)))
            }

            /// Acquires it for reading and writing, as a future; run it with
            /// [`crate::World::block_on`]. Dropping it cancels the request.
            ///
            /// # Errors
            /// As for waiting.
            pub async fn write_async(&self) -> Result<WriteGuard<T>, Error> {
                let (variable, part) = (&self.variable, $part(self));
                Ok(WriteGuard::new(
                    variable,
                    part,
                    variable.enter_async(part, AccessKind::Write).await?,
                ))
            }

            /// Acquires it for reading, as a future.
            ///
            /// # Errors
            /// As for waiting.
            pub async fn read_async(&self) -> Result<ReadGuard<T>, Error> {
                let (variable, part) = (&self.variable, $part(self));
                Ok(ReadGuard::new(
                    variable,
                    part,
                    variable.enter_async(part, AccessKind::Read).await?,
                ))
            }

            /// The rank that holds its queue in memory, or that owns it at first: the parts of all
            /// variables are assigned to the ranks in turn, in the order of creation.
            pub fn home(&self) -> u32 {
                self.variable.home($part(self))
            }

            /// The owner node, to this node's knowledge: the last to acquire it for writing.
            /// Asks no rank (FG-07).
            ///
            /// # Errors
            /// None is expected.
            pub fn owner(&self) -> Result<u32, Error> {
                Ok(self.variable.control($part(self))?.0)
            }

            /// The state of this node's copy. Asks no rank.
            ///
            /// # Errors
            /// None is expected.
            pub fn state(&self) -> Result<CopyState, Error> {
                Ok(self.variable.control($part(self))?.1)
            }
        }
    };
}

acquire!(Shared, |_: &Self| 0);
acquire!(Part, |part: &Self| part.part);

impl<T: Scalar> Part<T> {
    /// The index of this part.
    pub fn index(&self) -> u64 {
        self.part
    }

    /// The index in each dimension at which it begins in the array.
    pub fn origin(&self) -> Vec<u64> {
        self.variable.division().part(self.part).map_or_else(Vec::new, |part| part.origin)
    }

    /// Its shape.
    pub fn shape(&self) -> Vec<u64> {
        self.variable.division().part(self.part).map_or_else(Vec::new, |part| part.shape)
    }
}
