//! Hands the linker script of the target's image to the linker.

fn main() {
    let folder = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let script = format!("{folder}/linker-aarch64.ld");
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rustc-link-arg-bins=-T{script}");
    // Cortex-A53 erratum 843419: an ADRP at the end of a page.
    println!("cargo:rustc-link-arg-bins=--fix-cortex-a53-843419");
}
