//! The figures of random traces, compared with what one finds who looks at each nanosecond, and at each record, by itself.

use super::super::waits::{self, Wait};
use super::super::{budgets, figures};
use super::*;
use proptest::prelude::*;

const TASKS: [i32; 4] = [0, 1, 2, 3];

/// What is drawn of a record: how long it is after the one before, what it is, and two tasks.
type Drawn = (u64, u8, usize, usize);

/// Records as a CPU makes them: who is told to run is who was switched to.
fn records_of(drawn: Vec<Drawn>) -> Vec<Record> {
    let (mut at, mut current) = (50, 1);
    let mut records = Vec::new();
    for (gap, what, one, other) in drawn {
        // A turn of no time is one, and nobody who looks at nanoseconds sees it.
        at += match what {
            0..5 | 16 => gap.max(1),
            _ => gap,
        };
        let (next, about) = (TASKS[one], TASKS[other].max(1));
        let task = current;
        let event = match what {
            0..5 if next != current => {
                current = next;
                let state = if what < 2 {
                    State::Ready
                } else {
                    State::Waiting
                };
                switch(task, state, next)
            }
            5..8 if current != 0 => exit(0x24 + u32::from(what & 1), 0, other as u64),
            8..11 if current != 0 => entry(about as u32 * 10),
            11..14 => wake(about),
            14 => Event::Throttled {
                task: super::task(about),
                count: 1,
            },
            15 => Event::Late {
                task: super::task(about),
                count: 2,
            },
            16 => {
                current = next;
                Event::Lost { count: 1 }
            }
            _ => interrupt(about as u32)[usize::from(what & 1)].clone(),
        };
        records.push(Record {
            at,
            task,
            in_interrupt: false,
            event,
        });
    }
    records
}

fn cpu() -> impl Strategy<Value = Vec<Record>> {
    let one = (0..6_u64, 0..20_u8, 0..TASKS.len(), 0..TASKS.len());
    prop::collection::vec(one, 1..60).prop_map(records_of)
}

/// Who has the CPU in the nanosecond from `at` on, and whether its hypervisor runs.
fn at_instant(records: &[Record], at: u64) -> (Who, bool) {
    let (mut who, mut is_left) = (Who::Unknown, false);
    for record in records.iter().filter(|record| record.at <= at) {
        match &record.event {
            Event::Waking { .. } => {}
            Event::Lost { .. } => (who, is_left) = (Who::Unknown, false),
            event => {
                if who == Who::Unknown {
                    who = Who::of(record.task);
                }
                match event {
                    Event::Switch { next, .. } => who = Who::of(next.number),
                    Event::Exit { .. } => is_left = true,
                    Event::Entry { .. } => is_left = false,
                    _ => {}
                }
            }
        }
    }
    let next = records.iter().find(|record| record.at > at);
    if next.is_some_and(|record| matches!(record.event, Event::Lost { .. })) {
        who = Who::Unknown;
    }
    (who, is_left && matches!(who, Who::Task(_)))
}

/// How long each exit of a CPU took, in order.
fn ends(records: &[Record]) -> Vec<(u64, Option<u64>)> {
    let of_exit = |(index, record): (usize, &Record)| {
        if !matches!(record.event, Event::Exit { .. }) {
            return None;
        }
        let end = records[index + 1..]
            .iter()
            .find_map(|after| match &after.event {
                Event::Entry { .. } => Some(Some(after.at)),
                Event::Switch { next, .. } if next.number == 0 => Some(Some(after.at)),
                Event::Exit { .. } | Event::Lost { .. } => Some(None),
                _ => None,
            });
        Some((record.at, end.flatten().map(|end| end - record.at)))
    };
    records.iter().enumerate().filter_map(of_exit).collect()
}

