use super::*;
use std::path::Path;

/// A description whose file is not read.
pub fn system(text: &str) -> Description {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let path = root.join("system.toml");
    match hanok_system::parse(&path, text, &root.join("boards")) {
        Ok(system) => system,
        Err(found) => panic!("{found:?}"),
    }
}

/// Each path takes its own number of instructions, the same everywhere.
pub fn list() -> List {
    let path = |name: &str, by: &str, most: u64| {
        format!(
            "[[path]]\nname = \"{name}\"\nwhat = \"\"\nbounded-by = \"\"\nby = \"{by}\"\n\
             most = {{ gicv3 = {most}, crowd = {most}, gicv2 = {most}, arm = {most} }}\n"
        )
    };
    let all = [
        path("register", "guest", 5_000),
        path("own", "guest", 3_000),
        path("look", "guest", 200),
        path("life", "guest", 40),
        path("interrupt", "guest", 7),
        path("prompt", "person", 9_000),
    ];
    List::parse(&all.concat()).unwrap()
}

const HEAD: &str = "board = \"qemu-virt\"\ncores = 2\n[schedule]\nenforce = true\n\
                    [[schedule.pool]]\nname = \"all\"\ncores = [0, 1]\n";

fn vm(name: &str, cpus: &str, schedule: &str) -> String {
    format!(
        "[[vm]]\nname = \"{name}\"\nkernel = \"guest:bench\"\nmemory = \"64M\"\ncpus = {cpus}\n{schedule}"
    )
}

fn first(text: &str) -> Result<Bound, String> {
    let all = of(&list(), &system(text), SPEED).unwrap();
    all.first().unwrap().bound.clone()
}

fn promised(period: &str, budget: &str, more: &str) -> String {
    format!("[vm.schedule]\nperiod = \"{period}\"\nbudget = \"{budget}\"\n{more}\n")
}

const FIXED: &str = "policy = \"fixed\"\n";
const KEEPS: &str = "server = \"deferrable\"\npriority = ";

#[test]
fn the_most_urgent_one_waits_for_the_hypervisor_alone() {
    let text = [
        HEAD,
        FIXED,
        &vm("rt", "[0]", &promised("1ms", "100us", &format!("{KEEPS}0"))),
        &vm("busy", "[0]", &promised("10ms", "8ms", "priority = 1")),
        &vm("elsewhere", "[1]", &promised("10ms", "8ms", "priority = 0")),
    ];
    let bound = first(&text.concat()).unwrap();
    let expected = Bound {
        blocked: 5_000,
        own: 3_000,
        // Two vCPUs in a round, and their budgets in one piece.
        wakes: 2 * 200,
        // The other vCPU, and the end of its VM.
        lives: 2 * 40,
        // The line, both ways.
        devices: 2 * 7,
        person: 4_000,
        ..Bound::default()
    };
    assert_eq!(bound, expected);
    assert_eq!(bound.total(), 8_494);
}

#[test]
fn those_before_it_are_added_as_often_as_they_come() {
    let text = |priority: u64| {
        [
            HEAD,
            FIXED,
            &vm("rt", "[0]", &promised("1ms", "100us", &format!("{KEEPS}1"))),
            &vm(
                "other",
                "[0]",
                &promised("100us", "10us", &format!("priority = {priority}")),
            ),
        ]
        .concat()
    };
    assert_eq!(first(&text(2)).unwrap().ahead, 0);
    // Two periods of it meet within some 50 us: 10 us, and what its switches take.
    let each = 10_000 + 2 * 3_000 + 200 + 5_000;
    assert_eq!(first(&text(0)).unwrap().ahead, 2 * each);
    // As urgent as this one is before it, too.
    assert_eq!(first(&text(1)).unwrap().ahead, 2 * each);
}

#[test]
fn a_server_that_spends_in_sleep_waits_for_its_budget() {
    let text = |kind: &str| {
        let own = format!("server = \"{kind}\"");
        [HEAD, &vm("rt", "[0]", &promised("1ms", "100us", &own))].concat()
    };
    assert_eq!(first(&text("periodic")).unwrap().budget, 900_000);
    assert_eq!(first(&text("polling")).unwrap().budget, 1_000_000);
    assert_eq!(first(&text("deferrable")).unwrap().budget, 0);
}

