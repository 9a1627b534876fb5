//! What a VM boots of a kernel: what is loaded where, and how it begins.

use crate::board::Architecture;
use crate::diagnostic::Words;
use hanok_types::{Ipa, platform};
use std::borrow::Cow;

/// A kernel: what is loaded where, and how it begins.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Kernel<'a> {
    /// What is loaded, in the order of addresses.
    pub(crate) parts: Vec<Part<'a>>,
    /// The first instruction; bit 0 is set where that is of T32.
    pub(crate) entry: Ipa,
    /// Where its memory begins.
    pub(crate) start: Ipa,
    /// Where its memory ends, as far as QEMU knows it: it loads an initramfs behind that.
    pub(crate) end: Ipa,
    /// Where the memory ends that it writes before it looks at an initramfs or its tree: no less
    /// than `end`.
    pub(crate) reach: Ipa,
    /// How it begins.
    pub(crate) protocol: Protocol,
}

/// Bytes that are loaded.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Part<'a> {
    /// Where they go.
    pub(crate) at: Ipa,
    /// What they are.
    pub(crate) bytes: Cow<'a, [u8]>,
}

/// What the first CPU finds in its registers, and where the tree and the initramfs lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// Linux's boot protocol: a register has the tree's address. A tree begins at a multiple of
    /// this many bytes, and as many are kept for it.
    Linux {
        /// 2 MiB for arm64, which maps as much; for 32-bit ARM a page, and more is kept.
        alignment: u64,
    },
    /// As QEMU starts an ELF file: zeros in the registers, the tree at the start of RAM.
    Elf,
}

impl<'a> Kernel<'a> {
    /// One in one piece, from `offset` in RAM on; it takes `size` bytes there, and writes up to
    /// `reach`, counted from the start of RAM, before it looks at what lies there.
    pub(crate) fn linux(
        bytes: Cow<'a, [u8]>,
        offset: u64,
        size: u64,
        reach: u64,
        architecture: Architecture,
    ) -> Self {
        // No sum overflows: each is of numbers below 2^32.
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
            protocol: Protocol::linux(architecture),
        }
    }

    /// Why there can be no initramfs beside it, if so.
    pub(crate) fn refuses_initramfs(&self) -> Option<Words> {
        (self.protocol == Protocol::Elf).then(|| {
            Words::new(
                "`initramfs` beside an ELF file",
                "no register tells it of one, and QEMU's -kernel loads none either",
                "remove it, or give a kernel that Linux's boot protocol starts",
            )
        })
    }

    /// How many bytes its memory has.
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
