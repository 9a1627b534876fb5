//! Which sites can have a trampoline: those that are surely executed where they are.
//!
//! A trampoline is reached by a relative branch, so a site must not be copied elsewhere before
//! it runs. Kernels do that: with the vectors, with code that puts memory to sleep, with the
//! last steps before another kernel starts. Nothing in an image says so, but one thing says the
//! contrary: a function with a relative branch to somewhere farther away than any such code is
//! long would break by being copied ([`FAR`]; nearer ones may go along, because code that is
//! copied has labels of its own). Only sites in such functions get one, and those of Linux's
//! entry code, which has its own section; all others keep their traps.

use crate::flow::marks::{Mark, Marks};
use crate::flow::memory::Memory;
use crate::flow::{branch_target, call_target};
use crate::image::Code;
use crate::scan::{Scan, SitePlace};
use crate::site::{Role, Site};
use hanok_abi::trampoline::Free;
use hanok_decode::aarch32::{Register, Registers};
use hanok_instructions::{Calls, Reach, live};
use std::collections::HashMap;
use std::ops::Range;

/// Code that is copied elsewhere is not longer: it has to fit into a chip's own memory, of which
/// the largest that Linux puts code into has 64 KiB.
const FAR: u32 = 0x1_0000;
/// So many instructions are looked at for what is live.
const INSTRUCTIONS: u16 = 64;

/// What is known of the code of a program.
pub(super) struct Steady<'a> {
    code: &'a Code,
    places: &'a [SitePlace],
    memory: Memory<'a>,
    /// By where a function begins: whether it branches far away.
    leaves: HashMap<u32, bool>,
    /// Whether somebody said that all stays.
    in_place: bool,
}

impl<'a> Steady<'a> {
    /// Of an image or a linked file.
    pub(super) fn of(scan: &'a Scan, in_place: bool) -> Option<Self> {
        let code = scan.code.as_ref()?;
        let memory = Memory {
            bytes: code.flat.as_ref().unwrap_or(&scan.content),
            base: code.base,
        };
        Some(Self {
            code,
            places: &scan.places,
            memory,
            leaves: HashMap::new(),
            in_place,
        })
    }

    /// Where nothing is in the file.
    pub(super) fn room(&self) -> Option<Range<u32>> {
        self.code.room.clone()
    }

    /// Whether `site` is executed where it is.
    pub(super) fn stays(&mut self, site: &Site) -> bool {
        let elsewhere = |range: &Range<u32>| range.contains(&site.address);
        let here = self.memory.offset(site.address).is_some();
        if !here || site.role != Role::Code || self.code.elsewhere.iter().any(elsewhere) {
            return false;
        }
        let entry = |range: &Range<u32>| range.contains(&site.address);
        if self.in_place || self.code.entry.as_ref().is_some_and(entry) {
            return true;
        }
        let place = self.places.get(site.section);
        let Some(function) = place.and_then(|place| place.extent(site.address)) else {
            return false;
        };
        if let Some(leaves) = self.leaves.get(&function.start) {
            return *leaves;
        }
        let leaves = self.leaves(&function);
        self.leaves.insert(function.start, leaves);
        leaves
    }

    fn leaves(&self, function: &Range<u32>) -> bool {
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

    /// What is free behind `site`.
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

/// Never free.
const FIXED: Registers = Register::SP.set().with(Register::PC.set());

fn is_code(marks: &Marks, offset: usize) -> bool {
    matches!(marks.get(offset), Mark::Start(..) | Mark::Body)
}
