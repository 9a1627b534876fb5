//! Changes on the way: servers run, and get other interfaces as the board gives them.
//!
//! The policy is the board's ([`Budgets`], tick by tick); the questions are the board's, too, one step
//! at a tick. VMs that always have work must get their budget by the deadline of each period, as the
//! period began with it, whatever others ask for, get, and do; some of those sleep and wake at random.

use hanok_sched::admission::{Progress, Question, Terms};
use hanok_sched::mode;
use hanok_sched::{
    Answer, Asker, Budgets, Credit, Deals, Entity, Grant, Interface, Kind, Node, Order, Policy,
    Reservation, Servers, Slack, Tree,
};

use crate::random::Random;

/// Ticks of a run.
const TICKS: u64 = 3_000;
/// Servers of a run, at most.
const MOST: u64 = 6;

/// What a run came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Questions that were answered yes.
    pub changed: u64,
    /// Questions that were answered no.
    pub refused: u64,
    /// Budgets that were due.
    pub due: u64,
    /// Budgets that were not given in time.
    pub late: u64,
}

fn entity(at: usize) -> Entity {
    Entity::new(at).expect("few")
}

/// A VM that always has work, and what it was promised and has had in this period.
struct Watched {
    at: usize,
    began: u64,
    interface: Interface,
    /// What it is promised from an instant on, as the answer said.
    next: Option<(u64, Interface)>,
    had: u64,
    judged: bool,
}

/// Where servers get their time.
#[derive(Clone, Copy)]
struct Home {
    order: Order,
    /// The group that they are in; `None`: they have the core.
    group: Option<Interface>,
}

/// Whether these servers keep their promises in their home, by the board's admission.
fn holds(home: Home, servers: &[Reservation]) -> bool {
    let terms = Terms {
        order: home.order,
        supply: home.group.map(|group| (group, Kind::Periodic)),
        cost: 0,
    };
    let Ok(mut question) = Question::new(terms) else {
        return false;
    };
    if servers.iter().any(|server| question.add(*server).is_err()) {
        return false;
    }
    loop {
        match question.step() {
            Progress::More => {}
            Progress::Yes => return true,
            Progress::No(_) => return false,
        }
    }
}

/// An interface of about this share.
fn interface(random: &mut Random, kind: Kind, share: f64) -> Interface {
    let period = random.from(4, 40);
    let budget = (share * period as f64).clamp(1.0, period as f64) as u64;
    let inside = matches!(kind, Kind::Periodic | Kind::Polling) && random.chance(1, 3);
    let deadline = if inside {
        random.from(budget, period)
    } else {
        period
    };
    Interface::new(period, budget, deadline).expect("a budget within its deadline")
}

/// Servers near the edge: budgets are raised in turn as long as admission says yes.
fn near_the_edge(random: &mut Random, home: Home) -> Vec<Reservation> {
    loop {
        let count = random.from(2, MOST) as usize;
        let kinds = match home.order {
            Order::EarliestDeadline => &[
                Kind::Periodic,
                Kind::Polling,
                Kind::Deferrable,
                Kind::ConstantBandwidth,
            ][..],
            Order::Priority => &[Kind::Periodic, Kind::Polling, Kind::Deferrable],
        };
        let share = home
            .group
            .map_or(1.0, |group| group.budget() as f64 / group.period() as f64);
        let shares = random.shares(count, 0.8 * share);
        let mut all: Vec<_> = shares
            .into_iter()
            .map(|share| {
                let kind = random.one_of(kinds);
                let interface = interface(random, kind, share);
                Reservation {
                    kind,
                    interface,
                    priority: interface.deadline(),
                }
            })
            .collect();
        if !holds(home, &all) {
            continue;
        }
        for _ in 0..20 {
            let at = random.below(count as u64) as usize;
            let mut more = all.clone();
            let old = more[at].interface;
            let larger = Interface::new(old.period(), old.budget() + 1, old.deadline());
            if let Ok(interface) = larger {
                more[at].interface = interface;
                if holds(home, &more) {
                    all = more;
                }
            }
        }
        return all;
    }
}

