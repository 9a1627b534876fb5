//! Who runs on each core: from its root down to a task.

use crate::node::NodeId;
use crate::scene::Choice;
use crate::state::State;
use alloc::vec::Vec;
use hanok_task_model::TaskId;

/// How often all cores choose at an instant, at most: once for each of 256 that another one's choice
/// may have displaced somebody from, once for those that he may displace in turn, and once more.
const ROUNDS: usize = 513;

/// What the way down led to.
#[derive(Default)]
struct Found {
    task: Option<TaskId>,
    until: Option<u64>,
    path: Vec<(NodeId, usize)>,
    /// Those whose budgets are spent on this task although they are not on the way to it.
    payers: Vec<(NodeId, usize)>,
    /// Whether somebody on the way has no work, and spends his budget on nothing.
    idles: bool,
}

/// Where the way down goes on.
enum Next {
    /// To a CPU of this one.
    Down(NodeId, usize),
    /// Nowhere: nobody may run here before this instant.
    Stuck(Option<u64>),
    /// It has led to a task, or to nobody.
    End,
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
        let mut found = if supplied {
            self.descend(root, lane)
        } else {
            Found::default()
        };
        found.until = earliest(found.until, change);
        let Some(core) = self.cores.get_mut(index) else {
            return;
        };
        let mut left = core::mem::replace(&mut core.path, found.path);
        left.extend(core::mem::replace(&mut core.payers, found.payers));
        left.retain(|at| !core.asks(*at));
        for (node, lane) in left {
            self.suspend(node, lane);
        }
        self.take_up(index, found.task, found.until);
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

    /// `task` runs on the core, after the switch to its component.
    fn take_up(&mut self, index: usize, task: Option<TaskId>, until: Option<u64>) {
        let home = task.and_then(|task| self.scene.tasks.home(task));
        let remaining = task.and_then(|task| Some(self.scene.tasks.current(task)?.remaining));
        let (now, cost) = (self.now, self.cost);
        let Some(core) = self.cores.get_mut(index) else {
            return;
        };
        core.runs = task;
        if let Some((home, _)) = home {
            if core.last.last().is_none_or(|(last, _)| *last != home) {
                // The first one ever finds a core that is as cold.
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

    /// From a root down to a task. Where a component has nobody who may run now, its CPU waits
    /// until somebody may, and its home chooses anew.
    fn descend(&mut self, root: NodeId, lane: usize) -> Found {
        let mut waits = None;
        loop {
            let mut found = Found::default();
            let (mut node, mut lane) = (root, lane);
            let stuck = loop {
                match self.choose_in(node, lane, &mut found) {
                    Next::Down(inner, cpu) => (node, lane) = (inner, cpu),
                    Next::Stuck(until) => break Some(until),
                    Next::End => break None,
                }
            };
            match stuck {
                Some(until) if node != root && self.park(node, lane, until) => {
                    waits = earliest(waits, until);
                    let payers = core::mem::take(&mut found.payers);
                    found.path.extend(payers);
                    self.leave(&found.path);
                }
                _ => {
                    found.until = earliest(found.until, waits);
                    return found;
                }
            }
        }
    }

    /// Who is chosen on one CPU of `node`, noted in `found`.
    fn choose_in(&mut self, node: NodeId, lane: usize, found: &mut Found) -> Next {
        found.path.push((node, lane));
        let now = self.now;
        let Some(at) = self.scene.nodes.get_mut(node.0) else {
            return Next::End;
        };
        let (member, until) = at.chooser.pick(lane, now);
        let charged = at.chooser.charged(lane);
        found.until = earliest(found.until, until);
        let Some(member) = member else {
            // Who spends his budget on nothing spends that of his home, too, and those inside
            // him spend theirs.
            return match charged.and_then(|charged| self.choice(node, charged)) {
                Some(Choice::Node(inner, cpu)) => {
                    found.idles = true;
                    Next::Down(inner, cpu)
                }
                None if charged.is_none() && !found.idles => Next::Stuck(until),
                _ => Next::End,
            };
        };
        if let Some(charged) = charged.filter(|charged| *charged != member) {
            self.pay(node, charged, found);
        }
        match self.choice(node, member) {
            Some(Choice::Task(task)) => {
                found.task = Some(task);
                Next::End
            }
            Some(Choice::Node(inner, cpu)) => Next::Down(inner, cpu),
            None => Next::End,
        }
    }

    /// `member` of `node` has no work, and somebody else has his time: those inside him spend
    /// their budgets in it.
    fn pay(&mut self, node: NodeId, member: usize, found: &mut Found) {
        let mut choice = self.choice(node, member);
        while let Some(Choice::Node(inner, lane)) = choice {
            let now = self.now;
            let at = self.scene.nodes.get_mut(inner.0);
            // Whoever waits for a CPU of several would run here.
            let Some(at) = at.filter(|at| at.homes.len() == 1) else {
                return;
            };
            found.payers.push((inner, lane));
            let (_, until) = at.chooser.pick(lane, now);
            let charged = at.chooser.charged(lane);
            found.until = earliest(found.until, until);
            choice = charged.and_then(|charged| self.choice(inner, charged));
        }
    }

    /// The CPU `lane` of `node` has no work until `until`. `false` where that was so already.
    fn park(&mut self, node: NodeId, lane: usize, until: Option<u64>) -> bool {
        let now = self.now;
        let Some((home, member)) = self.home(node, lane) else {
            return false;
        };
        if self.parked.iter().any(|(_, n, l)| (*n, *l) == (node, lane)) {
            return false;
        }
        self.parked.insert((until.unwrap_or(u64::MAX), node, lane));
        if let Some(home) = self.scene.nodes.get_mut(home.0) {
            home.chooser.block(member, now);
        }
        true
    }

    /// A way down that led nowhere is given up.
    fn leave(&mut self, path: &[(NodeId, usize)]) {
        for (node, lane) in path.iter().skip(1) {
            let now = self.now;
            if let Some(node) = self.scene.nodes.get_mut(node.0) {
                node.chooser.suspend(*lane, now);
            }
        }
    }
}

/// The earlier of two instants, of which either may be never.
fn earliest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
