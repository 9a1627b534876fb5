//! Signals that end the command: the runs that are under way hear of them, and end in order.
//! Where none is, or none ends, what must not stay behind is put in order here.

use std::sync::{Arc, Mutex, Once, PoisonError, Weak};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::console::inbox::Inbox;
use crate::console::terminal;
use crate::scratch;

static RUNS: Mutex<Vec<Weak<Inbox>>> = Mutex::new(Vec::new());
static LISTENING: Once = Once::new();

/// From here on, signals are seen to.
pub fn listen() {
    LISTENING.call_once(|| {
        let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else {
            return;
        };
        thread::spawn(move || signals.forever().for_each(handle));
    });
}

/// A run that is to hear of signals, as long as it takes them.
pub fn tell(run: &Arc<Inbox>) {
    listen();
    let mut runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    runs.retain(|run| run.strong_count() > 0);
    runs.push(Arc::downgrade(run));
}

fn handle(signal: i32) {
    let runs = RUNS.lock().unwrap_or_else(PoisonError::into_inner);
    let told = runs.iter().filter_map(Weak::upgrade);
    let heard = told.filter(|run| run.signal(signal).is_ok()).count();
    drop(runs);
    if heard == 0 {
        terminal::restore();
        scratch::remove_all();
        let _ = signal_hook::low_level::emulate_default_handler(signal);
    }
}
