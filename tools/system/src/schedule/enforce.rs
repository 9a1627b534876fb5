//! What the board enforces of a schedule: a server for each vCPU of a core, and one for each group.

use super::draft::{ShareDraft, Whole};
use super::global;
use crate::diagnostic::{Report, Words};
use crate::draft::Draft;
use hanok_config::{Claim, CorePolicy, Group, Promise, Terms};
use hanok_sched::{MAX_GROUPS, Share, Slack};
use hanok_task_model::{
    Component, ComponentId, Home, Member, Mode, Model, Plan, Policy, Pool, ResourceInterface,
};
use hanok_types::{CpuId, MAX_CPUS, MAX_VCPUS, MAX_VMS, VcpuId, VmId};

/// What the board enforces.
pub(crate) struct Enforced {
    /// The policy of each core.
    pub policies: [CorePolicy; MAX_CPUS],
    /// What vCPUs have, in the VMs' order.
    pub promises: Vec<Promise>,
    /// The groups, each after the one in which it is.
    pub groups: Vec<Group>,
}

/// The weight of a VM that names none, and the largest one.
const WEIGHT: u16 = 256;

/// What the board is to enforce of a valid schedule; `None` where that is nothing, or where it
/// cannot, about which the report then has diagnostics.
pub(crate) fn enforced(
    report: &mut Report,
    whole: Option<&Whole>,
    drafts: &[Draft],
    model: Option<&Model>,
) -> Option<Enforced> {
    let enforce = whole.and_then(|whole| whole.enforce.as_ref());
    let Some(enforce) = enforce.filter(|enforce| enforce.value) else {
        refuse_without(report, whole, drafts);
        return None;
    };
    let promised = drafts.iter().any(|draft| draft.schedule.is_some());
    if promised && model.is_none() && !report.found.is_empty() {
        // What is wrong with the schedule was said.
        return None;
    }
    let slack = whole.and_then(|whole| whole.slack.as_ref());
    let mut builder = Builder {
        slack: slack.map_or(Slack::Idle, |at| at.value),
        model,
        known: Vec::new(),
        all: Enforced {
            policies: [CorePolicy::RoundRobin; MAX_CPUS],
            promises: Vec::new(),
            groups: Vec::new(),
        },
    };
    match builder.build(drafts) {
        Ok(()) => Some(builder.all),
        Err(words) => {
            report.refuse(&enforce.span, words);
            None
        }
    }
}

/// Refuses what has a meaning only with `enforce`.
fn refuse_without(report: &mut Report, whole: Option<&Whole>, drafts: &[Draft]) {
    if let Some(slack) = whole.and_then(|whole| whole.slack.as_ref()) {
        let why = "what becomes of unused time is a matter of budgets that are enforced";
        let words = Words::new("`slack` without `enforce`", why, "write enforce = true");
        report.refuse(&slack.span, words);
    }
    for share in drafts.iter().filter_map(|draft| draft.share.as_ref()) {
        let why = "vCPUs take turns of the same length, unless budgets are enforced";
        let remedy = "write enforce = true into [schedule], or remove it";
        report.refuse(
            &share.span,
            Words::new("[vm.share] without `enforce`", why, remedy),
        );
    }
}

struct Builder<'a> {
    slack: Slack,
    model: Option<&'a Model>,
    /// The component of each group that was made.
    known: Vec<ComponentId>,
    all: Enforced,
}

