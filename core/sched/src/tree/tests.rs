//! Trees of servers, each behaviour by itself.

use super::*;
use crate::Kind;
use proptest::prelude::*;
use std::string::String;
use std::vec::Vec;

/// The number of vCPUs in each group of these tests.
const IN_GROUP: usize = 4;

/// A tree with the first node as its root.
fn tree(nodes: &mut [Node]) -> Tree<'_> {
    let (root, groups) = nodes.split_first_mut().unwrap();
    Tree::new(root, groups)
}

fn one(kind: Kind, period: u64, budget: u64, priority: u64) -> Reservation {
    let interface = Interface::periodic(period, budget).unwrap();
    Reservation {
        kind,
        interface,
        priority,
    }
}

fn vcpu(index: usize) -> Entity {
    Entity::new(index).unwrap()
}

fn nodes(count: usize, slack: Slack) -> Vec<Node> {
    let mut nodes = std::vec![Node::new(Order::EarliestDeadline, slack)];
    nodes.resize(count, Node::new(Order::Priority, slack));
    nodes
}

/// A group for each of `groups`; vCPU 4 g + m is member m of group g.
fn two<'a>(
    nodes: &'a mut [Node],
    groups: &[Reservation],
    inner: impl Fn(usize) -> Reservation,
) -> Tree<'a> {
    let mut tree = self::tree(nodes);
    for (index, what) in groups.iter().enumerate() {
        let group = tree.add_group(0, *what, 0).unwrap();
        for m in 0..IN_GROUP {
            let entity = vcpu(index * IN_GROUP + m);
            tree.add_vcpu(group, entity, inner(m), 0).unwrap();
        }
    }
    tree
}

fn line(tree: &mut Tree<'_>, from: u64, to: u64) -> String {
    let mut decision = tree.pick(from);
    let mut line = String::new();
    for now in from..to {
        if decision.until.is_some_and(|until| until <= now) {
            decision = tree.pick(now);
        }
        let name = |who: Entity| char::from(b'a' + who.index() as u8);
        line.push(decision.run.map_or('.', name));
    }
    line
}

#[test]
fn budgets_bind_at_both_levels() {
    let root = [
        one(Kind::Deferrable, 10, 6, 0),
        one(Kind::Deferrable, 10, 4, 0),
    ];
    let mut nodes = nodes(3, Slack::Idle);
    let mut tree = two(&mut nodes, &root, |m| one(Kind::Deferrable, 5, 2, m as u64));
    tree.wake(vcpu(0), 0);
    tree.wake(vcpu(4), 0);
    // Each member has used its own two before the group's six and four are used.
    assert_eq!(line(&mut tree, 0, 10), "aaee.aaee.");
    tree.wake(vcpu(1), 10);
    // The group's six are used before the second member's next two.
    assert_eq!(line(&mut tree, 10, 20), "aabbeaaee.");
}

#[test]
fn a_group_without_budget_inside_makes_room() {
    let root = [
        one(Kind::Deferrable, 10, 8, 0),
        one(Kind::Deferrable, 20, 2, 0),
    ];
    let mut nodes = nodes(3, Slack::Idle);
    let mut tree = two(&mut nodes, &root, |m| {
        one(Kind::Deferrable, 10, 1, m as u64)
    });
    tree.wake(vcpu(0), 0);
    tree.wake(vcpu(4), 0);
    assert_eq!(line(&mut tree, 0, 4), "ae..");
    // Another member of the group has a budget of its own.
    tree.wake(vcpu(1), 4);
    assert_eq!(line(&mut tree, 4, 6), "b.");
    tree.block(vcpu(1), 6);
    assert_eq!(line(&mut tree, 6, 12), "....ae");
}

#[test]
fn a_budget_spent_without_work_is_the_group_s_too() {
    let root = [
        one(Kind::Deferrable, 10, 5, 0),
        one(Kind::Deferrable, 20, 4, 0),
    ];
    let mut nodes = nodes(3, Slack::Idle);
    let mut tree = two(&mut nodes, &root, |m| one(Kind::Periodic, 10, 2, m as u64));
    tree.wake(vcpu(2), 0);
    tree.wake(vcpu(4), 0);
    // The first two members wait and have two ticks each, and the third has one tick of the budget;
    // then the other group runs.
    assert_eq!(line(&mut tree, 0, 9), "....cee..");
}

