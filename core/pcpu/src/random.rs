//! The sources of random numbers, which are gathered once at boot, and the moments that are
//! gathered later.
//!
//! Guests without an `rng-seed` wait long for their random pool to fill, and some derive keys from it. So
//! every boot of every VM gets seeds, and may ask for more (`hanok_vm`, `trng`).

use crate::{Board, Host, VmUnit};
use hanok_hal::Backend;
use hanok_hal::sync::atomic::Ordering;
use hanok_random::{Pool, Source};
use hanok_vm::Clock;

/// The number of readings of the counter while the pool is made. A block of the cipher is computed
/// between two readings, and its time depends on caches, memory and interrupts of other masters.
const LOOKS: usize = 64;

/// The pool, made of the boot loader's `seed`, which may be empty, the image tool's `key`, which
/// may be zeros, the output of the CPU's own generator, if it has one, and the counter.
#[inline(never)]
pub fn gather(machine: &impl Backend, seed: &[u8], key: &[u8], own: Option<[u64; 4]>) -> Pool {
    let mut pool = Pool::new();
    pool.gather(Source::Board, seed);
    pool.gather(Source::Build, key);
    if let Some(own) = own {
        pool.gather(Source::Cpu, own.map(u64::to_le_bytes).as_flattened());
    }
    for _ in 0..LOOKS {
        pool.gather(Source::Jitter, &machine.counter().to_le_bytes());
    }
    pool
}

impl<B: Host> Board<B> {
    /// Mixes in the present time, which is that of an event whose time no guest knows to the tick. If
    /// another pCPU does so at the same time, one of the two times is lost, which does no harm.
    #[inline]
    pub fn note_moment(&self) {
        let before = self.jitter.load(Ordering::Relaxed);
        let now = self.counter() as u32;
        self.jitter
            .store(before.rotate_left(5) ^ now, Ordering::Relaxed);
    }

    /// Sets the random numbers of the VM's boot `number`.
    pub(crate) fn new_random(&self, unit: &VmUnit<B>, number: u32) {
        let (now, jitter) = (self.counter(), self.jitter.load(Ordering::Relaxed));
        let mut pool = self.random.lock();
        let stream = pool.stream(unit.vm.id().index() as u8, number, now, jitter);
        let suffice = pool.sources().suffice();
        drop(pool);
        unit.vm.set_random(stream, suffice);
    }

    /// Fills a seed for the VM's boot that is being loaded.
    pub(crate) fn fill_seed(&self, unit: &VmUnit<B>, bytes: &mut [u8]) {
        let jitter = self.jitter.load(Ordering::Relaxed);
        // The boot's random numbers were set as its loading began.
        let _ = unit.vm.fill_random(bytes, self.counter(), jitter);
    }
}
