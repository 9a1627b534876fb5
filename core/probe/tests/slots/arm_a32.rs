//! A32 for the small CPU.

use crate::arm::{Cpu, bits, sign_extend};
use crate::memory::Memory;

impl Cpu {
    pub fn step_a32(&mut self, memory: &mut Memory) {
        let pc = self.registers.pc;
        assert_eq!(pc & 3, 0, "{pc:#x}");
        let word = memory.load(pc.into(), 4) as u32;
        let condition = word >> 28;
        if condition != 15 && !self.passes(condition) {
            self.registers.pc = pc.wrapping_add(4);
            return;
        }
        let branched = match condition {
            15 => self.unconditional(word),
            _ => self.conditional(memory, word),
        };
        if !branched {
            self.registers.pc = pc.wrapping_add(4);
        }
    }

    fn unconditional(&mut self, word: u32) -> bool {
        if bits(word, 27, 25) == 0b101 {
            let next = self.registers.pc.wrapping_add(4);
            let offset = sign_extend(bits(word, 23, 0) << 2 | bits(word, 24, 24) << 1, 26);
            let target = self.read(15).wrapping_add(offset);
            self.write(14, next);
            self.exchange(target | 1);
            return true;
        }
        let dmb = word & 0xffff_fff0 == 0xf57f_f050;
        let preload = word & 0xff30_f000 == 0xf510_f000 || word & 0xff70_f000 == 0xf450_f000;
        assert!(dmb || preload, "{word:#x}");
        false
    }

    /// Whether it has branched.
    fn conditional(&mut self, memory: &mut Memory, word: u32) -> bool {
        let (rn, rd, rm) = (bits(word, 19, 16), bits(word, 15, 12), bits(word, 3, 0));
        match bits(word, 27, 25) {
            0b000 if word & 0x0fff_ffd0 == 0x012f_ff10 => {
                let target = self.read(rm);
                if bits(word, 5, 5) == 1 {
                    let next = self.registers.pc.wrapping_add(4);
                    self.write(14, next);
                }
                self.exchange(target);
                return true;
            }
            0b000 if bits(word, 27, 20) == 0b0001_1001 && bits(word, 11, 0) == 0xf9f => {
                self.load_exclusive(memory, rd, rn);
            }
            0b000 if bits(word, 27, 20) == 0b0001_1000 && bits(word, 11, 4) == 0xf9 => {
                self.store_exclusive(memory, rd, rm, rn);
            }
            0b000 if bits(word, 7, 7) & bits(word, 4, 4) == 1 => self.extra(memory, word),
            0b000 if word & 0x0fff_0fff == 0x010f_0000 => self.write(rd, self.registers.cpsr),
            0b000 if word & 0x0fff_fff0 == 0x0128_f000 => {
                let mask = 0xf800_0000;
                self.registers.cpsr = self.registers.cpsr & !mask | self.read(rm) & mask;
            }
            0b001 if bits(word, 24, 20) == 0b10000 => self.write(rd, rn << 12 | bits(word, 11, 0)),
            0b001 if bits(word, 24, 20) == 0b10100 => {
                let half = rn << 12 | bits(word, 11, 0);
                self.write(rd, self.read(rd) & 0xffff | half << 16);
            }
            0b000 | 0b001 => return self.data(word),
            0b011 if bits(word, 27, 21) == 0b0111111 && bits(word, 6, 4) == 0b101 => {
                let width = bits(word, 20, 16) + 1;
                let value = bits(
                    self.read(rm),
                    bits(word, 11, 7) + width - 1,
                    bits(word, 11, 7),
                );
                self.write(rd, value);
            }
            0b010 | 0b011 => return self.single(memory, word),
            0b100 => return self.block(memory, word),
            0b101 => {
                let next = self.registers.pc.wrapping_add(4);
                let target = self
                    .read(15)
                    .wrapping_add(sign_extend(bits(word, 23, 0) << 2, 26));
                if bits(word, 24, 24) == 1 {
                    self.write(14, next);
                }
                self.registers.pc = target;
                return true;
            }
            0b110 => self.counter(memory, word),
            _ => panic!("{word:#x}"),
        }
        false
    }

