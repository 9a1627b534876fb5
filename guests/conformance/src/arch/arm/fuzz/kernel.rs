//! Random privileged instructions as a program of the kernel's: changes of mode by CPS, MSR and each kind of exception
//! return, status registers, LDM and STM of User mode's registers, SRS and RFE, unprivileged accesses, system registers,
//! maintenance, data of either endianness, and code that is written and executed at once.
//!
//! A program uses nothing that the manual leaves open. So all that it leads to follows from the seed, and is the same on any
//! CPU: it is put together in [`Fuzzer::digest`], which a machine with and one without a hypervisor must have alike.

use super::code;
use super::space::{DATA, USER_DATA};
use super::trip::{ARRIVE, MASKED, Start};
use crate::fuzz::Fuzzer;
use crate::fuzz::random::Random;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

const PAGE: u32 = 4096;
/// Two pages of RAM behind all that the payload has, for the program and for what it may overwrite. Addresses are among what
/// is compared, so they must not move when the payload changes.
const CODE: u32 = 0x4300_0000;
const SCRATCH: u32 = CODE + PAGE;

/// The registers that hold data; R1 and R2 are addresses in memory that may be overwritten.
const DATA_REGISTERS: [u32; 6] = [0, 3, 4, 5, 6, 7];
const BASE: u32 = 1;
const MOVING_BASE: u32 = 2;
/// Modes: FIQ, IRQ, Supervisor, Abort, Undefined, and System, which has no SPSR.
const MODES: [u32; 6] = [0x11, 0x12, 0x13, 0x17, 0x1b, SYSTEM];
const SYSTEM: u32 = 0x1f;
/// I of a status register, which stays set, and A and F.
const IRQ: u32 = 1 << 7;
const OTHERS: u32 = 1 << 8 | 1 << 6;
/// N, Z, C, V, Q and GE.
const FLAGS: u32 = 0xf80f_0000;
const NOP: u32 = 0xe320_f000;
const UNDEFINED: u32 = 0xe7f0_00f0;
const DSB: u32 = 0xf57f_f04f;
const ISB: u32 = 0xf57f_f06f;

/// A program in the making.
struct Program {
    words: [u32; 512],
    len: usize,
    /// The mode that it is in at its end.
    mode: u32,
}

/// A word of these pages.
fn word(at: u32) -> &'static AtomicU32 {
    // SAFETY: an aligned word of RAM, in which no Rust object lives.
    unsafe { AtomicU32::from_ptr(at as *mut u32) }
}

/// Makes one program and runs it.
pub fn step(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    assert!(crate::boot::image().end() <= CODE.into());
    let mut program = Program {
        words: [NOP; 512],
        len: 0,
        mode: SYSTEM,
    };
    for _ in 0..6 + random.below(24) {
        program.item(random);
    }
    if random.once_in(5) {
        program.end(random);
    }
    let code = program.words[..program.len].iter().chain(&[ARRIVE; 3]);
    for (at, instruction) in (CODE..).step_by(4).zip(code) {
        word(at).store(*instruction, Relaxed);
    }
    for line in (CODE..CODE + PAGE).step_by(64) {
        code::synchronize(line);
    }
    let memory = || (SCRATCH..SCRATCH + PAGE).step_by(4).map(word);
    memory().for_each(|word| word.store(random.next() as u32, Relaxed));
    DATA.0
        .iter()
        .for_each(|word| word.store(random.next(), Relaxed));
    let mut start = Start::NOWHERE;
    start.x.iter_mut().for_each(|x| *x = random.next() as u32);
    let middle = SCRATCH + PAGE / 2;
    start.x[BASE as usize] = middle - 256;
    start.x[MOVING_BASE as usize] = middle;
    start.x[13] = middle + 512;
    (start.pc, start.pstate) = (CODE, MASKED);
    // SAFETY: the program stores to memory that may be overwritten alone, and leaves the stack pointers of the exceptions'
    // modes as they are.
    let end = unsafe { fuzzer.travel(&start) };
    let mut digest = fuzzer.digest;
    let mut add = |value: u64| digest = Random::of(digest, value).next();
    end.x.iter().for_each(|x| add(u64::from(*x)));
    add(u64::from(end.pstate) << 32 | u64::from(end.pc()));
    add(end.vector.into());
    if end.is_abort() {
        add(u64::from(end.status()) << 32 | u64::from(end.fault_address()));
    }
    memory().for_each(|word| add(word.load(Relaxed).into()));
    DATA.0.iter().for_each(|word| add(word.load(Relaxed)));
    fuzzer.digest = digest;
    fuzzer.trace(format_args!("{end:?}, {:x?}", end.x));
    fuzzer.trace(format_args!("{:x?}", &program.words[..program.len]));
    fuzzer.trace(format_args!("digest {digest:#018x}"));
}

