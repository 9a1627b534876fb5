//! What runs is what was simulated: systems of RTOS guests on the board, and what `hanok sched simulate` says of the
//! same descriptions, event by event.
//!
//! The guests' first jobs arrive when all of them have booted and sleep. When that was, in ticks of the board's counter,
//! they say at their end. After it, when nothing runs any more, the board is asked for all of its turns, so that no
//! report takes anybody's time; and to change an interface to the very same one, which tells when servers' periods
//! begin. Each answer is awaited. Time is a count of instructions, and what is compared does not depend on when the board
//! is asked. How far an event may be away is known beforehand, and by no figure of the run.
//!
//! Where two events are so near that either may come first, a comparison ends. If that is too early, the guests run once
//! more with other offsets.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use hanok_paths::{List, Machine};
use hanok_random_systems::boards;
use hanok_schedule_events::Span;
use hanok_schedule_events::beside::{self, Beside, Terms};
use hanok_schedule_events::compare::Agreement;
use hanok_schedule_events::expected::Expected;
use hanok_schedule_events::record::Record;
use hanok_simulator::Slack;
use hanok_task_model::{Component, Model, Nanos, Plan, Priority, ResourceInterface, Server};

use crate::reported::{boot, change, read, request};
use crate::step::{Tally, TestStep};
use hanok_base::repo;
use hanok_boot::system;
use hanok_console::script::ScriptStep;

/// The steps.
pub const STEPS: &[TestStep] = &[TestStep {
    name: "schedule-events",
    run: |root| Tally::told(described(root, "qemu-virt")),
}];
/// The steps that are slow.
pub const SLOW_STEPS: &[TestStep] = &[
    TestStep {
        name: "schedule-events-gicv2",
        run: |root| Tally::told(described(root, "qemu-virt-gicv2")),
    },
    TestStep {
        name: "schedule-events-arm",
        run: |root| Tally::told(described(root, "qemu-virt-arm")),
    },
    TestStep {
        name: "schedule-events-random",
        run: |root| Tally::told(random(root, 12)),
    },
];

/// More turns than a board keeps.
const TURNS: u32 = 10_000;

/// A system, and how it is simulated.
struct Case {
    name: &'static str,
    /// The file it is described in, and what is written in place of what there.
    file: &'static str,
    changes: &'static [(&'static str, &'static str)],
    slack: Slack,
    /// Whether best effort has work all the time.
    busy: bool,
}

const IDLE: &str = "slack = \"idle\"";
const SHARE: &str = "slack = \"share\"";
const REST: &str = "# It sleeps";
/// A VM that sleeps, without a promise.
const SLEEPER: &str = "[[vm]]\nname = \"rest\"\nkernel = \"guest:rtos\"\nmemory = \"64M\"\ncpus = [0]\n\
    cmdline = \"rtos.tasks=sleep:100000000:5 rtos.seconds=0\"\n";
/// A VM without a promise that always has work.
const HOG: &str = "[[vm]]\nname = \"hog\"\nkernel = \"guest:rtos\"\nmemory = \"64M\"\ncpus = [0]\n\
    cmdline = \"rtos.tasks=hog:1000000:1200000 rtos.millis=300 rtos.expect=none\"\n\n# It sleeps";

const CASES: &[Case] = &[
    Case {
        name: "edf",
        file: "edf",
        changes: &[],
        slack: Slack::Idle,
        busy: false,
    },
    Case {
        name: "fixed",
        file: "fixed",
        changes: &[],
        slack: Slack::Idle,
        busy: false,
    },
    Case {
        name: "shared slack",
        file: "edf",
        changes: &[(IDLE, SHARE)],
        slack: Slack::Share,
        busy: false,
    },
    // Best effort has what is left before those who have used their budgets up.
    Case {
        name: "best effort",
        file: "fixed",
        changes: &[(IDLE, SHARE), (REST, HOG)],
        slack: Slack::Share,
        busy: true,
    },
];

/// A system that ran: its description, and what was seen of it.
struct Ran {
    model: Model,
    record: Record,
    /// What was said.
    dir: PathBuf,
    releases: BTreeMap<String, u64>,
}

