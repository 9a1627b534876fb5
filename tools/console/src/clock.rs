//! The board's clock, by which a run is patient: it stands still while the board waits for a CPU of the PC.
//!
//! A watchdog is told in seconds. On a PC that does many other things the same board needs many times as long by
//! the clock on the wall, and a verdict by that clock would depend on what else runs. So what counts is the time less the time that the board stood in the PC's queue of
//! those who are ready to run, which Linux tells for each thread (`/proc/PID/task/TID/schedstat`, its second
//! number, in nanoseconds). Of several threads the one that waited longest counts, since others may need
//! what it does. Where Linux does not tell it, this is the clock on the wall.
//!
//! Rejected: the same for a script's pauses. While a VM is paused or silent its clock goes on with that on the
//! wall, and a Linux that was paused for long takes it for a fault of its own.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// For so long what was read last is true enough.
const FRESH: Duration = Duration::from_millis(50);

/// A clock of one board.
#[derive(Debug)]
pub struct Clock {
    /// The folder of the board's threads, if there is a board.
    threads: Option<PathBuf>,
    /// How long the board has waited for a CPU, as far as it is known.
    waited: Duration,
    read_at: Option<Instant>,
    /// What it showed last.
    shown: Option<Instant>,
}

impl Clock {
    /// The clock of the process with this number; without one, the clock on the wall.
    pub fn of(process: Option<u32>) -> Self {
        Self {
            threads: process.map(|number| PathBuf::from(format!("/proc/{number}/task"))),
            waited: Duration::ZERO,
            read_at: None,
            shown: None,
        }
    }

    /// What it shows when the clock on the wall shows `wall`; it never goes back.
    pub fn at(&mut self, wall: Instant) -> Instant {
        let fresh = |at: Instant| wall.saturating_duration_since(at) < FRESH;
        if !self.read_at.is_some_and(fresh) {
            self.read_at = Some(wall);
            self.waited = self.waited.max(self.longest_wait());
        }
        let now = wall.checked_sub(self.waited).unwrap_or(wall);
        let now = self.shown.map_or(now, |shown| now.max(shown));
        self.shown = Some(now);
        now
    }

    /// When the clock on the wall may show what this one calls `moment`, at the earliest.
    pub fn wall(&self, moment: Instant) -> Instant {
        moment + self.waited
    }

    fn longest_wait(&self) -> Duration {
        let threads = self
            .threads
            .as_ref()
            .and_then(|path| fs::read_dir(path).ok());
        let waits = threads
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|thread| {
                let text = fs::read_to_string(thread.path().join("schedstat")).ok()?;
                waited(&text)
            });
        waits.max().unwrap_or_default()
    }
}

/// How long a thread waited for a CPU, by what Linux says of it: time on a CPU, time waited, and turns.
fn waited(schedstat: &str) -> Option<Duration> {
    let nanoseconds = schedstat.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_number_is_how_long_it_waited() {
        assert_eq!(waited("70 2000000000 3\n"), Some(Duration::from_secs(2)));
        assert_eq!(waited("0 0 0\n"), Some(Duration::ZERO));
        assert_eq!(waited(""), None);
    }

    /// A clock that was told that its board has waited for so many seconds.
    fn after(seconds: u64, at: Instant) -> Clock {
        let mut clock = Clock::of(None);
        clock.waited = Duration::from_secs(seconds);
        clock.read_at = Some(at);
        clock
    }

    #[test]
    fn it_stands_while_the_board_waits_and_never_goes_back() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut clock = Clock::of(None);
        assert_eq!(clock.at(at(10)), at(10));
        // Ten seconds later the board is known to have waited for eight of them.
        clock.waited = Duration::from_secs(8);
        assert_eq!(clock.at(at(20)), at(12));
        assert_eq!(clock.wall(at(15)), at(23));
        // More than the clock on the wall has gone on: it stands.
        clock.waited = Duration::from_secs(11);
        assert_eq!(clock.at(at(20)), at(12));
        assert_eq!(after(3, start).wall(at(1)), at(4));
    }

    #[test]
    fn who_shares_a_cpu_is_known_to_have_waited() {
        // More busy threads than the PC has CPUs, so that some of them wait; all are this process's.
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let mut clock = Clock::of(Some(std::process::id()));
        if !PathBuf::from("/proc/self/schedstat").exists() {
            return;
        }
        let watchdog = Instant::now() + Duration::from_secs(600);
        let ended = std::sync::atomic::AtomicBool::new(false);
        let is_over = || ended.load(std::sync::atomic::Ordering::Relaxed);
        std::thread::scope(|scope| {
            for _ in 0..=2 * cpus {
                scope.spawn(|| while !is_over() {});
            }
            let begun = clock.at(Instant::now());
            let waited = clock.waited;
            let moment = Duration::from_millis(200);
            while clock.waited < waited + moment && Instant::now() < watchdog {
                std::thread::sleep(FRESH);
                clock.at(Instant::now());
            }
            assert!(clock.waited >= waited + moment);
            assert!(clock.at(Instant::now()) >= begun);
            ended.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
