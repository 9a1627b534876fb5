//! Tests the kernel's rules, one by one, on a clock that the test advances.

use hanok_rtos_kernel::*;

fn spec(name: &'static str, period: Ticks, budget: Ticks) -> Spec {
    Spec {
        name,
        period,
        deadline: period,
        offset: 0,
        priority: 0,
        budget,
        execution: budget,
    }
}

/// A kernel with these tasks; the first releases have come.
fn started(policy: Policy, specs: &[Spec]) -> Kernel<'static> {
    let storage = vec![Event::NONE; 1000].leak();
    let mut kernel = Kernel::new(policy, Trace::new(storage));
    for spec in specs {
        kernel.add_task(*spec).unwrap();
    }
    kernel.timer(0);
    kernel
}

fn who(kernel: &Kernel<'_>) -> Option<usize> {
    kernel.running().map(TaskId::index)
}

fn stats(kernel: &Kernel<'_>, task: usize) -> Stats {
    *kernel.tasks()[task].stats()
}

/// (time, task, kind) of all events since the last look.
fn told(kernel: &Kernel<'_>, from: usize) -> Vec<(Ticks, usize, EventKind)> {
    let events = kernel.events()[from..].iter();
    events.map(|e| (e.time, e.task.index(), e.kind)).collect()
}

#[test]
fn shorter_periods_come_first_wherever_they_stand_in_the_table() {
    let mut kernel = started(
        Policy::RateMonotonic,
        &[
            spec("slow", 100, 30),
            spec("fast", 10, 3),
            spec("also", 10, 1),
        ],
    );
    assert_eq!(who(&kernel), Some(1));
    kernel.complete(3).unwrap();
    assert_eq!(who(&kernel), Some(2));
    kernel.complete(4).unwrap();
    assert_eq!(who(&kernel), Some(0));
    assert_eq!(kernel.next_event(), 10);
    let seen = kernel.events().len();
    kernel.timer(10);
    use EventKind::*;
    assert_eq!(
        told(&kernel, seen),
        [
            (10, 1, Release),
            (10, 2, Release),
            (10, 0, Preempt),
            (10, 1, Start)
        ]
    );
    kernel.complete(12).unwrap();
    kernel.complete(13).unwrap();
    assert_eq!(told(&kernel, kernel.events().len() - 1), [(13, 0, Resume)]);
    assert_eq!(kernel.tasks()[0].consumed(), 6);
    assert_eq!(kernel.ran_from(), Some(7));
}

#[test]
fn the_earliest_deadline_comes_first_and_ties_preempt_nobody() {
    let mut long = spec("long", 20, 8);
    long.deadline = 15;
    let mut kernel = started(Policy::EarliestDeadline, &[spec("b", 10, 2), long]);
    assert_eq!(who(&kernel), Some(0));
    kernel.complete(9).unwrap();
    assert_eq!(who(&kernel), Some(1));
    // Due at 20, the other at 15.
    kernel.timer(10);
    assert_eq!(who(&kernel), Some(1));
    kernel.complete(14).unwrap();
    assert_eq!(who(&kernel), Some(0));

    let tie = [spec("a", 10, 2), spec("b", 20, 12)];
    let mut kernel = started(Policy::EarliestDeadline, &tie);
    kernel.complete(2).unwrap();
    kernel.timer(10);
    // Both are due at 20; the one that runs goes on.
    assert_eq!(who(&kernel), Some(1));
}

#[test]
fn a_miss_is_seen_when_it_happens_though_the_job_never_ends() {
    let mut endless = spec("endless", 100, 10);
    endless.deadline = 40;
    let mut kernel = started(Policy::RateMonotonic, &[endless]);
    assert_eq!(kernel.next_event(), 11);
    kernel.timer(11);
    assert_eq!(stats(&kernel, 0).overruns, 1);
    assert_eq!(kernel.next_event(), 41);
    kernel.timer(40);
    assert_eq!(stats(&kernel, 0).misses, 0);
    kernel.timer(41);
    assert_eq!(stats(&kernel, 0).misses, 1);
    kernel.timer(100);
    kernel.timer(141);
    kernel.timer(341);
    let Stats {
        jobs,
        misses,
        overruns,
        ..
    } = stats(&kernel, 0);
    assert_eq!((jobs, misses, overruns), (0, 4, 1));
}

