//! Trampolines do what their instructions say. A small interpreter, written for this test, runs
//! them on the model of a virtual CPU, and interrupts them at every instruction.

use hanok_abi::trampoline::model::{Cpu, FLAGS};
use hanok_abi::trampoline::{
    CODE, Field, Free, MAX_WORDS, PAGE, Resumption, Template, branch_target, enter, resume, t32,
};
use hanok_abi::trap::{Original, original_a32};
use hanok_decode::aarch32::{Encoding, ItState, Sensitive, sensitive};
use hanok_previrt::sample::program::READ;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// The second site is not word-aligned, as T32 may be.
const SITE: [u32; 2] = [0x8123_4560, 0x8103_4562];
/// The address of a code page. The doorbell page is in front of it, the plain alias behind.
const AREA: u32 = 0x8020_1000;
const N: u32 = 1 << 31;
const Z: u32 = 1 << 30;

/// An instruction that has a trampoline: its encoding, and the A32 instruction that does the same.
#[derive(Clone, Copy, Debug)]
struct Kind {
    bits: u32,
    word: u32,
    thumb: bool,
}

impl Kind {
    fn site(self) -> u32 {
        SITE[usize::from(self.thumb)]
    }

    /// The address behind the site, as a branch target.
    fn behind(self) -> u32 {
        self.site() + 4 + u32::from(self.thumb)
    }

    fn template(self, free: Free) -> Option<Template> {
        if self.thumb {
            Template::of_t32(self.bits, free)
        } else {
            Template::of(self.bits, free)
        }
    }

    fn enter(self, at: u32) -> Option<u32> {
        if self.thumb {
            t32::enter(self.site(), at)
        } else {
            enter(self.bits, self.site(), at)
        }
    }

    /// The registers that it writes, as a mask.
    fn writes(self) -> u16 {
        let reads_psr = self.word & 0x0fbf_0fff == 0x010f_0000;
        let reads_coprocessor = self.word & 0x0f10_0010 == 0x0e10_0010;
        u16::from(reads_psr || reads_coprocessor) << (self.word >> 12 & 0xf)
    }
}

/// R0 to R12: SP is UNPREDICTABLE in most T32 instructions (DDI 0406C A6.3).
const GENERAL: std::ops::Range<u32> = 0..13;

/// A processor in User mode: registers, real flags, memory, and the PC with bit 0 set in T32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Machine {
    cpu: Cpu,
    pc: u32,
}

impl Machine {
    fn thumb(&self) -> bool {
        self.pc & 1 == 1
    }

    fn register(&self, number: u32) -> u32 {
        match number {
            15 => self.pc + 8,
            _ => self.cpu.registers[number as usize],
        }
    }

    /// Executes one instruction of a trampoline, or the branch to it. Returns an SVC, which is not
    /// executed here.
    fn step(&mut self, code: &Code, unknown: u32) -> Option<u32> {
        let word = code.words[&(self.pc & !1)];
        if self.thumb() {
            // BX PC, which is word-aligned, or the site's branch.
            let bx_pc = word & 0xffff == 0x4778 && self.pc & 2 == 0;
            let branch = t32::entered(word, self.pc & !1).map(|to| to | 1);
            self.pc = if bx_pc {
                self.pc + 3
            } else {
                branch.expect("B.W")
            };
            return None;
        }
        let mut next = self.pc + 4;
        let mut trapped = None;
        if self.cpu.holds(word >> 28) {
            match word >> 24 & 0xf {
                0xa => next = branch_target(word, self.pc).expect("a branch"),
                0xf => trapped = Some(word),
                0x5 if word >> 12 & 0xf == 15 && word & 1 << 20 != 0 => {
                    next = code.words[&self.address(word)];
                }
                0x5 => self.transfer(word),
                // MRS: bits that are no flags are UNKNOWN in User mode.
                0x1 if word & 0x0fff_0fff == 0x010f_0000 => {
                    let value = self.cpu.flags | unknown & 0x3df;
                    self.cpu.registers[(word >> 12 & 0xf) as usize] = value;
                }
                _ => next = self.data(word).unwrap_or(next),
            }
        }
        self.pc = next;
        trapped
    }

    /// Executes a data-processing instruction. Returns the target if it writes the PC.
    fn data(&mut self, word: u32) -> Option<u32> {
        let (code, rd) = (word >> 21 & 0xf, word >> 12 & 0xf);
        let (first, second) = (self.register(word >> 16 & 0xf), self.operand(word));
        assert_eq!(word & 1 << 20 != 0, code == 8, "TST alone sets flags");
        let result = match code {
            0 | 8 => first & second,
            1 => first ^ second,
            4 => first.wrapping_add(second),
            12 => first | second,
            13 => second,
            _ => panic!("{word:#x}"),
        };
        if code == 8 {
            let nz = result & N | u32::from(result == 0) << 30;
            self.cpu.flags = self.cpu.flags & !(N | Z) | nz;
        } else if rd != 15 {
            self.cpu.registers[rd as usize] = result;
        }
        (rd == 15).then_some(result)
    }

