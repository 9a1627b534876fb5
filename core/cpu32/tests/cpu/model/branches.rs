//! Indirect branches, by the diagrams and the pseudocode of their own sections (DDI 0406C, A8.8),
//! and the functions that write the PC (A2.3.1).

use super::{Model, Trap, set};
use crate::steps::Area;
use hanok_decode::aarch32::Encoding;

/// `bits<high:low>`
const fn field(bits: u32, high: u32, low: u32) -> u32 {
    bits >> low & ((1 << (high - low + 1)) - 1)
}

/// `if !condition then UNPREDICTABLE`
fn require(condition: bool) -> Result<(), Trap> {
    if condition {
        Ok(())
    } else {
        Err(Trap::Unpredictable)
    }
}

/// A load of the PC: the base, what is added to it, P and W.
struct Load {
    n: u32,
    offset: u32,
    add: bool,
    index: bool,
    wback: bool,
}

impl Model {
    /// Executes an indirect branch.
    pub fn branch(&mut self, encoding: Encoding) {
        let condition = match encoding {
            Encoding::A32(word) => word >> 28,
            _ if self.in_it_block() => self.it() >> 4,
            _ => 0b1110,
        };
        let before = self.clone();
        if self.condition_passed(condition) {
            let done = match encoding {
                Encoding::A32(word) => self.a32(word),
                Encoding::Narrow(half) => self.in_block().and_then(|()| self.narrow(half.into())),
                Encoding::Wide(both) => self.in_block().and_then(|()| self.wide(both)),
            };
            if let Err(trap) = done {
                *self = before;
                return self.trapped(trap);
            }
        } else {
            self.pc = self.pc.wrapping_add(encoding.bytes());
        }
        if !matches!(encoding, Encoding::A32(_)) {
            self.it_advance();
        }
    }

    fn in_block(&self) -> Result<(), Trap> {
        require(!self.in_it_block() || self.last_in_it_block())
    }

    fn bx_write_pc(&mut self, address: u32) -> Result<(), Trap> {
        if address & 1 == 1 {
            set(&mut self.cpsr, 5, true);
            self.pc = address & !1;
        } else {
            require(address & 2 == 0)?;
            set(&mut self.cpsr, 5, false);
            self.pc = address;
        }
        Ok(())
    }

    fn alu_write_pc(&mut self, address: u32) -> Result<(), Trap> {
        if !self.thumb() {
            return self.bx_write_pc(address);
        }
        self.branch_write_pc(address);
        Ok(())
    }

    fn a32(&mut self, w: u32) -> Result<(), Trap> {
        let (n, m) = (field(w, 19, 16), field(w, 3, 0));
        if w & 0x0ff0_00c0 == 0x0120_0000 {
            require(field(w, 19, 8) == 0xfff)?;
            return self.exchange(field(w, 5, 4), m);
        }
        // Extra loads, shifts by a register, LDRB.
        let extra = w & 0x0e00_0090 == 0x90;
        let shifted_by_register = w & 0x0e00_0090 == 0x10;
        let byte = w & 0x0c50_0000 == 0x0450_0000;
        require(!extra && !shifted_by_register && !byte)?;
        let (p, u, wb) = (w >> 24 & 1, w >> 23 & 1, w >> 21 & 1);
        if w & 0x0c50_0000 == 0x0410_0000 {
            let by_register = w >> 25 & 1 == 1;
            require(!by_register || m != 15)?;
            let offset = if by_register {
                self.shift(self.r(m), field(w, 6, 5), field(w, 11, 7))
            } else {
                field(w, 11, 0)
            };
            return self.ldr(&Load {
                n,
                offset,
                add: u == 1,
                index: p == 1,
                wback: p == 0 || wb == 1,
            });
        }
        if w & 0x0e50_0000 == 0x0810_0000 {
            let area = Area {
                up: u == 1,
                before: p == 1,
                write_back: wb == 1,
                base: n,
            };
            return self.ldm(area, field(w, 15, 0));
        }
        assert_eq!(w & 0x0c10_f000, 0xf000, "{w:x} is not in the model");
        let opcode = field(w, 24, 21);
        let operand2 = if w >> 25 & 1 == 1 {
            (w & 0xff).rotate_right(2 * field(w, 11, 8))
        } else {
            self.shift(self.r(m), field(w, 6, 5), field(w, 11, 7))
        };
        require(!matches!(opcode, 0b1101 | 0b1111) || n == 0)?;
        let result = self.result(opcode, self.r(n), operand2);
        self.alu_write_pc(result)
    }

    /// BX, BXJ, BLX of A32 by the lower bits of op2.
    fn exchange(&mut self, kind: u32, m: u32) -> Result<(), Trap> {
        require(kind == 1 || m != 15)?;
        let target = self.r(m);
        if kind == 3 {
            let next = self.pc_value().wrapping_sub(4);
            self.set_r(14, next);
        }
        self.bx_write_pc(target)
    }

