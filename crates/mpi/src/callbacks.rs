//! Functions of the program that MPI calls, given as addresses. Each runs [`outside`] the gate,
//! because it may call MPI, or wait for another thread that does.

#![expect(
    clippy::disallowed_methods,
    reason = "a function from an address is made by transmute and by nothing else"
)]

use std::ffi::c_int;

use crate::dialect::{Dialect, Handle, Object, Status};
use crate::failure::Failure;
use crate::raw::Buffer;
use crate::runtime::outside;

/// The address of a function of the program.
///
/// # Errors
/// The address is null.
pub(crate) fn function(address: usize, argument: &str) -> Result<usize, Failure> {
    if address == 0 { Err(Failure::null(argument)) } else { Ok(address) }
}

/// Calls a reduction function of the program (MPI 5.0 §6.9.5) on `length` elements of a type.
pub(crate) fn reduce<D: Dialect>(
    function: usize,
    is_large: bool,
    operands: (Buffer, Buffer),
    length: i64,
    datatype: Handle,
) {
    let mut handle = D::handle(Object::Type, datatype);
    let (left, right) = (operands.0.start(), operands.1.start());
    let function: *const () = std::ptr::with_exposed_provenance(function);
    if is_large {
        type Large<H> = extern "C" fn(*mut u8, *mut u8, *mut i64, *mut H);
        // SAFETY: the program gave this address to MPI_Op_create_c, as a function of this type.
        let call = unsafe { std::mem::transmute::<*const (), Large<D::Handle>>(function) };
        let mut length = length;
        outside(|| call(left, right, &mut length, &mut handle));
    } else {
        type Small<H> = extern "C" fn(*mut u8, *mut u8, *mut c_int, *mut H);
        // SAFETY: the program gave this address to MPI_Op_create, as a function of this type.
        let call = unsafe { std::mem::transmute::<*const (), Small<D::Handle>>(function) };
        let mut length = length as c_int;
        outside(|| call(left, right, &mut length, &mut handle));
    }
}

/// Calls an error handler of the program (MPI 5.0 §9.3.1). A call that did not enter cannot leave
/// for it.
pub(crate) fn handle_error<D: Dialect>(
    function: usize,
    (object, number): (Object, Handle),
    code: i32,
    is_beside: bool,
) {
    let (mut handle, mut code) = (D::handle(object, number), code);
    type Handler<H> = extern "C" fn(*mut H, *mut c_int, ...);
    let function: *const () = std::ptr::with_exposed_provenance(function);
    // SAFETY: the program gave this address to MPI_Comm_create_errhandler, as such a function.
    let call = unsafe { std::mem::transmute::<*const (), Handler<D::Handle>>(function) };
    // No further arguments: the standard leaves them to the implementation.
    let mut run = || call(&mut handle, &mut code);
    if is_beside { run() } else { outside(run) }
}

/// Calls a function that copies an attribute (MPI 5.0 §7.7.2). Returns its code, and the
/// duplicate's value if it gets one.
pub(crate) fn copy_attribute<D: Dialect>(
    function: usize,
    (object, number): (Object, Handle),
    keyval: i32,
    state: usize,
    value: usize,
) -> (i32, Option<usize>) {
    type Copy<H> = extern "C" fn(H, c_int, usize, usize, *mut usize, *mut c_int) -> c_int;
    let function: *const () = std::ptr::with_exposed_provenance(function);
    // SAFETY: the program gave this address to MPI_Comm_create_keyval, as such a function.
    let call = unsafe { std::mem::transmute::<*const (), Copy<D::Handle>>(function) };
    let (mut copied, mut flag) = (0, 0);
    let handle = D::handle(object, number);
    let code = outside(|| call(handle, keyval, state, value, &mut copied, &mut flag));
    (code, (flag != 0).then_some(copied))
}

/// Calls a function that deletes an attribute (MPI 5.0 §7.7.2). Returns its code.
pub(crate) fn delete_attribute<D: Dialect>(
    function: usize,
    (object, number): (Object, Handle),
    keyval: i32,
    value: usize,
    state: usize,
) -> i32 {
    type Delete<H> = extern "C" fn(H, c_int, usize, usize) -> c_int;
    let function: *const () = std::ptr::with_exposed_provenance(function);
    // SAFETY: the program gave this address to MPI_Comm_create_keyval, as such a function.
    let call = unsafe { std::mem::transmute::<*const (), Delete<D::Handle>>(function) };
    let handle = D::handle(object, number);
    outside(|| call(handle, keyval, value, state))
}

/// Asks the program for the status of a generalised request (MPI 5.0 §13.2). Returns its code too.
pub(crate) fn query<D: Dialect>(function: usize, state: usize) -> (i32, Status) {
    type Query<S> = extern "C" fn(usize, *mut S) -> c_int;
    let function: *const () = std::ptr::with_exposed_provenance(function);
    // SAFETY: the program gave this address to MPI_Grequest_start, as such a function.
    let call = unsafe { std::mem::transmute::<*const (), Query<D::Status>>(function) };
    let mut status = D::Status::default();
    D::status_out(Status::EMPTY, &mut status);
    let code = outside(|| call(state, &mut status));
    (code, D::status(&status))
}

/// Frees a generalised request. Returns the program's code.
pub(crate) fn free(function: usize, state: usize) -> i32 {
    type Free = extern "C" fn(usize) -> c_int;
    let function: *const () = std::ptr::with_exposed_provenance(function);
    // SAFETY: the program gave this address to MPI_Grequest_start, as such a function.
    let call = unsafe { std::mem::transmute::<*const (), Free>(function) };
    outside(|| call(state))
}

/// Cancels a generalised request. Returns the program's code.
pub(crate) fn cancel(function: usize, state: usize, is_complete: bool) -> i32 {
    type Cancel = extern "C" fn(usize, c_int) -> c_int;
    let function: *const () = std::ptr::with_exposed_provenance(function);
    // SAFETY: the program gave this address to MPI_Grequest_start, as such a function.
    let call = unsafe { std::mem::transmute::<*const (), Cancel>(function) };
    outside(|| call(state, is_complete.into()))
}
