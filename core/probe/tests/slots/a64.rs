//! A small A64 CPU, by the operations' pseudocode (DDI 0487 C6.2): what relocated code and
//! trampolines are made of, and what they stand for. Anything else ends the test.

use crate::memory::{Memory, Monitor};

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    pub x: [u64; 31],
    pub sp: u64,
    pub pc: u64,
    /// N, Z, C, V in bits 3 to 0.
    pub nzcv: u32,
}

#[derive(Clone, Debug, Default)]
pub struct Cpu {
    pub registers: Registers,
    pub monitor: Monitor,
}

/// Some bits of a word, as the manual writes them: the highest and the lowest.
const fn bits(word: u32, high: u32, low: u32) -> u32 {
    (word >> low) & (u32::MAX >> (31 - (high - low)))
}

fn sign_extend(value: u32, width: u32) -> u64 {
    let value = u64::from(value);
    if value >> (width - 1) == 1 {
        value | u64::MAX << width
    } else {
        value
    }
}

pub fn holds(condition: u32, nzcv: u32) -> bool {
    let [n, z, c, v] = [3, 2, 1, 0].map(|bit| nzcv >> bit & 1 == 1);
    let result = match condition >> 1 {
        0 => z,
        1 => c,
        2 => n,
        3 => v,
        4 => c && !z,
        5 => n == v,
        6 => n == v && !z,
        _ => return true,
    };
    result != (condition & 1 == 1)
}

impl Cpu {
    fn read(&self, number: u32, wide: bool) -> u64 {
        let value = self.registers.x.get(number as usize).copied().unwrap_or(0);
        if wide { value } else { value & 0xffff_ffff }
    }

    fn write(&mut self, number: u32, wide: bool, value: u64) {
        if let Some(register) = self.registers.x.get_mut(number as usize) {
            *register = if wide { value } else { value & 0xffff_ffff };
        }
    }

    /// A base register: 31 is SP, which has to be aligned.
    fn base(&self, number: u32) -> u64 {
        if number != 31 {
            return self.read(number, true);
        }
        assert_eq!(self.registers.sp & 15, 0, "SP");
        self.registers.sp
    }

    fn write_base(&mut self, number: u32, value: u64) {
        if number == 31 {
            self.registers.sp = value;
        } else {
            self.write(number, true, value);
        }
    }

    /// Executes one instruction.
    pub fn step(&mut self, memory: &mut Memory) {
        let word = memory.load(self.registers.pc, 4) as u32;
        let next = self.registers.pc.wrapping_add(4);
        self.registers.pc = match bits(word, 28, 26) {
            0b101 => self.branch(memory, word, next),
            0b100 => {
                self.immediate(word);
                next
            }
            _ => {
                self.other(memory, word);
                next
            }
        };
    }

    /// Branches and system instructions: the next PC.
    fn branch(&mut self, memory: &mut Memory, word: u32, next: u64) -> u64 {
        let pc = self.registers.pc;
        let to = |high, low| {
            let offset = sign_extend(bits(word, high, low), high - low + 1) << 2;
            pc.wrapping_add(offset)
        };
        let wide = bits(word, 31, 31) == 1;
        let rt = bits(word, 4, 0);
        match (bits(word, 31, 29), bits(word, 25, 24)) {
            (0b000, _) => to(25, 0),
            (0b100, _) => {
                self.write(30, true, next);
                to(25, 0)
            }
            (0b001 | 0b101, 0b00 | 0b01) => {
                let zero = self.read(rt, wide) == 0;
                if zero == (bits(word, 24, 24) == 0) {
                    to(23, 5)
                } else {
                    next
                }
            }
            (0b001 | 0b101, _) => {
                let number = bits(word, 31, 31) << 5 | bits(word, 23, 19);
                let set = self.read(rt, true) >> number & 1;
                if set == bits(word, 24, 24).into() {
                    to(18, 5)
                } else {
                    next
                }
            }
            (0b010, 0b00) => {
                if holds(bits(word, 3, 0), self.registers.nzcv) {
                    to(23, 5)
                } else {
                    next
                }
            }
            (0b110, 0b10) => {
                let target = self.read(bits(word, 9, 5), true);
                assert_eq!(bits(word, 20, 10), 0b11111_000000, "{word:#x}");
                match bits(word, 24, 21) {
                    0 | 2 => {}
                    1 => self.write(30, true, next),
                    _ => panic!("{word:#x}"),
                }
                target
            }
            (0b110, 0b01) => {
                // CNTVCT_EL0 is op0 3, op1 3, CRn 14, CRm 0, op2 2.
                assert_eq!(bits(word, 21, 5), 0b1_11_011_1110_0000_010, "{word:#x}");
                let now = memory.tick();
                self.write(rt, true, now);
                next
            }
            _ => panic!("{word:#x}"),
        }
    }

