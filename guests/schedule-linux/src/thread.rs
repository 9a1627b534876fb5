//! The calling thread: where it runs, and as which task.

use core::fmt;

use crate::agent::Declared;
use hanok_schedule::Task;
use hanok_syscalls::Errno;
use hanok_syscalls::thread::{self, Attributes, Cpus};
use hanok_syscalls::time;

/// Keeps the calling thread on one CPU of Linux, which is the VM's vCPU of the same number.
///
/// A thread that is a periodic task already (SCHED_DEADLINE) cannot be bound: Linux answers EBUSY.
pub fn bind(cpu: usize) -> Result<(), Errno> {
    thread::set_affinity(0, &Cpus::one(cpu))
}

/// Why the thread did not become a periodic task of Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotPeriodic {
    /// The reason, as far as it can be told.
    pub why: Why,
    /// What Linux answered.
    pub errno: Errno,
}

/// The reasons of a [`NotPeriodic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// EBUSY: the sum of all tasks' shares would be more than Linux admits.
    Admission,
    /// EPERM, of a thread that is bound to fewer CPUs than there are.
    Bound,
    /// EPERM.
    Permission,
    /// EINVAL or E2BIG: the times are not as Linux wants them.
    Times,
    /// Linux does not know SCHED_DEADLINE.
    Unknown,
    /// Another error.
    Other,
}

impl NotPeriodic {
    fn of(errno: Errno) -> Self {
        let why = match errno {
            Errno::BUSY => Why::Admission,
            Errno::PERM if is_bound() => Why::Bound,
            Errno::PERM => Why::Permission,
            Errno::INVAL | Errno::TOO_BIG => Why::Times,
            Errno::NOSYS => Why::Unknown,
            _ => Why::Other,
        };
        Self { why, errno }
    }
}

/// Whether the calling thread may be on fewer CPUs than the first process may.
fn is_bound() -> bool {
    let count = |thread| thread::affinity(thread).map(|cpus| cpus.iter().count());
    matches!((count(0), count(1)), (Ok(own), Ok(first)) if own < first)
}

impl fmt::Display for NotPeriodic {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.why {
            Why::Admission => {
                "Linux admits no more: by /proc/sys/kernel/sched_rt_runtime_us, the tasks of its CPUs may have 95 % of \
                 them together; and the CPUs' speeds count"
            }
            Why::Bound => {
                "the thread is bound to some CPUs: Linux schedules by deadlines only threads that may be on all CPUs of \
                 their exclusive cpuset (hanok-agent makes one for each CPU)"
            }
            Why::Permission => "it takes CAP_SYS_NICE: run this as root, or let hanok-agent do it",
            Why::Times => {
                "1024 ns <= execution <= deadline <= period is wanted, and a period from 100 us to 4.19 s \
                 (/proc/sys/kernel/sched_deadline_period_{min,max}_us)"
            }
            Why::Unknown => "this kernel has no SCHED_DEADLINE",
            Why::Other => "Linux did not schedule the thread by its deadlines",
        };
        write!(out, "{text} ({})", self.errno)
    }
}

impl core::error::Error for NotPeriodic {}

/// The calling thread as a periodic task. It is one until this is dropped.
///
/// A job is what runs from one [`Self::wait`] to the next.
#[derive(Debug)]
pub struct Periodic {
    /// The thread's CPU time when the job began.
    began: u64,
    longest: u64,
    jobs: u64,
    /// Whether the agent made it one, and ends it.
    by_agent: bool,
    /// It is of one thread.
    _of_thread: core::marker::PhantomData<*const ()>,
}

impl Periodic {
    /// Makes the calling thread a periodic task of Linux: a constant bandwidth server, which gets the execution time
    /// within the deadline of each period's start, and no more.
    ///
    /// Linux charges what the hypervisor gives to others to the thread that was running (a stock kernel knows of no
    /// stolen time). So on a vCPU with a budget, a thread whose execution time is its job's alone is stopped too early.
    /// The agent reckons with it.
    pub fn begin(task: &Task) -> Result<Self, NotPeriodic> {
        let attributes = Attributes::deadline(task.execution, task.deadline, task.period);
        thread::set_attributes(0, &attributes).map_err(NotPeriodic::of)?;
        Ok(Self::new(false))
    }

    /// The calling thread, which the agent has made a periodic task.
    pub fn of(_: Declared) -> Self {
        Self::new(true)
    }

    fn new(by_agent: bool) -> Self {
        Self {
            began: time::of_thread().unwrap_or(0),
            longest: 0,
            jobs: 0,
            by_agent,
            _of_thread: core::marker::PhantomData,
        }
    }

    /// Ends the job; comes back when the next period has begun. The answer is the job's CPU time in nanoseconds.
    pub fn wait(&mut self) -> u64 {
        let used = self.used();
        self.longest = self.longest.max(used);
        self.jobs += 1;
        thread::give_up();
        self.began = time::of_thread().unwrap_or(0);
        used
    }

    /// The CPU time of this job until now, as Linux sees it: what the hypervisor gave to others while the thread ran
    /// is in it.
    pub fn used(&self) -> u64 {
        time::of_thread().unwrap_or(0).saturating_sub(self.began)
    }

    /// The longest CPU time of a job.
    pub const fn longest(&self) -> u64 {
        self.longest
    }

    /// The number of jobs that are done.
    pub const fn jobs(&self) -> u64 {
        self.jobs
    }
}

impl Drop for Periodic {
    fn drop(&mut self) {
        if !self.by_agent {
            // Only a thread that is gone could refuse it.
            let _ = thread::set_attributes(0, &Attributes::usual());
        }
    }
}
