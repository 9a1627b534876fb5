//! The build script of every image on this runtime: hands the linker the image's layout, where
//! it is built for a bare machine.

fn main() {
    let manifest = std::env::var("CARGO_MANIFEST_DIR").unwrap_or_default();
    let script = format!("{manifest}/../runtime/image.ld");
    println!("cargo:rerun-if-changed={script}");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        println!("cargo:rustc-link-arg-bins=-T{script}");
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
