//! A VM as it is described, and the files that must be found for it.

use crate::backend::Architecture;
use crate::diagnostic::Mark;
use crate::raw::RawKernel;
use crate::shared::BackEnd;
use crate::source::{Boot, InitramfsRef};
use hanok_config::VmConfig;
use std::path::PathBuf;
use std::sync::Arc;

/// The files that must be found for one VM before an image can be built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Artifacts {
    /// The VM's name.
    pub vm: String,
    /// Its kernel or firmware.
    pub boot: Boot,
    /// The architecture that its CPUs execute.
    pub architecture: Architecture,
    /// Its initramfs.
    pub initramfs: Option<InitramfsRef>,
    /// Whether it is a Linux that serves images, networks or directories: then a program that does so, and what it needs, is in an initramfs that is made.
    pub serves_by_linux: bool,
    /// The file in which its firmware's variables are kept; it need not exist.
    pub variables: Option<PathBuf>,
    /// Whether its kernel, if that is a zImage, is to be looked at, as the board's CPUs have no
    /// virtualization hardware.
    pub examine: bool,
    /// Whether it is then to be unpacked and rewritten, too.
    pub rewrite: bool,
}

/// The content of the files that [`Artifacts`] asked for. Several VMs may share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Files {
    /// The kernel as it was delivered: an arm64 Image, plain, in gzip or in EFI zboot; or the
    /// firmware.
    pub boot: Arc<Vec<u8>>,
    /// The memory of a kernel that is unpacked already, Linux's raw Image for 32-bit ARM.
    pub raw: Option<RawKernel>,
    /// The initramfs.
    pub initramfs: Option<Arc<Vec<u8>>>,
    /// The file of its firmware's variables; empty if there is none.
    pub variables: Arc<Vec<u8>>,
}

/// One VM: the model that the hypervisor is given, as far as the description alone determines it,
/// and what an image is built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// The model. It lacks what follows from the files and from the board's tree: the entry and its
    /// argument, blobs, real devices.
    pub config: VmConfig,
    /// Its kernel or firmware.
    pub boot: Boot,
    /// Its initramfs.
    pub initramfs: Option<InitramfsRef>,
    /// The file in which its firmware's variables are kept.
    pub variables: Option<PathBuf>,
    /// The kernel's command line.
    pub cmdline: String,
    /// The devices of the board that it has for itself.
    pub devices: Vec<DeviceRef>,
    /// Whether its kernel may be rewritten beforehand where the board's CPUs have no virtualization
    /// hardware.
    pub rewrite: bool,
    /// What it serves for other VMs.
    pub back_ends: Vec<BackEnd>,
    pub(crate) marks: Marks,
}

/// A device of the board that a VM has for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceRef {
    /// Its node's name, path or alias in the board's tree.
    pub name: String,
    /// Whether each access to its registers is an exit, and the hypervisor carries it out; otherwise the VM
    /// has them mapped.
    pub trapped: bool,
}

impl Vm {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What its CPUs execute: the board's own architecture, or 32-bit code on a 64-bit board.
    pub fn architecture(&self) -> Architecture {
        if self.config.aarch32 {
            Architecture::Arm
        } else {
            Architecture::Arm64
        }
    }

    /// Memory in bytes, a multiple of 2 MiB.
    pub fn memory(&self) -> u64 {
        self.config.memory.len()
    }
}

/// Where a VM's keys are, for faults that are only found when the image is built.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    pub(crate) boot: Mark,
    pub(crate) initramfs: Mark,
    pub(crate) memory: Mark,
    pub(crate) variables: Mark,
    /// The place of each device.
    pub(crate) devices: Vec<Mark>,
    /// The place of its schedule, if it has one.
    pub(crate) schedule: Option<Mark>,
}

/// A key of a VM, for faults that are found elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// `kernel` or `firmware`.
    Boot,
    /// `initramfs`, and what goes into it.
    Initramfs,
}
