//! The servers of one pCPU, and groups of servers that share a server, to any depth.
//!
//! The root chooses among vCPUs and groups, and each group among its own members. A group is a
//! server at its home (the root, or another group): what its members use is taken from its budget
//! as well as from theirs. The shape of the tree comes from a description, so that it is data: a
//! table of groups that refer to each other by index, each with its [`Servers`]. A decision is a
//! walk from the root down to a vCPU, without recursion.
//!
//! A group has work as long as one of the vCPUs in it has. A group whose members all wait for their
//! budgets is *held*: it is blocked at its home until the first of them may run, so that it does
//! not keep the CPU from others.
//!
//! A budget that is spent without work is spent at every level: while a group is charged without
//! having work, its own servers are asked as well, so that those which have no work either spend
//! their budgets in the same time. Otherwise such a server would keep its budget over its group's
//! idle time, and spend it without work later, when others in the group have work and count on the
//! time: the promises to them assume servers that spend as a periodic task runs. (A group that runs
//! in the place of an idle one, [`Slack`](crate::Slack), has its own servers charged for the work
//! that they do.)
//!
//! Rejected: a type for each shape, of policies in policies. It knows its depth when the image is
//! built, which no description can choose.

use crate::{Decision, Entity, EntitySet, Interface, InterfaceError, MAX_ENTITIES, Order, Policy};
use crate::{Kind, Replenished, Reservation, Servers, Slack};

/// The largest number of groups of one pCPU.
pub const MAX_GROUPS: usize = 32;

/// The number of the root among the nodes.
const ROOT: u8 = 0;

/// A place in the tree that is chosen among: a vCPU, or the node of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Member {
    Vcpu(Entity),
    Group(u8),
}

/// A member's place: the node that chooses it, and its number there.
#[derive(Clone, Copy, Debug)]
struct Home {
    node: u8,
    at: Entity,
}

/// A place in the tree: a node, and a member of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    node: u8,
    pub at: Entity,
}

/// Whether a group is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hold {
    /// It may be chosen.
    Free,
    /// Not before this instant; [`u64::MAX`] means not before an event.
    Until(u64),
}

/// A set of nodes, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Nodes(u64);

impl Nodes {
    const ROOT: Self = Self(1);

    fn insert(&mut self, node: u8) {
        self.0 |= 1 << (node % 64);
    }

    fn contains(self, node: u8) -> bool {
        self.0 >> (node % 64) & 1 != 0
    }

    fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    fn union(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }
}

impl Iterator for Nodes {
    type Item = u8;

    fn next(&mut self) -> Option<u8> {
        let first = (self.0 != 0).then(|| self.0.trailing_zeros() as u8)?;
        self.0 &= self.0 - 1;
        Some(first)
    }
}

/// The root, or a group: the servers of its members.
#[derive(Clone, Debug)]
pub struct Node {
    servers: Servers,
    members: [Option<Member>; MAX_ENTITIES],
    count: u8,
    /// Where it is a server itself; `None` for the root.
    home: Option<Home>,
    hold: Hold,
    /// The number of vCPUs in it that have work.
    ready: u8,
}

impl Node {
    /// A node without members, which chooses among them by `order`. It has a home once it is
    /// [added](Tree::add_group).
    pub const fn new(order: Order, slack: Slack) -> Self {
        Self {
            servers: Servers::new(order, slack),
            members: [None; MAX_ENTITIES],
            count: 0,
            home: None,
            hold: Hold::Free,
            ready: 0,
        }
    }

    #[inline]
    fn member(&self, at: Entity) -> Option<Member> {
        self.members[at.index() & (MAX_ENTITIES - 1)]
    }

    /// A place for one more member.
    fn make_place(&mut self, member: Member) -> Option<Entity> {
        let at = Entity::new(self.count.into())?;
        *self.members.get_mut(at.index())? = Some(member);
        self.count += 1;
        Some(at)
    }
}

/// Why a member has no place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlaceError {
    /// There is no such group, or no place for another one.
    #[error("no such group, or no place")]
    NoPlace,
    /// The server cannot keep the promise.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
}

