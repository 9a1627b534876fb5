//! Work on the other CPUs: each job is a CPU_ON, and its end a CPU_OFF.

use crate::cpu::MAX_CPUS;
use crate::{boot, cpu, gic, psci, timer};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Acquire, Ordering::Release};
use hanok_types::VcpuId;

static JOBS: [AtomicUsize; MAX_CPUS] = [const { AtomicUsize::new(0) }; MAX_CPUS];

static DONE: [AtomicBool; MAX_CPUS] = [const { AtomicBool::new(false) }; MAX_CPUS];

/// The affinity fields of CPU `index`'s MPIDR, on the virtual platform and on QEMU's `virt`.
pub fn affinity(index: usize) -> u64 {
    VcpuId::new(index as u8).affinity()
}

/// What another CPU does; it gets its number.
pub type Job = fn(usize);

/// The entry of every other CPU, with the MMU on.
pub extern "C" fn secondary(index: usize) -> ! {
    cpu::install(index);
    gic::init_cpu(index);
    let job = JOBS[index].load(Acquire);
    // SAFETY: `start` alone stores here, and stores a `Job`, before this CPU runs.
    let job = unsafe { core::mem::transmute::<usize, Job>(job) };
    job(index);
    DONE[index].store(true, Release);
    psci::cpu_off()
}

/// Starts `job` on CPU `index`; returns the result of CPU_ON.
pub fn start(index: usize, job: Job) -> i64 {
    DONE[index].store(false, Release);
    JOBS[index].store(job as usize, Release);
    psci::cpu_on(affinity(index), boot::secondary_address(), index as u64)
}

/// Waits until CPU `index` has finished its job and is off. AFFINITY_INFO alone is not enough: QEMU
/// says OFF until a started CPU runs.
/// Returns whether it is off in time.
pub fn wait_off(index: usize) -> bool {
    timer::wait_until(|| DONE[index].load(Acquire))
        && timer::wait_until(|| psci::affinity_info(affinity(index)) == psci::OFF)
}
