//! PSCI (DEN 0022F) and the SMC calling convention (DEN 0028).

use crate::case::{Case, Outcome, case, hanok_case};
use crate::machine::Machine;
use crate::psci::{self, call, call_all, status};
use crate::{cpu, gic, smp, timer};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("psci-version", 1, version),
    case("psci-features", 1, features),
    hanok_case("psci-smccc", 1, smccc),
    case("psci-unknown", 1, unknown),
    case("psci-garbage", 1, garbage),
    case("psci-preserves", 1, preserves),
    case("psci-bad-target", 1, bad_target),
    hanok_case("psci-bad-entry", 2, bad_entry),
    case("psci-already-on", 1, already_on),
    case("psci-suspend", 1, suspend),
    case("psci-on-off", 2, on_off),
    case("psci-all-at-once", 2, all_at_once),
    case("psci-running", 2, running),
    hanok_case("psci-on-at-once", 2, on_at_once),
];

fn version(_: &Machine) -> Outcome {
    let version = call(psci::VERSION, 0, 0, 0);
    check!((0x1_0001..0x2_0000).contains(&version), "{version:#x}");
    let migrate = status(call(psci::MIGRATE_INFO_TYPE, 0, 0, 0));
    // 2: no trusted OS that would have to migrate; or not there.
    check!(
        migrate == 2 || migrate == psci::NOT_SUPPORTED,
        "MIGRATE_INFO_TYPE {migrate}"
    );
    Ok(())
}

fn features(_: &Machine) -> Outcome {
    for function in [
        psci::VERSION,
        psci::CPU_OFF,
        psci::CPU_ON,
        psci::CPU_ON_32,
        psci::CPU_SUSPEND,
        psci::AFFINITY_INFO,
        psci::SYSTEM_OFF,
        psci::SYSTEM_RESET,
        psci::FEATURES,
    ] {
        let known = status(call(psci::FEATURES, function, 0, 0));
        check!(known >= 0, "{function:#x} -> {known}");
    }
    for function in [0x8400_00ff, 0, u64::MAX] {
        let known = status(call(psci::FEATURES, function, 0, 0));
        check_eq!(known, psci::NOT_SUPPORTED, "{function:#x}");
    }
    Ok(())
}

/// QEMU 10 offers PSCI alone.
fn smccc(_: &Machine) -> Outcome {
    let version = status(call(psci::SMCCC_VERSION, 0, 0, 0));
    check!(version >= 0x1_0001, "SMCCC_VERSION {version:#x}");
    let known = status(call(psci::FEATURES, psci::SMCCC_VERSION, 0, 0));
    check_eq!(known, psci::SUCCESS, "PSCI_FEATURES of SMCCC_VERSION");
    let itself = status(call(
        psci::SMCCC_ARCH_FEATURES,
        psci::SMCCC_ARCH_FEATURES,
        0,
        0,
    ));
    check!(itself >= 0, "ARCH_FEATURES of itself {itself}");
    let nothing = status(call(psci::SMCCC_ARCH_FEATURES, 0x8000_7000, 0, 0));
    check_eq!(nothing, psci::NOT_SUPPORTED, "ARCH_FEATURES of nothing");
    Ok(())
}

fn unknown(_: &Machine) -> Outcome {
    // A PSCI number with no function, and one of each owner (DEN 0028, 6.1).
    for function in [
        0x8400_001f,
        0xc400_001f,
        0x8000_ffff,
        0x8100_0000,
        0x8600_0000,
        0xc600_4321,
    ] {
        let result = call(function, 1, 2, 3);
        check_eq!(status(result), psci::NOT_SUPPORTED, "{function:#x}");
    }
    Ok(())
}

/// The most that a register holds.
const MOST: u64 = usize::MAX as u64;

/// Returns whether a register holds the value.
fn fits(value: &u64) -> bool {
    usize::try_from(*value).is_ok()
}

/// A call that is not one of ours must not do anything; its return value is free.
fn garbage(_: &Machine) -> Outcome {
    let mut value = 0x1234_5678_9abc_def0_u64;
    for _ in 0..256 {
        let mut x = [0; 8];
        for x in &mut x {
            value = value
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            *x = value;
        }
        // Fast calls of owners other than PSCI's: none of these may start or stop a CPU.
        x[0] = x[0] & 0xffff_ffff & !(0x3f << 24) | 0x30 << 24;
        call_all(&mut x);
        check_eq!(status(x[0]), psci::NOT_SUPPORTED, "garbage");
    }
    Ok(())
}

/// X4 and above keep their values over a call (SMCCC 1.1), also with any 64 bits in its arguments.
fn preserves(_: &Machine) -> Outcome {
    let mut x = [psci::AFFINITY_INFO, MOST, 0, MOST, 4, 5, 6, 7];
    call_all(&mut x);
    check_eq!(
        status(x[0]),
        psci::INVALID_PARAMETERS,
        "AFFINITY_INFO of nobody"
    );
    check_eq!([x[4], x[5], x[6], x[7]], [4, 5, 6, 7], "X4 to X7");
    Ok(())
}

