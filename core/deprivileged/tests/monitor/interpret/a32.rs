//! A32 (DDI 0406C, A5).

use super::alu::{expand_a32, shift, shift_constant};
use super::{Bus, Core, Done, Stop, bit, field, require, signed};

impl<B: Bus> Core<'_, B> {
    pub(super) fn a32(&mut self, w: u32) -> Done {
        if w >> 28 == 15 {
            return self.unconditional(w);
        }
        match field(w, 27, 25) {
            0b000 => self.registers(w),
            0b001 => self.constants(w),
            0b010 => self.single(w, field(w, 11, 0)),
            0b011 if bit(w, 4) => self.media(w),
            0b011 => {
                require(field(w, 3, 0) != 15)?;
                let value = self.get(field(w, 3, 0));
                let carry = self.carry();
                let (offset, _) = shift_constant(value, field(w, 6, 5), field(w, 11, 7), carry);
                self.single(w, offset)
            }
            0b100 => self.block(w),
            0b101 => {
                if bit(w, 24) {
                    self.set(14, self.r.pc.wrapping_add(4));
                }
                let target = self.get(15).wrapping_add(signed(w << 2, 26));
                self.stay(target);
                Ok(())
            }
            0b111 if bit(w, 24) => Err(Stop::SupervisorCall),
            _ => Err(Stop::Unknown),
        }
    }

    fn unconditional(&mut self, w: u32) -> Done {
        match field(w, 27, 25) {
            // BLX to T32.
            0b101 => {
                self.set(14, self.r.pc.wrapping_add(4));
                let target = signed(w << 2, 26) | u32::from(bit(w, 24)) << 1;
                let target = self.get(15).wrapping_add(target);
                self.r.psr.set_thumb(true);
                self.stay(target);
                Ok(())
            }
            // Barriers and preloads.
            _ if w & 0x0ff0_00c0 == 0x0570_0040 => Ok(()),
            _ => Err(Stop::Unknown),
        }
    }

    fn registers(&mut self, w: u32) -> Done {
        let (n, d, s, m) = (
            field(w, 19, 16),
            field(w, 15, 12),
            field(w, 11, 8),
            field(w, 3, 0),
        );
        let operation = field(w, 24, 21);
        let other = (8..12).contains(&operation) && !bit(w, 20);
        if bit(w, 7) && bit(w, 4) {
            return match field(w, 6, 5) {
                0 => self.multiply(w),
                _ => self.extra(w),
            };
        }
        if other {
            return self.miscellaneous(w);
        }
        let carry = self.carry();
        let second = if bit(w, 4) {
            require(![n, d, s, m].contains(&15))?;
            shift(self.get(m), field(w, 6, 5), self.get(s) & 0xff, carry)
        } else {
            shift_constant(self.get(m), field(w, 6, 5), field(w, 11, 7), carry)
        };
        let compares = (8..12).contains(&operation);
        require(!compares || d == 0)?;
        require(!matches!(operation, 13 | 15) || n == 0)?;
        self.process(operation, bit(w, 20), (d, self.get(n)), second)
    }

    fn constants(&mut self, w: u32) -> Done {
        let (n, d) = (field(w, 19, 16), field(w, 15, 12));
        let operation = field(w, 24, 21);
        if !bit(w, 20) && matches!(operation, 8 | 10) {
            require(d != 15)?;
            let half = n << 12 | field(w, 11, 0);
            let low = self.get(d) & 0xffff;
            let value = if operation == 8 {
                half
            } else {
                half << 16 | low
            };
            self.set(d, value);
            return Ok(());
        }
        if !bit(w, 20) && operation == 9 {
            // Hints that do nothing.
            return require(w & 0x0fff_ffff == 0x0320_f000);
        }
        require(bit(w, 20) || !(8..12).contains(&operation))?;
        require(!(8..12).contains(&operation) || d == 0)?;
        require(!matches!(operation, 13 | 15) || n == 0)?;
        let second = expand_a32(field(w, 11, 0), self.carry());
        self.process(operation, bit(w, 20), (d, self.get(n)), second)
    }

    /// BX, BXJ, BLX, CLZ, BKPT.
    fn miscellaneous(&mut self, w: u32) -> Done {
        let m = field(w, 3, 0);
        let target = self.get(m);
        match (field(w, 6, 4), field(w, 22, 21)) {
            (1 | 2, 1) => {
                require(field(w, 19, 8) == 0xfff && m != 15)?;
                self.exchange(target)
            }
            (3, 1) => {
                require(field(w, 19, 8) == 0xfff && m != 15)?;
                self.set(14, self.r.pc.wrapping_add(4));
                self.exchange(target)
            }
            (1, 3) => {
                require(field(w, 19, 16) == 15 && field(w, 11, 8) == 15)?;
                require(field(w, 15, 12) != 15 && m != 15)?;
                self.set(field(w, 15, 12), target.leading_zeros());
                Ok(())
            }
            (7, 1) if w >> 28 == 14 => Err(Stop::Breakpoint),
            _ => Err(Stop::Unknown),
        }
    }

    /// MUL and MLA without flags, and SWP.
    fn multiply(&mut self, w: u32) -> Done {
        let (d, a, m, n) = (
            field(w, 19, 16),
            field(w, 15, 12),
            field(w, 11, 8),
            field(w, 3, 0),
        );
        if field(w, 24, 20) == 0b1_0000 {
            // SWP
            require(m == 0 && ![d, a, n].contains(&15) && d != a && d != n)?;
            let value = self.load(self.get(d), 4)?;
            self.store(self.get(d), 4, self.get(n))?;
            self.set(a, value);
            return Ok(());
        }
        require(field(w, 24, 20) & !2 == 0)?;
        let adds = bit(w, 21);
        require(![d, m, n].contains(&15) && if adds { a != 15 } else { a == 0 })?;
        let product = self.get(n).wrapping_mul(self.get(m));
        let sum = if adds { self.get(a) } else { 0 };
        self.set(d, product.wrapping_add(sum));
        Ok(())
    }

    /// UDF and UXTB, UXTH.
    fn media(&mut self, w: u32) -> Done {
        if w & 0x0ff0_00f0 == 0x07f0_00f0 {
            return if w >> 28 == 14 {
                Err(Stop::Undefined)
            } else {
                Err(Stop::Unknown)
            };
        }
        let (d, m) = (field(w, 15, 12), field(w, 3, 0));
        require(d != 15 && m != 15 && field(w, 11, 4) == 7)?;
        let value = self.get(m);
        let value = match field(w, 27, 16) {
            0x6ef => value & 0xff,
            0x6ff => value & 0xffff,
            _ => return Err(Stop::Unknown),
        };
        self.set(d, value);
        Ok(())
    }
}
