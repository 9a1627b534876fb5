//! The templates for writes of TPIDRURO, which User mode can only read.
//!
//! Linux keeps the running task there while it runs, and the program's own value otherwise, so it writes it twice in each
//! system call. A write is a store to the page; what makes the CPU's register follow is the hypervisor, whenever the guest
//! leaves or goes back to a program. Until then a read would find the old value. So a store alone is for a write behind which
//! nothing reads. And where a program calls the kernel, the hypervisor writes beforehand what the kernel had there when it
//! last went back: if that is what the kernel then writes, nothing else has to be done.

use super::{ALWAYS, Field, Free, SP, Template, TrampolineStep, rt, store};

/// What a write of TPIDRURO may become.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThreadWrite {
    /// It stays as it is, and traps.
    #[default]
    Traps,
    /// The first one in a call of a program's: it traps unless the register has its value already.
    Foreseen,
    /// It is only stored: nothing reads TPIDRURO until the kernel leaves.
    Deferred,
}

impl Template {
    /// The trampoline for an A32 write of TPIDRURO that may become this; `None` if `word` is none, or has to trap.
    pub fn of_thread_write(word: u32, how: ThreadWrite, free: Free) -> Option<Self> {
        if word & 0xffff_0fff != ALWAYS | 0x0e0d_0f70 {
            return None;
        }
        let from = rt(word)?;
        match how {
            ThreadWrite::Traps => None,
            ThreadWrite::Deferred => Some(store(from, Field::TPIDRURO)),
            ThreadWrite::Foreseen => {
                let is_free = |one: &u32| free.registers >> one & 1 == 1 && *one != from;
                let with = (0..SP).find(is_free).filter(|_| free.flags)?;
                Some(Self::new(&[
                    TrampolineStep::Store(from, Field::TPIDRURO),
                    TrampolineStep::Word(0xee1d_0f70 | with << 12), // mrc p15, 0, with, c13, c0, 3
                    TrampolineStep::Word(0xe130_0000 | with << 16 | from), // teq with, from
                    TrampolineStep::BackIfEqual,
                    TrampolineStep::Word(word),
                    TrampolineStep::Back,
                ]))
            }
        }
    }
}
