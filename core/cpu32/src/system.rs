//! The system registers that the virtual CPU holds (DDI 0406C, B3.17 and B4.1).

use crate::name::Name;
use crate::outcome::{MmuOperation, Outcome, RegimeChange};

/// The bits of SCTLR (DDI 0406C, B4.1, SCTLR).
pub mod sctlr {
    /// M: the MMU is on.
    pub const M: u32 = 1 << 0;
    /// A: all addresses must be aligned.
    pub const A: u32 = 1 << 1;
    /// C: data caches are on.
    pub const C: u32 = 1 << 2;
    /// Z: branch prediction is on.
    pub const Z: u32 = 1 << 11;
    /// I: instruction caches are on.
    pub const I: u32 = 1 << 12;
    /// V: the vectors are at 0xffff_0000.
    pub const V: u32 = 1 << 13;
    /// RR: caches replace in a predictable order.
    pub const RR: u32 = 1 << 14;
    /// EE: exception handlers begin with big-endian data, and so are translation tables.
    pub const EE: u32 = 1 << 25;
    /// TRE: TEX is remapped by PRRR and NMRR.
    pub const TRE: u32 = 1 << 28;
    /// AFE: AP\[0\] is the access flag.
    pub const AFE: u32 = 1 << 29;
    /// TE: exception handlers begin in T32.
    pub const TE: u32 = 1 << 30;
    /// What can be written. Not here: NMFI, VE, FI and HA, which are optional and read as zero; SW, as User mode executes SWP or
    /// does not, whatever the guest wants; WXN and UWXN, which are of the Virtualization Extensions; CP15BEN, which reads as one, since User
    /// mode executes these barriers itself.
    pub(crate) const WRITABLE: u32 = M | A | C | Z | I | V | RR | EE | TRE | AFE | TE;
    /// The value after a reset: the bits that read as one, and nothing enabled.
    pub const RESET: u32 = 0x00c5_0078;
}

/// A register that has a value of its own in the virtual CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the manual's names
#[repr(u8)]
pub enum SystemRegister {
    Sctlr,
    Cpacr,
    Ttbr0,
    Ttbr1,
    Ttbcr,
    Dacr,
    Dfsr,
    Ifsr,
    Dfar,
    Ifar,
    Par,
    Prrr,
    Nmrr,
    Vbar,
    Contextidr,
    Tpidrurw,
    Tpidruro,
    Tpidrprw,
    Csselr,
    Cntkctl,
    /// FPEXC, by VMRS and VMSR.
    Fpexc,
}

/// The number of registers.
const COUNT: usize = SystemRegister::Fpexc as usize + 1;

impl SystemRegister {
    /// Every register.
    pub const ALL: [Self; COUNT] = [
        Self::Sctlr,
        Self::Cpacr,
        Self::Ttbr0,
        Self::Ttbr1,
        Self::Ttbcr,
        Self::Dacr,
        Self::Dfsr,
        Self::Ifsr,
        Self::Dfar,
        Self::Ifar,
        Self::Par,
        Self::Prrr,
        Self::Nmrr,
        Self::Vbar,
        Self::Contextidr,
        Self::Tpidrurw,
        Self::Tpidruro,
        Self::Tpidrprw,
        Self::Csselr,
        Self::Cntkctl,
        Self::Fpexc,
    ];

    /// The register of CP15 with this name.
    pub(crate) const fn of(name: Name) -> Option<Self> {
        Some(match name.tuple() {
            (0, 13, 0, 4) => Self::Tpidrprw,
            (0, 13, 0, 3) => Self::Tpidruro,
            (0, 13, 0, 2) => Self::Tpidrurw,
            (0, 13, 0, 1) => Self::Contextidr,
            (0, 3, 0, 0) => Self::Dacr,
            (0, 1, 0, 0) => Self::Sctlr,
            (0, 1, 0, 2) => Self::Cpacr,
            (0, 2, 0, 0) => Self::Ttbr0,
            (0, 2, 0, 1) => Self::Ttbr1,
            (0, 2, 0, 2) => Self::Ttbcr,
            (0, 5, 0, 0) => Self::Dfsr,
            (0, 5, 0, 1) => Self::Ifsr,
            (0, 6, 0, 0) => Self::Dfar,
            (0, 6, 0, 2) => Self::Ifar,
            (0, 7, 4, 0) => Self::Par,
            (0, 10, 2, 0) => Self::Prrr,
            (0, 10, 2, 1) => Self::Nmrr,
            (0, 12, 0, 0) => Self::Vbar,
            (0, 14, 1, 0) => Self::Cntkctl,
            (2, 0, 0, 0) => Self::Csselr,
            _ => return None,
        })
    }

