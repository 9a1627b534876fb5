use super::*;
use proptest::prelude::*;

const SITE: u32 = 0xc040_1234;
const AT: u32 = 0xc02f_f010;

fn of(word: u32) -> Option<Instead> {
    Instead::of(word, SITE, |place| Some(place ^ 0x1111_1111))
}

#[test]
fn what_does_not_depend_on_its_address_may_be_moved() {
    // stmib; mov with a condition; ldrex; vld1; mrc of TPIDRURO and TPIDRURW; pld [r1]; vmov
    for word in [
        0xe98d_1008,
        0x01a0_c000,
        0xe191_0f9f,
        0xf420_070d,
        0xee1d_3f70,
        0xee1d_1f50,
        0xf5d1_f000,
        0xec51_0b30,
    ] {
        assert_eq!(of(word), Some(Instead::Same(word)), "{word:#x}");
    }
    for word in [0xe307_b674, 0x0347_b674] {
        assert_eq!(of(word), Some(Instead::Half(word)), "movw, movteq");
    }
    let target = SITE + 8 - 4 * 0x499e;
    assert_eq!(of(0x1bff_b662), Some(Instead::Call { target }));
    assert_eq!(of(0x1aff_b662), Some(Instead::Jump { target }));
    let (register, value) = (11, (SITE + 8 + 0x664) ^ 0x1111_1111);
    assert_eq!(of(0xe59f_b664), Some(Instead::Constant { register, value }));
    let (register, value) = (2, (SITE + 8 - 0x10) ^ 0x1111_1111);
    assert_eq!(of(0x051f_2010), Some(Instead::Constant { register, value }));
}

#[test]
fn what_involves_the_pc_or_is_sensitive_stays() {
    for (word, name) in [
        (0xe28f_0010, "adr"),
        (0xe08f_0001, "add r0, pc, r1"),
        (0xe1a0_e00f, "mov lr, pc"),
        (0xe59f_f010, "ldr pc, [pc, #16]"),
        (0xe1cf_01d0, "ldrd r0, [pc, #16]"),
        (0xed9f_0b04, "vldr d0, [pc, #16]"),
        (0xe8bd_8010, "pop {r4, pc}"),
        (0xe92d_8010, "push {r4, pc}"),
        (0xe12f_ff1e, "bx lr"),
        (0xe12f_ff33, "blx r3"),
        (0xfa00_0010, "blx"),
        (0xe1a0_f00e, "mov pc, lr"),
        (0x979f_f100, "ldrls pc, [pc, r0, lsl #2]"),
        (0xf5df_f010, "pld [pc, #16]"),
        (0xef00_0000, "svc"),
        (0xe7f0_01f2, "udf"),
        (0xf10c_0080, "cpsid i"),
        (0xe10f_0000, "mrs"),
        (0xee1d_1f90, "mrc of TPIDRPRW"),
        (0xe0b1_00b4, "ldrht"),
        (0xe320_f003, "wfi"),
    ] {
        assert_eq!(of(word), None, "{name}");
    }
    let unknown = |_| None;
    assert_eq!(Instead::of(0xe59f_b664, SITE, unknown), None, "a literal");
}

#[test]
fn what_is_out_of_reach_is_not_made() {
    let far = AT + 0x0400_0010;
    for (instead, site) in [
        (Instead::Same(0xe1a0_0001), far),
        (Instead::Call { target: AT }, far),
        (Instead::Call { target: far }, SITE),
        (Instead::Jump { target: far }, SITE),
    ] {
        assert_eq!(instead.words(0, site, AT), None);
    }
}

/// Registers and the PC, for what [`Instead::words`] makes.
struct Machine {
    registers: [u32; 15],
    pc: u32,
    met: Vec<u32>,
}

impl Machine {
    /// Runs `words`, which are at [`AT`], until it leaves them.
    fn run(words: &[u32], before: [u32; 15]) -> Self {
        let mut machine = Self {
            registers: before,
            pc: AT,
            met: Vec::new(),
        };
        while let Some(word) = words.get(machine.pc.wrapping_sub(AT) as usize / 4) {
            machine.step(*word);
        }
        machine
    }

