//! The result of the analysis in the reader's words: names instead of ids.

use hanok_analysis::{
    Analysis, Change, Placement, Refutation, RefutedAt, Response, Undecided, Verdict, Work,
};
use hanok_system::Schedule;
use hanok_task_model::{
    Certificate, Component, ComponentId, ComponentProof, CoreProof, Fraction, Home, Member, Mode,
    Model, Nanos, Plan, Policy, PoolId, ResourceInterface, Server, Task, TaskId, Vcpu,
};

/// An analysis and its model.
pub struct Found<'a> {
    /// The schedule.
    pub schedule: &'a Schedule,
    /// The analysis.
    pub analysis: &'a Analysis,
    /// The certificate, if everything is proven.
    pub certificate: Option<Certificate>,
    /// When each task's jobs are complete, if that is proven.
    responses: Vec<Option<Response>>,
}

impl<'a> Found<'a> {
    /// The result of `analysis` for `schedule`.
    pub fn new(schedule: &'a Schedule, analysis: &'a Analysis) -> Self {
        Self {
            schedule,
            analysis,
            certificate: analysis.certificate(),
            responses: analysis.responses(&schedule.model),
        }
    }

    /// The model.
    pub fn model(&self) -> &'a Model {
        &self.schedule.model
    }

    /// The name of a component.
    pub fn component(&self, id: ComponentId) -> &'a str {
        let found = self.model().component(id);
        found.map_or("?", |component| component.name.as_str())
    }

    /// The name of a task.
    pub fn task(&self, id: TaskId) -> &'a str {
        self.model().task(id).map_or("?", |task| task.name.as_str())
    }

    /// The longest time from arrival to completion of the task's jobs, and the least time from
    /// there to their deadline.
    pub fn response(&self, id: TaskId) -> Option<(Nanos, Nanos)> {
        let found = self.responses.get(id.0 as usize)?.as_ref()?;
        let nanos = |time: i128| u64::try_from(time).ok().map(Nanos::new);
        Some((nanos(found.most)?, nanos(found.slack)?))
    }

    /// Every task with its id.
    pub fn tasks(&self) -> impl Iterator<Item = (TaskId, &'a Task)> {
        (0..).map(TaskId).zip(&self.schedule.model.tasks)
    }

    /// The name of a pool.
    pub fn pool(&self, id: PoolId) -> &'a str {
        self.model().pool(id).map_or("?", |pool| pool.name.as_str())
    }

    /// The name of a vCPU, with its number if there are several.
    pub fn vcpu(&self, vcpu: Vcpu) -> String {
        let name = self.component(vcpu.component);
        let component = self.model().component(vcpu.component);
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
                let home = self
                    .model()
                    .task(id)
                    .map(|task| self.component(task.component));
                format!("task {} of {}", self.task(id), home.unwrap_or("?"))
            }
            Member::Component(id) => format!("component {}", self.component(id)),
        }
    }

    /// The pool or component from which a component gets its CPU time.
    pub fn home(&self, component: &Component) -> String {
        match component.home {
            Home::Pool(id) => format!("pool {}", self.pool(id)),
            Home::Component(id) => self.component(id).to_owned(),
        }
    }

    /// The proof of a component that has one.
    pub fn proof(&self, id: ComponentId) -> Option<&'a ComponentProof> {
        match self.analysis.components.get(id.0 as usize)? {
            Verdict::Proven(proof) => Some(proof),
            _ => None,
        }
    }

    /// Why a component has no answer; `None` if it has one or is refused itself.
    pub fn open(&self, id: ComponentId) -> Option<String> {
        match self.analysis.components.get(id.0 as usize)? {
            Verdict::Proven(_) | Verdict::Refuted(_) => None,
            Verdict::Undecided(why) => {
                let component = self.model().component(id)?;
                let inside = self.model().members();
                let members = inside.get(id.0 as usize).map_or(0, Vec::len);
                Some(undecided(*why, component.policy, members))
            }
            Verdict::Waits(other) => Some(format!(
                "waits for {}, which has no interface",
                self.component(*other)
            )),
        }
    }

    /// Why a pool has no answer; `None` if it has one or is refused itself.
    pub fn open_pool(&self, id: PoolId) -> Option<String> {
        match self.analysis.pools.get(id.0 as usize)? {
            Placement::Placed(_) | Placement::Refused(_) => None,
            Placement::Undecided(why) => {
                let pool = self.model().pool(id)?;
                Some(undecided(*why, pool.policy, self.model().roots(id).count()))
            }
            Placement::Waits(other) => Some(format!(
                "waits for {}, which has no interface",
                self.component(*other)
            )),
        }
    }

    /// All cores that are proven.
    pub fn cores(&self) -> impl Iterator<Item = &'a CoreProof> {
        self.analysis.pools.iter().flat_map(|pool| match pool {
            Placement::Placed(proofs) => proofs.as_slice(),
            _ => &[],
        })
    }

    /// The share of a core that a vCPU takes, with its switches.
    pub fn share(&self, vcpu: Vcpu) -> f64 {
        let model = self.model();
        let component = model.component(vcpu.component);
        let (Some(component), Some(proof)) = (component, self.proof(vcpu.component)) else {
            return 0.0;
        };
        let budget = proof.interface.share(model.tick, vcpu.cpu, component.cpus);
        let all = budget.saturating_add(model.cost.per_period());
        all.get() as f64 / proof.interface.period.get() as f64
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
            RefutedAt::Component(id) => match self.model().component(id).map(|one| one.plan) {
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

    /// The line of the file that a refutation is about.
    pub fn line(&self, refuted: &Refutation) -> Option<usize> {
        match (refuted.vcpu, refuted.member) {
            (Some(vcpu), _) => self.schedule.line_of(vcpu.component),
            (None, Member::Task(id)) => self.schedule.line_of_task(id),
            (None, Member::Component(id)) => self.schedule.line_of(id),
        }
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

/// The description's word for a mode.
pub fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Partitioned => "partitioned",
        Mode::Global => "global",
    }
}

/// The description's word for a kind of server.
pub fn server(server: Server) -> &'static str {
    match server {
        Server::Periodic => "periodic",
        Server::Polling => "polling",
        Server::Deferrable => "deferrable",
        Server::ConstantBandwidth => "bandwidth",
        Server::SoftBandwidth => "soft-bandwidth",
    }
}

