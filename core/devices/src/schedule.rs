//! The calls by which a guest takes part in the scheduling of its vCPUs, as a device
//! (`hanok_abi::schedule`).
//!
//! Each vCPU has registers of its own, so that the calls of two vCPUs do not mix. They are in the vCPU's private part,
//! and reach the model by [`World::schedule`]; the device itself has nothing but its counter. A store of a function's
//! number is only noted here. The vCPU's pCPU, which knows what the vCPU is promised, carries the call out before the
//! guest goes on, and gives the answer.
//!
//! Registers have 32 bits. An access of 64 is two, the lower one first; one that is narrower, or not aligned to 32 bits,
//! goes to no register.

use crate::device::{Model, World};
use crate::lanes::{read_words, write_words};
use crate::{Access, Unknown};
use hanok_abi::schedule::register;
use hanok_types::Width;

/// The number of a register, by its offset.
const fn number(offset: u64) -> usize {
    (offset / 4) as usize
}

const ID: usize = number(register::ID);
const CALL: usize = number(register::CALL);
const ARGUMENTS: usize = number(register::ARGUMENTS);
const STATUS: usize = number(register::STATUS);
const VALUE: usize = number(register::VALUE);
/// The words of four arguments, and of a value.
const LAST_ARGUMENT: usize = ARGUMENTS + 7;
const LAST_VALUE: usize = VALUE + 1;

/// A call that a guest has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// The function's number.
    pub function: u32,
    /// The arguments that a function may have.
    pub arguments: [u64; 3],
}

/// One vCPU's registers.
#[derive(Clone, Copy, Debug)]
pub struct ScheduleRegisters {
    words: [u32; LAST_VALUE + 1],
    called: bool,
}

impl ScheduleRegisters {
    /// The registers after a reset.
    pub const RESET: Self = {
        let mut words = [0; LAST_VALUE + 1];
        words[ID] = register::MAGIC;
        Self {
            words,
            called: false,
        }
    };

    /// Whether a call was made that is not carried out yet.
    pub fn is_called(&self) -> bool {
        self.called
    }

    /// The call that was made, if it has to be carried out: [`Self::answer`] follows.
    pub fn take_call(&mut self) -> Option<Call> {
        let [_, function, _, _, a, a_high, b, b_high, c, c_high, ..] = self.words;
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        core::mem::take(&mut self.called).then(|| Call {
            function,
            arguments: [pair(a, a_high), pair(b, b_high), pair(c, c_high)],
        })
    }

    /// Gives the answer of a call.
    pub fn answer(&mut self, status: i32, value: u64) {
        self.words[STATUS] = status as u32;
        self.words[VALUE] = value as u32;
        self.words[LAST_VALUE] = (value >> 32) as u32;
    }

    /// The register at `offset`; `None` if there is none.
    fn read(&self, offset: u64) -> Option<u32> {
        match number(offset) {
            at @ (ID | CALL | ARGUMENTS..=LAST_ARGUMENT | STATUS | VALUE | LAST_VALUE) => {
                self.words.get(at).copied()
            }
            _ => None,
        }
    }

    /// Stores to the register at `offset`; `None` if none there can be stored to.
    fn write(&mut self, offset: u64, value: u32) -> Option<()> {
        let at = number(offset);
        match at {
            CALL => self.called = true,
            ARGUMENTS..=LAST_ARGUMENT => {}
            _ => return None,
        }
        *self.words.get_mut(at)? = value;
        Some(())
    }
}

/// The device, which all vCPUs of a VM share.
#[derive(Clone, Debug, Default)]
pub struct Schedule {
    unknown: Unknown,
}

impl Model for Schedule {
    fn access(&mut self, offset: u64, access: Access, world: &mut impl World) -> u64 {
        let registers = world.schedule();
        let words = offset.is_multiple_of(4) && matches!(access.width, Width::Word | Width::Double);
        let unknown = &mut self.unknown;
        if access.write {
            write_words(offset, access.width, access.value, |offset, value| {
                let stored = words.then(|| registers.write(offset, value)).flatten();
                if stored.is_none() {
                    unknown.write();
                }
            });
            return 0;
        }
        read_words(offset, access.width, |offset| {
            let read = words.then(|| registers.read(offset)).flatten();
            read.unwrap_or_else(|| unknown.read())
        })
    }

    fn unknown(&self) -> Unknown {
        self.unknown
    }
}
