//! A CPU as DDI 0406C's pseudocode has it, for the instructions of `steps`.
//!
//! The functions have the names and the order of the pseudocode: LookUpRName, CPSRWriteByInstr,
//! TakeDataAbortException and so on (B1.3.2, B1.3.3, B1.8, B1.9, and the instructions' sections in
//! A8.8 and B9.3). The Security Extensions are absent to a guest but for A, F and VBAR. What is
//! UNPREDICTABLE is as the crate's documentation says.

use crate::memory::Memory;
use crate::steps::{Area, Second, Step, Unprivileged};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
pub struct Model {
    /// _R: the registers by their names.
    r: BTreeMap<String, u32>,
    pub cpsr: u32,
    /// By the mode's code.
    spsr: BTreeMap<u32, u32>,
    /// The address of the current instruction.
    pub pc: u32,
    pub sctlr: u32,
    pub vbar: u32,
    pub dfsr: u32,
    pub dfar: u32,
    pub ifsr: u32,
    pub ifar: u32,
    pub memory: Memory,
}

/// Why an instruction ends early.
enum Trap {
    Undefined,
    Unpredictable,
    Data { address: u32, fs: u32, write: bool },
}

const TE: u32 = 1 << 30;
const EE: u32 = 1 << 25;
const V: u32 = 1 << 13;
const A: u32 = 1 << 1;

/// `x<high:low> = value<high:low>`.
fn copy(x: &mut u32, high: u32, low: u32, value: u32) {
    for bit in low..=high {
        *x = *x & !(1 << bit) | value & 1 << bit;
    }
}

fn set(x: &mut u32, bit: u32, to: bool) {
    copy(x, bit, bit, u32::from(to) << bit);
}

fn bad_mode(mode: u32) -> bool {
    !matches!(
        mode,
        0b10000 | 0b10001 | 0b10010 | 0b10011 | 0b10111 | 0b11011 | 0b11111
    )
}

fn suffix(mode: u32) -> &'static str {
    match mode {
        0b10001 => "fiq",
        0b10010 => "irq",
        0b10011 => "svc",
        0b10111 => "abt",
        0b11011 => "und",
        _ => "usr",
    }
}

fn look_up_name(n: u32, mode: u32) -> String {
    match n {
        0..=7 => format!("R{n}usr"),
        8..=12 if mode == 0b10001 => format!("R{n}fiq"),
        8..=12 => format!("R{n}usr"),
        13 => format!("SP{}", suffix(mode)),
        _ => format!("LR{}", suffix(mode)),
    }
}

impl Model {
    /// After a reset.
    pub fn new() -> Self {
        Self {
            r: BTreeMap::new(),
            cpsr: 0b1_1101_0011,
            spsr: BTreeMap::new(),
            pc: 0,
            sctlr: 0,
            vbar: 0,
            dfsr: 0,
            dfar: 0,
            ifsr: 0,
            ifar: 0,
            memory: Memory::default(),
        }
    }

    fn mode(&self) -> u32 {
        self.cpsr & 0x1f
    }

    pub fn thumb(&self) -> bool {
        self.cpsr >> 5 & 1 == 1
    }

    fn big_endian(&self) -> bool {
        self.cpsr >> 9 & 1 == 1
    }

    fn carry(&self) -> u32 {
        self.cpsr >> 29 & 1
    }

    pub fn it(&self) -> u32 {
        (self.cpsr >> 10 & 0x3f) << 2 | self.cpsr >> 25 & 3
    }

    fn set_it(&mut self, it: u32) {
        let bits = (it >> 2 & 0x3f) << 10 | (it & 3) << 25;
        self.cpsr = self.cpsr & !0x0600_fc00 | bits;
    }

    fn it_advance(&mut self) {
        let it = self.it();
        let next = if it & 7 == 0 {
            0
        } else {
            it & 0xe0 | (it & 0x1f) << 1 & 0x1f
        };
        self.set_it(next);
    }

    fn in_it_block(&self) -> bool {
        self.it() & 0xf != 0
    }

    fn last_in_it_block(&self) -> bool {
        self.it() & 0xf == 0b1000
    }

    fn rmode(&self, n: u32, mode: u32) -> u32 {
        self.r.get(&look_up_name(n, mode)).copied().unwrap_or(0)
    }

    fn set_rmode(&mut self, n: u32, mode: u32, value: u32) {
        self.r.insert(look_up_name(n, mode), value);
    }

    fn pc_value(&self) -> u32 {
        self.pc.wrapping_add(if self.thumb() { 4 } else { 8 })
    }

    pub fn r(&self, n: u32) -> u32 {
        if n == 15 {
            self.pc_value()
        } else {
            self.rmode(n, self.mode())
        }
    }

    pub fn set_r(&mut self, n: u32, value: u32) {
        self.set_rmode(n, self.mode(), value);
    }

    pub fn has_spsr(&self) -> bool {
        !matches!(self.mode(), 0b10000 | 0b11111)
    }

    pub fn spsr(&self) -> u32 {
        self.spsr.get(&self.mode()).copied().unwrap_or(0)
    }

    fn set_spsr(&mut self, value: u32) {
        self.spsr.insert(self.mode(), value);
    }

