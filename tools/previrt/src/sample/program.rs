//! A linked program with every kind of instruction that is rewritten, in both instruction sets.
//! Each is a function of its own, which ends in an SVC of the program's own.

use super::words;
use hanok_abi::trampoline::t32;

/// What stands behind an instruction, and so which registers are free there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    /// Only the SVC: nothing is free.
    Nothing,
    /// N and Z are set to 0 and 1: both are free.
    Flags,
    /// R12 is set to 0: R12 is free.
    Register,
    /// R12 is set to 0, and N and Z are set by it: all three are free.
    RegisterAndFlags,
}

/// One of the program's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The address at which its function is entered; bit 0 is set for T32.
    pub entry: u32,
    /// The instruction's encoding; for T32 two halfwords, the first one in the upper half, or one.
    pub bits: u32,
    /// The A32 instruction that does the same, where it can have a trampoline.
    pub word: Option<u32>,
    /// What stands behind it.
    pub behind: Behind,
    /// Whether it is in an IT block.
    pub inside: bool,
}

/// MRC, without condition and Rt, of each register that has a field in the virtual CPU; VMRS of
/// FPEXC.
pub const READ: [u32; 17] = [
    0x0e10_0f10, // MIDR
    0x0e10_0f30, // CTR
    0x0e10_0fb0, // MPIDR
    0x0e11_0f10, // SCTLR
    0x0e11_0f30, // ACTLR
    0x0e11_0f50, // CPACR
    0x0e12_0f10, // TTBR0
    0x0e12_0f30, // TTBR1
    0x0e12_0f50, // TTBCR
    0x0e13_0f10, // DACR
    0x0e15_0f10, // DFSR
    0x0e15_0f30, // IFSR
    0x0e16_0f10, // DFAR
    0x0e16_0f50, // IFAR
    0x0e17_0f14, // PAR
    0x0e1d_0f30, // CONTEXTIDR
    0x0ef8_0a10, // FPEXC
];

/// MCR of DACR and of TPIDRURW, and MRC of TPIDRURW.
pub const WRITTEN: [u32; 3] = [0x0e03_0f10, 0x0e0d_0f50, 0x0e1d_0f50];

/// MRC of TPIDRPRW, which is rewritten to a read of another register.
pub const BORROWED: u32 = 0xee1d_0f90;

/// A32 without a condition, with Rt or Rm 0, and the lowest bit of its register field.
const STATUS_A32: [(u32, u32); 4] = [
    (0x010f_0000, 12), // mrs r0, cpsr
    (0x0121_f000, 0),  // msr cpsr_c, r0
    (0x014f_0000, 12), // mrs r0, spsr
    (0x016f_f000, 0),  // msr spsr_fsxc, r0
];

/// The same instructions in T32.
const STATUS_T32: [(u32, u32); 4] = [
    (0xf3ef_8000, 8),
    (0xf380_8100, 16),
    (0xf3ff_8000, 8),
    (0xf390_8f00, 16),
];

/// A32 instructions that become traps whatever is free.
const TRAPS_A32: [u32; 16] = [
    0xf10e_01d3, // cpsid aif, #19
    0xf102_0013, // cps #19
    0xee01_0f10, // mcr p15, 0, r0, c1, c0, 0
    0xee02_0f10, // mcr p15, 0, r0, c2, c0, 0
    0xee08_0f17, // mcr p15, 0, r0, c8, c7, 0
    0x1e07_0f3a, // mcrne p15, 0, r0, c7, c10, 1
    0xec51_0f1e, // mrrc p15, 1, r0, r1, c14
    0xe320_f003, // wfi
    0xe160_0070, // smc #0
    0xe4b0_1004, // ldrt r1, [r0], #4
    0xe0f0_10b2, // ldrht r1, [r0], #2
    0xe1b0_f00e, // movs pc, lr
    0xe8dd_7fff, // ldm sp, {r0-lr}^
    0xf8bd_0a00, // rfeia sp!
    0xf96d_0513, // srsdb sp!, #19
    0xeee8_0a10, // vmsr fpexc, r0
];

