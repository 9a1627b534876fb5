//! The board's SMMUv3, by which the devices of a PCIe host bridge reach no memory but that of the VM that has the
//! bridge (Arm IHI 0070).
//!
//! Kept true:
//! - Every stream is refused, but those of the bridge while their VM runs; streams past the end of the table always are.
//! - When [`Smmu::allow`] has refused the streams, none of their accesses is under way, and no translation is cached.
//! - Nothing that a device or guest does makes the SMMU wait for the hypervisor: no access is stalled, and events that
//!   do not fit the queue are lost.
//!
//! The stage 2 of such a VM never changes. So there is one sequence of commands, which is written once, and each update
//! has the SMMU do all of it again.
//!
//! Rejected: a two-level stream table, which spares memory where streams have large numbers, and which not every SMMU
//! has; TLB maintenance that CPUs broadcast, which not every SMMU takes, so that the commands are needed anyway.

use crate::sysreg;
use core::sync::atomic::{AtomicU64, Ordering};
use hanok_hal::RefusedAccess;
use hanok_paging::PaRange;
use hanok_paging::smmu::{
    COMMANDS, COMMANDS_LOG2, EVENT_WORDS, REFUSED, STREAM_WORDS, TRANSLATED, refused, stage_2,
};
use hanok_types::{Hpa, Hva, PAGE_SIZE, VmId};

/// Offsets of registers (IHI 0070, 6.2).
mod at {
    pub const IDR0: u64 = 0x00;
    pub const IDR1: u64 = 0x04;
    pub const IDR5: u64 = 0x14;
    pub const CR0: u64 = 0x20;
    pub const CR0ACK: u64 = 0x24;
    pub const CR1: u64 = 0x28;
    pub const CR2: u64 = 0x2c;
    pub const GBPA: u64 = 0x44;
    pub const IRQ_CTRL: u64 = 0x50;
    pub const IRQ_CTRLACK: u64 = 0x54;
    pub const STRTAB_BASE: u64 = 0x80;
    pub const STRTAB_BASE_CFG: u64 = 0x88;
    pub const CMDQ_BASE: u64 = 0x90;
    pub const CMDQ_PROD: u64 = 0x98;
    pub const CMDQ_CONS: u64 = 0x9c;
    pub const EVENTQ_BASE: u64 = 0xa0;
    pub const EVENTQ_PROD: u64 = 0x1_00a8;
    pub const EVENTQ_CONS: u64 = 0x1_00ac;
}

/// The bytes of the registers, two pages of 64 KiB.
pub const REGISTERS: u64 = 0x2_0000;
/// The base 2 logarithm of the number of events that the queue keeps.
const EVENTS_LOG2: u32 = 5;
/// The mask of a position in the queue of events, with the bit that changes as it wraps.
const EVENT_MASK: u32 = (2 << EVENTS_LOG2) - 1;
/// STRTAB_BASE.RA, CMDQ_BASE.RA, EVENTQ_BASE.WA: allocate in caches.
const ALLOCATE: u64 = 1 << 62;
/// CR1: tables and queues are inner shareable, write-back cacheable (6.3.11).
const WRITE_BACK: u32 = 0b11_01_01_11_01_01;
/// CR2: PTM, CPUs' broadcast maintenance is not listened to; RECINVSID, streams past the table's end make events (6.3.12).
const OWN_MAINTENANCE: u32 = 0b110;
/// CR0 (6.3.9).
const SMMUEN: u32 = 1;
const EVENTQEN: u32 = 1 << 2;
const CMDQEN: u32 = 1 << 3;
const ATSCHK: u32 = 1 << 4;
/// IRQ_CTRL.EVENTQ_IRQEN.
const EVENTQ_IRQEN: u32 = 1 << 2;
/// GBPA: ABORT, UPDATE (6.3.14).
const ABORT: u32 = 1 << 20;
const UPDATE: u32 = 1 << 31;
/// How often a register is read until it has an expected value.
const PATIENCE: u32 = 1_000_000;

/// The memory that an SMMU needs for the streams below `end`: the number of bytes, and of those of its stream table, a
/// power of two, which is their alignment.
pub const fn memory_for(end: u32) -> (u64, u64) {
    let table = (STREAM_WORDS * 8) as u64 * end.next_power_of_two() as u64;
    (table + PAGE_SIZE, table)
}

