//! Fuzzes calls: every known function and any other, by HVC, SMC, SVC and BRK with every immediate.

use super::random::Random;
use super::{Fuzzer, memory, repair, siblings};
use crate::arch::fuzz::code;
use crate::arch::fuzz::trip::{End, Start, Word, wide};
use crate::psci;

/// The instruction that makes the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// HVC.
    Hypervisor,
    /// SMC.
    Monitor,
    /// SVC.
    Supervisor,
    /// BRK or BKPT.
    Breakpoint,
}

const KNOWN: [u64; 24] = [
    psci::VERSION,
    psci::CPU_SUSPEND,
    psci::CPU_SUSPEND & !WIDE,
    psci::CPU_ON,
    psci::CPU_ON_32,
    psci::AFFINITY_INFO,
    psci::AFFINITY_INFO & !WIDE,
    psci::MIGRATE_INFO_TYPE,
    psci::FEATURES,
    psci::SMCCC_VERSION,
    psci::SMCCC_ARCH_FEATURES,
    // MIGRATE, CPU_FREEZE, SYSTEM_SUSPEND, SYSTEM_RESET2, MEM_PROTECT, CPU_DEFAULT_SUSPEND.
    0x8400_0005,
    0x8400_000b,
    0xc400_000e,
    0xc400_0012,
    0x8400_0013,
    0x8400_000c,
    // SMCCC_ARCH_SOC_ID and workarounds, TRNG, the hypervisor's own owner.
    0x8000_0002,
    0x8000_8000,
    0x8400_0050,
    0xc400_0053,
    0x8600_ff01,
    0xc600_0000,
    0xc600_0001,
];
/// SMC64 (DEN 0028, 2.5).
const WIDE: u64 = 1 << 30;

/// Makes one call and checks its result.
pub fn step(fuzzer: &mut Fuzzer<'_>, random: &mut Random) {
    let mut start = Start::NOWHERE;
    start.x.iter_mut().for_each(|x| *x = random.next() as Word);
    (0..8).for_each(|number| start.x[number] = argument(random) as Word);
    start.x[0] = function(random) as Word;
    tame(fuzzer, &mut start);
    let way = match random.below(8) {
        0 | 1 => Call::Monitor,
        2 => Call::Supervisor,
        3 => Call::Breakpoint,
        _ => Call::Hypervisor,
    };
    let immediate = if random.once_in(2) {
        0
    } else {
        random.next() as u32 & 0xffff
    };
    memory::put_code([code::call(way, immediate)]);
    start.pc = memory::CODE.address() as Word;
    if way == Call::Hypervisor
        && wide(start.x[0]) & 0xffff_ffff & !WIDE == psci::CPU_SUSPEND & !WIDE
    {
        repair::wakeable();
        repair::alarm(10);
    }
    // SAFETY: the call changes registers alone; `tame` saw to it that it neither ends the VM nor
    // starts a vCPU where no code is.
    let end = unsafe { fuzzer.travel(&start) };
    repair::timers();
    judge(fuzzer, way, &start, end);
}

fn function(random: &mut Random) -> u64 {
    match random.below(8) {
        0 => random.value(),
        1 => 0x8400_0000 + random.below(64) + (random.next() & WIDE),
        // Any owner, any kind of call.
        2 => random.next() & 0xff00_ffff,
        // A callee has to ignore the upper halves.
        3 => random.next() << 32 | random.pick(&KNOWN),
        _ => random.pick(&KNOWN),
    }
}

/// Arguments: among them targets, entry addresses and contexts.
fn argument(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => random.below(10),
        1 => memory::CODE.address() + random.below(8),
        2 => random.pick(&KNOWN),
        _ => random.value(),
    }
}

/// A call that would end the VM or this vCPU is replaced by PSCI_VERSION, and a vCPU is started
/// with a job.
fn tame(fuzzer: &Fuzzer<'_>, start: &mut Start) {
    let function = wide(start.x[0]) & 0xffff_ffff;
    match function {
        psci::CPU_OFF | psci::SYSTEM_OFF | psci::SYSTEM_RESET => {
            start.x[0] = psci::VERSION as Word;
        }
        _ if function & !WIDE == psci::CPU_ON_32 => {
            let target = wide(start.x[1])
                & if function & WIDE == 0 {
                    0xffff_ffff
                } else {
                    u64::MAX
                };
            if let Some((entry, context)) = siblings::entry(fuzzer, target) {
                (start.x[2], start.x[3]) = (entry as Word, context as Word);
            }
        }
        _ => {}
    }
}

fn judge(fuzzer: &mut Fuzzer<'_>, way: Call, start: &Start, end: &End) {
    let function = wide(start.x[0]);
    if !end.is_answer_to(way) {
        fuzzer.wrong(format_args!("{way:?} call of {function:#x}: {end:?}"));
    }
    // A call returns its results in X0 to X3 (DEN 0028, 2.7).
    let kept = if way == Call::Hypervisor { 4 } else { 0 };
    if start.x[kept..] != end.x[kept..] {
        fuzzer.wrong(format_args!(
            "{way:?} call of {function:#x}: another register changed"
        ));
    }
    let owner = function >> 24 & 0x3f;
    let nobodys = !matches!(owner, 0 | 4 | 6);
    let answer = wide(end.x[0]);
    if way == Call::Hypervisor && nobodys && psci::status(answer) != psci::NOT_SUPPORTED {
        fuzzer.wrong(format_args!(
            "function {function:#x} of nobody answers {answer:#x}"
        ));
    }
}
