//! The errors in the bytes of a system's tree.

use crate::check::Fault;
use core::fmt;
use thiserror::Error;

/// The reasons why a tree is no system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum TreeError {
    /// The bytes are no flattened device tree.
    #[error("not a sound device tree: {0}")]
    Structure(#[from] Structure),
    /// The bytes differ from those that the image tool wrote.
    #[error("it is damaged (its checksum is not that of the image tool)")]
    Damaged,
    /// The tree is sound, but of something else.
    #[error("the root is not compatible with \"hanok,system\": this is another device tree")]
    NotASystem,
    /// Another version of the tool made it: this one.
    #[error("the system's tree has version {0}, this hypervisor reads version 9")]
    Version(u32),
    /// A property is missing.
    #[error("{place}: property {name} is missing")]
    Missing {
        /// The node.
        place: TreeNode,
        /// The property.
        name: &'static str,
    },
    /// The value of a property is invalid.
    #[error("{place}: property {name} has a value of the wrong form")]
    Malformed {
        /// The node.
        place: TreeNode,
        /// The property.
        name: &'static str,
    },
    /// There is more of something than the hypervisor has room for.
    #[error("{place}: more than {most} {what}")]
    TooMany {
        /// The node.
        place: TreeNode,
        /// What there is too much of.
        what: &'static str,
        /// The largest number.
        most: usize,
    },
    /// The tree is well-formed, but breaks a rule.
    #[error("{0}")]
    Rule(#[from] Fault),
}

/// The errors of a flattened tree itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Structure {
    /// The magic number is missing.
    #[error("it does not begin with the magic number 0xd00dfeed")]
    Magic,
    /// There are fewer bytes than the header says, or than a header has.
    #[error("it is cut short")]
    Short,
    /// The version is not 17, or 17 cannot read it.
    #[error("its format's version is not 17")]
    Version,
    /// A block, name or token is invalid.
    #[error("its blocks, names or tokens are damaged")]
    Damaged,
}

/// A node of the system's tree, by its indices.
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
    /// An end of a channel that a VM has, both from 0.
    Channel(usize, usize),
    /// A promise to a VM's vCPU, both from 0.
    Promise(usize, usize),
    /// A pCPU's policy, from 0.
    Core(usize),
    /// A group of a pCPU, both from 0.
    Group(usize, usize),
}

impl fmt::Display for TreeNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("the system's tree"),
            Self::Vm(vm) => write!(f, "vm {vm}"),
            Self::Blob(vm, blob) => write!(f, "blob {blob} of vm {vm}"),
            Self::Device(vm, device) => write!(f, "device {device} of vm {vm}"),
            Self::Slot(vm, slot) => write!(f, "slot {slot} of vm {vm}"),
            Self::Channel(vm, channel) => write!(f, "channel {channel} of vm {vm}"),
            Self::Promise(vm, promise) => write!(f, "promise {promise} of vm {vm}"),
            Self::Core(core) => write!(f, "core {core}"),
            Self::Group(core, group) => write!(f, "group {group} of core {core}"),
        }
    }
}