/// What a walk from the root has come to.
#[derive(Debug, Default)]
struct Walk {
    run: Option<Entity>,
    until: Option<u64>,
    /// The nodes whose servers are charged from now on.
    active: Nodes,
    /// Those of them that are charged without being on the way to who runs: they have no work, and spend.
    payers: Nodes,
    /// Whether a member without work spends its budget.
    spends: bool,
    /// Whether the root's choice has no budget of its own.
    in_background: bool,
    /// Whether the walk came to its end.
    complete: bool,
}

/// The servers of one pCPU, in groups. Its entities are the pCPU's vCPUs.
#[derive(Debug)]
pub struct Tree<'a> {
    root: &'a mut Node,
    /// The groups: node 1 is the first one.
    groups: &'a mut [Node],
    /// The number of nodes in use, the root among them.
    used: u8,
    homes: [Option<Home>; MAX_ENTITIES],
    /// The vCPUs that have work.
    ready: EntitySet,
    /// The nodes whose servers are charged, and those of them that only spend.
    active: Nodes,
    payers: Nodes,
    /// The nodes on the way to the vCPU that ran last, and to the one that the last decision named.
    last: Nodes,
    chosen: Option<Entity>,
    /// The earliest instant at which a held group may be chosen again.
    held_until: u64,
    /// The walk that was made beforehand for a decision at this instant.
    settled: Option<(u64, Walk)>,
    spends: bool,
    in_background: bool,
}

impl<'a> Tree<'a> {
    /// A tree with this root, and nodes for at most [`MAX_GROUPS`] groups.
    pub fn new(root: &'a mut Node, groups: &'a mut [Node]) -> Self {
        Self {
            root,
            groups,
            used: 1,
            homes: [None; MAX_ENTITIES],
            ready: EntitySet::EMPTY,
            active: Nodes::default(),
            payers: Nodes::default(),
            last: Nodes::default(),
            chosen: None,
            held_until: u64::MAX,
            settled: None,
            spends: false,
            in_background: false,
        }
    }

    /// As [`Servers::set_prepaid`], at every level.
    pub(crate) fn set_prepaid(&mut self, cost: u64) {
        self.root.servers.set_prepaid(cost);
        for group in &mut *self.groups {
            group.servers.set_prepaid(cost);
        }
    }

    /// Makes the next node of the table a group in `home` (0: the root), with this reservation from
    /// `now` on. Returns its number.
    pub fn add_group(
        &mut self,
        home: usize,
        reservation: Reservation,
        now: u64,
    ) -> Result<usize, PlaceError> {
        let node = self.used;
        if usize::from(node) > MAX_GROUPS.min(self.groups.len()) {
            return Err(PlaceError::NoPlace);
        }
        let home = self.place(home, Member::Group(node), reservation, now)?;
        if let Some(group) = self.node_mut(node) {
            group.home = Some(home);
        }
        self.used += 1;
        Ok(node.into())
    }

    /// Makes `vcpu`, which has no work yet, a member of `home` (0: the root), with this reservation
    /// from `now` on.
    pub fn add_vcpu(
        &mut self,
        home: usize,
        vcpu: Entity,
        reservation: Reservation,
        now: u64,
    ) -> Result<(), PlaceError> {
        let home = self.place(home, Member::Vcpu(vcpu), reservation, now)?;
        if let Some(slot) = self.homes.get_mut(vcpu.index()) {
            *slot = Some(home);
        }
        Ok(())
    }

    fn place(
        &mut self,
        home: usize,
        member: Member,
        reservation: Reservation,
        now: u64,
    ) -> Result<Home, PlaceError> {
        reservation.kind.suits(reservation.interface)?;
        let there = home < usize::from(self.used);
        let node = there.then(|| self.node_mut(home as u8)).flatten();
        let node = node.ok_or(PlaceError::NoPlace)?;
        let at = node.make_place(member).ok_or(PlaceError::NoPlace)?;
        node.servers.reserve(at, reservation, now)?;
        Ok(Home {
            node: home as u8,
            at,
        })
    }

    /// Whether `vcpu` has a place in the tree.
    pub fn has(&self, vcpu: Entity) -> bool {
        self.home(vcpu).is_some()
    }

