//! A schedule as it was written, before the rules are applied.

use crate::diagnostic::{Report, Words};
use crate::table::{self, At, Reader};
use hanok_config::Ask;
use hanok_sched::Slack;
use hanok_task_model::{Mode, Policy, Server, Window};
use std::ops::Range;
use toml::de::DeValue;

const A_POLICY: &str = "\"edf\", \"rm\", \"dm\" or \"fixed\"";
const A_MODE: &str = "\"partitioned\" or \"global\"";
const A_WINDOW: &str = "\"period\", \"budget\" or \"longest\"";
const A_SERVER: &str =
    "\"periodic\", \"polling\", \"deferrable\", \"bandwidth\" or \"soft-bandwidth\"";
const A_PERIOD: &str =
    "a time such as \"10ms\", or the shortest and the longest, such as [\"1ms\", \"20ms\"]";
const A_TRUTH: &str = "true or false";
const A_SLACK: &str = "\"idle\", \"share\" or \"reclaim\"";
const A_WEIGHT: &str = "a number from 1 to 65535";
const A_CAP: &str = "a share of a core in whole percent, such as \"40 %\"";
const AN_ASK: &str = "a share of a core, such as \"40 %\" or \"12.5 %\"";
/// The parts of a percent in which [`table::percent`] counts.
const PERCENT: u64 = 1000;
/// The shortest period that may be asked for, where the description says none.
const SHORTEST: u64 = 1_000_000;
const A_NAME: &str = "a name";
const A_PRIORITY: &str = "a number from 0, the highest";
const CORES: &str = "a list of core numbers";

/// `[schedule]`.
pub(crate) struct Whole {
    pub(crate) span: Range<usize>,
    pub(crate) tick: Option<At<u64>>,
    pub(crate) switch: Option<At<u64>>,
    pub(crate) refill: Option<At<u64>>,
    pub(crate) enforce: Option<At<bool>>,
    pub(crate) slack: Option<At<Slack>>,
    pub(crate) pools: Vec<PoolDraft>,
    pub(crate) groups: Vec<Group>,
}

/// `[[schedule.pool]]`.
pub(crate) struct PoolDraft {
    pub(crate) span: Range<usize>,
    pub(crate) name: Option<At<String>>,
    pub(crate) cores: Option<At<Vec<u64>>>,
    pub(crate) mode: Option<Mode>,
    pub(crate) policy: Option<Policy>,
}

/// `[[schedule.group]]`: a component that is no VM.
pub(crate) struct Group {
    pub(crate) name: Option<At<String>>,
    pub(crate) placed: Placed,
}

/// The keys that groups and VMs have in common: `[vm.schedule]` has only these.
pub(crate) struct Placed {
    pub(crate) pool: Option<At<String>>,
    pub(crate) group: Option<At<String>>,
    pub(crate) core: Option<At<u64>>,
    pub(crate) policy: Option<Policy>,
    pub(crate) server: Option<Server>,
    pub(crate) period: Option<At<PeriodDraft>>,
    pub(crate) budget: Option<At<u64>>,
    pub(crate) deadline: Option<At<u64>>,
    pub(crate) window: Option<At<Window>>,
    pub(crate) priority: Option<At<u64>>,
    pub(crate) tasks: Vec<TaskDraft>,
}

/// `[vm.share]`: what a VM without a promise has of what is left.
pub(crate) struct ShareDraft {
    pub(crate) span: Range<usize>,
    pub(crate) weight: Option<u16>,
    /// In percent.
    pub(crate) cap: Option<u8>,
}

/// One period, or the ends of a range.
#[derive(Clone, Copy)]
pub(crate) enum PeriodDraft {
    One(u64),
    Range(u64, u64),
}

/// A task.
pub(crate) struct TaskDraft {
    pub(crate) span: Range<usize>,
    pub(crate) name: Option<At<String>>,
    pub(crate) vcpu: Option<At<u64>>,
    pub(crate) period: Option<At<u64>>,
    pub(crate) execution: Option<At<u64>>,
    pub(crate) deadline: Option<At<u64>>,
    pub(crate) offset: Option<At<u64>>,
    pub(crate) jitter: Option<At<u64>>,
    pub(crate) priority: Option<At<u64>>,
}

impl Whole {
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        Self {
            span: reader.span.clone(),
            tick: reader.get(report, "tick", table::NANOS, table::nanos),
            switch: reader.get(report, "switch", table::NANOS, table::nanos),
            refill: reader.get(report, "refill", table::NANOS, table::nanos),
            enforce: reader.get(report, "enforce", A_TRUTH, table::truth),
            slack: reader.get(report, "slack", A_SLACK, slack),
            pools: reader
                .tables(report, "pool", PoolDraft::read)
                .unwrap_or_default(),
            groups: reader
                .tables(report, "group", Group::read)
                .unwrap_or_default(),
        }
    }
}

impl Whole {
    /// The cores that it names.
    pub(crate) fn named_cores(&self) -> impl Iterator<Item = u64> {
        let of_pools = self.pools.iter().filter_map(|pool| pool.cores.as_ref());
        let of_groups = self
            .groups
            .iter()
            .filter_map(|group| group.placed.core.as_ref());
        let of_pools = of_pools.flat_map(|at| at.value.iter().copied());
        of_pools.chain(of_groups.map(|at| at.value))
    }
}

impl PoolDraft {
    fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        Self {
            span: reader.span.clone(),
            name: reader.require(report, "name", A_NAME, table::word),
            cores: reader.require(report, "cores", CORES, |value| {
                table::list(value, table::number)
            }),
            mode: reader.get(report, "mode", A_MODE, mode).map(|at| at.value),
            policy: policy(reader, report),
        }
    }
}

