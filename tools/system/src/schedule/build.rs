//! Builds the model from a schedule as it was written.

use super::draft::{Group, PeriodDraft, Placed, PoolDraft, TaskDraft, Whole};
use super::model::{Marks, Schedule};
use super::words;
use crate::board::Cores;
use crate::diagnostic::{Report, Words, nearest};
use crate::draft::Draft;
use crate::table::At;
use hanok_task_model::{
    Component, ComponentId, CoreId, Home, Mode, Model, Nanos, Periods, Plan, Pool, PoolId,
    Priority, ResourceInterface, Subject, SwitchCost, Task, Window,
};
use std::collections::BTreeMap;
use std::ops::Range;

/// The name of the pool that exists where none is described.
const ALL_CORES: &str = "cores";

/// Where the parts of the model are in the file.
#[derive(Default)]
pub(super) struct Spans {
    pub(super) pools: Vec<Range<usize>>,
    pub(super) components: Vec<Range<usize>>,
    pub(super) tasks: Vec<Range<usize>>,
}

/// A component that waits until the others are known.
struct Waiting<'a> {
    placed: &'a Placed,
    ids: Vec<ComponentId>,
    /// The core on which a VM's description puts its only vCPU.
    core: Option<At<CoreId>>,
}

/// The schedule of a description; `None` where it has none, or a wrong one, about which the report
/// then has diagnostics.
pub(crate) fn build(
    report: &mut Report,
    whole: Option<&Whole>,
    drafts: &[Draft],
    cores: Cores,
) -> Option<Schedule> {
    let any_vm = drafts.iter().any(|draft| draft.schedule.is_some());
    if whole.is_none_or(|whole| whole.groups.is_empty()) && !any_vm {
        return None;
    }
    let mut spans = Spans::default();
    let tick = whole.and_then(|whole| whole.tick.as_ref());
    let tick = Nanos::new(tick.map_or(1_000, |tick| tick.value));
    let mut model = Model::new(tick, pools(report, whole, cores, &mut spans));
    model.cost = cost(whole);
    let mut waiting = Vec::new();
    for group in whole.into_iter().flat_map(|whole| &whole.groups) {
        waiting.extend(of_group(report, group, &mut model, &mut spans));
    }
    for draft in drafts {
        if let Some(placed) = &draft.schedule {
            waiting.extend(of_vm(report, draft, placed, &mut model, &mut spans));
        }
    }
    let mut inside = Vec::new();
    let names: BTreeMap<String, ComponentId> = model
        .ids()
        .map(|(id, component)| (component.name.clone(), id))
        .collect();
    for one in waiting {
        for id in one.ids.iter().copied() {
            let core = model.component(id).and_then(|component| component.core);
            let home = home(report, one.placed, core, (&model, &names));
            let everywhere = runs_everywhere(model.pools.as_slice(), home, core);
            let component = model.components.get_mut(id.0 as usize);
            if let (Some(home), Some(component)) = (home, component) {
                component.home = home;
                if everywhere && one.placed.core.is_none() {
                    component.core = None;
                }
            }
        }
        if let (Some(core), [id]) = (one.core, one.ids.as_slice()) {
            inside.push((*id, core));
        }
    }
    for (id, core) in inside {
        pin(report, &mut model, id, &core);
    }
    // The model would only say again that what was not read is missing.
    if !report.found.is_empty() {
        return None;
    }
    let everything = whole.map_or(0..0, |whole| whole.span.clone());
    refuse(report, &model, &spans, &everything)?;
    Some(Schedule {
        path: report.path.clone(),
        marks: spans.marks(report),
        model,
    })
}

impl Spans {
    pub(super) fn marks(&self, report: &Report) -> Marks {
        let marks = |spans: &[Range<usize>]| spans.iter().map(|span| report.mark(span)).collect();
        Marks {
            pools: marks(&self.pools),
            components: marks(&self.components),
            tasks: marks(&self.tasks),
        }
    }
}