impl Builder<'_> {
    fn build(&mut self, drafts: &[Draft]) -> Result<(), Words> {
        for draft in drafts.iter().filter(|draft| draft.share.is_some()) {
            self.shared(draft)?;
        }
        // How many VMs there may be, and vCPUs of one, is said elsewhere.
        let numbered = (0..MAX_VMS as u8).map(VmId::new).zip(drafts);
        for (vm, draft) in numbered.clone().filter(|(_, d)| d.schedule.is_some()) {
            if self.pooled(draft, vm)? {
                continue;
            }
            for (vcpu, core) in cores(draft).enumerate().take(MAX_VCPUS) {
                self.vcpu(draft, vm, vcpu, core)?;
            }
        }
        for (vm, draft) in numbered.filter(|(_, draft)| draft.schedule.is_none()) {
            let share = share(draft.share.as_ref());
            for (vcpu, core) in cores(draft).enumerate().take(MAX_VCPUS) {
                let policy = self.all.policies.get(core);
                if policy.is_some_and(|policy| *policy != CorePolicy::RoundRobin) {
                    let vcpu = VcpuId::new(vcpu as u8);
                    let claim = Claim::Share(share);
                    self.all.promises.push(Promise { vm, vcpu, claim });
                }
            }
        }
        self.all.promises.sort_by_key(|promise| promise.vm.index());
        global::alone(&self.all.policies, drafts)?;
        global::overcommitted(self.model, &self.all.promises, drafts)?;
        self.overcommitted(drafts)
    }

    /// The cores of a VM with [vm.share] have servers, if only for what is left of them.
    fn shared(&mut self, draft: &Draft) -> Result<(), Words> {
        if draft.schedule.is_some() {
            return Err(Words::new(
                format!("\"{}\" has both [vm.share] and [vm.schedule]", name(draft)),
                "who is promised time has that, and who shares what is left is promised nothing",
                "remove one of them",
            ));
        }
        for core in cores(draft) {
            let policy = self.all.policies.get_mut(core);
            let policy = policy.ok_or_else(|| nothing(draft, "share"))?;
            if *policy == CorePolicy::RoundRobin {
                let order = Policy::Edf.into();
                let slack = self.slack;
                *policy = CorePolicy::Servers { order, slack };
            }
        }
        Ok(())
    }

    /// Promises the vCPUs of a VM in a global pool what they have of it; returns whether it is in one.
    fn pooled(&mut self, draft: &Draft, vm: VmId) -> Result<bool, Words> {
        let Some(model) = self.model else {
            return Ok(false);
        };
        let Some((id, pool)) = global::pool(model, name(draft)) else {
            return Ok(false);
        };
        let lowest = global::enforceable(draft, pool, self.slack)?;
        for core in &pool.cores {
            let policy = self.all.policies.get_mut(usize::from(core.0));
            let order = pool.policy.into();
            let pool = CpuId::new(lowest);
            *policy.ok_or_else(lost)? = CorePolicy::Global { order, pool };
        }
        let vcpus = draft.vcpus.as_ref().map_or(1, |at| at.value) as usize;
        for vcpu in 0..vcpus.min(MAX_VCPUS) {
            let component = global::component(model, (name(draft), vcpu), id);
            let component = component.ok_or_else(|| nothing(draft, "budget"))?;
            let mut terms = terms(model, component)?;
            // What all have together is divided evenly, as the analysis reckons.
            terms.budget = terms.budget.div_ceil(u64::from(component.cpus.max(1)));
            terms.deadline = terms.deadline.max(terms.budget);
            let (vcpu, ask) = (VcpuId::new(vcpu as u8), Default::default());
            let claim = Claim::Promise {
                group: 0,
                terms,
                ask,
            };
            self.all.promises.push(Promise { vm, vcpu, claim });
        }
        Ok(true)
    }

    fn vcpu(&mut self, draft: &Draft, vm: VmId, vcpu: usize, core: usize) -> Result<(), Words> {
        let nothing = || nothing(draft, "budget");
        let model = self.model.ok_or_else(nothing)?;
        let component = component_of(model, draft, vcpu).ok_or_else(nothing)?;
        let pool = pool_of(model, component)?;
        let policy = self.all.policies.get_mut(core).ok_or_else(nothing)?;
        *policy = CorePolicy::Servers {
            order: pool.policy.into(),
            slack: self.slack,
        };
        let group = match component.home {
            Home::Pool(_) => 0,
            Home::Component(home) => self.group(model, home, core)?,
        };
        let terms = terms(model, component)?;
        let ask = draft.ask.unwrap_or_default();
        let vcpu = VcpuId::new(vcpu as u8);
        let claim = Claim::Promise { group, terms, ask };
        self.all.promises.push(Promise { vm, vcpu, claim });
        Ok(())
    }

    /// The place of a group among those of its core, from 1; it is made with those around it.
    fn group(&mut self, model: &Model, id: ComponentId, core: usize) -> Result<u8, Words> {
        let component = model.component(id).ok_or_else(lost)?;
        let cpu = CpuId::new(core as u8);
        if let Some(at) = self.known.iter().position(|known| *known == id) {
            if self.all.groups.get(at).is_none_or(|group| group.cpu != cpu) {
                return Err(spread(component));
            }
            return Ok(self.place(at, cpu));
        }
        if let Some(task) = own_task(model, id) {
            return Err(Words::new(
                format!(
                    "group \"{}\" has a task of its own, \"{task}\"",
                    component.name
                ),
                "on the board only VMs have tasks",
                "give the task to a VM, or remove `enforce`",
            ));
        }
        let home = match component.home {
            Home::Pool(_) => 0,
            Home::Component(home) => self.group(model, home, core)?,
        };
        let terms = terms(model, component)?;
        let order = component.policy.into();
        self.known.push(id);
        self.all.groups.push(Group {
            cpu,
            home,
            order,
            terms,
        });
        let place = self.place(self.all.groups.len() - 1, cpu);
        if usize::from(place) > MAX_GROUPS {
            return Err(Words::new(
                format!("core {core} has more than {MAX_GROUPS} groups"),
                "a core has room for so many",
                "join some of them, or use another core",
            ));
        }
        Ok(place)
    }

    /// The place of the group at `index` among those of its core, from 1.
    fn place(&self, index: usize, cpu: CpuId) -> u8 {
        let until = self.all.groups.iter().take(index + 1);
        until.filter(|group| group.cpu == cpu).count() as u8
    }

    /// Refuses cores and groups of which more is promised than there is. That less is promised does not prove
    /// that deadlines are kept.
    fn overcommitted(&self, drafts: &[Draft]) -> Result<(), Words> {
        for cpu in 0..MAX_CPUS {
            let groups = self
                .all
                .groups
                .iter()
                .filter(|group| group.cpu.index() == cpu);
            let groups: Vec<_> = groups.collect();
            let mut used = vec![0_u128; 1 + groups.len()];
            let inner = groups.iter().map(|group| (group.home, group.terms));
            let vcpus = self.all.promises.iter().filter_map(|promise| {
                let draft = drafts.get(promise.vm.index())?;
                let own = cores(draft).nth(promise.vcpu.index()) == Some(cpu);
                match promise.claim {
                    Claim::Promise { group, terms, .. } if own => Some((group, terms)),
                    _ => None,
                }
            });
            for (home, terms) in inner.chain(vcpus) {
                if let Some(used) = used.get_mut(usize::from(home)) {
                    *used += share_of(&terms);
                }
            }
            let wholes = core::iter::once(1 << 64);
            let wholes = wholes.chain(groups.iter().map(|group| share_of(&group.terms) + 1));
            let over = used
                .iter()
                .zip(wholes)
                .position(|(used, whole)| *used > whole);
            if let Some(place) = over {
                return Err(Words::new(
                    match place {
                        0 => format!("more than all of core {cpu} is promised"),
                        place => {
                            format!("more than all of group {place} of core {cpu} is promised")
                        }
                    },
                    "budgets by their periods add up to more than there is",
                    "lower a budget; `hanok sched check` says how much each VM needs",
                ));
            }
        }
        Ok(())
    }
}

