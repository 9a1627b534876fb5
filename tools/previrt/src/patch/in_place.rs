//! Which sites can have a trampoline: those that are certainly executed where they are linked.
//!
//! A trampoline is reached by a relative branch, so that its site must not be copied elsewhere
//! before it runs. Kernels do copy code: the vectors, code that puts memory to sleep, the last
//! steps before another kernel starts. Nothing in an image says that code is copied. But one thing
//! says that a function is not: a relative branch to a place farther away than any copied code is
//! long ([`FAR`]) would break in a copy. (A nearer target may be copied along, because copied code
//! has labels of its own.) Another thing is Linux's exception table: it has the addresses of instructions that may
//! fault, so that a fault in a copy would be found in no table. So only sites in functions with such a branch or such an
//! instruction get a trampoline, and the sites of Linux's entry code, which has its own section. All others keep their
//! traps.

use super::thread::{self, ThreadWrites};
use crate::flow::marks::{Mark, Marks};
use crate::flow::memory::Memory;
use crate::flow::{branch_target, call_target};
use crate::image::Code;
use crate::scan::{Scan, SitePlace};
use crate::site::{Role, Site};
use hanok_abi::trampoline::{Free, ThreadWrite};
use hanok_decode::aarch32::{Register, Registers};
use hanok_instructions::{Calls, Reach, live};
use std::collections::HashMap;
use std::ops::Range;

/// The largest size in bytes of code that is copied elsewhere: it has to fit into a chip's internal
/// memory, and the largest that Linux puts code into has 64 KiB.
const FAR: u32 = 0x1_0000;
/// The number of instructions that are examined to find which registers are live.
const INSTRUCTIONS: u16 = 64;

/// A program's code, and which of it is known to be executed in place.
pub(super) struct InPlaceCode<'a> {
    code: &'a Code,
    places: &'a [SitePlace],
    memory: Memory<'a>,
    /// For each function's start: whether something in it shows that it is executed in place.
    shown: HashMap<u32, bool>,
    /// Whether the options say that all code is executed in place.
    all_in_place: bool,
    thread_writes: ThreadWrites,
}

impl<'a> InPlaceCode<'a> {
    /// `None` unless the scan has the code of an image or of a linked file.
    pub(super) fn of(scan: &'a Scan, all_in_place: bool) -> Option<Self> {
        let code = scan.code.as_ref()?;
        let memory = Memory {
            bytes: code.flat.as_ref().unwrap_or(&scan.content),
            base: code.base,
        };
        let places = scan.places.iter();
        let called = places.flat_map(|place| place.named(thread::is_called));
        Some(Self {
            code,
            places: &scan.places,
            memory,
            shown: HashMap::new(),
            all_in_place,
            thread_writes: ThreadWrites::of(code, memory, called),
        })
    }

    /// Whether the kernel reads TPIDRURO in a program's call not before it has written it.
    pub(super) fn foresees(&self) -> bool {
        self.thread_writes.any()
    }

    /// What a write of TPIDRURO may become.
    pub(super) fn thread_write(&self, site: &Site) -> ThreadWrite {
        self.thread_writes.at(self.code, self.memory, site.address)
    }

    /// The range of whole pages that hold nothing.
    pub(super) fn unused(&self) -> Option<Range<u32>> {
        self.code.unused.clone()
    }

    /// Whether `site` is executed where it is linked.
    pub(super) fn is_in_place(&mut self, site: &Site) -> bool {
        site.role == Role::Code && self.stays(site.address, site.section)
    }

    /// Whether what is at `address`, in the section with this number of [`Scan::places`], is used
    /// where it is linked.
    pub(super) fn stays(&mut self, address: u32, section: usize) -> bool {
        let has = |range: &Range<u32>| range.contains(&address);
        let here = self.memory.offset(address).is_some();
        if !here || self.code.elsewhere.iter().any(has) {
            return false;
        }
        if self.all_in_place || self.code.entry.as_ref().is_some_and(has) {
            return true;
        }
        let place = self.places.get(section);
        let Some(function) = place.and_then(|place| place.extent(address)) else {
            return false;
        };
        if let Some(shown) = self.shown.get(&function.start) {
            return *shown;
        }
        let shown = self.branches_far(&function) || self.faults(&function);
        self.shown.insert(function.start, shown);
        shown
    }

