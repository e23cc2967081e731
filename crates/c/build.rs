//! Gives the shared library the name by which programs find it at start, wherever it was when they
//! were linked.

fn main() {
    // Not rustc-cdylib-link-arg: cargo passes that on to the cdylibs that include this crate.
    println!("cargo::rustc-link-arg=-Wl,-soname,libhikyaku_c.so");
    println!("cargo::rerun-if-changed=build.rs");
}
