//! The translation by short descriptors (DDI 0406C, B3.5), for CPUs that have no others.

use super::{CODE, DATA, GARBAGE, GIGABYTE, PAGE, USER_CODE, USER_DEVICES, USER_REACH, flush};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// TTBCR: TTBR0 alone, by short descriptors.
pub const TTBCR: u32 = 0;
/// TTBCR with TTBR0's half alone: TTBR1 has the upper half of the addresses.
const HALVES: u32 = 1;
/// DACR: accesses in domain 0 are checked, all others fault.
pub const DOMAINS: u32 = 1;
/// Attributes of TTBR0: walks are write-back and shareable (B4.1.154).
pub const WALKS: u32 = 1 << 6 | 1 << 3 | 1 << 1;

/// Where the gigabyte of physical addresses is mapped that was asked for last. Behind it are the megabytes in
/// one of which a hypervisor without virtualization hardware has to be.
const EVERYTHING: u32 = 0xb000_0000;

/// A first-level table.
#[repr(C, align(16384))]
pub struct Root(pub [AtomicU32; 4096]);

impl Root {
    /// An empty one.
    pub const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; 4096])
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }

    /// The descriptor of the megabyte at `address`.
    pub fn at(&self, address: u32) -> &AtomicU32 {
        &self.0[(address >> 20) as usize]
    }
}

/// A second-level table.
#[repr(C, align(1024))]
pub struct Pages(pub [AtomicU32; 256]);

impl Pages {
    /// An empty one.
    pub const fn new() -> Self {
        Self([const { AtomicU32::new(0) }; 256])
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        core::ptr::from_ref(self).addr() as u64
    }
}

/// The first level.
pub static ROOT: Root = Root::new();
/// The first level of the upper half, where a step makes that one up.
pub static UPPER: Root = Root::new();
static USER: Pages = Pages::new();

/// A first-level descriptor of a second-level table, in domain 0.
pub const TABLE: u32 = 1;
/// A section: PL1 may read and write.
pub const SECTION: u32 = 2 | 1 << 10;
/// ... and User mode, too.
const SECTION_USER: u32 = 1 << 11;
const SECTION_DEVICE: u32 = SECTION_NEVER | 1 << 2;
/// Write-back memory, shareable.
pub const SECTION_NORMAL: u32 = 1 << 12 | 1 << 3 | 1 << 2 | 1 << 16;
/// A section of which nothing may be executed.
pub const SECTION_NEVER: u32 = 1 << 4;

/// A small page of write-back memory, shareable, that PL1 may read and write.
const PAGE_NORMAL: u32 = 2 | 1 << 4 | 1 << 6 | 1 << 3 | 1 << 2 | 1 << 10;
const PAGE_USER: u32 = 1 << 5;
const PAGE_READ_ONLY: u32 = 1 << 9;
const PAGE_NEVER: u32 = 1;

/// Fills the tables.
pub fn build() {
    for (index, entry) in (0..2048).zip(&ROOT.0) {
        let kind = if index < 1024 {
            SECTION | SECTION_DEVICE
        } else {
            SECTION | SECTION_NORMAL
        };
        entry.store(index << 20 | kind, Relaxed);
    }
    ROOT.at(USER_CODE)
        .store(USER.address() as u32 | TABLE, Relaxed);
    let page = PAGE_NORMAL | PAGE_USER;
    USER.0[0].store(CODE.address() as u32 | page | PAGE_READ_ONLY, Relaxed);
    USER.0[1].store(DATA.address() as u32 | page | PAGE_NEVER, Relaxed);
    let device = SECTION | SECTION_USER | SECTION_DEVICE;
    for at in (0..USER_REACH as u32).step_by(1 << 20) {
        ROOT.at(USER_DEVICES + at).store(at | device, Relaxed);
    }
}

/// Switches to the tables.
pub fn switch() {
    write_sysreg!("dacr32_el2", DOMAINS.into());
    write_sysreg!("ttbr0_32", ROOT.address() | u64::from(WALKS));
    write_sysreg!("tcr_el1", TTBCR.into());
    flush();
}

