//! Two or three pCPUs of a pool, one call after the other.

use super::{Exchange, Seat};
use crate::fake::{FakeBoard, FakePromise};
use crate::schedule::Round;
use crate::{Pcpu, begin_all};
use hanok_abi::schedule::{self, item, status};
use hanok_hal::fake::{FakeBackend, Settings};
use hanok_hal::sync::atomic::Ordering;
use hanok_hal::{Backend, Context};
use hanok_sched::{Entity, EntitySet};
use hanok_types::{CpuId, GicVersion, VcpuId};
use hanok_vm::{Home, Interrupts, Vm, Wish};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::vec;
use std::vec::Vec;

const FIRST: VcpuId = VcpuId::new(0);

std::thread_local! {
    static CPU: Cell<usize> = const { Cell::new(0) };
}

/// What a pCPU that sleeps unwinds with.
struct Asleep;

struct Pool {
    fake: FakeBoard,
    /// The VM whose vCPU has moved.
    mover: usize,
}

impl Pool {
    /// So many pCPUs, and so many VMs of one vCPU each that begin on the first, which loads them.
    fn new(cpus: u8, vms: usize) -> Self {
        Self::with_budgets(cpus, vms, 15_000)
    }

    /// The same with other budgets, in periods of 40,000 ticks.
    fn with_budgets(cpus: u8, vms: usize, budget: u64) -> Self {
        let settings = Settings {
            cpus: cpus.into(),
            this_cpu: || CPU.get(),
            pause: || {},
            asleep: || resume_unwind(std::boxed::Box::new(Asleep)),
            lists: 4,
        };
        let promise = |vm| FakePromise {
            cpu: 0,
            vm,
            period: 40_000,
            budget,
        };
        let promises: Vec<_> = (0..vms).map(promise).collect();
        let pool: Vec<u8> = (0..cpus).collect();
        let homes = vec![vec![0]; vms];
        let fake = FakeBoard::with_pool(settings, &homes, GicVersion::V2, &promises, &pool);
        begin_all(fake.board);
        let mut pool = Self { fake, mover: 0 };
        // One VM after the other is loaded.
        for _ in 0..10_000 {
            if pool.at(0).vcpus().all(|vcpu| vcpu.is_on()) {
                return pool;
            }
            pool.pass(0, 100);
        }
        panic!("the VMs do not begin");
    }

    /// The pCPU with this number, on which the calls that follow are made.
    fn at(&mut self, cpu: usize) -> &mut Pcpu<FakeBackend> {
        CPU.set(cpu);
        &mut self.fake.pcpus[cpu]
    }

    /// Time passes, and a pCPU serves its interrupts and decides. Returns whether it runs a vCPU; else it sleeps.
    fn pass(&mut self, cpu: usize, ticks: u64) -> bool {
        self.fake.board.machine.advance(ticks);
        let pcpu = self.at(cpu);
        if let Some(vcpu) = pcpu.resident()
            && vcpu.context.loaded
        {
            vcpu.context.depart();
        }
        pcpu.serve_pending();
        match catch_unwind(AssertUnwindSafe(|| pcpu.schedule())) {
            Ok(()) => true,
            Err(panic) if panic.is::<Asleep>() => false,
            Err(panic) => resume_unwind(panic),
        }
    }

    fn vm(&self, vm: usize) -> &'static Vm {
        &self.fake.board.vms[vm].vm
    }

    fn home(&self, vm: usize) -> Home {
        self.vm(vm).home_of(FIRST).expect("its first vCPU")
    }

    /// Whether the vCPU of a VM is in the table of a pCPU.
    fn has(&mut self, cpu: usize, vm: usize) -> bool {
        let id = self.vm(vm).id();
        self.at(cpu).vcpus().any(|vcpu| vcpu.unit.vm.id() == id)
    }

    fn seat(&mut self, cpu: usize) -> Seat<FakeBackend> {
        self.at(cpu).local.seat().expect("a place in the pool")
    }

    /// A pCPU asks for a vCPU.
    fn ask(&mut self, cpu: usize, entity: Entity) {
        let seat = self.seat(cpu);
        let (mut state, _) = seat.pool.lock();
        assert!(state.ask(seat.pool, seat.lane, Some(entity)));
    }

    /// A pCPU takes in what has come, and hands over what is asked for.
    fn exchange(&mut self, cpu: usize) -> bool {
        let seat = self.seat(cpu);
        self.at(cpu).exchange(seat) == Exchange::Done
    }

    /// Two VMs' vCPUs, of which one has moved from the first pCPU to the second one, and runs there.
    fn moved() -> Self {
        let mut pool = Self::on_its_way();
        assert!(pool.pass(1, 1), "it has come");
        let mover = pool.mover;
        assert!(pool.has(1, mover) && !pool.has(0, mover));
        pool
    }

    /// The same before it has come.
    fn on_its_way() -> Self {
        let mut pool = Self::new(2, 2);
        // While they were loaded they used up their budgets.
        for _ in 0..1_000 {
            let _ = pool.pass(1, 100);
            assert!(
                !pool.has(1, 0) && !pool.has(1, 1),
                "nothing comes by itself"
            );
            let _ = pool.pass(0, 1);
            if !(pool.has(0, 0) && pool.has(0, 1)) {
                break;
            }
        }
        // Which of the two moves is the policy's to say.
        pool.mover = usize::from(pool.has(0, 0));
        let mover = pool.mover;
        assert!(
            !pool.has(0, mover) && !pool.has(1, mover),
            "it is on its way"
        );
        assert!(pool.has(0, 1 - mover));
        assert_eq!(
            pool.home(mover).cpu.index(),
            1,
            "it is reached where it goes"
        );
        pool
    }
}

