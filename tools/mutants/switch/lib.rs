//! Which mutant runs: planted beside the code under test, in a copy of the workspace.
//!
//! The environment chooses it: `HANOK_MUTANT` is its number; `HANOK_MUTANT_REACHED` is a file to which
//! each switch adds its number when it is asked; with `HANOK_MUTANT_HASTE` a panic ends the
//! process at once, as the first one is sufficient.

#![forbid(unsafe_code)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

/// More than the number of mutants.
const MOST: usize = 1 << 16;
const UNKNOWN: u32 = u32::MAX;
static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
static NOTES: OnceLock<Mutex<File>> = OnceLock::new();
static NOTED: [AtomicBool; MOST] = [const { AtomicBool::new(false) }; MOST];

/// Returns whether mutant `id` is active.
#[inline(never)]
pub fn is_active(id: u32) -> bool {
    let chosen = match CHOSEN.load(Relaxed) {
        UNKNOWN => choose(),
        chosen => chosen,
    };
    if let Some(notes) = NOTES.get() {
        note(notes, id);
    }
    chosen == id
}

#[cold]
fn choose() -> u32 {
    let number = std::env::var("HANOK_MUTANT").ok();
    let chosen = number.and_then(|text| text.parse().ok()).unwrap_or(0);
    if let Ok(path) = std::env::var("HANOK_MUTANT_REACHED") {
        let file = OpenOptions::new().create(true).append(true).open(path);
        let _ = NOTES.set(Mutex::new(file.expect("the file can be written")));
    }
    if std::env::var_os("HANOK_MUTANT_HASTE").is_some() {
        std::panic::set_hook(Box::new(|_| std::process::exit(101)));
    }
    CHOSEN.store(chosen, Relaxed);
    chosen
}

fn note(notes: &Mutex<File>, id: u32) {
    let is_new = |noted: &AtomicBool| !noted.swap(true, Relaxed);
    if NOTED.get(id as usize).is_some_and(is_new) {
        let mut file = notes.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = writeln!(file, "{id}");
    }
}
