//! Channels between VMs (`hanok_abi::channel`), in a VM that is member 0 of two of them, beside one that echoes
//! ([`echo`]): `both` of 8 KiB, and `theirs` of 4 KiB, which this VM may only read.

use super::holes::expect_abort;
use crate::arch::access;
use crate::case::{Case, Outcome, hanok_case};
use crate::machine::Machine;
use crate::mmio::{read32, write8, write32};
use crate::{gic, timer};
use hanok_types::{PAGE_SIZE, platform};

/// They run only when they are named, as few VMs have channels.
pub const CASES: &[Case] = &[
    hanok_case("channel-registers", 1, registers),
    hanok_case("channel-unknown", 1, unknown),
    hanok_case("channel-memory", 1, memory),
    hanok_case("channel-read-only", 1, read_only),
    hanok_case("channel-ring", 1, ring),
    hanok_case("channel-nobody", 1, nobody),
    hanok_case("channel-mask", 1, mask),
    hanok_case("channel-state", 1, state),
];

const BOTH: u64 = platform::CHANNEL.get();
const THEIRS: u64 = BOTH + PAGE_SIZE;
const IRQ: u32 = platform::CHANNEL_IRQ.get();
const MEMORY: u64 = platform::CHANNEL_MEMORY.get();
const SIZE: u64 = 8 << 10;
const THEIR_MEMORY: u64 = MEMORY + (2 << 20);

const ID: u64 = 0x00;
const VERSION: u64 = 0x04;
const LEN: u64 = 0x08;
const OWN: u64 = 0x0c;
const STATE: u64 = 0x10;
/// Rings members.
pub const RING: u64 = BOTH + 0x14;
const PENDING: u64 = 0x18;
const ENABLE: u64 = 0x1c;
const PEER: u64 = 0x20;
const PEERS_END: u64 = 0x40;
/// `hkch`.
const MAGIC: u32 = 0x6863_6b68;

/// The bit of the echo when it rings, and when its state changes.
const RANG: u32 = 1 << 1;
const CHANGED: u32 = 1 << 17;

/// What the echo writes into the memory: how often it was told of something, what of, and this VM's state then.
const COUNT: u64 = MEMORY + 0x100;
const TOLD: u64 = MEMORY + 0x104;
const SEEN: u64 = MEMORY + 0x108;

/// The other VM: says that it is there, and answers whatever it is told of by a ring.
pub fn echo(_: usize) {
    write32(THEIR_MEMORY, MAGIC);
    write32(BOTH + STATE, 0xabcd_0001);
    for count in 1.. {
        while read32(BOTH + PENDING) == 0 {}
        let told = read32(BOTH + PENDING);
        write32(BOTH + PENDING, told);
        write32(COUNT, count);
        write32(TOLD, told);
        write32(SEEN, read32(BOTH + PEER));
        write32(RING, 1);
    }
}

/// Rings the peer, and changes the own state, for ever, without waiting for anything.
pub fn storm(_: usize) {
    for count in 0.. {
        write32(RING, u32::MAX);
        write32(BOTH + STATE, count);
    }
}

/// Is told of everything, and acknowledges it at once, for ever: all by interrupts, for which it waits.
pub fn acknowledge(_: usize) {
    write32(BOTH + ENABLE, u32::MAX);
    gic::enable(IRQ);
    loop {
        crate::cpu::wait_for_interrupt();
        let id = gic::acknowledge();
        if id == gic::SPURIOUS {
            continue;
        }
        write32(BOTH + PENDING, u32::MAX);
        gic::end(id);
    }
}

/// Says each state of the peer of which it is told by an interrupt, and what the peer wrote before.
pub fn watch(_: usize) {
    write32(BOTH + ENABLE, CHANGED);
    gic::enable(IRQ);
    loop {
        let peer = read32(BOTH + PEER + 4);
        println!(
            "channel: state {} of generation {}, {:#x} in memory",
            peer & 0xffff,
            peer >> 16,
            read32(THEIR_MEMORY)
        );
        while read32(BOTH + PENDING) & CHANGED == 0 {
            crate::cpu::wait_for_interrupt();
        }
        let id = gic::acknowledge();
        write32(BOTH + PENDING, u32::MAX);
        if id != gic::SPURIOUS {
            gic::end(id);
        }
    }
}

/// Waits until the echo is there and all that it says has been taken.
fn begin() -> Outcome {
    let is_there = timer::wait_until(|| read32(BOTH + PEER + 4) & 0xffff == 1);
    check!(is_there, "the other VM is not there");
    write32(BOTH + ENABLE, 0);
    write32(BOTH + PENDING, u32::MAX);
    Ok(())
}

/// Waits for an answer of the echo.
fn answered() -> Outcome {
    let rang = timer::wait_until(|| read32(BOTH + PENDING) & RANG != 0);
    check!(rang, "the echo does not answer");
    write32(BOTH + PENDING, u32::MAX);
    Ok(())
}

fn registers(_: &Machine) -> Outcome {
    begin()?;
    for (base, size, own) in [(BOTH, SIZE, 0x200), (THEIRS, PAGE_SIZE, 0x1_0200)] {
        let fixed = [(ID, MAGIC), (VERSION, 1), (LEN, size as u32), (OWN, own)];
        for (at, value) in fixed {
            check_eq!(read32(base + at), value, "{at:#x}");
            write32(base + at, !value);
            check_eq!(read32(base + at), value, "{at:#x} after a write");
        }
        check_eq!(read32(base + 0x14), 0, "RING");
    }
    check_eq!(
        read32(BOTH + PEER + 4),
        1,
        "the echo's state, of its first boot"
    );
    write32(BOTH + PEER + 4, 7);
    check_eq!(read32(BOTH + PEER + 4), 1, "the echo's state after a write");
    Ok(())
}

