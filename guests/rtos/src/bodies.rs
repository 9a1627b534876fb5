//! The code of the tasks: they burn their time, or, in `demo`, work together.

use crate::{burn, calls, state};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use hanok_rtos_kernel::{Full, Kernel, QueueId, SemaphoreId, TaskId};

/// The semaphore of the state that `control` and `logger` share.
const STATE: SemaphoreId = SemaphoreId::new(0);
/// The queue from `sensor` to `filter`.
const READINGS: QueueId = QueueId::new(0);

static CONTROLLED: AtomicU32 = AtomicU32::new(0);
static LONGEST_WAIT: AtomicU64 = AtomicU64::new(0);
static FILTERED: AtomicU32 = AtomicU32::new(0);

/// Adds what the bodies need.
pub fn prepare(kernel: &mut Kernel<'_>) -> Result<(), Full> {
    kernel.add_semaphore()?;
    kernel.add_queue()?;
    Ok(())
}

/// The entry point of every task.
pub extern "C" fn task(index: usize) -> ! {
    let id = TaskId::new(index as u8);
    let spec = state::with(|kernel| kernel.task(id).map(|task| *task.spec())).flatten();
    let Some(spec) = spec else {
        panic!("no task {id}");
    };
    let body = body(spec.name);
    for job in 0_u32.. {
        state::with(|kernel| kernel.begin(state::now()));
        match body {
            Some(body) => body(job),
            None => burn::job(spec.execution),
        }
        crate::channel::job(spec.name, job);
        calls::complete();
    }
    panic!("task {id} has no more numbers for its jobs")
}

fn body(name: &str) -> Option<fn(u32)> {
    let demo = state::options().is_some_and(|options| options.set.name == "demo");
    let body: fn(u32) = match name {
        _ if !demo => return None,
        "control" => control,
        "sensor" => sensor,
        "filter" => filter,
        "radio" => |_| burn::work_us(8_000),
        "logger" => logger,
        "hello" => hello,
        _ => return None,
    };
    Some(body)
}

/// Needs the shared state for a short time, 200 times a second.
fn control(_: u32) {
    let before = state::now();
    calls::take(STATE);
    LONGEST_WAIT.fetch_max(state::now() - before, Relaxed);
    burn::work_us(50);
    CONTROLLED.fetch_add(1, Relaxed);
    calls::give(STATE);
}

/// Holds the shared state for long, so that `control` arrives meanwhile, and `radio` too.
fn logger(_: u32) {
    burn::work_us(3_500);
    calls::take(STATE);
    burn::work_us(2_000);
    calls::give(STATE);
}

fn sensor(job: u32) {
    burn::work_us(100);
    calls::send(READINGS, job);
}

/// Two readings a job.
fn filter(job: u32) {
    for which in 0..2 {
        let reading = calls::receive(READINGS);
        assert_eq!(reading, job.wrapping_mul(2).wrapping_add(which));
        burn::work_us(100);
        FILTERED.fetch_add(1, Relaxed);
    }
}

fn hello(job: u32) {
    let wait = crate::report::Microseconds(LONGEST_WAIT.load(Relaxed));
    println!(
        "rtos: second {job}: {} jobs of control, which waited for the logger {wait:.3} us at most, {} readings",
        CONTROLLED.load(Relaxed),
        FILTERED.load(Relaxed),
    );
}
