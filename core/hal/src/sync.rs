//! Atomics and the lock of the core. All of the core takes them from here, so that a model checker
//! can put its own in their place, and try what orders there are (feature `interleavings`).

#[cfg(not(feature = "interleavings"))]
pub use core::sync::atomic;
#[cfg(feature = "interleavings")]
pub use shuttle::sync::atomic;

/// The lock of the core: a spin lock, held for a bounded number of instructions. Not a fair
/// one: handing over in turn waits for a pCPU that may not be running just then (an
/// emulator's thread), and a queue of such waits let guests stand nearly still. Every VM has
/// locks of its own, so that who waits long waits for its own siblings.
///
/// The hypervisor runs with interrupts masked, so a lock cannot be taken twice by one CPU
/// through an interrupt. Lock order, from the outermost: the end of a VM; the board's rx lock; one
/// of a VM's devices; then the VM's alarms, the board's console, or the VM's interrupt controller,
/// never one of these three inside another. All others (VMIDs, random numbers, a VM's stop reason,
/// a VM's address space, the frames' owners) hold nothing else while they are held.
#[cfg(not(feature = "interleavings"))]
pub type Mutex<T> = spin::mutex::SpinMutex<T>;

/// The lock of the core, as the model checker has it.
#[cfg(feature = "interleavings")]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

#[cfg(feature = "interleavings")]
impl<T> Mutex<T> {
    /// Holds `value`.
    pub const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    /// Waits for the lock, and takes it.
    pub fn lock(&self) -> shuttle::sync::MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }
}

#[cfg(feature = "interleavings")]
impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

#[cfg(feature = "interleavings")]
impl<T> core::fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Mutex")
    }
}
