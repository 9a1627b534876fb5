//! Which vCPU a pCPU runs, and what becomes of its VM.
//!
//! Each pCPU decides about its own vCPUs alone. Others ask through the VM's atomics
//! (requests, power, life, paused) and a kick; here that is looked at, vCPU by vCPU, and
//! told to the policy, which answers whose turn it is. A vCPU that waits or lost its turn
//! stays in the CPU until another one needs it.
//!
//! Here, too, a vCPU comes into its VM and leaves it; the last one to leave carries the VM's
//! ending out, and the first vCPU's turn makes the memory of the next life.

use crate::board::Board;
use crate::cpu::{self, Cpu};
use crate::loading::{Damaged, Loading};
use crate::unit::VmUnit;
use crate::vcpu::Vcpu;
use crate::{devices, errors, fp, mmu, read, service, show, switch, sysreg, write};
use core::sync::atomic::Ordering;
use hanok_paging::{Vmid, vttbr_el2};
use hanok_sched::Policy;
use hanok_types::Deadline;
use hanok_vm::{Ending, Machine, StopReason};

/// This pCPU's record and the board. Callers hold no reference to the record.
fn here<'a>() -> (&'a mut Cpu, &'static Board) {
    // SAFETY: this pCPU's own record, which lives for ever and which nobody else touches; the
    // callers give the reference up before they ask again.
    let cpu = unsafe { &mut *cpu::current() };
    let board = cpu.board.expect("a pCPU that schedules has its board");
    (cpu, board)
}

/// The vCPU to run next on this pCPU; sleeps while there is none. The caller holds no
/// reference to the pCPU's record or to a vCPU.
pub fn next() -> *mut Vcpu {
    loop {
        let (cpu, board) = here();
        let now = board.counter();
        if settle_all(cpu, board, now) {
            // That took its time: interrupts come first, then what there is by then.
            serve_pending(cpu, board);
            if let Some((unit, ending)) = cpu.ending.take() {
                carry_out(unit, ending, board);
                serve_pending(cpu, board);
            }
            continue;
        }
        let decision = cpu.policy.pick(now);
        cpu.deadline = absent_deadline(cpu)
            .or(decision.until.into())
            .or(cpu.restrained.until);
        let chosen = decision.run.and_then(|run| cpu.vcpus.get(run.index()));
        let Some(vcpu) = chosen.copied() else {
            idle(cpu, board);
            continue;
        };
        // SAFETY: this pCPU's own vCPU, which nobody else touches; the reference ends with
        // this turn of the loop.
        let chosen = unsafe { &mut *vcpu };
        if chosen.on {
            switch::to(chosen, cpu, board);
            return vcpu;
        }
        load(vcpu, cpu, board);
        uncounted(cpu);
    }
}

/// What the hypervisor executed until now was for no exit.
fn uncounted(cpu: &mut Cpu) {
    if cpu.counts_instructions {
        cpu.instructions_since();
    }
}

/// The resident vCPU waits for an interrupt from now on.
pub fn wait() -> *mut Vcpu {
    let (cpu, _) = here();
    if !cpu.resident.is_null() {
        // SAFETY: this pCPU's own vCPU; the reference ends here.
        unsafe { (*cpu.resident).waiting = true };
    }
    next()
}

/// The resident vCPU gives up the rest of its turn.
pub fn give_way() -> *mut Vcpu {
    let (cpu, board) = here();
    if !cpu.resident.is_null() {
        // SAFETY: this pCPU's own vCPU; the reference ends here.
        let entity = unsafe { (*cpu.resident).entity };
        cpu.policy.give_way(entity, board.counter());
    }
    next()
}

/// What bringing one vCPU up to date was.
#[derive(Clone, Copy, PartialEq, Eq)]
#[must_use]
enum Settled {
    /// Next to nothing.
    Briefly,
    /// The interrupts and timers of one that is in no CPU were looked at.
    Looked,
    /// It came into its VM, or left it.
    Moved,
}

/// Brings what is known of every vCPU of this pCPU up to date; whether that took its time, and the
/// others are still to be looked at: one came into its VM or left it, or it is the second one whose
/// interrupts were looked at.
fn settle_all(cpu: &mut Cpu, board: &'static Board, now: u64) -> bool {
    let mut looked = false;
    let mut next = 0;
    while let Some((index, vcpu)) = first_to_settle(cpu, next) {
        next = index + 1;
        // SAFETY: this pCPU's own vCPU; the reference ends with this turn.
        match settle(unsafe { &mut *vcpu }, cpu, board, now) {
            _ if cpu.ending.is_some() => return true,
            Settled::Briefly => {}
            Settled::Looked if !looked => looked = true,
            Settled::Looked | Settled::Moved => return true,
        }
    }
    false
}