/// All waits: from each switch back to the first wake since the task ran last.
fn all_waits(cpus: &[Vec<Record>]) -> Vec<Wait> {
    let numbered = cpus.iter().enumerate();
    let mut all: Vec<_> = numbered
        .flat_map(|(cpu, records)| records.iter().map(move |record| (cpu, record)))
        .collect();
    all.sort_by_key(|(_, record)| record.at);
    let runs = |task: i32, index: usize| {
        (0..cpus.len()).any(|cpu| {
            let last = all[..index]
                .iter()
                .rev()
                .find_map(|(of, record)| match &record.event {
                    Event::Switch { next, .. } if *of == cpu => Some(next.number),
                    Event::Lost { .. } if *of == cpu => Some(0),
                    _ => None,
                });
            last == Some(task)
        })
    };
    let mut waits = Vec::new();
    for (index, (cpu, record)) in all.iter().enumerate() {
        let Event::Switch { next, .. } = &record.event else {
            continue;
        };
        let barrier = all[..index]
            .iter()
            .rposition(|(_, before)| match &before.event {
                Event::Switch { next: before, .. } => before.number == next.number,
                Event::Lost { .. } => true,
                _ => false,
            });
        let start = barrier.map_or(0, |barrier| barrier + 1);
        let woken = (start..index).find(|woken| {
            matches!(&all[*woken].1.event, Event::Waking { task, .. } if task.number == next.number)
                && !runs(next.number, *woken)
        });
        if let Some(woken) = woken.filter(|_| next.number != 0) {
            waits.push(Wait {
                task: next.number,
                from: all[woken].1.at,
                to: record.at,
                cpu: *cpu,
            });
        }
    }
    waits
}

fn subject<'a>(machine: &'a Machine, window: Window, chosen: Option<Vec<i32>>) -> Subject<'a> {
    let cpus = machine
        .cpus
        .iter()
        .map(|records| Cpu::of(records, window, false));
    Subject {
        machine,
        window,
        chosen,
        names: names(machine),
        cpus: cpus.collect(),
    }
}

fn check(
    cpus: Vec<Vec<Record>>,
    from: u64,
    length: u64,
    chosen: Option<i32>,
) -> Result<(), TestCaseError> {
    let machine = machine(cpus);
    let last = machine
        .cpus
        .iter()
        .flatten()
        .map(|record| record.at)
        .max()
        .unwrap();
    let from = 50 + from;
    let window = Window {
        origin: 50,
        from,
        to: (from + length).min(last.max(from)),
    };
    let subject = subject(&machine, window, chosen.map(|task| vec![task]));
    let is_chosen = |task: i32| chosen.is_none_or(|chosen| chosen == task);
    let ticks = || window.from..window.to;
    for (records, found) in machine.cpus.iter().zip(figures::of_cpus(&subject)) {
        let count = |is: &dyn Fn((Who, bool)) -> bool| {
            ticks().filter(|at| is(at_instant(records, *at))).count() as u64
        };
        prop_assert_eq!(found.busy, count(&|(who, _)| matches!(who, Who::Task(_))));
        prop_assert_eq!(found.idle, count(&|(who, _)| who == Who::Idle));
        prop_assert_eq!(found.unknown, count(&|(who, _)| who == Who::Unknown));
        prop_assert_eq!(
            found.hypervisor.unwrap_or(0),
            match found.hypervisor {
                Some(_) => count(&|(_, is_inside)| is_inside),
                None => 0,
            }
        );
    }
    let of_tasks = figures::of_tasks(&subject);
    for task in TASKS.into_iter().filter(|task| *task != 0) {
        let (mut time, mut longest, mut turns) = (0, 0, 0);
        for records in &machine.cpus {
            let mut turn = 0;
            for at in ticks() {
                let is_running = at_instant(records, at).0 == Who::Task(task);
                turn = if is_running { turn + 1 } else { 0 };
                time += u64::from(is_running);
                turns += u64::from(turn == 1);
                longest = longest.max(turn);
            }
        }
        let wanted = figures::Times {
            count: turns,
            total: time,
            longest,
        };
        let found = of_tasks.get(&task).copied().unwrap_or_default();
        let wanted = if is_chosen(task) {
            wanted
        } else {
            figures::Times::default()
        };
        prop_assert_eq!(found.turns, wanted);
        let preempted = |records: &[Record]| {
            let is = |record: &&Record| matches!(&record.event, Event::Switch { previous, state: State::Ready, next } if previous.number == task && next.number != 0);
            records
                .iter()
                .filter(|record| window.has(record.at))
                .filter(is)
                .count() as u64
        };
        let wanted: u64 = machine.cpus.iter().map(|records| preempted(records)).sum();
        prop_assert_eq!(
            found.preempted,
            if found.turns.count > 0 { wanted } else { 0 }
        );
    }
    let mut wanted = all_waits(&machine.cpus);
    wanted.retain(|wait| window.has(wait.to) && is_chosen(wait.task));
    prop_assert_eq!(waits::of(&subject), wanted.clone());
    for wait in wanted {
        let found = waits::Meanwhile::of(&subject, wait.cpu, wait.from, wait.to);
        let mut who: BTreeMap<Who, (u64, u64)> = BTreeMap::new();
        for at in (wait.from..wait.to).filter(|at| ticks().contains(at)) {
            let (one, is_inside) = at_instant(&machine.cpus[wait.cpu], at);
            let (time, inside) = who.entry(one).or_default();
            *time += 1;
            *inside += u64::from(is_inside);
        }
        prop_assert_eq!(found.who, who);
    }
    // Of several exits at one time, who made each does not follow from the time: all of them are compared.
    if chosen.is_none() {
        let exits = machine.cpus.iter().flat_map(|records| ends(records));
        let wanted = exits
            .filter(|(at, _)| window.has(*at))
            .fold((0, 0), |(count, total), (_, took)| {
                (count + 1, total + took.unwrap_or(0))
            });
        let found = figures::of_exits(&subject).causes;
        let count: u64 = found.values().map(|exit| exit.count).sum();
        let total: u64 = found.values().map(|exit| exit.times.total).sum();
        prop_assert_eq!((count, total), wanted);
    }
    check_told(&subject, is_chosen)
}

