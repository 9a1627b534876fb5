//! How long programs had a CPU of the PC: a measure of what they did that is nearly the same whatever else the
//! PC does meanwhile. Nothing where Linux does not tell it.

use std::fs;
use std::time::Duration;

use rustix::param::clock_ticks_per_second;

/// The process with this number, all its threads together, until now.
pub fn of_process(number: u32) -> Duration {
    read(&number.to_string(), Field::Own)
}

/// The programs that this process started and that have ended, with what these started in turn.
pub fn of_children() -> Duration {
    read("self", Field::Children)
}

/// A field of `/proc/PID/stat`, counted from one; the one behind it belongs to it: ticks in user mode and in
/// the kernel.
#[derive(Clone, Copy)]
enum Field {
    Own = 14,
    Children = 16,
}

fn read(process: &str, field: Field) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    Duration::from_secs_f64(ticks(&stat, field) as f64 / clock_ticks_per_second() as f64)
}

fn ticks(stat: &str, field: Field) -> u64 {
    // The second field is a name in parentheses, which may have spaces.
    let behind_name = stat.rsplit(')').next().unwrap_or_default();
    let fields = behind_name.split_whitespace().skip(field as usize - 3);
    fields
        .take(2)
        .filter_map(|field| field.parse::<u64>().ok())
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_mode_and_kernel_are_added() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194560 1 2 3 4 250 50 900 90 20 0 1 0";
        assert_eq!(ticks(stat, Field::Own), 300);
        assert_eq!(ticks(stat, Field::Children), 990);
        assert_eq!(ticks("", Field::Own), 0);
    }

    #[test]
    fn a_busy_process_has_a_time() {
        let before = of_process(std::process::id());
        let step = Duration::from_millis(50);
        while of_process(std::process::id()) < before + step {}
        assert!(of_process(u32::MAX).is_zero());
    }
}
