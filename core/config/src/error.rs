//! What can be wrong with the bytes of a system's tree.

use crate::check::Fault;
use core::fmt;
use thiserror::Error;

/// A tree that is no system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TreeError {
    /// The bytes are no flattened device tree.
    #[error("not a sound device tree: {0}")]
    Structure(#[from] Structure),
    /// Not the bytes that the image tool wrote.
    #[error("it is damaged (its checksum is not that of the image tool)")]
    Damaged,
    /// A sound tree, of something else.
    #[error("the root is not compatible with \"hanok,system\": this is another device tree")]
    NotASystem,
    /// Made by another version of the tool.
    #[error("the system's tree has version {0}, this hypervisor reads version 5")]
    Version(u32),
    /// A property that must be there.
    #[error("{place}: property {name} is missing")]
    Missing {
        /// Where.
        place: TreeNode,
        /// The property.
        name: &'static str,
    },
    /// A property whose value makes no sense.
    #[error("{place}: property {name} has a value of the wrong form")]
    Malformed {
        /// Where.
        place: TreeNode,
        /// The property.
        name: &'static str,
    },
    /// More of something than the hypervisor has room for.
    #[error("{place}: more than {most} {what}")]
    TooMany {
        /// Where.
        place: TreeNode,
        /// Of what.
        what: &'static str,
        /// The most there can be.
        most: usize,
    },
    /// Well formed, but it breaks a rule.
    #[error("{0}")]
    Rule(#[from] Fault),
}

/// What is wrong with a flattened tree itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Structure {
    /// The magic number is missing.
    #[error("it does not begin with the magic number 0xd00dfeed")]
    Magic,
    /// Fewer bytes than its header claims, or than a header has.
    #[error("it is cut short")]
    Short,
    /// A version other than 17, or one that 17 cannot read.
    #[error("its format's version is not 17")]
    Version,
    /// A block, name or token that cannot be.
    #[error("its blocks, names or tokens are damaged")]
    Damaged,
}

/// A node of the system's tree, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeNode {
    /// `/`.
    Root,
    /// A VM, from 0.
    Vm(usize),
    /// A blob of a VM, both from 0.
    Blob(usize, usize),
    /// A device of a VM, both from 0.
    Device(usize, usize),
    /// A device of the virtual platform that a VM has, both from 0.
    Slot(usize, usize),
    /// A promise to a VM's vCPU, both from 0.
    Promise(usize, usize),
    /// A pCPU's policy, from 0.
    Core(usize),
}

impl fmt::Display for TreeNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("the system's tree"),
            Self::Vm(vm) => write!(f, "vm {vm}"),
            Self::Blob(vm, blob) => write!(f, "blob {blob} of vm {vm}"),
            Self::Device(vm, device) => write!(f, "device {device} of vm {vm}"),
            Self::Slot(vm, slot) => write!(f, "slot {slot} of vm {vm}"),
            Self::Promise(vm, promise) => write!(f, "promise {promise} of vm {vm}"),
            Self::Core(core) => write!(f, "core {core}"),
        }
    }
}
