//! The calls that the two levels of a hierarchy receive, and the answers that it makes of theirs.

use super::*;
use crate::recording::{PolicyCall, RecordingPolicy};
use std::vec::Vec;

type Quiet = Hierarchy<RecordingPolicy<2>, RecordingPolicy<2>, 2, 2, 4>;

/// Entity 2 c + m is member m of component c.
fn quiet() -> Quiet {
    let mut quiet = Quiet::new(
        RecordingPolicy::new(),
        [RecordingPolicy::new(), RecordingPolicy::new()],
    );
    for index in 0..4 {
        let (component, member) = (Entity::new(index / 2), Entity::new(index % 2));
        quiet.place(
            Entity::new(index).unwrap(),
            component.unwrap(),
            member.unwrap(),
        );
    }
    quiet
}

fn of(index: usize) -> Entity<4> {
    Entity::new(index).unwrap()
}

impl Quiet {
    fn inner(&mut self, index: usize) -> &mut RecordingPolicy<2> {
        self.component(Entity::new(index).unwrap()).unwrap()
    }

    fn take_calls(&mut self) -> [Vec<PolicyCall>; 3] {
        let root = self.root().take_calls();
        [root, self.inner(0).take_calls(), self.inner(1).take_calls()]
    }
}

/// The root is told when the first member of a component has work, and when the last one has none.
#[test]
fn the_root_is_told_of_the_first_and_of_the_last_member() {
    let mut quiet = quiet();
    quiet.wake(of(2), 1);
    quiet.wake(of(3), 2);
    quiet.wake(of(3), 3);
    quiet.yield_now(of(3), 4);
    quiet.block(of(2), 5);
    quiet.block(of(2), 6);
    quiet.block(of(3), 7);
    let [root, first, second] = quiet.take_calls();
    assert_eq!(root, [PolicyCall::Wake(1, 1), PolicyCall::Block(1, 7)]);
    assert_eq!(first, []);
    let members = [
        PolicyCall::Wake(0, 1),
        PolicyCall::Wake(1, 2),
        PolicyCall::Wake(1, 3),
        PolicyCall::Yield(1, 4),
        PolicyCall::Block(0, 5),
        PolicyCall::Block(0, 6),
        PolicyCall::Block(1, 7),
    ];
    assert_eq!(second, members);
}

/// A component in which no member may run is held back until that instant, or until a member wakes.
#[test]
fn a_held_component_is_released_by_time_and_by_a_wake_up() {
    for (until, let_go) in [(Some(30), Some(30)), (None, None)] {
        let mut quiet = quiet();
        quiet.wake(of(0), 0);
        quiet.root().let_run(0);
        quiet.inner(0).decision.until = until;
        quiet.take_calls();
        // The root names the component each time it is asked: the fake ignores that it is blocked.
        assert_eq!(quiet.pick(0).until, let_go);
        assert!(quiet.take_calls()[0].contains(&PolicyCall::Block(0, 0)));
        // Another member has work now.
        quiet.wake(of(1), 10);
        assert_eq!(quiet.take_calls()[0], [PolicyCall::Wake(0, 10)]);
        // It is not held back any more, even if both wake again.
        quiet.wake(of(1), 11);
        quiet.wake(of(0), 11);
        assert_eq!(quiet.take_calls()[0], []);
        // It is held back once more, and is out of the root when the last member with work blocks.
        quiet.pick(12);
        quiet.block(of(0), 13);
        quiet.take_calls();
        quiet.block(of(1), 14);
        assert_eq!(quiet.take_calls()[0], [PolicyCall::Block(0, 14)]);
        quiet.root().decision.run = None;
        quiet.root().charged = None;
        assert_eq!(quiet.pick(15).until, None);
        quiet.pick(40);
        assert_eq!(
            quiet.take_calls()[0],
            [PolicyCall::Pick(15), PolicyCall::Pick(40)]
        );
    }
}