#[test]
fn late_jobs_queue_up_and_each_is_judged_once() {
    let mut kernel = started(Policy::EarliestDeadline, &[spec("a", 10, 5)]);
    kernel.timer(10);
    kernel.timer(11);
    kernel.timer(20);
    assert_eq!(stats(&kernel, 0).misses, 1);
    kernel.complete(25).unwrap();
    // Jobs 0 and 1 were late; job 1 runs now, job 2 waits behind it.
    assert_eq!((stats(&kernel, 0).misses, who(&kernel)), (2, Some(0)));
    kernel.complete(26).unwrap();
    kernel.complete(27).unwrap();
    assert_eq!((who(&kernel), kernel.next_event()), (None, 30));
    let Stats {
        jobs,
        misses,
        response_max,
        ..
    } = stats(&kernel, 0);
    assert_eq!((jobs, misses, response_max), (3, 2, 25));
}

#[test]
fn a_job_that_ends_when_it_is_due_is_in_time() {
    let mut kernel = started(Policy::RateMonotonic, &[spec("a", 10, 10)]);
    kernel.complete(10).unwrap();
    assert_eq!(stats(&kernel, 0).misses, 0);
    kernel.complete(21).unwrap();
    assert_eq!(
        (stats(&kernel, 0).misses, stats(&kernel, 0).overruns),
        (1, 1)
    );
}

#[test]
fn a_late_release_is_jitter_and_none_is_lost() {
    let mut kernel = started(Policy::RateMonotonic, &[spec("a", 10, 2)]);
    kernel.complete(2).unwrap();
    kernel.timer(13);
    kernel.complete(14).unwrap();
    kernel.timer(47);
    assert_eq!(stats(&kernel, 0).jitter_max, 27);
    // Released at 20, 30, 40; those due at 30 and 40 are late before they began.
    assert_eq!(stats(&kernel, 0).misses, 2);
    for end in 48..51 {
        kernel.complete(end).unwrap();
    }
    assert_eq!(stats(&kernel, 0).jobs, 5);
}

#[test]
fn the_wait_for_the_first_instruction_is_counted_from_the_release() {
    let mut kernel = started(
        Policy::RateMonotonic,
        &[spec("slow", 100, 30), spec("fast", 10, 3)],
    );
    kernel.begin(1);
    kernel.complete(3).unwrap();
    kernel.begin(5);
    kernel.timer(12);
    kernel.begin(14);
    kernel.complete(15).unwrap();
    // The next job of `fast`, due at 20, begins in time; the longest wait is kept.
    kernel.timer(20);
    kernel.begin(21);
    assert_eq!(
        (stats(&kernel, 0).start_max, stats(&kernel, 1).start_max),
        (5, 4)
    );
    assert_eq!(stats(&kernel, 1).jitter_max, 2);
    Kernel::new(Policy::Fixed, Trace::default()).begin(1);
}

#[test]
fn fixed_priorities_are_by_deadline_or_as_given() {
    let mut long = spec("long", 100, 10);
    (long.deadline, long.priority) = (20, 1);
    let mut short = spec("short", 50, 10);
    short.priority = 2;
    for (policy, first) in [
        (Policy::RateMonotonic, 1),
        (Policy::DeadlineMonotonic, 0),
        (Policy::Fixed, 0),
    ] {
        let kernel = started(policy, &[long, short]);
        assert_eq!(who(&kernel), Some(first), "{policy:?}");
    }
    // Of equal priorities, the one that stands first in the table.
    short.priority = 1;
    assert_eq!(who(&started(Policy::Fixed, &[short, long])), Some(0));
}

#[test]
fn the_holder_inherits_and_the_middle_waits() {
    let low = spec("low", 400, 50);
    let mut mid = spec("mid", 200, 50);
    let mut high = spec("high", 100, 10);
    (mid.offset, high.offset) = (10, 5);
    let mut kernel = started(Policy::RateMonotonic, &[low, mid, high]);
    let semaphore = kernel.add_semaphore().unwrap();
    kernel.take(1, semaphore).unwrap();
    kernel.timer(5);
    assert_eq!(who(&kernel), Some(2));
    kernel.take(6, semaphore).unwrap();
    assert_eq!(who(&kernel), Some(0));
    kernel.timer(10);
    assert_eq!(
        who(&kernel),
        Some(0),
        "mid must not preempt what high waits for"
    );
    kernel.give(12, semaphore).unwrap();
    assert_eq!(who(&kernel), Some(2));
    kernel.give(13, semaphore).unwrap();
    kernel.complete(14).unwrap();
    assert_eq!(who(&kernel), Some(1));
}

