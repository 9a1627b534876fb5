//! How late an interrupt of a vCPU with a promise can be, from the instant at which it is due to the vCPU's next
//! instruction, in instructions of the hypervisor and of the vCPUs that go before it; and how late the release of a task in
//! it ([`releases`]).
//!
//! The rules are stated in docs/scheduling.md, and each term here has its words there.

mod turns;

pub use turns::{InTurns, Spent, in_turns};

use crate::{By, List, LongPath, Machine};
use anyhow::Result;
use hanok_config::{Claim, CorePolicy, Promise, Terms};
use hanok_sched::{Kind, Order};
use hanok_system::{Description, Vm};
use hanok_types::CpuId;

/// The paths that the rule adds up.
pub const PATHS: [&str; 4] = ["own", "look", "life", "interrupt"];

/// The instructions that a CPU executes in a microsecond if nobody says how many: one in each nanosecond, as QEMU
/// does where time is a count of instructions.
pub const SPEED: u64 = 1_000;

/// The time between two bytes of the serial line in nanoseconds, at 115,200 bits a second and ten bits a byte. Each may
/// interrupt in either direction.
const BYTE_NS: u64 = 86_805;
/// How often a VM's devices may interrupt others' turns in one period, and that period in nanoseconds
/// (`hanok_vm::Interruptions`). Two periods may meet in one interval.
const INTERRUPTIONS: u64 = 16;
const RESTRAINT_NS: u64 = 7_812_500;
/// vCPUs of a VM of which each may be told something by the exit of another one (`AT_ONCE` in `core/vm`). Where there are
/// more, one tells the others in the turn of whoever shares its core.
const TOLD: usize = 8;
/// How often a vCPU that is told something and does not wake is looked at in one period (`hanok_vm::Checks`), whose
/// length is [`RESTRAINT_NS`].
const CHECKS: u64 = 4;
/// Requests that kick the core of a vCPU that is awake and does not run: one about interrupts, one about timers.
const TOLD_AWAKE: u64 = 2;
/// The most bytes of a VM's memory that one instruction makes for its next boot: a line.
const MADE: u64 = 64;
/// vCPUs whose interrupts are looked at in one round (`hanok_pcpu`'s `ROUND`).
const A_ROUND: u64 = 2;
/// Budgets that are replenished in one piece (`hanok_pcpu`'s `AT_ONCE`).
const REPLENISHED: u64 = 8;
/// A bound of more than this is none.
const LONGEST_NS: u64 = 10_000_000_000;

/// A vCPU, and the bound of its latency.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Latency {
    /// The vCPU's name: that of its VM, with its number where there are several.
    pub name: String,
    /// Its core.
    pub core: usize,
    /// The bound, or why there is none.
    pub bound: Result<Bound, String>,
}

/// A bound in instructions, by its parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bound {
    /// What began just before, with interrupts masked.
    pub blocked: u64,
    /// The interrupt itself, the decision, and the switch.
    pub own: u64,
    /// Wakes of others and budgets that begin at the same moment.
    pub wakes: u64,
    /// Others' boots and ends.
    pub lives: u64,
    /// Interrupts of the serial line, and of others' devices; what other VMs' vCPUs on other cores cause.
    pub devices: u64,
    /// vCPUs that go before it.
    pub ahead: u64,
    /// The wait for a new budget: of a server that spends its budget while it sleeps, and for a release of all that may
    /// have used their budgets up.
    pub budget: u64,
    /// By how much a person at the prompt, or a program that reads reports, makes it longer.
    pub person: u64,
}

impl Bound {
    /// The bound without a person.
    pub const fn total(&self) -> u64 {
        self.blocked + self.own + self.wakes + self.lives + self.devices + self.ahead + self.budget
    }
}

/// `instructions` in whole nanoseconds, rounded up, of a CPU that executes `speed` of them in a microsecond.
pub const fn nanos(instructions: u64, speed: u64) -> u64 {
    instructions.saturating_mul(1_000).div_ceil(speed)
}

/// The bounds of all vCPUs with promises. The CPU executes `speed` instructions in a microsecond, at least one.
///
/// # Errors
/// The list lacks a path.
pub fn of(list: &List, system: &Description, speed: u64) -> Result<Vec<Latency>> {
    each(list, system, speed, Awaited::Interrupt)
}