fn bad_target(machine: &Machine) -> Outcome {
    // The last ones name a CPU, and set a bit that belongs to no affinity field.
    let absent = [machine.cpus as u64, 0xff, 1 << 8, 1 << 32, MOST];
    let stray = [1 << 31, 1 << 24, 1 << 63];
    for target in absent.into_iter().chain(stray).filter(fits) {
        let result = psci::cpu_on(target, 0x4000_0000, 0);
        check_eq!(result, psci::INVALID_PARAMETERS, "CPU_ON {target:#x}");
        let info = psci::affinity_info(target);
        check_eq!(info, psci::INVALID_PARAMETERS, "AFFINITY_INFO {target:#x}");
    }
    Ok(())
}

/// QEMU starts a CPU at any address; Hanok must not, since PSCI has an error for it.
fn bad_entry(_: &Machine) -> Outcome {
    let entries = [platform::UART.get(), 1 << 45, MOST - 3];
    for entry in entries.into_iter().filter(fits) {
        let result = psci::cpu_on(1, entry, 0);
        check_eq!(result, psci::INVALID_ADDRESS, "{entry:#x}");
        check_eq!(psci::affinity_info(1), psci::OFF, "AFFINITY_INFO");
    }
    Ok(())
}

fn already_on(_: &Machine) -> Outcome {
    check_eq!(
        psci::cpu_on(0, 0x4000_0000, 0),
        psci::ALREADY_ON,
        "CPU_ON of us"
    );
    check_eq!(psci::affinity_info(0), psci::ON, "AFFINITY_INFO of us");
    Ok(())
}

/// A standby state returns once an interrupt is pending, masked or not.
fn suspend(_: &Machine) -> Outcome {
    let id = platform::TIMER_VIRTUAL_IRQ.get();
    gic::enable(id);
    let before = timer::now();
    write_sysreg!("cntv_cval_el0", before + timer::microseconds(2000));
    write_sysreg!("cntv_ctl_el0", timer::ENABLE);
    let result = status(call(psci::CPU_SUSPEND, 0, 0, 0));
    let took = timer::now() - before;
    write_sysreg!("cntv_ctl_el0", 0);
    gic::disable(id);
    check_eq!(result, psci::SUCCESS, "CPU_SUSPEND");
    check!(
        took >= timer::microseconds(1),
        "returned after {took} ticks"
    );
    Ok(())
}

static SEEN: AtomicU64 = AtomicU64::new(0);

fn count_me(index: usize) {
    SEEN.fetch_add(1 << (index * 8), SeqCst);
}

fn on_off(machine: &Machine) -> Outcome {
    for round in 0..20 {
        let index = 1 + round % (machine.cpus - 1);
        check_eq!(
            psci::affinity_info(index as u64),
            psci::OFF,
            "before, vCPU {index}"
        );
        SEEN.store(0, SeqCst);
        check_eq!(smp::start(index, count_me), psci::SUCCESS, "CPU_ON {index}");
        check!(smp::wait_off(index), "vCPU {index} does not end");
        check_eq!(SEEN.load(SeqCst), 1 << (index * 8), "runs of vCPU {index}");
    }
    Ok(())
}

fn all_at_once(machine: &Machine) -> Outcome {
    SEEN.store(0, SeqCst);
    for index in 1..machine.cpus {
        check_eq!(smp::start(index, count_me), psci::SUCCESS, "CPU_ON {index}");
    }
    for index in 1..machine.cpus {
        check!(smp::wait_off(index), "vCPU {index} does not end");
    }
    let expected = (1..machine.cpus).map(|index| 1 << (index * 8)).sum::<u64>();
    check_eq!(SEEN.load(SeqCst), expected, "runs");
    Ok(())
}

fn wait_for_go(_: usize) {
    let _ = SEEN.compare_exchange(0, 1, SeqCst, SeqCst);
    timer::wait_until(|| SEEN.load(SeqCst) == 2);
}

fn running(_: &Machine) -> Outcome {
    SEEN.store(0, SeqCst);
    check_eq!(smp::start(1, wait_for_go), psci::SUCCESS, "CPU_ON");
    let came = timer::wait_until(|| SEEN.load(SeqCst) == 1);
    let again = psci::cpu_on(1, 0x4000_0000, 0);
    let info = psci::affinity_info(1);
    SEEN.store(2, SeqCst);
    check!(came, "vCPU 1 does not come");
    check_eq!(again, psci::ALREADY_ON, "CPU_ON of a running vCPU");
    check_eq!(info, psci::ON, "AFFINITY_INFO");
    check!(smp::wait_off(1), "vCPU 1 does not end");
    check_eq!(cpu::of(1).index(), 1, "its number");
    Ok(())
}

/// From CPU_ON's success on a vCPU is ON or ON_PENDING. QEMU returns OFF until the CPU runs.
fn on_at_once(_: &Machine) -> Outcome {
    for _ in 0..20 {
        SEEN.store(0, SeqCst);
        let started = smp::start(1, wait_for_go);
        let info = psci::affinity_info(1);
        SEEN.store(2, SeqCst);
        check_eq!(started, psci::SUCCESS, "CPU_ON");
        check!(smp::wait_off(1), "vCPU 1 does not end");
        check!(
            matches!(info, psci::ON | psci::ON_PENDING),
            "AFFINITY_INFO {info}"
        );
    }
    Ok(())
}
