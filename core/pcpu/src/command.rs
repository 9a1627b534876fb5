//! Executes the commands of the console's prompt.
//!
//! A command that says a line about each VM, or several, is a [`Walk`]: one line is said in each exit for the
//! serial port's interrupt, as there may be 64 VMs of 64 vCPUs.

use crate::{Board, Host, VmUnit};
use hanok_hal::VmMemory;
use hanok_types::{VcpuSet, VmId};
use hanok_vm::{Command, Counted, Ending, Interrupts, PauseChange, Requests, Wish};

/// What is left to be said of a command about several VMs.
#[derive(Clone, Copy, Debug)]
pub struct Walk {
    said: Said,
    /// The next VM, by its place in the description.
    vm: usize,
    /// The place after the last VM.
    end: usize,
    /// How many of the VM's counts were looked at.
    counts: usize,
}

/// What a walk says about each VM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Said {
    /// A line of the list.
    Entry,
    /// The counters, a line each.
    Counts,
}

impl Walk {
    fn new(said: Said, vm: usize, end: usize) -> Self {
        Self {
            said,
            vm,
            end,
            counts: 0,
        }
    }

    fn next_vm(self) -> Self {
        Self::new(self.said, self.vm + 1, self.end)
    }
}

impl<B: Host> Board<B> {
    /// Executes a command. What it returns is left to be done by [`Self::walk`]. A vCPU's own pCPU prints its
    /// state, some time after this function has returned.
    pub(crate) fn carry_out(&'static self, command: Command) -> Option<Walk> {
        match command {
            Command::List => return Some(Walk::new(Said::Entry, 0, self.vms.len())),
            Command::Stats(Some(vm)) => {
                return Some(Walk::new(Said::Counts, vm.index(), vm.index() + 1));
            }
            Command::Stats(None) => return Some(Walk::new(Said::Counts, 0, self.vms.len())),
            Command::Pause(vm) => self.with(vm, |unit| self.pause(unit, true)),
            Command::Resume(vm) => self.with(vm, |unit| self.pause(unit, false)),
            Command::Restart(vm) => self.with(vm, |unit| self.restart(unit)),
            Command::Stop(vm) => self.with(vm, |unit| self.stop(unit)),
            Command::Dump(vm) => self.with(vm, |unit| self.dump(unit)),
            Command::Quit => self.quit(),
        }
        None
    }

    /// Says one line of a walk; returns what is left of it.
    pub(crate) fn walk(&self, walk: Walk) -> Option<Walk> {
        let unit = self.vms.get(walk.vm)?;
        let next = match walk.said {
            Said::Entry => {
                self.list(unit);
                walk.next_vm()
            }
            Said::Counts => self.stats(unit, walk),
        };
        (next.vm < next.end).then_some(next)
    }

    fn with(&'static self, vm: VmId, act: impl FnOnce(&'static VmUnit<B>)) {
        if let Some(unit) = self.vms.get(vm.index()) {
            act(unit);
        }
    }

    fn list(&self, unit: &VmUnit<B>) {
        let mib = unit.ram.ipa().len() >> 20;
        self.say(format_args!("{}", unit.vm.listed(mib)));
        self.ask(unit, Requests::ask_look);
    }

    /// Says the VM's next count that is not zero, or the line after all of them.
    fn stats(&self, unit: &VmUnit<B>, walk: Walk) -> Walk {
        let name = &unit.vm.config().name;
        let Some((counts, counted)) = unit.vm.next_count(walk.counts) else {
            let (holes, unknown) = unit.vm.unhandled_accesses();
            self.say(format_args!(
                "{name}: {holes} accesses to nothing, {unknown} to unknown registers of the interrupt \
                 controller"
            ));
            return walk.next_vm();
        };
        let Counted {
            vcpu,
            cause,
            exits,
            instructions,
        } = counted;
        let cause = cause.word();
        if self.counts_instructions {
            let each = instructions / exits.max(1);
            self.say(format_args!(
                "{name} vCPU {vcpu}: {cause:<10} {exits:>10} exits {instructions:>12} \
                 instructions {each:>7} each"
            ));
        } else {
            self.say(format_args!(
                "{name} vCPU {vcpu}: {cause:<10} {exits:>10} exits"
            ));
        }
        Walk { counts, ..walk }
    }

    fn pause(&self, unit: &VmUnit<B>, paused: bool) {
        let name = &unit.vm.config().name;
        let word = if paused { "paused" } else { "resumed" };
        if unit.vm.lifecycle().is_ended() {
            return self.say(format_args!("vm {name} is off"));
        }
        match unit.vm.set_paused(self, paused) {
            PauseChange::Changed => self.say(format_args!("vm {name}: {word}")),
            PauseChange::AsBefore if paused => {
                self.say(format_args!("vm {name} is paused already"));
            }
            PauseChange::AsBefore => self.say(format_args!("vm {name} is not paused")),
        }
    }

    fn restart(&self, unit: &VmUnit<B>) {
        match unit.vm.restart(self) {
            Wish::Deserted => self.say(format_args!("vm {}: begins", unit.vm.config().name)),
            Wish::Taken => {}
            Wish::Refused => self.tell_already(unit),
        }
    }

    fn stop(&'static self, unit: &'static VmUnit<B>) {
        match unit.vm.stop(self) {
            Wish::Deserted => self.carry_out_ending(unit, Ending::Off),
            Wish::Taken => {}
            Wish::Refused => self.tell_already(unit),
        }
    }

    /// Prints that a command changed nothing, because the VM is loading, ending, off or stopped.
    fn tell_already(&self, unit: &VmUnit<B>) {
        let vm = &unit.vm;
        self.say(format_args!(
            "vm {} is {} already",
            vm.config().name,
            vm.state()
        ));
    }

    /// Asks each vCPU's own pCPU to print its dump.
    fn dump(&self, unit: &VmUnit<B>) {
        let vm = &unit.vm;
        self.say(format_args!("{}: {}", vm.config().name, vm.state()));
        self.ask(unit, Requests::ask_dump);
    }

    /// Makes a request to each vCPU's own pCPU.
    #[inline(never)]
    fn ask(&self, unit: &VmUnit<B>, something: fn(&Requests)) {
        let vm = &unit.vm;
        for vcpu in VcpuSet::first(vm.vcpus()).iter() {
            something(vm.requests(vcpu));
            if let Some(home) = vm.home_of(vcpu) {
                self.kick(home);
            }
        }
    }

    fn quit(&self) {
        self.say(format_args!("end: off"));
        self.power_off();
    }
}
