//! The forms of loads and stores: the assembler encodes each once, and a step fills in its
//! registers.

use crate::fuzz::random::Random;
use core::arch::global_asm;

/// What a form does.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub struct Flags(u32);

impl Flags {
    /// It reads.
    pub const LOAD: Self = Self(1);
    /// It writes.
    pub const STORE: Self = Self(2);
    /// It has a second data register, Rt2.
    pub const PAIR: Self = Self(4);
    /// Rs gets a result: a status, or the old value.
    pub const STATUS: Self = Self(8);
    /// The base register gets the new address.
    pub const WRITE_BACK: Self = Self(16);
    /// The data registers are SIMD registers.
    pub const SIMD: Self = Self(32);
    /// An exclusive or atomic access.
    pub const ATOMIC: Self = Self(64);
    /// Rt is the address: cache maintenance.
    pub const CACHE: Self = Self(128);
    /// No access, only a hint.
    pub const HINT: Self = Self(256);
    /// Rs or Rm is an operand, a small one.
    pub const INDEX: Self = Self(512);
    /// An optional instruction: not every CPU has it.
    pub const LATER: Self = Self(1024);

    /// Accesses with the permissions of EL0.
    pub const UNPRIVILEGED: Self = Self(2048);

    /// Returns whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    const fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns whether the access must abort at an address where no device answers. An exclusive
    /// store without a monitor set does nothing; hints and maintenance by address need no answer.
    pub const fn must_abort(self) -> bool {
        const NEED_NOT: Flags = Flags(Flags::ATOMIC.0 | Flags::CACHE.0 | Flags::HINT.0);
        !self.meets(NEED_NOT)
    }

    /// Returns whether its data registers hold what was read, and no other register does.
    pub const fn is_plain_load(self) -> bool {
        self.contains(Self::LOAD) && self.must_abort() && !self.contains(Self::SIMD)
    }

    /// Returns whether its data registers are general registers that it may change.
    pub const fn loads_general(self) -> bool {
        self.contains(Self::LOAD) && !self.contains(Self::SIMD)
    }
}

/// One form of load or store.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Form {
    word: u32,
    /// What it does.
    pub flags: Flags,
    /// What it reads from memory where all bits are set.
    pub ones: u64,
}

/// Register number 31: the stack pointer as a base, the zero register as data.
pub const SP: u8 = 31;

/// The registers of an instruction; no two are the same.
#[derive(Clone, Copy)]
pub struct Operands {
    /// Rt.
    pub data: u8,
    /// Rn.
    pub base: u8,
    /// Rt2.
    pub second: u8,
    /// Rs or Rm.
    pub other: u8,
}

impl Operands {
    /// Chooses the registers at random; `simd` says that the data are in SIMD registers.
    pub fn new(random: &mut Random, simd: bool) -> Self {
        let first = random.below(31) as u8;
        let next = |step: u8| (first + step) % 31;
        let base = if random.once_in(8) { SP } else { next(7) };
        let data = if !simd && random.once_in(8) {
            SP
        } else {
            first
        };
        Self {
            data,
            base,
            second: next(13),
            other: next(21),
        }
    }

    /// Chooses any registers, for code of which nothing is expected.
    pub fn any(random: &mut Random) -> Self {
        Self::new(random, false)
    }
}

/// Fields of the instructions as they are assembled: Rt is 0, Rn 1, Rt2 2, Rs and Rm 3.
const ASSEMBLED: Operands = Operands {
    data: 0,
    base: 1,
    second: 2,
    other: 3,
};

impl Form {
    /// The instruction with these registers.
    pub fn instruction(&self, operands: &Operands) -> u32 {
        let field = |now: u8, then: u8, at: u32| u32::from(now ^ then) << at;
        if self.flags.contains(Flags::CACHE) {
            return self.word ^ field(operands.base, ASSEMBLED.base, 0);
        }
        let mut word = self.word ^ field(operands.base, ASSEMBLED.base, 5);
        // Whether this prefetch operation is allocated.
        if !self.flags.contains(Flags::HINT) {
            word ^= field(operands.data, ASSEMBLED.data, 0);
        }
        if self.flags.contains(Flags::PAIR) {
            word ^= field(operands.second, ASSEMBLED.second, 10);
        }
        if self.flags.meets(Flags(Flags::STATUS.0 | Flags::INDEX.0)) {
            word ^= field(operands.other, ASSEMBLED.other, 16);
        }
        word
    }
}

unsafe extern "C" {
    static fuzz_forms: Form;
    static fuzz_forms_end: Form;
}

/// Chooses one form at random.
pub fn pick(random: &mut Random) -> Form {
    let start = &raw const fuzz_forms;
    let count = (&raw const fuzz_forms_end as usize - start as usize) / size_of::<Form>();
    // SAFETY: the table has so many entries, all of them initialized.
    unsafe { *start.add(random.below(count as u64) as usize) }
}

