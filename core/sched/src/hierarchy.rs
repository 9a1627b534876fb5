//! A policy whose entities are components: the root chooses a component, and that component's
//! policy chooses one of its members.
//!
//! Both levels are policies of any kind, and a component's policy may be a hierarchy again. So a
//! tree of any depth is one type, known when the image is built, without calls through a table.
//! Entities are numbered across all components; a table says in which component each one is, and as
//! which member.
//!
//! A component has work as long as one of its entities has. A component whose entities all wait for
//! their budgets is held back from the root until the first of them may run, so that it does not
//! keep the CPU from another component. But if one of its servers spends its budget without work,
//! the component spends its own with it ([`Policy::spends`]).
//!
//! A budget that is spent without work is spent at every level: if a component is charged without
//! having work ([`Policy::charged`]), its own policy is asked as well, so that the servers inside
//! it, which have no work either, spend theirs in the same time. Otherwise such a server would keep
//! its budget over its component's idle time, and spend it without work later, when others in the
//! component have work and count on the time: the promises to them assume servers that spend as a
//! periodic task runs. (A component that runs in the place of an idle one, [`Slack`](crate::Slack),
//! has its own servers charged for the work that they do.)

use crate::tournament::Tournament;
use crate::{Decision, Entity, Policy};

/// The component and member that an entity is.
#[derive(Clone, Copy, Debug)]
struct Home {
    component: u16,
    member: u16,
    ready: bool,
}

/// Up to `G` components below a root `R`. Each has up to `M` members, which a `C` chooses among.
/// There are up to `N` entities in all.
#[derive(Clone, Debug)]
pub struct Hierarchy<R, C, const G: usize, const M: usize, const N: usize> {
    root: R,
    components: [C; G],
    homes: [Option<Home>; N],
    /// For each component and member, the index of its entity.
    members: [[u16; M]; G],
    /// The number of entities with work, for each component.
    ready: [u16; G],
    /// The components that are held back, by the instant at which that ends.
    held: Tournament<G>,
    /// The components that are held back without an end.
    held_forever: [bool; G],
    /// The component whose policy was asked last, if it has not been suspended since.
    current: Option<Entity<G>>,
    /// The component that is charged without having work, if its policy was asked and has not been
    /// suspended since.
    idle: Option<Entity<G>>,
    /// The last component that last_run an entity.
    last_run: Option<Entity<G>>,
    /// Whether the component that runs is another one than before.
    changed: bool,
    spends: bool,
}

