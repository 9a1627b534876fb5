//! A guest's doings, against a fake machine.

mod aarch32;
mod absent;
mod blocking;
mod cpu_interface;
mod destinations;
mod devices;
mod hypercalls;
mod id_registers;
mod instructions;
mod instructions_aarch32;
mod lifecycle;
mod pieces;
mod properties;
mod registers;
mod requests;
mod schedule;
mod sgis;
mod states;
mod timers;
mod trapped;
mod trng;

use crate::fake::Fixture;
use crate::{Action, DataAbort, Exit, GuestFault, MmioAccess, SystemRegister};
use hanok_config::DeviceKind;
use hanok_decode::SysReg;
use hanok_types::{Ipa, PAGE_SIZE, Width};

/// The guest gets the fault of a load that nothing answered.
const READ: Action = Action::Inject(GuestFault::ExternalData {
    write: false,
    walk: false,
});
/// The same of a store.
const WRITE: Action = Action::Inject(GuestFault::ExternalData {
    write: true,
    walk: false,
});

/// Whether the serial port had room for a byte that came.
fn received(vm: &Fixture, byte: u8) -> bool {
    let mut left = Some(byte);
    let _ = vm.vm.receive(&vm.machine, || left.take());
    left.is_none()
}

/// How many writes to registers that are not there the devices of a kind ignored.
fn ignored_writes(vm: &Fixture, kind: DeviceKind) -> u32 {
    let slots = vm.vm.slots.iter().filter(|slot| slot.kind() == kind);
    slots.map(|slot| slot.device.lock().unknown().writes).sum()
}

/// A store of register `register`, as the syndrome describes it.
fn store(ipa: u64, width: Width, register: u8) -> Exit {
    data(ipa, true, Some(access(width, register)), None)
}

/// A load into register `register`, zero-extended.
fn load(ipa: u64, width: Width, register: u8) -> Exit {
    data(ipa, false, Some(access(width, register)), None)
}

/// A load or store of which only the instruction is known.
fn by_word(ipa: u64, write: bool, word: u32) -> Exit {
    data(ipa, write, None, Some(word))
}

/// The same load or store, whose page's addresses go on in the next one.
fn reaching_further(exit: Exit) -> Exit {
    match exit {
        Exit::Data(abort) => Exit::Data(DataAbort {
            reach: 2 * PAGE_SIZE,
            ..abort
        }),
        other => other,
    }
}

fn access(width: Width, register: u8) -> MmioAccess {
    let wide = width == Width::Double;
    MmioAccess {
        width,
        register,
        sign_extend: false,
        wide,
    }
}

fn data(ipa: u64, write: bool, access: Option<MmioAccess>, instruction: Option<u32>) -> Exit {
    let ipa = Ipa::new(ipa);
    Exit::Data(DataAbort {
        ipa,
        write,
        walk: false,
        access,
        instruction: instruction.into(),
        reach: PAGE_SIZE,
    })
}

fn read(id: SysReg) -> Exit {
    Exit::SystemRegister(SystemRegister {
        id,
        register: 5,
        write: false,
    })
}

fn write(id: SysReg) -> Exit {
    Exit::SystemRegister(SystemRegister {
        id,
        register: 5,
        write: true,
    })
}
