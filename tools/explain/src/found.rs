//! The result of the analysis in the reader's words: names instead of ids.

use hanok_analysis::{Analysis, Change, Placement, Refutation, Response, Verdict};
use hanok_system::Schedule;
use hanok_system::reasons::Reasons;
pub use hanok_system::reasons::{policy, promise, time};
use hanok_task_model::{
    Certificate, Component, ComponentId, ComponentProof, CoreProof, Fraction, Home, Member, Mode,
    Model, Nanos, PoolId, Server, Task, TaskId, Vcpu,
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
        self.reasons().vcpu(vcpu)
    }

    /// A member, as "task" or "component" with its name.
    pub fn member(&self, member: Member) -> String {
        self.reasons().member(member)
    }

    fn reasons(&self) -> Reasons<'a> {
        Reasons::new(self.model())
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
        self.reasons().open(self.analysis, id)
    }

    /// Why a pool has no answer; `None` if it has one or is refused itself.
    pub fn open_pool(&self, id: PoolId) -> Option<String> {
        self.reasons().open_pool(self.analysis, id)
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
        let all = budget.saturating_add(hanok_analysis::cost_beyond(model, component));
        all.get() as f64 / proof.interface.period.get() as f64
    }

    /// The sentence of a refutation.
    pub fn sentence(&self, refuted: &Refutation) -> String {
        self.reasons().sentence(refuted)
    }

    /// The sentence of a change.
    pub fn change(&self, change: Change) -> String {
        self.reasons().change(change)
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
