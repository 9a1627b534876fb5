//! A vCPU's redistributor (IHI 0069, chapter 12, GICR_*): RD_base, then SGI_base, which has
//! the distributor's registers for the private interrupts.

use crate::bank::SPI_BANKS;
use crate::dist::{ID_REGISTERS, IIDR_VALUE, id_register};
use crate::frame::{Read, Shared};
use crate::state::{InterruptPlace, Vgic};
use bitfield_struct::bitfield;
use hanok_types::{VcpuId, VcpuSet, Width};

const CTLR: u64 = 0x0000;
const IIDR: u64 = 0x0004;
const TYPER: u64 = 0x0008;
const TYPER_HIGH: u64 = 0x000c;
const STATUSR: u64 = 0x0010;
const WAKER: u64 = 0x0014;
const SGI_BASE: u64 = 0x1_0000;
const FRAME_SIZE: u64 = 0x1_0000;

/// GICR_CTLR: without LPIs only that writes take effect.
#[bitfield(u32)]
struct Ctlr {
    #[bits(3)]
    __: u8,
    rwp: bool,
    #[bits(28)]
    __: u32,
}

/// GICR_TYPER.
#[bitfield(u64)]
struct Typer {
    #[bits(4)]
    __: u8,
    /// The last redistributor of the region.
    last: bool,
    #[bits(3)]
    __: u8,
    processor: u16,
    #[bits(8)]
    __: u8,
    affinity: u32,
}

/// GICR_WAKER.
#[bitfield(u32)]
struct Waker {
    __: bool,
    processor_sleep: bool,
    children_asleep: bool,
    #[bits(29)]
    __: u32,
}

impl Vgic {
    pub(crate) fn read_redist(&mut self, vcpu: VcpuId, offset: u64, width: Width) -> Option<Read> {
        self.cpu(vcpu.index())?;
        match (offset.checked_sub(SGI_BASE), width) {
            (_, Width::Half) => None,
            (None, Width::Double) => (offset == TYPER).then(|| self.typer(vcpu).into()),
            (None, Width::Word) => self.read_rd_word(vcpu, offset).map(Read::from),
            (None, Width::Byte) | (Some(_), Width::Double) => None,
            (Some(offset), width) => {
                if let Some((place, shared)) = sgi_shared(vcpu, offset, width) {
                    return Some(self.read_shared(place, shared, width));
                }
                let word = width == Width::Word;
                word.then(|| id_register(offset).map(Read::from))?
            }
        }
    }

    pub(crate) fn write_redist(
        &mut self,
        vcpu: VcpuId,
        offset: u64,
        width: Width,
        value: u64,
    ) -> Option<VcpuSet> {
        self.cpu(vcpu.index())?;
        match (offset.checked_sub(SGI_BASE), width) {
            (_, Width::Half) => None,
            (None, Width::Double) => (offset == TYPER).then_some(VcpuSet::EMPTY),
            (None, Width::Word) => self.write_rd_word(vcpu, offset, value),
            (None, Width::Byte) | (Some(_), Width::Double) => None,
            (Some(offset), width) => {
                let (place, shared) = sgi_shared(vcpu, offset, width)?;
                Some(self.write_shared(place, shared, width, value))
            }
        }
    }

    fn read_rd_word(&self, vcpu: VcpuId, offset: u64) -> Option<u64> {
        let cpu = self.cpu(vcpu.index())?;
        match offset {
            CTLR => {
                let ctlr = Ctlr::new().with_rwp(cpu.refold && cpu.used != 0);
                Some(u64::from(ctlr.into_bits()))
            }
            IIDR => Some(IIDR_VALUE),
            TYPER => Some(self.typer(vcpu) & u64::from(u32::MAX)),
            TYPER_HIGH => Some(self.typer(vcpu) >> 32),
            STATUSR => Some(0),
            WAKER => {
                let waker = Waker::new()
                    .with_processor_sleep(cpu.asleep)
                    .with_children_asleep(cpu.asleep);
                Some(u64::from(waker.into_bits()))
            }
            ID_REGISTERS..FRAME_SIZE => id_register(offset),
            _ => None,
        }
    }

    fn write_rd_word(&mut self, vcpu: VcpuId, offset: u64, value: u64) -> Option<VcpuSet> {
        match offset {
            WAKER => {
                let asleep = Waker::from_bits(value as u32).processor_sleep();
                Some(self.set_asleep(vcpu, asleep))
            }
            CTLR | IIDR | TYPER | TYPER_HIGH | STATUSR | ID_REGISTERS..FRAME_SIZE => {
                Some(VcpuSet::EMPTY)
            }
            _ => None,
        }
    }

    fn typer(&self, vcpu: VcpuId) -> u64 {
        let index = vcpu.index();
        Typer::new()
            .with_affinity(vcpu.affinity() as u32)
            .with_processor(index as u16)
            .with_last(index + 1 == self.vcpus)
            .into_bits()
    }

    /// Sleep only takes a vCPU out of the choice for SPIs that any vCPU may take. Interrupts that are
    /// sent to it are still delivered, as on QEMU, so that a guest works that never wakes it.
    fn set_asleep(&mut self, vcpu: VcpuId, asleep: bool) -> VcpuSet {
        if let Some(cpu) = self.cpu_mut(vcpu.index()) {
            cpu.asleep = asleep;
        }
        let Some((former, participant)) = self.change_participant() else {
            return VcpuSet::EMPTY;
        };
        (1..=SPI_BANKS).fold(VcpuSet::EMPTY, |touched, word| {
            let place = InterruptPlace { cpu: 0, word };
            let any = self.any.get(word - 1).copied().unwrap_or(0);
            self.reroute(place, any, Some(former), Some(participant));
            touched.union(self.touch_moved(place, any, participant))
        })
    }

    /// [`Self::touch`] for SPIs whose route was changed to `target` and nothing else: only the homes of
    /// listed ones are looked up.
    fn touch_moved(&mut self, place: InterruptPlace, moved: u32, target: usize) -> VcpuSet {
        let groups = self.groups;
        let Some(bank) = self.bank(place) else {
            return VcpuSet::EMPTY;
        };
        let (listed, candidates) = (moved & bank.listed, moved & bank.candidates(groups));
        let marked = self.mark_listed(place, listed);
        match candidates {
            0 => marked,
            _ => marked.union(self.mark(target, place)),
        }
    }
}

/// A register of SGI_base with a part for each private interrupt.
fn sgi_shared(vcpu: VcpuId, offset: u64, width: Width) -> Option<(InterruptPlace, Shared)> {
    let shared = Shared::decode(offset)?;
    let fits = width == Width::Word || shared.takes_bytes(offset);
    let place = InterruptPlace {
        cpu: vcpu.index(),
        word: 0,
    };
    // SGI_base has no ITARGETSR.
    let there = shared.first() < 32 && !(0x800..0xc00).contains(&offset);
    (fits && there).then_some((place, shared))
}
