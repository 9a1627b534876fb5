//! The tasks of a vCPU, and the budgets that are asked for because of them.

use hanok_sched::admission;
use hanok_schedule::fake::{Board, ByCall};
use hanok_schedule::{Answer, Error, Interface, Order, Refusal, Task, Tasks, Vcpu};

const MS: u64 = 1_000_000;

/// A vCPU that has 1 ms in each 10 ms.
fn vcpu() -> (Board, Vcpu<ByCall>) {
    let board = Board::default();
    let vcpu = Vcpu::new(board.by_call(0));
    (board, vcpu)
}

fn budget(board: &Board) -> u64 {
    board.vcpu(0, |vcpu| vcpu.interface.budget)
}

/// What a periodic resource certainly supplies within `length`: after a time without any, 2 (period - budget), the
/// budget at the start of each period (Shin and Lee 2003).
fn supply(period: u64, budget: u64, length: u64) -> u64 {
    let Some(rest) = length.checked_sub(2 * (period - budget)) else {
        return 0;
    };
    rest / period * budget + (rest % period).min(budget)
}

#[test]
fn the_budget_is_the_least_for_all_tasks() {
    let (board, mut vcpu) = vcpu();
    let mut tasks = Tasks::new(Order::EarliestDeadline);
    let first = Task::new(40 * MS, 8 * MS);
    assert_eq!(tasks.declare(&mut vcpu, 3, &first), Ok(1));
    let enough = |budget| (1..=20).all(|n| supply(10 * MS, budget, n * 40 * MS) >= n * 8 * MS);
    assert!(enough(budget(&board)) && !enough(budget(&board) - 1));
    assert_eq!(
        vcpu.interface(),
        Ok(Interface::new(10 * MS, budget(&board)))
    );
    let alone = budget(&board);
    let second = Task::new(50 * MS, 5 * MS).within(30 * MS);
    tasks.declare(&mut vcpu, 15, &second).unwrap();
    let enough = |budget| {
        let demand = |at: u64| {
            let of = |task: &Task| match at.checked_sub(task.deadline) {
                Some(rest) => (rest / task.period + 1) * task.execution,
                None => 0,
            };
            of(&first) + of(&second)
        };
        (1..=400).all(|n| supply(10 * MS, budget, n * 5 * MS) >= demand(n * 5 * MS))
    };
    assert!(enough(budget(&board)) && !enough(budget(&board) - 1));
    tasks.revoke(&mut vcpu, 15).unwrap();
    assert_eq!(budget(&board), alone);
}

#[test]
fn the_deadline_of_the_vcpu_stays_and_is_reckoned_with() {
    let (board, mut vcpu) = vcpu();
    let tight = Interface {
        deadline: 4 * MS,
        ..Interface::new(10 * MS, 2 * MS)
    };
    vcpu.ask(&tight).unwrap();
    let mut tasks = Tasks::new(Order::EarliestDeadline);
    tasks
        .declare(&mut vcpu, 0, &Task::new(20 * MS, 3 * MS))
        .unwrap();
    let soon = budget(&board);
    assert_eq!(
        vcpu.interface().unwrap(),
        Interface {
            budget: soon,
            ..tight
        }
    );
    vcpu.ask(&Interface::new(10 * MS, 2 * MS)).unwrap();
    tasks
        .declare(&mut vcpu, 0, &Task::new(20 * MS, 3 * MS))
        .unwrap();
    assert!(soon < budget(&board), "{soon} {}", budget(&board));
}

#[test]
fn by_priorities_the_place_is_the_priority() {
    let [short, long] = [Task::new(20 * MS, 2 * MS), Task::new(100 * MS, 20 * MS)];
    let with = |order, places: [usize; 2]| {
        let (board, mut vcpu) = vcpu();
        let mut tasks = Tasks::new(order);
        tasks.declare(&mut vcpu, places[0], &short).unwrap();
        let declared = tasks.declare(&mut vcpu, places[1], &long);
        declared.map(|_| budget(&board))
    };
    let by_rate = with(Order::Priority, [0, 1]).unwrap();
    let by_deadline = with(Order::EarliestDeadline, [0, 1]).unwrap();
    assert!(by_deadline <= by_rate);
    // The long job in front of the short one makes that late, unless the budget is nearly the whole CPU.
    assert!(matches!(
        with(Order::Priority, [1, 0]),
        Err(Error::Unschedulable(
            admission::Refusal::Overload | admission::Refusal::Late(_)
        ))
    ));
    // The order of places says nothing under EDF.
    assert_eq!(with(Order::EarliestDeadline, [1, 0]), Ok(by_deadline));
}

