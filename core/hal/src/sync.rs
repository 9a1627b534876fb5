//! The atomics and the lock of the core. All of the core uses these, so that a model checker can
//! replace them by its own and try all possible orders (feature `interleavings`).

#[cfg(not(feature = "interleavings"))]
pub use core::sync::atomic;
#[cfg(feature = "interleavings")]
pub use shuttle::sync::atomic;

/// The lock of the core: a spin lock, held for a bounded number of instructions. It is not fair: a
/// fair lock waits for the next pCPU in the queue, which may not be running just then (an
/// emulator's thread), and a queue of such waits nearly stopped the guests. Every VM has locks of
/// its own, so that a vCPU waits long only for vCPUs of its own VM.
///
/// The hypervisor runs with interrupts masked, so that one CPU cannot take a lock twice through an
/// interrupt. Lock order, from the outermost: the end of a VM; the board's rx lock; one of a VM's
/// devices; the record of a device that two VMs share, and in it the address space or the random numbers of one of the two;
/// then the VM's alarms, the board's console, or the VM's interrupt controller, never one
/// of these three inside another. No CPU holds the locks of two VMs' own devices. While any other lock (VMIDs, random numbers, a VM's stop reason,
/// a VM's address space, the frames' owners, a pool's state) is held, no further lock is taken.
#[cfg(not(feature = "interleavings"))]
#[derive(Debug, Default)]
pub struct Mutex<T>(spin::mutex::SpinMutex<T>);

#[cfg(not(feature = "interleavings"))]
impl<T> Mutex<T> {
    /// A lock that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(spin::mutex::SpinMutex::new(value))
    }

    /// Waits for the lock and takes it. It is nearly always free: the code that waits is not where each
    /// lock is taken.
    #[inline(always)]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.try_lock_weak() {
            Some(guard) => guard,
            None => self.lock_contended(),
        }
    }

    /// [`Self::lock`] for a lock that several pCPUs often want at the same moment. Between two tries `pause` lets
    /// another CPU go on: an emulator that runs all CPUs in turn would not do so by itself for as long as no timer
    /// is due.
    pub fn lock_with(&self, pause: impl Fn()) -> MutexGuard<'_, T> {
        loop {
            match self.0.try_lock_weak() {
                Some(guard) => return guard,
                None => pause(),
            }
        }
    }

    #[cfg(not(feature = "pools"))]
    #[cold]
    #[inline(never)]
    fn lock_contended(&self) -> MutexGuard<'_, T> {
        self.0.lock()
    }

    #[cfg(feature = "pools")]
    #[cold]
    #[inline(never)]
    fn lock_contended(&self) -> MutexGuard<'_, T> {
        match PAUSE.get() {
            Some(pause) => self.lock_with(pause),
            None => self.0.lock(),
        }
    }
}

/// What a CPU does between two tries to get any lock.
#[cfg(feature = "pools")]
static PAUSE: spin::Once<fn()> = spin::Once::new();

/// Lets all that wait for a lock do `pause` between two tries, as by [`Mutex::lock_with`]: for boards on which vCPUs of
/// one VM, which share the VM's locks, run on whichever CPUs of a pool are free. The first call counts.
#[cfg(feature = "pools")]
pub fn pause_by(pause: fn()) {
    PAUSE.call_once(|| pause);
}

/// Holds a [`Mutex`] until it is dropped.
#[cfg(not(feature = "interleavings"))]
pub type MutexGuard<'a, T> = spin::mutex::SpinMutexGuard<'a, T>;
/// Holds a [`Mutex`] until it is dropped.
#[cfg(feature = "interleavings")]
pub type MutexGuard<'a, T> = shuttle::sync::MutexGuard<'a, T>;

/// The lock of the core, made of the model checker's lock.
#[cfg(feature = "interleavings")]
pub struct Mutex<T>(shuttle::sync::Mutex<T>);

#[cfg(feature = "interleavings")]
impl<T> Mutex<T> {
    /// A lock that holds `value`.
    pub const fn new(value: T) -> Self {
        Self(shuttle::sync::Mutex::new(value))
    }

    /// Waits for the lock and takes it.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        match self.0.lock() {
            Ok(guard) => guard,
            Err(poisoned) => poisoned.into_inner(),
        }
    }

    /// [`Self::lock`]: the model checker knows who waits.
    pub fn lock_with(&self, _pause: impl Fn()) -> MutexGuard<'_, T> {
        self.lock()
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
