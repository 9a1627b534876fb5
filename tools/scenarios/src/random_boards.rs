//! Random systems that are admitted near the edge, on the board: RTOS guests whose misses are counted, beside a VM that
//! means harm, while interfaces change.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use hanok_random_systems::boards::{self, SPREAD_STORMS, STORMS, TICK};
use hanok_random_systems::edge::Admitted;
use hanok_random_systems::system::System;

use crate::reported::{boot, change, read};
use crate::step::{Tally, TestStep};
use hanok_base::repo;
use hanok_boot::system;
use hanok_console::script::ScriptStep;

mod changes;

/// The steps.
pub const STEPS: &[TestStep] = &[TestStep {
    name: "random-boards",
    run: |root| Tally::told(many(root, [3, 1])),
}];
/// The steps that are slow.
pub const SLOW_STEPS: &[TestStep] = &[TestStep {
    name: "sched-boards",
    run: |root| Tally::told(many(root, [25, 75])),
}];

/// The boards, in turn; most have a GICv3.
const BOARDS: [&str; 5] = [
    "qemu-virt",
    "qemu-virt-arm",
    "qemu-virt",
    "qemu-virt-gicv2",
    "qemu-virt",
];
/// How often interfaces are changed: each request follows the answer to the one before it. The first one comes when
/// all RTOS guests have begun.
const ROUNDS: usize = 24;
/// What an RTOS guest says as it begins.
const BEGUN: &str = " turns of the loop take ";

/// What boards came to.
#[derive(Debug, Default)]
struct Sum {
    systems: u64,
    cores: u64,
    vms: u64,
    jobs: u64,
    misses: u64,
    changed: u64,
    refused: u64,
    /// Those of them that came while another change was under way.
    busy: u64,
    share: f64,
}

/// A system on a board, and words about what it is beside.
fn drawn(root: &Path, at: usize, seed: u64, several: bool) -> Result<Option<(Admitted, String)>> {
    let (board, storm) = (BOARDS[at % BOARDS.len()], STORMS[at % STORMS.len()]);
    let boards_dir = system::boards_dir(root);
    if !several {
        let found = boards::of(board, seed, Some(storm), &boards_dir)?;
        return Ok(found.map(|found| (found, format!("{board} beside {storm}"))));
    }
    let spread = SPREAD_STORMS[at % SPREAD_STORMS.len()];
    // Of the pairs, each comes once before one comes again.
    let storm = STORMS[(at + at / STORMS.len()) % STORMS.len()];
    let found = boards::several(board, seed, [storm, spread], &boards_dir)?;
    Ok(found.map(|found| (found, format!("{board} beside {storm} and {spread}"))))
}

/// Boots so many systems of one core and of several, one after the other; `HANOK_SETS` says how many instead, of which a
/// quarter has one core.
fn many(root: &Path, mut counts: [u64; 2]) -> Result<String> {
    if let Ok(sets) = std::env::var("HANOK_SETS") {
        let sets: u64 = sets.parse()?;
        counts = [sets / 4, sets - sets / 4];
    }
    let named = std::env::var("HANOK_SEED").ok();
    let first = named.map_or(Ok(1), |seed| seed.parse::<u64>())?;
    let mut sum = Sum::default();
    let mut missed = Vec::new();
    for (several, count) in [false, true].into_iter().zip(counts) {
        let mut seed = first;
        let mut at = 0;
        while at < count {
            let found = drawn(root, at as usize, seed, several)?;
            seed += 1;
            let Some((found, beside)) = found else {
                continue;
            };
            at += 1;
            let cores = found.system.cores.len();
            let name = format!("random-boards/{}-{cores}", seed - 1);
            let one =
                one(root, &name, seed, &found).with_context(|| format!("{name}, {beside}"))?;
            sum.systems += 1;
            sum.cores += cores as u64;
            sum.vms += one.vms;
            sum.jobs += one.jobs;
            sum.misses += one.misses;
            sum.changed += one.changed;
            sum.refused += one.refused;
            sum.busy += one.busy;
            sum.share += found.system.core_share() * cores as f64;
            if one.misses > 0 {
                missed.push(format!("{name} on {beside}: {} misses", one.misses));
            }
        }
    }
    let figures = format!(
        "{} boards with {} cores and {} VMs, of a core is promised {:.1} %; {} changes of interfaces on the way, {} refused, \
         of which {} beside another change; \
         {} jobs: {} deadlines missed",
        sum.systems,
        sum.cores,
        sum.vms,
        100.0 * sum.share / sum.cores as f64,
        sum.changed,
        sum.refused,
        sum.busy,
        sum.jobs,
        sum.misses
    );
    ensure!(missed.is_empty(), "{figures}\n{}", missed.join("\n"));
    ensure!(sum.jobs > 15 * sum.systems, "few jobs: {figures}");
    ensure!(sum.changed >= sum.systems, "few changes: {figures}");
    Ok(figures)
}

