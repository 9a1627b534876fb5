//! Blocks of memory, and LDM and STM of User mode's registers (DDI 0406C, B9.3.6, B9.3.17).

use crate::memory::Alignment;
use crate::stop::Stop;
use crate::{GuestAccess, Outcome, Registers, VirtualCpu};
use hanok_decode::aarch32::{Block, Direction, Register};

/// A block of memory, as a base register and a direction name it.
pub(crate) struct Area {
    /// The address of its first word.
    pub(crate) start: u32,
    /// The base register's value after write-back.
    pub(crate) moved: u32,
}

impl Area {
    /// The block of so many words.
    pub(crate) const fn new(base: u32, direction: Direction, words: u32) -> Self {
        let bytes = words * 4;
        let (start, moved) = if direction.up {
            (base, base.wrapping_add(bytes))
        } else {
            (base.wrapping_sub(bytes), base.wrapping_sub(bytes))
        };
        // "wordhigher": increment before, decrement after.
        let start = if direction.up == direction.before {
            start.wrapping_add(4)
        } else {
            start
        };
        Self { start, moved }
    }

    /// The address of a word.
    pub(crate) const fn word(&self, number: u32) -> u32 {
        self.start.wrapping_add(4 * number)
    }
}

/// Words that were loaded, in the order of their addresses.
pub(crate) type Words = [u32; 16];

impl VirtualCpu {
    /// The words of a block, all of them or none.
    pub(crate) fn load_words(
        &self,
        registers: &Registers,
        area: &Area,
        count: u32,
        memory: &mut impl GuestAccess,
    ) -> Result<Words, Stop> {
        let mut words = Words::default();
        for (number, word) in (0..count).zip(&mut words) {
            let access = self.word(registers, area.word(number));
            *word = self.load(memory, access, Alignment::Always)?;
        }
        Ok(words)
    }

    pub(crate) fn store_word(
        &self,
        registers: &Registers,
        address: u32,
        value: u32,
        memory: &mut impl GuestAccess,
    ) -> Result<(), Stop> {
        let access = self.word(registers, address);
        self.store(memory, access, Alignment::Always, value)
    }

    /// LDM and STM of User mode's registers: in the modes that have registers of their own.
    pub(crate) fn user_block(
        &mut self,
        registers: &mut Registers,
        block: &Block,
        memory: &mut impl GuestAccess,
    ) -> Result<Outcome, Stop> {
        if !self.mode.has_spsr() {
            return Err(Stop::Undefined);
        }
        let base = registers.read(block.base);
        let area = Area::new(base, block.direction, block.registers.count());
        if block.load {
            self.load_user(registers, block, &area, memory)?;
        } else {
            self.store_user(registers, block, &area, memory)?;
        }
        Ok(Outcome::Done)
    }

    fn load_user(
        &mut self,
        registers: &mut Registers,
        block: &Block,
        area: &Area,
        memory: &mut impl GuestAccess,
    ) -> Result<(), Stop> {
        let words = self.load_words(registers, area, block.registers.count(), memory)?;
        for (register, word) in block.registers.iter().zip(words) {
            self.set_user_register(registers, register, word);
        }
        Ok(())
    }

    fn store_user(
        &mut self,
        registers: &Registers,
        block: &Block,
        area: &Area,
        memory: &mut impl GuestAccess,
    ) -> Result<(), Stop> {
        for (number, register) in (0..).zip(block.registers.iter()) {
            let value = match register {
                Register::PC => registers.read(register),
                _ => self.user_register(registers, register),
            };
            self.store_word(registers, area.word(number), value, memory)?;
        }
        Ok(())
    }
}
