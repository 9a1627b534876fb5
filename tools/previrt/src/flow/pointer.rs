//! What code loads by a register that holds the address of something near.
//!
//! LDRD, VLDR and LDM cannot load a literal by the PC, or do not reach far enough, so that
//! compilers put ADR in front of them. What such an instruction loads is data, as is a literal that
//! is loaded by the PC.

use super::step::FlowStep;
use hanok_decode::aarch32::{Encoding, Register};

/// A load by a base and a constant without writeback: mask, value under the mask, the base field's
/// lowest bit, the number of bytes, and what is added to the base.
type Load = (u32, u32, u32, fn(u32) -> u32, fn(u32) -> i32);

/// A32 (DDI 0406C A8.8.62, A8.8.72, A8.8.332, A8.8.57).
const A32: [Load; 4] = [
    // ldr rt, [rn, #constant]
    (
        0x0f70_0000,
        0x0510_0000,
        16,
        |_| 4,
        |word| sign(word, word & 0xfff),
    ),
    // ldrd rt, rt2, [rn, #constant]
    (
        0x0f70_00f0,
        0x0140_00d0,
        16,
        |_| 8,
        |word| sign(word, word >> 4 & 0xf0 | word & 0xf),
    ),
    // vldr dd, [rn, #constant]
    (
        0x0f30_0f00,
        0x0d10_0b00,
        16,
        |_| 8,
        |word| sign(word, (word & 0xff) << 2),
    ),
    // ldm rn, {registers}
    (
        0x0fd0_0000,
        0x0890_0000,
        16,
        |word| 4 * (word & 0xffff).count_ones(),
        |_| 0,
    ),
];

/// T32 loads of two halfwords.
const WIDE: [Load; 5] = [
    (
        0xfff0_0000,
        0xf8d0_0000,
        16,
        |_| 4,
        |word| (word & 0xfff).cast_signed(),
    ),
    (
        0xfff0_0f00,
        0xf850_0c00,
        16,
        |_| 4,
        |word| -(word & 0xff).cast_signed(),
    ),
    (
        0xff70_0000,
        0xe950_0000,
        16,
        |_| 8,
        |word| sign(word, (word & 0xff) << 2),
    ),
    (
        0xff30_0f00,
        0xed10_0b00,
        16,
        |_| 8,
        |word| sign(word, (word & 0xff) << 2),
    ),
    (
        0xffd0_2000,
        0xe890_0000,
        16,
        |word| 4 * (word & 0xdfff).count_ones(),
        |_| 0,
    ),
];

/// T32 loads of one halfword, whose base is one of R0 to R7.
const NARROW: [Load; 2] = [
    (
        0xf800,
        0x6800,
        3,
        |_| 4,
        |half| (half >> 4 & 0x7c).cast_signed(),
    ),
    (
        0xf800,
        0xc800,
        8,
        |half| 4 * (half & 0xff).count_ones(),
        |_| 0,
    ),
];

/// The constant with its sign: bit U says whether it is added or subtracted.
const fn sign(word: u32, constant: u32) -> i32 {
    match word >> 23 & 1 {
        1 => constant.cast_signed(),
        _ => -constant.cast_signed(),
    }
}

/// The register into which the code has just put the address of something near.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pointer(Option<(Register, u32)>);

impl Pointer {
    /// The address and the number of the bytes that the next instruction of a line loads by it.
    pub(super) fn next(&mut self, encoding: Encoding, step: &FlowStep) -> Option<(u32, u32)> {
        let loaded = self.0.and_then(|(register, address)| {
            let (base, distance, len) = load(encoding)?;
            let address = address.wrapping_add_signed(distance);
            (base == register).then_some((address, len))
        });
        let lost =
            |(register, _): &(Register, u32)| step.writes.contains(*register) || step.calls();
        self.0 = step.address.or(self.0.filter(|pointer| !lost(pointer)));
        loaded
    }
}

