//! The program `hanok-agent`: a static ELF file without a C library for a guest, and a usual program on the developer's
//! PC, where it is tested. All it does is in the library.

#![cfg_attr(target_os = "none", no_std)]
#![cfg_attr(target_os = "none", no_main)]

#[cfg(all(target_arch = "arm", target_os = "none"))]
mod arm;
#[cfg(all(target_arch = "aarch64", target_os = "none"))]
mod arm64;
#[cfg(target_os = "none")]
mod start;

#[cfg(not(target_os = "none"))]
fn main() {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    if let Err(failure) = hanok_agent::command::run(&arguments) {
        hanok_agent::linux::say(&failure.words);
        std::process::exit(failure.code as i32);
    }
}
