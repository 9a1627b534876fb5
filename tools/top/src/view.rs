//! What a person sees of two reports: shares and rates in place of totals.

use serde::Serialize;

use crate::protocol::{Doing, Kind, Policy, Slack, VcpuId};
use crate::report::Report;
use crate::text::shown;

/// The rates of a core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoreView {
    /// The core.
    pub cpu: u32,
    /// Whether it has answered.
    pub answered: bool,
    /// Its policy.
    pub policy: Option<Policy>,
    /// Its use of slack.
    pub slack: Slack,
    /// The share that is promised.
    pub promised: f64,
    /// The share in which a vCPU ran.
    pub used: f64,
    /// The share that was used beyond budgets.
    pub extra: f64,
    /// The share in which nobody ran.
    pub idle: f64,
    /// Switches in a second.
    pub switches: f64,
    /// What a switch takes, in nanoseconds.
    pub switch_cost: u64,
    /// The share that switches take.
    pub switching: f64,
    /// Decisions in a second.
    pub decisions: f64,
}

/// Exits of a vCPU for one cause.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ExitView {
    /// The cause.
    pub cause: String,
    /// Their number.
    pub count: u64,
    /// Their number in a second.
    pub rate: f64,
    /// The instructions of each, where the CPU counts them.
    pub each: Option<u64>,
}

/// The rates of a vCPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VcpuView {
    /// Which it is.
    pub id: VcpuId,
    /// Its name.
    pub name: String,
    /// Its VM's name.
    pub vm_name: String,
    /// Its core.
    pub cpu: u32,
    /// Its group on that core.
    pub group: Option<u32>,
    /// What it does.
    pub doing: Doing,
    /// The kind of its promise.
    pub kind: Kind,
    /// The period in nanoseconds; 0 where there is none.
    pub period: u64,
    /// The budget in nanoseconds.
    pub budget: u64,
    /// The deadline in nanoseconds.
    pub deadline: u64,
    /// The weight, of a share by weight.
    pub weight: u64,
    /// The cap in percent; 0: none.
    pub cap: u64,
    /// The priority.
    pub priority: u64,
    /// What is left of the budget, in nanoseconds.
    pub left: u64,
    /// The share it may count on.
    pub promised: Option<f64>,
    /// The share that it had.
    pub used: f64,
    /// The part of it beyond its budget.
    pub extra: f64,
    /// The share that others took of its turns.
    pub stolen: f64,
    /// How often its promise was not kept.
    pub late: u64,
    /// The same, since the report before.
    pub late_now: u64,
    /// How often it was throttled.
    pub throttled: u64,
    /// The same in a second.
    pub throttled_rate: f64,
    /// Switches to it in a second.
    pub switches: f64,
    /// Exits in a second.
    pub exit_rate: f64,
    /// Its exits by cause, the most frequent first.
    pub exits: Vec<ExitView>,
}

/// A group of a core.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupView {
    /// The core.
    pub cpu: u32,
    /// Its index there.
    pub group: u32,
    /// The group around it.
    pub parent: Option<u32>,
    /// The kind of its promise.
    pub kind: Kind,
    /// The period in nanoseconds.
    pub period: u64,
    /// The budget in nanoseconds.
    pub budget: u64,
    /// The deadline in nanoseconds.
    pub deadline: u64,
    /// The share that it had.
    pub used: f64,
}

/// A board as a person sees it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct View {
    /// The board's time in nanoseconds.
    pub now: u64,
    /// The board's counter.
    pub ticks: u64,
    /// Ticks of the counter in a second.
    pub frequency: u64,
    /// The time between the two reports in nanoseconds; 0 with one alone.
    pub between: u64,
    /// All cores.
    pub cores: Vec<CoreView>,
    /// All groups.
    pub groups: Vec<GroupView>,
    /// All vCPUs.
    pub vcpus: Vec<VcpuView>,
    /// The number of vCPUs of which the board said nothing.
    pub missing: usize,
}

impl View {
    /// What `new` says, and what has changed since `old`. A report of another life of the board, whose
    /// counter or totals are smaller, is none to compare with.
    pub fn of(old: Option<&Report>, new: &Report) -> Self {
        let old = old.filter(|old| old.frequency == new.frequency && old.now < new.now);
        let between = old.map_or(0, |old| new.nanos(new.now - old.now));
        let pair = Pair { old, new };
        Self {
            now: new.nanos(new.now),
            ticks: new.now,
            frequency: new.frequency,
            between,
            cores: pair.cores(),
            groups: pair.groups(),
            vcpus: new.vcpus.keys().map(|id| pair.vcpu(*id)).collect(),
            missing: new.expected[1].saturating_sub(new.vcpus.len()),
        }
    }

    /// The vCPU `id`.
    pub fn vcpu(&self, id: VcpuId) -> Option<&VcpuView> {
        self.vcpus.iter().find(|vcpu| vcpu.id == id)
    }
}

