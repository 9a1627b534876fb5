//! A description's schedule with the interfaces that the board has now.

use std::collections::BTreeMap;

use hanok_system::Schedule;
use hanok_task_model::{
    Component, ComponentId, CoreId, Home, Mode, Model, Nanos, Plan, Policy, Pool, PoolId, Priority,
    ResourceInterface,
};

use super::server;
use crate::change::{Change, Promised};
use crate::protocol::{self, Promise, VcpuId};
use crate::report::Report;
use crate::text::shown;

/// A schedule, and the component of each vCPU.
#[derive(Clone)]
pub(super) struct Live {
    pub(super) schedule: Schedule,
    pub(super) notes: Vec<String>,
    components: BTreeMap<VcpuId, ComponentId>,
    /// The vCPUs whose VM is one component on several CPUs.
    together: Vec<VcpuId>,
}

impl Live {
    pub(super) fn new(description: Option<&Schedule>, report: &Report) -> Self {
        match description {
            Some(description) => described(description, report),
            None => undescribed(report),
        }
    }

    /// Gives a vCPU another interface. The error says why that cannot be analysed.
    pub(super) fn set(&mut self, change: Change) -> Result<(), String> {
        let Promised::Interface {
            period,
            budget,
            deadline,
        } = change.to
        else {
            return Err("a share by weight is not analysed".to_owned());
        };
        if self.together.contains(&change.id) {
            return Err(
                "Not analysed: the description has all vCPUs of this VM as one component, whose \
                 budget is that of all together."
                    .to_owned(),
            );
        }
        let component = self.components.get(&change.id);
        let component =
            component.and_then(|id| self.schedule.model.components.get_mut(id.0 as usize));
        let Some(component) = component else {
            return Err(
                "Not analysed: the description promises this VM nothing, so that none of its tasks is \
                 known."
                    .to_owned(),
            );
        };
        let [period, budget, deadline] = [period, budget, deadline].map(Nanos::new);
        component.plan = Plan::Given(ResourceInterface {
            period,
            budget,
            deadline,
        });
        refine(&mut self.schedule.model);
        Ok(())
    }
}

/// The description with the board's interfaces.
fn described(description: &Schedule, report: &Report) -> Live {
    let mut live = Live {
        schedule: description.clone(),
        notes: Vec::new(),
        components: BTreeMap::new(),
        together: Vec::new(),
    };
    let tick = description.model.tick.get();
    let mut turns = Vec::new();
    for (id, vcpu) in &report.vcpus {
        let name = report.vm_name(id.vm);
        let model = &mut live.schedule.model;
        let own = model
            .find(&format!("{name}.{}", id.vcpu))
            .or_else(|| model.find(&name));
        let Some(own) = own else { continue };
        let Some(component) = model.components.get_mut(own.0 as usize) else {
            continue;
        };
        let Some(kind) = server(vcpu.promise.kind) else {
            turns.push(shown(&report.name(*id)));
            continue;
        };
        if component.cpus > 1 {
            live.together.push(*id);
            continue;
        }
        component.plan = Plan::Given(interface(report, vcpu.promise, tick));
        component.server = kind;
        let home = component.home;
        live.components.insert(*id, own);
        // The board's group of this vCPU is the description's group of this VM.
        let group = vcpu
            .group
            .and_then(|group| report.groups.get(&(vcpu.cpu, group)));
        if let (Home::Component(around), Some(group)) = (home, group)
            && let Some(component) = live.schedule.model.components.get_mut(around.0 as usize)
        {
            component.plan = Plan::Given(interface(report, group.promise, tick));
        }
    }
    if !turns.is_empty() {
        live.notes.push(format!(
            "The board gives no budget to {}: what is said of their deadlines is of the description, \
             which is not enforced there.",
            turns.join(", ")
        ));
    }
    refine(&mut live.schedule.model);
    live
}