impl<R, C, const G: usize, const M: usize, const N: usize> Hierarchy<R, C, G, M, N>
where
    R: Policy<G>,
    C: Policy<M>,
{
    /// A hierarchy whose components have no members yet.
    pub fn new(root: R, components: [C; G]) -> Self {
        const { assert!(M > 0 && N <= 1 << 15) };
        Self {
            root,
            components,
            homes: [None; N],
            members: [[0; M]; G],
            ready: [0; G],
            held: Tournament::new(),
            held_forever: [false; G],
            current: None,
            idle: None,
            last_run: None,
            changed: false,
            spends: false,
        }
    }

    /// Makes `entity`, which has no work, the `member` of `component`.
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

    /// The policy that chooses among components.
    pub fn root(&mut self) -> &mut R {
        &mut self.root
    }

    /// The policy of `component`.
    pub fn component(&mut self, component: Entity<G>) -> Option<&mut C> {
        self.components.get_mut(component.index())
    }

    fn home(&self, entity: Entity<N>) -> Option<(Entity<G>, Entity<M>, bool)> {
        let home = (*self.homes.get(entity.index())?)?;
        let component = Entity::new(home.component.into())?;
        Some((component, Entity::new(home.member.into())?, home.ready))
    }

    /// Notes whether `entity` has work. If that changed, the answer is how many entities of its
    /// component had work before.
    fn set_ready(&mut self, entity: Entity<N>, component: Entity<G>, ready: bool) -> Option<u16> {
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

    /// Lets a component that was held back be chosen again.
    fn release(&mut self, component: Entity<G>, now: u64) {
        self.held.remove(component);
        if let Some(held_forever) = self.held_forever.get_mut(component.index()) {
            *held_forever = false;
        }
        // An entity in it has work, or it would not have been held back.
        self.root.wake(component, now);
    }

    fn is_held(&self, component: Entity<G>) -> bool {
        let held_forever = self.held_forever.get(component.index());
        self.held.contains(component) || held_forever.is_some_and(|held_forever| *held_forever)
    }

    /// Holds back a component in which no entity may run before `until`.
    fn hold(&mut self, component: Entity<G>, until: Option<u64>, now: u64) {
        match (until, self.held_forever.get_mut(component.index())) {
            (Some(until), _) => self.held.set(component, until),
            (None, Some(held_forever)) => *held_forever = true,
            (None, None) => {}
        }
        self.root.block(component, now);
    }

    /// Makes `component`, or none, the one that has the CPU.
    fn set_current(&mut self, component: Option<Entity<G>>, now: u64) {
        let before = core::mem::replace(&mut self.current, component);
        self.suspend_former(before, now);
    }

    /// Makes `component`, or none, the one that is charged without work.
    fn set_idle(&mut self, component: Option<Entity<G>>, now: u64) {
        let before = core::mem::replace(&mut self.idle, component);
        self.suspend_former(before, now);
    }

    /// Suspends the policy of `before`, unless that component has just been chosen again.
    fn suspend_former(&mut self, before: Option<Entity<G>>, now: u64) {
        if let Some(before) = before
            && self.current != Some(before)
            && self.idle != Some(before)
            && let Some(policy) = self.components.get_mut(before.index())
        {
            policy.suspend(now);
        }
    }

    /// Lets the servers inside a component that is charged without work spend their budgets. The
    /// answer is the instant at which the one that pays now is to be asked again.
    fn spend_inside(&mut self, component: Option<Entity<G>>, now: u64) -> Option<u64> {
        self.set_idle(component, now);
        let policy = self.components.get_mut(component?.index())?;
        policy.pick(now).until
    }

    /// The member of `component` that runs; `None` if no member may run, and then the component is
    /// held back.
    fn pick_inside(&mut self, component: Entity<G>, now: u64) -> Option<Decision<N>> {
        self.set_current(Some(component), now);
        if self.idle == Some(component) {
            // The component has work now, so the member that pays goes on.
            self.idle = None;
        }
        let policy = self.components.get_mut(component.index())?;
        let Decision { run, until } = policy.pick(now);
        if run.is_none() && !policy.spends() {
            self.set_current(None, now);
            self.hold(component, until, now);
            return None;
        }
        self.spends = run.is_none();
        if run.is_some() {
            self.changed = self.last_run.replace(component) != Some(component);
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
        let before = self.set_ready(entity, component, true);
        if self.is_held(component) {
            self.release(component, now);
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
        if self.set_ready(entity, component, false) == Some(1) {
            self.held.remove(component);
            if let Some(held_forever) = self.held_forever.get_mut(component.index()) {
                *held_forever = false;
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
            self.release(component, now);
        }
        // Each round but the last holds a component back.
        for _ in 0..=G {
            let Decision { run, until } = self.root.pick(now);
            let charged = self.root.charged();
            let Some(component) = run else {
                self.set_current(None, now);
                self.spends = self.root.spends();
                let until = earliest(until, self.spend_inside(charged, now));
                return Decision {
                    run: None,
                    until: earliest(until, self.next_held()),
                };
            };
            if let Some(inner) = self.pick_inside(component, now) {
                let until = earliest(until, inner.until);
                let idle = charged.filter(|charged| *charged != component);
                let until = earliest(until, self.spend_inside(idle, now));
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

    fn exempt_switch(&mut self, now: u64) {
        // A switch inside one component is at the component's expense, as its members' costs say.
        if self.changed {
            self.root.exempt_switch(now);
        }
        if let Some(policy) = self
            .current
            .and_then(|c| self.components.get_mut(c.index()))
        {
            policy.exempt_switch(now);
        }
    }

    fn suspend(&mut self, now: u64) {
        self.set_current(None, now);
        self.set_idle(None, now);
        self.root.suspend(now);
    }
}

impl<R, C, const G: usize, const M: usize, const N: usize> Hierarchy<R, C, G, M, N> {
    fn next_held(&self) -> Option<u64> {
        self.held.first().map(|(_, at)| at)
    }
}

/// The earlier of two instants; `None` means never.
fn earliest(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests;
