//! The report about a VM that the prompt shows.

use crate::{Cause, Vm};
use core::fmt::{self, Write};
use hanok_types::{CpuId, VcpuId, VcpuSet};
use hanok_vgic::Snapshot;
use heapless::{String, Vec};

/// The interrupts of one vCPU that are not idle, as many as are shown.
pub type Pending = Vec<Snapshot, 32>;

/// How often a vCPU exited for a cause.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// The vCPU.
    pub vcpu: VcpuId,
    /// The cause.
    pub cause: Cause,
    /// The number of exits.
    pub exits: u64,
    /// The number of instructions that the hypervisor executed for them.
    pub instructions: u64,
}

/// The state of a VM, in a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It waits until a command begins its first boot.
    Waiting,
    /// Its memory is being loaded.
    Loading,
    /// It runs.
    Running,
    /// A command has paused it.
    Paused,
    /// Its vCPUs are leaving it.
    Ending,
    /// It is off, because the guest or a command turned it off.
    Off,
    /// It was stopped because of a fault.
    Stopped,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Waiting => "waiting",
            Self::Loading => "loading",
            Self::Running => "running",
            Self::Paused => "paused",
            Self::Ending => "ending",
            Self::Off => "off",
            Self::Stopped => "stopped",
        })
    }
}

/// The pCPUs of a VM's vCPUs, in the order of the vCPUs. Three or more consecutive numbers are
/// shown as `0-3`.
#[derive(Clone, Copy, Debug)]
struct Places<'a>(&'a [CpuId]);

impl fmt::Display for Places<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0;
        let mut comma = "";
        while let Some((first, behind)) = rest.split_first() {
            let following = (1..).zip(behind);
            let run = following
                .take_while(|(step, cpu)| cpu.index() == first.index() + step)
                .last();
            rest = match run {
                Some((steps, last)) if steps > 1 => {
                    write!(f, "{comma}{first}-{last}")?;
                    behind.get(steps..).unwrap_or_default()
                }
                _ => {
                    write!(f, "{comma}{first}")?;
                    behind
                }
            };
            comma = ",";
        }
        Ok(())
    }
}

/// The columns for a VM's name in the list; a longer name has a line of its own.
const NAME: usize = 16;
/// The columns that are left of 80 after `[hanok] ` with a mark before it, the name and the state.
const REST: usize = 80 - 9 - (NAME + 1) - (7 + 1);

/// A VM in the list of all VMs: one line of 80 columns, or two lines if that is too short.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    vm: &'a str,
    state: State,
    on: u32,
    cpus: &'a [CpuId],
    /// The size of its memory.
    mib: u64,
    boot: u32,
}

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest: String<112> = String::new();
        // The text is always shorter than the buffer.
        let _ = write!(
            rest,
            "{} of {} vCPUs on, pCPUs {}, {} MiB, boot {}",
            self.on,
            self.cpus.len(),
            Places(self.cpus),
            self.mib,
            self.boot,
        );
        let (name, state) = (self.vm, self.state);
        if name.len() > NAME || rest.len() > REST {
            write!(f, "{name} {state}\n  {rest}")
        } else {
            write!(f, "{name:<NAME$} {state:<7} {rest}")
        }
    }
}

impl Vm {
    /// The VM's current state.
    pub fn state(&self) -> State {
        let lifecycle = self.lifecycle();
        match () {
            () if lifecycle.is_loading() => State::Loading,
            () if lifecycle.is_running() && self.is_paused() => State::Paused,
            () if lifecycle.is_running() => State::Running,
            () if !lifecycle.is_ended() => State::Ending,
            () if self.stop_reason().is_some() => State::Stopped,
            () if lifecycle.number() == 0 => State::Waiting,
            () => State::Off,
        }
    }