    fn cpsr_write_by_instr(&mut self, value: u32, bytemask: u32, is_excpt_return: bool) {
        let privileged = self.mode() != 0b10000;
        let mut cpsr = self.cpsr;
        if bytemask & 8 != 0 {
            copy(&mut cpsr, 31, 27, value);
            if is_excpt_return {
                copy(&mut cpsr, 26, 25, value);
            }
        }
        if bytemask & 4 != 0 {
            copy(&mut cpsr, 19, 16, value);
        }
        if bytemask & 2 != 0 {
            if is_excpt_return {
                copy(&mut cpsr, 15, 10, value);
            }
            copy(&mut cpsr, 9, 9, value);
            if privileged {
                copy(&mut cpsr, 8, 8, value);
            }
        }
        if bytemask & 1 != 0 {
            if privileged {
                copy(&mut cpsr, 7, 6, value);
            }
            if is_excpt_return {
                copy(&mut cpsr, 5, 5, value);
            }
            if privileged && !bad_mode(value & 0x1f) {
                copy(&mut cpsr, 4, 0, value);
            }
        }
        self.cpsr = cpsr;
        // ITSTATE outside T32, and one that is in no block, are UNPREDICTABLE.
        if is_excpt_return && !(self.thumb() && self.in_it_block()) {
            self.set_it(0);
        }
    }

    fn spsr_write_by_instr(&mut self, value: u32, bytemask: u32) -> Result<(), Trap> {
        if !self.has_spsr() {
            return Err(Trap::Unpredictable);
        }
        let mut spsr = self.spsr();
        if bytemask & 8 != 0 {
            copy(&mut spsr, 31, 24, value);
        }
        if bytemask & 4 != 0 {
            copy(&mut spsr, 19, 16, value);
        }
        if bytemask & 2 != 0 {
            copy(&mut spsr, 15, 8, value);
        }
        if bytemask & 1 != 0 {
            copy(&mut spsr, 7, 0, value);
        }
        self.set_spsr(spsr);
        Ok(())
    }

    fn branch_write_pc(&mut self, address: u32) {
        self.pc = if self.thumb() {
            address & !1
        } else {
            address & !3
        };
    }

    fn exc_vector_base(&self) -> u32 {
        if self.sctlr & V != 0 {
            0xffff_0000
        } else {
            self.vbar
        }
    }

    /// The part that all exceptions have in common, after LR and SPSR are known.
    fn enter(&mut self, mode: u32, link: u32, masks: u32, offset: u32) {
        let spsr = self.cpsr;
        copy(&mut self.cpsr, 4, 0, mode);
        self.set_spsr(spsr);
        self.set_r(14, link);
        self.cpsr |= masks;
        self.set_it(0);
        let (te, ee) = (self.sctlr & TE != 0, self.sctlr & EE != 0);
        set(&mut self.cpsr, 24, false);
        set(&mut self.cpsr, 5, te);
        set(&mut self.cpsr, 9, ee);
        self.pc = self.exc_vector_base().wrapping_add(offset);
    }

    /// An exception by its vector's offset.
    pub fn take(&mut self, offset: u32) {
        const F: u32 = 1 << 6;
        const I: u32 = 1 << 7;
        const A: u32 = 1 << 8;
        let (pc, thumb) = (self.pc_value(), self.thumb());
        let either = |t: u32, a: u32| if thumb { t } else { a };
        match offset {
            0x04 => {
                let link = either(pc.wrapping_sub(2), pc.wrapping_sub(4));
                self.enter(0b11011, link, I, offset);
            }
            0x08 => {
                let link = either(pc.wrapping_sub(2), pc.wrapping_sub(4));
                self.it_advance();
                self.enter(0b10011, link, I, offset);
            }
            0x0c => self.enter(0b10111, either(pc, pc.wrapping_sub(4)), I | A, offset),
            0x10 => self.enter(0b10111, either(pc.wrapping_add(4), pc), I | A, offset),
            0x18 => self.enter(0b10010, either(pc, pc.wrapping_sub(4)), I | A, offset),
            _ => self.enter(0b10001, either(pc, pc.wrapping_sub(4)), I | F | A, offset),
        }
    }

    pub fn data_abort(&mut self, address: u32, fs: u32, domain: u32, write: bool) {
        self.dfar = address;
        self.dfsr = (fs & 0x10) << 6 | fs & 0xf | domain << 4 | u32::from(write) << 11;
        self.take(0x10);
    }

    pub fn condition_passed(&self, condition: u32) -> bool {
        let [v, c, z, n] = [28, 29, 30, 31].map(|bit| self.cpsr >> bit & 1 == 1);
        let result = match condition >> 1 {
            0b000 => z,
            0b001 => c,
            0b010 => n,
            0b011 => v,
            0b100 => c && !z,
            0b101 => n == v,
            0b110 => n == v && !z,
            _ => true,
        };
        if condition & 1 == 1 && condition != 0b1111 {
            !result
        } else {
            result
        }
    }

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

    fn trapped(&mut self, trap: Trap) {
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
        let rn = self.r(n);
        let add_with_carry =
            |x: u32, y: u32, c: u32| (u64::from(x) + u64::from(y) + u64::from(c)) as u32;
        let result = match opcode {
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
        };
        self.cpsr_write_by_instr(self.spsr(), 0b1111, true);
        self.branch_write_pc(result);
        Ok(true)
    }

    /// DecodeImmShift and Shift, in 64 bits so that a shift by 32 is no special case.
    fn shift(&self, value: u32, kind: u32, amount: u32) -> u32 {
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

    fn area(&self, area: Area, base: u32, length: u32) -> (u32, u32) {
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
        if strict && address % bytes != 0 {
            return Err(data(0b00001));
        }
        if Memory::is_hole(address) {
            return Err(data(0b01111));
        }
        Ok(())
    }

    fn mem_a(&self, address: u32) -> Result<u32, Trap> {
        self.check(address, 4, true, false)?;
        Ok(self.bytes(address, 4))
    }

    fn set_mem_a(&mut self, address: u32, value: u32) -> Result<(), Trap> {
        self.check(address, 4, true, true)?;
        self.set_bytes(address, 4, value);
        Ok(())
    }

    fn mem_u(&self, address: u32, bytes: u32) -> Result<u32, Trap> {
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