/// The VM that has the host bridge.
#[derive(Clone, Copy, Debug)]
pub struct Owner {
    /// The VM.
    pub vm: VmId,
    /// The root of its stage 2.
    pub root: Hpa,
    /// VTCR_EL2.
    pub vtcr: u64,
    /// The end of the board's RAM.
    pub top: Hpa,
    /// The first stream of the bridge. There are [`FUNCTIONS`], those of its first bus.
    pub first: u32,
    /// The address on the board of the configuration space of that bus.
    pub configuration: Hpa,
}

/// The functions of a bus, each of which is a stream.
pub const FUNCTIONS: u32 = 256;

/// An SMMUv3 that is in use.
#[derive(Debug)]
pub struct Smmu {
    registers: Hva,
    /// The VM that has the devices.
    pub owner: Owner,
    table: &'static [AtomicU64],
    events: &'static [AtomicU64],
    /// CMDQ_PROD.
    produced: u32,
    /// How many functions are quiet since the streams were refused.
    pub quiet: u32,
}

impl Smmu {
    /// Sets up the SMMU at `registers`: it refuses everything. `None` if it lacks what is used here.
    ///
    /// # Safety
    /// The registers are an SMMUv3's, mapped as device memory for ever, and no other code drives it. The memory at
    /// `memory` has the size and alignment of [`memory_for`] the last of the owner's streams, is mapped in place for
    /// ever, and nobody else's.
    pub unsafe fn new(registers: Hva, memory: Hpa, owner: Owner) -> Option<Self> {
        let end = owner.first + FUNCTIONS;
        let (size, _) = memory_for(end);
        // SAFETY: by this function's contract, and any bits are a valid value.
        let words = unsafe {
            core::slice::from_raw_parts(memory.get() as *const AtomicU64, size as usize / 8)
        };
        let (table, queues) = words.split_at(words.len() - PAGE_SIZE as usize / 8);
        let (commands, events) = queues.split_at(queues.len() / 2);
        let mut this = Self {
            registers,
            owner,
            table,
            events,
            produced: 0,
            quiet: 0,
        };
        if !this.suits(end.next_power_of_two().trailing_zeros()) {
            return None;
        }
        let own = stage_2(owner.vtcr, owner.root, owner.vm.index() as u16 + 1);
        for entry in table.chunks_exact(STREAM_WORDS) {
            let values = [REFUSED].into_iter().chain(own).chain([0; 4]);
            entry
                .iter()
                .zip(values)
                .for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        }
        for (word, value) in commands.iter().zip(COMMANDS) {
            word.store(value, Ordering::Relaxed);
        }
        this.turn_on(memory, memory.get() + size - PAGE_SIZE);
        Some(this)
    }

    /// Whether it has what is used here, with 2^`streams` streams (IHI 0070, 6.3.1, 6.3.2, 6.3.6).
    fn suits(&self, streams: u32) -> bool {
        let [idr0, idr1, idr5] = [at::IDR0, at::IDR1, at::IDR5].map(|at| self.read(at));
        let bits = PaRange::from_mmfr0(u64::from(idr5 & 7)).bits();
        // OAS, in ID_AA64MMFR0_EL1.PARange's encoding; S2P, TTF with AArch64, COHACC; TTENDIAN is not big-endian alone; GRAN4K; neither TABLES_PRESET nor
        // QUEUES_PRESET, and a queue of events of the size used here.
        idr0 & 0b1_1001 == 0b1_1001
            && idr0 >> 21 & 3 != 3
            && idr5 & 1 << 4 != 0
            && idr1 >> 29 & 3 == 0
            && idr1 >> 16 & 31 >= EVENTS_LOG2
            && idr1 >> 21 & 31 >= COMMANDS_LOG2
            && idr1 & 63 >= streams
            && self.owner.top.get() >> bits == 0
    }

