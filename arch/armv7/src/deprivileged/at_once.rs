//! Exits after which a guest goes on by the pCPU's record as it is: those that are served
//! [at once](hanok_deprivileged::AtOnce), those that need nothing of the monitor
//! ([`Direct`](hanok_deprivileged::Direct)), and others after which little has changed.

use super::common::{access, lines, pay, thread_registers};
use super::record::{Record, UserRegisters};
use super::vcpu::{Deprivileged, GuestMonitor};
use crate::{Host, Vcpu, write};
use hanok_cpu32::{Lines, Registers, SystemRegister};
use hanok_deprivileged::{Accessed, AtOnce, Direct, Invalidated, Trap};
use hanok_pcpu::{Local, Pcpu};
use hanok_vm::Cause;

/// What has come of an exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Served {
    /// The guest goes on by the record.
    GoesOn(Cause),
    /// It was served, and has left; the guest is to be entered anew.
    Leaves(Cause),
    /// It is to be served in another way, and nothing was done.
    Untouched,
}

/// Serves an exit at `pc` with which the guest can go on as it is in the record, or as the record is made then.
pub fn serve(
    vcpu: &mut Vcpu,
    local: &mut Local<Host>,
    record: &mut Record,
    (trap, pc): (&Trap, u32),
) -> Served {
    let (word, psr) = (record.word, record.guest.psr);
    let own = vcpu.context.deprivileged.as_deref();
    let direct = own.and_then(|own| own.monitor.direct(trap, word, psr, &record.crossing));
    match direct.map(|direct| carry_out(vcpu, local, &direct, &mut record.guest)) {
        Some(Some(cause)) => go_behind(vcpu, local, record, (pc, cause)),
        _ if trap.is_abort() => abort(vcpu, local, record, (trap, pc)),
        _ => invalidation(vcpu, record, (trap, pc)),
    }
}

/// Carries out the invalidation of a page.
fn invalidation(vcpu: &mut Vcpu, record: &mut Record, (trap, pc): (&Trap, u32)) -> Served {
    let own = vcpu.context.deprivileged.as_deref_mut();
    let Some(own) = own.filter(|_| *trap == Trap::Undefined) else {
        return Served::Untouched;
    };
    let (guest, behind) = (&record.guest, pc.wrapping_add(4));
    let registers = (&guest.general, behind, guest.psr);
    match own
        .monitor
        .invalidate_at_once(record.word, registers, &record.crossing)
    {
        None => Served::Untouched,
        Some(Invalidated::Leaves) => {
            leave(own, record, behind);
            Served::Leaves(Cause::SystemRegister)
        }
        Some(Invalidated::GoesOn(owed)) => {
            pay(owed);
            record.guest.pc = behind;
            record.choose_root(true);
            Served::GoesOn(Cause::SystemRegister)
        }
    }
}

/// Carries a direct access out, of a kernel with these registers; `None`, with nothing done, if there is no device.
fn carry_out(
    vcpu: &mut Vcpu,
    local: &Local<Host>,
    direct: &Direct,
    registers: &mut UserRegisters,
) -> Option<Cause> {
    let general = &mut registers.general;
    let stored = direct.write.then(|| direct.value(general));
    let loaded = access(vcpu, local, direct.what, stored)?;
    if !direct.write {
        direct.finish(general, loaded);
    }
    Some(match direct.what {
        Accessed::Timer(_) => Cause::Timer,
        Accessed::Device(_) => Cause::Device,
    })
}

/// The guest goes on behind its instruction at `pc`, which was carried out: by the record, if nothing waits for it.
fn go_behind(
    vcpu: &mut Vcpu,
    local: &mut Local<Host>,
    record: &mut Record,
    (pc, cause): (u32, Cause),
) -> Served {
    vcpu.rearm(local);
    let lines = lines(local);
    let Some(own) = vcpu.context.deprivileged.as_deref_mut() else {
        return Served::Leaves(cause);
    };
    let behind = pc.wrapping_add(4);
    let waited = own.monitor.kept_waiting(&record.crossing) != 0;
    if waited || lines != Lines::default() || local.board.machine.gic.is_kicked() {
        leave(own, record, behind);
        return Served::Leaves(cause);
    }
    record.guest.pc = behind;
    if record.crossing.status != 0 {
        record.choose_root(true);
    }
    Served::GoesOn(cause)
}

/// The guest has left, at `pc`.
#[inline(never)]
pub fn leave(own: &mut Deprivileged, record: &Record, pc: u32) {
    record.guest.give(&mut own.monitor.registers, pc);
    own.monitor.left(thread_registers(), &record.crossing);
}

/// Serves an abort at `pc` with which the guest can go on as it is in the record, or as the record is made then.
fn abort(
    vcpu: &mut Vcpu,
    local: &Local<Host>,
    record: &mut Record,
    (trap, pc): (&Trap, u32),
) -> Served {
    let Some(own) = vcpu.context.deprivileged.as_deref_mut() else {
        return Served::Untouched;
    };
    let host = own.memory(vcpu.unit, local.board);
    let Deprivileged { monitor, code, .. } = own;
    let Record {
        guest, crossing, ..
    } = record;
    let registers = |registers: &mut Registers| guest.give(registers, pc);
    let state = (thread_registers(), crossing);
    match monitor.abort_at_once(trap, state, registers, code, &host) {
        None => return Served::Untouched,
        Some(AtOnce::Filled(owed)) => {
            pay(owed);
            record.guest.pc = pc;
            record.choose_root(monitor.cpu.mode().is_privileged());
        }
        Some(AtOnce::Taken) => put_back(record, monitor),
    }
    Served::GoesOn(Cause::SystemRegister)
}

/// Whether the guest can be entered as it left, but for what serving its exit has changed. Whatever the exit was for, it was served
/// to its end, and only its registers and its interrupt lines have changed without the monitor.
pub fn goes_on(pcpu: &mut Pcpu<Host>, record: &mut Record, cause: Cause) -> bool {
    let (Some(vcpu), local) = pcpu.resident_and_local() else {
        return false;
    };
    let Some(own) = vcpu.context.deprivileged.as_deref_mut() else {
        return false;
    };
    // It has other registers of floating point.
    if cause == Cause::Fp {
        return false;
    }
    if own.is_outside() {
        own.take_back(&vcpu.context.regs);
    }
    // What the core has served may have changed interrupt lines, or have left this CPU something to look at first.
    if !matches!(cause, Cause::SystemRegister | Cause::Denied) {
        if local.board.machine.gic.is_kicked() {
            return false;
        }
        own.monitor.cpu.set_lines(lines(local));
    }
    let Some(owed) = own.monitor.goes_on(&mut record.crossing) else {
        return false;
    };
    pay(owed);
    put_back(record, &own.monitor);
    true
}

/// Puts the guest's registers back, for [`Crossing::roots`].
#[inline(never)]
fn put_back(record: &mut Record, monitor: &GuestMonitor) {
    write!("tpidr_el0", u64::from(monitor.tpidrurw()));
    write!(
        "tpidrro_el0",
        monitor.cpu.system(SystemRegister::Tpidruro).into()
    );
    record.guest.set_general(&monitor.registers.general);
    record.guest.pc = monitor.registers.pc;
    record.guest.psr = monitor.registers.psr.into_bits();
    record.choose_root(monitor.cpu.mode().is_privileged());
}
