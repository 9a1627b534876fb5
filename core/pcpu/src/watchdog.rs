//! Resets driver VMs that hang.
//!
//! A driver VM that lives looks after the interrupt of a device that it serves: it accesses one of the device's registers, at least to
//! acknowledge the interrupt, however long the board's device takes for what was asked. So one hangs if the line of such a device stays raised
//! for as long as the description's `watchdog` says without any access to the device. Who has requests and no interrupt is given one, as
//! a VM that hangs while it works has not asked for any. The time in which it is paused, or had work and did
//! not get the CPU, does not count.
//!
//! The pCPU of its first vCPU looks twice in that time, by the hypervisor's timer, at one VM in an exit.

use crate::{Board, Host, Local, Pcpu, Vcpu, VmUnit};
use hanok_config::DeviceKind;
use hanok_types::Deadline;
use hanok_vm::{Clock, Wish};

/// How often a VM is reset in a row; then it is left alone for [`REST`].
const IN_A_ROW: u8 = 5;
/// Resets are in a row if the time between two is below this, in seconds.
const REST: u64 = 60;

/// The longest time in ticks for which a device of this VM may wait; `None` if that is for ever.
fn longest<B: Host>(board: &Board<B>, unit: &VmUnit<B>) -> Option<u64> {
    let millis = unit.vm.config().watchdog;
    (millis > 0).then(|| board.counter_frequency() / 1000 * u64::from(millis))
}

impl<B: Host> Local<B> {
    /// Looks at the devices of the VM of `vcpu`, which begins, from now on, if the description wants that.
    pub(crate) fn watch_over(&mut self, vcpu: &mut Vcpu<B>) {
        if let Some(longest) = longest(self.board, vcpu.unit) {
            self.watch_after(vcpu, longest / 2);
        }
    }

    fn watch_after(&mut self, vcpu: &mut Vcpu<B>, ticks: u64) {
        vcpu.watch_at = Deadline::at(self.board.counter() + ticks);
        self.watch_at = self.watch_at.or(vcpu.watch_at);
        self.note_seldom(vcpu.watch_at);
    }
}

impl<B: Host> Pcpu<B> {
    /// Looks at a VM of which it is time, and sets the instant of the next look.
    #[cold]
    #[inline(never)]
    pub(crate) fn watch(&mut self) {
        let Self { local, vcpus } = self;
        let now = local.board.counter();
        local.watch_at = Deadline::NEVER;
        let mut looked = false;
        for vcpu in vcpus.iter_mut().flatten() {
            if !looked && vcpu.watch_at.has_come(now) {
                looked = true;
                look(vcpu, local, now);
            }
            local.watch_at = local.watch_at.or(vcpu.watch_at);
        }
    }
}

/// Looks at the VM of `vcpu`, and resets it if it hangs.
fn look<B: Host>(vcpu: &mut Vcpu<B>, local: &mut Local<B>, now: u64) {
    let (unit, board) = (vcpu.unit, local.board);
    let Some(longest) = longest(board, unit) else {
        return;
    };
    let waits = vcpu.ready && !local.turn.is_of(vcpu.entity);
    let starves = waits && now.saturating_sub(vcpu.waits_since) >= longest / 2;
    let excused = starves || unit.vm.is_paused() || !unit.vm.lifecycle().is_running();
    let mut hangs = false;
    for (index, slot) in (0..).map_while(|index| Some((index, unit.vm.slot(index)?))) {
        if slot.kind() == DeviceKind::BackEnd
            && let Some(device) = slot.shared()
        {
            hangs |= device.unheeded(now, excused) >= longest;
            if device.lines().driver {
                unit.vm.show_line(board, index);
            }
        }
    }
    if hangs {
        reset(vcpu, board, now);
    }
    local.watch_after(vcpu, longest / 2);
}

/// Resets the VM of `vcpu`, unless that was done too often.
fn reset<B: Host>(vcpu: &mut Vcpu<B>, board: &'static Board<B>, now: u64) {
    let (times, last) = vcpu.hung;
    let in_a_row = now.saturating_sub(last) / board.counter_frequency() < REST;
    if in_a_row && times >= IN_A_ROW {
        return;
    }
    vcpu.hung = (if in_a_row { times + 1 } else { 1 }, now);
    let millis = vcpu.unit.vm.config().watchdog;
    board.notice(
        vcpu.unit,
        format_args!("a device that it serves waits for {millis} ms: it hangs"),
    );
    // Whoever has not entered it yet enters its next boot.
    let (Wish::Taken | Wish::Refused | Wish::Deserted) = vcpu.unit.vm.restart(board);
}