/// A promise's share of a core in parts of 2^64, rounded down: nothing is refused that fits.
pub(super) fn share_of(terms: &Terms) -> u128 {
    (u128::from(terms.budget) << 64) / u128::from(terms.period.max(1))
}

fn share(draft: Option<&ShareDraft>) -> Share {
    Share {
        weight: draft.and_then(|draft| draft.weight).unwrap_or(WEIGHT),
        cap: draft.and_then(|draft| draft.cap).filter(|cap| *cap < 100),
    }
}

/// The cores of a VM's vCPUs, where the description names them.
pub(super) fn cores(draft: &Draft) -> impl Iterator<Item = usize> {
    let named = draft.cpus.iter().flat_map(|cpus| &cpus.value);
    let vcpus = draft.vcpus.as_ref().map_or(1, |at| at.value) as usize;
    let unnamed = if draft.cpus.is_some() { 0 } else { vcpus };
    named
        .map(|core| *core as usize)
        .chain(std::iter::repeat_n(usize::MAX, unnamed))
}

/// The component of a vCPU.
fn component_of<'a>(model: &'a Model, draft: &Draft, vcpu: usize) -> Option<&'a Component> {
    let name = name(draft);
    let own = format!("{name}.{vcpu}");
    let mut components = model.components.iter();
    components
        .by_ref()
        .filter(|component| component.name == own || component.name == name)
        .find(|component| component.cpus == 1)
}

