//! FP/SIMD: the guest's registers keep their values over exits, interrupts and other vCPUs' use.

use crate::arch::fp::{self, State};
use crate::case::{Case, Failure, Outcome, case};

use crate::machine::Machine;
use crate::{cpu, gic, mmio, psci, smp, timer};
use core::sync::atomic::{AtomicU32, Ordering::SeqCst};
use hanok_types::platform;

pub const CASES: &[Case] = &[
    case("fp-trap", 1, trap),
    case("fp-exits", 1, exits),
    case("fp-interrupts", 1, interrupts),
    case("fp-each-cpu", 2, each_cpu),
];

/// CPACR_EL1.FPEN, CPACR: the guest takes its own trap.
fn trap(_: &Machine) -> Outcome {
    for (enabled, expected) in [(false, true), (true, false), (false, true)] {
        fp::enable(enabled);
        let result = fp::use_one();
        let trapped = matches!(result, Err(fault) if fault.class() == fp::DISABLED);
        check!(
            trapped == expected && trapped == result.is_err(),
            "enabled {enabled}: {result:?}"
        );
    }
    Ok(())
}

/// Each kind of exit: a call, two devices, a trapped register.
fn exit(round: u64) {
    match round % 4 {
        0 => drop(psci::call(psci::VERSION, 0, 0, 0)),
        1 => drop(mmio::read32(platform::UART.get() + 0x18)),
        2 => drop(mmio::read32(gic::DIST + gic::TYPER)),
        _ => gic::send_self(13),
    }
}

fn keeps(seed: u64, rounds: u64) -> Outcome {
    fp::enable(true);
    for round in 0..rounds {
        let pattern = State::pattern(seed + round);
        pattern.load();
        exit(round);
        let after = State::stored();
        if after != pattern {
            let register = pattern.first_difference(&after);
            fp::enable(false);
            return Err(Failure::wrong(format_args!(
                "round {round}: register {register:?} changed"
            )));
        }
    }
    fp::enable(false);
    Ok(())
}

fn exits(_: &Machine) -> Outcome {
    let outcome = keeps(1, 100);
    // The interrupt sent stayed pending.
    gic::disable(13);
    outcome
}

fn interrupts(_: &Machine) -> Outcome {
    let cpu = cpu::this();
    cpu.forget_interrupts();
    gic::enable(13);
    let outcome = cpu::with_interrupts(|| keeps(1000, 400));
    let taken = cpu.count(13);
    gic::disable(13);
    outcome?;
    check_eq!(taken, 100, "interrupts taken");
    Ok(())
}

static KEPT: AtomicU32 = AtomicU32::new(0);

fn keep_and_wait(index: usize) {
    let kept = (0..20).all(|round| {
        timer::spin(50);
        keeps(index as u64 * 10_000 + round * 100, 20).is_ok()
    });
    if kept {
        KEPT.fetch_or(1 << index, SeqCst);
    }
}

fn each_cpu(machine: &Machine) -> Outcome {
    KEPT.store(0, SeqCst);
    for index in 1..machine.cpus {
        check_eq!(
            smp::start(index, keep_and_wait),
            psci::SUCCESS,
            "CPU_ON {index}"
        );
    }
    keep_and_wait(0);
    for index in 1..machine.cpus {
        check!(smp::wait_off(index), "vCPU {index} does not end");
    }
    check_eq!(
        KEPT.load(SeqCst),
        (1 << machine.cpus) - 1,
        "vCPUs whose registers stay"
    );
    Ok(())
}
