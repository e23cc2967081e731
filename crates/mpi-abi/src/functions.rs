//! The functions, written from the table by the build script.

#![allow(
    non_snake_case,
    clippy::too_many_arguments,
    clippy::not_unsafe_ptr_arg_deref,
    clippy::clone_on_copy,
    clippy::redundant_clone,
    clippy::ptr_as_ptr,
    clippy::useless_conversion,
    clippy::unnecessary_cast,
    clippy::missing_safety_doc,
    missing_docs,
    unused_variables
)]

use std::ffi::{c_char, c_int};

use hikyaku_mpi::{
    Buffer, Dialect, HandleAt, Handles, HandlesAt, NumberAt, Numbers, NumbersAt, Object, Out,
    StatusesAt, Text, TextAt, Texts, status_of,
};

use crate::dialect as d;
use crate::dialect::This as D;

include!(concat!(env!("OUT_DIR"), "/functions.rs"));
