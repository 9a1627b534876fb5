//! A frame of the host that is given up, or that allows less than before.
//!
//! A frame may be mapped in many places, of which no list is kept: each root and each table has a
//! few bits that say which frames may be in there, and only those that may have the frame are
//! searched. Rejected: a list of the places of each frame, which is larger than the tables, or runs
//! full.

use super::doorbells::{CLOSED_AP, SMALL_PAGE};
use super::owed::Progress;
use super::roots::Owner;
use super::tables::{ENTRIES, frame_bit, frame_half};
use super::{Shadow, entries::Entry, frame_number};
use crate::short::{Attributes, Privilege, SecondLevel, Words};
use hanok_hal::TableMemory;
use hanok_types::Hpa;

/// The megabytes of a root that are searched at once.
const PART: usize = 64;
/// The parts of a root.
const PARTS: usize = 4096 / PART;
/// How many tables, and parts of roots, are passed in one call at most until one has to be searched.
const PASSES: usize = 96;

/// What a frame loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameLoss {
    /// Its contents: no entry may lead to it.
    Mapping,
    /// That it may be written.
    Write,
    /// That the guest's kernel may execute it.
    KernelExecute,
}

/// The search for the entries of a frame that say too much.
#[derive(Debug)]
pub struct Forgetting {
    /// The number of the frame.
    frame: u64,
    loss: FrameLoss,
    /// What is searched next: the parts of all roots, then all tables.
    next: usize,
}

impl Forgetting {
    /// The search for the 4 KiB frame around `frame`. The caller's
    /// [`HostMemory`](super::HostMemory) already tells the new kind.
    pub fn new(frame: Hpa, loss: FrameLoss) -> Self {
        Self {
            frame: frame_number(frame),
            loss,
            next: 0,
        }
    }

    /// Whether an entry with these attributes says too much in this view.
    fn concerns(&self, view: Privilege, attributes: &Attributes) -> bool {
        match self.loss {
            FrameLoss::Mapping => true,
            FrameLoss::Write => matches!(attributes.ap, 0b011 | CLOSED_AP),
            FrameLoss::KernelExecute => view == Privilege::Kernel && !attributes.execute_never,
        }
    }
}

impl<M: TableMemory, const ROOTS: usize, const TABLES: usize> Shadow<M, ROOTS, TABLES> {
    /// Goes on with a search and removes what it finds. The guest may make an access by the old
    /// entries until it is done. Nothing is owed: roots that lose an entry get new ASIDs.
    pub fn forget(&mut self, search: &mut Forgetting) -> Progress<()> {
        for _ in 0..PASSES {
            let next = search.next;
            if next >= ROOTS * PARTS + self.tables.begun() {
                return Progress::Done(());
            }
            search.next += 1;
            let searched = match next.checked_sub(ROOTS * PARTS) {
                None if !self.may_have_section(search, next / PARTS) => {
                    search.next = (next / PARTS + 1) * PARTS;
                    false
                }
                None => self.forget_sections(search, next / PARTS, next % PARTS),
                Some(table) => self.forget_pages(search, table),
            };
            if searched {
                break;
            }
        }
        Progress::Again
    }

    /// Whether a root may have a section that has the frame.
    fn may_have_section(&self, search: &Forgetting, root: usize) -> bool {
        let megabyte = search.frame >> 8;
        let root = &self.roots[root];
        root.owner.is_some() && root.sections >> (megabyte & 63) & 1 != 0
    }

    /// Searches a part of a root for sections. Answers whether it had to be searched.
    fn forget_sections(&mut self, search: &Forgetting, root: usize, part: usize) -> bool {
        let megabyte = search.frame >> 8;
        let Some(Owner { view, .. }) = self.roots[root].owner else {
            return false;
        };
        let table = self.roots[root].table;
        for index in part * PART..(part + 1) * PART {
            // Most lead elsewhere, and are not decoded.
            let raw = self.memory.word(table, index);
            if u64::from(raw >> 20) == megabyte
                && let Entry::Section(section) = self.entry(root, index)
                && section.address().get() >> 20 == megabyte
                && search.concerns(view, &section.attributes())
            {
                self.remove_first(root, index);
                self.lose(root);
            }
        }
        true
    }

    /// Searches a table for pages. Answers whether it had to be searched.
    fn forget_pages(&mut self, search: &Forgetting, table: usize) -> bool {
        let state = *self.tables.get(table);
        let Some(parent) = state.parent else {
            return false;
        };
        let root = usize::from(parent.root);
        let Some(Owner { view, .. }) = self.roots[root].owner else {
            return false;
        };
        if state.frames & frame_bit(search.frame) == 0 {
            return false;
        }
        let (at, mut frames) = (self.tables.address(table), [0; 2]);
        // A loop of few instructions: what is not the frame is not decoded.
        for index in 0..ENTRIES {
            let raw = self.memory.word(at, index);
            let frame = raw >> 12;
            if raw & SMALL_PAGE == 0 {
                continue;
            }
            if u64::from(frame) == search.frame
                && let SecondLevel::Small(page) = SecondLevel::decode(raw)
                && search.concerns(view, &page.attributes())
            {
                self.remove_second(table, index);
                self.lose(root);
                continue;
            }
            let (half, bit) = frame_half(frame);
            frames[half] |= bit;
        }
        self.tables.get_mut(table).frames =
            u64::from(frames[1]) << u32::BITS | u64::from(frames[0]);
        true
    }
}