/// Applies the rules of the model, and notes each fault at its line.
pub(super) fn refuse(
    report: &mut Report,
    model: &Model,
    spans: &Spans,
    everything: &Range<usize>,
) -> Option<()> {
    let Err(faults) = model.validate() else {
        return Some(());
    };
    for error in faults {
        let span = match &error.subject {
            Subject::Model => None,
            Subject::Pool(id, _) => spans.pools.get(id.0 as usize),
            Subject::Component(id, _) => spans.components.get(id.0 as usize),
            Subject::Task(id, _, _) => spans.tasks.get(id.0 as usize),
        };
        let (why, remedy) = words::of(error.fault);
        let words = Words::new(error.to_string(), why, remedy);
        report.refuse(span.unwrap_or(everything), words);
    }
    None
}

fn cost(whole: Option<&Whole>) -> SwitchCost {
    let time = |of: fn(&Whole) -> &Option<At<u64>>| {
        let found = whole.and_then(|whole| of(whole).as_ref());
        Nanos::new(found.map_or(0, |at| at.value))
    };
    SwitchCost {
        switch: time(|whole| &whole.switch),
        refill: time(|whole| &whole.refill),
    }
}

fn pools(report: &mut Report, whole: Option<&Whole>, cores: Cores, spans: &mut Spans) -> Vec<Pool> {
    let drafts = whole.map_or(&[][..], |whole| &whole.pools);
    if drafts.is_empty() {
        spans.pools.push(0..0);
        let all = (0..cores.count).map(|core| CoreId(core as u8));
        return vec![Pool::new(ALL_CORES, all)];
    }
    let pool = |draft: &PoolDraft| {
        spans.pools.push(draft.span.clone());
        let name = draft.name.as_ref().map(|at| at.value.clone());
        let mut pool = Pool::new(name.unwrap_or_default(), []);
        pool.cores = draft
            .cores
            .iter()
            .flat_map(|at| core_ids(report, at, cores))
            .collect();
        pool.mode = draft.mode.unwrap_or_default();
        pool.policy = draft.policy.unwrap_or_default();
        pool
    };
    drafts.iter().map(pool).collect()
}

fn core_ids(report: &mut Report, named: &At<Vec<u64>>, cores: Cores) -> Vec<CoreId> {
    if let Some(core) = named.value.iter().find(|core| **core >= cores.count) {
        report.refuse(&named.span, words::no_core(*core, cores));
    }
    let ids = named.value.iter().filter(|core| **core < cores.count);
    ids.map(|core| CoreId(*core as u8)).collect()
}

fn of_group<'a>(
    report: &mut Report,
    group: &'a Group,
    model: &mut Model,
    spans: &mut Spans,
) -> Option<Waiting<'a>> {
    let name = group.name.as_ref()?;
    let mut component = component(report, name.value.clone(), &group.placed)?;
    component.core = wish(report, &group.placed, model);
    let id = model.add(component);
    spans.components.push(name.span.clone());
    for task in &group.placed.tasks {
        if let Some(vcpu) = &task.vcpu {
            let what = "`vcpu` in a task of a group";
            let why = "a group has one CPU; VMs have vCPUs";
            report.refuse(&vcpu.span, Words::new(what, why, "remove it"));
        }
        add_task(task, id, model, spans);
    }
    let ids = vec![id];
    Some(Waiting {
        placed: &group.placed,
        ids,
        core: None,
    })
}

