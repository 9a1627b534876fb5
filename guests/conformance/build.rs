//! Hands the linker the payload's layout, where the payload is built for a bare machine.

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    println!("cargo:rerun-if-changed=image.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo:rustc-link-arg-bins=-T{manifest}/image.ld");
        for argument in [
            "-pie",
            "--no-dynamic-linker",
            "-z",
            "notext",
            "--build-id=none",
        ] {
            println!("cargo:rustc-link-arg-bins={argument}");
        }
    }
}
