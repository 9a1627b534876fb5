//! What is asked for at the console's prompt, carried out.

use crate::board::Board;
use crate::schedule;
use crate::unit::VmUnit;
use hanok_types::{VcpuSet, VmId};
use hanok_vm::{Command, Ending, Machine, Requests, Wish};

/// Carries a command out; what it shows is said by and by, a vCPU's state by its own pCPU.
pub fn carry_out(command: Command, board: &'static Board) {
    match command {
        Command::List => board.vms.iter().for_each(|unit| list(unit, board)),
        Command::Stats(Some(vm)) => with(vm, board, |unit| stats(unit, board)),
        Command::Stats(None) => board.vms.iter().for_each(|unit| stats(unit, board)),
        Command::Pause(vm) => with(vm, board, |unit| pause(unit, true, board)),
        Command::Resume(vm) => with(vm, board, |unit| pause(unit, false, board)),
        Command::Restart(vm) => with(vm, board, |unit| restart(unit, board)),
        Command::Stop(vm) => with(vm, board, |unit| stop(unit, board)),
        Command::Dump(vm) => with(vm, board, |unit| dump(unit, board)),
        Command::Quit => quit(board),
    }
}

fn with(vm: VmId, board: &'static Board, act: impl FnOnce(&'static VmUnit)) {
    if let Some(unit) = board.vms.get(vm.index()) {
        act(unit);
    }
}

fn list(unit: &VmUnit, board: &Board) {
    let mib = unit.ram.ipa().len() >> 20;
    board.say(format_args!("{}", unit.vm.listed(mib)));
    ask(unit, board, Requests::ask_look);
}

fn stats(unit: &VmUnit, board: &Board) {
    let name = &unit.vm.config().name;
    unit.vm.each_count(|vcpu, cause, exits, instructions| {
        let cause = cause.word();
        if board.counts_instructions {
            let each = instructions / exits.max(1);
            board.say(format_args!(
                "{name} vCPU {vcpu}: {cause:<10} {exits:>10} exits {instructions:>12} \
                 instructions {each:>7} each"
            ));
        } else {
            board.say(format_args!(
                "{name} vCPU {vcpu}: {cause:<10} {exits:>10} exits"
            ));
        }
    });
    let (holes, unknown) = unit.vm.strays();
    board.say(format_args!(
        "{name}: {holes} accesses to nothing, {unknown} to unknown registers of the interrupt \
         controller"
    ));
}

fn pause(unit: &VmUnit, paused: bool, board: &Board) {
    let name = &unit.vm.config().name;
    let word = if paused { "paused" } else { "resumed" };
    if unit.vm.life().is_ended() {
        return board.say(format_args!("vm {name} is off"));
    }
    match unit.vm.set_paused(board, paused) {
        true => board.say(format_args!("vm {name}: {word}")),
        false if paused => board.say(format_args!("vm {name} is paused already")),
        false => board.say(format_args!("vm {name} is not paused")),
    }
}

fn restart(unit: &'static VmUnit, board: &'static Board) {
    match unit.vm.restart(board) {
        Wish::Deserted => board.say(format_args!("vm {}: begins", unit.vm.config().name)),
        Wish::Taken => {}
        Wish::Refused => already(unit, board),
    }
}

fn stop(unit: &'static VmUnit, board: &'static Board) {
    match unit.vm.stop(board) {
        Wish::Deserted => schedule::carry_out(unit, Ending::Off, board),
        Wish::Taken => {}
        Wish::Refused => already(unit, board),
    }
}

/// Nothing came of a wish: the VM is loading, ending, off or stopped.
fn already(unit: &VmUnit, board: &Board) {
    let vm = &unit.vm;
    board.say(format_args!(
        "vm {} is {} already",
        vm.config().name,
        vm.state()
    ));
}

/// Asks each vCPU's own pCPU to show it.
fn dump(unit: &VmUnit, board: &Board) {
    let vm = &unit.vm;
    board.say(format_args!("{}: {}", vm.config().name, vm.state()));
    ask(unit, board, Requests::ask_dump);
}

/// Asks something of each vCPU's own pCPU.
#[inline(never)]
fn ask(unit: &VmUnit, board: &Board, something: fn(&Requests)) {
    let vm = &unit.vm;
    for vcpu in VcpuSet::first(vm.vcpus()).iter() {
        something(vm.requests(vcpu));
        if let Some(cpu) = vm.cpu_of(vcpu) {
            board.kick(cpu);
        }
    }
}

fn quit(board: &'static Board) {
    board.say(format_args!("end: off"));
    schedule::power_off(board);
}
