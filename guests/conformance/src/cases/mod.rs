//! The cases, by topic; cases about instructions and registers are in the architecture's module
//! (`arch`).

pub mod canary;
pub mod channels;
mod devices;
mod dma;
pub mod exceptions;
mod firmware;
mod fpsimd;
mod gic;
mod gicv2;
pub mod holes;
pub mod pass_through;
mod psci;
pub mod schedule;
mod sgi;
mod stolen;
mod timer;
mod trng;
mod walk;

use crate::case::{Case, Failure};
use crate::machine::Machine;
use crate::tree::Host;

const TOPICS: &[&[Case]] = &[
    canary::CASES,
    psci::CASES,
    holes::CASES,
    walk::CASES,
    exceptions::CASES,
    devices::CASES,
    firmware::CASES,
    schedule::CASES,
    stolen::CASES,
    gic::CASES,
    gicv2::CASES,
    sgi::CASES,
    timer::CASES,
    trng::CASES,
    fpsimd::CASES,
];

/// Runs the cases that `names` selects; returns how many passed and failed.
pub fn run(machine: &Machine, names: &str) -> (u32, u32) {
    let (mut passed, mut failed, mut skipped) = (0, 0, 0);
    let topics = TOPICS.iter().chain(&crate::arch::cases::TOPICS);
    let all = topics.flat_map(|topic| topic.iter());
    let all = all.filter(|case| selected(case.name, names));
    // Cases that few VMs can run, or that take long, run only when they are named.
    let named = |case: &&Case| {
        names
            .split(',')
            .any(|name| name != "all" && selected(case.name, name))
    };
    let extra = [
        pass_through::CASES,
        crate::arch::cases::PASS_THROUGH,
        walk::PASS_THROUGH,
        timer::BESIDE_OTHERS,
        schedule::PROMISED,
        channels::CASES,
        dma::CASES,
    ];
    let extra = extra.into_iter().chain(crate::arch::cases::NAMED);
    let extra = extra.flatten().filter(named);
    for case in all.chain(extra) {
        match run_one(machine, case) {
            Outcome::Passed => passed += 1,
            Outcome::Failed => failed += 1,
            Outcome::Skipped => skipped += 1,
        }
    }
    // The totals find a case that is lost on the way here, or skipped where it should run.
    println!(
        "cases: {} there, {skipped} skipped",
        passed + failed + skipped
    );
    (passed, failed)
}

fn selected(name: &str, names: &str) -> bool {
    names
        .split(',')
        .any(|wanted| match wanted.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => wanted == "all" || wanted == name,
        })
}

/// The outcome of a case.
enum Outcome {
    Passed,
    Failed,
    /// It does not apply to this machine.
    Skipped,
}

fn run_one(machine: &Machine, case: &Case) -> Outcome {
    let name = case.name;
    if case.cpus > machine.cpus {
        println!("skip {name}: needs {} vCPUs", case.cpus);
        return Outcome::Skipped;
    }
    if case.host == Host::Hanok && machine.host != Host::Hanok {
        println!("skip {name}: promised by Hanok alone");
        return Outcome::Skipped;
    }
    if case.gic.is_some_and(|gic| gic != machine.gic) {
        println!("skip {name}: not about {}", crate::gic::name());
        return Outcome::Skipped;
    }
    match (case.run)(machine) {
        Ok(()) => {
            println!("ok {name}");
            Outcome::Passed
        }
        Err(Failure::Wrong(detail)) => {
            println!("FAIL {name}: {detail}");
            // The state that a failed case leaves must not make the others fail.
            crate::gic::recover();
            Outcome::Failed
        }
    }
}
