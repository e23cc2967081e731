//! A panic within a call stops at the boundary: the call fails, and the program continues.

#![allow(clippy::unwrap_used)]

use std::rc::Rc;
use std::thread;

use hikyaku_mpi::{
    CalledFunction, Class, Comm, Failure, Handle, HandleAt, Mpi, Object, Out, Scope, TextAt, call,
};

// The standard's binary interface. Its numbers are those of this crate.
#[path = "../../mpi-abi/src/dialect.rs"]
mod dialect;

use dialect::This;

const WORLD: Scope<This> = Some((Object::Comm, Handle::COMM_WORLD.0 as usize));
const RETURN: usize = Handle::ERRORS_RETURN.0 as usize;

/// The error code of a call about this object.
fn code_of(scope: Scope<This>, body: impl FnOnce(&Mpi<This>) -> Result<(), Failure>) -> i32 {
    static CALL: CalledFunction =
        CalledFunction { name: "MPI_Barrier", arguments: &[], is_for_any_thread: false };
    call::<This>(&CALL, scope, body)
}

fn world(mpi: &Mpi<This>) -> Result<Rc<Comm>, Failure> {
    mpi.comm(Handle::COMM_WORLD.0 as usize)
}

/// Below MPI_THREAD_MULTIPLE a flag marks a call in progress; at that level a lock keeps other
/// threads out. A panic clears both.
#[test]
fn a_panic_is_an_error_of_its_call_alone() {
    assert_eq!(code_of(None, Mpi::init), 0);
    let returning = |mpi: &Mpi<This>| mpi.comm_set_errhandler(world(mpi)?, mpi.errhandler(RETURN)?);
    assert_eq!(code_of(WORLD, returning), 0);
    assert_eq!(code_of(WORLD, |_| panic!("rank {} is lost", 0)), Class::Intern as i32);
    let (mut text, mut length) = ([0; 512], 0);
    let ask = |mpi: &Mpi<This>| {
        let into = TextAt::new(text.as_mut_ptr(), "string");
        mpi.error_string(Class::Intern as i32, into, Out::new(&raw mut length, "resultlen")?)
    };
    assert_eq!(code_of(None, ask), 0);
    let text: Vec<u8> = text[..length as usize].iter().map(|byte| *byte as u8).collect();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("an error of hikyaku itself: rank 0 is lost"), "{text}");
    assert_eq!(code_of(WORLD, |mpi| mpi.barrier(world(mpi)?)?.run()), 0);
    assert_eq!(code_of(None, Mpi::finalize), 0);

    let mut session = 0;
    let at = &raw mut session;
    let open = |mpi: &Mpi<This>| {
        let into = HandleAt::<This>::new(Object::Session, at, "session")?;
        mpi.session_init(None, mpi.errhandler(RETURN)?, into)
    };
    assert_eq!(code_of(None, open), 0);
    let scope = Some((Object::Session, session));
    assert_eq!(code_of(scope, |_| panic!("so is the session")), Class::Intern as i32);
    let other = thread::spawn(move || code_of(scope, |mpi| mpi.session(session).map(drop)));
    assert_eq!(other.join().unwrap(), 0);
    let close = |mpi: &Mpi<This>| {
        mpi.session_finalize(HandleAt::<This>::new(Object::Session, at, "session")?)
    };
    assert_eq!(code_of(scope, close), 0);
}