    fn ldr(&mut self, load: &Load) -> Result<(), Trap> {
        require(!load.wback || load.n != 15)?;
        let base = if load.n == 15 {
            self.pc_value() & !3
        } else {
            self.r(load.n)
        };
        let offset_addr = if load.add {
            base.wrapping_add(load.offset)
        } else {
            base.wrapping_sub(load.offset)
        };
        let address = if load.index { offset_addr } else { base };
        // MemU; what is not aligned is UNPREDICTABLE, see the crate.
        let data = self.mem_a(address)?;
        if load.wback {
            self.set_r(load.n, offset_addr);
        }
        self.bx_write_pc(data)
    }

    fn ldm(&mut self, area: Area, list: u32) -> Result<(), Trap> {
        require(area.base != 15 && !(area.write_back && list >> area.base & 1 == 1))?;
        let (mut address, back) = self.area(area, self.r(area.base), 4 * list.count_ones());
        for i in 0..15 {
            if list >> i & 1 == 1 {
                let value = self.mem_a(address)?;
                self.set_r(i, value);
                address = address.wrapping_add(4);
            }
        }
        let target = self.mem_a(address)?;
        if area.write_back {
            self.set_r(area.base, back);
        }
        self.bx_write_pc(target)
    }

    fn narrow(&mut self, half: u32) -> Result<(), Trap> {
        let m = field(half, 6, 3);
        match field(half, 15, 8) {
            0b0100_0100 => {
                require(m != 15)?;
                let result = self.r(15).wrapping_add(self.r(m));
                self.alu_write_pc(result)
            }
            0b0100_0110 => self.alu_write_pc(self.r(m)),
            0b0100_0111 => {
                require(field(half, 2, 0) == 0)?;
                let target = self.r(m);
                if half >> 7 & 1 == 1 {
                    require(m != 15)?;
                    let next = self.pc_value().wrapping_sub(2);
                    self.set_r(14, next | 1);
                }
                self.bx_write_pc(target)
            }
            0b1011_1101 => {
                let area = Area {
                    up: true,
                    before: false,
                    write_back: true,
                    base: 13,
                };
                self.ldm(area, field(half, 7, 0) | 1 << 15)
            }
            _ => panic!("{half:x} is not in the model"),
        }
    }

    fn wide(&mut self, w: u32) -> Result<(), Trap> {
        let (n, m) = (field(w, 19, 16), field(w, 3, 0));
        if w & 0xfff0_d000 == 0xf3c0_8000 {
            require(w & 0x2fff == 0x0f00 && !matches!(n, 13 | 15))?;
            return self.bx_write_pc(self.r(n));
        }
        if matches!(w & 0xffd0_0000, 0xe890_0000 | 0xe910_0000) {
            let list = field(w, 15, 0);
            let both = list >> 14 & 0b11 == 0b11;
            require(list.count_ones() >= 2 && !both && list >> 13 & 1 == 0)?;
            let up = w >> 23 & 1 == 1;
            let area = Area {
                up,
                before: !up,
                write_back: w >> 21 & 1 == 1,
                base: n,
            };
            return self.ldm(area, list);
        }
        if w & 0xfff0_00e0 == 0xe8d0_0000 {
            require(field(w, 15, 8) == 0xf0 && n != 13 && !matches!(m, 13 | 15))?;
            return self.table_branch(n, m, w >> 4 & 1 == 1);
        }
        // LDRB and so on with write-back.
        require(w & 0xff70_0000 == 0xf850_0000)?;
        let mut load = Load {
            n,
            offset: field(w, 11, 0),
            add: w >> 23 & 1 == 1,
            index: true,
            wback: false,
        };
        if n == 15 || load.add {
            return self.ldr(&load);
        }
        if w >> 11 & 1 == 1 {
            load.offset = field(w, 7, 0);
            load.add = w >> 9 & 1 == 1;
            load.index = w >> 10 & 1 == 1;
            load.wback = w >> 8 & 1 == 1;
        } else {
            require(!matches!(m, 13 | 15))?;
            load.offset = self.r(m) << field(w, 5, 4);
            load.add = true;
        }
        self.ldr(&load)
    }

    fn table_branch(&mut self, n: u32, m: u32, is_tbh: bool) -> Result<(), Trap> {
        let halfwords = if is_tbh {
            self.mem_u(self.r(n).wrapping_add(self.r(m) << 1), 2)?
        } else {
            self.mem_u(self.r(n).wrapping_add(self.r(m)), 1)?
        };
        let target = self.pc_value().wrapping_add(2 * halfwords);
        self.branch_write_pc(target);
        Ok(())
    }
}
