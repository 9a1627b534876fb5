//! Budgets, periods and cores that a description with `enforce` leaves open are found by the analysis, or the
//! description is refused with the analysis' reason.

mod common;

use common::{boards, load};
use hanok_config::{Claim, CorePolicy, Terms};
use hanok_system::{Description, Diagnostic, parse_schedule};
use std::path::Path;

const HEAD: &str = "board = \"qemu-virt\"\ncores = 4\n[schedule]\nenforce = true\n";

/// A VM; `more` are keys of its own, `schedule` those of its [vm.schedule].
fn vm(name: &str, more: &str, schedule: &str) -> String {
    format!(
        "[[vm]]\nname = \"{name}\"\nkernel = \"debian:6.12\"\nmemory = \"64M\"\n{more}\n\
         [vm.schedule]\n{schedule}\n"
    )
}

fn task(name: &str, period: u32, execution: u32, more: &str) -> String {
    format!(
        "[[vm.schedule.task]]\nname = \"{name}\"\nperiod = \"{period}ms\"\nexecution = \"{execution}us\"\n{more}\n"
    )
}

fn system(parts: &[String]) -> String {
    [&[HEAD.to_owned()], parts].concat().concat()
}

fn sound(parts: &[String]) -> Description {
    load(&system(parts)).unwrap_or_else(|found| panic!("{found:?}"))
}

