//! Linux, and the hypervisor below, as they are: the [`Machine`] of the program.

mod partition;
mod proc;

use alloc::ffi::CString;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::machine::{Found, Kind, Machine, Thread, Times};
use hanok_schedule::{Error, Interface, Limits, Usage, Vcpu};
use hanok_schedule_linux::{Device, Missing, Places, open_at};
use hanok_syscalls::thread::{Attributes, Cpus};
use hanok_syscalls::{Errno, file, process, thread, time};
use partition::Partitions;

/// The longest time that a change of an interface is waited for.
const PATIENCE: u64 = 1_000_000_000;
/// The time in which a fork that was under way is over, but for a rare one.
const FORK: u64 = 5_000_000;
/// The time between two looks whether it has taken effect.
const LOOK: u64 = 500_000;
/// Hanok rounds times to ticks of its counter: none is so long. Budgets of other interfaces differ by more.
const ROUNDED: u64 = 1_000;
/// The period of a whole CPU's interface, which is all of it.
const WHOLE: u64 = 10_000_000;
/// The interface of a vCPU that is promised nothing.
const NOTHING: Interface = Interface::new(WHOLE, 0);
/// -1: threads with deadlines may have all of a CPU. The agent admits them by an exact test instead.
const ADMISSION: &core::ffi::CStr = c"/proc/sys/kernel/sched_rt_runtime_us";

/// Whether an interface is the wanted one, in ticks of the board's counter.
const fn is_rounded(has: &Interface, wanted: &Interface) -> bool {
    has.period.abs_diff(wanted.period) < ROUNDED && has.budget.abs_diff(wanted.budget) < ROUNDED
}

/// Linux and the hypervisor.
#[derive(Debug)]
pub struct Linux {
    device: Option<Vcpu<Device>>,
    cpus: usize,
    partitions: Partitions,
    /// Threads that slept when they were to be scheduled, with the CPU that they will wake on.
    sleeping: Vec<(Thread, usize, Times)>,
}

impl Linux {
    /// The machine that this program runs on. Without a device that tells of Hanok, its CPUs are whole ones; a device
    /// that may not be used is an error.
    pub fn open(places: &Places<'_>) -> Result<Self, String> {
        let device = match open_at(places) {
            Ok(device) => Some(device),
            Err(Missing::NoNode | Missing::NoTree) => None,
            Err(error) => return Err(format!("{error}")),
        };
        let cpus = proc::cpus().ok_or("the number of CPUs is not known: mount /sys")?;
        let mut machine = Self {
            device,
            cpus,
            partitions: Partitions::new(cpus),
            sleeping: Vec::new(),
        };
        machine.admit_all()?;
        Ok(machine)
    }

    /// Whether a hypervisor answers.
    pub const fn has_device(&self) -> bool {
        self.device.is_some()
    }

    /// Lets the agent decide alone how many threads with deadlines there are: runtimes have stolen time in them, and
    /// so their sum says nothing. Linux counts the share of a thread that was one, too, for a while.
    fn admit_all(&mut self) -> Result<(), String> {
        // A kernel with such threads, which a former agent has left, may refuse any value, also the one that it has.
        if text_of(&ADMISSION.to_string_lossy()).is_ok_and(|now| now.trim() == "-1") {
            return Ok(());
        }
        let written = file::write(ADMISSION, b"-1");
        written.map_err(|error| format!("{}: {error}", ADMISSION.to_string_lossy()))
    }

    /// Calls the hypervisor on behalf of a vCPU, from there.
    fn by<T>(
        &mut self,
        cpu: usize,
        call: impl FnOnce(&mut Vcpu<Device>) -> Result<T, Error>,
    ) -> Option<Result<T, Error>> {
        let device = self.device.as_mut()?;
        if let Err(error) = self.partitions.visit(cpu) {
            self.say(&format!("vCPU {cpu} cannot be reached: {error}"));
            return Some(Err(Error::Unknown(-i32::from(error.0))));
        }
        let answer = call(device);
        self.partitions.go_home();
        Some(answer)
    }
}

impl Machine for Linux {
    fn now(&mut self) -> u64 {
        time::monotonic().unwrap_or(0)
    }

    fn cpus(&mut self) -> usize {
        self.cpus
    }

    fn look(&mut self, cpu: usize) -> Result<Found, String> {
        let found = self.by(cpu, |vcpu| {
            let features = vcpu.features()?;
            let kind = match (features.is_enforced(), features.may_ask()) {
                (false, _) => Kind::Unpromised,
                (true, false) => Kind::Fixed,
                (true, true) => Kind::Asks,
            };
            // A vCPU that is promised nothing has no interface.
            let interface = match kind {
                Kind::Unpromised => NOTHING,
                _ => vcpu.interface()?,
            };
            Ok(Found {
                kind,
                interface,
                limits: vcpu.limits()?,
            })
        });
        let whole = Found {
            kind: Kind::Whole,
            interface: Interface::new(WHOLE, WHOLE),
            limits: Limits {
                share: 0,
                period: WHOLE,
            },
        };
        found
            .unwrap_or(Ok(whole))
            .map_err(|error| format!("vCPU {cpu}: {error}"))
    }

    fn usage(&mut self, cpu: usize) -> Option<Usage> {
        self.by(cpu, Vcpu::usage)?.ok()
    }

