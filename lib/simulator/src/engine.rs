//! Goes from one event to the next.

use crate::node::NodeId;
use crate::scene::{Choice, Scene};
use crate::state::{Core, State};
use crate::timeline::{Segment, Timeline};
use crate::{Options, SimError, Slack, What};
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use hanok_task_model::{Model, TaskId};

/// Simulates `model` up to the horizon of `options`.
pub fn simulate(model: &Model, options: &Options) -> Result<Timeline, SimError> {
    let scene = Scene::new(model, options)?;
    let cost = match options.what {
        What::System => model.cost.switch.saturating_add(model.cost.refill).get(),
        // A component that is simulated alone gets a supply from which switches are already paid.
        What::Component(..) => 0,
    };
    let cores = scene.cores.iter().map(|_| Core::default()).collect();
    let mut state = State {
        now: 0,
        scene,
        cores,
        parked: BTreeSet::new(),
        segments: Vec::new(),
        cost,
        best_effort: options.best_effort && options.slack != Slack::Idle,
    };
    state.run(options)
}

impl State {
    fn run(&mut self, options: &Options) -> Result<Timeline, SimError> {
        let mut events = 0;
        while self.now < options.horizon {
            events += 1;
            if events > options.events {
                return Err(SimError::TooLong {
                    events: options.events,
                    reached: self.now,
                });
            }
            self.complete_jobs();
            self.release_jobs();
            self.unpark_due();
            self.choose();
            let next = self.next_event().min(options.horizon);
            self.pass(next.max(self.now));
        }
        self.complete_jobs();
        Ok(Timeline {
            horizon: options.horizon,
            cores: self.cores.len(),
            segments: core::mem::take(&mut self.segments),
            jobs: core::mem::take(&mut self.scene.tasks.jobs),
            events,
        })
    }

    fn complete_jobs(&mut self) {
        for core in 0..self.cores.len() {
            let runs = self.cores.get(core).and_then(|core| core.runs);
            if let Some(task) = runs
                && self
                    .scene
                    .tasks
                    .current(task)
                    .is_some_and(|job| job.remaining == 0)
            {
                self.complete(task);
            }
        }
    }

    fn complete(&mut self, task: TaskId) {
        let next = self.scene.tasks.complete(task, self.now);
        let Some((node, member)) = self.scene.tasks.home(task) else {
            return;
        };
        match next {
            None => self.block(node, member),
            Some(deadline) => self.go_on(node, member, deadline),
        }
    }

    /// A task has its next job at once, with this deadline. Its component never stops having work:
    /// a polling server then keeps its budget, as a vCPU that finds more to do never idles.
    fn go_on(&mut self, node: NodeId, member: usize, deadline: u64) {
        let now = self.now;
        if let Some(at) = self.scene.nodes.get_mut(node.0) {
            at.chooser.block(member, now);
            at.chooser.wake(member, now, Some(deadline));
        }
    }

    fn release_jobs(&mut self) {
        while let Some((task, first)) = self.scene.tasks.release(self.now) {
            if let (Some(deadline), Some((node, member))) = (first, self.scene.tasks.home(task)) {
                self.wake(node, member, Some(deadline));
            }
        }
    }

    /// A member of `node` has work from now on, and so one more of the node's CPUs has some.
    fn wake(&mut self, node: NodeId, member: usize, deadline: Option<u64>) {
        let (mut node, mut member, mut deadline) = (node, member, deadline);
        loop {
            let now = self.now;
            let Some(at) = self.scene.nodes.get_mut(node.0) else {
                return;
            };
            at.chooser.wake(member, now, deadline.take());
            let lane = at.awake;
            at.awake += 1;
            self.unpark(node);
            let Some(home) = self.home(node, lane) else {
                return;
            };
            (node, member) = home;
        }
    }

    /// A member of `node` has no work any more.
    fn block(&mut self, node: NodeId, member: usize) {
        let (mut node, mut member) = (node, member);
        loop {
            let now = self.now;
            let Some(at) = self.scene.nodes.get_mut(node.0) else {
                return;
            };
            at.chooser.block(member, now);
            at.awake = at.awake.saturating_sub(1);
            let lane = at.awake;
            let Some(home) = self.home(node, lane) else {
                return;
            };
            self.parked
                .retain(|(_, parked, at)| (*parked, *at) != (node, lane));
            (node, member) = home;
        }
    }

