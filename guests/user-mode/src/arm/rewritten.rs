//! Runs in User mode what a program's sensitive instructions were rewritten to.

use super::board::Console;
use super::case::{Case, Counts, Form, Virtual, end, unchanged};
use super::effects::Random;
use super::memory;
use super::run::{Exception, run_at};
use super::trampolines;
use core::fmt::Write;
use hanok_abi::trap::{
    Original, original_a32, original_conditional, original_narrow, original_wide,
};

include!(concat!(env!("OUT_DIR"), "/cases.rs"));

/// In how many states each is run.
const STATES: u32 = 12;
/// How many wrong instructions are printed.
const SHOWN: u32 = 40;

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
