//! Chooses exits that a guest can make, with any register values.

use crate::bytes::Bytes;
use hanok_decode::{Addressing, LoadStore, SysReg, decode_load_store};
use hanok_hal::fake::FakeBackend;
use hanok_types::{Ipa, PAGE_SIZE, Regs, platform};
use hanok_vm::fake::{ENTRY, RAM_START};
use hanok_vm::{DataAbort, Exit, Instruction, MmioAccess, SystemRegister, function};

/// Exits that the architecture can report, with any register values of the guest.
pub(super) fn any_exit(regs: &mut Regs, machine: &FakeBackend, input: &mut Bytes<'_>) -> Exit {
    let register = input.byte() % 32;
    match input.byte() % 16 {
        0..=2 => call(regs, input),
        3..=6 => {
            regs.set(register, value(input));
            Exit::Data(DataAbort {
                ipa: Ipa::new(address(input)),
                write: input.flag(),
                walk: input.byte() == 0,
                access: Some(MmioAccess {
                    width: input.width(),
                    register,
                    sign_extend: input.flag(),
                    wide: input.flag(),
                }),
                instruction: Instruction::Unknown,
                reach: PAGE_SIZE,
            })
        }
        7..=9 => by_instruction(regs, machine, input),
        10..=12 => {
            regs.set(register, value(input));
            Exit::SystemRegister(SystemRegister {
                id: system_register(input),
                register,
                write: input.flag(),
            })
        }
        13 => Exit::Wait,
        14 => Exit::Fetch {
            ipa: Ipa::new(address(input)),
            walk: input.flag(),
        },
        _ => match input.byte() % 16 {
            0 => Exit::Unexpected,
            1..=4 => Exit::SystemError,
            5..=8 => Exit::Denied,
            9..=12 => Exit::MonitorCall,
            _ => Exit::Refused {
                write: input.flag(),
            },
        },
    }
}

fn call(regs: &mut Regs, input: &mut Bytes<'_>) -> Exit {
    let known = [
        function::SMCCC_VERSION,
        function::SMCCC_ARCH_FEATURES,
        function::PSCI_VERSION,
        function::CPU_SUSPEND,
        function::CPU_OFF,
        function::CPU_ON,
        function::AFFINITY_INFO,
        function::MIGRATE_INFO_TYPE,
        function::SYSTEM_OFF,
        function::SYSTEM_RESET,
        function::PSCI_FEATURES,
        // The hypervisor's own functions, and numbers near them.
        0x8600_0000,
        0x8600_0001,
        0x8600_0002,
    ];
    let number = usize::from(input.byte());
    let id = if number < 240 {
        known[number % known.len()] | u32::from(input.flag()) << 30
    } else {
        input.word()
    };
    let x = &mut regs.x;
    // The bits above W0 are ignored.
    x[0] = u64::from(id) | if input.byte() == 0 { 1 << 63 } else { 0 };
    for argument in &mut x[1..4] {
        *argument = match input.byte() % 8 {
            0..=2 => (input.byte() % 10).into(),
            3 | 4 => ENTRY,
            5 => RAM_START + u64::from(input.word()),
            _ => input.number(),
        };
    }
    Exit::Hypercall
}

/// An access of which the CPU reports the address only, and an instruction: most of the time one
/// that makes that access.
fn by_instruction(regs: &mut Regs, machine: &FakeBackend, input: &mut Bytes<'_>) -> Exit {
    let word = if input.flag() {
        input.word() & !0x1200_0000 | 0x0800_0000
    } else {
        input.word() & !0x0200_0000 | 0x3800_0000
    };
    let ipa = address(input);
    let mut write = input.flag();
    if let Some(LoadStore::Transfer(transfer)) = decode_load_store(word)
        && input.byte() > 16
    {
        write = !transfer.load;
        let index = transfer.address.index();
        let index = index.map_or(0, |index| regs.get(index));
        let from_zero = transfer.address.resolve(regs.pc, 0, index).address;
        let base = match transfer.address {
            Addressing::PostIndex { .. } => ipa,
            _ => ipa.wrapping_sub(from_zero),
        };
        match transfer.address.base() {
            Some(31) => machine.registers().stack_pointers = [base; 2],
            Some(register) => regs.set(register, base),
            None => {}
        }
    }
    Exit::Data(DataAbort {
        ipa: Ipa::new(ipa),
        write,
        walk: false,
        access: None,
        instruction: Instruction::Word(word),
        reach: PAGE_SIZE,
    })
}

/// Addresses of the guest's devices, most of the time.
fn address(input: &mut Bytes<'_>) -> u64 {
    let frame = u64::from(input.byte() % 9);
    let base = match input.byte() % 16 {
        0 => platform::FLASH.get(),
        1..=4 => platform::GIC_DIST.get(),
        5 => platform::GIC_REDIST.get() + frame * platform::GIC_REDIST_STRIDE,
        6..=8 => platform::GIC_REDIST.get() + frame * platform::GIC_REDIST_STRIDE + 0x1_0000,
        9..=11 => platform::UART.get(),
        12 | 13 => platform::RTC.get(),
        14 => platform::VIRTIO.get(),
        _ => return input.number(),
    };
    let offset = u64::from(input.half());
    let interrupts = base < platform::UART.get() && base >= platform::GIC_DIST.get();
    base + match input.byte() % 8 {
        // Enable, pending and active bits, and the targets of an SGI.
        4..=7 if interrupts && offset & 1 == 0 => {
            let registers = [0x80, 0x100, 0x180, 0x200, 0x280, 0x300, 0x380, 0xf00];
            registers[usize::from(input.byte() % 8)] + (offset & 0x3c)
        }
        0 => offset,
        1 | 2 => offset & 0xff0,
        _ => offset & 0xffc,
    }
}

fn value(input: &mut Bytes<'_>) -> u64 {
    match input.byte() % 4 {
        0 => u64::MAX,
        1 => 1 << (input.byte() % 64),
        _ => input.number(),
    }
}

fn system_register(input: &mut Bytes<'_>) -> SysReg {
    let known = [
        SysReg::ICC_SGI1R_EL1,
        SysReg::ICC_SGI0R_EL1,
        SysReg::ICC_ASGI1R_EL1,
        SysReg::CNTP_CTL_EL0,
        SysReg::CNTP_CVAL_EL0,
        SysReg::CNTP_TVAL_EL0,
        SysReg::MDSCR_EL1,
        SysReg::OSLAR_EL1,
        SysReg::OSLSR_EL1,
        SysReg::ID_AA64PFR0_EL1,
    ];
    match input.byte() {
        number @ 0..200 => known[usize::from(number) % known.len()],
        _ => SysReg::from_bits(input.half()),
    }
}
