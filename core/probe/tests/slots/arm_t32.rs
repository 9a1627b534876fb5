//! T32 for the small CPU, outside IT blocks.

use crate::arm::{Cpu, bits, sign_extend};
use crate::memory::Memory;

impl Cpu {
    pub fn step_t32(&mut self, memory: &mut Memory) {
        let pc = self.registers.pc;
        assert_eq!(pc & 1, 0, "{pc:#x}");
        let first = memory.load(pc.into(), 2) as u32;
        let (branched, bytes) = if first >> 11 >= 0b11101 {
            let second = memory.load(pc.wrapping_add(2).into(), 2) as u32;
            (self.wide(memory, first << 16 | second), 4)
        } else {
            (self.narrow(memory, first), 2)
        };
        if !branched {
            self.registers.pc = pc.wrapping_add(bytes);
        }
    }

    fn jump(&mut self, offset: u32) -> bool {
        self.registers.pc = self.read(15).wrapping_add(offset);
        true
    }

    fn call(&mut self, bytes: u32) {
        let next = self.registers.pc.wrapping_add(bytes);
        self.write(14, next | 1);
    }

    fn narrow(&mut self, memory: &mut Memory, half: u32) -> bool {
        let (low, middle) = (bits(half, 2, 0), bits(half, 5, 3));
        let (list, sp) = (bits(half, 7, 0), self.read(13));
        let aligned = self.read(15) & !3;
        match half >> 8 {
            0x20..=0x27 => {
                let second = (list, self.carry());
                let value = self.calculate(13, 0, second, true).expect("a move");
                self.write(bits(half, 10, 8), value);
            }
            0x30..=0x37 => {
                let first = self.read(bits(half, 10, 8));
                let value = self
                    .calculate(4, first, (list, false), true)
                    .expect("a sum");
                self.write(bits(half, 10, 8), value);
            }
            0x44 | 0x46 => {
                let (rd, second) = (bits(half, 7, 7) << 3 | low, self.read(bits(half, 6, 3)));
                let first = if half >> 8 == 0x44 { self.read(rd) } else { 0 };
                let value = first.wrapping_add(second);
                if rd == 15 {
                    self.registers.pc = value & !1;
                    return true;
                }
                self.write(rd, value);
            }
            0x47 => {
                let target = self.read(bits(half, 6, 3));
                if bits(half, 7, 7) == 1 {
                    self.call(2);
                }
                self.exchange(target);
                return true;
            }
            0x48..=0x4f => self.load(memory, bits(half, 10, 8), aligned + 4 * list, 4, false),
            0x68..=0x6f => {
                let address = self.read(middle).wrapping_add(4 * bits(half, 10, 6));
                self.load(memory, low, address, 4, false);
            }
            0x98..=0x9f => self.load(memory, bits(half, 10, 8), sp + 4 * list, 4, false),
            0xa0..=0xa7 => self.write(bits(half, 10, 8), aligned + 4 * list),
            0xa8..=0xaf => self.write(bits(half, 10, 8), sp + 4 * list),
            0xb1 | 0xb3 | 0xb9 | 0xbb => {
                let zero = self.read(low) == 0;
                if zero != (bits(half, 11, 11) == 1) {
                    return self.jump(bits(half, 9, 9) << 6 | bits(half, 7, 3) << 1);
                }
            }
            0xb4 | 0xb5 => {
                let list = list | bits(half, 8, 8) << 14;
                let from = sp.wrapping_sub(4 * list.count_ones());
                self.store_all(memory, list, from);
                self.write(13, from);
            }
            0xbc | 0xbd => {
                let list = list | bits(half, 8, 8) << 15;
                self.write(13, sp.wrapping_add(4 * list.count_ones()));
                self.load_all(memory, list, sp);
                return list >> 15 == 1;
            }
            0xbf => assert_eq!(half, 0xbf00),
            0xd0..=0xdd => {
                if self.passes(bits(half, 11, 8)) {
                    return self.jump(sign_extend(list << 1, 9));
                }
            }
            0xe0..=0xe7 => return self.jump(sign_extend(bits(half, 10, 0) << 1, 12)),
            _ => panic!("{half:#x}"),
        }
        false
    }

    fn wide(&mut self, memory: &mut Memory, word: u32) -> bool {
        let (rn, rt, rd, rm) = (
            bits(word, 19, 16),
            bits(word, 15, 12),
            bits(word, 11, 8),
            bits(word, 3, 0),
        );
        match word >> 20 {
            0xe85 => self.load_exclusive(memory, rt, rn),
            0xe84 => {
                assert_eq!(bits(word, 7, 0), 0);
                self.store_exclusive(memory, rd, rt, rn);
            }
            0xe94..=0xe97 | 0xe9c..=0xe9f => self.dual(memory, word),
            0xea4 | 0xeb0 | 0xeba => {
                let amount = bits(word, 14, 12) << 2 | bits(word, 7, 6);
                let (second, _) = self.shifted(self.read(rm), bits(word, 5, 4), amount);
                let value = match word >> 20 {
                    0xea4 => {
                        assert_eq!(rn, 15);
                        second
                    }
                    0xeb0 => self.read(rn).wrapping_add(second),
                    _ => self.read(rn).wrapping_sub(second),
                };
                self.write(rd, value);
            }
            0xec5 => self.counter(memory, word),
            0xf00..=0xf7f if bits(word, 15, 15) == 1 => return self.control(word),
            0xf00..=0xf7f => self.constant(word),
            0xf80..=0xf9f => return self.single_t32(memory, word),
            _ => panic!("{word:#x}"),
        }
        false
    }

