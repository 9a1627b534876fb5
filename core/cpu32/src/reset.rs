//! A virtual CPU's beginnings: reset, Linux' boot protocol, a call of CPU_ON.

use crate::banks::Banks;
use crate::system::SystemRegisters;
use crate::{Identity, Lines, Masks, Mode, Registers, Vector, VirtualCpu};

impl VirtualCpu {
    /// A virtual CPU after a reset. What it says that it is becomes what it has
    /// ([`Identity::offered`]).
    pub fn new(identity: Identity) -> Self {
        Self {
            mode: Mode::Supervisor,
            masks: Masks::ALL,
            banks: Banks::default(),
            system: SystemRegisters::new(),
            lines: Lines::default(),
            identity: identity.offered(),
        }
    }

    /// Resets the CPU: Supervisor mode, everything masked, MMU and caches off, the PC at the reset
    /// vector (DDI 0406C, B1.9.1). What the manual leaves UNKNOWN becomes zero. What waits is the
    /// interrupt controller's, and stays.
    pub fn reset(&mut self, registers: &mut Registers) {
        let lines = self.lines;
        *self = Self {
            lines,
            ..Self::new(self.identity)
        };
        *registers = Registers::default();
        let psr = self.entered(self.psr(registers), Vector::Reset);
        self.set_psr(registers, psr);
        registers.pc = self.vectors().wrapping_add(Vector::Reset.offset());
    }

    /// Resets the CPU, and begins at `entry` instead of the reset vector, in T32 if bit 0 is set,
    /// with these values in R0 to R2. So Linux' boot protocol wants it (0, the machine's number, the
    /// address of the device tree), and so does CPU_ON (the context in R0).
    pub fn boot(&mut self, registers: &mut Registers, entry: u32, arguments: [u32; 3]) {
        self.reset(registers);
        for (to, value) in registers.general.iter_mut().zip(arguments) {
            *to = value;
        }
        let psr = self.psr(registers).with_thumb(entry & 1 != 0);
        self.set_psr(registers, psr);
        registers.branch(entry);
    }
}
