//! Attributes of objects, and their keys (MPI 5.0 §7.7).
//!
//! A key is a number. Keys that the library assigns start at 1,024 and are for one kind of object.
//! The standard's predefined keys are for communicators.

use std::cell::RefCell;
use std::rc::Rc;

use crate::callbacks;
use crate::communicators::Comm;
use crate::dialect::{Dialect, Handle, Object};
use crate::failure::{Class, Failure};
use crate::raw::Out;
use crate::runtime::{Mpi, lock};
use crate::types::Type;

/// MPI_TAG_UB and the other predefined keys, as MPI 5.0's interface numbers them.
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
    object: Object,
    copy: usize,
    delete: usize,
    state: usize,
}

/// An attribute.
#[derive(Debug, Clone)]
struct Attribute {
    number: i32,
    keyval: Rc<Keyval>,
    value: usize,
}

/// The attributes of an object, in the order in which they were set.
#[derive(Debug, Default)]
pub(crate) struct Attributes(RefCell<Vec<Attribute>>);

impl Attributes {
    fn get(&self, number: i32) -> Option<Attribute> {
        self.0.borrow().iter().find(|it| it.number == number).cloned()
    }

    /// Moves the attributes out.
    pub(crate) fn take(&self) -> Attributes {
        Attributes(RefCell::new(self.0.take()))
    }

    fn put(&self, attribute: Attribute) {
        self.0.borrow_mut().push(attribute);
    }

    fn remove(&self, number: i32) {
        self.0.borrow_mut().retain(|it| it.number != number);
    }
}

/// The owner of attributes: its kind, and its handle.
pub(crate) type Owner = (Object, Handle);

impl<D: Dialect> Mpi<D> {
    fn create_keyval(
        &self,
        object: Object,
        (copy, delete): (usize, usize),
        keyval: Out<i32>,
        state: usize,
    ) -> Result<(), Failure> {
        let mut keyvals = self.state.keyvals.borrow_mut();
        keyvals.push(Some(Rc::new(Keyval { object, copy, delete, state })));
        keyval.set(FIRST + keyvals.len() as i32 - 1);
        Ok(())
    }

    /// Existing attributes with the key remain (MPI 5.0 §7.7.2).
    fn free_keyval(&self, object: Object, keyval: Out<i32>) -> Result<(), Failure> {
        let number = D::keyval(keyval.get());
        self.keyval(object, number)?;
        self.state.keyvals.borrow_mut()[(number - FIRST) as usize] = None;
        keyval.set(D::KEYVAL_INVALID);
        Ok(())
    }

    fn keyval(&self, object: Object, number: i32) -> Result<Rc<Keyval>, Failure> {
        if (TAG_UB..=UNIVERSE_SIZE).contains(&number) {
            let text = "a predefined attribute cannot be changed";
            return Err(Failure::new(Class::Keyval, text));
        }
        let keyvals = self.state.keyvals.borrow();
        let at = usize::try_from(number.wrapping_sub(FIRST)).ok();
        let found = at.and_then(|at| keyvals.get(at)).and_then(Option::as_ref);
        let found = found.filter(|keyval| keyval.object == object);
        found.map(Rc::clone).ok_or_else(|| {
            let text = format!("{number} is no key of attributes of a {}", object.name());
            Failure::new(Class::Keyval, text)
        })
    }

    fn set_attribute(
        &self,
        of: Owner,
        attributes: &Attributes,
        (number, value): (i32, usize),
    ) -> Result<(), Failure> {
        let keyval = self.keyval(of.0, number)?;
        if let Some(known) = attributes.get(number) {
            self.delete_one(of, attributes, &known)?;
        }
        attributes.put(Attribute { number, keyval, value });
        Ok(())
    }