    /// The servers that `vcpu` is one of, and its number there.
    #[inline]
    pub fn servers_of(&mut self, vcpu: Entity) -> Option<(&mut Servers, Entity)> {
        let home = self.home(vcpu)?;
        self.at_home(home)
    }

    /// The interface of `vcpu`.
    pub fn interface(&self, vcpu: Entity) -> Option<Interface> {
        let home = self.home(vcpu)?;
        self.node(home.node)?.servers.interface(home.at)
    }

    /// Where `vcpu` is a server.
    pub(crate) fn place_of(&self, vcpu: Entity) -> Option<Place> {
        let Home { node, at } = self.home(vcpu)?;
        Some(Place { node, at })
    }

    /// The order in which the members of a place's node are chosen, and the server that supplies them, if it is not
    /// the whole CPU.
    pub(crate) fn terms_of(&self, place: Place) -> (Order, Option<(Interface, Kind)>) {
        let Some(node) = self.node(place.node) else {
            return (Order::EarliestDeadline, None);
        };
        let home = node.home.and_then(|home| {
            let around = self.node(home.node)?;
            let server = around.servers.reservation(home.at)?;
            Some((server.interface, server.kind))
        });
        (node.servers.order(), home)
    }

    /// A member of a place's node, as it will be once what is scheduled has taken effect, and the instant of
    /// that.
    pub(crate) fn member(&self, place: Place, at: Entity) -> Option<(Option<u64>, Reservation)> {
        let servers = &self.node(place.node)?.servers;
        let server = servers.reservation(at)?;
        Some(match servers.pending(at) {
            None => (None, server),
            Some((interface, until)) => (
                Some(until),
                Reservation {
                    interface,
                    ..server
                },
            ),
        })
    }

    /// Lets the member at `place`, if it waits for work, take note of a change whose instant has come. Returns whether there
    /// was one.
    pub(crate) fn take_note(&mut self, place: Place, now: u64) -> bool {
        let node = self.node_mut(place.node);
        node.is_some_and(|node| node.servers.take_note(place.at, now))
    }

    /// Schedules another interface for the member at `place`, not before this instant. Returns when it takes effect.
    pub(crate) fn change(
        &mut self,
        place: Place,
        interface: Interface,
        not_before: u64,
    ) -> Option<u64> {
        let servers = &mut self.node_mut(place.node)?.servers;
        // The kind was found to suit it.
        let _ = servers.change(place.at, interface, not_before).ok()?;
        Some(servers.pending(place.at)?.1)
    }

    /// Charges those that pay for the time since the last call.
    pub fn charge_until(&mut self, now: u64) {
        for node in self.active.union(Nodes::ROOT) {
            if let Some(node) = self.node_mut(node) {
                node.servers.charge_until(now);
            }
        }
    }

    /// Nobody is charged for the time since the last call.
    pub fn exempt(&mut self, now: u64) {
        for node in self.active.union(Nodes::ROOT) {
            if let Some(node) = self.node_mut(node) {
                node.servers.exempt_switch(now);
            }
        }
    }

    /// Does a part of what the next [`Policy::pick`] at `now` would have to do, which may be more than is to be
    /// done at a time: replenishes at most `most` of the budgets that are due, and holds at most half as many
    /// groups.
    #[inline]
    pub fn settle_some(&mut self, now: u64, most: usize) -> Replenished {
        if self.used > 1 {
            return self.settle_groups(now, most);
        }
        if self.root.servers.next_timer() > now {
            return Replenished::All;
        }
        self.root.servers.replenish_some(now, most)
    }

