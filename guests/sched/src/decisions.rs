//! Counts the instructions of a decision: an event, then which vCPU runs after it and until when.

use crate::{Costs, Random, counter};
use hanok_sched::{Decision, Entity, Interface, Kind, Order, Policy, Reservation, Servers, Slack};
use spin::Mutex;

const N: usize = 256;
type Core = Mutex<Servers<N>>;

/// One for each number of vCPUs: they are too large for a stack.
static CORES: [(usize, Core); 3] = [(4, core()), (32, core()), (N, core())];
/// A core whose vCPUs all have one period.
static EQUAL: Core = core();

/// The number of decisions for each number of vCPUs.
const STEPS: u32 = 20_000;

const fn core() -> Core {
    Mutex::new(Servers::new(Order::EarliestDeadline, Slack::Idle))
}

pub fn measure() {
    for (vcpus, core) in &CORES {
        let mut load = Load::new(*vcpus);
        let servers = &mut *core.lock();
        load.fill(servers);
        load.run(servers);
        load.print();
    }
    equal_periods(&mut EQUAL.lock());
}

/// Random servers and random events.
struct Load {
    vcpus: usize,
    random: Random,
    awake: [bool; N],
    timer: Costs,
    wake: Costs,
    block: Costs,
}

impl Load {
    fn new(vcpus: usize) -> Self {
        Self {
            vcpus,
            random: Random(0x5eed),
            awake: [false; N],
            timer: Costs::default(),
            wake: Costs::default(),
            block: Costs::default(),
        }
    }

    /// Adds servers of every kind that together have nine tenths of the CPU, no two with the same
    /// period.
    fn fill(&mut self, servers: &mut Servers<N>) {
        let kinds = [Kind::Deferrable, Kind::ConstantBandwidth, Kind::Polling];
        for index in 0..self.vcpus {
            let period = 100_003 + 2 * self.random.below(500_000);
            let budget = period * 9 / 10 / self.vcpus as u64;
            let kind = kinds.get(index % 3).copied().unwrap_or(Kind::Deferrable);
            let interface = Interface::periodic(period, budget);
            if let (Some(entity), Ok(interface)) = (Entity::new(index), interface) {
                let reservation = Reservation {
                    kind,
                    interface,
                    priority: 0,
                };
                if servers.reserve(entity, reservation, 0).is_err() {
                    println!("FAIL sched: a server was refused");
                }
            }
        }
    }

    fn run(&mut self, servers: &mut Servers<N>) {
        let mut now = 0;
        let mut decision = servers.pick(now);
        for _ in 0..STEPS {
            // Events of guests are about as frequent as those of the timer.
            let event = now + 1 + self.random.below(3000);
            match decision.until {
                Some(until) if until <= event => {
                    now = until;
                    let (next, cost) = counter::count(|| servers.pick(now));
                    decision = next;
                    self.timer.add(cost);
                }
                _ => {
                    now = event;
                    decision = self.event(servers, now);
                }
            }
            let running = decision.run.map_or(0, Entity::index);
            if decision.run.is_some() && !self.awake.get(running).is_some_and(|awake| *awake) {
                println!("FAIL sched: somebody runs who has no work");
            }
        }
    }

    fn event(&mut self, servers: &mut Servers<N>, now: u64) -> Decision<N> {
        let who = self.random.below(self.vcpus as u64) as usize;
        let (Some(entity), Some(awake)) = (Entity::new(who), self.awake.get_mut(who)) else {
            return servers.pick(now);
        };
        *awake = !*awake;
        let (decision, cost) = if *awake {
            counter::count(|| {
                servers.wake(entity, now);
                servers.pick(now)
            })
        } else {
            counter::count(|| {
                servers.block(entity, now);
                servers.pick(now)
            })
        };
        if *awake {
            self.wake.add(cost)
        } else {
            self.block.add(cost)
        }
        decision
    }

    fn print(&self) {
        let vcpus = self.vcpus;
        let all = [&self.timer, &self.wake, &self.block];
        let number: u64 = all.iter().map(|costs| costs.number).sum();
        let sum: u64 = all.iter().map(|costs| costs.sum).sum();
        let most = all.iter().map(|costs| costs.most).max().unwrap_or(0);
        for (name, costs) in [("timer", all[0]), ("wake", all[1]), ("block", all[2])] {
            println!(
                "sched-info: {vcpus} vCPUs, {name}: {} times, mean {}, most {}",
                costs.number,
                costs.mean(),
                costs.most
            );
        }
        println!("sched: decision-{vcpus} mean {}", sum / number.max(1));
        println!("sched: decision-{vcpus} most {most}");
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
            servers.wake(entity, 0);
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
