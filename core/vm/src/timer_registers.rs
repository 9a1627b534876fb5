//! A guest's accesses to the registers of the generic timer.

use crate::{EmulatedTimer, Guest, GuestTimer, Machine, TimerRegister};
use hanok_vgic::GuestInterface;

impl<M: Machine, L: GuestInterface> Guest<'_, M, L> {
    /// The value of a register of the generic timer. The hypervisor's timer may have to be set again
    /// afterwards (`Vcpu::rearm`).
    pub fn read_timer(&mut self, register: TimerRegister) -> u64 {
        let now = self.machine.counter();
        match register {
            TimerRegister::Frequency => self.machine.counter_frequency(),
            TimerRegister::Count => now,
            TimerRegister::Control(timer) => {
                // A guest that reads that its timer is due must also find the line high, even
                // before the hypervisor's own timer has interrupted.
                if self.vcpu.timers.of(timer).deadline().has_come(now) {
                    self.change_timer(timer, |_| ());
                }
                self.vcpu.timers.of(timer).control(now)
            }
            TimerRegister::CompareValue(timer) => self.vcpu.timers.of(timer).compare(),
            TimerRegister::TimerValue(timer) => self.vcpu.timers.of(timer).value(now),
        }
    }

    /// Sets a register of the generic timer; a write of a counter or of its frequency has no effect. The
    /// hypervisor's timer has to be set again afterwards (`Vcpu::rearm`).
    pub fn write_timer(&mut self, register: TimerRegister, value: u64) {
        let now = self.machine.counter();
        match register {
            TimerRegister::Frequency | TimerRegister::Count => {}
            TimerRegister::Control(timer) => self.change_timer(timer, |it| it.set_control(value)),
            TimerRegister::CompareValue(timer) => {
                self.change_timer(timer, |it| it.set_compare(value))
            }
            TimerRegister::TimerValue(timer) => {
                self.change_timer(timer, |it| it.set_value(now, value));
            }
        }
    }

    fn change_timer(&mut self, timer: GuestTimer, change: impl FnOnce(&mut EmulatedTimer)) {
        let (vm, machine) = (self.vm, self.machine);
        let set = vm.change_timer(machine, self.vcpu, timer, change);
        self.attend(set);
        self.vcpu.rearm = true;
    }
}
