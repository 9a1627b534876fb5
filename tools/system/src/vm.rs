//! A VM as it is described, and what must be found for it.

use crate::board::Architecture;
use crate::diagnostic::Mark;
use crate::source::{Boot, InitramfsRef};
use std::sync::Arc;

/// What must be found for one VM before an image can be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifacts {
    /// The VM's name.
    pub vm: String,
    /// Its kernel or firmware.
    pub boot: Boot,
    /// What its CPUs execute.
    pub architecture: Architecture,
    /// Its initramfs.
    pub initramfs: Option<InitramfsRef>,
}

/// The bytes of what [`Artifacts`] asked for. Several VMs may share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The kernel as it was delivered: an arm64 Image, plain, in gzip or in EFI zboot; or
    /// the firmware.
    pub boot: Arc<Vec<u8>>,
    /// The initramfs.
    pub initramfs: Option<Arc<Vec<u8>>>,
}

/// One VM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// Its name.
    pub name: String,
    /// Its kernel or firmware.
    pub boot: Boot,
    /// What its CPUs execute: the board's own, or 32-bit code on a 64-bit board.
    pub architecture: Architecture,
    /// Its initramfs.
    pub initramfs: Option<InitramfsRef>,
    /// The kernel's command line.
    pub cmdline: String,
    /// Memory in bytes, a multiple of 2 MiB.
    pub memory: u64,
    /// The core of each vCPU; one that is named twice is shared.
    pub cpus: Vec<u8>,
    /// Devices of the board that it has for itself, each by its node's name, path or alias
    /// in the board's tree.
    pub devices: Vec<String>,
    /// Whether it may have a device that could reach all memory.
    pub trusted: bool,
    /// Whether it begins by itself.
    pub autostart: bool,
    pub(crate) marks: Marks,
}

/// Where a VM's keys stand, for what is found out only when the image is built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) boot: Mark,
    pub(crate) initramfs: Mark,
    pub(crate) memory: Mark,
    /// Each device's.
    pub(crate) devices: Vec<Mark>,
    /// Its schedule's, where it has one.
    pub(crate) schedule: Option<Mark>,
}

/// A key of a VM, for what is found out about it elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `kernel` or `firmware`.
    Boot,
    /// `initramfs`, and what goes into it.
    Initramfs,
}
