//! One report of a board, put together of its lines.

use std::collections::BTreeMap;

use crate::protocol::{CoreLine, ExitsLine, GroupLine, Item, Kind, RanLine, VcpuId, VcpuLine};

/// The most lines of a kind that are kept of one report, however many a board sends.
const MOST: usize = 4096;
/// The most turns of a core in a report.
const MOST_RAN: usize = 64;

/// What is known of a board at one time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Ticks of the counter in a second.
    pub frequency: u64,
    /// The counter when the report began.
    pub now: u64,
    /// The number of cores and of vCPUs that the board has.
    pub expected: [usize; 2],
    /// The VMs' names.
    pub vms: BTreeMap<u32, String>,
    /// The cores that have answered.
    pub cores: BTreeMap<u32, CoreLine>,
    /// The groups, by core and index.
    pub groups: BTreeMap<(u32, u32), GroupLine>,
    /// The vCPUs.
    pub vcpus: BTreeMap<VcpuId, VcpuLine>,
    /// The exits of each vCPU by cause.
    pub exits: BTreeMap<VcpuId, Vec<ExitsLine>>,
    /// The latest turns of each core.
    pub ran: BTreeMap<u32, Vec<RanLine>>,
    /// Whether all has been asked for.
    pub ended: bool,
}

impl Report {
    /// Adds a line.
    pub fn add(&mut self, item: Item) {
        match item {
            Item::Board {
                frequency,
                now,
                cores,
                vcpus,
            } => {
                (self.frequency, self.now) = (frequency, now);
                self.expected = [cores as usize, vcpus as usize];
            }
            Item::Vm(vm, name) if self.vms.len() < MOST => {
                self.vms.insert(vm, name);
            }
            Item::Core(core) if self.cores.len() < MOST => {
                self.cores.insert(core.cpu, core);
            }
            Item::Group(group) if self.groups.len() < MOST => {
                self.groups.insert((group.cpu, group.group), group);
            }
            Item::Vcpu(vcpu) if self.vcpus.len() < MOST => {
                self.vcpus.insert(vcpu.id, vcpu);
            }
            Item::Exits(exits) if self.exits.len() < MOST => {
                let all = self.exits.entry(exits.id).or_default();
                all.retain(|other| other.cause != exits.cause);
                if all.len() < MOST_RAN {
                    all.push(exits);
                }
            }
            Item::Ran(ran) if self.ran.len() < MOST => {
                let all = self.ran.entry(ran.cpu).or_default();
                if all.len() < MOST_RAN {
                    all.push(ran);
                }
            }
            Item::End => self.ended = true,
            _ => {}
        }
    }

    /// Whether the board has begun this report.
    pub fn has_begun(&self) -> bool {
        self.frequency > 0
    }

    /// Whether everything that the board has is there.
    pub fn is_complete(&self) -> bool {
        let [cores, vcpus] = self.expected;
        self.has_begun() && self.ended && self.cores.len() >= cores && self.vcpus.len() >= vcpus
    }

