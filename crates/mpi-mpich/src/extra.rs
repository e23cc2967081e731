//! Symbols of MPICH's library that are not in the table of functions: constants that are variables,
//! the function that copies attributes, and the functions that MPICH's Fortran library calls:
//! attributes as values, and Fortran handles, which are the same numbers here.

use std::ffi::c_int;
use std::sync::atomic::AtomicUsize;

use hikyaku_mpi::{CalledFunction, Class, Dialect, Object, Out};

use crate::dialect::{File, Handle, Status, This};

/// The name and arguments under which Fortran's form of the function reports errors.
static GET_ATTRIBUTE: CalledFunction = CalledFunction {
    name: "MPI_Comm_get_attr",
    arguments: &[("comm", Class::Comm), ("comm_keyval", Class::Keyval)],
    is_for_any_thread: false,
};

/// A constant that is a pointer. It is compared and never dereferenced.
#[derive(Debug)]
#[repr(transparent)]
struct Mark(usize);

/// MPI_UNWEIGHTED.
#[unsafe(no_mangle)]
static MPI_UNWEIGHTED: Mark = Mark(10);

/// MPI_WEIGHTS_EMPTY.
#[unsafe(no_mangle)]
static MPI_WEIGHTS_EMPTY: Mark = Mark(11);

/// A constant that is a variable. The start-up code of MPICH's Fortran library stores the address
/// of the Fortran variable that stands for the constant.
macro_rules! told_by_fortran {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            static $name: AtomicUsize = AtomicUsize::new(1);
        )*
    };
}

told_by_fortran! {
    MPI_F_STATUS_IGNORE MPI_F_STATUSES_IGNORE MPI_F08_STATUS_IGNORE MPI_F08_STATUSES_IGNORE
}

/// MPI_COMM_DUP_FN and related functions: copy an attribute unchanged (MPI 5.0 §7.7.2).
#[unsafe(no_mangle)]
extern "C" fn MPIR_Dup_fn(
    _: Handle,
    _: c_int,
    _: usize,
    value: usize,
    into: *mut usize,
    flag: *mut c_int,
) -> c_int {
    if into.is_null() || flag.is_null() {
        return 1;
    }
    // SAFETY: not null, and the caller that copies attributes provides room for a value.
    unsafe { into.write(value) };
    // SAFETY: as above, for a flag.
    unsafe { flag.write(1) };
    0
}

/// The common part of the predefined attributes' keys. The last digit of a key in C is odd; in
/// Fortran it is one more.
const PREDEFINED: c_int = 0x6440_0000;

/// Implements Fortran's MPI_Comm_get_attr and MPI_Attr_get. The value of a predefined attribute is
/// the number itself there, not its address.
#[unsafe(no_mangle)]
extern "C" fn MPII_Comm_get_attr(
    comm: Handle,
    key: c_int,
    value: *mut usize,
    flag: *mut c_int,
    _: c_int,
) -> c_int {
    let is_predefined = key & !0xf == PREDEFINED;
    let key = if is_predefined { (key - 1) | 1 } else { key };
    let code = hikyaku_mpi::call::<This>(&GET_ATTRIBUTE, Some((Object::Comm, comm)), |mpi| {
        let comm = mpi.comm(comm).map_err(|it| it.named("comm"))?;
        let value = Out::new(value, "attribute_val")?;
        mpi.comm_get_attr(comm, This::keyval(key), value, Out::new(flag, "flag")?)
    });
    // SAFETY: the call has written the flag. If it was null, the call has failed.
    if code != 0 || !is_predefined || unsafe { flag.read() } == 0 {
        return code;
    }
    // SAFETY: the call has written the address of a number that is never freed.
    let number = unsafe { value.read() } as *const c_int;
    // SAFETY: as above.
    let number = unsafe { number.read() };
    // SAFETY: the call has checked that it is not null.
    unsafe { value.write(number as isize as usize) };
    0
}

/// Conversions between a handle and a Fortran handle.
macro_rules! conversions {
    ($($to:ident $from:ident $handle:ty;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $to(handle: $handle) -> c_int {
                handle as c_int
            }

            #[unsafe(no_mangle)]
            extern "C" fn $from(number: c_int) -> $handle {
                number as $handle
            }
        )*
    };
}

conversions! {
    MPI_Comm_c2f MPI_Comm_f2c Handle;
    MPI_Errhandler_c2f MPI_Errhandler_f2c Handle;
    MPI_File_c2f MPI_File_f2c File;
    MPI_Group_c2f MPI_Group_f2c Handle;
    MPI_Info_c2f MPI_Info_f2c Handle;
    MPI_Message_c2f MPI_Message_f2c Handle;
    MPI_Op_c2f MPI_Op_f2c Handle;
    MPI_Request_c2f MPI_Request_f2c Handle;
    MPI_Session_c2f MPI_Session_f2c Handle;
    MPI_Type_c2f MPI_Type_f2c Handle;
    MPI_Win_c2f MPI_Win_f2c Handle;
}

/// Copies a status. A Fortran status is the same five numbers.
fn copy_status(from: *const Status, into: *mut Status) -> c_int {
    if from.is_null() || into.is_null() {
        return 1;
    }
    // SAFETY: not null, and the program promised a status.
    let status = unsafe { from.read() };
    // SAFETY: not null, and the program promised room for one.
    unsafe { into.write(status) };
    0
}

/// MPI_Status_c2f.
#[unsafe(no_mangle)]
extern "C" fn MPI_Status_c2f(from: *const Status, into: *mut Status) -> c_int {
    copy_status(from, into)
}

/// MPI_Status_f2c.
#[unsafe(no_mangle)]
extern "C" fn MPI_Status_f2c(from: *const Status, into: *mut Status) -> c_int {
    copy_status(from, into)
}
