//! Decides who runs on each core: from the core's root down to a task.

use crate::node::NodeId;
use crate::scene::Choice;
use crate::state::State;
use alloc::vec::Vec;
use hanok_task_model::TaskId;

/// The largest number of rounds in which all cores choose at one instant: one for each of 256
/// members that another core's choice may displace, one for each of those that these displace in
/// turn, and one more.
const ROUNDS: usize = 513;

/// The result of a descent from a root.
#[derive(Default)]
struct Descent {
    task: Option<TaskId>,
    until: Option<u64>,
    path: Vec<(NodeId, usize)>,
    /// The CPUs whose budgets are spent on this task although they are not on the path to it.
    payers: Vec<(NodeId, usize)>,
    /// Whether a member on the path has no work, and spends its budget idly.
    idles: bool,
}

/// Where the descent goes on.
enum Next {
    /// To this CPU of this node.
    Down(NodeId, usize),
    /// Nowhere: no member may run here before this instant.
    Stuck(Option<u64>),
    /// The descent has reached a task, or nothing.
    End,
}

/// What became of a CPU that was to be parked.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parking {
    /// It is parked now, and its home has one choice less.
    Parked,
    /// It was parked already, or is a root's.
    Unchanged,
}

impl State {
    /// Lets every core choose.
    pub fn choose(&mut self) {
        for _ in 0..ROUNDS {
            for core in 0..self.cores.len() {
                self.choose_on(core);
            }
            let nodes = (0..).map(NodeId).zip(&self.scene.nodes);
            let kicks = nodes.filter(|(id, node)| {
                let parked = self.parked.iter().any(|(_, parked, _)| parked == id);
                node.chooser.kicks() || (parked && node.chooser.has_waiting())
            });
            let kicks: Vec<_> = kicks.map(|(id, _)| id).collect();
            if kicks.is_empty() {
                break;
            }
            for node in kicks {
                self.unpark(node);
            }
        }
    }

    fn choose_on(&mut self, index: usize) {
        let Some(place) = self.scene.cores.get(index) else {
            return;
        };
        let (root, lane) = (place.root, place.lane);
        let (supplied, change) = place.supply.at(self.now);
        let mut descent = if supplied {
            self.descend(root, lane)
        } else {
            Descent::default()
        };
        descent.until = earliest(descent.until, change);
        let Some(core) = self.cores.get_mut(index) else {
            return;
        };
        let mut left = core::mem::replace(&mut core.path, descent.path);
        left.extend(core::mem::replace(&mut core.payers, descent.payers));
        left.retain(|at| !core.asks(*at));
        for (node, lane) in left {
            self.suspend(node, lane);
        }
        self.take_up(index, descent.task, descent.until);
    }

    fn suspend(&mut self, node: NodeId, lane: usize) {
        let now = self.now;
        // Another core may have taken it up meanwhile.
        let elsewhere = self.cores.iter().any(|core| core.asks((node, lane)));
        if let Some(node) = self.scene.nodes.get_mut(node.0)
            && !elsewhere
        {
            node.chooser.suspend(lane, now);
        }
    }

    /// Makes `task` run on the core, after the switch to its component.
    fn take_up(&mut self, index: usize, task: Option<TaskId>, until: Option<u64>) {
        let home = task.and_then(|task| self.scene.tasks.home(task));
        let remaining = task.and_then(|task| Some(self.scene.tasks.current(task)?.remaining));
        let (now, cost) = (self.now, self.cost);
        let Some(core) = self.cores.get_mut(index) else {
            return;
        };
        core.runs = task;
        if task.is_none() && self.best_effort {
            // Whoever comes next comes from outside.
            core.last.clear();
        }
        if let Some((home, _)) = home {
            if core.last.last().is_none_or(|(last, _)| *last != home) {
                // The first task ever finds a core that is as cold as after a switch.
                let both = core.last.iter().zip(&core.path);
                core.shared = both.take_while(|(last, now)| last == now).count();
                core.delay = cost;
            }
            core.last.clone_from(&core.path);
        }
        let end =
            remaining.map(|remaining| now.saturating_add(core.delay).saturating_add(remaining));
        core.until = earliest(until, end);
    }