    fn step(&mut self, word: u32) {
        let first = match (word >> 16 & 0xf) as usize {
            15 => self.pc + 8,
            register => self.registers[register],
        };
        let rotated = (word & 0xff).rotate_right(2 * (word >> 8 & 0xf));
        let half = word >> 4 & 0xf000 | word & 0xfff;
        let mut next = self.pc + 4;
        let to = &mut self.registers[(word >> 12 & 0xf) as usize % 15];
        match word >> 20 {
            0xe30 => *to = half,
            0xe34 => *to = half << 16 | *to & 0xffff,
            0xe22 => *to = first ^ rotated,
            0xe24 => *to = first.wrapping_sub(rotated),
            0xe28 => *to = first.wrapping_add(rotated),
            0xe1a if word == NOP => {}
            kind if kind >> 4 == 0xea => next = branch_target(word, self.pc).expect("a branch"),
            _ => self.met.push(word),
        }
        self.pc = next;
    }
}

fn registers() -> impl Strategy<Value = [u32; 15]> {
    any::<[u32; 15]>()
}

proptest! {
    #[test]
    fn a_constant_is_the_literal_s_value(
        before in registers(),
        register in 0u32..15,
        value: u32,
        variant in 0..VARIANTS,
    ) {
        let words = Instead::Constant { register, value }.words(variant, SITE, AT).expect("near");
        let after = Machine::run(&words, before);
        let mut expected = before;
        expected[register as usize] = value;
        prop_assert_eq!((after.registers, after.pc, after.met), (expected, SITE + 4, vec![]));
    }

    #[test]
    fn half_a_constant_is_what_it_was(
        before in registers(),
        register in 0u32..15,
        half: u16,
        upper: bool,
        condition in 0u32..15,
        variant in 0..VARIANTS,
    ) {
        let half = u32::from(half);
        let word = if upper { movt(register, half) } else { movw(register, half) };
        let conditional = word & 0x0fff_ffff | condition << 28;
        let words = Instead::Half(conditional).words(variant, SITE, AT).expect("near");
        // It is entered only if the condition holds.
        let words: Vec<_> = words.iter().map(|word| word & 0x0fff_ffff | ALWAYS).collect();
        let after = Machine::run(&words, before);
        let mut expected = before;
        let was = before[register as usize];
        let is = if upper { half << 16 | was & 0xffff } else { half };
        expected[register as usize] = is;
        prop_assert_eq!((after.registers, after.pc, after.met), (expected, SITE + 4, vec![]));
    }

    #[test]
    fn a_call_returns_behind_its_site(
        before in registers(),
        site in (AT - 0x01f0_0000) / 4..(AT + 0x01f0_0000) / 4,
        target in (AT - 0x01f0_0000) / 4..(AT + 0x01f0_0000) / 4,
        variant in 0..VARIANTS,
    ) {
        let (site, target) = (4 * site, 4 * target);
        prop_assume!(target.abs_diff(AT) > 0x100);
        let words = Instead::Call { target }.words(variant, site, AT).expect("near");
        let after = Machine::run(&words, before);
        let mut expected = before;
        expected[14] = site + 4;
        prop_assert_eq!((after.registers, after.pc, after.met), (expected, target, vec![]));
        // Nothing of it is an address, so that it may run at the physical one.
        let moved = Instead::Call { target: target ^ 1 << 31 };
        let elsewhere = moved.words(variant, site ^ 1 << 31, AT ^ 1 << 31);
        prop_assert_eq!(elsewhere, Some(words));
    }

    #[test]
    fn a_moved_instruction_is_executed_once(word: u32, variant in 0..VARIANTS) {
        let kind = word >> 20;
        let known = [0xe30, 0xe34, 0xe22, 0xe24, 0xe28, 0xe1a];
        prop_assume!(!known.contains(&kind) && kind >> 4 != 0xea);
        let words = Instead::Same(word).words(variant, SITE, AT).expect("near");
        let after = Machine::run(&words, [7; 15]);
        prop_assert_eq!((after.registers, after.pc, after.met), ([7; 15], SITE + 4, vec![word]));
    }
}
