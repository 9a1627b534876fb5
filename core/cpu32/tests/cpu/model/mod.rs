//! A CPU as DDI 0406C's pseudocode has it, for the instructions of `steps`.
//!
//! The functions have the names and the order of the pseudocode: LookUpRName, CPSRWriteByInstr,
//! TakeDataAbortException and so on (B1.3.2, B1.3.3, B1.8, B1.9, and the instructions' sections in
//! A8.8 and B9.3). The Security Extensions are absent to a guest but for A, F and VBAR. What is
//! UNPREDICTABLE is as the crate's documentation says.

mod branches;
mod instructions;

use crate::memory::Memory;
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
}