    /// Whether the exception table has an instruction of `function`.
    fn faults(&self, function: &Range<u32>) -> bool {
        let is_code = |at: &u32| {
            let offset = self.memory.offset(*at);
            offset.is_some_and(|offset| matches!(self.code.marks.get(offset), Mark::Start(..)))
        };
        let mut faulting = self.code.faulting.iter();
        faulting.any(|at| function.contains(at) && is_code(at))
    }

    fn branches_far(&self, function: &Range<u32>) -> bool {
        let [from, to] = [function.start, function.end].map(|at| self.memory.offset(at));
        let (Some(from), Some(to)) = (from, to) else {
            return false;
        };
        let mut starts = self.code.marks.iter(from..to);
        starts.any(|(offset, mark)| {
            let Mark::Start(isa, _) = mark else {
                return false;
            };
            let at = self.memory.address(offset);
            self.memory.fetch(at, isa).is_some_and(|encoding| {
                let call = call_target(encoding, at).map(|root| root.address);
                let target = call.or_else(|| branch_target(encoding, at));
                target.is_some_and(|to| to.abs_diff(at) >= FAR)
            })
        })
    }

    /// The registers and flags that the code behind `site` does not need.
    pub(super) fn free(&self, site: &Site) -> Free {
        let behind =
            hanok_instructions::CodePosition::new(site.address.wrapping_add(4), site.isa());
        let reach = Reach {
            instructions: INSTRUCTIONS,
            calls: Calls::Unknown,
        };
        let live = live(behind, reach, |at| {
            let offset = self.memory.offset(at)?;
            is_code(&self.code.marks, offset)
                .then(|| self.memory.half(at))
                .flatten()
        });
        let dead = live.dead().without(FIXED);
        Free {
            registers: dead.into_bits(),
            flags: !live.flags.n() && !live.flags.z(),
        }
    }
}

/// The registers that are never free.
const FIXED: Registers = Register::SP.set().with(Register::PC.set());

fn is_code(marks: &Marks, offset: usize) -> bool {
    matches!(marks.get(offset), Mark::Start(..) | Mark::Body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanok_decode::aarch32::{Isa, ItState};

    const BASE: u32 = 0x8000_0000;
    /// Where each function begins: one with a branch to far away, one that may fault, one without both, and the last.
    const STARTS: [u32; 4] = [BASE, BASE + 0x10, BASE + 0x20, BASE + 0x30];

    /// Which of the first three stay, if the exception table has these addresses.
    fn stay(faulting: Vec<u32>, elsewhere: Vec<Range<u32>>) -> [bool; 3] {
        let mut bytes = [0xe1a0_0000_u32.to_le_bytes(); 12].concat();
        bytes[..4].copy_from_slice(&0xea01_0000_u32.to_le_bytes()); // b to 256 KiB ahead
        let mut marks = Marks::new(bytes.len());
        for offset in (0..bytes.len()).step_by(4) {
            // The last word of the second function is no code.
            if offset != 0x1c {
                marks.code(offset, 4, Isa::A32, ItState::NONE);
            }
        }
        let code = Code {
            elsewhere,
            faulting,
            ..Code::marked(BASE, marks)
        };
        let functions = STARTS.map(|at| (at, String::new()));
        let places = [SitePlace::with_functions(functions.to_vec())];
        let mut in_place = InPlaceCode {
            code: &code,
            places: &places,
            memory: Memory {
                bytes: &bytes,
                base: BASE,
            },
            shown: HashMap::new(),
            all_in_place: false,
            thread_writes: ThreadWrites::default(),
        };
        [0, 1, 2].map(|number| in_place.stays(STARTS[number] + 8, 0))
    }

    #[test]
    fn what_branches_far_or_may_fault_stays() {
        assert_eq!(stay(vec![], vec![]), [true, false, false]);
        assert_eq!(stay(vec![BASE + 0x14], vec![]), [true, true, false]);
        assert_eq!(stay(vec![BASE + 0x1c], vec![]), [true, false, false]);
        let copied = BASE + 0x10..BASE + 0x20;
        assert_eq!(stay(vec![BASE + 0x14], vec![copied]), [true, false, false]);
    }
}
