//! Time that is promised and not used is had by anybody who has work.

use super::*;

/// What happens in a tick: who wakes or blocks, one bit for each entity.
type Tick = [u8; 2];

fn server() -> impl Strategy<Value = (Kind, u64, u64, u64)> {
    let kind = prop_oneof![
        Just(Kind::Periodic),
        Just(Kind::Polling),
        Just(Kind::Deferrable)
    ];
    (kind, 4_u64..40, 1_u64..8, 0_u64..4)
}

proptest! {
    /// The CPU is never idle while anybody has work. Who runs at a sleeper's expense is the first of those that have work
    /// and a budget; one without a budget runs only where there is none of them, and it is the one whose budget comes first.
    #[test]
    fn somebody_who_has_work_runs(
        servers in prop::collection::vec(server(), 1..8),
        events in prop::collection::vec(any::<Tick>(), 1..150),
        order in prop::sample::select(&[Order::Priority, Order::EarliestDeadline][..]),
    ) {
        let mut policy = Servers::<N>::new(order, Slack::Share);
        for (index, (kind, period, budget, priority)) in servers.iter().enumerate() {
            let interface = periodic(*period, (*budget).min(*period));
            policy.reserve(entity(index), one(*kind, interface, *priority), 0).unwrap();
        }
        let mut work = [false; N];
        for (now, [wakes, blocks]) in (0..).zip(&events) {
            for (index, work) in work.iter_mut().enumerate().take(servers.len()) {
                // Most of them sleep most of the time.
                if blocks >> index & 1 != 0 {
                    policy.block(entity(index), now);
                    *work = false;
                } else if wakes & wakes >> 3 & 1 << index != 0 {
                    policy.wake(entity(index), now);
                    *work = true;
                }
            }
            let decision = policy.pick(now);
            let run = decision.run.map(E::index);
            prop_assert_eq!(run.is_some(), work.contains(&true), "at {}", now);
            let Some(run) = run else { continue };
            prop_assert!(work[run], "{run} at {now}");
            if policy.charged == Some(entity(run)) {
                continue;
            }
            let able = (0..servers.len()).filter(|index| work[*index]);
            let key = |index: usize| {
                let server = policy.bank.server(entity(index)).unwrap();
                let spent = policy.is_spent(entity(index));
                (spent, if spent { server.next } else { server.key })
            };
            let least = able.map(key).min();
            prop_assert_eq!(Some(key(run)), least, "{} at {}", run, now);
        }
    }
}