    fn operand(&self, word: u32) -> u32 {
        if word & 1 << 25 != 0 {
            return (word & 0xff).rotate_right(2 * (word >> 8 & 0xf));
        }
        let (value, amount) = (self.register(word & 0xf), word >> 7 & 0x1f);
        match word >> 4 & 7 {
            0 => value << amount,
            2 if amount > 0 => value >> amount,
            other => panic!("shift {other} by {amount}"),
        }
    }

    /// The address that LDR or STR reaches by the PC.
    fn address(&self, word: u32) -> u32 {
        assert_eq!(word & 0x0f6f_0000, 0x050f_0000, "{word:#x}");
        let (base, distance) = (self.pc + 8, word & 0xfff);
        if word & 1 << 23 != 0 {
            base + distance
        } else {
            base - distance
        }
    }

    /// Executes LDR or STR of a field through its own alias.
    fn transfer(&mut self, word: u32) {
        let (at, page) = (self.address(word), self.pc & !(PAGE - 1));
        let offset = at % PAGE;
        let alias = if offset >= 0x800 {
            page - PAGE
        } else {
            page + PAGE
        };
        assert_eq!(at - offset, alias, "the alias of {offset:#x}");
        let mut fields = Field::all().chain([Field::SCRATCH]);
        let field = fields.find(|field| field.offset() == offset);
        let (field, register) = (field.expect("a field"), word >> 12 & 0xf);
        if word & 1 << 20 != 0 {
            self.cpu.registers[register as usize] = self.cpu.page.get(field);
        } else {
            let value = self.register(register);
            self.cpu.page.put(field, value);
        }
    }
}

/// The site's branch and its trampoline.
struct Code {
    words: BTreeMap<u32, u32>,
    kind: Kind,
}

impl Code {
    fn new(kind: Kind, free: Free, at: u32) -> Option<Self> {
        let template = kind.template(free)?;
        let (at, site) = (template.start(at), kind.site());
        let word = |n| template.word(n, at, site).expect("it reaches");
        let words = (0..template.len()).map(|n| (at + 4 * n as u32, word(n)));
        let mut words: BTreeMap<_, _> = words.collect();
        words.insert(site, kind.enter(at).expect("it reaches"));
        Some(Self { words, kind })
    }

    /// Runs to the instruction behind the site. If `interrupted` instructions were executed before
    /// that, returns the state at that moment.
    fn run(&self, it: &mut Machine, unknown: u32, interrupted: Option<usize>) -> Option<Machine> {
        let mut kept = None;
        let mut executed = 0;
        while it.pc != self.kind.behind() {
            if interrupted == Some(executed) {
                self.resume(it);
                kept = Some(*it);
                // What the handler of the interrupt spills, and forgets.
                it.cpu.page.put(Field::SCRATCH, unknown);
                if it.pc == self.kind.behind() {
                    break;
                }
            }
            if let Some(svc) = it.step(self, unknown) {
                let Some(Original::Word(word)) = original_a32(svc) else {
                    panic!("{svc:#x} stands for nothing");
                };
                let spilled = it.cpu.registers;
                self.resume(it);
                assert_eq!(
                    it.cpu.registers, spilled,
                    "a register is restored after an SVC"
                );
                assert!(it.cpu.emulate(word).is_some(), "{word:#x}");
            }
            executed += 1;
            assert!(executed < 32, "it does not end");
        }
        kept
    }

    /// What the hypervisor does with a machine that is interrupted.
    fn resume(&self, it: &mut Machine) {
        // It sees the PC, and whether the interrupted code is T32.
        let code = |at: u32| self.words.get(&at).filter(|_| at & !(PAGE - 1) == AREA);
        let resumed = resume(it.pc & !1, |at| code(at).copied());
        if it.pc & !(PAGE - 1) == AREA {
            let Resumption { to, restored } = resumed.expect("a trampoline");
            it.pc = to;
            if let Some(register) = restored {
                it.cpu.registers[register as usize] = it.cpu.page.get(Field::SCRATCH);
            }
        }
    }
}

/// Whether two processors are equal in everything that is not free.
fn same(one: &Machine, other: &Machine, free: Free) -> bool {
    let flags = if free.flags { FLAGS & !(N | Z) } else { FLAGS };
    let registers = (0..15).all(|number| {
        free.registers >> number & 1 == 1
            || one.cpu.registers[number] == other.cpu.registers[number]
    });
    registers
        && one.cpu.flags & flags == other.cpu.flags & flags
        && one.cpu.page.same(&other.cpu.page)
        && one.pc == other.pc
}