impl Program {
    fn put(&mut self, word: u32) {
        self.words[self.len] = word;
        self.len += 1;
    }

    fn all(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.put(*word));
    }

    /// MOVW and MOVT.
    fn constant(&mut self, register: u32, value: u32) {
        let half = |half: u32| (half >> 12) << 16 | half & 0xfff | register << 12;
        self.put(0xe300_0000 | half(value & 0xffff));
        self.put(0xe340_0000 | half(value >> 16));
    }

    /// The address of the word that is so many behind the next one.
    fn address(&self, behind: usize) -> u32 {
        CODE + 4 * (self.len + behind) as u32
    }

    /// A word with any condition.
    fn maybe(&mut self, word: u32, random: &mut Random) {
        let condition = random.below(15) as u32;
        self.put(word & 0x0fff_ffff | condition << 28);
    }

    fn has_status(&self) -> bool {
        self.mode != SYSTEM
    }

    /// Writes SPSR: the state to which an exception return leads, with this mode.
    fn set_status(&mut self, mode: u32, random: &mut Random) {
        let value = random.next() as u32 & (FLAGS | OTHERS) | IRQ | mode;
        self.constant(4, value);
        self.put(0xe16f_f004);
    }

    fn item(&mut self, random: &mut Random) {
        let data = random.pick(&DATA_REGISTERS);
        match random.below(22) {
            0..=2 => self.data(random),
            3 => self.change(random),
            4 => self.maybe(0xe10f_0000 | data << 12, random),
            5 if self.has_status() => {
                self.set_status(0x13, random);
                // Fields of it alone: no bits that are reserved.
                let fields = random.pick(&[4, 8, 0xc]);
                self.constant(4, random.next() as u32 & FLAGS);
                self.maybe(0xe160_f004 | fields << 16, random);
                self.put(0xe14f_0000 | random.pick(&DATA_REGISTERS) << 12);
            }
            6 => self.maybe(0xe12c_f000 | data, random),
            7 => self.set_control(random),
            8 if self.has_status() => self.exception_return(random),
            9 => self.by_rfe(random),
            10 if self.has_status() => self.by_load(random),
            11 if self.has_status() => self.by_srs(random),
            12 if self.has_status() => {
                let (way, list) = (random.below(4) as u32, 1 + random.below(0x7fff) as u32);
                self.put(0xe840_0000 | way << 23 | BASE << 16 | list);
            }
            13 if self.has_status() => {
                let list = random.next() as u32 & 0x5ff9 | 8;
                let way = random.below(4) as u32;
                self.all(&[0xe850_0000 | way << 23 | BASE << 16 | list, NOP]);
            }
            14 | 15 => self.unprivileged(random),
            16 | 17 => self.system(random),
            18 => self.big_endian(random),
            19 => self.rewrite(random),
            20 => {
                // A branch over an instruction, if the condition holds.
                self.maybe(0xea00_0000, random);
                self.data(random);
            }
            _ => self.memory(random),
        }
    }

    fn data(&mut self, random: &mut Random) {
        // AND, EOR, SUB, RSB, ADD, ADC, SBC, ORR, BIC.
        let code = random.pick(&[0, 1, 2, 3, 4, 5, 6, 0xc, 0xe]);
        let [n, d, m] = [(); 3].map(|()| random.pick(&DATA_REGISTERS));
        let shift = (random.below(128) as u32) << 5;
        let flags = random.below(2) as u32;
        self.maybe(
            0xe000_0000 | code << 21 | flags << 20 | n << 16 | d << 12 | shift | m,
            random,
        );
    }

    fn memory(&mut self, random: &mut Random) {
        let offset = random.below(64) as u32 * 4;
        let data = random.pick(&DATA_REGISTERS) << 12 | BASE << 16;
        let word = random.pick(&[0xe590_0000, 0xe580_0000, 0xe5d0_0000, 0xe5c0_0000]);
        self.maybe(word | data | offset, random);
    }

    /// CPS: with a mode, or of masks alone, IRQs left out.
    fn change(&mut self, random: &mut Random) {
        let masks = (random.below(2) as u32 * 0x100) | (random.below(2) as u32 * 0x40);
        if masks != 0 && random.once_in(3) {
            return self.put(random.pick(&[0xf108_0000, 0xf10c_0000]) | masks);
        }
        let mode = random.pick(&MODES);
        let with = random.pick(&[0xf102_0000, 0xf10e_0080 | masks]);
        self.put(with | mode);
        self.mode = mode;
    }

    /// MSR CPSR_c, or of more fields.
    fn set_control(&mut self, random: &mut Random) {
        let mode = random.pick(&MODES);
        let masks = IRQ | (random.below(2) as u32 * 0x40);
        if random.once_in(2) {
            self.put(0xe321_f000 | masks | mode);
        } else {
            let value =
                random.next() as u32 & FLAGS | masks | (random.below(2) as u32 * 0x100) | mode;
            self.constant(4, value);
            let fields = random.pick(&[1, 3, 9, 0xf, 5]);
            self.put(0xe120_f004 | fields << 16);
        }
        self.mode = mode;
    }

    /// MOVS PC, LR or SUBS PC, LR to what follows.
    fn exception_return(&mut self, random: &mut Random) {
        let mode = random.pick(&MODES);
        self.set_status(mode, random);
        // ADD LR, PC, #0 or #4: PC is two instructions on.
        if random.once_in(2) {
            self.all(&[0xe28f_e000, 0xe1b0_f00e]);
        } else {
            self.all(&[0xe28f_e004, 0xe25e_f004]);
        }
        self.mode = mode;
    }

    /// RFE in each of its four forms.
    fn by_rfe(&mut self, random: &mut Random) {
        let mode = random.pick(&MODES);
        let psr = random.next() as u32 & (FLAGS | OTHERS) | IRQ | mode;
        // Where the two words are from the base on: IA, IB, DA, DB.
        let (word, offset) = random.pick(&[
            (0xf890_0a00_u32, 0_i32),
            (0xf990_0a00, 4),
            (0xf810_0a00, -4),
            (0xf910_0a00, -8),
        ]);
        let write_back = u32::from(offset == 0 && random.once_in(4));
        let base = if write_back != 0 { MOVING_BASE } else { BASE };
        let store = |register: u32, offset: i32| {
            let up = u32::from(offset >= 0) << 23;
            0xe500_0000 | up | base << 16 | register << 12 | offset.unsigned_abs()
        };
        let target = self.address(7);
        self.constant(3, target);
        self.constant(4, psr);
        self.all(&[store(3, offset), store(4, offset + 4)]);
        self.put(word | base << 16 | write_back << 21);
        self.mode = mode;
    }

    /// LDM with the PC and the status.
    fn by_load(&mut self, random: &mut Random) {
        let mode = random.pick(&MODES);
        self.set_status(mode, random);
        let target = self.address(4);
        self.constant(3, target);
        // STR R3, [R1, #4]; LDMIA R1, {R5, PC}^.
        self.all(&[0xe581_3004, 0xe8d1_8020]);
        self.mode = mode;
    }

    /// SRS to System mode's stack in each of its four forms.
    fn by_srs(&mut self, random: &mut Random) {
        self.set_status(0x1b, random);
        // MOV LR, R5.
        self.put(0xe1a0_e005);
        let word = random.pick(&[0xf8cd_0500, 0xf9cd_0500, 0xf84d_0500, 0xf94d_0500]);
        let write_back = u32::from(random.once_in(3)) << 21;
        self.put(word | write_back | SYSTEM);
    }

    /// LDRT, STRT and their kin.
    fn unprivileged(&mut self, random: &mut Random) {
        let at = USER_DATA + 256 + random.below(512) as u32 * 4;
        self.constant(6, at);
        let data = random.pick(&[0, 3, 4, 5, 7]) << 12 | 6 << 16;
        let offset = random.below(16) as u32;
        let word = match random.below(8) {
            0 => 0xe4b0_0000 | offset,
            1 => 0xe4a0_0000 | offset,
            2 => 0xe4f0_0000 | offset,
            3 => 0xe4e0_0000 | offset,
            4 => 0xe0f0_00b0 | offset,
            5 => 0xe0e0_00b0 | offset,
            6 => 0xe0f0_00d0 | offset,
            _ => 0xe0f0_00f0 | offset,
        };
        self.maybe(word | data, random);
    }

    /// Registers and operations of coprocessor 15.
    fn system(&mut self, random: &mut Random) {
        let data = random.pick(&DATA_REGISTERS) << 12;
        let from = random.pick(&DATA_REGISTERS) << 12;
        match random.below(8) {
            // TPIDRURW, TPIDRURO, TPIDRPRW; DFAR, IFAR: written and read.
            0..=2 => {
                let register = random.pick(&[
                    0xee0d_0f50,
                    0xee0d_0f70,
                    0xee0d_0f90,
                    0xee06_0f10,
                    0xee06_0f50,
                ]);
                self.maybe(register | from, random);
                self.put(register | 1 << 20 | data);
            }
            // SCTLR, TTBCR, DACR, VBAR, ISR, read.
            3 => {
                let register = random.pick(&[
                    0xee11_0f10,
                    0xee12_0f50,
                    0xee13_0f10,
                    0xee1c_0f10,
                    0xee1c_0f11,
                ]);
                self.maybe(register | data, random);
            }
            // ATS1CPR, ATS1CPW of R1, ATS1CUR, ATS1CUW of USER_DATA, and PAR.
            4 => {
                self.constant(6, USER_DATA);
                let way = random.pick(&[0xee07_1f18, 0xee07_1f38, 0xee07_6f58, 0xee07_6f78]);
                self.all(&[way, ISB, 0xee17_0f14 | data]);
                // MOV Rd, Rd, LSR #12: the address alone.
                self.put(0xe1a0_0620 | data | data >> 12);
            }
            // CONTEXTIDR.
            5 => {
                self.put(0xee0d_0f30 | from);
                self.all(&[ISB, 0xee1d_0f30 | data]);
            }
            // TLBIALL, TLBIASID and TLBIMVA of R1, ITLBIALL, DTLBIALL, TLBIMVAA, those of the inner shareable domain.
            6 => {
                let operation = random.pick(&[
                    0xee08_1f17,
                    0xee08_1f57,
                    0xee08_1f37,
                    0xee08_1f15,
                    0xee08_1f16,
                    0xee08_1f77,
                    0xee08_1f13,
                    0xee08_1f33,
                    0xee08_1f53,
                    0xee08_1f73,
                ]);
                self.maybe(operation, random);
                self.all(&[DSB, ISB]);
            }
            // ICIALLU, BPIALL, DCCMVAC, DCCMVAU, DCCIMVAC, ICIMVAU, BPIMVA of R1; barriers.
            _ => {
                let operation = random.pick(&[
                    0xee07_1f15,
                    0xee07_1fd5,
                    0xee07_1f3a,
                    0xee07_1f3b,
                    0xee07_1f3e,
                    0xee07_1f35,
                    0xee07_1ff5,
                    0xee07_1f95,
                    0xee07_1f9a,
                    0xee07_1fba,
                ]);
                self.maybe(operation, random);
            }
        }
    }

    fn big_endian(&mut self, random: &mut Random) {
        self.put(0xf101_0200);
        for _ in 0..1 + random.below(3) {
            self.memory(random);
        }
        self.put(0xf101_0000);
    }

    /// Writes an instruction behind, which so far is none, and executes it.
    fn rewrite(&mut self, random: &mut Random) {
        let mode = random.pick(&MODES);
        let (word, mode) = match random.below(5) {
            0 => (0xe10f_7000, self.mode),
            1 => (0xf102_0000 | mode, mode),
            2 => (0xe321_f000 | IRQ | mode, mode),
            3 => (0xe12c_f005, self.mode),
            // MRC TPIDRPRW would be the run time's pointer, TPIDRURW is what the program wrote.
            _ => (0xe087_7005, self.mode),
        };
        let slot = self.address(4 + 7);
        self.constant(3, word);
        self.constant(6, slot);
        // STR R3, [R6]; DCCMVAU R6; DSB; ICIMVAU R6; BPIALL; DSB; ISB.
        self.all(&[
            0xe586_3000,
            0xee07_6f3b,
            DSB,
            0xee07_6f35,
            0xee07_6fd5,
            DSB,
            ISB,
        ]);
        self.put(UNDEFINED);
        self.mode = mode;
    }

    /// What ends a program before its end.
    fn end(&mut self, random: &mut Random) {
        match random.below(6) {
            0 => self.put(0xef00_0000 | random.next() as u32 & 0xff_ffff),
            1 => self.put(UNDEFINED),
            2 => self.put(0xe120_0070 | random.next() as u32 & 0xf),
            // A load and a store where nothing is mapped.
            3 => {
                self.constant(6, 0xa800_0000 | random.next() as u32 & 0x7ff_fffc);
                self.put(random.pick(&[0xe596_3000, 0xe586_3000, 0xe896_0038]));
            }
            4 => {
                self.constant(6, 0xa800_0000 | random.next() as u32 & 0x7ff_fffc);
                // BX R6.
                self.put(0xe12f_ff16);
            }
            // User mode has no right to be here.
            _ => self.put(0xe321_f000 | IRQ | 0x10),
        }
    }
}
