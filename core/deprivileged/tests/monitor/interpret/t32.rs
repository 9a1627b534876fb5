//! T32 instructions of one halfword (DDI 0406C, A6.2).

use super::alu::{shift, shift_constant};
use super::memory::{Data, Form};
use super::{Bus, Core, Done, Stop, bit, field, require, set_it, signed};
use hanok_decode::aarch32::ItState;

/// The operations of A6.2.2 as A32 numbers them; shifts, RSB and MUL are done apart.
const DATA: [u32; 16] = [0, 1, 16, 16, 16, 5, 6, 16, 8, 16, 10, 11, 12, 16, 14, 15];

impl<B: Bus> Core<'_, B> {
    pub(super) fn narrow(&mut self, h: u32, it: ItState) -> Done {
        let sets = !it.is_inside();
        match h >> 12 {
            0 | 1 => self.shift_add(h, sets),
            2 | 3 => self.eight_bits(h, sets),
            4 if !bit(h, 11) => self.data_or_special(h, sets, it),
            4 => self.narrow_single(15, field(h, 7, 0) << 2, (field(h, 10, 8), 4), true),
            5 => self.by_register(h),
            6 | 7 => {
                let bytes = if bit(h, 12) { 1 } else { 4 };
                let offset = field(h, 10, 6) * bytes;
                self.narrow_single(field(h, 5, 3), offset, (field(h, 2, 0), bytes), bit(h, 11))
            }
            8 => {
                let offset = field(h, 10, 6) * 2;
                self.narrow_single(field(h, 5, 3), offset, (field(h, 2, 0), 2), bit(h, 11))
            }
            9 => self.narrow_single(13, field(h, 7, 0) << 2, (field(h, 10, 8), 4), bit(h, 11)),
            10 => {
                let base = if bit(h, 11) { 13 } else { 15 };
                let value = (self.get(base) & !3).wrapping_add(field(h, 7, 0) << 2);
                self.set(field(h, 10, 8), value);
                Ok(())
            }
            11 => self.various(h, it),
            12 => {
                let (base, list, load) = (field(h, 10, 8), field(h, 7, 0), bit(h, 11));
                let write_back = !(load && bit(list, base));
                require(load || !bit(list, base))?;
                self.multiple(base, list, [true, false], write_back, load)
            }
            13 => self.conditional(h, it),
            _ => {
                require(!it.is_inside() || it.is_last())?;
                let target = self.get(15).wrapping_add(signed(h << 1, 12));
                self.stay(target);
                Ok(())
            }
        }
    }

    fn shift_add(&mut self, h: u32, sets: bool) -> Done {
        let (m, d) = (field(h, 5, 3), field(h, 2, 0));
        let kind = field(h, 12, 11);
        if kind < 3 {
            let carried = shift_constant(self.get(m), kind, field(h, 10, 6), self.carry());
            return self.process(13, sets, (d, 0), carried);
        }
        let n = field(h, 8, 6);
        let second = if bit(h, 10) { n } else { self.get(n) };
        let operation = if bit(h, 9) { 2 } else { 4 };
        self.process(operation, sets, (d, self.get(m)), (second, false))
    }

    fn eight_bits(&mut self, h: u32, sets: bool) -> Done {
        let (d, value) = (field(h, 10, 8), field(h, 7, 0));
        let carry = self.carry();
        let (operation, sets) =
            [(13, sets), (10, true), (4, sets), (2, sets)][field(h, 12, 11) as usize];
        self.process(operation, sets, (d, self.get(d)), (value, carry))
    }

    fn data_or_special(&mut self, h: u32, sets: bool, it: ItState) -> Done {
        let (m, d) = (field(h, 5, 3), field(h, 2, 0));
        if !bit(h, 10) {
            let (x, y) = (self.get(d), self.get(m));
            let carry = self.carry();
            return match field(h, 9, 6) {
                2 => self.process(13, sets, (d, 0), shift(x, 0, y & 0xff, carry)),
                3 => self.process(13, sets, (d, 0), shift(x, 1, y & 0xff, carry)),
                4 => self.process(13, sets, (d, 0), shift(x, 2, y & 0xff, carry)),
                7 => self.process(13, sets, (d, 0), shift(x, 3, y & 0xff, carry)),
                9 => self.process(3, sets, (d, y), (0, carry)),
                13 => {
                    let product = x.wrapping_mul(y);
                    self.process(13, sets, (d, 0), (product, carry))
                }
                operation => {
                    let number = DATA[operation as usize];
                    let sets = sets || (8..12).contains(&number);
                    self.process(number, sets, (d, x), (y, carry))
                }
            };
        }
        let (m, d) = (field(h, 6, 3), field(h, 2, 0) | field(h, 7, 7) << 3);
        let (x, y) = (self.get(d), self.get(m));
        let carry = self.carry();
        let leaves = d == 15 || field(h, 9, 8) == 3;
        require(!leaves || field(h, 9, 8) == 1 || !it.is_inside() || it.is_last())?;
        match field(h, 9, 8) {
            0 => {
                require(!(d == 15 && m == 15))?;
                self.process(4, false, (d, x), (y, carry))
            }
            1 => {
                require(d != 15 && m != 15)?;
                self.process(10, true, (d, x), (y, carry))
            }
            2 => self.process(13, false, (d, 0), (y, carry)),
            _ => {
                require(field(h, 2, 0) == 0 && !(bit(h, 7) && m == 15))?;
                if bit(h, 7) {
                    self.set(14, self.r.pc.wrapping_add(2) | 1);
                }
                self.exchange(y)
            }
        }
    }

    fn narrow_single(&mut self, base: u32, offset: u32, to: (u32, u32), load: bool) -> Done {
        let (register, bytes) = to;
        let form = Form {
            base,
            offset,
            add: true,
            before: true,
            write_back: false,
        };
        let data = Data {
            register,
            bytes,
            load,
            signed: false,
        };
        self.transfer(form, data)
    }

    fn by_register(&mut self, h: u32) -> Done {
        let (bytes, load, signed) = [
            (4, false, false),
            (2, false, false),
            (1, false, false),
            (1, true, true),
            (4, true, false),
            (2, true, false),
            (1, true, false),
            (2, true, true),
        ][field(h, 11, 9) as usize];
        let form = Form {
            base: field(h, 5, 3),
            offset: self.get(field(h, 8, 6)),
            add: true,
            before: true,
            write_back: false,
        };
        let data = Data {
            register: field(h, 2, 0),
            bytes,
            load,
            signed,
        };
        self.transfer(form, data)
    }

    /// A6.2.5.
    fn various(&mut self, h: u32, it: ItState) -> Done {
        match field(h, 11, 8) {
            0 => {
                let amount = field(h, 6, 0) << 2;
                let sp = self.get(13);
                self.set(
                    13,
                    if bit(h, 7) {
                        sp.wrapping_sub(amount)
                    } else {
                        sp.wrapping_add(amount)
                    },
                );
                Ok(())
            }
            1 | 3 | 9 | 11 => {
                require(!it.is_inside())?;
                let value = self.get(field(h, 2, 0));
                if (value != 0) == bit(h, 11) {
                    let distance = field(h, 7, 3) << 1 | field(h, 9, 9) << 6;
                    let target = self.get(15).wrapping_add(distance);
                    self.stay(target);
                }
                Ok(())
            }
            2 => {
                let value = self.get(field(h, 5, 3));
                let value = match field(h, 7, 6) {
                    0 => signed(value, 16),
                    1 => signed(value, 8),
                    2 => value & 0xffff,
                    _ => value & 0xff,
                };
                self.set(field(h, 2, 0), value);
                Ok(())
            }
            4 | 5 => {
                let list = field(h, 7, 0) | field(h, 8, 8) << 14;
                self.multiple(13, list, [false, true], true, false)
            }
            12 | 13 => {
                require(!bit(h, 8) || !it.is_inside() || it.is_last())?;
                let list = field(h, 7, 0) | field(h, 8, 8) << 15;
                self.multiple(13, list, [true, false], true, true)
            }
            14 => Err(Stop::Breakpoint),
            15 if h & 0xf != 0 => {
                require(!it.is_inside())?;
                let first = field(h, 7, 4);
                require(first != 15 && !(first == 14 && (h & 0xf).count_ones() != 1))?;
                set_it(&mut self.r.psr, ItState::from_bits(h as u8));
                Ok(())
            }
            15 => require(h == 0xbf00),
            _ => Err(Stop::Unknown),
        }
    }

    fn conditional(&mut self, h: u32, it: ItState) -> Done {
        match field(h, 11, 8) {
            14 => Err(Stop::Undefined),
            15 => Err(Stop::SupervisorCall),
            condition => {
                require(!it.is_inside())?;
                let condition = hanok_decode::Condition::Code(condition as u8);
                if self.r.psr.passes(condition) {
                    let target = self.get(15).wrapping_add(signed(field(h, 7, 0) << 1, 9));
                    self.stay(target);
                }
                Ok(())
            }
        }
    }
}