/// The base, what is added to it, and the number of bytes of a load.
fn load(encoding: Encoding) -> Option<(Register, i32, u32)> {
    let (word, forms): (u32, &[Load]) = match encoding {
        Encoding::A32(word) if word >> 28 == 0b1111 => return None,
        Encoding::A32(word) => (word, &A32),
        Encoding::Wide(word) => (word, &WIDE),
        Encoding::Narrow(half) => (half.into(), &NARROW),
    };
    let mut forms = forms.iter();
    let (.., base, len, constant) = forms.find(|(mask, value, ..)| word & mask == *value)?;
    let bits = match encoding {
        Encoding::Narrow(_) => 7,
        Encoding::A32(_) | Encoding::Wide(_) => 15,
    };
    let base = Register::from_bits((word >> base & bits) as u8);
    Some((base, constant(word), len(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::step::step;
    use hanok_decode::aarch32::ItState;

    /// What `encoding` loads behind an instruction that puts 0x1000 into R3.
    fn loads(encoding: Encoding) -> Option<(u32, u32)> {
        let mut pointer = Pointer(Some((Register::from_bits(3), 0x1000)));
        pointer.next(encoding, &step(encoding, 0x800, ItState::NONE))
    }

    #[test]
    fn each_form_of_t32_loads_by_its_base() {
        let forms = [
            (Encoding::Wide(0xf8d3_1008), 0x1008, 4), // ldr.w r1, [r3, #8]
            (Encoding::Wide(0xf853_1c08), 0xff8, 4),  // ldr r1, [r3, #-8]
            (Encoding::Wide(0xe953_0102), 0xff8, 8),  // ldrd r0, r1, [r3, #-8]
            (Encoding::Wide(0xe9d3_0104), 0x1010, 8), // ldrd r0, r1, [r3, #16]
            (Encoding::Wide(0xed93_0b02), 0x1008, 8), // vldr d0, [r3, #8]
            (Encoding::Wide(0xed13_0b02), 0xff8, 8),  // vldr d0, [r3, #-8]
            (Encoding::Wide(0xe893_0110), 0x1000, 8), // ldm.w r3, {r4, r8}
            (Encoding::Wide(0xe8b3_4010), 0x1000, 8), // ldm.w r3!, {r4, lr}
            (Encoding::Wide(0xe893_8010), 0x1000, 8), // ldm.w r3, {r4, pc}
            (Encoding::Narrow(0x6959), 0x1014, 4),    // ldr r1, [r3, #20]
            (Encoding::Narrow(0xcb70), 0x1000, 12),   // ldm r3!, {r4, r5, r6}
        ];
        for (encoding, address, len) in forms {
            assert_eq!(loads(encoding), Some((address, len)), "{encoding:?}");
        }
    }

    #[test]
    fn another_base_another_address_and_another_instruction_load_nothing_near() {
        let others = [
            Encoding::Wide(0xf8d2_1008), // ldr.w r1, [r2, #8]
            Encoding::Wide(0xf853_1b04), // ldr r1, [r3], #4
            Encoding::Wide(0xf843_1c08), // str r1, [r3, #-8]
            Encoding::Narrow(0x5899),    // ldr r1, [r3, r2]
            Encoding::Narrow(0xc370),    // stm r3!, {r4, r5, r6}
        ];
        for encoding in others {
            assert_eq!(loads(encoding), None, "{encoding:?}");
        }
    }

    #[test]
    fn a_register_that_is_written_or_lost_in_a_call_points_to_nothing() {
        let lost = [
            Encoding::Narrow(0x2300),    // movs r3, #0
            Encoding::Narrow(0xcb08),    // ldm r3, {r3}
            Encoding::Wide(0xf000_f800), // bl
        ];
        for encoding in lost {
            let mut pointer = Pointer(Some((Register::from_bits(3), 0x1000)));
            pointer.next(encoding, &step(encoding, 0x800, ItState::NONE));
            assert_eq!(pointer.0, None, "{encoding:?}");
        }
    }
}
