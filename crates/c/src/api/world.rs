//! Joining and leaving the job, rank and size, and errors.

use std::ffi::{c_char, c_int};

use super::number;
use crate::failure::{OK, answer, last};
use crate::rank;

#[unsafe(no_mangle)]
extern "C" fn hikyaku_version() -> *const c_char {
    const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "\0");
    VERSION.as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_error() -> *const c_char {
    last()
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_init() -> c_int {
    answer(|| rank::join().map(|()| OK))
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_finalize() -> c_int {
    answer(|| rank::leave().map(|()| OK))
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_rank() -> c_int {
    answer(|| rank::with(|rank| Ok(number(rank.world.rank()))))
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_size() -> c_int {
    answer(|| rank::with(|rank| Ok(number(rank.world.size()))))
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_node() -> c_int {
    answer(|| rank::with(|rank| Ok(number(rank.world.node()))))
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_nodes() -> c_int {
    answer(|| rank::with(|rank| Ok(number(rank.world.nodes()))))
}

#[unsafe(no_mangle)]
extern "C" fn hikyaku_barrier() -> c_int {
    answer(|| rank::with(|rank| Ok(rank.world.barrier().map(|()| OK)?)))
}
