//! CPUs on which threads are scheduled by their deadlines alone.
//!
//! Linux schedules SCHED_DEADLINE globally: any such thread may be on all CPUs of its root domain, and one that is bound
//! to fewer is refused (EPERM). An analysis of one vCPU needs threads that stay there. So a CPU that gets tasks becomes
//! a root domain of its own: a cgroup (version 2) with this CPU alone, whose `cpuset.cpus.partition` is `root`. The
//! kernel takes the CPU from all other programs, which stay on the CPUs that are left. CPU 0 is left to them for as
//! long as it can be: if all others are split off, it is alone, and a root domain of its own as well.
//!
//! With one CPU there is nothing to split.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use super::{own, path, text_of};
use hanok_syscalls::thread::{Cpus, set_affinity};
use hanok_syscalls::{Errno, file};

/// Where cgroups are.
const ROOT: &str = "/sys/fs/cgroup";

/// The CPUs that are split off.
#[derive(Debug)]
pub struct Partitions {
    split: Vec<bool>,
    /// Where this program may be when it is nowhere special.
    home: Cpus,
}

impl Partitions {
    /// A machine with so many CPUs. Those that a former agent has split off are so still.
    pub fn new(cpus: usize) -> Self {
        let is_split = |cpu| {
            let says = text_of(&format!("{ROOT}/hanok-cpu{cpu}/cpuset.cpus.partition"));
            says.is_ok_and(|says| says.trim() == "root")
        };
        Self {
            split: (0..cpus).map(is_split).collect(),
            home: Cpus::first(cpus),
        }
    }

    fn is_split(&self, cpu: usize) -> bool {
        self.split.get(cpu).copied().unwrap_or(false)
    }

    /// The folder of a CPU's cgroup.
    fn folder(&self, cpu: usize) -> String {
        if self.is_split(cpu) {
            format!("{ROOT}/hanok-cpu{cpu}")
        } else {
            ROOT.to_string()
        }
    }

    /// Makes a CPU a root domain of its own.
    pub fn split(&mut self, cpu: usize) -> Result<(), String> {
        if self.split.len() == 1 || self.is_split(cpu) {
            return Ok(());
        }
        if cpu == 0 {
            return self.rest_is_one();
        }
        if text_of(&format!("{ROOT}/cgroup.controllers")).is_err() {
            return Err(format!(
                "cgroups of version 2 are needed at {ROOT}, as this VM has several vCPUs: mount -t cgroup2 none {ROOT}"
            ));
        }
        let write = |name: String, text: &str| {
            let written = file::write(&path(&name), text.as_bytes());
            written.map_err(|error| format!("{name} could not be set to {text}: {error}"))
        };
        write(format!("{ROOT}/cgroup.subtree_control"), "+cpuset")?;
        let folder = format!("{ROOT}/hanok-cpu{cpu}");
        match file::make_folder(&path(&folder)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(format!("{folder} could not be made: {error}")),
        }
        // Threads can be moved one by one.
        write(format!("{folder}/cgroup.type"), "threaded")?;
        write(format!("{folder}/cpuset.cpus"), &format!("{cpu}"))?;
        write(format!("{folder}/cpuset.cpus.partition"), "root")?;
        let partition = format!("{folder}/cpuset.cpus.partition");
        let says = text_of(&partition).unwrap_or_default();
        if says.trim() != "root" {
            return Err(format!(
                "CPU {cpu} could not be split off: {partition} says {}",
                says.trim()
            ));
        }
        if let Some(split) = self.split.get_mut(cpu) {
            *split = true;
        }
        Ok(())
    }

    /// Whether the CPU that is left is alone.
    fn rest_is_one(&self) -> Result<(), String> {
        if self.split.iter().skip(1).all(|split| *split) {
            return Ok(());
        }
        Err("CPU 0 is left to the rest of Linux until all other CPUs have tasks".to_string())
    }

    /// Gives a CPU back to all programs.
    pub fn join(&mut self, cpu: usize) {
        if self.is_split(cpu) {
            let partition = path(&format!("{}/cpuset.cpus.partition", self.folder(cpu)));
            if file::write(&partition, b"member").is_ok()
                && let Some(split) = self.split.get_mut(cpu)
            {
                *split = false;
            }
        }
    }

    /// Moves a thread to a CPU's root domain.
    pub fn enter(&self, number: i32, cpu: usize) -> Result<(), String> {
        if !self.is_split(cpu) {
            return Ok(());
        }
        let threads = format!("{}/cgroup.threads", self.folder(cpu));
        let moved = file::write(&path(&threads), format!("{number}").as_bytes());
        moved.map_err(|error| format!("thread {number} could not be moved to {threads}: {error}"))
    }

    /// Moves a thread back to where it may be on all CPUs that are left.
    pub fn leave(&self, number: i32) {
        if self.split.len() > 1 {
            let threads = path(&format!("{ROOT}/cgroup.threads"));
            let _ = file::write(&threads, format!("{number}").as_bytes());
            let _ = set_affinity(number, &self.home);
        }
    }

    /// Brings this program to a CPU.
    pub fn visit(&self, cpu: usize) -> Result<(), Errno> {
        if self.is_split(cpu) {
            let threads = path(&format!("{}/cgroup.threads", self.folder(cpu)));
            file::write(&threads, format!("{}", own()).as_bytes())?;
        }
        set_affinity(0, &Cpus::one(cpu))
    }

    /// Brings it back.
    pub fn go_home(&self) {
        self.leave(own());
    }
}
