//! SGIs between CPUs (IHI 0069H, ICC_SGI1R_EL1; IHI 0048B, GICD_SGIR).

use crate::case::{Case, Outcome, case};
use crate::machine::Machine;
use crate::sleep::sleep_until;
use crate::{cpu, gic, psci, smp, timer};
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};

pub const CASES: &[Case] = &[
    case("sgi-to-each", 2, to_each),
    case("sgi-to-others", 2, to_others),
    case("sgi-all-sixteen", 2, all_sixteen),
    case("sgi-ten-thousand", 2, ten_thousand),
    case("spi-routed", 2, spi_routed),
];

const SPI: u32 = 32 + 201;
const PING: u32 = 3;
const PONG: u32 = 4;
/// Wakes a listener that is to stop.
const WAKE: u32 = 15;
/// A time limit longer than any case here takes, on the slowest emulator.
const LONG_MS: u64 = 300_000;

static READY: AtomicU32 = AtomicU32::new(0);
static STOP: AtomicBool = AtomicBool::new(false);

/// Sleeps, and takes interrupts, until told to stop.
fn listen(_: usize) {
    let cpu = cpu::this();
    cpu.forget_interrupts();
    (0..16).for_each(gic::enable);
    READY.fetch_add(1, SeqCst);
    sleep_until(LONG_MS, || STOP.load(SeqCst));
    cpu.set_hook(None);
    (0..16).for_each(gic::disable);
    READY.fetch_sub(1, SeqCst);
}

/// Listens, and answers each ping.
fn answer(index: usize) {
    cpu::this().set_hook(Some(|id| {
        if id == PING {
            gic::send_to(0, PONG);
        }
    }));
    listen(index);
}

/// Runs `f` while CPUs 1 to `count` do `job`.
fn with_others(count: usize, job: smp::Job, f: impl FnOnce() -> Outcome) -> Outcome {
    READY.store(0, SeqCst);
    STOP.store(false, SeqCst);
    for index in 1..=count {
        check_eq!(smp::start(index, job), psci::SUCCESS, "CPU_ON {index}");
    }
    let ready = timer::wait_until(|| READY.load(SeqCst) == count as u32);
    check!(ready, "only {} come", READY.load(SeqCst));
    let outcome = f();
    STOP.store(true, SeqCst);
    gic::send_others(WAKE);
    for index in 1..=count {
        check!(smp::wait_off(index), "vCPU {index} does not end");
    }
    outcome
}

fn to_each(machine: &Machine) -> Outcome {
    let others = machine.cpus - 1;
    with_others(others, listen, || {
        for index in 1..=others {
            for id in 0..16 {
                gic::send_to(index, id);
                let came = timer::wait_until(|| cpu::of(index).count(id) == 1);
                check!(
                    came,
                    "SGI {id} to {index}: {} times",
                    cpu::of(index).count(id)
                );
            }
        }
        for index in 1..=others {
            let total = (0..16).map(|id| cpu::of(index).count(id)).sum::<u32>();
            check_eq!(total, 16, "SGIs at {index}");
        }
        Ok(())
    })
}

fn to_others(machine: &Machine) -> Outcome {
    let others = machine.cpus - 1;
    gic::enable(5);
    let outcome = with_others(others, listen, || {
        for round in 1..=50 {
            gic::send_others(5);
            for index in 1..=others {
                let came = timer::wait_until(|| cpu::of(index).count(5) == round);
                check!(
                    came,
                    "round {round}, vCPU {index}: {}",
                    cpu::of(index).count(5)
                );
            }
        }
        check!(!gic::signalled(), "it came to its sender");
        Ok(())
    });
    gic::disable(5);
    outcome
}

/// Sends all SGIs at once, to a CPU that takes them at its own speed: each comes at least once,
/// since one that is pending already merges with its successor, and each of a last round comes.
fn all_sixteen(_: &Machine) -> Outcome {
    with_others(1, listen, || {
        for round in 1..=100 {
            let before: [u32; 16] = core::array::from_fn(|id| cpu::of(1).count(id as u32));
            (0..16).for_each(|id| gic::send_to(1, id));
            let came =
                timer::wait_until(|| (0..16).all(|id| cpu::of(1).count(id) > before[id as usize]));
            check!(came, "round {round}: something is lost");
        }
        Ok(())
    })
}

/// 5,000 pings and as many answers, each waited for.
fn ten_thousand(_: &Machine) -> Outcome {
    let cpu = cpu::this();
    cpu.forget_interrupts();
    gic::enable(PONG);
    let outcome = with_others(1, answer, || {
        let lost = (1..=5000).find(|round| !ping(*round));
        let (pings, pongs) = (cpu::of(1).count(PING), cpu.count(PONG));
        check!(
            lost.is_none(),
            "round {lost:?}: {pings} pings, {pongs} answers"
        );
        check_eq!(cpu::of(1).count(PING), 5000, "pings");
        Ok(())
    });
    gic::disable(PONG);
    outcome
}

fn ping(round: u32) -> bool {
    gic::send_to(1, PING);
    sleep_until(timer::PATIENCE_MS, || cpu::this().count(PONG) == round)
}

/// An SPI comes to the CPU it is routed to, also after a change.
fn spi_routed(_: &Machine) -> Outcome {
    gic::set_edge(SPI, true);
    let outcome = with_others(1, listen, || {
        gic::enable(SPI);
        gic::pend(SPI);
        check!(gic::wait_signalled(), "does not come here");
        check_eq!(gic::acknowledge(), u64::from(SPI), "IAR");
        gic::end(SPI.into());
        gic::route(SPI, 1);
        gic::pend(SPI);
        let gone =
            timer::wait_until(|| !gic::bit(gic::ISPENDR, SPI) && !gic::bit(gic::ISACTIVER, SPI));
        check!(gone, "not taken there");
        check!(!gic::signalled(), "came here too");
        Ok(())
    });
    gic::disable(SPI);
    outcome
}
