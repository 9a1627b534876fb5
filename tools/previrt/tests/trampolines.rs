//! Trampolines do what their instructions say: run by a small interpreter of its own, beside a
//! model of a virtual CPU, with an interruption at every instruction.

use hanok_abi::trampoline::{
    CODE, Field, Free, MASKED, PAGE, Template, branch_target, enter, resume,
};
use hanok_abi::trap::{Original, original_a32};
use proptest::prelude::*;
use std::collections::BTreeMap;

const SITE: u32 = 0x8123_4560;
/// A code page; the doorbell is in front of it, the plain alias behind.
const ROOM: u32 = 0x8020_1000;
const N: u32 = 1 << 31;
const Z: u32 = 1 << 30;
const C: u32 = 1 << 29;
const V: u32 = 1 << 28;
/// What a program sees of the CPSR: N to Q, and GE.
const FLAGS: u32 = 0xf80f_0000;

/// The virtual CPU: its registers, real flags, and page.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Cpu {
    registers: [u32; 15],
    flags: u32,
    page: BTreeMap<u32, u32>,
    pc: u32,
}

impl Cpu {
    fn field(&self, field: Field) -> u32 {
        self.page[&field.offset()]
    }

    fn psr(&self) -> u32 {
        self.flags | self.field(Field::PSR) | self.field(Field::MASK) & MASKED
    }

    fn holds(&self, condition: u32) -> bool {
        let [n, z, c, v] = [N, Z, C, V].map(|flag| self.flags & flag != 0);
        let positive = match condition >> 1 {
            0 => z,
            1 => c,
            2 => n,
            3 => v,
            4 => c && !z,
            5 => n == v,
            6 => n == v && !z,
            _ => return true,
        };
        positive == (condition & 1 == 0)
    }

    /// What the instruction says, by the manual's own sections, to the virtual CPU.
    fn emulate(&mut self, word: u32) {
        let (rt, rm) = ((word >> 12 & 0xf) as usize, (word & 0xf) as usize);
        match word {
            0xf10c_0080 => self.mask(MASKED),
            0xf108_0080 => self.mask(0),
            _ if !self.holds(word >> 28) => {}
            _ => match word & 0x0ff0_0000 {
                0x0100_0000 => self.registers[rt] = self.psr(),
                0x0140_0000 => self.registers[rt] = self.field(Field::SPSR),
                0x0160_0000 => self.put(Field::SPSR, self.registers[rm]),
                0x0120_0000 => {
                    let value = self.registers[rm];
                    // Mode and F; of A and E nothing. T cannot be written.
                    let psr = self.field(Field::PSR) & !0x5f | value & 0x5f;
                    self.put(Field::PSR, psr);
                    self.mask(value & MASKED);
                }
                0x0e00_0000 => self.put(coprocessor(word), self.registers[rt]),
                _ => self.registers[rt] = self.field(coprocessor(word)),
            },
        }
        self.pc = SITE + 4;
    }

    fn put(&mut self, field: Field, value: u32) {
        self.page.insert(field.offset(), value);
    }

    fn mask(&mut self, value: u32) {
        self.put(Field::MASK, value);
    }

    fn register(&self, number: u32) -> u32 {
        match number {
            15 => self.pc + 8,
            _ => self.registers[number as usize],
        }
    }

    /// One instruction of User mode; the number of an SVC, which is not executed here.
    fn step(&mut self, word: u32, unknown: u32) -> Option<u32> {
        let (rd, rn) = (word >> 12 & 0xf, word >> 16 & 0xf);
        let mut next = self.pc + 4;
        let mut trapped = None;
        if self.holds(word >> 28) {
            match word >> 24 & 0xf {
                0xa => next = branch_target(word, self.pc).expect("a branch"),
                0xf => trapped = Some(word),
                0x5 => self.transfer(word),
                // MRS: what is no flag is UNKNOWN in User mode.
                0x1 if word & 0x0fff_0fff == 0x010f_0000 => {
                    self.registers[rd as usize] = self.flags | unknown & 0x3df;
                }
                _ => {
                    let result = self.data(word, self.register(rn));
                    match (word >> 21 & 0xf, rd) {
                        (8, _) => {
                            let nz = result & N | u32::from(result == 0) << 30;
                            self.flags = self.flags & !(N | Z) | nz;
                        }
                        (_, 15) => next = result,
                        _ => self.registers[rd as usize] = result,
                    }
                }
            }
        }
        self.pc = next;
        trapped
    }

