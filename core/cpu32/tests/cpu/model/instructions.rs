//! The instructions of the model, by the pseudocode of their own sections (DDI 0406C, A8.8, B9.3).

use super::{A, Model, Trap, bad_mode, copy, set};
use crate::memory::Memory;
use crate::steps::{Area, Second, Step, Unprivileged};

impl Model {
    /// Executes a step that is an instruction of four bytes.
    pub fn execute(&mut self, step: Step, condition: u32) {
        let conditional = !matches!(
            step,
            Step::Cps { .. } | Step::Rfe(_) | Step::Srs(..) | Step::SetEnd(_)
        );
        let condition = if self.thumb() && self.in_it_block() {
            self.it() >> 4
        } else if !self.thumb() && conditional {
            condition
        } else {
            0b1110
        };
        let before = self.clone();
        if self.condition_passed(condition) {
            match self.operate(step) {
                Ok(true) => return,
                Ok(false) => {}
                Err(trap) => {
                    let memory = std::mem::take(&mut self.memory);
                    *self = Self { memory, ..before };
                    return self.trapped(trap);
                }
            }
        }
        self.pc = self.pc.wrapping_add(4);
        if self.thumb() {
            self.it_advance();
        }
    }

    pub(super) fn trapped(&mut self, trap: Trap) {
        match trap {
            Trap::Undefined | Trap::Unpredictable => self.take(0x04),
            Trap::Data { address, fs, write } => {
                let domain = if fs == 0b01111 { 5 } else { 0 };
                self.data_abort(address, fs, domain, write);
            }
        }
    }

    /// Whether the instruction branched.
    fn operate(&mut self, step: Step) -> Result<bool, Trap> {
        match step {
            Step::Cps { enable, aif, mode } => self.cps(enable, aif, mode)?,
            Step::Mrs { saved, d } => self.mrs(saved, d)?,
            Step::Msr { saved, mask, n } => self.msr(saved, mask, n)?,
            Step::Data(opcode, n, second) => return self.data(opcode, n, second),
            Step::LdmReturn(area, list) => return self.ldm_return(area, list | 1 << 15),
            Step::LdmUser(area, list) => self.ldm_user(area, list)?,
            Step::StmUser(area, list) => self.stm_user(area, list)?,
            Step::Rfe(area) => return self.rfe(area),
            Step::Srs(area, mode) => self.srs(area, mode)?,
            Step::Unprivileged(access) => self.unprivileged(access)?,
            Step::SetEnd(big) => set(&mut self.cpsr, 9, big),
            Step::Set(..) | Step::Flags(_) | Step::Exception(_) | Step::Control(..) => {
                return Err(Trap::Undefined);
            }
        }
        Ok(false)
    }

    fn cps(&mut self, enable: u32, aif: u32, mode: Option<u32>) -> Result<(), Trap> {
        let changes = enable & 2 != 0;
        if changes != (aif != 0) || self.in_it_block() {
            return Err(Trap::Unpredictable);
        }
        if self.mode() == 0b10000 {
            return Ok(());
        }
        let mut cpsr_val = self.cpsr;
        for bit in 0..3 {
            if changes && aif >> bit & 1 == 1 {
                set(&mut cpsr_val, 6 + bit, enable == 3);
            }
        }
        if let Some(mode) = mode {
            copy(&mut cpsr_val, 4, 0, mode);
        }
        self.cpsr_write_by_instr(cpsr_val, 0b1111, false);
        Ok(())
    }

    fn mrs(&mut self, saved: bool, d: u32) -> Result<(), Trap> {
        if d == 15 || self.thumb() && d == 13 || saved && !self.has_spsr() {
            return Err(Trap::Unpredictable);
        }
        let value = if saved {
            self.spsr()
        } else {
            self.cpsr & 0b1111_1000_1111_1111_0000_0011_1101_1111
        };
        self.set_r(d, value);
        Ok(())
    }

    fn msr(&mut self, saved: bool, mask: u32, n: u32) -> Result<(), Trap> {
        if mask == 0 || n == 15 || self.thumb() && n == 13 {
            return Err(Trap::Unpredictable);
        }
        let value = self.r(n);
        if saved {
            return self.spsr_write_by_instr(value, mask);
        }
        self.cpsr_write_by_instr(value, mask, false);
        Ok(())
    }