/// The pool that a component gets its time from, through the groups around it.
fn pool_of<'a>(model: &'a Model, component: &Component) -> Result<&'a Pool, Words> {
    let mut home = component.home;
    // A valid model has no circles.
    while let Home::Component(id) = home {
        let around = model.component(id).ok_or_else(lost)?;
        if around.cpus != 1 {
            return Err(spread(around));
        }
        home = around.home;
    }
    let Home::Pool(id) = home else {
        return Err(lost());
    };
    let pool = model.pool(id).filter(|pool| pool.mode == Mode::Partitioned);
    pool.ok_or_else(|| {
        Words::new(
            format!("\"{}\" is in a group of a global pool", component.name),
            "on the board a group is a part of one core",
            "take it out of the group, make the pool mode = \"partitioned\", or remove `enforce`",
        )
    })
}

/// The name of a task that a group has beside its components.
fn own_task(model: &Model, id: ComponentId) -> Option<&str> {
    let members = model.members();
    let own = members.get(id.0 as usize)?.iter();
    own.filter_map(|member| match member {
        Member::Task(task) => Some(model.task(*task)?.name.as_str()),
        Member::Component(_) => None,
    })
    .next()
}

fn terms(model: &Model, component: &Component) -> Result<Terms, Words> {
    let Plan::Given(ResourceInterface {
        period,
        budget,
        deadline,
    }) = component.plan
    else {
        return Err(Words::new(
            format!("\"{}\" has no `budget`", component.name),
            "the board enforces what is written, and finds nothing by itself",
            "write the `budget` that `hanok sched check` finds",
        ));
    };
    let interface = ResourceInterface {
        period,
        budget,
        deadline,
    };
    let policy = match component.home {
        Home::Pool(id) => model.pool(id).map(|pool| pool.policy),
        Home::Component(id) => model.component(id).map(|around| around.policy),
    };
    Ok(Terms {
        kind: component.server.into(),
        period: period.get(),
        budget: budget.get(),
        deadline: deadline.get(),
        priority: policy
            .unwrap_or_default()
            .rank(&interface, component.priority),
    })
}

pub(super) fn name(draft: &Draft) -> &str {
    draft.name.as_ref().map_or("", |name| &name.value)
}

/// What cannot be: the model was found to be valid.
fn lost() -> Words {
    let what = "a group is in no pool";
    Words::new(
        what,
        "the model of the schedule contradicts itself",
        "report it",
    )
}

fn spread(group: &Component) -> Words {
    Words::new(
        format!("group \"{}\" is on several cores", group.name),
        "the board enforces a group's budget on one core",
        "put its VMs on the same core, or make a group for each core",
    )
}

fn nothing(draft: &Draft, what: &str) -> Words {
    Words::new(
        format!(
            "a vCPU of \"{}\" has no {what} and core of its own to enforce",
            name(draft)
        ),
        "with `enforce`, each vCPU on a core with budgets has its core named, and a budget or a share of what \
         is left",
        "name the VM's `cpus`, and give it [vm.schedule] with `period` and `budget`; with several \
         vCPUs, let its tasks name theirs",
    )
}
