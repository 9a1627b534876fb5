//! Whether all goes on: what a supervisor restarts the program by when it hangs.
//!
//! Each thread says when it begins a piece of work and when it waits. As long as none has been at one piece for more than [`LONGEST`], a
//! thread of its own tells, each second, who wants to know: a file that is counted up ([`FILE`], for busybox init's script), and systemd
//! (`WatchdogSec=` with `Type=notify` or `NotifyAccess=main`; sd_notify(3)). A program that is stopped tells nothing, either.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The file whose content changes each second.
pub const FILE: &str = "/run/hanok-driver.beat";
/// How long a piece of work may take. Storage that is slow is no fault of the program, and a new one would wait for it likewise.
pub const LONGEST: Duration = Duration::from_secs(60);

/// When a thread was last seen at the beginning of a piece of work, in milliseconds since the program's start.
#[derive(Clone, Debug)]
pub struct Pulse {
    start: Instant,
    last: Arc<AtomicU64>,
}

impl Pulse {
    /// That of a thread which begins now, in a program that began at `start`.
    pub fn new(start: Instant) -> Self {
        let pulse = Self {
            start,
            last: Arc::default(),
        };
        pulse.beat();
        pulse
    }

    /// The thread goes on.
    pub fn beat(&self) {
        self.last.store(self.now(), Relaxed);
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether it has gone on within `longest`.
    pub fn is_well(&self, longest: Duration) -> bool {
        let since = self.now().saturating_sub(self.last.load(Relaxed));
        Duration::from_millis(since) <= longest
    }
}

/// Tells each second, for ever, that all threads go on, as long as they do.
pub fn tell(pulses: Vec<Pulse>) {
    let to = std::env::var_os("NOTIFY_SOCKET");
    let mut count = 0_u64;
    let mut was_ready = false;
    thread::spawn(move || {
        loop {
            if pulses.iter().all(|pulse| pulse.is_well(LONGEST)) {
                count += 1;
                // A file system without room for it is none of the program's: then it is restarted in vain, and says so.
                let _ = fs::write(FILE, format!("{count}\n"));
                if let (Some(to), Ok(socket)) = (&to, UnixDatagram::unbound()) {
                    let text = if was_ready {
                        "WATCHDOG=1"
                    } else {
                        "READY=1\nWATCHDOG=1"
                    };
                    was_ready = true;
                    let _ = socket.send_to(text.as_bytes(), to);
                }
            }
            thread::sleep(Duration::from_secs(1));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_does_not_go_on_is_not_well() {
        let pulse = Pulse::new(Instant::now());
        thread::sleep(Duration::from_millis(60));
        assert!(!pulse.is_well(Duration::from_millis(20)));
        pulse.beat();
        assert!(pulse.is_well(Duration::from_secs(5)));
    }
}
