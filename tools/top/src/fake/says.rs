//! The lines of the fake board's report.

use std::fmt::Write;

use super::FREQUENCY;
use super::cores::{Cores, FakeVcpu};

/// The causes of which the simulation counts exits.
const CAUSES: [&str; 4] = ["timer", "device", "interrupt", "hypercall"];

/// All lines of the report `number`.
pub(super) fn report(cores: &Cores, number: u64) -> String {
    let mut text = String::new();
    let (now, count) = (cores.now(), cores.count());
    let vcpus = cores.vcpus.len();
    let _ = writeln!(text, "board {FREQUENCY} {now} {count} {vcpus} {number}");
    for (vm, name) in cores.names.iter().enumerate() {
        let _ = writeln!(text, "vm {vm} {name} {number}");
    }
    for cpu in 0..count {
        core(cores, cpu, number, &mut text);
    }
    let _ = writeln!(text, "end {number}");
    text
}

fn core(cores: &Cores, cpu: usize, number: u64, text: &mut String) {
    let (now, idle, switches) = (cores.now(), cores.idle[cpu], cores.switches[cpu]);
    let policy = if cpu == 3 {
        "turns -"
    } else {
        "deadline share"
    };
    let (cost, decisions) = (switches * 160, switches * 3);
    let _ = writeln!(
        text,
        "core {cpu} {policy} {now} {idle} {switches} {cost} {decisions} {number}"
    );
    for (place, own) in cores
        .vcpus
        .iter()
        .enumerate()
        .filter(|(_, own)| own.cpu == cpu)
    {
        vcpu(cores, place, own, number, text);
    }
    for (who, since, until) in &cores.turns[cpu] {
        let who = who.map(|place| &cores.vcpus[place]);
        let who = who.map_or("- -".to_owned(), |own| format!("{} {}", own.vm, own.vcpu));
        let _ = writeln!(text, "ran {cpu} {who} {since} {until} {number}");
    }
}

fn vcpu(cores: &Cores, place: usize, own: &FakeVcpu, number: u64, text: &mut String) {
    let state = if cores.running[own.cpu] == Some(place) {
        "runs"
    } else if own.has_work() {
        "ready"
    } else {
        "waits"
    };
    let [period, budget, deadline] = own.promise;
    let _ = writeln!(
        text,
        "vcpu {} {} {} - {state} {} {period} {budget} {deadline} 0 {} {} {} {} {} {} {} {number}",
        own.vm,
        own.vcpu,
        own.cpu,
        own.kind,
        own.left,
        own.used,
        own.extra,
        own.throttled,
        own.late,
        own.switches,
        own.stolen
    );
    for (cause, count) in CAUSES.iter().zip(own.exits).filter(|(_, count)| *count > 0) {
        let instructions = count * (cause.len() as u64 * 80);
        let _ = writeln!(
            text,
            "exits {} {} {cause} {count} {instructions} {number}",
            own.vm, own.vcpu
        );
    }
}
