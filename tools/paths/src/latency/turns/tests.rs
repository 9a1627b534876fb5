//! Holds the bound against a schedule of core/sched in which neighbours wake as unkindly as they can.

use super::*;
use crate::latency::SPEED;
use crate::latency::tests::{list, system};
use hanok_sched::{
    Budgets, Credit, Deals, Entity, Grant, Interface, Node, Order, Policy, Reservation, Share, Tree,
};
use proptest::prelude::*;
use std::fmt::Write;

/// A path `own` of the list takes so many nanoseconds.
const OWN: u64 = 3_000;

fn spent(text: &str) -> Vec<Result<Spent, String>> {
    let all = in_turns(&list(), &system(text), SPEED).unwrap();
    all.into_iter().map(|of| of.bound).collect()
}

fn head(policy: &str, schedule: &str) -> String {
    format!(
        "board = \"qemu-virt\"\ncores = 2\n[schedule]\nenforce = true\n{schedule}\n\
         [[schedule.pool]]\nname = \"all\"\ncores = [0, 1]\npolicy = \"{policy}\"\n"
    )
}

fn vm(name: &str, schedule: &str) -> String {
    format!(
        "[[vm]]\nname = \"{name}\"\nkernel = \"guest:bench\"\nmemory = \"64M\"\ncpus = [0]\n{schedule}\n"
    )
}

#[test]
fn budgets_that_begin_together_are_one_interrupt() {
    let with = |periods: &[u64]| {
        let mut text = head("fixed", "") + &vm("rt", &promised(1_000, 100, "priority = 0"));
        for (index, period) in periods.iter().enumerate() {
            let behind = promised(*period, 10, "priority = 1");
            text += &vm(&format!("vm{index}"), &behind);
        }
        spent(&text)[0].clone().unwrap().period / OWN - periods.len() as u64
    };
    assert_eq!(with(&[250]), 4);
    assert_eq!(with(&[500, 250, 1_000, 250]), 4);
    assert_eq!(with(&[300, 250]), 4 + 4);
    // Nine are more than an interrupt's work.
    assert_eq!(with(&[500; 8]), 2);
    assert_eq!(with(&[500; 9]), 2 * 9);
}

fn promised(period: u64, budget: u64, more: &str) -> String {
    format!("[vm.schedule]\nperiod = \"{period}us\"\nbudget = \"{budget}us\"\n{more}\n")
}

#[test]
fn budgets_and_wakes_of_neighbours_are_counted() {
    let text = |priority: u64| {
        [
            head("fixed", ""),
            vm("rt", &promised(1_000, 100, "priority = 1")),
            vm(
                "often",
                &promised(300, 10, &format!("priority = {priority}")),
            ),
            vm("rest", ""),
        ]
        .concat()
    };
    // Four budgets of the other begin, and it and the rest may each have slept as the turn began.
    let behind = Spent {
        period: (4 + 2) * OWN,
        job: 2 * OWN,
    };
    assert_eq!(spent(&text(2))[0], Ok(behind));
    // Where it goes before, it wakes again in each of its periods that begin.
    let before = Spent {
        period: behind.period + 4 * OWN,
        ..behind
    };
    assert_eq!(spent(&text(0))[0], Ok(before));
}

/// Where others get the time of who sleeps, it pays for its own switches.
#[test]
fn own_wakes_cost_two_switches_where_others_get_the_time() {
    let job = |slack: &str| {
        let schedule = format!("switch = \"4us\"\nslack = \"{slack}\"");
        let one = vm("rt", &promised(1_000, 100, ""));
        let text = [head("edf", &schedule), one, vm("rest", "")].concat();
        spent(&text)[0].clone().unwrap().job
    };
    assert_eq!(job("idle"), OWN);
    assert_eq!(job("share"), OWN + 8_000);
}

