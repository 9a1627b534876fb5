//! What a trace has: machines, their CPUs, and what happened on each.

use std::collections::BTreeMap;

/// A machine: the board with its hypervisor, or a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// What it is called.
    pub name: String,
    /// A number that no other machine of the trace has.
    pub id: u64,
    /// Whether it is the board or a guest of it.
    pub place: Place,
    /// The names of its tasks, by their numbers. Task 0 is the idle one of each CPU.
    pub tasks: BTreeMap<i32, String>,
    /// What happened on each CPU, in the order of time.
    pub cpus: Vec<Vec<Record>>,
}

/// Where a machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// It is the board.
    Host {
        /// Its guests.
        guests: Vec<Guest>,
    },
    /// It is a guest of the board.
    Guest {
        /// The board's number.
        host: u64,
        /// What is added to a guest's time to have the board's, in nanoseconds.
        shift: i64,
    },
}

/// A guest as the board sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guest {
    /// What it is called.
    pub name: String,
    /// Its number.
    pub id: u64,
    /// The board's tasks that are its vCPUs, by the numbers of these.
    pub vcpus: Vec<i32>,
}

/// What happened at one time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Nanoseconds on the machine's clock.
    pub at: u64,
    /// The task that ran.
    pub task: i32,
    /// Whether it happened while an interrupt was handled.
    pub in_interrupt: bool,
    /// What it was.
    pub event: Event,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A CPU goes on with another task.
    Switch {
        /// The task that ran.
        previous: Task,
        /// What became of it.
        state: State,
        /// The task that runs now.
        next: Task,
    },
    /// A task can run from now on.
    Waking {
        /// Which.
        task: Task,
        /// On which CPU.
        cpu: u32,
    },
    /// An interrupt begins to be handled.
    InterruptEntry {
        /// Its number.
        number: u32,
        /// What it is called.
        name: String,
    },
    /// An interrupt has been handled.
    InterruptExit {
        /// Its number.
        number: u32,
        /// Whether somebody felt responsible.
        handled: bool,
    },
    /// A vCPU is entered.
    Entry {
        /// Its number in its VM.
        vcpu: u32,
        /// The address that it goes on at.
        address: u64,
        /// The hypervisor's instructions since a vCPU was left on the CPU; 0: they are not counted.
        instructions: u32,
    },
    /// A vCPU is left.
    Exit {
        /// Its number in its VM.
        vcpu: u32,
        /// The address that it was at.
        address: u64,
        /// Why: an exception's class, or [`INTERRUPTED`] or [`SYSTEM_ERROR`].
        reason: u32,
        /// What the CPU says of the exception: ESR_EL2 or HSR; of an interrupt its number, or one from [`NO_INTERRUPT`] on.
        syndrome: u32,
        /// The address in the VM's memory of which an abort is, or the first argument of a call.
        about: u64,
    },
    /// A task's budget was used up.
    Throttled {
        /// Whose.
        task: Task,
        /// How often, since this was told last.
        count: u32,
    },
    /// Promises to a task were not kept.
    Late {
        /// To which.
        task: Task,
        /// How many, since this was told last.
        count: u32,
    },
    /// What happened on this CPU since its last record, or some of it, is not known.
    Lost {
        /// How many records are missing; 0: nobody knows.
        count: u64,
    },
    /// Whatever else is worth a line.
    Words(String),
}

/// [`Event::Exit`]: a physical interrupt came. Classes of exceptions have six bits.
pub const INTERRUPTED: u32 = 64;
/// [`Event::Exit`]: an SError came.
pub const SYSTEM_ERROR: u32 = 65;

/// Numbers of interrupts from this one on mean that there was none (IHI 0069H, 2.2.1 "Special INTIDs").
pub const NO_INTERRUPT: u32 = 1020;

/// A task at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// Its number.
    pub number: i32,
    /// What it is called. Viewers show the first 15 bytes.
    pub name: String,
    /// Its priority; the lower the number, the more urgent.
    pub priority: i32,
}

/// What becomes of a task that does not run any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It could run.
    Ready,
    /// It waits for something.
    Waiting,
    /// It was stopped by somebody.
    Stopped,
    /// It has ended.
    Ended,
}
