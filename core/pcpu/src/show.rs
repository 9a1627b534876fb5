//! Prints a vCPU's state on the console.

use crate::{Board, Host, Local, Vcpu};
use core::fmt::Arguments;
use hanok_hal::{Backend, Context};
use hanok_vm::Pending;

impl<B: Host> Vcpu<B> {
    /// Prints the registers, the latest exits and the pending interrupts of the vCPU, on its own pCPU.
    pub(crate) fn dump(&mut self, local: &Local<B>) {
        let board = local.board;
        let (name, id) = (&self.unit.vm.config().name, self.core.id);
        if !self.on {
            return board.say(format_args!("{name} vCPU {id}: off"));
        }
        let resident = local.resident == Some(self.entity);
        if resident {
            self.context.copy_from_cpu(&board.machine);
        }
        let state = match (self.waiting, resident) {
            (true, _) => "waits for an interrupt",
            (false, true) => "has the pCPU",
            (false, false) => "waits for its turn",
        };
        board.say(format_args!(
            "{name} vCPU {id} on pCPU {}: {state}",
            local.id
        ));
        // Several pCPUs may print at a time, so each line names the vCPU that it is about.
        let say = |text: Arguments<'_>| board.say(format_args!("{name}.{id} {text}"));
        self.context.describe(say);
        self.describe_exits(say);
        self.describe_interrupts(say);
        self.say_if_storm_by(board);
    }

    /// Prints it if the vCPU is in an exception storm. It must be called on the vCPU's own pCPU.
    #[cold]
    #[inline(never)]
    pub(crate) fn say_if_storm(&mut self, local: &Local<B>) {
        let board = local.board;
        if local.resident == Some(self.entity) {
            self.context.copy_from_cpu(&board.machine);
        }
        self.say_if_storm_by(board);
    }

    /// [`Self::say_if_storm`], after the registers were copied from the CPU.
    fn say_if_storm_by(&self, board: &Board<B>) {
        if self.on
            && let Some(vector) = self.context.storm_vector()
        {
            let (name, id) = (&self.unit.vm.config().name, self.core.id);
            board.say(format_args!(
                "{name}.{id} takes exception after exception at its vector {vector:#x}, where no \
                 code is"
            ));
        }
    }

    fn describe_exits(&self, say: impl Fn(Arguments<'_>)) {
        let (digits, syndrome) = (<B as Backend>::Context::DIGITS, B::Context::SYNDROME);
        for exit in self.log.exits.latest() {
            let class = exit.syndrome >> 26 & 0x3f;
            say(format_args!(
                "exit at {:0digits$x}: class {class:#04x} {syndrome} {:08x}",
                exit.pc, exit.syndrome
            ));
        }
    }

    fn describe_interrupts(&self, say: impl Fn(Arguments<'_>)) {
        let pending: Pending = self.unit.vm.pending_interrupts(self.core.id);
        if pending.is_empty() {
            say(format_args!("no interrupt is pending or active"));
        }
        for one in &pending {
            let word = |on, word| if on { word } else { "" };
            say(format_args!(
                "interrupt {}:{}{}{}{}",
                one.id,
                word(one.pending, " pending"),
                word(one.active, " active"),
                word(one.line, " line high"),
                word(!one.enabled, " disabled"),
            ));
        }
    }
}
