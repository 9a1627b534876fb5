//! What the executive of a pCPU asks of a CPU backend.
//!
//! A backend enters and leaves guests, keeps a vCPU's registers, drives this CPU's part of the
//! interrupt controller and its timer. It decides nothing: who runs, who waits and what becomes
//! of a VM is `hanok_pcpu`'s, which knows a backend by these traits alone.
//!
//! "This CPU" is the one that calls. A method with `&self` of a [`Backend`] acts on it, as a
//! CPU's system registers do; what belongs to the whole board is in the value itself.

use crate::{GuestMemory, ListRegisters, SerialPort, TableMemory};
use core::fmt;
use hanok_types::{CpuId, Deadline, Hpa, IntId, Ipa, Regs, Span};

/// How one kind of CPU is driven.
pub trait Backend: Sized + Sync + 'static {
    /// A vCPU's registers.
    type Context: Context<Self>;
    /// This CPU's virtual interrupt interface.
    type Lists: VirtualInterface;
    /// This CPU's part of the board's interrupt controller.
    type Gic: HostGic;
    /// A region of a VM's memory.
    type Memory: VmMemory;
    /// The frames of a VM's stage 2.
    type Tables: TableMemory + Send;
    /// The board's serial line.
    type Line: HostLine;

    /// The system counter (CNTPCT_EL0), in ticks of [`Self::counter_frequency`].
    fn counter(&self) -> u64;
    /// Ticks a second.
    fn counter_frequency(&self) -> u64;
    /// Sets the hypervisor's own timer on this CPU, whose interrupt comes when `due` has come; off
    /// at [`Deadline::NEVER`].
    fn set_timer(&self, due: Deadline);
    /// Turns this CPU's virtual timer off.
    fn stop_virtual_timer(&self);

    /// Makes `cpu` leave its guest, or wake. Everything written before is visible to it then.
    fn kick(&self, cpu: CpuId);
    /// Takes this CPU's pending interrupt of the highest priority, if there is one.
    fn acknowledge(&self) -> Option<Taken>;
    /// Drops the priority of an interrupt that was taken, so that others can come.
    fn drop_priority(&self, taken: Taken);
    /// Deactivates an interrupt that was taken, so that it can come again.
    fn end(&self, taken: Taken);
    /// Deactivates an interrupt that is no SGI; without effect where it is not active.
    fn deactivate(&self, interrupt: IntId);
    /// This CPU's virtual interrupt interface.
    fn lists(&self) -> Self::Lists;

    /// Whether an interrupt is pending for this CPU, which has them masked.
    fn interrupt_is_pending(&self) -> bool;
    /// Sleeps until an interrupt is pending for this CPU, masked or not.
    fn idle(&self);
    /// Goes over to the stage 2 that maps nothing, as nobody is in this CPU.
    fn enter_empty_space(&self);
    /// Forgets what all CPUs' TLBs hold of any guest.
    fn forget_all_spaces(&self);
    /// Forgets what all CPUs' TLBs hold of `range` in the address space whose VTTBR_EL2 this is, and of
    /// what stage 1 made of it, and waits until that is done everywhere.
    fn forget_range(&self, space: u64, range: Span<Ipa>);
    /// No CPU fetches instructions that were at a place before it was written.
    fn forget_instructions(&self);
    /// What this CPU's counter of the hypervisor's own instructions shows, modulo 2^32; any value
    /// where it has none.
    fn instructions(&self) -> u32;
    /// Turns the board off. Comes back where its firmware cannot.
    fn power_off(&self);
}

/// An error, reported late, of what a vCPU did (SError; asynchronous abort).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum LateError {
    /// There was none.
    None,
    /// There was one, which is the vCPU's that leaves.
    Pending,
}

/// Whether FP registers were given to a vCPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FpGiven {
    /// They are in the CPU now.
    Yes,
    /// The CPU has none to give.
    No,
}

/// Where a vCPU begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its program counter.
    pub pc: u64,
    /// Its first argument.
    pub argument: u64,
}

