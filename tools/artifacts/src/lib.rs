//! What a system needs besides the sources of this repository: Debian's packages and what is made
//! of them (QEMU, kernels, a userland), kept in a cache outside the repository; and our own
//! programs, built.

#![forbid(unsafe_code)]

pub mod apt;
pub mod cache;
pub mod cargo;
pub mod debian;
pub mod edk2;
pub mod image;
pub mod initramfs;
pub mod kernel;
mod linux;
pub mod qemu;
pub mod release;
pub mod rewritten;
pub mod runnable;
mod store;
pub mod toolchain;
pub mod u_boot;
pub mod vmlinux;

pub use store::Store;