/// The board's interfaces alone.
fn undescribed(report: &Report) -> Live {
    let mut model = Model::new(Nanos::new(1), Vec::new());
    let mut pools = BTreeMap::new();
    for core in report.cores.values() {
        let Ok(number) = u8::try_from(core.cpu) else {
            continue;
        };
        pools.insert(core.cpu, PoolId(model.pools.len() as u32));
        model.pools.push(Pool {
            name: format!("core {number}"),
            cores: vec![CoreId(number)],
            mode: Mode::Partitioned,
            policy: match core.policy {
                protocol::Policy::Priority => Policy::FixedPriority,
                protocol::Policy::Turns | protocol::Policy::Deadline => Policy::Edf,
            },
        });
    }
    let mut groups = BTreeMap::new();
    for (key, group) in &report.groups {
        let around = group.parent.and_then(|parent| groups.get(&(key.0, parent)));
        let around = around.map(|around| Home::Component(*around));
        let home = around.or_else(|| pools.get(&key.0).map(|pool| Home::Pool(*pool)));
        let (Some(home), Some(kind)) = (home, server(group.promise.kind)) else {
            continue;
        };
        let name = format!("group {} of core {}", key.1, key.0);
        let component = component(report, name, home, group.promise, kind);
        groups.insert(*key, model.add(component));
    }
    let mut components = BTreeMap::new();
    for (id, vcpu) in &report.vcpus {
        let around = vcpu.group.and_then(|group| groups.get(&(vcpu.cpu, group)));
        let around = around.map(|around| Home::Component(*around));
        let home = around.or_else(|| pools.get(&vcpu.cpu).map(|pool| Home::Pool(*pool)));
        let (Some(home), Some(kind)) = (home, server(vcpu.promise.kind)) else {
            continue;
        };
        let mut name = shown(&report.name(*id));
        if model.find(&name).is_some() {
            name = format!("{name} ({}.{})", id.vm, id.vcpu);
        }
        let component = component(report, name, home, vcpu.promise, kind);
        components.insert(*id, model.add(component));
    }
    Live {
        schedule: Schedule::of_model(model),
        notes: vec![
            "No description is known: the budgets are analysed, and no task's deadline.".to_owned(),
        ],
        components,
        together: Vec::new(),
    }
}

fn component(
    report: &Report,
    name: String,
    home: Home,
    promise: Promise,
    kind: hanok_task_model::Server,
) -> Component {
    let plan = Plan::Given(interface(report, promise, 1));
    let mut component = Component::new(name, home, plan);
    component.server = kind;
    let priority = u32::try_from(promise.priority).unwrap_or(u32::MAX);
    component.priority = Some(Priority(priority));
    component
}

/// The interface that the board has, in nanoseconds. The board has rounded the description's times to
/// ticks of its counter: a multiple of the description's tick that is less than one of the counter's
/// away is what was meant.
fn interface(report: &Report, promise: Promise, tick: u64) -> ResourceInterface {
    let of = |ticks| {
        let nanos = report.nanos(ticks).min(Nanos::MAX.get());
        let tick = tick.max(1);
        let near = nanos.saturating_add(tick / 2) / tick * tick;
        let counter = 1_000_000_000_u64.div_ceil(report.frequency.max(1));
        Nanos::new(if near.abs_diff(nanos) <= counter {
            near
        } else {
            nanos
        })
    };
    ResourceInterface {
        period: of(promise.period),
        budget: of(promise.budget),
        deadline: of(promise.deadline),
    }
}

/// Makes the model's tick so small that all interfaces are multiples of it.
fn refine(model: &mut Model) {
    let tick = model.tick;
    let whole = model
        .components
        .iter()
        .all(|component| match component.plan {
            Plan::Given(given) => [given.period, given.budget, given.deadline]
                .iter()
                .all(|time| tick.is_zero() || time.is_whole(tick)),
            Plan::Find { .. } | Plan::Longest { .. } => true,
        });
    if !whole {
        model.tick = Nanos::new(1);
    }
}