    fn data(&mut self, word: u32) -> bool {
        let (rn, rd) = (bits(word, 19, 16), bits(word, 15, 12));
        let second = if bits(word, 25, 25) == 1 {
            let rotation = 2 * bits(word, 11, 8);
            let value = bits(word, 7, 0).rotate_right(rotation);
            (
                value,
                if rotation == 0 {
                    self.carry()
                } else {
                    value >> 31 == 1
                },
            )
        } else {
            assert_eq!(bits(word, 4, 4), 0, "{word:#x}");
            self.shifted(
                self.read(bits(word, 3, 0)),
                bits(word, 6, 5),
                bits(word, 11, 7),
            )
        };
        let (operation, sets) = (bits(word, 24, 21), bits(word, 20, 20) == 1);
        assert!(!(8..12).contains(&operation) || sets, "{word:#x}");
        let Some(value) = self.calculate(operation, self.read(rn), second, sets) else {
            return false;
        };
        if rd == 15 {
            assert!(!sets, "{word:#x}");
            self.exchange(value);
            return true;
        }
        self.write(rd, value);
        false
    }

    /// The address, after the base was written back.
    fn address(&mut self, word: u32, offset: u32) -> u32 {
        let rn = bits(word, 19, 16);
        let base = self.read(rn);
        let moved = match bits(word, 23, 23) {
            1 => base.wrapping_add(offset),
            _ => base.wrapping_sub(offset),
        };
        let (before, write_back) = (bits(word, 24, 24) == 1, bits(word, 21, 21) == 1);
        if write_back || !before {
            self.write(rn, moved);
        }
        if before { moved } else { base }
    }

    fn single(&mut self, memory: &mut Memory, word: u32) -> bool {
        let rt = bits(word, 15, 12);
        let offset = match bits(word, 25, 25) {
            0 => bits(word, 11, 0),
            _ => {
                let index = self.read(bits(word, 3, 0));
                self.shifted(index, bits(word, 6, 5), bits(word, 11, 7)).0
            }
        };
        let stored = self.read(rt);
        let address = self.address(word, offset);
        let bytes = if bits(word, 22, 22) == 1 { 1 } else { 4 };
        if bits(word, 20, 20) == 1 {
            self.load(memory, rt, address, bytes, false);
            return rt == 15;
        }
        memory.store(address.into(), bytes.into(), stored.into());
        false
    }

    fn extra(&mut self, memory: &mut Memory, word: u32) {
        let rt = bits(word, 15, 12);
        let offset = match bits(word, 22, 22) {
            1 => bits(word, 11, 8) << 4 | bits(word, 3, 0),
            _ => self.read(bits(word, 3, 0)),
        };
        let stored = [self.read(rt), self.read((rt + 1).min(14))];
        let address = self.address(word, offset);
        match (bits(word, 20, 20), bits(word, 6, 5)) {
            (1, 1) => self.load(memory, rt, address, 2, false),
            (1, 2) => self.load(memory, rt, address, 1, true),
            (1, 3) => self.load(memory, rt, address, 2, true),
            (0, 1) => memory.store(address.into(), 2, stored[0].into()),
            (0, 2) => {
                self.load(memory, rt, address, 4, false);
                self.load(memory, rt + 1, address.wrapping_add(4), 4, false);
            }
            (0, 3) => {
                memory.store(address.into(), 4, stored[0].into());
                memory.store(address.wrapping_add(4).into(), 4, stored[1].into());
            }
            _ => panic!("{word:#x}"),
        }
    }

    /// LDMIA and STMDB.
    fn block(&mut self, memory: &mut Memory, word: u32) -> bool {
        let (rn, list) = (bits(word, 19, 16), bits(word, 15, 0));
        let (base, bytes) = (self.read(rn), 4 * list.count_ones());
        let write_back = bits(word, 21, 21) == 1;
        match (bits(word, 24, 22), bits(word, 20, 20)) {
            (0b010, 1) => {
                if write_back {
                    self.write(rn, base.wrapping_add(bytes));
                }
                self.load_all(memory, list, base);
                list >> 15 == 1
            }
            (0b100, 0) => {
                let from = base.wrapping_sub(bytes);
                self.store_all(memory, list, from);
                if write_back {
                    self.write(rn, from);
                }
                false
            }
            _ => panic!("{word:#x}"),
        }
    }
}