    fn dual(&mut self, memory: &mut Memory, word: u32) {
        let (rn, rt, rt2) = (bits(word, 19, 16), bits(word, 15, 12), bits(word, 11, 8));
        assert_eq!(
            (bits(word, 24, 24), bits(word, 21, 21)),
            (1, 0),
            "{word:#x}"
        );
        let base = if rn == 15 {
            self.read(15) & !3
        } else {
            self.read(rn)
        };
        let offset = 4 * bits(word, 7, 0);
        let address = match bits(word, 23, 23) {
            1 => base.wrapping_add(offset),
            _ => base.wrapping_sub(offset),
        };
        for (register, at) in [(rt, address), (rt2, address.wrapping_add(4))] {
            match bits(word, 20, 20) {
                1 => self.load(memory, register, at, 4, false),
                _ => memory.store(at.into(), 4, self.read(register).into()),
            }
        }
    }

    /// ThumbExpandImm.
    fn expand(word: u32) -> u32 {
        let constant = bits(word, 26, 26) << 11 | bits(word, 14, 12) << 8 | bits(word, 7, 0);
        let byte = bits(constant, 7, 0);
        match constant >> 8 {
            0 => byte,
            1 => byte << 16 | byte,
            2 => (byte << 16 | byte) << 8,
            3 => byte * 0x0101_0101,
            _ => (bits(constant, 6, 0) | 0x80).rotate_right(constant >> 7),
        }
    }

    /// ADD, MOV, MOVW, MOVT, ADR, ADDW, SUBW, UBFX.
    fn constant(&mut self, word: u32) {
        let (rn, rd) = (bits(word, 19, 16), bits(word, 11, 8));
        let plain = bits(word, 26, 26) << 11 | bits(word, 14, 12) << 8 | bits(word, 7, 0);
        let base = if rn == 15 {
            self.read(15) & !3
        } else {
            self.read(rn)
        };
        let value = match bits(word, 25, 20) {
            0b010000 => self.read(rn).wrapping_add(Self::expand(word)),
            0b000100 if rn == 15 => Self::expand(word),
            0b100000 => base.wrapping_add(plain),
            0b101010 => base.wrapping_sub(plain),
            0b100100 => rn << 12 | plain,
            0b101100 => self.read(rd) & 0xffff | (rn << 12 | plain) << 16,
            0b111100 => {
                let lowest = bits(word, 14, 12) << 2 | bits(word, 7, 6);
                bits(self.read(rn), lowest + bits(word, 4, 0), lowest)
            }
            _ => panic!("{word:#x}"),
        };
        self.write(rd, value);
    }

    fn control(&mut self, word: u32) -> bool {
        let (s, j1, j2) = (bits(word, 26, 26), bits(word, 13, 13), bits(word, 11, 11));
        let i = |j: u32| u32::from(j == s);
        let high = s << 24 | i(j1) << 23 | i(j2) << 22;
        let offset = sign_extend(high | bits(word, 25, 16) << 12 | bits(word, 10, 0) << 1, 25);
        match (bits(word, 14, 14), bits(word, 12, 12)) {
            (0, 1) => self.jump(offset),
            (1, 1) => {
                self.call(4);
                self.jump(offset)
            }
            (1, _) => {
                let target = (self.read(15) & !3).wrapping_add(offset);
                self.call(4);
                self.exchange(target);
                true
            }
            _ if bits(word, 25, 23) != 0b111 => {
                let high = s << 20 | j2 << 19 | j1 << 18;
                let offset = high | bits(word, 21, 16) << 12 | bits(word, 10, 0) << 1;
                self.passes(bits(word, 25, 22)) && self.jump(sign_extend(offset, 21))
            }
            _ => {
                assert_eq!(word & 0xffff_fff0, 0xf3bf_8f50, "{word:#x}"); // dmb
                false
            }
        }
    }

    fn single_t32(&mut self, memory: &mut Memory, word: u32) -> bool {
        let (rn, rt) = (bits(word, 19, 16), bits(word, 15, 12));
        let bytes = 1 << bits(word, 22, 21);
        let base = if rn == 15 {
            self.read(15) & !3
        } else {
            self.read(rn)
        };
        let address = match (rn, bits(word, 23, 23)) {
            (_, 1) => base.wrapping_add(bits(word, 11, 0)),
            (15, _) => base.wrapping_sub(bits(word, 11, 0)),
            _ => {
                assert_eq!(bits(word, 11, 8), 0b1100, "{word:#x}");
                base.wrapping_sub(bits(word, 7, 0))
            }
        };
        if bits(word, 20, 20) == 0 {
            memory.store(address.into(), bytes.into(), self.read(rt).into());
            return false;
        }
        let preload = rt == 15 && bytes != 4;
        if !preload {
            self.load(memory, rt, address, bytes, bits(word, 24, 24) == 1);
        }
        rt == 15 && !preload
    }
}
