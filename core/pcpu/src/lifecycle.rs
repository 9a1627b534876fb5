//! How a vCPU enters its VM and leaves it, and how a VM boots and ends.
//!
//! The pCPU of the last vCPU to leave ends the VM; the memory of the next boot is made in the first vCPU's
//! turn.

use crate::loading::{Damaged, Loading, Progress};
use crate::{Board, Host, Local, Pcpu, Vcpu, VmUnit};
use hanok_hal::sync::atomic::Ordering;
use hanok_hal::{Context, LateError, VirtualCpuInterface};
use hanok_paging::{Vmid, vttbr_el2};
use hanok_sched::Entity;
use hanok_trace::Event;
use hanok_vm::{Ending, StopReason, Transition};

impl<B: Host> Vcpu<B> {
    /// Lets a vCPU whose start was requested enter its VM, unless the request was withdrawn.
    pub(crate) fn come_in(&mut self, local: &mut Local<B>) {
        let unit = self.unit;
        let Some(entry) = unit.vm.power(self.core.id).take_start() else {
            return local.leave(unit);
        };
        if local.fp_owner == Some(self.entity) {
            local.fp_owner = None;
        }
        self.reset(entry);
        local.emit(self, Event::Start);
        // TLB entries that its former boot left in this CPU must not be used.
        if let Some(last) = unit.last_here.get(local.id.index()) {
            last.store(0, Ordering::Relaxed);
        }
        self.on = true;
        self.core.enters_at_once = true;
    }

    /// Takes a vCPU that is off, or whose VM ends, out of this CPU. Its state is discarded, and its
    /// physical interrupts are deactivated.
    pub(crate) fn go_out(&mut self, local: &mut Local<B>) {
        let (unit, board) = (self.unit, local.board);
        local.emit(self, Event::Stop);
        self.on = false;
        self.core.enters_at_once = false;
        self.waiting = false;
        self.page = None;
        unit.vm.requests(self.core.id).set_quiet(false);
        if local.resident != Some(self.entity) {
            unit.vm.forget_interrupts(board, self.core.id);
            return;
        }
        local.resident = None;
        let machine = &board.machine;
        if self.context.discard(machine) == LateError::Pending {
            self.take_late_error(board);
        }
        let mut lists = machine.lists();
        unit.vm
            .take_back_interrupts(board, self.core.id, &mut lists);
        lists.stop();
        // It need not be active: deactivating an inactive interrupt changes nothing.
        machine.deactivate(board.interrupts.virtual_timer);
        // No translation is speculated under the VMID, which another VM may get soon.
        machine.enter_empty_space();
    }
}

impl<B: Host> Local<B> {
    /// Notes that a vCPU has left its VM. If it was the last one, [`Pcpu::schedule`] carries out the VM's
    /// end, after it has served pending interrupts.
    pub(crate) fn leave(&mut self, unit: &'static VmUnit<B>) {
        let ending = match unit.vm.lifecycle().leave() {
            (0, None) if unit.vm.stop_if_all_off().is_made() => Ending::Stopped,
            (0, Some(ending)) => ending,
            _ => return,
        };
        self.disconnect(unit);
        self.ending = Some((unit, ending));
    }
}

impl<B: Host> Board<B> {
    /// Carries out the VM's end: turns it off, stops it, or lets it boot again. No vCPU is in the VM.
    pub(crate) fn carry_out_ending(&'static self, unit: &'static VmUnit<B>, ending: Ending) {
        let name = &unit.vm.config().name;
        unit.vm.leave_channels(self);
        // Bytes that were typed for this boot must not reach the next one.
        self.lock_console().clear_input(unit.vm.id());
        if ending == Ending::Reset {
            self.notice(unit, format_args!("reset"));
            // A command may have turned the VM off meanwhile.
            if unit.vm.lifecycle().load_after_reset().is_made() {
                return unit.vm.kick_first(self);
            }
        }
        let reason = unit.vm.stop_reason();
        self.end_if_last(|| {
            // This comes before the line is printed, as a user who reads that the VM is off may restart it.
            unit.vm.end();
            match ending {
                Ending::Stopped => self.tell_stopped(unit, reason),
                _ => self.say(format_args!("vm {name}: off")),
            }
            Transition::Made
        });
    }

    fn tell_stopped(&self, unit: &VmUnit<B>, reason: Option<StopReason>) {
        self.any_stopped.store(true, Ordering::Relaxed);
        let name = &unit.vm.config().name;
        match reason {
            Some(reason) => self.say(format_args!("vm {name}: stopped: {reason}")),
            None => self.say(format_args!("vm {name}: stopped: no reason was given")),
        }
    }

