//! Schedules: read as a model, or refused with line, reason and remedy.

mod common;

use common::boards;
use hanok_system::{Diagnostic, Schedule, load_schedule, parse, parse_schedule};
use hanok_task_model::{
    CoreId, Home, Mode, Nanos, Periods, Plan, Policy, PoolId, Priority, ResourceInterface, Server,
    Window,
};
use proptest::prelude::*;
use std::path::Path;

fn read(text: &str) -> Result<Schedule, Vec<Diagnostic>> {
    parse_schedule(Path::new("systems/s.toml"), text, &boards())
}

/// Two groups, without VMs.
const GROUPS: &str = r#"board = "qemu-virt"
[schedule]
tick = "10us"
switch = "2us"

[[schedule.pool]]
name = "rt"
cores = [1, 2]
policy = "fixed"

[[schedule.group]]
name = "outer"
policy = "rm"
period = "10ms"
budget = "4ms"
deadline = "8ms"
core = 2
priority = 1

[[schedule.group]]
name = "inner"
group = "outer"
period = ["1ms", "20ms"]
window = "longest"

[[schedule.group.task]]
name = "control"
period = "20ms"
execution = "800us"
deadline = "15ms"
offset = "1ms"
jitter = "50us"
priority = 3
"#;

#[test]
fn a_schedule_of_groups_is_read() {
    let schedule = read(GROUPS).unwrap();
    let model = &schedule.model;
    assert_eq!(model.tick, Nanos::from_micros(10));
    assert_eq!(model.cost.switch, Nanos::from_micros(2));
    assert_eq!(
        (model.pools.len(), model.pools[0].policy),
        (1, Policy::FixedPriority)
    );
    let outer = &model.components[0];
    assert_eq!(
        (outer.policy, outer.core),
        (Policy::RateMonotonic, Some(CoreId(2)))
    );
    assert_eq!(
        (outer.home, outer.priority),
        (Home::Pool(PoolId(0)), Some(Priority(1)))
    );
    let interface = ResourceInterface {
        period: Nanos::from_millis(10),
        budget: Nanos::from_millis(4),
        deadline: Nanos::from_millis(8),
    };
    assert_eq!(outer.plan, Plan::Given(interface));
    let inner = &model.components[1];
    assert_eq!(inner.home, Home::Component(model.find("outer").unwrap()));
    let range = Plan::Find {
        periods: Periods::Range {
            least: Nanos::from_millis(1),
            most: Nanos::from_millis(20),
        },
        window: Window::Longest,
    };
    assert_eq!(inner.plan, range);
    let task = &model.tasks[0];
    assert_eq!(
        (task.deadline, task.jitter),
        (Nanos::from_millis(15), Nanos::from_micros(50))
    );
    assert_eq!(
        (task.offset, task.priority),
        (Nanos::from_millis(1), Some(Priority(3)))
    );
    assert_eq!(schedule.line_of(model.find("inner").unwrap()), Some(21));
}

#[test]
fn the_repository_s_own_schedule_is_sound() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems/schedule.toml");
    let schedule = load_schedule(&path, &boards()).unwrap();
    let model = &schedule.model;
    let linux = model.component(model.find("linux").unwrap()).unwrap();
    assert_eq!(linux.cpus, 2);
    assert_eq!(model.pools[0].mode, Mode::Global);
    assert_eq!((model.components.len(), model.tasks.len()), (5, 8));
}

/// A VM in a group takes its group to its core.
#[test]
fn a_group_is_where_its_vms_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../systems/schedule.toml");
    let text = std::fs::read_to_string(path).unwrap();
    let model = read(&text).unwrap().model;
    let drive = model.component(model.find("drive").unwrap()).unwrap();
    assert_eq!(drive.core, Some(CoreId(2)));
    let found = read(&text.replacen("cpus = [2]", "cpus = [3]", 1)).unwrap_err();
    assert_eq!(found[0].what, "the VM is on core 2, its group on 3");
}

const VM: &str = r#"board = "qemu-virt"
[[vm]]
name = "rtos"
kernel = "guest:rtos"
memory = "64M"
cpus = [1, 3]
[vm.schedule]
period = "10ms"
"#;

#[test]
fn vcpus_with_tasks_of_their_own_are_components() {
    let task = |vcpu: &str| {
        format!(
            "[[vm.schedule.task]]\nname = \"t{vcpu}\"\nperiod = \"50ms\"\nexecution = \"1ms\"\n{}\n",
            if vcpu.is_empty() {
                String::new()
            } else {
                format!("vcpu = {vcpu}")
            }
        )
    };
    let both = read(&format!("{VM}{}{}", task("0"), task("1"))).unwrap();
    let names: Vec<_> = both
        .model
        .components
        .iter()
        .map(|c| c.name.as_str())
        .collect();
    assert_eq!(names, ["rtos.0", "rtos.1"]);
    assert_eq!(both.model.components[1].core, Some(CoreId(3)));
    let spread = read(&format!("{VM}{}", task(""))).unwrap();
    assert_eq!(
        (
            spread.model.components.len(),
            spread.model.components[0].cpus
        ),
        (1, 2)
    );
    let mixed = read(&format!("{VM}{}{}", task("0"), task(""))).unwrap_err();
    assert_eq!(mixed[0].what, "a task without `vcpu` beside tasks with one");
    assert_eq!(mixed[0].line, 14);
    let none = read(&format!("{VM}{}", task("2"))).unwrap_err();
    assert_eq!(
        (none[0].line, none[0].what.as_str()),
        (13, "the VM has no vCPU 2")
    );
}