/// A32 instructions that may have a trampoline, with any condition and registers.
fn a32() -> impl Strategy<Value = Kind> {
    let read = prop::sample::select(READ.to_vec()).prop_map(|base| (base, 12));
    let others = prop::sample::select(vec![
        (0x010f_0000, 12),
        (0x0121_f000, 0),
        (0x014f_0000, 12),
        (0x016f_f000, 0),
        (0x0e03_0f10, 12),
        (0x0e1d_0f50, 12),
        (0x0e0d_0f50, 12),
    ]);
    let any = (prop_oneof![read, others], 0..15_u32, 0..15_u32);
    let plain =
        any.prop_map(|((base, at), register, condition)| condition << 28 | base | register << at);
    let words = prop_oneof![
        12 => plain,
        1 => Just(0xf10c_0080),
        1 => Just(0xf108_0080),
    ];
    words.prop_map(|word| Kind {
        bits: word,
        word,
        thumb: false,
    })
}

/// T32 instructions that may have a trampoline, and those of A32.
fn t32_instructions() -> impl Strategy<Value = Kind> {
    let others = vec![
        (0xf3ef_8000, 8, 0xe10f_0000, 12),
        (0xf380_8100, 16, 0xe121_f000, 0),
        (0xf3ff_8000, 8, 0xe14f_0000, 12),
        (0xf390_8f00, 16, 0xe16f_f000, 0),
        (0xee03_0f10, 12, 0xee03_0f10, 12),
        (0xee1d_0f50, 12, 0xee1d_0f50, 12),
        (0xee0d_0f50, 12, 0xee0d_0f50, 12),
    ];
    let read = prop::sample::select(READ.to_vec()).prop_map(|base| {
        let word = 0xe000_0000 | base;
        (word, 12, word, 12)
    });
    let any = prop_oneof![read, prop::sample::select(others)];
    let plain = (any, GENERAL).prop_map(|((bits, from, word, to), register)| Kind {
        bits: bits | register << from,
        word: word | register << to,
        thumb: true,
    });
    let masks = |bits, word| {
        Just(Kind {
            bits,
            word,
            thumb: true,
        })
    };
    prop_oneof![
        12 => plain,
        1 => masks(0xf3af_8640, 0xf10c_0080),
        1 => masks(0xf3af_8440, 0xf108_0080),
    ]
}

prop_compose! {
    fn cpu()(
        registers in any::<[u32; 15]>(),
        flags: u32,
        mode in prop::sample::select(vec![0x10_u32, 0x12, 0x13, 0x17, 0x1f]),
        fiqs: bool,
        values in prop::collection::vec(any::<u32>(), Field::all().count()),
        nearly in prop::collection::vec(any::<Option<bool>>(), 15),
    ) -> Cpu {
        let psr = mode | u32::from(fiqs) << 6 | 0x100;
        let mut cpu = Cpu { registers, flags: flags & FLAGS, page: Default::default() };
        for (field, value) in Field::all().zip(values) {
            cpu.page.put(field, value);
        }
        cpu.page.put(Field::PSR, psr);
        // The value that MSR mostly writes: one with the current mode.
        for (register, masked) in cpu.registers.iter_mut().zip(nearly) {
            if let Some(masked) = masked {
                *register = *register & !0xff | psr & 0x5f | u32::from(masked) << 7;
            }
        }
        cpu
    }
}

/// Which registers are free: any, or none.
fn registers() -> impl Strategy<Value = u16> {
    prop_oneof![any::<u16>(), Just(0)]
}

