//! VMRS and VMSR of the system registers of VFP and Advanced SIMD (DDI 0406C, B1.11 and B9.3.21).

use crate::stop::Stop;
use crate::{Outcome, Registers, SystemRegister, VirtualCpu};
use hanok_decode::aarch32::Register;

/// The number of FPSID in VMRS.
const FPSID: u8 = 0;
/// The number of FPEXC in VMRS.
const FPEXC: u8 = 8;
/// What CPACR allows: access of the kernel, and of everybody.
const PRIVILEGED: u32 = 0b01;
const FULL: u32 = 0b11;
/// FPEXC.EN.
const ENABLED: u32 = 1 << 30;

impl VirtualCpu {
    /// Whether an instruction of VFP or Advanced SIMD would execute now: the CPU has it, CPACR
    /// allows it in this mode, FPEXC enables it (B1.11).
    pub fn has_floating_point(&self) -> bool {
        self.reaches_floating_point() && self.system(SystemRegister::Fpexc) & ENABLED != 0
    }

    /// What CPACR allows: the lesser one of its fields for coprocessors 10 and 11.
    fn floating_point_access(&self) -> u32 {
        let control = self.system(SystemRegister::Cpacr);
        control >> 20 & control >> 22 & 0b11
    }

    /// Whether programs can use VFP and Advanced SIMD if and only if the kernel can.
    pub(crate) fn shares_floating_point(&self) -> bool {
        matches!(self.floating_point_access(), 0 | FULL)
    }

    /// Whether CPACR allows access in this mode. Its fields for coprocessors 10 and 11 must be the
    /// same, so that the one that allows less decides.
    pub fn reaches_floating_point(&self) -> bool {
        let both = self.floating_point_access();
        let allowed = if self.mode.is_privileged() {
            both & PRIVILEGED != 0
        } else {
            both == FULL
        };
        self.identity.has_floating_point() && allowed
    }

    pub(crate) fn floating_point(
        &mut self,
        registers: &mut Registers,
        number: u8,
        read: bool,
        with: Register,
    ) -> Result<Outcome, Stop> {
        if !self.mode.is_privileged() || !self.reaches_floating_point() {
            return Err(Stop::Undefined);
        }
        if !read {
            return self.write_floating_point(number, registers.read(with));
        }
        let value = match number {
            FPEXC => Some(self.system(SystemRegister::Fpexc)),
            _ => self.identity.floating_point(number),
        };
        registers.write(with, value.ok_or(Stop::Unknown)?);
        Ok(Outcome::Done)
    }

    fn write_floating_point(&mut self, number: u8, value: u32) -> Result<Outcome, Stop> {
        match number {
            FPEXC => Ok(self.system.write(SystemRegister::Fpexc, value)),
            // A write of it only waits for exceptions of earlier instructions.
            FPSID => Ok(Outcome::Done),
            _ => Err(Stop::Unknown),
        }
    }
}
