//! The build script of every image on this runtime: gives the linker the image's layout, if it is
//! built for a bare machine.

fn main() {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    let arch = of("CARGO_CFG_TARGET_ARCH");
    if of("CARGO_CFG_TARGET_OS") != "none" {
        return;
    }
    let script = format!("{}/../runtime/image-{arch}.ld", of("CARGO_MANIFEST_DIR"));
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rustc-link-arg-bins=-T{script}");
    // The address at which a 32-bit image is to run, if not at its usual one.
    println!("cargo:rerun-if-env-changed=HANOK_IMAGE_BASE");
    if let Ok(base) = std::env::var("HANOK_IMAGE_BASE") {
        println!("cargo:rustc-link-arg-bins=--defsym=image_base={base}");
    }
    let relocatable: &[&str] = match arch.as_str() {
        "aarch64" => &["-pie", "--no-dynamic-linker", "-z", "notext"],
        _ => &[],
    };
    for argument in relocatable.iter().chain(&["--build-id=none"]) {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
