//! What a sensitive instruction is rewritten to so that it does not trap: a branch to a few
//! instructions of User mode that do the same to the virtual CPU.
//!
//! The virtual CPU is a page ([`Field`]) that the hypervisor maps beside the code and reads
//! whenever it needs to know; it trusts nothing in it. The code needs no base register, because
//! LDR and STR reach 4 KB from the PC: a room is a row of triples of pages, the page's alias as a
//! *doorbell*, code, and the plain alias. The doorbell is read-only while a virtual interrupt
//! is pending, so that unmasking interrupts checks nothing: its store faults then, and the
//! hypervisor does what the site says. The plain alias can always be written.
//!
//! The interrupt mask is bit 7 of its word, as in the CPSR, and CPS stores the PC, of which bit 7
//! says which: so neither a scratch register nor the flags are needed, only a place for the
//! store whose address is right ([`Template::start`]).
//!
//! What makes an interrupt in the middle harmless ([`resume`]): a trampoline writes nothing that
//! it reads before its last instruction but one, so that it can begin again; that one commits;
//! and the last one goes back behind the site. So no table is needed on the board: the last
//! branch says which site it was.
//!
//! T32 cannot store relative to the PC (DDI 0406C A8.8.203), so that a trampoline of it goes on in
//! A32, and comes back by a literal ([`t32`]).

pub mod model;
pub mod t32;

use crate::trap::trap_a32;

/// Bytes of a page.
pub const PAGE: u32 = 0x1000;
/// Bytes of a triple: doorbell, code, plain.
pub const TRIPLE: u32 = 3 * PAGE;
/// From the doorbell page to the code page.
pub const TO_CODE: u32 = PAGE;
/// Of a code page, where trampolines may be: from there both aliases' fields can be reached.
pub const CODE: core::ops::Range<u32> = 0x80..0xf70;
/// No trampoline has more instructions.
const MAX_STEPS: usize = 11;
/// No trampoline has more words.
pub const MAX_WORDS: usize = MAX_STEPS + t32::MORE;

/// A word of the virtual CPU's page: where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field(u16);

impl Field {
    /// CPSR's lower sixteen bits: mode, F, A and E; I is clear there.
    pub const PSR: Self = Self(0x00);
    /// SPSR of the current mode.
    pub const SPSR: Self = Self(0x04);
    /// DACR.
    pub const DACR: Self = Self(0x08);
    /// TPIDRURW, whose register holds the kernel's own value of TPIDRPRW.
    pub const TPIDRURW: Self = Self(0x0c);
    /// SCTLR.
    pub const SCTLR: Self = Self(0x10);
    /// ACTLR.
    pub const ACTLR: Self = Self(0x14);
    /// CPACR.
    pub const CPACR: Self = Self(0x18);
    /// TTBR0.
    pub const TTBR0: Self = Self(0x1c);
    /// TTBR1.
    pub const TTBR1: Self = Self(0x20);
    /// TTBCR.
    pub const TTBCR: Self = Self(0x24);
    /// DFSR.
    pub const DFSR: Self = Self(0x28);
    /// IFSR.
    pub const IFSR: Self = Self(0x2c);
    /// DFAR.
    pub const DFAR: Self = Self(0x30);
    /// IFAR.
    pub const IFAR: Self = Self(0x34);
    /// CONTEXTIDR.
    pub const CONTEXTIDR: Self = Self(0x38);
    /// MIDR.
    pub const MIDR: Self = Self(0x3c);
    /// CTR.
    pub const CTR: Self = Self(0x40);
    /// MPIDR.
    pub const MPIDR: Self = Self(0x44);
    /// PAR.
    pub const PAR: Self = Self(0x48);
    /// FPEXC.
    pub const FPEXC: Self = Self(0x4c);
    /// I, in bit 7; all others mean nothing. Written through the doorbell.
    pub const MASK: Self = Self(0xf80);

    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::FPEXC.0 / 4 + 1)
            .map(|word| Self(4 * word))
            .chain([Self::MASK])
    }

    /// Bytes from the start of the page.
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }

    /// Whether it is reached through the doorbell, which is in front of the code.
    pub const fn is_doorbell(self) -> bool {
        self.0 >= 0x800
    }
}

/// Bit of [`Field::MASK`] that counts.
pub const MASKED: u32 = 1 << 7;

/// A system register that is a field.
struct Known {
    /// MRC of it, without condition and Rt.
    mrc: u32,
    field: Field,
    /// Whether MCR only notes the value, so that a store does.
    noted: bool,
}

const fn mrc(crn: u32, crm: u32, opc2: u32) -> u32 {
    0x0e10_0f10 | crn << 16 | opc2 << 5 | crm
}

const fn read(mrc: u32, field: Field) -> Known {
    Known {
        mrc,
        field,
        noted: false,
    }
}

