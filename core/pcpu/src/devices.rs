//! Interrupts of the board's devices that VMs have for themselves.
//!
//! Such an interrupt goes to the pCPU of its VM's first vCPU, which hands it on to the VM's interrupt
//! controller; when the guest ends it, that deactivates it in the board's controller. It is enabled while
//! its VM runs, and disabled between two boots, so that a device that no driver looks after disturbs no other
//! VM. It is also disabled, until the period's end, when its VM's devices have interrupted other VMs' turns
//! often enough ([`Interruptions`]).

use crate::report::{PACE, Reporting};
use crate::{Board, DeviceLine, DeviceLines, Host, Local, Pcpu, Vcpu, VmUnit, guest};
use hanok_config::{MAX_BOARD_LINES, VmConfig};
use hanok_hal::{Backend, HostGic};
use hanok_types::{Deadline, IntId, VcpuId};
use hanok_vm::{Clock, Interruptions};

/// The interrupts of a pCPU that are disabled because their VMs' devices have interrupted other VMs' turns
/// too often.
#[derive(Debug)]
pub struct Restrained {
    /// How often each VM's devices have interrupted other VMs' turns.
    spent: &'static mut [Interruptions],
    /// A bit for each entry of the board's list that is disabled.
    lines: u64,
    /// Whether a report on the serial line goes on when they are enabled again.
    reporting: Reporting,
    /// The instant at which they are enabled again.
    pub until: Deadline,
}

// There is a bit for each interrupt.
const _: () = assert!(MAX_BOARD_LINES <= u64::BITS as usize);

impl Restrained {
    /// No interrupt is restrained; there is an account for each VM.
    pub fn new(spent: &'static mut [Interruptions]) -> Self {
        Self {
            spent,
            lines: 0,
            reporting: Reporting::Done,
            until: Deadline::NEVER,
        }
    }
}

/// The interrupts that a system's VMs are given; `None` if there are too many.
pub fn lines_of(vms: &[VmConfig]) -> Option<DeviceLines> {
    let mut lines = DeviceLines::new();
    for (vm, config) in vms.iter().enumerate() {
        for line in config.devices.iter().flat_map(|device| &device.interrupts) {
            let (board, guest, edge) = (line.board, line.guest, line.edge);
            let line = DeviceLine {
                board,
                guest,
                edge,
                vm,
            };
            lines.push(line).ok()?;
        }
    }
    Some(lines)
}

/// Sets the triggers of the interrupts of all VMs' devices. It must be called once, before any of them is
/// enabled, as several interrupts share a register.
pub fn set_triggers<B: Backend>(gic: &B::Gic, board: &Board<B>) {
    for line in &board.lines {
        gic.set_edge(line.board, line.edge);
    }
}

/// The interrupts of a VM's devices.
fn lines_for<B: Backend>(board: &Board<B>, unit: &VmUnit<B>) -> impl Iterator<Item = DeviceLine> {
    let vm = unit.vm.id().index();
    board
        .lines
        .iter()
        .copied()
        .filter(move |line| line.vm == vm)
}

impl<B: Host> Local<B> {
    /// Enables the interrupts of a VM's devices, and lets those behind an SMMU access the VM's memory.
    pub(crate) fn connect(&self, unit: &VmUnit<B>) {
        let (Some(gic), Some(to)) = (&self.gic, unit.vm.home_of(VcpuId::new(0))) else {
            return;
        };
        self.board.machine.allow_dma(unit.vm.id(), true);
        for line in lines_for(self.board, unit) {
            gic.set_active(line.board, false);
            gic.clear_pending(line.board);
            gic.route(line.board, to.cpu);
            gic.enable(line.board, true);
        }
    }

    /// Disables the interrupts of a VM's devices, and keeps those behind an SMMU from all memory; no vCPU is in the VM.
    pub(crate) fn disconnect(&self, unit: &VmUnit<B>) {
        self.board.machine.allow_dma(unit.vm.id(), false);
        let Some(gic) = &self.gic else { return };
        for line in lines_for(self.board, unit) {
            gic.enable(line.board, false);
            gic.set_active(line.board, false);
        }
    }