/// [`GROUPS`] with `from` replaced by `to`: the first refusal as "line what".
fn refusal(from: &str, to: &str) -> String {
    assert!(GROUPS.contains(from), "{from}");
    let found = read(&GROUPS.replacen(from, to, 1)).unwrap_err();
    assert!(
        found
            .iter()
            .all(|one| !one.why.is_empty() || one.what.contains("is not"))
    );
    assert!(found.iter().all(|one| !one.remedy.is_empty()), "{found:?}");
    format!("{} {}", found[0].line, found[0].what)
}

#[test]
fn what_is_wrong_is_named_with_its_line() {
    let cases = [
        (
            "tick = \"10us\"",
            "tick = \"0us\"",
            "2 the model: the tick is zero",
        ),
        (
            "period = \"20ms\"",
            "period = \"0ms\"",
            "26 task control of inner: the period is zero",
        ),
        (
            "budget = \"4ms\"",
            "budget = \"9ms\"",
            "12 component outer: the budget, 9ms, is longer than the deadline, 8ms",
        ),
        (
            "budget = \"4ms\"",
            "budget = \"4001us\"",
            "12 component outer: the budget, 4001us, is no whole number of ticks of 10us",
        ),
        ("cores = [1, 2]", "cores = [1, 9]", "8 there is no core 9"),
        (
            "cores = [1, 2]",
            "cores = [2, 2]",
            "6 pool rt: core 2 is in another pool, too, or twice in this one",
        ),
        ("core = 2", "core = 0", "17 no pool has core 0"),
        (
            "priority = 1\n",
            "",
            "12 component outer: it has no priority, and fixed priorities decide here",
        ),
        (
            "group = \"outer\"",
            "group = \"outr\"",
            "22 there is no group \"outr\"",
        ),
        (
            "group = \"outer\"",
            "group = \"inner\"",
            "21 component inner: it is inside itself, by way of other components or at once",
        ),
        (
            "[\"1ms\", \"20ms\"]",
            "[\"1ms\"]",
            "23 the value of `period` is not a time such as \"10ms\", or the shortest and the longest, such as [\"1ms\", \"20ms\"]",
        ),
        (
            "period = [\"1ms\", \"20ms\"]",
            "period = [\"20ms\", \"1ms\"]",
            "21 component inner: the shortest period, 20ms, is longer than the longest period, 1ms",
        ),
        (
            "window = \"longest\"",
            "window = \"wide\"",
            "24 the value of `window` is not \"period\", \"budget\" or \"longest\"",
        ),
        (
            "window = \"longest\"",
            "server = \"deferrable\"\nwindow = \"longest\"",
            "21 component inner: this kind of server has its deadline at the end of its period",
        ),
        (
            "window = \"longest\"",
            "server = \"sporadic\"",
            "24 the value of `server` is not \"periodic\", \"polling\", \"deferrable\", \"bandwidth\" or \"soft-bandwidth\"",
        ),
        ("execution", "wcet", "26 `execution` is missing in task"),
        (
            "deadline = \"8ms\"",
            "window = \"budget\"",
            "16 both `budget` and `window`",
        ),
        ("budget = \"4ms\"\n", "", "15 `deadline` without `budget`"),
        (
            "name = \"inner\"",
            "name = \"outer\"",
            "21 component outer: another one has the same name",
        ),
        (
            "jitter = \"50us\"",
            "jitter = \"18446744073709551615ns\"",
            "26 task control of inner: the jitter is longer than 36 years",
        ),
    ];
    for (from, to, expected) in cases {
        assert_eq!(refusal(from, to), expected, "{from} -> {to}");
    }
}

#[test]
fn a_system_without_a_schedule_says_so() {
    let found = read(common::SOUND).unwrap_err();
    assert_eq!(found[0].what, "the system has no schedule");
    // A system that is to run needs a VM, with or without a schedule.
    let found = parse(Path::new("s.toml"), GROUPS, &boards()).unwrap_err();
    assert_eq!(found[0].what, "the system has no VM");
}

proptest! {
    /// Whatever times stand there, the answer is a sound model or a refusal.
    #[test]
    fn any_time_is_read_or_refused(value in any::<u64>(), unit in "(ns|us|ms|s|m|)", key in 0usize..4) {
        let key = ["period = \"20ms\"", "execution = \"800us\"", "deadline = \"15ms\"", "tick = \"10us\""][key];
        let name = key.split(' ').next().unwrap();
        let text = GROUPS.replacen(key, &format!("{name} = \"{value}{unit}\""), 1);
        match read(&text) {
            Ok(schedule) => prop_assert_eq!(schedule.model.validate(), Ok(())),
            Err(found) => prop_assert!(found.iter().all(|one| one.line > 0)),
        }
    }
}