/// System registers by their MRC. Those that are only read change by a trap, or by an
/// exception, when the hypervisor writes the page.
const KNOWN: [Known; 18] = [
    Known {
        mrc: mrc(3, 0, 0),
        field: Field::DACR,
        noted: true,
    },
    Known {
        mrc: mrc(13, 0, 2),
        field: Field::TPIDRURW,
        noted: true,
    },
    read(mrc(1, 0, 0), Field::SCTLR),
    read(mrc(1, 0, 1), Field::ACTLR),
    read(mrc(1, 0, 2), Field::CPACR),
    read(mrc(2, 0, 0), Field::TTBR0),
    read(mrc(2, 0, 1), Field::TTBR1),
    read(mrc(2, 0, 2), Field::TTBCR),
    read(mrc(5, 0, 0), Field::DFSR),
    read(mrc(5, 0, 1), Field::IFSR),
    read(mrc(6, 0, 0), Field::DFAR),
    read(mrc(6, 0, 2), Field::IFAR),
    read(mrc(13, 0, 1), Field::CONTEXTIDR),
    read(mrc(0, 0, 0), Field::MIDR),
    read(mrc(0, 0, 1), Field::CTR),
    read(mrc(0, 0, 5), Field::MPIDR),
    read(mrc(7, 4, 0), Field::PAR),
    // VMRS.
    read(0x0ef8_0a10, Field::FPEXC),
];

/// What is free behind a site, having been found dead there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// Registers; bit n is Rn. SP and PC are not looked at.
    pub registers: u16,
    /// Whether N and Z are.
    pub flags: bool,
}

/// A register.
type Register = u32;

/// An instruction of a trampoline, wherever it will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrampolineStep {
    /// This word.
    Word(u32),
    /// LDR of a field.
    Load(Register, Field),
    /// STR to a field.
    Store(Register, Field),
    /// A branch behind the site.
    Back,
}

/// A trampoline, wherever it will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    steps: [TrampolineStep; MAX_STEPS],
    /// How many steps it has.
    count: usize,
    /// Whether its site is of T32.
    thumb: bool,
    /// What bit 7 of the value has to be that the first instruction stores, the PC.
    stores: Option<bool>,
}

const R0: u32 = 0;
const PC: Register = 15;
const SP: Register = 13;
/// From an instruction's address to the PC that it reads (DDI 0406C A2.3).
const PIPELINE: u32 = 8;

const CPSID_I: u32 = 0xf10c_0080;
const CPSIE_I: u32 = 0xf108_0080;

impl Template {
    fn new(steps: &[TrampolineStep]) -> Self {
        let mut all = [TrampolineStep::Back; MAX_STEPS];
        for (to, from) in all.iter_mut().zip(steps) {
            *to = *from;
        }
        Self {
            steps: all,
            count: steps.len().min(MAX_STEPS),
            thumb: false,
            stores: None,
        }
    }

    /// The trampoline for the A32 instruction `word`, behind which `free` is; `None` where a
    /// trap has to stay.
    pub fn of(word: u32, free: Free) -> Option<Self> {
        match word {
            CPSID_I => return Some(Self::mask(true)),
            CPSIE_I => return Some(Self::mask(false)),
            _ if word >> 28 == 0xf => return None,
            _ => {}
        }
        match word & 0x0fff_ffff {
            mrs if mrs & 0x0fff_0fff == 0x010f_0000 => mrs_current(rt(mrs)?, free),
            msr if msr & 0x0fff_fff0 == 0x0121_f000 => msr_control(word, free),
            mrs if mrs & 0x0fff_0fff == 0x014f_0000 => Some(load(rt(mrs)?, Field::SPSR)),
            msr if msr & 0x0fff_fff0 == 0x016f_f000 => Some(store(rm(msr)?, Field::SPSR)),
            other => system(other),
        }
    }

    /// The trampoline for a T32 instruction of two halfwords, the first one above, that is in no
    /// IT block.
    pub fn of_t32(both: u32, free: Free) -> Option<Self> {
        let same = Self::of(t32::as_a32(both)?, free)?;
        Some(Self {
            thumb: true,
            ..same
        })
    }

    /// CPSID I or CPSIE I.
    fn mask(masked: bool) -> Self {
        Self {
            stores: Some(masked),
            ..store(PC, Field::MASK)
        }
    }

    /// How many words it has.
    #[allow(clippy::len_without_is_empty)] // none is empty
    pub const fn len(&self) -> usize {
        self.count + if self.thumb { t32::MORE } else { 0 }
    }

