//! Counts the instructions of a decision: an event, then which vCPU runs after it and until when.

use crate::{Costs, Random, counter};
use hanok_sched::{
    Budgets, Credit, Deals, Entity, Grant, Interface, Kind, Node, Order, Policy, Replenished,
    Reservation, Servers, Share, Slack, Tree,
};
use spin::Mutex;

const N: usize = 256;
type Core = Mutex<Servers<N>>;

/// One for each number of vCPUs: they are too large for a stack.
static CORES: [(usize, Core); 3] = [(4, core()), (32, core()), (N, core())];
/// A core whose vCPUs all have one period.
static EQUAL: Core = core();

/// The root of a pCPU's tree of servers, which is too large for a stack, too.
static ROOT: Mutex<Node> = Mutex::new(NODE);
const NODE: Node = Node::new(Order::EarliestDeadline, Slack::Idle);

/// The number of budgets that a pCPU replenishes at a time.
const AT_ONCE: usize = 8;

/// The number of decisions for each number of vCPUs.
const STEPS: u32 = 20_000;

const fn core() -> Core {
    Mutex::new(Servers::new(Order::EarliestDeadline, Slack::Idle))
}

pub fn measure() {
    for (vcpus, core) in &CORES {
        Load::new("decision", *vcpus).measure(&mut *core.lock());
    }
    for vcpus in [4, 32, 64] {
        // All of them have budgets; then a quarter has what is left.
        for (name, kinds) in [("core", 3), ("shared-core", 4)] {
            let root = &mut *ROOT.lock();
            *root = NODE;
            let rest = Credit::new(30_000, 3_000, Deals::Used, 0);
            let mut budgets = Budgets::new(Tree::new(root, &mut []), rest, Slack::Idle, 0);
            let mut load = Load::new(name, vcpus);
            load.kinds = kinds;
            load.measure(&mut budgets);
        }
    }
    equal_periods(&mut EQUAL.lock());
}

/// Whatever says who runs.
trait Decider {
    /// Gives a vCPU, by its index, a budget, or what is left; whether it can.
    fn add(&mut self, index: usize, reservation: Option<Reservation>) -> bool;
    /// The vCPU has work from now on.
    fn wake(&mut self, index: usize, now: u64);
    /// It has none any more.
    fn block(&mut self, index: usize, now: u64);
    /// Who runs, and until when.
    fn decide(&mut self, now: u64) -> (Option<usize>, Option<u64>);
}

/// One queue of servers.
impl Decider for Servers<N> {
    fn add(&mut self, index: usize, reservation: Option<Reservation>) -> bool {
        let (Some(entity), Some(reservation)) = (Entity::new(index), reservation) else {
            return false;
        };
        self.reserve(entity, reservation, 0).is_ok()
    }

    fn wake(&mut self, index: usize, now: u64) {
        if let Some(entity) = Entity::new(index) {
            Policy::wake(self, entity, now);
        }
    }

    fn block(&mut self, index: usize, now: u64) {
        if let Some(entity) = Entity::new(index) {
            Policy::block(self, entity, now);
        }
    }

    fn decide(&mut self, now: u64) -> (Option<usize>, Option<u64>) {
        let decision = self.pick(now);
        (decision.run.map(Entity::index), decision.until)
    }
}

/// A pCPU of the hypervisor, which asks in the same order.
impl Decider for Budgets<'_> {
    fn add(&mut self, index: usize, reservation: Option<Reservation>) -> bool {
        let share = Share {
            weight: 256,
            cap: None,
        };
        let promise = reservation.map(|reservation| Grant::Promise(0, reservation));
        let grant = promise.unwrap_or(Grant::Share(share));
        Entity::new(index).is_some_and(|entity| self.grant(entity, grant, 0).is_ok())
    }

    fn wake(&mut self, index: usize, now: u64) {
        if let Some(entity) = Entity::new(index) {
            Policy::wake(self, entity, now);
        }
    }

    fn block(&mut self, index: usize, now: u64) {
        if let Some(entity) = Entity::new(index) {
            Policy::block(self, entity, now);
        }
    }

    fn decide(&mut self, now: u64) -> (Option<usize>, Option<u64>) {
        loop {
            if let Some((run, until)) = self.choose_at_once(now) {
                return (Some(run.index()), (until != u64::MAX).then_some(until));
            }
            if self.settle_some(now, AT_ONCE) != Replenished::Some {
                let decision = self.pick(now);
                return (decision.run.map(Entity::index), decision.until);
            }
        }
    }
}

/// Random servers and random events.
struct Load {
    name: &'static str,
    vcpus: usize,
    /// The number of kinds of servers, in turn; the fourth is best effort.
    kinds: usize,
    random: Random,
    awake: [bool; N],
    /// The decisions without their events.
    alone: Costs,
    timer: Costs,
    wake: Costs,
    block: Costs,
}

