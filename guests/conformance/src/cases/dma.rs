//! A PCIe device of the board that reads and writes memory by itself: QEMU's `edu` (its documentation, `specs/edu`), on the
//! first bus of a host bridge that the VM has for itself. It reaches the VM's memory, and nothing else.
//! Run by name alone (`conformance.run=dma`, and `dma-lives`, which resets for ever): other VMs have none.

use crate::case::{Case, Outcome, hanok_case};
use crate::machine::Machine;
use crate::mmio::{read32, write32};
use crate::{psci, timer};
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use hanok_types::platform;

pub const CASES: &[Case] = &[hanok_case("dma", 1, dma), hanok_case("dma-lives", 1, lives)];

/// Where the VM has the bridge's window of 32-bit addresses, and the first of these on the bus.
const WINDOW: u64 = platform::PASS_THROUGH.get();
const ON_BUS: u32 = 0x1000_0000;
/// Where it has the configuration space of the first bus: behind the windows of memory, 16 MiB, and of ports.
const CONFIGURATION: u64 = WINDOW + 0x110_0000;
/// Device and vendor.
const EDU: u32 = 0x11e8_1234;
/// Registers of the configuration space.
const COMMAND: u64 = 0x04;
const BAR0: u64 = 0x10;
/// Command: it answers at its addresses, and accesses memory.
const MEMORY_AND_MASTER: u32 = 0b110;
/// The device's registers, and its memory by its own addresses.
const SOURCE: u64 = 0x80;
const DESTINATION: u64 = 0x88;
const COUNT: u64 = 0x90;
const START: u64 = 0x98;
const OWN_MEMORY: u32 = 0x4_0000;
/// The start of a transfer to memory; without the second bit it is one from memory.
const RUN: u32 = 0b01;
const TO_MEMORY: u32 = 0b10;

const WORDS: usize = 256;
static BUFFER: [AtomicU32; WORDS] = [const { AtomicU32::new(0) }; WORDS];
/// Memory that is zero in each boot, and which only the device writes.
static TARGET: [AtomicU32; WORDS] = [const { AtomicU32::new(0) }; WORDS];

fn address(of: &[AtomicU32; WORDS]) -> u32 {
    // The program's memory is mapped in place, below 4 GiB.
    of.as_ptr().addr() as u32
}

fn pattern(index: usize) -> u32 {
    (index as u32).wrapping_mul(0x9e37_79b9) | 1
}

/// Switches the device on.
fn set_up() -> Outcome {
    let functions = (1..32).map(|device| CONFIGURATION + (device << 15));
    let found = functions.into_iter().find(|at| read32(*at) == EDU);
    let Some(at) = found else {
        return Err(crate::case::Failure::wrong(format_args!("no such device")));
    };
    write32(at + BAR0, ON_BUS);
    write32(at + COMMAND, MEMORY_AND_MASTER);
    check_eq!(read32(WINDOW) & 0xff, 0xed, "identification");
    Ok(())
}

/// Begins a transfer between the device's memory and `other`.
fn begin(other: u32, direction: u32) {
    let (source, destination) = match direction {
        TO_MEMORY => (OWN_MEMORY, other),
        _ => (other, OWN_MEMORY),
    };
    write32(WINDOW + SOURCE, source);
    write32(WINDOW + DESTINATION, destination);
    write32(WINDOW + COUNT, (4 * WORDS) as u32);
    write32(WINDOW + START, RUN | direction);
}

fn transfer(other: u32, direction: u32) -> Outcome {
    begin(other, direction);
    for _ in 0..100 {
        if timer::wait_until(|| read32(WINDOW + START) & RUN == 0) {
            return Ok(());
        }
    }
    Err(crate::case::Failure::wrong(format_args!(
        "a transfer does not end"
    )))
}

/// Fills the device's memory with the pattern.
fn fill() -> Outcome {
    for (index, word) in BUFFER.iter().enumerate() {
        word.store(pattern(index), Relaxed);
    }
    transfer(address(&BUFFER), 0)
}

fn dma(machine: &Machine) -> Outcome {
    set_up()?;
    fill()?;
    transfer(address(&TARGET), TO_MEMORY)?;
    for (index, word) in TARGET.iter().enumerate() {
        check_eq!(word.load(Relaxed), pattern(index), "word {index} inside");
    }
    // RAM of the board that other VMs or the hypervisor have, registers, and nothing.
    let behind = machine.ram_end() as u32;
    let ram = (0..8).map(|step| behind + step * 0x700_0000);
    for other in ram.chain([0x0800_0000, 0x0900_0000, 0]) {
        fill()?;
        transfer(other, TO_MEMORY)?;
        transfer(other, 0)?;
        // The device has what it had, or zeros.
        transfer(address(&TARGET), TO_MEMORY)?;
        for (index, word) in TARGET.iter().enumerate() {
            let value = word.load(Relaxed);
            let known = [0, pattern(index)].contains(&value);
            check!(known, "{value:#x} was read at {other:#x}");
        }
    }
    // It goes on as before.
    fill()?;
    transfer(address(&TARGET), TO_MEMORY)?;
    check_eq!(TARGET[7].load(Relaxed), pattern(7), "afterwards");
    Ok(())
}

/// Resets the VM while a transfer into its memory is under way, again and again: nothing of it comes to the next boot.
fn lives(_: &Machine) -> Outcome {
    // What was under way, for a tenth of a second, is over.
    let _ = timer::wait_until(|| false);
    let now = timer::now();
    while timer::now() - now < timer::frequency() / 2 {}
    let come = TARGET.iter().filter(|word| word.load(Relaxed) != 0).count();
    check_eq!(come, 0, "words of a former boot's transfer");
    set_up()?;
    fill()?;
    println!("dma: nothing came of a former boot");
    begin(address(&TARGET), TO_MEMORY);
    psci::system_reset()
}
