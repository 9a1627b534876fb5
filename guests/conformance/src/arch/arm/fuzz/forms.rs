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
    /// It has a second data register, the one after the first.
    pub const PAIR: Self = Self(4);
    /// Rd gets a status.
    pub const STATUS: Self = Self(8);
    /// The base register gets the new address.
    pub const WRITE_BACK: Self = Self(16);
    /// The data registers are SIMD registers.
    pub const SIMD: Self = Self(32);
    /// An exclusive access.
    pub const ATOMIC: Self = Self(64);
    /// Rt is the address: cache maintenance.
    pub const CACHE: Self = Self(128);
    /// No access, only a hint.
    pub const HINT: Self = Self(256);
    /// Rm is an operand, a small one.
    pub const INDEX: Self = Self(512);
    /// Two registers by a list.
    pub const LIST: Self = Self(1024);
    /// Accesses with the permissions of User mode.
    pub const UNPRIVILEGED: Self = Self(2048);
    /// The instruction is of T32.
    pub const THUMB: Self = Self(4096);

    /// Returns whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether the access must abort at an address where no device answers. An exclusive
    /// store without a monitor set does nothing; hints and maintenance by address need no answer.
    pub const fn must_abort(self) -> bool {
        self.0 & (Self::ATOMIC.0 | Self::CACHE.0 | Self::HINT.0) == 0
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
    pub ones: u32,
}

/// The stack pointer as a base.
pub const SP: u8 = 13;

/// The registers of an instruction; no two are the same.
#[derive(Clone, Copy)]
pub struct Operands {
    /// Rt.
    pub data: u8,
    /// The one behind it, or Rt2.
    pub second: u8,
    /// Rn.
    pub base: u8,
    /// Rm or Rd.
    pub other: u8,
}

impl Operands {
    /// Chooses an even register and the next for the data, and others among R0 to R12; now and then
    /// SP as the base.
    pub fn any(random: &mut Random) -> Self {
        let data = 2 * random.below(6) as u8;
        // An offset of up to ten from the pair names none of the pair.
        let behind = |step: u8| (data + 2 + step) % 13;
        let base = random.below(4) as u8;
        Self {
            data,
            second: data + 1,
            base: if random.once_in(8) { SP } else { behind(base) },
            other: behind(base + 5),
        }
    }
}

/// Fields of the instructions as they are assembled.
const ASSEMBLED: Operands = Operands {
    data: 0,
    second: 1,
    base: 4,
    other: 6,
};

impl Form {
    /// The instruction with these registers, as it lies in memory.
    pub fn instruction(&self, operands: &Operands) -> u32 {
        let thumb = self.flags.contains(Flags::THUMB);
        let word = if thumb {
            self.word.rotate_left(16)
        } else {
            self.word
        };
        let word = word ^ self.changes(operands);
        if thumb { word.rotate_left(16) } else { word }
    }

    /// Moves the registers from the fields of the assembled form: Rn at bit 16, Rt at 12, Rm at 0.
    fn changes(&self, operands: &Operands) -> u32 {
        let flags = self.flags;
        let field = |now: u8, then: u8, at: u32| u32::from(now ^ then) << at;
        let data = |at| field(operands.data, ASSEMBLED.data, at);
        let other = |at| field(operands.other, ASSEMBLED.other, at);
        let list = |first: u8, second: u8| 1 << first | 1 << second;
        if flags.contains(Flags::CACHE) {
            return field(operands.base, ASSEMBLED.base, 12);
        }
        let base = field(operands.base, ASSEMBLED.base, 16);
        base | match flags {
            _ if flags.contains(Flags::HINT) || flags.contains(Flags::SIMD) => 0,
            _ if flags.contains(Flags::LIST) => {
                list(operands.data, operands.other) ^ list(ASSEMBLED.data, ASSEMBLED.other)
            }
            // STREX has its data at 0 and the status at 12.
            _ if flags.contains(Flags::STATUS) => data(0) | other(12),
            _ if flags.contains(Flags::INDEX) => data(12) | other(0),
            _ if flags.contains(Flags::PAIR) && flags.contains(Flags::THUMB) => {
                data(12) | field(operands.second, ASSEMBLED.second, 8)
            }
            _ => data(12),
        }
    }
}

unsafe extern "C" {
    static fuzz_forms: Form;
    static fuzz_forms_thumb: Form;
    static fuzz_forms_end: Form;
}

/// How many forms lie between two labels.
fn count(from: *const Form, to: *const Form) -> u64 {
    (to.addr() - from.addr()) as u64 / size_of::<Form>() as u64
}

/// Chooses one form at random.
pub fn pick(random: &mut Random) -> Form {
    let start = &raw const fuzz_forms;
    let count = count(start, &raw const fuzz_forms_end);
    // SAFETY: the table has so many entries, all of them initialized.
    unsafe { *start.add(random.below(count) as usize) }
}

/// Chooses one form of A32.
pub fn pick_arm(random: &mut Random) -> Form {
    let start = &raw const fuzz_forms;
    let count = count(start, &raw const fuzz_forms_thumb);
    // SAFETY: as above.
    unsafe { *start.add(random.below(count) as usize) }
}

