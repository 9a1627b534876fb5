//! What an analysis says, in the reader's words: names instead of ids.

use hanok_analysis::{
    Analysis, Change, Placement, Refutation, RefutedAt, Undecided, Verdict, Work,
};
use hanok_task_model::{
    ComponentId, Member, Model, Nanos, Plan, Policy, PoolId, ResourceInterface, TaskId, Vcpu,
};

/// The words for refusals of this model's analysis.
#[derive(Clone, Copy, Debug)]
pub struct Reasons<'a> {
    model: &'a Model,
}

impl<'a> Reasons<'a> {
    /// The words for `model`.
    pub const fn new(model: &'a Model) -> Self {
        Self { model }
    }

    fn component(&self, id: ComponentId) -> &'a str {
        let found = self.model.component(id);
        found.map_or("?", |component| component.name.as_str())
    }

    fn task(&self, id: TaskId) -> &'a str {
        self.model.task(id).map_or("?", |task| task.name.as_str())
    }

    fn pool(&self, id: PoolId) -> &'a str {
        self.model.pool(id).map_or("?", |pool| pool.name.as_str())
    }

    /// The name of a vCPU, with its number if there are several.
    pub fn vcpu(&self, vcpu: Vcpu) -> String {
        let name = self.component(vcpu.component);
        let component = self.model.component(vcpu.component);
        if component.is_some_and(|component| component.cpus > 1) {
            format!("{name} vCPU {}", vcpu.cpu)
        } else {
            name.to_owned()
        }
    }

    /// A member, as "task" or "component" with its name.
    pub fn member(&self, member: Member) -> String {
        match member {
            Member::Task(id) => {
                let home = self.model.task(id);
                let home = home.map(|task| self.component(task.component));
                format!("task {} of {}", self.task(id), home.unwrap_or("?"))
            }
            Member::Component(id) => format!("component {}", self.component(id)),
        }
    }

    /// The sentence of a refutation.
    pub fn sentence(&self, refuted: &Refutation) -> String {
        let who = match refuted.vcpu {
            Some(vcpu) => format!("{} has no place", self.vcpu(vcpu)),
            None => {
                if refuted.certain {
                    format!("{} misses its deadline", self.member(refuted.member))
                } else {
                    format!(
                        "{} is not shown to keep its deadline",
                        self.member(refuted.member)
                    )
                }
            }
        };
        let upon = match refuted.place {
            RefutedAt::Component(id) => match self.model.component(id).map(|one| one.plan) {
                Some(Plan::Given(interface)) => {
                    format!("{} gives {}", self.component(id), promise(&interface))
                }
                _ => format!("in {}", self.component(id)),
            },
            RefutedAt::Alone(id) => {
                format!(
                    "{} would be too much for a CPU of its own",
                    self.component(id)
                )
            }
            RefutedAt::Cores(pool, Some(core)) => {
                format!(
                    "core {core} of pool {} is the one with the most room",
                    self.pool(pool)
                )
            }
            RefutedAt::Cores(pool, None) => {
                format!("on the cores of pool {} together", self.pool(pool))
            }
        };
        let [needed, there, short] =
            [refuted.demand, refuted.supply, refuted.shortfall()].map(time);
        format!(
            "{who}: {} after the worst release, {needed} of CPU time are needed and {there} \
             there, {short} short ({upon})",
            refuted.at
        )
    }

    /// The sentence of a change.
    pub fn change(&self, change: Change) -> String {
        match change {
            Change::Budget(id, to) => format!("budget {to} for {}", self.component(id)),
            Change::MaxBudget(id, to) => {
                format!(
                    "there is room for {}, where it needs a budget of {to} at most",
                    self.component(id)
                )
            }
            Change::Apart(id) => format!("{} in a place of its own", self.component(id)),
            Change::Period(id, to) => format!("period {to} for {}", self.component(id)),
            Change::Execution(id, to) => format!("execution {to} for task {}", self.task(id)),
            Change::TaskPeriod(id, to) => format!("period {to} for task {}", self.task(id)),
            Change::Core(id) => format!("one more core for pool {}", self.pool(id)),
        }
    }

    /// Why the component `id` has no answer; `None` if it has one or is refused itself.
    pub fn open(&self, analysis: &Analysis, id: ComponentId) -> Option<String> {
        match analysis.components.get(id.0 as usize)? {
            Verdict::Proven(_) | Verdict::Refuted(_) => None,
            Verdict::Undecided(why) => {
                let component = self.model.component(id)?;
                let inside = self.model.members();
                let members = inside.get(id.0 as usize).map_or(0, Vec::len);
                Some(undecided(*why, component.policy, members))
            }
            Verdict::Waits(other) => Some(self.waits(*other)),
        }
    }

    /// Why the pool `id` has no answer; `None` if it has one or is refused itself.
    pub fn open_pool(&self, analysis: &Analysis, id: PoolId) -> Option<String> {
        match analysis.pools.get(id.0 as usize)? {
            Placement::Placed(_) | Placement::Refused(_) => None,
            Placement::Undecided(why) => {
                let pool = self.model.pool(id)?;
                Some(undecided(*why, pool.policy, self.model.roots(id).count()))
            }
            Placement::Waits(other) => Some(self.waits(*other)),
        }
    }

    fn waits(&self, other: ComponentId) -> String {
        let name = self.component(other);
        format!("waits for {name}, which has no interface")
    }
}

/// Why there is no answer for `members` that `policy` chooses among, and what would help.
fn undecided(why: Undecided, policy: Policy, members: usize) -> String {
    let most = Work::TEST;
    let name = self::policy(policy);
    match (why, policy.is_fixed()) {
        (Undecided::TooLong, true) => format!(
            "{why}, which are {most}: under \"{name}\" each of the {members} members is held \
             against all above it; would do: policy = \"edf\", or fewer members in one place"
        ),
        (Undecided::TooLong, false) => format!(
            "{why}, which are {most}, for {members} members: their periods have large common \
             multiples, and almost all of the time is taken; would do: a larger budget, periods \
             that are multiples of each other, or fewer members in one place"
        ),
        _ => why.to_string(),
    }
}

/// A time that may be beyond 64 bits.
pub fn time(nanos: i128) -> String {
    match u64::try_from(nanos) {
        Ok(nanos) => Nanos::new(nanos).to_string(),
        Err(_) => format!("{nanos}ns"),
    }
}

/// An interface in words.
pub fn promise(interface: &ResourceInterface) -> String {
    let ResourceInterface {
        period,
        budget,
        deadline,
    } = interface;
    if deadline == period {
        format!("{budget} in {period}")
    } else {
        format!("{budget} within {deadline} in {period}")
    }
}

/// The description's word for a policy.
pub fn policy(policy: Policy) -> &'static str {
    match policy {
        Policy::Edf => "edf",
        Policy::RateMonotonic => "rm",
        Policy::DeadlineMonotonic => "dm",
        Policy::FixedPriority => "fixed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twenty thousand groups under fixed priorities have no large common multiples.
    #[test]
    fn what_needs_too_many_steps_says_why_and_what_helps() {
        let fixed = undecided(Undecided::TooLong, Policy::RateMonotonic, 20_000);
        let why = "20000000: under \"rm\" each of the 20000 members is held against all above it";
        assert!(
            fixed.contains(why) && fixed.contains("would do: policy = \"edf\""),
            "{fixed}"
        );
        assert!(!fixed.contains("multiples"), "{fixed}");
        let edf = undecided(Undecided::TooLong, Policy::Edf, 3);
        assert!(
            edf.contains("multiples") && edf.contains("would do: a larger budget"),
            "{edf}"
        );
    }
}
