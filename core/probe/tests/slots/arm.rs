//! A small AArch32 CPU: what relocated code and trampolines are made of, and what they stand for
//! (DDI 0406C A8.8). Anything else ends the test. A32 is in `arm_a32.rs`, T32 in `arm_t32.rs`.

use crate::memory::{Memory, Monitor};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// R0 to R14.
    pub r: [u32; 15],
    pub pc: u32,
    /// N, Z, C, V in bits 31 to 28.
    pub cpsr: u32,
    pub thumb: bool,
}

#[derive(Clone, Debug, Default)]
pub struct Cpu {
    pub registers: Registers,
    pub monitor: Monitor,
}

pub const fn bits(word: u32, high: u32, low: u32) -> u32 {
    (word >> low) & (u32::MAX >> (31 - (high - low)))
}

pub fn sign_extend(value: u32, width: u32) -> u32 {
    let unused = 32 - width;
    ((value << unused) as i32 >> unused) as u32
}

impl Cpu {
    pub fn step(&mut self, memory: &mut Memory) {
        if self.registers.thumb {
            self.step_t32(memory);
        } else {
            self.step_a32(memory);
        }
    }

    /// A register as an operand: the PC is ahead.
    pub fn read(&self, number: u32) -> u32 {
        let ahead = if self.registers.thumb { 4 } else { 8 };
        let pc = self.registers.pc.wrapping_add(ahead);
        self.registers.r.get(number as usize).copied().unwrap_or(pc)
    }

    pub fn write(&mut self, number: u32, value: u32) {
        self.registers.r[number as usize] = value;
    }

    /// BXWritePC, and LoadWritePC from ARMv5T on. What is UNPREDICTABLE goes to some multiple of four.
    pub fn exchange(&mut self, target: u32) {
        self.registers.thumb = target & 1 == 1;
        self.registers.pc = target & if target & 1 == 1 { !1 } else { !3 };
    }

    pub fn passes(&self, condition: u32) -> bool {
        crate::a64::holds(condition, self.registers.cpsr >> 28)
    }

    pub fn flags(&mut self, nzcv: [bool; 4]) {
        let new = nzcv
            .into_iter()
            .fold(0, |all, flag| all << 1 | u32::from(flag));
        self.registers.cpsr = self.registers.cpsr & !(0xf << 28) | new << 28;
    }

    pub fn carry(&self) -> bool {
        self.registers.cpsr >> 29 & 1 == 1
    }

    fn overflow(&self) -> bool {
        self.registers.cpsr >> 28 & 1 == 1
    }

    /// One of the sixteen operations of data processing, in A32's numbering; the result if it is
    /// written.
    pub fn calculate(
        &mut self,
        operation: u32,
        first: u32,
        (second, shifted_out): (u32, bool),
        sets: bool,
    ) -> Option<u32> {
        let carry = u64::from(self.carry());
        let add = |a: u32, b: u32, carry: u64| {
            let sum = u64::from(a) + u64::from(b) + carry;
            let signed = i64::from(a as i32) + i64::from(b as i32) + carry as i64;
            (
                sum as u32,
                sum >> 32 == 1,
                signed != i64::from(sum as u32 as i32),
            )
        };
        let logical = |value| (value, shifted_out, self.overflow());
        let (value, c, v) = match operation {
            0 | 8 => logical(first & second),
            1 | 9 => logical(first ^ second),
            2 | 10 => add(first, !second, 1),
            3 => add(second, !first, 1),
            4 | 11 => add(first, second, 0),
            5 => add(first, second, carry),
            6 => add(first, !second, carry),
            7 => add(second, !first, carry),
            12 => logical(first | second),
            13 => logical(second),
            14 => logical(first & !second),
            _ => logical(!second),
        };
        if sets {
            self.flags([value >> 31 == 1, value == 0, c, v]);
        }
        (!(8..12).contains(&operation)).then_some(value)
    }

    /// A register's value, shifted by a constant (DecodeImmShift), and the carry.
    pub fn shifted(&self, value: u32, kind: u32, amount: u32) -> (u32, bool) {
        let last = |value: u32, bit: u32| value >> bit & 1 == 1;
        match (kind, amount) {
            (0, 0) => (value, self.carry()),
            (0, _) => (value << amount, last(value, 32 - amount)),
            (1, 0) => (0, last(value, 31)),
            (1, _) => (value >> amount, last(value, amount - 1)),
            (2, 0) => (((value as i32) >> 31) as u32, last(value, 31)),
            (2, _) => (((value as i32) >> amount) as u32, last(value, amount - 1)),
            (_, 0) => (u32::from(self.carry()) << 31 | value >> 1, last(value, 0)),
            _ => (value.rotate_right(amount), last(value, amount - 1)),
        }
    }

    /// Loads into a register, which is the PC only for a word.
    pub fn load(&mut self, memory: &Memory, rt: u32, address: u32, bytes: u32, signed: bool) {
        let value = memory.load(address.into(), bytes.into()) as u32;
        let value = if signed {
            sign_extend(value, 8 * bytes)
        } else {
            value
        };
        if rt == 15 {
            self.exchange(value);
        } else {
            self.write(rt, value);
        }
    }

    /// PUSH, POP and their like: ascending from an address.
    pub fn load_all(&mut self, memory: &Memory, list: u32, from: u32) {
        for (at, number) in (0u32..).zip((0..16).filter(|number| list >> number & 1 == 1)) {
            self.load(memory, number, from.wrapping_add(4 * at), 4, false);
        }
    }

    pub fn store_all(&self, memory: &mut Memory, list: u32, from: u32) {
        for (at, number) in (0u32..).zip((0..15).filter(|number| list >> number & 1 == 1)) {
            let address = from.wrapping_add(4 * at);
            memory.store(address.into(), 4, self.read(number).into());
        }
    }

    pub fn load_exclusive(&mut self, memory: &Memory, rt: u32, rn: u32) {
        let address = self.read(rn);
        self.monitor = memory.reserve(address.into());
        self.load(memory, rt, address, 4, false);
    }

    pub fn store_exclusive(&mut self, memory: &mut Memory, rd: u32, rt: u32, rn: u32) {
        assert!(rd != rt && rd != rn, "UNPREDICTABLE");
        let address = u64::from(self.read(rn));
        let succeeds = memory.holds(self.monitor.take(), address);
        if succeeds {
            memory.store(address, 4, self.read(rt).into());
        }
        self.write(rd, (!succeeds).into());
    }

    /// MRRC of CNTVCT: coprocessor 15, opc1 1, CRm 14.
    pub fn counter(&mut self, memory: &mut Memory, word: u32) {
        assert_eq!(bits(word, 27, 20), 0b1100_0101, "{word:#x}");
        assert_eq!(bits(word, 11, 0), 0b1111_0001_1110, "{word:#x}");
        let now = memory.tick();
        self.write(bits(word, 15, 12), now as u32);
        self.write(bits(word, 19, 16), (now >> 32) as u32);
    }
}
