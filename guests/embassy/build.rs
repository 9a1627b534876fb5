//! Gives the linker the run time's script and this image's layout, if it is built for 32-bit ARM.

use std::path::Path;

fn main() {
    let of = |name: &str| std::env::var(name).unwrap_or_default();
    println!("cargo:rerun-if-changed=image-arm.ld");
    if of("CARGO_CFG_TARGET_OS") != "none" || of("CARGO_CFG_TARGET_ARCH") != "arm" {
        return;
    }
    // `link.x` of aarch32-rt includes a file of this name from the search path.
    let folder = of("OUT_DIR");
    std::fs::copy("image-arm.ld", Path::new(&folder).join("memory.x"))
        .expect("OUT_DIR is writable");
    println!("cargo:rustc-link-search={folder}");
    for argument in ["-Tlink.x", "--build-id=none"] {
        println!("cargo:rustc-link-arg-bins={argument}");
    }
}