/// A run under questions of the board's admission.
pub fn asked(random: &mut Random) -> Outcome {
    let order = random.one_of(&[Order::EarliestDeadline, Order::Priority]);
    let group = random.chance(1, 3).then(|| {
        let period = random.from(3, 12);
        Interface::periodic(period, random.from(1, period)).expect("it can be")
    });
    let servers = near_the_edge(random, Home { order, group });
    let mut root = Node::new(Order::EarliestDeadline, Slack::Idle);
    if group.is_none() {
        root = Node::new(order, Slack::Idle);
    }
    let mut groups = [Node::new(order, Slack::Idle)];
    let tree = Tree::new(&mut root, &mut groups);
    let rest = Credit::new(100, 10, Deals::Used, 0);
    let mut budgets = Budgets::new(tree, rest, Slack::Idle, 0);
    let mut home = 0;
    if let Some(group) = group {
        home = in_a_group(&mut budgets, group, servers.len());
    }
    for (at, server) in servers.iter().enumerate() {
        let grant = Grant::Promise(home, *server);
        budgets.grant(entity(at), grant, 0).expect("there is place");
    }
    // The others sleep and wake.
    let busy: Vec<_> = servers.iter().map(|_| random.chance(2, 3)).collect();
    let mut watched: Vec<_> = (0..servers.len())
        .filter(|at| busy[*at])
        .map(|at| Watched {
            at,
            began: 0,
            interface: servers[at].interface,
            next: None,
            had: 0,
            judged: false,
        })
        .collect();
    for one in &watched {
        budgets.wake(entity(one.at), 0);
    }
    let mut outcome = Outcome::default();
    let mut question: Option<(usize, Interface)> = None;
    for now in 0..TICKS {
        for (at, _) in busy.iter().enumerate().filter(|(_, busy)| !**busy) {
            if random.chance(1, 12) {
                if random.chance(1, 2) {
                    budgets.wake(entity(at), now);
                } else {
                    budgets.block(entity(at), now);
                }
            }
        }
        if question.is_none() && random.chance(1, 10) {
            let at = random.below(servers.len() as u64) as usize;
            question = Some((
                at,
                wanted(
                    random,
                    servers[at].kind,
                    budgets.tree().interface(entity(at)),
                ),
            ));
        }
        if let Some((at, wanted)) = question {
            match budgets.ask(entity(at), wanted, Asker::Guest, 8_000, now) {
                Answer::More => {}
                Answer::Yes(from) => {
                    (outcome.changed, question) = (outcome.changed + 1, None);
                    let own = watched.iter_mut().find(|one| one.at == at);
                    own.into_iter().for_each(|one| one.is_given(wanted, from));
                }
                Answer::No(_) => (outcome.refused, question) = (outcome.refused + 1, None),
                Answer::Later(_) => question = None,
            }
        }
        let run = budgets.pick(now).run;
        for one in &mut watched {
            one.look(now, &mut outcome);
            one.had += u64::from(run == Some(entity(one.at)));
        }
    }
    outcome
}

/// Adds a group, and at `at` a VM beside it that has the rest of the core, and always has work.
fn in_a_group(budgets: &mut Budgets<'_>, group: Interface, at: usize) -> usize {
    let of = |interface: Interface| Reservation {
        kind: Kind::Periodic,
        interface,
        priority: 0,
    };
    let number = budgets.add_group(0, of(group), 0).expect("there is place");
    let rest = group.period() - group.budget();
    if let Ok(rest) = Interface::periodic(group.period(), rest) {
        let grant = Grant::Promise(0, of(rest));
        budgets.grant(entity(at), grant, 0).expect("there is place");
        budgets.wake(entity(at), 0);
    }
    number
}

/// Near what it has: often a little more or less, in the same period or another one.
fn wanted(random: &mut Random, kind: Kind, has: Option<Interface>) -> Interface {
    let Some(has) = has.filter(|_| random.chance(2, 3)) else {
        let share = random.from(2, 60) as f64 / 100.0;
        return interface(random, kind, share);
    };
    let period = match random.below(3) {
        0 => random.from(has.period() / 2, 2 * has.period()).max(2),
        _ => has.period(),
    };
    let budget = (has.budget() * period / has.period() + random.below(5)).saturating_sub(2);
    let budget = budget.clamp(1, period);
    let deadline = if has.is_implicit() {
        period
    } else {
        has.deadline().clamp(budget, period)
    };
    Interface::new(period, budget, deadline).expect("a budget within its deadline")
}

