//! Hierarchies against their two levels, each examined alone.

use super::*;
use crate::{Interface, Kind, Order, Reservation, Servers, Slack};
use proptest::prelude::*;
use std::string::String;

const G: usize = 4;
const M: usize = 4;
const N: usize = 16;
type Two = Hierarchy<Servers<G>, Servers<M>, G, M, N>;

fn one(kind: Kind, period: u64, budget: u64, priority: u64) -> Reservation {
    let interface = Interface::periodic(period, budget).unwrap();
    Reservation {
        kind,
        interface,
        priority,
    }
}

/// Entity 4 c + m is member m of component c.
fn two(root: &[Reservation], inner: impl Fn(usize, usize) -> Reservation) -> Two {
    let component = || Servers::new(Order::Priority, Slack::Idle);
    let order = Order::EarliestDeadline;
    let components = core::array::from_fn(|_| component());
    let mut two = Two::new(Servers::new(order, Slack::Idle), components);
    for (c, what) in root.iter().enumerate() {
        let id = Entity::new(c).unwrap();
        two.root().reserve(id, *what, 0).unwrap();
        for m in 0..M {
            let member = Entity::new(m).unwrap();
            two.place(Entity::new(c * M + m).unwrap(), id, member);
            let policy = two.component(id).unwrap();
            policy.reserve(member, inner(c, m), 0).unwrap();
        }
    }
    two
}

fn line(two: &mut Two, from: u64, to: u64) -> String {
    let mut decision = two.pick(from);
    let mut line = String::new();
    for now in from..to {
        if decision.until.is_some_and(|until| until <= now) {
            decision = two.pick(now);
        }
        let name = |who: Entity<N>| char::from(b'a' + who.index() as u8);
        line.push(decision.run.map_or('.', name));
    }
    line
}

fn entity(index: usize) -> Entity<N> {
    Entity::new(index).unwrap()
}

#[test]
fn budgets_bind_at_both_levels() {
    let root = [
        one(Kind::Deferrable, 10, 6, 0),
        one(Kind::Deferrable, 10, 4, 0),
    ];
    let mut policy = two(&root, |_, m| one(Kind::Deferrable, 5, 2, m as u64));
    policy.wake(entity(0), 0);
    policy.wake(entity(4), 0);
    // Each member has used its own two before the component's six and four are used.
    assert_eq!(line(&mut policy, 0, 10), "aaee.aaee.");
    policy.wake(entity(1), 10);
    // The component's six are used before the second member's next two.
    assert_eq!(line(&mut policy, 10, 20), "aabbeaaee.");
}

#[test]
fn a_component_without_budget_inside_makes_room() {
    let root = [
        one(Kind::Deferrable, 10, 8, 0),
        one(Kind::Deferrable, 20, 2, 0),
    ];
    let mut policy = two(&root, |_, m| one(Kind::Deferrable, 10, 1, m as u64));
    policy.wake(entity(0), 0);
    policy.wake(entity(4), 0);
    assert_eq!(line(&mut policy, 0, 4), "ae..");
    // Another member of the component has a budget of its own.
    policy.wake(entity(1), 4);
    assert_eq!(line(&mut policy, 4, 6), "b.");
    policy.block(entity(1), 6);
    assert_eq!(line(&mut policy, 6, 12), "....ae");
}

#[test]
fn a_budget_spent_without_work_is_the_component_s_too() {
    let root = [
        one(Kind::Deferrable, 10, 5, 0),
        one(Kind::Deferrable, 20, 4, 0),
    ];
    let mut policy = two(&root, |_, m| one(Kind::Periodic, 10, 2, m as u64));
    policy.wake(entity(2), 0);
    policy.wake(entity(4), 0);
    // The first two members wait and have two ticks each, and the third has one tick of the budget;
    // then the other component runs.
    assert_eq!(line(&mut policy, 0, 9), "....cee..");
}

proptest! {
    /// With tasks below servers: the entity that runs is the most important one with work in the
    /// component that the root alone would choose.
    #[test]
    fn a_hierarchy_behaves_as_its_two_levels(
        sizes in proptest::collection::vec((2..12u64, 1..6u64), 1..G),
        priorities in proptest::collection::vec(0..5u64, N),
        events in proptest::collection::vec((0..3u64, 0..N, any::<bool>()), 0..80),
        grid in any::<bool>(),
    ) {
        let kind = if grid { Kind::Deferrable } else { Kind::ConstantBandwidth };
        let root: std::vec::Vec<_> = sizes.iter()
            .map(|(period, budget)| one(kind, *period, (*budget).min(*period), 0)).collect();
        let mut policy = two(&root, |c, m| one(Kind::Task, 1, 1, priorities[c * M + m]));
        let mut alone = Servers::<G>::new(Order::EarliestDeadline, Slack::Idle);
        for (c, what) in root.iter().enumerate() {
            alone.reserve(Entity::new(c).unwrap(), *what, 0).unwrap();
        }
        let (mut ready, mut events) = ([false; N], events.into_iter());
        let (mut next, mut at) = (events.next(), 0);
        let mut decision = policy.pick(0);
        for now in 0..150u64 {
            let mut asked = decision.until.is_some_and(|until| until <= now);
            while let Some((wait, who, wakes)) = next.filter(|event| at + event.0 <= now) {
                at += wait;
                next = events.next();
                let component = who / M;
                if component >= root.len() { continue; }
                ready[who] = wakes;
                let any = ready[component * M..][..M].contains(&true);
                let id = Entity::new(component).unwrap();
                if wakes {
policy.wake(entity(who), now); alone.wake(id, now);
} else {
policy.block(entity(who), now);
                        if !any { alone.block(id, now); }
}
                asked = true;
            }
            if asked { decision = policy.pick(now); }
            let chosen = alone.pick(now).run.map(Entity::index);
            let expected = chosen.and_then(|component| {
                let members = (component * M..).take(M).filter(|who| ready[*who]);
                members.min_by_key(|who| (priorities[*who], *who))
            });
            prop_assert_eq!(decision.run.map(Entity::index), expected, "at {}", now);
        }
    }
}

/// A switch to another component is charged to none; a switch inside a component is charged to the
/// component.
#[test]
fn a_switch_is_at_the_expense_of_those_that_hold_both() {
    let root = [
        one(Kind::Deferrable, 20, 8, 0),
        one(Kind::Deferrable, 20, 8, 0),
    ];
    let mut policy = two(&root, |_, m| one(Kind::Deferrable, 20, 3, m as u64));
    let left = |policy: &mut Two, component: usize, member: usize| {
        let id = Entity::new(component).unwrap();
        let outer = policy.root().budget(id);
        let inner = policy.component(id).unwrap();
        (
            outer.unwrap(),
            inner.budget(Entity::new(member).unwrap()).unwrap(),
        )
    };
    policy.wake(entity(0), 0);
    policy.wake(entity(1), 0);
    assert_eq!(policy.pick(0).run, Some(entity(0)));
    policy.exempt_switch(2);
    assert_eq!(policy.pick(2).until, Some(5));
    assert_eq!(left(&mut policy, 0, 0), (8, 3));
    // It has used its budget; the next one runs in the same component.
    assert_eq!(policy.pick(5).run, Some(entity(1)));
    policy.exempt_switch(6);
    policy.pick(6);
    assert_eq!(left(&mut policy, 0, 1), (4, 3));
}

mod calls;
mod ideal;
