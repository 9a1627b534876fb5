//! What the board enforces of a schedule: a server for each vCPU of a core, and one for each group.

pub(crate) mod global;

use super::draft::{ShareDraft, Whole};
use super::found::{Findings, FoundInterface, is_left_open};
use super::model::Schedule;
use crate::diagnostic::{Diagnostic, Mark, Report, Words};
use crate::draft::Draft;
use hanok_config::{Claim, CorePolicy, Group, Promise, Terms};
use hanok_sched::{MAX_GROUPS, Share, Slack};
use hanok_task_model::{Component, ComponentId, Home, Mode, Model, Plan, Policy, Pool, Task};
use hanok_types::{CpuId, MAX_CPUS, MAX_VCPUS, MAX_VMS, VcpuId, VmId};

/// What the board enforces.
pub(crate) struct Enforced {
    /// The policy of each core.
    pub policies: [CorePolicy; MAX_CPUS],
    /// What vCPUs have, in the VMs' order.
    pub promises: Vec<Promise>,
    /// The groups, each after the one in which it is.
    pub groups: Vec<Group>,
    /// The cores of each VM's vCPUs, in the VMs' order; `None` where no core has servers for them.
    pub cores: Vec<Option<Vec<u8>>>,
    /// What the description leaves open.
    pub found: Vec<FoundInterface>,
    /// What is valid, but may not be what its author means.
    pub notes: Vec<Diagnostic>,
}

/// The weight of a VM that names none, and the largest one.
const WEIGHT: u16 = 256;

/// Whether the board is to enforce the schedule.
pub(crate) fn is_wanted(whole: Option<&Whole>) -> bool {
    let enforce = whole.and_then(|whole| whole.enforce.as_ref());
    enforce.is_some_and(|enforce| enforce.value)
}

/// What the board is to enforce of a valid schedule; `None` where that is nothing, or where it
/// cannot, about which the report then has diagnostics.
pub(crate) fn enforced(
    report: &mut Report,
    whole: Option<&Whole>,
    drafts: &[Draft],
    schedule: Option<&Schedule>,
) -> Option<Enforced> {
    let enforce = whole.and_then(|whole| whole.enforce.as_ref());
    let enforce = enforce.filter(|enforce| enforce.value)?;
    let promised = drafts.iter().any(|draft| draft.schedule.is_some());
    if promised && schedule.is_none() && !report.found.is_empty() {
        // What is wrong with the schedule was said.
        return None;
    }
    let slack = whole.and_then(|whole| whole.slack.as_ref());
    let groups = whole.map_or(&[][..], |whole| &whole.groups);
    let mut builder = Builder {
        slack: slack.map_or(Slack::Idle, |at| at.value),
        model: schedule.map(|schedule| &schedule.model),
        findings: schedule.map(Findings::of),
        known: Vec::new(),
        all: Enforced {
            policies: [CorePolicy::RoundRobin; MAX_CPUS],
            promises: Vec::new(),
            groups: Vec::new(),
            cores: Vec::new(),
            found: Vec::new(),
            notes: Vec::new(),
        },
        cores: Vec::new(),
    };
    let here = report.mark(&enforce.span);
    let built = builder
        .proven(drafts, here)
        .map_err(|(mark, words)| (Some(mark).filter(|mark| mark.line > 0), words))
        .and_then(|notes| {
            builder.build(drafts).map_err(|words| (None, words))?;
            Ok(notes)
        });
    let diagnostic = |(mark, words)| Diagnostic::at(&report.path, mark, words);
    match built {
        Ok(note) => {
            let tasks = schedule.map(|schedule| idle_tasks(schedule, groups));
            let notes = note
                .into_iter()
                .chain(tasks.into_iter().flatten())
                .map(diagnostic);
            builder.all.notes = notes.collect();
            Some(builder.all)
        }
        Err((mark, words)) => {
            let found = diagnostic((mark.unwrap_or(here), words));
            report.found.push(found);
            None
        }
    }
}

/// Notes about the tasks of groups, which nobody runs.
fn idle_tasks(schedule: &Schedule, groups: &[super::draft::Group]) -> Vec<(Mark, Words)> {
    let model = &schedule.model;
    let group = |task: &Task| {
        let name = &model.component(task.component)?.name;
        let mut names = groups.iter().filter_map(|group| group.name.as_ref());
        names.any(|group| group.value == *name).then_some(name)
    };
    let marks = &schedule.marks.tasks;
    let tasks = model.tasks.iter().zip(marks).filter_map(|(task, mark)| {
        let words = Words::new(
            format!(
                "nobody runs task \"{}\" of group \"{}\"",
                task.name,
                group(task)?
            ),
            "on the board only VMs have tasks: its time is kept for it, and not used",
            "give the task to a VM, or remove it",
        );
        Some((*mark, words))
    });
    tasks.collect()
}

