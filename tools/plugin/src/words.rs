//! Lists which instructions a board executed: each one's address and bytes, once.

use std::collections::HashSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::{Mutex, OnceLock, PoisonError};

use anyhow::{Context, Result};

use crate::qemu::Block;

static LIST: OnceLock<Mutex<List>> = OnceLock::new();

struct List {
    out: File,
    /// Address, bytes with the first one lowest, how many.
    seen: HashSet<(u64, u32, usize)>,
}

/// From now on all instructions are listed; the list is written to `out` at the end.
pub fn install(out: String) -> Result<()> {
    let out = File::create(&out).with_context(|| format!("cannot write {out}"))?;
    let seen = HashSet::new();
    let _ = LIST.set(Mutex::new(List { out, seen }));
    Ok(())
}

/// Adds the instructions of `block`, if instructions are to be listed.
pub fn block(block: &Block) {
    let Some(list) = LIST.get() else { return };
    let mut list = list.lock().unwrap_or_else(PoisonError::into_inner);
    for instruction in block.instructions() {
        let size = instruction.size();
        let found = (instruction.address(), instruction.word(), size);
        list.seen.insert(found);
    }
}

/// Writes the list, sorted by address.
pub fn finish() {
    let Some(list) = LIST.get() else { return };
    let list = list.lock().unwrap_or_else(PoisonError::into_inner);
    let mut seen: Vec<_> = list.seen.iter().collect();
    seen.sort_unstable();
    let mut out = BufWriter::new(&list.out);
    let written = seen
        .into_iter()
        .try_for_each(|(address, bits, size)| writeln!(out, "{address:08x} {bits:08x} {size}"));
    if let Err(error) = written.and_then(|()| out.flush()) {
        eprintln!("hanok-plugin: cannot write the list: {error}");
    }
}
