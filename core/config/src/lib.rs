//! The model of a system, its rules, and its form as a device tree.
//!
//! The tool on the PC makes the model from a description and writes it as a tree; the board
//! reads the tree and trusts none of it: both sides apply the same rules
//! ([`System::check`]), so that a damaged or hand-made image is refused with a clear word
//! instead of overwriting something. [`BoardTree`] is what the hypervisor needs of the real
//! board's own tree.
//!
//! Nothing here panics, whatever the bytes, and reading needs no heap. The binding of the
//! system's tree is in docs/system-tree.md.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(feature = "write")]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod board;
mod channel;
mod check;
mod cores;
mod error;
mod fdt;
#[cfg(feature = "write")]
pub mod guest;
mod model;
mod parse;
mod pools;
mod slot;
mod structure;
mod sum;
mod tree;
#[cfg(feature = "write")]
mod write;

pub use board::{
    BoardCpu, BoardError, BoardSmmu, BoardTree, Console, Enable, Gic, HostTimer, HostTimerKind,
    MAX_RAM_SPANS, MAX_REDISTRIBUTORS, MAX_RESERVED, PcieHost, PsciMethod, SerialKind, Timer,
};
#[cfg(feature = "write")]
pub use board::{
    DeviceError, FixedClock, HostBridge, HostDevice, HostLine, HostTree, Neighbour, Window, assign,
};
pub use channel::{ChannelEnd, MAX_CHANNELS, MAX_MEMBERS, MAX_PEERS};
pub use check::{Fault, MAX_POOL, POOLS};
pub use cores::{Ask, Claim, CorePolicy, Group, MAX_PERIOD, Promise, Terms, in_ticks, kind_word};
pub use error::{Structure, TreeError, TreeNode};
#[cfg(feature = "write")]
pub use model::System;
pub use model::{
    Blob, BlobKind, DEFAULT_SLICE, HOST_ADDRESS_STRIDE, Line, MAX_BLOBS, MAX_BOARD_LINES,
    MAX_DEVICES, MAX_LINES, MAX_MEMORY, MAX_NAME, MAX_REGISTERS, MAX_SEEDS, PassThrough, Places,
    Registers, SLICES, SystemView, TRACE_RECORDS, Trace, VmConfig,
};
pub use parse::{Parts, SystemTree};
pub use slot::{
    DeviceKind, DeviceSlot, DeviceSlots, FIRMWARE_SIZE, MAX_SLOTS, NOR, NOR_BLOCK, NOR_MEMORY,
    NOR_STORED, Peer, VirtioKind, add_virtio, firmware_slots, platform_slots,
};
pub use structure::flattened;
pub use sum::{Sum, sum};
