//! A system, and its description.

use std::fmt::{self, Write};

/// How members are chosen among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// By the earliest deadline.
    Edf,
    /// By the shortest period.
    Rm,
    /// By the shortest deadline.
    Dm,
    /// By priority.
    Fixed,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Edf, Self::Rm, Self::Dm, Self::Fixed];

    /// As descriptions and the RTOS have it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Edf => "edf",
            Self::Rm => "rm",
            Self::Dm => "dm",
            Self::Fixed => "fixed",
        }
    }
}

/// The kind of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It spends its budget also without work.
    Periodic,
    /// It loses its budget without work.
    Polling,
    /// It keeps its budget until the period's end.
    Deferrable,
    /// Its period begins with its work.
    Bandwidth,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Periodic,
        Self::Polling,
        Self::Deferrable,
        Self::Bandwidth,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::Periodic => "periodic",
            Self::Polling => "polling",
            Self::Deferrable => "deferrable",
            Self::Bandwidth => "bandwidth",
        }
    }
}

/// A task. Times are in microseconds here and below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Between two arrivals.
    pub period: u64,
    /// The longest time of a job.
    pub execution: u64,
    /// After the arrival.
    pub deadline: u64,
    /// Of the first arrival.
    pub offset: u64,
    /// Under [`Policy::Fixed`]; 0 is the highest.
    pub priority: u32,
}

/// What a server has of its home.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Where the time comes from: a group by its number, or the core.
    pub home: Option<usize>,
    /// The core.
    pub core: u8,
    /// What becomes of the budget without work.
    pub kind: Kind,
    /// The time after which the budget is full again.
    pub period: u64,
    /// The budget; `None` where the analysis is to find it.
    pub budget: Option<u64>,
    /// By when it is given, after the period's start; `None`: the period, or what `window` asks for.
    pub deadline: Option<u64>,
    /// Which deadline the analysis is to find.
    pub window: &'static str,
    /// Under [`Policy::Fixed`].
    pub priority: u32,
    /// How those inside are chosen among.
    pub policy: Policy,
}

/// A VM with one vCPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vm {
    /// The server of its vCPU.
    pub server: Server,
    /// Its tasks.
    pub tasks: Vec<Task>,
    /// On a board: what its guest is.
    pub guest: Guest,
}

/// A VM with a vCPU on each core, all with the same interface, which is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// The interface of each vCPU, at its core.
    pub server: Server,
    /// Its guest.
    pub guest: Guest,
}

/// What runs in a VM of a board.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// As in `kernel`.
    pub kernel: String,
    /// Its command line.
    pub cmdline: String,
    /// The largest share in percent that it may ask for; 0: it asks for nothing.
    pub ask: u8,
}

/// A system of several cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// A board's name, where it is to run on one.
    pub board: Option<&'static str>,
    /// What a switch costs, in nanoseconds.
    pub switch: u64,
    /// What it takes after one to be as quick as before, in nanoseconds.
    pub refill: u64,
    /// The policy of each core.
    pub cores: Vec<Policy>,
    /// Groups; each is after the one that it is in.
    pub groups: Vec<Server>,
    /// VMs.
    pub vms: Vec<Vm>,
    /// The VM after these that has a vCPU on each core.
    pub spread: Option<Spread>,
}

