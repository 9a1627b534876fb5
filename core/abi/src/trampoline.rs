//! Trampolines: a sensitive instruction is rewritten to a branch to a few instructions that do the
//! same to the virtual CPU in User mode, so that it does not trap.
//!
//! The virtual CPU is a page ([`Field`]) that the hypervisor maps beside the code and reads
//! whenever it needs its state; it trusts nothing in it. The code needs no base register, because
//! LDR and STR reach 4 KB from the PC: a room is a row of triples of pages, each of which is an
//! alias of the virtual CPU's page as a *doorbell*, a page of code, and a plain alias. The doorbell
//! is read-only while a virtual interrupt is pending. So unmasking interrupts checks nothing: its
//! store to the doorbell faults if one is pending, and the hypervisor then does what the rewritten
//! instruction does. The plain alias can always be written.
//!
//! The interrupt mask is bit 7 of its word, as in the CPSR. CPS stores the PC, whose bit 7 depends
//! on the address of the store. So it needs neither a scratch register nor the flags, only an
//! address of the store with the right bit 7 ([`Template::start`]).
//!
//! An interrupt in the middle of a trampoline is harmless ([`resume`]): before its last instruction
//! but one a trampoline writes nothing that it reads, so that it can begin again; that instruction
//! commits; and the last one branches behind the site, which is the place of the rewritten
//! instruction. So the board needs no table: the last branch tells the site.
//!
//! Where a template needs a register and none is free, it *spills* one: its first instruction stores
//! the register to [`Field::SCRATCH`], and right before each last branch, or the SVC before it, a load restores it. That
//! load tells which register was spilled, so that whoever interrupts the trampoline can restore it instead.
//!
//! T32 cannot store relative to the PC (DDI 0406C A8.8.203), so a T32 trampoline goes on in A32,
//! and returns by a literal ([`t32`]).

pub mod model;
mod resume;
mod status;
pub mod t32;
mod thread;
mod user;

pub use resume::{Resumption, resume};
use status::{mrs_current, msr_control};
pub use thread::ThreadWrite;
use user::{load_user, store_user};

/// The size of a page in bytes.
pub const PAGE: u32 = 0x1000;
/// The size of a triple in bytes: doorbell, code, plain alias.
pub const TRIPLE: u32 = 3 * PAGE;
/// The most triples of one kernel that the hypervisor maps the virtual CPU's page for: so many doorbells it has to
/// close at once.
pub const MOST_TRIPLES: u32 = 256;
/// The distance from the doorbell page to the code page.
pub const TO_CODE: u32 = PAGE;
/// The part of a code page in which trampolines may be: from there they reach the fields of both
/// aliases.
pub const CODE: core::ops::Range<u32> = 0x80..0xf70;
/// The largest number of instructions in a trampoline.
const MAX_STEPS: usize = 15;
/// The largest number of words in a trampoline.
pub const MAX_WORDS: usize = MAX_STEPS + t32::MORE;

/// A word of the virtual CPU's page, by its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field(u16);

impl Field {
    /// SP of User mode, while the kernel runs in a mode with another one.
    pub const USER_SP: Self = Self(0x00);
    /// LR of User mode, in the same way.
    pub const USER_LR: Self = Self(0x04);
    /// The lower sixteen bits of CPSR: mode, F, A and E; I is clear there.
    pub const PSR: Self = Self(0x08);
    /// SPSR of the current mode.
    pub const SPSR: Self = Self(0x0c);
    /// DACR.
    pub const DACR: Self = Self(0x10);
    /// TPIDRURW, whose register holds the kernel's own value of TPIDRPRW.
    pub const TPIDRURW: Self = Self(0x14);
    /// SCTLR.
    pub const SCTLR: Self = Self(0x18);
    /// ACTLR.
    pub const ACTLR: Self = Self(0x1c);
    /// CPACR.
    pub const CPACR: Self = Self(0x20);
    /// TTBR0.
    pub const TTBR0: Self = Self(0x24);
    /// TTBR1.
    pub const TTBR1: Self = Self(0x28);
    /// TTBCR.
    pub const TTBCR: Self = Self(0x2c);
    /// DFSR.
    pub const DFSR: Self = Self(0x30);
    /// IFSR.
    pub const IFSR: Self = Self(0x34);
    /// DFAR.
    pub const DFAR: Self = Self(0x38);
    /// IFAR.
    pub const IFAR: Self = Self(0x3c);
    /// CONTEXTIDR.
    pub const CONTEXTIDR: Self = Self(0x40);
    /// MIDR.
    pub const MIDR: Self = Self(0x44);
    /// CTR.
    pub const CTR: Self = Self(0x48);
    /// MPIDR.
    pub const MPIDR: Self = Self(0x4c);
    /// PAR.
    pub const PAR: Self = Self(0x50);
    /// FPEXC.
    pub const FPEXC: Self = Self(0x54);
    /// TPIDRURO, as the kernel has written it last. The CPU's own register has that value, too, whenever a kernel may read it
    /// ([`ThreadWrite`]).
    pub const TPIDRURO: Self = Self(0x58);
    /// A register that a trampoline has spilled. It is the guest's alone: nobody else writes it, not even when the
    /// guest is entered in the middle of the trampoline.
    pub const SCRATCH: Self = Self(0x60);
    /// I, in bit 7; the other bits have no meaning. It is written through the doorbell.
    pub const MASK: Self = Self(0xf80);

