//! Static programs for the Linux of a VM, with Rust's standard library.
//!
//! For 64 bits it is that of musl, with whose C library and start files rustup's target comes. For 32 bits rustup has, of the
//! pinned release, a target of glibc alone: its C library and GCC's run time come from Debian's packages for armhf, as kernels do. Both
//! are linked by the linker of the toolchain, so that no compiler of C is needed.

use std::path::Path;

use anyhow::Result;
use hanok_system::Architecture;

use crate::cargo;
use crate::store::Store;

/// The target of programs for a Linux of 64 bits.
const TARGET: &str = "aarch64-unknown-linux-musl";
/// The target of programs for a Linux of 32 bits.
const TARGET_32: &str = "armv7-unknown-linux-gnueabihf";
/// The packages for the latter, and the folder in each of what is linked.
const C_LIBRARY: (&str, &str) = ("libc6-dev:armhf", "usr/lib/arm-linux-gnueabihf");
const GCC: (&str, &str) = ("libgcc-12-dev:armhf", "usr/lib/gcc/arm-linux-gnueabihf/12");

/// The program in `guests/NAME` for the Linux of a VM of this architecture: its ELF file.
pub fn program(
    root: &Path,
    store: &Store,
    name: &str,
    architecture: Architecture,
) -> Result<Vec<u8>> {
    let package = cargo::package_in(&root.join("guests").join(name))?;
    let mut build = cargo::cargo(root);
    let (target, flags) = match architecture {
        Architecture::Arm64 => (TARGET, vec!["-Clinker=rust-lld".to_owned()]),
        Architecture::Arm => (TARGET_32, flags_32(store)?),
    };
    // It is small, and starts while a client waits for it.
    let flags: Vec<_> = flags
        .into_iter()
        .chain(["-Cstrip=symbols".to_owned()])
        .collect();
    build.env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    cargo::built(root, build, &package, target)
}

/// The compiler's flags for a static program with Debian's C library, in the order in which GCC gives these files to the linker.
fn flags_32(store: &Store) -> Result<Vec<String>> {
    let folder = |(package, folder): (&str, &str)| -> Result<String> {
        Ok(store.debian(package)?.join(folder).display().to_string())
    };
    let (libc, gcc) = (folder(C_LIBRARY)?, folder(GCC)?);
    let start = [
        format!("{libc}/crt1.o"),
        format!("{libc}/crti.o"),
        format!("{gcc}/crtbeginT.o"),
    ];
    let end = [format!("{gcc}/crtend.o"), format!("{libc}/crtn.o")];
    let libraries = ["--start-group", "-lgcc", "-lgcc_eh", "-lc", "--end-group"];
    let arguments = start
        .into_iter()
        .chain(libraries.map(str::to_owned))
        .chain(end);
    let ours = [
        "-Ctarget-feature=+crt-static",
        "-Crelocation-model=static",
        "-Clinker=rust-lld",
        "-Clinker-flavor=ld.lld",
    ];
    let folders = [libc, gcc].map(|folder| format!("-Lnative={folder}"));
    let all = ours.map(str::to_owned).into_iter().chain(folders);
    let arguments = arguments.map(|argument| format!("-Clink-arg={argument}"));
    Ok(all.chain(arguments).collect())
}
