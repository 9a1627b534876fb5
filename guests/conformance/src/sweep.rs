//! Accesses every address that a VM can reach: what the VM was given answers, and nothing else
//! does.

use crate::arch::access;
use crate::machine::Machine;
use crate::probe::{Fault, class, status};
use crate::sleep::sleep_until;
use crate::tree::Area;
use crate::{boot, mmio, mmu};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use hanok_types::{GicVersion, platform};

const PAGE: u64 = 4096;
const BELOW: u64 = 1 << 32;
const STEP_ABOVE: u64 = 2 << 20;
const WIDTHS: [u64; 4] = [1, 2, 4, 8];
/// Registers from this offset on are identification or reserved in every device of the platform.
const HARMLESS: u64 = 0xfc;
/// How many faults are reported one by one.
const TOLD: u64 = 12;

const FLASH: Area = Area {
    start: platform::FLASH.get(),
    size: platform::FLASH_SIZE,
};
const VIRTIO: Area = Area {
    start: platform::VIRTIO.get(),
    size: platform::VIRTIO_SLOTS * platform::VIRTIO_STRIDE,
};

/// Where a 64-bit VM reads the time that was stolen from it.
const STOLEN: u64 = platform::STOLEN.get();

#[derive(Clone, Copy, PartialEq, Eq)]
enum Given {
    Memory,
    Flash,
    Device,
    Stolen,
    Nothing,
}

/// Where each of a GICv2's two frames begins, and how many bytes of it answer.
const GIC_V2: [(u64, u64); 2] = [
    (platform::GIC_DIST.get(), platform::GIC_V2_DIST_SIZE),
    (platform::GIC_V2_CPU.get(), platform::GIC_V2_CPU_SIZE),
];

/// The devices of the tree, each with the length that answers: a GICv2's frames answer in less than
/// the tree names (`gicv2-frames`).
fn devices(machine: &Machine) -> impl Iterator<Item = Area> + '_ {
    machine.devices.iter().map(|area| {
        let mut frames = GIC_V2.iter().filter(|_| machine.gic == GicVersion::V2);
        let frame = frames.find(|(start, _)| *start == area.start);
        let size = frame.map_or(area.size, |(_, answers)| *answers);
        Area { size, ..*area }
    })
}

fn given(machine: &Machine, address: u64) -> Given {
    if machine.memory().contains(address) {
        return Given::Memory;
    }
    if FLASH.contains(address) {
        return Given::Flash;
    }
    if cfg!(target_arch = "aarch64") && address / PAGE == STOLEN / PAGE {
        return Given::Stolen;
    }
    let mut devices = devices(machine).chain(core::iter::once(VIRTIO));
    if devices.any(|device| device.contains(address)) {
        Given::Device
    } else {
        Given::Nothing
    }
}

/// The faults found; each is printed as it is found.
#[derive(Default)]
struct Report {
    memory: u64,
    devices: u64,
    nothing: u64,
    flash_written: u64,
    wrong: u64,
}

impl Report {
    fn wrong(&mut self, what: core::fmt::Arguments<'_>) {
        self.wrong += 1;
        if self.wrong <= TOLD {
            println!("FAIL sweep: {what}");
        }
    }

    fn answers(&mut self, address: u64, width: u64, result: Result<u64, Fault>) -> Option<u64> {
        match result {
            Ok(value) => Some(value),
            Err(fault) => {
                self.wrong(format_args!("{address:#x} in {width}: {fault:?}"));
                None
            }
        }
    }

    fn aborts(&mut self, address: u64, width: u64, write: bool, result: Result<u64, Fault>) {
        let way = if write { "write" } else { "read" };
        match result {
            Err(fault)
                if fault.class() == class::DATA
                    && fault.status() == status::EXTERNAL
                    && fault.is_write() == write => {}
            Err(fault) => self.wrong(format_args!("{way} {address:#x} in {width}: {fault:?}")),
            Ok(value) => self.wrong(format_args!(
                "{way} {address:#x} in {width} answers {value:#x}"
            )),
        }
    }
}

fn read(address: u64, width: u64) -> Result<u64, Fault> {
    // SAFETY: a load, of which nothing but the value is used.
    unsafe { access::load(mmu::everywhere(address), width) }
}