    /// All fields that show the virtual CPU: those but [`Self::SCRATCH`].
    pub fn all() -> impl Iterator<Item = Self> {
        (0..Self::TPIDRURO.0 / 4 + 1)
            .map(Self::of_word)
            .chain([Self::MASK])
    }

    /// The field in this word of the page.
    pub const fn of_word(word: u16) -> Self {
        Self(4 * word)
    }

    /// The offset from the start of the page, in bytes.
    pub const fn offset(self) -> u32 {
        self.0 as u32
    }

    /// Whether the field is reached through the doorbell, which is before the code.
    pub const fn is_doorbell(self) -> bool {
        self.0 >= 0x800
    }
}

/// The bit of [`Field::MASK`] that is used.
pub const MASKED: u32 = 1 << 7;

/// A system register that is a field.
struct Known {
    /// The MRC that reads it, without condition and Rt.
    mrc: u32,
    field: Field,
    /// Whether MCR only changes the stored value, so that a store can replace it.
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

/// The system registers by their MRC. Those that can only be read change by a trap or an exception,
/// when the hypervisor writes the page.
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

/// The registers and flags that are free after a site, because their values are not used there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// The registers; bit n is Rn. The bits of SP, LR and PC are ignored.
    pub registers: u16,
    /// Whether N and Z are free.
    pub flags: bool,
}

/// The number of a register.
type Register = u32;

/// An instruction of a trampoline, before its address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TrampolineStep {
    /// This word.
    Word(u32),
    /// An LDR of a field.
    Load(Register, Field),
    /// An STR to a field.
    Store(Register, Field),
    /// A branch behind the site.
    Back,
    /// The same if Z is set.
    BackIfEqual,
}

/// A trampoline, before its address is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Template {
    steps: [TrampolineStep; MAX_STEPS],
    /// The number of steps.
    count: usize,
    /// Whether the site is T32 code.
    thumb: bool,
    /// If the first instruction stores the PC: the value that bit 7 of it must have.
    stores: Option<bool>,
}

const PC: Register = 15;
const SP: Register = 13;
/// The distance from an instruction's address to the PC that it reads (DDI 0406C A2.3).
const PIPELINE: u32 = 8;

const CPSID_I: u32 = 0xf10c_0080;
const CPSIE_I: u32 = 0xf108_0080;

impl Template {
    const EMPTY: Self = Self {
        steps: [TrampolineStep::Back; MAX_STEPS],
        count: 0,
        thumb: false,
        stores: None,
    };

    fn new(steps: &[TrampolineStep]) -> Self {
        Self::EMPTY.with(steps)
    }

    /// With these steps behind those that it has.
    fn with(mut self, steps: &[TrampolineStep]) -> Self {
        let places = self.steps.iter_mut().skip(self.count);
        for (to, from) in places.zip(steps) {
            *to = *from;
            self.count += 1;
        }
        self
    }

    /// The trampoline for the A32 instruction `word`, with what is `free` after it; `None` if only
    /// a trap can replace the instruction.
    pub fn of(word: u32, free: Free) -> Option<Self> {
        match word {
            CPSID_I => return Some(Self::mask(true)),
            CPSIE_I => return Some(Self::mask(false)),
            _ if word >> 28 == 0xf => return None,
            _ => {}
        }
        match word & 0x0fff_ffff {
            mrs if mrs & 0x0fff_0fff == 0x010f_0000 => Some(mrs_current(rt(mrs)?, free)),
            msr if msr & 0x0fff_fff0 == 0x0121_f000 => msr_control(word, free),
            mrs if mrs & 0x0fff_0fff == 0x014f_0000 => Some(load(rt(mrs)?, Field::SPSR)),
            msr if msr & 0x0fff_fff0 == 0x016f_f000 => Some(store(rm(msr)?, Field::SPSR)),
            stm if word >> 28 == ALWAYS >> 28 && stm & 0x0ff0_ffff == 0x0940_6000 => {
                store_user(stm >> 16 & 0xf, free)
            }
            ldm if word >> 28 == ALWAYS >> 28 && ldm & 0x0ff0_e000 == 0x0950_6000 => {
                load_user(ldm >> 16 & 0xf, ldm & 0x1fff)
            }
            other => system(other),
        }
    }

    /// The trampoline for a T32 instruction of two halfwords, the first one in the upper half, that
    /// is in no IT block.
    pub fn of_t32(both: u32, free: Free) -> Option<Self> {
        let same = Self::of(t32::as_a32(both)?, free)?;
        Some(Self {
            thumb: true,
            ..same
        })
    }