    /// Data processing with a constant.
    fn immediate(&mut self, word: u32) {
        let (wide, rd, rn) = (bits(word, 31, 31) == 1, bits(word, 4, 0), bits(word, 9, 5));
        match bits(word, 25, 23) {
            0b000 | 0b001 => {
                let offset = sign_extend(bits(word, 23, 5) << 2 | bits(word, 30, 29), 21);
                let page = bits(word, 31, 31) == 1;
                let (base, offset) = if page {
                    (self.registers.pc & !0xfff, offset << 12)
                } else {
                    (self.registers.pc, offset)
                };
                self.write(rd, true, base.wrapping_add(offset));
            }
            0b010 => {
                let constant = u64::from(bits(word, 21, 10)) << (12 * bits(word, 22, 22));
                let first = if rn == 31 {
                    self.registers.sp
                } else {
                    self.read(rn, wide)
                };
                assert_eq!(bits(word, 30, 29), 0, "ADD without flags");
                let sum = first.wrapping_add(constant);
                self.write_base(rd, if wide { sum } else { sum & 0xffff_ffff });
            }
            0b100 => {
                // AND of 32 bits with a mask of the lowest bits.
                assert_eq!(bits(word, 31, 29), 0, "{word:#x}");
                assert_eq!(bits(word, 22, 16), 0, "{word:#x}");
                let mask = (2u64 << bits(word, 15, 10)) - 1;
                let value = self.read(rn, false) & mask;
                self.write(rd, false, value);
            }
            0b101 => {
                let (shift, half) = (16 * bits(word, 22, 21), u64::from(bits(word, 20, 5)));
                let value = match bits(word, 30, 29) {
                    0b00 => !(half << shift),
                    0b10 => half << shift,
                    0b11 => self.read(rd, true) & !(0xffff << shift) | half << shift,
                    _ => panic!("{word:#x}"),
                };
                self.write(rd, wide, value);
            }
            0b110 => {
                // LSR of 32 bits.
                assert_eq!(bits(word, 31, 22), 0b0_10_100110_0, "{word:#x}");
                assert_eq!(bits(word, 15, 10), 31, "{word:#x}");
                let value = self.read(rn, false) >> bits(word, 21, 16);
                self.write(rd, false, value);
            }
            _ => panic!("{word:#x}"),
        }
    }

