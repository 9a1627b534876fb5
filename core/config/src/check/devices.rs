//! The rules of devices that are passed through: in a VM they have addresses of their own on
//! the virtual platform, and no registers or interrupt of the board are passed through twice.

use super::Fault;
use crate::model::{Line, PassThrough, Registers, SystemView, VmConfig};
use hanok_types::{Address, IntKind, PAGE_SIZE, Span, platform};

pub(super) fn check(system: &SystemView<'_>) -> Result<(), Fault> {
    for (vm, config) in system.vms.iter().enumerate() {
        for (index, device) in config.devices.iter().enumerate() {
            check_form(vm, index, device)?;
            registers(system, vm, config, index, device)?;
            lines(system, vm, config, index, device)?;
        }
    }
    Ok(())
}

/// The rules that concern a single device.
fn check_form(vm: usize, device: usize, given: &PassThrough) -> Result<(), Fault> {
    if given.name.is_empty() || !given.name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Fault::DeviceName { vm, device });
    }
    if given.registers.is_empty() {
        return Err(Fault::NoRegisters { vm, device });
    }
    if !given.registers.iter().all(is_placed) {
        return Err(Fault::Registers { vm, device });
    }
    let is_spi = |line: &&Line| line.board.kind() == IntKind::Spi;
    match given.interrupts.iter().find(|line| !is_spi(line)) {
        None => Ok(()),
        Some(line) => {
            let line = line.board;
            Err(Fault::BoardLine { vm, device, line })
        }
    }
}

/// Whether the registers are whole pages, inside the guest's region for such devices.
fn is_placed(range: &Registers) -> bool {
    let window = Span::new(platform::PASS_THROUGH, platform::PASS_THROUGH_SIZE);
    let guest = range.guest_span();
    let inside = window
        .zip(guest)
        .is_some_and(|(window, at)| window.covers(&at));
    inside
        && range.host_span().is_some()
        && range.len > 0
        && range.len.is_multiple_of(PAGE_SIZE)
        && range.ipa.is_aligned(PAGE_SIZE)
        && range.host.is_aligned(PAGE_SIZE)
}

fn registers(
    system: &SystemView<'_>,
    vm: usize,
    config: &VmConfig,
    index: usize,
    given: &PassThrough,
) -> Result<(), Fault> {
    for (number, range) in given.registers.iter().enumerate() {
        let (guest, host) = (range.guest_span(), range.host_span());
        let own = given.registers.iter().take(number);
        let of_vm = config.devices.iter().take(index);
        let mut in_vm = of_vm
            .flat_map(|other| other.registers.iter())
            .chain(own.clone());
        if in_vm.any(|other| meet(other.guest_span(), guest)) {
            return Err(Fault::RegistersOverlap { vm, device: index });
        }
        let earlier = earlier(system, vm, index);
        let mut on_board = earlier.flat_map(|other| other.registers.iter()).chain(own);
        if on_board.any(|other| meet(other.host_span(), host)) {
            return Err(Fault::RegistersTwice { vm, device: index });
        }
    }
    Ok(())
}

fn lines(
    system: &SystemView<'_>,
    vm: usize,
    config: &VmConfig,
    index: usize,
    given: &PassThrough,
) -> Result<(), Fault> {
    let first = platform::PASS_THROUGH_IRQ.get();
    let free = first..first + platform::PASS_THROUGH_IRQS;
    for (number, line) in given.interrupts.iter().enumerate() {
        let own = given.interrupts.iter().take(number);
        let of_vm = config.devices.iter().take(index);
        let mut in_vm = of_vm
            .flat_map(|other| other.interrupts.iter())
            .chain(own.clone());
        if !free.contains(&line.guest.get()) || in_vm.any(|other| other.guest == line.guest) {
            let line = line.guest;
            let device = index;
            return Err(Fault::GuestLine { vm, device, line });
        }
        let earlier = earlier(system, vm, index);
        let mut on_board = earlier.flat_map(|other| other.interrupts.iter()).chain(own);
        if on_board.any(|other| other.board == line.board) {
            let line = line.board;
            let device = index;
            return Err(Fault::BoardLineTwice { vm, device, line });
        }
    }
    Ok(())
}

/// The devices before device `index` of VM `vm`, in the whole system.
fn earlier<'a>(
    system: &SystemView<'a>,
    vm: usize,
    index: usize,
) -> impl Iterator<Item = &'a PassThrough> + use<'a> {
    let vms = system.vms.iter().enumerate().take(vm + 1);
    vms.flat_map(move |(other, config)| {
        let count = if other == vm { index } else { usize::MAX };
        config.devices.iter().take(count)
    })
}

fn meet<A: Address>(one: Option<Span<A>>, other: Option<Span<A>>) -> bool {
    one.zip(other)
        .is_some_and(|(one, other)| one.overlaps(&other))
}
