//! Gives the linker the image's layout, if it is built for a bare machine.

fn main() {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    println!("cargo:rerun-if-changed=image-aarch64.ld");
    println!("cargo:rerun-if-changed=image-arm.ld");
    if of("CARGO_CFG_TARGET_OS") != "none" {
        return;
    }
    let (manifest, arch) = (of("CARGO_MANIFEST_DIR"), of("CARGO_CFG_TARGET_ARCH"));
    println!("cargo:rustc-link-arg-bins=-T{manifest}/image-{arch}.ld");
    let relocatable: &[&str] = match arch.as_str() {
        "aarch64" => &["-pie", "--no-dynamic-linker", "-z", "notext"],
        _ => &[],
    };
    for argument in relocatable.iter().chain(&["--build-id=none"]) {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
