//! Traces of Perfetto: its page and its trace processor open them.
//!
//! The messages are those of Perfetto's `trace_packet.proto`, `ftrace_event.proto` and `process_tree.proto`, as far as they are written here.

use crate::model::{Event, Machine, Place, Record, State, Task};
use prost::Message;

/// How many events are in one packet.
const BUNDLE: usize = 512;
/// The state of a task that could run on, as Perfetto's events of a switch have it.
const READY: i64 = 0;

/// The trace of several machines on the board's clock: CPUs are numbered through, and each machine is a process whose threads are its tasks.
/// What a trace's tasks are called must be known by numbers that no other machine has.
#[must_use]
pub fn written(machines: &[Machine]) -> Vec<u8> {
    let mut packets = vec![packet(Data::Tree(tree(machines)), TREE)];
    let mut cpu = 0;
    for machine in machines {
        let shift = match machine.place {
            Place::Host { .. } => 0,
            Place::Guest { shift, .. } => shift,
        };
        for records in &machine.cpus {
            for some in records.chunks(BUNDLE) {
                let event = some.iter().filter_map(|record| event(record, shift));
                let bundle = Bundle {
                    cpu,
                    event: event.collect(),
                };
                packets.push(packet(Data::Events(bundle), TREE + 1 + cpu));
            }
            cpu += 1;
        }
    }
    Trace { packets }.encode_to_vec()
}

/// The sequence of the packet with all names.
const TREE: u32 = 1;

fn packet(data: Data, sequence: u32) -> Packet {
    Packet {
        sequence,
        data: Some(data),
    }
}

fn tree(machines: &[Machine]) -> Tree {
    let mut tree = Tree::default();
    for (process, machine) in (1..).zip(machines) {
        // Numbers of processes and of tasks are of one kind: a process has the number of its first task.
        let number = machine.tasks.keys().copied().find(|task| *task > 0);
        let number = number.unwrap_or(process);
        tree.processes.push(Process {
            number,
            parent: 0,
            words: vec![machine.name.clone()],
        });
        let threads = machine.tasks.iter().map(|(task, name)| Thread {
            number: *task,
            name: name.clone(),
            process: number,
        });
        tree.threads.extend(threads);
    }
    tree
}

fn event(record: &Record, shift: i64) -> Option<FtraceEvent> {
    let kind = match &record.event {
        Event::Switch {
            previous,
            state,
            next,
        } => Kind::Switch(switch(previous, *state, next)),
        Event::Waking { task, cpu } => Kind::Waking(Waking {
            name: task.name.clone(),
            number: task.number,
            priority: task.priority,
            success: 1,
            cpu: *cpu as i32,
        }),
        Event::InterruptEntry { number, name } => Kind::InterruptEntry(InterruptEntry {
            number: *number as i32,
            name: name.clone(),
        }),
        Event::InterruptExit { number, handled } => Kind::InterruptExit(InterruptExit {
            number: *number as i32,
            handled: i32::from(*handled),
        }),
        // A slice of the vCPU's task, from when it is entered until it is left.
        Event::Entry { vcpu, address, .. } => {
            print(format!("B|{}|vCPU {vcpu} at {address:#x}\n", record.task))
        }
        Event::Exit { .. } => print(format!("E|{}\n", record.task)),
        Event::Throttled { task, .. } => print(format!(
            "I|{}|{}: its budget is used up\n",
            record.task, task.name
        )),
        Event::Late { task, count } => print(format!(
            "I|{}|{}: a promise to it was not kept ({count})\n",
            record.task, task.name
        )),
        Event::Lost { count } => print(format!("I|{}|{count} records were lost\n", record.task)),
        Event::Words(words) => print(format!("I|{}|{words}\n", record.task)),
    };
    Some(FtraceEvent {
        time: record.at.checked_add_signed(shift)?,
        task: u32::try_from(record.task).ok()?,
        kind: Some(kind),
    })
}

fn switch(previous: &Task, state: State, next: &Task) -> Switch {
    Switch {
        previous_name: previous.name.clone(),
        previous_number: previous.number,
        previous_priority: previous.priority,
        previous_state: match state {
            State::Ready => READY,
            State::Waiting => 1,
            State::Stopped => 4,
            State::Ended => 16,
        },
        next_name: next.name.clone(),
        next_number: next.number,
        next_priority: next.priority,
    }
}

