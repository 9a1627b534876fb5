//! A rewritten instruction, and the virtual CPU that executes it.

use super::effects::Random;
use super::memory;
use super::run::{MASKS, Outcome, State, USER};
use core::arch::asm;
use hanok_abi::trampoline::Field;
use hanok_abi::trampoline::model::{Cpu, FLAGS, Page};

/// What an instruction was rewritten to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A branch to a trampoline.
    Trampoline,
    /// A read of another register.
    Word,
    /// SVC, or UDF in an IT block.
    Trap,
}

/// A rewritten instruction.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Its entry address; bit 0 is set for T32.
    pub entry: u32,
    /// Its address.
    pub site: u32,
    /// The instruction before the rewrite.
    pub bits: u32,
    /// The equivalent A32 instruction, of an instruction that has a trampoline.
    pub word: u32,
    /// What it was rewritten to.
    pub form: Form,
    /// The code behind it sets R12 to 0.
    pub register: bool,
    /// The code behind it sets N and Z to 0 and 1.
    pub flags: bool,
}

/// The counts.
#[derive(Default)]
pub struct Counts {
    /// Trampolines that ran to their end.
    pub trampolines: u32,
    /// Interruptions inside trampolines.
    pub interruptions: u32,
    /// Faults at the doorbell.
    pub doorbells: u32,
    /// Traps.
    pub traps: u32,
    /// Reads of another register.
    pub others: u32,
}

/// The model of a virtual CPU in this state.
pub fn cpu(state: &State, page: Page) -> Cpu {
    Cpu {
        registers: state.registers,
        flags: state.status & FLAGS,
        page,
    }
}

/// A virtual CPU before it executes an instruction.
#[derive(Clone, Copy)]
pub struct Virtual {
    /// Its real state.
    pub state: State,
    /// Its page.
    pub page: Page,
    /// Bits that User mode must not see.
    pub thread: u32,
}

impl Virtual {
    /// A random state, in a mode that exists; one register holds this mode, as is usual for MSR.
    pub fn any(case: &Case, random: &mut Random) -> Self {
        let mut page = Page::default();
        for field in Field::all() {
            page.put(field, random.next());
        }
        let modes = [0x10, 0x12, 0x13, 0x17, 0x1f];
        let psr = modes[random.next() as usize % modes.len()] | random.next() & 0x40 | 0x100;
        page.put(Field::PSR, psr);
        let mut registers = core::array::from_fn(|_| random.next());
        let source = registers.get_mut((case.word & 0xf) as usize);
        if let Some(source) = source
            && random.next() & 3 != 0
        {
            *source = *source & !0x7f | psr & 0x5f;
        }
        let status = USER | MASKS | random.next() & FLAGS;
        Self {
            state: State { registers, status },
            page,
            thread: random.next(),
        }
    }

    /// Writes the state where the program finds it.
    pub fn load(&self) {
        memory::set_page(&self.page);
        // SAFETY: TPIDRURW is a number for User mode's programs.
        unsafe { asm!("mcr p15, 0, {0}, c13, c0, 2", in(reg) self.thread) };
    }

    /// Whether the condition in bits 31 to 28 of an A32 instruction holds.
    pub fn executes(&self, word: u32) -> bool {
        let cpu = cpu(&self.state, self.page);
        word >> 28 == 0xf || cpu.holds(word >> 28)
    }
}

/// Returns whether registers, flags and page are unchanged.
pub fn unchanged(outcome: &Outcome, before: &Virtual) -> Result<(), &'static str> {
    if outcome.after.registers != before.state.registers {
        return Err("a register is another");
    }
    if (outcome.after.status ^ before.state.status) & FLAGS != 0 {
        return Err("a flag is another");
    }
    if memory::page() == before.page {
        Ok(())
    } else {
        Err("the virtual CPU's page is another")
    }
}

/// The program's own SVC behind a case, which needs bytes of its own before it.
pub fn end(case: &Case) -> u32 {
    let (thumb, narrow) = (case.entry & 1 == 1, case.bits >> 16 == 0);
    let more = u32::from(case.register) * 4 + u32::from(case.flags) * 4;
    case.site + if narrow { 2 } else { 4 } + more + if thumb { 2 } else { 4 }
}
