//! Global pools that the board enforces: what the board is told, and what is refused, with a reason and what to write
//! instead.

mod common;

use common::load;
use hanok_config::{Claim, CorePolicy};
use hanok_sched::Order;
use hanok_system::{Description, Diagnostic};
use hanok_types::CpuId;

const HEAD: &str = "board = \"qemu-virt\"\ncores = 4\n[schedule]\nenforce = true\n";
const POOL: &str = "[[schedule.pool]]\nname = \"both\"\ncores = [1, 2]\nmode = \"global\"\n";

/// A VM of two vCPUs in the pool; `more` are keys of its own, `schedule` more of its [vm.schedule].
fn vm(name: &str, more: &str, schedule: &str) -> String {
    format!(
        "[[vm]]\nname = \"{name}\"\nkernel = \"debian:6.12\"\nmemory = \"64M\"\n{more}\n\
         [vm.schedule]\npool = \"both\"\nperiod = \"10ms\"\nbudget = \"5ms\"\n{schedule}\n"
    )
}

fn pooled(name: &str) -> String {
    vm(name, "vcpus = 2", "")
}

fn sound(text: &str) -> Description {
    load(text).unwrap_or_else(|found| panic!("{found:?}"))
}

fn refused(text: &str) -> Diagnostic {
    let mut found = load(text).unwrap_err();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

#[test]
fn the_cores_of_a_pool_have_one_policy_and_vcpus_begin_on_them_in_turn() {
    let alone = "[[vm]]\nname = \"alone\"\nkernel = \"debian:6.12\"\nmemory = \"64M\"\n";
    let system = sound(&(HEAD.to_owned() + POOL + &pooled("a") + &vm("b", "", "") + alone));
    let global = CorePolicy::Global {
        order: Order::EarliestDeadline,
        pool: CpuId::new(1),
    };
    let turns = CorePolicy::RoundRobin;
    let policies = system.policies.unwrap();
    assert_eq!(policies[..4], [turns, global, global, turns]);
    let cpus: Vec<Vec<usize>> = system
        .vms
        .iter()
        .map(|vm| vm.config.cpus.iter().map(|cpu| cpu.index()).collect())
        .collect();
    assert_eq!(cpus, [vec![1, 2], vec![1], vec![0]]);
    let budgets: Vec<_> = system
        .promises
        .iter()
        .map(|promise| match promise.claim {
            Claim::Promise { terms, .. } => (promise.vm.index(), terms.budget, terms.period),
            Claim::Share(_) => panic!("a share"),
        })
        .collect();
    // What `a` has is divided.
    let ms = 1_000_000;
    assert_eq!(
        budgets,
        [
            (0, 5 * ms / 2, 10 * ms),
            (0, 5 * ms / 2, 10 * ms),
            (1, 5 * ms, 10 * ms)
        ]
    );
}

#[test]
fn what_cannot_move_is_refused() {
    let wide = POOL.replace("[1, 2]", "[0, 1, 2, 3, 4, 5, 6, 7, 8]");
    let nine = HEAD.replace("cores = 4", "cores = 9");
    let best_effort =
        "[[vm]]\nname = \"b\"\nkernel = \"debian:6.12\"\nmemory = \"64M\"\ncpus = [2]\n";
    let share = format!("{best_effort}[vm.share]\nweight = 3\n");
    let group =
        "[[schedule.group]]\nname = \"g\"\npool = \"both\"\nperiod = \"10ms\"\nbudget = \"5ms\"\n";
    let in_group = vm("a", "", "group = \"g\"").replace("pool = \"both\"\n", "");
    let ask = vm("a", "", "ask = \"10 %\"");
    let slack = HEAD.to_owned() + "slack = \"share\"\n";
    let full = vm("a", "", "").replace("\"5ms\"", "\"9ms\"");
    let [full, second, third] =
        ["a", "b", "c"].map(|name| full.replace("\"a\"", &format!("\"{name}\"")));
    let pl1 = HEAD
        .replace("qemu-virt", "qemu-virt-arm-pl1")
        .replace("cores = 4", "cores = 3");
    let arm = HEAD.replace("qemu-virt", "qemu-virt-arm");
    let head = HEAD.to_owned();
    let cases = [
        (
            head.clone() + POOL + &vm("a", "cpus = [1]", ""),
            "names `cpus`",
            "remove `cpus`",
        ),
        (head.clone() + POOL + &ask, "has `ask`", "remove `ask`"),
        (
            head.clone() + POOL + &vm("a", "devices = [\"pl061\"]", ""),
            "\"a\" has devices of the board",
            "a core of its own",
        ),
        (
            slack + POOL + &pooled("a"),
            "`slack` beside",
            "slack = \"idle\"",
        ),
        (nine + &wide + &pooled("a"), "9 cores", "several pools"),
        (
            head.clone() + POOL + &pooled("a") + best_effort,
            "\"b\" is on core 2",
            "another core",
        ),
        (
            head.clone() + POOL + &pooled("a") + &share,
            "\"b\" is on core 2",
            "another core",
        ),
        (
            head.clone() + POOL + group + &in_group,
            "in a group of a global pool",
            "out of the group",
        ),
        (
            head.clone() + POOL + &full + &second + &third,
            "more than all of pool",
            "lower a budget",
        ),
        (
            arm + POOL + &pooled("a"),
            "`enforce` with a global pool on board qemu-virt-arm",
            "64-bit board",
        ),
        (
            pl1 + POOL + &pooled("a"),
            "on board qemu-virt-arm-pl1",
            "mode = \"partitioned\"",
        ),
    ];
    for (text, what, remedy) in cases {
        let found = refused(&text);
        assert!(found.what.contains(what), "{found:?}");
        assert!(
            found.remedy.contains(remedy) && !found.why.is_empty(),
            "{found:?}"
        );
    }
    // On its own core it may have `ask`, and on a 32-bit board the pool may be there if nothing is enforced.
    let arm = HEAD
        .replace("qemu-virt", "qemu-virt-arm")
        .replace("enforce = true\n", "");
    sound(&(arm + POOL + &pooled("a")));
}
