//! What of a kernel is loaded into a VM, and how it begins.

use crate::backend::Architecture;
use crate::diagnostic::Words;
use hanok_types::{Ipa, platform};
use std::borrow::Cow;

/// What of a kernel is loaded into a VM, and how it begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kernel<'a> {
    /// The parts that are loaded, in the order of addresses.
    pub(crate) parts: Vec<Part<'a>>,
    /// The address of the first instruction; bit 0 is set if it is T32.
    pub(crate) entry: Ipa,
    /// The address at which its memory begins.
    pub(crate) start: Ipa,
    /// The end of its memory, as far as QEMU knows it: QEMU loads an initramfs behind that.
    pub(crate) end: Ipa,
    /// The end of the memory that it writes before it reads an initramfs or its tree: at least
    /// `end`.
    pub(crate) reach: Ipa,
    /// Whether it needs memory besides, as a Linux does: a program that says where its memory ends does not.
    pub(crate) needs_more: bool,
    /// The protocol by which it is started.
    pub(crate) protocol: Protocol,
}

/// Bytes that are loaded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    /// The address that they are loaded to.
    pub(crate) at: Ipa,
    /// The bytes.
    pub(crate) bytes: Cow<'a, [u8]>,
}

/// What the first CPU finds in its registers, and where the tree and the initramfs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Linux's boot protocol: a register has the tree's address. The tree is aligned to `alignment`
    /// bytes, and as many bytes are kept for it.
    Linux {
        /// 2 MiB for arm64, which maps as much. For 32-bit ARM a page; more is kept.
        alignment: u64,
    },
    /// As QEMU starts an ELF file: zeros in the registers, the tree at the start of RAM.
    Elf,
}

impl<'a> Kernel<'a> {
    /// A kernel in one piece, from `offset` in RAM on. It takes `size` bytes there, and writes up
    /// to `reach`, counted from the start of RAM, before it reads what is there.
    pub(crate) fn linux(
        bytes: Cow<'a, [u8]>,
        offset: u64,
        size: u64,
        reach: u64,
        architecture: Architecture,
    ) -> Self {
        // No sum overflows: the numbers are below 2^32.
        let at = |offset: u64| Ipa::new(platform::RAM.get() + offset);
        Self {
            entry: at(offset),
            start: at(offset),
            end: at(offset + size),
            reach: at(reach.max(offset + size)),
            parts: vec![Part {
                at: at(offset),
                bytes,
            }],
            needs_more: true,
            protocol: Protocol::linux(architecture),
        }
    }

    /// Why it cannot have an initramfs; `None` if it can.
    pub(crate) fn refuses_initramfs(&self) -> Option<Words> {
        (self.protocol == Protocol::Elf).then(|| {
            Words::new(
                "`initramfs` beside an ELF file",
                "no register tells it of one, and QEMU's -kernel loads none either",
                "remove it, or give a kernel that Linux's boot protocol starts",
            )
        })
    }

    /// The size of its memory in bytes.
    pub(crate) fn len(&self) -> u64 {
        self.reach.get() - self.start.get()
    }
}

impl Protocol {
    fn linux(architecture: Architecture) -> Self {
        let alignment = match architecture {
            Architecture::Arm64 => 2 << 20,
            Architecture::Arm => 4096,
        };
        Self::Linux { alignment }
    }
}
