//! Exception returns, and SRS, which stores what RFE loads (DDI 0406C, B9.3.5, B9.3.13, B9.3.16,
//! B9.3.19, B9.3.20).

use crate::block::Area;
use crate::data;
use crate::state::Writer;
use crate::stop::Stop;
use crate::{GuestAccess, Mode, Outcome, Registers, VirtualCpu};
use hanok_decode::Psr;
use hanok_decode::aarch32::{Block, Fields, Pair, Register, ReturnFrom, Store};

impl VirtualCpu {
    /// SUBS PC, LR and related instructions.
    pub(crate) fn return_by_data(
        &mut self,
        registers: &mut Registers,
        from: ReturnFrom,
    ) -> Result<Outcome, Stop> {
        let ReturnFrom::Data {
            operation,
            first,
            second,
        } = from
        else {
            // ERET is of the Virtualization Extensions, which do not exist here.
            return Err(Stop::Undefined);
        };
        let spsr = self.spsr().ok_or(Stop::Undefined)?;
        let target = data::result(registers, operation, first, second);
        Ok(self.go_back(registers, spsr, target))
    }

    /// LDM (exception return). The registers are those of the current mode.
    pub(crate) fn return_by_block(
        &mut self,
        registers: &mut Registers,
        block: &Block,
        memory: &mut impl GuestAccess,
    ) -> Result<Outcome, Stop> {
        let spsr = self.spsr().ok_or(Stop::Undefined)?;
        let count = block.registers.count();
        let area = Area::new(registers.read(block.base), block.direction, count);
        let words = self.load_words(registers, &area, count, memory)?;
        let mut target = 0;
        for (register, word) in block.registers.iter().zip(words) {
            match register {
                Register::PC => target = word,
                _ => registers.write(register, word),
            }
        }
        if block.write_back {
            registers.write(block.base, area.moved);
        }
        Ok(self.go_back(registers, spsr, target))
    }

    /// RFE.
    pub(crate) fn return_from_exception(
        &mut self,
        registers: &mut Registers,
        pair: &Pair,
        memory: &mut impl GuestAccess,
    ) -> Result<Outcome, Stop> {
        if !self.mode.is_privileged() {
            return Err(Stop::Undefined);
        }
        let area = Area::new(registers.read(pair.base), pair.direction, 2);
        let [target, psr, ..] = self.load_words(registers, &area, 2, memory)?;
        if pair.write_back {
            registers.write(pair.base, area.moved);
        }
        Ok(self.go_back(registers, Psr::from_bits(psr), target))
    }

    /// SRS. The stack is that of any mode, LR and SPSR are the current mode's.
    pub(crate) fn store_return_state(
        &mut self,
        registers: &mut Registers,
        store: &Store,
        memory: &mut impl GuestAccess,
    ) -> Result<Outcome, Stop> {
        let spsr = self.spsr().ok_or(Stop::Undefined)?;
        let mode = Mode::from_bits(store.mode).ok_or(Stop::Undefined)?;
        let area = Area::new(self.stack(registers, mode), store.direction, 2);
        let link = registers.read(Register::LR);
        self.store_word(registers, area.word(0), link, memory)?;
        self.store_word(registers, area.word(1), spsr.into_bits(), memory)?;
        if store.write_back {
            self.set_stack(registers, mode, area.moved);
        }
        Ok(Outcome::Done)
    }

    /// CPSR as a whole, then a branch in the instruction set that it names.
    fn go_back(&mut self, registers: &mut Registers, psr: Psr, target: u32) -> Outcome {
        let all = Fields::from_bits(0xf);
        self.write_psr(registers, psr, all, Writer::Return);
        registers.branch(target);
        Outcome::Branched
    }
}
