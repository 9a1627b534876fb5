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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::marks::Marks;

    const BASE: u32 = 0x8000_0000;
    const NOP: u32 = 0xe1a0_0000;
    const WRITE: u32 = 0xee0d_af70;
    const READ: u32 = 0xee1d_9f70;
    const CALL: u32 = 0xeb00_0000;

    /// What the writes among these words may become, if programs call the first word.
    fn becomes(words: &[u32]) -> Vec<ThreadWrite> {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let mut marks = Marks::new(bytes.len());
        for offset in (0..bytes.len()).step_by(4) {
            marks.code(offset, 4, Isa::A32, ItState::NONE);
        }
        let code = Code::marked(BASE, marks);
        let memory = Memory {
            bytes: &bytes,
            base: BASE,
        };
        let writes = ThreadWrites::of(&code, memory, [BASE].into_iter());
        let addresses = (BASE..).step_by(4).zip(words);
        let found = addresses.filter(|(_, word)| **word & BUT_RT == WRITES);
        found.map(|(at, _)| writes.at(&code, memory, at)).collect()
    }

    #[test]
    fn the_first_write_is_foreseen_and_the_last_one_deferred() {
        use ThreadWrite::{Deferred, Foreseen, Traps};
        // In between the kernel reads and calls; behind the last write is a branch to an undefined instruction.
        let udf = 0xe7f0_01f2;
        let all = [NOP, WRITE, READ, CALL, WRITE, 0x1a00_0000, GOES_BACK, udf];
        assert_eq!(becomes(&all), [Foreseen, Deferred]);
        // Both ways of a branch lead to a write.
        let both = [0x0a00_0001, NOP, WRITE, WRITE, READ, GOES_BACK];
        assert_eq!(becomes(&both), [Foreseen, Foreseen]);
        for behind in [READ, CALL, 0xe12f_ff1e] {
            let last = [WRITE, CALL, WRITE, behind, GOES_BACK];
            assert_eq!(becomes(&last), [Foreseen, Traps], "{behind:x}");
            // Of a kernel that does this before it has written, nothing is known.
            let first = [behind, WRITE, CALL, WRITE, GOES_BACK];
            assert_eq!(becomes(&first), [Traps, Traps], "{behind:x}");
        }
        // One that has a condition is followed by what is behind it, too.
        assert_eq!(
            becomes(&[WRITE & !(0xe << 28), READ, WRITE]),
            [Traps, Traps]
        );
    }

    #[test]
    fn calls_lead_to_functions_with_these_names() {
        let names = [
            "vector_swi",
            "vector_bhb_loop8_swi",
            "vector_bhb_bpiall_swi",
        ];
        assert!(names.into_iter().all(is_called));
        assert!(
            !["vector_irq", "sys_swi", "vector_swi_end"]
                .into_iter()
                .any(is_called)
        );
    }
}