    /// Whether what [`Servers::served`] answers may have changed for a vCPU since it was asked.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.used > 1 || self.root.servers.has_news()
    }

    #[inline(never)]
    fn settle_groups(&mut self, now: u64, most: usize) -> Replenished {
        self.settled = None;
        let mut left = most;
        for node in 0..self.used {
            if let Some(node) = self.node_mut(node) {
                left = node.servers.replenish_up_to(now, left);
            }
        }
        if self.held_until <= now {
            left = self.release_due(now, left);
        }
        if left == 0 {
            return Replenished::Some;
        }
        let walk = self.walk(now, most / 2);
        if !walk.complete {
            return Replenished::Some;
        }
        self.settled = Some((now, walk));
        Replenished::All
    }

    /// [`Policy::pick`] in the most frequent case, as [`Servers::choose_at_once`].
    #[inline(always)]
    pub(crate) fn choose_at_once(&mut self, now: u64) -> Option<(Entity, u64)> {
        if self.used > 1 {
            return None;
        }
        let (first, until) = self.root.servers.choose_at_once(now)?;
        let Some(Member::Vcpu(vcpu)) = self.root.member(first) else {
            return None;
        };
        (self.in_background, self.spends) = (false, false);
        Some((vcpu, until))
    }

    /// Whether the last decision named a vCPU that runs although it, or its group at the root, has no budget: it
    /// uses what is left over.
    pub fn runs_in_background(&self) -> bool {
        self.in_background
    }

    #[inline]
    fn home(&self, vcpu: Entity) -> Option<Home> {
        self.homes[vcpu.index() & (MAX_ENTITIES - 1)]
    }

    fn node(&self, node: u8) -> Option<&Node> {
        match node {
            ROOT => Some(self.root),
            group => self.groups.get(usize::from(group) - 1),
        }
    }

    #[inline]
    fn node_mut(&mut self, node: u8) -> Option<&mut Node> {
        match node {
            ROOT => Some(self.root),
            group => self.groups.get_mut(usize::from(group) - 1),
        }
    }

    /// The server of `node` at its home, to be told an event.
    #[inline]
    fn at_home(&mut self, home: Home) -> Option<(&mut Servers, Entity)> {
        let node = self.node_mut(home.node)?;
        Some((&mut node.servers, home.at))
    }

    /// Tells the groups around a vCPU, from `node` up, that it has work.
    fn climb_woken(&mut self, mut node: u8, fresh: bool, now: u64) {
        while let Some(group) = self.node_mut(node)
            && let Some(home) = group.home
        {
            let first = fresh && group.ready == 0;
            group.ready += u8::from(fresh);
            let held = core::mem::replace(&mut group.hold, Hold::Free) != Hold::Free;
            if (held || first)
                && let Some((servers, at)) = self.at_home(home)
            {
                servers.wake(at, now);
            }
            node = home.node;
        }
    }

    /// Tells the groups around a vCPU, from `node` up, that it has no work any more.
    fn climb_blocked(&mut self, mut node: u8, now: u64) {
        while let Some(group) = self.node_mut(node)
            && let Some(home) = group.home
        {
            group.ready = group.ready.saturating_sub(1);
            if group.ready == 0 {
                group.hold = Hold::Free;
                if let Some((servers, at)) = self.at_home(home) {
                    servers.block(at, now);
                }
            }
            node = home.node;
        }
    }

    /// Lets the groups be chosen again whose time has come, at most `most` of them. The answer is how many more
    /// it could have been.
    #[inline(never)]
    fn release_due(&mut self, now: u64, most: usize) -> usize {
        let mut left = most;
        self.held_until = u64::MAX;
        for node in 1..self.used {
            let Some(group) = self.node_mut(node) else {
                continue;
            };
            let Hold::Until(until) = group.hold else {
                continue;
            };
            if until > now || left == 0 {
                self.held_until = self.held_until.min(until);
                continue;
            }
            left -= 1;
            // The groups around it may be held because it was.
            self.climb_woken(node, false, now);
        }
        left
    }

    /// Holds the group `node`, in which nobody may run before `until`.
    #[inline(never)]
    fn hold(&mut self, node: u8, until: Option<u64>, now: u64) {
        let until = until.unwrap_or(u64::MAX);
        let Some(group) = self.node_mut(node) else {
            return;
        };
        group.hold = Hold::Until(until);
        self.held_until = self.held_until.min(until);
        if let Some(home) = self.node(node).and_then(|group| group.home)
            && let Some((servers, at)) = self.at_home(home)
        {
            servers.block(at, now);
        }
    }

    /// Walks from the root down to who runs, until no group on the way has to be held, or `most` groups were.
    fn walk(&mut self, now: u64, most: usize) -> Walk {
        let mut left = self.active;
        for _ in 0..most {
            let mut walk = Walk::default();
            let stuck = self.descend(&mut walk, now);
            left = left.union(walk.active);
            let Some((node, until)) = stuck else {
                // What was asked in vain, or before, is not charged any more.
                self.suspend_all(left.without(walk.active), now);
                self.active = walk.active;
                self.payers = walk.payers;
                walk.complete = true;
                return walk;
            };
            self.hold(node, until, now);
        }
        self.active = left;
        Walk::default()
    }

    /// Walks from the root down to who runs. Returns a group that the walk came to and in which nobody may run
    /// before an instant, if there is one.
    fn descend(&mut self, walk: &mut Walk, now: u64) -> Option<(u8, Option<u64>)> {
        let mut node = ROOT;
        for _ in 0..=MAX_GROUPS {
            let at = self.node_mut(node)?;
            let decision = at.servers.pick(now);
            let charged = at.servers.charged();
            walk.active.insert(node);
            walk.until = earliest(walk.until, decision.until);
            let member = decision.run.and_then(|run| at.member(run));
            if node == ROOT {
                walk.in_background = decision.run.is_some_and(|run| at.servers.is_spent(run));
            }
            if member.is_none() && charged.is_none() && node != ROOT {
                return Some((node, decision.until));
            }
            if let Some(charged) = charged.filter(|charged| decision.run != Some(*charged)) {
                self.pay(node, charged, walk, now);
            }
            match member {
                Some(Member::Group(group)) => node = group,
                Some(Member::Vcpu(vcpu)) => {
                    walk.run = Some(vcpu);
                    return None;
                }
                None => {
                    walk.spends = charged.is_some();
                    return None;
                }
            }
        }
        None
    }

    /// The member `charged` of `node` is charged and has no work: if it is a group, the servers inside it spend
    /// their budgets, too.
    #[inline(never)]
    fn pay(&mut self, node: u8, charged: Entity, walk: &mut Walk, now: u64) {
        let (mut node, mut payer) = (node, Some(charged));
        while let Some(charged) = payer
            && let Some(Member::Group(inner)) = self.node(node).and_then(|at| at.member(charged))
            && let Some(group) = self.node_mut(inner)
        {
            walk.active.insert(inner);
            walk.payers.insert(inner);
            walk.until = earliest(walk.until, group.servers.pick(now).until);
            payer = group.servers.charged();
            node = inner;
        }
    }

    #[inline(never)]
    fn pick_in_groups(&mut self, now: u64) -> Decision {
        let walk = match self.settled.take() {
            Some((at, walk)) if at == now => walk,
            _ => {
                if self.held_until <= now {
                    self.release_due(now, usize::MAX);
                }
                self.walk(now, usize::MAX)
            }
        };
        self.chosen = walk.run;
        self.spends = walk.spends;
        self.in_background = walk.in_background;
        let held = (self.held_until != u64::MAX).then_some(self.held_until);
        Decision {
            run: walk.run,
            until: earliest(walk.until, held),
        }
    }

    /// Of the nodes on the way to the vCPU that comes, those pay for the switch that hold the one that ran
    /// before, too, but for the innermost: to them it is a part of what a member costs beyond its budget.
    #[inline(never)]
    fn exempt_switch_in_groups(&mut self, now: u64) {
        let mut path = Nodes::default();
        let mut next = self.chosen.and_then(|chosen| self.home(chosen));
        let mut exempt = true;
        while let Some(home) = next
            && let Some(node) = self.node_mut(home.node)
        {
            if exempt {
                node.servers.exempt_one_switch(now);
            }
            next = node.home;
            exempt &= !self.last.contains(home.node);
            path.insert(home.node);
        }
        self.last = path;
    }

    /// [`Policy::exempt_switch`] where the last decision, or the one before it, named a vCPU that runs at another's
    /// expense.
    pub(crate) fn exempt_first_switch(&mut self, now: u64) {
        if self.used > 1 {
            return self.exempt_switch_in_groups(now);
        }
        self.root.servers.exempt_first_switch(now);
    }

    /// Who runs next comes from outside of the tree, so that no group holds both: the switch is at the expense of those
    /// in whose turns it happens.
    pub(crate) fn exempt_switch_to_rest(&mut self, now: u64) {
        if self.used == 1 {
            return self.root.servers.exempt_first_switch(now);
        }
        for node in self.active.union(Nodes::ROOT) {
            if let Some(node) = self.node_mut(node) {
                node.servers.exempt_one_switch(now);
            }
        }
        self.last = Nodes::default();
    }

    /// Whether the last decision left the expense, at the root, with somebody who had it before.
    pub(crate) fn payer_stays(&self) -> bool {
        self.root.servers.payer_stays()
    }

    /// The vCPU that the last decision named does not run: another one does, at nobody's expense or at that of who
    /// pays at the root. Nobody inside of its groups is charged for that.
    #[inline(never)]
    pub(crate) fn is_replaced(&mut self, now: u64) {
        if self.used > 1 {
            // Who spends without work goes on spending.
            let stay = Nodes::ROOT.union(self.payers);
            self.suspend_all(self.active.without(stay), now);
            self.active = stay;
            self.settled = None;
            self.last = Nodes::default();
        }
    }

    /// Nobody is charged any more in `nodes`.
    fn suspend_all(&mut self, nodes: Nodes, now: u64) {
        for node in nodes {
            if let Some(node) = self.node_mut(node) {
                node.servers.suspend(now);
            }
        }
    }
}

