//! A GICv2's distributor (IHI 0048B, chapter 4.3), as one vCPU sees it: registers of private
//! interrupts are banked.
//!
//! It has no security extensions, and the two groups that every GICv2 has; after a reset all
//! interrupts are in group 0. The CPU interface is not here: the CPU's own virtual interface, which
//! has the same registers, is mapped in its place.

use crate::bank::Groups;
use crate::bank::SPI_BANKS;
use crate::dist::{IIDR_VALUE, spi_place};
use crate::frame::{Read, Shared};
use crate::state::{IDS, InterruptPlace, Route, Vgic};
use bitfield_struct::bitfield;
use hanok_types::{VcpuId, VcpuSet, Width};

const CTLR: u64 = 0x000;
const TYPER: u64 = 0x004;
const IIDR: u64 = 0x008;
const TARGETS: u64 = 0x800;
const TARGETS_END: u64 = 0xbfc;
/// The offsets of GICD_PPISR, GICD_SPISR and others that are implementation defined.
const IMPLEMENTATION: core::ops::Range<u64> = 0xd00..0xe00;
const SGIR: u64 = 0xf00;
const CLEAR_SENDERS: u64 = 0xf10;
const SET_SENDERS: u64 = 0xf20;
const SET_SENDERS_END: u64 = 0xf30;
const ID_REGISTERS: u64 = 0xfd0;
const FRAME_SIZE: u64 = 0x1000;

/// GICD_CTLR without security extensions (IHI 0048B, 4.3.1).
#[bitfield(u32)]
struct Ctlr {
    group0: bool,
    group1: bool,
    #[bits(30)]
    __: u32,
}

/// GICD_TYPER (IHI 0048B, 4.3.2).
#[bitfield(u32)]
struct Typer {
    /// The number of words of 32 ids, minus one.
    #[bits(5)]
    id_words: u32,
    /// The number of CPU interfaces, minus one.
    #[bits(3)]
    cpus: u32,
    #[bits(24)]
    __: u32,
}

/// The identification registers from 0xfd0 on (IHI 0048B, 4.3.18), with the values that QEMU
/// shows: a GICv2.
fn id_register(offset: u64) -> Option<u64> {
    const VALUES: [u8; 12] = [4, 0, 0, 0, 0x90, 0xb4, 0x2b, 0, 0x0d, 0xf0, 0x05, 0xb1];
    let index = offset.checked_sub(ID_REGISTERS)? / 4;
    VALUES.get(index as usize).map(|value| u64::from(*value))
}

/// What is at an offset, if the width of the access is allowed there.
enum Register {
    /// A register with a bit, two bits or a byte for each interrupt. Without a bank it reads as
    /// zero.
    Shared(InterruptPlace, Shared),
    /// GICD_ITARGETSR, from this interrupt on.
    Targets(u32),
    /// GICD_CPENDSGIR, from this SGI on.
    ClearSenders(u32),
    /// GICD_SPENDSGIR, from this SGI on.
    SetSenders(u32),
    /// Any other register, of one word.
    Word,
}

impl Register {
    /// IHI 0048B, 4.1.4: words are allowed everywhere, bytes where a register has one for each
    /// interrupt.
    fn at(vcpu: VcpuId, offset: u64, width: Width) -> Option<Self> {
        let from = |start: u64| (offset - start) as u32;
        let (register, bytes) = match offset {
            TARGETS..TARGETS_END => (Self::Targets(from(TARGETS)), true),
            CLEAR_SENDERS..SET_SENDERS => (Self::ClearSenders(from(CLEAR_SENDERS)), true),
            SET_SENDERS..SET_SENDERS_END => (Self::SetSenders(from(SET_SENDERS)), true),
            _ if IMPLEMENTATION.contains(&offset) => return None,
            _ => match Shared::decode(offset) {
                Some(shared) => (
                    Self::Shared(shared_place(vcpu, shared), shared),
                    shared.takes_bytes(offset),
                ),
                None => (Self::Word, false),
            },
        };
        (width == Width::Word || bytes && width == Width::Byte).then_some(register)
    }
}