    /// Stops a VM whose images are damaged in memory, before it begins.
    fn refuse_damaged(&self, unit: &VmUnit<B>, damaged: Damaged) {
        self.end_if_last(|| {
            let given_up = unit.vm.lifecycle().give_up();
            if given_up.is_made() {
                let blob = unit.vm.config().blobs.get(damaged.blob);
                let kind = blob.map_or("image", |blob| blob.kind.word());
                let reason = StopReason::Damaged { kind };
                unit.vm.set_stop_reason(reason);
                self.tell_stopped(unit, Some(reason));
            }
            given_up
        });
    }

    /// Takes a VMID for a new boot, and gives that of the former boot back.
    fn new_vmid(&self, unit: &VmUnit<B>) {
        let former = unit.space.load(Ordering::Relaxed);
        let root = unit.memory.lock().root();
        let mut pool = self.vmids.lock();
        if former != 0 {
            pool.free(Vmid::new((former >> 48) as u8));
        }
        // There are more VMIDs than VMs.
        let fresh = pool.allocate().expect("a VMID for each VM");
        if fresh.rollover {
            self.machine.invalidate_all_tlbs();
        }
        unit.space
            .store(vttbr_el2(root, fresh.vmid), Ordering::Release);
    }

    /// Ends a VM by `end`, and the run with the last VM. Two VMs may end at once on two pCPUs, one of which
    /// then ends the run.
    fn end_if_last(&self, end: impl FnOnce() -> Transition) {
        let turn = self.endings.lock();
        let last = end().is_made() && self.vms.iter().all(|unit| unit.vm.lifecycle().is_ended());
        drop(turn);
        if !last {
            return;
        }
        let how = if self.any_stopped.load(Ordering::Relaxed) {
            "stopped"
        } else {
            "off"
        };
        self.say(format_args!("end: {how}"));
        self.power_off();
    }

    /// Turns the board off, once all printed lines have been sent. It returns if the board has no firmware
    /// that can turn it off.
    pub(crate) fn power_off(&self) {
        self.lock_console().flush_blocking();
        self.machine.power_off();
    }
}

impl<B: Host> Pcpu<B> {
    /// Makes a piece of the memory of the VM of the vCPU at `entity`. Pending interrupts are served before,
    /// as some time has passed since the last check, and after. One that is served before may have woken
    /// another vCPU, or have been the end of the turn, which no later interrupt would say: in this case the
    /// piece is a single part.
    #[inline(never)]
    pub(crate) fn load(&mut self, entity: Entity) {
        // The end of this turn is an interrupt, too.
        self.program_timer();
        let due = self.serve_pending();
        let (Some(vcpu), local) = self.vcpu_and_local(entity) else {
            return;
        };
        let begun = load_some(vcpu, local, due);
        local.note_update(vcpu);
        self.serve_pending();
        if let Some(unit) = begun {
            let name = &unit.vm.config().name;
            self.local.board.say(format_args!("vm {name}: started"));
            self.serve_pending();
        }
    }
}

/// Makes a piece of a VM's memory, a part if a decision is `due`, and lets its first vCPU start after the
/// last piece. Returns the VM if its first boot began, which the caller must print.
#[must_use]
fn load_some<B: Host>(
    vcpu: &mut Vcpu<B>,
    local: &mut Local<B>,
    due: bool,
) -> Option<&'static VmUnit<B>> {
    let (unit, board) = (vcpu.unit, local.board);
    let boot = unit.vm.lifecycle().number();
    let loading = match &mut vcpu.loading {
        Some(loading) if loading.boot == boot => loading,
        other => {
            board.new_vmid(unit);
            other.insert(Loading::new(boot))
        }
    };
    board.note_moment();
    match loading.go_on(unit, board, &mut vcpu.context, due) {
        Ok(Progress::More) => return None,
        Ok(Progress::Done) => {
            vcpu.loading = None;
            unit.memory.lock().end_making();
            local.connect(unit);
            local.watch_over(vcpu);
            if unit.vm.begin().is_made() {
                return (boot == 1).then_some(unit);
            }
            // The loading was abandoned meanwhile.
            local.disconnect(unit);
        }
        Err(damaged) => {
            vcpu.loading = None;
            unit.memory.lock().end_making();
            board.refuse_damaged(unit, damaged);
        }
    }
    None
}
