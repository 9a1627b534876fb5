//! Runs in User mode what a program's sensitive instructions were rewritten to.

use super::board::Console;
use super::effects::Random;
use super::memory;
use super::run::{Exception, MASKS, Outcome, State, USER, run_at};
use super::trampolines;
use core::arch::asm;
use core::fmt::Write;
use hanok_abi::trampoline::Field;
use hanok_abi::trampoline::model::{FLAGS, Page};
use hanok_abi::trap::{
    Original, original_a32, original_conditional, original_narrow, original_wide,
};

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
    /// The code behind it sets R12 to 0...
    pub register: bool,
    /// ... and N and Z accordingly.
    pub flags: bool,
}

include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// In how many states each is run.
const STATES: u32 = 12;
/// How many wrong instructions are printed.
const SHOWN: u32 = 40;

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

/// Runs all rewritten instructions.
pub fn all(console: &mut Console) {
    let segments = memory::load();
    let (mut counts, mut random, mut wrong) = (Counts::default(), Random(2), 0);
    for case in CASES {
        for _ in 0..STATES {
            let before = Virtual::any(case, &mut random);
            let result = match case.form {
                Form::Trampoline => trampolines::one(case, &before, &mut counts),
                Form::Word => borrowed(case, &before, &mut counts),
                Form::Trap => traps(case, &before, &mut counts),
            };
            if let Err(why) = result {
                wrong += 1;
                if wrong <= SHOWN {
                    let _ = writeln!(console, "FAIL: {case:x?}: {why}");
                }
            }
        }
    }
    let forms = |form| CASES.iter().filter(|case| case.form == form).count();
    let Counts {
        trampolines,
        interruptions,
        doorbells,
        traps,
        others,
    } = counts;
    let _ = writeln!(
        console,
        "user-mode: {} segments, {} instructions with a trampoline, {} that trap",
        segments.unwrap_or(0),
        forms(Form::Trampoline),
        forms(Form::Trap)
    );
    let _ = writeln!(
        console,
        "user-mode: {trampolines} trampolines, {interruptions} interrupted, {doorbells} at the \
         doorbell, {traps} traps, {others} reads of another register, {wrong} wrong"
    );
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
    fn any(case: &Case, random: &mut Random) -> Self {
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
    fn executes(&self, word: u32) -> bool {
        let cpu = trampolines::cpu(&self.state, self.page);
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

/// A form that traps.
fn traps(case: &Case, before: &Virtual, counts: &mut Counts) -> Result<(), &'static str> {
    before.load();
    let outcome = run_at(case.entry, before.state);
    unchanged(&outcome, before)?;
    let thumb = case.entry & 1 == 1;
    let inside = case.entry & !1 != case.site;
    // IT NE, or the instruction's own condition.
    let executes = match (inside, thumb) {
        (true, _) => before.state.status & 1 << 30 == 0,
        (false, true) => true,
        (false, false) => before.executes(case.bits),
    };
    if !executes && outcome.exception == Exception::Supervisor && outcome.at == end(case) {
        return Ok(());
    }
    let behind = case.site + if thumb { 2 } else { 4 };
    let (exception, at) = if inside {
        (Exception::Undefined, case.site)
    } else {
        (Exception::Supervisor, behind)
    };
    // UDF may trap although its condition fails (DDI 0406C A2.5.3).
    if !(executes || inside) || (outcome.exception, outcome.at) != (exception, at) {
        return Err("the exception is another");
    }
    counts.traps += 1;
    match original(case, inside) {
        Some(bits) if bits == case.bits => Ok(()),
        _ => Err("the trap stands for something else"),
    }
}

/// What the trap at a case's site says which instruction it replaces.
fn original(case: &Case, inside: bool) -> Option<u32> {
    let halves = [case.site, case.site + 2].map(|at| {
        let word = memory::read(at & !3).unwrap_or(0);
        word >> (8 * (at & 2)) & 0xffff
    });
    let wide = halves[0] << 16 | halves[1];
    match (case.entry & 1, inside) {
        (0, _) => match original_a32(wide.rotate_left(16))? {
            Original::Word(word) => Some(word),
            Original::Index(number) => WORDS.get(number as usize).copied(),
        },
        (_, true) => original_conditional(wide),
        _ if case.bits >> 16 == 0 => original_narrow(halves[0] as u16).map(u32::from),
        _ => original_wide(wide),
    }
}

/// A read of TPIDRPRW returns what the hypervisor wrote to TPIDRURW.
fn borrowed(case: &Case, before: &Virtual, counts: &mut Counts) -> Result<(), &'static str> {
    before.load();
    let outcome = run_at(case.entry, before.state);
    let mut wanted = *before;
    if let Some(register) = wanted
        .state
        .registers
        .get_mut((case.bits >> 12 & 0xf) as usize)
    {
        *register = before.thread;
    }
    counts.others += 1;
    unchanged(&outcome, &wanted)?;
    if (outcome.exception, outcome.at) == (Exception::Supervisor, end(case)) {
        Ok(())
    } else {
        Err("it trapped")
    }
}
