//! A model as the engine has it: choosers in a tree, tasks at its leaves, cores at its roots.

use crate::chooser::{self, Chooser, MAX_MEMBERS};
use crate::jobs::Tasks;
use crate::node::NodeId;
use crate::{Interfaces, Options, SimError, Supply, What, place};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use hanok_sched::{Interface, Kind, Reservation, Slack};
use hanok_task_model as model;
use model::{ComponentId, Home, Member, Mode, Model, Nanos, Plan, Policy, PoolId, TaskId};

/// What a chooser chooses among.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A task.
    Task(TaskId),
    /// One CPU (lane) of another chooser.
    Node(NodeId, usize),
}

/// One chooser: a core, a global pool, or a component.
pub struct Node {
    pub chooser: Box<dyn Chooser>,
    pub choices: Vec<Choice>,
    /// For each of its CPUs, the node and member number by which its home chooses it; `None` at a
    /// root.
    pub homes: Vec<Option<(NodeId, usize)>>,
    /// The number of its choices that have work.
    pub awake: usize,
}

/// A core of the scene.
pub struct SimulatedCore {
    pub root: NodeId,
    pub lane: usize,
    pub supply: Supply,
}

/// The whole scene.
pub struct Scene {
    pub nodes: Vec<Node>,
    pub cores: Vec<SimulatedCore>,
    pub tasks: Tasks,
}

impl Scene {
    /// Builds the scene of `options.what`.
    pub fn new(model: &Model, options: &Options) -> Result<Self, SimError> {
        model.validate().map_err(SimError::Model)?;
        let builder = Builder {
            model,
            options,
            members: model.members(),
            interfaces: interfaces(model, options),
            scene: Self {
                nodes: Vec::new(),
                cores: Vec::new(),
                tasks: Tasks::new(model, options),
            },
            built: BTreeMap::new(),
        };
        builder.build()
    }
}

fn interfaces(model: &Model, options: &Options) -> Interfaces {
    let mut all = options.interfaces.clone();
    for (id, component) in model.ids() {
        if let Plan::Given(interface) = component.plan {
            all.entry(id).or_insert(interface);
        }
    }
    all
}

struct Builder<'a> {
    model: &'a Model,
    options: &'a Options,
    members: Vec<Vec<Member>>,
    interfaces: Interfaces,
    scene: Scene,
    built: BTreeMap<ComponentId, NodeId>,
}

