//! One sensitive instruction, carried out.

use crate::outcome::{Conduit, Outcome, Wait};
use crate::stop::Stop;
use crate::{Exception, GuestAccess, Mode, Registers, VirtualCpu};
use hanok_decode::Condition;
use hanok_decode::aarch32::{Hint, Operation, Sensitive};

impl VirtualCpu {
    /// Carries out the instruction at [`Registers::pc`], or takes the exception that it raises.
    ///
    /// `instruction` is the original one where it was rewritten; `registers` are those of the
    /// interrupted guest, with the flags and ITSTATE that the instruction was executed with. Its
    /// condition is looked at again, because a CPU may raise the exception of a rewritten instruction
    /// whose condition fails (DDI 0406C, A2.5.3).
    pub fn execute(
        &mut self,
        registers: &mut Registers,
        instruction: &Sensitive,
        memory: &mut impl GuestAccess,
    ) -> Outcome {
        let condition = Condition::Code(instruction.condition.into_bits());
        let done = if !registers.psr.passes(condition) {
            Ok(Outcome::Done)
        } else if instruction.as_it_should_be {
            self.operate(registers, &instruction.operation, memory)
        } else {
            Err(Stop::Unknown)
        };
        match done {
            Ok(Outcome::Branched) => Outcome::Branched,
            Ok(outcome) => {
                registers.advance(instruction.encoding.bytes());
                outcome
            }
            Err(stop) => self.stopped(registers, stop),
        }
    }

    /// Carries out an operation but for the PC's advance.
    fn operate(
        &mut self,
        registers: &mut Registers,
        operation: &Operation,
        memory: &mut impl GuestAccess,
    ) -> Result<Outcome, Stop> {
        match operation {
            Operation::Cps(change) => Ok(self.change_state(registers, change)),
            Operation::Mrs(status, to) => self.read_status(registers, *status, *to),
            Operation::Msr(status, fields, from) => {
                self.write_status(registers, *status, *fields, *from)
            }
            // Of the Virtualization Extensions, which do not exist here.
            Operation::MrsBanked(..) | Operation::MsrBanked(..) => Err(Stop::Undefined),
            Operation::Unprivileged(access) => self.unprivileged(registers, access, memory),
            Operation::Return(back) => self.return_by_data(registers, back.from),
            Operation::Block(block) if block.is_return() => {
                self.return_by_block(registers, block, memory)
            }
            Operation::Block(block) => self.user_block(registers, block, memory),
            Operation::Rfe(pair) => self.return_from_exception(registers, pair, memory),
            Operation::Srs(store) => self.store_return_state(registers, store, memory),
            Operation::Smc(number) => self.firmware(Conduit::Smc(*number)),
            Operation::Hvc(number) => self.firmware(Conduit::Hvc(*number)),
            Operation::Coprocessor(access) => self.coprocessor(registers, access),
            Operation::Hint(hint) => Ok(hinted(*hint)),
            Operation::SetEndianness(big) => {
                registers.psr = registers.psr.with_big_endian(*big);
                Ok(Outcome::Done)
            }
            // Memory need not be told beforehand of a store.
            Operation::PreloadWrite(_) => Ok(Outcome::Done),
        }
    }

    /// What follows from an instruction that was not carried out.
    pub(crate) fn stopped(&mut self, registers: &mut Registers, stop: Stop) -> Outcome {
        let exception = match stop {
            Stop::Again => return Outcome::Again,
            Stop::Undefined | Stop::Unknown => Exception::Undefined,
            Stop::Fault {
                address,
                fault,
                write,
            } => Exception::DataAbort {
                address,
                fault,
                write,
            },
        };
        // A program can be undefined as often as it likes: that says nothing about the kernel.
        let unknown = stop == Stop::Unknown && self.mode.is_privileged();
        self.take(registers, exception);
        if unknown {
            Outcome::Unknown
        } else {
            Outcome::Taken(exception.vector())
        }
    }

    /// A program cannot call the firmware (B9.3.4, B9.3.14).
    fn firmware(&self, conduit: Conduit) -> Result<Outcome, Stop> {
        if self.mode == Mode::User {
            return Err(Stop::Undefined);
        }
        Ok(Outcome::Firmware(conduit))
    }
}

const fn hinted(hint: Hint) -> Outcome {
    match hint {
        Hint::Yield => Outcome::Yield,
        Hint::Wfe => Outcome::Wait(Wait::Event),
        Hint::Wfi => Outcome::Wait(Wait::Interrupt),
        Hint::Sev => Outcome::Event,
    }
}