/// A budget for people. One that is no whole number of nanoseconds is rounded up, which is the safe
/// direction, with its exact value beside it: `1.226ms (1225806 14/31 ns)`.
pub fn exact(budget: Fraction) -> String {
    let Fraction {
        numerator,
        denominator,
    } = budget;
    match denominator {
        0 | 1 => Nanos::new(numerator).to_string(),
        _ => {
            let (whole, rest) = (numerator / denominator, numerator % denominator);
            let whole = match whole {
                0 => String::new(),
                whole => format!("{whole} "),
            };
            let above = rounded_up(budget);
            format!("{above} ({whole}{rest}/{denominator} ns)")
        }
    }
}

/// The least number of three decimals that is at least `budget`, in the largest unit of which the
/// budget is at least one.
fn rounded_up(budget: Fraction) -> String {
    let above = budget.numerator.div_ceil(budget.denominator);
    let units = [(1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us")];
    let Some((factor, unit)) = units.into_iter().find(|(factor, _)| above >= *factor) else {
        return Nanos::new(above).to_string();
    };
    let thousandths = (u128::from(budget.numerator) * 1_000)
        .div_ceil(u128::from(budget.denominator) * u128::from(factor));
    let decimals = format!("{}.{:03}", thousandths / 1_000, thousandths % 1_000);
    let short = decimals.trim_end_matches('0').trim_end_matches('.');
    format!("{short}{unit}")
}

/// A share of a CPU.
pub fn percent(share: f64) -> String {
    // Adding zero turns the negative zero of an empty sum into a positive one.
    format!("{:.2} %", share * 100.0 + 0.0)
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

    #[test]
    fn a_budget_is_rounded_up_and_exact_beside_it() {
        for (numerator, denominator, text) in [
            (840_000, 1, "840us"),
            (38_000_000, 31, "1.226ms (1225806 14/31 ns)"),
            (1, 3, "1ns (1/3 ns)"),
            (2_000_001, 2, "1.001ms (1000000 1/2 ns)"),
            (1_999_999, 2, "1ms (999999 1/2 ns)"),
            (3_001, 2, "1.501us (1500 1/2 ns)"),
            (u64::MAX, 2, "9223372036.855s (9223372036854775807 1/2 ns)"),
        ] {
            let budget = Fraction {
                numerator,
                denominator,
            };
            assert_eq!(exact(budget), text);
        }
    }
}