/// A switch to another group is charged to none; a switch inside a group is charged to the group, at any depth.
#[test]
fn a_switch_is_at_the_expense_of_those_that_hold_both() {
    let group = |budget| one(Kind::Deferrable, 100, budget, 0);
    let mut nodes = std::vec![Node::new(Order::Priority, Slack::Idle); 5];
    let mut tree = self::tree(&mut nodes);
    let outer = tree.add_group(0, group(60), 0).unwrap();
    let first = tree.add_group(outer, group(30), 0).unwrap();
    let second = tree.add_group(outer, group(30), 0).unwrap();
    let other = tree.add_group(0, group(40), 0).unwrap();
    for (index, home) in [first, first, second, other].into_iter().enumerate() {
        let what = one(Kind::Deferrable, 100, 3, index as u64);
        tree.add_vcpu(home, vcpu(index), what, 0).unwrap();
    }
    let left = |tree: &Tree<'_>, node: usize, at: usize| {
        let node = tree.node(node as u8).unwrap();
        node.servers.budget(Entity::new(at).unwrap()).unwrap()
    };
    (0..3).for_each(|index| tree.wake(vcpu(index), 0));
    assert_eq!(tree.pick(0).run, Some(vcpu(0)));
    // The first one comes: nobody pays.
    tree.exempt_switch(10);
    assert_eq!(tree.pick(10).until, Some(13));
    assert_eq!((left(&tree, 0, 0), left(&tree, outer, 0)), (60, 30));
    // Inside the inner group: both groups pay, and not the vCPU that comes.
    assert_eq!(tree.pick(13).run, Some(vcpu(1)));
    tree.exempt_switch(14);
    tree.pick(14);
    assert_eq!((left(&tree, 0, 0), left(&tree, outer, 0)), (56, 26));
    assert_eq!(left(&tree, first, 1), 3);
    // From one inner group to the other: the outer group pays.
    assert_eq!(tree.pick(17).run, Some(vcpu(2)));
    tree.exempt_switch(18);
    tree.pick(18);
    assert_eq!((left(&tree, 0, 0), left(&tree, outer, 1)), (52, 30));
    // Away to another group and back: nobody pays, though the outer group's last choice is the same.
    tree.block(vcpu(2), 19);
    tree.wake(vcpu(3), 19);
    assert_eq!(tree.pick(19).run, Some(vcpu(3)));
    tree.exempt_switch(29);
    tree.block(vcpu(3), 29);
    tree.wake(vcpu(2), 29);
    assert_eq!(tree.pick(29).run, Some(vcpu(2)));
    tree.exempt_switch(39);
    tree.pick(39);
    assert_eq!((left(&tree, 0, 0), left(&tree, outer, 1)), (51, 29));
}

/// The outer group is held because the inner one is; it may be chosen again when the inner one may.
#[test]
fn groups_that_are_held_are_released_together() {
    for kind in [Kind::Deferrable, Kind::Periodic] {
        let mut nodes = nodes(3, Slack::Idle);
        let mut tree = self::tree(&mut nodes);
        let outer = tree.add_group(0, one(kind, 100, 80, 0), 0).unwrap();
        let inner = tree.add_group(outer, one(kind, 100, 50, 0), 0).unwrap();
        tree.add_vcpu(inner, vcpu(0), one(kind, 100, 10, 0), 0)
            .unwrap();
        tree.wake(vcpu(0), 0);
        let line = line(&mut tree, 0, 400);
        let given = |from: usize| line[from..from + 100].matches('a').count();
        assert_eq!([0, 100, 200, 300].map(given), [10; 4], "{kind:?} {line}");
    }
}

#[test]
fn what_is_left_over_is_used_in_the_background() {
    let mut nodes = nodes(1, Slack::Share);
    let mut tree = self::tree(&mut nodes);
    tree.add_vcpu(0, vcpu(0), one(Kind::Periodic, 10, 4, 0), 0)
        .unwrap();
    tree.add_vcpu(0, vcpu(1), one(Kind::Periodic, 20, 4, 0), 0)
        .unwrap();
    tree.wake(vcpu(0), 0);
    let mut seen = String::new();
    for now in 0..10 {
        let decision = tree.pick(now);
        let mark = match (decision.run.map(Entity::index), tree.runs_in_background()) {
            (Some(0), false) => 'a',
            (Some(0), true) => 'A',
            _ => '.',
        };
        seen.push(mark);
    }
    // Its own four, then in the place of the other, which has no work, and then what nobody was promised.
    assert_eq!(seen, "aaaaAAAAAA");
}

#[test]
fn there_are_as_many_groups_as_the_table_has_nodes_for() {
    let mut nodes = nodes(3, Slack::Idle);
    let mut tree = self::tree(&mut nodes);
    let what = one(Kind::Periodic, 10, 1, 0);
    assert_eq!(tree.add_group(1, what, 0), Err(PlaceError::NoPlace));
    assert_eq!(tree.add_group(0, what, 0), Ok(1));
    assert_eq!(tree.add_group(1, what, 0), Ok(2));
    assert_eq!(tree.add_group(0, what, 0), Err(PlaceError::NoPlace));
    let early = Interface::new(10, 1, 5).unwrap();
    let wrong = Reservation {
        kind: Kind::Deferrable,
        interface: early,
        priority: 0,
    };
    let refused = tree.add_vcpu(0, vcpu(0), wrong, 0);
    assert!(matches!(refused, Err(PlaceError::Interface(_))));
    assert!(!tree.has(vcpu(0)));
    // Events about a vCPU without a place have no effect.
    tree.wake(vcpu(0), 0);
    assert_eq!(tree.pick(0).run, None);
}

mod ideal;
