//! Promises during a change of mode.

use super::*;
use crate::{Kind, Order, Policy, Reservation, Slack};
use proptest::prelude::*;
use std::vec::Vec;

const N: usize = 8;

fn entity(index: usize) -> Entity<N> {
    Entity::new(index).unwrap()
}

fn servers(kinds: &[Kind], interfaces: &[Interface]) -> Servers<N> {
    let mut servers = Servers::new(Order::EarliestDeadline, Slack::Idle);
    for (index, (kind, interface)) in kinds.iter().zip(interfaces).enumerate() {
        let (kind, interface) = (*kind, *interface);
        let what = Reservation {
            kind,
            interface,
            priority: 0,
        };
        servers.reserve(entity(index), what, 0).unwrap();
        servers.wake(entity(index), 0);
    }
    servers
}

fn periodic(period: u64, budget: u64) -> Interface {
    Interface::periodic(period, budget).unwrap()
}

#[test]
fn more_comes_when_less_has_ended() {
    let before = [periodic(10, 6), periodic(16, 6)];
    let mut servers = servers(&[Kind::Deferrable; 2], &before);
    let mode = [(entity(0), periodic(10, 2)), (entity(1), periodic(8, 6))];
    let free = switch(&mut servers, &mode, 3).unwrap();
    assert_eq!(free, 10);
    for now in 3..48 {
        servers.pick(now);
        // The first one's period ends at 10. The second one's first period end after that is at 16.
        let expected = if now < 10 { 6 } else { 2 };
        assert_eq!(servers.interface(entity(0)).unwrap().budget(), expected);
        let expected = if now < 16 { 16 } else { 8 };
        assert_eq!(servers.interface(entity(1)).unwrap().period(), expected);
    }
}

#[test]
fn a_mode_that_cannot_be_changes_nothing() {
    let before = [periodic(10, 6), periodic(16, 6)];
    let mut servers = servers(&[Kind::Deferrable; 2], &before);
    let early = Interface::new(10, 2, 5).unwrap();
    let mode = [(entity(0), periodic(10, 2)), (entity(1), early)];
    let refused = switch(&mut servers, &mode, 3);
    assert_eq!(refused, Err(InterfaceError::DeadlineBeforePeriod));
    servers.pick(40);
    assert_eq!(servers.interface(entity(0)), Some(before[0]));
    // An entity without a server is passed over.
    assert_eq!(switch(&mut servers, &[(entity(7), early)], 40), Ok(40));
}

/// A mode for three servers that is at most one CPU: a half, a third and a sixth, in any order.
fn mode() -> impl Strategy<Value = Vec<Interface>> {
    let times = proptest::collection::vec((6..14u64, 1..14u64), 3);
    (times, 0..6usize).prop_map(|(all, order)| {
        let orders = [
            [2, 3, 6],
            [2, 6, 3],
            [3, 2, 6],
            [3, 6, 2],
            [6, 2, 3],
            [6, 3, 2],
        ];
        let shares = orders[order].into_iter();
        let each = all.into_iter().zip(shares);
        each.map(|((period, budget), share)| periodic(period, budget.min(period / share)))
            .collect()
    })
}

proptest! {
    /// Each entity that always has work gets, in each of its periods, what it is promised in that
    /// period, whatever modes follow each other.
    #[test]
    fn every_entity_gets_what_it_is_promised(
        modes in proptest::collection::vec((mode(), 0..60u64), 1..5), which in 0..3usize,
    ) {
        let kind = [Kind::Periodic, Kind::Deferrable, Kind::ConstantBandwidth][which];
        let mut policy = servers(&[kind; 3], &modes[0].0);
        let mut modes = modes.into_iter().skip(1);
        let (mut next, mut at) = (modes.next(), 0);
        let mut got = [0u64; 3];
        let mut ends = [0; 3];
        let mut promised = [0; 3];
        for now in 0..400u64 {
            let ready = next.as_ref().is_some_and(|(_, wait)| at + wait <= now);
            if ready && let Some((mode, _)) = next.take() {
                let pairs: Vec<_> = (0..3).map(|i| (entity(i), mode[i])).collect();
                // The next change waits for this one.
                at = switch(&mut policy, &pairs, now).unwrap() + 30;
                next = modes.next();
            }
            let run = policy.pick(now).run;
            for index in 0..3 {
                if ends[index] <= now {
                    prop_assert!(got[index] >= promised[index],
                        "{} got {} of {} by {}", index, got[index], promised[index], now);
                    let interface = policy.interface(entity(index)).unwrap();
                    promised[index] = interface.budget();
                    ends[index] = now + interface.period();
                    got[index] = 0;
                }
            }
            if let Some(run) = run { got[run.index()] += 1; }
        }
    }
}