    fn data(&self, word: u32, first: u32) -> u32 {
        let second = if word & 1 << 25 != 0 {
            (word & 0xff).rotate_right(2 * (word >> 8 & 0xf))
        } else {
            let (value, amount) = (self.register(word & 0xf), word >> 7 & 0x1f);
            match word >> 4 & 7 {
                0 => value << amount,
                2 if amount > 0 => value >> amount,
                other => panic!("shift {other} by {amount}"),
            }
        };
        let code = word >> 21 & 0xf;
        assert_eq!(word & 1 << 20 != 0, code == 8, "TST alone sets flags");
        match code {
            0 | 8 => first & second,
            1 => first ^ second,
            4 => first.wrapping_add(second),
            12 => first | second,
            13 => second,
            _ => panic!("{word:#x}"),
        }
    }

    /// LDR or STR by the PC, of a field through its own alias.
    fn transfer(&mut self, word: u32) {
        assert_eq!(word & 0x0f6f_0000, 0x050f_0000, "{word:#x}");
        let (base, distance) = (self.pc + 8, word & 0xfff);
        let at = if word & 1 << 23 != 0 {
            base + distance
        } else {
            base - distance
        };
        let alias = self.pc & !(PAGE - 1);
        let offset = at % PAGE;
        let place = if offset >= 0x800 {
            alias - PAGE
        } else {
            alias + PAGE
        };
        assert_eq!(at - offset, place, "the alias of {offset:#x}");
        let register = word >> 12 & 0xf;
        if word & 1 << 20 != 0 {
            self.registers[register as usize] = self.page[&offset];
        } else {
            self.page.insert(offset, self.register(register));
        }
    }
}

/// The field of a coprocessor's register, by its number there: the fields are in this order.
fn coprocessor(word: u32) -> Field {
    match word & 0x000f_00ef {
        0x0003_0000 => Field::DACR,
        0x000d_0040 => Field::TPIDRURW,
        other => panic!("{other:#x}"),
    }
}

/// The code: the site's branch and its trampoline.
struct Code {
    words: BTreeMap<u32, u32>,
}

impl Code {
    fn new(word: u32, free: Free, at: u32) -> Option<Self> {
        let template = Template::of(word, free)?;
        let at = template.start(at);
        let mut words: BTreeMap<_, _> = (0..template.len())
            .map(|n| {
                let found = template.word(n, at, SITE).expect("it reaches");
                (at + 4 * n as u32, found)
            })
            .collect();
        words.insert(SITE, enter(word, SITE, at).expect("it reaches"));
        Some(Self { words })
    }

    /// Runs to behind the site; interrupted after `interrupted` instructions, if that many.
    fn run(&self, cpu: &mut Cpu, unknown: u32, interrupted: Option<usize>) -> Option<Cpu> {
        let mut kept = None;
        let mut executed = 0;
        while cpu.pc != SITE + 4 {
            if interrupted == Some(executed) {
                cpu.pc = self.resume(cpu.pc);
                kept = Some(cpu.clone());
                if cpu.pc == SITE + 4 {
                    break;
                }
            }
            let trapped = cpu.step(self.words[&cpu.pc], unknown);
            if let Some(svc) = trapped {
                let Some(Original::Word(word)) = original_a32(svc) else {
                    panic!("{svc:#x} stands for nothing");
                };
                let behind = self.resume(cpu.pc);
                cpu.emulate(word);
                cpu.pc = behind;
            }
            executed += 1;
            assert!(executed < 32, "it does not end");
        }
        kept
    }

    fn resume(&self, pc: u32) -> u32 {
        let in_room = pc & !(PAGE - 1) == ROOM;
        let resumed = resume(pc, |at| self.words.get(&at).copied());
        if in_room {
            resumed.expect("a trampoline")
        } else {
            pc
        }
    }
}

/// Equal but for what is free.
fn same(one: &Cpu, other: &Cpu, free: Free) -> bool {
    let flags = if free.flags { FLAGS & !(N | Z) } else { FLAGS };
    let registers = (0..15).all(|number| {
        free.registers >> number & 1 == 1 || one.registers[number] == other.registers[number]
    });
    let page = |cpu: &Cpu| {
        let mut page = cpu.page.clone();
        *page.get_mut(&Field::MASK.offset()).expect("the mask") &= MASKED;
        page
    };
    registers
        && one.flags & flags == other.flags & flags
        && page(one) == page(other)
        && one.pc == other.pc
}

