//! A kernel that invalidates the translations of many pages does so in a loop, one page after the other. The second time
//! round, the loop is recognized, and many of those that are left are invalidated in one exit, as one change for all
//! siblings. As long as no page is invalidated elsewhere, it is recognized the first time round:
//! Linux calls it for one section after the other, while it has all other CPUs wait with interrupts masked.
//!
//! In A32 it is: the operation; ADD Rn, Rn, #4096; CMP Rn, Rm; BLO to the operation. Whatever the operation's own register is,
//! Rn and the flags are afterwards as if the loop had been executed, and to invalidate more than was asked for is
//! always allowed (DDI 0406C, B3.10.1).

use crate::code::Code;
use crate::host::Host;
use crate::monitor::Monitor;
use crate::page::LastPage;
use hanok_decode::aarch32::Register;
use hanok_hal::{Mutex, TableMemory};
use hanok_paging::shadow::Invalidation;
use hanok_types::{Ipa, PAGE_SIZE};

const PAGE: u32 = PAGE_SIZE as u32;
/// ADD R0, R0, #4096.
const ADD: u32 = 0xe280_0a01;
/// CMP R0, R0.
const CMP: u32 = 0xe150_0000;
/// BLO to the instruction before ADD.
const BLO: u32 = 0x3aff_fffb;
/// The place of Rn in CMP, and those of Rn and Rd in ADD.
const RN: u32 = 1 << 16;
const RN_AND_RD: u32 = 1 << 16 | 1 << 12;

/// What is invalidated, if that is a page.
fn page_of(what: Invalidation) -> Option<u32> {
    match what {
        Invalidation::Page { at, .. } | Invalidation::PageOfAllAsids { at } => Some(at),
        _ => None,
    }
}

/// The same of other pages.
fn of_pages(what: Invalidation, at: u32, count: u16) -> Invalidation {
    let asid = match what {
        Invalidation::Page { asid, .. } => Some(asid),
        _ => None,
    };
    Invalidation::Pages { at, count, asid }
}

/// Rn and Rm of the loop that these words end.
fn registers_of([add, cmp, blo]: [u32; 3]) -> Option<[Register; 2]> {
    let rn = add >> 16 & 0xf;
    let rm = cmp & 0xf;
    let fits = rn < 13
        && rm < 13
        && add == ADD + rn * RN_AND_RD
        && cmp == CMP + rn * RN + rm
        && blo == BLO;
    fits.then_some([Register::from_bits(rn as u8), Register::from_bits(rm as u8)])
}

impl LastPage {
    /// Whether an invalidation of `page` at the same place may be one of many in a loop.
    const fn may_go_on(&self, page: u32) -> bool {
        self.in_loop.is_some() || self.page.wrapping_add(PAGE) == page
    }

    /// Whether an invalidation of `page`, with these registers and the PC behind it, is by itself as far as is known: it is in no
    /// loop, or in the last round.
    pub fn ends_with(&self, pc: u32, page: u32, general: &[u32; 15]) -> bool {
        let register = |number: u8| general.get(usize::from(number)).copied();
        let [this, end] = match self.in_loop {
            _ if self.pc != pc => return true,
            None => return !self.may_go_on(page),
            Some(both) => both.map(|number| register(number).unwrap_or(0)),
        };
        end.saturating_sub(this) <= PAGE
    }
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Monitor<M, ROOTS, TABLES> {
    /// What an operation that has just been carried out is to invalidate. If it is in a loop, that is some of the pages that
    /// follow, too. The PC stays behind the operation, as after the last of them.
    pub(crate) fn go_on_with_pages(
        &mut self,
        what: Invalidation,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Invalidation {
        let Some([rn, rm]) = self.find_loop(what, code, host) else {
            return what;
        };
        let (this, end) = (self.registers.read(rn), self.registers.read(rm));
        let page = this & !(PAGE - 1);
        let pages = end.saturating_sub(this).saturating_sub(1) / PAGE + 1;
        let most = pages.min(Invalidation::MOST_PAGES.into()) as u16;
        let count = self.shadow.pages_at_once(page, most);
        let further = u32::from(count.saturating_sub(1)) * PAGE;
        if further == 0 {
            return what;
        }
        self.registers.write(rn, this + further);
        self.last_page.page = page + further;
        of_pages(what, page, count)
    }

    /// The registers Rn and Rm of the loop that an operation is in.
    fn find_loop(
        &mut self,
        what: Invalidation,
        code: &Mutex<Code>,
        host: &impl Host,
    ) -> Option<[Register; 2]> {
        let page = page_of(what)?;
        let pc = self.registers.pc;
        let last = core::mem::replace(
            &mut self.last_page,
            LastPage {
                pc,
                page,
                in_loop: None,
            },
        );
        if last.pc != pc || !last.may_go_on(page) || self.registers.psr.thumb() {
            return None;
        }
        let found = self.words_at_pc(code, host).and_then(registers_of)?;
        if self.registers.read(found[0]) & !(PAGE - 1) != page {
            return None;
        }
        self.last_page.in_loop = Some(found.map(|one| one.number()));
        Some(found)
    }

    /// The three words from the PC on, if they are in one page, and the kernel may execute them.
    #[inline(never)]
    fn words_at_pc(&self, code: &Mutex<Code>, host: &impl Host) -> Option<[u32; 3]> {
        let pc = self.registers.pc;
        if pc % PAGE > PAGE - 12 {
            return None;
        }
        let (Ok(found), None) = self.walk_code(pc, code, host) else {
            return None;
        };
        let at = found.output.get();
        let word = |index: u64| host.word(Ipa::new(at + 4 * index)).ok();
        Some([word(0)?, word(1)?, word(2)?])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loop_is_known_whatever_its_registers_are() {
        // add r3, r3, #4096; cmp r3, r12; blo
        let words = [0xe283_3a01, 0xe153_000c, BLO];
        let found = registers_of(words).map(|both| both.map(|one| one.number()));
        assert_eq!(found, Some([3, 12]));
        let others = [
            [0xe283_4a01, 0xe153_000c, BLO],
            [0xe283_3a02, 0xe153_000c, BLO],
            [0xe283_3a01, 0xe154_000c, BLO],
            [0xe283_3a01, 0xe153_000c, BLO + 1],
            [0xe28d_da01, 0xe15d_000c, BLO],
            [0x0283_3a01, 0xe153_000c, BLO],
        ];
        for words in others {
            assert_eq!(registers_of(words), None, "{words:x?}");
        }
    }
}