fn write(address: u64, width: u64, value: u64) -> Result<u64, Fault> {
    // SAFETY: to where nothing is, to memory that nobody uses, or to registers that ignore
    // it, as the callers see to.
    unsafe { access::store(mmu::everywhere(address), width, value) }.map(|()| value)
}

/// Accesses all addresses, of those below 4 GiB in each page whose number is a multiple of `stride`, and reports the
/// result.
pub fn run(machine: &Machine, stride: usize) {
    const SEED: u64 = 0x5eed_0001;
    mmu::map_everything(machine.memory());
    let limit = mmu::address_limit();
    let pattern = Pattern {
        machine,
        seed: SEED,
    };
    pattern.fill();
    let mut report = Report::default();
    for page in (0..BELOW).step_by(PAGE as usize).step_by(stride.max(1)) {
        look(machine, page, &pattern, &mut report);
    }
    println!(
        "sweep: below 4 GiB {} pages of memory, {} of devices, {} of nothing",
        report.memory, report.devices, report.nothing
    );
    if report.flash_written != 0 {
        let pages = report.flash_written;
        report.wrong(format_args!("{pages} pages of flash are not erased"));
    }
    let below = report.nothing;
    for page in (BELOW..limit).step_by(STEP_ABOVE as usize) {
        look(machine, page, &pattern, &mut report);
    }
    println!(
        "sweep: up to {limit:#x} {} more of nothing",
        report.nothing - below
    );
    edges(machine, &mut report);
    report.wrong += pattern.count_wrong("sweep");
    println!("sweep: done, {} wrong", report.wrong);
}

/// Reads and writes one page. Of an unmapped page, at another offset and in another width each
/// time.
fn look(machine: &Machine, page: u64, pattern: &Pattern<'_>, report: &mut Report) {
    match given(machine, page) {
        Given::Memory => {
            report.memory += 1;
            look_at_memory(page, pattern, report);
        }
        Given::Flash => {
            report.devices += 1;
            let value = report.answers(page, 4, read(page, 4));
            report.answers(page, 4, write(page, 4, 0));
            let value = value.and(report.answers(page, 4, read(page, 4)));
            if value.is_some_and(|value| value != 0xffff_ffff) {
                report.flash_written += 1;
            }
        }
        Given::Device => {
            report.devices += 1;
            report.answers(page, 4, read(page, 4));
            report.answers(page, 4, write(page + HARMLESS, 4, 0));
        }
        Given::Stolen => {
            report.devices += 1;
            report.answers(page, 8, read(page, 8));
            report.aborts(page, 8, true, write(page, 8, 1));
        }
        Given::Nothing => {
            report.nothing += 1;
            let number = page / PAGE;
            let width = WIDTHS[number as usize % 4];
            let offset = number.wrapping_mul(0x938) % PAGE / width * width;
            let address = page + offset;
            let found = read(address, width);
            report.aborts(address, width, false, found);
            // Writes another value than it read, in case something is there.
            let value = !found.unwrap_or(number);
            report.aborts(address, width, true, write(address, width, value));
        }
    }
}

fn look_at_memory(page: u64, pattern: &Pattern<'_>, report: &mut Report) {
    let found = report.answers(page, 8, read(page, 8));
    if !pattern.covers(page) {
        return;
    }
    let expected = pattern.word(page);
    if found.is_some_and(|found| found != expected) {
        report.wrong(format_args!("{page:#x} holds {found:x?}"));
    }
    report.answers(page, 8, write(page, 8, expected));
}

/// Accesses both edges of every range that was given, inside and outside, in each width.
fn edges(machine: &Machine, report: &mut Report) {
    let all = [machine.memory(), FLASH, VIRTIO];
    for area in all.into_iter().chain(devices(machine)) {
        for width in WIDTHS {
            // A GICv2's CPU interface is the hardware's, which accepts words only (IHI 0048B,
            // 4.1.4).
            let words_alone = area.start == platform::GIC_V2_CPU.get() && width != 4;
            let memory = area == machine.memory();
            if !words_alone && (memory || access::DEVICE_WIDTHS.contains(&width)) {
                inside(&area, width, report);
            }
            if let Some(before) = area.start.checked_sub(width) {
                outside(machine, before, width, report);
            }
            outside(machine, area.end(), width, report);
        }
    }
    over_the_end(machine, report);
}