impl Load {
    fn new(name: &'static str, vcpus: usize) -> Self {
        Self {
            name,
            vcpus,
            kinds: 3,
            random: Random(0x5eed),
            awake: [false; N],
            alone: Costs::default(),
            timer: Costs::default(),
            wake: Costs::default(),
            block: Costs::default(),
        }
    }

    fn measure(&mut self, core: &mut impl Decider) {
        self.fill(core);
        self.run(core);
        self.print();
    }

    /// Adds servers of every kind that together have nine tenths of the CPU, no two with the same
    /// period.
    fn fill(&mut self, core: &mut impl Decider) {
        let kinds = [Kind::Deferrable, Kind::ConstantBandwidth, Kind::Polling];
        for index in 0..self.vcpus {
            let period = 100_003 + 2 * self.random.below(500_000);
            let budget = period * 9 / 10 / self.vcpus as u64;
            let kind = kinds.get(index % self.kinds).copied();
            let interface = Interface::periodic(period, budget);
            let Ok(interface) = interface else {
                println!("FAIL sched: a server makes no sense");
                return;
            };
            let reservation = kind.map(|kind| Reservation {
                kind,
                interface,
                priority: 0,
            });
            if !core.add(index, reservation) {
                println!("FAIL sched: a server was refused");
            }
        }
    }

    fn run(&mut self, core: &mut impl Decider) {
        let mut now = 0;
        let (_, mut until) = core.decide(now);
        for _ in 0..STEPS {
            // Events of guests are about as frequent as those of the timer.
            let event = now + 1 + self.random.below(3000);
            let decision = match until {
                Some(until) if until <= event => {
                    now = until;
                    let (next, cost) = counter::count(|| core.decide(now));
                    self.alone.add(cost);
                    self.timer.add(cost);
                    next
                }
                _ => {
                    now = event;
                    self.event(core, now)
                }
            };
            let runs;
            (runs, until) = decision;
            if runs.is_some_and(|runs| !self.awake.get(runs).is_some_and(|awake| *awake)) {
                println!("FAIL sched: somebody runs who has no work");
            }
        }
    }

    fn event(&mut self, core: &mut impl Decider, now: u64) -> (Option<usize>, Option<u64>) {
        let who = self.random.below(self.vcpus as u64) as usize;
        let Some(awake) = self.awake.get_mut(who) else {
            return core.decide(now);
        };
        *awake = !*awake;
        let awake = *awake;
        let ((), told) = counter::count(|| {
            if awake {
                core.wake(who, now);
            } else {
                core.block(who, now);
            }
        });
        let (decision, decided) = counter::count(|| core.decide(now));
        self.alone.add(decided);
        let cost = told + decided;
        if awake {
            self.wake.add(cost)
        } else {
            self.block.add(cost)
        }
        decision
    }

    fn print(&self) {
        let (of, vcpus) = (self.name, self.vcpus);
        let all = [&self.timer, &self.wake, &self.block];
        let number: u64 = all.iter().map(|costs| costs.number).sum();
        let sum: u64 = all.iter().map(|costs| costs.sum).sum();
        let most = all.iter().map(|costs| costs.most).max().unwrap_or(0);
        for (name, costs) in [("timer", all[0]), ("wake", all[1]), ("block", all[2])] {
            println!(
                "sched-info: {of}, {vcpus} vCPUs, {name}: {} times, mean {}, most {}",
                costs.number,
                costs.mean(),
                costs.most
            );
        }
        let alone = (self.alone.mean(), self.alone.most);
        println!("sched: {of}-{vcpus} alone-mean {}", alone.0);
        println!("sched: {of}-{vcpus} alone-most {}", alone.1);
        println!("sched: {of}-{vcpus} mean {}", sum / number.max(1));
        println!("sched: {of}-{vcpus} most {most}");
    }
}

/// The worst case: every vCPU is out of budget, and all budgets come at one instant.
fn equal_periods(servers: &mut Servers<N>) {
    let budget = 10;
    let period = 10 * N as u64;
    for index in 0..N {
        if let (Some(entity), Ok(interface)) =
            (Entity::new(index), Interface::periodic(period, budget))
        {
            let reservation = Reservation::rate_monotonic(Kind::Deferrable, interface);
            if servers.reserve(entity, reservation, 0).is_err() {
                println!("FAIL sched: a server was refused");
            }
            Policy::wake(servers, entity, 0);
        }
    }
    let mut now = 0;
    while now < period {
        now = servers.pick(now).until.unwrap_or(period);
    }
    let (decision, cost) = counter::count(|| servers.pick(now));
    if decision.run.is_none() {
        println!("FAIL sched: nobody has a budget");
    }
    println!("sched-info: {N} budgets that come at one instant");
    println!("sched: budgets-at-once {cost}");
}
