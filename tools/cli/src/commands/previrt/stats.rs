//! What a command used: processor time, which does not depend on other programs, and the most
//! memory at one time.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use hanok_base::ui;

/// The user and system time of this process.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec.unsigned_abs() as u32)
}

/// The most memory that was resident at one time, in KiB, as Linux reports it.
fn most_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Prints both.
pub fn print() {
    let time = processor_time().as_secs_f64();
    let memory = most_memory().map_or("memory unknown".to_owned(), |kib| {
        format!("{} MB at most", kib * 1024 / 1_000_000)
    });
    ui::line(format_args!("took {time:.2} s of processor time, {memory}"));
}
