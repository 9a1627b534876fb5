//! Finds which registers exist, and builds the routines that write and read all of them at once.

use super::Special;
use crate::arch::crossing::{self as arch, Register};
use crate::arch::fuzz::code::synchronize_all;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

/// The addresses of the routines that write and read all registers.
#[derive(Clone, Copy)]
pub struct Layout {
    /// Writes all but the last registers.
    pub write: u64,
    /// Writes the last registers.
    pub write_last: u64,
    /// Reads all.
    pub read: u64,
}

/// How many registers fit into the tables.
pub const MOST: usize = 2048;

/// What is known of a register besides its encoding.
const READ: u32 = 1 << 30;
const WRITTEN: u32 = 1 << 31;

static LIST: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];
static COUNT: AtomicU32 = AtomicU32::new(0);

#[repr(C, align(4096))]
struct Code([AtomicU32; MOST * 8]);
static CODE: Code = Code([const { AtomicU32::new(0) }; MOST * 8]);
static LAYOUT: [AtomicU64; 3] = [const { AtomicU64::new(0) }; 3];

/// A value for each register.
pub struct Values(pub [AtomicU64; MOST]);

impl Values {
    /// All values zero.
    pub const fn new() -> Self {
        Self([const { AtomicU64::new(0) }; MOST])
    }

    /// The value of register `index`.
    pub fn at(&self, index: usize) -> u64 {
        self.0[index].load(Relaxed)
    }

    /// The address of the values.
    pub fn address(&'static self) -> u64 {
        self.0.as_ptr().expose_provenance() as u64
    }
}

/// The addresses of the routines.
pub fn layout() -> Layout {
    let [write, write_last, read] = LAYOUT.each_ref().map(|at| at.load(Relaxed));
    Layout {
        write,
        write_last,
        read,
    }
}

/// Each register with its index, and whether it can be read, and written.
pub fn listed() -> impl Iterator<Item = (usize, Register, bool, bool)> {
    let count = COUNT.load(Relaxed) as usize;
    LIST[..count].iter().enumerate().map(|(index, entry)| {
        let entry = entry.load(Relaxed);
        let register = Register::from_bits(entry & !(READ | WRITTEN));
        (index, register, entry & READ != 0, entry & WRITTEN != 0)
    })
}

/// Tries each encoding, and keeps those that are registers.
pub fn find_registers() {
    let mut count = 0;
    for register in (0..arch::CANDIDATES).map(Register::candidate) {
        let special = register.special();
        if special == Special::Acts {
            continue;
        }
        let value = register.probe_read();
        let written = register.probe_write(value.unwrap_or(0));
        let read = if value.is_some() { READ } else { 0 };
        let written = if written { WRITTEN } else { 0 };
        if read | written == 0 {
            continue;
        }
        assert!(count < MOST, "more than {MOST} registers");
        LIST[count].store(register.bits() | read | written, Relaxed);
        count += 1;
    }
    COUNT.store(count as u32, Relaxed);
}

/// Appends one instruction after another to a buffer.
struct Writer(usize);

impl Writer {
    fn put(&mut self, word: u32) {
        CODE.0[self.0].store(word, Relaxed);
        self.0 += 1;
    }

    fn put_all(&mut self, words: &[u32]) {
        words.iter().for_each(|word| self.put(*word));
    }

    fn address(&self) -> u64 {
        CODE.0.as_ptr().addr() as u64 + 4 * self.0 as u64
    }
}

/// Builds the routines for the registers that were found.
pub fn make_routines() {
    let mut code = Writer(0);
    let is_last = |register: Register| register.special() == Special::Last;
    for (place, last) in LAYOUT.iter().zip([false, true]) {
        place.store(code.address(), Relaxed);
        for (index, register, _, written) in listed() {
            if written && is_last(register) == last {
                register.write(index, &mut |word| code.put(word));
            }
        }
        code.put_all(arch::RETURN);
    }
    LAYOUT[2].store(code.address(), Relaxed);
    for last in [true, false] {
        for (index, register, read, _) in listed() {
            if read && is_last(register) == last {
                register.read(index, &mut |word| code.put(word));
            }
        }
        if last {
            code.put_all(arch::REACHABLE);
        }
    }
    code.put_all(arch::RETURN);
    synchronize_all();
}