    /// The node and the member number by which the CPU `lane` of `node` is chosen.
    pub fn home(&self, node: NodeId, lane: usize) -> Option<(NodeId, usize)> {
        *self.scene.nodes.get(node.0)?.homes.get(lane)?
    }

    fn unpark_due(&mut self) {
        while let Some((at, node, lane)) = self.parked.first().copied() {
            if at > self.now {
                return;
            }
            self.parked.pop_first();
            self.wake_lane(node, lane);
        }
    }

    /// Something changed in `node`: its parked CPUs may have work again.
    pub fn unpark(&mut self, node: NodeId) {
        let here: Vec<_> = self
            .parked
            .iter()
            .filter(|(_, parked, _)| *parked == node)
            .copied()
            .collect();
        for parked in here {
            self.parked.remove(&parked);
            self.wake_lane(parked.1, parked.2);
        }
    }

    fn wake_lane(&mut self, node: NodeId, lane: usize) {
        let now = self.now;
        let Some((home, member)) = self.home(node, lane) else {
            return;
        };
        if let Some(home) = self.scene.nodes.get_mut(home.0) {
            home.chooser.wake(member, now, None);
        }
        // The home may have been parked, too, because no member in it could run.
        self.unpark(home);
    }

    fn next_event(&self) -> u64 {
        let releases = self.scene.tasks.next_release();
        let parked = self.parked.first().map(|(at, _, _)| *at);
        let cores = self.cores.iter().filter_map(|core| core.until);
        let all = cores.chain(releases).chain(parked);
        all.min().unwrap_or(u64::MAX)
    }

    /// Lets time pass up to `next`.
    fn pass(&mut self, next: u64) {
        let passed = next - self.now;
        if passed > 0 {
            for index in 0..self.cores.len() {
                self.pass_on(index, passed);
            }
        }
        self.now = next;
    }

    fn pass_on(&mut self, index: usize, passed: u64) {
        let Some(core) = self.cores.get_mut(index) else {
            return;
        };
        let Some(task) = core.runs else { return };
        let switching = core.delay.min(passed);
        core.delay -= switching;
        if let Some(job) = self.scene.tasks.current(task) {
            job.remaining = job.remaining.saturating_sub(passed - switching);
        }
        let middle = self.now + switching;
        if switching > 0 {
            self.exempt_switch(index, middle);
        }
        for (switching, start, end) in
            [(true, self.now, middle), (false, middle, self.now + passed)]
        {
            if start < end {
                self.record(Segment {
                    core: index,
                    task,
                    switching,
                    start,
                    end,
                });
            }
        }
    }

    /// Charges the switch on a core, up to `until`, to the components that hold both the task that
    /// ran before and the one that runs now: to them it is a part of what a member costs in a
    /// period. The new task's own component pays nothing, so that its budget is its own however
    /// often it is preempted.
    fn exempt_switch(&mut self, index: usize, until: u64) {
        let Some(core) = self.cores.get(index) else {
            return;
        };
        for (node, lane) in core.path.iter().skip(core.shared.saturating_sub(1)) {
            if let Some(node) = self.scene.nodes.get_mut(node.0) {
                node.chooser.exempt_switch(*lane, until);
            }
        }
    }

    fn record(&mut self, segment: Segment) {
        let last = self.cores.get(segment.core).and_then(|core| core.recorded);
        if let Some(last) = last.and_then(|last| self.segments.get_mut(last))
            && (last.task, last.switching, last.end)
                == (segment.task, segment.switching, segment.start)
        {
            last.end = segment.end;
            return;
        }
        if let Some(core) = self.cores.get_mut(segment.core) {
            core.recorded = Some(self.segments.len());
        }
        self.segments.push(segment);
    }

    /// The choice with the number `member` of `node`.
    pub fn choice(&self, node: NodeId, member: usize) -> Option<Choice> {
        self.scene.nodes.get(node.0)?.choices.get(member).copied()
    }
}
