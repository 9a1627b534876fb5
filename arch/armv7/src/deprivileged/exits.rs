//! The way of an exit from the window to the core, and back.

use super::at_once::{self, Served};
use super::common::{access, lines, pay};
use super::record::Record;
use super::vcpu::{Deprivileged, memory};
use super::window;
use crate::{Host, Vcpu, read, write};
use hanok_arm_common::cpu::{self, Cpu};
use hanok_arm_common::host_gic::KICK;
use hanok_cpu32::{Movement, SystemRegister, TimerAccess, Wait};
use hanok_deprivileged::{Accessed, Answer, Crossing, Device, Stopped, Trap};
use hanok_hal::Backend;
use hanok_pcpu::{After, FpAccess, Local, Pcpu, guest};
use hanok_trace::Event;
use hanok_vm::{Action, Cause, DataAbort, Ending, Exit, Instruction, StopReason};

/// Numbers of vectors.
mod vector {
    pub const UNDEFINED: u32 = 1;
    pub const CALL: u32 = 2;
    pub const PREFETCH: u32 = 3;
    pub const DATA: u32 = 4;
}

/// The exception by which the guest left; `None` for an interrupt.
fn trap(number: u32) -> Option<Trap> {
    Some(match number {
        vector::UNDEFINED => Trap::Undefined,
        vector::CALL => Trap::SupervisorCall,
        vector::PREFETCH => Trap::PrefetchAbort {
            status: read!("ifsr32_el2") as u32,
            address: read!("ifar_el1") as u32,
        },
        vector::DATA => Trap::DataAbort {
            status: read!("esr_el1") as u32,
            address: read!("dfar_el1") as u32,
        },
        _ => return None,
    })
}

/// Lets this CPU have guests. `stack` is the top of its stack.
pub fn install(stack: u64) {
    window::install(stack, exited);
}

/// Called by the window, on the pCPU's stack.
extern "C" fn exited(record: *mut Record, number: u32) -> ! {
    // SAFETY: the window passes this CPU's record, which nothing else refers to.
    let record = unsafe { &mut *record };
    // SAFETY: a guest ran here, so that the CPU's record is installed, and nothing refers to it.
    let cpu = unsafe { cpu::here::<Host>() };
    let trap = trap(number);
    let pc = record.pc_of(trap.as_ref());
    let served = match (&trap, cpu.pcpu().resident_and_local()) {
        (Some(trap), (Some(vcpu), local)) => {
            local.exited(vcpu, u64::from(number) << 26, pc.into());
            at_once::serve(vcpu, local, record, (trap, pc))
        }
        _ => Served::Untouched,
    };
    let (goes_on, (cause, after)) = match served {
        Served::GoesOn(cause) => (true, (cause, After::Resume)),
        Served::Leaves(cause) => (false, (cause, After::Resume)),
        Served::Untouched => {
            let (cause, after) = serve(cpu.pcpu(), record, trap, pc);
            let goes_on = after == After::Resume && at_once::goes_on(cpu.pcpu(), record, cause);
            (goes_on, (cause, after))
        }
    };
    if goes_on {
        if let (Some(vcpu), local) = cpu.pcpu().resident_and_local() {
            local.handled(vcpu, cause);
        }
        // SAFETY: the record is complete, and no data on this stack is needed again.
        unsafe { window::go(record) }
    }
    let vcpu = finish(cpu, cause, after);
    // SAFETY: what the executive gave, and this stack is not needed again.
    unsafe { enter(vcpu) }
}

/// Ends an exit, and gives the vCPU to enter.
#[inline(never)]
fn finish(cpu: &mut Cpu<Host>, cause: Cause, after: After) -> *mut Vcpu {
    cpu.finish(cause, after)
}

fn serve(pcpu: &mut Pcpu<Host>, record: &Record, trap: Option<Trap>, pc: u32) -> (Cause, After) {
    let (Some(vcpu), local) = pcpu.resident_and_local() else {
        return (Cause::Denied, After::Reconsider);
    };
    let context = &mut vcpu.context;
    let Some(own) = &mut context.deprivileged else {
        return (Cause::Denied, After::Reconsider);
    };
    at_once::leave(own, record, pc);
    let Some(trap) = trap else {
        own.show(&mut context.regs);
        return (Cause::Interrupt, interrupted(pcpu));
    };
    let host = own.memory(vcpu.unit, local.board);
    let thumb = own.monitor.registers.psr.thumb();
    own.monitor.fetched = Some(record.word).filter(|_| !thumb && trap.fetches());
    let answer = own.monitor.serve(trap, own.code, &host);
    carry_out(pcpu, answer)
}