/// Refuses what has a meaning only with `enforce`.
pub(crate) fn refuse_without(report: &mut Report, whole: Option<&Whole>, drafts: &[Draft]) {
    if is_wanted(whole) {
        return;
    }
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
    findings: Option<Findings>,
    /// The component of each group that was made.
    known: Vec<ComponentId>,
    all: Enforced,
    /// The cores of each VM's vCPUs; one that does not exist where none is known.
    cores: Vec<Vec<usize>>,
}

impl Builder<'_> {
    /// A schedule that leaves something to the analysis must be proven; of one that leaves nothing open, the answer
    /// is a note where it is not proven.
    ///
    /// # Errors
    /// Why it is not proven, and the place in the file.
    fn proven(
        &mut self,
        drafts: &[Draft],
        here: Mark,
    ) -> Result<Option<(Mark, Words)>, (Mark, Words)> {
        let (Some(model), Some(findings)) = (self.model, self.findings.as_mut()) else {
            return Ok(None);
        };
        let open = model.components.iter().any(|one| is_left_open(&one.plan));
        let mut scheduled = drafts.iter().filter(|draft| draft.schedule.is_some());
        let unplaced = scheduled
            .any(|draft| draft.cpus.is_none() && global::pool(model, name(draft)).is_none());
        match findings.unproven.take() {
            Some(why) if open || unplaced => Err(why),
            Some((mark, words)) => {
                let mark = if mark.line > 0 { mark } else { here };
                Ok(Some((mark, words)))
            }
            None => Ok(None),
        }
    }

    fn build(&mut self, drafts: &[Draft]) -> Result<(), Words> {
        let cores = drafts.iter().map(|draft| self.cores_of(draft));
        self.cores = cores.collect();
        for (index, draft) in drafts.iter().enumerate() {
            if draft.share.is_some() {
                self.shared(draft, index)?;
            }
        }
        // How many VMs there may be, and vCPUs of one, is said elsewhere.
        let numbered = (0..MAX_VMS as u8).map(VmId::new).zip(drafts);
        for (vm, draft) in numbered.clone().filter(|(_, d)| d.schedule.is_some()) {
            if self.pooled(draft, vm)? {
                continue;
            }
            let cores = self.of(vm.index()).to_vec();
            for (vcpu, core) in cores.into_iter().enumerate().take(MAX_VCPUS) {
                self.vcpu(draft, vm, vcpu, core)?;
            }
        }
        for (vm, draft) in numbered.filter(|(_, draft)| draft.schedule.is_none()) {
            let share = share(draft.share.as_ref());
            let cores = self.of(vm.index()).to_vec();
            for (vcpu, core) in cores.iter().enumerate().take(MAX_VCPUS) {
                let policy = self.all.policies.get(*core);
                if policy.is_some_and(|policy| *policy != CorePolicy::RoundRobin) {
                    let vcpu = VcpuId::new(vcpu as u8);
                    let claim = Claim::Share(share);
                    self.all.promises.push(Promise { vm, vcpu, claim });
                }
            }
        }
        self.all.promises.sort_by_key(|promise| promise.vm.index());
        self.pools_hold(drafts)?;
        self.all.cores = drafts.iter().zip(&self.cores).map(placed).collect();
        self.overcommitted()
    }

    /// The cores of a VM with [vm.share] have servers, if only for what is left of them.
    fn shared(&mut self, draft: &Draft, index: usize) -> Result<(), Words> {
        if draft.schedule.is_some() {
            return Err(Words::new(
                format!("\"{}\" has both [vm.share] and [vm.schedule]", name(draft)),
                "who is promised time has that, and who shares what is left is promised nothing",
                "remove one of them",
            ));
        }
        for core in self.cores.get(index).into_iter().flatten() {
            let policy = self.all.policies.get_mut(*core);
            let policy = policy.ok_or_else(|| nothing(draft, "share"))?;
            if *policy == CorePolicy::RoundRobin {
                let order = Policy::Edf.into();
                let slack = self.slack;
                *policy = CorePolicy::Servers { order, slack };
            }
        }
        Ok(())
    }

    fn vcpu(&mut self, draft: &Draft, vm: VmId, vcpu: usize, core: usize) -> Result<(), Words> {
        let nothing = || nothing(draft, "budget");
        let model = self.model.ok_or_else(nothing)?;
        let (id, component) = component_of(model, draft, vcpu).ok_or_else(nothing)?;
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
        let terms = self.terms(model, id, core)?;
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
        let home = match component.home {
            Home::Pool(_) => 0,
            Home::Component(home) => self.group(model, home, core)?,
        };
        let terms = self.terms(model, id, core)?;
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

    /// What the board is told of the component `id`; if something of it was found, that is noted.
    fn terms(&mut self, model: &Model, id: ComponentId, core: usize) -> Result<Terms, Words> {
        let component = model.component(id).ok_or_else(lost)?;
        let found = self.findings.as_ref();
        let interface = match component.plan {
            Plan::Given(interface) => Some(interface),
            _ => found.and_then(|found| found.interface(id)),
        };
        // What has no interface was refused before.
        let interface = interface.ok_or_else(lost)?;
        let root = matches!(component.home, Home::Pool(_));
        if is_left_open(&component.plan) || root && component.core.is_none() {
            let name = component.name.clone();
            self.all.found.push(FoundInterface {
                name,
                interface,
                core,
            });
        }
        let policy = match component.home {
            Home::Pool(id) => model.pool(id).map(|pool| pool.policy),
            Home::Component(id) => model.component(id).map(|around| around.policy),
        };
        Ok(Terms {
            kind: component.server.into(),
            period: interface.period.get(),
            budget: interface.budget.get(),
            deadline: interface.deadline.get(),
            priority: policy
                .unwrap_or_default()
                .rank(&interface, component.priority),
        })
    }

    fn of(&self, vm: usize) -> &[usize] {
        self.cores.get(vm).map_or(&[], Vec::as_slice)
    }

    /// The cores of a VM's vCPUs: those that the description names, or that were found.
    fn cores_of(&self, draft: &Draft) -> Vec<usize> {
        if let Some(named) = &draft.cpus {
            return named.value.iter().map(|core| *core as usize).collect();
        }
        let vcpus = draft.vcpus.as_ref().map_or(1, |at| at.value) as usize;
        if let Some(first) = self.first_cores(draft, vcpus.min(MAX_VCPUS)) {
            return first;
        }
        let found = |vcpu| {
            draft.schedule.as_ref()?;
            let (id, _) = component_of(self.model?, draft, vcpu)?;
            self.findings.as_ref()?.core(id)
        };
        let vcpus = 0..vcpus.min(MAX_VCPUS);
        vcpus
            .map(|vcpu| found(vcpu).unwrap_or(usize::MAX))
            .collect()
    }

    /// The place of the group at `index` among those of its core, from 1.
    fn place(&self, index: usize, cpu: CpuId) -> u8 {
        let until = self.all.groups.iter().take(index + 1);
        until.filter(|group| group.cpu == cpu).count() as u8
    }

    /// Refuses cores and groups of which more is promised than there is. That less is promised does not prove
    /// that deadlines are kept.
    fn overcommitted(&self) -> Result<(), Words> {
        for (cpu, policy) in self.all.policies.iter().enumerate() {
            if matches!(policy, CorePolicy::Global { .. }) {
                continue;
            }
            let groups = self
                .all
                .groups
                .iter()
                .filter(|group| group.cpu.index() == cpu);
            let groups: Vec<_> = groups.collect();
            let mut used = vec![0_u128; 1 + groups.len()];
            let inner = groups.iter().map(|group| (group.home, group.terms));
            let vcpus = self.all.promises.iter().filter_map(|promise| {
                let own = self.of(promise.vm.index()).get(promise.vcpu.index()) == Some(&cpu);
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
fn share_of(terms: &Terms) -> u128 {
    (u128::from(terms.budget) << 64) / u128::from(terms.period.max(1))
}

fn share(draft: Option<&ShareDraft>) -> Share {
    Share {
        weight: draft.and_then(|draft| draft.weight).unwrap_or(WEIGHT),
        cap: draft.and_then(|draft| draft.cap).filter(|cap| *cap < 100),
    }
}

/// The cores of a VM with a schedule, if all are known.
fn placed((draft, cores): (&Draft, &Vec<usize>)) -> Option<Vec<u8>> {
    draft.schedule.as_ref()?;
    let cores = cores.iter().map(|core| u8::try_from(*core).ok());
    cores.collect()
}

/// The component of a vCPU.
fn component_of<'a>(
    model: &'a Model,
    draft: &Draft,
    vcpu: usize,
) -> Option<(ComponentId, &'a Component)> {
    let name = name(draft);
    let own = format!("{name}.{vcpu}");
    let mut components = model.ids();
    components.find(|(_, component)| {
        (component.name == own || component.name == name) && component.cpus == 1
    })
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

fn name(draft: &Draft) -> &str {
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
        "name the VM's `cpus`, and give it [vm.schedule] with `period`, and `budget` or tasks; with several \
         vCPUs, let its tasks name theirs, and each have some",
    )
}
