//! VFP's and Advanced SIMD's own switches (DDI 0406C, B1.11): CPACR, FPEXC, identification.

use crate::arch::code::{Register, cp15, execute};
use crate::arch::fp;
use crate::case::{Case, Failure, Outcome, case};
use crate::machine::Machine;
use crate::probe::{Fault, class};
use crate::{gic, mmio, psci};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("fp-exception-enable", 1, exception_enable),
    case("fp-switches-stay", 1, switches_stay),
    case("fp-identification", 1, identification),
    case("fp-coprocessor-11", 1, coprocessor_11),
    case("fp-from-a-device", 1, from_a_device),
    case("fp-to-a-device", 1, to_a_device).v2(),
];

/// FPEXC.EN: while it is clear an instruction is undefined, though CPACR allows it, and FPEXC
/// itself can be accessed.
fn exception_enable(_: &Machine) -> Outcome {
    fp::enable(true);
    fp::set_enabled(false);
    let off = (fp::is_enabled(), fp::use_one());
    psci::call(psci::VERSION, 0, 0, 0);
    let still = (fp::is_enabled(), fp::use_one());
    fp::set_enabled(true);
    let on = (fp::is_enabled(), fp::use_one());
    fp::enable(false);
    for (enabled, result) in [off, still] {
        let undefined = matches!(result, Err(fault) if fault.class() == class::UNDEFINED);
        check!(!enabled && undefined, "off: {enabled}, {result:?}");
    }
    check!(on.0 && on.1.is_ok(), "on: {on:?}");
    Ok(())
}

/// CPACR and FPEXC are unchanged after each kind of exit.
fn switches_stay(_: &Machine) -> Outcome {
    let outcome = (0..40).try_for_each(|round| {
        let on = round % 3 == 0;
        fp::enable(true);
        fp::set_enabled(on);
        match round % 4 {
            0 => drop(psci::call(psci::VERSION, 0, 0, 0)),
            1 => drop(mmio::read32(platform::UART.get() + 0x18)),
            2 => drop(mmio::read32(gic::DIST + gic::TYPER)),
            _ => drop(psci::call(psci::AFFINITY_INFO, 0, 0, 0)),
        }
        check_eq!(read_sysreg!("cpacr_el1") >> 20 & 0xf, 0xf, "CPACR");
        check_eq!(fp::is_enabled(), on, "FPEXC.EN in round {round}");
        check_eq!(fp::use_one().is_ok(), on, "an instruction in round {round}");
        Ok(())
    });
    fp::enable(true);
    fp::set_enabled(true);
    fp::enable(false);
    outcome
}

/// FPSID, MVFR1 and MVFR0.
const IDENTIFICATION: [u32; 3] = [0, 6, 7];

fn read(number: u32) -> Result<u32, Fault> {
    let register = Register {
        coprocessor: 10,
        ..cp15(7, number, 0, 0)
    };
    // SAFETY: VMRS changes R0 alone.
    unsafe { execute(&[register.read()], 0) }
}

/// The identification registers read the same each time, and are undefined where CPACR denies
/// access.
fn identification(_: &Machine) -> Outcome {
    for number in IDENTIFICATION {
        fp::enable(true);
        let first = read(number);
        psci::call(psci::VERSION, 0, 0, 0);
        let again = read(number);
        fp::enable(false);
        let disabled = read(number);
        check!(
            matches!((first, again), (Ok(first), Ok(again)) if first == again && first != 0),
            "{number}: {first:x?}, {again:x?}"
        );
        match disabled {
            Err(fault) if fault.class() == class::UNDEFINED => {}
            other => {
                return Err(Failure::wrong(format_args!(
                    "{number} disabled: {other:x?}"
                )));
            }
        }
    }
    Ok(())
}

/// A double word goes by coprocessor 11: VMOV D0, R0, R1 and back.
fn coprocessor_11(_: &Machine) -> Outcome {
    fp::enable(true);
    // MOV R1, #7; VMOV D0, R0, R1; MOV R0, #0; VMOV R0, R1, D0; ADD R0, R0, R1.
    let words = [
        0xe3a0_1007,
        0xec41_0b10,
        0xe3a0_0000,
        0xec51_0b10,
        0xe080_0001,
    ];
    // SAFETY: the compiler uses no FP/SIMD register; R0 and R1 may change.
    let result = unsafe { execute(&words, 35) };
    fp::enable(false);
    check!(matches!(result, Ok(42)), "{result:x?}");
    Ok(())
}

/// PCellID2 and PCellID3 of the serial port, a double word.
const CELL_IDS: u64 = platform::UART.get() + 0xff8;
/// Priorities of eight SPIs that no device has.
const PRIORITIES: u64 = gic::DIST + gic::IPRIORITYR + 224;

/// VLDR or VSTR of a double word at R0: bit 22 and bits 15 to 12 number the register (DDI 0406C,
/// A8.8.333 and A8.8.413).
fn double_word(code: u32, register: u32) -> u32 {
    code | register >> 4 << 22 | (register & 0xf) << 12
}

/// Each double word register is loaded from a device, and no other one changes.
fn from_a_device(_: &Machine) -> Outcome {
    fp::enable(true);
    let outcome = (0..32).try_for_each(|n: u32| {
        let mut wanted = fp::State::pattern(n.into());
        wanted.load();
        // SAFETY: loads an FP/SIMD register, which the compiler does not use, from a register
        // without side effects.
        let result = unsafe { execute(&[double_word(0xed90_0b00, n)], CELL_IDS as u32) };
        check!(result.is_ok(), "VLDR D{n}: {result:x?}");
        wanted.d[n as usize] = 0xb1_0000_0005;
        let found = fp::State::stored();
        let other = wanted.first_difference(&found);
        check!(other.is_none(), "VLDR D{n}: D{other:?} is another");
        Ok(())
    });
    fp::enable(false);
    outcome
}

/// Each double word register is stored to a device, and none changes. A GICv3 need not take double
/// words (IHI 0069, 12.1.3), and QEMU's does not.
fn to_a_device(_: &Machine) -> Outcome {
    /// The bits of a priority that every implementation has here.
    const KEPT: u64 = 0xf0f0_f0f0_f0f0_f0f0;
    fp::enable(true);
    let outcome = (0..32).try_for_each(|n: u32| {
        let held = fp::State::pattern(u64::from(n) + 1);
        held.load();
        // SAFETY: stores to registers that no other case relies on.
        let result = unsafe { execute(&[double_word(0xed80_0b00, n)], PRIORITIES as u32) };
        check!(result.is_ok(), "VSTR D{n}: {result:x?}");
        let [low, high] = [0, 4].map(|at| mmio::read32(PRIORITIES + at));
        let stored = u64::from(high) << 32 | u64::from(low);
        check_eq!(stored & KEPT, held.d[n as usize] & KEPT, "VSTR D{n}");
        check!(
            held.first_difference(&fp::State::stored()).is_none(),
            "VSTR D{n}"
        );
        Ok(())
    });
    fp::enable(false);
    for at in [0, 4] {
        mmio::write32(PRIORITIES + at, 0);
    }
    outcome
}