    /// Counts an interrupt in another VM's turn. After the last one that its VM may have in this period,
    /// the interrupt is disabled until the period's end; if it fires meanwhile, it stays pending in the
    /// distributor.
    fn restrain(&mut self, index: usize, line: &DeviceLine) {
        let board = self.board;
        let Restrained {
            spent,
            lines,
            until,
            ..
        } = &mut self.restrained;
        let (Some(spent), Some(gic)) = (spent.get_mut(line.vm), &self.gic) else {
            return;
        };
        let Some(end) = spent.spend(board.counter(), board.counter_frequency()) else {
            return;
        };
        gic.enable(line.board, false);
        // A report's next piece may be due sooner; it waits with them, as it would let them through.
        let first = core::mem::replace(lines, *lines | 1 << index) == 0;
        let rest = if first { Deadline::NEVER } else { *until };
        *until = rest.or(Deadline::at(end));
        let until = *until;
        self.note_seldom(until);
    }

    /// Serves the serial line in a while, for the next piece of a report: where that made a line of text alone, the line
    /// has no reason to interrupt. While interrupts are restrained, the piece waits for their end.
    pub(crate) fn report_later(&mut self) {
        let board = self.board;
        self.restrained.reporting = Reporting::GoesOn;
        if self.restrained.lines == 0 {
            let at = Deadline::at(board.counter() + board.counter_frequency() / PACE);
            self.restrained.until = self.restrained.until.or(at);
            self.note_seldom(at);
        }
    }

    /// Enables the interrupts again that were restrained until now. If the VM's period goes on, or the VM
    /// has ended, the next interrupt disables them again. Returns whether a report goes on. The caller brings [`Self::seldom_at`] up to date.
    pub(crate) fn let_through(&mut self) -> Reporting {
        let restrained = &mut self.restrained;
        if !restrained.until.has_come(self.board.counter()) {
            return Reporting::Done;
        }
        restrained.until = Deadline::NEVER;
        let lines = core::mem::take(&mut restrained.lines);
        let reporting = core::mem::replace(&mut restrained.reporting, Reporting::Done);
        let of_board = self.board.lines.iter().enumerate();
        for (_, line) in of_board.filter(|(index, _)| lines >> index & 1 != 0) {
            if let Some(gic) = &self.gic {
                gic.enable(line.board, true);
            }
        }
        reporting
    }
}

/// Who must deactivate a device's physical interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Deactivation {
    /// The guest does, through the list register.
    ByGuest,
    /// The caller does.
    ByCaller,
}

impl<B: Host> Pcpu<B> {
    /// Hands a device's interrupt on to the VM that has the device. If no VM has it, or its VM is ending, the
    /// caller must deactivate the interrupt, which is disabled until the VM's next boot.
    pub(crate) fn hand_on(&mut self, interrupt: IntId) -> Deactivation {
        let board = self.local.board;
        let mut lines = board.lines.iter().enumerate();
        let line = lines.find(|(_, line)| line.board == interrupt);
        let Some((index, line)) = line else {
            // It may be a kick, as whoever changes what is traced makes one.
            self.local.take_choice();
            return Deactivation::ByCaller;
        };
        let Some(unit) = board.vms.get(line.vm) else {
            return Deactivation::ByCaller;
        };
        if unit.vm.lifecycle().is_running() {
            let refused = B::HAS_SMMU && line.tells_refusals();
            if refused {
                board.tell_refused(unit);
            } else {
                unit.vm.device_interrupt(board, line.guest, interrupt);
            }
            if self
                .resident()
                .is_some_and(|vcpu| vcpu.is_disturbed_by(unit))
            {
                self.local.restrain(index, line);
            }
            return if refused {
                Deactivation::ByCaller
            } else {
                Deactivation::ByGuest
            };
        }
        if let Some(gic) = &self.local.gic {
            gic.enable(interrupt, false);
        }
        Deactivation::ByCaller
    }
}

impl<B: Host> Board<B> {
    /// Prints what the SMMU has refused to a device of the VM, the first of what it did since the last time.
    #[cold]
    #[inline(never)]
    fn tell_refused(&self, unit: &VmUnit<B>) {
        let Some(access) = self.machine.refused_access() else {
            return;
        };
        let id = access.requester;
        let what = if access.write { "write to" } else { "read" };
        let (bus, device, function) = (id >> 8, id >> 3 & 31, id & 7);
        let address = access.address;
        self.notice(
            unit,
            format_args!(
                "its device {bus:02x}:{device:02x}.{function} may not {what} {address:#x}: refused"
            ),
        );
    }
}

/// Whether an interrupt was handed to the vCPU that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum OwnDevice {
    /// The vCPU's VM has the device, and the interrupt was handed on.
    HandedOn,
    /// The vCPU's VM does not have the device, and nothing was done.
    Other,
}

