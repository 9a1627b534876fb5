//! Hands the linker script of the target's image to the linker.

fn main() {
    let of = |name: &str| std::env::var(name).expect("cargo sets it");
    let (folder, arch) = (of("CARGO_MANIFEST_DIR"), of("CARGO_CFG_TARGET_ARCH"));
    let script = format!("{folder}/linker-{arch}.ld");
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rustc-link-arg-bins=-T{script}");
    println!("cargo:rustc-link-arg-bins=--icf=all");
    if arch == "aarch64" {
        // Cortex-A53 erratum 843419: an ADRP at the end of a page.
        println!("cargo:rustc-link-arg-bins=--fix-cortex-a53-843419");
    }
}