#[test]
fn of_two_that_ask_for_a_vcpu_the_later_one_gets_it() {
    let mut pool = Pool::new(3, 1);
    let entity = pool.at(0).vcpus().next().expect("a vCPU").entity;
    pool.at(0).local.fp_owner = Some(entity);
    pool.ask(1, entity);
    pool.ask(2, entity);
    assert!(pool.exchange(0), "it is handed over");
    assert!(!pool.has(0, 0) && pool.at(0).local.fp_owner.is_none());
    assert_eq!(pool.home(0).cpu.index(), 2);
    assert!(!pool.exchange(1), "nothing has come here");
    assert!(pool.exchange(2));
    assert!(pool.has(2, 0) && !pool.has(1, 0));
    let vcpu = pool.at(2).vcpus().next().expect("it came");
    assert_eq!(vcpu.context.fp_taken, 1);
    // Nobody asks for it any more.
    assert!(!pool.exchange(2));
}

#[test]
fn a_vcpu_on_its_way_is_taken_by_a_third_one() {
    let mut pool = Pool::new(3, 1);
    let entity = pool.at(0).vcpus().next().expect("a vCPU").entity;
    pool.ask(1, entity);
    assert!(pool.exchange(0));
    let seat = pool.seat(2);
    let (mut state, _) = seat.pool.lock();
    assert!(state.direct(seat.pool, 2, entity).is_some());
    drop(state);
    let _ = pool.exchange(1);
    assert!(!pool.has(1, 0), "it is another one's");
    assert!(pool.exchange(2));
    assert!(pool.has(2, 0));
}

#[test]
fn a_kick_that_comes_to_the_former_pcpu_is_handed_on() {
    let mut pool = Pool::moved();
    let Home { bit, .. } = pool.home(pool.mover);
    let cpu = CpuId::new(0);
    let second = pool.at(1);
    second.serve_pending();
    assert!(!second.local.board.machine.interrupt_is_pending());
    pool.fake.board.kick(Home { cpu, bit });
    assert!(pool.pass(0, 0));
    let updates = &pool.fake.board.updates[1];
    assert_eq!(updates.load(Ordering::Relaxed) & bit, bit);
    assert!(pool.at(1).local.board.machine.interrupt_is_pending());
}

#[test]
fn nothing_of_a_vcpu_that_moved_is_left_behind() {
    let mut pool = Pool::on_its_way();
    let unit = &pool.fake.board.vms[pool.mover];
    assert_eq!(unit.last_here[0].load(Ordering::Relaxed), 0);
    assert!(pool.pass(1, 1));
    let vcpu = pool.at(1).resident().expect("it runs");
    assert_eq!(vcpu.context.moves, 1);
    assert!(vcpu.context.loaded);
}

/// Lets both pCPUs decide until `done`.
fn go_on(pool: &mut Pool, done: impl Fn(&mut Pool) -> bool, what: &str) {
    for _ in 0..1_000 {
        if done(pool) {
            return;
        }
        let _ = pool.pass(1, 50);
        let _ = pool.pass(0, 50);
    }
    panic!("{what}");
}

#[test]
fn a_vm_ends_and_begins_again_wherever_its_vcpu_is() {
    for mut pool in [Pool::moved(), Pool::on_its_way()] {
        let (mover, vm) = (pool.mover, pool.vm(pool.mover));
        let board = pool.fake.board;
        let boot = vm.lifecycle().number();
        assert!(matches!(vm.stop(board), Wish::Taken));
        go_on(&mut pool, |_| vm.lifecycle().is_ended(), "it does not end");
        assert!(matches!(vm.restart(board), Wish::Deserted));
        let runs = |pool: &mut Pool| {
            let cpu = pool.home(mover).cpu.index();
            let resident = pool.at(cpu).resident();
            resident.is_some_and(|vcpu| vcpu.is_on() && vcpu.unit.vm.id() == vm.id())
        };
        go_on(&mut pool, runs, "it does not begin again");
        assert!(vm.lifecycle().is_running() && vm.lifecycle().number() > boot);
        // The other one has gone on.
        assert!(pool.vm(1 - mover).lifecycle().is_running());
    }
}

