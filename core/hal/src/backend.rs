//! The traits by which the executive of a pCPU uses a CPU backend.
//!
//! A backend enters and leaves guests, keeps a vCPU's registers, and drives this CPU's part of the
//! interrupt controller and its timer. It decides nothing: `hanok_pcpu` decides who runs, who waits
//! and what happens to a VM, and it knows a backend by these traits alone.
//!
//! "This CPU" is the one that makes the call. A method of a [`Backend`] with `&self` acts on it, as
//! a CPU's system registers do. The value itself holds what belongs to the whole board.

use crate::{AccessError, End, GuestMemory, ListRegisters, SerialPort, TableMemory};
use core::fmt;
use hanok_types::{CpuId, Deadline, Hpa, IntId, Ipa, Regs, Span, VmId};

/// One kind of CPU.
pub trait Backend: Sized + Sync + 'static {
    /// A vCPU's registers. In a pool they go from CPU to CPU.
    type Context: Context<Self> + Send;
    /// This CPU's virtual interrupt interface.
    type Lists: VirtualCpuInterface;
    /// This CPU's part of the board's interrupt controller.
    type Gic: HostGic;
    /// A region of a VM's memory.
    type Memory: VmMemory;
    /// The frames of a VM's stage 2.
    type Tables: TableMemory + Send;
    /// The board's serial line.
    type Line: HostLine;

    /// Whether devices of a VM may be behind an SMMU, which [`Self::allow_dma`] and the other methods about refused
    /// accesses drive. Where this is false they are never called.
    const HAS_SMMU: bool = false;
    /// Whether its trap entry records, while exits are traced, which interrupt came and which vCPU is entered, so that the
    /// executive need not: each test whether something is recorded takes two instructions of its shortest ways.
    const RECORDS_ENTRIES: bool = false;

    /// The value of the system counter (CNTPCT_EL0), in ticks of [`Self::counter_frequency`].
    fn counter(&self) -> u64;
    /// The frequency of the system counter, in ticks per second.
    fn counter_frequency(&self) -> u64;
    /// Sets this CPU's timer for the hypervisor, which interrupts when `due` has come.
    /// [`Deadline::NEVER`] turns it off.
    fn set_timer(&self, due: Deadline);
    /// Turns this CPU's virtual timer off.
    fn stop_virtual_timer(&self);

    /// Makes `cpu` leave its guest, or wake up. `cpu` then sees all that was written before.
    fn kick(&self, cpu: CpuId);
    /// Lets another CPU go on, where several share what executes them, while this one waits for it.
    fn pause(&self);
    /// Acknowledges this CPU's pending interrupt of the highest priority, if there is one.
    fn acknowledge(&self) -> Option<Taken>;
    /// Drops the running priority of an acknowledged interrupt, so that others can come.
    fn drop_priority(&self, taken: Taken);
    /// Deactivates an acknowledged interrupt, so that it can come again.
    fn end(&self, taken: Taken);
    /// Deactivates an interrupt that is no SGI. It has no effect if the interrupt is not active.
    fn deactivate(&self, interrupt: IntId);
    /// This CPU's virtual interrupt interface.
    fn lists(&self) -> Self::Lists;

    /// Whether an interrupt is pending for this CPU, on which interrupts are masked.
    fn interrupt_is_pending(&self) -> bool;
    /// Sleeps until an interrupt is pending for this CPU, masked or not.
    fn idle(&self);
    /// Changes to the empty stage 2, since no vCPU is in this CPU.
    fn enter_empty_space(&self);
    /// Invalidates the entries of all guests in the TLBs of all CPUs.
    fn invalidate_all_tlbs(&self);
    /// Invalidates the entries for `range` in all CPUs' TLBs, in the address space with this
    /// VTTBR_EL2, with everything that was combined with stage 1, and waits until that is done on
    /// all CPUs.
    fn invalidate_range(&self, space: u64, range: Span<Ipa>);
    /// Makes all CPUs fetch instructions as they are in memory now.
    fn invalidate_instruction_caches(&self);
    /// Lets the devices that VM `vm` has behind an SMMU access the VM's memory; or keeps them from all memory, and
    /// waits until none of their accesses is under way.
    fn allow_dma(&self, _vm: VmId, _on: bool) {}
    /// Switches off some of the devices that VM `vm` has behind an SMMU, which are kept from all memory, so that they
    /// do nothing until the VM switches them on. It is called until all are.
    fn quiet_devices(&self, _vm: VmId) -> Quiet {
        Quiet::All
    }
    /// The first access that an SMMU has refused since the last call. The others are forgotten.
    fn refused_access(&self) -> Option<RefusedAccess> {
        None
    }
    /// The value of this CPU's counter of the hypervisor's own instructions, modulo 2^32; any value
    /// if it has no such counter.
    fn instructions(&self) -> u32;
    /// Whether this CPU's trap entry records exits and entries in the trace from now on, with what else
    /// [`Self::RECORDS_ENTRIES`] says. A backend whose trap entry cannot do that records none.
    fn trace_exits(&self, _on: bool) {}
    /// Turns the board off. It returns if the firmware cannot do that.
    fn power_off(&self);
}