    fn get_attribute(
        &self,
        object: Object,
        attributes: &Attributes,
        number: i32,
        (value, flag): (Out<usize>, Out<i32>),
    ) -> Result<(), Failure> {
        let found = match number {
            TAG_UB..=UNIVERSE_SIZE if object == Object::Comm => {
                self.predefined_attribute(number)?
            }
            _ => {
                let known = attributes.get(number).map(|it| it.value);
                if known.is_none() {
                    self.keyval(object, number)?;
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

    fn delete_attribute(
        &self,
        of: Owner,
        attributes: &Attributes,
        number: i32,
    ) -> Result<(), Failure> {
        match attributes.get(number) {
            Some(known) => self.delete_one(of, attributes, &known),
            None => self.keyval(of.0, number).map(drop),
        }
    }

    fn delete_one(
        &self,
        of: Owner,
        attributes: &Attributes,
        known: &Attribute,
    ) -> Result<(), Failure> {
        let Keyval { delete, state, .. } = *known.keyval;
        let number = known.number;
        if delete != 0 {
            let code = callbacks::delete_attribute::<D>(delete, of, number, known.value, state);
            refused::<D>("to delete attributes", code)?;
        }
        attributes.remove(number);
        Ok(())
    }

    /// Deletes all attributes of an object that is freed, the last first.
    pub(crate) fn delete_attributes(
        &self,
        of: Owner,
        attributes: &Attributes,
    ) -> Result<(), Failure> {
        loop {
            let last = attributes.0.borrow().last().cloned();
            let Some(known) = last else { return Ok(()) };
            self.delete_one(of, attributes, &known)?;
        }
    }

    /// Copies the attributes of an object to its duplicate, as their keys demand. If a copy
    /// function of the program fails, there is no duplicate (MPI 5.0 §7.4.2): its attributes are
    /// deleted.
    pub(crate) fn copy_attributes(
        &self,
        from: (Owner, &Attributes),
        (owner, to): (Owner, &Attributes),
    ) -> Result<(), Failure> {
        self.copy_all(from, to).inspect_err(|_| {
            // The error that the program gets is that of the first failed function.
            let _ = self.delete_attributes(owner, to);
        })
    }

    fn copy_all(&self, (of, from): (Owner, &Attributes), to: &Attributes) -> Result<(), Failure> {
        let known = from.0.borrow().clone();
        for Attribute { number, keyval, value } in known {
            let copied = match keyval.copy {
                0 => None,
                1 => Some(value),
                function => {
                    let (code, copied) =
                        callbacks::copy_attribute::<D>(function, of, number, keyval.state, value);
                    refused::<D>("to copy attributes", code)?;
                    copied
                }
            };
            if let Some(value) = copied {
                to.put(Attribute { number, keyval, value });
            }
        }
        Ok(())
    }

    /// The address of a predefined attribute; `None` if it is not set.
    fn predefined_attribute(&self, number: i32) -> Result<Option<usize>, Failure> {
        let value = match number {
            TAG_UB => i32::MAX,
            // Every rank may use the files of its host.
            IO => D::rank_out(crate::dialect::ANY_SOURCE),
            HOST => D::rank_out(crate::dialect::PROC_NULL),
            WTIME_IS_GLOBAL => self.rank()?.has_one_clock().into(),
            LAST_USED_CODE => lock(&self.state.codes).last::<D>(),
            UNIVERSE_SIZE => self.rank()?.size() as i32,
            APPNUM => self.rank()?.program(),
            _ => return Ok(None),
        };
        let at = (number - TAG_UB) as usize;
        let cell = &self.state.numbers[at];
        cell.set(value);
        Ok(Some(cell.as_ptr().expose_provenance()))
    }
}

/// The functions of the attributes of one kind of object.
macro_rules! attributes {
    ($($object:ident $type:ty: $set:ident $get:ident $delete:ident;)*) => {
        impl<D: Dialect> Mpi<D> {
            $(
                #[doc = concat!("MPI's `", stringify!($set), "`.")]
                pub fn $set(
                    &self,
                    object: Rc<$type>,
                    number: i32,
                    value: usize,
                ) -> Result<(), Failure> {
                    let of = (Object::$object, object.handle.get());
                    self.set_attribute(of, &object.attributes, (number, value))
                }

                #[doc = concat!("MPI's `", stringify!($get), "`. A predefined value is a pointer.")]
                pub fn $get(
                    &self,
                    object: Rc<$type>,
                    number: i32,
                    value: Out<usize>,
                    flag: Out<i32>,
                ) -> Result<(), Failure> {
                    let into = (value, flag);
                    self.get_attribute(Object::$object, &object.attributes, number, into)
                }

                #[doc = concat!("MPI's `", stringify!($delete), "`.")]
                pub fn $delete(&self, object: Rc<$type>, number: i32) -> Result<(), Failure> {
                    let of = (Object::$object, object.handle.get());
                    self.delete_attribute(of, &object.attributes, number)
                }
            )*
        }
    };
}

attributes! {
    Comm Comm: comm_set_attr comm_get_attr comm_delete_attr;
    Comm Comm: attr_put attr_get attr_delete;
    Type Type: type_set_attr type_get_attr type_delete_attr;
}

/// The keys of one kind of object.
macro_rules! keyvals {
    ($($object:ident: $create:ident $free:ident;)*) => {
        impl<D: Dialect> Mpi<D> {
            $(
                #[doc = concat!("MPI's `", stringify!($create), "`.")]
                pub fn $create(
                    &self,
                    copy: usize,
                    delete: usize,
                    keyval: Out<i32>,
                    state: usize,
                ) -> Result<(), Failure> {
                    self.create_keyval(Object::$object, (copy, delete), keyval, state)
                }

                #[doc = concat!("MPI's `", stringify!($free), "`.")]
                pub fn $free(&self, keyval: Out<i32>) -> Result<(), Failure> {
                    self.free_keyval(Object::$object, keyval)
                }
            )*
        }
    };
}

keyvals! {
    Comm: comm_create_keyval comm_free_keyval;
    Comm: keyval_create keyval_free;
    Type: type_create_keyval type_free_keyval;
    Win: win_create_keyval win_free_keyval;
}

/// Converts the return code of a function of the program.
pub(crate) fn refused<D: Dialect>(what: &str, code: i32) -> Result<(), Failure> {
    if code == 0 {
        return Ok(());
    }
    let text = format!("the program's function {what} returned {code}");
    let class = D::class(code).unwrap_or(Class::Other);
    Err(Failure::new(class, text).with_code(Some(code)))
}
