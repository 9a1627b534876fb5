//! Data processing (DDI 0406C, A2.2.1, A8.4, and the instructions' sections).

use super::{Bus, Core, Done, bit, require};

/// A value and the carry that comes with it.
pub type Carried = (u32, bool);

/// DecodeImmShift and Shift_C.
pub fn shift_constant(value: u32, kind: u32, amount: u32, carry: bool) -> Carried {
    match (kind, amount) {
        (0, 0) => (value, carry),
        (1 | 2, 0) => shift(value, kind, 32, carry),
        (3, 0) => (value >> 1 | u32::from(carry) << 31, bit(value, 0)),
        _ => shift(value, kind, amount, carry),
    }
}

/// Shift_C by an amount of up to 255.
pub fn shift(value: u32, kind: u32, amount: u32, carry: bool) -> Carried {
    if amount == 0 {
        return (value, carry);
    }
    let wide = u64::from(value);
    match kind {
        0 if amount > 32 => (0, false),
        0 => ((wide << amount) as u32, wide << amount >> 32 & 1 != 0),
        1 if amount > 32 => (0, false),
        1 => ((wide >> amount) as u32, wide >> (amount - 1) & 1 != 0),
        2 => {
            let amount = amount.min(32);
            let long = i64::from(value as i32);
            ((long >> amount) as u32, long >> (amount - 1) & 1 != 0)
        }
        _ => {
            let result = value.rotate_right(amount % 32);
            (result, bit(result, 31))
        }
    }
}

/// A32ExpandImm_C.
pub fn expand_a32(imm12: u32, carry: bool) -> Carried {
    let turn = imm12 >> 8 & 0xf;
    let value = (imm12 & 0xff).rotate_right(2 * turn);
    (value, if turn == 0 { carry } else { bit(value, 31) })
}

/// ThumbExpandImm_C.
pub fn expand_t32(imm12: u32, carry: bool) -> Carried {
    let low = imm12 & 0xff;
    match imm12 >> 8 {
        0 => (low, carry),
        1 => (low | low << 16, carry),
        2 => (low << 8 | low << 24, carry),
        3 => (low * 0x0101_0101, carry),
        _ => {
            let value = (0x80 | imm12 & 0x7f).rotate_right(imm12 >> 7 & 0x1f);
            (value, bit(value, 31))
        }
    }
}

/// AddWithCarry: the result, C and V.
fn add(x: u32, y: u32, carry: bool) -> (u32, bool, bool) {
    let sum = u64::from(x) + u64::from(y) + u64::from(carry);
    let signed = i64::from(x as i32) + i64::from(y as i32) + i64::from(carry);
    let result = sum as u32;
    (
        result,
        u64::from(result) != sum,
        i64::from(result as i32) != signed,
    )
}

impl<B: Bus> Core<'_, B> {
    pub(super) fn carry(&self) -> bool {
        self.r.psr.c()
    }

    pub(super) fn flags(&mut self, result: u32, carry: bool) {
        self.r.psr.set_n(bit(result, 31));
        self.r.psr.set_z(result == 0);
        self.r.psr.set_c(carry);
    }

    /// One of A32's sixteen operations. `d` is 15 where the PC is written, which is a branch.
    pub(super) fn process(
        &mut self,
        operation: u32,
        sets: bool,
        (d, x): (u32, u32),
        (y, carried): Carried,
    ) -> Done {
        let old = self.carry();
        let (result, carry, overflow) = match operation {
            0 | 8 => (x & y, carried, None),
            1 | 9 => (x ^ y, carried, None),
            2 | 10 => wrap(add(x, !y, true)),
            3 => wrap(add(!x, y, true)),
            4 | 11 => wrap(add(x, y, false)),
            5 => wrap(add(x, y, old)),
            6 => wrap(add(x, !y, old)),
            7 => wrap(add(!x, y, old)),
            12 => (x | y, carried, None),
            13 => (y, carried, None),
            14 => (x & !y, carried, None),
            _ => (!y, carried, None),
        };
        let compares = (8..12).contains(&operation);
        if d == 15 && !compares {
            require(!sets)?;
            if self.thumb() {
                self.stay(result);
                return Ok(());
            }
            return self.exchange(result);
        }
        if sets {
            self.flags(result, carry);
            if let Some(overflow) = overflow {
                self.r.psr.set_v(overflow);
            }
        }
        if !compares {
            self.set(d, result);
        }
        Ok(())
    }
}

fn wrap((result, carry, overflow): (u32, bool, bool)) -> (u32, bool, Option<bool>) {
    (result, carry, Some(overflow))
}
