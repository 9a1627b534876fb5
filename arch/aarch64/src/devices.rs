//! Interrupts of the board's devices that VMs have for themselves.
//!
//! One goes to the pCPU of its VM's first vCPU, which hands it on to the VM's interrupt
//! controller; the guest's end of it deactivates it in the real one. It is on while its VM
//! has a life, and off between two lives, so that a device that nobody looks after disturbs
//! nobody.

use crate::board::{Board, DeviceLine, DeviceLines};
use crate::cpu::Cpu;
use crate::interrupts::CpuGic;
use crate::unit::VmUnit;
use hanok_config::System;
use hanok_types::{IntId, VcpuId};

/// The interrupts that a system's VMs are given; `None` where they are too many.
pub fn lines_of(system: &System) -> Option<DeviceLines> {
    let mut lines = DeviceLines::new();
    for (vm, config) in system.vms.iter().enumerate() {
        for line in config.devices.iter().flat_map(|device| &device.interrupts) {
            let (board, guest) = (line.board, line.guest);
            lines.push(DeviceLine { board, guest, vm }).ok()?;
        }
    }
    Some(lines)
}

/// Lets the interrupts of a VM's devices through from now on.
pub fn connect(unit: &VmUnit, cpu: &Cpu, board: &Board) {
    let to = unit.vm.cpu_of(VcpuId::new(0));
    let to = to.and_then(|first| board.cpus.get(first.index()));
    let (Some(gic), Some(to)) = (&cpu.gic, to) else {
        return;
    };
    let devices = unit.vm.config().devices.iter();
    for line in devices.flat_map(|device| &device.interrupts) {
        gic.set_active(line.board, false);
        gic.clear_pending(line.board);
        gic.route(line.board, to);
        gic.enable(line.board, true);
    }
}

/// Sets how the interrupts of all VMs' devices are triggered. Once, before any is on: they
/// share registers.
pub fn set_triggers(gic: &CpuGic, board: &Board) {
    let devices = board.vms.iter().flat_map(|unit| &unit.vm.config().devices);
    for line in devices.flat_map(|device| &device.interrupts) {
        gic.set_edge(line.board, line.edge);
    }
}

/// Lets none of them through any more; nobody is in the VM.
pub fn disconnect(unit: &VmUnit, cpu: &Cpu) {
    let Some(gic) = &cpu.gic else { return };
    let devices = unit.vm.config().devices.iter();
    for line in devices.flat_map(|device| &device.interrupts) {
        gic.enable(line.board, false);
        gic.set_active(line.board, false);
    }
}

/// Hands a device's interrupt on. `false` where it is no VM's, or its VM is at its end: then
/// it is the caller's to end, and off until the VM's next life.
pub fn hand_on(interrupt: IntId, cpu: &Cpu, board: &'static Board) -> bool {
    let line = board.lines.iter().find(|line| line.board == interrupt);
    let Some((line, unit)) = line.and_then(|line| Some((line, board.vms.get(line.vm)?))) else {
        return false;
    };
    if unit.vm.life().is_running() {
        unit.vm.device_interrupt(board, line.guest, interrupt);
        return true;
    }
    if let Some(gic) = &cpu.gic {
        gic.enable(interrupt, false);
    }
    false
}