/// Runs the described systems, and compares.
fn described(root: &Path, board: &str) -> Result<String> {
    let mut said = format!(
        "{:<14} {:>6} {:>10} {:>10} {:>10} {:>10} {:>8}\n",
        "system", "events", "widest us", "allowed", "switch us", "at most", "planted"
    );
    let terms = terms(board)?;
    for case in CASES {
        let mut events = 0;
        for phase in 0..PHASES {
            let one = || -> Result<(usize, String)> {
                let ran = run(root, board, case, phase)?;
                let terms = Terms {
                    slack: case.slack,
                    busy: case.busy,
                    ..terms
                };
                judge(&ran, case.name, terms)
            };
            let (compared, line) = one().with_context(|| case.name.to_owned())?;
            events += compared;
            said += &line;
            if events >= USUAL {
                break;
            }
        }
        ensure!(
            events >= USUAL,
            "{}: few events: {events}\n{said}",
            case.name
        );
    }
    Ok(said)
}

/// When the jobs of random systems begin and end, as [`boards::alone`] has it: all guests have begun by then, whose boots
/// take long with small budgets. And how long is compared: as much as the board keeps the turns of.
const RANDOM: (u64, u64) = (500_000, 545);
const RANDOM_LENGTH: u64 = 30_000;
/// A comparison of fewer events counts for nothing, though these have to agree.
const LEAST: usize = 8;
/// So many events are compared at least of each described system, and on average of each random one, which runs once.
const USUAL: usize = 25;
const USUAL_RANDOM: usize = 15;
/// How often a system runs at most until they are, each time with other offsets.
const PHASES: u64 = 4;
/// By this many microseconds the offset of the first task is another one in the next run, and twice as many that of the second
/// one, and so on.
const SHIFT: u64 = 137;

/// What is known beforehand of a board's time.
fn terms(board: &str) -> Result<Terms> {
    let machine = match board {
        "qemu-virt-arm" => Machine::Arm,
        "qemu-virt-gicv2" => Machine::Gicv2,
        _ => Machine::Gicv3,
    };
    Ok(Terms {
        switch: List::own()?.switch(machine)?,
        ..Terms::RTOS
    })
}

/// Runs `count` random systems, or as many as `HANOK_SETS` says, from the seed `HANOK_SEED` on, and compares.
fn random(root: &Path, count: u64) -> Result<String> {
    let count = std::env::var("HANOK_SETS").map_or(Ok(count), |sets| sets.parse::<u64>())?;
    let named = std::env::var("HANOK_SEED").ok();
    let mut seed = named.map_or(Ok(1), |seed| seed.parse())?;
    let (mut systems, mut short, mut events) = (0, 0, 0);
    let of_board = terms("qemu-virt")?;
    let mut said = String::new();
    while systems < count {
        seed += 1;
        let boards_dir = system::boards_dir(root);
        let Some(found) = boards::alone("qemu-virt", seed - 1, RANDOM, &boards_dir)? else {
            continue;
        };
        let name = format!("schedule-events/random/{}", seed - 1);
        let one = || -> Result<(usize, String)> {
            let ran = ran(root, &name, &format!("{}\n{SLEEPER}", found.text))?;
            let terms = Terms {
                length: RANDOM_LENGTH,
                ..of_board
            };
            judge(&ran, &name, terms)
        };
        let (compared, line) = one().with_context(|| name.clone())?;
        said += &line;
        if compared < LEAST {
            short += 1;
            ensure!(short <= count, "{short} systems come to few events\n{said}");
            continue;
        }
        systems += 1;
        events += compared;
    }
    ensure!(
        events >= USUAL_RANDOM * count as usize,
        "few events: {events}\n{said}"
    );
    Ok(said)
}

/// Runs a case, with the offsets of its phase.
fn run(root: &Path, board: &str, case: &Case, phase: u64) -> Result<Ran> {
    let file = root.join(format!("tests/systems/events-{}.toml", case.file));
    let mut text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let on_board = (
        "board = \"qemu-virt\"".to_owned(),
        format!("board = \"{board}\""),
    );
    let changes = case.changes.iter();
    let changes = changes.map(|(from, to)| ((*from).to_owned(), (*to).to_owned()));
    for (from, to) in changes.chain([on_board]) {
        ensure!(text.contains(&from), "{} has no {from}", file.display());
        text = text.replacen(&from, &to, 1);
    }
    let schedule = hanok_system::parse_schedule(&file, &text, &system::boards_dir(root));
    let model = schedule.map_err(|found| anyhow!("{found:?}"))?.model;
    let text = shifted(text, &model, phase);
    let mut name = format!("schedule-events/{board}/{}", case.name.replace(' ', "-"));
    if phase > 0 {
        write!(name, "-{phase}")?;
    }
    ran(root, &name, &text)
}