/// Nobody runs and the CPU is kept, because the root says so, or the component that the root names.
#[test]
fn a_policy_that_keeps_the_cpu_idle_says_at_whose_expense() {
    let mut quiet = quiet();
    for index in 0..4 {
        quiet.wake(of(index), 0);
    }
    assert_eq!(quiet.pick(0).run, None);
    assert!(!quiet.spends());
    assert_eq!(quiet.charged(), None);
    // A component without work is charged.
    quiet.root().charged = Entity::new(1);
    quiet.root().spends = true;
    assert_eq!(quiet.pick(1).run, None);
    assert!(quiet.spends());
    assert_eq!(quiet.charged(), None, "nobody in it is");
    quiet.inner(1).charged = Entity::new(0);
    assert_eq!(quiet.charged(), Some(of(2)));
    // A component with work has nothing to run, and keeps the CPU.
    quiet.root().let_run(1);
    quiet.root().spends = false;
    quiet.inner(1).spends = true;
    assert_eq!(quiet.pick(2).run, None);
    assert!(quiet.spends());
    // A member runs.
    quiet.inner(1).let_run(1);
    quiet.inner(1).spends = false;
    assert_eq!(quiet.pick(3).run, Some(of(3)));
    assert!(!quiet.spends());
    assert_eq!(quiet.charged(), Some(of(3)));
}

/// When a component runs in the place of an idle one, the servers inside the idle one are asked as
/// well, and go on spending. The servers of a component that runs at its own expense are asked
/// once.
#[test]
fn a_component_charged_without_work_is_asked_too() {
    let mut quiet = quiet();
    quiet.wake(of(0), 0);
    quiet.root().let_run(0);
    quiet.inner(0).let_run(0);
    quiet.inner(1).decision.until = Some(7);
    quiet.take_calls();
    assert_eq!(quiet.pick(1).until, None);
    let own = quiet.take_calls();
    assert_eq!(
        own,
        [
            [PolicyCall::Pick(1)].to_vec(),
            [PolicyCall::Pick(1)].to_vec(),
            [].to_vec()
        ]
    );
    quiet.root().charged = Entity::new(1);
    assert_eq!(quiet.pick(2).until, Some(7));
    assert_eq!(quiet.take_calls()[2], [PolicyCall::Pick(2)]);
    // It runs at its own expense again: the other component spends no more.
    quiet.root().charged = Entity::new(0);
    quiet.pick(3);
    assert_eq!(quiet.take_calls()[2], [PolicyCall::Suspend(3)]);
}

/// The same with servers: the budget that was spent inside the idle component is gone when it has
/// work.
#[test]
fn servers_inside_spend_while_another_component_runs() {
    let component = || Servers::new(Order::Priority, Slack::Idle);
    let root = Servers::new(Order::Priority, Slack::Share);
    let mut policy = Two::new(root, core::array::from_fn(|_| component()));
    let outer = [one(Kind::Periodic, 10, 4, 0), one(Kind::Task, 10, 10, 1)];
    let inner = [one(Kind::Periodic, 10, 2, 0), one(Kind::Periodic, 10, 2, 1)];
    for (c, what) in outer.iter().enumerate() {
        let id = Entity::new(c).unwrap();
        policy.root().reserve(id, *what, 0).unwrap();
        for (m, what) in inner.iter().enumerate() {
            let member = Entity::new(m).unwrap();
            policy.place(entity(c * M + m), id, member);
            let what = if c == 0 {
                *what
            } else {
                one(Kind::Task, 10, 10, 0)
            };
            policy
                .component(id)
                .unwrap()
                .reserve(member, what, 0)
                .unwrap();
        }
    }
    policy.wake(entity(4), 0);
    assert_eq!(line(&mut policy, 0, 2), "ee");
    // The first one's two ticks are spent; the second one's begin.
    policy.wake(entity(1), 2);
    assert_eq!(line(&mut policy, 2, 10), "bbeeeeee");
}