    /// The VM's entry in the list of all VMs; it has `mib` MiB of memory.
    pub fn listed(&self, mib: u64) -> Listed<'_> {
        let powered = |vcpu: &VcpuId| self.power(*vcpu).is_on();
        // If the VM has ended, its vCPUs keep their states until the next boot.
        let on = if self.lifecycle().is_ended() {
            0
        } else {
            VcpuSet::first(self.vcpus()).iter().filter(powered).count()
        };
        Listed {
            vm: &self.config().name,
            state: self.state(),
            on: on as u32,
            cpus: &self.config().cpus,
            mib,
            boot: self.lifecycle().number(),
        }
    }

    /// The first count that is not zero after `passed` of them, and how many have been passed with it. A VM has
    /// [`Cause::COUNT`] counts for each vCPU. Those of a vCPU that never ran are passed at once: one exit looks for
    /// the next count, and there may be 64 such vCPUs.
    pub fn next_count(&self, passed: usize) -> Option<(usize, Counted)> {
        let mut at = passed;
        while at < self.vcpus() * Cause::COUNT {
            let vcpu = VcpuId::new((at / Cause::COUNT) as u8);
            if !self.account(vcpu).has_run() {
                at = at - at % Cause::COUNT + Cause::COUNT;
                continue;
            }
            let cause = *Cause::ALL.get(at % Cause::COUNT)?;
            at += 1;
            let counters = self.counters(vcpu);
            let exits = counters.exits(cause);
            if exits > 0 {
                let instructions = counters.instructions(cause);
                let counted = Counted {
                    vcpu,
                    cause,
                    exits,
                    instructions,
                };
                return Some((at, counted));
            }
        }
        None
    }

    /// The interrupts of a vCPU that are not idle, as of their last fold. If there are more than
    /// fit, those with the lowest ids.
    pub fn pending_interrupts(&self, vcpu: VcpuId) -> Pending {
        let mut gic = self.gic.lock();
        self.deliver_posted_sgis(&mut gic, vcpu);
        gic.snapshot()
            .filter(|one| one.vcpu == Some(vcpu))
            .take(Pending::new().capacity())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    fn cpus(all: &[u8]) -> Vec<CpuId> {
        all.iter().map(|cpu| CpuId::new(*cpu)).collect()
    }

    #[test]
    fn a_state_is_a_word_of_its_width() {
        for (state, word) in [
            (State::Waiting, "waiting"),
            (State::Loading, "loading"),
            (State::Running, "running"),
            (State::Paused, "paused "),
            (State::Ending, "ending "),
            (State::Off, "off    "),
            (State::Stopped, "stopped"),
        ] {
            assert_eq!(std::format!("{state:<7}"), word);
        }
    }

    #[test]
    fn pcpus_that_follow_each_other_are_a_range() {
        for (all, text) in [
            (&[0][..], "0"),
            (&[0, 1], "0,1"),
            (&[0, 1, 1], "0,1,1"),
            (&[0, 1, 2, 3], "0-3"),
            (&[3, 0, 1, 2, 7, 6], "3,0-2,7,6"),
            (&[0, 1, 2, 2, 3, 4], "0-2,2-4"),
            (&[], ""),
        ] {
            assert_eq!(Places(&cpus(all)).to_string(), text);
        }
    }

    /// Each line fits into 80 columns after the mark that the tool puts before it, whatever it
    /// says.
    #[test]
    fn a_line_of_the_list_fits_a_terminal() {
        let states = [
            State::Waiting,
            State::Loading,
            State::Running,
            State::Paused,
            State::Ending,
            State::Off,
            State::Stopped,
        ];
        let lists = [
            cpus(&[3]),
            cpus(&[0, 1, 2]),
            cpus(&[0, 1, 2, 3, 4, 5, 6, 7]),
            cpus(&[7, 6, 5, 4, 3, 2, 1, 0]),
        ];
        for state in states {
            for vm in [
                "a",
                "linux",
                "sixteen-letters-",
                "a-name-of-thirty-one-characters",
            ] {
                for cpus in &lists {
                    for (mib, boot) in [(64, 1), (512, 1), (65_536, 9_999), (1 << 20, u32::MAX)] {
                        let on = cpus.len() as u32;
                        let line = Listed {
                            vm,
                            state,
                            on,
                            cpus,
                            mib,
                            boot,
                        }
                        .to_string();
                        assert!(line.lines().all(|line| 9 + line.len() <= 80), "{line}");
                    }
                }
            }
        }
        // The entry has one line exactly if that fits.
        let mut counts = std::vec![];
        for digits in 1..=18 {
            let mib = 10_u64.pow(digits - 1);
            let (vm, state, on, boot) = ("sixteen-letters-", State::Running, 1, 1);
            let cpus = &lists[0];
            let line = Listed {
                vm,
                state,
                on,
                cpus,
                mib,
                boot,
            };
            let one = std::format!(
                "sixteen-letters- running 1 of 1 vCPUs on, pCPUs 3, {mib} MiB, boot 1"
            );
            counts.push(9 + one.len());
            let wanted = if 9 + one.len() <= 80 {
                one
            } else {
                one.replacen(" 1 of", "\n  1 of", 1)
            };
            assert_eq!(line.to_string(), wanted);
        }
        assert!(counts.contains(&80) && counts.contains(&81), "{counts:?}");
        // Usual entries have one line.
        let [_, three, eight, _] = &lists;
        for (cpus, vm) in [(three, "linux"), (eight, "sixteen-letters-")] {
            let (state, mib, boot) = (State::Running, 4096, 1);
            let on = cpus.len() as u32;
            let line = Listed {
                vm,
                state,
                on,
                cpus,
                mib,
                boot,
            }
            .to_string();
            assert_eq!(line.lines().count(), 1, "{line}");
        }
    }
}
