//! How a ring on a channel reaches the VM that is rung.

use crate::{Board, Host};
use hanok_vm::{Bells, Doorbells};

impl<B: Host> Doorbells for Board<B> {
    /// Kept out of line: few exits ring.
    #[cold]
    #[inline(never)]
    fn ring(&self, bells: &Bells) {
        for (vm, slot, bits) in bells.each() {
            if let Some(unit) = self.vms.get(vm.index()) {
                unit.vm.rung(self, slot, bits);
            }
        }
    }
}

#[cfg(test)]
mod tests;
