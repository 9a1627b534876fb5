//! The CPU interfaces in software, one for each pCPU, where the board's GIC or its CPUs have no virtual one.
//!
//! They are memory, so that a vCPU's interrupts come and go as on a board with list registers, by the same
//! code of the core; the guest's accesses to its CPU interface are exits.

use crate::cpu;
use core::cell::UnsafeCell;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicBool, Ordering};
use hanok_hal::ListRegisters;
use hanok_types::{GicVersion, MAX_CPUS};
use hanok_vgic::{GuestInterface, InterruptInput, SoftwareInterface, SoftwareInterfaceState};

/// The interfaces of all pCPUs.
#[derive(Debug)]
pub struct SoftwareInterfaces {
    interfaces: [UnsafeCell<SoftwareInterface>; MAX_CPUS],
    /// Whether the CPU has kicked itself, on a board that has one CPU and no interrupt for that.
    kicked: AtomicBool,
}

// SAFETY: each pCPU reaches its own alone (`SoftwareInterfaces::here`).
unsafe impl Sync for SoftwareInterfaces {}

impl SoftwareInterfaces {
    /// Interfaces that are in the state after a reset.
    pub fn new() -> Self {
        Self {
            interfaces: [const { UnsafeCell::new(SoftwareInterface::new(GicVersion::V2)) };
                MAX_CPUS],
            kicked: AtomicBool::new(false),
        }
    }

    /// This pCPU's interface.
    pub(crate) fn here(&'static self) -> SoftwareLists {
        let own = &self.interfaces[cpu::own_id().index() % MAX_CPUS];
        SoftwareLists(NonNull::from(own).cast())
    }

    /// Notes that the CPU, the only one, has kicked itself. There is nothing to interrupt, as it executes the
    /// hypervisor: it looks for the note before it enters a guest, and before it sleeps. Rejected: a timer of one
    /// tick, whose interrupt comes when the guest has executed some instructions more. What is left to an exit of
    /// its own has to be done before these.
    pub(crate) fn kick(&self) {
        self.kicked.store(true, Ordering::Relaxed);
    }

    /// Whether such a kick was not acknowledged yet.
    pub(crate) fn is_kicked(&self) -> bool {
        self.kicked.load(Ordering::Relaxed)
    }

    /// Acknowledges the kick. Returns whether there was one.
    pub(crate) fn take_kick(&self) -> bool {
        let kicked = self.is_kicked();
        if kicked {
            self.kicked.store(false, Ordering::Relaxed);
        }
        kicked
    }
}

impl Default for SoftwareInterfaces {
    fn default() -> Self {
        Self::new()
    }
}

/// The interface of the pCPU that holds this value. It is used like registers: several values may exist, and
/// none refers to the interface between two of its calls.
#[derive(Clone, Copy, Debug)]
pub struct SoftwareLists(NonNull<SoftwareInterface>);

impl SoftwareLists {
    /// What a guest's access to its CPU interface acts on.
    ///
    /// # Safety
    /// No other reference to this pCPU's interface is in use while the result is.
    pub unsafe fn interface<'a>(mut self) -> &'a mut SoftwareInterface {
        // SAFETY: it lives for ever and is this pCPU's; and by this function's contract.
        unsafe { self.0.as_mut() }
    }

    fn with<R>(self, act: impl FnOnce(&mut SoftwareInterface) -> R) -> R {
        // SAFETY: `act` is one call of the interface's own, which knows no other way to it.
        act(unsafe { self.interface() })
    }

    /// Resets the interface.
    pub(crate) fn reset(self) {
        self.with(|interface| *interface = SoftwareInterface::new(GicVersion::V2));
    }

    /// Loads a vCPU's state, and lets the interface signal interrupts.
    pub(crate) fn load(self, state: &SoftwareInterfaceState) {
        self.with(|interface| interface.load(state));
    }

    /// Saves the vCPU's state from the interface, which does not signal interrupts any more.
    pub(crate) fn save(self, state: &mut SoftwareInterfaceState) {
        self.with(|interface| interface.save(state));
    }

    /// Stops the interface from signalling interrupts.
    pub(crate) fn stop(self) {
        self.with(SoftwareInterface::stop);
    }

    /// The input of the CPU at which the interface signals an interrupt.
    pub fn input(self) -> Option<InterruptInput> {
        self.with(|interface| interface.input())
    }
}

impl GuestInterface for SoftwareLists {
    fn software<R>(&mut self, act: impl FnOnce(&mut SoftwareInterface) -> R) -> Option<R> {
        Some(self.with(act))
    }
}

impl ListRegisters for SoftwareLists {
    fn count(&self) -> usize {
        self.with(|interface| interface.count())
    }

    fn read(&self, index: usize) -> u64 {
        self.with(|interface| ListRegisters::read(interface, index))
    }

    fn write(&mut self, index: usize, value: u64) {
        self.with(|interface| ListRegisters::write(interface, index, value));
    }

    fn empty(&self) -> u32 {
        self.with(|interface| interface.empty())
    }

    fn set_none_pending_interrupt(&mut self, on: bool) {
        self.with(|interface| interface.set_none_pending_interrupt(on));
    }

    fn report_ends(&mut self, on: bool) {
        self.with(|interface| interface.report_ends(on));
    }
}