global_asm!(
    r#"
    .macro form flags, ones, code:vararg
    \code
    .word   \flags
    .word   \ones
    .endm
    .macro wide flags, ones, code:vararg
    \code
    .word   \flags | 4096
    .word   \ones
    .endm

    .section .rodata.fuzz, "a"
    .balign 4
    .arm
    .fpu    neon
    .set    W, 0xffffffff
    .global fuzz_forms
fuzz_forms:
    form    1, 0xff, ldrb r0, [r4]
    form    1, 0xffff, ldrh r0, [r4]
    form    1, W, ldr r0, [r4]
    form    1, W, ldr r0, [r4, #4]
    form    1, W, ldr r0, [r4, #-8]
    form    1, W, ldrsb r0, [r4]
    form    1, W, ldrsh r0, [r4, #2]
    form    1 | 512, W, ldr r0, [r4, r6]
    form    1 | 512, W, ldr r0, [r4, r6, lsl #2]
    form    1 | 512, 0xff, ldrb r0, [r4, -r6]
    form    1 | 512, W, ldrsh r0, [r4, r6]
    form    1 | 16, W, ldr r0, [r4], #4
    form    1 | 16, W, ldr r0, [r4, #-4]!
    form    1 | 16, 0xff, ldrb r0, [r4], #1
    form    1 | 16, W, ldrsb r0, [r4, #1]!
    form    1 | 16, 0xffff, ldrh r0, [r4], #-2
    form    1 | 2048, 0xff, ldrbt r0, [r4], #0
    form    1 | 2048, W, ldrt r0, [r4], #0
    form    1 | 2048, 0xffff, ldrht r0, [r4], #0
    form    5, W, ldrd r0, r1, [r4]
    form    5, W, ldrd r0, r1, [r4, #-16]
    form    5 | 16, W, ldrd r0, r1, [r4], #8
    form    1 | 1024, W, ldmia r4, {{r0, r6}}
    form    1 | 1024, W, ldmdb r4, {{r0, r6}}
    form    1 | 1024 | 16, W, ldmia r4!, {{r0, r6}}
    form    1 | 1024 | 16, W, ldmib r4!, {{r0, r6}}

    form    2, 0, strb r0, [r4]
    form    2, 0, strh r0, [r4]
    form    2, 0, str r0, [r4]
    form    2, 0, str r0, [r4, #-5]
    form    2 | 512, 0, str r0, [r4, r6]
    form    2 | 512, 0, strh r0, [r4, r6]
    form    2 | 16, 0, str r0, [r4], #4
    form    2 | 16, 0, strb r0, [r4, #-1]!
    form    2 | 2048, 0, strt r0, [r4], #0
    form    2 | 2048, 0, strbt r0, [r4], #0
    form    6, 0, strd r0, r1, [r4]
    form    6 | 16, 0, strd r0, r1, [r4, #8]!
    form    2 | 1024, 0, stmia r4, {{r0, r6}}
    form    2 | 1024 | 16, 0, stmdb r4!, {{r0, r6}}

    form    1 | 32, 0, vldr s0, [r4]
    form    1 | 32, 0, vldr d0, [r4, #8]
    form    1 | 32, 0, vldmia r4, {{d0, d1}}
    form    1 | 32 | 16, 0, vldmia r4!, {{s0-s3}}
    form    1 | 32, 0, vld1.8 {{d0}}, [r4]
    form    1 | 32, 0, vld4.16 {{d0, d1, d2, d3}}, [r4]
    form    2 | 32, 0, vstr s0, [r4]
    form    2 | 32, 0, vstr d0, [r4, #-8]
    form    2 | 32 | 16, 0, vstmdb r4!, {{d0, d1}}
    form    2 | 32, 0, vst1.32 {{d0[1]}}, [r4]

    form    1 | 64, 0, ldrex r0, [r4]
    form    1 | 64, 0, ldrexb r0, [r4]
    form    5 | 64, 0, ldrexd r0, r1, [r4]
    form    2 | 8 | 64, 0, strex r6, r0, [r4]
    form    2 | 8 | 64, 0, strexh r6, r0, [r4]

    form    128, 0, mcr p15, 0, r4, c7, c14, 1
    form    128, 0, mcr p15, 0, r4, c7, c10, 1
    form    128, 0, mcr p15, 0, r4, c7, c11, 1
    form    128, 0, mcr p15, 0, r4, c7, c5, 1
    form    256, 0, pld [r4]
    form    256, 0, pld [r4, #64]

    .thumb
    .global fuzz_forms_thumb
fuzz_forms_thumb:
    wide    1, 0xff, ldrb.w r0, [r4]
    wide    1, 0xffff, ldrh.w r0, [r4, #6]
    wide    1, W, ldr.w r0, [r4]
    wide    1, W, ldr r0, [r4, #-4]
    wide    1, W, ldrsb.w r0, [r4]
    wide    1 | 16, W, ldr r0, [r4], #4
    wide    1 | 16, 0xffff, ldrh r0, [r4, #-2]!
    wide    1 | 2048, W, ldrt r0, [r4, #4]
    wide    5, W, ldrd r0, r1, [r4]
    wide    5 | 16, W, ldrd r0, r1, [r4], #8
    wide    2, 0, strb.w r0, [r4]
    wide    2, 0, strh.w r0, [r4]
    wide    2, 0, str.w r0, [r4, #12]
    wide    2 | 16, 0, str r0, [r4, #-4]!
    wide    6, 0, strd r0, r1, [r4]
    wide    256, 0, pld [r4]
    .global fuzz_forms_end
fuzz_forms_end:
    .arm
    "#
);
