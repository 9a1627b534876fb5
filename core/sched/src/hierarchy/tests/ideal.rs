//! Hierarchies of periodic servers against the definition of such servers, instant by instant.
//!
//! An ideal periodic server gets its budget at the start of each period. Each instant belongs to
//! the first server, in the order of its component, that has a budget, whether a member of it has
//! work or not, and so on down the tree. Each level pays for the instant.

use super::*;
use std::vec::Vec;

type Three = Hierarchy<Servers<G>, Two, G, N, 64>;
type Four = Hierarchy<Servers<G>, Three, G, 64, 256>;

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

/// A tree with `levels` levels of servers.
fn tree(levels: u32) -> BoxedStrategy<Member> {
    let order = prop_oneof![Just(Order::EarliestDeadline), Just(Order::Priority)];
    let members = match levels {
        0 => Just(Vec::new()).boxed(),
        _ => proptest::collection::vec(tree(levels - 1), 1..=G).boxed(),
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

fn servers<const K: usize>(of: Option<&Member>) -> Servers<K> {
    let order = of.map_or(Order::EarliestDeadline, |of| of.order);
    let mut servers = Servers::new(order, Slack::Idle);
    for (index, member) in of.into_iter().flat_map(|of| &of.members).enumerate() {
        let entity = Entity::new(index).unwrap();
        servers.reserve(entity, member.what, 0).unwrap();
    }
    servers
}

fn inside(of: Option<&Member>, index: usize) -> Option<&Member> {
    of?.members.get(index)
}

/// A hierarchy of the policies that `inner` makes, with each entity at its place.
fn around<C: Policy<K>, const K: usize, const ALL: usize>(
    of: Option<&Member>,
    inner: impl Fn(Option<&Member>) -> C,
) -> Hierarchy<Servers<G>, C, G, K, ALL> {
    let components = core::array::from_fn(|index| inner(inside(of, index)));
    let mut all = Hierarchy::new(servers(of), components);
    for entity in 0..ALL {
        all.place(
            Entity::new(entity).unwrap(),
            Entity::new(entity / K).unwrap(),
            Entity::new(entity % K).unwrap(),
        );
    }
    all
}

fn two_of(of: Option<&Member>) -> Two {
    around(of, servers)
}

fn three_of(of: Option<&Member>) -> Three {
    around(of, two_of)
}

fn four_of(of: Option<&Member>) -> Four {
    around(of, three_of)
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
fn alike<const ALL: usize>(
    mut ideal: Member,
    policy: &mut impl Policy<ALL>,
    events: &[(u64, usize, bool)],
) -> Result<(), TestCaseError> {
    let leaves = leaves(&ideal);
    let entity = |path: &[usize]| {
        let index = path.iter().fold(0, |index, at| index * G + at);
        Entity::<ALL>::new(index).unwrap()
    };
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
            if wakes {
                policy.wake(entity(path), now)
            } else {
                policy.block(entity(path), now)
            }
            asked = true;
        }
        if asked {
            decision = policy.pick(now);
        }
        let expected = ideal.serve(now).map(|path| entity(&path).index());
        prop_assert_eq!(decision.run.map(Entity::index), expected, "at {}", now);
    }
    Ok(())
}

type Events = Vec<(u64, usize, bool)>;

fn events() -> impl Strategy<Value = Events> {
    proptest::collection::vec((0..12u64, 0..1000usize, any::<bool>()), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn two_levels_of_ideal_servers(tree in tree(2), events in events()) {
        let mut policy = two_of(Some(&tree));
        alike(tree, &mut policy, &events)?;
    }

    #[test]
    fn three_levels_of_ideal_servers(tree in tree(3), events in events()) {
        let mut policy = three_of(Some(&tree));
        alike(tree, &mut policy, &events)?;
    }
}

/// A tree of four levels is large, and the stack of a test's thread is small.
#[test]
fn four_levels_of_ideal_servers() {
    let run = || {
        let config = ProptestConfig::with_cases(60);
        proptest!(config, |(tree in tree(4), events in events())| {
            let mut policy = std::boxed::Box::new(four_of(Some(&tree)));
            alike(tree, &mut *policy, &events)?;
        });
    };
    let stack = std::thread::Builder::new().stack_size(64 << 20);
    stack.spawn(run).unwrap().join().unwrap();
}
