//! The hypervisor's longest paths with interrupts masked, and what follows from them for a VM: how late its interrupt
//! can be at the most.
//!
//! The list is data (`paths.toml`). The steps `bounds-*` of `hanok test` count every exit of their runs and hold each
//! against its path; an exit that is longer than its path says fails. [`latency`] adds paths up by the rule that
//! docs/scheduling.md states. Its steps `latency-*` measure beside hostile VMs, and fail where more was measured
//! than was added up.

#![forbid(unsafe_code)]

pub mod latency;
pub mod table;

use anyhow::{Context, Result, ensure};
use hanok_system::{Architecture, Backend, Description};
use hanok_types::GicVersion;
use serde::Deserialize;

/// The kind of machine on which a path was counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Machine {
    /// 64 bit, with a GICv3; at most [`FEW`] vCPUs a core.
    Gicv3,
    /// The same with more, up to 64 vCPUs or VMs.
    Crowd,
    /// 64 bit, with a GICv2.
    Gicv2,
    /// 32 bit with virtualization extensions.
    Arm,
    /// 64 bit, a core of a global pool.
    Pool,
}

/// The largest number of a core's vCPUs for which [`Machine::Gicv3`] stands: what the steps have that count.
pub const FEW: usize = 16;

impl Machine {
    /// All of them, in the order of the list's columns.
    pub const ALL: [Self; 5] = [Self::Gicv3, Self::Crowd, Self::Gicv2, Self::Arm, Self::Pool];

    /// Its column's heading.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gicv3 => "GICv3",
            Self::Crowd => "64 vCPUs",
            Self::Gicv2 => "GICv2",
            Self::Arm => "32 bit",
            Self::Pool => "pool",
        }
    }

    /// The machine of a system's core with so many vCPUs; `None` where nothing was counted: without virtualization
    /// extensions.
    pub fn of(system: &Description, vcpus: usize) -> Option<Self> {
        if system.backend == Backend::Deprivileged {
            return None;
        }
        Some(match (system.board.architecture(), system.board.gic) {
            (Architecture::Arm, _) => Self::Arm,
            (Architecture::Arm64, GicVersion::V2) => Self::Gicv2,
            (Architecture::Arm64, GicVersion::V3) if vcpus > FEW => Self::Crowd,
            (Architecture::Arm64, GicVersion::V3) => Self::Gicv3,
        })
    }
}

/// Who can cause a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum By {
    /// Any guest.
    Guest,
    /// A person at the prompt, or a program at the other end of the line.
    Person,
}

/// The most instructions of a path that were counted, by machine; 0 where no step takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Most {
    gicv3: u64,
    crowd: u64,
    gicv2: u64,
    arm: u64,
    pool: u64,
}

/// A path: what happens between two instants at which interrupts are taken.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct LongPath {
    /// Its name, by which the steps know it.
    pub name: String,
    /// What it is.
    pub what: String,
    /// What keeps it from being longer.
    pub bounded_by: String,
    /// Who causes it.
    pub by: By,
    most: Most,
}

impl LongPath {
    /// The most instructions on a machine; 0 where no step takes it there.
    pub const fn most(&self, machine: Machine) -> u64 {
        match machine {
            Machine::Gicv3 => self.most.gicv3,
            Machine::Crowd => self.most.crowd,
            Machine::Gicv2 => self.most.gicv2,
            Machine::Arm => self.most.arm,
            Machine::Pool => self.most.pool,
        }
    }
}

/// The list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct List {
    /// The paths.
    #[serde(rename = "path")]
    pub paths: Vec<LongPath>,
}

impl List {
    /// The list of this tree.
    ///
    /// # Errors
    /// It is not valid.
    pub fn own() -> Result<Self> {
        Self::parse(include_str!("../paths.toml")).context("tools/paths/paths.toml")
    }

    fn parse(text: &str) -> Result<Self> {
        let list: Self = toml::from_str(text)?;
        for (at, path) in list.paths.iter().enumerate() {
            let twice = list.paths.iter().take(at);
            ensure!(
                twice.clone().all(|other| other.name != path.name),
                "{} is there twice",
                path.name
            );
        }
        Ok(list)
    }

    /// The path with this name.
    ///
    /// # Errors
    /// There is none.
    pub fn path(&self, name: &str) -> Result<&LongPath> {
        let mut paths = self.paths.iter();
        paths
            .find(|path| path.name == name)
            .with_context(|| format!("no path is called {name}"))
    }

    /// What a switch between vCPUs with budgets takes at most, in nanoseconds at [`latency::SPEED`].
    ///
    /// # Errors
    /// The list lacks the path.
    pub fn switch(&self, machine: Machine) -> Result<u64> {
        let own = self.path("own")?.most(machine);
        Ok(latency::nanos(own, latency::SPEED))
    }

    /// The longest path that `by` can cause on a machine.
    pub fn longest(&self, machine: Machine, by: By) -> u64 {
        let paths = self.paths.iter().filter(|path| path.by == by);
        paths.map(|path| path.most(machine)).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_whole() {
        let list = List::own().unwrap();
        for name in latency::PATHS {
            let path = list.path(name).unwrap();
            for machine in Machine::ALL {
                assert!(path.most(machine) > 0, "{name}: {machine:?}");
            }
        }
    }

    #[test]
    fn a_list_that_contradicts_itself_is_refused() {
        let one = "[[path]]\nname = \"a\"\nwhat = \"b\"\nbounded-by = \"c\"\nby = \"guest\"\nmost = { arm = 7 }\n";
        let list = List::parse(one).unwrap();
        assert_eq!(list.longest(Machine::Arm, By::Guest), 7);
        assert_eq!(list.longest(Machine::Arm, By::Person), 0);
        assert!(List::parse(&format!("{one}{one}")).is_err());
        assert!(List::parse(&one.replace("arm", "leg")).is_err());
        assert!(list.path("b").is_err());
    }
}