impl<B: Host> Vcpu<B> {
    /// Hands the interrupt on if this vCPU's VM has the device for itself. This vCPU ran until now, so that
    /// no other VM's turn is disturbed, and no turn ends. Its list registers are written at once, and
    /// another vCPU of the VM is kicked only if the guest has routed the interrupt to it.
    pub fn own_device(&mut self, local: &Local<B>, interrupt: IntId) -> OwnDevice {
        let board = local.board;
        let Some(line) = board.lines.iter().find(|line| line.board == interrupt) else {
            return OwnDevice::Other;
        };
        if B::HAS_SMMU && line.tells_refusals() {
            return OwnDevice::Other;
        }
        let unit = board.vms.get(line.vm);
        let its = unit.is_some_and(|unit| core::ptr::eq(unit, self.unit));
        if !its || !self.unit.vm.lifecycle().is_running() {
            return OwnDevice::Other;
        }
        guest(self, board, &mut board.machine.lists()).device_interrupt(line.guest, interrupt);
        OwnDevice::HandedOn
    }

    /// Whether work for `unit`'s VM while this vCPU is in the CPU takes time from another VM's turn.
    fn is_disturbed_by(&self, unit: &VmUnit<B>) -> bool {
        !self.waiting && !core::ptr::eq(self.unit, unit)
    }
}

#[cfg(test)]
mod tests {
    use crate::begin_all;
    use crate::fake::FakeBoard;
    use crate::sleep::tests::{interrupt, settings};
    use hanok_hal::Backend;
    use hanok_types::{Deadline, GicVersion};
    use std::vec;

    /// The single vCPU of a pCPU runs, and a report's next piece is due at the instant.
    fn reporting() -> (FakeBoard, Deadline) {
        let mut fake = FakeBoard::new(settings(), &[vec![0]], GicVersion::V3);
        begin_all(fake.board);
        let pcpu = &mut fake.pcpus[0];
        pcpu.schedule();
        pcpu.local.report_later();
        let at = pcpu.local.restrained.until;
        (fake, at)
    }

    /// A pCPU with a single vCPU takes no updates: what came there is forgotten all the same, and its timer rests.
    #[test]
    fn the_instant_of_a_report_passes_where_nobody_shares_the_pcpu() {
        let (mut fake, at) = reporting();
        let (board, pcpu) = (fake.board, &mut fake.pcpus[0]);
        pcpu.schedule();
        assert_eq!(pcpu.local.deadline, at);
        let ticks = at.ticks().expect("it has an instant");
        board.machine.advance(ticks + 1 - board.machine.counter());
        assert!(board.machine.interrupt_is_pending());
        interrupt(pcpu);
        pcpu.schedule();
        assert_eq!(pcpu.local.deadline, Deadline::NEVER);
    }

    /// The guest's own timer comes before: the report's instant stands.
    #[test]
    fn the_instant_of_a_report_outlives_the_guests_timer() {
        let (mut fake, at) = reporting();
        let (board, pcpu) = (fake.board, &mut fake.pcpus[0]);
        let soon = board.machine.counter() + 1;
        board.machine.set_timer(Deadline::at(soon));
        board.machine.advance(2);
        assert!(board.machine.interrupt_is_pending());
        // The guest goes on: nobody asks the scheduler.
        interrupt(pcpu);
        assert_eq!(pcpu.local.deadline, at);
    }

    /// Interrupts that are restrained stay so to the end of their period, whatever is due of a report.
    #[test]
    fn a_report_lets_no_interrupt_through() {
        let fake = FakeBoard::new(settings(), &[vec![0]], GicVersion::V3);
        let mut pcpus = fake.pcpus;
        let local = &mut pcpus[0].local;
        let now = fake.board.machine.counter();
        let end = now + super::Interruptions::period(fake.board.machine.counter_frequency());
        let line = super::DeviceLine {
            board: hanok_types::IntId::new(40),
            guest: hanok_types::IntId::new(40),
            edge: false,
            vm: 0,
        };
        let restrain = |local: &mut super::Local<_>| {
            for _ in 0..super::Interruptions::AT_ONCE {
                local.restrain(0, &line);
            }
        };
        local.report_later();
        restrain(local);
        let until = local.restrained.until.ticks();
        assert!(until.is_some_and(|until| until >= end), "{until:?}");
        local.report_later();
        assert_eq!(local.restrained.until.ticks(), until);
        // Then both go on.
        fake.board.machine.advance(end + 10_000 - now);
        assert_eq!(local.let_through(), super::Reporting::GoesOn);
        assert_eq!(local.restrained.lines, 0);
    }
}