fn shared_place(vcpu: VcpuId, shared: Shared) -> InterruptPlace {
    let word = match (shared.first() / 32) as usize {
        word @ 0..=SPI_BANKS => word,
        _ => usize::MAX,
    };
    InterruptPlace {
        cpu: vcpu.index(),
        word,
    }
}

impl Vgic {
    pub(crate) fn read_v2(&mut self, vcpu: VcpuId, offset: u64, width: Width) -> Option<Read> {
        self.cpu(vcpu.index())?;
        Some(match Register::at(vcpu, offset, width)? {
            Register::Shared(place, shared) => self.read_shared(place, shared, width),
            Register::Targets(first) => self.read_targets(vcpu, first, width).into(),
            Register::ClearSenders(first) | Register::SetSenders(first) => {
                self.read_senders(vcpu, first, width)
            }
            Register::Word => self.read_v2_word(offset)?.into(),
        })
    }

    pub(crate) fn write_v2(
        &mut self,
        vcpu: VcpuId,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Option<VcpuSet> {
        self.cpu(vcpu.index())?;
        Some(match Register::at(vcpu, offset, width)? {
            Register::Shared(place, shared) => self.write_shared(place, shared, width, value),
            Register::Targets(first) => self.write_targets(first, width, value),
            Register::ClearSenders(first) => self.write_senders(vcpu, first, width, value, false),
            Register::SetSenders(first) => self.write_senders(vcpu, first, width, value, true),
            Register::Word => self.write_v2_word(vcpu, offset, value as u32)?,
        })
    }

    pub(crate) fn read_v2_word(&self, offset: u64) -> Option<u64> {
        match offset {
            CTLR => {
                let ctlr = Ctlr::new()
                    .with_group0(self.groups.group0 != 0)
                    .with_group1(self.groups.group1 != 0);
                Some(u64::from(ctlr.into_bits()))
            }
            TYPER => {
                let typer = Typer::new()
                    .with_id_words(IDS / 32 - 1)
                    .with_cpus((self.vcpus as u32).saturating_sub(1));
                Some(u64::from(typer.into_bits()))
            }
            IIDR => Some(IIDR_VALUE),
            SGIR => Some(0),
            ID_REGISTERS..FRAME_SIZE => id_register(offset),
            _ => None,
        }
    }

    fn write_v2_word(&mut self, vcpu: VcpuId, offset: u64, value: u32) -> Option<VcpuSet> {
        match offset {
            CTLR => {
                let ctlr = Ctlr::from_bits(value);
                Some(self.forward(Groups::new(ctlr.group0(), ctlr.group1())))
            }
            SGIR => Some(self.write_sgir(vcpu, value)),
            TYPER | IIDR | ID_REGISTERS..FRAME_SIZE => Some(VcpuSet::EMPTY),
            _ => None,
        }
    }

    /// GICD_ITARGETSR (IHI 0048B, 4.3.12): for a private interrupt the reader's own bit; with a
    /// single CPU, zero.
    fn read_targets(&self, vcpu: VcpuId, first: u32, width: Width) -> u64 {
        if self.vcpus == 1 {
            return 0;
        }
        (0..width.bytes() as u32).fold(0, |value, n| {
            let targets = match (first + n).checked_sub(32) {
                None => 1u8.checked_shl(vcpu.index() as u32).unwrap_or(0),
                Some(spi) => self
                    .routes
                    .get(spi as usize)
                    .map_or(0, |route| route.targets()),
            };
            value | u64::from(targets) << (8 * n)
        })
    }

    fn write_targets(&mut self, first: u32, width: Width, value: u64) -> VcpuSet {
        if self.vcpus == 1 {
            return VcpuSet::EMPTY;
        }
        // All interrupts of one register are in one word.
        let mut moved = 0;
        let bytes = value.to_le_bytes();
        for (id, targets) in (first..).zip(bytes.iter().take(width.bytes() as usize)) {
            let targets = targets & self.cpu_interfaces();
            moved |= self.set_route(id as usize, Route::to_one_of(targets));
        }
        self.touch(spi_place(first as usize), moved)
    }
}