/// How often a server wakes that keeps its budget is limited by its budget alone, if each wake takes some of it.
#[test]
fn one_that_keeps_its_budget_wakes_as_often_as_it_can_pay() {
    let text = |switch: &str| {
        let other = promised(1_000, 100, "server = \"deferrable\"\npriority = 0");
        let own = promised(1_000, 100, "priority = 1");
        let vms = [vm("rt", &own), vm("keeps", &other)].concat();
        [head("fixed", switch), vms].concat()
    };
    assert!(spent(&text(""))[0].is_err());
    let found = spent(&text("switch = \"5us\""))[0].clone().unwrap();
    // Eleven in each of two periods; its budget begins once, and it may have slept before.
    assert_eq!(found.period, (2 * 11 + 1 + 1) * OWN);
}

/// A neighbour, or a group.
#[derive(Clone, Debug)]
struct Other {
    period: u64,
    budget: u64,
    priority: u64,
    polling: bool,
    /// The times that it works before it sleeps, and sleeps at least.
    habits: Vec<(u64, u64)>,
}

fn other() -> impl Strategy<Value = Other> {
    let work = prop_oneof![1_u64..12, Just(10_000)];
    let habits = prop::collection::vec((work, 1_u64..12), 1..6);
    let period = prop_oneof![20_u64..120, (1_u64..6).prop_map(|times| 20 * times)];
    let numbers = (period, 1_u64..9, 0_u64..4, any::<bool>());
    (numbers, habits).prop_map(|((period, budget, priority, polling), habits)| Other {
        period,
        budget,
        priority,
        polling,
        habits,
    })
}

impl Other {
    fn reservation(&self) -> Reservation {
        Reservation {
            kind: if self.polling {
                Kind::Polling
            } else {
                Kind::Periodic
            },
            interface: Interface::periodic(self.period, self.budget).unwrap(),
            priority: self.priority,
        }
    }

    fn described(&self, group: &str) -> String {
        let kind = if self.polling { "polling" } else { "periodic" };
        let more = format!("server = \"{kind}\"\npriority = {}\n{group}", self.priority);
        promised(self.period, self.budget, &more)
    }
}

/// A core: the first of the vCPUs is looked at.
#[derive(Clone, Debug)]
struct Core {
    order: Order,
    slack: Slack,
    vcpus: Vec<Other>,
    /// Best effort vCPUs.
    rest: Vec<Other>,
    /// A group, and the vCPUs that are in it, one bit each.
    group: Option<(Other, usize)>,
}

fn core() -> impl Strategy<Value = Core> {
    let order = prop::sample::select(&[Order::Priority, Order::EarliestDeadline][..]);
    let slack = prop::sample::select(&[Slack::Idle, Slack::Share][..]);
    let first = (other(), 1_u64..10).prop_map(|(first, tenths)| Other {
        budget: first.period * tenths / 10,
        ..first
    });
    let beside = prop::collection::vec(other(), 0..4);
    let vcpus = (first, beside).prop_map(|(first, beside)| [vec![first], beside].concat());
    let rest = prop::collection::vec(other(), 0..3);
    let group = (other(), 1_u64..8).prop_map(|(group, tenths)| Other {
        budget: group.period * tenths / 10,
        ..group
    });
    let group = prop::option::of((group, 1_usize..32));
    (order, slack, vcpus, rest, group).prop_map(|(order, slack, vcpus, rest, group)| {
        // A group without vCPUs is not on the board.
        let group = group.filter(|(_, members)| members % (1 << vcpus.len()) != 0);
        let group = group.map(|(group, members)| {
            let polling = false;
            (Other { polling, ..group }, members)
        });
        Core {
            order,
            slack,
            vcpus,
            rest,
            group,
        }
    })
}

impl Core {
    fn in_group(&self, index: usize) -> bool {
        let members = self.group.as_ref().map_or(0, |(_, members)| *members);
        members >> index & 1 != 0
    }