fn unknown(_: &Machine) -> Outcome {
    begin()?;
    for at in (PEERS_END..PAGE_SIZE).step_by(4) {
        write32(BOTH + at, u32::MAX);
        check_eq!(read32(BOTH + at), 0, "{at:#x}");
    }
    write8(BOTH + ENABLE, 1);
    check_eq!(read32(BOTH + ENABLE), 0, "ENABLE after a store of a byte");
    // SAFETY: a load, of which nothing is used but its value.
    let narrow = unsafe { access::load(BOTH + ID, 2) };
    check!(matches!(narrow, Ok(0)), "a load of a halfword");
    let beyond = 3 * PAGE_SIZE;
    // SAFETY: as above.
    let result = unsafe { access::load(BOTH + beyond, 4) };
    expect_abort(result.map(drop), false, BOTH + beyond, BOTH + beyond)
}

fn memory(_: &Machine) -> Outcome {
    begin()?;
    for at in [0, 4, PAGE_SIZE - 4, PAGE_SIZE, SIZE - 4] {
        let before = read32(MEMORY + at);
        write32(MEMORY + at, 0x1234_5678 ^ at as u32);
        check_eq!(read32(MEMORY + at), 0x1234_5678 ^ at as u32, "{at:#x}");
        write32(MEMORY + at, before);
    }
    for at in [MEMORY + SIZE, THEIR_MEMORY + PAGE_SIZE, MEMORY - 4] {
        // SAFETY: a load, of which nothing is used, and a store to where no memory is.
        let (loaded, stored) = unsafe { (access::load(at, 4), access::store(at, 4, 1)) };
        expect_abort(loaded.map(drop), false, at, at)?;
        expect_abort(stored, true, at, at)?;
    }
    Ok(())
}

fn read_only(_: &Machine) -> Outcome {
    begin()?;
    check_eq!(read32(THEIR_MEMORY), MAGIC, "what the other VM wrote");
    for at in [THEIR_MEMORY, THEIR_MEMORY + PAGE_SIZE - 4] {
        let before = read32(at);
        // SAFETY: a store to memory of which nothing is used but what is checked.
        let stored = unsafe { access::store(at, 4, !0) };
        expect_abort(stored, true, at, at)?;
        check_eq!(read32(at), before, "{at:#x} after a store");
    }
    Ok(())
}

fn ring(_: &Machine) -> Outcome {
    begin()?;
    let count = read32(COUNT);
    write32(BOTH + ENABLE, RANG);
    gic::enable(IRQ);
    write32(RING, 1 << 1);
    let signalled = gic::wait_signalled();
    let id = gic::acknowledge();
    let pending = read32(BOTH + PENDING);
    write32(BOTH + PENDING, RANG);
    let after = read32(BOTH + PENDING);
    gic::end(id);
    let again = gic::signalled();
    gic::disable(IRQ);
    check!(signalled, "no interrupt");
    check_eq!(id, u64::from(IRQ), "the interrupt");
    check_eq!(pending & RANG, RANG, "PENDING");
    check_eq!(after & RANG, 0, "PENDING after it was acknowledged");
    check!(!again, "the line is still high");
    check_eq!(read32(COUNT), count + 1, "what the echo wrote");
    check_eq!(read32(TOLD), 1, "what the echo was told");
    Ok(())
}

fn nobody(_: &Machine) -> Outcome {
    begin()?;
    let count = read32(COUNT);
    write32(RING, !(1 << 1));
    // Two turns on a core that both share.
    let end = timer::now() + timer::microseconds(25_000);
    while timer::now() < end {}
    check_eq!(read32(BOTH + PENDING), 0, "PENDING");
    check_eq!(read32(COUNT), count, "what the echo wrote");
    Ok(())
}

fn mask(_: &Machine) -> Outcome {
    begin()?;
    gic::enable(IRQ);
    write32(RING, 1 << 1);
    let rang = timer::wait_until(|| read32(BOTH + PENDING) & RANG != 0);
    let masked = gic::signalled();
    write32(BOTH + ENABLE, RANG);
    let enabled = gic::wait_signalled();
    write32(BOTH + ENABLE, 0);
    let again = gic::signalled();
    gic::disable(IRQ);
    write32(BOTH + PENDING, u32::MAX);
    check!(rang, "the echo does not answer");
    check!(!masked, "an interrupt that is not enabled");
    check!(enabled, "no interrupt once it is enabled");
    check!(!again, "the line is high after it was disabled");
    Ok(())
}

fn state(_: &Machine) -> Outcome {
    begin()?;
    write32(BOTH + STATE, 0xffff_0000);
    let count = read32(COUNT);
    write32(BOTH + STATE, 0x1_0005);
    answered()?;
    check_eq!(read32(BOTH + STATE) & 0xffff, 5, "the own state");
    check_eq!(
        read32(BOTH + PEER),
        read32(BOTH + STATE),
        "PEER of the own index"
    );
    check_eq!(read32(TOLD), 1 << 16, "what the echo was told");
    check_eq!(read32(SEEN), read32(BOTH + STATE), "what the echo saw");
    // The same state again is no change.
    write32(BOTH + STATE, 5);
    write32(RING, 1 << 1);
    answered()?;
    check_eq!(read32(COUNT), count + 2, "what the echo wrote");
    check_eq!(read32(TOLD), 1, "what the echo was told");
    check_eq!(
        read32(BOTH + PENDING) & CHANGED,
        0,
        "a change of the echo's"
    );
    Ok(())
}
