//! Runs trampolines: to their end, interrupted at each of their instructions, and with a read-only
//! doorbell.

use super::case::{Case, Counts, Virtual, cpu, end, unchanged};
use super::memory::{self, fetch, is_area};
use super::mmu::{VIRTUAL_CPU, map_area};
use super::run::{Exception, MASKS, Outcome, State, USER, run_at};
use hanok_abi::trampoline::model::{Cpu, FLAGS};
use hanok_abi::trampoline::{Field, Resumption, branch_target, resume, t32};
use hanok_abi::trap::{Original, original_a32};

const ALWAYS: u32 = 0xe000_0000;
const Z: u32 = 1 << 30;
const N: u32 = 1 << 31;
/// UDF, which is undefined whatever the flags are (DDI 0406C A8.8.247).
const UDF_A32: u32 = 0xe7f0_00f0;
const UDF_T32: u32 = 0xde00;
/// STR relative to the PC, to an address before it: how a trampoline rings a doorbell.
const RINGS: u32 = 0x050f_0000;

type Result = core::result::Result<(), &'static str>;

/// Makes all three kinds of run.
pub fn one(case: &Case, before: &Virtual, counts: &mut Counts) -> Result {
    let wanted = wanted(case, before)?;
    before.load();
    finish(case, before, run_at(case.entry, before.state), &wanted)?;
    counts.trampolines += 1;
    interrupted(case, before, &wanted, counts)?;
    map_area(false);
    let rung = doorbell(case, before, &wanted, counts);
    map_area(true);
    rung
}

/// The expected result, by the model and by the code behind the instruction.
fn wanted(case: &Case, before: &Virtual) -> core::result::Result<Cpu, &'static str> {
    let mut wanted = cpu(&before.state, before.page);
    wanted
        .emulate(case.word)
        .ok_or("the model does not know it")?;
    if case.register {
        wanted.registers[12] = 0;
    }
    if case.flags {
        wanted.flags = wanted.flags & !N | Z;
    }
    Ok(wanted)
}

/// Continues to the end, emulating the SVC that a trampoline may execute.
fn finish(case: &Case, before: &Virtual, outcome: Outcome, wanted: &Cpu) -> Result {
    let outcome = match outcome.exception {
        Exception::Supervisor if is_area(outcome.at) => go_on(case, before, outcome)?,
        _ => outcome,
    };
    if (outcome.exception, outcome.at) != (Exception::Supervisor, end(case)) {
        return Err("it does not come back behind its site");
    }
    let found = cpu(&outcome.after, memory::page());
    if found.registers != wanted.registers {
        return Err("a register is another");
    }
    if found.flags != wanted.flags {
        return Err("a flag is another");
    }
    if found.page.same(&wanted.page) {
        Ok(())
    } else {
        Err("the virtual CPU's page is another")
    }
}

/// Does what the hypervisor does with an SVC in a trampoline: emulates the instruction, and
/// continues behind its site.
fn go_on(
    case: &Case,
    before: &Virtual,
    outcome: Outcome,
) -> core::result::Result<Outcome, &'static str> {
    let svc = fetch(outcome.at - 4).and_then(original_a32);
    if svc != Some(Original::Word(ALWAYS | case.word & !0xf000_0000)) {
        return Err("its SVC stands for something else");
    }
    if !same_but_free(case, &outcome, before) {
        return Err("it changed something before its SVC");
    }
    let found = resume(outcome.at, fetch).ok_or("its SVC is in no trampoline")?;
    let mut machine = cpu(&outcome.after, memory::page());
    machine
        .emulate(ALWAYS | case.word & !0xf000_0000)
        .ok_or("the model does not know what its SVC stands for")?;
    memory::set_page(&machine.page);
    let state = State {
        registers: machine.registers,
        status: USER | MASKS | machine.flags,
    };
    Ok(run_at(found.to, state))
}

