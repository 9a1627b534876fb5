//! Executes the commands of the console's prompt.

use crate::{Board, Host, VmUnit};
use hanok_hal::VmMemory;
use hanok_types::{VcpuSet, VmId};
use hanok_vm::{Command, Ending, Interrupts, PauseChange, Requests, Wish};

impl<B: Host> Board<B> {
    /// Executes a command. A vCPU's own pCPU prints its state, some time after this function has returned.
    pub(crate) fn carry_out(&'static self, command: Command) {
        match command {
            Command::List => self.vms.iter().for_each(|unit| self.list(unit)),
            Command::Stats(Some(vm)) => self.with(vm, |unit| self.stats(unit)),
            Command::Stats(None) => self.vms.iter().for_each(|unit| self.stats(unit)),
            Command::Pause(vm) => self.with(vm, |unit| self.pause(unit, true)),
            Command::Resume(vm) => self.with(vm, |unit| self.pause(unit, false)),
            Command::Restart(vm) => self.with(vm, |unit| self.restart(unit)),
            Command::Stop(vm) => self.with(vm, |unit| self.stop(unit)),
            Command::Dump(vm) => self.with(vm, |unit| self.dump(unit)),
            Command::Quit => self.quit(),
        }
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

    fn stats(&self, unit: &VmUnit<B>) {
        let name = &unit.vm.config().name;
        unit.vm.each_count(|vcpu, cause, exits, instructions| {
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
        });
        let (holes, unknown) = unit.vm.unhandled_accesses();
        self.say(format_args!(
            "{name}: {holes} accesses to nothing, {unknown} to unknown registers of the interrupt \
             controller"
        ));
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