/// Two reports, the earlier one where there is one.
struct Pair<'a> {
    old: Option<&'a Report>,
    new: &'a Report,
}

impl Pair<'_> {
    /// The ticks of a core between both, if it has answered both times.
    fn ticks(&self, cpu: u32) -> Option<u64> {
        let old = self.old?;
        let ticks = self.new.now_of(cpu).checked_sub(old.now_of(cpu))?;
        Some(ticks).filter(|ticks| *ticks > 0)
    }

    /// The part of a core's time that a total of ticks has grown by.
    fn share(&self, cpu: u32, old: Option<u64>, new: u64) -> f64 {
        let grown = old.map_or(0, |old| new.saturating_sub(old));
        self.ticks(cpu)
            .map_or(0.0, |ticks| (grown as f64 / ticks as f64).min(9.99))
    }

    /// By how much a total has grown in a second.
    fn rate(&self, cpu: u32, old: Option<u64>, new: u64) -> f64 {
        let grown = old.map_or(0, |old| new.saturating_sub(old));
        let per = self.new.frequency as f64;
        self.ticks(cpu)
            .map_or(0.0, |ticks| grown as f64 * per / ticks as f64)
    }

    fn cores(&self) -> Vec<CoreView> {
        // A core that has not answered, and that others name, has a row, too.
        let count = u32::try_from(self.new.expected[0].min(256)).unwrap_or(0);
        let mut all: Vec<u32> = (0..count).chain(self.new.cores.keys().copied()).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(|cpu| self.core(cpu)).collect()
    }

    fn core(&self, cpu: u32) -> CoreView {
        let new = self.new.cores.get(&cpu);
        let old = self.old.and_then(|old| old.cores.get(&cpu));
        let rate = |of: fn(&crate::protocol::CoreLine) -> u64| {
            new.map_or(0.0, |new| self.rate(cpu, old.map(of), of(new)))
        };
        let idle = new.map_or(0.0, |new| {
            self.share(cpu, old.map(|old| old.idle), new.idle).min(1.0)
        });
        let switching = new.map_or(0.0, |new| {
            let old = old.map(|old| old.switch_ticks);
            self.share(cpu, old, new.switch_ticks).min(1.0)
        });
        let known = new.is_some() && self.ticks(cpu).is_some();
        let cost = new.map_or(0, |new| {
            let [ticks, number] = [
                new.switch_ticks - old.map_or(0, |old| old.switch_ticks).min(new.switch_ticks),
                new.switches - old.map_or(0, |old| old.switches).min(new.switches),
            ];
            self.new.nanos(ticks.checked_div(number).unwrap_or(0))
        });
        let vcpus = self.new.vcpus.values().filter(|vcpu| vcpu.cpu == cpu);
        let extra = vcpus.map(|vcpu| {
            let old = self.old.and_then(|old| old.vcpus.get(&vcpu.id));
            self.share(cpu, old.map(|old| old.extra), vcpu.extra)
        });
        CoreView {
            cpu,
            answered: new.is_some(),
            policy: new.map(|new| new.policy),
            slack: new.map_or(Slack::None, |new| new.slack),
            promised: self.new.promised(cpu).min(99.0),
            used: if known { 1.0 - idle } else { 0.0 },
            extra: extra.sum::<f64>().min(1.0),
            idle,
            switches: rate(|core| core.switches),
            switch_cost: cost,
            switching,
            decisions: rate(|core| core.decisions),
        }
    }

    fn groups(&self) -> Vec<GroupView> {
        let of = |group: &crate::protocol::GroupLine| {
            let key = (group.cpu, group.group);
            let old = self.old.and_then(|old| old.groups.get(&key));
            GroupView {
                cpu: group.cpu,
                group: group.group,
                parent: group.parent,
                kind: group.promise.kind,
                period: self.new.nanos(group.promise.period),
                budget: self.new.nanos(group.promise.budget),
                deadline: self.new.nanos(group.promise.deadline),
                used: self.share(group.cpu, old.map(|old| old.used), group.used),
            }
        };
        self.new.groups.values().map(of).collect()
    }

    fn vcpu(&self, id: VcpuId) -> VcpuView {
        let new = &self.new.vcpus[&id];
        let old = self.old.and_then(|old| old.vcpus.get(&id));
        let (cpu, promise) = (new.cpu, new.promise);
        let is_server = promise.kind.is_server();
        let nanos = |ticks| if is_server { self.new.nanos(ticks) } else { 0 };
        let weight = |value| {
            if promise.kind == Kind::Credit {
                value
            } else {
                0
            }
        };
        let exits = self.exits(id, cpu);
        VcpuView {
            id,
            name: shown(&self.new.name(id)),
            vm_name: shown(&self.new.vm_name(id.vm)),
            cpu,
            group: new.group,
            doing: new.doing,
            kind: promise.kind,
            period: nanos(promise.period),
            budget: nanos(promise.budget),
            deadline: nanos(promise.deadline),
            weight: weight(promise.period),
            cap: weight(promise.budget),
            priority: promise.priority,
            left: nanos(new.left),
            promised: self.new.share(new).map(|share| share.min(99.0)),
            used: self.share(cpu, old.map(|old| old.used), new.used),
            extra: self.share(cpu, old.map(|old| old.extra), new.extra),
            stolen: self.share(cpu, old.map(|old| old.stolen), new.stolen),
            late: new.late,
            late_now: old.map_or(0, |old| new.late.saturating_sub(old.late)),
            throttled: new.throttled,
            throttled_rate: self.rate(cpu, old.map(|old| old.throttled), new.throttled),
            switches: self.rate(cpu, old.map(|old| old.switches), new.switches),
            exit_rate: exits.iter().map(|exit| exit.rate).sum(),
            exits,
        }
    }

    fn exits(&self, id: VcpuId, cpu: u32) -> Vec<ExitView> {
        let before = self.old.and_then(|old| old.exits.get(&id));
        let of = |line: &crate::protocol::ExitsLine| {
            let mut old = before.into_iter().flatten();
            let old = old.find(|old| old.cause == line.cause);
            // A cause that has not occurred before has no line there.
            let old = self.old.map(|_| old.map_or(0, |old| old.count));
            ExitView {
                cause: shown(&line.cause),
                count: line.count,
                rate: self.rate(cpu, old, line.count),
                each: line
                    .instructions
                    .checked_div(line.count)
                    .filter(|each| *each > 0),
            }
        };
        let lines = self.new.exits.get(&id);
        let mut exits: Vec<_> = lines.into_iter().flatten().map(of).collect();
        exits.sort_by(|a, b| b.rate.total_cmp(&a.rate).then(b.count.cmp(&a.count)));
        exits
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{Heard, parse};

    fn report(lines: &str) -> Report {
        let mut report = Report::default();
        for line in lines.lines() {
            if let Some(Heard::Item(_, item)) = parse(&format!("{} 1", line.trim())) {
                report.add(item);
            }
        }
        report
    }

    #[test]
    fn totals_become_shares_and_rates() {
        let old = report(
            "board 1000000 1000000 2 1
             core 0 deadline share 1000000 500000 100 1000 50
             vcpu 0 0 0 - runs periodic 10000 4000 10000 0 0 300000 100 5 0 50 10
             exits 0 0 timer 100 1000",
        );
        let new = report(
            "board 1000000 2000000 2 1
             vm 0 a<b>
             core 0 deadline share 2000000 700000 300 3000 250
             vcpu 0 0 0 - runs periodic 10000 4000 10000 0 0 800000 100100 6 2 150 10
             exits 0 0 timer 300 5000
             exits 0 0 device 50 0",
        );
        let view = View::of(Some(&old), &new);
        let core = &view.cores[0];
        assert!((core.used - 0.8).abs() < 1e-9 && (core.idle - 0.2).abs() < 1e-9);
        assert!((core.extra - 0.1).abs() < 1e-9 && (core.promised - 0.4).abs() < 1e-9);
        assert_eq!((core.switches, core.switch_cost), (200.0, 10_000));
        assert!(!view.cores[1].answered);
        let vcpu = &view.vcpus[0];
        assert!((vcpu.used - 0.5).abs() < 1e-9 && (vcpu.extra - 0.1).abs() < 1e-9);
        assert_eq!((vcpu.late, vcpu.late_now, vcpu.throttled), (2, 2, 6));
        assert_eq!((vcpu.name.as_str(), vcpu.period), ("a<b>", 10_000_000));
        assert_eq!(vcpu.exits[0].cause, "timer");
        assert_eq!((vcpu.exits[0].rate, vcpu.exits[0].each), (200.0, Some(16)));
        assert_eq!((vcpu.exits[1].rate, vcpu.exits[1].each), (50.0, None));
    }

    #[test]
    fn a_board_that_began_anew_or_lies_is_compared_with_nothing() {
        let most = "vcpu 0 0 0 - runs periodic 1 18446744073709551615 1 0 0 \
                    18446744073709551615 18446744073709551615 0 0 0 0";
        let core = "core 0 deadline share 18446744073709551615 18446744073709551615 5 5 5";
        let huge = report(&format!("board 1 18446744073709551615 1 1\n{core}\n{most}"));
        let small = report(
            "board 1 5 1 1\ncore 0 turns - 5 0 0 0 0\nvcpu 0 0 0 - off turn 0 0 0 0 0 0 0 0 0 0 0",
        );
        for (old, new) in [(&huge, &small), (&small, &huge), (&huge, &huge)] {
            let view = View::of(Some(old), new);
            let vcpu = &view.vcpus[0];
            for share in [
                vcpu.used,
                vcpu.extra,
                view.cores[0].idle,
                view.cores[0].promised,
            ] {
                assert!((0.0..=99.0).contains(&share), "{share}");
            }
        }
        assert_eq!(View::of(Some(&huge), &small).between, 0);
    }
}