impl Group {
    fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        Self {
            name: reader.require(report, "name", A_NAME, table::word),
            placed: Placed::read(reader, report),
        }
    }
}

impl Placed {
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        Self {
            pool: reader.get(report, "pool", A_NAME, table::word),
            group: reader.get(report, "group", A_NAME, table::word),
            core: reader.get(report, "core", "a core number", table::number),
            policy: policy(reader, report),
            server: reader
                .get(report, "server", A_SERVER, server)
                .map(|at| at.value),
            period: reader.require(report, "period", A_PERIOD, period),
            budget: reader.get(report, "budget", table::NANOS, table::nanos),
            deadline: reader.get(report, "deadline", table::NANOS, table::nanos),
            window: reader.get(report, "window", A_WINDOW, window),
            priority: reader.get(report, "priority", A_PRIORITY, table::number),
            tasks: reader
                .tables(report, "task", TaskDraft::read)
                .unwrap_or_default(),
        }
    }
}

impl ShareDraft {
    pub(crate) fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        let weight = reader.get(report, "weight", A_WEIGHT, |value| {
            table::number(value)
                .and_then(|weight| u16::try_from(weight).ok())
                .filter(|weight| *weight > 0)
        });
        let cap = reader.get(report, "cap", A_CAP, |value| {
            table::percent(value).filter(|cap| cap.is_multiple_of(PERCENT))
        });
        Self {
            span: reader.span.clone(),
            weight: weight.map(|at| at.value),
            cap: cap.map(|at| (at.value / PERCENT) as u8),
        }
    }
}

/// What the vCPUs of a VM may ask for at run time, which its `[vm.schedule]` says.
pub(crate) fn ask(reader: &mut Reader<'_, '_>, report: &mut Report) -> Option<Ask> {
    let limit = reader.get(report, "ask", AN_ASK, table::percent);
    let shortest = reader.get(report, "ask-period", table::NANOS, table::nanos);
    match (limit, shortest) {
        (Some(limit), shortest) => Some(Ask {
            // Parts of 65,536, rounded down.
            limit: (limit.value * 65_536 / (100 * PERCENT)) as u32,
            shortest: shortest.map_or(SHORTEST, |at| at.value),
        }),
        (None, Some(shortest)) => {
            let why = "a VM whose vCPUs may ask says for how much";
            let words = Words::new(
                "`ask-period` without `ask`",
                why,
                "write `ask`, such as \"40 %\"",
            );
            report.refuse(&shortest.span, words);
            None
        }
        (None, None) => None,
    }
}

impl TaskDraft {
    fn read(reader: &mut Reader<'_, '_>, report: &mut Report) -> Self {
        Self {
            span: reader.span.clone(),
            name: reader.require(report, "name", A_NAME, table::word),
            vcpu: reader.get(report, "vcpu", "a vCPU number", table::number),
            period: reader.require(report, "period", table::NANOS, table::nanos),
            execution: reader.require(report, "execution", table::NANOS, table::nanos),
            deadline: reader.get(report, "deadline", table::NANOS, table::nanos),
            offset: reader.get(report, "offset", table::NANOS, table::nanos),
            jitter: reader.get(report, "jitter", table::NANOS, table::nanos),
            priority: reader.get(report, "priority", A_PRIORITY, table::number),
        }
    }
}

fn slack(value: &DeValue<'_>) -> Option<Slack> {
    match table::text(value)?.as_str() {
        "idle" => Some(Slack::Idle),
        "share" => Some(Slack::Share),
        "reclaim" => Some(Slack::Reclaim),
        _ => None,
    }
}

fn policy(reader: &mut Reader<'_, '_>, report: &mut Report) -> Option<Policy> {
    let form = |value: &DeValue<'_>| match table::text(value)?.as_str() {
        "edf" => Some(Policy::Edf),
        "rm" => Some(Policy::RateMonotonic),
        "dm" => Some(Policy::DeadlineMonotonic),
        "fixed" => Some(Policy::FixedPriority),
        _ => None,
    };
    let found = reader.get(report, "policy", A_POLICY, form);
    found.map(|at| at.value)
}

fn mode(value: &DeValue<'_>) -> Option<Mode> {
    match table::text(value)?.as_str() {
        "partitioned" => Some(Mode::Partitioned),
        "global" => Some(Mode::Global),
        _ => None,
    }
}

fn server(value: &DeValue<'_>) -> Option<Server> {
    match table::text(value)?.as_str() {
        "periodic" => Some(Server::Periodic),
        "polling" => Some(Server::Polling),
        "deferrable" => Some(Server::Deferrable),
        "bandwidth" => Some(Server::ConstantBandwidth),
        "soft-bandwidth" => Some(Server::SoftBandwidth),
        _ => None,
    }
}

fn window(value: &DeValue<'_>) -> Option<Window> {
    match table::text(value)?.as_str() {
        "period" => Some(Window::Period),
        "budget" => Some(Window::Budget),
        "longest" => Some(Window::Longest),
        _ => None,
    }
}

fn period(value: &DeValue<'_>) -> Option<PeriodDraft> {
    if let Some(one) = table::nanos(value) {
        return Some(PeriodDraft::One(one));
    }
    match table::list(value, table::nanos)?.as_slice() {
        [least, most] => Some(PeriodDraft::Range(*least, *most)),
        _ => None,
    }
}