impl Builder<'_> {
    fn build(mut self) -> Result<Scene, SimError> {
        match &self.options.what {
            What::System => {
                // Homes come after the components in them.
                for id in self.model.bottom_up() {
                    self.component(id)?;
                }
                for (id, pool) in (0..).map(PoolId).zip(&self.model.pools) {
                    self.pool(id, pool)?;
                }
            }
            What::Component(root, supply) => {
                supply.validate()?;
                self.model.component(*root).ok_or(SimError::NoComponent)?;
                for id in self.inside(*root) {
                    self.component(id)?;
                }
                let root = self.built.get(root).copied();
                let root = root.ok_or(SimError::NoComponent)?;
                let supply = supply.clone();
                let lane = 0;
                self.scene.cores.push(SimulatedCore { root, lane, supply });
            }
        }
        Ok(self.scene)
    }

    /// `root` and all components in it, homes last.
    fn inside(&self, root: ComponentId) -> Vec<ComponentId> {
        let mut inside = vec![root];
        let mut next = 0;
        while let Some(id) = inside.get(next).copied() {
            let members = self.members.get(id.0 as usize).into_iter().flatten();
            inside.extend(members.filter_map(|member| match member {
                Member::Component(id) => Some(*id),
                Member::Task(_) => None,
            }));
            next += 1;
        }
        inside.reverse();
        inside
    }

    fn name(&self, id: ComponentId) -> String {
        let component = self.model.component(id);
        component.map_or_else(String::new, |component| component.name.to_string())
    }

    fn component(&mut self, id: ComponentId) -> Result<(), SimError> {
        let component = self.model.component(id).ok_or(SimError::NoComponent)?;
        let members = self
            .members
            .get(id.0 as usize)
            .map_or(&[][..], Vec::as_slice);
        let mut choices = Vec::new();
        for member in members {
            match member {
                Member::Task(task) => choices.push((Choice::Task(*task), None)),
                Member::Component(inner) => choices.extend(self.cpus(*inner)?),
            }
        }
        // A VM with several CPUs may be alone on one, as when it is simulated alone.
        let lanes = component.cpus as usize;
        let node = self.node(component.policy, choices, lanes, Some(id))?;
        self.built.insert(id, node);
        Ok(())
    }

    /// A component's CPUs as its home sees them, with their promises.
    fn cpus(&self, id: ComponentId) -> Result<Vec<(Choice, Option<Reservation>)>, SimError> {
        let node = self.built.get(&id).ok_or(SimError::NoComponent)?;
        let component = self.model.component(id).ok_or(SimError::NoComponent)?;
        let interface = self.interfaces.get(&id);
        let interface = interface.ok_or_else(|| SimError::NoInterface(self.name(id)))?;
        let mut cpus = Vec::new();
        for cpu in 0..component.cpus {
            let budget = match component.cpus {
                1 => interface.budget,
                all => interface.share(self.model.tick, cpu, all),
            };
            if budget.is_zero() {
                continue;
            }
            let [period, budget, deadline] =
                [interface.period, budget, interface.deadline].map(Nanos::get);
            let promise = Interface::new(period, budget, deadline);
            let promise = promise.map_err(|error| SimError::Interface(self.name(id), error))?;
            let priority = self
                .policy_of(component)
                .rank(interface, component.priority);
            let reservation = Reservation {
                kind: self.options.kind.unwrap_or(component.server.into()),
                interface: promise,
                priority,
            };
            cpus.push((Choice::Node(*node, cpu as usize), Some(reservation)));
        }
        Ok(cpus)
    }

    /// The policy by which a component is chosen in its home.
    fn policy_of(&self, component: &model::Component) -> Policy {
        let policy = match component.home {
            Home::Pool(pool) => self.model.pool(pool).map(|pool| pool.policy),
            Home::Component(home) => self.model.component(home).map(|home| home.policy),
        };
        policy.unwrap_or_default()
    }

    fn pool(&mut self, id: PoolId, pool: &model::Pool) -> Result<(), SimError> {
        let members: Vec<_> = self.model.roots(id).collect();
        if pool.mode == Mode::Global {
            let choices = self.all_cpus(&members)?;
            let root = self.node(pool.policy, choices, pool.cores.len(), None)?;
            for lane in 0..pool.cores.len() {
                self.core(root, lane);
            }
            return Ok(());
        }
        let vcpus = self.all_cpus(&members)?;
        let promises = vcpus
            .iter()
            .filter_map(|(_, promise)| Some(promise.as_ref()?.interface));
        let promises: Vec<_> = promises.collect();
        let owners = vcpus.iter().map(|(choice, _)| self.owner(*choice));
        let owners: Vec<_> = owners.collect();
        let wishes: Vec<_> = owners.iter().map(|owner| self.wish(*owner, pool)).collect();
        let homes = place::place(&promises, &wishes, pool.cores.len()).map_err(|index| {
            let owner = owners.get(index).copied().flatten();
            SimError::NoCore(owner.map_or_else(String::new, |(id, _)| self.name(id)))
        })?;
        for core in 0..pool.cores.len() {
            let here = vcpus.iter().zip(&homes).filter(|(_, home)| **home == core);
            let choices = here.map(|(vcpu, _)| *vcpu).collect();
            let root = self.node(pool.policy, choices, 1, None)?;
            self.core(root, 0);
        }
        Ok(())
    }

    /// The component and CPU number of a choice.
    fn owner(&self, choice: Choice) -> Option<(ComponentId, u32)> {
        let Choice::Node(node, lane) = choice else {
            return None;
        };
        let mut built = self.built.iter();
        let (id, _) = built.find(|(_, built)| **built == node)?;
        Some((*id, lane as u32))
    }

    /// The pool's core that a vCPU was given, if one was.
    fn wish(&self, owner: Option<(ComponentId, u32)>, pool: &model::Pool) -> Option<usize> {
        let owner = owner?;
        let given = self.options.placement.get(&owner).copied();
        let core = given.or(self.model.component(owner.0)?.core)?;
        pool.cores.iter().position(|other| *other == core)
    }

    fn all_cpus(
        &self,
        members: &[ComponentId],
    ) -> Result<Vec<(Choice, Option<Reservation>)>, SimError> {
        let mut all = Vec::new();
        for id in members {
            all.extend(self.cpus(*id)?);
        }
        Ok(all)
    }

    fn core(&mut self, root: NodeId, lane: usize) {
        let supply = Supply::Full;
        self.scene.cores.push(SimulatedCore { root, lane, supply });
    }

    fn node(
        &mut self,
        policy: Policy,
        choices: Vec<(Choice, Option<Reservation>)>,
        lanes: usize,
        component: Option<ComponentId>,
    ) -> Result<NodeId, SimError> {
        let order = policy.into();
        let name = || component.map_or_else(|| "of the cores".to_string(), |id| self.name(id));
        let prepaid = match self.options.prepaid {
            Some(prepaid) => prepaid,
            None => self.model.cost.per_period().get(),
        };
        let slack = self.slack(component);
        let chooser = chooser::new(order, slack, prepaid, choices.len(), lanes);
        let mut chooser = chooser.ok_or_else(|| SimError::TooMany(name(), MAX_MEMBERS))?;
        for (member, (choice, promise)) in choices.iter().enumerate() {
            let reservation = match (choice, promise) {
                (Choice::Task(task), _) => self.task(*task, policy),
                (_, Some(promise)) => Ok(*promise),
                _ => continue,
            };
            let done = reservation.and_then(|what| chooser.reserve(member, what));
            done.map_err(|error| SimError::Interface(name(), error))?;
        }
        Ok(self.adopt(chooser, choices))
    }

    /// Inside a component, tasks have no budgets that could be given away.
    fn slack(&self, component: Option<ComponentId>) -> Slack {
        match component {
            Some(_) if self.options.slack == Slack::Reclaim => Slack::Share,
            _ => self.options.slack,
        }
    }

    fn task(
        &self,
        task: TaskId,
        policy: Policy,
    ) -> Result<Reservation, hanok_sched::InterfaceError> {
        let (period, deadline, priority) = self.scene.tasks.order(task);
        let priority = match policy {
            Policy::Edf => 0,
            Policy::RateMonotonic => period,
            Policy::DeadlineMonotonic => deadline,
            Policy::FixedPriority => priority,
        };
        Ok(Reservation {
            kind: Kind::Task,
            // Each job brings its deadline; a task has no budget.
            interface: Interface::periodic(1, 1)?,
            priority,
        })
    }

    fn adopt(
        &mut self,
        chooser: Box<dyn Chooser>,
        choices: Vec<(Choice, Option<Reservation>)>,
    ) -> NodeId {
        let id = NodeId(self.scene.nodes.len());
        let choices: Vec<_> = choices.into_iter().map(|(choice, _)| choice).collect();
        for (member, choice) in choices.iter().enumerate() {
            match choice {
                Choice::Task(task) => self.scene.tasks.set_home(*task, id, member),
                Choice::Node(inner, lane) => {
                    if let Some(inner) = self.scene.nodes.get_mut(inner.0) {
                        let lanes = inner.homes.len().max(lane + 1);
                        inner.homes.resize(lanes, None);
                        if let Some(home) = inner.homes.get_mut(*lane) {
                            *home = Some((id, member));
                        }
                    }
                }
            }
        }
        self.scene.nodes.push(Node {
            chooser,
            choices,
            homes: Vec::new(),
            awake: 0,
        });
        id
    }
}
