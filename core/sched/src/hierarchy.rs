//! A component that schedules components: the root chooses one, and that one chooses among
//! its own.
//!
//! Both levels are policies of any kind, and a component's may be a hierarchy again, so that a
//! tree of any depth is one type, known when the image is built, without a call through a
//! table. Entities are numbered through; a table says in which component each is, and as whom.
//!
//! A component has work as long as one of its entities has. One whose entities all wait for
//! their budgets is held back from the root until the first of them may run, so that it does
//! not keep the CPU from another component; but where one of its servers spends its budget on
//! nothing, the component spends the CPU with it ([`Policy::spends`]).
//!
//! A budget that is spent on nothing is spent at every level: a component that is charged without
//! having work ([`Policy::charged`]) has its own policy asked as well, so that the servers
//! inside it, which have no work either, spend theirs in its time. Otherwise such a server would
//! keep its budget over its component's idle time, and spend it on nothing later, when others in
//! the component have work and count on the time: what is promised to them supposes servers
//! that spend as a periodic task runs. (A component that runs in the place of an idle one,
//! [`Slack`](crate::Slack), has its own servers charged for the work that they do.)

use crate::tournament::Tournament;
use crate::{Decision, Entity, Policy};

/// Where an entity is.
#[derive(Clone, Copy, Debug)]
struct Home {
    component: u16,
    member: u16,
    ready: bool,
}

/// Up to `G` components below a root `R`, each with up to `M` members chosen by a `C`; up to
/// `N` entities in all.
#[derive(Clone, Debug)]
pub struct Hierarchy<R, C, const G: usize, const M: usize, const N: usize> {
    root: R,
    components: [C; G],
    homes: [Option<Home>; N],
    /// For each component and member, which entity that is.
    members: [[u16; M]; G],
    /// How many of a component's entities have work.
    ready: [u16; G],
    /// The components that are held back, and until when.
    held: Tournament<G>,
    /// Those that are held back without an end.
    stuck: [bool; G],
    /// Whose policy has been asked last and not been suspended.
    current: Option<Entity<G>>,
    /// Who is charged without having work, and was asked for that and not suspended.
    idle: Option<Entity<G>>,
    /// The last component that ran something.
    ran: Option<Entity<G>>,
    /// Whether the one that runs is another one than before.
    changed: bool,
    spends: bool,
}

impl<R, C, const G: usize, const M: usize, const N: usize> Hierarchy<R, C, G, M, N>
where
    R: Policy<G>,
    C: Policy<M>,
{
    /// Components without members.
    pub fn new(root: R, components: [C; G]) -> Self {
        const { assert!(M > 0 && N <= 1 << 15) };
        Self {
            root,
            components,
            homes: [None; N],
            members: [[0; M]; G],
            ready: [0; G],
            held: Tournament::new(),
            stuck: [false; G],
            current: None,
            idle: None,
            ran: None,
            changed: false,
            spends: false,
        }
    }

    /// `entity`, which has no work, is `member` of `component` from now on.
    pub fn place(&mut self, entity: Entity<N>, component: Entity<G>, member: Entity<M>) {
        let home = Home {
            component: component.index() as u16,
            member: member.index() as u16,
            ready: false,
        };
        if let Some(slot) = self.homes.get_mut(entity.index()) {
            *slot = Some(home);
        }
        let members = self.members.get_mut(component.index());
        if let Some(slot) = members.and_then(|members| members.get_mut(member.index())) {
            *slot = entity.index() as u16;
        }
    }

    /// The policy among components.
    pub fn root(&mut self) -> &mut R {
        &mut self.root
    }

    /// The policy in a component.
    pub fn component(&mut self, component: Entity<G>) -> Option<&mut C> {
        self.components.get_mut(component.index())
    }

    fn home(&self, entity: Entity<N>) -> Option<(Entity<G>, Entity<M>, bool)> {
        let home = (*self.homes.get(entity.index())?)?;
        let component = Entity::new(home.component.into())?;
        Some((component, Entity::new(home.member.into())?, home.ready))
    }

    /// Notes whether `entity` has work; how many of its component had before, if it changed.
    fn note(&mut self, entity: Entity<N>, component: Entity<G>, ready: bool) -> Option<u16> {
        let home = self.homes.get_mut(entity.index())?.as_mut()?;
        if core::mem::replace(&mut home.ready, ready) == ready {
            return None;
        }
        let count = self.ready.get_mut(component.index())?;
        let before = *count;
        *count = if ready {
            before.saturating_add(1)
        } else {
            before.saturating_sub(1)
        };
        Some(before)
    }

    /// A component that was held back may be chosen again.
    fn let_go(&mut self, component: Entity<G>, now: u64) {
        self.held.remove(component);
        if let Some(stuck) = self.stuck.get_mut(component.index()) {
            *stuck = false;
        }
        // Somebody in it has work, or it would not have been held back.
        self.root.wake(component, now);
    }

    fn is_held(&self, component: Entity<G>) -> bool {
        let stuck = self.stuck.get(component.index());
        self.held.contains(component) || stuck.is_some_and(|stuck| *stuck)
    }

    /// A component in which nobody may run before `until`.
    fn hold(&mut self, component: Entity<G>, until: Option<u64>, now: u64) {
        match (until, self.stuck.get_mut(component.index())) {
            (Some(until), _) => self.held.set(component, until),
            (None, Some(stuck)) => *stuck = true,
            (None, None) => {}
        }
        self.root.block(component, now);
    }

    /// From now on it is `component` that has the CPU, or none.
    fn switch(&mut self, component: Option<Entity<G>>, now: u64) {
        let before = core::mem::replace(&mut self.current, component);
        self.leave(before, now);
    }

    /// From now on it is `component` that is charged without work, or none.
    fn spend(&mut self, component: Option<Entity<G>>, now: u64) {
        let before = core::mem::replace(&mut self.idle, component);
        self.leave(before, now);
    }

    /// Nobody in `before` runs or pays any more, unless it has just been taken up.
    fn leave(&mut self, before: Option<Entity<G>>, now: u64) {
        if let Some(before) = before
            && self.current != Some(before)
            && self.idle != Some(before)
            && let Some(policy) = self.components.get_mut(before.index())
        {
            policy.suspend(now);
        }
    }

    /// Lets the servers inside a component that is charged without work spend their budgets;
    /// until when the one of them pays whose turn it is.
    fn pass_in(&mut self, component: Option<Entity<G>>, now: u64) -> Option<u64> {
        self.spend(component, now);
        let policy = self.components.get_mut(component?.index())?;
        policy.pick(now).until
    }

    /// Who runs in `component`; `None`: nobody, and it is held back.
    fn pick_in(&mut self, component: Entity<G>, now: u64) -> Option<Decision<N>> {
        self.switch(Some(component), now);
        if self.idle == Some(component) {
            // It has work now; who pays in it goes on.
            self.idle = None;
        }
        let policy = self.components.get_mut(component.index())?;
        let Decision { run, until } = policy.pick(now);
        if run.is_none() && !policy.spends() {
            self.switch(None, now);
            self.hold(component, until, now);
            return None;
        }
        self.spends = run.is_none();
        if run.is_some() {
            self.changed = self.ran.replace(component) != Some(component);
        }
        let members = self.members.get(component.index());
        let entity = |member: Entity<M>| {
            let entity = members?.get(member.index())?;
            Entity::new((*entity).into())
        };
        let run = run.and_then(entity);
        Some(Decision { run, until })
    }
}