impl System {
    /// All servers: those of groups, and then those of VMs.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        self.groups
            .iter()
            .chain(self.vms.iter().map(|vm| &vm.server))
    }

    /// The share of a core that is promised to its servers, on average.
    pub fn core_share(&self) -> f64 {
        let at_cores = self.servers().filter(|server| server.home.is_none());
        let share = |server: &Server| server.budget.unwrap_or(0) as f64 / server.period as f64;
        let everywhere = self.spread.iter().map(|spread| share(&spread.server));
        at_cores.map(share).sum::<f64>() / self.cores.len() as f64 + everywhere.sum::<f64>()
    }

    /// The description, as in a file.
    pub fn description(&self) -> String {
        let mut text = String::new();
        // Writing into a text cannot fail.
        let _ = self.write(&mut text);
        text
    }

    fn write(&self, text: &mut String) -> fmt::Result {
        match self.board {
            Some(board) => writeln!(text, "board = \"{board}\"")?,
            None => writeln!(text, "cores = {}", self.cores.len())?,
        }
        let given = self.servers().all(|server| server.budget.is_some());
        writeln!(text, "\n[schedule]\nenforce = {given}")?;
        writeln!(text, "switch = \"{}ns\"", self.switch)?;
        writeln!(text, "refill = \"{}ns\"", self.refill)?;
        for (core, policy) in self.cores.iter().enumerate() {
            writeln!(text, "\n[[schedule.pool]]\nname = \"core{core}\"")?;
            writeln!(text, "cores = [{core}]\npolicy = \"{}\"", policy.word())?;
        }
        for (at, group) in self.groups.iter().enumerate() {
            writeln!(text, "\n[[schedule.group]]\nname = \"g{at}\"")?;
            server(text, group)?;
        }
        for (at, vm) in self.vms.iter().enumerate() {
            writeln!(
                text,
                "\n[[vm]]\nname = \"v{at}\"\ncpus = [{}]",
                vm.server.core
            )?;
            writeln!(text, "kernel = \"{}\"\nmemory = \"64M\"", vm.guest.kernel)?;
            writeln!(text, "cmdline = \"{}\"\n\n[vm.schedule]", vm.guest.cmdline)?;
            server(text, &vm.server)?;
            if vm.guest.ask > 0 {
                writeln!(text, "ask = \"{} %\"", vm.guest.ask)?;
            }
            for (at, task) in vm.tasks.iter().enumerate() {
                let Task {
                    period,
                    execution,
                    deadline,
                    offset,
                    priority,
                } = task;
                writeln!(text, "\n[[vm.schedule.task]]\nname = \"t{at}\"")?;
                writeln!(
                    text,
                    "period = \"{period}us\"\nexecution = \"{execution}us\""
                )?;
                writeln!(text, "deadline = \"{deadline}us\"\noffset = \"{offset}us\"")?;
                writeln!(text, "priority = {priority}")?;
            }
        }
        match &self.spread {
            Some(spread) => self.write_spread(text, spread),
            None => Ok(()),
        }
    }

    fn write_spread(&self, text: &mut String, spread: &Spread) -> fmt::Result {
        let Spread { server, guest } = spread;
        let cores: Vec<_> = (0..self.cores.len()).map(|core| core.to_string()).collect();
        let cores = cores.join(", ");
        writeln!(text, "\n[[vm]]\nname = \"spread\"\ncpus = [{cores}]")?;
        writeln!(text, "kernel = \"{}\"\nmemory = \"64M\"", guest.kernel)?;
        writeln!(text, "cmdline = \"{}\"\n\n[vm.schedule]", guest.cmdline)?;
        terms(text, server)?;
        // Tasks on paper: they make each vCPU a component of its own.
        for core in 0..self.cores.len() {
            writeln!(
                text,
                "\n[[vm.schedule.task]]\nname = \"t{core}\"\nvcpu = {core}"
            )?;
            let period = 4 * server.period;
            writeln!(text, "period = \"{period}us\"\nexecution = \"1us\"")?;
        }
        Ok(())
    }
}

fn server(text: &mut String, server: &Server) -> fmt::Result {
    match server.home {
        Some(group) => writeln!(text, "group = \"g{group}\"")?,
        None => writeln!(text, "pool = \"core{}\"", server.core)?,
    }
    terms(text, server)
}

fn terms(text: &mut String, server: &Server) -> fmt::Result {
    writeln!(text, "policy = \"{}\"", server.policy.word())?;
    writeln!(text, "server = \"{}\"", server.kind.word())?;
    writeln!(text, "priority = {}", server.priority)?;
    writeln!(text, "period = \"{}us\"", server.period)?;
    match (server.budget, server.deadline) {
        (Some(budget), deadline) => {
            writeln!(text, "budget = \"{budget}us\"")?;
            let deadline = deadline.unwrap_or(server.period);
            writeln!(text, "deadline = \"{deadline}us\"")
        }
        (None, _) => writeln!(text, "window = \"{}\"", server.window),
    }
}
