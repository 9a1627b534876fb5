//! From the bytes of an event to what happened.

use super::description::Description;
use crate::format::{IN_INTERRUPT, NO_X86};
use crate::model::{Event, INTERRUPTED, NO_INTERRUPT, Record, SYSTEM_ERROR, State, Task};

/// An event's bytes and what says how to read them.
#[derive(Clone, Copy)]
pub struct Encoded<'a> {
    pub description: &'a Description,
    pub payload: &'a [u8],
}

/// What becomes of an event.
pub enum Decoded {
    /// It is one of those that the model has.
    Known(Record),
    /// It is of a kind that the model does not have.
    Unknown,
    /// It is too short for its fields.
    Short,
}

impl Encoded<'_> {
    /// What happened, at this time.
    pub fn decoded(&self, at: u64) -> Decoded {
        if !self.is_known() {
            return Decoded::Unknown;
        }
        self.record(at).map_or(Decoded::Short, Decoded::Known)
    }

    fn is_known(&self) -> bool {
        let Description { system, name, .. } = self.description;
        match (system.as_str(), name.as_str()) {
            ("sched", "sched_switch" | "sched_waking" | "sched_wakeup" | "sched_wakeup_new")
            | ("irq", "irq_handler_entry" | "irq_handler_exit")
            | ("hanok", "words" | "throttled" | "late" | "lost") => true,
            // Other CPUs than ARM's have other reasons.
            ("kvm", "kvm_entry" | "kvm_exit") => {
                let isa = self.number("isa");
                isa.is_none_or(|isa| isa == u64::from(NO_X86))
            }
            _ => false,
        }
    }

    fn record(&self, at: u64) -> Option<Record> {
        let flags = self.number("common_flags")?;
        Some(Record {
            at,
            task: self.number("common_pid")? as i32,
            in_interrupt: flags & u64::from(IN_INTERRUPT) != 0,
            event: self.event()?,
        })
    }

    fn event(&self) -> Option<Event> {
        Some(match self.description.name.as_str() {
            "sched_switch" => Event::Switch {
                previous: self.task("prev_")?,
                state: state(self.number("prev_state")?),
                next: self.task("next_")?,
            },
            "irq_handler_entry" => Event::InterruptEntry {
                number: self.number("irq")? as u32,
                name: self.text("name")?,
            },
            "irq_handler_exit" => Event::InterruptExit {
                number: self.number("irq")? as u32,
                handled: self.number("ret")? != 0,
            },
            "kvm_entry" => Event::Entry {
                vcpu: self.or_zero("vcpu_id") as u32,
                address: self.either("rip", "vcpu_pc")?,
                instructions: self.or_zero("instructions") as u32,
            },
            "kvm_exit" => self.exit()?,
            "throttled" => Event::Throttled {
                task: self.task("")?,
                count: self.number("count")? as u32,
            },
            "late" => Event::Late {
                task: self.task("")?,
                count: self.number("count")? as u32,
            },
            "lost" => Event::Lost {
                count: self.number("count")?,
            },
            "words" => Event::Words(self.text("words")?),
            // The wakes of three names.
            _ => Event::Waking {
                task: self.task("")?,
                cpu: self.number("target_cpu")? as u32,
            },
        })
    }

    fn exit(&self) -> Option<Event> {
        let class = self.either("exit_reason", "esr_ec")? as u32;
        // What KVM on ARM calls `ret`: 0 an interrupt, 1 an SError, else an exception of that class.
        let (reason, syndrome) = match self.number("ret") {
            Some(0) => (INTERRUPTED, NO_INTERRUPT),
            Some(1) => (SYSTEM_ERROR, 0),
            Some(_) => (class, class << 26),
            None => (class, self.or_zero("info1") as u32),
        };
        Some(Event::Exit {
            vcpu: self.or_zero("vcpu_id") as u32,
            address: self.either("guest_rip", "vcpu_pc")?,
            reason,
            syndrome,
            about: self.or_zero("info2"),
        })
    }

    /// The task of fields whose names begin so.
    fn task(&self, prefix: &str) -> Option<Task> {
        let number = |name| self.number(&format!("{prefix}{name}"));
        Some(Task {
            number: number("pid")? as i32,
            name: self.text(&format!("{prefix}comm"))?,
            priority: number("prio")? as i32,
        })
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.description.number(self.payload, name)
    }

    fn text(&self, name: &str) -> Option<String> {
        self.description.text(self.payload, name)
    }

    fn either(&self, name: &str, other: &str) -> Option<u64> {
        self.number(name).or_else(|| self.number(other))
    }

    fn or_zero(&self, name: &str) -> u64 {
        self.number(name).unwrap_or_default()
    }
}

/// A state as Linux numbers them. A task that could run and was preempted has a bit above all of these.
fn state(number: u64) -> State {
    const ENDED: u64 = 0x10 | 0x20 | 0x40;
    const STOPPED: u64 = 0x04 | 0x08;
    match number & 0xff {
        0 => State::Ready,
        bits if bits & ENDED != 0 => State::Ended,
        bits if bits & STOPPED != 0 => State::Stopped,
        _ => State::Waiting,
    }
}