    /// The bits that a guest can write; the others keep what they have after a reset.
    const fn writable(self) -> u32 {
        match self {
            Self::Sctlr => sctlr::WRITABLE,
            // Access to coprocessors 10 and 11.
            Self::Cpacr => 0x00f0_0000,
            // N, PD0 and PD1; not EAE of LPAE.
            Self::Ttbcr => 0x37,
            // ExT, WnR, FS, domain.
            Self::Dfsr => 0x1cff,
            // ExT, FS.
            Self::Ifsr => 0x140f,
            Self::Vbar => !0x1f,
            Self::Csselr => 0xf,
            // PL0PTEN, PL0VTEN, EVNTI, EVNTDIR, EVNTEN, PL0VCTEN, PL0PCTEN.
            Self::Cntkctl => 0x3ff,
            // EN. Exceptions of VFP are not trapped.
            Self::Fpexc => 1 << 30,
            _ => u32::MAX,
        }
    }

    /// What follows from a change of these bits.
    const fn effect(self, changed: u32) -> Outcome {
        let regime = match self {
            Self::Cpacr | Self::Fpexc => return Outcome::FloatingPoint,
            Self::Sctlr => RegimeChange::Control { changed },
            Self::Ttbr0 | Self::Ttbr1 | Self::Ttbcr => RegimeChange::Tables,
            Self::Dacr => RegimeChange::Domains,
            Self::Prrr | Self::Nmrr => RegimeChange::MemoryTypes,
            Self::Contextidr => RegimeChange::Context,
            _ => return Outcome::Done,
        };
        Outcome::Mmu(MmuOperation::Changed(regime))
    }
}

/// Registers that have changed: a bit for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Changes(pub(crate) u32);

impl Changes {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// Those that say how addresses are translated, but for DACR, what exceptions lead to, and what programs may use.
    const CONTROL: u32 = {
        use SystemRegister::*;
        1 << Sctlr as u32
            | 1 << Cpacr as u32
            | 1 << Ttbr0 as u32
            | 1 << Ttbr1 as u32
            | 1 << Ttbcr as u32
            | 1 << Prrr as u32
            | 1 << Nmrr as u32
            | 1 << Vbar as u32
            | 1 << Contextidr as u32
            | 1 << Cntkctl as u32
            | 1 << Fpexc as u32
    };

    /// Whether the translation of addresses, leaving DACR aside, the way of exceptions or what programs may use is not as it was.
    pub const fn is_of_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }
}

/// The values of the registers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SystemRegisters {
    values: [u32; COUNT],
    /// What has changed.
    changes: Changes,
}

impl PartialEq for SystemRegisters {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

impl Eq for SystemRegisters {}

impl SystemRegisters {
    /// After a reset. What the manual leaves UNKNOWN is zero.
    pub(crate) fn new() -> Self {
        let mut registers = Self {
            values: [0; COUNT],
            changes: Changes(0),
        };
        registers.set(SystemRegister::Sctlr, sctlr::RESET);
        registers
    }

    pub(crate) fn get(&self, register: SystemRegister) -> u32 {
        self.values.get(register as usize).copied().unwrap_or(0)
    }

    /// Sets the whole value of a register of which the virtual CPU's page has no copy.
    pub(crate) fn set_unseen(&mut self, register: SystemRegister, value: u32) {
        if let Some(place) = self.values.get_mut(register as usize) {
            *place = value;
        }
    }

    /// Sets the whole value, as the CPU itself does.
    pub(crate) fn set(&mut self, register: SystemRegister, value: u32) {
        if let Some(place) = self.values.get_mut(register as usize)
            && *place != value
        {
            *place = value;
            self.changes.0 |= 1 << register as u32;
        }
    }

    /// What [`Self::set`] has changed since there was another value of it.
    pub(crate) const fn changes(&self) -> Changes {
        self.changes
    }

    /// Takes this for what has changed.
    pub(crate) const fn set_changes(&mut self, changes: Changes) {
        self.changes = changes;
    }

    /// Writes the value as a guest does.
    pub(crate) fn write(&mut self, register: SystemRegister, value: u32) -> Outcome {
        let mask = register.writable();
        let old = self.get(register);
        let new = old & !mask | value & mask;
        self.set(register, new);
        if old == new {
            Outcome::Done
        } else {
            register.effect(old ^ new)
        }
    }
}