/// The description with other offsets, each of which is a number of microseconds that stands for nothing else in it.
fn shifted(mut text: String, model: &Model, phase: u64) -> String {
    let offsets = model.tasks.iter().map(|task| task.offset.get() / 1_000);
    let offsets: Vec<_> = offsets.filter(|offset| *offset > 0).collect();
    for (at, offset) in offsets.iter().enumerate() {
        text = text.replace(&offset.to_string(), &format!("@{at}@"));
    }
    for (at, offset) in (0..).zip(offsets) {
        let other = offset + phase * SHIFT * (at + 1);
        text = text.replace(&format!("@{at}@"), &other.to_string());
    }
    text
}

/// Runs a description until its guests have ended. What they said is in the directory `name` of tests.
fn ran(root: &Path, name: &str, text: &str) -> Result<Ran> {
    let dir = repo::target_dir(root).join("hanok/test").join(name);
    fs::create_dir_all(&dir)?;
    let file = dir.join("system.toml");
    let schedule = hanok_system::parse_schedule(&file, text, &system::boards_dir(root));
    let model = schedule
        .map_err(|found| anyhow!("{found:?}: {text}"))?
        .model;
    let vms = vms(&model);
    let mut steps = Vec::new();
    for vm in &vms {
        steps.push(ScriptStep::Vm(vm.clone()));
        steps.push(ScriptStep::Expect("times, ".to_owned()));
    }
    steps.push(request(&format!("report 1 {TURNS}")));
    steps.push(ScriptStep::ExpectReport("end 1\n".to_owned()));
    let all = all_vms(text);
    for (vm, interface) in asked(&model, &vms) {
        let at = all.iter().position(|name| *name == vm);
        let at = at.with_context(|| format!("no VM {vm}"))?;
        let ResourceInterface {
            period,
            budget,
            deadline,
        } = interface;
        steps.extend(change(at, 0, [period, budget, deadline].map(Nanos::get)));
    }
    steps.push(ScriptStep::End);
    boot(root, &dir, text, steps, &[])?;
    let text = read(&dir.join("reports"))?;
    let record = Record::read(&text)?;
    let mut releases = BTreeMap::new();
    for vm in vms {
        let said = read(&dir.join(format!("{vm}.console")))?;
        let tick = beside::release(&said).with_context(|| vm.clone())?;
        releases.insert(vm, tick);
    }
    Ok(Ran {
        model,
        record,
        dir,
        releases,
    })
}

/// The components that have tasks: VMs.
fn vms(model: &Model) -> Vec<String> {
    let with_tasks = model.ids().filter(|(id, _)| {
        let mut tasks = model.tasks.iter();
        tasks.any(|task| task.component == *id)
    });
    with_tasks.map(|(_, one)| one.name.clone()).collect()
}

/// The names of all VMs, in their order.
fn all_vms(text: &str) -> Vec<String> {
    let mut lines = text.lines();
    let mut all = Vec::new();
    while let Some(line) = lines.next() {
        if line == "[[vm]]"
            && let Some(name) = lines.next().and_then(|line| line.strip_prefix("name = \""))
        {
            all.push(name.trim_end_matches('"').to_owned());
        }
    }
    all
}

/// Which VMs are asked when their periods begin: of those whose periods follow one another, those with the longest ones,
/// until all others divide one.
fn asked(model: &Model, vms: &[String]) -> Vec<(String, ResourceInterface)> {
    let given = |name: &String| {
        let component = model.component(model.find(name)?)?;
        match component.plan {
            Plan::Given(interface) if beside::keeps_periods(component) => {
                Some((name.clone(), interface))
            }
            _ => None,
        }
    };
    let mut all: Vec<_> = vms.iter().filter_map(given).collect();
    all.sort_by_key(|(_, interface)| u64::MAX - interface.period.get());
    let mut asked: Vec<(String, ResourceInterface)> = Vec::new();
    for (name, interface) in all {
        let period = interface.period.get();
        let mut before = asked.iter();
        if !before.any(|(_, longer)| longer.period.get() % period == 0) {
            asked.push((name, interface));
        }
    }
    asked
}

/// Compares a run with its simulation, and then with faults in either. Returns how many events agree, and a line for people.
fn judge(ran: &Ran, name: &str, terms: Terms) -> Result<(usize, String)> {
    let mut beside = Beside::new(&ran.model, &ran.record, ran.releases.clone(), terms)?;
    let comparable = beside.comparable()?;
    beside.shorten(comparable);
    let expected = beside.expected(beside.model())?;
    let happened = beside.happened();
    fs::write(ran.dir.join("events"), beside.listing(&happened, &expected))?;
    let agreement = beside.compare(&happened, &expected);
    let agreement = agreement.map_err(|difference| anyhow!("{}", beside.told(&difference)))?;
    let planted = match agreement.events {
        ..LEAST => 0,
        _ => planted_in_plans(&beside)? + planted_in_record(&beside, ran, agreement)?,
    };
    let mut said = String::new();
    writeln!(
        said,
        "{:<14} {:>6} {:>10.1} {:>10.1} {:>10.1} {:>10.1} {:>8}",
        name.rsplit('/').next().unwrap_or_default(),
        agreement.events,
        beside.micros(agreement.widest),
        beside.micros(agreement.allowed),
        beside.micros(beside.switch()),
        beside.micros(agreement.most_allowed),
        planted
    )?;
    Ok((agreement.events, said))
}