/// How many of a VM's devices behind an SMMU are switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Quiet {
    /// Some of them.
    Some,
    /// All of them.
    All,
}

/// An access of a device to memory, which an SMMU has refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedAccess {
    /// The device by its bus, number and function (PCIe's requester ID).
    pub requester: u32,
    /// The address at which it was; zero where the SMMU does not tell it.
    pub address: u64,
    /// Whether it was a write.
    pub write: bool,
}

/// Whether a vCPU has caused an error that is reported late (SError, asynchronous abort).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum LateError {
    /// There is no such error.
    None,
    /// There is one, which belongs to the vCPU that leaves.
    Pending,
}

/// Whether a vCPU got the FP registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum FpGiven {
    /// They are in the CPU now.
    Loaded,
    /// The CPU has no FP registers.
    Absent,
}

/// The beginning of a vCPU's program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its program counter.
    pub pc: u64,
    /// Its first argument.
    pub argument: u64,
}

/// The state in which a vCPU starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    /// The beginning of its program.
    pub entry: Entry,
    /// Its affinity, as its MPIDR reads.
    pub mpidr: u64,
    /// Whether it is the VM's first vCPU to start in this boot. That one follows the boot protocol
    /// of its kernel; PSCI starts all others.
    pub boots: bool,
}

/// How much of what was known of a VM's pages is forgotten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Forgotten {
    /// A part of it.
    Part,
    /// All of it.
    All,
}

/// What a backend must know to load a vCPU into the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Its VM's address space: VTTBR_EL2.
    pub space: u64,
    /// Whether this CPU's TLB may hold translations of another vCPU of the same VM, which has the
    /// same VMID.
    pub stale: bool,
    /// Whether its FP registers are still in the CPU.
    pub has_fp: bool,
    /// Whether it uses breakpoints or watchpoints.
    pub debugs: bool,
}

/// An exception that is injected into a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestFault {
    /// The instruction is undefined.
    Undefined,
    /// Nothing answered a load or store: synchronous external abort.
    ExternalData {
        /// Whether it was a store.
        write: bool,
        /// Whether the access was made by a walk of stage 1.
        walk: bool,
    },
    /// An exclusive or atomic access to memory that supports none: DFSC 0b110101.
    UnsupportedAtomic {
        /// Whether the CPU reported it as a store.
        write: bool,
    },
    /// Nothing answered an instruction fetch: synchronous external abort.
    ExternalFetch {
        /// Whether the access was made by a walk of stage 1.
        walk: bool,
    },
    /// SError, asynchronous.
    SystemError,
}

/// A vCPU's registers, and all else that a backend keeps of it.
pub trait Context<B: Backend<Context = Self>>: Sized {
    /// The number of hexadecimal digits of an address, for people.
    const DIGITS: usize;
    /// The name of the register that holds an exit's syndrome.
    const SYNDROME: &'static str;
    /// The name of an error that is reported late.
    const ERROR: &'static str;

