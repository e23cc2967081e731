//! Queries about the binary interface, and settings by a wrapper for Fortran (MPI 5.0 §20.5). There
//! is no Fortran here: the settings of a wrapper are stored, and returned on request.

use std::sync::{Arc, Mutex};

use crate::dialect::{Dialect, Handle};
use crate::failure::{Class, Failure};
use crate::info::{Info, needed};
use crate::raw::{Buffer, HandleAt, Out};
use crate::runtime::{Mpi, lock};

/// The settings for Fortran.
#[derive(Debug, Default)]
pub(crate) struct Fortran {
    /// Sizes of types.
    info: Option<Info>,
    /// The bytes of true and false, one pair per size.
    booleans: Vec<Booleans>,
}

/// The bytes of true, and those of false.
type Booleans = (Box<[u8]>, Box<[u8]>);

impl Fortran {
    pub(crate) const fn new() -> Fortran {
        Fortran { info: None, booleans: Vec::new() }
    }
}

/// The settings of a process.
pub(crate) type Told = Mutex<Fortran>;

impl<D: Dialect> Mpi<D> {
    /// MPI_Abi_get_version.
    pub fn abi_get_version(&self, major: Out<i32>, minor: Out<i32>) -> Result<(), Failure> {
        major.set(D::ABI_VERSION[0]);
        minor.set(D::ABI_VERSION[1]);
        Ok(())
    }

    /// MPI_Abi_get_info.
    pub fn abi_get_info(&self, into: HandleAt<D>) -> Result<(), Failure> {
        let sizes = ["mpi_aint_size", "mpi_count_size", "mpi_offset_size"];
        let pairs = sizes.map(|key| (key, size_of::<i64>().to_string().into()));
        self.add_info(Info::of(&pairs), &into)
    }

    /// MPI_Abi_get_fortran_info.
    pub fn abi_get_fortran_info(&self, into: HandleAt<D>) -> Result<(), Failure> {
        let known = lock(&self.state.fortran).info.clone();
        match known {
            Some(info) => self.add_info(info, &into),
            None => {
                into.set(Handle::INFO_NULL);
                Ok(())
            }
        }
    }

    /// MPI_Abi_set_fortran_info.
    pub fn abi_set_fortran_info(&self, info: Option<Arc<Info>>) -> Result<(), Failure> {
        let info = (*needed(info)?).clone();
        let known = &mut lock(&self.state.fortran).info;
        if known.is_some() {
            return Err(Failure::new(Class::Abi, "the sizes of Fortran's types are set already"));
        }
        *known = Some(info);
        Ok(())
    }

    /// MPI_Abi_set_fortran_booleans.
    pub fn abi_set_fortran_booleans(
        &self,
        size: i32,
        yes: Buffer,
        no: Buffer,
    ) -> Result<(), Failure> {
        let size = logical_size(size)?;
        let booleans = &mut lock(&self.state.fortran).booleans;
        if booleans.iter().any(|(yes, _)| yes.len() == size) {
            let text = format!("the values of a LOGICAL of {size} bytes are set already");
            return Err(Failure::new(Class::Abi, text));
        }
        booleans.push((yes.bytes(size).into(), no.bytes(size).into()));
        Ok(())
    }

    /// MPI_Abi_get_fortran_booleans.
    pub fn abi_get_fortran_booleans(
        &self,
        size: i32,
        yes: Buffer,
        no: Buffer,
        is_set: Out<i32>,
    ) -> Result<(), Failure> {
        let size = logical_size(size)?;
        let fortran = lock(&self.state.fortran);
        let found = fortran.booleans.iter().find(|(yes, _)| yes.len() == size);
        is_set.set_flag(found.is_some());
        for (into, value) in
            found.into_iter().flat_map(|(known, other)| [(yes, known), (no, other)])
        {
            into.bytes_mut(size).copy_from_slice(value);
        }
        Ok(())
    }
}

/// Checks the size of a LOGICAL.
fn logical_size(size: i32) -> Result<usize, Failure> {
    match size {
        1 | 2 | 4 | 8 | 16 => Ok(size as usize),
        _ => Err(Failure::argument(format!("there is no LOGICAL of {size} bytes"))),
    }
}