fn refused(parts: &[String]) -> Diagnostic {
    let mut found = load(&system(parts)).unwrap_err();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// What each vCPU with a promise has, in the order of the VMs.
fn terms(system: &Description) -> Vec<Terms> {
    let terms = system
        .promises
        .iter()
        .filter_map(|promise| match promise.claim {
            Claim::Promise { terms, .. } => Some(terms),
            Claim::Share(_) => None,
        });
    terms.collect()
}

fn found(system: &Description) -> Vec<String> {
    system.found.iter().map(ToString::to_string).collect()
}

/// What `hanok sched check` finds for the tasks that docs/scheduling.md begins with.
#[test]
fn a_budget_that_is_not_written_is_found() {
    let tasks = task("current", 20, 1_500, "") + &task("position", 40, 4_000, "");
    let schedule = format!("policy = \"rm\"\nperiod = \"5ms\"\n{tasks}");
    let system = sound(&[vm("axes", "cpus = [1]", &schedule)]);
    let [terms] = terms(&system)[..] else {
        panic!("{:?}", system.promises);
    };
    assert_eq!((terms.period, terms.budget), (5_000_000, 1_000_000));
    assert_eq!(found(&system), ["axes has 1ms in 5ms on core 1"]);
    assert!(system.notes().is_empty());
    // A tick less is not enough, which is said.
    let written = |budget: &str| {
        let schedule = schedule.replace("5ms\"", &format!("5ms\"\nbudget = \"{budget}\""));
        sound(&[vm("axes", "cpus = [1]", &schedule)]).notes()
    };
    assert!(written("1ms").is_empty());
    let [note] = &written("999us")[..] else {
        panic!("no note");
    };
    assert!(note.what.contains("not proven"), "{note}");
    assert!(note.why.contains("task position of axes"), "{note}");
    assert!(note.remedy.contains("budget 1ms for axes"), "{note}");
}

#[test]
fn periods_and_deadlines_are_found_too() {
    let range = format!("period = [\"1ms\", \"20ms\"]\n{}", task("t", 20, 4_000, ""));
    let window = "period = \"5ms\"\nbudget = \"2ms\"\nwindow = \"longest\"\n".to_owned();
    let window = window + &task("u", 20, 5_000, "");
    let costs = "switch = \"10us\"\n".to_owned();
    let system = sound(&[
        costs,
        vm("a", "cpus = [0]", &range),
        vm("b", "cpus = [1]", &window),
    ]);
    let [a, b] = terms(&system)[..] else {
        panic!("{:?}", system.promises);
    };
    assert!((1_000_000..=20_000_000).contains(&a.period), "{a:?}");
    assert!(a.budget * 20 >= a.period * 4, "{a:?}");
    assert_eq!((b.period, b.budget), (5_000_000, 2_000_000));
    assert!((2_000_000..=5_000_000).contains(&b.deadline), "{b:?}");
    assert_eq!(found(&system).len(), 2);
}

#[test]
fn a_group_s_budget_is_found_with_a_task_of_its_own() {
    let group =
        |more: &str| format!("[[schedule.group]]\nname = \"g\"\nperiod = \"5ms\"\n{more}\n");
    let member = vm(
        "a",
        "cpus = [2]",
        &format!(
            "group = \"g\"\nperiod = \"10ms\"\n{}",
            task("t", 40, 4_000, "")
        ),
    );
    let alone = sound(&[group(""), member.clone()]);
    let own = "[[schedule.group.task]]\nname = \"own\"\nperiod = \"20ms\"\nexecution = \"1ms\"\n";
    let both = sound(&[group(own), member]);
    let budget = |system: &Description| system.groups[0].terms.budget;
    assert!(budget(&alone) < budget(&both), "{:?}", both.groups);
    assert_eq!(both.groups[0].cpu.index(), 2);
    assert!(alone.notes().is_empty());
    let [note] = &both.notes()[..] else {
        panic!("{:?}", both.notes());
    };
    assert!(
        note.what
            .contains("nobody runs task \"own\" of group \"g\""),
        "{note}"
    );
}

#[test]
fn cores_that_are_not_named_are_found() {
    let heavy = format!("period = \"10ms\"\n{}", task("t", 40, 18_000, ""));
    let best = "[[vm]]\nname = \"c\"\nkernel = \"debian:6.12\"\nmemory = \"64M\"\n".to_owned();
    let system = sound(&[vm("a", "", &heavy), vm("b", "cpus = [0]", &heavy), best]);
    let cores: Vec<_> = system
        .vms
        .iter()
        .map(|vm| vm.config.cpus[0].index())
        .collect();
    assert_eq!(cores[1], 0);
    assert_ne!(
        cores[0], 0,
        "two that need more than half are not on one core"
    );
    assert!(!cores[..2].contains(&cores[2]), "{cores:?}");
    let servers = |core: usize| system.policies.unwrap()[core] != CorePolicy::RoundRobin;
    assert!(servers(cores[0]) && servers(0) && !servers(cores[2]));
    assert!(found(&system)[0].ends_with(&format!("on core {}", cores[0])));
    // A written budget leaves the core open.
    let system = sound(&[vm("a", "", "period = \"10ms\"\nbudget = \"1ms\"")]);
    assert_eq!(found(&system), ["a has 1ms in 10ms on core 0"]);
}

#[test]
fn each_vcpu_with_tasks_gets_its_own_budget() {
    let tasks = task("t", 20, 2_000, "vcpu = 0") + &task("u", 20, 4_000, "vcpu = 1");
    let schedule = format!("period = \"5ms\"\n{tasks}");
    for more in ["cpus = [3, 1]", "vcpus = 2"] {
        let system = sound(&[vm("a", more, &schedule)]);
        let [t, u] = terms(&system)[..] else {
            panic!("{:?}", system.promises);
        };
        assert!(t.budget < u.budget, "{t:?} {u:?}");
        assert_eq!(system.vms[0].config.cpus.len(), 2);
        assert_eq!(found(&system).len(), 2);
        assert!(found(&system)[1].starts_with("a.1 has "), "{system:?}");
    }
    // Spread over both by EDF, no vCPU has a budget of its own.
    let spread = schedule.replace("vcpu = 0", "").replace("vcpu = 1", "");
    let found = refused(&[vm("a", "cpus = [0, 1]", &spread)]);
    assert!(
        found.what.contains("has no budget and core of its own"),
        "{found}"
    );
    assert!(
        found.remedy.contains("let its tasks name theirs"),
        "{found}"
    );
}

#[test]
fn what_cannot_be_proven_is_refused_with_the_reason() {
    let heavy = |name| {
        let tasks = task("t", 40, 22_000, "");
        vm(name, "cpus = [0]", &format!("period = \"10ms\"\n{tasks}"))
    };
    let found = refused(&[heavy("a"), heavy("b")]);
    assert_eq!(found.what, "it is not proven that all deadlines are kept");
    assert!(
        found.why.contains("has no place") && found.why.contains("short"),
        "{found}"
    );
    assert!(found.remedy.contains("there is room for"), "{found}");
    assert!(found.line > 5, "{found}");
    // Nothing is proven of a soft bandwidth server, nor of who is beside it.
    let soft = "period = \"10ms\"\nbudget = \"1ms\"\nserver = \"soft-bandwidth\"";
    let found = refused(&[heavy("a"), vm("b", "cpus = [0]", soft)]);
    assert!(found.why.contains("b:"), "{found}");
    // `hanok sched check` gets to see what is refused here.
    let text = system(&[heavy("a"), heavy("b")]);
    let schedule = parse_schedule(Path::new("x.toml"), &text, &boards());
    assert!(schedule.is_ok(), "{schedule:?}");
}
