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
    had: u64,
    judged: bool,
}

/// Whether these servers keep their promises on a whole core, by the board's admission.
fn holds(order: Order, servers: &[Reservation]) -> bool {
    let terms = Terms {
        order,
        supply: None,
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
fn near_the_edge(random: &mut Random, order: Order) -> Vec<Reservation> {
    loop {
        let count = random.from(2, MOST) as usize;
        let kinds = match order {
            Order::EarliestDeadline => &[
                Kind::Periodic,
                Kind::Polling,
                Kind::Deferrable,
                Kind::ConstantBandwidth,
            ][..],
            Order::Priority => &[Kind::Periodic, Kind::Polling, Kind::Deferrable],
        };
        let shares = random.shares(count, 0.8);
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
        if !holds(order, &all) {
            continue;
        }
        for _ in 0..20 {
            let at = random.below(count as u64) as usize;
            let mut more = all.clone();
            let old = more[at].interface;
            let larger = Interface::new(old.period(), old.budget() + 1, old.deadline());
            if let Ok(interface) = larger {
                more[at].interface = interface;
                if holds(order, &more) {
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
    let servers = near_the_edge(random, order);
    let mut root = Node::new(order, Slack::Idle);
    let tree = Tree::new(&mut root, &mut []);
    let rest = Credit::new(100, 10, Deals::Used, 0);
    let mut budgets = Budgets::new(tree, rest, Slack::Idle, 0);
    for (at, server) in servers.iter().enumerate() {
        let grant = Grant::Promise(0, *server);
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
                match random.chance(1, 2) {
                    true => budgets.wake(entity(at), now),
                    false => budgets.block(entity(at), now),
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
            match budgets.ask(entity(at), wanted, Asker::Guest, 1_000, now) {
                Answer::More => {}
                Answer::Yes(_) => (outcome.changed, question) = (outcome.changed + 1, None),
                Answer::No(_) => (outcome.refused, question) = (outcome.refused + 1, None),
                Answer::Busy => question = None,
            }
        }
        let run = budgets.pick(now).run;
        for one in &mut watched {
            one.look(now, budgets.tree().interface(entity(one.at)), &mut outcome);
            one.had += u64::from(run == Some(entity(one.at)));
        }
    }
    outcome
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
    /// Sees whether the promise was kept by its deadline, and whether the next period begins.
    fn look(&mut self, now: u64, has: Option<Interface>, outcome: &mut Outcome) {
        if !self.judged && now >= self.began + self.interface.deadline() {
            self.judged = true;
            outcome.due += 1;
            outcome.late += u64::from(self.had < self.interface.budget());
        }
        if now >= self.began + self.interface.period() {
            self.began = now;
            self.interface = has.unwrap_or(self.interface);
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
            one.look(now, servers.interface(of(one.at)), &mut outcome);
            one.had += u64::from(run == Some(of(one.at)));
        }
    }
    outcome
}

/// Interfaces that take the whole core, or nearly.
fn mode(random: &mut Random, kinds: &[Kind]) -> Vec<Interface> {
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
        if holds(Order::EarliestDeadline, &together) {
            return all;
        }
    }
}