/// The same in T32, of one or two halfwords.
const TRAPS_T32: [u32; 12] = [
    0xb672,      // cpsid i
    0xb662,      // cpsie i
    0xbf30,      // wfi
    0xf3af_8753, // cpsid.w aif, #19
    0xee01_0f10, // mcr p15, 0, r0, c1, c0, 0
    0xee08_0f17, // mcr p15, 0, r0, c8, c7, 0
    0xf7f0_8000, // smc #0
    0xf850_1e04, // ldrt r1, [r0, #4]
    0xf3de_8f04, // subs pc, lr, #4
    0xe9bd_c000, // rfeia sp!
    0xe82d_c013, // srsdb sp!, #19
    0xeee8_0a10, // vmsr fpexc, r0
];

/// T32 instructions that have a form for IT blocks.
const INSIDE: [u32; 3] = [0xf3ef_8000, 0xf380_8100, 0xf850_1e00];

const ALWAYS: u32 = 0xe000_0000;
const CONDITIONS: [u32; 8] = [0x0, 0x1, 0x2, 0x4, 0x8, 0xa, 0xc, 0xe];
/// IT NE.
const IT_NE: u16 = 0xbf18;

/// The program's code while it is being written.
struct Code {
    base: u32,
    bytes: Vec<u8>,
    cases: Vec<Case>,
}

impl Code {
    fn at(&self) -> u32 {
        self.base + self.bytes.len() as u32
    }

    fn a32(&mut self, word: u32, has_trampoline: bool, behind: Behind) {
        self.cases.push(Case {
            entry: self.at(),
            bits: word,
            word: has_trampoline.then_some(word),
            behind,
            inside: false,
        });
        self.bytes.extend(words(&[word]));
        self.bytes.extend(words(match behind {
            Behind::Nothing => &[],
            Behind::Flags => &[0xe31c_0000],    // tst r12, #0
            Behind::Register => &[0xe3a0_c000], // mov r12, #0
            Behind::RegisterAndFlags => &[0xe3a0_c000, 0xe11c_000c], // the same, and tst r12, r12
        }));
        self.bytes.extend(words(&[0xef00_0000]));
    }

    fn t32(&mut self, bits: u32, has_trampoline: bool, behind: Behind) {
        self.cases.push(Case {
            entry: self.at() | 1,
            bits,
            word: t32::as_a32(bits).filter(|_| has_trampoline),
            behind,
            inside: false,
        });
        self.halves(bits);
        let free: &[u32] = match behind {
            Behind::Nothing => &[],
            Behind::Flags => &[0xf01c_0f00],    // tst.w r12, #0
            Behind::Register => &[0xf04f_0c00], // mov.w r12, #0
            Behind::RegisterAndFlags => &[0xf04f_0c00, 0xea1c_0f0c], // the same, and tst.w r12, r12
        };
        free.iter().for_each(|bits| self.halves(*bits));
        self.halves(0xdf00);
    }

    /// Adds an instruction in an IT block: it stands behind the place where the function is
    /// entered.
    fn inside(&mut self, bits: u32) {
        self.cases.push(Case {
            entry: self.at() | 1,
            bits,
            word: None,
            behind: Behind::Nothing,
            inside: true,
        });
        self.halves(u32::from(IT_NE));
        self.halves(bits);
        self.halves(0xdf00);
    }

    fn halves(&mut self, bits: u32) {
        if bits > 0xffff {
            self.bytes.extend(((bits >> 16) as u16).to_le_bytes());
        }
        self.bytes.extend((bits as u16).to_le_bytes());
    }

    /// Adds each instruction with its own registers and conditions, and with what its trampoline
    /// needs behind it.
    fn all_a32(&mut self) {
        let plain = READ.iter().chain(&WRITTEN).map(|word| (*word, 12));
        let each = plain.chain(STATUS_A32).enumerate();
        for (n, (word, at)) in each {
            for (m, register) in [0, 5, 14].into_iter().enumerate() {
                let any = CONDITIONS[(n + 3 * m) % CONDITIONS.len()];
                for condition in [any << 28, ALWAYS] {
                    let word = condition | word | register << at;
                    for behind in needs(word & 0x0fff_ffff) {
                        self.a32(word, true, *behind);
                    }
                }
            }
        }
        for masks in [0xf10c_0080, 0xf108_0080] {
            self.a32(masks, true, Behind::Nothing);
        }
        for word in TRAPS_A32.into_iter().chain([BORROWED]) {
            self.a32(word, false, Behind::Nothing);
        }
    }

