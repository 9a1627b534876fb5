//! Whatever tasks do with semaphores and queues, the most urgent one that can run runs, and a task
//! that others wait for is at least as urgent as they are.

use hanok_rtos_kernel::*;
use proptest::prelude::*;

const TASKS: usize = 6;
const SEMAPHORES: u8 = 3;

#[derive(Clone, Copy, Debug)]
enum TaskAction {
    Complete,
    Take(u8),
    Give(u8),
    Send,
    Receive,
    Timer,
}

fn step() -> impl Strategy<Value = TaskAction> {
    prop_oneof![
        1 => Just(TaskAction::Complete),
        4 => (0..SEMAPHORES).prop_map(TaskAction::Take),
        2 => (0..SEMAPHORES).prop_map(TaskAction::Give),
        1 => Just(TaskAction::Send),
        1 => Just(TaskAction::Receive),
        3 => Just(TaskAction::Timer),
    ]
}

fn kernel(policy: Policy) -> Kernel<'static> {
    let mut kernel = Kernel::new(policy, Trace::default());
    for index in 0..TASKS as u64 {
        let spec = Spec {
            name: "any",
            period: 20 + 7 * index,
            deadline: 40 - 5 * index,
            offset: 11 * (TASKS as u64 - index),
            priority: 0,
            budget: 5,
            execution: 5,
        };
        kernel.add_task(spec).unwrap();
    }
    for _ in 0..SEMAPHORES {
        kernel.add_semaphore().unwrap();
    }
    kernel.add_queue().unwrap();
    kernel
}

/// Misuse is tried as well: it must change nothing.
fn apply(kernel: &mut Kernel<'_>, now: Ticks, step: TaskAction) {
    let queue = QueueId::new(0);
    let _ = match step {
        TaskAction::Complete => kernel.complete(now),
        TaskAction::Take(index) => kernel.take(now, SemaphoreId::new(index)),
        TaskAction::Give(index) => kernel.give(now, SemaphoreId::new(index)),
        TaskAction::Send => kernel.send(now, queue, 1),
        TaskAction::Receive => kernel.receive(now, queue),
        TaskAction::Timer => {
            kernel.timer(now);
            Ok(())
        }
    };
}

fn check(kernel: &Kernel<'_>) {
    let ready = kernel.tasks().iter().enumerate();
    let ready = ready.filter(|(_, task)| task.state() == State::Ready);
    let best = ready.min_by_key(|(index, task)| (task.effective(), *index));
    let running = kernel.running().map(TaskId::index);
    assert_eq!(running, best.map(|(index, _)| index));
    for task in kernel.tasks() {
        if let State::Blocked(Blocker::Semaphore(id)) = task.state() {
            let holder = kernel.task(kernel.holder(id).unwrap()).unwrap();
            assert!(holder.effective() <= task.effective());
            assert!(holder.state() != State::Waiting);
        }
    }
}

proptest! {
    #[test]
    fn the_most_urgent_runs_and_holders_inherit(
        steps in prop::collection::vec((step(), 0..9_u64), 1..200),
        edf in any::<bool>(),
    ) {
        let policy = if edf { Policy::EarliestDeadline } else { Policy::RateMonotonic };
        let mut kernel = kernel(policy);
        let mut now = 0;
        for (step, after) in steps {
            now += after;
            apply(&mut kernel, now, step);
            check(&kernel);
        }
        // The running job ends: then every task that waits for a semaphore gets it.
        while kernel.running().is_some() {
            apply(&mut kernel, now, TaskAction::Complete);
            check(&kernel);
        }
        for task in kernel.tasks() {
            prop_assert!(!matches!(task.state(), State::Blocked(Blocker::Semaphore(_)))
                || kernel.tasks().iter().any(|t| matches!(t.state(),
                    State::Blocked(Blocker::Receive(_) | Blocker::Send(_)))));
        }
    }
}
