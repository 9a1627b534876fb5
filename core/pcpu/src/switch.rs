//! Switches from one vCPU of a pCPU to another.

use crate::{Board, Host, Local, Pcpu, Vcpu};
use hanok_hal::sync::atomic::Ordering;
use hanok_hal::{Arrival, Context, HostGic, LateError, VirtualCpuInterface};
use hanok_sched::Entity;
use hanok_trace::Event;
use hanok_types::Deadline;
use hanok_vm::{Attempt, TimerInterrupt};

impl<B: Host> Pcpu<B> {
    /// Makes the vCPU at `entity`, which is in its VM, the one whose state is in the CPU.
    pub(crate) fn switch_to(&mut self, entity: Entity) {
        let comes = self.local.resident != Some(entity);
        if comes {
            self.take_out();
            self.local.resident = Some(entity);
        }
        let (Some(vcpu), local) = self.vcpu_and_local(entity) else {
            return;
        };
        if comes {
            local.emit(vcpu, Event::SwitchIn);
            vcpu.enter(local);
            local.exempt_switch();
        }
        vcpu.core.busy = comes;
        vcpu.refresh(local);
    }

    /// Takes the resident vCPU, if there is one, out of this CPU, and sets the alarm for its timers.
    #[inline(never)]
    pub(crate) fn switch_away(&mut self) {
        self.take_out();
    }

    #[inline(always)]
    fn take_out(&mut self) {
        let (Some(left), local) = self.resident_and_local() else {
            return;
        };
        local.resident = None;
        local.emit(left, Event::SwitchOut);
        left.save(local);
        // A vCPU that does not wait is brought up to date whenever it has its turn. One that waits for a
        // page has no alarm: it finds its timers when it goes on.
        if left.waiting && left.page.is_none() {
            left.wake_at = left.absent_deadline();
            local.set_alarm(left);
            local.deadline = local.deadline.or(left.wake_at);
        }
    }
}

impl<B: Host> Vcpu<B> {
    /// Takes the vCPU's state out of the CPU, except for the FP registers.
    #[inline(always)]
    fn save(&mut self, local: &mut Local<B>) {
        let board = local.board;
        self.core.entry_due = false;
        if self.context.save(&board.machine, self.core.debug.in_use) == LateError::Pending {
            self.take_late_error(board);
            // The error wakes the vCPU.
            local.note_update(self);
        }
        let vm = &self.unit.vm;
        let mut lists = board.machine.lists();
        if vm.switch_out(board, self.core.id, &mut lists) == TimerInterrupt::Held {
            // It is active for this vCPU's timer: the next vCPU's timer must be able to fire.
            board.machine.deactivate(board.interrupts.virtual_timer);
        }
        lists.leave(&mut self.interface);
    }

    /// The instant at which one of the vCPU's timers is due, while it is in no CPU.
    fn absent_deadline(&mut self) -> Deadline {
        let (vm, id) = (&self.unit.vm, self.core.id);
        let virt = self.context.virtual_timer_due();
        let others = vm.deadline(&self.core);
        self.timer_wakes = virt < others && vm.virtual_timer_can_wait(id);
        let silent = virt == Deadline::NEVER || !self.timer_wakes && vm.holds_virtual_timer(id);
        virt.when(!silent).or(others)
    }

    /// Raises the interrupts of the vCPU's timers that are due, while it is in no CPU.
    pub(crate) fn raise_due_timers(&mut self, board: &Board<B>, now: u64) {
        let vm = &self.unit.vm;
        let id = self.core.id;
        let virt = self.context.virtual_timer_due().has_come(now);
        if virt && !vm.holds_virtual_timer(id) {
            vm.virtual_timer_absent(board, id, board.interrupts.virtual_timer);
        }
        vm.timers_absent(board, &mut self.core);
        self.wake_at = self.absent_deadline();
    }

    /// Puts the vCPU's state into the CPU.
    #[inline(always)]
    fn enter(&mut self, local: &mut Local<B>) {
        let (unit, id, board) = (self.unit, self.core.id, local.board);
        if unit.vm.switch_in(id) == TimerInterrupt::Held
            && let Some(gic) = &local.gic
        {
            gic.set_active(board.interrupts.virtual_timer, true);
        }
        let arrival = Arrival {
            space: unit.space.load(Ordering::Acquire),
            stale: self.follows_sibling(local),
            has_fp: local.fp_owner == Some(self.entity),
            debugs: self.core.debug.in_use,
        };
        self.context.load(&board.machine, arrival);
        board.machine.lists().enter(&self.interface);
        self.context.arrived(&board.machine);
        if self.wake_at != Deadline::NEVER {
            self.wake_at = Deadline::NEVER;
            if core::mem::take(&mut self.timer_due) {
                self.take_due_timer(local);
            } else {
                local.set_alarm(self);
            }
        }
    }

    /// Gives the vCPU, which has just come into the CPU, the interrupt of its virtual timer, for which it goes on.
    fn take_due_timer(&self, local: &Local<B>) {
        let (board, vm) = (local.board, &self.unit.vm);
        let physical = board.interrupts.virtual_timer;
        let mut lists = board.machine.lists();
        let listed = vm.virtual_timer_arrives(self.core.id, physical, &mut lists);
        if listed == Attempt::Done
            && let Some(gic) = &local.gic
        {
            gic.set_active(physical, true);
        }
    }

    /// Whether stage 1 translations of another vCPU of the VM, or of this one's former boot, are
    /// cached in this CPU under the same VMID: they are not this one's (DDI 0487, D8.16 "TLB
    /// maintenance"; DDI 0406C, B3.10.1: a guest invalidates locally what it changed for one CPU
    /// alone).
    fn follows_sibling(&self, local: &Local<B>) -> bool {
        let Some(last) = self.unit.last_here.get(local.id.index()) else {
            return true;
        };
        let me = self.core.id.index() as u8 + 1;
        // This pCPU alone writes it.
        let follows = last.load(Ordering::Relaxed) != me;
        last.store(me, Ordering::Relaxed);
        follows
    }
}
