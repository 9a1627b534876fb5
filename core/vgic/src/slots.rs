//! What the list registers hold, as last written or read.

use crate::bank::bits;
use crate::lr::Lr;
use crate::state::Vgic;
use hanok_hal::ListRegisters;

impl Vgic {
    /// Notes what a list register holds from now on.
    pub(crate) fn keep(&mut self, cpu: usize, slot: usize, lr: Lr) {
        let Some(state) = self.cpu_mut(cpu) else {
            return;
        };
        if let Some(shadow) = state.lr.get_mut(slot) {
            *shadow = lr;
            state.used |= 1 << slot;
            if lr.hardware() {
                state.hardware_slot = slot as u8;
            }
        }
    }

    /// What a list register held when last written or read.
    pub(crate) fn shadow(&self, cpu: usize, slot: usize) -> Lr {
        let lr = self.cpu(cpu).and_then(|cpu| cpu.lr.get(slot));
        lr.copied().unwrap_or_default()
    }

    /// Empties a list register in which nothing is listed any more.
    pub(crate) fn empty(&mut self, cpu: usize, slot: usize, lrs: &mut impl ListRegisters) {
        let before = self.shadow(cpu, slot);
        write_changed(lrs, slot, before, Lr::new());
        if let Some(shadow) = self.cpu_mut(cpu).and_then(|cpu| cpu.lr.get_mut(slot)) {
            *shadow = Lr::new();
        }
    }

    /// The free slot in which the interrupt stood before, or the first free one.
    pub(crate) fn slot_for(&self, cpu: usize, id: u32, free: u32) -> u32 {
        let stood = |slot: &u32| {
            let lr = self.shadow(cpu, *slot as usize);
            lr.is_valid() && lr.virtual_id() == id
        };
        bits(free).find(stood).unwrap_or(free.trailing_zeros())
    }

    /// Empties a list register that was unlisted, where it holds more than nothing.
    pub(crate) fn clear_leftover(
        &mut self,
        cpu: usize,
        slot: usize,
        read: Lr,
        lrs: &mut impl ListRegisters,
    ) {
        if read.is_valid() || read.eoi() {
            lrs.write(slot, 0);
        }
        if let Some(shadow) = self.cpu_mut(cpu).and_then(|cpu| cpu.lr.get_mut(slot)) {
            *shadow = Lr::new();
        }
    }
}

/// Writes a list register that held `before`, if its value is another one.
pub(crate) fn write_changed(lrs: &mut impl ListRegisters, slot: usize, before: Lr, lr: Lr) {
    if before != lr {
        lrs.write(slot, lr.into_bits());
    }
}