impl Policy for Tree<'_> {
    fn wake(&mut self, vcpu: Entity, now: u64) {
        let Some(home) = self.home(vcpu) else { return };
        self.settled = None;
        if let Some((servers, at)) = self.at_home(home) {
            servers.wake(at, now);
        }
        if home.node != ROOT {
            let fresh = !self.ready.contains(vcpu);
            self.climb_woken(home.node, fresh, now);
        }
        self.ready.insert(vcpu);
    }

    fn block(&mut self, vcpu: Entity, now: u64) {
        let Some(home) = self.home(vcpu) else { return };
        self.settled = None;
        if let Some((servers, at)) = self.at_home(home) {
            servers.block(at, now);
        }
        if home.node != ROOT && self.ready.contains(vcpu) {
            self.climb_blocked(home.node, now);
        }
        self.ready.remove(vcpu);
    }

    fn yield_now(&mut self, vcpu: Entity, now: u64) {
        self.settled = None;
        if let Some((servers, at)) = self.servers_of(vcpu) {
            servers.yield_now(at, now);
        }
    }

    #[inline]
    fn pick(&mut self, now: u64) -> Decision {
        if self.used > 1 {
            return self.pick_in_groups(now);
        }
        let root = &mut self.root;
        let Decision { run, until } = root.servers.choose(now);
        let charged = root.servers.charged();
        let charges_another = run.is_some() && charged != run;
        self.in_background = charges_another && run.is_some_and(|run| root.servers.is_spent(run));
        self.spends = run.is_none() && charged.is_some();
        let run = match run.and_then(|run| root.member(run)) {
            Some(Member::Vcpu(vcpu)) => Some(vcpu),
            _ => None,
        };
        Decision { run, until }
    }

    fn spends(&self) -> bool {
        self.spends
    }

    fn charged(&self) -> Option<Entity> {
        let mut node = self.node(ROOT)?;
        // A group is at most as deep as there are groups.
        for _ in 0..=MAX_GROUPS {
            match node.member(node.servers.charged()?)? {
                Member::Vcpu(vcpu) => return Some(vcpu),
                Member::Group(group) => node = self.node(group)?,
            }
        }
        None
    }

    #[inline]
    fn exempt_switch(&mut self, now: u64) {
        if self.used > 1 {
            return self.exempt_switch_in_groups(now);
        }
        self.root.servers.exempt_switch(now);
    }

    fn suspend(&mut self, now: u64) {
        let mut active = core::mem::take(&mut self.active);
        active.insert(ROOT);
        self.suspend_all(active, now);
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
