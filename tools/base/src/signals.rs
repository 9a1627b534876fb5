//! Signals that end the command. Runs in progress are told of them, and end in order. Where no run
//! is in progress, as while something is built, this module cleans up what must not stay behind. In
//! both cases the command ends with [`Code::Interrupted`], whichever signal it was. The processes
//! that the command started end with it: a signal may be sent to this process alone, as by a
//! service manager, and cargo would go on building.
//!
//! Rejected: to end by the signal itself where no run takes it. A script would see 130, 143 or 129
//! then, depending on how far the command had come.

use std::collections::BTreeSet;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, Once, PoisonError, Weak};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::exit::Code;
use crate::{scratch, ui};

/// The longest time that [`handle`] may take to end the command: only one that hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(60);

/// A run, or another activity that ends in order by itself when it is told of a signal.
pub trait Listener: Send + Sync {
    /// Tells it of a signal.
    fn signal(&self, signal: i32) -> SignalResponse;
}

/// What a [`Listener`] does about a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum SignalResponse {
    /// It handles the signal.
    Taken,
    /// It has ended, and handles no signals any more.
    Gone,
}

static RUNS: Mutex<Vec<Weak<dyn Listener>>> = Mutex::new(Vec::new());
static AT_END: Mutex<Vec<fn()>> = Mutex::new(Vec::new());
static LISTENING: Once = Once::new();
static CAME: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Handles signals from now on, except those that the caller of the command wants ignored, as
/// `nohup` does.
pub fn listen() {
    LISTENING.call_once(|| {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let heard = [SIGINT, SIGTERM, SIGHUP]
            .map(|signal| (!is_ignored(&status, signal)).then_some(signal));
        let heard: Vec<_> = heard.into_iter().flatten().collect();
        // The flag is set before any thread goes on, and so is the one below.
        for signal in &heard {
            let _ = flag::register(*signal, Arc::clone(&CAME));
        }
        let Ok(mut signals) = Signals::new(&heard) else {
            return;
        };
        thread::spawn(move || signals.forever().for_each(handle));
    });
}

/// Whether a signal came. If no run has taken it, this function does not return: the command ends
/// here. The failure that the caller saw is then that of a child that got the signal, too (Ctrl-C
/// goes to all programs of a terminal).
pub fn was_interrupted() -> bool {
    let came = CAME.load(Ordering::SeqCst);
    if came {
        thread::sleep(PATIENCE);
    }
    came
}

/// Registers a run that is to be told of signals, as long as it takes them.
pub fn register(run: Weak<dyn Listener>) {
    listen();
    let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    runs.retain(|run| run.strong_count() > 0);
    runs.push(run);
}

/// Registers a function that is called before the command ends by a signal that no run takes.
pub fn at_end(restore: fn()) {
    let mut all = AT_END.lock().unwrap_or_else(PoisonError::into_inner);
    all.push(restore);
}

fn handle(signal: i32) {
    let runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let told = runs.iter().filter_map(Weak::upgrade);
    let heard = told
        .filter(|run| run.signal(signal) == SignalResponse::Taken)
        .count();
    drop(runs);
    if heard == 0 {
        let all = AT_END.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().for_each(|restore| restore());
        end_descendants();
        scratch::remove_all();
        let name = ui::red("error:");
        ui::last_word(format!("{name} interrupted by signal {signal}"));
        std::process::exit(Code::Interrupted as i32);
    }
}

/// Asks all descendants of this process to end.
fn end_descendants() {
    for pid in descendants(std::process::id(), &parents()) {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
    }
}

/// Each process and its parent, from proc(5).
fn parents() -> Vec<(u32, u32)> {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let stats =
        processes.filter_map(|process| fs::read_to_string(process.path().join("stat")).ok());
    stats.filter_map(|stat| parent(&stat)).collect()
}

/// A process and its parent from `PID (NAME) STATE PARENT ...`, where the name may contain
/// anything.
fn parent(stat: &str) -> Option<(u32, u32)> {
    let (pid, rest) = stat.split_once(" (")?;
    let (_, rest) = rest.rsplit_once(") ")?;
    let parent = rest.split(' ').nth(1)?;
    Some((pid.parse().ok()?, parent.parse().ok()?))
}

/// The descendants of `first`.
fn descendants(first: u32, parents: &[(u32, u32)]) -> BTreeSet<u32> {
    let mut found = BTreeSet::from([first]);
    loop {
        let more = parents.iter().filter(|(_, parent)| found.contains(parent));
        let more: Vec<_> = more.map(|(pid, _)| *pid).collect();
        let before = found.len();
        found.extend(more);
        if found.len() == before {
            found.remove(&first);
            return found;
        }
    }
}

/// Whether a signal is ignored, from proc(5): `SigIgn` is a mask whose bit 0 is signal 1.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mut lines = status.lines();
    let mask = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.unwrap_or(0) >> (signal - 1) & 1 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_those_of_one_alone() {
        let stats = [
            "1 (init) S 0 1",
            "30 (a b) S 1 30",
            "40 (x) y) R 30 30",
            "20 (z) S 40 3",
            "50 (other) S 1 5",
            "no line",
        ];
        let parents: Vec<_> = stats.iter().filter_map(|stat| parent(stat)).collect();
        assert_eq!(parents.len(), 5);
        assert_eq!(descendants(30, &parents), BTreeSet::from([20, 40]));
        assert_eq!(descendants(20, &parents), BTreeSet::new());
    }

    #[test]
    fn what_nohup_ignores_is_known() {
        let status = "Name:\tx\nSigBlk:\t0000000000004002\nSigIgn:\t0000000000001001\n";
        let ignored = [SIGINT, SIGTERM, SIGHUP].map(|signal| is_ignored(status, signal));
        assert_eq!(ignored, [false, false, true]);
        assert!(!is_ignored("", SIGHUP));
    }
}