/// How late the tasks in each vCPU with a promise can be released, if all promises of the core are proven to be kept:
/// the longest time without supply, and what the hypervisor's paths add to it. The guest's own kernel comes on top.
///
/// # Errors
/// The list lacks a path.
pub fn releases(list: &List, system: &Description, speed: u64) -> Result<Vec<Latency>> {
    each(list, system, speed, Awaited::Release)
}

/// What two switches cost by the description, and what the paths of a wake come to, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Twice `switch` and `refill`.
    pub given: u64,
    /// An interrupt with the switch to who wakes, a kick more, the switch back and a look in between.
    pub paths: u64,
}

impl Wake {
    /// Of the core of `system` that has the most vCPUs, at so many instructions in a microsecond; `None` where no path is
    /// counted on such a board.
    ///
    /// # Errors
    /// The list lacks a path.
    pub fn of(list: &List, system: &Description, speed: u64) -> Result<Option<Self>> {
        let cores = system.vms.iter().flat_map(|vm| &vm.config.cpus);
        let mut vcpus = std::collections::BTreeMap::new();
        for core in cores {
            *vcpus.entry(core.index()).or_insert(0) += 1;
        }
        let most = vcpus.into_values().max().unwrap_or(0);
        let Some(machine) = Machine::of(system, most) else {
            return Ok(None);
        };
        let (own, look) = (list.path("own")?, list.path("look")?);
        Ok(Some(Self {
            given: system.switch_cost.into(),
            paths: nanos(3 * own.most(machine) + look.most(machine), speed),
        }))
    }
}

/// What a bound is asked of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    /// An interrupt of a vCPU that sleeps and has budget left.
    Interrupt,
    /// An interrupt of a vCPU whatever it does.
    Release,
}

fn each(list: &List, system: &Description, speed: u64, awaited: Awaited) -> Result<Vec<Latency>> {
    let each = all_asked(system, speed).map(|(name, asked)| {
        let bound = match asked.promise.claim {
            _ if asked.moves() => Err("its vCPU moves among the cores of a global pool".to_owned()),
            Claim::Promise { group: 0, .. } => asked.bound(list, awaited)?,
            _ => Err("its group's budget may be spent by others in the group".to_owned()),
        };
        Ok(Latency {
            name,
            core: asked.core.index(),
            bound,
        })
    });
    each.collect()
}

/// All vCPUs with promises, with their names.
fn all_asked(system: &Description, speed: u64) -> impl Iterator<Item = (String, Asked<'_>)> {
    system.promises.iter().filter_map(move |promise| {
        let Claim::Promise { terms, .. } = promise.claim else {
            return None;
        };
        let vm = system.vms.get(promise.vm.index())?;
        let core = *vm.config.cpus.get(promise.vcpu.index())?;
        let name = match vm.config.cpus.len() {
            1 => vm.name().to_owned(),
            _ => format!("{}.{}", vm.name(), promise.vcpu),
        };
        let asked = Asked {
            system,
            vm,
            promise,
            terms,
            core,
            speed,
        };
        Some((name, asked))
    })
}

/// A vCPU that is asked about.
struct Asked<'a> {
    system: &'a Description,
    vm: &'a Vm,
    promise: &'a Promise,
    terms: Terms,
    core: CpuId,
    speed: u64,
}

/// Work that comes at most so often.
struct Source {
    /// Nanoseconds between two instants at which it may begin, and by how much the first may be nearer.
    period: u64,
    jitter: u64,
    /// Instructions each time.
    cost: u64,
}

impl Source {
    /// The most within so many nanoseconds.
    fn within(&self, nanos: u64) -> u64 {
        let times = (nanos.saturating_add(self.jitter)).div_ceil(self.period.max(1));
        times.max(1).saturating_mul(self.cost)
    }
}

