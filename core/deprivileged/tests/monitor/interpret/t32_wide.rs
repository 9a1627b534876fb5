//! T32 instructions of two halfwords (DDI 0406C, A6.3).

use super::alu::{expand_t32, shift_constant};
use super::memory::{Data, Form};
use super::{Bus, Core, Done, Stop, bit, field, require, signed};
use hanok_decode::aarch32::ItState;

/// The operations of A6.3.1 as A32 numbers them.
const DATA: [u32; 16] = [0, 14, 12, 16, 1, 16, 16, 16, 4, 16, 5, 6, 16, 2, 3, 16];

impl<B: Bus> Core<'_, B> {
    pub(super) fn wide(&mut self, w: u32, it: ItState) -> Done {
        match field(w, 28, 27) {
            1 if field(w, 26, 25) == 0 && !bit(w, 22) => self.wide_block(w, it),
            1 if field(w, 26, 25) == 0 => self.dual_or_table(w, it),
            1 if field(w, 26, 25) == 1 => {
                let (n, d, m) = (field(w, 19, 16), field(w, 11, 8), field(w, 3, 0));
                require(d != 15 && m != 15 && d != 13 && m != 13 && n != 13)?;
                let amount = field(w, 14, 12) << 2 | field(w, 7, 6);
                let second = shift_constant(self.get(m), field(w, 5, 4), amount, self.carry());
                self.wide_data(w, n, d, second)
            }
            2 if bit(w, 15) => self.wide_branch(w, it),
            2 if !bit(w, 25) => {
                let (n, d) = (field(w, 19, 16), field(w, 11, 8));
                require(d != 15 && d != 13 && n != 13)?;
                let second = expand_t32(constant(w), self.carry());
                self.wide_data(w, n, d, second)
            }
            2 => self.plain(w),
            3 if field(w, 26, 25) == 0 => self.wide_single(w, it),
            _ => Err(Stop::Unknown),
        }
    }

    fn wide_data(&mut self, w: u32, n: u32, d: u32, second: (u32, bool)) -> Done {
        let operation = field(w, 24, 21);
        let number = DATA[operation as usize];
        // Without a first operand: MOV, MVN.
        let number = match (operation, n) {
            (2, 15) => 13,
            (3, 15) => 15,
            (3, _) => return Err(Stop::Unknown),
            (_, 15) => return Err(Stop::Unknown),
            _ => number,
        };
        require(number < 16)?;
        self.process(number, bit(w, 20), (d, self.get(n)), second)
    }

    /// MOVW, MOVT, ADDW, SUBW.
    fn plain(&mut self, w: u32) -> Done {
        let (n, d) = (field(w, 19, 16), field(w, 11, 8));
        require(d != 15 && d != 13)?;
        let half = n << 12 | constant(w);
        let value = match field(w, 24, 20) {
            0b00100 => half,
            0b01100 => half << 16 | self.get(d) & 0xffff,
            0b00000 | 0b01010 => {
                let base = if n == 15 {
                    self.get(15) & !3
                } else {
                    self.get(n)
                };
                if bit(w, 23) {
                    base.wrapping_sub(constant(w))
                } else {
                    base.wrapping_add(constant(w))
                }
            }
            _ => return Err(Stop::Unknown),
        };
        self.set(d, value);
        Ok(())
    }

    fn wide_branch(&mut self, w: u32, it: ItState) -> Done {
        let sign = bit(w, 26);
        let same = |number: u32| u32::from(bit(w, number) == sign);
        let far = u32::from(sign) << 24
            | same(13) << 23
            | same(11) << 22
            | field(w, 25, 16) << 12
            | field(w, 10, 0) << 1;
        let far = signed(far, 25);
        let may_stand = !it.is_inside() || it.is_last();
        match (bit(w, 14), bit(w, 12)) {
            (false, false) if field(w, 25, 23) == 7 => match w {
                0xf7f0_a000.. if w & 0xfff0_f000 == 0xf7f0_a000 => Err(Stop::Undefined),
                // Barriers and hints.
                _ if w & 0xffff_ff00 == 0xf3bf_8f00 => require(matches!(field(w, 7, 4), 4..=6)),
                _ => require(w == 0xf3af_8000),
            },
            (false, false) => {
                require(!it.is_inside())?;
                let near = u32::from(sign) << 20
                    | field(w, 11, 11) << 19
                    | field(w, 13, 13) << 18
                    | field(w, 21, 16) << 12
                    | field(w, 10, 0) << 1;
                let condition = hanok_decode::Condition::Code(field(w, 25, 22) as u8);
                if self.r.psr.passes(condition) {
                    let target = self.get(15).wrapping_add(signed(near, 21));
                    self.stay(target);
                }
                Ok(())
            }
            (false, true) => {
                require(may_stand)?;
                let target = self.get(15).wrapping_add(far);
                self.stay(target);
                Ok(())
            }
            (true, exchanges) => {
                require(may_stand)?;
                let base = self.get(15);
                self.set(14, self.r.pc.wrapping_add(4) | 1);
                if exchanges {
                    self.stay(base.wrapping_add(far));
                    return Ok(());
                }
                require(!bit(w, 0))?;
                self.r.psr.set_thumb(false);
                self.stay((base & !3).wrapping_add(far));
                Ok(())
            }
        }
    }

    fn wide_block(&mut self, w: u32, it: ItState) -> Done {
        let (list, load) = (field(w, 15, 0), bit(w, 20));
        require(!bit(list, 13) && list.count_ones() > 1)?;
        require(!(bit(list, 15) && (bit(list, 14) || !load)))?;
        require(!bit(list, 15) || !it.is_inside() || it.is_last())?;
        let up = match field(w, 24, 23) {
            1 => true,
            2 => false,
            _ => return Err(Stop::Unknown),
        };
        self.multiple(field(w, 19, 16), list, [up, !up], bit(w, 21), load)
    }

    fn dual_or_table(&mut self, w: u32, it: ItState) -> Done {
        let (n, m) = (field(w, 19, 16), field(w, 3, 0));
        let (before, write_back) = (bit(w, 24), bit(w, 21));
        if !before && !write_back {
            require(w & 0x0ff0_ffe0 == 0x08d0_f000)?;
            require(m != 13 && m != 15 && n != 13)?;
            require(!it.is_inside() || it.is_last())?;
            let halves = bit(w, 4);
            let (bytes, index) = if halves {
                (2, self.get(m) << 1)
            } else {
                (1, self.get(m))
            };
            let entry = self.load(self.get(n).wrapping_add(index), bytes)?;
            let target = self.get(15).wrapping_add(2 * entry);
            self.stay(target);
            return Ok(());
        }
        let form = Form {
            base: n,
            offset: field(w, 7, 0) << 2,
            add: bit(w, 23),
            before,
            write_back,
        };
        require(n != 15 || bit(w, 20))?;
        self.pair(form, [field(w, 15, 12), field(w, 11, 8)], bit(w, 20))
    }

    fn wide_single(&mut self, w: u32, it: ItState) -> Done {
        let (n, t) = (field(w, 19, 16), field(w, 15, 12));
        let (load, signed) = (bit(w, 20), bit(w, 24));
        let bytes = match field(w, 22, 21) {
            0 => 1,
            1 => 2,
            2 => 4,
            _ => return Err(Stop::Unknown),
        };
        require(!(signed && (bytes == 4 || !load)))?;
        require(t != 13 && (t != 15 || load && bytes == 4))?;
        require(t != 15 || !it.is_inside() || it.is_last())?;
        let data = Data {
            register: t,
            bytes,
            load,
            signed,
        };
        let form = |offset, add, before, write_back| Form {
            base: n,
            offset,
            add,
            before,
            write_back,
        };
        if n == 15 {
            require(load)?;
            return self.transfer(form(field(w, 11, 0), bit(w, 23), true, false), data);
        }
        if bit(w, 23) {
            return self.transfer(form(field(w, 11, 0), true, true, false), data);
        }
        if bit(w, 11) {
            let (p, u, wb) = (bit(w, 10), bit(w, 9), bit(w, 8));
            // P and U without W is LDRT.
            require(wb || p && !u)?;
            return self.transfer(form(field(w, 7, 0), u, p, wb), data);
        }
        let m = field(w, 3, 0);
        require(field(w, 11, 6) == 0 && m != 13 && m != 15)?;
        let offset = self.get(m) << field(w, 5, 4);
        self.transfer(form(offset, true, true, false), data)
    }
}

/// i:imm3:imm8.
fn constant(w: u32) -> u32 {
    field(w, 26, 26) << 11 | field(w, 14, 12) << 8 | field(w, 7, 0)
}