fn of_vm<'a>(
    report: &mut Report,
    draft: &Draft,
    placed: &'a Placed,
    model: &mut Model,
    spans: &mut Spans,
) -> Option<Waiting<'a>> {
    let name = draft.name.as_ref()?;
    let named = draft.cpus.as_ref().map(|at| at.value.as_slice());
    let vcpus = match (named, &draft.vcpus) {
        (Some(cpus), _) => cpus.len() as u64,
        (None, vcpus) => vcpus.as_ref().map_or(1, |at| at.value),
    };
    for vcpu in placed.tasks.iter().filter_map(|task| task.vcpu.as_ref()) {
        has_vcpu(report, vcpu, vcpus);
    }
    let pinned = placed.tasks.iter().any(|task| task.vcpu.is_some());
    let ids = if vcpus > 1 && pinned {
        each_vcpu(report, (name, placed), (vcpus, named), model, spans)?
    } else {
        Vec::from([one_vm(
            report,
            (name, placed),
            (vcpus, named),
            model,
            spans,
        )?])
    };
    let core = match (&draft.cpus, &placed.group) {
        (Some(At { value, span }), Some(_)) if value.len() == 1 => {
            let core = value.first().and_then(|core| u8::try_from(*core).ok());
            core.map(|core| At {
                value: CoreId(core),
                span: span.clone(),
            })
        }
        _ => None,
    };
    Some(Waiting { placed, ids, core })
}

/// A VM as one component.
fn one_vm(
    report: &mut Report,
    (name, placed): (&At<String>, &Placed),
    (vcpus, named): (u64, Option<&[u64]>),
    model: &mut Model,
    spans: &mut Spans,
) -> Option<ComponentId> {
    let mut one = component(report, name.value.clone(), placed)?;
    one.cpus = u32::try_from(vcpus).unwrap_or(u32::MAX);
    one.core = match named {
        Some([_]) if placed.group.is_some() => None,
        Some([core]) => u8::try_from(*core).ok().map(CoreId),
        _ => wish(report, placed, model),
    };
    let id = model.add(one);
    spans.components.push(name.span.clone());
    for task in &placed.tasks {
        add_task(task, id, model, spans);
    }
    Some(id)
}

/// A VM as a component for each vCPU that has tasks or a budget.
fn each_vcpu(
    report: &mut Report,
    (name, placed): (&At<String>, &Placed),
    (vcpus, named): (u64, Option<&[u64]>),
    model: &mut Model,
    spans: &mut Spans,
) -> Option<Vec<ComponentId>> {
    let mut ids = Vec::new();
    // A VM with too many vCPUs is refused elsewhere.
    for vcpu in 0..vcpus.min(u8::MAX.into()) {
        let own = |task: &&TaskDraft| task.vcpu.as_ref().is_some_and(|at| at.value == vcpu);
        if placed.budget.is_none() && !placed.tasks.iter().any(|task| own(&task)) {
            continue;
        }
        let mut one = component(report, format!("{}.{vcpu}", name.value), placed)?;
        let core = named.and_then(|cores| cores.get(vcpu as usize));
        one.core = core.and_then(|core| u8::try_from(*core).ok()).map(CoreId);
        let id = model.add(one);
        spans.components.push(name.span.clone());
        for task in placed.tasks.iter().filter(own) {
            add_task(task, id, model, spans);
        }
        ids.push(id);
    }
    for task in placed.tasks.iter().filter(|task| task.vcpu.is_none()) {
        let what = "a task without `vcpu` beside tasks with one";
        let why = "where tasks name vCPUs, each vCPU has tasks of its own";
        let remedy = "give it a `vcpu`, or take it from all";
        report.refuse(&task.span, Words::new(what, why, remedy));
    }
    Some(ids)
}

/// Refuses a vCPU that the VM does not have.
fn has_vcpu(report: &mut Report, named: &At<u64>, vcpus: u64) {
    if named.value >= vcpus {
        let what = format!("the VM has no vCPU {}", named.value);
        let why = format!("it has {vcpus}, counted from 0");
        report.refuse(&named.span, Words::new(what, why, "name one of them"));
    }
}