/// The state is as before the instruction, except for registers that are free there.
fn same_but_free(case: &Case, outcome: &Outcome, before: &Virtual) -> bool {
    let mut like = *outcome;
    if case.register {
        like.after.registers[12] = before.state.registers[12];
    }
    if case.flags {
        like.after.status = like.after.status & !(N | Z) | before.state.status & (N | Z);
    }
    unchanged(&like, before).is_ok()
}

/// Where a case's trampoline begins.
fn place(case: &Case) -> Option<u32> {
    if case.entry & 1 == 0 {
        return branch_target(memory::read(case.site)?, case.site);
    }
    let halves = [case.site, case.site + 2].map(|at| {
        let word = memory::read(at & !3).unwrap_or(0);
        word >> (8 * (at & 2)) & 0xffff
    });
    t32::entered(halves[0] << 16 | halves[1], case.site)
}

/// Returns whether `at` is in the trampoline of a case.
fn is_its(case: &Case, at: u32) -> bool {
    let behind = case.entry + 4;
    resume(at, fetch).is_some_and(|found| found.to == case.entry || found.to == behind)
}

/// Leaves a trampoline that was interrupted at `at`: restores what it has spilled, forgets that, and returns where its
/// rule says to go on.
fn leave(at: u32, state: &mut State) -> Option<u32> {
    let Resumption { to, restored } = resume(at, fetch)?;
    let scratch = VIRTUAL_CPU + Field::SCRATCH.offset();
    if let Some(register) = restored {
        *state.registers.get_mut(register as usize)? = memory::read(scratch)?;
    }
    memory::write(scratch, !0);
    Some(to)
}

/// Runs the trampoline once for each of its instructions, with an exception in place of that
/// instruction; then continues from where the trampoline's rule says.
fn interrupted(case: &Case, before: &Virtual, wanted: &Cpu, counts: &mut Counts) -> Result {
    let start = place(case).ok_or("its site is no branch")?;
    let mut at = start;
    while is_its(case, at) {
        let word = fetch(at).ok_or("its trampoline is in no code page")?;
        let thumb = case.entry & 1 == 1 && at == start;
        let udf = if thumb {
            word & !0xffff | UDF_T32
        } else {
            UDF_A32
        };
        memory::write(at, udf);
        before.load();
        let mut outcome = run_at(case.entry, before.state);
        memory::write(at, word);
        if outcome.exception == Exception::Undefined {
            if outcome.at != at || outcome.after.is_thumb() != thumb {
                return Err("it was interrupted elsewhere");
            }
            let next = leave(at, &mut outcome.after).ok_or("there is no way on")?;
            counts.interruptions += 1;
            let again = run_at(next, plain(&outcome.after));
            finish(case, before, again, wanted)?;
        } else {
            // This path does not reach that instruction.
            finish(case, before, outcome, wanted)?;
        }
        at += 4;
    }
    if at == start {
        Err("no place of its trampoline is known")
    } else {
        Ok(())
    }
}

/// The state to continue with, in either instruction set.
fn plain(state: &State) -> State {
    State {
        status: USER | MASKS | state.status & FLAGS,
        ..*state
    }
}

/// Runs the trampoline while an interrupt is pending: a store to the doorbell faults at that
/// instruction, before any effect; everything else continues.
fn doorbell(case: &Case, before: &Virtual, wanted: &Cpu, counts: &mut Counts) -> Result {
    before.load();
    let mut outcome = run_at(case.entry, before.state);
    if outcome.exception != Exception::DataAbort {
        return finish(case, before, outcome, wanted);
    }
    let word = fetch(outcome.at).unwrap_or(0);
    if word & 0x0fff_0000 != RINGS {
        return Err("what faulted is no store to the doorbell");
    }
    if leave(outcome.at, &mut outcome.after) != Some(case.entry) {
        return Err("it does not begin again at its site");
    }
    if !same_but_free(case, &outcome, before) {
        return Err("it changed something before the doorbell");
    }
    counts.doorbells += 1;
    map_area(true);
    let again = run_at(case.entry, plain(&outcome.after));
    finish(case, before, again, wanted)
}