    fn ask(&mut self, cpu: usize, wanted: &Interface) -> Result<(), Error> {
        let asked = self.by(cpu, |vcpu| vcpu.ask(wanted));
        asked.unwrap_or(Err(Error::Absent))?;
        // The vCPU's items change when the interface takes effect.
        let end = self.now().saturating_add(PATIENCE);
        loop {
            let has = self
                .by(cpu, Vcpu::interface)
                .unwrap_or(Err(Error::Absent))?;
            let now = self.now();
            if is_rounded(&has, wanted) || now >= end {
                return Ok(());
            }
            let _ = time::sleep_until(now + LOOK);
        }
    }

    fn prepare(&mut self, cpu: usize) -> Result<(), String> {
        self.partitions.split(cpu)
    }

    fn give_back(&mut self, cpu: usize) {
        self.partitions.join(cpu);
    }

    fn is_last(&mut self, cpu: usize) -> bool {
        self.cpus > 1 && cpu == 0
    }

    fn schedule(&mut self, thread: &Thread, cpu: usize, times: &Times) -> Result<(), String> {
        let number = thread.number;
        self.partitions.enter(number, cpu)?;
        // Linux takes only threads that may be on all CPUs of their cpuset; a program may have bound itself.
        let is_deadline = thread::attributes(number).is_ok_and(|now| now.is_deadline());
        if !is_deadline {
            let bound = thread::set_affinity(number, &Cpus::one(cpu));
            bound.map_err(|error| {
                format!("thread {number} cannot be moved to CPU {cpu}: {error}")
            })?;
        }
        if !is_deadline {
            // A fork that is under way when its thread gets deadlines fails (EAGAIN), unless it has seen this before.
            let _ = thread::set_attributes(number, &Attributes::resetting());
            let _ = time::sleep_until(self.now() + FORK);
        }
        self.sleeping.retain(|(other, ..)| other != thread);
        match set(number, times) {
            // Linux looks at the CPU that the thread was on last. A sleeping one is moved when it wakes.
            Err(Errno::PERM) if proc::last_cpu(number) != Some(cpu) => {
                self.sleeping.push((*thread, cpu, *times));
                Ok(())
            }
            answer => answer.map_err(|error| why_not(number, times, error)),
        }
    }

    fn catch_up(&mut self) -> bool {
        let mut failed = Vec::new();
        self.sleeping.retain(|(thread, cpu, times)| {
            let answer = set(thread.number, times);
            let sleeps = answer == Err(Errno::PERM) && proc::last_cpu(thread.number) != Some(*cpu);
            if let (Err(error), false) = (answer, sleeps) {
                failed.push(why_not(thread.number, times, error));
            }
            sleeps
        });
        failed.iter().for_each(|reason| say(reason));
        !self.sleeping.is_empty()
    }

    fn release(&mut self, thread: &Thread) {
        self.sleeping.retain(|(other, ..)| other != thread);
        if self.thread(thread.number) == Some(*thread) {
            let _ = thread::set_attributes(thread.number, &Attributes::usual());
            self.partitions.leave(thread.number);
        }
    }

    fn thread(&mut self, number: i32) -> Option<Thread> {
        proc::thread(number)
    }

    fn used(&mut self, thread: &Thread) -> Option<u64> {
        proc::used(thread.number)
    }

    fn programs(&mut self, name: &str) -> Vec<i32> {
        proc::programs(name)
    }

    fn say(&mut self, text: &str) {
        say(text);
    }
}

/// Tells people, on the standard error.
pub fn say(text: &str) {
    let line = format!("hanok-agent: {text}\n");
    let _ = file::error_output().write(line.as_bytes());
}

fn set(number: i32, times: &Times) -> Result<(), Errno> {
    let attributes = Attributes::deadline(times.runtime, times.deadline, times.period);
    thread::set_attributes(number, &attributes)
}

/// Why Linux does not schedule the thread.
fn why_not(number: i32, times: &Times, error: Errno) -> String {
    let what = match error {
        Errno::BUSY => {
            "Linux admits no more: /proc/sys/kernel/sched_rt_runtime_us bounds the tasks of a CPU"
        }
        Errno::PERM => "it takes CAP_SYS_NICE, and an exclusive cpuset for each CPU",
        Errno::SRCH => "it is gone",
        Errno::INVAL | Errno::TOO_BIG => {
            "the times are not as Linux wants them: at least 1024 ns, periods from 100 us to 4.19 s"
        }
        _ => "Linux does not schedule it by its deadlines",
    };
    let Times {
        runtime, period, ..
    } = times;
    format!("thread {number}, {runtime} ns in {period} ns: {what} ({error})")
}

/// The path as system calls take it.
fn path(text: &str) -> CString {
    CString::new(text).unwrap_or_default()
}

/// The text of a small file.
fn text_of(name: &str) -> Result<String, Errno> {
    let mut space = [0; 1024];
    let bytes = file::read(&path(name), &mut space)?;
    Ok(String::from_utf8_lossy(bytes).to_string())
}

/// The number of this process.
fn own() -> i32 {
    process() as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By a counter of 62.5 MHz, whose tick is 16 ns: the budget is rounded up.
    #[test]
    fn an_interface_is_known_again_after_it_was_rounded() {
        let wanted = Interface::new(10_000_000, 1_001_000);
        assert!(is_rounded(&Interface::new(10_000_000, 1_001_008), &wanted));
        assert!(!is_rounded(&Interface::new(10_000_000, 1_000_000), &wanted));
        assert!(!is_rounded(&Interface::new(5_000_000, 1_001_000), &wanted));
    }
}
