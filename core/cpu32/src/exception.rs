//! Exceptions of the virtual CPU (DDI 0406C, B1.8 and B1.9), and how aborts are described to the
//! guest.

use crate::system::{SystemRegister, sctlr};
use crate::{Mode, Registers, VirtualCpu};
use hanok_decode::Psr;
use hanok_decode::aarch32::{ItState, Register};

/// An exception vector, by the exception that goes there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the exceptions' names
pub enum Vector {
    Reset,
    Undefined,
    SupervisorCall,
    PrefetchAbort,
    DataAbort,
    Irq,
    Fiq,
}

impl Vector {
    /// The offset from the vectors' base, in bytes (DDI 0406C, B1.8.1).
    pub const fn offset(self) -> u32 {
        match self {
            Self::Reset => 0,
            Self::Undefined => 0x04,
            Self::SupervisorCall => 0x08,
            Self::PrefetchAbort => 0x0c,
            Self::DataAbort => 0x10,
            Self::Irq => 0x18,
            Self::Fiq => 0x1c,
        }
    }

    /// The mode that the exception is taken to.
    pub const fn mode(self) -> Mode {
        match self {
            Self::Reset | Self::SupervisorCall => Mode::Supervisor,
            Self::Undefined => Mode::Undefined,
            Self::PrefetchAbort | Self::DataAbort => Mode::Abort,
            Self::Irq => Mode::Irq,
            Self::Fiq => Mode::Fiq,
        }
    }

    /// The distance from [`Registers::pc`] to the address in LR (B1.8.3).
    const fn to_link(self, thumb: bool) -> u32 {
        match self {
            Self::Undefined | Self::SupervisorCall if thumb => 2,
            Self::DataAbort => 8,
            _ => 4,
        }
    }

    /// Whether A is set: by all exceptions that can interrupt the handler of an abort.
    const fn masks_aborts(self) -> bool {
        !matches!(self, Self::Undefined | Self::SupervisorCall)
    }
}

/// What went wrong with an access (B3.13.3, short-descriptor format).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FaultStatus {
    /// The address is not aligned.
    Alignment,
    /// A cache operation by address did not find its address.
    CacheMaintenance,
    /// An external abort when the first-level table was read.
    ExternalOnWalkFirst,
    /// An external abort when a second-level table was read.
    ExternalOnWalkSecond,
    /// The first-level descriptor is invalid.
    TranslationFirst,
    /// The second-level descriptor is invalid.
    TranslationSecond,
    /// The access flag of a section is clear.
    AccessFlagFirst,
    /// The access flag of a page is clear.
    AccessFlagSecond,
    /// The domain of a section allows nothing.
    DomainFirst,
    /// The domain of a page allows nothing.
    DomainSecond,
    /// A section does not allow the access.
    PermissionFirst,
    /// A page does not allow the access.
    PermissionSecond,
    /// A debug event.
    Debug,
    /// Nothing answers at the physical address.
    External,
    /// An asynchronous external abort, which has no address.
    AsynchronousExternal,
}

impl FaultStatus {
    /// FS, five bits.
    pub const fn code(self) -> u8 {
        match self {
            Self::Alignment => 0b00001,
            Self::Debug => 0b00010,
            Self::AccessFlagFirst => 0b00011,
            Self::CacheMaintenance => 0b00100,
            Self::TranslationFirst => 0b00101,
            Self::AccessFlagSecond => 0b00110,
            Self::TranslationSecond => 0b00111,
            Self::External => 0b01000,
            Self::DomainFirst => 0b01001,
            Self::DomainSecond => 0b01011,
            Self::ExternalOnWalkFirst => 0b01100,
            Self::PermissionFirst => 0b01101,
            Self::ExternalOnWalkSecond => 0b01110,
            Self::PermissionSecond => 0b01111,
            Self::AsynchronousExternal => 0b10110,
        }
    }

    /// Whether the fault is of a known domain: the first-level descriptor that names it was read and
    /// is valid (B3.13.3).
    const fn has_domain(self) -> bool {
        matches!(
            self,
            Self::AccessFlagSecond
                | Self::TranslationSecond
                | Self::DomainFirst
                | Self::DomainSecond
                | Self::PermissionFirst
                | Self::PermissionSecond
                | Self::AccessFlagFirst
                | Self::ExternalOnWalkSecond
        )
    }
}

/// A fault of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fault {
    /// What went wrong.
    pub status: FaultStatus,
    /// The domain of the address, 0 to 15; used where the fault has one.
    pub domain: u8,
}

impl Fault {
    /// A fault that belongs to no domain.
    pub const fn without_domain(status: FaultStatus) -> Self {
        Self { status, domain: 0 }
    }

    /// IFSR; with WnR and the domain it is DFSR (B4.1, IFSR, DFSR).
    const fn instruction_status(self) -> u32 {
        let code = self.status.code() as u32;
        (code & 0x10) << 6 | code & 0xf
    }

    const fn data_status(self, write: bool) -> u32 {
        let domain = if self.status.has_domain() {
            (self.domain as u32 & 0xf) << 4
        } else {
            0
        };
        self.instruction_status() | domain | (write as u32) << 11
    }
}

