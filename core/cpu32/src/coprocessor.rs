//! Coprocessor instructions: CP15 is the system's registers, CP14 debug, CP10 the system registers
//! of VFP.
//!
//! Debug and performance monitors do not exist, though their registers read as zero and ignore
//! writes, as on the backend with virtualization hardware: kernels access them before they check
//! whether they exist (DDI 0406C, C11.11). ACTLR and the auxiliary fault registers, whose bits an
//! implementation defines, are the same.

use crate::name::Name;
use crate::stop::Stop;
use crate::{Identity, Outcome, Registers, SystemRegister, VirtualCpu, maintenance};
use hanok_decode::aarch32::{Access, Coprocessor, Register};

/// MRC or MCR.
#[derive(Clone, Copy)]
struct Move {
    name: Name,
    read: bool,
    with: Register,
}

impl VirtualCpu {
    /// The value of a system register.
    pub fn system(&self, register: SystemRegister) -> u32 {
        self.system.get(register)
    }

    /// What the CPU says that it is.
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The answer to [`MmuOperation::Translate`](crate::MmuOperation::Translate), in the format of
    /// PAR (B4.1, PAR).
    pub fn set_par(&mut self, value: u32) {
        self.system.set(SystemRegister::Par, value);
    }

    /// TPIDRURW as a program left it, which writes the CPU's own register.
    pub fn set_tpidrurw(&mut self, value: u32) {
        self.system.set(SystemRegister::Tpidrurw, value);
    }

    /// TPIDRURO as the kernel left it, where its writes do not reach the virtual CPU.
    pub fn set_tpidruro(&mut self, value: u32) {
        self.system.set_unseen(SystemRegister::Tpidruro, value);
    }

    /// DACR as the kernel had left it when a program began to run.
    pub fn set_dacr(&mut self, value: u32) {
        self.system.set(SystemRegister::Dacr, value);
    }

    pub(crate) fn coprocessor(
        &mut self,
        registers: &mut Registers,
        instruction: &Coprocessor,
    ) -> Result<Outcome, Stop> {
        if instruction.second_kind {
            return Err(Stop::Unknown);
        }
        match instruction.access {
            Access::Register {
                read,
                opc1,
                crn,
                crm,
                opc2,
                register: with,
            } => {
                let name = Name {
                    opc1,
                    crn,
                    crm,
                    opc2,
                };
                self.one_register(registers, instruction.number, Move { name, read, with })
            }
            Access::Pair {
                read,
                opc1,
                crm,
                registers: with,
            } => match (instruction.number, crm) {
                (15, 14) => self.timer_pair(registers, opc1, read, with),
                (14, 1 | 2) if read && opc1 == 0 => Ok(no_debug_memory(registers, with)),
                _ => Err(Stop::Unknown),
            },
            Access::Operation { .. } | Access::Memory(_) => Err(Stop::Unknown),
        }
    }

    fn one_register(
        &mut self,
        registers: &mut Registers,
        number: u8,
        one: Move,
    ) -> Result<Outcome, Stop> {
        match number {
            15 => self.system_control(registers, one),
            14 if one.name.opc1 == 0 => self.debug(registers, one),
            10 => self.floating_point(registers, one.name.crn, one.read, one.with),
            _ => Err(Stop::Unknown),
        }
    }

    fn system_control(&mut self, registers: &mut Registers, one: Move) -> Result<Outcome, Stop> {
        let Move { name, read, with } = one;
        if let Some(answer) = self.timer_word(registers, name, read, with) {
            return answer;
        }
        if !self.mode.is_privileged() && !name.is_for_programs(read) {
            return Err(Stop::Undefined);
        }
        if !read {
            return self.write_system(name, registers.read(with));
        }
        let value = self.read_system(name).ok_or(Stop::Unknown)?;
        registers.write(with, value);
        Ok(Outcome::Done)
    }

    fn read_system(&self, name: Name) -> Option<u32> {
        if let Some(register) = SystemRegister::of(name) {
            return Some(self.system(register));
        }
        if name.is_empty() || name.is_monitor() {
            return Some(0);
        }
        match name.tuple() {
            (0, 12, 1, 0) => Some(self.pending()),
            _ => self
                .identity
                .read(name, self.system(SystemRegister::Csselr)),
        }
    }

    fn write_system(&mut self, name: Name, value: u32) -> Result<Outcome, Stop> {
        if let Some(register) = SystemRegister::of(name) {
            return Ok(self.write_register(register, value));
        }
        if name.is_empty() || name.is_monitor() || self.identity.ignores_write(name) {
            return Ok(Outcome::Done);
        }
        maintenance::operation(name, value).ok_or(Stop::Unknown)
    }

    /// CPACR has no fields for coprocessors that do not exist (B4.1, CPACR).
    fn write_register(&mut self, register: SystemRegister, value: u32) -> Outcome {
        if register == SystemRegister::Cpacr && !self.identity.has_floating_point() {
            return Outcome::Done;
        }
        self.system.write(register, value)
    }

    /// ISR (B4.1, ISR): what waits, as I and F of a status register.
    pub fn pending(&self) -> u32 {
        u32::from(self.lines.irq) << 7 | u32::from(self.lines.fiq) << 6
    }

    /// A read to R15 is one of the flags of the debug channel, which are clear.
    fn debug(&self, registers: &mut Registers, one: Move) -> Result<Outcome, Stop> {
        if !self.mode.is_privileged() && !one.name.is_open_debug(one.read) {
            return Err(Stop::Undefined);
        }
        match (one.read, one.with) {
            (true, Register::PC) => registers.set_conditions(0),
            (true, with) => registers.write(with, 0),
            (false, _) => {}
        }
        Ok(Outcome::Done)
    }
}

/// DBGDRAR and DBGDSAR: zero means that no debug registers are in memory.
fn no_debug_memory(registers: &mut Registers, with: [Register; 2]) -> Outcome {
    for register in with {
        registers.write(register, 0);
    }
    Outcome::Done
}