/// Instructions that may have one, with any condition and registers.
fn words() -> impl Strategy<Value = u32> {
    let bases = prop::sample::select(vec![
        (0x010f_0000, 12),
        (0x0121_f000, 0),
        (0x014f_0000, 12),
        (0x016f_f000, 0),
        (0x0e13_0f10, 12),
        (0x0e03_0f10, 12),
        (0x0e1d_0f50, 12),
        (0x0e0d_0f50, 12),
    ]);
    let any = (bases, 0..15_u32, 0..15_u32);
    let plain =
        any.prop_map(|((base, at), register, condition)| condition << 28 | base | register << at);
    prop_oneof![
        6 => plain,
        1 => Just(0xf10c_0080),
        1 => Just(0xf108_0080),
    ]
}

prop_compose! {
    fn cpu()(
        registers in any::<[u32; 15]>(),
        flags: u32,
        mode in prop::sample::select(vec![0x10_u32, 0x12, 0x13, 0x17, 0x1f]),
        fiqs: bool,
        values in any::<[u32; 4]>(),
        nearly in prop::collection::vec(any::<Option<bool>>(), 15),
    ) -> Cpu {
        let psr = mode | u32::from(fiqs) << 6 | 0x100;
        let mut cpu = Cpu { registers, flags: flags & FLAGS, page: BTreeMap::new(), pc: SITE };
        let fields = [Field::SPSR, Field::DACR, Field::TPIDRURW, Field::MASK];
        for (field, value) in fields.into_iter().zip(values) {
            cpu.put(field, value);
        }
        cpu.put(Field::PSR, psr);
        // What MSR mostly gets: the mode as it is.
        for (register, masked) in cpu.registers.iter_mut().zip(nearly) {
            if let Some(masked) = masked {
                *register = *register & !0xff | psr & 0x5f | u32::from(masked) << 7;
            }
        }
        cpu
    }
}

/// A place in the code page with room behind it.
fn places() -> impl Strategy<Value = u32> {
    (CODE.start / 4..(CODE.end - 0x100) / 4).prop_map(|word| ROOM + 4 * word)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn a_trampoline_does_what_its_instruction_does(
        word in words(), before in cpu(), registers: u16, flags: bool, at in places(), unknown: u32,
    ) {
        let registers = registers & 0x5fff & !(1 << (word >> 12 & 0xf)) & !(1 << (word & 0xf));
        let free = Free { registers, flags };
        let Some(code) = Code::new(word, free, at) else {
            prop_assert!(registers == 0 || word & 0xf == 13, "there is none for {:#x}", word);
            return Ok(());
        };
        let mut wanted = before.clone();
        wanted.emulate(word);
        let mut found = before.clone();
        code.run(&mut found, unknown, None);
        prop_assert!(same(&found, &wanted, free), "{:#x}\n{:x?}\n{:x?}", word, found, wanted);
        for executed in 0..16 {
            let mut found = before.clone();
            let kept = code.run(&mut found, unknown, Some(executed));
            prop_assert!(same(&found, &wanted, free), "{:#x} after {}", word, executed);
            // Whoever looks meanwhile sees a CPU that has not begun, or is done.
            let begun = |cpu: &Cpu| {
                let mut free = free;
                // What the instruction itself overwrites is not read again.
                free.registers |= writes(word);
                cpu.pc == SITE && same(cpu, &before, free)
            };
            let done = |cpu: &Cpu| cpu.pc == SITE + 4 && same(cpu, &wanted, free);
            prop_assert!(kept.as_ref().is_none_or(|cpu| begun(cpu) || done(cpu)), "{:#x} {:x?}", word, kept);
        }
    }
}

/// The register that MRS or MRC writes.
fn writes(word: u32) -> u16 {
    let reads_psr = word & 0x0fbf_0fff == 0x010f_0000;
    let reads_coprocessor = word & 0x0f10_0010 == 0x0e10_0010;
    u16::from(reads_psr || reads_coprocessor) << (word >> 12 & 0xf)
}

#[test]
fn what_is_no_trampoline_s_is_not_resumed() {
    let code = Code::new(0xf10c_0080, Free::default(), ROOM + 0x100).expect("CPSID I");
    let fetch = |at: u32| code.words.get(&at).copied();
    assert_eq!(resume(ROOM + 0x40, fetch), None);
    assert_eq!(resume(ROOM + 0x800, fetch), None);
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
}