#[test]
fn what_vcpus_on_other_cores_cause_is_counted() {
    let most = promised("1ms", "100us", &format!("{KEEPS}0"));
    let bound = |cpus: &str| {
        let text = [HEAD, FIXED, &vm("rt", "[0]", &most), &vm("wide", cpus, "")].concat();
        first(&text).unwrap()
    };
    // The line, both ways; its device may or may not be there.
    let alone = bound("[0]");
    let wide = bound("[0, 1]");
    // A vCPU that sleeps is looked at four times in each of two periods, one that is awake twice; and it enters its VM
    // and leaves it.
    let caused = 200 * (2 * 4 + 2) + 2 * 40;
    assert_eq!(wide.devices, alone.devices + caused);
    let rest = |bound: &Bound| bound.total() - bound.devices;
    assert_eq!(rest(&wide), rest(&alone));
    // As many of them elsewhere as may be make no difference: they ask for the same.
    assert_eq!(bound("[0, 1, 1, 1, 1, 1, 1, 1]"), wide);
    // Two here cause twice as much.
    assert_eq!(bound("[0, 0, 1]").devices, alone.devices + 2 * caused);
}

#[test]
fn where_nothing_is_proven_it_says_why() {
    let rt = vm("rt", "[0]", &promised("1ms", "100us", ""));
    let many = vm("wide", "[0, 1, 1, 1, 1, 1, 1, 1, 1]", "");
    let spread = [HEAD, &rt, &many].concat();
    assert!(
        first(&spread)
            .unwrap_err()
            .contains("\"wide\" has vCPUs here")
    );
    let full = [HEAD, &rt, &vm("all", "[0]", &promised("10us", "9us", ""))].concat();
    assert!(first(&full).unwrap_err().contains("no time"));
    let group = "[[schedule.group]]\nname = \"g\"\nperiod = \"1ms\"\nbudget = \"200us\"\n";
    let inside = vm("rt", "[0]", &promised("1ms", "100us", "group = \"g\""));
    let inside = [HEAD, group, &inside].concat();
    assert!(first(&inside).unwrap_err().contains("group"));
    let old = HEAD.replace("qemu-virt", "qemu-virt-arm-pl1");
    let old = [&old, rt.as_str()].concat();
    assert!(first(&old).unwrap_err().contains("such a board"));
}

#[test]
fn a_slower_cpu_has_others_before_it_for_fewer_instructions() {
    let text = [
        HEAD,
        &vm("rt", "[0]", &promised("10ms", "1ms", "")),
        &vm("other", "[0]", &promised("10ms", "1ms", "")),
    ];
    let system = system(&text.concat());
    let ahead = |speed| {
        of(&list(), &system, speed).unwrap()[0]
            .bound
            .clone()
            .unwrap()
    };
    assert_eq!(ahead(1_000).ahead, 3 * (1_000_000 + 11_200));
    assert_eq!(ahead(10).ahead, 3 * (10_000 + 11_200));
    assert_eq!(nanos(25, 10), 2_500);
    assert_eq!(nanos(1, 3_000), 1);
}

/// The longest time without supply, and what the hypervisor adds; others' budgets are in it already.
#[test]
fn a_release_waits_for_its_supply_and_the_paths() {
    let release = |schedule: &str| {
        let text = [
            HEAD,
            &vm("rt", "[0]", schedule),
            &vm("other", "[0]", &promised("10ms", "1ms", "")),
        ];
        let all = releases(&list(), &system(&text.concat()), SPEED).unwrap();
        all.first().unwrap().bound.clone()
    };
    let bound = release(&promised("1ms", "100us", "")).unwrap();
    let expected = Bound {
        blocked: 5_000,
        own: 3_000,
        wakes: 2 * 200,
        lives: 2 * 40,
        // A byte each 86.8 us of 1.8 ms and more, both ways.
        devices: 2 * 22 * 7,
        // Two switches and a path in a period of the other one that is met late, and in the next.
        ahead: 2 * 11_200,
        budget: 1_800_000,
        person: 4_000,
    };
    assert_eq!(bound, expected);
    let within = release(&promised("1ms", "100us", "deadline = \"300us\"")).unwrap();
    assert_eq!(within.budget, 1_100_000);
    let kinds = [("polling", 1_900_000), ("deferrable", 1_800_000)];
    for (kind, budget) in kinds {
        let own = format!("server = \"{kind}\"");
        let bound = release(&promised("1ms", "100us", &own)).unwrap();
        assert_eq!(bound.budget, budget, "{kind}");
    }
    let soft = release(&promised("1ms", "100us", "server = \"soft-bandwidth\""));
    assert!(soft.unwrap_err().contains("nothing is promised"));
}
