//! The distributor's own registers (IHI 0069, chapter 12, GICD_*).

use crate::bank::Groups;
use crate::bank::{SPI_BANKS, WORDS};
use crate::frame::{INTERRUPTS, Read, Shared};
use crate::state::{IDS, InterruptPlace, Route, Vgic, spi_index};
use bitfield_struct::bitfield;
use hanok_types::{VcpuSet, Width};

const CTLR: u64 = 0x0000;
const TYPER: u64 = 0x0004;
const IIDR: u64 = 0x0008;
const STATUSR: u64 = 0x0010;
const SGIR: u64 = 0x0f00;
const SGI_PENDING: u64 = 0x0f10;
const SGI_PENDING_END: u64 = 0x0f30;
const IROUTER: u64 = 0x6000;
const IROUTER_SPIS: u64 = IROUTER + 32 * 8;
const IROUTER_END: u64 = IROUTER + 1020 * 8;
pub(crate) const ID_REGISTERS: u64 = 0xffd0;
const FRAME_SIZE: u64 = 0x1_0000;

/// GICD_IIDR: implementer Arm, as on QEMU. Drivers choose workarounds for errata by it, and have none for
/// this value.
pub(crate) const IIDR_VALUE: u64 = 0x43b;

/// GICD_CTLR with a single security state (IHI 0069, GICD_CTLR, "When GICD_CTLR.DS==1").
#[bitfield(u32)]
struct Ctlr {
    group0: bool,
    group1: bool,
    #[bits(2)]
    __: u8,
    /// Affinity routing, always on.
    are: bool,
    __: bool,
    /// A single security state, always.
    ds: bool,
    #[bits(24)]
    __: u32,
    /// A register write has not taken effect at every vCPU yet.
    rwp: bool,
}

/// GICD_TYPER.
#[bitfield(u32)]
struct Typer {
    /// Words of 32 ids, less one.
    #[bits(5)]
    id_words: u32,
    /// Zero, as affinity routing is always on.
    #[bits(3)]
    cpus: u32,
    #[bits(11)]
    __: u32,
    /// Bits of an id, less one.
    #[bits(5)]
    id_bits: u32,
    /// Affinity level 3 may be other than zero.
    a3v: bool,
    #[bits(7)]
    __: u32,
}

/// The identification registers from 0xffd0 on, the same in GICD and GICR (IHI 0069,
/// "Identification registers"): a GICv3, of the part number that QEMU shows.
pub(crate) fn id_register(offset: u64) -> Option<u64> {
    const VALUES: [u8; 12] = [0x44, 0, 0, 0, 0x92, 0xb4, 0x3b, 0, 0x0d, 0xf0, 0x05, 0xb1];
    let index = offset.checked_sub(ID_REGISTERS)? / 4;
    VALUES.get(index as usize).map(|value| u64::from(*value))
}

impl Vgic {
    pub(crate) fn read_dist(&mut self, offset: u64, width: Width) -> Option<Read> {
        match width {
            Width::Word | Width::Byte => {
                // None of those before IGROUPR has a part for each interrupt.
                if (offset >= INTERRUPTS || width == Width::Byte)
                    && let Some((place, shared)) = self.dist_shared(offset, width)?
                {
                    return Some(self.read_shared(place, shared, width));
                }
                self.read_dist_word(offset).map(Read::from)
            }
            Width::Double => self.read_route(offset).map(Read::from),
            Width::Half => None,
        }
    }

    pub(crate) fn write_dist(&mut self, offset: u64, width: Width, value: u64) -> Option<VcpuSet> {
        match width {
            Width::Word | Width::Byte => {
                if let Some((place, shared)) = self.dist_shared(offset, width)? {
                    return Some(self.write_shared(place, shared, width, value));
                }
                self.write_dist_word(offset, value)
            }
            Width::Double => self.write_route(offset, value),
            Width::Half => None,
        }
    }

    /// A register with a part for each interrupt, and the place of its interrupts. Private interrupts and
    /// those that do not exist have no place (they read as zero, and writes are ignored).
    /// `None` if the width does not fit, `Some(None)` if it is no such register.
    fn dist_shared(&self, offset: u64, width: Width) -> Option<Option<(InterruptPlace, Shared)>> {
        let Some(shared) = Shared::decode(offset) else {
            return (width == Width::Word).then_some(None);
        };
        if width == Width::Byte && !shared.takes_bytes(offset) {
            return None;
        }
        let word = match (shared.first() / 32) as usize {
            word @ 1..=SPI_BANKS => word,
            _ => usize::MAX,
        };
        Some(Some((InterruptPlace { cpu: 0, word }, shared)))
    }