    /// The trampoline for CPSID I or CPSIE I.
    fn mask(masked: bool) -> Self {
        Self {
            stores: Some(masked),
            ..store(PC, Field::MASK)
        }
    }

    /// Whether it writes through the doorbell.
    pub fn rings(&self) -> bool {
        let mut steps = self.steps.iter().take(self.count);
        steps.any(|step| matches!(step, TrampolineStep::Store(_, field) if field.is_doorbell()))
    }

    /// The number of words.
    #[allow(clippy::len_without_is_empty)] // none is empty
    pub const fn len(&self) -> usize {
        self.count + if self.thumb { t32::MORE } else { 0 }
    }

    /// The first address at or after `at` where the trampoline may begin.
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

    /// Word `number` of the trampoline at `at` in a code page, for the instruction at `site`;
    /// `None` if one of its targets is out of reach.
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
    /// The word of this step at `here` in a code page. `back` makes the branch behind the site.
    fn word(self, here: u32, back: impl Fn() -> Option<u32>) -> Option<u32> {
        match self {
            Self::Word(word) => Some(word),
            Self::Load(register, field) => reach(here, field).map(|to| LDR | to | register << 12),
            Self::Store(register, field) => reach(here, field).map(|to| STR | to | register << 12),
            Self::Back => back(),
            Self::BackIfEqual => back().map(|always| always & !ALWAYS),
        }
    }
}

/// LDR and STR of a word relative to the PC; U is to be added.
const LDR: u32 = 0xe51f_0000;
const STR: u32 = 0xe50f_0000;
const U: u32 = 1 << 23;
const ALWAYS: u32 = 0xe000_0000;

/// U and the distance from an instruction at `here` in a code page to the nearest alias of a field.
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

/// B from `at` to `to`, with the condition in bits 31 to 28; `None` if `to` is out of reach.
pub fn branch(condition: u32, at: u32, to: u32) -> Option<u32> {
    let distance = to.wrapping_sub(at.wrapping_add(PIPELINE)) as i32;
    let fits = distance & 3 == 0 && distance >> 25 == distance >> 31;
    fits.then_some(condition & 0xf000_0000 | 0x0a00_0000 | distance as u32 >> 2 & 0x00ff_ffff)
}

/// The target of the branch `word` at `at`, whatever its condition; `None` if it is no branch.
pub const fn branch_target(word: u32, at: u32) -> Option<u32> {
    if word >> 28 == 0xf || word & 0x0f00_0000 != 0x0a00_0000 {
        return None;
    }
    let distance = ((word << 8) as i32 >> 6) as u32;
    Some(at.wrapping_add(PIPELINE).wrapping_add(distance))
}

/// The branch that replaces `word` at `site`, with the same condition, to a trampoline at `at`.
pub fn enter(word: u32, site: u32, at: u32) -> Option<u32> {
    let condition = if word >> 28 == 0xf { ALWAYS } else { word };
    branch(condition, site, at)
}

/// Rt of MRS, MRC and MCR; `None` for the PC.
fn rt(word: u32) -> Option<Register> {
    Some(word >> 12 & 0xf).filter(|register| *register != PC)
}

/// Rm of MSR.
fn rm(word: u32) -> Option<Register> {
    Some(word & 0xf).filter(|register| *register != PC)
}

fn load(register: Register, field: Field) -> Template {
    Template::new(&[TrampolineStep::Load(register, field), TrampolineStep::Back])
}

fn store(register: Register, field: Field) -> Template {
    Template::new(&[TrampolineStep::Store(register, field), TrampolineStep::Back])
}

/// The trampoline for MRC, MCR or VMRS.
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

/// The first words of the first code page of a room, by which a room is recognised anywhere.
pub const HEADER: [u32; 3] = [0x4f4e_4148, 0x4f52_204b, 0x0032_4d4f]; // "HANOK ROOM2"

/// A row of triples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// How many they are.
    pub triples: u32,
    /// How many of them, the first ones, have trampolines that write through their doorbells. The other doorbells may
    /// always be read-only.
    pub doorbells: u32,
    /// Whether a call of a program's may find in TPIDRURO what the kernel had there when it last went back: it reads it
    /// nowhere before it writes it.
    pub foresees: bool,
}

/// The bit of the second word that says [`Room::foresees`].
const FORESEES: u32 = 1 << 31;

impl Room {
    /// The words behind [`HEADER`].
    pub const fn words(self) -> [u32; 2] {
        let foresees = if self.foresees { FORESEES } else { 0 };
        [self.triples, self.doorbells | foresees]
    }
}

/// The room whose first code page begins with `words`; `None` if they are not the beginning of one.
pub fn room(words: [u32; 5]) -> Option<Room> {
    let [first, second, third, triples, how] = words;
    let doorbells = how & !FORESEES;
    let sound = [first, second, third] == HEADER
        && (1..=1 << 12).contains(&triples)
        && doorbells <= triples;
    sound.then_some(Room {
        triples,
        doorbells,
        foresees: how & FORESEES != 0,
    })
}

#[cfg(test)]
mod tests;
