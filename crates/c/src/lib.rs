//! The C API of hikyaku, as declared in `include/hikyaku.h`.
//!
//! ```text
//!   C program ── hikyaku.h ──► api/       a file per chapter of the header: the functions
//!                              pointer    arguments that are pointers
//!                              failure    codes, the message, the panic boundary
//!                              rank       the rank's thread; the objects that C holds
//! ```
//!
//! C gets numbers, and the elements of a variable while it is held; no pointer to anything else. A
//! stale number is detected. So use after free, a double release and calls from another thread are
//! errors and not undefined behaviour.

mod api;
mod failure;
mod pointer;
mod rank;

#[cfg(test)]
mod header;
