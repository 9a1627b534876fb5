//! Lets the linker leave QEMU's functions to QEMU, which loads this library.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-link-arg-cdylib=-Wl,-z,undefs");
}