/// Budgets and promises: how often they were told, and who had the CPU, by each nanosecond.
fn check_told(subject: &Subject<'_>, is_chosen: impl Fn(i32) -> bool) -> Result<(), TestCaseError> {
    let window = subject.window;
    for ((kind, task), found) in budgets::of(subject) {
        prop_assert!(is_chosen(task));
        let (mut count, mut who) = (0, BTreeMap::new());
        for records in &subject.machine.cpus {
            for record in records.iter().filter(|record| window.has(record.at)) {
                let at = record.at;
                let runs = |at: &u64| at_instant(records, *at).0 == Who::Task(task);
                let ticks: Vec<u64> = match (&record.event, kind) {
                    (Event::Throttled { task: its, .. }, Kind::Throttled) if its.number == task => {
                        count += 1;
                        // A turn that goes on is none that begins.
                        let begins =
                            |tick: &u64| runs(tick) && (*tick == window.from || !runs(&(tick - 1)));
                        let next = (at..window.to).find(begins).unwrap_or(window.to);
                        (at..next).collect()
                    }
                    (Event::Late { task: its, .. }, Kind::Late) if its.number == task => {
                        count += 2;
                        let before: Vec<_> = (window.from..at)
                            .rev()
                            .skip_while(|tick| !runs(tick))
                            .skip_while(runs)
                            .collect();
                        let is_any = (window.from..at).any(|tick| runs(&tick));
                        let all = if is_any {
                            before
                        } else {
                            (window.from..at).rev().collect()
                        };
                        all.into_iter().take_while(|tick| !runs(tick)).collect()
                    }
                    _ => continue,
                };
                for tick in ticks {
                    *who.entry(at_instant(records, tick).0).or_insert(0) += 1;
                }
            }
        }
        prop_assert_eq!(found.count, count);
        let times = found
            .meanwhile
            .who
            .iter()
            .map(|(who, (time, _))| (*who, *time))
            .collect::<BTreeMap<_, _>>();
        prop_assert_eq!(times, who, "{:?} of {}", kind, task);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn figures_are_those_of_each_nanosecond(
        cpus in prop::collection::vec(cpu(), 1..3),
        from in 0..60_u64,
        length in 1..200_u64,
        chosen in prop::option::of(1..4_i32),
    ) {
        check(cpus, from, length, chosen)?;
    }
}
