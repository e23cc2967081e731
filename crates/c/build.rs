//! Gives the shared library the name by which programs look for it when they start, wherever it lay
//! when they were linked.

fn main() {
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libhikyaku_c.so");
    println!("cargo::rerun-if-changed=build.rs");
}
