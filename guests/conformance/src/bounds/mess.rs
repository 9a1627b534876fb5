//! States of the interrupt controller in which a single register write costs the hypervisor much
//! work.

use crate::machine::Machine;
use crate::{gic, mmio};
use gic::{
    ICACTIVER, ICENABLER, ICFGR, ICPENDR, IGROUPR, IPRIORITYR, ISACTIVER, ISENABLER, ISPENDR,
};
use hanok_types::{GicVersion, platform};

/// Registers of 32 SPIs each, after the first one, which is of the private interrupts.
const SPI_WORDS: u64 = platform::SPIS as u64 / 32;

/// One such state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mess {
    /// Every interrupt disabled, and neither pending nor active.
    Nothing,
    /// All pending and enabled at the first CPU.
    AtMe,
    /// All pending and enabled, each routed to another CPU than the one before.
    AtAll,
    /// All pending and enabled, routed to any CPU (with a GICv2: to all of them).
    AtAny,
    /// All pending, enabled and active at once.
    Active,
    /// All level-triggered, pending and disabled.
    Disabled,
}

/// All states.
pub const ALL: [Mess; 6] = [
    Mess::Nothing,
    Mess::AtMe,
    Mess::AtAll,
    Mess::AtAny,
    Mess::Active,
    Mess::Disabled,
];

impl Mess {
    /// The state's name in the report.
    pub fn name(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::AtMe => "at one",
            Self::AtAll => "at all",
            Self::AtAny => "at any",
            Self::Active => "active",
            Self::Disabled => "disabled",
        }
    }

    /// Brings the interrupt controller into this state from any other.
    pub fn make(self, machine: &Machine) {
        forward(0);
        for spi in 0..platform::SPIS {
            self.route(machine, 32 + spi);
        }
        for index in 0..machine.cpus {
            if machine.gic == GicVersion::V3 {
                // The redistributor is awake.
                mmio::write32(gic::v3::redistributor(index) + WAKER, 0);
            }
        }
        for frame in frames(machine) {
            frame.each(|base, word| {
                // A later interrupt is more urgent: each comes before all that were found before
                // it.
                for quarter in 0..8 {
                    let urgency = 31 - (word * 8 + quarter) * 31 / (8 * (SPI_WORDS + 1));
                    let value = (urgency as u32) << 3;
                    let at = base + IPRIORITYR + word * 32 + quarter * 4;
                    mmio::write32(at, value * 0x0101_0101);
                }
                let trigger = match self {
                    Self::Disabled => 0,
                    _ => 0xaaaa_aaaa,
                };
                mmio::write32(base + ICFGR + word * 8, trigger);
                mmio::write32(base + ICFGR + word * 8 + 4, trigger);
                self.word(base, word);
            });
        }
        forward(BOTH);
    }

    /// Restores the state after one register, at `offset` of its frame, may have been written.
    pub fn mend(self, offset: u64) {
        forward(BOTH);
        let word = match offset {
            0x080..0x400 => offset % 0x80 / 4,
            0x400..0xc00 => offset % 0x400 / 32,
            0xc00..0xd00 => offset % 0x100 / 8,
            0x6000..0x8000 => (offset - 0x6000) / 256,
            _ => return,
        };
        if word <= SPI_WORDS {
            let base = match word {
                0 => gic::frame(0),
                _ => gic::distributor(),
            };
            self.word(base, word);
        }
    }

    fn word(self, base: u64, word: u64) {
        let write = |register: u64, value| mmio::write32(base + register + word * 4, value);
        let all = u32::MAX;
        write(IGROUPR, 0xffff_0000 ^ word as u32);
        match self {
            Self::Nothing => {
                write(ICENABLER, all);
                write(ICPENDR, all);
                write(ICACTIVER, all);
            }
            Self::AtMe | Self::AtAll | Self::AtAny => {
                write(ICACTIVER, all);
                write(ISENABLER, all);
                write(ISPENDR, all);
            }
            Self::Active => {
                write(ISENABLER, all);
                write(ISPENDR, all);
                write(ISACTIVER, all);
            }
            Self::Disabled => {
                write(ICENABLER, all);
                write(ICACTIVER, all);
                write(ISPENDR, all);
            }
        }
    }

    fn route(self, machine: &Machine, id: u32) {
        let cpus = machine.cpus;
        match (self, machine.gic) {
            (Self::AtAny, GicVersion::V3) => {
                mmio::write32(
                    gic::distributor() + gic::v3::IROUTER + u64::from(id) * 8,
                    1 << 31,
                );
            }
            (Self::AtAny, GicVersion::V2) => gic::v2::target(id, 0xff),
            (Self::AtAll | Self::Active, _) => gic::route(id, id as usize % cpus),
            _ => gic::route(id, 0),
        }
    }
}

/// GICR_WAKER.
const WAKER: u64 = 0x14;
/// GICD_CTLR with both groups forwarded.
const BOTH: u32 = 3;

/// GICD_CTLR: which groups are forwarded.
fn forward(groups: u32) {
    mmio::write32(gic::distributor(), groups);
}

/// A register frame with interrupts, and its words of 32 interrupts each.
struct Frame {
    base: u64,
    first: u64,
    end: u64,
}

impl Frame {
    fn each(&self, mut one: impl FnMut(u64, u64)) {
        (self.first..self.end).for_each(|word| one(self.base, word));
    }
}

fn frames(machine: &Machine) -> impl Iterator<Item = Frame> + '_ {
    let private = (0..machine.cpus).filter(|_| machine.gic == GicVersion::V3);
    let private = private.map(|index| Frame {
        base: gic::v3::private_frame(index),
        first: 0,
        end: 1,
    });
    let first = match machine.gic {
        GicVersion::V3 => 1,
        GicVersion::V2 => 0,
    };
    private.chain(core::iter::once(Frame {
        base: gic::distributor(),
        first,
        end: 1 + SPI_WORDS,
    }))
}