/// The first vCPU of this pCPU from number `next` on of which something is to be settled.
#[inline(always)]
fn first_to_settle(cpu: &Cpu, next: usize) -> Option<(usize, *mut Vcpu)> {
    let vcpus = cpu.vcpus.iter().copied().enumerate().skip(next);
    // SAFETY: this pCPU's own vCPUs; the reference ends with the look.
    let mut vcpus = vcpus.filter(|(_, vcpu)| !stays(unsafe { &**vcpu }));
    vcpus.next()
}

/// Whether nothing is to be settled of `vcpu`: it had work, and nobody asks anything of it that its turn
/// does not bring; or it is out of its VM, and is to stay there.
#[inline]
fn stays(vcpu: &Vcpu) -> bool {
    let (vm, id) = (&vcpu.unit.vm, vcpu.core.id);
    // Without branches: each exit to the scheduler comes by here for each of its vCPUs.
    if vcpu.on & vcpu.ready & !vcpu.waiting {
        vm.keeps_on(id)
    } else {
        !(vcpu.on | vcpu.ready) && vm.is_left_alone(id)
    }
}

/// Brings `vcpu` in or out of its VM, as its power state and the VM's life ask for, and
/// tells the policy whether it has work. Kept out of line, as everything below that runs now and
/// then: in [`next`], which each exit to the scheduler runs through, its registers would be saved
/// and its addresses reckoned beforehand.
#[inline(never)]
fn settle(vcpu: &mut Vcpu, cpu: &mut Cpu, board: &'static Board, now: u64) -> Settled {
    let mut settled = Settled::Briefly;
    let vm = &vcpu.unit.vm;
    let id = vcpu.core.id;
    vm.requests(id).take_attention();
    if vm.requests(id).take_dump() {
        show::vcpu(vcpu, cpu, board);
    }
    if vm.requests(id).take_look() {
        show::storm(vcpu, cpu, board);
    }
    if vcpu.on && !(vm.life().is_running() && vm.power(id).is_on()) {
        settled = Settled::Moved;
        go_out(vcpu, cpu, board);
        leave(vcpu.unit, cpu);
    }
    if !vcpu.on && vm.power(id).is_pending() && vm.life().enter() {
        come_in(vcpu, cpu);
        if vcpu.on {
            settled = Settled::Moved;
        }
    }
    let ready = if !vcpu.on {
        id.index() == 0 && vm.life().is_loading()
    } else if vcpu.waiting {
        if looks(vcpu, cpu, board, now) && settled == Settled::Briefly {
            settled = Settled::Looked;
        }
        !vcpu.waiting && !vm.is_paused()
    } else {
        !vm.is_paused()
    };
    if ready != core::mem::replace(&mut vcpu.ready, ready) {
        match ready {
            true => cpu.policy.wake(vcpu.entity, now),
            false => cpu.policy.block(vcpu.entity, now),
        }
    }
    settled
}

/// Finds out whether a vCPU that waits does so still. Whether that took its time, as it is in no CPU
/// and somebody asked for it, or it has come to its time: what others send to several vCPUs at
/// once would be looked at in one exit otherwise, of whoever is in this CPU.
fn looks(vcpu: &mut Vcpu, cpu: &Cpu, board: &'static Board, now: u64) -> bool {
    let vm = &vcpu.unit.vm;
    let id = vcpu.core.id;
    // Before its interrupts are looked at: who asks later kicks again.
    let requests = vm.requests(id);
    if requests.is_quiet() {
        if !vcpu.wake_at.has_come(now) {
            return false;
        }
        requests.set_quiet(false);
    }
    let asked = requests.take_timers() | requests.take_interrupts();
    let resident = core::ptr::eq(cpu.resident, vcpu);
    let look = !resident && (asked || vcpu.wake_at.has_come(now));
    let woken = if resident {
        vm.interrupt_waits(board, id, &mut board.gic.lists())
    } else {
        look && is_woken(vcpu, board, now)
    };
    vcpu.waiting = !(woken || switch::system_error_waits(vcpu, cpu));
    look
}

/// Whether something wakes a vCPU that is in no CPU.
fn is_woken(vcpu: &mut Vcpu, board: &'static Board, now: u64) -> bool {
    switch::timers_due(vcpu, board, now);
    let vm = &vcpu.unit.vm;
    let id = vcpu.core.id;
    if vm.interrupt_waits_absent(board, id) {
        return true;
    }
    // In the turn of another vCPU, most often.
    let end = vcpu.core.looks.spend(now, board.counter_frequency());
    if let Some(end) = end {
        vm.requests(id).set_quiet(true);
        vcpu.wake_at = vcpu.wake_at.or(Deadline::at(end));
    }
    false
}

