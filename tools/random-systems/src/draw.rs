//! Draws systems, which may be too much for their cores; [`crate::edge`] makes them fit.

use crate::random::Random;
use crate::system::{Guest, Kind, Policy, Server, System, Task, Vm};

/// What systems are drawn for.
#[derive(Clone, Debug)]
pub struct Style {
    /// A board's name, where they are to run on one.
    pub board: Option<&'static str>,
    /// The largest number of cores and of VMs.
    pub cores: u64,
    /// The largest number of VMs.
    pub vms: u64,
    /// The largest number of tasks of a VM.
    pub tasks: u64,
    /// The shortest and the longest period of servers at a core, in microseconds.
    pub periods: [u64; 2],
    /// Switches cost so much, in nanoseconds, in `costly` of 8 systems.
    pub switch: u64,
    /// In how many of 8 systems switches cost something.
    pub costly: u64,
    /// Whether VMs whose servers may wake any number of times are drawn there, too.
    pub wakes: bool,
    /// The shortest execution time, in microseconds.
    pub execution: u64,
}

impl Style {
    /// For the simulation: anything.
    pub const SIMULATED: Self = Self {
        board: None,
        cores: 4,
        vms: 8,
        tasks: 3,
        periods: [20, 200],
        switch: 1_000,
        costly: 3,
        wakes: true,
        execution: 1,
    };
}

/// The system of `seed`.
pub fn draw(style: &Style, seed: u64) -> System {
    let mut random = Random::new(seed);
    let vms = random.from(2, style.vms.max(2));
    let cores = random.from(1, style.cores.min(vms));
    let costly = random.chance(style.costly, 8);
    let policies = (0..cores).map(|_| random.one_of(&Policy::ALL));
    let mut drawn = Drawn {
        system: System {
            board: style.board,
            switch: if costly { style.switch } else { 0 },
            refill: 0,
            cores: policies.collect(),
            groups: Vec::new(),
            vms: Vec::new(),
            spread: None,
        },
        // Periods that divide each other, or any.
        base: random.chance(1, 2).then(|| {
            let [least, most] = style.periods;
            random.from(least, most.div_ceil(4).max(least))
        }),
        style,
        random,
    };
    for core in 0..cores as u8 {
        for _ in 0..drawn.random.below(3) {
            drawn.group(core);
        }
    }
    for at in 0..vms {
        // Each core has one.
        let core = if at < cores {
            at
        } else {
            drawn.random.below(cores)
        };
        drawn.vm(core as u8);
    }
    drawn.drop_empty_groups();
    for core in 0..cores as u8 {
        drawn.load(core);
    }
    drawn.system
}

/// What a server is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Of {
    Group,
    Vm,
}

struct Drawn<'a> {
    system: System,
    base: Option<u64>,
    style: &'a Style,
    random: Random,
}

impl Drawn<'_> {
    /// A server on `core`, at the core itself or in one of its groups.
    fn server(&mut self, core: u8, of: Of) -> Server {
        let groups = self.system.groups.iter().enumerate();
        let groups: Vec<_> = groups
            .filter(|(_, group)| group.core == core)
            .map(|(at, _)| at)
            .collect();
        let home = match groups.len() {
            0 => None,
            _ if self.random.chance(1, 3) => None,
            _ => Some(self.random.one_of(&groups)),
        };
        let above = home.map(|home| self.system.groups[home].clone());
        let kind = self.kind(core, above.as_ref(), of);
        let windows = ["period", "period", "budget", "longest"];
        let window = match kind {
            Kind::Periodic | Kind::Polling => self.random.one_of(&windows),
            Kind::Deferrable | Kind::Bandwidth => "period",
        };
        Server {
            home,
            core,
            kind,
            period: self.period(above.map(|group| group.period)),
            budget: None,
            deadline: None,
            window,
            priority: (self.system.servers().count()) as u32,
            policy: self.random.one_of(&Policy::ALL),
        }
    }

    /// A kind that is not refused in every case.
    fn kind(&mut self, core: u8, above: Option<&Server>, of: Of) -> Kind {
        let policy = match above {
            Some(group) => group.policy,
            None => self.system.cores[core as usize],
        };
        // A group that pays for its switches is refused.
        let wakes = self.system.switch == 0 || self.style.wakes && of == Of::Vm;
        let periodic_home = above.is_none_or(|group| group.kind == Kind::Periodic);
        match self.random.one_of(&Kind::ALL) {
            Kind::Periodic if !periodic_home => Kind::Polling,
            Kind::Deferrable if !wakes => Kind::Polling,
            Kind::Bandwidth if !wakes || policy != Policy::Edf => Kind::Polling,
            kind => kind,
        }
    }

    /// A period of a server in one of period `above`.
    fn period(&mut self, above: Option<u64>) -> u64 {
        let [least, most] = self.style.periods;
        match (above, self.base) {
            (Some(above), Some(_)) => above << self.random.below(3),
            (Some(above), None) if self.random.chance(1, 2) => above * self.random.from(1, 4),
            (Some(above), None) => self.random.from(above / 2, 3 * above),
            (None, Some(base)) => base << self.random.below(3),
            (None, None) => self.random.from(least, most),
        }
        .max(least / 2)
    }

    fn group(&mut self, core: u8) {
        let group = self.server(core, Of::Group);
        self.system.groups.push(group);
    }

    fn vm(&mut self, core: u8) {
        let server = self.server(core, Of::Vm);
        let tasks = (0..self.random.from(1, self.style.tasks))
            .map(|at| self.task(server.period, at as u32))
            .collect();
        let guest = Guest {
            kernel: "guest:rtos".to_owned(),
            cmdline: "quiet".to_owned(),
            ask: 0,
        };
        self.system.vms.push(Vm {
            server,
            tasks,
            guest,
        });
    }

    /// A task of a server of `period`, whose execution time is to be chosen.
    fn task(&mut self, server: u64, priority: u32) -> Task {
        let period = match self.base {
            Some(_) => server * (4 << self.random.below(3)),
            None => self.random.from(4 * server, 14 * server),
        };
        let deadline = match self.random.below(3) {
            0 => self.random.from(period * 5 / 8, period),
            _ => period,
        };
        Task {
            period,
            execution: self.style.execution,
            deadline,
            offset: 0,
            priority,
        }
    }

    /// Groups without a VM in them are left out; the numbers of the others follow each other again.
    fn drop_empty_groups(&mut self) {
        let system = &mut self.system;
        for at in (0..system.groups.len()).rev() {
            if system.servers().any(|server| server.home == Some(at)) {
                continue;
            }
            system.groups.remove(at);
            let vms = system.vms.iter_mut().map(|vm| &mut vm.server);
            for server in system.groups.iter_mut().chain(vms) {
                server.home = server.home.map(|home| home - usize::from(home > at));
            }
        }
    }

    /// Gives the tasks on `core` execution times that take most of it together.
    fn load(&mut self, core: u8) {
        let mut tasks: Vec<&mut Task> = self
            .system
            .vms
            .iter_mut()
            .filter(|vm| vm.server.core == core)
            .flat_map(|vm| &mut vm.tasks)
            .collect();
        let whole = self.random.from(70, 95) as f64 / 100.0;
        let shares = self.random.shares(tasks.len(), whole);
        for (task, share) in tasks.iter_mut().zip(shares) {
            let execution = (share * task.period as f64) as u64;
            task.execution = execution.clamp(self.style.execution, task.deadline);
        }
    }
}
