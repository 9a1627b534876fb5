//! What a board recorded last, once it has ended badly: its memory is still there.

use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use hanok_base::exit::Code;
use hanok_base::{repo, ui};
use hanok_boot::memory::Memory;
use hanok_console::request::Hears;
use hanok_trace_files::area::Follower;
use hanok_trace_files::recording::Recording;
use hanok_trace_files::{lines, trace_dat};

/// How much of the end is kept, in nanoseconds.
const KEPT: u64 = 20_000_000;
/// How many events are printed.
const SHOWN: usize = 16;

/// Where a board's trace is, once the hypervisor has said so.
#[derive(Clone, Default)]
pub struct BlackBox(Arc<Mutex<Option<u64>>>);

impl BlackBox {
    /// What hears the hypervisor's lines, beside `other`.
    pub fn hears(&self, mut other: Option<Hears>) -> Hears {
        let place = Arc::clone(&self.0);
        Box::new(move |line| {
            if let Some(at) = place_of(line) {
                *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
            }
            if let Some(other) = &mut other {
                other(line);
            }
        })
    }

    /// Prints what came last on a board that ended with `code`, if the hypervisor panicked or a VM was stopped for what it did, and
    /// writes all of the end into a file.
    pub fn tell(&self, root: &Path, memory: Option<&Memory>, code: Code) -> Result<()> {
        let place = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (Some(at), Some(memory), Code::Panicked | Code::Stopped) = (place, memory, code) else {
            return Ok(());
        };
        let memory = memory.place();
        let file = File::open(&memory.path).context("the board's memory cannot be read")?;
        let offset = at.checked_sub(memory.start).context("it is in no RAM")?;
        let mut trace = Follower::from_oldest(file, offset)?;
        let mut recording = Recording::new(trace.head().clone());
        recording.add(trace.take()?);
        recording.keep_last(KEPT);
        let board = recording.board();
        let path = repo::target_dir(root).join("hanok/black-box.dat");
        repo::write_whole(&path, &trace_dat::written(&board)?)?;
        let shown = lines::latest(&board, SHOWN);
        ui::last_word(format!(
            "hanok: what came last ({} records of {:.3} ms: hanok trace report {}):\n{}",
            recording.len(),
            recording.duration() as f64 / 1e6,
            path.display(),
            shown.join("\n")
        ));
        Ok(())
    }
}

/// The address in the line that says where the trace is.
fn place_of(line: &str) -> Option<u64> {
    let (_, at) = line.strip_prefix("trace: ")?.split_once(" KiB at 0x")?;
    u64::from_str_radix(at.trim_end(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_is_in_the_hypervisor_s_line() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let other = Arc::clone(&heard);
        let black_box = BlackBox::default();
        let mut hears = black_box.hears(Some(Box::new(move |line| {
            other.lock().unwrap().push(line.to_owned());
        })));
        hears("trace: 2068 KiB at 0x47400000");
        hears("vm trace: 2068 KiB at 0x1");
        assert_eq!(*black_box.0.lock().unwrap(), Some(0x4740_0000));
        assert_eq!(heard.lock().unwrap().len(), 2);
    }
}
