//! CPS, MRS and MSR (DDI 0406C, B9.3.2, B9.3.8, B9.3.11, B9.3.12).

use crate::state::{Writer, bytes};
use crate::stop::Stop;
use crate::{Mode, Outcome, Registers, VirtualCpu};
use hanok_decode::Psr;
use hanok_decode::aarch32::{ChangeState, Fields, Operand, Register, Status};

/// What MRS reads of CPSR: all but the execution state, IT, J and T.
const READABLE: u32 = 0xf8ff_03df;
/// What MSR writes of an SPSR: all but the reserved bits (SPSRWriteByInstr, B1.3.3).
pub(crate) const SAVED: u32 = 0xff0f_ffff;

impl VirtualCpu {
    /// In User mode, CPS does nothing.
    pub(crate) fn change_state(
        &mut self,
        registers: &mut Registers,
        change: &ChangeState,
    ) -> Outcome {
        if self.mode == Mode::User {
            return Outcome::Done;
        }
        let mut psr = self.psr(registers);
        if let Some(enable) = change.enable {
            psr = psr
                .with_abort_masked(!enable && change.aborts || psr.abort_masked() && !change.aborts)
                .with_irq_masked(!enable && change.irqs || psr.irq_masked() && !change.irqs)
                .with_fiq_masked(!enable && change.fiqs || psr.fiq_masked() && !change.fiqs);
        }
        if let Some(mode) = change.mode {
            psr = psr.with_mode(mode);
        }
        let control = Fields::new().with_control(true).with_extension(true);
        self.write_psr(registers, psr, control, Writer::Instruction);
        Outcome::Changed
    }

    pub(crate) fn read_status(
        &self,
        registers: &mut Registers,
        status: Status,
        to: Register,
    ) -> Result<Outcome, Stop> {
        let value = match status {
            Status::Current => self.psr(registers).into_bits() & READABLE,
            Status::Saved => self.spsr().ok_or(Stop::Undefined)?.into_bits(),
        };
        registers.write(to, value);
        Ok(Outcome::Done)
    }

    pub(crate) fn write_status(
        &mut self,
        registers: &mut Registers,
        status: Status,
        fields: Fields,
        from: Operand,
    ) -> Result<Outcome, Stop> {
        let value = match from {
            Operand::Immediate(value) => value,
            // MSR has no shift.
            Operand::Register(register, _) => registers.read(register),
        };
        match status {
            Status::Current => {
                self.write_psr(
                    registers,
                    Psr::from_bits(value),
                    fields,
                    Writer::Instruction,
                );
                Ok(Outcome::Changed)
            }
            Status::Saved => self.write_spsr(value, fields),
        }
    }

    /// A mode that does not exist can be written to an SPSR: it is not entered when the SPSR is used.
    fn write_spsr(&mut self, value: u32, fields: Fields) -> Result<Outcome, Stop> {
        let old = self.spsr().ok_or(Stop::Undefined)?.into_bits();
        let mask = bytes(fields) & SAVED;
        self.banks.of_mut(self.mode).spsr = Psr::from_bits(old & !mask | value & mask);
        Ok(Outcome::Done)
    }
}