fn inside(area: &Area, width: u64, report: &mut Report) {
    for address in [area.start, area.end() - width] {
        report.answers(address, width, read(address, width));
    }
}

fn outside(machine: &Machine, address: u64, width: u64, report: &mut Report) {
    if given(machine, address) == Given::Nothing {
        report.aborts(address, width, false, read(address, width));
        report.aborts(address, width, true, write(address, width, 0));
    }
}

/// An access of which one half is in memory and the other is not.
fn over_the_end(machine: &Machine, report: &mut Report) {
    let end = machine.memory().end();
    if given(machine, end) != Given::Nothing {
        return;
    }
    for width in [2, 4, 8] {
        let address = end - width / 2;
        report.aborts(address, width, false, read(address, width));
        report.aborts(address, width, true, write(address, width, 0));
    }
}

/// The unused pages of memory.
pub fn free_pages(machine: &Machine) -> impl Iterator<Item = u64> + '_ {
    let memory = machine.memory();
    let all = (memory.start..memory.end()).step_by(PAGE as usize);
    all.filter(|page| is_free(machine, *page))
}

/// Returns whether a page is not of the image, not of the device tree, and not the last one: the
/// sweep writes over its end.
fn is_free(machine: &Machine, page: u64) -> bool {
    let memory = machine.memory();
    let used = [boot::image(), machine.tree];
    let in_use = |area: &Area| page < area.end() && area.start < page + PAGE;
    memory.contains(page) && page + PAGE < memory.end() && !used.iter().any(in_use)
}

/// A value for each word of unused memory.
struct Pattern<'a> {
    machine: &'a Machine,
    seed: u64,
}

impl Pattern<'_> {
    fn word(&self, address: u64) -> u64 {
        (address ^ self.seed << 40).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn covers(&self, page: u64) -> bool {
        is_free(self.machine, page)
    }

    fn pages(&self) -> impl Iterator<Item = u64> + '_ {
        free_pages(self.machine)
    }

    fn fill(&self) {
        for page in self.pages() {
            for (address, word) in (page..).step_by(8).zip(words(page)) {
                word.store(self.word(address), Relaxed);
            }
        }
    }

    /// Reports how many words changed; the first ones one by one.
    fn count_wrong(&self, who: &str) -> u64 {
        let mut wrong = 0;
        for page in self.pages() {
            for (address, word) in (page..).step_by(8).zip(words(page)) {
                let found = word.load(Relaxed);
                if found != self.word(address) {
                    wrong += 1;
                    if wrong <= TOLD {
                        println!("FAIL {who}: {address:#x} holds {found:#x}");
                    }
                }
            }
        }
        wrong
    }
}

/// The words of an unused page of memory.
fn words(page: u64) -> &'static [AtomicU64; 512] {
    let address = mmu::everywhere(page) as usize as *const [AtomicU64; 512];
    // SAFETY: `Pattern::covers` chose the page: memory that is mapped, and that neither the
    // image nor the tree is in; all use of it is by atomics or by `read` and `write`.
    unsafe { &*address }
}

/// Fills all unused memory with a pattern, waits for a key, and reports whether the pattern is
/// unchanged. With `spoil` it changes a word itself.
pub fn hold(machine: &Machine, spoil: bool) {
    const SEED: u64 = 0x5eed_0002;
    mmu::map_everything(machine.memory());
    let pattern = Pattern {
        machine,
        seed: SEED,
    };
    pattern.fill();
    println!("hold: {} pages", pattern.pages().count());
    while !key_came() {
        sleep_until(5, || false);
    }
    if let Some(page) = pattern.pages().nth(1000).filter(|_| spoil) {
        words(page)[100].fetch_xor(1 << 17, Relaxed);
    }
    println!("hold: done, {} wrong", pattern.count_wrong("hold"));
}

/// Whether a byte has come at the serial port.
pub fn key_came() -> bool {
    const FR: u64 = 0x18;
    const RXFE: u32 = 1 << 4;
    mmio::read32(platform::UART.get() + FR) & RXFE == 0
}
