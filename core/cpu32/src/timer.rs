//! The generic timer's registers: who may use them, and what an access is to do (DDI 0406C, B8.1).

use crate::name::Name;
use crate::stop::Stop;
use crate::{Outcome, Registers, SystemRegister, VirtualCpu};
use hanok_decode::aarch32::Register;

/// A register of the generic timer that the caller has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // the manual's names
pub enum TimerRegister {
    Cntfrq,
    Cntpct,
    Cntvct,
    CntpTval,
    CntpCtl,
    CntpCval,
    CntvTval,
    CntvCtl,
    CntvCval,
}

/// Where a value goes that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Destination {
    /// A register, for a value of 32 bits.
    Word(Register),
    /// Two registers, the low word's first.
    Pair([Register; 2]),
}

/// The direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Movement {
    /// The register's value goes there ([`Registers::fill`]).
    Read(Destination),
    /// The register gets this value.
    Write(u64),
}

/// An access to the generic timer that the guest may make.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimerAccess {
    /// The register.
    pub register: TimerRegister,
    /// What is to be done.
    pub movement: Movement,
}

/// The bits of CNTKCTL by which User mode may use a register (B8.1.2).
mod kctl {
    pub(super) const PL0PCTEN: u32 = 1 << 0;
    pub(super) const PL0VCTEN: u32 = 1 << 1;
    pub(super) const PL0VTEN: u32 = 1 << 8;
    pub(super) const PL0PTEN: u32 = 1 << 9;
}

impl TimerRegister {
    /// The register that MRC and MCR name.
    const fn word(name: Name) -> Option<Self> {
        Some(match name.tuple() {
            (0, 14, 0, 0) => Self::Cntfrq,
            (0, 14, 2, 0) => Self::CntpTval,
            (0, 14, 2, 1) => Self::CntpCtl,
            (0, 14, 3, 0) => Self::CntvTval,
            (0, 14, 3, 1) => Self::CntvCtl,
            _ => return None,
        })
    }

    /// The register that MRRC and MCRR name.
    const fn pair(opc1: u8) -> Option<Self> {
        Some(match opc1 {
            0 => Self::Cntpct,
            1 => Self::Cntvct,
            2 => Self::CntpCval,
            3 => Self::CntvCval,
            _ => return None,
        })
    }

    /// Whether it cannot be written: the counters; CNTFRQ, but for a Secure state.
    const fn is_read_only(self) -> bool {
        matches!(self, Self::Cntfrq | Self::Cntpct | Self::Cntvct)
    }

    /// The bits of CNTKCTL of which one must be set if User mode uses it.
    const fn right(self) -> u32 {
        match self {
            Self::Cntfrq => kctl::PL0PCTEN | kctl::PL0VCTEN,
            Self::Cntpct => kctl::PL0PCTEN,
            Self::Cntvct => kctl::PL0VCTEN,
            Self::CntpTval | Self::CntpCtl | Self::CntpCval => kctl::PL0PTEN,
            Self::CntvTval | Self::CntvCtl | Self::CntvCval => kctl::PL0VTEN,
        }
    }
}

impl Registers {
    /// Puts a value where an access to a register wanted it.
    pub fn fill(&mut self, to: Destination, value: u64) {
        match to {
            Destination::Word(register) => self.write(register, value as u32),
            Destination::Pair([low, high]) => {
                self.write(low, value as u32);
                self.write(high, (value >> u32::BITS) as u32);
            }
        }
    }
}

impl VirtualCpu {
    /// MRC and MCR of a timer's register; `None` if the name is none of them.
    pub(crate) fn timer_word(
        &self,
        registers: &Registers,
        name: Name,
        read: bool,
        with: Register,
    ) -> Option<Result<Outcome, Stop>> {
        let movement = if read {
            Movement::Read(Destination::Word(with))
        } else {
            Movement::Write(registers.read(with).into())
        };
        TimerRegister::word(name).map(|register| self.timer(register, movement))
    }

    /// MRRC and MCRR of a timer's register.
    pub(crate) fn timer_pair(
        &self,
        registers: &Registers,
        opc1: u8,
        read: bool,
        with: [Register; 2],
    ) -> Result<Outcome, Stop> {
        let movement = if read {
            Movement::Read(Destination::Pair(with))
        } else {
            let [low, high] = with.map(|register| u64::from(registers.read(register)));
            Movement::Write(low | high << u32::BITS)
        };
        let register = TimerRegister::pair(opc1).ok_or(Stop::Unknown)?;
        self.timer(register, movement)
    }

    fn timer(&self, register: TimerRegister, movement: Movement) -> Result<Outcome, Stop> {
        let write = matches!(movement, Movement::Write(_));
        let granted = self.mode.is_privileged()
            || self.system(SystemRegister::Cntkctl) & register.right() != 0;
        if !granted || write && register.is_read_only() {
            return Err(Stop::Undefined);
        }
        Ok(Outcome::Timer(TimerAccess { register, movement }))
    }
}