#[test]
fn inheritance_goes_through_chains_and_by_deadline() {
    let task = |name, offset, deadline| Spec {
        offset,
        deadline,
        ..spec(name, 1000, 100)
    };
    // c holds 0; b holds 1 and waits for 0; then a, the most urgent, waits for 1.
    let specs = [
        task("c", 0, 900),
        task("b", 5, 800),
        task("a", 10, 100),
        task("x", 15, 500),
    ];
    let mut kernel = started(Policy::EarliestDeadline, &specs);
    let (zero, one) = (
        kernel.add_semaphore().unwrap(),
        kernel.add_semaphore().unwrap(),
    );
    kernel.take(1, zero).unwrap();
    kernel.timer(5);
    kernel.take(6, one).unwrap();
    kernel.take(7, zero).unwrap();
    kernel.timer(10);
    kernel.take(11, one).unwrap();
    assert_eq!(who(&kernel), Some(0));
    kernel.timer(15);
    assert_eq!(who(&kernel), Some(0), "c inherited a's deadline through b");
    kernel.give(16, zero).unwrap();
    assert_eq!(
        who(&kernel),
        Some(1),
        "c is what it was, b has a's deadline"
    );
    kernel.give(17, one).unwrap();
    assert_eq!(who(&kernel), Some(2));
    kernel.complete(18).unwrap();
    assert_eq!(who(&kernel), Some(3));
    // The semaphore that a held was freed with its job.
    assert_eq!(kernel.take(19, one), Ok(()));
}

#[test]
fn circles_and_misuse_are_refused() {
    let mut second = spec("b", 10, 5);
    second.offset = 5;
    let mut kernel = started(Policy::RateMonotonic, &[spec("a", 100, 50), second]);
    let (zero, one) = (
        kernel.add_semaphore().unwrap(),
        kernel.add_semaphore().unwrap(),
    );
    kernel.take(1, zero).unwrap();
    assert_eq!(kernel.take(2, zero), Err(Misuse::Held));
    assert_eq!(kernel.give(2, one), Err(Misuse::NotHeld));
    assert_eq!(kernel.take(2, SemaphoreId::new(7)), Err(Misuse::Unknown));
    kernel.timer(5);
    kernel.take(6, one).unwrap();
    kernel.take(7, zero).unwrap();
    assert_eq!(kernel.take(8, one), Err(Misuse::Deadlock));
    kernel.give(9, zero).unwrap();
    assert_eq!(who(&kernel), Some(1));
    let mut idle = started(Policy::RateMonotonic, &[]);
    assert_eq!(idle.complete(0), Err(Misuse::NobodyRuns));
    assert_eq!(idle.next_event(), Ticks::MAX);
}

#[test]
fn messages_keep_their_order_and_wake_whom_they_are_for() {
    let mut receiver = spec("receiver", 1000, 100);
    receiver.offset = 50;
    let mut kernel = started(
        Policy::RateMonotonic,
        &[spec("sender", 2000, 200), receiver],
    );
    let queue = kernel.add_queue().unwrap();
    for message in 0..QUEUE_DEPTH as u32 + 1 {
        kernel
            .send(1 + Ticks::from(message), queue, message)
            .unwrap();
    }
    assert_eq!(who(&kernel), None, "the queue is full, the sender waits");
    kernel.timer(50);
    for message in 0..QUEUE_DEPTH as u32 + 1 {
        kernel.receive(51, queue).unwrap();
        assert_eq!(kernel.message(TaskId::new(1)), Some(message));
    }
    kernel.receive(52, queue).unwrap();
    assert_eq!(
        who(&kernel),
        Some(0),
        "the queue is empty, the receiver waits"
    );
    kernel.send(53, queue, 77).unwrap();
    assert_eq!(who(&kernel), Some(1));
    assert_eq!(kernel.message(TaskId::new(1)), Some(77));
    assert_eq!(kernel.send(54, QueueId::new(3), 0), Err(Misuse::Unknown));
}

#[test]
fn tables_have_an_end() {
    let mut kernel = Kernel::new(Policy::RateMonotonic, Trace::default());
    for _ in 0..MAX_TASKS {
        kernel.add_task(spec("t", 10, 1)).unwrap();
    }
    assert_eq!(kernel.add_task(spec("t", 10, 1)), Err(Full));
    for _ in 0..MAX_SEMAPHORES {
        kernel.add_semaphore().unwrap();
    }
    assert_eq!(kernel.add_semaphore(), Err(Full));
    kernel.timer(0);
    assert_eq!(who(&kernel), Some(0));
}