/// The entities of the vCPUs that a pCPU has.
fn all(pool: &mut Pool, cpu: usize) -> Vec<Entity> {
    pool.at(cpu).vcpus().map(|vcpu| vcpu.entity).collect()
}

#[test]
fn a_guest_reads_what_is_left_of_its_budget() {
    let mut pool = Pool::moved();
    let (vcpu, local) = pool.at(1).resident_and_local();
    let vcpu = vcpu.expect("it runs");
    let mut read = |item: u32| {
        vcpu.context.regs.x[..2].copy_from_slice(&[schedule::READ.into(), item.into()]);
        assert!(!vcpu.schedule_call(local));
        let [answer, low, high, ..] = vcpu.context.regs.x;
        (answer as i64 as i32, low | high << 32)
    };
    let (done, budget) = read(item::BUDGET);
    assert_eq!(done, status::DONE);
    let (done, left) = read(item::LEFT);
    assert_eq!(done, status::DONE);
    assert!(0 < left && left < budget, "{left} of {budget} are left");
    let (_, later) = read(item::LEFT);
    assert!(later < left, "{later}, and {left} before");
}

#[test]
fn a_vcpu_that_is_asked_for_does_not_wait_until_others_are_up_to_date() {
    let mut pool = Pool::with_budgets(2, 5, 7_000);
    let board = pool.fake.board;
    for vm in 1..5 {
        assert!(matches!(pool.vm(vm).stop(board), Wish::Taken));
    }
    let wanted = pool
        .at(0)
        .vcpus()
        .find(|vcpu| vcpu.unit.vm.id().index() == 0);
    let wanted = wanted.expect("a vCPU").entity;
    pool.ask(1, wanted);
    let first = pool.at(0);
    first.serve_pending();
    let now = hanok_vm::Clock::counter(first.local.board);
    assert!(first.try_to_schedule(now, &mut 0) == Round::Interrupted);
    assert!(!pool.has(0, 0), "it is on its way");
    // Without anybody who asks, a round ends with the first one that leaves its VM.
    let first = pool.at(0);
    assert!(first.try_to_schedule(now, &mut 0) == Round::Interrupted);
    assert_eq!(first.vcpus().filter(|vcpu| !vcpu.on).count(), 1);
}

#[test]
fn kicks_of_many_that_have_moved_are_handed_on_in_rounds() {
    let mut pool = Pool::with_budgets(2, 8, 4_000);
    let entities = all(&mut pool, 0);
    assert_eq!(entities.len(), 8);
    for entity in &entities {
        pool.ask(1, *entity);
        assert!(pool.exchange(0));
    }
    assert!(all(&mut pool, 0).is_empty() && pool.exchange(1));
    assert_eq!(all(&mut pool, 1).len(), 8);
    let mut gone = EntitySet::EMPTY;
    entities.iter().for_each(|entity| gone.insert(*entity));
    let first = pool.at(0);
    first.local.put_back_updates(gone);
    let mut rounds = 0;
    while !first.local.updates.is_empty() {
        let left = first.local.updates.bits().count_ones();
        let now = hanok_vm::Clock::counter(first.local.board);
        let _ = catch_unwind(AssertUnwindSafe(|| first.try_to_schedule(now, &mut 0)));
        let done = left - first.local.updates.bits().count_ones();
        assert!((1..=4).contains(&done), "{done} in a round");
        rounds += 1;
    }
    assert!(rounds >= 2);
    let posted = pool.fake.board.updates[1].load(Ordering::Relaxed);
    assert_eq!(posted, gone.bits());
}

#[test]
fn a_switch_is_paid_by_nobody_whatever_other_pcpus_do() {
    let mut pool = Pool::moved();
    let (first, second) = (pool.seat(0), pool.seat(1));
    pool.at(0).switch_away();
    let mut pieces = 0;
    let decided = loop {
        if let Some((decision, _)) = pool.at(0).decide(first, &mut pieces) {
            break decision.run;
        }
    };
    let comes = decided.expect("the one that has not moved");
    let before = second.budget(comes);
    assert!(before.is_some_and(|left| left > 4_000), "{before:?} left");
    pool.fake.board.machine.advance(1_000);
    assert_eq!(second.budget(comes), before, "the switch is not over");
    let _ = first.exempt();
    assert_eq!(second.budget(comes).max(before), before);
    pool.fake.board.machine.advance(1_000);
    let after = second.budget(comes);
    assert!(
        after
            .zip(before)
            .is_some_and(|(after, before)| after + 1_000 <= before)
    );
    // So is what is nobody's: the serial line.
    let mut inside = None;
    first.without_charge(|| {
        pool.fake.board.machine.advance(1_000);
        let begun = second.budget(comes);
        pool.fake.board.machine.advance(1_000);
        inside = Some((begun, second.budget(comes)));
    });
    assert!(
        inside.is_some_and(|(begun, ended)| begun == ended),
        "{inside:?}"
    );
}