impl<R, C, const G: usize, const M: usize, const N: usize> Policy<N> for Hierarchy<R, C, G, M, N>
where
    R: Policy<G>,
    C: Policy<M>,
{
    fn wake(&mut self, entity: Entity<N>, now: u64) {
        let Some((component, member, _)) = self.home(entity) else {
            return;
        };
        if let Some(policy) = self.components.get_mut(component.index()) {
            policy.wake(member, now);
        }
        let before = self.note(entity, component, true);
        if self.is_held(component) {
            self.let_go(component, now);
        } else if before == Some(0) {
            self.root.wake(component, now);
        }
    }

    fn block(&mut self, entity: Entity<N>, now: u64) {
        let Some((component, member, _)) = self.home(entity) else {
            return;
        };
        if let Some(policy) = self.components.get_mut(component.index()) {
            policy.block(member, now);
        }
        if self.note(entity, component, false) == Some(1) {
            self.held.remove(component);
            if let Some(stuck) = self.stuck.get_mut(component.index()) {
                *stuck = false;
            }
            self.root.block(component, now);
        }
    }

    fn yield_now(&mut self, entity: Entity<N>, now: u64) {
        if let Some((component, member, _)) = self.home(entity)
            && let Some(policy) = self.components.get_mut(component.index())
        {
            policy.yield_now(member, now);
        }
    }

    fn pick(&mut self, now: u64) -> Decision<N> {
        self.spends = false;
        while let Some((component, _)) = self.held.first().filter(|(_, at)| *at <= now) {
            self.let_go(component, now);
        }
        // Each turn but the last holds a component back.
        for _ in 0..=G {
            let Decision { run, until } = self.root.pick(now);
            let charged = self.root.charged();
            let Some(component) = run else {
                self.switch(None, now);
                self.spends = self.root.spends();
                let until = earliest(until, self.pass_in(charged, now));
                return Decision {
                    run: None,
                    until: earliest(until, self.next_held()),
                };
            };
            if let Some(inner) = self.pick_in(component, now) {
                let until = earliest(until, inner.until);
                let idle = charged.filter(|charged| *charged != component);
                let until = earliest(until, self.pass_in(idle, now));
                return Decision {
                    run: inner.run,
                    until: earliest(until, self.next_held()),
                };
            }
        }
        Decision {
            run: None,
            until: self.next_held(),
        }
    }

    fn spends(&self) -> bool {
        self.spends
    }

    fn charged(&self) -> Option<Entity<N>> {
        let component = self.root.charged()?;
        let member = self.components.get(component.index())?.charged()?;
        let members = self.members.get(component.index())?;
        Entity::new((*members.get(member.index())?).into())
    }

    fn excuse(&mut self, now: u64) {
        // A switch inside one component is at its expense, by what its members cost it.
        if self.changed {
            self.root.excuse(now);
        }
        if let Some(policy) = self
            .current
            .and_then(|c| self.components.get_mut(c.index()))
        {
            policy.excuse(now);
        }
    }

    fn suspend(&mut self, now: u64) {
        self.switch(None, now);
        self.spend(None, now);
        self.root.suspend(now);
    }
}

impl<R, C, const G: usize, const M: usize, const N: usize> Hierarchy<R, C, G, M, N> {
    fn next_held(&self) -> Option<u64> {
        self.held.first().map(|(_, at)| at)
    }
}

/// The earlier of two instants, of which either may be never.
fn earliest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
