//! The policies of `core/sched`, in the capacity that a model needs.

use alloc::boxed::Box;
use hanok_sched::{
    Entity, Global, InterfaceError, Order, Policy, Pool, Reservation, Servers, Slack,
};

/// The largest number of members of one component or core.
pub const MAX_MEMBERS: usize = 4096;

/// The largest number of cores that one queue can serve.
pub const MAX_LANES: usize = 32;

/// A policy that chooses among members, for one CPU (lane 0) or several.
pub trait Chooser {
    /// Gives a member a reservation.
    fn reserve(&mut self, member: usize, what: Reservation) -> Result<(), InterfaceError>;
    /// A member has work; if the member is a task, a job with this deadline.
    fn wake(&mut self, member: usize, now: u64, deadline: Option<u64>);
    /// A member has no work any more.
    fn block(&mut self, member: usize, now: u64);
    /// The member that runs on a lane, and until when that holds.
    fn pick(&mut self, lane: usize, now: u64) -> (Option<usize>, Option<u64>);
    /// The member whose budget is charged for a lane: it runs, or has no work and spends its budget
    /// idly.
    fn charged(&self, lane: usize) -> Option<usize>;
    /// Whether a member that was picked has used its budget up, and runs in time that is left.
    fn is_spent(&self, member: usize) -> bool;
    /// The time that passed on a lane went into a switch, and is charged to no member.
    fn exempt_switch(&mut self, lane: usize, now: u64);
    /// A lane is given up: no member runs on it.
    fn suspend(&mut self, lane: usize, now: u64);
    /// Whether some lane should be asked again.
    fn kicks(&self) -> bool;
    /// Whether a suspended lane could run some member.
    fn has_waiting(&self) -> bool;
}

/// A chooser for `members` on `lanes`; `None` where no queue is large enough.
/// The servers of one CPU pay `prepaid` for the switches to them and back, if their kind does.
pub fn new(
    order: Order,
    slack: Slack,
    prepaid: u64,
    members: usize,
    lanes: usize,
) -> Option<Box<dyn Chooser>> {
    if lanes > 1 {
        return match (members, lanes) {
            (0..=64, 0..=8) => Some(Box::new(Global::<64, 8>::new(order, lanes))),
            (0..=1024, 0..=MAX_LANES) => {
                Some(Box::new(Global::<1024, MAX_LANES>::new(order, lanes)))
            }
            _ => None,
        };
    }
    match members {
        0..=8 => Some(servers::<8>(order, slack, prepaid)),
        9..=64 => Some(servers::<64>(order, slack, prepaid)),
        65..=512 => Some(servers::<512>(order, slack, prepaid)),
        513..=MAX_MEMBERS => Some(servers::<MAX_MEMBERS>(order, slack, prepaid)),
        _ => None,
    }
}

fn servers<const N: usize>(order: Order, slack: Slack, prepaid: u64) -> Box<dyn Chooser> {
    let mut servers = Box::new(Servers::<N>::new(order, slack));
    servers.set_prepaid(prepaid);
    servers
}

impl<const N: usize> Chooser for Servers<N> {
    fn reserve(&mut self, member: usize, what: Reservation) -> Result<(), InterfaceError> {
        match Entity::new(member) {
            Some(entity) => Servers::reserve(self, entity, what, 0),
            None => Ok(()),
        }
    }

    fn wake(&mut self, member: usize, now: u64, deadline: Option<u64>) {
        match (Entity::new(member), deadline) {
            (Some(entity), Some(deadline)) => self.wake_until(entity, now, deadline),
            (Some(entity), None) => Policy::wake(self, entity, now),
            _ => {}
        }
    }

    fn block(&mut self, member: usize, now: u64) {
        if let Some(entity) = Entity::new(member) {
            Policy::block(self, entity, now);
        }
    }

    fn pick(&mut self, _lane: usize, now: u64) -> (Option<usize>, Option<u64>) {
        let decision = Policy::pick(self, now);
        (decision.run.map(Entity::index), decision.until)
    }

    fn charged(&self, _lane: usize) -> Option<usize> {
        Policy::charged(self).map(Entity::index)
    }

    fn is_spent(&self, member: usize) -> bool {
        Entity::new(member).is_some_and(|entity| Servers::is_spent(self, entity))
    }

    fn exempt_switch(&mut self, _lane: usize, now: u64) {
        Policy::exempt_switch(self, now);
    }

    fn suspend(&mut self, _lane: usize, now: u64) {
        Policy::suspend(self, now);
    }

    fn kicks(&self) -> bool {
        false
    }

    fn has_waiting(&self) -> bool {
        false
    }
}

impl<const N: usize, const C: usize> Chooser for Global<N, C> {
    fn reserve(&mut self, member: usize, what: Reservation) -> Result<(), InterfaceError> {
        match Entity::new(member) {
            Some(entity) => Global::reserve(self, entity, what, 0),
            None => Ok(()),
        }
    }