/// When the first of the vCPUs that wait, and are in no CPU, is due.
fn absent_deadline(cpu: &Cpu) -> Deadline {
    let mut first = Deadline::NEVER;
    for vcpu in &cpu.vcpus {
        // SAFETY: this pCPU's own vCPUs; each reference ends at once.
        let vcpu = unsafe { &**vcpu };
        if vcpu.on && vcpu.waiting {
            first = first.or(vcpu.wake_at);
        }
    }
    first
}

/// A vCPU whose start was asked for comes into its VM, unless the wish is gone.
fn come_in(vcpu: &mut Vcpu, cpu: &mut Cpu) {
    let unit = vcpu.unit;
    let Some(entry) = unit.vm.power(vcpu.core.id).take_start() else {
        return leave(unit, cpu);
    };
    if core::ptr::eq(cpu.fp_owner, vcpu) {
        cpu.fp_owner = core::ptr::null_mut();
    }
    vcpu.reset(entry);
    // What its former life here left in the TLB is not its own.
    if let Some(last) = unit.last_here.get(cpu.id.index()) {
        last.store(0, Ordering::Relaxed);
    }
    vcpu.on = true;
}

/// Takes a vCPU that is off, or whose VM ends, out of this CPU. Its state is of no use any
/// more; its physical interrupts are let go.
fn go_out(vcpu: &mut Vcpu, cpu: &mut Cpu, board: &'static Board) {
    let vm = &vcpu.unit.vm;
    vcpu.on = false;
    vcpu.waiting = false;
    vm.requests(vcpu.core.id).set_quiet(false);
    if !core::ptr::eq(cpu.resident, vcpu) {
        vm.forget_interrupts(board, vcpu.core.id);
        return;
    }
    cpu.resident = core::ptr::null_mut();
    write!("cntv_ctl_el0", 0);
    if errors::take(false) {
        service::late_error(vcpu, board);
    }
    let vm = &vcpu.unit.vm;
    vm.take_back_interrupts(board, vcpu.core.id, &mut board.gic.lists());
    board.gic.lists().stop();
    // Active or not: deactivating one that is not changes nothing.
    board.gic.deactivate(board.interrupts.virtual_timer);
    fp::close();
    // Nothing is speculated into the VMID that may be another VM's soon.
    write!("vttbr_el2", board.nobody);
    sysreg::isb();
}

/// A vCPU is out of its VM; if it was the last, what is to be done then is left to [`next`], which
/// looks for interrupts before.
fn leave(unit: &'static VmUnit, cpu: &mut Cpu) {
    let ending = match unit.vm.life().leave() {
        (0, None) if unit.vm.stop_if_all_off() => Ending::Stopped,
        (0, Some(ending)) => ending,
        _ => return,
    };
    devices::disconnect(unit, cpu);
    cpu.ending = Some((unit, ending));
}

/// Does what the VM's end asks for; nobody is in the VM.
pub fn carry_out(unit: &'static VmUnit, ending: Ending, board: &'static Board) {
    let name = &unit.vm.config().name;
    // What was typed for this life is not for the next.
    board.console.lock().clear_input(unit.vm.id());
    if ending == Ending::Reset {
        board.notice(unit, format_args!("reset"));
        // It may have been turned off meanwhile.
        if unit.vm.life().begin_again() {
            return unit.vm.kick_first(board);
        }
    }
    match ending {
        Ending::Stopped => stopped(unit, board),
        _ => board.say(format_args!("vm {name}: off")),
    }
    unit.vm.end();
    end_if_over(board);
}

fn stopped(unit: &'static VmUnit, board: &'static Board) {
    board.any_stopped.store(true, Ordering::Relaxed);
    let name = &unit.vm.config().name;
    match unit.vm.stop_reason() {
        Some(reason) => board.say(format_args!("vm {name}: stopped: {reason}")),
        None => board.say(format_args!("vm {name}: stopped: no reason was given")),
    }
}

/// Does a piece of the making of the memory of `vcpu`'s VM, which is this pCPU's own. Interrupts are
/// looked for before it, as to come here took its time, and after.
#[inline(never)]
fn load(vcpu: *mut Vcpu, cpu: &mut Cpu, board: &'static Board) {
    // The end of this turn is an interrupt, too.
    service::program_timer(cpu);
    serve_pending(cpu, board);
    // SAFETY: this pCPU's own vCPU, which nobody else touches; the reference ends here.
    let begun = load_some(unsafe { &mut *vcpu }, cpu, board);
    serve_pending(cpu, board);
    if let Some(unit) = begun {
        board.say(format_args!("vm {}: started", unit.vm.config().name));
        serve_pending(cpu, board);
    }
}