    fn returns_allowed(&self) -> Result<(), Trap> {
        if self.in_it_block() && !self.last_in_it_block() {
            return Err(Trap::Unpredictable);
        }
        Ok(())
    }

    fn data(&mut self, opcode: u32, n: u32, second: Second) -> Result<bool, Trap> {
        self.returns_allowed()?;
        if !self.has_spsr() {
            return Err(Trap::Unpredictable);
        }
        let operand2 = match second {
            Second::Constant(value) => value,
            Second::Register { m, kind, amount } => self.shift(self.r(m), kind, amount),
        };
        let result = self.result(opcode, self.r(n), operand2);
        self.cpsr_write_by_instr(self.spsr(), 0b1111, true);
        self.branch_write_pc(result);
        Ok(true)
    }

    /// The result of data processing.
    pub(super) fn result(&self, opcode: u32, rn: u32, operand2: u32) -> u32 {
        let add_with_carry =
            |x: u32, y: u32, c: u32| (u64::from(x) + u64::from(y) + u64::from(c)) as u32;
        match opcode {
            0b0000 => rn & operand2,
            0b0001 => rn ^ operand2,
            0b0010 => add_with_carry(rn, !operand2, 1),
            0b0011 => add_with_carry(!rn, operand2, 1),
            0b0100 => add_with_carry(rn, operand2, 0),
            0b0101 => add_with_carry(rn, operand2, self.carry()),
            0b0110 => add_with_carry(rn, !operand2, self.carry()),
            0b0111 => add_with_carry(!rn, operand2, self.carry()),
            0b1100 => rn | operand2,
            0b1101 => operand2,
            0b1110 => rn & !operand2,
            _ => !operand2,
        }
    }

    /// DecodeImmShift and Shift, in 64 bits so that a shift by 32 is no special case.
    pub(super) fn shift(&self, value: u32, kind: u32, amount: u32) -> u32 {
        let wide = u64::from(value);
        let right = if amount == 0 { 32 } else { amount };
        match kind {
            0 => (wide << amount) as u32,
            1 => (wide >> right) as u32,
            2 => (i64::from(value as i32) >> right) as u32,
            _ if amount == 0 => (u64::from(self.carry()) << 31 | wide >> 1) as u32,
            _ => ((wide << 32 | wide) >> amount) as u32,
        }
    }

    pub(super) fn area(&self, area: Area, base: u32, length: u32) -> (u32, u32) {
        let (address, back) = if area.up {
            (base, base.wrapping_add(length))
        } else {
            (base.wrapping_sub(length), base.wrapping_sub(length))
        };
        let wordhigher = area.before == area.up;
        let address = address.wrapping_add(if wordhigher { 4 } else { 0 });
        (address, back)
    }

    fn ldm_return(&mut self, area: Area, list: u32) -> Result<bool, Trap> {
        let base = area.base;
        if !self.has_spsr() || area.write_back && list >> base & 1 == 1 {
            return Err(Trap::Unpredictable);
        }
        let (mut address, back) = self.area(area, self.r(base), 4 * list.count_ones());
        for i in 0..15 {
            if list >> i & 1 == 1 {
                let value = self.mem_a(address)?;
                self.set_r(i, value);
                address = address.wrapping_add(4);
            }
        }
        let new_pc_value = self.mem_a(address)?;
        if area.write_back {
            self.set_r(base, back);
        }
        self.cpsr_write_by_instr(self.spsr(), 0b1111, true);
        self.branch_write_pc(new_pc_value);
        Ok(true)
    }

    fn ldm_user(&mut self, area: Area, list: u32) -> Result<(), Trap> {
        if !self.has_spsr() || list == 0 || area.write_back {
            return Err(Trap::Unpredictable);
        }
        let (mut address, _) = self.area(area, self.r(area.base), 4 * list.count_ones());
        for i in 0..15 {
            if list >> i & 1 == 1 {
                let value = self.mem_a(address)?;
                self.set_rmode(i, 0b10000, value);
                address = address.wrapping_add(4);
            }
        }
        Ok(())
    }

    fn stm_user(&mut self, area: Area, list: u32) -> Result<(), Trap> {
        if !self.has_spsr() || list == 0 || area.write_back {
            return Err(Trap::Unpredictable);
        }
        let (mut address, _) = self.area(area, self.r(area.base), 4 * list.count_ones());
        for i in 0..15 {
            if list >> i & 1 == 1 {
                self.set_mem_a(address, self.rmode(i, 0b10000))?;
                address = address.wrapping_add(4);
            }
        }
        if list >> 15 & 1 == 1 {
            self.set_mem_a(address, self.pc_value())?;
        }
        Ok(())
    }