    /// The steps of IHI 0070, 6.3.9 and 3.11: without the stream table it refuses everything, too.
    fn turn_on(&mut self, table: Hpa, queues: u64) {
        self.write(at::GBPA, UPDATE | ABORT);
        self.wait(at::GBPA, UPDATE, 0);
        self.set(at::CR0, 0);
        self.write(at::CR1, WRITE_BACK);
        self.write(at::CR2, OWN_MAINTENANCE);
        self.write64(at::STRTAB_BASE, table.get() | ALLOCATE);
        let streams = self.table.len() / STREAM_WORDS;
        self.write(at::STRTAB_BASE_CFG, streams.trailing_zeros());
        self.write64(at::CMDQ_BASE, queues | ALLOCATE | u64::from(COMMANDS_LOG2));
        self.write(at::CMDQ_PROD, 0);
        self.write(at::CMDQ_CONS, 0);
        let events = queues + PAGE_SIZE / 2;
        self.write64(at::EVENTQ_BASE, events | ALLOCATE | u64::from(EVENTS_LOG2));
        self.write(at::EVENTQ_PROD, 0);
        self.write(at::EVENTQ_CONS, 0);
        self.set(at::CR0, CMDQEN);
        self.forget();
        self.set(at::IRQ_CTRL, EVENTQ_IRQEN);
        // A device that says that its addresses are translated already must be one that may (ATS, IDR0 bit 10).
        let checked = if self.read(at::IDR0) & 1 << 10 != 0 {
            ATSCHK
        } else {
            0
        };
        self.set(at::CR0, CMDQEN | EVENTQEN | checked);
        self.set(at::CR0, CMDQEN | EVENTQEN | checked | SMMUEN);
    }

    /// Lets the owner's devices access its memory; or refuses all that they do, and waits until nothing of it is under
    /// way.
    pub fn allow(&mut self, on: bool) {
        let (first, count) = (self.owner.first as usize, FUNCTIONS as usize);
        let own = self.table.chunks_exact(STREAM_WORDS).skip(first);
        for word in own.take(count).filter_map(<[_]>::first) {
            word.store(if on { TRANSLATED } else { REFUSED }, Ordering::Relaxed);
        }
        self.quiet = 0;
        self.forget();
    }

    /// Has the SMMU do [`COMMANDS`], and waits.
    fn forget(&mut self) {
        sysreg::dsb_sy();
        // The queue is full again: all of it, with the bit that changes as it wraps.
        self.produced ^= 1 << COMMANDS_LOG2;
        self.write(at::CMDQ_PROD, self.produced);
        self.wait(at::CMDQ_CONS, (2 << COMMANDS_LOG2) - 1, self.produced);
    }

    /// The first access that was refused since the last call. The others are forgotten.
    pub fn refused(&mut self) -> Option<RefusedAccess> {
        let (produced, consumed) = (self.read(at::EVENTQ_PROD), self.read(at::EVENTQ_CONS));
        if (produced ^ consumed) & EVENT_MASK == 0 {
            return None;
        }
        sysreg::dsb_sy();
        let at = (consumed & EVENT_MASK >> 1) as usize * EVENT_WORDS;
        let words = core::array::from_fn(|word| {
            self.events
                .get(at + word)
                .map_or(0, |word| word.load(Ordering::Relaxed))
        });
        // With the bit that acknowledges an overflow.
        self.write(at::EVENTQ_CONS, produced);
        Some(refused(words, self.owner.first))
    }

    /// Writes a register that is acknowledged by the one behind it.
    fn set(&self, at: u64, value: u32) {
        const { assert!(at::CR0ACK == at::CR0 + 4 && at::IRQ_CTRLACK == at::IRQ_CTRL + 4) };
        self.write(at, value);
        self.wait(at + 4, u32::MAX, value);
    }

    #[inline(never)]
    fn wait(&self, at: u64, mask: u32, value: u32) {
        for _ in 0..PATIENCE {
            if self.read(at) & mask == value {
                return;
            }
        }
        panic!("the SMMU does not answer (register {at:#x})");
    }

    fn read(&self, at: u64) -> u32 {
        // SAFETY: one of its registers, by the contract of `new`.
        unsafe { ((self.registers.get() + at) as *const u32).read_volatile() }
    }

    fn write(&self, at: u64, value: u32) {
        // SAFETY: one of its registers, by the contract of `new`; the tables that they name are its own.
        unsafe { ((self.registers.get() + at) as *mut u32).write_volatile(value) }
    }

    fn write64(&self, at: u64, value: u64) {
        // SAFETY: as in `write`.
        unsafe { ((self.registers.get() + at) as *mut u64).write_volatile(value) }
    }
}
