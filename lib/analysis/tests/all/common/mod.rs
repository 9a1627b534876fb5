//! Models for the tests.

use hanok_task_model::{
    Component, ComponentId, CoreId, Home, Mode, Model, Nanos, Periods, Plan, Policy, Pool, PoolId,
    ResourceInterface, Task, Window,
};

/// The home that is the first pool.
pub const ROOT: Home = Home::Pool(PoolId(0));

pub fn ns(nanos: u64) -> Nanos {
    Nanos::new(nanos)
}

/// A model with ticks of 1 ns and one partitioned pool.
pub fn model(cores: u8) -> Model {
    Model::new(ns(1), vec![Pool::new("all", (0..cores).map(CoreId))])
}

pub fn find(period: u64, window: Window) -> Plan {
    Plan::Find {
        periods: Periods::One(ns(period)),
        window,
    }
}

pub fn range(least: u64, most: u64, window: Window) -> Plan {
    Plan::Find {
        periods: Periods::Range {
            least: ns(least),
            most: ns(most),
        },
        window,
    }
}

pub fn given(period: u64, budget: u64, deadline: u64) -> Plan {
    Plan::Given(ResourceInterface {
        period: ns(period),
        budget: ns(budget),
        deadline: ns(deadline),
    })
}

/// Adds a component with tasks of (period, execution, deadline).
pub fn vm(
    model: &mut Model,
    home: Home,
    plan: Plan,
    policy: Policy,
    tasks: &[(u64, u64, u64)],
) -> ComponentId {
    let name = format!("c{}", model.components.len());
    let mut component = Component::new(name, home, plan);
    component.policy = policy;
    let id = model.add(component);
    for (index, (period, execution, deadline)) in tasks.iter().enumerate() {
        let mut task = Task::new(format!("t{index}"), id, ns(*period), ns(*execution));
        task.deadline = ns(*deadline);
        model.add_task(task);
    }
    id
}

/// A xorshift generator: the same numbers on every machine.
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound.max(1)
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}

/// A random model: groups, VMs, several policies and windows, one to three cores, sometimes a
/// global pool with a VM of two vCPUs.
pub fn random(random: &mut Random) -> Model {
    let mut model = model(1 + random.below(3) as u8);
    model.tick = ns(random.pick(&[1, 5, 10]));
    if random.below(4) == 0 {
        model.pools[0].mode = Mode::Global;
    }
    let policies = [
        Policy::Edf,
        Policy::RateMonotonic,
        Policy::DeadlineMonotonic,
    ];
    let windows = [Window::Period, Window::Budget, Window::Longest];
    model.cost.switch = ns(random.pick(&[0, 0, 1, 7]));
    let mut groups = vec![ROOT];
    for _ in 0..random.below(3) {
        let plan = find(random.pick(&[50, 100, 200]), random.pick(&windows));
        let home = random.pick(&groups);
        let id = vm(&mut model, home, plan, random.pick(&policies), &[]);
        groups.push(Home::Component(id));
        leaf(&mut model, Home::Component(id), random);
    }
    for _ in 0..1 + random.below(4) {
        let home = random.pick(&groups);
        leaf(&mut model, home, random);
    }
    let two = model.pools[0].cores.len() > 1 && random.below(2) == 0;
    if two {
        let plan = find(random.pick(&[100, 200]), Window::Period);
        let id = vm(&mut model, ROOT, plan, Policy::Edf, &tasks(random));
        model.components[id.0 as usize].cpus = 2;
    }
    model
}

fn tasks(random: &mut Random) -> Vec<(u64, u64, u64)> {
    let task = |random: &mut Random| {
        let period = random.pick(&[400, 500, 800, 1_000, 1_700]);
        let execution = 1 + random.below(period / 30);
        let deadline = period - random.below(period / 3);
        (period, execution, deadline)
    };
    (0..1 + random.below(4)).map(|_| task(random)).collect()
}

fn leaf(model: &mut Model, home: Home, random: &mut Random) {
    let windows = [Window::Period, Window::Budget, Window::Longest];
    let policies = [
        Policy::Edf,
        Policy::RateMonotonic,
        Policy::DeadlineMonotonic,
    ];
    let plan = match random.below(4) {
        0 => given(100, 40, 80),
        1 => range(50, 200, random.pick(&windows)),
        _ => find(random.pick(&[50, 100, 200]), random.pick(&windows)),
    };
    let tasks = tasks(random);
    let id = vm(model, home, plan, random.pick(&policies), &tasks);
    let jitter = random.pick(&[0, 0, 20]);
    for task in model.tasks.iter_mut().filter(|task| task.component == id) {
        task.jitter = ns(jitter);
    }
}