    fn text(&self) -> String {
        let policy = match self.order {
            Order::Priority => "fixed",
            Order::EarliestDeadline => "edf",
        };
        let slack = match self.slack {
            Slack::Idle => "idle",
            _ => "share",
        };
        let mut text = head(policy, &format!("slack = \"{slack}\""));
        if let Some((group, _)) = &self.group {
            let _ = writeln!(
                text,
                "[[schedule.group]]\nname = \"g\"\ncore = 0\nperiod = \"{}us\"\nbudget = \"{}us\"\npolicy = \"{policy}\"\n\
                 priority = {}",
                group.period, group.budget, group.priority
            );
        }
        for (index, vcpu) in self.vcpus.iter().enumerate() {
            let group = if self.in_group(index) {
                "group = \"g\""
            } else {
                ""
            };
            text += &vm(&format!("vm{index}"), &vcpu.described(group));
        }
        for index in 0..self.rest.len() {
            text += &vm(&format!("rest{index}"), "");
        }
        text
    }

    /// The largest number of interrupts for others in the turns of the first vCPU in one of its periods, less `job` for
    /// each time that it slept there.
    fn most(&self, length: u64, job: i64) -> i64 {
        let new = || Node::new(self.order, self.slack);
        let (mut root, mut groups) = (new(), [new()]);
        let tree = Tree::new(&mut root, &mut groups);
        let credit = Credit::new(100, 10, Deals::Used, 0);
        let mut policy = Budgets::new(tree, credit, self.slack, 0);
        if let Some((group, _)) = &self.group {
            policy.add_group(0, group.reservation(), 0).unwrap();
        }
        let entity = |index: usize| Entity::new(index).unwrap();
        for (index, vcpu) in self.vcpus.iter().enumerate() {
            let home = usize::from(self.in_group(index));
            let grant = Grant::Promise(home, vcpu.reservation());
            policy.grant(entity(index), grant, 0).unwrap();
        }
        let share = Share {
            weight: 256,
            cap: None,
        };
        for index in self.vcpus.len()..self.vcpus.len() + self.rest.len() {
            policy.grant(entity(index), Grant::Share(share), 0).unwrap();
        }
        let mut habits = self.vcpus.iter().chain(&self.rest);
        let mut habits: Vec<_> = habits
            .by_ref()
            .map(|of| of.habits.iter().cycle().copied())
            .collect();
        // What is left to do, and then how long it sleeps at least.
        let mut states: Vec<_> = habits.iter_mut().map(|of| of.next().unwrap()).collect();
        for index in 0..states.len() {
            policy.wake(entity(index), 0);
        }
        let own = &self.vcpus[0];
        let (mut most, mut count, mut had) = (0_i64, 0_i64, 0);
        let mut decision = policy.pick(0);
        for now in 1..length {
            let charged = policy.charged() == Some(entity(0));
            let ran = decision.run.map(Entity::index);
            let own_turn = charged && ran == Some(0);
            had += u64::from(charged);
            if now % own.period == 0 {
                (most, count, had) = (most.max(count), 0, 0);
            } else if own_turn
                && had < own.budget
                && decision.until.is_some_and(|until| until <= now)
            {
                count += 1;
            }
            for (index, (work, sleep)) in states.iter_mut().enumerate() {
                if *work > 0 {
                    *work -= u64::from(ran == Some(index));
                    if *work == 0 {
                        policy.block(entity(index), now);
                        count -= if index == 0 { job } else { 0 };
                    }
                    continue;
                }
                *sleep = sleep.saturating_sub(1);
                // Others wake in the turns of the first one, if they can.
                if *sleep == 0 && (index == 0 || own_turn || now % 97 == 0) {
                    (*work, *sleep) = habits[index].next().unwrap();
                    policy.wake(entity(index), now);
                    count += i64::from(index != 0 && own_turn);
                }
            }
            decision = policy.pick(now);
        }
        most
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, max_global_rejects: 1_000_000, ..ProptestConfig::default() })]
    #[test]
    fn no_turn_sees_more_than_the_bound(core in core()) {
        let shares = core.vcpus.iter().enumerate().filter(|(index, _)| !core.in_group(*index));
        let shares = shares.map(|(_, of)| of).chain(core.group.as_ref().map(|(group, _)| group));
        let sum: f64 = shares.map(|of| of.budget as f64 / of.period as f64).sum();
        prop_assume!(sum < 0.95);
        let inside = core.vcpus.iter().enumerate().filter(|(index, _)| core.in_group(*index));
        let inside: f64 = inside.map(|(_, of)| of.budget as f64 / of.period as f64).sum();
        prop_assume!(core.group.as_ref().is_none_or(|(group, _)| inside < 0.95 * group.budget as f64 / group.period as f64));
        let bound = spent(&core.text())[0].clone().unwrap();
        let times = |time: u64| i64::try_from(time / OWN).unwrap();
        let most = core.most(5_000, times(bound.job));
        prop_assert!(most <= times(bound.period), "{most} of {}\n{}", times(bound.period), core.text());
    }
}

