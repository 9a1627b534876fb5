//! The operations of the machine that the core needs while it handles an exit.

use hanok_decode::SysReg;
use hanok_devices::Bells;
use hanok_hal::SerialPort;
use hanok_types::{CpuId, Hpa, IntId, VmId, Width};

/// One of a vCPU's stack pointers, which are not among its general registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StackPointer {
    /// SP_EL0: at EL0, and at EL1 with PSTATE.SP clear.
    El0,
    /// SP_EL1: at EL1 with PSTATE.SP set.
    El1,
}

impl StackPointer {
    /// The stack pointer that register 31 means as a base address, for a PSTATE in the format of
    /// SPSR_EL2 of an AArch64 guest (DDI 0487, D1.2.2 and C5.2.19: M[3:0]).
    pub const fn of(pstate: u64) -> Self {
        if pstate & 0xf == 0b0101 {
            Self::El1
        } else {
            Self::El0
        }
    }
}

/// The system counter.
pub trait Clock {
    /// The value of CNTPCT_EL0, in ticks of [`Self::counter_frequency`].
    fn counter(&self) -> u64;

    /// The frequency of the counter, in ticks per second.
    fn counter_frequency(&self) -> u64;
}

/// The pCPU of a vCPU, and the vCPU's place there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// Its pCPU.
    pub cpu: CpuId,
    /// The vCPU's bit in its pCPU's mask of pending updates; zero if it is alone there.
    pub bit: u64,
}

/// Physical interrupts.
pub trait Interrupts {
    /// Makes the pCPU of a vCPU leave its guest, or wake up, and check the requests that were made
    /// to that vCPU before. A pCPU may kick itself, and then leaves its guest once more.
    fn kick(&self, home: Home);

    /// Deactivates a physical interrupt that no guest holds any more.
    fn deactivate(&self, interrupt: IntId);
}

/// The lines behind VMs' serial ports.
pub trait SerialLines {
    /// The sending end of such a line.
    type Port<'a>: SerialPort
    where
        Self: 'a;

    /// The line behind the serial port of `vm`.
    fn port(&self, vm: VmId) -> Self::Port<'_>;

    /// To be called after an access to the serial port of `vm`: `room` says whether it has room for
    /// received bytes, and `waiting` whether bytes wait to be sent.
    fn line_state(&self, vm: VmId, room: bool, waiting: bool);

    /// Whether received bytes for `vm` may wait until its serial port has room. It is read with the port's
    /// device locked: if it is false, a pCPU that has further bytes finds the present room afterwards.
    fn input_waits(&self, vm: VmId) -> bool;
}

/// Registers of this CPU that a guest reaches only by exits.
pub trait CpuRegisters {
    /// Sets MDSCR_EL1 of this CPU for the resident vCPU.
    fn set_debug_control(&self, value: u64);

    /// The value of a breakpoint or watchpoint register of this CPU (DBGBVR, DBGBCR, DBGWVR,
    /// DBGWCR). The register must exist.
    fn debug_register(&self, id: SysReg) -> u64;

    /// Sets a breakpoint or watchpoint register. The register must exist.
    fn set_debug_register(&self, id: SysReg, value: u64);

    /// Sets all breakpoint and watchpoint registers to zero.
    fn clear_debug_registers(&self);

    /// The CPU's own value of an ID register (op0 3, op1 0, CRn 0).
    fn id_register(&self, id: SysReg) -> u64;

    /// A stack pointer of the vCPU that is in this pCPU.
    fn stack_pointer(&self, which: StackPointer) -> u64;

    /// Sets a stack pointer of the vCPU that is in this pCPU.
    fn set_stack_pointer(&self, which: StackPointer, value: u64);

    /// SIMD and FP register `index`, below 32, of the resident vCPU; `None` if that vCPU has not
    /// accessed any since it came, so that none of its instructions can have used one.
    fn vector(&self, index: u8) -> Option<u128>;

    /// Sets all 128 bits of a SIMD and FP register; it has no effect if [`Self::vector`] is `None`.
    fn set_vector(&self, index: u8, value: u128);
}

/// Registers of real devices that a guest reaches only by exits.
pub trait DeviceRegisters {
    /// Stores the low bytes of `value` to the register at `at`, which is a multiple of the width, or loads from
    /// there if there is no value. The answer is what was loaded, or zero; `None` if the device does not
    /// answer.
    fn access_register(&self, at: Hpa, width: Width, value: Option<u64>) -> Option<u64>;
}

/// The doorbells of channels between VMs.
pub trait Doorbells {
    /// Tells other VMs what a VM does to them on a channel. The caller holds no lock of a VM.
    fn ring(&self, bells: &Bells);
}

/// The machine as one pCPU sees it.
pub trait Machine:
    Clock + Interrupts + SerialLines + CpuRegisters + DeviceRegisters + Doorbells
{
}

impl<M: Clock + Interrupts + SerialLines + CpuRegisters + DeviceRegisters + Doorbells> Machine
    for M
{
}