    fn rfe(&mut self, area: Area) -> Result<bool, Trap> {
        self.returns_allowed()?;
        if self.mode() == 0b10000 {
            return Err(Trap::Unpredictable);
        }
        let (address, back) = self.area(area, self.r(area.base), 8);
        let new_pc_value = self.mem_a(address)?;
        let spsr_value = self.mem_a(address.wrapping_add(4))?;
        if area.write_back {
            self.set_r(area.base, back);
        }
        self.cpsr_write_by_instr(spsr_value, 0b1111, true);
        self.branch_write_pc(new_pc_value);
        Ok(true)
    }

    fn srs(&mut self, area: Area, mode: u32) -> Result<(), Trap> {
        if !self.has_spsr() || bad_mode(mode) {
            return Err(Trap::Unpredictable);
        }
        let (address, back) = self.area(area, self.rmode(13, mode), 8);
        self.set_mem_a(address, self.r(14))?;
        self.set_mem_a(address.wrapping_add(4), self.spsr())?;
        if area.write_back {
            self.set_rmode(13, mode, back);
        }
        Ok(())
    }

    fn unprivileged(&mut self, access: Unprivileged) -> Result<(), Trap> {
        let Unprivileged { n, t, bytes, .. } = access;
        let post_index = !self.thumb();
        if post_index && n == t || self.thumb() && t == 13 {
            return Err(Trap::Unpredictable);
        }
        let add = access.add || self.thumb();
        let offset_addr = if add {
            self.r(n).wrapping_add(access.offset)
        } else {
            self.r(n).wrapping_sub(access.offset)
        };
        let address = if post_index { self.r(n) } else { offset_addr };
        let data = if access.load {
            Some(self.mem_u(address, bytes)?)
        } else {
            self.set_mem_u(address, bytes, self.r(t))?;
            None
        };
        if post_index {
            self.set_r(n, offset_addr);
        }
        if let Some(data) = data {
            let unused = 32 - 8 * bytes;
            let value = if access.signed {
                ((data << unused) as i32 >> unused) as u32
            } else {
                data
            };
            self.set_r(t, value);
        }
        Ok(())
    }

    fn check(&self, address: u32, bytes: u32, strict: bool, write: bool) -> Result<(), Trap> {
        let data = |fs| Trap::Data { address, fs, write };
        if strict && !address.is_multiple_of(bytes) {
            return Err(data(0b00001));
        }
        if Memory::is_hole(address) {
            return Err(data(0b01111));
        }
        Ok(())
    }

    pub(super) fn mem_a(&self, address: u32) -> Result<u32, Trap> {
        self.check(address, 4, true, false)?;
        Ok(self.bytes(address, 4))
    }

    fn set_mem_a(&mut self, address: u32, value: u32) -> Result<(), Trap> {
        self.check(address, 4, true, true)?;
        self.set_bytes(address, 4, value);
        Ok(())
    }

    pub(super) fn mem_u(&self, address: u32, bytes: u32) -> Result<u32, Trap> {
        self.check(address, bytes, self.sctlr & A != 0, false)?;
        Ok(self.bytes(address, bytes))
    }

    fn set_mem_u(&mut self, address: u32, bytes: u32, value: u32) -> Result<(), Trap> {
        self.check(address, bytes, self.sctlr & A != 0, true)?;
        self.set_bytes(address, bytes, value);
        Ok(())
    }

    fn bytes(&self, address: u32, bytes: u32) -> u32 {
        let at = |byte: u32| u32::from(self.memory.byte(address.wrapping_add(byte)));
        let place = |byte: u32| {
            if self.big_endian() {
                bytes - 1 - byte
            } else {
                byte
            }
        };
        (0..bytes).map(|byte| at(byte) << (8 * place(byte))).sum()
    }

    fn set_bytes(&mut self, address: u32, bytes: u32, value: u32) {
        for byte in 0..bytes {
            let from = if self.big_endian() {
                bytes - 1 - byte
            } else {
                byte
            };
            self.memory
                .set_byte(address.wrapping_add(byte), (value >> (8 * from)) as u8);
        }
    }
}