    /// Loads and stores, and additions of registers.
    fn other(&mut self, memory: &mut Memory, word: u32) {
        let (rt, rn) = (bits(word, 4, 0), bits(word, 9, 5));
        match word >> 21 {
            // ADD and SUB (shifted register), LSL.
            0x458 | 0x258 => {
                let wide = bits(word, 31, 31) == 1;
                let second = self.read(bits(word, 20, 16), wide) << bits(word, 15, 10);
                let first = self.read(rn, wide);
                let result = match bits(word, 30, 30) {
                    0 => first.wrapping_add(second),
                    _ => first.wrapping_sub(second),
                };
                self.write(rt, wide, result);
            }
            // LDXR, STXR and STLR.
            0x442 => {
                assert_eq!(bits(word, 20, 10), 0b11111_0_11111, "{word:#x}");
                let address = self.base(rn);
                self.monitor = memory.reserve(address);
                self.write(rt, false, memory.load(address, 4));
            }
            0x440 => {
                let (address, status) = (self.base(rn), bits(word, 20, 16));
                assert_eq!(bits(word, 15, 10), 0b0_11111, "{word:#x}");
                assert!(status != rt && status != rn, "{word:#x}");
                let succeeds = memory.holds(self.monitor.take(), address);
                if succeeds {
                    memory.store(address, 4, self.read(rt, false));
                }
                self.write(status, false, (!succeeds).into());
            }
            0x644 => {
                assert_eq!(bits(word, 20, 10), 0b11111_1_11111, "{word:#x}");
                memory.store(self.base(rn), 8, self.read(rt, true));
            }
            0x540..=0x54f => self.pair(memory, word),
            _ if bits(word, 29, 27) == 0b011 && bits(word, 25, 24) == 0 => {
                let offset = sign_extend(bits(word, 23, 5), 19) << 2;
                let address = self.registers.pc.wrapping_add(offset);
                assert_eq!(bits(word, 26, 26), 0, "{word:#x}");
                self.load(
                    memory,
                    rt,
                    address,
                    [(4, 0), (8, 0), (4, 64)].get(word as usize >> 30),
                );
            }
            _ => self.single(memory, word),
        }
    }

    /// LDP and STP of 64 bits.
    fn pair(&mut self, memory: &mut Memory, word: u32) {
        let (rt, rn, rt2) = (bits(word, 4, 0), bits(word, 9, 5), bits(word, 14, 10));
        let offset = sign_extend(bits(word, 21, 15), 7) << 3;
        let (base, moved) = (self.base(rn), self.base(rn).wrapping_add(offset));
        let (address, written) = match bits(word, 24, 23) {
            0b01 => (base, moved),
            0b10 => (moved, base),
            _ => (moved, moved),
        };
        for (register, at) in [(rt, address), (rt2, address.wrapping_add(8))] {
            match bits(word, 22, 22) {
                0 => memory.store(at, 8, self.read(register, true)),
                _ => self.write(register, true, memory.load(at, 8)),
            }
        }
        self.write_base(rn, written);
    }

    /// What a load does: bytes, and the width of the sign's extension. A preload has neither.
    fn load(&mut self, memory: &Memory, rt: u32, address: u64, how: Option<&(u64, u32)>) {
        let Some((bytes, extended)) = how.copied() else {
            return;
        };
        let value = memory.load(address, bytes);
        let value = if extended == 64 {
            value as u32 as i32 as i64 as u64
        } else {
            value
        };
        self.write(rt, true, value);
    }

    /// LDR and STR with an offset, scaled or not.
    fn single(&mut self, memory: &mut Memory, word: u32) {
        let (rt, rn) = (bits(word, 4, 0), bits(word, 9, 5));
        assert_eq!(bits(word, 29, 26), 0b1110, "{word:#x}");
        let size = bits(word, 31, 30);
        let offset = match bits(word, 25, 24) {
            1 => u64::from(bits(word, 21, 10)) << size,
            _ => {
                assert!(
                    bits(word, 21, 21) == 0 && bits(word, 11, 10) == 0,
                    "{word:#x}"
                );
                sign_extend(bits(word, 20, 12), 9)
            }
        };
        let address = self.base(rn).wrapping_add(offset);
        match bits(word, 23, 22) {
            0 => memory.store(address, 1 << size, self.read(rt, true)),
            1 => self.load(memory, rt, address, Some(&(1 << size, 0))),
            2 if size == 2 => self.load(memory, rt, address, Some(&(4, 64))),
            _ => panic!("{word:#x}"),
        }
    }
}