/// Does a piece of the making of a VM's memory, and lets its first vCPU start after the last. The VM
/// whose first life began by it, which is to be told.
#[must_use]
fn load_some(vcpu: &mut Vcpu, cpu: &Cpu, board: &'static Board) -> Option<&'static VmUnit> {
    let unit = vcpu.unit;
    let life = unit.vm.life().number();
    let loading = match &mut vcpu.loading {
        Some(loading) if loading.life == life => loading,
        other => {
            new_vmid(unit, board);
            other.insert(Loading::new(life))
        }
    };
    board.note_moment();
    match loading.go_on(unit, board) {
        Ok(false) => return None,
        Ok(true) => {
            vcpu.loading = None;
            devices::connect(unit, cpu, board);
            if unit.vm.begin() {
                return (life == 1).then_some(unit);
            }
            // Given up meanwhile.
            devices::disconnect(unit, cpu);
        }
        Err(damaged) => {
            vcpu.loading = None;
            damaged_image(unit, damaged, board);
        }
    }
    None
}

/// A VM whose images are damaged in memory does not begin.
fn damaged_image(unit: &'static VmUnit, damaged: Damaged, board: &'static Board) {
    if !unit.vm.life().give_up() {
        return;
    }
    let blob = unit.vm.config().blobs.get(damaged.blob);
    let kind = blob.map_or("image", |blob| blob.kind.word());
    unit.vm.set_stop_reason(StopReason::Damaged { kind });
    stopped(unit, board);
    end_if_over(board);
}

/// A VMID for a new life; that of the former one is nobody's any more.
fn new_vmid(unit: &VmUnit, board: &Board) {
    let former = unit.vttbr.load(Ordering::Relaxed);
    let mut pool = board.vmids.lock();
    if former != 0 {
        pool.free(Vmid::new((former >> 48) as u8));
    }
    // There are more of them than VMs.
    let fresh = pool.allocate().expect("a VMID for each VM");
    if fresh.rollover {
        mmu::forget_all_vmids();
    }
    unit.vttbr
        .store(vttbr_el2(unit.root, fresh.vmid), Ordering::Release);
}

/// Ends the run once every VM has ended.
pub fn end_if_over(board: &'static Board) {
    if !board.vms.iter().all(|unit| unit.vm.life().is_ended()) {
        return;
    }
    let how = if board.any_stopped.load(Ordering::Relaxed) {
        "stopped"
    } else {
        "off"
    };
    board.say(format_args!("end: {how}"));
    power_off(board);
}

/// Turns the board off, once all that was said is on the line. Comes back where the board
/// has no firmware that can.
pub fn power_off(board: &'static Board) {
    board.console.lock().flush_blocking();
    if let Some(firmware) = board.firmware {
        firmware.system_off();
    }
}

/// Sleeps until a physical interrupt, and serves what is pending.
#[inline(never)]
fn idle(cpu: &mut Cpu, board: &'static Board) {
    // SAFETY: this pCPU's own vCPU; the reference ends at once.
    if unsafe { cpu.resident.as_ref() }.is_some_and(|vcpu| !vcpu.waiting) {
        // It is paused: a virtual interrupt that is pending would not let the CPU sleep.
        switch::away(cpu, board);
        // Its life may end while it is away: see `go_out`.
        write!("vttbr_el2", board.nobody);
        sysreg::isb();
    }
    service::program_timer(cpu);
    sysreg::wait_for_interrupt();
    serve_pending(cpu, board);
    uncounted(cpu);
}

/// Whether an interrupt is pending for this pCPU, which has them masked: work that could go on stops
/// then, and the next thing that the scheduler does is [`serve_pending`]. ISR_EL1.I (DDI 0487,
/// D24.2.90; ISR in Hyp mode, DDI 0406C, B4.1.90) is the physical interrupt's here, whatever is
/// routed. `hanok_profile` knows both functions by their names.
#[inline(never)]
pub fn interrupt_is_pending() -> bool {
    read!("isr_el1") & 1 << 7 != 0
}

/// Serves what interrupts are pending: what is this pCPU's own, and one of a device. Further ones are
/// exits of their own, as there may be many, and some come again at once.
#[inline(never)]
fn serve_pending(cpu: &mut Cpu, board: &'static Board) {
    while let Some(taken) = board.gic.acknowledge() {
        board.gic.drop_priority(taken);
        service::serve(cpu, board, taken);
        if !taken.id().is_private() {
            return;
        }
    }
}

/// Lets every VM begin that begins by itself, and wakes their pCPUs.
pub fn begin_all(board: &'static Board) {
    for unit in board.vms.iter().filter(|unit| unit.vm.config().autostart) {
        unit.vm.life().begin();
        unit.vm.kick_first(board);
    }
}