    /// Ticks in nanoseconds, as many as fit.
    pub fn nanos(&self, ticks: u64) -> u64 {
        let nanos = u128::from(ticks) * 1_000_000_000 / u128::from(self.frequency.max(1));
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    /// The name of a VM, as the board says it, or a number in its place.
    pub fn vm_name(&self, vm: u32) -> String {
        let name = self.vms.get(&vm).filter(|name| !name.is_empty());
        name.cloned().unwrap_or_else(|| format!("VM {vm}"))
    }

    /// The name of a vCPU, with its number where its VM has several.
    pub fn name(&self, id: VcpuId) -> String {
        let others = self.vcpus.keys().filter(|other| other.vm == id.vm);
        let name = self.vm_name(id.vm);
        if others.count() > 1 || id.vcpu > 0 {
            format!("{name}.{}", id.vcpu)
        } else {
            name
        }
    }

    /// The counter when a core answered, or when the report began.
    pub fn now_of(&self, cpu: u32) -> u64 {
        self.cores.get(&cpu).map_or(self.now, |core| core.now)
    }

    /// The share of a core that its servers are promised together: of groups, and of vCPUs in none.
    pub fn promised(&self, cpu: u32) -> f64 {
        let groups = self.groups.values();
        let groups = groups
            .filter(|group| group.cpu == cpu && group.parent.is_none())
            .map(|group| group.promise);
        let vcpus = self.vcpus.values();
        let vcpus = vcpus
            .filter(|vcpu| vcpu.cpu == cpu && vcpu.group.is_none())
            .map(|vcpu| vcpu.promise);
        let all = groups
            .chain(vcpus)
            .filter(|promise| promise.kind.is_server());
        all.filter(|promise| promise.period > 0)
            .map(|promise| promise.budget as f64 / promise.period as f64)
            .sum()
    }

    /// The share of its core that a vCPU may count on: by its promise, or by its weight of what others
    /// are not promised.
    pub fn share(&self, vcpu: &VcpuLine) -> Option<f64> {
        let promise = vcpu.promise;
        match promise.kind {
            Kind::Turn => None,
            Kind::Credit => {
                let others = self
                    .vcpus
                    .values()
                    .filter(|other| other.cpu == vcpu.cpu && other.promise.kind == Kind::Credit);
                let weights: f64 = others.map(|other| other.promise.period.max(1) as f64).sum();
                let free = (1.0 - self.promised(vcpu.cpu)).max(0.0);
                let share = promise.period.max(1) as f64 / weights.max(1.0) * free;
                Some(match promise.budget {
                    0 => share,
                    cap => share.min(cap as f64 / 100.0),
                })
            }
            _ if promise.period == 0 => None,
            _ => Some(promise.budget as f64 / promise.period as f64),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Heard, parse};

    fn of(lines: &[&str]) -> Report {
        let mut report = Report::default();
        for line in lines {
            let Some(Heard::Item(_, item)) = parse(line) else {
                panic!("{line}");
            };
            report.add(item);
        }
        report
    }

    #[test]
    fn a_report_is_complete_once_all_cores_have_answered() {
        let mut report = of(&["board 1000 5 1 1 1", "core 0 turns - 5 1 1 1 1 1", "end 1"]);
        assert!(!report.is_complete());
        let vcpu = parse("vcpu 0 0 0 - runs periodic 10 5 10 0 0 1 0 0 0 0 0 1");
        let Some(Heard::Item(_, item)) = vcpu else {
            panic!("no vCPU");
        };
        report.add(item);
        assert!(report.is_complete());
        assert_eq!(report.nanos(u64::MAX), u64::MAX);
        assert_eq!(report.nanos(5), 5_000_000);
    }

    #[test]
    fn shares_are_of_promises_and_of_weights() {
        let report = of(&[
            "board 1000 5 1 4 1",
            "group 0 0 - periodic 10 4 10 0 0 0 1",
            "vcpu 0 0 0 0 runs periodic 10 3 10 0 0 1 0 0 0 0 0 1",
            "vcpu 1 0 0 - runs periodic 0 3 10 0 0 1 0 0 0 0 0 1",
            "vcpu 2 0 0 - runs credit 256 0 0 0 0 1 0 0 0 0 0 1",
            "vcpu 2 1 0 - runs credit 768 20 0 0 0 1 0 0 0 0 0 1",
        ]);
        assert!((report.promised(0) - 0.4).abs() < 1e-9);
        let share = |vm, vcpu| report.share(&report.vcpus[&VcpuId { vm, vcpu }]);
        assert_eq!(share(0, 0), Some(0.3));
        assert_eq!(share(1, 0), None, "a period of zero is none");
        assert!((share(2, 0).unwrap() - 0.15).abs() < 1e-9);
        assert_eq!(share(2, 1), Some(0.2));
        assert_eq!(report.name(VcpuId { vm: 2, vcpu: 0 }), "VM 2.0");
        assert_eq!(report.name(VcpuId { vm: 0, vcpu: 0 }), "VM 0");
    }
}