/// How a vCPU starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// Where.
    pub entry: Entry,
    /// Its affinity, as its MPIDR reads.
    pub mpidr: u64,
    /// Whether it is the VM's first one to start in this boot, which follows the boot protocol of
    /// its kernel; all others are started by PSCI.
    pub boots: bool,
}

/// What is to be known of a vCPU that comes into the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its VM's address space: VTTBR_EL2.
    pub space: u64,
    /// Whether this CPU's TLB may hold translations of a sibling under the same VMID.
    pub stale: bool,
    /// Whether its FP registers are in the CPU still.
    pub has_fp: bool,
    /// Whether it uses breakpoints or watchpoints.
    pub debugs: bool,
}

/// An exception that a guest gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestFault {
    /// The instruction is undefined.
    Undefined,
    /// A load or store was answered by nothing: synchronous external abort.
    ExternalData {
        /// Whether it was a store.
        write: bool,
        /// Whether stage 1's walk did it.
        walk: bool,
    },
    /// An exclusive or atomic access to what takes none: DFSC 0b110101.
    UnsupportedAtomic {
        /// Whether the CPU reported it as a store.
        write: bool,
    },
    /// A fetch was answered by nothing.
    ExternalFetch {
        /// Whether stage 1's walk did it.
        walk: bool,
    },
    /// SError, asynchronous.
    SystemError,
}

/// A vCPU's registers, and what else a backend keeps of it.
pub trait Context<B: Backend<Context = Self>>: Sized {
    /// Digits of an address, for people.
    const DIGITS: usize;
    /// The name of the register with an exit's syndrome.
    const SYNDROME: &'static str;
    /// What an error that is reported late is called.
    const ERROR: &'static str;

    /// Its general registers between an exit and [`Self::depart`].
    fn regs(&self) -> &Regs;
    /// The same, to be changed.
    fn regs_mut(&mut self) -> &mut Regs;
    /// Makes all of it as for a vCPU that starts.
    fn reset(&mut self, start: Start);
    /// Its registers are where the way back to the guest takes them from.
    fn depart(&mut self);

    /// Takes its state out of the CPU, but for FP registers and interrupts, and stops its virtual
    /// timer there. `debugs` as in [`Arrival`].
    fn save(&mut self, machine: &B, debugs: bool) -> LateError;
    /// Puts its state into the CPU, but for interrupts. To be followed by [`Self::arrived`].
    fn load(&mut self, machine: &B, arrival: Arrival);
    /// All of it is in the CPU, interrupts included.
    fn arrived(&self, machine: &B);
    /// It leaves the CPU, and none of its state is of use any more.
    fn discard(&mut self, machine: &B) -> LateError;
    /// Puts the FP registers of `next`, which has touched one, into the CPU, after those of `owner`,
    /// which are there, were saved.
    fn hand_over_fp(owner: Option<&mut Self>, next: &mut Self) -> FpGiven;

    /// When its virtual timer is to interrupt, by the registers as they were saved.
    fn virtual_timer_due(&self) -> Deadline;
    /// Whether an SError, or asynchronous abort, is pending for it. `resident`: it is in the CPU.
    fn error_waits(&self, resident: bool) -> bool;
    /// Makes one pending for when it comes back to the CPU.
    fn pend_error(&mut self);
    /// Gives it, which is in the CPU, an exception at the instruction that made its exit. `memory` is
    /// its VM's.
    fn inject(&mut self, fault: GuestFault, memory: &impl GuestMemory);
    /// Where it, which is in the CPU, has its handler of a fetch that fails.
    fn fetch_vector(&self) -> u64;

    /// Copies what the CPU holds of it, which is in the CPU, for the two below.
    fn fetch(&mut self, machine: &B);
    /// The vector at which it takes one exception after the other, if it does.
    fn lost_at(&self) -> Option<u64>;
    /// Says its registers, a row at a time.
    fn describe(&self, say: impl Fn(fmt::Arguments<'_>));
}

/// An interrupt that was acknowledged: its id, and on a GICv2 the CPU that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken(u32);

impl Taken {
    /// What the acknowledge register read.
    #[inline(always)]
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// What the acknowledge register read.
    #[inline(always)]
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Whether nothing was pending: the special ids (IHI 0069H, 2.2.1; IHI 0048B, 3.2.5).
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 & 0x3ff >= 1020
    }

    /// Which.
    #[inline(always)]
    pub const fn id(self) -> IntId {
        // No id from 1024 on (an LPI) is ever enabled.
        IntId::new(self.0 & 0x3ff)
    }
}

/// A CPU's virtual interrupt interface: list registers, and what else of it travels with a vCPU.
pub trait VirtualInterface: ListRegisters {
    /// What it keeps of a vCPU beside the list registers: the guest's masks and settings, and the
    /// priorities at which it is interrupted. The default is the state out of reset.
    type State: Default;

