//! Pools against plain models.

use super::*;
use crate::{Interface, Kind, Servers};
use proptest::prelude::*;
use std::vec::Vec;

const N: usize = 8;
type E = Entity<N>;

fn entity(index: usize) -> E {
    E::new(index).unwrap()
}

fn task(priority: u64) -> Reservation {
    Reservation {
        kind: Kind::Task,
        interface: Interface::periodic(100, 1).unwrap(),
        priority,
    }
}

/// The entity on each core, once every core that should be asked again has been.
fn settle<P: Pool<N>, const C: usize>(pool: &mut P, runs: &mut [Option<E>; C], now: u64) -> u32 {
    let mut asked = 0;
    while let Some(core) = pool.kick() {
        runs[core] = pool.pick(core, now).run;
        asked += 1;
        assert!(asked < 20, "it never settles");
    }
    asked
}

proptest! {
    /// Whatever happens, the entities with the smallest keys run; none runs twice; and an entity
    /// that goes on running stays on its core.
    #[test]
    fn the_most_urgent_entities_run_and_stay_on_their_cores(
        events in proptest::collection::vec((0..N, any::<bool>()), 1..80),
        priorities in proptest::collection::vec(0..5u64, N),
    ) {
        let mut pool = Global::<N, 3>::new(Order::Priority, 3);
        for (index, priority) in priorities.iter().enumerate() {
            pool.reserve(entity(index), task(*priority), 0).unwrap();
        }
        let mut runs = [None; 3];
        for (core, slot) in runs.iter_mut().enumerate() { *slot = pool.pick(core, 0).run; }
        let mut ready = [false; N];
        for (now, (who, wakes)) in (1..).zip(events) {
            let before = runs;
            ready[who] = wakes;
            if wakes {
pool.wake(entity(who), now)
} else {
pool.block(entity(who), now);
                    for (core, slot) in runs.iter_mut().enumerate() {
                        if *slot == Some(entity(who)) { *slot = pool.pick(core, now).run; }
                    }
}
            settle(&mut pool, &mut runs, now);
            let mut keys: Vec<_> = (0..N).filter(|i| ready[*i]).map(|i| priorities[i]).collect();
            keys.sort();
            keys.truncate(3);
            let mut running: Vec<_> = runs.iter().flatten().map(|e| priorities[e.index()]).collect();
            running.sort();
            prop_assert_eq!(&running, &keys);
            for (core, run) in runs.iter().enumerate() {
                let Some(run) = run else { continue };
                prop_assert!(ready[run.index()]);
                prop_assert!(runs.iter().filter(|other| *other == &Some(*run)).count() == 1);
                if let Some(at) = before.iter().position(|b| b == &Some(*run)) {
                    prop_assert_eq!(at, core, "moved without need");
                }
            }
        }
    }
}

#[test]
fn budgets_are_spent_on_every_core() {
    let mut pool = Global::<N, 2>::new(Order::EarliestDeadline, 2);
    for index in 0..3 {
        let interface = Interface::periodic(6, 4).unwrap();
        let server = Reservation {
            kind: Kind::Deferrable,
            interface,
            priority: 0,
        };
        pool.reserve(entity(index), server, 0).unwrap();
        pool.wake(entity(index), 0);
    }
    let mut got = [0u64; 3];
    let mut until = [0; 2];
    let mut runs = [None; 2];
    for now in 0..60u64 {
        for core in 0..2 {
            if until[core] <= now {
                let decision = pool.pick(core, now);
                runs[core] = decision.run;
                until[core] = decision.until.unwrap_or(u64::MAX);
            }
        }
        while let Some(core) = pool.kick() {
            let decision = pool.pick(core, now);
            (runs[core], until[core]) = (decision.run, decision.until.unwrap_or(u64::MAX));
        }
        assert!(runs[0].is_none() || runs[0] != runs[1]);
        for run in runs.into_iter().flatten() {
            got[run.index()] += 1;
        }
    }
    // Three times 2/3 of a CPU on two CPUs leave nothing over, but global EDF cannot use it all: 4
    // + 4 in parallel, then 4 in the 2 + 2 that are left, on one core at a time.
    let all: u64 = got.iter().sum();
    assert!(got.iter().all(|got| *got <= 40), "{got:?}");
    assert!(all >= 100, "{got:?}");
}