/// Whether `core`, which a VM's description names, belongs to a pool whose vCPUs run on any of its
/// cores: then the core is ignored.
fn runs_everywhere(pools: &[Pool], home: Option<Home>, core: Option<CoreId>) -> bool {
    let Some(Home::Pool(id)) = home else {
        return false;
    };
    let pool = pools.get(id.0 as usize);
    let pool = pool.filter(|pool| pool.mode == Mode::Global);
    core.is_some_and(|core| pool.is_some_and(|pool| pool.cores.contains(&core)))
}

/// A VM in a group is on the group's core, and so the outermost group is on the VM's core.
fn pin(report: &mut Report, model: &mut Model, id: ComponentId, core: &At<CoreId>) {
    let mut outermost = id;
    for _ in 0..model.components.len() {
        match model.component(outermost).map(|component| component.home) {
            Some(Home::Component(home)) => outermost = home,
            _ => break,
        }
    }
    let Some(group) = model.components.get_mut(outermost.0 as usize) else {
        return;
    };
    match group.core {
        None => group.core = Some(core.value),
        Some(other) if other == core.value => {}
        Some(other) => {
            let what = format!("the VM is on core {}, its group on {other}", core.value);
            let why = "a group is a part of one core";
            let remedy = "put all VMs of the group on one core";
            report.refuse(&core.span, Words::new(what, why, remedy));
        }
    }
}

fn wish(report: &mut Report, placed: &Placed, model: &Model) -> Option<CoreId> {
    let at = placed.core.as_ref()?;
    let core = u8::try_from(at.value).ok().map(CoreId);
    let known = |core: &CoreId| model.pools.iter().any(|pool| pool.cores.contains(core));
    let found = core.filter(known);
    if found.is_none() {
        let what = format!("no pool has core {}", at.value);
        let why = "a component runs on a core of its pool";
        let remedy = "name another core, or add it to a [[schedule.pool]]";
        report.refuse(&at.span, Words::new(what, why, remedy));
    }
    found
}

/// A component whose home is not set yet.
fn component(report: &mut Report, name: String, placed: &Placed) -> Option<Component> {
    let plan = plan(report, placed)?;
    let mut component = Component::new(name, Home::Pool(PoolId(0)), plan);
    component.policy = placed.policy.unwrap_or_default();
    component.server = placed.server.unwrap_or_default();
    component.priority = placed.priority.as_ref().map(priority);
    Some(component)
}

fn priority(at: &At<u64>) -> Priority {
    Priority(u32::try_from(at.value).unwrap_or(u32::MAX))
}

fn plan(report: &mut Report, placed: &Placed) -> Option<Plan> {
    let period = placed.period.as_ref()?;
    let longest = placed
        .window
        .as_ref()
        .is_some_and(|at| at.value == Window::Longest);
    if let (Some(_), Some(window)) = (&placed.budget, &placed.window)
        && !longest
    {
        let what = "both `budget` and `window`";
        let why = "this window says what deadline a budget gets that is yet to be found";
        let remedy = "remove `window`, write `deadline` instead, or window = \"longest\" for the \
                      longest deadline with which the budget does";
        report.refuse(&window.span, Words::new(what, why, remedy));
    }
    if let (Some(_), Some(deadline), true) = (&placed.budget, &placed.deadline, longest) {
        let what = "`deadline` and window = \"longest\"";
        let why = "the longest deadline is looked for, or one is given";
        report.refuse(&deadline.span, Words::new(what, why, "remove one of them"));
    }
    if let (None, Some(deadline)) = (&placed.budget, &placed.deadline) {
        let what = "`deadline` without `budget`";
        let why = "without a budget the least interface is looked for, by its `window`";
        let remedy = "give a budget, or write window = \"longest\"";
        report.refuse(&deadline.span, Words::new(what, why, remedy));
    }
    match (&placed.budget, period.value) {
        (Some(budget), PeriodDraft::One(period)) if longest => Some(Plan::Longest {
            period: Nanos::new(period),
            budget: Nanos::new(budget.value),
        }),
        (Some(budget), PeriodDraft::One(period)) => {
            let deadline = placed.deadline.as_ref().map_or(period, |at| at.value);
            Some(Plan::Given(ResourceInterface {
                period: Nanos::new(period),
                budget: Nanos::new(budget.value),
                deadline: Nanos::new(deadline),
            }))
        }
        (Some(_), PeriodDraft::Range(..)) => {
            let what = "a budget with a range of periods";
            let why = "a budget is for one period";
            let remedy = "write one period, or remove `budget`";
            report.refuse(&period.span, Words::new(what, why, remedy));
            None
        }
        (None, period) => Some(Plan::Find {
            periods: periods(period),
            window: placed.window.as_ref().map_or(Window::Period, |at| at.value),
        }),
    }
}