/// An exception. [`Registers::pc`] is the address of the instruction that caused it; of an interrupt
/// and an asynchronous abort, that of the instruction that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exception {
    /// An instruction is undefined.
    Undefined,
    /// SVC.
    SupervisorCall,
    /// An instruction could not be fetched.
    PrefetchAbort {
        /// The address, for IFAR.
        address: u32,
        /// What went wrong.
        fault: Fault,
    },
    /// Data could not be accessed.
    DataAbort {
        /// The address, for DFAR. An asynchronous abort has none.
        address: u32,
        /// What went wrong.
        fault: Fault,
        /// Whether the access was a store, or an operation on a cache.
        write: bool,
    },
    /// An IRQ.
    Irq,
    /// An FIQ.
    Fiq,
}

impl Exception {
    /// Where it goes.
    pub const fn vector(self) -> Vector {
        match self {
            Self::Undefined => Vector::Undefined,
            Self::SupervisorCall => Vector::SupervisorCall,
            Self::PrefetchAbort { .. } => Vector::PrefetchAbort,
            Self::DataAbort { .. } => Vector::DataAbort,
            Self::Irq => Vector::Irq,
            Self::Fiq => Vector::Fiq,
        }
    }
}

/// Which interrupts the interrupt controller signals to the virtual CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    /// An IRQ waits.
    pub irq: bool,
    /// An FIQ waits.
    pub fiq: bool,
}

/// An interrupt that can be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Interrupt {
    /// An IRQ.
    Irq,
    /// An FIQ.
    Fiq,
}

impl VirtualCpu {
    /// Takes an exception: SPSR, LR, mode and masks as the manual says, the fault registers of an
    /// abort, and the PC at the vector.
    pub fn take(&mut self, registers: &mut Registers, exception: Exception) {
        self.describe(exception);
        let vector = exception.vector();
        if vector == Vector::SupervisorCall {
            // The SPSR is that of the next instruction (B1.9, TakeSVCException).
            let it = ItState::from_bits(registers.psr.it());
            registers.set_it(it.next());
        }
        let old = self.psr(registers);
        let link = registers.pc.wrapping_add(vector.to_link(old.thumb()));
        self.set_psr(registers, self.entered(old, vector));
        self.banks.of_mut(self.mode).spsr = old;
        registers.write(Register::LR, link);
        registers.pc = self.vectors().wrapping_add(vector.offset());
    }

    /// Tells the virtual CPU which interrupts wait, which ISR reports.
    pub const fn set_lines(&mut self, lines: Lines) {
        self.lines = lines;
    }

    /// The interrupt that waits and is not masked; an FIQ first.
    pub const fn deliverable(&self) -> Option<Interrupt> {
        if self.lines.fiq && !self.masks.fiqs {
            Some(Interrupt::Fiq)
        } else if self.lines.irq && !self.masks.irqs {
            Some(Interrupt::Irq)
        } else {
            None
        }
    }

    /// Whether any interrupt waits, masked or not.
    pub const fn has_lines(&self) -> bool {
        self.lines.irq || self.lines.fiq
    }

    /// Whether an IRQ waits that is masked.
    pub const fn waits(&self) -> bool {
        self.lines.irq && self.masks.irqs
    }

    /// Takes the interrupt that is [deliverable](Self::deliverable) before the next instruction, and
    /// says which one it was.
    pub fn deliver(&mut self, registers: &mut Registers) -> Option<Interrupt> {
        let interrupt = self.deliverable()?;
        let exception = match interrupt {
            Interrupt::Irq => Exception::Irq,
            Interrupt::Fiq => Exception::Fiq,
        };
        self.take(registers, exception);
        Some(interrupt)
    }

    /// CPSR in the handler of an exception.
    pub(crate) fn entered(&self, old: Psr, vector: Vector) -> Psr {
        let control = self.system(SystemRegister::Sctlr);
        let both = matches!(vector, Vector::Fiq | Vector::Reset);
        old.with_mode(vector.mode().into_bits())
            .with_irq_masked(true)
            .with_fiq_masked(old.fiq_masked() || both)
            .with_abort_masked(old.abort_masked() || vector.masks_aborts())
            .with_thumb(control & sctlr::TE != 0)
            .with_big_endian(control & sctlr::EE != 0)
            .with_it_high(0)
            .with_it_low(0)
    }

    /// The address of a vector.
    pub fn vector(&self, vector: Vector) -> u32 {
        self.vectors().wrapping_add(vector.offset())
    }

    /// The vectors' base (ExcVectorBase, B1.8.1).
    pub(crate) fn vectors(&self) -> u32 {
        const HIGH: u32 = 0xffff_0000;
        if self.system(SystemRegister::Sctlr) & sctlr::V != 0 {
            HIGH
        } else {
            self.system(SystemRegister::Vbar)
        }
    }

    /// Fills the fault registers.
    fn describe(&mut self, exception: Exception) {
        match exception {
            Exception::PrefetchAbort { address, fault } => {
                self.system
                    .set(SystemRegister::Ifsr, fault.instruction_status());
                self.system.set(SystemRegister::Ifar, address);
            }
            Exception::DataAbort {
                address,
                fault,
                write,
            } => {
                self.system
                    .set(SystemRegister::Dfsr, fault.data_status(write));
                if fault.status != FaultStatus::AsynchronousExternal {
                    self.system.set(SystemRegister::Dfar, address);
                }
            }
            _ => {}
        }
    }
}
