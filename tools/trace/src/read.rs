//! Reads files of trace-cmd, version 6: those of `trace_dat`, and as much of those that trace-cmd itself recorded in a guest as a
//! report needs.
//!
//! A file may be damaged or cut off, or made to do harm. So each length and place in it is a claim: it is compared with what the file
//! has, and no memory is reserved by it. A damaged head is an error. In a damaged ring, what can be read is, and [`Trace::notes`] say
//! what cannot: pages begin with a time of their own, so that those behind a damaged one can be read.

mod cursor;
mod description;
mod events;
mod head;
mod ring;

use crate::model::Machine;
use std::collections::BTreeMap;

/// What a file has.
#[derive(Clone, Debug)]
pub struct Trace {
    /// The machine, and what happened on it.
    pub machine: Machine,
    /// How many events of each name there are that this module does not know.
    pub unknown: BTreeMap<String, u64>,
    /// What could not be read, a line each.
    pub notes: Vec<String>,
    /// Of each CPU whether its last records are missing, as the file is cut off.
    pub is_cut: Vec<bool>,
}

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// It is of another kind.
    #[error("this is no trace.dat file: it does not begin as one")]
    NoTrace,
    /// A newer trace-cmd wrote it.
    #[error(
        "the file has version 7, written by a newer trace-cmd: use `trace-cmd convert --file-version 6`"
    )]
    Newer,
    /// It is of an unknown version.
    #[error("the file has version {0:?}, and this program reads version 6")]
    Version(String),
    /// The CPU that wrote it has another order of bytes.
    #[error("the file is big-endian, and this program reads little-endian ones")]
    BigEndian,
    /// It has text in place of events.
    #[error("the file has no events at offset {0:#x}: it was recorded by a latency tracer")]
    Latency(usize),
    /// It ends before its events begin.
    #[error(
        "the file is cut off: at offset {at:#x} its {what} should follow, and it ends at {end:#x}"
    )]
    CutOff {
        /// Where the missing thing begins.
        at: usize,
        /// What is missing.
        what: &'static str,
        /// The file's length.
        end: usize,
    },
    /// Something in it cannot be.
    #[error("the file is damaged at offset {at:#x}: {what}")]
    Damaged {
        /// Where.
        at: usize,
        /// What is wrong.
        what: &'static str,
    },
}

/// Reads a file.
///
/// # Errors
/// Its head is damaged or cut off, or it is no such file.
pub fn read(file: &[u8]) -> Result<Trace, ReadError> {
    let head = head::Head::read(file)?;
    let mut trace = Trace {
        machine: Machine {
            name: String::new(),
            id: head.id,
            place: head.place,
            tasks: head.tasks,
            cpus: Vec::new(),
        },
        unknown: BTreeMap::new(),
        notes: head.notes,
        is_cut: Vec::new(),
    };
    for (number, claim) in head.rings.iter().enumerate() {
        let mut reader = ring::Reader::new(&head.layout, &head.formats);
        let state = reader.ring(file, *claim);
        let mut records = reader.records;
        if !records.is_sorted_by_key(|record| record.at) {
            records.sort_by_key(|record| record.at);
        }
        let read = format!("{} records of CPU {number} read", records.len());
        if let Some(at) = state.cut {
            let what = "the file is cut off within the ring at offset";
            trace.notes.push(format!("{what} {at:#x}: {read}"));
        }
        if let Some((at, pages)) = state.damaged {
            let what = format!("damaged pages of a ring: {pages}, the first at offset {at:#x}");
            trace.notes.push(format!("{what}: {read}"));
        }
        for (name, count) in reader.unknown {
            *trace.unknown.entry(name).or_default() += count;
        }
        trace.machine.cpus.push(records);
        trace.is_cut.push(state.cut.is_some());
    }
    Ok(trace)
}

#[cfg(test)]
mod tests;