/// Acknowledges the pending interrupt and serves it.
#[inline(never)]
fn interrupted(pcpu: &mut Pcpu<Host>) -> After {
    let local = &mut pcpu.local;
    let machine = &local.board.machine;
    let Some(taken) = machine.acknowledge() else {
        return After::Resume;
    };
    machine.drop_priority(taken);
    local.record(Event::Interrupt(taken.id()));
    // A kick is ended before what it is for is looked at, as another one may come.
    if taken.id() == KICK {
        machine.end(taken);
    } else {
        local.taken = Some(taken);
    }
    pcpu.interrupted()
}

/// The resident vCPU with its deprivileged part, and the pCPU's record.
fn resident(pcpu: &mut Pcpu<Host>) -> Option<(&mut Vcpu, &mut Local<Host>)> {
    let (vcpu, local) = pcpu.resident_and_local();
    Some((vcpu?, local))
}

fn own(vcpu: &mut Vcpu) -> Option<&mut Deprivileged> {
    vcpu.context.deprivileged.as_deref_mut()
}

fn carry_out(pcpu: &mut Pcpu<Host>, answer: Answer) -> (Cause, After) {
    match answer {
        Answer::Resume => (Cause::SystemRegister, After::Resume),
        Answer::Wait(Wait::Interrupt) => {
            show(pcpu);
            (Cause::Wait, After::Sleep)
        }
        Answer::Wait(Wait::Event) | Answer::Yield => {
            show(pcpu);
            (Cause::Wait, After::Yield)
        }
        Answer::Hypercall => core(pcpu, Exit::Hypercall),
        Answer::Device(Device {
            at,
            write,
            instruction,
        }) => core(
            pcpu,
            Exit::Data(DataAbort {
                ipa: at,
                write,
                walk: false,
                access: None,
                instruction: Instruction::Word(instruction),
                reach: hanok_types::PAGE_SIZE,
            }),
        ),
        Answer::Fetch(ipa) => core(pcpu, Exit::Fetch { ipa, walk: false }),
        Answer::SystemError => core(pcpu, Exit::SystemError),
        Answer::Page(page) => {
            let Some((vcpu, local)) = resident(pcpu) else {
                return (Cause::Denied, After::Reconsider);
            };
            let action = Action::Block(hanok_vm::Wait::Page(page));
            (Cause::Device, vcpu.act(local, 0, action))
        }
        Answer::FloatingPoint => {
            if pcpu.give_fp() == FpAccess::Given {
                return (Cause::Fp, After::Resume);
            }
            if let Some(own) = pcpu.resident().and_then(own) {
                let _resume = own.monitor.refuse();
            }
            (Cause::Denied, After::Resume)
        }
        Answer::Timer(access) => timer_access(pcpu, access),
        Answer::Stop(why) => stop(pcpu, why),
    }
}

/// Shows the core the vCPU's registers.
fn show(pcpu: &mut Pcpu<Host>) {
    if let Some(vcpu) = pcpu.resident()
        && let Some(own) = &mut vcpu.context.deprivileged
    {
        own.show(&mut vcpu.context.regs);
    }
}

/// An exit that the core handles.
fn core(pcpu: &mut Pcpu<Host>, exit: Exit) -> (Cause, After) {
    show(pcpu);
    let Some((vcpu, local)) = resident(pcpu) else {
        return (Cause::Denied, After::Reconsider);
    };
    let board = local.board;
    vcpu.notice(board, &exit, 0);
    let action = guest(vcpu, board, &mut board.machine.lists()).handle(exit);
    vcpu.notice_fault_loop(board, &exit, action);
    (Cause::from(&exit), vcpu.act(local, 0, action))
}