    fn wake(&mut self, member: usize, now: u64, deadline: Option<u64>) {
        match (Entity::new(member), deadline) {
            (Some(entity), Some(deadline)) => self.wake_until(entity, now, deadline),
            (Some(entity), None) => Pool::wake(self, entity, now),
            _ => {}
        }
    }

    fn block(&mut self, member: usize, now: u64) {
        if let Some(entity) = Entity::new(member) {
            Pool::block(self, entity, now);
        }
    }

    fn pick(&mut self, lane: usize, now: u64) -> (Option<usize>, Option<u64>) {
        let decision = Pool::pick(self, lane, now);
        (decision.run.map(Entity::index), decision.until)
    }

    fn charged(&self, lane: usize) -> Option<usize> {
        Pool::charged(self, lane).map(Entity::index)
    }

    fn is_spent(&self, _member: usize) -> bool {
        false
    }

    fn exempt_switch(&mut self, lane: usize, now: u64) {
        Pool::exempt_switch(self, lane, now);
    }

    fn suspend(&mut self, lane: usize, now: u64) {
        Pool::suspend(self, lane, now);
    }

    fn kicks(&self) -> bool {
        self.kick().is_some()
    }

    fn has_waiting(&self) -> bool {
        Global::has_waiting(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_sched::{Interface, Kind};
    use std::vec;

    /// There is a queue for each number of members and lanes up to the largest of both. (Large ones
    /// are made on the stack, and more than once in a debug build.)
    #[test]
    fn there_is_a_queue_of_each_size() {
        let stack = std::thread::Builder::new().stack_size(64 << 20);
        stack.spawn(each_size).unwrap().join().unwrap();
    }

    fn each_size() {
        for (members, lanes, there) in [
            (0, 1, true),
            (8, 1, true),
            (9, 1, true),
            (64, 1, true),
            (65, 1, true),
            (512, 1, true),
            (513, 1, true),
            (MAX_MEMBERS, 1, true),
            (MAX_MEMBERS + 1, 1, false),
            (64, 8, true),
            (65, 2, true),
            (64, 9, true),
            (1024, MAX_LANES, true),
            (1025, 2, false),
            (2, MAX_LANES + 1, false),
        ] {
            let found = new(Order::EarliestDeadline, Slack::Idle, 0, members, lanes);
            assert_eq!(found.is_some(), there, "{members} {lanes}");
            // The last member has a place in it.
            if let Some(mut queue) = found
                && let Some(last) = members.checked_sub(1)
            {
                queue.reserve(last, promise(10)).unwrap();
                queue.wake(last, 0, None);
                assert_eq!(queue.pick(lanes - 1, 0).0, Some(last), "{members} {lanes}");
            }
        }
    }

    fn promise(period: u64) -> Reservation {
        Reservation {
            kind: Kind::Deferrable,
            interface: Interface::periodic(period, period / 2).unwrap(),
            priority: 0,
        }
    }

    /// Members 0, 1 and 2, from the latest deadline to the earliest.
    fn three(lanes: usize) -> Box<dyn Chooser> {
        let mut queue = new(Order::EarliestDeadline, Slack::Idle, 0, 3, lanes).unwrap();
        for (member, period) in [(0, 40), (1, 30), (2, 20)] {
            queue.reserve(member, promise(period)).unwrap();
        }
        queue
    }

    #[test]
    fn lanes_are_asked_again_when_somebody_else_should_run_there() {
        let mut queue = three(2);
        queue.wake(0, 0, None);
        queue.wake(1, 0, None);
        let chosen = [0, 1].map(|lane| queue.pick(lane, 0).0);
        assert_eq!(chosen, [Some(1), Some(0)]);
        assert_eq!([0, 1].map(|lane| queue.charged(lane)), chosen);
        assert!(!queue.kicks() && !queue.has_waiting());
        // The member with the earliest deadline arrives, and takes the place of the last.
        queue.wake(2, 1, None);
        assert!(queue.kicks() && queue.has_waiting());
        assert_eq!(queue.pick(1, 1).0, Some(2));
        assert_eq!(queue.charged(1), Some(2));
        // Work is left, but no lane for it.
        assert!(!queue.kicks() && queue.has_waiting());
        queue.suspend(0, 2);
        assert_eq!([0, 1].map(|lane| queue.charged(lane)), [None, Some(2)]);
        assert_eq!(queue.pick(0, 3).0, Some(1));
    }

    /// The only CPU was asked whenever something changed.
    #[test]
    fn one_cpu_is_not_asked_again() {
        let mut queue = three(1);
        let mut chosen = vec![];
        for member in 0..3 {
            queue.wake(member, 0, None);
            chosen.push(queue.pick(0, 0).0);
            assert!(!queue.kicks() && !queue.has_waiting());
        }
        assert_eq!(chosen, [Some(0), Some(1), Some(2)]);
        queue.suspend(0, 1);
        assert!(!queue.kicks() && !queue.has_waiting());
    }
}
