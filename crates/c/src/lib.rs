//! The C API of hikyaku: what `include/hikyaku.h` declares.
//!
//! ```text
//!   C program ── hikyaku.h ──► api/       a file per chapter of the header: the functions
//!                              pointer    arguments that are pointers: who follows them
//!                              failure    codes, the message, the panic boundary
//!                              rank       the one thread that may speak; what is held
//! ```
//!
//! Nothing of the rank is ever given to C but numbers, and the elements of a variable while it is
//! held. A number that is no more names nothing, so whatever is used after it was freed, ended
//! twice or brought to another thread is an error and not undefined behaviour.

mod api;
mod failure;
mod pointer;
mod rank;

#[cfg(test)]
mod header;
