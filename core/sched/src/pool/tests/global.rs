//! A global pool against a plain model: deferrable servers under priorities, and tasks, on cores
//! that join and leave.

use super::*;

const CORES: usize = 3;

#[derive(Clone, Copy, Debug)]
struct Plain {
    what: Reservation,
    left: u64,
    work: bool,
}

impl Plain {
    fn is_task(&self) -> bool {
        self.what.kind == Kind::Task
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Core {
    runs: Option<usize>,
    present: bool,
}

#[derive(Clone, Debug)]
struct Model {
    all: Vec<Plain>,
    cores: [Core; CORES],
}

impl Model {
    /// The entities that ran before `now` pay for a tick.
    fn pass(&mut self, now: u64) {
        for core in &self.cores {
            let paid = core.runs.map(|runs| &mut self.all[runs]);
            if let Some(plain) = paid.filter(|plain| !plain.is_task()) {
                plain.left -= 1;
            }
        }
        self.drop_out();
        for plain in &mut self.all {
            if now.is_multiple_of(plain.what.interface.period()) {
                plain.left = plain.what.interface.budget();
            }
        }
    }

    /// Entities without budget or work do not run any more.
    fn drop_out(&mut self) {
        let all = &self.all;
        let may = |runs: &usize| all[*runs].left > 0 && all[*runs].work;
        for core in &mut self.cores {
            core.runs = core.runs.filter(may);
        }
    }

    fn first_waiting(&self) -> Option<(u64, usize)> {
        let waits = |(index, plain): (usize, &Plain)| {
            let runs = self.cores.iter().any(|core| core.runs == Some(index));
            let may = plain.work && plain.left > 0 && !runs;
            may.then_some((plain.what.priority, index))
        };
        self.all.iter().enumerate().filter_map(waits).min()
    }

    /// The priority of what runs on a core: the last of all if nothing runs.
    fn priority(&self, core: &Core) -> Option<u64> {
        core.runs.map(|runs| self.all[runs].what.priority)
    }

    fn pick(&mut self, core: usize) {
        self.cores[core].present = true;
        let own = self.priority(&self.cores[core]);
        let Some((key, first)) = self.first_waiting() else {
            return;
        };
        let Some(own) = own else {
            self.cores[core].runs = Some(first);
            return;
        };
        let mut others = self.cores.iter().enumerate();
        let somebody_else_has_later = others.any(|(index, other)| {
            let later = self.priority(other).is_none_or(|by| by > own);
            index != core && other.present && later
        });
        if key < own && !somebody_else_has_later {
            self.cores[core].runs = Some(first);
        }
    }

    /// The cores of which one is to be kicked.
    fn to_kick(&self) -> Vec<usize> {
        let Some((key, _)) = self.first_waiting() else {
            return Vec::new();
        };
        let present = (0..CORES).filter(|core| self.cores[*core].present);
        let has = |core: usize| self.priority(&self.cores[core]).unwrap_or(u64::MAX);
        let last = present.clone().map(has).max();
        let kicked = |core: &usize| Some(has(*core)) == last && has(*core) > key;
        present.filter(kicked).collect()
    }
}

/// The pool and the model, and the instants at which the cores want to be asked again.
struct Both {
    pool: Global<N, CORES>,
    model: Model,
    until: [u64; CORES],
}

impl Both {
    fn new(all: &[Reservation]) -> Self {
        let mut pool = Global::new(Order::Priority, CORES);
        let plain = |what: &Reservation| Plain {
            what: *what,
            left: what.interface.budget(),
            work: false,
        };
        for (index, what) in all.iter().enumerate() {
            pool.reserve(entity(index), *what, 0).unwrap();
        }
        let model = Model {
            all: all.iter().map(plain).collect(),
            cores: [Core::default(); CORES],
        };
        Self {
            pool,
            model,
            until: [0; CORES],
        }
    }

    fn ask(&mut self, core: usize, now: u64) -> Result<(), TestCaseError> {
        let decision = self.pool.pick(core, now);
        self.model.pick(core);
        let expected = self.model.cores[core].runs.map(entity);
        prop_assert_eq!(decision.run, expected, "core {} at {}", core, now);
        prop_assert_eq!(self.pool.charged(core), expected);
        prop_assert_eq!(self.pool.spends(core), expected.is_some());
        self.until[core] = decision.until.unwrap_or(u64::MAX);
        prop_assert!(self.until[core] > now);
        Ok(())
    }

    fn event(&mut self, what: u8, who: usize, now: u64) -> Result<(), TestCaseError> {
        let (core, who) = (who % CORES, who % self.model.all.len());
        let plain = &mut self.model.all[who];
        match what {
            0..4 => {
                plain.work = true;
                self.pool.wake(entity(who), now);
            }
            4..6 => {
                plain.work = false;
                self.pool.block(entity(who), now);
                self.model.drop_out();
            }
            6 => {
                let Some(who) = self.model.cores[core].runs else {
                    return Ok(());
                };
                let plain = &mut self.model.all[who];
                if !plain.is_task() {
                    plain.left = 0;
                }
                self.pool.yield_now(entity(who), now);
                self.model.drop_out();
            }
            7 => return self.ask(core, now),
            _ => {
                self.pool.suspend(core, now);
                self.model.cores[core] = Core::default();
                self.until[core] = u64::MAX;
            }
        }
        Ok(())
    }

    fn settle(&mut self, now: u64) -> Result<(), TestCaseError> {
        for core in 0..CORES {
            if self.until[core] <= now {
                self.ask(core, now)?;
            }
        }
        for _ in 0..10 {
            let cores = self.model.to_kick();
            let kicked = self.pool.kick();
            let Some(core) = kicked else {
                prop_assert!(cores.is_empty(), "at {}, one of {:?}", now, cores);
                return Ok(());
            };
            let until = self.until[core];
            self.ask(core, now)?;
            // To preempt, or because a timer is earlier than those of all cores.
            let sooner = self.until[core] < until && self.model.cores[core].present;
            let right = cores.contains(&core) || cores.is_empty() && sooner;
            prop_assert!(right, "{} at {}, of {:?}", core, now, cores);
        }
        Err(TestCaseError::fail("it never settles"))
    }
}

fn reservation() -> impl Strategy<Value = Reservation> {
    (any::<bool>(), 1..10u64, 1..10u64, 0..5u64).prop_map(|(task, period, budget, priority)| {
        let interface = Interface::periodic(period, budget.min(period)).unwrap();
        let kind = if task { Kind::Task } else { Kind::Deferrable };
        Reservation {
            kind,
            interface,
            priority,
        }
    })
}

proptest! {
    /// Which entity runs on which core, which core is kicked, and until when answers hold: at each
    /// tick, whatever happens.
    #[test]
    fn each_core_runs_the_entity_that_the_rule_gives_it(
        all in proptest::collection::vec(reservation(), 1..N),
        events in proptest::collection::vec((0..4u64, 0..24usize, 0..9u8), 0..100),
    ) {
        let mut both = Both::new(&all);
        let (mut events, mut at) = (events.into_iter().peekable(), 0);
        for now in 0..200 {
            if now > 0 { both.model.pass(now); }
            both.settle(now)?;
            while let Some((_, who, what)) = events.next_if(|event| at + event.0 <= now) {
                at = now;
                both.event(what, who, now)?;
            }
            both.settle(now)?;
            // If no core takes part, none asks for the time.
            if both.model.cores.iter().any(|core| core.present) {
                let waiting = both.model.first_waiting().is_some();
                prop_assert_eq!(both.pool.has_waiting(), waiting, "at {}", now);
            }
        }
    }
}

/// The time of a switch is charged to nobody, on that core only.
#[test]
fn a_switch_on_one_core_is_at_nobody_s_expense() {
    let server = Reservation {
        kind: Kind::Deferrable,
        interface: Interface::periodic(20, 8).unwrap(),
        priority: 0,
    };
    let mut pool = Global::<N, 2>::new(Order::Priority, 2);
    for index in 0..2 {
        pool.reserve(entity(index), server, 0).unwrap();
        pool.wake(entity(index), 0);
        assert_eq!(pool.pick(index, 0).until, Some(8));
    }
    pool.exempt_switch(1, 3);
    assert_eq!(pool.pick(0, 3).until, Some(8));
    assert_eq!(pool.pick(1, 3).until, Some(11));
}

/// The time of a suspended core is charged to nobody either, and the entity that ran there can run
/// elsewhere.
#[test]
fn the_entity_of_a_suspended_core_waits() {
    let mut pool = Global::<N, 2>::new(Order::Priority, 2);
    for index in 0..2 {
        pool.reserve(entity(index), task(index as u64), 0).unwrap();
        pool.wake(entity(index), 0);
        pool.pick(index, 0);
    }
    assert!(!pool.has_waiting());
    pool.suspend(0, 1);
    assert!(pool.has_waiting() && !pool.spends(0));
    assert_eq!(pool.charged(0), None);
    assert_eq!(pool.kick(), Some(1));
    assert_eq!(pool.pick(1, 1).run, Some(entity(0)));
    assert_eq!(pool.kick(), None, "the other core is not there");
    assert_eq!(pool.pick(0, 2).run, Some(entity(1)));
}

/// A job with a deadline of its own preempts a job with a later one.
#[test]
fn a_job_has_the_deadline_that_it_is_given() {
    let mut pool = Global::<N, 2>::new(Order::EarliestDeadline, 2);
    for index in 0..4 {
        pool.reserve(entity(index), task(0), 0).unwrap();
    }
    let mut runs = [0, 1].map(|core| pool.pick(core, 0).run);
    pool.wake_until(entity(0), 1, 50);
    pool.wake_until(entity(1), 1, 40);
    settle(&mut pool, &mut runs, 1);
    let first = runs.iter().position(|run| *run == Some(entity(0))).unwrap();
    pool.wake_until(entity(2), 2, 60);
    assert_eq!(pool.kick(), None);
    pool.wake_until(entity(3), 3, 45);
    assert_eq!(pool.kick(), Some(first));
    // The other core is asked as well, and keeps its entity.
    assert_eq!(pool.pick(1 - first, 3).run, Some(entity(1)));
    assert_eq!(pool.pick(first, 3).run, Some(entity(3)));
}
