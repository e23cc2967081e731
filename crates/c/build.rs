//! Gives the shared library the name by which programs look for it when they start, wherever it lay
//! when they were linked.

fn main() {
    // Not rustc-cdylib-link-arg: cargo hands that on to the cdylibs that this crate is part of.
    println!("cargo::rustc-link-arg=-Wl,-soname,libhikyaku_c.so");
    println!("cargo::rerun-if-changed=build.rs");
}
