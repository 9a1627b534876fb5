//! What came last, a line each, for a person who looks for the reason of an end.

use crate::model::{Event, Machine, Record};
use crate::report::Cause;

/// The last `count` events of a machine, the oldest first: how long before the last one, the CPU, who ran, and what it was.
#[must_use]
pub fn latest(machine: &Machine, count: usize) -> Vec<String> {
    let cpus = machine.cpus.iter().enumerate();
    let mut all: Vec<_> = cpus
        .flat_map(|(cpu, records)| records.iter().map(move |record| (record.at, cpu, record)))
        .collect();
    all.sort_by_key(|(at, ..)| *at);
    let last = all.last().map_or(0, |(at, ..)| *at);
    let shown = all.split_off(all.len().saturating_sub(count));
    let line = |(at, cpu, record): (u64, usize, &Record)| {
        let before = (last - at) as f64 / 1e3;
        let task = machine.tasks.get(&record.task).map_or("?", String::as_str);
        let what = words(&record.event);
        format!("{before:>12.3} us before  CPU {cpu:<2} {task:<12} {what}")
    };
    shown.into_iter().map(line).collect()
}

fn words(event: &Event) -> String {
    match event {
        Event::Switch { previous, next, .. } => format!("{} -> {}", previous.name, next.name),
        Event::Waking { task, .. } => format!("{} has work", task.name),
        Event::InterruptEntry { number, .. } => format!("interrupt {number}"),
        Event::InterruptExit { number, .. } => format!("end of interrupt {number}"),
        Event::Entry { address, .. } => format!("enters the guest at {address:#x}"),
        Event::Exit {
            address,
            reason,
            syndrome,
            about,
            ..
        } => {
            let cause = Cause::of(*reason, *syndrome).words();
            format!("leaves the guest at {address:#x}: {cause}, syndrome {syndrome:#x}, {about:#x}")
        }
        Event::Throttled { task, .. } => format!("{}: its budget is used up", task.name),
        Event::Late { task, count } => format!("{}: {count} promises not kept", task.name),
        Event::Lost { count } => format!("{count} records are lost"),
        Event::Words(words) => words.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{INTERRUPTED, Place};
    use std::collections::BTreeMap;

    #[test]
    fn the_last_events_of_all_cpus_come_in_the_order_of_time() {
        let record = |at, task, event| Record {
            at,
            task,
            in_interrupt: false,
            event,
        };
        let exit = Event::Exit {
            vcpu: 0,
            address: 0x4000,
            reason: INTERRUPTED,
            syndrome: 27,
            about: 0,
        };
        let words = |words: &str| Event::Words(words.to_owned());
        let machine = Machine {
            name: "Hanok".to_owned(),
            id: 1,
            place: Place::Host { guests: Vec::new() },
            tasks: BTreeMap::from([(1000, "linux.0".to_owned())]),
            cpus: vec![
                vec![record(1, 0, words("old")), record(5_000, 1000, exit)],
                vec![
                    record(2_000, 7, words("one")),
                    record(6_500, 1000, words("last")),
                ],
            ],
        };
        let wanted = [
            "       4.500 us before  CPU 1  ?            one",
            "       1.500 us before  CPU 0  linux.0      leaves the guest at 0x4000: interrupt 27, syndrome 0x1b, 0x0",
            "       0.000 us before  CPU 1  linux.0      last",
        ];
        assert_eq!(latest(&machine, 3), wanted);
        assert_eq!(latest(&machine, 9).len(), 4);
        let none = Machine {
            cpus: Vec::new(),
            ..machine
        };
        assert!(latest(&none, 3).is_empty());
    }
}