    /// The general registers, valid between an exit and [`Self::depart`].
    fn regs(&self) -> &Regs;
    /// The general registers, to be changed.
    fn regs_mut(&mut self) -> &mut Regs;
    /// Resets all registers to those of a vCPU that starts.
    fn reset(&mut self, start: Start);
    /// Forgets a part of what the backend knows of the pages of the VM's memory, which is made anew. Called for the
    /// VM's first vCPU, while none is in the VM, until all is forgotten; what was forgotten stays so if the boot is
    /// abandoned in between.
    #[inline(always)]
    fn forget_pages(&mut self) -> Forgotten {
        Forgotten::All
    }
    /// Puts the general registers where the return to the guest takes them from.
    fn depart(&mut self);

    /// Takes the vCPU's state out of the CPU, except FP registers and interrupts, and stops its
    /// virtual timer there. `debugs` as in [`Arrival`].
    fn save(&mut self, machine: &B, debugs: bool) -> LateError;
    /// Puts the vCPU's state into the CPU, except interrupts. [`Self::arrived`] must follow.
    fn load(&mut self, machine: &B, arrival: Arrival);
    /// Ends the arrival: all of the vCPU's state is in the CPU, interrupts included.
    fn arrived(&self, machine: &B);
    /// Takes the vCPU out of the CPU without saving its state, which is of no use any more.
    fn discard(&mut self, machine: &B) -> LateError;
    /// Saves the FP registers of `owner`, which are in the CPU, and loads those of `next`, which
    /// has accessed one.
    fn hand_over_fp(owner: Option<&mut Self>, next: &mut Self) -> FpGiven;
    /// Saves the FP registers of the vCPU, which are in the CPU, and leaves them to nobody: the vCPU, which is not
    /// in the CPU otherwise, goes to another one.
    fn take_fp(&mut self);
    /// The vCPU, which is in no CPU, is `cpu`'s from now on.
    fn comes_to(&mut self, cpu: CpuId);

    /// The instant at which its virtual timer is to interrupt, by its saved registers.
    fn virtual_timer_due(&self) -> Deadline;
    /// Whether an SError or asynchronous abort is pending for the vCPU. `resident` says whether it
    /// is in the CPU.
    fn has_pending_error(&self, resident: bool) -> bool;
    /// Makes such an error pending for when the vCPU is in the CPU again.
    fn pend_error(&mut self);
    /// Injects an exception into the vCPU, which is in the CPU, at the instruction that caused its
    /// exit. `memory` is that of its VM.
    fn inject(&mut self, fault: GuestFault, memory: &impl GuestMemory);
    /// The address of its handler of failed instruction fetches. The vCPU is in the CPU.
    fn fetch_vector(&self) -> u64;

