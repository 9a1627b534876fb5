//! The registers that are written: of those with a field for each interrupt the first ones, some in
//! the middle and the last ones, those beyond the end included; of all others each.

use crate::cases::schedule;
use crate::gic;
use crate::machine::Machine;
use core::fmt;
use hanok_types::{GicVersion, platform};

/// A register.
#[derive(Clone, Copy)]
pub struct RegisterPlace {
    frame: &'static str,
    index: usize,
    base: u64,
    /// The offset in its frame.
    pub offset: u64,
    /// Its effect on the controller is not undone by restoring the words of one register.
    pub spoils: bool,
}

impl RegisterPlace {
    /// Its address.
    pub fn address(&self) -> u64 {
        self.base + self.offset
    }
}

impl fmt::Display for RegisterPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{} {:#x}", self.frame, self.index, self.offset)
    }
}

/// Registers of one word each, before those with a field for each interrupt.
const OWN: [u64; 10] = [0, 4, 8, 0xc, 0x10, 0x14, 0x18, 0x40, 0x48, 0x7c];
/// Where the registers with a bit for each interrupt begin.
const BITS: [u64; 7] = [0x80, 0x100, 0x180, 0x200, 0x280, 0x300, 0x380];
/// Which words of these are written.
const WORDS: [u64; 7] = [0, 4, 8, 0x10, 0x20, 0x24, 0x7c];
/// The registers with a byte for each interrupt, and those of a GICv2's targets.
const BYTES: [u64; 2] = [0x400, 0x800];
/// Which words of these are written.
const FOURS: [u64; 8] = [0, 4, 0x1c, 0x20, 0x24, 0x80, 0x11c, 0x120];
/// The rest of a distributor's first page.
const REST: [u64; 16] = [
    0xc00, 0xc04, 0xc08, 0xc0c, 0xc20, 0xc44, 0xc48, 0xd00, 0xd04, 0xe00, 0xf00, 0xf04, 0xf10,
    0xf1c, 0xf20, 0xf2c,
];
/// The SPIs whose GICD_IROUTER is written.
const ROUTES: [u64; 7] = [0x6100, 0x6104, 0x6108, 0x6200, 0x68f8, 0x6900, 0x7fd8];

fn first_page() -> impl Iterator<Item = u64> {
    let bits = BITS.iter().flat_map(|base| WORDS.map(|word| base + word));
    let bytes = BYTES.iter().flat_map(|base| FOURS.map(|word| base + word));
    OWN.into_iter().chain(bits).chain(bytes).chain(REST)
}

fn spoils(offset: u64) -> bool {
    matches!(offset, 0..0x80 | 0x800..0xc00 | 0xf00..0x1000 | 0x6000..)
}

/// The registers of the interrupt controller. A GICv2's CPU interface belongs to the CPU: no access
/// to it is an exit.
pub fn interrupts(machine: &Machine) -> impl Iterator<Item = RegisterPlace> {
    let v3 = machine.gic == GicVersion::V3;
    let base = gic::distributor();
    let identification = if v3 { 0xffe8 } else { 0xfe8 };
    let offsets = first_page().chain([identification]);
    let distributor = offsets.chain(ROUTES.into_iter().filter(move |_| v3));
    let distributor = distributor.map(move |offset| RegisterPlace {
        frame: "GICD",
        index: 0,
        base,
        offset,
        spoils: spoils(offset),
    });
    // The first, another one, and the last.
    let last = machine.cpus - 1;
    let redistributors = [0, last / 2, last].into_iter().filter(move |_| v3);
    let redistributors = redistributors.flat_map(|index| {
        let registers = OWN
            .into_iter()
            .chain([0xffe8])
            .map(move |offset| RegisterPlace {
                frame: "GICR",
                index,
                base: gic::v3::redistributor(index),
                offset,
                spoils: true,
            });
        let private = BITS
            .into_iter()
            .chain([0x400, 0x404, 0x41c, 0xc00, 0xc04, 0xd00, 0xe00]);
        let private = private.map(move |offset| RegisterPlace {
            frame: "GICR-SGI",
            index,
            base: gic::v3::private_frame(index),
            offset,
            spoils: false,
        });
        registers.chain(private)
    });
    distributor.chain(redistributors)
}

/// The registers of the interrupt controller whose writes concern all CPUs, or one of the last.
pub fn of_all_cpus(machine: &Machine) -> impl Iterator<Item = RegisterPlace> {
    const OFFSETS: [(u64, bool); 11] = [
        (0x84, false),
        (0x104, false),
        (0x184, false),
        (0x204, false),
        (0x284, false),
        (0x304, false),
        (0x384, false),
        (0x404, false),
        (0xc08, false),
        (0, true),
        (0x6100, true),
    ];
    let last = machine.cpus - 1;
    let distributor = OFFSETS.map(|(offset, spoils)| RegisterPlace {
        frame: "GICD",
        index: 0,
        base: gic::distributor(),
        offset,
        spoils,
    });
    let waker = RegisterPlace {
        frame: "GICR",
        index: last,
        base: gic::v3::redistributor(last),
        offset: 0x14,
        spoils: true,
    };
    distributor.into_iter().chain([waker])
}

/// The registers of the other devices, and addresses without a device.
pub fn others(machine: &Machine) -> impl Iterator<Item = RegisterPlace> {
    // The serial port's data register is last, since it prints characters without meaning.
    let serial = (1..0x14).chain([0x3f8, 0x3fc, 0]).map(|word| word * 4);
    let clock = (0..9).chain([0x3f8, 0x3ff]).map(|word| word * 4);
    let slot = (0..0x44).step_by(3).map(|word| word * 4);
    let one = |frame, base: u64| {
        move |offset| RegisterPlace {
            frame,
            index: 0,
            base,
            offset,
            spoils: false,
        }
    };
    let calls = (0..0x11).chain([0x3ff]).map(|word| word * 4);
    let nowhere = machine.ram_end();
    serial
        .map(one("UART", platform::UART.get()))
        .chain(clock.map(one("RTC", platform::RTC.get())))
        .chain(slot.map(one("virtio", platform::VIRTIO.get())))
        .chain(calls.map(one("schedule", schedule::DEVICE)))
        .chain([0, 0x1000].map(one("flash", platform::FLASH.get())))
        .chain([0, 0x1000].map(one("nothing", nowhere)))
        .chain([0, 0x1000].map(one("nothing", 0x0b00_0000)))
}
