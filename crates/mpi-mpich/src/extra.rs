//! What MPICH's library has beside the functions of the table: constants that are variables, the
//! function that copies attributes, and what its Fortran library calls: attributes as values, and
//! handles as numbers of Fortran's, which are the same here.

use std::ffi::c_int;
use std::sync::atomic::AtomicUsize;

use hikyaku_mpi::{CalledFunction, Class, Dialect, Object, Out};

use crate::dialect::{File, Handle, Status, This};

/// The function that Fortran's form of it is called as.
static GET_ATTRIBUTE: CalledFunction = CalledFunction {
    name: "MPI_Comm_get_attr",
    arguments: &[("comm", Class::Comm), ("comm_keyval", Class::Keyval)],
    is_for_any_thread: false,
};

/// A constant that is a pointer: it is compared and never followed.
#[derive(Debug)]
#[repr(transparent)]
struct Mark(usize);

/// MPI_UNWEIGHTED.
#[unsafe(no_mangle)]
static MPI_UNWEIGHTED: Mark = Mark(10);

/// MPI_WEIGHTS_EMPTY.
#[unsafe(no_mangle)]
static MPI_WEIGHTS_EMPTY: Mark = Mark(11);

/// A constant that is a variable: the start-up code of MPICH's Fortran library stores in it which
/// memory of Fortran's stands for the constant.
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

/// MPI_COMM_DUP_FN and its kin: an attribute is copied as it is (MPI 5.0 §7.7.2).
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
    // SAFETY: not null, and whoever copies attributes gives room for a value.
    unsafe { into.write(value) };
    // SAFETY: as above, for a flag.
    unsafe { flag.write(1) };
    0
}

/// The numbers of predefined attributes, from which their keys in C (odd) and Fortran (one more)
/// differ by their last digit.
const PREDEFINED: c_int = 0x6440_0000;

/// The call behind Fortran's MPI_Comm_get_attr and MPI_Attr_get: what is predefined is a number
/// there, and no address of one.
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
    // SAFETY: the call has written it, or it was null and the call has failed.
    if code != 0 || !is_predefined || unsafe { flag.read() } == 0 {
        return code;
    }
    // SAFETY: the call has written the address of a number that is never freed.
    let number = unsafe { value.read() } as *const c_int;
    // SAFETY: as above.
    let number = unsafe { number.read() };
    // SAFETY: the call has found that it is not null.
    unsafe { value.write(number as isize as usize) };
    0
}

/// A handle and a number of Fortran's, both ways.
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

/// A status of Fortran's is the same five numbers.
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