    /// Copies the registers that the CPU holds of the vCPU, which is in the CPU, for the two
    /// methods below.
    fn copy_from_cpu(&mut self, machine: &B);
    /// The vector at which the vCPU takes one exception after another, if it does.
    fn storm_vector(&self) -> Option<u64>;
    /// Says its registers, one row at a time.
    fn describe(&self, say: impl Fn(fmt::Arguments<'_>));
}

/// An acknowledged interrupt: its id, and on a GICv2 the CPU that sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken(u32);

impl Taken {
    /// An interrupt with this value of the acknowledge register.
    #[inline(always)]
    pub const fn new(raw: u32) -> Self {
        Self(raw)
    }

    /// The value of the acknowledge register.
    #[inline(always)]
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// Whether no interrupt was pending: the special ids (IHI 0069H, 2.2.1; IHI 0048B, 3.2.5).
    #[inline(always)]
    pub const fn is_none(self) -> bool {
        self.0 & 0x3ff >= 1020
    }

    /// The interrupt's id.
    #[inline(always)]
    pub const fn id(self) -> IntId {
        // No id of 1024 or above (an LPI) is ever enabled.
        IntId::new(self.0 & 0x3ff)
    }
}

/// A CPU's virtual CPU interface: the list registers, and the other state that moves with a vCPU.
pub trait VirtualCpuInterface: ListRegisters {
    /// The state of a vCPU besides the list registers: the guest's masks and settings, and the
    /// priorities of its active interrupts. The default is the state after a reset.
    type State: Default + Send;

    /// Loads a vCPU's state into the interface, and lets it signal interrupts.
    fn enter(&mut self, state: &Self::State);
    /// Saves the vCPU's state from the interface, which does not signal interrupts any more.
    fn leave(&mut self, state: &mut Self::State);
    /// Stops the interface from signalling interrupts; its state is not used any more.
    fn stop(&mut self);
}

/// A CPU's view of the board's interrupt controller, for setting up interrupts. Those below 32 are
/// this CPU's own.
pub trait HostGic {
    /// Enables or disables an interrupt.
    fn enable(&self, interrupt: IntId, on: bool);
    /// Routes an SPI to a CPU.
    fn route(&self, interrupt: IntId, to: CpuId);
    /// Makes an interrupt active although it has not fired, so that it cannot fire until it is
    /// deactivated; or deactivates it.
    fn set_active(&self, interrupt: IntId, on: bool);
    /// Clears the pending state of an SPI. If its line is high, it becomes pending again at once.
    fn clear_pending(&self, interrupt: IntId);
    /// Sets whether an SPI is triggered by an edge or by a level.
    fn set_edge(&self, interrupt: IntId, edge: bool);
}

/// A region of a VM's memory, as the hypervisor accesses it.
pub trait VmMemory: GuestMemory {
    /// The number of bytes that are copied before interrupts are checked: less than four thousand
    /// instructions.
    const COPIED: u64;
    /// The number of bytes that are zeroed or cleaned, a cache line at a time, before interrupts
    /// are checked: less than four thousand instructions.
    const LINES: u64;

    /// The range of the guest's addresses.
    fn ipa(&self) -> Span<Ipa>;
    /// The first address on the board.
    fn host(&self) -> Hpa;
    /// Sets `len` bytes at `at` to `value`; does nothing if they are not all inside.
    fn fill(&self, at: Ipa, len: u64, value: u8);
    /// Sets `len` bytes at `at` to zero and cleans them as [`Self::clean`] does; does nothing if
    /// they are not all inside.
    fn zero(&self, at: Ipa, len: u64);
    /// Makes what was written to `len` bytes at `at` visible to a guest that starts with its caches
    /// off.
    fn clean(&self, at: Ipa, len: u64);
    /// Calls `write` with `len` bytes at `at`; `None` if they are not all inside. Only for the CPU
    /// that fills the memory of a VM in which no vCPU is.
    fn overwrite<R>(&self, at: Ipa, len: u64, write: impl FnOnce(&mut [u8]) -> R) -> Option<R>;
    /// The part of the same VM's memory that has the guest's addresses `ipa` and is at `host` now.
    /// Only for frames that belong to the VM, or are on their way to or from it. The result must
    /// not be used after they belong to another owner.
    fn part(&self, ipa: Span<Ipa>, host: Hpa) -> Self;
    /// Copies `bytes` bytes at `at` to `there` of `to`, which is another VM's or the same. The guests may change them meanwhile.
    ///
    /// # Errors
    /// Where one of the memories has no such bytes; then nothing is copied.
    fn pass(&self, at: Ipa, to: (&Self, Ipa), bytes: u32) -> Result<(), (End, AccessError)>;
    /// Copies all of it to frames at `to`, which are on their way to the same VM. No CPU has the
    /// memory in its stage 2 meanwhile. What guests wrote with their caches off is copied, too.
    fn copy_to(&self, to: Hpa);
}

/// Whether a serial line's interrupts say that bytes were received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum ReceiveInterrupt {
    /// One of them is pending.
    Pending,
    /// None of them is pending.
    Idle,
}

/// The board's serial line.
pub trait HostLine: SerialPort {
    /// Clears the pending interrupts, except those for received bytes, which the line clears when the bytes are
    /// read. The answer says whether one of these is pending.
    fn acknowledge(&mut self) -> ReceiveInterrupt;
    /// Clears the interrupts for received bytes, after no byte was found.
    fn acknowledge_in_vain(&mut self);
    /// The next received byte.
    fn receive(&mut self) -> Option<u8>;
    /// Enables or disables the interrupt for room to send bytes.
    fn interrupt_when_writable(&mut self, on: bool);
    /// Enables or disables the interrupts for received bytes.
    fn interrupt_when_received(&mut self, on: bool);
}