    fn all_t32(&mut self) {
        let plain = READ.iter().chain(&WRITTEN);
        let plain = plain.map(|word| (ALWAYS | word, 12));
        for (bits, at) in plain.chain(STATUS_T32) {
            for register in [0, 5] {
                let bits = bits | register << at;
                let word = t32::as_a32(bits).unwrap_or(0);
                for behind in needs(word & 0x0fff_ffff) {
                    self.t32(bits, true, *behind);
                }
            }
        }
        for masks in [0xf3af_8640, 0xf3af_8440] {
            self.t32(masks, true, Behind::Nothing);
        }
        for bits in TRAPS_T32.into_iter().chain([BORROWED]) {
            self.t32(bits, false, Behind::Nothing);
        }
        for bits in INSIDE {
            self.inside(bits);
        }
    }
}

/// What has to stand behind an instruction for it to have each kind of trampoline.
fn needs(word: u32) -> &'static [Behind] {
    match word & 0x0fff_0000 {
        0x010f_0000 => &[Behind::Nothing, Behind::Register],
        0x0121_0000 => &[
            Behind::Nothing,
            Behind::Flags,
            Behind::Register,
            Behind::RegisterAndFlags,
        ],
        _ => &[Behind::Nothing],
    }
}

/// A program that is linked at `base`, and its instructions.
pub fn program(base: u32) -> (Vec<u8>, Vec<Case>) {
    let mut code = Code {
        base,
        bytes: Vec::new(),
        cases: Vec::new(),
    };
    code.all_a32();
    let thumb = code.at();
    code.all_t32();
    let file = linked(base, &code.bytes, thumb);
    (file, code.cases)
}

/// An ELF file with one segment and one section of code, whose T32 part begins at `thumb`.
fn linked(base: u32, code: &[u8], thumb: u32) -> Vec<u8> {
    let names = b"\0$a\0$t\0f\0g\0.text\0.symtab\0.strtab\0";
    let symbol = |name: u32, value: u32, kind: u32| [name, value, 0, 1 << 16 | kind];
    let symbols = [
        [0; 4],
        symbol(1, base, 0),
        symbol(4, thumb, 0),
        symbol(7, base, 2),
        symbol(9, thumb | 1, 2),
    ];
    let symbols = words(symbols.as_flattened());
    let [at_code, at_symbols] = [84, 84 + code.len() as u32].map(|at: u32| at.next_multiple_of(4));
    let at_names = at_symbols + symbols.len() as u32;
    let at_headers = (at_names + names.len() as u32).next_multiple_of(4);
    let mut file = b"\x7fELF\x01\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, 40, 0]);
    file.extend(words(&[1, base, 52, at_headers, 0x0500_0000]));
    let sizes = [52_u16, 32, 1, 40, 4, 3];
    file.extend(sizes.iter().flat_map(|half| half.to_le_bytes()));
    let len = code.len() as u32;
    file.extend(words(&[1, at_code, base, base, len, len, 5, 4]));
    file.extend(code);
    file.resize(at_symbols as usize, 0);
    file.extend(&symbols);
    file.extend(names);
    file.resize(at_headers as usize, 0);
    let [symbols, names] = [symbols.len(), names.len()].map(|len| len as u32);
    file.extend(words(&[0; 10]));
    file.extend(words(&[11, 1, 6, base, at_code, len, 0, 0, 4, 0]));
    file.extend(words(&[17, 2, 0, 0, at_symbols, symbols, 3, 5, 4, 16]));
    file.extend(words(&[25, 3, 0, 0, at_names, names, 0, 0, 1, 0]));
    file
}