global_asm!(
    r#"
    .macro form flags, ones, code:vararg
    \code
    .word   \flags
    .quad   \ones
    .endm
    .macro load ones, code:vararg
    form    1, \ones, \code
    .endm
    .macro store code:vararg
    form    2, 0, \code
    .endm
    .macro indexed flags, ones, code:vararg
    form    \flags | 16, \ones, \code
    .endm
    .macro simd flags, code:vararg
    form    \flags | 32, 0, \code
    .endm
    .macro atomic flags, code:vararg
    form    \flags | 64, 0, \code
    .endm

    .section .rodata.fuzz, "a"
    .balign 8
    .arch_extension fp
    .arch_extension simd
    .arch_extension lse
    .arch_extension rcpc
    .set    W, 0xffffffff
    .set    X, 0xffffffffffffffff
    .global fuzz_forms
fuzz_forms:
    load    0xff, ldrb w0, [x1]
    load    0xffff, ldrh w0, [x1]
    load    W, ldr w0, [x1]
    load    X, ldr x0, [x1]
    load    X, ldr x0, [x1, #8]
    load    W, ldr w0, [x1, #4]
    load    W, ldrsb w0, [x1]
    load    X, ldrsb x0, [x1]
    load    W, ldrsh w0, [x1]
    load    X, ldrsh x0, [x1]
    load    X, ldrsw x0, [x1]
    load    W, ldur w0, [x1, #-3]
    load    X, ldur x0, [x1, #1]
    form    1 | 2048, 0xff, ldtrb w0, [x1]
    form    1 | 2048, X, ldtr x0, [x1]
    load    W, ldar w0, [x1]
    load    X, ldar x0, [x1]
    load    0xff, ldarb w0, [x1]
    load    0xffff, ldarh w0, [x1]
    form    1 | 1024, W, ldapr w0, [x1]
    form    1 | 1024, X, ldapr x0, [x1]
    form    1 | 512, W, ldr w0, [x1, x3]
    form    1 | 512, X, ldr x0, [x1, x3, lsl #3]
    form    1 | 512, 0xff, ldrb w0, [x1, w3, uxtw]
    form    5, W, ldp w0, w2, [x1]
    form    5, X, ldp x0, x2, [x1]
    form    5, X, ldp x0, x2, [x1, #-16]
    form    5, X, ldpsw x0, x2, [x1]
    form    5, X, ldnp x0, x2, [x1]
    indexed 1, W, ldr w0, [x1], #4
    indexed 1, X, ldr x0, [x1, #-8]!
    indexed 1, 0xff, ldrb w0, [x1], #1
    indexed 1, X, ldrsh x0, [x1, #2]!
    indexed 5, W, ldp w0, w2, [x1], #8
    indexed 5, X, ldp x0, x2, [x1, #16]!

    store   strb w0, [x1]
    store   strh w0, [x1]
    store   str w0, [x1]
    store   str x0, [x1]
    store   str x0, [x1, #16]
    store   stur w0, [x1, #-5]
    form    2 | 2048, 0, sttrh w0, [x1]
    form    2 | 2048, 0, sttr x0, [x1]
    store   stlr w0, [x1]
    store   stlr x0, [x1]
    store   stlrb w0, [x1]
    form    2 | 512, 0, str w0, [x1, x3]
    form    2 | 512, 0, strh w0, [x1, x3, lsl #1]
    form    6, 0, stp w0, w2, [x1]
    form    6, 0, stp x0, x2, [x1]
    form    6, 0, stnp x0, x2, [x1, #16]
    indexed 2, 0, str w0, [x1], #4
    indexed 2, 0, str x0, [x1, #8]!
    indexed 2, 0, strb w0, [x1, #-1]!
    indexed 6, 0, stp x0, x2, [x1], #-16
    indexed 6, 0, stp w0, w2, [x1, #8]!

    simd    1, ldr b0, [x1]
    simd    1, ldr h0, [x1]
    simd    1, ldr s0, [x1]
    simd    1, ldr d0, [x1]
    simd    1, ldr q0, [x1]
    simd    5, ldp s0, s2, [x1]
    simd    5, ldp d0, d2, [x1]
    simd    5, ldp q0, q2, [x1]
    simd    1 | 16, ldr q0, [x1], #16
    simd    1, ld1 {{v0.16b}}, [x1]
    simd    1, ld1r {{v0.4s}}, [x1]
    simd    1, ld4 {{v0.8b, v1.8b, v2.8b, v3.8b}}, [x1]
    simd    1, ld1 {{v0.s}}[1], [x1]
    simd    2, str b0, [x1]
    simd    2, str h0, [x1]
    simd    2, str s0, [x1]
    simd    2, str d0, [x1]
    simd    2, str q0, [x1]
    simd    6, stp s0, s2, [x1]
    simd    6, stp q0, q2, [x1, #32]
    simd    2 | 16, str d0, [x1, #-8]!
    simd    2, st1 {{v0.2d}}, [x1]
    simd    2, st3 {{v0.4h, v1.4h, v2.4h}}, [x1]

    atomic  1, ldxr w0, [x1]
    atomic  1, ldxr x0, [x1]
    atomic  1, ldxrb w0, [x1]
    atomic  1, ldaxr x0, [x1]
    atomic  5, ldxp x0, x2, [x1]
    atomic  5, ldaxp w0, w2, [x1]
    atomic  2 | 8, stxr w3, w0, [x1]
    atomic  2 | 8, stxr w3, x0, [x1]
    atomic  2 | 8, stlxrh w3, w0, [x1]
    atomic  6 | 8, stxp w3, x0, x2, [x1]
    atomic  3 | 512 | 1024, ldadd w3, w0, [x1]
    atomic  3 | 512 | 1024, ldset x3, x0, [x1]
    atomic  3 | 512 | 1024, ldumaxb w3, w0, [x1]
    atomic  3 | 512 | 1024, swp x3, x0, [x1]
    atomic  3 | 512 | 1024, swpalh w3, w0, [x1]
    atomic  3 | 8 | 1024, cas w3, w0, [x1]
    atomic  3 | 8 | 1024, casal x3, x0, [x1]

    form    128, 0, dc civac, x1
    form    128, 0, dc cvac, x1
    form    128, 0, dc cvau, x1
    form    128, 0, ic ivau, x1
    form    128 | 2, 0, dc zva, x1
    form    256, 0, prfm pldl1keep, [x1]
    form    256, 0, prfm pstl3strm, [x1, #64]
    .global fuzz_forms_end
fuzz_forms_end:
    "#
);