fn print(words: String) -> Kind {
    Kind::Print(Print { words })
}

#[derive(Clone, PartialEq, Message)]
struct Trace {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(uint32, required, tag = "10")]
    sequence: u32,
    #[prost(oneof = "Data", tags = "1, 2")]
    data: Option<Data>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Data {
    #[prost(message, tag = "1")]
    Events(Bundle),
    #[prost(message, tag = "2")]
    Tree(Tree),
}

#[derive(Clone, PartialEq, Message)]
struct Bundle {
    #[prost(uint32, required, tag = "1")]
    cpu: u32,
    #[prost(message, repeated, tag = "2")]
    event: Vec<FtraceEvent>,
}

#[derive(Clone, PartialEq, Message)]
struct FtraceEvent {
    #[prost(uint64, required, tag = "1")]
    time: u64,
    #[prost(uint32, required, tag = "2")]
    task: u32,
    #[prost(oneof = "Kind", tags = "3, 4, 20, 36, 37")]
    kind: Option<Kind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Kind {
    #[prost(message, tag = "3")]
    Print(Print),
    #[prost(message, tag = "4")]
    Switch(Switch),
    #[prost(message, tag = "20")]
    Waking(Waking),
    #[prost(message, tag = "36")]
    InterruptEntry(InterruptEntry),
    #[prost(message, tag = "37")]
    InterruptExit(InterruptExit),
}

#[derive(Clone, PartialEq, Message)]
struct Print {
    #[prost(string, required, tag = "2")]
    words: String,
}

#[derive(Clone, PartialEq, Message)]
struct Switch {
    #[prost(string, required, tag = "1")]
    previous_name: String,
    #[prost(int32, required, tag = "2")]
    previous_number: i32,
    #[prost(int32, required, tag = "3")]
    previous_priority: i32,
    #[prost(int64, required, tag = "4")]
    previous_state: i64,
    #[prost(string, required, tag = "5")]
    next_name: String,
    #[prost(int32, required, tag = "6")]
    next_number: i32,
    #[prost(int32, required, tag = "7")]
    next_priority: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Waking {
    #[prost(string, required, tag = "1")]
    name: String,
    #[prost(int32, required, tag = "2")]
    number: i32,
    #[prost(int32, required, tag = "3")]
    priority: i32,
    #[prost(int32, required, tag = "4")]
    success: i32,
    #[prost(int32, required, tag = "5")]
    cpu: i32,
}

#[derive(Clone, PartialEq, Message)]
struct InterruptEntry {
    #[prost(int32, required, tag = "1")]
    number: i32,
    #[prost(string, required, tag = "2")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct InterruptExit {
    #[prost(int32, required, tag = "1")]
    number: i32,
    #[prost(int32, required, tag = "2")]
    handled: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Tree {
    #[prost(message, repeated, tag = "1")]
    processes: Vec<Process>,
    #[prost(message, repeated, tag = "2")]
    threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
struct Process {
    #[prost(int32, required, tag = "1")]
    number: i32,
    #[prost(int32, required, tag = "2")]
    parent: i32,
    #[prost(string, repeated, tag = "3")]
    words: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Thread {
    #[prost(int32, required, tag = "1")]
    number: i32,
    #[prost(string, required, tag = "2")]
    name: String,
    #[prost(int32, required, tag = "3")]
    process: i32,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Record;

    #[test]
    fn budgets_promises_and_losses_are_marks_at_their_tasks() {
        let task = Task {
            number: 1000,
            name: "linux.0".to_owned(),
            priority: 0,
        };
        let marks = [
            Event::Throttled {
                task: task.clone(),
                count: 1,
            },
            Event::Late { task, count: 3 },
            Event::Lost { count: 9 },
        ];
        let shown = marks.map(|event| {
            let record = Record {
                at: 5,
                task: 2000,
                in_interrupt: false,
                event,
            };
            super::event(&record, 2).map(|event| (event.time, event.kind))
        });
        let wanted = [
            "I|2000|linux.0: its budget is used up\n",
            "I|2000|linux.0: a promise to it was not kept (3)\n",
            "I|2000|9 records were lost\n",
        ];
        let wanted = wanted.map(|words| Some((7, Some(print(words.to_owned())))));
        assert_eq!(shown, wanted);
    }
}