/// Boots one system; what it said is kept in `name`.
fn one(root: &Path, name: &str, seed: u64, found: &Admitted) -> Result<Sum> {
    let dir = repo::target_dir(root).join("hanok/test").join(name);
    fs::create_dir_all(&dir)?;
    let last = found.system.vms.len() - 1;
    let several = found.system.spread.is_some();
    let mut steps = Vec::new();
    for at in 0..last {
        steps.push(ScriptStep::Vm(format!("v{at}")));
        steps.push(ScriptStep::Expect(BEGUN.to_owned()));
    }
    for round in 0..ROUNDS {
        if several {
            let (vm, vcpu, times) = changes::promised(&found.system, seed, round);
            steps.extend(change(vm, vcpu, times));
        }
        steps.extend(change(last, 0, halved(found, last, round)));
    }
    for at in 0..last {
        steps.push(ScriptStep::Vm(format!("v{at}")));
        steps.push(ScriptStep::Expect("times, ".to_owned()));
    }
    steps.push(ScriptStep::End);
    boot(root, &dir, &found.text, steps, &emulator(&found.system))?;
    let mut sum = Sum {
        vms: found.system.vms.len() as u64 + u64::from(several),
        ..Sum::default()
    };
    for at in 0..last {
        let said = read(&dir.join(format!("v{at}.console")))?;
        let line = said
            .lines()
            .find(|line| line.starts_with("rtos: total jobs "));
        let words: Vec<_> = line.unwrap_or_default().split(' ').collect();
        let number = |word: usize| words.get(word).and_then(|word| word.parse::<u64>().ok());
        sum.jobs += number(3).with_context(|| format!("v{at} has no total"))?;
        sum.misses += number(5).with_context(|| format!("v{at} has no total"))?;
    }
    let answers = read(&dir.join("reports"))?;
    sum.changed = answers
        .lines()
        .filter(|line| line.starts_with("changed "))
        .count() as u64;
    let refused = answers.lines().filter(|line| line.starts_with("refused "));
    sum.refused = refused.clone().count() as u64;
    sum.busy = refused.filter(|line| line.contains(" busy ")).count() as u64;
    let answered = (sum.changed + sum.refused) as usize;
    let asked = ROUNDS * (1 + usize::from(several));
    ensure!(answered == asked, "{asked} requests, {answered} answers");
    Ok(sum)
}

/// Another interface for the hostile VM, in nanoseconds: half of the budget, and then all of it again.
fn halved(found: &Admitted, vm: usize, round: usize) -> [u64; 3] {
    let server = &found.system.vms[vm].server;
    let budget = server.budget.unwrap_or(0);
    let budget = if round.is_multiple_of(2) {
        budget.div_ceil(2)
    } else {
        budget
    };
    let deadline = server.deadline.unwrap_or(server.period);
    [server.period, budget, deadline].map(|time| time * 1_000)
}

/// More arguments for the emulator. An emulator that counts instructions runs a core up to a part of the time that is left
/// until its next timer, and then the next core. The timer of a network filter, to which nothing is connected, keeps that
/// time short ([`TICK`]), so that cores run side by side.
fn emulator(system: &System) -> Vec<String> {
    if system.cores.len() == 1 {
        return Vec::new();
    }
    let filter = format!("filter-buffer,id=ticks,netdev=tick,interval={TICK}");
    let words = ["-netdev", "hubport,id=tick,hubid=0", "-object", &filter];
    words.map(str::to_owned).to_vec()
}
