//! Attributes of communicators, and their keys (MPI 5.0 §7.7).
//!
//! A key is a number of ours, from 1,024 on, or a predefined one of the standard.

use std::rc::Rc;

use crate::callbacks;
use crate::communicators::Comm;
use crate::dialect::{Dialect, Object};
use crate::failure::{Class, Failure};
use crate::raw::Out;
use crate::runtime::Mpi;

/// MPI_TAG_UB and its kin, as MPI 5.0's interface numbers them.
const TAG_UB: i32 = 501;
const IO: i32 = 502;
const HOST: i32 = 503;
const WTIME_IS_GLOBAL: i32 = 504;
const APPNUM: i32 = 505;
const LAST_USED_CODE: i32 = 506;
const UNIVERSE_SIZE: i32 = 507;

/// The first key that is not predefined.
const FIRST: i32 = 1024;

/// A key of attributes.
#[derive(Debug)]
pub(crate) struct Keyval {
    copy: usize,
    delete: usize,
    state: usize,
}

/// An attribute.
#[derive(Debug, Clone)]
pub(crate) struct Attribute {
    keyval: Rc<Keyval>,
    value: usize,
}

impl<D: Dialect> Mpi<D> {
    /// MPI_Comm_create_keyval.
    pub fn comm_create_keyval(
        &self,
        copy: usize,
        delete: usize,
        keyval: Out<i32>,
        state: usize,
    ) -> Result<(), Failure> {
        let mut keyvals = self.state.keyvals.borrow_mut();
        keyvals.push(Some(Rc::new(Keyval { copy, delete, state })));
        keyval.set(FIRST + keyvals.len() as i32 - 1);
        Ok(())
    }

    /// MPI_Comm_free_keyval. Attributes with the key stay (MPI 5.0 §7.7.2).
    pub fn comm_free_keyval(&self, keyval: Out<i32>) -> Result<(), Failure> {
        self.keyval(keyval.get())?;
        self.state.keyvals.borrow_mut()[(keyval.get() - FIRST) as usize] = None;
        keyval.set(D::KEYVAL_INVALID);
        Ok(())
    }

    fn keyval(&self, number: i32) -> Result<Rc<Keyval>, Failure> {
        let keyvals = self.state.keyvals.borrow();
        let at = usize::try_from(number.wrapping_sub(FIRST)).ok();
        let found = at.and_then(|at| keyvals.get(at)).and_then(Option::as_ref);
        found
            .map(Rc::clone)
            .ok_or_else(|| Failure::new(Class::Keyval, format!("{number} is no key of attributes")))
    }

    /// MPI_Comm_set_attr.
    pub fn comm_set_attr(&self, comm: Rc<Comm>, number: i32, value: usize) -> Result<(), Failure> {
        let keyval = self.keyval(number)?;
        let known = comm.attributes.borrow().get(&number).cloned();
        if let Some(known) = known {
            self.delete_one(&comm, number, &known)?;
        }
        comm.attributes.borrow_mut().insert(number, Attribute { keyval, value });
        Ok(())
    }

    /// MPI_Comm_get_attr. A predefined attribute is a pointer to a number.
    pub fn comm_get_attr(
        &self,
        comm: Rc<Comm>,
        number: i32,
        value: Out<usize>,
        flag: Out<i32>,
    ) -> Result<(), Failure> {
        let found = match number {
            TAG_UB..=UNIVERSE_SIZE => self.predefined_attribute(number)?,
            _ => {
                let known = comm.attributes.borrow().get(&number).map(|it| it.value);
                if known.is_none() {
                    self.keyval(number)?;
                }
                known
            }
        };
        flag.set_flag(found.is_some());
        if let Some(found) = found {
            value.set(found);
        }
        Ok(())
    }

    /// The address of a predefined attribute; `None`: it is not set.
    fn predefined_attribute(&self, number: i32) -> Result<Option<usize>, Failure> {
        let value = match number {
            TAG_UB => i32::MAX,
            // Every rank may use the files of its host.
            IO => D::rank_out(crate::dialect::ANY_SOURCE),
            HOST => D::rank_out(crate::dialect::PROC_NULL),
            WTIME_IS_GLOBAL => 1,
            LAST_USED_CODE => self.state.codes.borrow().last::<D>(),
            UNIVERSE_SIZE => self.rank()?.size() as i32,
            APPNUM => program_number(),
            _ => return Ok(None),
        };
        let at = (number - TAG_UB) as usize;
        let cell = &self.state.numbers[at];
        cell.set(value);
        Ok(Some(cell.as_ptr().expose_provenance()))
    }

    /// MPI_Comm_delete_attr.
    pub fn comm_delete_attr(&self, comm: Rc<Comm>, number: i32) -> Result<(), Failure> {
        let known = comm.attributes.borrow().get(&number).cloned();
        match known {
            Some(known) => self.delete_one(&comm, number, &known),
            None => self.keyval(number).map(drop),
        }
    }

    fn delete_one(&self, comm: &Comm, number: i32, known: &Attribute) -> Result<(), Failure> {
        let Keyval { delete, state, .. } = *known.keyval;
        if delete != 0 {
            let of = (Object::Comm, comm.handle.get());
            let code = callbacks::delete_attribute::<D>(delete, of, number, known.value, state);
            refused::<D>("delete", number, code)?;
        }
        comm.attributes.borrow_mut().remove(&number);
        Ok(())
    }

    /// Deletes all attributes of a communicator that goes, the last first.
    pub(crate) fn delete_attributes(&self, comm: &Comm) -> Result<(), Failure> {
        loop {
            let last = comm.attributes.borrow().iter().next_back().map(|(n, it)| (*n, it.clone()));
            let Some((number, known)) = last else { return Ok(()) };
            self.delete_one(comm, number, &known)?;
        }
    }

    /// Copies the attributes of a communicator to its duplicate, as their keys say.
    pub(crate) fn copy_attributes(&self, from: &Comm, to: &Comm) -> Result<(), Failure> {
        let known: Vec<_> =
            from.attributes.borrow().iter().map(|(number, it)| (*number, it.clone())).collect();
        for (number, Attribute { keyval, value }) in known {
            let copied = match keyval.copy {
                0 => None,
                1 => Some(value),
                function => {
                    let of = (Object::Comm, from.handle.get());
                    let (code, copied) =
                        callbacks::copy_attribute::<D>(function, of, number, keyval.state, value);
                    refused::<D>("copy", number, code)?;
                    copied
                }
            };
            if let Some(value) = copied {
                to.attributes.borrow_mut().insert(number, Attribute { keyval, value });
            }
        }
        Ok(())
    }
}

/// Which of its job's programs this rank runs, from 0: the launcher says it if there are several.
fn program_number() -> i32 {
    std::env::var("HIKYAKU_APPNUM").ok().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// What a callback has returned.
fn refused<D: Dialect>(what: &str, number: i32, code: i32) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    let text = format!("the function to {what} attributes of key {number} returned {code}");
    Err(Failure::new(D::class(code).unwrap_or(Class::Other), text))
}