/// As [`super::window`].
pub fn window(physical: u64, for_user: bool) -> u32 {
    const PL1: usize = 2;
    const USER_SLOT: usize = 3;
    let page = (physical & !(PAGE - 1)) as u32 | PAGE_NORMAL | PAGE_READ_ONLY;
    let (slot, descriptor) = if for_user {
        (USER_SLOT, page | PAGE_USER)
    } else {
        (PL1, page)
    };
    // Break before make (B3.10.1).
    USER.0[slot].store(0, Relaxed);
    flush();
    USER.0[slot].store(descriptor, Relaxed);
    flush();
    USER_CODE + slot as u32 * PAGE as u32
}

/// As [`super::everywhere`].
pub fn everywhere(physical: u64) -> u32 {
    let first = (physical / GIGABYTE * GIGABYTE) as u32;
    if u64::from(first) == GIGABYTE {
        return physical as u32;
    }
    let section = |megabyte: u32| (first + (megabyte << 20)) | SECTION | SECTION_DEVICE;
    if ROOT.at(EVERYTHING).load(Relaxed) != section(0) {
        let all = || (0..1024).map(|megabyte| (megabyte, ROOT.at(EVERYTHING + (megabyte << 20))));
        all().for_each(|(_, entry)| entry.store(0, Relaxed));
        flush();
        all().for_each(|(megabyte, entry)| entry.store(section(megabyte), Relaxed));
        flush();
    }
    EVERYTHING + (physical % GIGABYTE) as u32
}

/// Lets the upper half translate by a table at `ttbr1`. Of `control`, PD1 counts: with it there is no walk.
pub fn lead_upper(ttbr1: u64, control: u64) {
    const PD1: u32 = 1 << 5;
    set_upper(ttbr1, HALVES | control as u32 & PD1);
}

/// Undoes [`lead_upper`].
pub fn restore_upper() {
    set_upper(0, TTBCR);
}

fn set_upper(ttbr1: u64, control: u32) {
    write_sysreg!("ttbr1_32", ttbr1);
    write_sysreg!("tcr_el1", control.into());
    flush();
}

/// Fills the tables of the upper half: each descriptor of the first level leads by chance to a table, to what is at
/// one of `addresses`, or nowhere, and so does each of the second level. Nothing there can be executed that is memory.
///
/// The megabyte at 0xff00_0000 stays free: a hypervisor without virtualization hardware has to be somewhere.
pub fn scramble(addresses: &[u32; 8], kinds: &[u32; 8]) {
    let choice = |index: usize| {
        let number = index * 5 + index / 16;
        (
            addresses[number % 8],
            kinds[number / 3 % 8].rotate_left(index as u32 % 32),
        )
    };
    for (index, entry) in UPPER.0.iter().enumerate().skip(2048) {
        let (address, kind) = choice(index);
        entry.store(first_level(address, kind), Relaxed);
    }
    UPPER.at(0xff00_0000).store(0, Relaxed);
    for (index, word) in GARBAGE.0.iter().enumerate() {
        let [low, high] = [2 * index, 2 * index + 1].map(|index| {
            let (address, kind) = choice(index);
            u64::from(second_level(address, kind))
        });
        word.store(high << 32 | low, Relaxed);
    }
}

/// A first-level descriptor to `address`: a fault, a table (mostly [`GARBAGE`], so that the walk goes on), a section or a
/// supersection.
fn first_level(address: u32, kind: u32) -> u32 {
    const SUPERSECTION: u32 = 1 << 18;
    match kind % 8 {
        0 => kind & !3,
        1..=3 => (GARBAGE.address() as u32 + (kind & 0xc00)) | kind & 0x1e0 | TABLE,
        4 => address & !0x3ff | kind & 0x1e0 | TABLE,
        5 => (address & !0xff_ffff) | kind & 0xfb_fff0 | SUPERSECTION | SECTION_NEVER | 2,
        _ => (address & !0xf_ffff) | kind & 0xb_fff0 & !SUPERSECTION | SECTION_NEVER | 2,
    }
}

/// A second-level descriptor to `address`: a fault, a large or a small page.
fn second_level(address: u32, kind: u32) -> u32 {
    const LARGE_NEVER: u32 = 1 << 15;
    match kind % 8 {
        0 => kind & !3,
        1 | 2 => address & !0xffff | kind & 0xfffc | LARGE_NEVER | 1,
        _ => address & !0xfff | kind & 0xffc | PAGE_NEVER | 2,
    }
}