impl Asked<'_> {
    fn bound(&self, list: &List, awaited: Awaited) -> Result<Result<Bound, String>> {
        let (own_vcpus, others) = self.vcpus_here();
        let Some(machine) = Machine::of(self.system, own_vcpus + others) else {
            return Ok(Err("no path is counted on such a board".to_owned()));
        };
        let path = |name| list.path(name).map(|path: &LongPath| path.most(machine));
        let [own, look, life, interrupt] = PATHS.map(path);
        let (own, look, life, interrupt) = (own?, look?, life?, interrupt?);
        if let Some(why) = self.untold() {
            return Ok(Err(why));
        }
        let here = (own_vcpus + others) as u64;
        let servers = here + self.groups_here();
        let blocked = list.longest(machine, By::Guest);
        let wait = match awaited {
            Awaited::Interrupt => Some(self.wait()),
            Awaited::Release => self.gap(),
        };
        let Some(wait) = wait else {
            return Ok(Err("nothing is promised by such a server".to_owned()));
        };
        let fixed = Bound {
            blocked,
            own,
            wakes: look * (here.div_ceil(A_ROUND) + servers.div_ceil(REPLENISHED)),
            lives: life * (others as u64 + self.vms_here()),
            budget: wait.saturating_mul(self.speed).div_ceil(1_000),
            ..Bound::default()
        };
        let ahead = self.ahead(2 * own + look + blocked, awaited);
        let mut devices = self.devices(interrupt);
        devices.extend(self.caused_by_other_cores(look, life));
        let mut bound = fixed;
        loop {
            let within = nanos(bound.total(), self.speed);
            if within > LONGEST_NS {
                return Ok(Err(
                    "those that go before it may leave it no time".to_owned()
                ));
            }
            let sum = |sources: &[Source]| -> u64 {
                let each = sources.iter().map(|source| source.within(within));
                each.fold(0, u64::saturating_add)
            };
            let next = Bound {
                ahead: sum(&ahead),
                devices: sum(&devices),
                ..fixed
            };
            if next == bound {
                break;
            }
            bound = next;
        }
        bound.person = list.longest(machine, By::Person).saturating_sub(blocked);
        Ok(Ok(bound))
    }

    /// How many vCPUs of its own VM, and how many of others, are on its core.
    fn vcpus_here(&self) -> (usize, usize) {
        let here = |vm: &Vm| {
            vm.config
                .cpus
                .iter()
                .filter(|cpu| **cpu == self.core)
                .count()
        };
        let all: usize = self.system.vms.iter().map(here).sum();
        (here(self.vm), all - here(self.vm))
    }

    /// Whether the core is one of a global pool, among whose cores vCPUs move.
    fn moves(&self) -> bool {
        matches!(self.policy(), Some(CorePolicy::Global { .. }))
    }

    /// The policy of its core.
    fn policy(&self) -> Option<&CorePolicy> {
        self.system.policies.as_ref()?.get(self.core.index())
    }

    /// Whether servers of its core that are in no group go by priorities.
    fn by_priority(&self) -> bool {
        matches!(
            self.policy(),
            Some(CorePolicy::Servers {
                order: Order::Priority,
                ..
            })
        )
    }

    /// Other VMs with vCPUs on its core and elsewhere.
    fn spread(&self) -> impl Iterator<Item = &Vm> {
        let others = self.others_here();
        others.filter(|vm| vm.config.cpus.iter().any(|cpu| *cpu != self.core))
    }

    /// Why what other cores cause here has no bound, if that is so.
    fn untold(&self) -> Option<String> {
        let other = self.spread().find(|vm| vm.config.cpus.len() > TOLD)?;
        Some(format!(
            "\"{}\" has vCPUs here and on another core, and more than {TOLD}: what one tells the others of them is not \
             limited",
            other.name()
        ))
    }

    /// What vCPUs on other cores cause here: requests to their siblings here beyond the one that wakes each, and ends of
    /// their VM, between two of which its memory is made anew.
    fn caused_by_other_cores(&self, look: u64, life: u64) -> Vec<Source> {
        let caused = self.spread().flat_map(|vm| {
            let cpus = vm.config.cpus.iter();
            let here = cpus.filter(|cpu| **cpu == self.core).count() as u64;
            let awake = Source {
                period: LONGEST_NS,
                jitter: 0,
                cost: here * TOLD_AWAKE * look,
            };
            let asleep = Source {
                period: RESTRAINT_NS,
                jitter: RESTRAINT_NS,
                cost: here * CHECKS * look,
            };
            let ends = Source {
                period: nanos(vm.memory() / MADE, self.speed),
                jitter: 0,
                cost: here * 2 * life,
            };
            [awake, asleep, ends]
        });
        caused.collect()
    }

    fn others_here(&self) -> impl Iterator<Item = &Vm> {
        let others = self.system.vms.iter();
        let others = others.filter(|vm| !std::ptr::eq(*vm, self.vm));
        others.filter(|vm| vm.config.cpus.contains(&self.core))
    }

    fn vms_here(&self) -> u64 {
        self.others_here().count() as u64
    }

    fn groups_here(&self) -> u64 {
        let groups = self.system.groups.iter();
        groups.filter(|group| group.cpu == self.core).count() as u64
    }

    /// How long a new budget may be away, in nanoseconds, if the old one was spent in sleep: a periodic server spends it
    /// from its period's start on, and a polling one loses it at once. Others keep it.
    fn wait(&self) -> u64 {
        let Terms {
            kind,
            period,
            budget,
            ..
        } = self.terms;
        match kind {
            Kind::Periodic => period - budget.min(period),
            Kind::Polling => period,
            _ => 0,
        }
    }

    /// The longest time without supply, in nanoseconds: a budget is given as early as it can be, and the next one as late;
    /// a polling server may have lost one. A server that pays for its switches has so much less, and may have paid all of
    /// the current budget for wakes. `None` of a server that promises no time.
    fn gap(&self) -> Option<u64> {
        let Terms {
            kind,
            period,
            budget,
            deadline,
            ..
        } = self.terms;
        let gap = (period + deadline).saturating_sub(2 * budget);
        let paid = u64::from(self.system.switch_cost);
        match kind {
            Kind::Polling => Some(gap + budget),
            Kind::Deferrable | Kind::ConstantBandwidth if paid > 0 => {
                Some(gap + budget + paid.min(budget))
            }
            Kind::Periodic | Kind::Deferrable | Kind::ConstantBandwidth => Some(gap),
            Kind::SoftBandwidth | Kind::Task => None,
        }
    }

    /// The vCPUs and groups beside it that may go before it: under EDF all, by priorities those with no larger number.
    /// Each costs `switches` instructions in each of its periods beyond its budget. The budgets themselves are in
    /// the time without supply, for a release.
    fn ahead(&self, switches: u64, awaited: Awaited) -> Vec<Source> {
        let vcpus = self.system.promises.iter().filter_map(|promise| {
            let vm = self.system.vms.get(promise.vm.index())?;
            let here = vm.config.cpus.get(promise.vcpu.index()) == Some(&self.core);
            match promise.claim {
                Claim::Promise {
                    group: 0, terms, ..
                } if here && promise != self.promise => Some(terms),
                _ => None,
            }
        });
        let groups = self.system.groups.iter();
        let groups = groups.filter(|group| group.cpu == self.core && group.home == 0);
        let all = vcpus.chain(groups.map(|group| group.terms));
        let by_priority = self.by_priority();
        let before = all.filter(|terms| !by_priority || terms.priority <= self.terms.priority);
        before
            .map(|terms| Source {
                period: terms.period,
                jitter: terms.period - terms.budget.min(terms.period),
                cost: switches
                    + match awaited {
                        Awaited::Interrupt => {
                            terms.budget.saturating_mul(self.speed).div_ceil(1_000)
                        }
                        Awaited::Release => 0,
                    },
            })
            .collect()
    }

    /// The serial line, both ways, and the devices of other VMs.
    fn devices(&self, interrupt: u64) -> Vec<Source> {
        let line = |_| Source {
            period: BYTE_NS,
            jitter: 0,
            cost: interrupt,
        };
        let mut all = self.given_devices(interrupt);
        all.extend((0..2).map(line));
        all
    }

    /// The devices of other VMs whose interrupts come here.
    fn given_devices(&self, interrupt: u64) -> Vec<Source> {
        let others = self.others_here();
        let given = others
            .filter(|vm| !vm.devices.is_empty() && vm.config.cpus.first() == Some(&self.core));
        let given = given.map(|_| Source {
            period: RESTRAINT_NS,
            jitter: RESTRAINT_NS,
            cost: INTERRUPTIONS * interrupt,
        });
        given.collect()
    }
}

#[cfg(test)]
mod tests;