/// Stops the VM, which cannot go on.
fn stop(pcpu: &mut Pcpu<Host>, why: Stopped) -> (Cause, After) {
    show(pcpu);
    let Some((vcpu, local)) = resident(pcpu) else {
        return (Cause::Denied, After::Reconsider);
    };
    let pc = vcpu.context.regs.pc;
    let host = memory(vcpu.unit, local.board);
    let own = vcpu.context.deprivileged.as_mut();
    let instruction = own.and_then(|own| own.monitor.instruction(own.code, &host).ok());
    let reason = StopReason::Unsupported {
        what: why.words(),
        pc: pc as u32,
        instruction: instruction.unwrap_or(0),
    };
    let vm = &vcpu.unit.vm;
    let _accepted = vm.request_end(local.board, Ending::Stopped, Some(reason));
    (Cause::Denied, vcpu.act(local, 0, Action::Reconsider))
}

/// An access to the guest's timer that the monitor has decoded.
fn timer_access(pcpu: &mut Pcpu<Host>, timer: TimerAccess) -> (Cause, After) {
    let Some((vcpu, local)) = resident(pcpu) else {
        return (Cause::Denied, After::Reconsider);
    };
    let stored = match timer.movement {
        Movement::Read(_) => None,
        Movement::Write(value) => Some(value),
    };
    let value = access(vcpu, local, Accessed::Timer(timer.register), stored);
    if let (Movement::Read(to), Some(value)) = (timer.movement, value)
        && let Some(own) = own(vcpu)
    {
        own.monitor.finish_timer(to, value);
    }
    vcpu.rearm(local);
    (Cause::Timer, After::Resume)
}

/// Enters the guest of the resident vCPU, which is the one that the executive gave.
///
/// # Safety
/// As for [`crate::vectors::enter`].
pub(crate) unsafe fn enter(_vcpu: *mut Vcpu) -> ! {
    // SAFETY: the record of this CPU, to which no reference is in use.
    let cpu = unsafe { cpu::here::<Host>() };
    loop {
        if let Some(record) = prepare(cpu.pcpu()) {
            // SAFETY: the record is complete, and no data on this stack is needed again.
            unsafe { window::go(record) }
        }
        // What waits for this CPU comes before the rest, which siblings of the vCPU may have left it without end.
        let after = interrupted(cpu.pcpu());
        let _resident = finish(cpu, Cause::Interrupt, after);
    }
}

/// Fills this CPU's record for the resident vCPU's guest; `None` if a kick waits, or if that is more work than is to
/// be done at once.
fn prepare(pcpu: &mut Pcpu<Host>) -> Option<&'static mut Record> {
    let (Some(vcpu), local) = pcpu.resident_and_local() else {
        panic!("no vCPU to enter")
    };
    let Some(own) = &mut vcpu.context.deprivileged else {
        panic!("a vCPU of Hyp mode at PL1")
    };
    own.take_back(&vcpu.context.regs);
    let lines = lines(local);
    window::move_to(own.monitor.window());
    // SAFETY: this CPU's, to which nothing else refers.
    let record = unsafe { &mut *window::record() };
    own.find_ram(vcpu.unit, local.board);
    let host = own.memory(vcpu.unit, local.board);
    let root = if local.board.machine.gic.is_kicked() {
        None
    } else {
        own.prepare(lines, &mut record.asids, &host)
    };
    let Some(root) = root else {
        own.show(&mut vcpu.context.regs);
        return None;
    };
    pay(root.owed);
    record.asids.paid();
    let walks = record.own_table & WALKS;
    record.crossing = match own.page_in_window {
        0 => Crossing::NONE,
        page => {
            record.page = own.monitor.window().address() + page;
            own.monitor
                .crossing(&mut record.asids, &mut record.known, walks)
        }
    };
    let Deprivileged {
        monitor, has_fp, ..
    } = &mut **own;
    if monitor.cpu.identity().has_floating_point() {
        crate::fp::enable_at_pl1(*has_fp && monitor.cpu.has_floating_point());
    }
    let system = |register| u64::from(monitor.cpu.system(register));
    if record.counters != 0 {
        let granted = monitor.cpu.system(SystemRegister::Cntkctl) & record.counters;
        write!("cntkctl_el1", granted.into());
    }
    write!("tpidr_el0", u64::from(monitor.tpidrurw()));
    write!("tpidrro_el0", system(SystemRegister::Tpidruro));
    record.guest.set_general(&monitor.registers.general);
    record.guest.pc = monitor.registers.pc;
    record.guest.psr = monitor.registers.psr.into_bits();
    record.guest_table = root.table.get() as u32 | walks;
    record.guest_asid = root.asid.into();
    Some(record)
}

/// The attributes of walks in TTBR0.
const WALKS: u32 = 0x7f;