    /// Goes from a root down to a task. Where a component has no member that may run now, its CPU
    /// waits until one may, and its home chooses again.
    fn descend(&mut self, root: NodeId, lane: usize) -> Descent {
        let mut waits = None;
        loop {
            let mut descent = Descent::default();
            let (mut node, mut lane) = (root, lane);
            let stuck = loop {
                match self.choose_in(node, lane, &mut descent) {
                    Next::Down(inner, cpu) => (node, lane) = (inner, cpu),
                    Next::Stuck(until) => break Some(until),
                    Next::End => break None,
                }
            };
            match stuck {
                Some(until) if node != root && self.park(node, lane, until) == Parking::Parked => {
                    waits = earliest(waits, until);
                    let payers = core::mem::take(&mut descent.payers);
                    descent.path.extend(payers);
                    self.leave(&descent.path);
                }
                _ => {
                    descent.until = earliest(descent.until, waits);
                    return descent;
                }
            }
        }
    }

    /// Chooses on one CPU of `node`, and notes the choice in `descent`.
    fn choose_in(&mut self, node: NodeId, lane: usize, descent: &mut Descent) -> Next {
        descent.path.push((node, lane));
        let now = self.now;
        let Some(at) = self.scene.nodes.get_mut(node.0) else {
            return Next::End;
        };
        let (member, until) = at.chooser.pick(lane, now);
        let charged = at.chooser.charged(lane);
        descent.until = earliest(descent.until, until);
        let is_root = descent.path.len() == 1;
        if self.best_effort && is_root && member.is_some_and(|one| at.chooser.is_spent(one)) {
            if let Some(charged) = charged {
                self.pay(node, charged, descent);
            }
            return Next::End;
        }
        let Some(member) = member else {
            // A member that spends its budget idly also spends that of its home, and the members
            // inside it spend theirs.
            return match charged.and_then(|charged| self.choice(node, charged)) {
                Some(Choice::Node(inner, cpu)) => {
                    descent.idles = true;
                    Next::Down(inner, cpu)
                }
                None if charged.is_none() && !descent.idles => Next::Stuck(until),
                _ => Next::End,
            };
        };
        if let Some(charged) = charged.filter(|charged| *charged != member) {
            self.pay(node, charged, descent);
        }
        match self.choice(node, member) {
            Some(Choice::Task(task)) => {
                descent.task = Some(task);
                Next::End
            }
            Some(Choice::Node(inner, cpu)) => Next::Down(inner, cpu),
            None => Next::End,
        }
    }

    /// `member` of `node` has no work, and another member uses its time: the members inside it
    /// spend their budgets in that time.
    fn pay(&mut self, node: NodeId, member: usize, descent: &mut Descent) {
        let mut choice = self.choice(node, member);
        while let Some(Choice::Node(inner, lane)) = choice {
            let now = self.now;
            let at = self.scene.nodes.get_mut(inner.0);
            // A component on several CPUs is left out: its members that wait for one of them would
            // run here.
            let Some(at) = at.filter(|at| at.homes.len() == 1) else {
                return;
            };
            descent.payers.push((inner, lane));
            let (_, until) = at.chooser.pick(lane, now);
            let charged = at.chooser.charged(lane);
            descent.until = earliest(descent.until, until);
            choice = charged.and_then(|charged| self.choice(inner, charged));
        }
    }

    /// Parks the CPU `lane` of `node`, which has no work until `until`.
    fn park(&mut self, node: NodeId, lane: usize, until: Option<u64>) -> Parking {
        let now = self.now;
        let Some((home, member)) = self.home(node, lane) else {
            return Parking::Unchanged;
        };
        if self.parked.iter().any(|(_, n, l)| (*n, *l) == (node, lane)) {
            return Parking::Unchanged;
        }
        self.parked.insert((until.unwrap_or(u64::MAX), node, lane));
        if let Some(home) = self.scene.nodes.get_mut(home.0) {
            home.chooser.block(member, now);
        }
        Parking::Parked
    }

    /// Gives up a path that led to nothing.
    fn leave(&mut self, path: &[(NodeId, usize)]) {
        for (node, lane) in path.iter().skip(1) {
            let now = self.now;
            if let Some(node) = self.scene.nodes.get_mut(node.0) {
                node.chooser.suspend(*lane, now);
            }
        }
    }
}

/// The earlier of two instants, each of which may be never.
fn earliest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