/// A schedule needs no board: it has as many cores as it says, or as it names.
#[test]
fn a_schedule_without_a_board_has_the_cores_it_names() {
    let text = GROUPS.replacen("board = \"qemu-virt\"\n", "", 1);
    let all = |schedule: &Schedule| schedule.model.pools[0].cores.len();
    assert_eq!(all(&read(&text).unwrap()), 2);
    let many: Vec<String> = (0..64).map(|core| core.to_string()).collect();
    let named = format!("cores = [{}]", many.join(", "));
    assert_eq!(
        all(&read(&text.replacen("cores = [1, 2]", &named, 1)).unwrap()),
        64
    );
    let alone =
        "cores = 200\n[[schedule.group]]\nname = \"g\"\nperiod = \"1.5us\"\nbudget = \"1us\"\n";
    let tick = "[schedule]\ntick = \"0.5us\"\n";
    let text = alone.replacen("[[", &format!("{tick}[["), 1);
    let schedule = read(&text).unwrap();
    assert_eq!(all(&schedule), 200);
    let (period, budget) = (Nanos::new(1_500), Nanos::new(1_000));
    let given = Plan::Given(ResourceInterface::periodic(period, budget));
    assert_eq!(schedule.model.components[0].plan, given);
    let found = read(&text.replacen("200", "257", 1)).unwrap_err();
    assert!(
        found[0]
            .what
            .contains("`cores` is not a number from 1 to 256"),
        "{found:?}"
    );
    let found = read("cores = 2\n").unwrap_err();
    assert!(found[0].what.contains("has no schedule"), "{found:?}");
    // A core that is not there, where it is said how many there are.
    let found = read(&text.replacen("budget", "core = 200\nbudget", 1)).unwrap_err();
    assert!(found[0].what.contains("no pool has core 200"), "{found:?}");
}

/// What becomes of a budget without work, in the words of the description.
#[test]
fn the_kind_of_server_is_read() {
    let kinds = [
        ("periodic", Server::Periodic),
        ("polling", Server::Polling),
        ("deferrable", Server::Deferrable),
        ("bandwidth", Server::ConstantBandwidth),
        ("soft-bandwidth", Server::SoftBandwidth),
    ];
    for (word, kind) in kinds {
        let server = format!("server = \"{word}\"");
        let schedule = read(&GROUPS.replacen("window = \"longest\"", &server, 1)).unwrap();
        let kinds = schedule.model.components.iter().map(|one| one.server);
        assert_eq!(kinds.collect::<Vec<_>>(), [Server::Periodic, kind]);
    }
}

/// A given budget and the longest deadline with which it does.
#[test]
fn the_longest_deadline_of_a_budget_is_asked_for() {
    let text = GROUPS.replacen("deadline = \"8ms\"", "window = \"longest\"", 1);
    let schedule = read(&text).unwrap();
    let [period, budget] = [10, 4].map(Nanos::from_millis);
    assert_eq!(
        schedule.model.components[0].plan,
        Plan::Longest { period, budget }
    );
    let both = GROUPS.replacen(
        "deadline = \"8ms\"",
        "deadline = \"8ms\"\nwindow = \"longest\"",
        1,
    );
    let found = read(&both).unwrap_err();
    assert!(found[0].what.contains("`deadline` and window"), "{found:?}");
    let other = GROUPS.replacen("deadline = \"8ms\"", "window = \"period\"", 1);
    let found = read(&other).unwrap_err();
    assert!(
        found[0].what.contains("both `budget` and `window`"),
        "{found:?}"
    );
}

/// A VM of one vCPU, whose core is named for the board's sake, in a pool that spreads vCPUs.
#[test]
fn a_vm_of_one_vcpu_may_be_in_a_global_pool() {
    let text = |core: &str, mode: &str| {
        format!(
            "board = \"qemu-virt\"\n[schedule]\n[[schedule.pool]]\nname = \"p\"\n\
             cores = [0, 1]\nmode = \"{mode}\"\n[[vm]]\nname = \"a\"\nkernel = \"guest:rtos\"\n\
             memory = \"16M\"\ncpus = [1]\n[vm.schedule]\nperiod = \"10ms\"\nbudget = \"2ms\"\n{core}"
        )
    };
    let schedule = read(&text("", "global")).unwrap();
    assert_eq!(schedule.model.components[0].core, None);
    let schedule = read(&text("", "partitioned")).unwrap();
    assert_eq!(schedule.model.components[0].core, Some(CoreId(1)));
    // A wish that the schedule itself has is refused as before.
    let found = read(&text("core = 1\n", "global")).unwrap_err();
    assert!(found[0].remedy.contains("partitioned"), "{found:?}");
}
