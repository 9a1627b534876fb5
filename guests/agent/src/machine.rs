//! What the agent acts on: Linux, and the hypervisor below. Tests have a fake.

use alloc::string::String;
use alloc::vec::Vec;

use hanok_schedule::{Error, Interface, Limits, Usage};

/// By what a vCPU's CPU time can change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It is a whole CPU: there is no hypervisor that budgets it.
    Whole,
    /// It has a budget, and may not ask for another.
    Fixed,
    /// It has a budget, and may ask for another.
    Asks,
    /// There is a hypervisor that promises nothing.
    Unpromised,
}

/// What a vCPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// By what its CPU time can change.
    pub kind: Kind,
    /// Its interface; of [`Kind::Whole`], one that is all of the CPU.
    pub interface: Interface,
    /// What it may ask for.
    pub limits: Limits,
}

/// A thread, as Linux knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Its number.
    pub number: i32,
    /// Its process.
    pub process: i32,
    /// The user who owns it.
    pub user: u32,
    /// When it was started, in Linux's own unit: another thread may get the same number later.
    pub start: u64,
}

/// The times of SCHED_DEADLINE, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// The CPU time in each period, as Linux charges it.
    pub runtime: u64,
    /// By when it is given.
    pub deadline: u64,
    /// The period.
    pub period: u64,
}

/// Linux and the hypervisor.
pub trait Machine {
    /// The instant, in nanoseconds of a clock that never goes back.
    fn now(&mut self) -> u64;
    /// The number of CPUs, which are the vCPUs of the same numbers.
    fn cpus(&mut self) -> usize;
    /// What a vCPU has.
    fn look(&mut self, cpu: usize) -> Result<Found, String>;
    /// What a vCPU has used, where a hypervisor tells it.
    fn usage(&mut self, cpu: usize) -> Option<Usage>;
    /// Asks for another interface of a vCPU. The answer comes when it has taken effect.
    fn ask(&mut self, cpu: usize, wanted: &Interface) -> Result<(), Error>;
    /// Sees to it that threads can be scheduled by their deadlines on this CPU alone; an error says what is missing.
    fn prepare(&mut self, cpu: usize) -> Result<(), String>;
    /// Undoes [`Self::prepare`].
    fn give_back(&mut self, cpu: usize);
    /// Whether the CPU is left to the rest of Linux as long as others are to be had.
    fn is_last(&mut self, cpu: usize) -> bool;
    /// Schedules a thread on this CPU by its deadlines, or changes its times; an error says why not. A thread that
    /// sleeps on another CPU is scheduled so as soon as it wakes ([`Self::catch_up`]).
    fn schedule(&mut self, thread: &Thread, cpu: usize, times: &Times) -> Result<(), String>;
    /// Schedules threads that slept and have woken. Whether there are more that sleep.
    fn catch_up(&mut self) -> bool;
    /// Schedules a thread as usual again, if it is still there.
    fn release(&mut self, thread: &Thread);
    /// The thread of this number.
    fn thread(&mut self, number: i32) -> Option<Thread>;
    /// The CPU time of a thread until now, as Linux sees it.
    fn used(&mut self, thread: &Thread) -> Option<u64>;
    /// The first threads of all programs of this name.
    fn programs(&mut self, name: &str) -> Vec<i32>;
    /// Tells people.
    fn say(&mut self, text: &str);
}
