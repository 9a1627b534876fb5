//! The fake board as a backend.

use crate::fake::FakeTableMemory;
use crate::fake_backend::{FakeBackend, FakeGic, FakeLists, PoweredOff, VIRTUAL_TIMER, lock};
use crate::fake_context::FakeContext;
use crate::fake_line::FakeLine;
use crate::fake_region::FakeRegion;
use crate::{Backend, Taken};
use hanok_types::{CpuId, Deadline, IntId, Ipa, Span};
use std::sync::atomic::Ordering;

impl<L: FakeLists> Backend for FakeBackend<L> {
    type Tables = FakeTableMemory;
    type Context = FakeContext<L>;
    type Lists = L;
    type Gic = FakeGic;
    type Memory = FakeRegion;
    type Line = FakeLine;

    fn counter(&self) -> u64 {
        self.now.fetch_add(1, Ordering::SeqCst)
    }

    fn counter_frequency(&self) -> u64 {
        1_000_000
    }

    fn set_timer(&self, due: Deadline) {
        self.here().timer = due.ticks();
    }

    fn stop_virtual_timer(&self) {
        self.here().virtual_timer = None;
    }

    fn kick(&self, cpu: CpuId) {
        self.raise(cpu.index(), 0);
        (self.settings.pause)();
    }

    fn pause(&self) {
        (self.settings.pause)();
    }

    fn acknowledge(&self) -> Option<Taken> {
        let now = self.time();
        let mut cpu = self.here();
        let next = cpu.next(now)?;
        cpu.taken += 1;
        cpu.pending.remove(&next);
        if next == VIRTUAL_TIMER {
            // The interrupt is active until the guest has handled it and set the timer again.
            cpu.virtual_timer = None;
        }
        Some(Taken::new(next))
    }

    fn drop_priority(&self, _taken: Taken) {}

    fn end(&self, taken: Taken) {
        if let Some((interrupt, wire)) = &self.serial
            && taken.id().get() == *interrupt
            && (!lock(&wire.typed).is_empty() || wire.called_when_writable.load(Ordering::SeqCst))
        {
            self.here().pending.insert(*interrupt);
        }
    }

    fn deactivate(&self, _interrupt: IntId) {}

    fn lists(&self) -> L {
        self.lists[self.this_cpu()].clone()
    }

    fn interrupt_is_pending(&self) -> bool {
        (self.settings.pause)();
        self.here().next(self.time()).is_some()
    }

    fn idle(&self) {
        loop {
            if self.is_off() {
                // Without the panic hook, which would report a panic.
                std::panic::resume_unwind(std::boxed::Box::new(PoweredOff));
            }
            {
                let mut cpu = self.here();
                cpu.asleep = cpu.next(self.time()).is_none();
                if !cpu.asleep {
                    return;
                }
            }
            self.advance(10);
            (self.settings.asleep)();
        }
    }

    fn enter_empty_space(&self) {
        self.here().space = 0;
    }

    fn invalidate_range(&self, space: u64, range: Span<Ipa>) {
        let stays = |of: &u64, at: &Ipa| *of != space || !range.contains(*at);
        for cpu in &self.cpus {
            lock(cpu).translations.retain(|(of, at), _| stays(of, at));
        }
    }

    fn invalidate_all_tlbs(&self) {}

    fn invalidate_instruction_caches(&self) {}

    /// It is as if only taking an interrupt needed one.
    fn instructions(&self) -> u32 {
        self.here().taken
    }

    fn trace_exits(&self, on: bool) {
        self.cpu(self.this_cpu()).traces_exits = on;
    }

    fn power_off(&self) {
        self.off.store(true, Ordering::SeqCst);
    }
}