impl Watched {
    /// It has `interface` from `from` on. In a group that does not run, a period's end is noticed late: then that is
    /// before now, and the period that began with it has the interface already.
    fn is_given(&mut self, interface: Interface, from: u64) {
        if from <= self.began {
            self.interface = interface;
        } else {
            self.next = Some((from, interface));
        }
    }

    /// Sees whether the promise was kept by its deadline, and whether the next period begins.
    fn look(&mut self, now: u64, outcome: &mut Outcome) {
        if !self.judged && now >= self.began + self.interface.deadline() {
            self.judged = true;
            outcome.due += 1;
            outcome.late += u64::from(self.had < self.interface.budget());
        }
        if now >= self.began + self.interface.period() {
            self.began = now;
            if let Some((_, next)) = self.next.take_if(|(from, _)| *from <= now) {
                self.interface = next;
            }
            (self.had, self.judged) = (0, false);
        }
    }
}

/// A run under changes of mode: several interfaces at once, each mode admitted by its bandwidth.
pub fn switched(random: &mut Random) -> Outcome {
    const N: usize = 8;
    let count = random.from(2, 5) as usize;
    let kinds = [Kind::Periodic, Kind::Deferrable, Kind::ConstantBandwidth];
    let kinds: Vec<_> = (0..count).map(|_| random.one_of(&kinds)).collect();
    let mut servers: Servers<N> = Servers::new(Order::EarliestDeadline, Slack::Idle);
    let of = |at: usize| Entity::<N>::new(at).expect("few");
    let first = mode(random, &kinds);
    for (at, interface) in first.iter().enumerate() {
        let what = Reservation {
            kind: kinds[at],
            interface: *interface,
            priority: 0,
        };
        servers.reserve(of(at), what, 0).expect("it can be");
        servers.wake(of(at), 0);
    }
    let mut watched: Vec<_> = first
        .iter()
        .enumerate()
        .collect::<Vec<_>>()
        .into_iter()
        .map(|(at, interface)| Watched {
            at,
            began: 0,
            interface: *interface,
            next: None,
            had: 0,
            judged: false,
        })
        .collect();
    let mut outcome = Outcome::default();
    // The next change comes when this one has taken effect everywhere.
    let mut not_before = 0;
    for now in 0..TICKS {
        if now >= not_before && random.chance(1, 20) {
            let next = mode(random, &kinds);
            let longest = watched.iter().map(|one| one.interface.period()).max();
            let pairs: Vec<_> = (0..count).map(|at| (of(at), next[at])).collect();
            let free = mode::switch(&mut servers, &pairs, now).expect("it can be");
            not_before = free + longest.unwrap_or(0) + 1;
            outcome.changed += count as u64;
        }
        let run = servers.pick(now).run;
        for one in &mut watched {
            let has = servers.interface(of(one.at));
            one.next = has.map(|interface| (now, interface));
            one.look(now, &mut outcome);
            one.had += u64::from(run == Some(of(one.at)));
        }
    }
    outcome
}

/// Interfaces that take the whole core, or nearly.
fn mode(random: &mut Random, kinds: &[Kind]) -> Vec<Interface> {
    let whole = Home {
        order: Order::EarliestDeadline,
        group: None,
    };
    loop {
        let shares = random.shares(kinds.len(), 1.0);
        let mut all = Vec::new();
        for share in shares {
            let period = random.from(5, 40);
            let budget = ((share * period as f64) as u64).clamp(1, period);
            all.push(Interface::periodic(period, budget).expect("it can be"));
        }
        let together: Vec<_> = all
            .iter()
            .map(|interface| Reservation {
                kind: Kind::Periodic,
                interface: *interface,
                priority: 0,
            })
            .collect();
        if holds(whole, &together) {
            return all;
        }
    }
}