fn periods(period: PeriodDraft) -> Periods {
    match period {
        PeriodDraft::One(period) => Periods::One(Nanos::new(period)),
        PeriodDraft::Range(least, most) => Periods::Range {
            least: Nanos::new(least),
            most: Nanos::new(most),
        },
    }
}

fn add_task(draft: &TaskDraft, component: ComponentId, model: &mut Model, spans: &mut Spans) {
    let (Some(name), Some(period), Some(execution)) =
        (&draft.name, &draft.period, &draft.execution)
    else {
        return;
    };
    let time = |at: &Option<At<u64>>| at.as_ref().map(|at| Nanos::new(at.value));
    let (period, execution) = (Nanos::new(period.value), Nanos::new(execution.value));
    let mut task = Task::new(name.value.clone(), component, period, execution);
    task.deadline = time(&draft.deadline).unwrap_or(period);
    task.offset = time(&draft.offset).unwrap_or_default();
    task.jitter = time(&draft.jitter).unwrap_or_default();
    task.priority = draft.priority.as_ref().map(priority);
    model.add_task(task);
    spans.tasks.push(draft.span.clone());
}

/// Where a component gets its CPU time from: the group or pool it names, else the pool with its
/// core, else the first pool.
fn home(
    report: &mut Report,
    placed: &Placed,
    core: Option<CoreId>,
    (model, names): (&Model, &BTreeMap<String, ComponentId>),
) -> Option<Home> {
    if let (Some(group), Some(_)) = (&placed.group, &placed.pool) {
        let what = "both `group` and `pool`";
        let why = "who is in a group gets its CPU time from there";
        report.refuse(&group.span, Words::new(what, why, "remove one of them"));
    }
    if let Some(group) = &placed.group {
        let found = names.get(&group.value).copied().map(Home::Component);
        if found.is_none() {
            let known = model.components.iter().map(|one| one.name.as_str());
            unknown(report, group, "group", known.collect());
        }
        return found;
    }
    if let Some(pool) = &placed.pool {
        let index = model.pools.iter().position(|one| one.name == pool.value);
        if index.is_none() {
            let known = model.pools.iter().map(|one| one.name.as_str());
            unknown(report, pool, "pool", known.collect());
        }
        return index.map(|index| Home::Pool(PoolId(index as u32)));
    }
    let has = |pool: &Pool| core.is_some_and(|core| pool.cores.contains(&core));
    let index = model.pools.iter().position(has).unwrap_or(0);
    Some(Home::Pool(PoolId(index as u32)))
}

fn unknown(report: &mut Report, at: &At<String>, what: &str, known: Vec<&str>) {
    let text = format!("there is no {what} \"{}\"", at.value);
    let why = if known.is_empty() {
        format!("the schedule has no {what}")
    } else {
        format!("there are {}", known.join(", "))
    };
    let remedy = match nearest(&at.value, known) {
        Some(known) => format!("did you mean \"{known}\"?"),
        None => format!("add a [[schedule.{what}]] of that name"),
    };
    report.refuse(&at.span, Words::new(text, why, remedy));
}