#[test]
fn what_is_refused_changes_nothing() {
    let (board, mut vcpu) = vcpu();
    let mut tasks = Tasks::new(Order::EarliestDeadline);
    let task = Task::new(40 * MS, 8 * MS);
    tasks.declare(&mut vcpu, 0, &task).unwrap();
    let had = budget(&board);
    let late = Answer {
        status: -4,
        value: 2,
    };
    board.vcpu(0, |vcpu| vcpu.instead.push(late));
    let more = Task::new(40 * MS, 4 * MS);
    let refused = Err(Error::Refused(Refusal::Late));
    assert_eq!(tasks.declare(&mut vcpu, 1, &more), refused);
    board.vcpu(0, |vcpu| vcpu.instead.push(late));
    assert_eq!(tasks.revoke(&mut vcpu, 0), refused);
    assert_eq!(budget(&board), had);
    // A free place that is taken back makes the budget what the tasks need.
    tasks.revoke(&mut vcpu, 9).unwrap();
    assert_eq!(budget(&board), had);
    // So is what exceeds the vCPU's limit.
    let large = Task::new(40 * MS, 25 * MS);
    assert_eq!(tasks.declare(&mut vcpu, 1, &large), Err(Error::NotAllowed));
    tasks.revoke(&mut vcpu, 1).unwrap();
    assert_eq!(budget(&board), had);
}

#[test]
fn what_cannot_be_is_not_asked_for() {
    use admission::Refusal::{Hopeless, Overload, Time};
    let (board, mut vcpu) = vcpu();
    let mut tasks = Tasks::new(Order::EarliestDeadline);
    let wrong = [
        (Task::new(0, 0), Time),
        (Task::new(MS, 0), Time),
        (Task::new(u64::MAX, MS), Time),
        (Task::new(MS, 2 * MS), Overload),
        (Task::new(20 * MS, 3 * MS).within(2 * MS), Hopeless),
    ];
    for (task, why) in wrong {
        let error = Error::Unschedulable(why);
        assert_eq!(tasks.declare(&mut vcpu, 0, &task), Err(error), "{task:?}");
        assert!(error.to_string().contains(": "), "{error}");
    }
    let task = Task::new(20 * MS, 2 * MS);
    assert_eq!(tasks.declare(&mut vcpu, 16, &task), Err(Error::Invalid));
    assert_eq!(tasks.revoke(&mut vcpu, 16), Err(Error::Invalid));
    // The vCPU may have its largest budget only after the task's deadline.
    let tight = Interface {
        deadline: 4 * MS,
        ..Interface::new(10 * MS, 2 * MS)
    };
    vcpu.ask(&tight).unwrap();
    let asked = board.vcpu(0, |vcpu| vcpu.asked.len());
    let declared = tasks.declare(&mut vcpu, 0, &Task::new(20 * MS, MS).within(2 * MS));
    assert!(
        matches!(
            declared,
            Err(Error::Unschedulable(admission::Refusal::Late(_)))
        ),
        "{declared:?}"
    );
    assert_eq!(board.vcpu(0, |vcpu| vcpu.asked.len()), asked);
}

#[test]
fn the_budget_without_tasks_is_the_floor() {
    let (board, mut vcpu) = vcpu();
    let mut tasks = Tasks::new(Order::EarliestDeadline).at_least(300_000);
    tasks
        .declare(&mut vcpu, 0, &Task::new(40 * MS, 8 * MS))
        .unwrap();
    assert!(budget(&board) > 2 * MS);
    tasks.revoke(&mut vcpu, 0).unwrap();
    assert_eq!(budget(&board), 300_000);
    Tasks::new(Order::Priority).revoke(&mut vcpu, 0).unwrap();
    assert_eq!(budget(&board), 1);
}

/// Sixteen tasks with periods that have little in common are decided, in both orders.
#[test]
fn all_places_are_decided_with_the_work_that_is_allowed() {
    for order in [Order::EarliestDeadline, Order::Priority] {
        let (board, mut vcpu) = vcpu();
        board.vcpu(0, |vcpu| vcpu.limit = 1 << 16);
        let mut tasks = Tasks::new(order);
        for place in 0..Tasks::PLACES {
            let period = 20_000_003 + 7_654_321 * place as u64;
            let task = Task::new(period, period / 24);
            tasks.declare(&mut vcpu, place, &task).unwrap();
        }
        assert!((6_666_000..10_000_000).contains(&budget(&board)));
    }
}
