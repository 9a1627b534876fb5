//! Trees of periodic servers against the definition of such servers, instant by instant.
//!
//! An ideal periodic server gets its budget at the start of each period. Each instant belongs to
//! the first server, in the order of its component, that has a budget, whether a member of it has
//! work or not, and so on down the tree. Each level pays for the instant.

use super::*;
use std::vec::Vec;

/// A node of a tree: a server with members; at the bottom, a server with work of its own, or a
/// task.
#[derive(Clone, Debug)]
struct Member {
    what: Reservation,
    left: u64,
    order: Order,
    members: Vec<Member>,
    work: bool,
}

impl Member {
    fn key(&self, order: Order, now: u64) -> u64 {
        let (period, deadline) = (self.what.interface.period(), self.what.interface.deadline());
        match order {
            Order::EarliestDeadline => now / period * period + deadline,
            Order::Priority => self.what.priority,
        }
    }

    /// Gives the instant `now` to one member. The answer is the path to the leaf that works, if one
    /// does.
    fn serve(&mut self, now: u64) -> Option<Vec<usize>> {
        let order = self.order;
        for member in &mut self.members {
            if now.is_multiple_of(member.what.interface.period()) {
                member.left = member.what.interface.budget();
            }
        }
        let ready = self.members.iter().enumerate().filter(|(_, m)| m.left > 0);
        let first = ready.min_by_key(|(index, m)| (m.key(order, now), *index));
        let index = first.map(|(index, _)| index);
        // The periods of members that are not chosen begin as well.
        for (at, member) in self.members.iter_mut().enumerate() {
            if Some(at) != index {
                member.wait(now);
            }
        }
        let index = index?;
        let member = &mut self.members[index];
        member.left -= 1;
        let mut path = std::vec![index];
        if member.members.is_empty() {
            return member.work.then_some(path);
        }
        path.extend(member.serve(now)?);
        Some(path)
    }

    fn wait(&mut self, now: u64) {
        for member in &mut self.members {
            if now.is_multiple_of(member.what.interface.period()) {
                member.left = member.what.interface.budget();
            }
            member.wait(now);
        }
    }
}

fn server() -> impl Strategy<Value = Reservation> {
    (2..14u64, 1..8u64, 0..8u64, 0..4u64).prop_map(|(period, budget, late, priority)| {
        let budget = budget.min(period);
        let interface = Interface::new(period, budget, (budget + late).min(period)).unwrap();
        Reservation {
            kind: Kind::Periodic,
            interface,
            priority,
        }
    })
}

/// The most levels of servers.
const LEVELS: u32 = 4;

/// A tree with up to `levels` levels of servers.
fn tree(levels: u32) -> BoxedStrategy<Member> {
    let order = prop_oneof![Just(Order::EarliestDeadline), Just(Order::Priority)];
    let least = (levels == LEVELS).into();
    let most = if levels == LEVELS { 4 } else { 3 };
    let members = match levels {
        0 => Just(Vec::new()).boxed(),
        // Leaves at any depth.
        _ => proptest::collection::vec(tree(levels - 1), least..=most).boxed(),
    };
    (server(), order, members)
        .prop_map(|(what, order, members)| Member {
            what,
            left: 0,
            order,
            members,
            work: false,
        })
        .boxed()
}

/// The same tree, with each leaf as the vCPU of its number.
fn real<'a>(of: &Member, nodes: &'a mut Vec<Node>) -> Tree<'a> {
    fn orders(of: &Member, nodes: &mut Vec<Node>) {
        nodes.push(Node::new(of.order, Slack::Idle));
        let groups = of.members.iter().filter(|m| !m.members.is_empty());
        groups.for_each(|group| orders(group, nodes));
    }
    fn fill(of: &Member, node: usize, next: &mut usize, tree: &mut Tree<'_>) {
        for member in &of.members {
            if member.members.is_empty() {
                let vcpu = Entity::new(*next).unwrap();
                tree.add_vcpu(node, vcpu, member.what, 0).unwrap();
                *next += 1;
            } else {
                let group = tree.add_group(node, member.what, 0).unwrap();
                fill(member, group, next, tree);
            }
        }
    }
    orders(of, nodes);
    let mut tree = super::tree(nodes);
    fill(of, 0, &mut 0, &mut tree);
    tree
}

/// The paths to the leaves of a tree, in the order of their entities.
fn leaves(of: &Member) -> Vec<Vec<usize>> {
    if of.members.is_empty() {
        return std::vec![Vec::new()];
    }
    let each = of.members.iter().enumerate().flat_map(|(index, member)| {
        let with = move |mut path: Vec<usize>| {
            path.insert(0, index);
            path
        };
        leaves(member).into_iter().map(with)
    });
    each.collect()
}

fn at<'a>(of: &'a mut Member, path: &[usize]) -> &'a mut Member {
    path.iter().fold(of, |of, index| &mut of.members[*index])
}

/// Runs both. The policy is asked at each event, and when its last answer ends.
fn alike(mut ideal: Member, events: &[(u64, usize, bool)]) -> Result<(), TestCaseError> {
    let mut nodes = Vec::new();
    let leaves = leaves(&ideal);
    prop_assume!(leaves.len() <= MAX_ENTITIES && groups(&ideal) <= MAX_GROUPS);
    let mut policy = real(&ideal, &mut nodes);
    let entity = |path: &Vec<usize>| leaves.iter().position(|leaf| leaf == path);
    let (mut events, mut now_next) = (events.iter().copied(), 0);
    let mut next = events.next();
    let mut decision = policy.pick(0);
    for now in 0..400 {
        let mut asked = decision.until.is_some_and(|until| until <= now);
        while let Some((_, leaf, wakes)) = next.filter(|event| now_next + event.0 <= now) {
            now_next += next.map_or(0, |event| event.0);
            next = events.next();
            let path = &leaves[leaf % leaves.len()];
            at(&mut ideal, path).work = wakes;
            let vcpu = entity(path).and_then(Entity::new).unwrap();
            if wakes {
                policy.wake(vcpu, now)
            } else {
                policy.block(vcpu, now)
            }
            asked = true;
        }
        if asked {
            // In pieces, or in one go: the outcome is the same.
            while now % 2 == 0 && policy.settle_some(now, 4) == Replenished::Some {}
            decision = policy.pick(now);
        }
        let expected = ideal.serve(now).and_then(|path| entity(&path));
        prop_assert_eq!(decision.run.map(Entity::index), expected, "at {}", now);
    }
    Ok(())
}

fn groups(of: &Member) -> usize {
    let inner = of.members.iter().filter(|m| !m.members.is_empty());
    inner.map(|m| 1 + groups(m)).sum()
}

type Events = Vec<(u64, usize, bool)>;

fn events() -> impl Strategy<Value = Events> {
    proptest::collection::vec((0..12u64, 0..1000usize, any::<bool>()), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]
    #[test]
    fn trees_of_ideal_servers(tree in tree(LEVELS), events in events()) {
        alike(tree, &events)?;
    }
}
