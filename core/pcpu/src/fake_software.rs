//! The list registers of a fake CPU without a virtual CPU interface: they belong to an interface in software.

use hanok_hal::{ListRegisters, VirtualCpuInterface};
use hanok_types::GicVersion;
use hanok_vgic::{GuestInterface, SoftwareInterface, SoftwareInterfaceState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The list registers of one CPU.
#[derive(Clone, Debug)]
pub struct SoftwareLists(Arc<Mutex<SoftwareInterface>>);

impl SoftwareLists {
    /// Those of a CPU in which no vCPU is.
    pub fn new(version: GicVersion) -> Self {
        Self(Arc::new(Mutex::new(SoftwareInterface::new(version))))
    }

    /// The interface.
    pub fn get(&self) -> MutexGuard<'_, SoftwareInterface> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ListRegisters for SoftwareLists {
    fn count(&self) -> usize {
        self.get().count()
    }

    fn read(&self, index: usize) -> u64 {
        ListRegisters::read(&*self.get(), index)
    }

    fn write(&mut self, index: usize, value: u64) {
        ListRegisters::write(&mut *self.get(), index, value);
    }

    fn empty(&self) -> u32 {
        self.get().empty()
    }

    fn set_none_pending_interrupt(&mut self, on: bool) {
        self.get().set_none_pending_interrupt(on);
    }

    fn report_ends(&mut self, on: bool) {
        self.get().report_ends(on);
    }
}

impl VirtualCpuInterface for SoftwareLists {
    type State = SoftwareInterfaceState;

    fn enter(&mut self, state: &SoftwareInterfaceState) {
        self.get().load(state);
    }

    fn leave(&mut self, state: &mut SoftwareInterfaceState) {
        self.get().save(state);
    }

    fn stop(&mut self) {
        self.get().stop();
    }
}

impl GuestInterface for SoftwareLists {
    fn software<R>(&mut self, act: impl FnOnce(&mut SoftwareInterface) -> R) -> Option<R> {
        Some(act(&mut self.get()))
    }
}
