//! The part of each vCPU's events that is always kept.

use crate::{Counters, Event, ExitLog};

/// The two readers that every vCPU has.
#[derive(Debug)]
pub struct VcpuLog {
    /// Its exits by cause, which every pCPU may read.
    pub counters: &'static Counters,
    /// Its latest synchronous exits since it was started.
    pub exits: ExitLog,
}

impl VcpuLog {
    /// A log with these counters and no exits.
    pub const fn new(counters: &'static Counters) -> Self {
        Self {
            counters,
            exits: ExitLog::new(),
        }
    }

    /// Reads an event of the vCPU. To be called only on the vCPU's own pCPU.
    #[inline(always)]
    pub fn read(&mut self, event: Event) {
        match event {
            Event::Exit { syndrome, pc } => self.exits.add(syndrome, pc),
            Event::Handled(cause) => self.counters.count(cause),
            Event::Spent {
                cause,
                instructions,
            } => self.counters.charge(cause, instructions.into()),
            Event::Start => self.exits = ExitLog::new(),
            Event::Interrupt(_)
            | Event::SwitchIn
            | Event::SwitchOut
            | Event::Wake
            | Event::Block
            | Event::Stop
            | Event::Decision { .. }
            | Event::Idle
            | Event::Spends => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cause;
    use std::boxed::Box;

    #[test]
    fn counters_outlive_a_start_and_the_exit_log_does_not() {
        let mut log = VcpuLog::new(Box::leak(Box::default()));
        let cause = Cause::Device;
        for instructions in [Some(7), None, Some(5)] {
            log.read(Event::Exit { syndrome: 1, pc: 4 });
            log.read(Event::Handled(cause));
            if let Some(instructions) = instructions {
                log.read(Event::Spent {
                    cause,
                    instructions,
                });
            }
        }
        assert_eq!(log.exits.latest().count(), 3);
        log.read(Event::Start);
        assert_eq!(log.exits.latest().count(), 0);
        assert_eq!(log.counters.exits(cause), 3);
        assert_eq!(log.counters.instructions(cause), 12);
    }
}