#[test]
fn entities_of_a_partitioned_pool_stay_on_their_cores() {
    let servers = || Servers::<N>::new(Order::Priority, crate::Slack::Idle);
    let mut pool = Partitioned::<_, N, 2>::new([servers(), servers()]);
    for index in 0..4 {
        assert_eq!(pool.place(entity(index), index % 2), Ok(()));
        let core = pool.core(index % 2).unwrap();
        core.reserve(entity(index), task(index as u64), 0).unwrap();
    }
    assert_eq!(pool.place(entity(0), 2), Err(NoSuchCore));
    let mut runs = [None; 2];
    pool.wake(entity(2), 0);
    assert_eq!(settle(&mut pool, &mut runs, 0), 1);
    assert_eq!(runs, [Some(entity(2)), None]);
    pool.wake(entity(0), 1);
    pool.wake(entity(3), 1);
    settle(&mut pool, &mut runs, 1);
    assert_eq!(runs, [Some(entity(0)), Some(entity(3))]);
    pool.block(entity(0), 2);
    pool.suspend(1, 2);
    settle(&mut pool, &mut runs, 2);
    assert_eq!(runs[0], Some(entity(2)));
    assert_eq!(pool.pick(7, 3).run, None);
}

/// A periodic server without work spends its budget on one core: that core stays idle, the other
/// one does not.
#[test]
fn only_the_core_of_the_idle_server_stays_idle() {
    fn looked_at(pool: &mut impl Pool<N>) {
        let runs = [0, 1].map(|core| pool.pick(core, 0).run);
        assert_eq!(runs, [None; 2], "nobody has work");
        assert_eq!(
            [0, 1, 2].map(|core| pool.spends(core)),
            [true, false, false]
        );
        let charged = [0, 1, 2].map(|core| pool.charged(core));
        assert_eq!(charged, [Some(entity(0)), None, None]);
        // Its budget is used up: now that core is free, too.
        assert_eq!(pool.pick(0, 2).run, None);
        assert!(!pool.spends(0) && !pool.spends(1));
    }
    let server = Reservation {
        kind: Kind::Periodic,
        interface: Interface::periodic(10, 2).unwrap(),
        priority: 0,
    };
    let mut global = Global::<N, 2>::new(Order::EarliestDeadline, 2);
    global.reserve(entity(0), server, 0).unwrap();
    looked_at(&mut global);
    let servers = || Servers::<N>::new(Order::EarliestDeadline, crate::Slack::Idle);
    let mut parted = Partitioned::<_, N, 2>::new([servers(), servers()]);
    assert_eq!(parted.place(entity(0), 0), Ok(()));
    parted
        .core(0)
        .unwrap()
        .reserve(entity(0), server, 0)
        .unwrap();
    looked_at(&mut parted);
}

mod calls;
mod global;

#[test]
fn what_is_nobodys_is_charged_to_nobody_whatever_other_cores_do() {
    let mut pool = Global::<N, 2>::new(Order::EarliestDeadline, 2);
    let interface = Interface::periodic(100, 50).unwrap();
    for index in 0..2 {
        let server = Reservation {
            kind: Kind::Periodic,
            interface,
            priority: 0,
        };
        pool.reserve(entity(index), server, 0).unwrap();
    }
    let ran = pool.pick(0, 0).run.or(pool.charged(0)).unwrap();
    pool.exempt_from(0, 10);
    // An event on another core, which charges all.
    pool.wake(entity(1), 15);
    pool.exempt_switch(0, 20);
    assert_eq!(pool.budget(ran, 30), Some(50 - 10 - 10));
    // The next decision ends it, too; and an arrival that is awaited is still at nobody's expense after it.
    pool.exempt_from(0, 30);
    let _ = pool.pick(0, 40);
    assert_eq!(pool.budget(ran, 42), Some(28));
    pool.await_arrival(0);
    pool.exempt_from(0, 44);
    pool.exempt_switch(0, 46);
    assert_eq!(pool.budget(ran, 49), Some(28));
    assert_eq!(pool.budget(entity(N - 1), 49), None);
}
