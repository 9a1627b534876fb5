//! What the board enforces of a schedule: a server for each vCPU of a core.

use super::draft::Whole;
use crate::diagnostic::{Report, Words};
use crate::draft::Draft;
use hanok_config::{CorePolicy, Promise};
use hanok_sched::Slack;
use hanok_task_model::{Component, Home, Mode, Model, Plan, Pool};
use hanok_types::{MAX_CPUS, MAX_VCPUS, MAX_VMS, VcpuId, VmId};

/// What the board enforces.
pub(crate) struct Enforced {
    /// The policy of each core.
    pub policies: [CorePolicy; MAX_CPUS],
    /// What vCPUs are promised, in the VMs' order.
    pub promises: Vec<Promise>,
}

/// What the board is to enforce of a valid schedule; `None` where that is nothing, or where it
/// cannot, about which the report then has diagnostics.
pub(crate) fn enforced(
    report: &mut Report,
    whole: Option<&Whole>,
    drafts: &[Draft],
    model: Option<&Model>,
) -> Option<Enforced> {
    let whole = whole?;
    let enforce = whole.enforce.as_ref().filter(|enforce| enforce.value);
    let Some(enforce) = enforce else {
        if let Some(slack) = &whole.slack {
            let why = "what becomes of unused time is a matter of budgets that are enforced";
            let words = Words::new("`slack` without `enforce`", why, "write enforce = true");
            report.refuse(&slack.span, words);
        }
        return None;
    };
    let slack = whole.slack.as_ref().map_or(Slack::Idle, |at| at.value);
    let mut all = Enforced {
        policies: [CorePolicy::RoundRobin; MAX_CPUS],
        promises: Vec::new(),
    };
    // How many VMs there may be, and vCPUs of one, is said elsewhere.
    let numbered = (0..MAX_VMS as u8).map(VmId::new).zip(drafts);
    for (vm, draft) in numbered.filter(|(_, draft)| draft.schedule.is_some()) {
        for (vcpu, core) in cores(draft).enumerate().take(MAX_VCPUS) {
            let found = model.ok_or_else(|| nothing(draft)).and_then(|model| {
                let (component, pool) = component_of(model, draft, vcpu)?;
                let order = pool.policy.into();
                let policy = all.policies.get_mut(core);
                *policy.ok_or_else(|| nothing(draft))? = CorePolicy::Servers { order, slack };
                promise(component, pool, vm, vcpu)
            });
            match found {
                Ok(promise) => all.promises.push(promise),
                Err(words) => {
                    report.refuse(&enforce.span, words);
                    return None;
                }
            }
        }
    }
    if let Some(core) = overcommitted(drafts, &all) {
        let words = Words::new(
            format!("more than all of core {core} is promised"),
            "budgets by their periods add up to more than one",
            "lower a budget; `hanok sched check` says how much each VM needs",
        );
        report.refuse(&enforce.span, words);
        return None;
    }
    let enforced = |core: usize| all.policies.get(core) != Some(&CorePolicy::RoundRobin);
    let mut others = drafts.iter().filter(|draft| draft.schedule.is_none());
    let left_out = others.find(|draft| cores(draft).any(|core| core < MAX_CPUS && enforced(core)));
    if let Some(draft) = left_out {
        report.refuse(&enforce.span, nothing(draft));
        return None;
    }
    Some(all)
}

/// A core of which more is promised than it has. That less is promised does not prove that
/// deadlines are kept.
fn overcommitted(drafts: &[Draft], all: &Enforced) -> Option<usize> {
    let mut used = [0_u128; MAX_CPUS];
    for promise in &all.promises {
        let mut cores = drafts.get(promise.vm.index()).into_iter().flat_map(cores);
        let core = cores.nth(promise.vcpu.index())?;
        // In parts of 2^64, rounded down: nothing is refused that fits.
        let share = (u128::from(promise.budget) << 64) / u128::from(promise.period.max(1));
        *used.get_mut(core)? += share;
    }
    used.iter().position(|used| *used > 1 << 64)
}

/// The cores of a VM's vCPUs, where the description names them.
fn cores(draft: &Draft) -> impl Iterator<Item = usize> {
    let named = draft.cpus.iter().flat_map(|cpus| &cpus.value);
    let vcpus = draft.vcpus.as_ref().map_or(1, |at| at.value) as usize;
    let unnamed = if draft.cpus.is_some() { 0 } else { vcpus };
    named
        .map(|core| *core as usize)
        .chain(std::iter::repeat_n(usize::MAX, unnamed))
}

/// The component of a vCPU, and the pool that it is in.
fn component_of<'a>(
    model: &'a Model,
    draft: &Draft,
    vcpu: usize,
) -> Result<(&'a Component, &'a Pool), Words> {
    let name = name(draft);
    let own = format!("{name}.{vcpu}");
    let components = model.components.iter();
    let found = components
        .filter(|component| component.name == own || component.name == name)
        .find(|component| component.cpus == 1);
    let component = found.ok_or_else(|| nothing(draft))?;
    let Home::Pool(id) = component.home else {
        return Err(Words::new(
            format!("\"{name}\" is in a group"),
            "the board does not enforce budgets inside of budgets yet",
            "take it out of the group, or remove `enforce`",
        ));
    };
    let pool = model.pool(id).filter(|pool| pool.mode == Mode::Partitioned);
    let pool = pool.ok_or_else(|| {
        Words::new(
            format!("\"{name}\" is in a global pool"),
            "a vCPU stays on its core",
            "make the pool mode = \"partitioned\", or remove `enforce`",
        )
    })?;
    Ok((component, pool))
}

fn promise(component: &Component, pool: &Pool, vm: VmId, vcpu: usize) -> Result<Promise, Words> {
    let Plan::Given(interface) = component.plan else {
        return Err(Words::new(
            format!("\"{}\" has no `budget`", component.name),
            "the board enforces what is written, and finds nothing by itself",
            "write the `budget` that `hanok sched check` finds",
        ));
    };
    Ok(Promise {
        vm,
        vcpu: VcpuId::new(vcpu as u8),
        kind: component.server.into(),
        period: interface.period.get(),
        budget: interface.budget.get(),
        deadline: interface.deadline.get(),
        priority: pool.policy.rank(&interface, component.priority),
    })
}

fn name(draft: &Draft) -> &str {
    draft.name.as_ref().map_or("", |name| &name.value)
}

fn nothing(draft: &Draft) -> Words {
    Words::new(
        format!(
            "a vCPU of \"{}\" has no budget and core of its own to enforce",
            name(draft)
        ),
        "with `enforce`, each vCPU on a core with budgets has one, and a core that is named",
        "name the VM's `cpus`, and give it [vm.schedule] with `period` and `budget`; with several \
         vCPUs, let its tasks name theirs",
    )
}
