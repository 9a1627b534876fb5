//! The short way into a list register.
//!
//! What `delivery.rs` does for any number of interrupts, done for the frequent case alone: a
//! single private interrupt without a level or a physical interrupt behind it, in practice
//! an SGI, has become pending, and nothing else has changed. Its outcome is the same.

use crate::lr::LrState;
use crate::state::{Cpu, MAX_LRS, Vgic};
use hanok_hal::ListRegisters;

impl Vgic {
    /// Shows the one interrupt that is new; `None`, and nothing is changed, where there is
    /// more to do than that.
    #[inline]
    pub(crate) fn show_latched(&mut self, cpu: usize, lrs: &mut impl ListRegisters) -> Option<()> {
        let groups = self.groups;
        let cpu = self.cpus.get_mut(cpu)?;
        if cpu.discard || cpu.refold || cpu.overflow || cpu.words != 1 {
            return None;
        }
        let bank = &cpu.private;
        let new = bank.latch;
        let levels = bank.line & !bank.edge | bank.hardware;
        if !new.is_power_of_two() || levels != 0 || bank.delivered(groups) & new == 0 {
            return None;
        }
        if bank.stranded() != 0 {
            return None;
        }
        let all = (1u32 << lrs.count().min(MAX_LRS)) - 1;
        let slot = cpu.slot_for(new, lrs.empty() & all)?;
        let lr = cpu.relist(new, slot)?;
        lrs.write(slot, lr);
        cpu.used |= 1 << slot;
        cpu.words = 0;
        cpu.attention = false;
        Some(())
    }
}

impl Cpu {
    /// The list register for the interrupt of bit `new`: the one where it stood before and
    /// has ended, or else a free one, both among the `empty` ones.
    #[inline]
    fn slot_for(&self, new: u32, empty: u32) -> Option<usize> {
        let id = new.trailing_zeros();
        let slot = if self.private.listed & new != 0 {
            let mut used = self.used;
            loop {
                let slot = used.trailing_zeros();
                used &= used.checked_sub(1)?;
                if self.lr.get(slot as usize)?.virtual_id() == id {
                    break slot;
                }
            }
        } else {
            (empty & !self.used).trailing_zeros()
        };
        (empty >> slot.min(31) & 1 != 0).then_some(slot as usize)
    }

    /// The value of list register `slot`, in which the interrupt of bit `new` stood and has
    /// ended, or nothing stood; and the bookkeeping of it.
    #[inline]
    fn relist(&mut self, new: u32, slot: usize) -> Option<u64> {
        let id = new.trailing_zeros();
        let bank = &mut self.private;
        let shadow = self.lr.get_mut(slot)?;
        // What stood there has ended.
        let again = bank.listed & new != 0;
        bank.active &= !new;
        bank.forced &= !new;
        if again && bank.sourced & new == 0 {
            // Had its priority, group or enable changed since, `refold` would be set; so all
            // but the state still holds.
            *shadow = shadow.with_state(LrState::Pending);
            bank.latch &= !new;
            bank.shown |= new;
            bank.soft |= new;
            return Some(shadow.into_bits());
        }
        bank.shown &= !new;
        bank.soft &= !new;
        let lr = if bank.sourced & new != 0 {
            self.show_sgi(id, true, false)
        } else {
            bank.show(id, true, true, false)
        };
        let lr = lr.with_virtual_id(id);
        *self.lr.get_mut(slot)? = lr;
        Some(lr.into_bits())
    }
}