    /// Gives the interface the state it has for a vCPU, and lets it signal.
    fn enter(&mut self, state: &Self::State);
    /// Takes the vCPU's state out of the interface, which signals no more.
    fn leave(&mut self, state: &mut Self::State);
    /// Lets the interface signal no more; its state is of no use to anybody.
    fn stop(&mut self);
}

/// A CPU's part of the board's interrupt controller, as interrupts are set up there. Of an
/// interrupt below 32 it is this CPU's own.
pub trait HostGic {
    /// Lets an interrupt through, or not.
    fn enable(&self, interrupt: IntId, on: bool);
    /// Sends an SPI to a CPU.
    fn route(&self, interrupt: IntId, to: CpuId);
    /// Makes an interrupt active without its having fired, so that it does not fire until it is
    /// deactivated; or takes that back.
    fn set_active(&self, interrupt: IntId, on: bool);
    /// Forgets that an SPI is pending; one whose line is high is so again at once.
    fn clear_pending(&self, interrupt: IntId);
    /// Whether an SPI is triggered by an edge or by a level.
    fn set_edge(&self, interrupt: IntId, edge: bool);
}

/// A region of a VM's memory, as the hypervisor fills it.
pub trait VmMemory: GuestMemory {
    /// Bytes that are copied before interrupts are looked for: less than four thousand
    /// instructions.
    const COPIED: u64;
    /// Bytes that are zeroed or cleaned, a line of the cache at a time, before interrupts are looked for:
    /// less than four thousand instructions.
    const LINES: u64;

    /// Where the guest sees it.
    fn ipa(&self) -> Span<Ipa>;
    /// Where it is.
    fn host(&self) -> Hpa;
    /// Sets `len` bytes at `at` to `value`; nothing where they are not all inside.
    fn fill(&self, at: Ipa, len: u64, value: u8);
    /// Sets `len` bytes at `at` to zero, and does [`Self::clean`]; nothing where they are not all
    /// inside.
    fn zero(&self, at: Ipa, len: u64);
    /// What was written to `len` bytes at `at` becomes visible to a guest that starts with its
    /// caches off.
    fn clean(&self, at: Ipa, len: u64);
    /// Lets `write` write `len` bytes at `at`; `None` where they are not all inside. To be called
    /// by who makes the memory of a VM that nobody is in, alone.
    fn overwrite<R>(&self, at: Ipa, len: u64, write: impl FnOnce(&mut [u8]) -> R) -> Option<R>;
    /// The part of the same VM's memory that is seen at `ipa`, and is at `host` now. To be called with
    /// frames that are the VM's, or on their way to or from it, alone; what comes of it is not to be used
    /// once they are another one's.
    fn part(&self, ipa: Span<Ipa>, host: Hpa) -> Self;
    /// Copies all of it to frames at `to`, which are on their way to the same VM. No CPU has the memory in
    /// its stage 2 then, and what guests wrote with their caches off is copied, too.
    fn copy_to(&self, to: Hpa);
}

/// The board's serial line.
pub trait HostLine: SerialPort {
    /// Lets the pending interrupts fall but those that say that bytes were received, which fall as the bytes are
    /// taken; whether one of these is pending.
    fn acknowledge(&mut self) -> bool;
    /// Lets the interrupts fall that say that bytes were received, though none were there.
    fn acknowledge_in_vain(&mut self);
    /// The next received byte.
    fn receive(&mut self) -> Option<u8>;
    /// Whether room for bytes to be sent shall interrupt.
    fn interrupt_when_writable(&mut self, on: bool);
}
