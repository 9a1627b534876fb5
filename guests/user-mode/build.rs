//! Hands the linker the image's layout, where it is built for a bare 32-bit machine.

fn main() {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    println!("cargo:rerun-if-changed=image-arm.ld");
    if of("CARGO_CFG_TARGET_OS") != "none" || of("CARGO_CFG_TARGET_ARCH") != "arm" {
        return;
    }
    let manifest = of("CARGO_MANIFEST_DIR");
    println!("cargo:rustc-link-arg-bins=-T{manifest}/image-arm.ld");
    println!("cargo:rustc-link-arg-bins=--build-id=none");
}
