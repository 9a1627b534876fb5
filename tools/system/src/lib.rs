//! A system described in TOML: reads it, refuses what cannot work with line, reason and remedy, and
//! builds the image that a board boots.
//!
//! [`load`] reads a description and its board. [`Description::artifacts`] says which kernels and
//! initramfs it needs. A caller that has found them passes their bytes to [`Description::build`].
//! [`load_schedule`] reads the tasks of a system and what its VMs are promised. The keys of both
//! files are in docs/describe-a-system.md.

#![forbid(unsafe_code)]

mod backend;
mod backend_rules;
mod binary;
mod board;
mod board_tree;
mod bytes;
mod channels;
mod consoles;
mod cores;
mod description;
mod devices;
mod diagnostic;
mod directories;
mod disk_images;
mod disks;
mod draft;
mod elf;
mod files;
mod flash;
mod forward;
mod image;
mod image_rules;
mod interfaces;
mod kernel;
mod layout;
mod links;
mod linux_sources;
mod networks;
mod pcie;
mod raw;
mod reading;
mod recognise;
mod rules;
mod schedule;
mod screen_members;
mod screens;
mod shared;
mod size;
mod source;
mod table;
mod time;
mod trace;
mod transports;
mod tree_cores;
mod unbootable;
mod unpack;
mod vm;
mod watchdog;
mod zimage;

pub use backend::{Architecture, Backend};
pub use binary::BuildKey;
pub use board::{Board, Limits, Qemu, boards};
pub use board_tree::check_board_tree;
pub use channels::Channel;
pub use consoles::Console;
pub use description::Description;
pub use devices::check_devices;
pub use diagnostic::{Diagnostic, Style};
pub use directories::Directory;
pub use disk_images::{DiskImage, ImageFormat};
pub use disks::{Content, Disk, Place};
pub use flash::{VARIABLES_MEMORY, with_variables};
pub use forward::Forward;
pub use hanok_types::GicVersion;
pub use image::Image;
pub use interfaces::Interface;
pub use linux_sources::{LinuxSource, ServedDirectory};
pub use networks::Network;
pub use pcie::{PcieDevice, PcieKind};
pub use raw::RawKernel;
pub use reading::{load, load_schedule, parse, parse_schedule};
pub use schedule::{FoundInterface, Schedule, reasons};
pub use screens::Screen;
pub use shared::BackEnd;
pub use source::{Boot, DtbRef, FirmwareRef, Flavour, InitramfsRef, KernelRef, Modules};
pub use time::parse_nanos as nanos;
pub use tree_cores::with_cores;
pub use vm::{Artifacts, DeviceRef, Files, Key, Vm};
pub use zimage::KernelSizes;
