//! Which writes of TPIDRURO need not reach the CPU's register at once ([`ThreadWrite`]).
//!
//! Between a program's call and the first write there, and between the last write and the way back, nothing may read the
//! register. So the code is followed from where Linux is called, and from behind each write, up to the next write or an
//! exception return, for a bounded number of instructions: only if it calls nothing on its way, branches nowhere that is not
//! known, and has no read, is a write one of these two. What raises an exception ends the way, too: then the hypervisor looks.
//! If a kernel is called in another place than the names say, or reads there, nothing is foreseen or deferred.

use crate::flow::marks::Mark;
use crate::flow::memory::Memory;
use crate::flow::{Next, step};
use crate::image::Code;
use hanok_abi::trampoline::ThreadWrite;
use hanok_decode::aarch32::{Encoding, Isa, ItState};
use std::collections::HashSet;

/// MRC and MCR of TPIDRURO, but for the condition and Rt.
const READS: u32 = 0x0e1d_0f70;
const WRITES: u32 = 0x0e0d_0f70;
const BUT_RT: u32 = 0x0fff_0fff;
/// MOVS PC, LR.
const GOES_BACK: u32 = 0xe1b0_f00e;
/// The number of instructions that are followed.
const MOST: usize = 96;

/// Whether a program's calls lead to a function with this name: `vector_swi`, `vector_bhb_loop8_swi` and the like.
pub(super) fn is_called(name: &str) -> bool {
    name.starts_with("vector_") && name.ends_with("_swi")
}

/// What is known of a kernel's writes of TPIDRURO.
#[derive(Debug, Default)]
pub(super) struct ThreadWrites {
    /// The first ones in a call.
    first: HashSet<u32>,
}

impl ThreadWrites {
    /// Of a kernel whose programs' calls lead to these functions.
    pub(super) fn of(code: &Code, memory: Memory<'_>, called: impl Iterator<Item = u32>) -> Self {
        let mut first = HashSet::new();
        for place in called {
            match follow(code, memory, place) {
                Some(writes) => first.extend(writes),
                None => return Self::default(),
            }
        }
        Self { first }
    }

    /// Whether anything is foreseen.
    pub(super) fn any(&self) -> bool {
        !self.first.is_empty()
    }

    /// What the write at `address` may become.
    pub(super) fn at(&self, code: &Code, memory: Memory<'_>, address: u32) -> ThreadWrite {
        if self.first.contains(&address) {
            ThreadWrite::Foreseen
        } else if self.any() && follow(code, memory, address.wrapping_add(4)).is_some() {
            ThreadWrite::Deferred
        } else {
            ThreadWrite::Traps
        }
    }
}

/// The writes to which the code from `from` leads, if it reads nothing before.
fn follow(code: &Code, memory: Memory<'_>, from: u32) -> Option<Vec<u32>> {
    let (mut writes, mut ways, mut seen) = (Vec::new(), vec![from], HashSet::new());
    while let Some(at) = ways.pop() {
        if !seen.insert(at) {
            continue;
        }
        let known = memory.offset(at).map(|offset| code.marks.get(offset));
        let is_code = matches!(known, Some(Mark::Start(Isa::A32, _)));
        let encoding = memory.fetch(at, Isa::A32).filter(|_| is_code)?;
        let Encoding::A32(word) = encoding else {
            return None;
        };
        if seen.len() > MOST || word & BUT_RT == READS {
            return None;
        }
        if word & BUT_RT == WRITES {
            writes.push(at);
            if word >> 28 == 0xe {
                continue;
            }
        }
        if word == GOES_BACK {
            continue;
        }
        match step(encoding, at, ItState::NONE).next {
            Next::Falls => ways.push(at.wrapping_add(4)),
            Next::Branch { to, conditional } => {
                ways.push(to);
                if conditional {
                    ways.push(at.wrapping_add(4));
                }
            }
            Next::Stops => {}
            Next::Call(_) | Next::Away { .. } => return None,
        }
    }
    Some(writes)
}