    pub(crate) fn read_dist_word(&self, offset: u64) -> Option<u64> {
        match offset {
            CTLR => Some(u64::from(self.ctlr().into_bits())),
            TYPER => Some(u64::from(
                Typer::new()
                    .with_id_words(IDS / 32 - 1)
                    .with_id_bits(9)
                    .with_a3v(true)
                    .into_bits(),
            )),
            IIDR => Some(IIDR_VALUE),
            STATUSR | SGIR | SGI_PENDING..SGI_PENDING_END => Some(0),
            IROUTER_SPIS..IROUTER_END => {
                let route = self.read_route(offset & !7)?;
                Some(route >> (8 * (offset & 4)) & u64::from(u32::MAX))
            }
            ID_REGISTERS..FRAME_SIZE => id_register(offset),
            _ => None,
        }
    }

    fn write_dist_word(&mut self, offset: u64, value: u64) -> Option<VcpuSet> {
        match offset {
            CTLR => Some(self.write_ctlr(Ctlr::from_bits(value as u32))),
            TYPER | IIDR | STATUSR | SGIR | SGI_PENDING..SGI_PENDING_END => Some(VcpuSet::EMPTY),
            IROUTER_SPIS..IROUTER_END => {
                let old = self.read_route(offset & !7)?;
                let shift = 8 * (offset & 4);
                let keep = old & !(u64::from(u32::MAX) << shift);
                self.write_route(offset & !7, keep | value << shift)
            }
            ID_REGISTERS..FRAME_SIZE => Some(VcpuSet::EMPTY),
            _ => None,
        }
    }

    fn ctlr(&self) -> Ctlr {
        let unsettled = |cpu: &crate::state::Cpu| cpu.refold && cpu.used != 0;
        Ctlr::new()
            .with_group0(self.groups.group0 != 0)
            .with_group1(self.groups.group1 != 0)
            .with_are(true)
            .with_ds(true)
            .with_rwp(self.cpus.position(unsettled).is_some())
    }

    fn write_ctlr(&mut self, new: Ctlr) -> VcpuSet {
        self.forward(Groups::new(new.group0(), new.group1()))
    }

    /// Enables the forwarding of these groups.
    pub(crate) fn forward(&mut self, groups: Groups) -> VcpuSet {
        if core::mem::replace(&mut self.groups, groups) == groups {
            return VcpuSet::EMPTY;
        }
        // All vCPUs are marked: to find out which ones are concerned would take longer than their entries.
        self.cpus.each(|_, cpu| {
            cpu.attention = true;
            cpu.refold = true;
            cpu.words = (1 << WORDS) - 1;
        });
        VcpuSet::first(self.vcpus)
    }

    fn read_route(&self, offset: u64) -> Option<u64> {
        let id = route_id(offset)?;
        let route = id.checked_sub(32).and_then(|spi| self.routes.get(spi));
        Some(route.map_or(0, |route| route.into_bits()))
    }

    fn write_route(&mut self, offset: u64, value: u64) -> Option<VcpuSet> {
        let id = route_id(offset)?;
        let mask = self.set_route(id, Route::from_bits(value).writable());
        Some(self.touch(spi_place(id), mask))
    }

    /// Routes interrupt `id`. The answer is its bit, which the caller must touch. An id that is no SPI is
    /// ignored.
    pub(crate) fn set_route(&mut self, id: usize, new: Route) -> u32 {
        let place = spi_place(id);
        let bit = (id % 32) as u32;
        let former = self.target_of(place, bit);
        let Some(route) = spi_index(place, bit).and_then(|spi| self.routes.get_mut(spi)) else {
            return 0;
        };
        *route = new;
        let mask = 1 << bit;
        if let Some(any) = place
            .word
            .checked_sub(1)
            .and_then(|spi| self.any.get_mut(spi))
        {
            *any = *any & !mask | if new.any() { mask } else { 0 };
        }
        self.reroute(place, mask, former, self.resolve(new));
        mask
    }

    /// Routes the SPIs `mask` of a word, which were routed to `former`, to `target`.
    pub(crate) fn reroute(
        &mut self,
        place: InterruptPlace,
        mask: u32,
        former: Option<usize>,
        target: Option<usize>,
    ) {
        let Some(spi) = place.word.checked_sub(1) else {
            return;
        };
        let mut set = |cpu: Option<usize>, to: u32| {
            let cpu = cpu.and_then(|cpu| self.cpus.get_mut(cpu));
            if let Some(routed) = cpu.and_then(|cpu| cpu.routed.get_mut(spi)) {
                *routed = *routed & !mask | to;
            }
        };
        set(former, 0);
        set(target, mask);
    }
}

impl Route {
    /// Clears the reserved bits.
    fn writable(self) -> Self {
        Self::new()
            .with_aff0(self.aff0())
            .with_aff1(self.aff1())
            .with_aff2(self.aff2())
            .with_aff3(self.aff3())
            .with_any(self.any())
    }
}

/// The word and bit of interrupt `id`, if it is an SPI.
pub(crate) const fn spi_place(id: usize) -> InterruptPlace {
    InterruptPlace {
        cpu: 0,
        word: id / 32,
    }
}

/// The interrupt whose route lies at `offset`.
fn route_id(offset: u64) -> Option<usize> {
    (IROUTER_SPIS..IROUTER_END)
        .contains(&offset)
        .then(|| ((offset - IROUTER) / 8) as usize)
}