/// A place in the code page with enough space behind it.
fn places() -> impl Strategy<Value = u32> {
    (CODE.start / 4..(CODE.end - 0x100) / 4).prop_map(|word| AREA + 4 * word)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8192))]

    #[test]
    fn a_trampoline_does_what_its_instruction_does(
        kind in prop_oneof![a32(), t32_instructions()], cpu in cpu(), registers in registers(), flags: bool,
        at in places(), unknown: u32,
    ) {
        let word = kind.word;
        let registers = registers & 0x5fff & !(1 << (word >> 12 & 0xf)) & !(1 << (word & 0xf));
        let free = Free { registers, flags };
        let code = Code::new(kind, free, at).expect("all of these have one");
        let before = Machine { cpu, pc: kind.site() + u32::from(kind.thumb) };
        let mut wanted = Machine { cpu, pc: kind.behind() };
        prop_assert!(wanted.cpu.emulate(word).is_some(), "{:x?}", kind);
        let mut found = before;
        code.run(&mut found, unknown, None);
        prop_assert!(same(&found, &wanted, free), "{:x?}\n{:x?}\n{:x?}", kind, found, wanted);
        for executed in 0..20 {
            let mut found = before;
            let kept = code.run(&mut found, unknown, Some(executed));
            prop_assert!(same(&found, &wanted, free), "{:x?} after {}", kind, executed);
            // At every interruption the CPU is seen either before the operation or after it.
            let begun = |it: &Machine| {
                let mut free = free;
                // The registers that the instruction itself overwrites are not read again.
                free.registers |= kind.writes();
                same(it, &before, free)
            };
            let done = |it: &Machine| same(it, &wanted, free);
            prop_assert!(kept.as_ref().is_none_or(|it| begun(it) || done(it)), "{:x?} {:x?}", kind, kept);
        }
    }

    #[test]
    fn the_twin_of_t32_s_instruction_is_the_same_operation(kind in t32_instructions()) {
        let of = |encoding| sensitive(encoding, ItState::NONE);
        let same = |one: &Sensitive, other: &Sensitive| {
            (one.operation, one.user) == (other.operation, other.user)
        };
        prop_assert_eq!(t32::as_a32(kind.bits), Some(kind.word));
        let (thumb, arm) = (of(Encoding::Wide(kind.bits)), of(Encoding::A32(kind.word)));
        prop_assert!(thumb.zip(arm).is_some_and(|(one, other)| same(&one, &other)), "{:x?}", kind);
    }

    /// A hostile guest's PC points to no trampoline, or resumes within the longest one.
    #[test]
    fn any_place_is_resumed_or_not(pc: u32, words in prop::collection::vec(any::<u32>(), MAX_WORDS)) {
        let fetch = |at: u32| {
            let number = at.wrapping_sub(pc & !3) / 4;
            words.get(number as usize).copied()
        };
        let in_code = CODE.contains(&(pc % PAGE));
        prop_assert!(in_code || resume(pc, fetch).is_none());
    }
}

/// For every T32 instruction that has a twin, the decoder reads both as the same operation.
#[test]
fn whatever_has_a_twin_is_the_same_operation() {
    let mut seen = 0;
    for first in 0xe800..=0xffff_u32 {
        // The second halfword's fixed bits, and each field's edges.
        for second in (0..=0xffff_u32).step_by(0x10).chain(1..0x100) {
            let both = first << 16 | second;
            let Some(word) = t32::as_a32(both) else {
                continue;
            };
            let of = |encoding| sensitive(encoding, ItState::NONE);
            let (thumb, arm) = (of(Encoding::Wide(both)), of(Encoding::A32(word)));
            let both_are = thumb.zip(arm).filter(|(thumb, _)| thumb.as_it_should_be);
            if let Some((thumb, arm)) = both_are {
                assert_eq!(thumb.operation, arm.operation, "{both:x} {word:x}");
                seen += 1;
            }
        }
    }
    assert!(seen > 10_000, "{seen}");
}

#[test]
fn what_is_no_trampoline_s_is_not_resumed() {
    for kind in [(0xf10c_0080, false), (0xf3af_8640, true)] {
        let (bits, thumb) = kind;
        let kind = Kind {
            bits,
            word: 0xf10c_0080,
            thumb,
        };
        let code = Code::new(kind, Free::default(), AREA + 0x100).expect("CPSID I");
        let fetch = |at: u32| code.words.get(&at).copied();
        assert_eq!(resume(AREA + 0x40, fetch), None);
        assert_eq!(resume(AREA + 0x800, fetch), None);
    }
}

#[test]
fn what_cannot_be_done_without_a_trap_has_none() {
    let free = Free {
        registers: 0x1fff,
        flags: true,
    };
    let words = [
        0xf10e_01d3, // cpsid aif, #19
        0xf10c_00c0, // cpsid if
        0xe121_f00f, // msr cpsr_c, pc
        0xe129_f000, // msr cpsr_fc, r0
        0xe169_f000, // msr spsr_fc, r0
        0xee01_0f10, // mcr p15, 0, r0, c1, c0, 0
        0xee13_ff10, // mrc p15, 0, pc, c3, c0, 0
        0xeee8_0a10, // vmsr fpexc, r0
        0xee0d_0f70, // mcr p15, 0, r0, c13, c0, 3: programs read it, and no trap tells
    ];
    for word in words {
        assert_eq!(Template::of(word, free), None, "{word:#x}");
    }
    let t32 = [
        0xf3af_8753, // cpsid.w aif, #19
        0xf3af_8003, // wfi.w
        0xf380_8900, // msr cpsr_fc, r0
        0xf390_8900, // msr spsr_fc, r0
        0xee01_0f10, // mcr p15, 0, r0, c1, c0, 0
        0xee0d_0f70, // mcr p15, 0, r0, c13, c0, 3
    ];
    for both in t32 {
        assert_eq!(Template::of_t32(both, free), None, "{both:#x}");
    }
}