/// A change of a plan.
type Change<'a> = &'a dyn Fn(&mut Component);

/// Simulates other plans than the board had, one after the other: each must be found to differ. Returns how many.
fn planted_in_plans(beside: &Beside<'_>) -> Result<usize> {
    let model = beside.model();
    let all = 0..model.components.len();
    let mut faults: Vec<(String, Vec<usize>, Change<'_>)> = Vec::new();
    for at in all.clone() {
        let name = &model.components[at].name;
        faults.push((format!("half of {name}'s budget"), vec![at], &|one| {
            if let Plan::Given(interface) = &mut one.plan {
                interface.budget = Nanos::new(interface.budget.get() / 2);
            }
        }));
    }
    faults.push(("other kinds".to_owned(), all.clone().collect(), &|one| {
        one.server = match one.server {
            Server::Polling => Server::Deferrable,
            _ => Server::Polling,
        };
    }));
    faults.push(("reversed priorities".to_owned(), all.collect(), &|one| {
        one.priority = one.priority.map(|Priority(number)| Priority(99 - number));
    }));
    let order = |expected: &Expected| -> Vec<Option<String>> {
        let within = |span: &&Span| span.since < beside.until();
        let core = expected.cores.iter().flatten().filter(within);
        core.map(|span| span.who.clone()).collect()
    };
    let right = order(&beside.expected(model)?);
    let mut planted = 0;
    for (what, whose, change) in &faults {
        let mut changed = model.clone();
        for at in whose {
            changed.components.get_mut(*at).map(change);
        }
        if changed.validate().is_err() {
            continue;
        }
        let expected = beside.expected(&changed).with_context(|| what.clone())?;
        // What is shared may come to the same.
        if order(&expected) == right {
            continue;
        }
        planted += 1;
        let found = beside.compare(&beside.happened(), &expected);
        ensure!(found.is_err(), "a planted fault is not found: {what}");
    }
    ensure!(planted >= 1, "no planted fault changes anything");
    Ok(planted)
}

/// Changes what was recorded, each event in turn: each change must be found where it is. Returns how many there were.
fn planted_in_record(beside: &Beside<'_>, ran: &Ran, agreement: Agreement) -> Result<usize> {
    let (happened, expected) = (beside.happened(), beside.expected(beside.model())?);
    let events = happened.iter().enumerate();
    // What is moved beyond the end is not compared.
    let by = 2 * agreement.most_allowed + 1;
    let events = events
        .filter(|(_, span)| span.since > beside.first() && span.since + 2 * by < beside.until());
    let events: Vec<_> = events.map(|(at, _)| at).collect();
    let mut planted = 0;
    let mut must_differ = |changed: Vec<Span>, what: &str, at: usize| {
        planted += 1;
        let found = beside.compare(&changed, &expected);
        ensure!(found.is_err(), "{what} is not found in turn {at}");
        Ok(())
    };
    for at in events.iter().copied() {
        let mut swapped = happened.clone();
        let who = swapped[at].who.clone();
        swapped[at].who = swapped[at - 1].who.clone();
        swapped[at - 1].who = who;
        must_differ(swapped, "a swapped pair of turns", at)?;
        let mut moved = happened.clone();
        moved[at].since += by;
        must_differ(moved, "a moved event", at)?;
    }
    let text = read(&ran.dir.join("reports"))?;
    let lines: Vec<_> = text.lines().collect();
    let turns = lines.iter().enumerate();
    let turns: Vec<_> = turns
        .filter(|(_, line)| line.starts_with("ran "))
        .map(|(at, _)| at)
        .collect();
    // Without the first or the last one, all between two is there.
    for at in turns.iter().skip(1).rev().skip(1) {
        let mut less = lines.clone();
        less.remove(*at);
        planted += 1;
        let found = Record::read(&less.join("\n"));
        ensure!(found.is_err(), "a turn less is not found: {}", lines[*at]);
    }
    Ok(planted)
}