fn of(period: u64, budget: u64, priority: u64, habit: (u64, u64)) -> Other {
    Other {
        period,
        budget,
        priority,
        polling: false,
        habits: vec![habit],
    }
}

/// One that goes before it, and has used its budget, wakes in its turn in each of its own periods: at random that is rare.
#[test]
fn a_server_before_it_wakes_in_each_of_its_periods() {
    let core = Core {
        order: Order::Priority,
        slack: Slack::Idle,
        vcpus: vec![of(120, 80, 1, (10_000, 1)), of(20, 4, 0, (2, 1))],
        rest: Vec::new(),
        group: None,
    };
    let bound = spent(&core.text())[0].clone().unwrap().period / OWN;
    let most = core.most(5_000, 0);
    // More than the budgets that begin, and the turn's first wake.
    assert!(
        most > 6 + 1 && most <= i64::try_from(bound).unwrap(),
        "{most} of {bound}"
    );
}

/// Where its group has no budget, one without a promise runs, and wakes in the group's next turn.
#[test]
fn others_wake_in_each_turn_of_its_group() {
    let core = Core {
        order: Order::Priority,
        slack: Slack::Idle,
        vcpus: vec![of(120, 40, 0, (10_000, 1))],
        rest: vec![of(0, 0, 0, (1, 1))],
        group: Some((of(20, 10, 0, (1, 1)), 1)),
    };
    let bound = spent(&core.text())[0].clone().unwrap().period / OWN;
    let most = core.most(5_000, 0);
    // More than the group's budgets that begin in its turns, and the turn's first wake.
    assert!(
        most > 1 && most <= i64::try_from(bound).unwrap(),
        "{most} of {bound}"
    );
    // The group's budgets begin and end; the turn begins, and so it does with each of them.
    assert_eq!(bound, 6 + 6 + 1 + 6);
}

/// Where two go before it and sleep, it has the first one's time, and nobody behind it: they do not wake once more.
#[test]
fn sleepers_give_their_turns_away_in_order() {
    let core = |slack| Core {
        order: Order::Priority,
        slack,
        vcpus: vec![
            of(240, 80, 2, (10_000, 1)),
            of(40, 8, 0, (1, 100_000)),
            of(40, 10, 1, (1, 100_000)),
        ],
        rest: vec![of(0, 0, 0, (1, 1)); 8],
        group: None,
    };
    for slack in [Slack::Idle, Slack::Share] {
        let core = core(slack);
        let spent = spent(&core.text())[0].clone().unwrap();
        let most = core.most(5_000, 0);
        assert!(most <= i64::try_from(spent.period / OWN).unwrap(), "{most}");
        // Each of the others wakes once.
        assert!(most >= 8, "{most}");
    }
}

/// One whose group uses its budget up, while its own lasts, wakes in each turn that follows, not in its own periods alone.
#[test]
fn a_member_of_a_group_before_it_wakes_in_each_of_the_groups_periods() {
    let core = Core {
        order: Order::Priority,
        slack: Slack::Idle,
        vcpus: vec![of(240, 150, 1, (10_000, 1)), of(240, 40, 0, (1, 1))],
        rest: Vec::new(),
        group: Some((of(20, 4, 0, (1, 1)), 2)),
    };
    let bound = spent(&core.text())[0].clone().unwrap().period / OWN;
    let most = core.most(5_000, 0);
    assert!(most <= i64::try_from(bound).unwrap(), "{most} of {bound}");
    // The group's budgets begin, it wakes, and so it does in its own period: that would not do.
    assert!(most > 12 + 1 + 1, "{most}");
}