    /// Where it can begin, at `at` or behind.
    pub const fn start(&self, at: u32) -> u32 {
        let before = if self.thumb { t32::ENTRY_BYTES } else { 0 } + PIPELINE;
        let value = at.wrapping_add(before);
        match self.stores {
            Some(wanted) if wanted != (value & MASKED != 0) => {
                (value & !(MASKED - 1)).wrapping_add(MASKED.wrapping_sub(before))
            }
            _ => at,
        }
    }

    /// Its words at `at` in a code page, for the instruction at `site`; `None` where one of them
    /// does not reach.
    pub fn word(&self, number: usize, at: u32, site: u32) -> Option<u32> {
        let here = at.wrapping_add(4 * number as u32);
        let behind = site.wrapping_add(4);
        if !self.thumb {
            let back = || branch(ALWAYS, here, behind);
            return self.steps().get(number)?.word(here, back);
        }
        let last = self.len() - 1;
        match number {
            0 => Some(t32::ENTRY),
            _ if number == last => Some(behind | t32::THUMB),
            _ => {
                let back = || t32::back(here, at.wrapping_add(4 * last as u32));
                self.steps().get(number - 1)?.word(here, back)
            }
        }
    }

    fn steps(&self) -> &[TrampolineStep] {
        self.steps.get(..self.count).unwrap_or(&[])
    }
}

impl TrampolineStep {
    /// Its word at `here` in a code page, where `back` leads behind the site.
    fn word(self, here: u32, back: impl Fn() -> Option<u32>) -> Option<u32> {
        match self {
            Self::Word(word) => Some(word),
            Self::Load(register, field) => reach(here, field).map(|to| LDR | to | register << 12),
            Self::Store(register, field) => reach(here, field).map(|to| STR | to | register << 12),
            Self::Back => back(),
        }
    }
}

/// LDR and STR of a word by the PC, of which U is added.
const LDR: u32 = 0xe51f_0000;
const STR: u32 = 0xe50f_0000;
const U: u32 = 1 << 23;
const ALWAYS: u32 = 0xe000_0000;

/// U and the distance from an instruction at `here` in a code page to a field's nearest alias.
fn reach(here: u32, field: Field) -> Option<u32> {
    let page = here & !(PAGE - 1);
    let alias = if field.is_doorbell() {
        page.wrapping_sub(PAGE)
    } else {
        page.wrapping_add(PAGE)
    };
    let (to, from) = (
        alias.wrapping_add(field.offset()),
        here.wrapping_add(PIPELINE),
    );
    let (add, distance) = if field.is_doorbell() {
        (0, from.wrapping_sub(to))
    } else {
        (U, to.wrapping_sub(from))
    };
    (distance < PAGE).then_some(add | distance)
}

/// B from `at` to `to` with the condition in bits 31 to 28, if it reaches.
pub fn branch(condition: u32, at: u32, to: u32) -> Option<u32> {
    let distance = to.wrapping_sub(at.wrapping_add(PIPELINE)) as i32;
    let fits = distance & 3 == 0 && distance >> 25 == distance >> 31;
    fits.then_some(condition & 0xf000_0000 | 0x0a00_0000 | distance as u32 >> 2 & 0x00ff_ffff)
}

/// Where the branch `word` at `at` goes, whatever its condition.
pub const fn branch_target(word: u32, at: u32) -> Option<u32> {
    if word >> 28 == 0xf || word & 0x0f00_0000 != 0x0a00_0000 {
        return None;
    }
    let distance = ((word << 8) as i32 >> 6) as u32;
    Some(at.wrapping_add(PIPELINE).wrapping_add(distance))
}

/// The branch that takes the place of `word` at `site`, to a trampoline at `at`: with the same
/// condition.
pub fn enter(word: u32, site: u32, at: u32) -> Option<u32> {
    let condition = if word >> 28 == 0xf { ALWAYS } else { word };
    branch(condition, site, at)
}

/// Rt of MRS, MRC and MCR; the PC is none.
fn rt(word: u32) -> Option<Register> {
    Some(word >> 12 & 0xf).filter(|register| *register != PC)
}

/// Rm of MSR.
fn rm(word: u32) -> Option<Register> {
    Some(word & 0xf).filter(|register| *register != PC)
}

/// A free register that is not `taken`.
fn scratch(free: Free, taken: Register) -> Option<Register> {
    let usable = |register: &Register| {
        free.registers >> register & 1 == 1 && *register != taken && *register != SP
    };
    (R0..PC).find(usable)
}

fn load(register: Register, field: Field) -> Template {
    Template::new(&[TrampolineStep::Load(register, field), TrampolineStep::Back])
}

fn store(register: Register, field: Field) -> Template {
    Template::new(&[TrampolineStep::Store(register, field), TrampolineStep::Back])
}

