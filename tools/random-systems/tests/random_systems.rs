//! What is admitted keeps its deadlines; what is refused on one core would not.
//!
//! `HANOK_SETS=1000` sets the number of systems; `HANOK_SEED` the first one's seed.

use std::path::{Path, PathBuf};

use hanok_random_systems::check::check;
use hanok_random_systems::draw::{Style, draw};
use hanok_random_systems::random::Random;
use hanok_random_systems::system::Kind;
use hanok_random_systems::{changes, edge, simulated, small};

fn number(name: &str, otherwise: u64) -> u64 {
    let value = std::env::var(name).ok();
    value.map_or(otherwise, |value| value.parse().expect("a number"))
}

fn boards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../boards")
}

#[test]
fn admitted_systems_miss_nothing_in_the_simulation() {
    let (sets, mut seed) = (number("HANOK_SETS", 20), number("HANOK_SEED", 1) << 32);
    let (mut systems, mut drawn, mut runs, mut jobs) = (0, 0, 0, 0);
    let (mut groups, mut vms, mut cores, mut costly, mut waking) = (0, 0, 0, 0, 0);
    let (mut share, mut missed) = (0.0, Vec::new());
    while systems < sets {
        drawn += 1;
        let system = draw(&Style::SIMULATED, seed);
        let found = edge::of(&system, &boards()).unwrap();
        if let Some(found) = found {
            systems += 1;
            let outcome = simulated::outcome(&found.checked, &mut Random::new(seed)).unwrap();
            runs += outcome.runs;
            jobs += outcome.jobs;
            groups += found.system.groups.len();
            vms += found.system.vms.len();
            cores += found.system.cores.len();
            costly += u64::from(found.system.switch > 0);
            let wakes = |kind| matches!(kind, Kind::Deferrable | Kind::Bandwidth);
            let inside = found.system.vms.iter().filter(|vm| wakes(vm.server.kind));
            waking += inside.filter(|_| found.system.switch > 0).count();
            share += found.system.core_share();
            if outcome.misses > 0 {
                missed.push((found.text.len(), seed, outcome.misses, found.text));
            }
        }
        seed += 1;
    }
    println!(
        "figure: {systems} systems of {drawn} drawn admitted near the edge, with {cores} cores, {vms} VMs, \
         {groups} groups, {costly} with costs of switches, in which {waking} VMs may wake any number of times; of a core is promised {:.1} % on average",
        100.0 * share / systems as f64
    );
    let misses: u64 = missed.iter().map(|(_, _, misses, _)| misses).sum();
    println!("figure: {runs} simulations of these, {jobs} jobs: {misses} deadlines missed");
    assert!(sets < 20 || waking as u64 > sets / 20);
    missed.sort();
    if let Some((_, seed, misses, text)) = missed.first() {
        panic!(
            "{} systems miss; seed {seed}: {misses}\n{text}",
            missed.len()
        );
    }
}

#[test]
fn on_one_core_the_answer_is_that_of_the_definition() {
    let sets = number("HANOK_SETS", 20) * 10;
    let mut random = Random::new(number("HANOK_SEED", 1));
    let (mut judged, mut yes, mut of_core) = (0, 0, 0);
    let (mut strict, mut lax, mut board_strict, mut board_lax) = (vec![], vec![], vec![], vec![]);
    while judged < sets {
        let system = small::draw(&mut random);
        let Some(found) = small::judge(&system, &boards()).unwrap() else {
            continue;
        };
        judged += 1;
        yes += u64::from(found.exact);
        of_core += u64::from(found.exact_core);
        match (found.analysis, found.exact) {
            (false, true) => strict.push(system.description()),
            (true, false) => lax.push(system.description()),
            _ => {}
        }
        match (found.board, found.exact_core) {
            (false, true) => board_strict.push(system.description()),
            (true, false) => board_lax.push(system.description()),
            _ => {}
        }
    }
    println!(
        "figure: {judged} systems of one core, {yes} schedulable by the definition: refused by `sched check`, \
         yet schedulable: {}; admitted, yet not: {}",
        strict.len(),
        lax.len()
    );
    println!(
        "figure: of these, {of_core} whose servers fit the core: refused by the board's admission, yet \
         schedulable: {}; admitted, yet not: {}",
        board_strict.len(),
        board_lax.len()
    );
    for all in [&mut strict, &mut lax, &mut board_strict, &mut board_lax] {
        all.sort_by_key(String::len);
        assert!(all.is_empty(), "{}: {}", all.len(), all[0]);
    }
    assert!(yes > sets / 8 && yes < sets * 7 / 8);
}

#[test]
fn promises_are_kept_while_interfaces_change() {
    let sets = number("HANOK_SETS", 20);
    let mut random = Random::new(number("HANOK_SEED", 1));
    for (name, run) in [
        ("asked by guests", changes::asked as fn(&mut Random) -> _),
        ("by changes of mode", changes::switched),
    ] {
        let mut sum = changes::Outcome::default();
        for _ in 0..sets {
            let outcome = run(&mut random);
            sum.changed += outcome.changed;
            sum.refused += outcome.refused;
            sum.due += outcome.due;
            sum.late += outcome.late;
        }
        println!(
            "figure: {sets} cores whose interfaces change on the way, {name}: {} changed, {} refused, {} budgets \
             due: {} late",
            sum.changed, sum.refused, sum.due, sum.late
        );
        assert_eq!(sum.late, 0, "{name}");
        assert!(sum.changed > sets && sum.due > sets * 50);
    }
}

/// The simulation can miss: with an eighth less of each VM's budget, most systems do.
#[test]
fn systems_with_less_than_they_need_miss() {
    let (mut seed, mut systems, mut missed) = (1 << 48, 0, 0);
    while systems < 10 {
        seed += 1;
        let drawn = draw(&Style::SIMULATED, seed);
        let Some(mut found) = edge::of(&drawn, &boards()).unwrap() else {
            continue;
        };
        for vm in &mut found.system.vms {
            let budget = vm.server.budget.map(|budget| (budget * 7 / 8).max(1));
            vm.server.budget = budget;
        }
        let checked = check(&found.system.description(), &boards()).unwrap();
        // No budget was more than a tick.
        if checked.kept {
            continue;
        }
        systems += 1;
        let outcome = simulated::outcome(&checked, &mut Random::new(seed)).unwrap();
        missed += u64::from(outcome.misses > 0);
    }
    assert!(missed >= 5, "{missed} of {systems}");
}