/// MRC, MCR, VMRS.
fn system(word: u32) -> Option<Template> {
    let register = rt(word)?;
    let read = word & 1 << 20 != 0;
    let known = KNOWN
        .iter()
        .find(|known| word & 0x0fef_0fff == known.mrc & !(1 << 20))?;
    if read {
        Some(load(register, known.field))
    } else {
        known.noted.then(|| store(register, known.field))
    }
}

/// MRS of CPSR: flags and GE are the real ones, the rest comes from the page.
fn mrs_current(to: Register, free: Free) -> Option<Template> {
    let with = scratch(free, to)?;
    Some(Template::new(&[
        TrampolineStep::Word(0xe10f_0000 | to << 12), // mrs to, cpsr
        TrampolineStep::Load(with, Field::PSR),
        TrampolineStep::Word(0xe1a0_0820 | to << 12 | to), // lsr to, to, #16
        TrampolineStep::Word(0xe180_0800 | with << 16 | to << 12 | to), // orr to, with, to, lsl #16
        TrampolineStep::Load(with, Field::MASK),
        TrampolineStep::Word(0xe200_0080 | with << 16 | with << 12), // and with, with, #I
        TrampolineStep::Word(0xe180_0000 | to << 16 | to << 12 | with), // orr to, to, with
        TrampolineStep::Back,
    ]))
}

/// MSR of CPSR_c: where mode and F stay as they are only I can change; else it traps.
fn msr_control(word: u32, free: Free) -> Option<Template> {
    let from = rm(word)?;
    let with = scratch(free, from)?;
    let svc = trap_a32(ALWAYS | word & !0xf000_0000)?;
    let load = TrampolineStep::Load(with, Field::PSR);
    let differs = TrampolineStep::Word(0xe020_0000 | with << 16 | with << 12 | from); // eor with, with, from
    // Beginning again it has other flags than its site, whose condition may look at them.
    if free.flags && word >> 28 == ALWAYS >> 28 {
        return Some(Template::new(&[
            load,
            differs,
            TrampolineStep::Word(0xe310_005f | with << 16), // tst with, #mode, T and F
            TrampolineStep::Word(0x1a00_0001),              // bne to the SVC
            TrampolineStep::Store(from, Field::MASK),
            TrampolineStep::Back,
            TrampolineStep::Word(svc),
            TrampolineStep::Back,
        ]));
    }
    let both = with << 16 | with << 12;
    Some(Template::new(&[
        load,
        differs,
        TrampolineStep::Word(0xe200_005f | both), // and with, with, #mode, T and F
        TrampolineStep::Word(0xe280_007f | both), // add with, with, #0x7f
        TrampolineStep::Word(0xe200_0080 | both), // and with, with, #0x80: it is another mode
        TrampolineStep::Word(0xe08f_f220 | with), // add pc, pc, with, lsr #4: to STR or SVC
        TrampolineStep::Word(0xe7f0_00f0),        // never executed
        TrampolineStep::Store(from, Field::MASK),
        TrampolineStep::Back,
        TrampolineStep::Word(svc),
        TrampolineStep::Back,
    ]))
}

/// Where a guest goes on that was interrupted at `pc` in a trampoline: at its site, as if that
/// had not begun, or behind it; bit 0 is set where that is T32, as in an address to branch to.
/// `fetch` gives the words of code pages; `None` where `pc` is in no trampoline.
///
/// An SVC that a trampoline took is such an interruption at the instruction behind it.
pub fn resume(pc: u32, fetch: impl Fn(u32) -> Option<u32>) -> Option<u32> {
    if !CODE.contains(&(pc & (PAGE - 1))) {
        return None;
    }
    for number in 0..MAX_WORDS as u32 {
        let at = (pc & !3).wrapping_add(4 * number);
        if let Some(behind) = goes_back(fetch(at)?, at, &fetch) {
            return Some(if number == 0 {
                behind
            } else {
                behind.wrapping_sub(4)
            });
        }
    }
    None
}

/// Where the last instruction of a trampoline leads, if `word` at `at` is one.
fn goes_back(word: u32, at: u32, fetch: impl Fn(u32) -> Option<u32>) -> Option<u32> {
    if word >> 24 == 0xea {
        return branch_target(word, at);
    }
    t32::literal(word, at).and_then(fetch)
}

/// What the first code page of a room begins with: so a room is known wherever it is.
pub const HEADER: [u32; 3] = [0x4f4e_4148, 0x4f52_204b, 0x0031_4d4f]; // "HANOK ROOM1"

/// The number of triples of the room whose first code page begins with `words`; `None` of
/// anything else.
pub fn room(words: [u32; 4]) -> Option<u32> {
    let [first, second, third, triples] = words;
    let sound = [first, second, third] == HEADER && (1..=1 << 12).contains(&triples);
    sound.then_some(triples)
}

#[cfg(test)]
mod tests;
